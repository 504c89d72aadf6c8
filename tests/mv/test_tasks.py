"""Queues of tasks and the scheduler: refreshes end when the test says, and the clock is its own.

On real Spark no test can choose what happens while a refresh runs, or what time it is.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Container, Coroutine, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, cast
from zoneinfo import ZoneInfo

import pytest
from views import given, view_of

from gateway.errors import DefinitionRefused, FreshgateError, NoSuchTask, RefreshFailed, StatementFailed, Stopping
from gateway.mv.catalog.fence import Fence, Superseded
from gateway.mv.catalog.index import Catalog
from gateway.mv.freshness.entry import Entry
from gateway.mv.freshness.ledger import Ledger, TablesWritten
from gateway.mv.jobs.jobs import RefreshJobs, still_refreshed_though_paused
from gateway.mv.jobs.scheduler import Scheduler
from gateway.mv.model.history import History
from gateway.mv.model.view import Cause, TaskStatus, TriggerMode, Version
from gateway.mv.observation.inspection import Inspector, Situation
from gateway.mv.refresh.progress import Lines
from gateway.mv.refresh.runs import Run
from gateway.mv.refresh.task_log import TaskLog
from gateway.mv.refresh.tasks import CHECKED_TOGETHER, RefreshLimits, Tasks
from sql.names import TableName
from sql.statement import CreateClauses, Method, Refreshing, Schedule, Trigger

MANUAL = Cause(TriggerMode.MANUAL, "ann", complete=True)
READ = Cause(TriggerMode.READ, "bob")
NO_TRIES = RefreshLimits(0, 0, 0)
BY_READS = Refreshing()
HOURLY = Refreshing(None, Trigger.SCHEDULE, Schedule(1, "HOUR"))
ON_COMMIT = Refreshing(None, Trigger.COMMIT)
HOUR = 3_600_000
TABLE = TableName("d", "t")


class Free:
    """A fence that nobody else has taken, a metastore that stores nothing, and looks that show nothing new."""

    lost: str | None = None

    def raise_if_lost(self) -> None:
        if self.lost is not None:
            raise Superseded(self.lost)

    async def check(self, views: Iterable[str] = (), *_: object) -> None:
        self.checked += 1
        if set(views) & self.unanswered:
            await asyncio.Event().wait()

    checked = 0
    unanswered: frozenset[str] = frozenset()
    """Views of which a look comes to no end."""

    async def read_drafted(self, views: Iterable[str]) -> None: ...

    async def situation(self, view_id: str) -> Situation | None:
        return self.found

    found: Situation | None = None

    async def run(self, sql: str) -> Free:
        return self

    rows = ((0,),)


@dataclass
class Stage:
    """Refreshes wait for `let`; each takes the next outcome: a version, or an error."""

    outcomes: dict[str, list[FreshgateError | None]] = field(default_factory=dict)
    began: list[tuple[str, TriggerMode]] = field(default_factory=list)
    gates: dict[str, asyncio.Semaphore] = field(default_factory=dict)
    refreshed: set[str] = field(default_factory=set)
    """Views that were being refreshed when those that were dropped were to be forgotten last."""
    published: Any = None
    log: Any = None

    def let(self, view: str, *outcomes: FreshgateError | None) -> None:
        """As many more refreshes of the view may end so."""
        for outcome in outcomes or (None,):
            self.outcomes.setdefault(view, []).append(outcome)
            self._gate(view).release()

    def _gate(self, view: str) -> asyncio.Semaphore:
        return self.gates.setdefault(view, asyncio.Semaphore(0))

    # --- what `Tasks` asks of an executor, and of the numbers of versions

    def forget_dropped(self, refreshed: Container[str]) -> None:
        self.refreshed = {view_id for view_id in self.gates if view_id in refreshed}

    async def run(self, run: Run, cause: Cause, make_fresh: object) -> None:
        entry = run.entry
        self.began.append((entry.view.id, cause.trigger))
        run.begin_work()
        contains = entry.ledger.events
        await self._gate(entry.view.id).acquire()
        outcome = self.outcomes[entry.view.id].pop(0)
        if outcome is not None:
            raise outcome
        self.log.succeed(entry, self.log.written(entry, run.number, 2))
        entry.ledger.publish(contains)
        self.published(entry.view.id)


class RefreshedViews:
    """Views v, w, … that read d.t; `above` reads v."""

    def __init__(self, limits: RefreshLimits = NO_TRIES) -> None:
        self.now = 1_700_000_000_000
        free = cast(Any, Free())
        self.stage, self.free = Stage(), free
        self.catalog = Catalog("s", cast(Fence, free), self.time)
        self.log = TaskLog(self.catalog, free, free, free, self.time)
        self.stage.log = self.log
        inspector = cast(Inspector, free)
        stage = cast(Any, self.stage)
        self.tasks = Tasks(self.catalog, inspector, stage, stage, self.log, free, limits)
        self.jobs = RefreshJobs(self.catalog, free, free, free, ZoneInfo("UTC"), allow_seconds=True, now_ms=self.time)
        self.scheduler = Scheduler(self.catalog, self.jobs, self.tasks, inspector, free, 0, self.time)
        self.stage.published = self.scheduler.published
        self.catalog.news.stale.add(self.scheduler.changed)

    def time(self) -> int:
        return self.now

    def add(
        self,
        view_id: str,
        refreshing: Refreshing = BY_READS,
        reads: Mapping[str, int] | None = None,
        tables: frozenset[TableName] = frozenset(),
    ) -> Entry:
        version = Version.whole(1, 0, 0, dict(reads or {}))
        view = replace(
            view_of(version),
            id=view_id,
            name=TableName("d", view_id),
            tables=tables if reads else frozenset({TABLE}),
            views=frozenset(reads or {}),
            clauses=CreateClauses(refreshing=refreshing),
            created_at=self.now,
        )
        entry = self.catalog.reserve(view)
        entry.record()
        self.catalog.show(entry)
        return entry

    async def write(self) -> None:
        """d.t is written through the gateway."""
        write = TablesWritten(frozenset({"insert", "t"}), frozenset({TABLE}))
        self.catalog.writes.begin(write)
        self.catalog.writes.send(write)
        self.catalog.writes.end(write)

    def told(self, view_id: str) -> list[tuple[str, str]]:
        """Trigger and status of each of the view's tasks."""
        tasks = self.catalog.entry(view_id).history.tasks
        return [(task.cause.trigger.value, task.status.value) for _, task in tasks]

    def statuses(self, view_id: str) -> list[str]:
        return [status for _, status in self.told(view_id)]


