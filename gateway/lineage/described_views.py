"""Describes views for lineage: where they and what they read are stored.

Tests: `test_lineage_reports`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import replace

from gateway.errors import FreshgateError
from gateway.lineage.dataset_names import DatasetName, NamedDataset, Naming
from gateway.lineage.told import Columns, DescribedView, Input, LifeTold, RunState, RunTold, ToldLineage
from gateway.mv.freshness.news import Life
from gateway.mv.model.view import MaterializedView, base_key
from gateway.mv.ports import Metastore, PlanUnavailable, Relation, RelationKind
from sql.column_lineage import ColumnLineage, NotTraced, SourceColumn, column_lineage
from sql.names import TableName
from sql.proof.plan import Plan

log = logging.getLogger(__name__)

KNOWN_MAX = 20_000
"""Storage tables whose locations and columns are remembered. They never change."""
FIELDS_MAX = 5_000
"""Columns of inputs in an event, and columns from which those of a view are computed: receivers refuse very large
events, and a run is to be told all the same."""


class Describing:
    def __init__(
        self,
        views: Callable[[str], MaterializedView | None],
        observed: Callable[[TableName], Relation | None],
        metastore: Metastore,
        naming: Callable[[], Naming],
        engine: Callable[[], str],
        plans: Callable[[MaterializedView], Awaitable[Plan]],
    ) -> None:
        """`views`: the existing view of an id. `observed`: a table, as the last look found it. `engine`: Spark's
        version. `plans`: of definitions, as `RefreshersPlans.analyzed`."""
        self._views = views
        self._observed = observed
        self._metastore = metastore
        self._naming = naming
        self._engine = engine
        self._plans = plans
        self._stored: OrderedDict[TableName, Relation] = OrderedDict()
        """Storage tables."""

    async def of(self, told: RunTold | LifeTold) -> DescribedView:
        """Asks Spark for what is not known yet. Raises what Spark raises."""
        view = told.view
        await self._learn(view)
        if isinstance(told, RunTold):
            for below in (self._views(view_id) for view_id in sorted(view.views)):
                if below is not None:
                    await self._learn(below)
            unknown = [table for table in _tables(view) if not table.path and self._observed(table) is None]
            asked = {table: await self._metastore.relation(table.whole, identify=False) for table in unknown}
            found = self._described(told, {table: each for table, each in asked.items() if each is not None})
            return replace(found, lineage=await self._lineage(told, found))
        return self._described(told, {})

    def known(self, told: RunTold | LifeTold) -> DescribedView:
        """What is known without Spark."""
        return self._described(told, {})

    async def _lineage(self, told: RunTold, described: DescribedView) -> ToldLineage | None:
        """What the columns of a view are computed from that a run has written; None if it is not known."""
        if told.state is not RunState.COMPLETE or not told.task.version:
            return None
        try:
            plan = await self._plans(told.view)
            found = await asyncio.to_thread(_followed, plan, described)
            return ToldLineage(found, self._names(found, described))
        except (PlanUnavailable, NotTraced, FreshgateError, ValueError) as error:
            log.info("what the columns of %s are computed from is not told: %s", told.view.name, error)
            return None

    def _names(self, found: ColumnLineage, described: DescribedView) -> dict[TableName, DatasetName]:
        """The datasets that the tables in a plan are. Raises ValueError."""
        naming = self._naming()
        inputs = {each.table: each.named.name for each in described.inputs}
        return {
            table: inputs[table] if table in inputs else naming.table(table, location).name
            for table, location in found.locations.items()
        }

    async def _learn(self, view: MaterializedView) -> None:
        if view.storage in self._stored:
            self._stored.move_to_end(view.storage)
            return
        relation = await self._metastore.relation(view.storage, identify=False)
        if relation is not None:
            self._stored[view.storage] = relation
            if len(self._stored) > KNOWN_MAX:
                self._stored.popitem(last=False)

    def _described(self, told: RunTold | LifeTold, asked: Mapping[TableName, Relation]) -> DescribedView:
        view, naming = told.view, self._naming()
        stored = self._stored.get(view.storage)
        output = None if stored is None else self._named(naming, view, stored)
        columns = _own_columns(view, stored)
        if isinstance(told, LifeTold):
            before = None
            if told.life is Life.RENAMED and output is not None and stored is not None:
                before = next(iter(naming.table(told.before, stored.location).symlinks), None)
            return DescribedView(output, (), columns, before=before)
        inputs = (*self._tables_read(naming, view, asked), *self._views_read(naming, view))
        if sum(len(each.columns) for each in inputs) > FIELDS_MAX:
            inputs = tuple(each if each.is_view else replace(each, columns=()) for each in inputs)
        return DescribedView(output, inputs, columns, engine=self._engine())

    def _tables_read(
        self, naming: Naming, view: MaterializedView, asked: Mapping[TableName, Relation]
    ) -> Iterator[Input]:
        versions = _positions(view)
        for table in _tables(view):
            relation = self._observed(table) or asked.get(table)
            location, columns = (relation.location, relation.columns) if relation is not None else ("", ())
            if not table.path and (relation is None or relation.kind is not RelationKind.TABLE):
                continue
            with contextlib.suppress(ValueError):  # It has no name outside Spark.
                yield Input(
                    table.whole, naming.table(table.whole, location), columns, versions.get(base_key(table), "")
                )

    def _views_read(self, naming: Naming, view: MaterializedView) -> Iterator[Input]:
        for view_id in sorted(view.views):
            below = self._views(view_id)
            stored = self._stored.get(below.storage) if below is not None else None
            named = self._named(naming, below, stored) if below is not None and stored is not None else None
            if below is not None and named is not None:
                version = view.current.views.get(view_id)
                yield Input(
                    below.storage, named, _own_columns(below, stored), str(version) if version else "", is_view=True
                )

    def _named(self, naming: Naming, view: MaterializedView, stored: Relation) -> NamedDataset | None:
        """A view is named by its storage table, and has the names of both in the metastore."""
        try:
            return naming.table(view.storage, stored.location, view.name)
        except ValueError:
            return None


def _own_columns(view: MaterializedView, stored: Relation | None) -> Columns:
    """The columns of a view, without others of its storage table."""
    kinds = {name.lower(): kind for name, kind in stored.columns} if stored is not None else {}
    return tuple((name, kinds[name.lower()]) for name in view.columns if name.lower() in kinds)


def _followed(plan: Plan, described: DescribedView) -> ColumnLineage:
    """The lineage in a plan, without columns of storage tables that are not columns of their views. Raises
    NotTraced."""
    shown = {each.table: {name.lower() for name, _ in each.columns} for each in described.inputs if each.is_view}

    def hidden(source: SourceColumn) -> bool:
        return source.column.lower() not in shown.get(source.table, {source.column.lower()})

    found = column_lineage(plan).without(hidden)
    if sum(map(len, found.columns.values())) + len(found.whole) > FIELDS_MAX:
        raise NotTraced("they are computed from too many columns")
    return found


def _tables(view: MaterializedView) -> list[TableName]:
    """What a view reads, without functions, and Spark views as far as they are known to be some."""
    read = (table for table in sorted(view.tables) if not table.is_function)
    return [table for table in read if not ((seen := view.schemas.get(table)) is not None and seen.is_view)]


def _positions(view: MaterializedView) -> dict[str, str]:
    """The versions of the base tables that the view's current version contains, by `base_key`."""
    contents = view.current.contents
    found = {base: each.position for base, each in contents.others_of(view.current.number).items()}
    if view.followed is not None and contents.followed is not None:
        found[view.followed.base] = contents.followed.position
    return found
