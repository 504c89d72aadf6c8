"""Refreshes views some time after a change: for their TARGET LAG, or as AT MOST EVERY allows it.

Plans are made anew when something has changed: a write, a version, the end of a task, a look at base tables. Looks run
beside the plans, because storage may take long to answer.

Tests: `test_paced`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import replace

from gateway.loops import BackgroundTasks, Loop, Turn
from gateway.mv.catalog.fence import Fence
from gateway.mv.catalog.index import Catalog
from gateway.mv.freshness.entry import Entry
from gateway.mv.freshness.inquiry import Inquiry
from gateway.mv.jobs.jobs import RefreshJobs, is_automatic
from gateway.mv.jobs.pace import NextTimes, Outlook, Pace, attempted, expected_ms, plan
from gateway.mv.jobs.spread import NO_SPREAD, Spread
from gateway.mv.model.view import Cause, MaterializedView, Staleness, TaskStatus, TriggerMode
from gateway.mv.observation.inspection import Inspector
from gateway.mv.refresh.tasks import Tasks
from sql.statement import Method
from sql.texts import create_text

log = logging.getLogger(__name__)

PASS_SECONDS = 0.25
"""Between two passes over the views, however often something changes."""
LOOK_SECONDS = 1.0
"""Between passes over the looks that are due."""
LATEST_MS = 30_000
"""Each view is considered again after this time at the latest: the clock may be set."""
LOOKED_AT_TOGETHER = 20
SHARED_SECONDS = 5.0
"""A look may use an observation that another one made so recently."""
STARTED_TOGETHER = 4
STOPPING_SECONDS = 5.0


class PacedRefreshes:
    """Plans and starts the refreshes of these views. `tasks` decides whether a task is needed."""

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
        """`watch_seconds`: between looks for views without a lag; 0: base tables are looked at only after the start."""
        self._catalog = catalog
        self._jobs = jobs
        self._tasks = tasks
        self._inspector = inspector
        self._fence = fence
        self._watch_ms = int(1000 * watch_seconds)
        self._now_ms = now_ms
        self._spread = NO_SPREAD
        self._next: dict[str, int] = {}
        """When each view is considered again; a view that is not here is considered at once."""
        self._looks: dict[str, int] = {}
        """When the tables of a view are looked at next."""
        self._looked: dict[str, int] = {}
        self._vain: set[str] = set()
        """Views whose refresh would fail again, until something changes."""
        self._beginning: dict[str, asyncio.Task[None]] = {}
        self._sooner = asyncio.Event()
        self._together = asyncio.Semaphore(STARTED_TOGETHER)
        self._starts = BackgroundTasks("the start of a paced refresh")
        self._loops = [Loop("paced refreshes", self._keep), Loop("looks for paced refreshes", self._look_again)]

    def start(self) -> None:
        paced = sum(view.is_paced for view in self._catalog.views())
        self._spread = Spread.of(self._now_ms(), paced)
        for loop in self._loops:
            loop.start()

    async def stop(self) -> None:
        for loop in self._loops:
            await loop.stop()
        await self._starts.finish(STOPPING_SECONDS)

    # --- what changes plans ------------------------------------------------------------------------

    def changed(self, view_ids: Iterable[str], _: str = "") -> None:
        """What these views read has changed. It passes through views that pass it on, as `Inquiry.awaited` tells."""
        pending, seen = list(view_ids), set[str]()
        while pending:
            entry = self._catalog.find(view_id := pending.pop())
            if entry is None or view_id in seen:
                continue
            seen.add(view_id)
            self._touch(entry)
            if entry.view.clauses.refreshing.follows or entry.view.keeps_lag:
                pending += self._catalog.above(view_id)

    def published(self, view_id: str) -> None:
        """The view has a new version."""
        self.changed([view_id, *self._catalog.above(view_id)])

    def ended(self, entry: Entry, _: int) -> None:
        """A task of the view has ended."""
        self._touch(entry)

    def _touch(self, entry: Entry) -> None:
        if entry.view.is_paced:
            self._next.pop(entry.view.id, None)
            self._vain.discard(entry.view.id)
            self._sooner.set()

    # --- plans -------------------------------------------------------------------------------------

    async def _keep(self) -> None:
        self._sooner.clear()
        pause = await self.run_due()
        await asyncio.sleep(PASS_SECONDS)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._sooner.wait(), max(0.0, pause - PASS_SECONDS))

    async def run_due(self) -> float:
        """Plans what is to be planned anew and starts what is due; returns the seconds until the next pass is needed.
        Lets other work run in between."""
        turn, inquiry, now = Turn(), self._catalog.inquiry(), self._now_ms()
        soonest, paced = now + LATEST_MS, set[str]()
        for view in list(self._catalog.views()):
            entry = self._catalog.find(view.id) if view.is_paced else None
            if entry is None:
                continue
            paced.add(view.id)
            if not now < self._next.get(view.id, 0) <= now + LATEST_MS:
                self._next[view.id] = self._consider(entry, inquiry, now)
            soonest = min(soonest, self._next.get(view.id, 0))
            if await turn.pause():
                inquiry = self._catalog.inquiry()
        self._forget_all_but(paced)
        return max(0.0, (soonest - now) / 1000)

    def _forget_all_but(self, paced: set[str]) -> None:
        for known in (self._next, self._looks, self._looked, self._jobs.planned):
            for gone in known.keys() - paced:
                del known[gone]
        self._vain &= paced

    def _consider(self, entry: Entry, inquiry: Inquiry, now: int) -> int:
        """Starts the view's refresh if it is due; returns when the view is to be considered again."""
        view, trigger = entry.view, entry.view.clauses.refreshing.trigger
        found = NextTimes()
        if trigger is not None and is_automatic(entry, trigger) and self._fence.lost is None:
            found = self.plan(entry, inquiry, now)
        _set_or_drop(self._looks, view.id, found.look)
        _set_or_drop(self._jobs.planned, view.id, found.refresh)
        if found.refresh is None:
            return now + LATEST_MS
        if found.refresh > now:
            return min(found.refresh, now + LATEST_MS)
        # A task that is under way may contain the change; when it has ended, that is known.
        if view.id not in self._beginning and not entry.history.unended:
            work = self._starts.begin(self._start(entry))
            self._beginning[view.id] = work
            work.add_done_callback(lambda _: self._beginning.pop(view.id, None))
        return now + LATEST_MS

    def plan(self, entry: Entry, inquiry: Inquiry, now: int) -> NextTimes:
        """When the view is refreshed, and when its tables are looked at."""
        view, pace, looked = entry.view, Pace.of(entry.view), self._looked.get(entry.view.id)
        expected = self._expected(view, inquiry)
        every = (pace.look_every(expected) if pace.lag else self._watch_ms) if self._watch_ms else 0
        staleness = inquiry.awaited(view)
        if view.id in self._vain:
            # The time that is known stays: plans are made more often than looks.
            return NextTimes(look=self._looks.get(view.id, now + every) if every else None)
        # Nothing can be compared with a view that is not built.
        observed = min(now, max(self._observed(view), looked or 0)) if view.built else now
        if not observed and not entry.damage:
            return NextTimes(look=now)
        missed = None if staleness is None else self._since(entry, staleness, pace, now)
        # What was in the future dates from before the clock was set back.
        began, failed = (at if at <= now else 0 for at in attempted(view, entry.history))
        found = plan(pace, Outlook(missed, observed, began, failed, expected), every)
        if found.refresh is not None and found.refresh <= self._spread.began:
            last = self._spread.began + max(pace.lag, pace.floor) // 2
            found = replace(found, refresh=self._spread.start(view.id, last))
        return found

    def _since(self, entry: Entry, staleness: Staleness, pace: Pace, now: int) -> int:
        """Since when the view counts as stale. If that is unknown: of damaged rows, all are too old; of a table that
        cannot be observed, all that was written since the last refresh. What is in the future dates from before the
        clock was set back."""
        since = staleness.since or entry.view.current.started_at
        return now - pace.lag if since > now or (entry.damage and not staleness.since) else since

    def _expected(self, view: MaterializedView, inquiry: Inquiry) -> int:
        """How long the view's refresh takes, with those of the views below that it may have to refresh first."""
        took, pending = dict[str, int](), [view]
        while pending:
            current = pending[-1]
            below = [each for each in self._below(current) if inquiry.awaited(each) is not None]
            if current.id not in took:
                took[current.id] = 0  # A view that reads itself ends here.
                pending += [each for each in below if each.id not in took]
                continue
            pending.pop()
            entry = self._catalog.find(current.id)
            own = expected_ms(current, entry.history) if entry is not None else 0
            took[current.id] = own + max((took.get(each.id, 0) for each in below), default=0)
        return took[view.id]

    def _observed(self, view: MaterializedView) -> int:
        """Until when nothing that the view's refresh would read was seen to change; 0 if something was not looked at
        since the start."""
        oldest, pending, seen = self._now_ms(), [view], {view.id}
        while pending:
            current = pending.pop()
            entry = self._catalog.find(current.id)
            oldest = min(oldest, 0 if entry is None else entry.fresh_at or 0)
            below = [each for each in self._below(current) if each.id not in seen]
            seen.update(each.id for each in below)
            pending += below
        return oldest

    def _below(self, view: MaterializedView) -> list[MaterializedView]:
        """The views below that the view's refresh may refresh first."""
        entries = (self._catalog.find(base) for base in sorted(view.views))
        views = (entry.view for entry in entries if entry is not None and not view.excludes(entry.view.name))
        return [each for each in views if each.clauses.refreshing.follows or (view.keeps_lag and each.keeps_lag)]

    # --- starts ------------------------------------------------------------------------------------

    async def _start(self, entry: Entry) -> None:
        """Starts the view's refresh, unless it would fail again, or nothing has changed."""
        view_id = entry.view.id
        async with self._together:
            last = entry.history.last
            if last is not None and last.status is not TaskStatus.SUCCESS and await self._tasks.was_in_vain(view_id):
                self._vain.add(view_id)
                self._next.pop(view_id, None)
                return
            complete = entry.view.clauses.refreshing.method is Method.COMPLETE
            if complete and entry.view.built:
                # It would be recomputed whether something has changed or not.
                await self._inspector.check([view_id], time.monotonic())
            staleness = self._catalog.inquiry().awaited(entry.view)
            if staleness is None or self._catalog.find(view_id) is not entry or self._fence.lost is not None:
                self._touch(entry)
                return
            what = create_text.recurring_strategy(entry.view.clauses)
            reaches = (staleness.since or self._now_ms()) if entry.view.keeps_lag else 0
            if self._tasks.trigger(view_id, Cause(TriggerMode.COMMIT, what, complete=complete, reaches=reaches)):
                log.info("Started a task for %s (%s)", entry.view.name, what)

    # --- looks -------------------------------------------------------------------------------------

    async def _look_again(self) -> None:
        if not await self.look():
            await asyncio.sleep(LOOK_SECONDS)

    async def look(self) -> bool:
        """Looks at the tables of some views whose look is due; returns whether there were any."""
        now = self._now_ms()
        due = [view_id for view_id, at in self._looks.items() if at <= now][:LOOKED_AT_TOGETHER]
        if not due or self._fence.lost is not None:
            return False
        await self._inspector.check(due, time.monotonic() - SHARED_SECONDS)
        for view_id in due:
            self._looked[view_id] = now
            self._looks.pop(view_id, None)
            if (entry := self._catalog.find(view_id)) is not None:
                self._touch(entry)
        return True


def _set_or_drop(known: dict[str, int], view_id: str, at: int | None) -> None:
    if at is None:
        known.pop(view_id, None)
    else:
        known[view_id] = at
