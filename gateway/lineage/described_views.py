"""Describes views for lineage: where they and what they read are stored.

Tests: `test_lineage_reports`.
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping

from gateway.lineage.dataset_names import NamedDataset, Naming
from gateway.lineage.told import Columns, DescribedView, Input, LifeTold, RunTold
from gateway.mv.freshness.news import Life
from gateway.mv.model.view import MaterializedView, base_key
from gateway.mv.ports import Metastore, Relation, RelationKind
from sql.names import TableName

KNOWN_MAX = 20_000
"""Storage tables whose locations and columns are remembered. They never change."""


class Describing:
    def __init__(
        self,
        views: Callable[[str], MaterializedView | None],
        observed: Callable[[TableName], Relation | None],
        metastore: Metastore,
        naming: Callable[[], Naming],
        engine: Callable[[], str],
    ) -> None:
        """`views`: the existing view of an id. `observed`: a table, as the last look found it. `engine`: Spark's
        version."""
        self._views = views
        self._observed = observed
        self._metastore = metastore
        self._naming = naming
        self._engine = engine
        self._stored: OrderedDict[TableName, Relation] = OrderedDict()
        """Storage tables."""

    async def of(self, told: RunTold | LifeTold) -> DescribedView:
        """Asks Spark for what is not known yet. Raises what Spark raises."""
        view = told.view
        await self._learn(view)
        if isinstance(told, RunTold):
            below = [found for view_id in sorted(view.views) if (found := self._views(view_id)) is not None]
            for each in below:
                await self._learn(each)
            unknown = [table for table in _tables(view) if not table.path and self._observed(table) is None]
            asked = {table: await self._metastore.relation(table.whole, identify=False) for table in unknown}
            return self._described(told, {table: each for table, each in asked.items() if each is not None})
        return self._described(told, {})

    def known(self, told: RunTold | LifeTold) -> DescribedView:
        """What is known without Spark."""
        return self._described(told, {})

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
        return DescribedView(output, inputs, columns, self._engine())

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
                yield Input(naming.table(table.whole, location), columns, versions.get(base_key(table), ""))

    def _views_read(self, naming: Naming, view: MaterializedView) -> Iterator[Input]:
        for view_id in sorted(view.views):
            below = self._views(view_id)
            stored = self._stored.get(below.storage) if below is not None else None
            named = self._named(naming, below, stored) if below is not None and stored is not None else None
            if below is not None and named is not None:
                version = view.current.views.get(view_id)
                yield Input(named, _own_columns(below, stored), str(version) if version else "", is_view=True)

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
