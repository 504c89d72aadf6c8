"""Starts refreshes that nobody waits for: by schedule, and when the base tables of an ON COMMIT view have changed.

Tests: `test_tasks`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterable

from gateway import loops
from gateway.mv.catalog.fence import Fence
from gateway.mv.catalog.index import Catalog
from gateway.mv.freshness.entry import Entry
from gateway.mv.jobs.jobs import RefreshJobs, is_automatic
from gateway.mv.model.view import Cause, TriggerMode
from gateway.mv.observation.inspection import Inspector
from gateway.mv.refresh.tasks import Tasks
from sql.statement import Method, Trigger
from sql.texts import create_text

log = logging.getLogger(__name__)

LOOKED_AT_TOGETHER = 20
"""How many views are checked together: clients' calls to the metastore must not wait behind thousands."""
DRAFTED_SECONDS = 2.0
"""Between looks at views that were known only by a draft when the gateway began to serve."""
LOOK_AGAIN_SECONDS = 30.0
"""The longest pause, because the clock may be set while the scheduler sleeps."""


class Scheduler:
    """Starts tasks. `tasks` decides whether one more is needed."""

    def __init__(
        self,
        catalog: Catalog,
        jobs: RefreshJobs,
        tasks: Tasks,
        inspector: Inspector,
        fence: Fence,
        watch_seconds: float,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._catalog = catalog
        self._jobs = jobs
        self._tasks = tasks
        self._inspector = inspector
        self._fence = fence
        self._watch_seconds = watch_seconds
        self._now_ms = now_ms
        self._loops = [loops.Loop("schedules", self._keep_schedules), loops.Loop("watch", self._watch)]
        self._revision = -1
        self._spread = False
        self._not_before, self._what = 0.0, ""
        """From when on observations count for the next watch, and the reason for its tasks."""

    def start(self) -> None:
        """Starts, beginning with what was missed while no gateway ran."""
        self._not_before, self._what = time.monotonic(), "a change before the start"
        for loop in self._loops:
            loop.start()

    async def stop(self) -> None:
        for loop in self._loops:
            await loop.stop()

    # --- schedules ---------------------------------------------------------------------------------

    async def _keep_schedules(self) -> None:
        if not self._spread:
            await self._jobs.spread()
            self._spread = True
        pause = self.run_due()
        # What this run has served itself is no reason to wake up.
        self._jobs.sooner.clear()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._jobs.sooner.wait(), pause)

    def run_due(self) -> float:
        """Starts what is due; returns the seconds until the next run. Several missed runs of one schedule make one
        task."""
        now = self._now_ms()
        pause = LOOK_AGAIN_SECONDS
        if self._revision != self._catalog.revision:
            self._revision = self._catalog.revision
            self._jobs.forget_dropped()
            self._tasks.forget_dropped()
        for entry in self._of(Trigger.SCHEDULE):
            try:
                due = self._serve(entry, now)
            except Exception:  # A bug in one view's schedule must not stop the others.
                log.exception("the schedule of %s failed unexpectedly", entry.view.name)
                continue
            if due is not None:
                pause = min(pause, max(0.0, (due - now) / 1000))
        return pause

    def _serve(self, entry: Entry, now: int) -> int | None:
        """Starts a view's task if it is due; returns when the next one is due."""
        due = self._jobs.next_run(entry.view.id)
        if due is not None and due <= now:
            self._jobs.served(entry.view.id)
            self._trigger(entry, TriggerMode.SYSTEM, create_text.recurring_strategy(entry.view.clauses), due)
            due = self._jobs.next_run(entry.view.id)
        return due

    # --- changes -----------------------------------------------------------------------------------

    def changed(self, view_ids: Iterable[str], what: str) -> None:
        """Handles a change of what these views read: refreshes ON COMMIT views. A change passes through views without
        a trigger to those above, because reads refresh the former first."""
        pending, seen = list(view_ids), set[str]()
        while pending:
            view_id = pending.pop()
            entry = self._catalog.find(view_id)
            if entry is None or view_id in seen:
                continue
            seen.add(view_id)
            if is_automatic(entry, Trigger.COMMIT) and not entry.view.is_paced:
                self._trigger(entry, TriggerMode.COMMIT, what)
            elif entry.view.clauses.refreshing.follows:
                pending += self._catalog.above(view_id)

    def published(self, view_id: str) -> None:
        """Refreshes the views above a view with a new version."""
        entry = self._catalog.find(view_id)
        if entry is not None:
            self.changed(self._catalog.above(view_id), str(entry.view.name))

    async def _watch(self) -> bool:
        """Checks for changes made before the start, and later for those made outside the gateway."""
        drafted = [entry for entry in self._catalog.entries() if entry.drafted]
        await self.look(self._not_before, self._what)
        while drafted:
            # Whether they are refreshed ON COMMIT is not known for sure before they have been read.
            await asyncio.sleep(DRAFTED_SECONDS)
            known = {entry.view.id for entry in drafted if not entry.drafted}
            found = [entry for entry in self._of(Trigger.COMMIT) if entry.view.id in known]
            await self._look_at(found, self._not_before, self._what)
            drafted = [entry for entry in drafted if entry.drafted and self._catalog.find(entry.view.id) is entry]
        if not self._watch_seconds:
            return loops.OVER
        await asyncio.sleep(self._watch_seconds)
        self._not_before, self._what = time.monotonic() - self._watch_seconds, "a check of its base tables"
        return False

    async def look(self, not_before: float, what: str = "a check of its base tables") -> None:
        """Refreshes the ON COMMIT views that are stale according to observations that began at or after `not_before`
        (monotonic). Skips views of which the last task failed or was cancelled, and nothing has changed since."""
        await self._look_at(self._of(Trigger.COMMIT), not_before, what)

    async def _look_at(self, entries: Iterable[Entry], not_before: float, what: str) -> None:
        if self._fence.lost is not None:
            return
        watched = [entry for entry in entries if entry.view.built]
        for start in range(0, len(watched), LOOKED_AT_TOGETHER):
            some = watched[start : start + LOOKED_AT_TOGETHER]
            await self._inspector.check([entry.view.id for entry in some], not_before)
            for entry in some:
                if not self._concerned(entry) or await self._tasks.was_in_vain(entry.view.id):
                    continue
                if self._catalog.find(entry.view.id) is entry:
                    self._trigger(entry, TriggerMode.COMMIT, what)

    def _concerned(self, entry: Entry) -> bool:
        """Whether something that the view reads has changed: a table, or a view below that has a newer version or is
        stale and has no trigger."""
        pending, seen = [entry], {entry.view.id}
        while pending:
            entry = pending.pop()
            if entry.ledger.stale or entry.drift is not None or entry.doubtful or entry.damage:
                return True
            for view_id in entry.view.views:
                base = self._catalog.find(view_id)
                if base is None or entry.view.excludes(base.view.name):
                    continue
                if entry.view.current.views.get(view_id) != base.view.current.number:
                    return True
                if base.view.clauses.refreshing.follows and view_id not in seen:
                    seen.add(view_id)
                    pending.append(base)
        return False

    def _of(self, trigger: Trigger) -> list[Entry]:
        return [
            entry
            for view in self._catalog.views()
            if view.clauses.refreshing.trigger is trigger and not view.is_paced
            if is_automatic(entry := self._catalog.entry(view.id), trigger)
        ]

    def _trigger(self, entry: Entry, mode: TriggerMode, what: str, due: int = 0) -> None:
        if self._fence.lost is not None:
            return
        complete = entry.view.clauses.refreshing.method is Method.COMPLETE
        if self._tasks.trigger(entry.view.id, Cause(mode, what, complete=complete, due=due)):
            log.info("Started a task for %s (%s)", entry.view.name, what)
