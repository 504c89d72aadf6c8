"""Chooses how a refresh gets its rows: by recomputing them, or from the changed rows of the base tables.

Tests: `test_proposal`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace

from gateway.errors import RefreshFailed, StatementFailed
from gateway.mv.freshness.drift import Drift, selection
from gateway.mv.model.contents import Basis
from gateway.mv.model.snapshot import PartitionValues
from gateway.mv.model.view import Cause, MaterializedView
from gateway.mv.observation.inspection import Inspection
from gateway.mv.ports import SqlSession
from gateway.mv.refresh.expected_costs import SMALL, is_dearer
from gateway.mv.refresh.increments import Increments
from gateway.mv.refresh.planner import PLAINLY, Copied, Exact, Merged, PartlyRecomputed, Recomputed, RowSource
from gateway.mv.refresh.touched_keys import Touched, TouchedKeys
from sql.increments.reasons import NotIncremental, Reason
from sql.statement import Method
from sql.texts import maintenance, public_view
from sql.texts.maintenance import RowsQuery
from sql.texts.storage_layout import ALL, PartitionKey, Selection

log = logging.getLogger(__name__)

SHARE_MAX = 0.5
"""At most this part of a base table's partitions may have changed if rows with their values are recomputed alone."""


@dataclass(frozen=True, slots=True)
class Route:
    """How a refresh gets its rows, apart from the choice of partitions."""

    source: RowSource = PLAINLY
    why: str = ""
    no_rows: bool = False
    """The base tables have changed, but none of the rows that the view reads."""


@dataclass(frozen=True, slots=True)
class Extent:
    """What a refresh writes of a view."""

    chosen: Selection = ALL
    outdated: Selection = ALL
    """What it must write so that the whole view is up to date."""
    shown: int = 0
    """How many partitions the view has; 0 if that does not matter."""
    kept: frozenset[PartitionKey] = frozenset()
    """The immutable partitions among these, if all but these are written."""

    @property
    def covers(self) -> bool:
        """Whether the whole view is up to date afterwards."""
        if self.chosen.all_but:
            return self.chosen == self.outdated or self.chosen.everything
        return not self.outdated.all_but and self.outdated.keys <= self.chosen.keys

    @property
    def share(self) -> float:
        """Which part of the view it writes, about."""
        if self.chosen.all_but or not self.shown:
            return 1.0
        return min(1.0, len(self.chosen.keys) / self.shown)


def extent_of(
    view: MaterializedView,
    found: Drift,
    keys: Mapping[PartitionValues, PartitionKey],
    named: frozenset[PartitionKey] | None,
    shown: frozenset[PartitionKey],
    past: frozenset[PartitionKey] = frozenset(),
) -> Extent:
    """`named`: the partitions that were asked for, if any were. `past`: those that are immutable as a whole."""
    outdated = selection(view, found, keys)
    kept = past & shown if outdated.all_but else frozenset[PartitionKey]()
    outdated = replace(outdated, keys=outdated.keys | kept if outdated.all_but else outdated.keys - past)
    chosen = outdated if named is None else Selection(named - past, all_but=False)
    return Extent(chosen, outdated, len({*shown, *chosen.keys}), kept)


