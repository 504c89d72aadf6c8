"""Refresh jobs: the standing order of each view, when it runs next, and whether it is paused."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import tzinfo

from gateway.errors import DefinitionRefused, FreshgateError
from gateway.mv.catalog.fence import Fence
from gateway.mv.catalog.index import Catalog
from gateway.mv.catalog.settlement import Settlement
from gateway.mv.concurrency import unbroken
from gateway.mv.freshness.entry import Entry
from gateway.mv.model import properties as stored
from gateway.mv.model import schedule
from gateway.mv.model.schedule import UnknownSchedule
from gateway.mv.model.view import MaterializedView, TriggerMode
from gateway.mv.ports import Metastore
from sql.names import TableName
from sql.statement import Refreshing, Schedule, Trigger, WhenStale
from sql.texts import maintenance

log = logging.getLogger(__name__)


class Jobs:
    """Of all views."""

    def __init__(
        self,
        catalog: Catalog,
        settlement: Settlement,
        metastore: Metastore,
        fence: Fence,
        zone: tzinfo,
        *,
        allow_seconds: bool,
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
        """When each schedule was served last, where that was since the start."""
        self._due: dict[str, tuple[Schedule, int, int | None]] = {}
        """What the schedule was, from when on its next moment was asked for, and that moment."""
        self.sooner = asyncio.Event()
        """Set when a job may have to run sooner than was thought; whoever waits for it clears it."""

    def check(self, view: TableName, refreshing: Refreshing) -> None:
        """Raises DefinitionRefused for a schedule that cannot be run, or would keep Spark busy with nothing else."""
        said = refreshing.schedule
        if said is None:
            return
        if not self._allow_seconds and (said.unit == "SECOND" or schedule.runs_within_minutes(said)):
            raise DefinitionRefused(
                f"The schedule of materialized view {view}: interval time unit can not be second. "
                f"Write MINUTE, HOUR, DAY or WEEK, one second in cron, or set jobs.allow_second_schedules.",
                sqlstate="22023",
            )
        try:
            schedule.check(said, self._zone)
        except UnknownSchedule as error:
            raise DefinitionRefused(
                f"The schedule of materialized view {view}: {error}. Write for example EVERY 1 HOUR, or "
                f"CRON '0 4 * * *' for each day at four.",
                sqlstate="22023",
            ) from error

    def next_run(self, view_id: str) -> int | None:
        """When the view's schedule starts the next task: milliseconds since the epoch, past where it is due. None
        where no schedule refreshes it, or it is paused."""
        entry = self._catalog.find(view_id)
        said = entry.view.clauses.refreshing.schedule if entry and not entry.view.paused else None
        if entry is None or said is None:
            return None
        last = self._last(entry)
        known = self._due.get(view_id)
        if known is None or known[:2] != (said, last):
            known = self._due[view_id] = said, last, self._next(entry, said, last)
        return known[2]

    def _next(self, entry: Entry, said: Schedule, last: int) -> int | None:
        try:
            return schedule.next_run(said, min(entry.view.created_at, last), last, self._zone)
        except UnknownSchedule as error:
            # CREATE has taken it, but a later time zone file, or another version of this program, may not.
            log.error("The schedule of materialized view %s does not run: %s", entry.view.name, error)
            return None

    def _last(self, entry: Entry) -> int:
        """When the schedule was served last: then the view was refreshed, or made, or it was told to go on."""
        last, now = self._ran.get(entry.view.id), self._now_ms()
        if last is None:
            tasks = (task for _, task in reversed(entry.history.tasks) if task.cause.trigger is TriggerMode.SYSTEM)
            # The last one, not the latest: the clock may have been set back between them, or since the view was made.
            ran = next((task.created_at for task in tasks), 0)
            past = [each for each in (entry.view.job_since, entry.view.created_at) if 0 < each <= now]
            last = max([*past, ran]) or now
        # The clock was set back: what it showed before must not keep the job from running.
        self._ran[entry.view.id] = min(last, now)
        return self._ran[entry.view.id]

    def served(self, view_id: str) -> None:
        """A task was started for the schedule, or it was changed: moments up to now are past."""
        self._ran[view_id] = self._now_ms()
        self.sooner.set()

    def forget_dropped(self) -> None:
        """Keeps nothing of views that are no more."""
        for view_id in [each for each in {*self._ran, *self._due} if self._catalog.find(each) is None]:
            self._ran.pop(view_id, None)
            self._due.pop(view_id, None)

    def changed(self, view: MaterializedView) -> MaterializedView:
        """The view, whose job counts from now on."""
        return replace(view, job_since=self._now_ms())

    async def pause(self, entry: Entry, *, paused: bool) -> None:
        """PAUSE and RESUME. What was missed meanwhile is not made up for. Raises what the metastore raises."""
        await unbroken(self._store(entry, paused))

    async def _store(self, entry: Entry, paused: bool) -> None:
        async with entry.lock:
            await self._fence.check()
            view = self.changed(replace(entry.view, paused=paused))
            try:
                await self._metastore.run(maintenance.set_properties(view.storage, stored.write_job(view)))
            except FreshgateError as error:
                # Perhaps it is stored all the same, and the next start would find it.
                self._settlement.store(entry, error)
                raise
            # A refresh under way may have changed all else meanwhile.
            entry.pause(view.paused, view.job_since)
        self.served(entry.view.id)


def still_refreshed_though_paused(view: MaterializedView) -> str | None:
    """What PAUSE does not hold up, as a line for who has paused; None where it holds up all but REFRESH."""
    if view.when_stale is not WhenStale.REFRESH:
        return None
    return (
        f"Warning: PAUSE holds up schedules and changes alone. Reads still refresh materialized view {view.name}, "
        f"unless its property 'when_stale' is 'SERVE'"
    )


def is_automatic(entry: Entry, trigger: Trigger) -> bool:
    """Whether the view is there to be refreshed by that trigger now."""
    view = entry.view
    return entry.visible and not view.paused and view.clauses.refreshing.trigger is trigger