async def settled() -> None:
    """Everything that can go on without the test has gone on. No time passes: each step is one pass of the loop."""
    for _ in range(50):
        await asyncio.sleep(0)


def play(story: Coroutine[Any, Any, None]) -> None:
    async def in_time() -> None:
        async with asyncio.timeout(20):
            await story

    asyncio.run(in_time())


silent = Lines(lambda _: None)


# --- queues ----------------------------------------------------------------------------------------------


def test_manual_tasks_queue_and_one_automatic_task_waits() -> None:
    async def story() -> None:
        made = RefreshedViews()
        made.add("v")
        first = asyncio.create_task(made.tasks.refresh("v", MANUAL, silent))
        await settled()
        commit = Cause(TriggerMode.COMMIT, "d.t")
        assert [made.tasks.trigger("v", commit) for _ in range(3)] == [True, False, False]
        assert not made.tasks.trigger("v", Cause(TriggerMode.SYSTEM, "EVERY 1 HOUR"))
        second = asyncio.create_task(made.tasks.refresh("v", MANUAL, silent))
        third = await made.tasks.begin("v", MANUAL)
        await settled()
        assert [trigger for trigger, _ in made.told("v")] == ["MANUAL", "COMMIT", "MANUAL", "MANUAL"]
        assert len(made.stage.began) == 1
        # The waiting one begins, and looks: of what comes from now on it knows nothing.
        made.stage.let("v")
        await first
        await settled()
        assert made.tasks.trigger("v", commit)
        made.stage.let("v", None, None, None, None)
        await second
        await settled()
        triggers = [trigger.value for _, trigger in made.stage.began]
        assert triggers == ["MANUAL", "COMMIT", "MANUAL", "MANUAL", "COMMIT"]
        assert made.statuses("v") == ["SUCCESS"] * 5
        assert third in {task.id for _, task in made.catalog.entry("v").history.tasks}

    play(story())