class Routes:
    """Chooses between the methods of a refresh."""

    def __init__(self, increments: Increments, keys: TouchedKeys) -> None:
        self._increments = increments
        self._keys = keys

    def copied(self, view: MaterializedView) -> Route:
        """The route for a view whose rows are in many versions, and are to be in one."""
        copied = Copied(self._increments.copied(view))
        return Route(copied, f"copies {view.current.shown.versions} versions into one")

    async def choose(
        self,
        view: MaterializedView,
        cause: Cause,
        found: Drift,
        inspection: Inspection,
        session: SqlSession,
        extent: Extent,
    ) -> Route:
        """Raises RefreshFailed if only a refresh by rows is wanted and none is possible."""
        method = view.method_for(cause)
        if method is Method.COMPLETE:
            return Route(await self.recomputed(view, inspection, session, extent))
        if method is Method.AUTO and await self._increments.is_small(view, inspection):
            return Route(why=SMALL)
        try:
            _check_possible(view, cause, found, extent)
            return await self._by_rows(view, method, found, inspection, session, extent)
        except NotIncremental as reason:
            if method is Method.INCREMENTAL and view.complete:
                raise RefreshFailed(
                    f"The materialized view {view.name} cannot be refreshed by rows: {reason}. Use REFRESH INCREMENTAL "
                    f"FALLBACK or REFRESH COMPLETE.",
                    sqlstate="0A000",
                ) from reason
            return Route(await self.recomputed(view, inspection, session, extent), str(reason))

    async def _by_rows(
        self,
        view: MaterializedView,
        method: Method,
        found: Drift,
        inspection: Inspection,
        session: SqlSession,
        extent: Extent,
    ) -> Route:
        """Raises NotIncremental."""
        try:
            merged = await self._merged(view, found, inspection, session)
            if merged is None:
                return Route(no_rows=True)
            _check_cheaper(view, method, merged, extent)
        except NotIncremental as reason:
            touched = await self._touched(view, found, inspection, session)
            if touched is None or (method is Method.AUTO and touched.share > SHARE_MAX):
                raise
            partly = PartlyRecomputed(await self._partly(view, touched, inspection, session))
            return Route(partly, f"{touched}, because {reason}")
        keyed = await self._keys.keyed(view, inspection)
        merged = replace(merged, exact=replace(merged.exact, keyed=keyed))
        again = f"{merged.again} groups are computed again" if merged.again else ""
        return Route(merged, "; ".join(filter(None, (again, _estimates(view, merged, extent)))))

    async def _touched(
        self, view: MaterializedView, found: Drift, inspection: Inspection, session: SqlSession
    ) -> Touched | None:
        try:
            return await self._keys.touched(view, found, inspection, session)
        except (StatementFailed, TimeoutError, ValueError) as error:
            log.info("%s: the values of changed partitions cannot be found: %s", view.name, error)
            return None

    async def _partly(
        self, view: MaterializedView, touched: Touched, inspection: Inspection, session: SqlSession
    ) -> Exact:
        """The touched rows anew, and the others as they are."""
        keyed = await self._keys.keyed(view, inspection)
        try:
            exact = await self._increments.exact(view, inspection, session, only=[touched.layout.column])
        except (NotIncremental, StatementFailed, TimeoutError, ValueError) as error:
            log.debug("%s: no refresh by changed rows can follow: %s", view.name, error)
            exact = Exact()
        rows = exact.rows or RowsQuery(maintenance.rows_of_definition(view.definition, view.columns))
        columns, shown = (*view.columns, *rows.hidden), view.current.shown
        read = public_view.stored_rows if exact.rows else public_view.shown_rows
        stored = read(view.storage, columns, shown, view.layout)
        query = maintenance.partly_recomputed(stored, rows.query, columns, touched.keys, touched.layout)
        return replace(exact, rows=RowsQuery(query, rows.hidden), keyed=keyed)

    async def recomputed(
        self, view: MaterializedView, inspection: Inspection, session: SqlSession, extent: Extent
    ) -> Recomputed:
        """The definition's rows, in such a way that later refreshes by rows can continue from them if these are
        possible and of use."""
        return Recomputed(await self._exact(view, inspection, session, extent))

    async def _exact(
        self, view: MaterializedView, inspection: Inspection, session: SqlSession, extent: Extent
    ) -> Exact | None:
        method = view.clauses.refreshing.method or Method.AUTO
        if method is Method.COMPLETE or not extent.covers:
            return None
        if method is Method.AUTO and await self._increments.is_small(view, inspection):
            return None
        keyed = await self._keys.keyed(view, inspection)
        try:
            only = [] if extent.chosen.everything else [part.column for part in view.layout.parts]
            return replace(await self._increments.exact(view, inspection, session, only=only), keyed=keyed)
        except NotIncremental:
            return Exact(keyed=keyed) if keyed is not None else None
        except (StatementFailed, TimeoutError, ValueError) as error:
            log.info("%s: no refresh by rows can follow: %s", view.name, error)
            return None

    async def _merged(
        self, view: MaterializedView, found: Drift, inspection: Inspection, session: SqlSession
    ) -> Merged | None:
        """Raises NotIncremental."""
        try:
            return await self._increments.plan(view, found, inspection, session)
        except (StatementFailed, TimeoutError, ValueError) as error:
            raise NotIncremental(Reason.PROVIDER, f"the changes cannot be found: {error}") from error


def _check_possible(view: MaterializedView, cause: Cause, found: Drift, extent: Extent) -> None:
    """Raises NotIncremental if rows must be recomputed, whatever the definition is."""
    if found.unobserved:
        raise NotIncremental(Reason.PROVIDER, "a table that it reads cannot be observed")
    # The definition means something else, all was asked for, or some of the view was never built.
    if (cause.complete and not cause.partitions) or not view.complete or found.wholly:
        raise NotIncremental(Reason.HISTORY_GONE, "everything must be recomputed")
    if not extent.covers or (extent.chosen.all_but and extent.chosen.keys != extent.kept):
        raise NotIncremental(Reason.HISTORY_GONE, "its partitions contain different states of the base tables")


def _check_cheaper(view: MaterializedView, method: Method, merged: Merged, extent: Extent) -> None:
    """Raises NotIncremental if recomputing is estimated to be faster, and the view lets the gateway choose."""
    basis = view.current.contents.basis
    if method is not Method.AUTO or basis is None or not basis.complete_ms:
        return
    if is_dearer(basis.estimate(merged.bytes, merged.whole_bytes), _other_ms(basis, extent)):
        raise NotIncremental(Reason.DEARER, _estimates(view, merged, extent))


def _other_ms(basis: Basis, extent: Extent) -> float:
    """How long it takes to recompute the same part of the view, in milliseconds."""
    return basis.complete_ms * extent.share


def _estimates(view: MaterializedView, merged: Merged, extent: Extent) -> str:
    """What is known about the durations of both methods."""
    basis = view.current.contents.basis
    if basis is None or not basis.complete_ms:
        return ""
    rows = basis.estimate(merged.bytes, merged.whole_bytes)
    estimated = f"{rows / 1000:.2f} s" if rows else "unknown"
    other = "complete" if extent.chosen.everything else f"{len(extent.chosen.keys)} whole partitions"
    return f"by rows: estimated {estimated}; {other}: {_other_ms(basis, extent) / 1000:.2f} s"
