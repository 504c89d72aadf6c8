"""Refreshes several views one after the other, so that they agree: each from the same state of every base table.

A refresh reads its base tables at one state. While several views are refreshed, a table may change between them. So
what they contain is compared at the end, and those that have read an earlier state of a table are refreshed again.

Tests: `test_refreshed_sets`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from gateway.errors import FreshgateError
from gateway.mv.catalog.index import Catalog
from gateway.mv.concurrency import gathered
from gateway.mv.freshness.drift import same
from gateway.mv.freshness.entry import Entry
from gateway.mv.model.snapshot import Snapshot
from gateway.mv.model.view import Cause, MaterializedView, Task, base_key
from gateway.mv.refresh.progress import Report
from gateway.mv.refresh.tasks import Tasks
from sql.statement import Method

log = logging.getLogger(__name__)

TOGETHER = 4
"""How many views that do not read each other are refreshed at the same time."""
ROUNDS_MAX = 3
"""How often views are refreshed in search of one state of all base tables."""


@dataclass(frozen=True, slots=True)
class RefreshedView:
    """What has become of one view of a set."""

    view: MaterializedView
    """As it was before."""
    seconds: float
    task: Task | None = None
    """The refresh; None if it has failed."""
    error: FreshgateError | None = None
    apart: tuple[str, ...] = ()
    """The tables of which another view of the set has read another state."""


class RefreshedSets:
    """Refreshes sets of views."""

    def __init__(self, catalog: Catalog, tasks: Tasks) -> None:
        self._catalog = catalog
        self._tasks = tasks

    async def refresh(self, views: Iterable[MaterializedView], cause: Cause, report: Report) -> list[RefreshedView]:
        """Refreshes the views, those that others read first. An error of one ends none of the others. Cancelling the
        call cancels the refreshes that have not ended."""
        asked = list(views)
        found = {each.view.id: each for each in await self._refreshed(asked, cause, report)}
        for number in range(ROUNDS_MAX):
            apart = self._apart([outcome.view for outcome in found.values() if outcome.error is None])
            late = [found[view_id].view for view_id, tables in apart.items() if tables]
            if not late or number == ROUNDS_MAX - 1:
                break
            report(f"{len(late)} views have read an earlier state of a table than another one, and are refreshed again")
            again = replace(cause, complete=False, method=Method.AUTO)
            for outcome in await self._refreshed(late, again, report):
                before = found[outcome.view.id]
                found[outcome.view.id] = replace(outcome, seconds=before.seconds + outcome.seconds)
        return [replace(outcome, apart=apart.get(view_id, ())) for view_id, outcome in found.items()]

    async def _refreshed(self, views: Sequence[MaterializedView], cause: Cause, report: Report) -> list[RefreshedView]:
        found: list[RefreshedView] = []
        for level in self._levels(views):
            turn = asyncio.Semaphore(TOGETHER)
            found += await gathered(self._one(view, cause, report, turn) for view in level)
        return found

    async def _one(
        self, view: MaterializedView, cause: Cause, report: Report, room: asyncio.Semaphore
    ) -> RefreshedView:
        async with room:
            began = _now()
            try:
                await self._tasks.refresh(view.id, cause, report)
            except FreshgateError as error:
                log.info("%s was not refreshed with others: %s", view.name, error)
                return RefreshedView(view, _now() - began, error=error)
            return RefreshedView(view, _now() - began, self._last(view))

    def _last(self, view: MaterializedView) -> Task | None:
        entry = self._catalog.find(view.id)
        ended = [] if entry is None else [task for _, task in entry.history.tasks if task.status.ended]
        return ended[-1] if ended else None

    def _levels(self, views: Sequence[MaterializedView]) -> list[list[MaterializedView]]:
        """The views, each behind those of the set that it reads."""
        below = {view.id: self._catalog.reads(view.id) - {view.id} for view in views}
        depths: dict[str, int] = {}
        # A view reads more than each of those below it.
        for view in sorted(views, key=lambda each: (len(below[each.id]), each.name)):
            depths[view.id] = 1 + max((depths.get(each, 0) for each in below[view.id]), default=0)
        found: dict[int, list[MaterializedView]] = {}
        for view in views:
            found.setdefault(depths[view.id], []).append(view)
        return [sorted(found[depth], key=lambda each: each.name) for depth in sorted(found)]

    def _apart(self, views: Iterable[MaterializedView]) -> dict[str, tuple[str, ...]]:
        """For each view that has read another state of a table than the one refreshed last, these tables."""
        entries = [entry for view in views if (entry := self._catalog.find(view.id)) is not None]
        latest: dict[str, Snapshot] = {}
        for entry in sorted(entries, key=lambda each: each.view.current.started_at):
            latest.update(_contained(entry))
        found: dict[str, tuple[str, ...]] = {}
        for entry in entries:
            differing = [base for base, seen in _contained(entry).items() if not same(seen, latest[base])]
            if differing:
                names = {base_key(table): str(table) for table in entry.view.tables}
                found[entry.view.id] = tuple(sorted(names.get(base, base) for base in differing))
        return found


def _contained(entry: Entry) -> Mapping[str, Snapshot]:
    """The state of each base table in the current version."""
    view = entry.view
    contents, tables = view.current.contents, frozenset(map(base_key, view.tables))
    seen = dict(contents.others[-1][1]) if contents.others else {}
    if view.followed is not None and contents.followed is not None:
        seen[view.followed.base] = contents.followed
    return {base: state for base, state in seen.items() if base in tables}


def _now() -> float:
    return time.monotonic()