def test_a_reader_does_not_fail_with_a_strict_refresh() -> None:
    """It asked for rows that are fresh, by whatever method."""

    async def story() -> None:
        made = RefreshedViews()
        made.add("v")
        await made.write()
        strict = replace(MANUAL, complete=False, method=Method.INCREMENTAL)
        refreshes = [asyncio.create_task(made.tasks.refresh("v", strict, silent)) for _ in range(2)]
        await settled()
        reader = asyncio.create_task(made.tasks.make_fresh("v", READ, silent))
        await settled()
        made.stage.let("v", *[RefreshFailed("ROWS_REMOVED")] * 2, None)
        assert [type(end) for end in await asyncio.gather(*refreshes, return_exceptions=True)] == [RefreshFailed] * 2
        await reader
        assert [trigger for _, trigger in made.stage.began] == ["MANUAL", "MANUAL", "READ"]

    play(story())


def test_a_schedule_leaves_the_method_to_the_view() -> None:
    async def story() -> None:
        made = RefreshedViews()
        for number, method in enumerate([None, *Method]):
            made.add(f"v{number}", replace(HOURLY, method=method))
        made.now += HOUR
        made.scheduler.run_due()
        await settled()
        causes = [made.catalog.entry(f"v{number}").history.tasks[0][1].cause for number in range(5)]
        assert [cause.complete for cause in causes] == [False, False, True, False, False]
        assert {cause.method for cause in causes} == {None}

    play(story())


def test_a_refresh_waits_for_no_looks_of_jobs() -> None:
    """Their base tables may lie in storage that does not answer."""

    async def story() -> None:
        made = RefreshedViews()
        jobs = [f"v{number}" for number in range(6)]
        made.free.unanswered = frozenset(jobs)
        for job in jobs:
            made.add(job)
            assert made.tasks.trigger(job, Cause(TriggerMode.SYSTEM, "EVERY 1 HOUR"))
        made.add("w")
        await settled()
        assert made.free.checked == CHECKED_TOGETHER
        refresh = asyncio.create_task(made.tasks.refresh("w", MANUAL, silent))
        await settled()
        assert made.stage.began == [("w", TriggerMode.MANUAL)]
        made.stage.let("w")
        await refresh
        await made.tasks.stop_all()

    play(story())


def test_readers_share_a_task() -> None:
    async def story() -> None:
        made = RefreshedViews()
        made.add("v")
        await made.write()
        readers = [asyncio.create_task(made.tasks.make_fresh("v", READ, silent)) for _ in range(20)]
        await settled()
        assert len(made.stage.began) == 1
        made.stage.let("v")
        await asyncio.gather(*readers)
        assert made.statuses("v") == ["SUCCESS"]
        # What ended before its refresh began is in it; what ends while it runs is not.
        await made.write()
        early = asyncio.create_task(made.tasks.make_fresh("v", READ, silent))
        await settled()
        await made.write()
        late = [asyncio.create_task(made.tasks.make_fresh("v", READ, silent)) for _ in range(20)]
        await settled()
        made.stage.let("v")
        await early
        await settled()
        assert [reader.done() for reader in late] == [False] * 20
        made.stage.let("v")
        await asyncio.gather(*late)
        assert made.statuses("v") == ["SUCCESS"] * 3

    play(story())


