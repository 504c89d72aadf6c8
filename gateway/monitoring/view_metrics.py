"""The metrics with a row for each materialized view."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from gateway.mv.catalog.index import Catalog
from gateway.mv.freshness.entry import Entry
from gateway.mv.freshness.troubles import DAMAGED, troubles_of
from gateway.mv.model.view import TaskStatus
from gateway.mv.refresh.tasks import RefreshTally

VIEWS_TOGETHER = 40
"""Views that are rendered in one piece, which takes about a millisecond, before the event loop runs other work."""
VIEW = ("database", "view")

Row = tuple[list[str], float]
"""The values of the labels, and the value of the metric."""


@dataclass(frozen=True, slots=True)
class Family:
    """A metric. `rows` gives those of a view."""

    name: str
    about: str
    rows: Callable[[Catalog, RefreshTally, Entry], Iterator[Row]]
    labels: Sequence[str] = VIEW
    counts: bool = False

    def metric(self, catalog: Catalog, tally: RefreshTally, ids: Sequence[str]) -> Metric:
        """The rows of these views, except for those dropped meanwhile."""
        kind = CounterMetricFamily if self.counts else GaugeMetricFamily
        found = kind(f"freshgate_view_{self.name}", self.about, labels=self.labels)
        for view_id in ids:
            if (entry := catalog.find(view_id)) is not None:
                for labels, value in self.rows(catalog, tally, entry):
                    found.add_metric(labels, value)
        return found


def _names(entry: Entry) -> list[str]:
    return [entry.view.name.database, entry.view.name.table]


def _staleness(catalog: Catalog, _: RefreshTally, entry: Entry) -> Iterator[Row]:
    # is_stale() is cheaper than staleness().
    found = catalog.staleness(entry.view.id) if catalog.is_stale(entry.view.id) else None
    if found is None:
        yield _names(entry), 0.0
        return
    # After a start the base tables may not have been observed yet, but the stored tasks are known.
    since = found.since or _failing_since(entry)
    if since:
        yield _names(entry), max(0.0, time.time() - since / 1000)


def _failing_since(entry: Entry) -> int:
    """When the first task that failed after the last successful one was created; 0 if the last one did not fail."""
    since = 0
    for _, task in reversed(entry.history.tasks):
        if task.status is TaskStatus.SUCCESS:
            break
        if task.status is TaskStatus.FAILED:
            since = task.created_at
    return since


def _published(_: Catalog, __: RefreshTally, entry: Entry) -> Iterator[Row]:
    if entry.view.built:
        yield _names(entry), entry.view.current.published_at / 1000


def _failed(_: Catalog, __: RefreshTally, entry: Entry) -> Iterator[Row]:
    yield _names(entry), float(bool(_failing_since(entry)))


def _refreshes(_: Catalog, tally: RefreshTally, entry: Entry) -> Iterator[Row]:
    for status, number in tally.by_view.get(entry.view.id, {}).items():
        yield [*_names(entry), status.lower()], number


def _wrong(catalog: Catalog, _: RefreshTally, entry: Entry) -> Iterator[Row]:
    # is_stale() is cheaper than awaited().
    staleness = catalog.inquiry().awaited(entry.view) if catalog.is_stale(entry.view.id) else None
    for trouble in troubles_of(entry, staleness, time.time_ns() // 1_000_000):
        if trouble.kind != DAMAGED:
            yield [*_names(entry), trouble.kind.lower()], 1.0


def _streak(_: Catalog, __: RefreshTally, entry: Entry) -> Iterator[Row]:
    if streak := len(entry.history.streak):
        yield _names(entry), float(streak)


FAMILIES = (
    Family(
        "staleness_seconds",
        "How long the materialized view has missed a change to its base tables; 0 if it is fresh",
        _staleness,
    ),
    Family(
        "last_refresh_timestamp_seconds",
        "When the materialized view's current version was published; never built views are left out",
        _published,
    ),
    Family("last_refresh_failed", "1 if the last refresh of the materialized view has failed", _failed),
    Family(
        "failures_in_a_row",
        "How many refreshes of the materialized view have failed since one succeeded; others than failing views are "
        "left out",
        _streak,
    ),
    Family(
        "trouble",
        "1 for a materialized view that is failing, late, unknown, paused or slow; others are left out",
        _wrong,
        labels=(*VIEW, "what"),
    ),
    Family(
        "refreshes",
        "Ended refreshes of the materialized view by outcome",
        _refreshes,
        labels=(*VIEW, "outcome"),
        counts=True,
    ),
)


def damaged(catalog: Catalog) -> Metric:
    """A row for each materialized view with a missing part, or with changed rows."""
    found = GaugeMetricFamily(
        "freshgate_view_damaged",
        "1 for a materialized view with a missing or unreadable part, or whose stored rows were changed",
        labels=VIEW,
    )
    changed = [entry.view.name for entry in catalog.entries() if entry.changed_rows]
    for name in dict.fromkeys([*catalog.damaged, *changed]):
        found.add_metric([name.database, name.table], 1)
    return found
