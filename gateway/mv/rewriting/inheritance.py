"""The rows of a changed definition, computed from the stored rows of the view that it replaces.

That view is fresh, so its rows are those of its definition. A query of them is proposed as for rewriting, and Spark's
plans prove that it has the rows of the new definition. The query may add rows of the base tables, which must be as they
are until it has read them. The new version has the same state of the base tables.

Tests: `test_inheritance`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Container, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from gateway.errors import StatementFailed
from gateway.mv.catalog.index import Catalog
from gateway.mv.model.contents import Basis
from gateway.mv.model.spark_types import sql_type
from gateway.mv.model.view import MaterializedView, base_key
from gateway.mv.observation.inspection import Inspection, Inspector
from gateway.mv.observation.storage_looks import StorageLooks
from gateway.mv.ports import UNKNOWN_SETTINGS, Metastore, Plans, PlanUnavailable, SqlSession
from gateway.mv.refresh.expected_costs import ExpectedCosts
from gateway.mv.refresh.increments import Increments
from gateway.mv.refresh.planner import Exact, Inherited
from gateway.mv.refresh.surroundings import Surroundings
from gateway.mv.rewriting.proving import shortfall
from gateway.mv.rewriting.refreshers_plans import RefreshersPlans, all_of
from gateway.mv.versions.readers import Readers
from sql.definition.bases import bases
from sql.grammar import view_properties
from sql.increments.reasons import NotIncremental
from sql.names import Namespace, TableName, quote
from sql.proof.checker import NotProved, can_be_stored, combines_rows, is_ordered, prove
from sql.proof.plan import Plan
from sql.rewriting.candidate import RewritableView
from sql.rewriting.matching import Miss, Proposal, propose
from sql.rewriting.shape import Shape, shape_of
from sql.statement import Method
from sql.texts import public_view
from sql.texts.maintenance import RowsQuery

log = logging.getLogger(__name__)


class NotInherited(Exception):
    """The rows of a changed definition are computed from the base tables. The message says why, for people."""


@dataclass(frozen=True, slots=True)
class _OldRows:
    """What the replaced view stores: the view's columns, perhaps with hidden ones."""

    known: RewritableView
    definition: str
    """The query that has these rows, as a relation."""
    rows: str
    """The query for the stored rows."""


@dataclass(frozen=True, slots=True)
class _NewRows:
    """What the new view is to store."""

    query: str
    namespace: Namespace
    planned: str
    """The query to plan: it has the same rows."""
    exact: Exact
    continues: bool
    """Whether a refresh by rows can follow."""