def test_a_task_goes_on_for_those_who_are_left() -> None:
    async def story() -> None:
        made = RefreshedViews()
        made.add("v")
        await made.write()
        leaving, staying = (asyncio.create_task(made.tasks.make_fresh("v", READ, silent)) for _ in range(2))
        await settled()
        leaving.cancel()
        await settled()
        assert made.statuses("v") == ["PENDING"]
        made.stage.let("v")
        await staying
        # The last one takes it along; a waiting one, too.
        await made.write()
        alone = asyncio.create_task(made.tasks.make_fresh("v", READ, silent))
        await settled()
        waiting = asyncio.create_task(made.tasks.refresh("v", MANUAL, silent))
        await settled()
        for task in (waiting, alone):
            task.cancel()
        await settled()
        assert made.statuses("v") == ["SUCCESS", "CANCELED", "CANCELED"]
        # What a trigger asked for needs nobody.
        await made.tasks.begin("v", MANUAL)
        await settled()
        reader = asyncio.create_task(made.tasks.make_fresh("v", READ, silent))
        await settled()
        reader.cancel()
        made.stage.let("v")
        await settled()
        assert made.statuses("v")[-1] == "SUCCESS"

    play(story())


def test_a_cancelled_task_tells_those_who_wait() -> None:
    async def story() -> None:
        made = RefreshedViews()
        made.add("v")
        await made.write()
        reader = asyncio.create_task(made.tasks.make_fresh("v", READ, silent))
        await settled()
        ((_, task),) = made.catalog.entry("v").history.tasks
        await made.tasks.cancel("v", task.id, "ann")
        with pytest.raises(RefreshFailed, match="cancelled by ann") as raised:
            await reader
        assert raised.value.sqlstate == "HY008"
        with pytest.raises(NoSuchTask, match="no running task"):
            await made.tasks.cancel("v", task.id, "ann")
        with pytest.raises(NoSuchTask):
            await made.tasks.cancel("v", 1, "ann")

    play(story())


def test_views_below_are_refreshed_side_by_side() -> None:
    """Each as soon as all below it are fresh; a ladder has a million ways down."""

    async def story() -> None:
        made, layers = RefreshedViews(), [("a0", "b0")]
        for view_id in layers[0]:
            made.add(view_id)
        for number in range(1, 20):
            below = dict.fromkeys(layers[-1], 1)
            layers.append((f"a{number}", f"b{number}"))
            for view_id in layers[-1]:
                made.add(view_id, reads=below, tables=frozenset({TABLE}))
        made.add("top", reads=dict.fromkeys(layers[-1], 1), tables=frozenset({TABLE}))
        await made.write()
        reader = asyncio.create_task(made.tasks.make_fresh("top", READ, silent))
        for layer in layers:
            await settled()
            assert sorted(view_id for view_id, _ in made.stage.began[-2:]) == list(layer)
            for view_id in layer:
                made.stage.let(view_id)
        await settled()
        made.stage.let("top")
        await reader
        assert len(made.stage.began) == 2 * len(layers) + 1

    play(story())


def test_hundreds_of_views_below_each_other() -> None:
    async def story() -> None:
        made = RefreshedViews()
        made.add("v0")
        for number in range(1, 300):
            made.add(f"v{number}", reads={f"v{number - 1}": 1}, tables=frozenset({TABLE}))
        await made.write()
        for number in range(300):
            made.stage.let(f"v{number}")
        await made.tasks.make_fresh("v299", READ, silent)
        assert [view_id for view_id, _ in made.stage.began] == [f"v{number}" for number in range(300)]

    play(story())


def test_the_failure_of_an_earlier_task_is_not_a_later_readers() -> None:
    async def story() -> None:
        made = RefreshedViews()
        made.add("v")
        await made.write()
        early = asyncio.create_task(made.tasks.make_fresh("v", READ, silent))
        await settled()
        late = asyncio.create_task(made.tasks.make_fresh("v", READ, silent))
        await settled()
        made.stage.let("v", StatementFailed("bad row", "22012"))
        with pytest.raises(StatementFailed):
            await early
        made.stage.let("v")
        await late
        assert made.statuses("v") == ["FAILED", "SUCCESS"]

    play(story())


