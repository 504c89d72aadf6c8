"""What a refresh would cost now, by method, from what is in memory: the estimates by which AUTO chooses, without a look
at the base tables. `routes` chooses with the same comparison once it has looked.

Tests: `test_expected_costs`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from gateway.mv.catalog.index import Catalog
from gateway.mv.freshness.drift import Drift
from gateway.mv.freshness.entry import Entry
from gateway.mv.model.contents import Basis
from gateway.mv.model.view import Freshness, MaterializedView, RefreshMode
from gateway.mv.refresh.increments import Increments
from sql.statement import Method

CHEAPER = 0.8
"""A refresh by rows must take at most this part of the other method's time."""
QUICK_MS = 5_000
"""AUTO computes the rows of a changed definition from the base tables if that took less. From stored rows it takes one
to two seconds for the plans, and the time to read and write them."""
PLAIN_SHARE = 4
"""Rows that are selected one by one come from the stored ones if the base tables have this many times their bytes: a
base table has more columns, of which Spark reads those that it needs."""
SMALL = "its base tables are smaller than 64 MiB together"
NOT_LOOKED = "as the last one: its base tables have not been observed since a write"


def is_dearer(rows_ms: float, other_ms: float) -> bool:
    """Whether AUTO does not refresh by rows: that takes `rows_ms`, and recomputing `other_ms`."""
    return rows_ms > CHEAPER * other_ms


@dataclass(frozen=True, slots=True)
class ExpectedCost:
    """Milliseconds; None: unknown, or not possible."""

    method: RefreshMode | None
    """What a refresh would do now; None if it depends on what its looks find."""
    because: str
    """May quote Spark on the definition."""
    complete_ms: int | None = None
    partial_ms: int | None = None
    incremental_ms: int | None = None
    share: float | None = None
    """Which part of the view's partitions it would write, from 0 to 1."""

    @property
    def expected_ms(self) -> int | None:
        """What the method takes that a refresh would choose."""
        return None if self.method is None else self.of(self.method)

    def of(self, method: RefreshMode) -> int | None:
        match method:
            case RefreshMode.COMPLETE:
                return self.complete_ms
            case RefreshMode.PARTIAL:
                return self.partial_ms
            case RefreshMode.INCREMENTAL:
                return self.incremental_ms
        return 0


class ExpectedCosts:
    """Asks Spark nothing."""

    def __init__(self, catalog: Catalog, increments: Increments) -> None:
        self._catalog = catalog
        self._increments = increments

    def of(self, entry: Entry) -> ExpectedCost:
        view, history = entry.view, entry.history
        basis, share = view.current.contents.basis, _share(view, entry.drift)
        complete = _complete_ms(entry)
        partial = history.usual_ms(RefreshMode.PARTIAL)
        if share is not None and share < 1 and complete is not None:
            partial = round(complete * share)
        method = view.clauses.refreshing.method or Method.AUTO
        hindrance = "" if basis is not None and basis.marks else "what its version has read is not known exactly"
        hindrance = self._increments.known_hindrance(view) or hindrance
        by_rows = method is not Method.COMPLETE and (not hindrance or view.current.contents.keyed is not None)
        rows = _rows_ms(basis, entry) if by_rows else None
        known = ExpectedCost(None, "", complete, partial, rows, share)
        chosen, because = self._choice(entry, method, hindrance, known)
        return replace(known, method=chosen, because=because)

    def is_quick(self, entry: Entry) -> bool:
        """Whether all rows are computed from the base tables as soon as those of another definition from them."""
        took = _complete_ms(entry)
        return took is not None and took < QUICK_MS

    def reads_little(self, view: MaterializedView) -> bool:
        """Whether the base tables are not much larger than the stored rows: then each row is read as soon from them,
        unless rows are combined."""
        return 0 < self._increments.known_bytes(view) < PLAIN_SHARE * view.current.stored_bytes

    def _choice(
        self, entry: Entry, method: Method, hindrance: str, known: ExpectedCost
    ) -> tuple[RefreshMode | None, str]:
        view, found = entry.view, entry.drift
        if self._catalog.freshness(view.id) is Freshness.FRESH:
            return RefreshMode.NOT_REFRESH, "it is fresh"
        if not view.complete:
            return RefreshMode.COMPLETE, "it has never been built completely"
        if entry.damage:
            return RefreshMode.COMPLETE, "its stored rows were changed"
        parts = known.share is not None and known.share < 1
        recomputed = RefreshMode.PARTIAL if parts else RefreshMode.COMPLETE
        if method is Method.COMPLETE:
            return recomputed, "REFRESH COMPLETE"
        if entry.observed_drift is None or found is None or found.unknown:
            last = entry.history.last_refresh
            return (last.mode if last else None), NOT_LOOKED
        if found.unobserved:
            return RefreshMode.COMPLETE, "a table that it reads cannot be observed"
        if method is Method.AUTO and self._increments.is_known_small(view):
            return recomputed, SMALL
        if hindrance and view.current.contents.keyed is not None:
            return RefreshMode.INCREMENTAL, f"rows with the values of changed partitions, because {hindrance}"
        if hindrance:
            return recomputed, hindrance
        rows, other = known.incremental_ms, known.of(recomputed)
        if method is Method.AUTO and rows and other and is_dearer(rows, other):
            return recomputed, f"by rows it would take {rows / 1000:.1f} s"
        return RefreshMode.INCREMENTAL, "its base tables tell which rows have changed"


def _complete_ms(entry: Entry) -> int | None:
    """What it takes to compute all rows from the base tables; None if that is unknown."""
    basis = entry.view.current.contents.basis
    return (basis.complete_ms if basis else 0) or entry.history.usual_ms(RefreshMode.COMPLETE)


def _rows_ms(basis: Basis | None, entry: Entry) -> int | None:
    """For as many bytes of changed files as the last time: how many there are, only a look tells."""
    return (basis.rows_ms if basis else 0) or entry.history.usual_ms(RefreshMode.INCREMENTAL)


def _share(view: MaterializedView, found: Drift | None) -> float | None:
    """Which part of the partitions has changed, counted by those of the table that they follow; None if that is
    unknown, or if nothing has changed."""
    if found is None or found.none or found.unknown or not view.complete:
        return None
    followed = view.current.contents.followed
    if not view.layout.partitioned or followed is None or found.tables - {found.followed}:
        return 1.0
    if found.wholly or found.unobserved or not followed.partitions:
        return 1.0
    return min(1.0, len(found.partitions) / len(followed.partitions))