class Inheritance:
    """Finds how a new view gets its rows from the one that it replaces."""

    def __init__(
        self,
        catalog: Catalog,
        metastore: Metastore,
        inspector: Inspector,
        increments: Increments,
        costs: ExpectedCosts,
        surroundings: Surroundings,
        plans: Plans,
        refreshers: RefreshersPlans,
        storages: StorageLooks,
        readers: Readers,
    ) -> None:
        self._catalog = catalog
        self._metastore = metastore
        self._inspector = inspector
        self._increments = increments
        self._costs = costs
        self._surroundings = surroundings
        self._plans = plans
        self._refreshers = refreshers
        self._storages = storages
        self._readers = readers

    def keeping(self, old: MaterializedView | None) -> AbstractContextManager[None]:
        """Keeps the rows of the view that is to be replaced."""
        return self._readers.reading([] if old is None else [(old.id, old.current.number)])

    async def rows(
        self, view: MaterializedView, old: MaterializedView, inspection: Inspection, session: SqlSession, began: float
    ) -> Inherited:
        """The rows of a new view whose definition is stored. `inspection`: the base tables of the new view, observed
        since `began`. `session` has the view's settings. Raises NotInherited, and what Spark raises."""
        try:
            seen = await self._inspector.inspect(old, began)
            if not (await seen.drift(old)).none:
                raise NotInherited("its base tables have changed since its last refresh")
            return await self._rows(view, old, inspection, seen, session)
        except PlanUnavailable as error:
            raise NotInherited(str(error)) from error

    async def wants_fresh(self, view: MaterializedView, old: MaterializedView) -> bool:
        """Whether the view that is to be replaced is stale, and would have the rows of the new one if it were fresh.
        Raises what Spark raises."""
        began = time.monotonic()
        await self._inspector.check([old.id], began)
        if not self._catalog.is_stale(old.id):
            return False
        inspection, seen = [await self._inspector.inspect(each, began) for each in (view, old)]
        try:
            async with self._refreshers.planning(view) as (session, _):
                await self._rows(view, old, inspection, seen, session)
        except (NotInherited, PlanUnavailable) as reason:
            log.debug("%s is not refreshed before it is replaced: %s", old.name, reason)
            return False
        return True

    async def foreseen(self, old: MaterializedView, view: MaterializedView) -> str:
        """Whence the rows would come if `view` replaced `old` now, for people. The definition of `view` is not stored:
        it counts as read with the settings of `old`. Raises what Spark raises."""
        began = time.monotonic()
        inspection, seen = [await self._inspector.inspect(each, began) for each in (view, old)]
        try:
            await self._check(view, old)
            columns = self._columns(seen) | self._columns(inspection)
            rest = _rest(inspection, seen)
            wanted = [_NewRows(view.query, view.namespace, view.query, Exact(), continues=False)]
            async with self._refreshers.planning(old) as (session, name):
                stored = await self._stored(old, seen, session, columns)
                try:
                    await session.run(f"USE {quote(view.namespace.catalog)}.{quote(view.namespace.database)}")
                    found = await self._proved(old, wanted, stored, columns, rest, name)
                finally:
                    session.spoil()
        except (NotInherited, PlanUnavailable) as reason:
            return f"from the base tables, because {reason}"
        first = "" if (await seen.drift(old)).none else ", if a refresh by rows makes it fresh first"
        return f"from the stored rows of version {found.version}{found.beside}{first}"

    async def _rows(
        self,
        view: MaterializedView,
        old: MaterializedView,
        inspection: Inspection,
        seen: Inspection,
        session: SqlSession,
    ) -> Inherited:
        """`inspection`, `seen`: the base tables of the new view and of the replaced one."""
        await self._check(view, old)
        if not await self._storages.is_sound(old, old.current):
            raise NotInherited("its stored rows were changed outside the gateway")
        columns = self._columns(seen) | self._columns(inspection)
        stored = await self._stored(old, seen, session, columns)
        wanted = await self._wanted(view, inspection, session)
        async with self._refreshers.planning(view) as (_, name):
            return await self._proved(old, wanted, stored, columns, _rest(inspection, seen), name)

    async def _check(self, view: MaterializedView, old: MaterializedView) -> None:
        """Raises NotInherited if what is stored of the replaced view tells nothing about the new one."""
        entry = self._catalog.find(old.id)
        if entry is None or not old.complete or entry.damage or old.misread:
            raise NotInherited("it has no rows, or they are damaged")
        for each in (view, old):
            if (reason := shortfall(each)) is not None:
                raise NotInherited(reason)
            if each.clauses.immutable is not None:
                raise NotInherited("its immutable rows may differ from what its definition gives today")
            if view_properties.allows_nondeterministic(each.properties):
                raise NotInherited("its rows depend on when they are computed (enable_nondeterministic_function)")
        if view.clauses.refreshing.method is Method.COMPLETE:
            raise NotInherited("REFRESH COMPLETE asks for it")
        by_price = (view.clauses.refreshing.method or Method.AUTO) is Method.AUTO
        if by_price and self._costs.is_quick(entry):
            raise NotInherited("those of the replaced view were computed quickly")
        if view.refreshed_as != old.refreshed_as or old.current.narrowed:
            raise NotInherited("it is refreshed in the name of another user, or that user may be shown other rows")
        kept = [await self._surroundings.kept(each) for each in (view, old)]
        session = [view_properties.session_settings(each.properties) for each in (view, old)]
        if kept[0] != kept[1] or UNKNOWN_SETTINGS in kept or session[0] != session[1]:
            raise NotInherited("it was created with other settings of Spark")
        await self._check_definition(old, by_price=by_price)

    async def _check_definition(self, old: MaterializedView, *, by_price: bool) -> None:
        """Raises NotInherited if the definition does not say exactly what is stored, or if its rows would save nothing
        and it is `by_price` whether they are read."""
        refreshed = await self._refreshers.of(old)
        if refreshed.unlike:
            raise NotInherited(refreshed.unlike)
        if isinstance(found := can_be_stored(refreshed.plan), NotProved):
            raise NotInherited(found.reason)
        if is_ordered(refreshed.plan):
            # The stored rows are in any order, and the plan of its definition is not.
            raise NotInherited("its definition has an ORDER BY")
        if by_price and self._costs.reads_little(old) and not combines_rows(refreshed.plan):
            raise NotInherited("it only selects rows, and its base tables are not much larger than its stored rows")

    def _columns(self, inspection: Inspection) -> dict[TableName, tuple[str, ...]]:
        """The columns of what a view reads."""
        found = {
            table: tuple(name for name, _ in look.relation.columns)
            for table, look in inspection.looks.items()
            if look.relation is not None
        }
        below = (self._catalog.find(base) for base in inspection.observed)
        return found | {entry.view.name: entry.view.columns for entry in below if entry is not None}

    async def _stored(
        self,
        old: MaterializedView,
        inspection: Inspection,
        session: SqlSession,
        columns: Mapping[TableName, tuple[str, ...]],
    ) -> list[_OldRows]:
        """What is stored, with hidden columns first: these tell more."""
        relation = await self._metastore.relation(old.definition)
        if relation is None:
            raise NotInherited("its definition view does not exist")
        shown, types = old.current.shown, tuple(sql_type(kind) for _, kind in relation.columns)
        plain = RewritableView(old.name, old.columns, types, old.query, old.namespace, columns)
        rows = public_view.shown_rows(old.storage, old.columns, shown, old.layout)
        found = [_OldRows(plain, old.definition.quoted, rows)]
        exact, basis = await self._exact(old, inspection, session), old.current.contents.basis
        if exact is not None and exact.rows is not None and basis is not None and basis.states == exact.states:
            every = (*old.columns, *exact.rows.hidden)
            all_types = (*types, *(exact.missing[name] for name in exact.rows.hidden))
            with_states = RewritableView(old.name, every, all_types, exact.rows.query, old.namespace, columns)
            rows = public_view.stored_rows(old.storage, every, shown, old.layout)
            found.insert(0, _OldRows(with_states, f"({exact.rows.query})", rows))
        return found

    async def _wanted(self, view: MaterializedView, inspection: Inspection, session: SqlSession) -> list[_NewRows]:
        """What is to be stored, with hidden columns first: then refreshes by rows can follow."""
        exact, plain = await self._exact(view, inspection, session), all_of(view.definition.quoted)
        with_rows = exact is not None and exact.rows is None
        found = [_NewRows(view.query, view.namespace, plain, Exact(), continues=with_rows)]
        if exact is not None and exact.rows is not None:
            text = exact.rows.query
            found.insert(0, _NewRows(text, view.namespace, text, exact, continues=True))
        return found

    async def _exact(self, view: MaterializedView, inspection: Inspection, session: SqlSession) -> Exact | None:
        """What refreshes by rows store of the view; None if there are none."""
        try:
            return await self._increments.states(view, inspection, session)
        except (NotIncremental, StatementFailed, TimeoutError, ValueError) as reason:
            log.debug("%s: no states: %s", view.name, reason)
            return None

    async def _proved(
        self,
        old: MaterializedView,
        wanted: list[_NewRows],
        stored: list[_OldRows],
        columns: Mapping[TableName, tuple[str, ...]],
        rest: Container[TableName],
        session: bytes,
    ) -> Inherited:
        """`rest`: what may be read beside the stored rows."""
        reasons: list[str] = []
        for want in wanted:
            planned: Plan | None = None
            shape = shape_of(want.query)
            for store in stored:
                (proposal,) = await asyncio.to_thread(propose, shape, want.namespace, [store.known], columns.get)
                if isinstance(proposal, Miss):
                    reasons.append(proposal.reason)
                    continue
                planned = planned or await self._plans.optimized(session, want.planned)
                text = proposal.template.over(store.definition).fill(shape.literals)
                others = _others(proposal, shape, old)
                if (unfit := next((other for other in others if other not in rest), None)) is not None:
                    reason: str | None = f"{unfit} has to be read, too"
                else:
                    reason = await self._refutation(planned, session, text)
                if reason is not None:
                    reasons.append(reason)
                    continue
                rows = proposal.template.over(f"({store.rows})").fill(shape.literals)
                return _inherited(old, want, rows, adds_rest=bool(others))
        # The last ones compare the definitions as they are written.
        raise NotInherited(reasons[-1])

    async def _refutation(self, planned: Plan, session: bytes, text: str) -> str | None:
        found = await asyncio.to_thread(prove, planned, await self._plans.optimized(session, text))
        return found.reason if isinstance(found, NotProved) else None