def test_tries_and_the_time_limit() -> None:
    async def story() -> None:
        made = RefreshedViews(RefreshLimits(2, 0, 0))
        made.add("v")
        passing, lasting = StatementFailed("a node died", "HY000"), StatementFailed("no such column", "42703")
        made.stage.let("v", passing, passing, None)
        heard: list[str] = []
        await made.tasks.refresh("v", MANUAL, Lines(heard.append))
        assert len(made.stage.began) == 3
        assert sum("Trying again" in line for line in heard) == 2
        made.stage.let("v", lasting)
        with pytest.raises(StatementFailed):
            await made.tasks.refresh("v", MANUAL, silent)
        # Who reads hears of it at once.
        await made.write()
        made.stage.let("v", passing)
        with pytest.raises(StatementFailed):
            await made.tasks.make_fresh("v", READ, silent)
        assert made.statuses("v") == ["SUCCESS", "FAILED", "FAILED"]
        short = RefreshedViews(RefreshLimits(2, 0, 0.01))
        short.add("v")
        with pytest.raises(RefreshFailed, match="longer than 0"):
            await short.tasks.refresh("v", MANUAL, silent)
        assert short.statuses("v") == ["FAILED"]

    play(story())


def test_a_task_that_is_stopped_before_its_first_step() -> None:
    async def story() -> None:
        made = RefreshedViews()
        made.add("v")
        number = await made.tasks.begin("v", MANUAL)
        await made.tasks.cancel("v", number, "ann")
        assert made.statuses("v") == ["CANCELED"]
        assert made.stage.began == []
        made.stage.let("v")
        await made.tasks.refresh("v", MANUAL, silent)
        assert made.statuses("v") == ["CANCELED", "SUCCESS"]

    play(story())


def test_nothing_begins_once_the_gateway_ends() -> None:
    async def story() -> None:
        made = RefreshedViews()
        made.add("v", ON_COMMIT)
        await made.write()
        readers = [asyncio.create_task(made.tasks.make_fresh("v", READ, silent)) for _ in range(3)]
        manual = asyncio.create_task(made.tasks.refresh("v", MANUAL, silent))
        await settled()
        await made.tasks.stop_all()
        for reader in readers:
            with pytest.raises(Stopping, match="being stopped") as told:
                await reader
            assert told.value.sqlstate == "57P01"
        with pytest.raises(RefreshFailed, match="was stopped"):
            await manual
        await made.write()
        assert set(made.statuses("v")) == {"CANCELED"}

    play(story())


def test_a_dropped_view_ends_its_tasks() -> None:
    async def story() -> None:
        made = RefreshedViews()
        entry = made.add("v")
        waiting = [asyncio.create_task(made.tasks.refresh("v", MANUAL, silent)) for _ in range(3)]
        await settled()
        made.catalog.remove(entry)
        await made.tasks.stop("v")
        for each in waiting:
            with pytest.raises(RefreshFailed, match="dropped or replaced"):
                await each
        assert [task.status for _, task in entry.history.tasks] == [TaskStatus.CANCELED] * 3
        assert not made.tasks.trigger("v", MANUAL)

    play(story())


def test_a_dropped_view_is_forgotten_once_its_tasks_are_gone() -> None:
    async def story() -> None:
        made = RefreshedViews()
        entry = made.add("v")
        refresh = asyncio.create_task(made.tasks.refresh("v", MANUAL, silent))
        await settled()
        made.catalog.remove(entry)
        made.scheduler.run_due()
        assert made.stage.refreshed == {"v"}
        await made.tasks.stop("v")
        with pytest.raises(RefreshFailed):
            await refresh
        made.add("w")
        made.scheduler.run_due()
        assert made.stage.refreshed == set()

    play(story())


# --- schedules and changes -------------------------------------------------------------------------------


def test_a_schedule_runs_once_for_all_that_was_missed() -> None:
    async def story() -> None:
        made = RefreshedViews()
        made.add("v", HOURLY)
        assert made.jobs.next_run("v") == made.now + HOUR
        assert made.scheduler.run_due() == 30
        made.now += HOUR - 10_000
        assert made.scheduler.run_due() == 10
        assert made.stage.began == []
        made.now += 10_000
        made.scheduler.run_due()
        await settled()
        assert made.told("v") == [("SYSTEM", "PENDING")]
        assert made.jobs.next_run("v") == made.now + HOUR
        made.stage.let("v")
        await settled()
        made.now += 100 * HOUR + 5
        made.scheduler.run_due()
        made.scheduler.run_due()
        await settled()
        assert [trigger for trigger, _ in made.told("v")] == ["SYSTEM", "SYSTEM"]
        assert made.jobs.next_run("v") == made.now - 5 + HOUR

    play(story())


