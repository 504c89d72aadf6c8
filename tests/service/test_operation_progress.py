"""What a client sees of refreshes while its statement waits: the log's lines and the progress bar."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from clients import beeline
from proxy.peers import Peer
from TCLIService import ttypes
from wire import calls

from gateway.mv.ports import JobProgress
from gateway.mv.refresh.progress import Progress, Report
from gateway.service.operations.operation import (
    BAR_SECONDS,
    NO_ROWS,
    ForwardedOperation,
    Operation,
    Result,
    new_handle,
)
from gateway.service.operations.progress_bar import HEADERS, NAME_CHARACTERS_MAX, progress_update
from gateway.wire import message, reply
from gateway.wire.message import FETCH_FIRST, FETCH_LOG, FetchCall
from gateway.wire.rowset import rows_of
from sql.names import TableName

DEADLINE_SECONDS = 60.0
WIDTHS = (16, 10, 13, 5, 9, 7, 7, 6, 6)
"""Of the columns that beeline prints."""
JOBS = JobProgress(stages=4, stages_done=1, tasks=200, tasks_done=50, tasks_running=8, tasks_failed=1)


class Clock:
    """Stands still until the test moves it."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def running(name: str = "daily", partitions: int = 0, clock: Callable[[], float] = Clock()) -> Progress:  # noqa: B008
    progress = Progress(TableName("sales", name), clock)
    progress.plan("PARTITIONS", "sales.orders has changed", partitions=partitions)
    progress.begin_insert()
    progress.started("a")
    progress.heard("a", JOBS)
    return progress


def check_on(check: Callable[[Operation, asyncio.Future[Any]], Coroutine[Any, Any, None]]) -> None:
    """Checks an operation whose work lasts until the test sets its outcome."""

    async def run() -> None:
        outcome: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        operation = Operation(new_handle(), 9)
        operation.start(outcome)
        async with asyncio.timeout(DEADLINE_SECONDS):
            await check(operation, outcome)
        await operation.cancel()

    asyncio.run(run())


def bar_of(operation: Operation, *, bar: bool = True) -> Any:
    return calls.read_reply(operation.status(7, bar=bar)).progressUpdateResponse


def log_of(operation: Operation, orientation: int = 0) -> list[str]:
    call = FetchCall(operation.handle, orientation, 1000, FETCH_LOG)
    return [line for (line,) in rows_of(calls.read_reply(operation.fetch(7, call)).results)]


def test_bar_of_several_refreshes() -> None:
    clock = Clock()
    done = running("hourly", partitions=3, clock=clock)
    clock.now += 2.0
    now, planning = running("daily", partitions=4, clock=clock), Progress(TableName("sales", "yearly"), clock)
    clock.now += 10.5
    done.end_insert()
    done.end(worked=True)
    update = progress_update([done, now, planning], now_ms=lambda: 1_000_000)
    assert update.rows == (
        ("sales.hourly", "PARTITIONS", "SUCCEEDED", "-", "3/3", "-", "-", "-", "-"),
        ("sales.daily", "PARTITIONS", "RUNNING", "2/4", "0/4", "200", "50", "8", "1"),
        ("sales.yearly", "-", "PLANNING", "-", "-", "-", "-", "-", "-"),
    )
    assert update.headers == HEADERS
    assert update.fraction == pytest.approx((1 + 0.9 * 50 / 200 + 0) / 3)
    assert (update.footer, update.started_ms) == ("VIEWS: 1/3", 1_000_000 - 12_500)


@pytest.mark.parametrize("database", ["d", "a_database_with_a_long_name"])
@pytest.mark.parametrize("table", ["t", "exactly_fifteen", "a_table_with_a_long_name"])
def test_columns_fit(database: str, table: str) -> None:
    progress = Progress(TableName(database, table))
    progress.plan("PARTITIONS", "", partitions=1234)
    progress.begin_insert()
    progress.started("a")
    progress.heard("a", JobProgress(12, 9, 100_000, 99_999, 5_000, 120))
    update = progress_update([progress])
    for row in (update.headers, *update.rows):
        assert [len(text) for text, width in zip(row, WIDTHS, strict=True) if len(text) > width] == []
    name = update.rows[0][0]
    assert len(name) <= NAME_CHARACTERS_MAX
    assert name.rstrip(".") in str(progress.view)


