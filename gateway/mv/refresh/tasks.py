"""The queues of refresh tasks: at most one task of a view runs at a time, and any number of readers share a task.

Each REFRESH statement gets a task of its own, behind those that already wait. For a view's schedule and its base tables
together, at most one task waits: when it begins, it sees all changes so far. Readers share an existing task if it
begins late enough to include what they must see.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

from gateway.errors import FreshgateError, NoSuchTask, RefreshFailed, Stopping
from gateway.mv.catalog.fence import Fence
from gateway.mv.catalog.index import Catalog
from gateway.mv.concurrency import gathered
from gateway.mv.freshness.entry import Entry
from gateway.mv.freshness.inquiry import Inquiry
from gateway.mv.model.view import Cause, MaterializedView, RefreshMode, TaskStatus, TriggerMode
from gateway.mv.observation.inspection import Inspector, Situation
from gateway.mv.refresh.diagnosis import BaseTableMissing
from gateway.mv.refresh.executor import Executor
from gateway.mv.refresh.progress import Progress, Report
from gateway.mv.refresh.publication import stopped
from gateway.mv.refresh.runs import Run
from gateway.mv.refresh.task_log import TaskLog
from gateway.mv.subscribers import Subscribers
from gateway.mv.versions.kept import LIMIT_EXCEEDED
from gateway.mv.versions.version_numbers import VersionNumbers
from gateway.tally import LONG_SECONDS, Histogram
from sql.statement import WhenStale

log = logging.getLogger(__name__)

GONE_SECONDS = 30.0
CHECKED_TOGETHER = 4
"""How many tasks of jobs observe their base tables at the same time. Clients' calls to the metastore, and those
of refreshes, must not wait behind a thousand views that are due together, nor behind storage that does not respond."""
LASTING_CLASSES = frozenset({"0A", "21", "22", "23", "2B", "38", "39", "42", "44", "46", "54", "55", "56", "P0"})
"""Classes of SQLSTATEs after which the same statement would fail again: it, or the data, is wrong."""
DISTURBED = "40001"
"""Something else changed the view, or left it doubtful, during the refresh."""
LASTING = frozenset({DISTURBED, LIMIT_EXCEEDED, "58030", "HY008", "HYT00"})
UNREACHED = frozenset({"08", "57"})
"""Classes of SQLSTATEs of a Spark that cannot be reached, and of a gateway that stops."""
COMPACTED_FROM = 16
"""From how many versions on, shown together, the rows are copied into one as soon as nothing else is to be done."""
AUTOMATIC = frozenset({TriggerMode.SYSTEM, TriggerMode.COMMIT})
NOBODY = "nobody waits for it any longer, or it was stopped"


@dataclass(frozen=True, slots=True)
class RefreshLimits:
    """When a refresh is tried again, and when it ends. Times are in seconds."""

    retries: int = 2
    """After an error that may be temporary: Spark was lost, or one of its tasks died. A read reports it at once."""
    retry_wait: float = 5.0
    """Before the first retry; the wait doubles for each further one. Spark is up again after 10 to 20 seconds."""
    timeout: float = 0.0
    """Of the refresh with all retries (`refresh.timeout`); 0: no limit."""


@dataclass(slots=True)
class _Queue:
    """The tasks of one view that have not ended."""

    running: Run | None = None
    waiting: deque[Run] = field(default_factory=deque)

    @property
    def runs(self) -> list[Run]:
        return [*([self.running] if self.running else []), *self.waiting]


def _histograms() -> dict[RefreshMode, Histogram]:
    return {mode: Histogram(LONG_SECONDS) for mode in RefreshMode if mode is not RefreshMode.NOT_REFRESH}


@dataclass(slots=True, eq=False)
class RefreshTally:
    """Counts refreshes that have ended since the start, by status and mode, and their durations at Spark."""

    ended: dict[tuple[TaskStatus, RefreshMode], int] = field(default_factory=dict)
    by_view: dict[str, Counter[TaskStatus]] = field(default_factory=dict)
    """By view id and status; only of views that exist."""
    seconds: dict[RefreshMode, Histogram] = field(default_factory=_histograms)

    def add(self, entry: Entry, number: int) -> None:
        """Counts a task of the view that has ended, if the view's history still has it."""
        task = entry.history.task(number)
        if task is None:
            return
        self.by_view.setdefault(entry.view.id, Counter())[task.status] += 1
        kind = task.status, task.mode
        self.ended[kind] = self.ended.get(kind, 0) + 1
        if task.started_at and task.mode is not RefreshMode.NOT_REFRESH:
            self.seconds[task.mode].add((task.finished_at - task.started_at) / 1000)