def test_a_schedule_survives_a_restart_and_a_clock_that_is_set() -> None:
    async def story() -> None:
        made = RefreshedViews()
        entry = made.add("v", HOURLY)
        made.now += HOUR
        made.scheduler.run_due()
        made.stage.let("v")
        await settled()
        # Another gateway with the same catalog knows the task, and so when it ran.
        free = cast(Any, Free())
        after = RefreshJobs(made.catalog, free, free, free, ZoneInfo("UTC"), allow_seconds=True)
        assert after.next_run("v") == made.now + HOUR
        assert len(entry.history.tasks) == 1
        # Back by a day: it goes on by the new time.
        made.now -= 24 * HOUR
        due = made.jobs.next_run("v")
        assert due is not None
        assert made.now < due <= made.now + HOUR
        made.now = due
        made.scheduler.run_due()
        await settled()
        assert len(entry.history.tasks) == 2
        # Started again after an hour and a half, on the clock that was set back: one run was missed.
        made.now += HOUR + HOUR // 2
        again = RefreshJobs(
            *(made.catalog, free, free, free, ZoneInfo("UTC")),
            allow_seconds=True,
            now_ms=made.time,
        )
        assert again.next_run("v") == due + HOUR

    play(story())


def test_a_schedule_that_cannot_be_counted_stops_no_other() -> None:
    async def story() -> None:
        made = RefreshedViews()
        made.add("bad", Refreshing(None, Trigger.SCHEDULE, Schedule(cron="99 * * * *")))
        made.add("far", Refreshing(None, Trigger.SCHEDULE, Schedule(999_999, "WEEK")))
        made.add("v", HOURLY)
        made.now += HOUR
        made.scheduler.run_due()
        await settled()
        assert [view for view, _ in made.stage.began] == ["v"]
        assert made.jobs.next_run("bad") is None
        with pytest.raises(DefinitionRefused, match="cannot be computed"):
            made.jobs.check(TableName("d", "x"), Refreshing(None, Trigger.SCHEDULE, Schedule(999_999, "WEEK")))

    play(story())


def test_a_paused_job_misses_its_runs() -> None:
    async def story() -> None:
        made = RefreshedViews()
        entry = made.add("v", HOURLY)
        await made.jobs.pause(entry, paused=True)
        made.now += 5 * HOUR
        made.scheduler.run_due()
        await settled()
        assert made.told("v") == []
        assert made.jobs.next_run("v") is None
        await made.jobs.pause(entry, paused=False)
        assert made.jobs.next_run("v") == made.now + HOUR
        changed = replace(entry.view.clauses, refreshing=replace(HOURLY, schedule=Schedule(2, "HOUR")))
        given(entry, clauses=changed)
        made.jobs.served("v")
        assert made.jobs.next_run("v") == made.now + HOUR

    play(story())


def test_a_pause_says_that_reads_go_on() -> None:
    async def story() -> None:
        made = RefreshedViews()
        by_reads, hourly, warm = made.add("v"), made.add("w", HOURLY), made.add("x", HOURLY)
        given(warm, properties={"when_stale": "REFRESH"})
        said = [still_refreshed_though_paused(entry.view) for entry in (by_reads, hourly, warm)]
        assert [line and line.split("view ")[1].split(",")[0] for line in said] == ["d.v", None, "d.x"]

    play(story())


def test_changes_go_up() -> None:
    """They pass through ON COMMIT views and views of which nothing says when, and no further."""

    async def story() -> None:
        made = RefreshedViews()
        made.add("low", ON_COMMIT)
        made.add("plain", reads={"low": 1})
        made.add("top", replace(ON_COMMIT, method=Method.COMPLETE), reads={"plain": 1})
        made.add("by_hand", Refreshing(None, Trigger.MANUAL), reads={"low": 1})
        made.add("over_hand", ON_COMMIT, reads={"by_hand": 1})
        made.add("side", ON_COMMIT)
        await made.jobs.pause(made.catalog.entry("side"), paused=True)
        await made.write()
        await settled()
        assert made.stage.began == [("low", TriggerMode.COMMIT)]
        made.stage.let("low")
        await settled()
        assert made.stage.began[1:] == [("top", TriggerMode.COMMIT)]
        ((_, task),) = made.catalog.entry("top").history.tasks
        assert (task.cause.user, task.cause.complete) == ("d.low", True)
        made.stage.let("top")
        made.stage.let("by_hand")
        await made.tasks.begin("by_hand", MANUAL)
        await settled()
        assert made.stage.began[2:] == [("by_hand", TriggerMode.MANUAL), ("over_hand", TriggerMode.COMMIT)]

    play(story())