def _rest(inspection: Inspection, seen: Inspection) -> Container[TableName]:
    """The tables of the new view of which rows can be added to the stored ones: none unless all were observed, and as
    the replaced view was compared with (`seen`)."""
    known = inspection.snapshots
    if known.keys() != inspection.observed.keys() or any(seen.observed.get(base) != known[base] for base in known):
        return frozenset()
    return frozenset(
        table for table, look in inspection.looks.items() if look.relation is not None and base_key(table) in known
    )


def _others(proposal: Proposal, shape: Shape, old: MaterializedView) -> list[TableName]:
    """What the proposal reads beside the rows of the replaced view."""
    found = bases(proposal.template.fill(shape.literals), Namespace())
    if not found.exact:
        raise NotInherited("it is not known what else has to be read")
    return sorted(name for name in found.relations if name != old.name)


def _inherited(old: MaterializedView, want: _NewRows, rows: str, *, adds_rest: bool) -> Inherited:
    hidden = () if want.exact.rows is None else want.exact.rows.hidden
    exact = replace(want.exact, rows=RowsQuery(rows, hidden))
    return Inherited(exact, old.id, old.current.number, _basis(old, want) if want.continues else None, adds_rest)


def _basis(old: MaterializedView, want: _NewRows) -> Basis | None:
    basis = old.current.contents.basis
    return basis and replace(basis, states=want.exact.states, keyed=None, same_as=0)