def test_bar_only_where_it_was_asked_for_and_while_it_runs() -> None:
    async def check(operation: Operation, outcome: asyncio.Future[Any]) -> None:
        empty = bar_of(operation)
        assert (empty.headerNames, empty.rows, empty.progressedPercentage) == (list(HEADERS), [], 0.0)
        operation.report.watch(running())
        operation.report.watch(running("hourly"))
        drawn = bar_of(operation)
        assert [row[0] for row in drawn.rows] == ["sales.daily", "sales.hourly"]
        assert drawn.progressedPercentage == pytest.approx(0.225)
        assert drawn.status == ttypes.TJobExecutionStatus.IN_PROGRESS
        assert bar_of(operation, bar=False) is None
        outcome.set_result(NO_ROWS)
        await operation.settle()
        assert bar_of(operation) is None

    check_on(check)


@pytest.mark.parametrize("end", [ForwardedOperation(new_handle()), RuntimeError("a fault")])
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_bar_ends_when_the_query_is_at_spark_or_failed(end: ForwardedOperation | Exception) -> None:
    async def check(operation: Operation, outcome: asyncio.Future[Any]) -> None:
        operation.report.watch(running())
        assert bar_of(operation) is not None
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        outcome.set_exception(end) if isinstance(end, Exception) else outcome.set_result(end)
        await operation.settle()
        assert bar_of(operation) is None

    check_on(check)


def test_a_refresh_is_shown_once() -> None:
    async def check(operation: Operation, end: asyncio.Future[Any]) -> None:
        progress = running()
        for _ in range(2):
            operation.report.watch(progress)
        assert len(bar_of(operation).rows) == 1

    check_on(check)


def test_status_calls_are_held_shorter_while_a_bar_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []

    async def wait_for(waiting: Coroutine[Any, Any, None], seconds: float) -> None:
        waiting.close()
        waited.append(seconds)

    async def check(operation: Operation, _: asyncio.Future[Any]) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(asyncio, "wait_for", wait_for)
            await operation.hold(bar=True)
            operation._began -= 3600
            await operation.hold(bar=True)
            operation.report.watch(running())
            await operation.hold(bar=True)
            await operation.hold()

    check_on(check)
    assert waited == [0.5, 5.0, BAR_SECONDS, 5.0]


def test_the_newest_line_on_a_refresh_replaces_one_that_was_not_fetched() -> None:
    async def check(operation: Operation, _: asyncio.Future[Any]) -> None:
        report: Report = operation.report
        report.watch(running())
        report.watch(running("hourly"))
        report("Refreshing materialized view sales.daily")
        report("sales.daily: 1 of 10 tasks, 1 s")
        assert log_of(operation) == ["Refreshing materialized view sales.daily", "sales.daily: 1 of 10 tasks, 1 s"]
        assert not operation.has_log
        for second in (2, 3, 4):
            report(f"sales.hourly: {second - 1} of 10 tasks, {second} s")
            report(f"sales.daily: {second} of 10 tasks, {second} s")
        assert operation.has_log
        report("Refreshed materialized view sales.daily in 5 s")
        report("Refreshed materialized view sales.hourly in 5 s")
        assert log_of(operation) == [
            "sales.hourly: 3 of 10 tasks, 4 s",
            "sales.daily: 4 of 10 tasks, 4 s",
            "Refreshed materialized view sales.daily in 5 s",
            "Refreshed materialized view sales.hourly in 5 s",
        ]
        assert log_of(operation) == []
        assert len(log_of(operation, FETCH_FIRST)) == 6
        assert log_of(operation) == []

    check_on(check)


