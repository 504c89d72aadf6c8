"""Operations that clients have started and not closed, at Spark or in the gateway.

Tests: `test_own_results`.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, IntEnum
from typing import Protocol

from gateway.errors import FreshgateError
from gateway.mv.refresh.progress import Progress
from gateway.service.operations.progress_bar import progress_update
from gateway.service.results.recorded import FetchPosition, Recorded
from gateway.wire import reply
from gateway.wire.message import FETCH_FIRST, FETCH_LOG, FetchCall, Handle
from gateway.wire.page import Fit
from gateway.wire.reading import ResultReading
from gateway.wire.rowset import COLUMNAR_PROTOCOL, ResultColumn, Value, row_set

log = logging.getLogger(__name__)


class End(Enum):
    """How a statement ended at Spark, as far as known."""

    SUCCEEDED = 1
    FAILED = 2
    REFUSED = 4
    """Spark could not parse the text, so no part of it ran."""
    UNKNOWN = 3
    """Cancelled, closed while it ran, or lost: it may have succeeded, or may still succeed seconds later."""


class OperationState(IntEnum):
    """The used values of TOperationState. The gateway's own operations are never PENDING: Superset fetches then."""

    RUNNING = 1
    FINISHED = 2
    CANCELED = 3
    CLOSED = 4
    ERROR = 5
    TIMEDOUT = 8


TIMED_OUT = "HYT00"
TERMINAL_STATES = frozenset(
    {
        OperationState.FINISHED,
        OperationState.CANCELED,
        OperationState.CLOSED,
        OperationState.ERROR,
        OperationState.TIMEDOUT,
    }
)
"""An operation in one of these states never changes its state again."""

LOG_COLUMNS = (ResultColumn("operation_log"),)
BAR_SECONDS = 1.0
"""The longest time that a status call is held while the client draws a bar, which it redraws only after an answer."""
ROWS_MAX = 10_000
"""Most rows in a page of an own result, whatever the client requests: a page is built in memory, in one turn of the
event loop."""
VALUES_MAX, ROW_VALUES_MAX = 40_000, 8_000
"""Most values in a page, in columnar and in row format: encoding them takes about 30 ms."""


@dataclass(frozen=True, slots=True)
class Result:
    """The rows of one of the gateway's own statements."""

    columns: tuple[ResultColumn, ...]
    rows: Sequence[Sequence[Value]] = ()


NO_ROWS = Result((ResultColumn("Result"),))
"""Spark's result of DDL: one column without rows, so that clients that fetch after DDL keep working."""


class Watcher(Protocol):
    """Observes the outcome of a statement, without affecting it."""

    def seen(self, state: int | None, status: bytes) -> None:
        """Called with Spark's final status; `end` follows."""

    def end(self, end: End) -> None:
        """Called when the end is known. Only the first call counts."""

    def cancel(self) -> None:
        """Called when the client cancels the statement."""


class Consequences(Protocol):
    """What follows from the end of a statement, and from its close."""

    def ended(self, end: End) -> None:
        """Called when the end is known. Only the first call counts."""

    def closed(self) -> None:
        """Called when no more rows can be fetched. Only the first call counts."""


class Asked(Protocol):
    """Tracks the status requests for an operation that Spark has not answered."""

    def asked(self, who: object) -> None:
        """Called when `who` asks Spark whether the operation has ended."""

    def answered(self, who: object) -> None:
        """Called when Spark has answered `who`, or never will."""


@dataclass(slots=True, eq=False)
class ForwardedOperation:
    """An operation at Spark, and what the gateway does when it ends or is closed."""

    handle: Handle
    underway: Consequences | None = None
    """None if it does nothing when it ends or is closed."""
    outcome_matters: bool = False
    """Whether Spark must be asked for its end before its rows are fetched."""
    runs_others: bool = False
    """Whether its text may run other statements, so that a part may have been executed even if it fails."""
    may_lack_columns: bool = False
    """Whether its rows may lack the column in its schema, which is then added."""
    final_status: bytes | None = None
    """The GetOperationStatus reply of the finished operation; it answers all later requests."""
    told: bool = False
    """Whether a client may know how it ended: this gateway was sure to lead when Spark had replied."""
    lost: bool = False
    """Whether it was lost when Spark went away."""
    closed: bool = False
    ended: bool = False
    """Whether its end is known."""
    fit: Fit = field(default_factory=Fit)
    """The number of its rows that fit into a page."""
    reading: ResultReading | None = None
    """Reads its rows, if pages may be requested ahead."""
    statement: Watcher | None = None
    """None for an operation that is not a statement."""
    pending: Asked | None = None
    """Must learn of its end, if set."""
    notes: tuple[str, ...] = ()
    """Log lines of the gateway's that the client has not fetched."""

    def is_open(self) -> bool:
        return not self.closed

    def end(self, end: End) -> None:
        self.ended = True
        if self.statement is not None:
            self.statement.end(end)
        if self.underway is not None:
            self.underway.ended(end)

    def close(self) -> None:
        """The client has closed it, or it is lost."""
        self.closed = True
        if self.reading is not None:
            self.reading.close()
        self.end(End.UNKNOWN)
        if self.underway is not None:
            self.underway.closed()


