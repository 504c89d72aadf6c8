"""Refresh jobs: the schedule of each view, when it runs next, and whether it is paused."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import tzinfo

from gateway.errors import DefinitionRefused, FreshgateError
from gateway.loops import Turn
from gateway.mv.catalog.fence import Fence
from gateway.mv.catalog.index import Catalog
from gateway.mv.catalog.settlement import Settlement
from gateway.mv.concurrency import unbroken
from gateway.mv.freshness.entry import Entry
from gateway.mv.jobs.spread import NO_SPREAD, Spread
from gateway.mv.model import properties as stored
from gateway.mv.model import schedule
from gateway.mv.model.schedule import UnknownSchedule
from gateway.mv.model.view import MaterializedView, TriggerMode
from gateway.mv.ports import Metastore
from sql.names import TableName
from sql.statement import Refreshing, Schedule, Trigger, WhenStale
from sql.texts import maintenance

log = logging.getLogger(__name__)

SHORTEST_SECONDS = 60
"""As in Snowflake and Databricks: Spark needs seconds to plan a refresh."""


class RefreshJobs:
    """The refresh jobs of all views."""

    def __init__(
        self,
        catalog: Catalog,
        settlement: Settlement,
        metastore: Metastore,
        fence: Fence,
        zone: tzinfo,
        *,
        allow_seconds: bool = False,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._catalog = catalog
        self._settlement = settlement
        self._metastore = metastore
        self._fence = fence
        self._zone = zone
        self._allow_seconds = allow_seconds
        self._now_ms = now_ms
        self._ran: dict[str, int] = {}
        """When each schedule was last served since the start."""
        self._due: dict[str, tuple[Schedule, int, int | None]] = {}
        """The schedule, the time after which its next run was computed, and that run."""
        self._spread = NO_SPREAD
        self.planned: dict[str, int] = {}
        """When views with a lag or AT MOST EVERY are refreshed next, by id. `paced` plans it."""
        self.sooner = asyncio.Event()
        """Set when a job may have to run sooner than expected; whoever waits for it clears it."""

    def check(self, view: TableName, refreshing: Refreshing) -> None:
        """Raises DefinitionRefused for a schedule that cannot be run or is too frequent."""
        self._check_pace(view, refreshing)
        wanted = refreshing.schedule
        if wanted is None:
            return
        if not self._allow_seconds and (wanted.unit == "SECOND" or schedule.runs_within_minutes(wanted)):
            raise DefinitionRefused(
                f"The schedule of materialized view {view}: interval time unit can not be second. "
                f"Write MINUTE, HOUR, DAY or WEEK, or one second in cron.",
                sqlstate="22023",
            )
        try:
            schedule.check(wanted, self._zone)
        except UnknownSchedule as error:
            raise DefinitionRefused(
                f"The schedule of materialized view {view}: {error}. Write for example EVERY 1 HOUR, or "
                f"CRON '0 4 * * *' for every day at four.",
                sqlstate="22023",
            ) from error

    def _check_pace(self, view: TableName, refreshing: Refreshing) -> None:
        for words, seconds in (("TARGET LAG", refreshing.lag), ("AT MOST EVERY", refreshing.at_most)):
            if seconds is not None and seconds < SHORTEST_SECONDS and not self._allow_seconds:
                raise DefinitionRefused(
                    f"The {words} of materialized view {view} is shorter than a minute. Write '1 minute' or more, or "
                    f"use a view without a trigger, which reads refresh.",
                    sqlstate="22023",
                )

    async def spread(self) -> None:
        """The gateway has started: runs that are overdue begin one after another. Lets other work run in between."""
        turn, overdue = Turn(), 0
        began = self._now_ms()
        for view in list(self._catalog.views()):
            if view.clauses.refreshing.schedule is not None:
                due = self.next_run(view.id)
                overdue += due is not None and due <= began
                await turn.pause()
        self._spread = Spread.of(began, overdue)
        self._due.clear()

    def next_run(self, view_id: str) -> int | None:
        """When the schedule starts the view's next task (milliseconds since the epoch); in the past if it is due. None
        if the view has no schedule or is paused."""
        entry = self._catalog.find(view_id)
        if entry is not None and entry.view.is_paced:
            return None if entry.view.paused else self.planned.get(view_id)
        wanted = entry.view.clauses.refreshing.schedule if entry and not entry.view.paused else None
        if entry is None or wanted is None:
            return None
        last = self._last(entry)
        known = self._due.get(view_id)
        if known is None or known[:2] != (wanted, last):
            known = self._due[view_id] = wanted, last, self._next(entry, wanted, last)
        return known[2]

    def _next(self, entry: Entry, wanted: Schedule, last: int) -> int | None:
        try:
            anchor = min(entry.view.created_at, last)
            due = schedule.next_run(wanted, anchor, last, self._zone)
            if due is None or not due <= self._spread.began <= self._now_ms():
                return due
            following = schedule.next_run(wanted, anchor, self._spread.began, self._zone)
            return self._spread.start(entry.view.id, following)
        except UnknownSchedule as error:
            # CREATE has accepted it, but a newer time zone database, or another release, may not.
            log.error("The schedule of materialized view %s does not run: %s", entry.view.name, error)
            return None

    def _last(self, entry: Entry) -> int:
        """When the schedule was last served: when the view was refreshed, created or resumed."""
        last, now = self._ran.get(entry.view.id), self._now_ms()
        if last is None:
            tasks = (task for _, task in reversed(entry.history.tasks) if task.cause.trigger is TriggerMode.SYSTEM)
            # The last one, not the latest: the clock may have been set back in between.
            ran = next((task.created_at for task in tasks), 0)
            past = [each for each in (entry.view.job_since, entry.view.created_at) if 0 < each <= now]
            last = max([*past, ran]) or now
        # If the clock was set back, later times must not keep the job from running.
        self._ran[entry.view.id] = min(last, now)
        return self._ran[entry.view.id]

    def served(self, view_id: str) -> None:
        """Records that a task was started for the schedule, or that the schedule was changed: earlier runs are past."""
        self._ran[view_id] = self._now_ms()
        self.sooner.set()

    def forget_dropped(self) -> None:
        """Forgets dropped views."""
        for view_id in [each for each in {*self._ran, *self._due} if self._catalog.find(each) is None]:
            self._ran.pop(view_id, None)
            self._due.pop(view_id, None)

    def changed(self, view: MaterializedView) -> MaterializedView:
        """The view, with its job counting from now on."""
        return replace(view, job_since=self._now_ms())

    async def pause(self, entry: Entry, *, paused: bool, because: str = "") -> None:
        """Executes PAUSE and RESUME. Runs missed in between are not made up for. `because`: why the gateway pauses the
        job by itself. Raises what the metastore raises."""
        await unbroken(self._store(entry, paused, because))

    async def _store(self, entry: Entry, paused: bool, because: str) -> None:
        async with entry.lock:
            await self._fence.check()
            view = self.changed(replace(entry.view, paused=paused, paused_because=because))
            try:
                await self._metastore.run(maintenance.set_properties(view.storage, stored.write_job(view)))
            except FreshgateError as error:
                # It may be stored all the same, and the next start would find it.
                self._settlement.store(entry, error)
                raise
            # A refresh under way may have changed everything else.
            entry.pause(view.paused, view.job_since, because)
        self.served(entry.view.id)


def still_refreshed_though_paused(view: MaterializedView) -> str | None:
    """A warning for PAUSE about refreshes that it does not stop; None if it stops all but REFRESH."""
    if view.when_stale is not WhenStale.REFRESH:
        return None
    return (
        f"Warning: PAUSE stops only refreshes by schedule or after changes. Reads still refresh materialized view "
        f"{view.name}, unless its property 'when_stale' is 'SERVE'"
    )


def is_automatic(entry: Entry, trigger: Trigger) -> bool:
    """Whether this trigger may refresh the view now. Of a view that is known by a draft only, nothing is sure."""
    view = entry.view
    known = entry.visible and not entry.drafted
    return known and not view.paused and view.clauses.refreshing.trigger is trigger