class Server:
    """Just enough of HiveServer2 for beeline. Each statement is an Operation whose refreshes go on as it is asked."""

    BARS = 4

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self.bars = 0
        self.progress = [Progress(TableName("sales", "daily")), Progress(TableName("sales", "a_view_with_a_long_name"))]
        self.port = 0
        self._enough = asyncio.Event()

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        async with server:
            yield

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = Peer(reader, writer, framed=False)
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                request = await peer.message()
                peer.send(await self._answer(request, message.peek(request).name))
        writer.close()

    async def _answer(self, request: bytes, name: str) -> bytes:
        seqid = message.peek(request).seqid
        if name == "OpenSession":
            opened = ttypes.TOpenSessionResp(ttypes.TStatus(0), 9, calls.session(), {})
            return calls.reply(name, opened, seqid)
        if name == "GetInfo":
            return calls.reply(name, ttypes.TGetInfoResp(ttypes.TStatus(0), ttypes.TGetInfoValue("4.1")), seqid)
        if name == "ExecuteStatement":
            operation = Operation(new_handle(), 9)
            self.operations.append(operation)
            operation.start(self._work(operation.report))
            return reply.execute_ok(seqid, operation.handle)
        named = [each for each in self.operations if each.handle == message.request_handle(request)]
        if not named:
            return reply.closed(name, seqid)
        (operation,) = named
        if name == "GetOperationStatus":
            bar = message.wants_progress(request)
            await operation.hold(bar=bar)
            if bar and not operation.settled and not operation.has_log:
                self._go_on()
            return operation.status(seqid, bar=bar)
        if name == "FetchResults":
            return operation.fetch(seqid, message.fetch_call(request))
        if name == "GetResultSetMetadata":
            await operation.settle()
            return operation.metadata(seqid)
        return reply.closed(name, seqid)

    async def _work(self, report: Report) -> Result:
        for progress in self.progress:
            progress.plan("PARTITIONS", "sales.orders has changed", partitions=2)
            progress.begin_insert()
            progress.started("a")
            report.watch(progress)
            report(f"Refreshing materialized view {progress.view}")
        await self._enough.wait()
        report("Refreshed both")
        return NO_ROWS

    def _go_on(self) -> None:
        self.bars += 1
        for progress in self.progress:
            progress.heard("a", JobProgress(2, 0, 1000, 100 * self.bars, 8, 0))
        if self.bars == self.BARS:
            self._enough.set()


def test_beeline_draws_it() -> None:
    """Its client throws an error for tables that it does not expect, and draws only once it has printed a line."""

    async def check() -> None:
        server = Server()
        async with server.listening():
            url = f"jdbc:hive2://127.0.0.1:{server.port}/default;auth=noSasl"
            ran = await asyncio.to_thread(beeline, url, "SELECT * FROM sales.daily")
        drawn = ran.stderr
        assert "Refreshing materialized view sales.daily" in drawn, drawn
        assert "VIEW" + " " * 4 + "METHOD" in drawn
        assert "sales.daily     PARTITIONS       RUNNING    1/2        0/2     1000      400       8       0" in drawn
        assert "a_view_with_a.." in drawn
        assert "VIEWS: 0/2" in drawn
        assert "36%" in drawn
        assert drawn.index("Refreshed both") > drawn.rindex("ELAPSED TIME")
        assert "Exception" not in drawn

    asyncio.run(check())


def test_a_fault_of_the_gateways_is_in_its_log(caplog: pytest.LogCaptureFixture) -> None:
    """The client is told to look there."""

    async def check() -> None:
        operation = Operation(new_handle(), 9)

        async def breaks() -> Result:
            raise LookupError("of ours")

        operation.start(breaks())
        await operation.settle()
        assert operation.error is not None
        assert operation.error.sqlstate == "58005"
        assert "Its log has the details" in str(operation.error)

    asyncio.run(check())
    (record,) = [each for each in caplog.records if each.levelname == "ERROR"]
    assert record.exc_info is not None
    assert "of ours" in str(record.exc_info[1])