class _Stopped(Exception):
    """The awaited task was cancelled."""


class Tasks:
    """Queues and runs the refreshes of all views."""

    def __init__(
        self,
        catalog: Catalog,
        inspector: Inspector,
        executor: Executor,
        numbers: VersionNumbers,
        task_log: TaskLog,
        fence: Fence,
        limits: RefreshLimits,
    ) -> None:
        self._catalog = catalog
        self._inspector = inspector
        self._executor = executor
        self._numbers = numbers
        self._log = task_log
        self._fence = fence
        self._limits = limits
        self._queues: dict[str, _Queue] = {}
        self._stopping = False
        self._checking = asyncio.Semaphore(CHECKED_TOGETHER)
        self._sequence = count(1)
        self._gone: dict[str, tuple[tuple[int, int], float, str]] = {}
        """Views whose refresh failed because something is missing: the last event and the catalog's revision at that
        time, until when this counts, and the error."""
        self._failed: dict[str, Situation] = {}
        """What the tasks of changes found, if they were cancelled or failed for good: the last one of each view."""
        self.tally = RefreshTally()
        self.ended: Subscribers[[Entry, int]] = Subscribers()
        """Tasks that have ended, by their numbers in their views' histories."""

    @property
    def running(self) -> int:
        """How many refreshes are running."""
        return sum(queue.running is not None for queue in self._queues.values())

    @property
    def waiting(self) -> int:
        """How many refreshes wait for another one of their view."""
        return sum(len(queue.waiting) for queue in self._queues.values())

    # --- asking ------------------------------------------------------------------------------------

    async def make_fresh(self, view_id: str, cause: Cause, report: Report) -> None:
        """Returns when the current version contains every write that had ended when this was called, and every other
        change that the last observation of the base tables showed.

        Refreshes the views below first. Raises RefreshFailed (BaseTableMissing if a base table no longer exists),
        UpstreamLost, Stopping.
        """
        self._fence.raise_if_lost()
        await self._inspector.read_drafted([view_id])
        entry = self._catalog.entry(view_id)
        needed = entry.ledger.ended
        await self.make_bases_fresh(entry.view.views, cause, report)
        # Not earlier: a refresh that began before the bases were fresh may have read them stale.
        arrived = next(self._sequence)
        bases = {base: self._catalog.current(base) for base in entry.view.views}
        first = True
        while not await self._suffices(entry, needed, bases):
            run = self._shared(entry, cause, arrived, early=first)
            first = False
            late_enough = run.began_after(arrived) and run.cause.covers(cause)
            try:
                await self._wait(run, report)
            except _Stopped:
                self._raise_if_gone(run)
            except FreshgateError:
                # The failure of a refresh that began earlier, or had another purpose, does not concern the caller.
                if late_enough:
                    raise
            else:
                if late_enough:
                    return

    async def make_bases_fresh(self, views: Iterable[str], cause: Cause, report: Report) -> None:
        """Makes the views below a view fresh, those that do not read each other side by side. Raises what refreshes
        raise.

        For a schedule or a change, skips views that have a trigger of their own; for a lag, of those with lags only
        the ones that miss what the view must contain now.
        """
        below, now = Cause(TriggerMode.READ, cause.user, parent=cause.parent), self._catalog.inquiry()
        found = self._stale(views, now)
        if cause.trigger in AUTOMATIC:
            found = [each for each in found if _is_needed(each.view, cause, now)]
        for level in self._stale_levels(found, now):
            # Some may be fresh or gone meanwhile.
            stale = [entry.view.id for entry in self._stale(level, self._catalog.inquiry())]
            await gathered(self.make_fresh(view_id, below, report) for view_id in stale)

    def _stale(self, views: Iterable[str], now: Inquiry) -> list[Entry]:
        found = (self._catalog.find(view_id) for view_id in sorted(views))
        return [entry for entry in found if entry is not None and now.is_stale(entry.view.id)]

    def _stale_levels(self, entries: Sequence[Entry], now: Inquiry) -> list[list[str]]:
        """These and the stale views below them, from below: a view reads only views of earlier levels, unless it reads
        itself. Thousands may lie below each other."""
        levels, begun, pending = dict[str, int](), dict[str, list[Entry]](), list(entries)
        while pending:
            view = pending[-1].view
            if view.id in begun:
                levels[view.id] = 1 + max((levels.get(each.view.id, 0) for each in begun[view.id]), default=0)
                pending.pop()
            else:
                begun[view.id] = self._stale(view.views, now)
                pending += [each for each in begun[view.id] if each.view.id not in begun]
        found: dict[int, list[str]] = {}
        for view_id, level in levels.items():
            found.setdefault(level, []).append(view_id)
        return [found[level] for level in sorted(found)]

    async def refresh(self, view_id: str, cause: Cause, report: Report) -> None:
        """Executes REFRESH, with the base tables as they are when its turn comes. Returns when the version is
        published, or nothing was to be done. Raises what `make_fresh` raises."""
        self._fence.raise_if_lost()
        await self._inspector.read_drafted([view_id])
        run = self._add(self._catalog.entry(view_id), cause)
        try:
            await self._wait(run, report)
        except _Stopped:
            self._raise_if_gone(run)
            raise RefreshFailed(
                f"The refresh of materialized view {run.entry.view.name} was stopped (task {run.id}): the view was "
                f"emptied, or the gateway is being stopped. Run the statement again.",
                sqlstate="HY008",
            ) from None

    async def begin(self, view_id: str, cause: Cause) -> int:
        """As `refresh`, but does not wait; returns the id of the task."""
        await self._fence.check()
        await self._inspector.read_drafted([view_id])
        return self._add(self._catalog.entry(view_id), cause, kept=True).id

    def trigger(self, view_id: str, cause: Cause) -> bool:
        """Adds a task for a schedule or a change. Returns False if a waiting task will include the change."""
        entry = self._catalog.find(view_id)
        if entry is None or not entry.visible:
            return False
        queue = self._queues.get(view_id, _Queue())
        # A task that has not observed yet will see this change as well.
        pending = [run for run in queue.runs if run.cause.trigger in AUTOMATIC and not run.looked]
        if self._stopping or any(not run.stopping for run in pending):
            return False
        self._add(entry, cause, kept=True)
        return True

    def forget_automatic(self, view_id: str) -> None:
        """Drops tasks that wait for the view's job, because it was paused."""
        queue = self._queues.get(view_id, _Queue())
        for run in [run for run in queue.waiting if run.cause.trigger in AUTOMATIC and not run.reports]:
            self._drop(run)

    async def cancel(self, view_id: str, task_id: int, user: str) -> None:
        """Executes CANCEL: returns when the task has ended, at Spark as well. Raises NoSuchTask."""
        queue = self._queues.get(view_id, _Queue())
        run = next((run for run in queue.runs if run.id == task_id), None)
        if run is None:
            name = self._catalog.entry(view_id).view.name
            raise NoSuchTask(
                f"The materialized view {name} has no running task {task_id}. SELECT TaskId, Status FROM "
                f'tasks("type"="mv") WHERE MvName = \'{name.table}\' lists its tasks.'
            )
        run.stopped_by = user
        await self._stop_runs([run])

    def note_unchanged(self, view_id: str, cause: Cause) -> None:
        """Records a task for a view whose noted writes turned out to have changed nothing."""
        entry = self._catalog.find(view_id)
        if entry is not None:
            number, _ = self._log.begin(entry, cause)
            self._log.unchanged(entry, number)
            self._count(entry, number)

    def progress(self, view_id: str) -> Progress | None:
        """The progress of the view's running task; None if none is running."""
        queue = self._queues.get(view_id)
        return queue.running.progress if queue and queue.running else None

    def known_gone(self, view_id: str) -> str | None:
        """Why a refresh cannot succeed, if one has just failed because something that the definition reads is missing.

        It is tried again when something that the view reads has changed, or after GONE_SECONDS, because the table may
        come back unnoticed.
        """
        entry = self._catalog.find(view_id)
        gone = self._gone.get(view_id)
        if entry is None:
            self._gone.pop(view_id, None)
        if entry is None or gone is None or not entry.view.complete:
            return None
        seen, until, error = gone
        if seen != (entry.ledger.events, self._catalog.revision) or time.monotonic() > until:
            del self._gone[view_id]
            return None
        return error

    async def was_in_vain(self, view_id: str) -> bool:
        """Whether the last task that was started by a change failed for good or was cancelled, and nothing has changed
        since."""
        failed = self._failed.get(view_id)
        return failed is not None and failed == await self._inspector.situation(view_id)

    def forget_dropped(self) -> None:
        """Forgets dropped views."""
        known = {*self._failed, *self._gone, *self.tally.by_view}
        for view_id in [each for each in known if self._catalog.find(each) is None]:
            self.tally.by_view.pop(view_id, None)
            self._failed.pop(view_id, None)
            self._gone.pop(view_id, None)
        self._numbers.forget_dropped(self._queues)

    # --- ending ------------------------------------------------------------------------------------

    async def stop(self, view_id: str) -> None:
        """Cancels all tasks of the view; returns when they have ended."""
        if (queue := self._queues.get(view_id)) is not None:
            await self._stop_runs(queue.runs)

    async def stop_all(self) -> None:
        """Stops all tasks when the gateway stops; no further task begins."""
        self._stopping = True
        await self._stop_runs([run for queue in self._queues.values() for run in queue.runs])
        await self._log.stop()

    async def _stop_runs(self, runs: Iterable[Run]) -> None:
        stopping = list(runs)
        for run in reversed(stopping):
            self._drop(run)
        await asyncio.gather(*(asyncio.wait([run.work]) for run in stopping if run.work is not None))

    def _drop(self, run: Run) -> None:
        if run.stopping:
            return
        run.stopping = True
        if run.work is not None:
            run.work.cancel()
            return
        self._queues[run.entry.view.id].waiting.remove(run)
        self._log.fail(run.entry, run.number, TaskStatus.CANCELED, _why_stopped(run))
        self._count(run.entry, run.number)
        run.done.cancel()

    # --- waiting -----------------------------------------------------------------------------------

    async def _suffices(self, entry: Entry, needed: int, bases: dict[str, int]) -> bool:
        # Uses existing observations unless a write was noted since.
        await self._inspector.check([entry.view.id], float("-inf"))
        seen = entry.view.current.views
        return (
            entry.view.complete
            and not (entry.doubtful or entry.damage)
            and entry.ledger.contains >= needed
            and entry.drift is None
            and all(0 <= number <= seen.get(base, -1) for base, number in bases.items())
        )

    def _shared(self, entry: Entry, cause: Cause, arrived: int, *, early: bool) -> Run:
        """The task that a reader waits for: the running one if it may suffice (`early`), otherwise a waiting or a new
        one."""
        queue = self._queues.get(entry.view.id, _Queue())
        running = queue.running
        if running is not None and not running.stopping:
            late_enough = running.began_after(arrived) and running.cause.covers(cause)
            if early or late_enough:
                return running
        return next((run for run in queue.waiting if run.cause.covers(cause)), None) or self._add(entry, cause)

    async def _wait(self, run: Run, report: Report) -> None:
        """Raises the task's error, or _Stopped if it was cancelled."""
        run.join(report)
        try:
            await asyncio.shield(run.done)
        except asyncio.CancelledError:
            # The caller and the task may both have been cancelled.
            task = asyncio.current_task()
            if not run.done.cancelled() or (task is not None and task.cancelling()):
                raise
            raise _Stopped from None
        finally:
            run.leave(report)
            if not run.reports and not run.kept and not run.done.done():
                self._drop(run)

    def _raise_if_gone(self, run: Run) -> None:
        """Returns if the caller should try again after its task was stopped; raises if it was stopped on purpose."""
        view = run.entry.view
        if run.stopped_by is not None:
            raise RefreshFailed(
                f"The refresh of materialized view {view.name} was {_why_stopped(run)} (task {run.id}). "
                f"Run the statement again.",
                sqlstate="HY008",
            )
        if self._catalog.find(view.id) is not run.entry:
            raise stopped(view)

    # --- running -----------------------------------------------------------------------------------

    def _add(self, entry: Entry, cause: Cause, *, kept: bool = False) -> Run:
        if self._stopping:
            raise Stopping("The gateway is being stopped. Connect again in a few seconds.")
        number, task = self._log.begin(entry, cause)
        run = Run(entry, number, task.id, cause, kept)
        queue = self._queues.setdefault(entry.view.id, _Queue())
        queue.waiting.append(run)
        self._next(queue)
        return run

    def _next(self, queue: _Queue) -> None:
        if queue.running is not None or not queue.waiting:
            return
        run = queue.running = queue.waiting.popleft()
        run.sequence = next(self._sequence)
        run.work = asyncio.create_task(self._work(run), name=f"refresh {run.entry.view.name}", context=run.context)
        # A callback, because a coroutine that is cancelled before its first step never runs.
        run.work.add_done_callback(lambda _: self._ended(queue, run))

    def _ended(self, queue: _Queue, run: Run) -> None:
        if not run.done.done():
            if run.stopped_by is not None:
                self._remember(run)
            self._log.fail(run.entry, run.number, TaskStatus.CANCELED, _why_stopped(run))
            run.done.cancel()
        self._count(run.entry, run.number)
        queue.running = None
        self._next(queue)
        if queue.running is None:
            self._queues.pop(run.entry.view.id, None)
            if self._is_scattered(run):
                self._add(run.entry, Cause(TriggerMode.READ, run.cause.user, compacts=True), kept=True)

    def _count(self, entry: Entry, number: int) -> None:
        self.tally.add(entry, number)
        self.ended.tell(entry, number)

    def _is_scattered(self, run: Run) -> bool:
        """Whether a refresh has left a view's rows in many versions, and readers would have to wait for a refresh that
        copies them into one."""
        view, failed = run.entry.view, run.done.cancelled() or run.done.exception() is not None
        if failed or self._stopping or run.cause.compacts or self._catalog.find(view.id) is not run.entry:
            return False
        many = view.current.shown.versions >= COMPACTED_FROM and not view.layout.partitioned
        return many and view.complete and view.when_stale is WhenStale.REFRESH and self._fence.lost is None

    async def _work(self, run: Run) -> None:
        entry = run.entry
        try:
            await self._in_time(run)
        except FreshgateError as error:
            if isinstance(error, BaseTableMissing):
                seen = entry.ledger.events, self._catalog.revision
                self._gone[entry.view.id] = seen, time.monotonic() + GONE_SECONDS, str(error)
            if not may_pass(error) and error.sqlstate != DISTURBED:
                self._remember(run)
            if error.sqlstate[:2] in UNREACHED:
                entry.history.excuse(run.number)
            self._log.fail(entry, run.number, TaskStatus.FAILED, str(error))
            log.warning("%s", error)
            run.done.set_exception(error)
        except Exception as error:  # A bug must not leave clients waiting for ever.
            log.exception("the refresh of %s failed unexpectedly", entry.view.name)
            self._log.fail(entry, run.number, TaskStatus.FAILED, repr(error))
            run.done.set_exception(RefreshFailed(f"The gateway failed: {error!r}. Look into its log.", "58005"))
        else:
            self._failed.pop(entry.view.id, None)
            run.done.set_result(None)

    def _remember(self, run: Run) -> None:
        """Prevents changes from starting such a task again until it would find something else."""
        # If the view is doubtful, the next refresh is needed in any case, to resolve that.
        if run.situation is not None and not run.entry.doubtful:
            self._failed[run.entry.view.id] = run.situation

    async def _in_time(self, run: Run) -> None:
        try:
            async with asyncio.timeout(None) as run.limit:
                run.limit_seconds = self._limits.timeout
                await self._tries(run)
        except TimeoutError:
            raise RefreshFailed(
                f"The refresh of materialized view {run.entry.view.name} took longer than {self._limits.timeout:g} s "
                f"and was cancelled. Raise the setting refresh.timeout, or give Spark more resources.",
                sqlstate="HYT00",
            ) from None

    async def _tries(self, run: Run) -> None:
        retries = 0 if run.cause.trigger is TriggerMode.READ else self._limits.retries
        for attempt in range(retries + 1):
            try:
                await self._once(run)
            except FreshgateError as error:
                gone = self._catalog.find(run.entry.view.id) is not run.entry
                if attempt == retries or gone or not may_pass(error):
                    raise
                pause = self._limits.retry_wait * 2**attempt
                log.warning("%s Trying again in %g s.", error, pause)
                run(f"{run.entry.view.name}: {error} Trying again in {pause:g} s.")
                await asyncio.sleep(pause)
                run.begin_again()
            else:
                return

    async def _once(self, run: Run) -> None:
        entry, cause = run.entry, run.cause
        self._fence.raise_if_lost()
        if cause.trigger is not TriggerMode.READ:
            cause = replace(cause, not_before=time.monotonic())
            async with self._checking if cause.trigger in AUTOMATIC else contextlib.nullcontext():
                await self._inspector.check([entry.view.id], cause.not_before)
                if cause.trigger is TriggerMode.COMMIT:
                    run.situation = await self._inspector.situation(entry.view.id)
            await self.make_bases_fresh(entry.view.views, cause, run)

        async def make_fresh(views: Iterable[str]) -> None:
            await self.make_bases_fresh(views, cause, run)

        await self._executor.run(run, cause, make_fresh)


def _is_needed(view: MaterializedView, cause: Cause, now: Inquiry) -> bool:
    """Whether a stale view is refreshed first when a view above it is refreshed by its own job."""
    if not view.complete or view.clauses.refreshing.follows:
        return True
    missed = now.staleness(view.id) if view.keeps_lag and cause.reaches else None
    return missed is not None and missed.since <= cause.reaches


def may_pass(error: FreshgateError) -> bool:
    """Whether the same statement may succeed a few seconds later."""
    return error.sqlstate not in LASTING and error.sqlstate[:2] not in LASTING_CLASSES


def _why_stopped(run: Run) -> str:
    return NOBODY if run.stopped_by is None else f"cancelled by {run.stopped_by or 'a user without a name'}"