def test_what_changed_while_no_gateway_ran() -> None:
    async def story() -> None:
        made = RefreshedViews()
        for view, refreshing in (("v", ON_COMMIT), ("w", ON_COMMIT), ("x", Refreshing())):
            made.add(view, refreshing)
        for view in ("v", "x"):
            made.catalog.entry(view).ledger.touch(made.now, frozenset({TABLE}))
        made.scheduler.start()
        await settled()
        await made.scheduler.stop()
        assert made.stage.began == [("v", TriggerMode.COMMIT)]

    play(story())


def test_a_watch_waits_for_a_change_after_an_error_that_lasts() -> None:
    """As long as what the view reads looks as it did when the refresh began."""

    async def story() -> None:
        made = RefreshedViews()
        made.add("v", ON_COMMIT)
        lasting, passing = StatementFailed("division by zero", "22012"), StatementFailed("a node died", "HY000")

        async def refreshes_of_looks(number: int, *outcomes: FreshgateError | None) -> int:
            before = len(made.stage.began)
            for _ in range(number):
                await made.scheduler.look(0)
                await settled()
                if outcomes:
                    made.stage.let("v", *outcomes)
                    await settled()
            return len(made.stage.began) - before

        made.free.found = {"v": ("as it was",)}
        await made.write()
        await settled()
        made.stage.let("v", lasting)
        await settled()
        assert await refreshes_of_looks(3) == 0
        # It looks otherwise: once more.
        made.free.found = {"v": ("changed elsewhere",)}
        assert await refreshes_of_looks(1, lasting) == 1
        assert await refreshes_of_looks(3) == 0
        # Through the gateway: at once.
        await made.write()
        await settled()
        made.stage.let("v", passing)
        await settled()
        assert len(made.stage.began) == 3
        # What may pass by itself, and what cannot be looked at, is tried at each look.
        made.free.found = {"v": ("once more",)}
        assert await refreshes_of_looks(3, passing) == 3
        made.free.found = None
        assert await refreshes_of_looks(3, lasting) == 3
        made.free.found = {"v": ("the last",)}
        assert await refreshes_of_looks(1, lasting) == 1
        made.catalog.entry("v").doubt()
        made.free.found = {"v": ("uncertain",)}
        assert await refreshes_of_looks(2, lasting) == 2

    play(story())


def test_a_watch_starts_no_task_again_that_was_cancelled() -> None:
    async def story() -> None:
        made = RefreshedViews()
        made.add("v", ON_COMMIT)
        made.free.found = {"v": ("as it was",)}
        await made.write()
        await settled()
        *_, (_, task) = made.catalog.entry("v").history.tasks
        await made.tasks.cancel("v", task.id, "ann")
        begun = len(made.stage.began)
        await made.scheduler.look(0)
        await settled()
        assert len(made.stage.began) == begun
        made.free.found = {"v": ("changed elsewhere",)}
        await made.scheduler.look(0)
        await settled()
        assert len(made.stage.began) == begun + 1

    play(story())