Outcome = Result | Recorded | ForwardedOperation
"""What a statement of the gateway's, or one that it waits for, comes to: rows, rows of Spark's that are in memory, or
an operation at Spark."""


def timed_out(seconds: int) -> FreshgateError:
    return FreshgateError(
        f"The statement exceeded its time limit of {seconds} s. Raise it, or refresh the view beforehand.", TIMED_OUT
    )


def new_handle() -> Handle:
    return Handle(secrets.token_bytes(16), secrets.token_bytes(16))


def log_page(seqid: int, lines: Sequence[str], protocol: int, start: int = 0) -> bytes:
    """The reply with these lines of an operation's log; `start` is the number of the first."""
    return reply.fetch(seqid, row_set(LOG_COLUMNS, [(line,) for line in lines], protocol, start))


class OperationReport:
    """The log lines and refreshes of a running operation. A `progress.Report`."""

    def __init__(self) -> None:
        self.refreshes: list[Progress] = []
        self.fetched = 0
        """The number of lines that the client has fetched."""
        self._lines: list[str] = []

    def __call__(self, line: str, /) -> None:
        """Adds a line to the operation's log, which beeline shows while it waits.

        A new line about the progress of a refresh replaces the last one if the client has not fetched that: beeline
        fetches none while it draws its bar, and would then print all of them.
        """
        for prefix in (each.prefix for each in self.refreshes):
            if line.startswith(prefix):
                self._lines[self.fetched :] = [old for old in self._lines[self.fetched :] if not old.startswith(prefix)]
        self._lines.append(line)

    def watch(self, progress: Progress) -> None:
        if progress in self.refreshes:
            return
        for place, known in enumerate(self.refreshes):
            if known.view == progress.view and known.worked is not None:
                # The next attempt, or the next task.
                self.refreshes[place] = progress
                return
        self.refreshes.append(progress)

    @property
    def pending(self) -> bool:
        """Whether there are lines that have not been fetched yet."""
        return self.fetched < len(self._lines)

    def fetch(self, first: int) -> list[str]:
        """The lines from `first` on, which then count as fetched."""
        self.fetched = len(self._lines)
        return self._lines[first:]