def test_a_watch_asks_each_view_below_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many ways lead down to it."""

    async def story() -> None:
        made = RefreshedViews()
        below = [made.add(f"v0{side}").view.id for side in "ab"]
        for layer in range(1, 12):
            reads = dict.fromkeys(below, 1)
            below = [made.add(f"v{layer}{side}", reads=reads).view.id for side in "ab"]
        made.add("top", ON_COMMIT, reads=dict.fromkeys(below, 1))
        asked = Counter[int]()

        def stale(ledger: Ledger) -> bool:
            asked[id(ledger)] += 1
            return ledger.ended > ledger.contains

        monkeypatch.setattr(Ledger, "stale", property(stale))
        await made.scheduler.look(0.0)
        assert made.told("top") == []
        assert set(asked.values()) == {1}
        assert len(asked) == len(made.catalog)
        made.catalog.entry("v0b").ledger.touch(made.now, frozenset({TABLE}))
        await made.scheduler.look(0.0)
        assert made.told("top") == [("COMMIT", "PENDING")]
        await made.tasks.stop_all()

    play(story())


def test_nothing_is_refreshed_or_looked_at_once_another_gateway_has_taken_over() -> None:
    """Not even what waited for its turn already."""

    async def story() -> None:
        made = RefreshedViews(RefreshLimits(2, 0, 0))
        made.add("v", ON_COMMIT)
        await made.write()
        waiting = await made.tasks.begin("v", MANUAL)
        await settled()
        made.free.lost = "Another gateway does it now."
        made.stage.let("v")
        await settled()
        assert made.stage.began == [("v", TriggerMode.COMMIT)]
        assert made.told("v") == [("COMMIT", "SUCCESS"), ("MANUAL", "FAILED")]
        assert (last := made.catalog.entry("v").history.tasks[-1][1]).error == "Another gateway does it now."
        assert last.id == waiting
        await made.write()
        checked = made.free.checked
        await made.scheduler.look(0)
        await settled()
        assert len(made.told("v")) == 2
        assert made.free.checked == checked

    play(story())


# --- what is told of them --------------------------------------------------------------------------------


def test_a_task_runs_until_its_version_is_shown() -> None:
    """It is stored as ended before: the version and its task come into the catalog by one call."""

    async def story() -> None:
        made = RefreshedViews()
        entry = made.add("v")
        number, _ = made.log.begin(entry, MANUAL)
        made.log.start(entry, number)
        ending = made.log.written(entry, number, 2)
        running = entry.history.task(number)
        stored = History.of_stored(ending.properties, current=2).last
        assert running is not None
        assert stored is not None
        assert (running.status, stored.status) == (TaskStatus.RUNNING, TaskStatus.SUCCESS)
        made.log.succeed(entry, ending)
        assert entry.history.last == stored
        assert not entry.history.unsaved

    play(story())


def test_ended_tasks_are_counted() -> None:
    async def story() -> None:
        made = RefreshedViews()
        made.add("v")
        asking = [asyncio.create_task(made.tasks.refresh("v", MANUAL, silent)) for _ in range(3)]
        await settled()
        assert (made.tasks.running, made.tasks.waiting) == (1, 2)
        made.stage.let("v", None, RefreshFailed("no", "42P01"))
        await settled()
        assert (made.tasks.running, made.tasks.waiting) == (1, 0)
        await made.tasks.stop("v")
        await asyncio.wait(asking)
        assert (made.tasks.running, made.tasks.waiting) == (0, 0)
        assert {status.value: number for (status, _), number in made.tasks.tally.ended.items()} == {
            "SUCCESS": 1,
            "FAILED": 1,
            "CANCELED": 1,
        }
        for error in (each.exception() for each in asking[1:]):
            assert isinstance(error, RefreshFailed)

    play(story())


def test_a_task_works_in_the_context_of_who_asked_for_it() -> None:
    """Not in that of whom it waited for."""

    async def story() -> None:
        made = RefreshedViews()
        made.add("v")
        whose: ContextVar[str] = ContextVar("whose")
        seen: list[str] = []
        run = made.stage.run

        async def noticing(*arguments: Any, **named: Any) -> None:
            seen.append(whose.get())
            await run(*arguments, **named)

        made.stage.run = noticing  # type: ignore[method-assign]

        async def ask(name: str) -> None:
            whose.set(name)
            await made.tasks.refresh("v", MANUAL, silent)

        asking = [asyncio.create_task(ask(name)) for name in ("alice", "bob")]
        await settled()
        made.stage.let("v", None, None)
        await asyncio.gather(*asking)
        assert seen == ["alice", "bob"]

    play(story())