class Operation:
    """One of the gateway's own operations: a statement that it executes itself, or a query that waits for a refresh.

    The latter continues at Spark: `continued` is then Spark's operation, and all later requests go there.
    """

    def __init__(self, handle: Handle, protocol: int) -> None:
        self.handle = handle
        self.state = OperationState.RUNNING
        self.error: FreshgateError | None = None
        self.continued: ForwardedOperation | None = None
        self.report = OperationReport()
        self._protocol = protocol
        self._result = NO_ROWS
        self._cursor: FetchPosition | None = None
        """For a result of Spark's that is given from memory."""
        self._position = 0
        self._fraction = 0.0
        self._began = time.monotonic()
        self._settled = asyncio.Event()
        self._reported = False
        self._task: asyncio.Task[None] | None = None
        self._begun = asyncio.Event()

    @property
    def has_log(self) -> bool:
        """Whether the gateway has log lines that have not been fetched yet."""
        return self.report.pending

    @property
    def ended(self) -> bool:
        """Whether the client has learned that it has ended, including the part at Spark."""
        return self._reported if self.continued is None else self.continued.ended

    @property
    def settled(self) -> bool:
        """Whether it is finished, or continues at Spark."""
        return self._settled.is_set()

    def start(
        self,
        work: Awaitable[Outcome],
        timeout_seconds: int = 0,
        on_done: Callable[[Operation], None] | None = None,
    ) -> None:
        """Does the work in a new task, for at most `timeout_seconds` if not 0; then always calls `on_done`."""
        self._task = asyncio.ensure_future(self._run(work, timeout_seconds))
        if on_done is not None:
            self._task.add_done_callback(lambda _: on_done(self))

    async def _run(self, work: Awaitable[Outcome], timeout_seconds: int) -> None:
        self._begun.set()
        try:
            async with asyncio.timeout(timeout_seconds or None):
                outcome = await work
            if isinstance(outcome, ForwardedOperation):
                self.continued = outcome
            elif isinstance(outcome, Recorded):
                self._cursor = FetchPosition(outcome)
                self.state = OperationState.FINISHED
            else:
                self._result = outcome
                self.state = OperationState.FINISHED
        except FreshgateError as error:
            self._fail(error)
        except TimeoutError:
            self.error = timed_out(timeout_seconds)
            self.state = OperationState.TIMEDOUT
        except asyncio.CancelledError:
            self.state = OperationState.CANCELED
        except Exception as error:
            # A bug in the gateway must end this statement with an error, not leave its client polling forever.
            log.exception("the gateway failed to execute a statement")
            self._fail(FreshgateError(f"The gateway failed: {error!r}. Its log has the details.", sqlstate="58005"))
        finally:
            self._settled.set()

    def _fail(self, error: FreshgateError) -> None:
        self.error = error
        self.state = OperationState.ERROR

    async def settle(self) -> None:
        """Waits until it is finished or continues at Spark. The caller then reports that to the client."""
        await self._settled.wait()
        self._reported = True

    async def cancel(self) -> None:
        """Cancels the work, and waits for its end."""
        self._reported = True
        if self._task is not None and not self._task.done():
            await self._begun.wait()  # Otherwise the work could not clear up.
            self._task.cancel()
            await asyncio.wait([self._task])

    def step_seconds(self) -> float:
        """How long a status call is held: 500 ms at first, up to 5 s for long operations, as in HiveServer2."""
        elapsed = time.monotonic() - self._began
        return min(5.0, (int(elapsed / 10) + 1) * 0.5)

    async def hold(self, *, bar: bool = False) -> None:
        """Waits one step for the operation to settle, because clients poll without a pause. `bar`: the client draws a
        progress bar."""
        seconds = self.step_seconds()
        if bar and self.report.refreshes:
            seconds = min(seconds, BAR_SECONDS)
        try:
            await asyncio.wait_for(self._settled.wait(), seconds)
        except TimeoutError:
            return

    # --- replies -----------------------------------------------------------------------------------

    def status(self, seqid: int, *, bar: bool = False) -> bytes:
        """The reply with its state; with `bar` also its progress while it runs.

        It includes progress even before the first refresh is known: a client that once got none no longer holds back
        log lines until the bar ends, and mixes both.
        """
        self._reported = self._reported or self.settled
        if self.error is not None:
            return reply.operation_status(seqid, self.state, self.error.sqlstate, str(self.error), has_result_set=True)
        if self._cursor is not None and self.state is OperationState.FINISHED:
            return self._cursor.status(seqid)
        progress = self._progress() if bar and not self.settled else None
        return reply.operation_status(seqid, self.state, has_result_set=True, progress=progress)

    def _progress(self) -> reply.ProgressUpdate:
        """The progress, which never decreases even if more views are found to be stale."""
        update = progress_update(self.report.refreshes)
        self._fraction = max(self._fraction, update.fraction)
        return replace(update, fraction=self._fraction)

    def metadata(self, seqid: int) -> bytes:
        if self._cursor is not None:
            return self._cursor.metadata(seqid)
        return reply.result_metadata(seqid, self._result.columns)

    def fetch(self, seqid: int, call: FetchCall) -> bytes:
        """A page of the rows, or of the log. Fetching rows before the end is an error, as in Spark."""
        if call.fetch_type == FETCH_LOG:
            return self._fetch_log(seqid, call)
        self._reported = self._reported or self.settled
        if self.state is not OperationState.FINISHED:
            message = f"Expected state FINISHED, but found {self.state.name}. Fetch when the operation has finished."
            return reply.error("FetchResults", seqid, message, "HY010")
        if self._cursor is not None:
            return self._cursor.fetch(seqid, call)
        if call.orientation == FETCH_FIRST:
            self._position = 0
        start = self._position
        values_max = VALUES_MAX if self._protocol >= COLUMNAR_PROTOCOL else ROW_VALUES_MAX
        rows_max = min(ROWS_MAX, values_max // max(1, len(self._result.columns)))
        page = self._result.rows[start : start + min(max(call.rows_max, 0), rows_max)]
        self._position += len(page)
        return reply.fetch(seqid, row_set(self._result.columns, page, self._protocol, start))

    def _fetch_log(self, seqid: int, call: FetchCall) -> bytes:
        start = 0 if call.orientation == FETCH_FIRST else self.report.fetched
        lines = self.report.fetch(start)
        return log_page(seqid, lines, self._protocol, start)
