"""Operations: what a client has begun and not closed, Spark's and the gateway's own."""

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
from gateway.wire import reply
from gateway.wire.message import FETCH_FIRST, FETCH_LOG, FetchCall, Handle
from gateway.wire.page import Fit
from gateway.wire.reading import Reading
from gateway.wire.rowset import COLUMNAR_PROTOCOL, Column, Value, row_set

log = logging.getLogger(__name__)


class End(Enum):
    """What is known of how a statement ended at Spark."""

    SUCCEEDED = 1
    FAILED = 2
    REFUSED = 4
    """Spark could not parse the text, so nothing of it ran."""
    UNKNOWN = 3
    """Cancelled, closed while it ran, or lost: it may have succeeded, or still do so some seconds later."""


class OperationState(IntEnum):
    """TOperationState, as far as it matters here. The gateway's own are never PENDING: Superset fetches then."""

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
"""The status of such an operation never changes again."""

LOG_COLUMNS = (Column("operation_log"),)
BAR_SECONDS = 1.0
"""How long a status call is held at most while the client draws a bar, which it does only when the answer comes."""
ROWS_MAX = 10_000
"""Rows in one page of an own result, whatever the client asks for: a page is built in memory, in one turn of the event
loop."""
VALUES_MAX, ROW_VALUES_MAX = 40_000, 8_000
"""Values in one page, in columns and in rows: to write these takes some 30 ms."""


@dataclass(frozen=True, slots=True)
class Result:
    """Rows of an own statement."""

    columns: tuple[Column, ...]
    rows: Sequence[Sequence[Value]] = ()


NO_ROWS = Result((Column("Result"),))
"""What Spark answers to DDL: one column without rows, so that clients which fetch after DDL go on working."""


class Watcher(Protocol):
    """Who wants to know what becomes of a statement, and does nothing about it."""

    def seen(self, state: int | None, status: bytes) -> None:
        """Spark's last status of it; `end` follows."""

    def end(self, end: End) -> None:
        """May come again; the first one counts."""

    def cancel(self) -> None:
        """The client has asked for its end."""


class Asked(Protocol):
    """Who wants to know which questions about an operation Spark has not answered."""

    def asked(self, who: object) -> None:
        """Spark is asked whether it has ended."""

    def answered(self, who: object) -> None:
        """Spark has answered, or the answer will never come."""


@dataclass(slots=True, eq=False)
class ForwardedOperation:
    """An operation of Spark's, and what the gateway does when it ends or is closed."""

    handle: Handle
    on_end: list[Callable[[End], None]] = field(default_factory=list)
    """Called once, as soon as its end is known."""
    on_close: list[Callable[[], None]] = field(default_factory=list)
    """Called once when no row can be fetched any more."""
    runs_others: bool = False
    """Its text may run other statements, so that a part may have been done where it fails."""
    may_lack_columns: bool = False
    """Its rows may have no column though its schema has one, and shall have it."""
    final_status: bytes | None = None
    """The GetOperationStatus reply of the finished operation; answers all later ones."""
    lost: bool = False
    """Spark went away with it."""
    closed: bool = False
    ended: bool = False
    """Its end is known."""
    fit: Fit = field(default_factory=Fit)
    """How many of its rows make a page that is not too long."""
    reading: Reading | None = None
    """How its rows are read, where a page may be asked for ahead."""
    statement: Watcher | None = None
    """None for what is no statement."""
    unseen: Asked | None = None
    """Who must know of its end, where somebody does."""

    def is_open(self) -> bool:
        return not self.closed

    def end(self, end: End) -> None:
        self.ended = True
        if self.statement is not None:
            self.statement.end(end)
        actions, self.on_end = self.on_end, []
        for action in actions:
            action(end)

    def close(self) -> None:
        """The client is done with it."""
        self.closed = True
        if self.reading is not None:
            self.reading.close()
        self.end(End.UNKNOWN)
        actions, self.on_close = self.on_close, []
        for action in actions:
            action()


def timed_out(seconds: int) -> FreshgateError:
    return FreshgateError(
        f"The statement's time limit of {seconds} s is over. Raise it, or refresh the view beforehand.", TIMED_OUT
    )


def new_handle() -> Handle:
    return Handle(secrets.token_bytes(16), secrets.token_bytes(16))


class OperationReport:
    """What is told of an operation while it runs: lines of its log, and refreshes in progress. A `progress.Report`."""

    def __init__(self) -> None:
        self.refreshes: list[Progress] = []
        self.fetched = 0
        """Lines that the client has."""
        self._lines: list[str] = []

    def __call__(self, line: str, /) -> None:
        """Adds a line to the operation's log, which beeline shows while it waits.

        The next line on how far a refresh is takes the place of the last one, if the client has not fetched that:
        beeline fetches none while it draws its bar, and would then print all of them.
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
                # The next try, or the next task.
                self.refreshes[place] = progress
                return
        self.refreshes.append(progress)

    @property
    def pending(self) -> bool:
        """There are lines that were not fetched yet."""
        return self.fetched < len(self._lines)

    def fetch(self, first: int) -> list[str]:
        """The lines from `first` on; they count as fetched."""
        self.fetched = len(self._lines)
        return self._lines[first:]


class Operation:
    """One of the gateway's own: a statement that it executes itself, or a query that waits for a refresh.

    The latter continues at Spark: then `continued` is Spark's operation, and all later requests go there.
    """

    def __init__(self, handle: Handle, protocol: int) -> None:
        self.handle = handle
        self.state = OperationState.RUNNING
        self.error: FreshgateError | None = None
        self.continued: ForwardedOperation | None = None
        self.report = OperationReport()
        self._protocol = protocol
        self._result = NO_ROWS
        self._position = 0
        self._fraction = 0.0
        self._began = time.monotonic()
        self._settled = asyncio.Event()
        self._told = False
        self._task: asyncio.Task[None] | None = None

    @property
    def has_log(self) -> bool:
        """There are lines of the gateway's own that were not fetched yet."""
        return self.report.pending

    @property
    def ended(self) -> bool:
        """It is finished, as far as its client has seen, and so is what continued at Spark."""
        return self._told if self.continued is None else self.continued.ended

    @property
    def settled(self) -> bool:
        """It is finished, or continues at Spark."""
        return self._settled.is_set()

    def start(
        self,
        work: Awaitable[Result | ForwardedOperation],
        timeout_seconds: int = 0,
        on_done: Callable[[Operation], None] | None = None,
    ) -> None:
        """Does the work in a task of its own, for at most `timeout_seconds` where that is not 0; then calls `on_done`,
        in any case."""
        self._task = asyncio.ensure_future(self._run(work, timeout_seconds))
        if on_done is not None:
            self._task.add_done_callback(lambda _: on_done(self))

    async def _run(self, work: Awaitable[Result | ForwardedOperation], timeout_seconds: int) -> None:
        try:
            async with asyncio.timeout(timeout_seconds or None):
                outcome = await work
            if isinstance(outcome, ForwardedOperation):
                self.continued = outcome
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
            # A fault of ours must end this statement with an error, not leave its client polling for ever.
            log.exception("a statement broke in the gateway")
            self._fail(FreshgateError(f"The gateway failed: {error!r}. Look into its log.", sqlstate="58005"))
        finally:
            self._settled.set()

    def _fail(self, error: FreshgateError) -> None:
        self.error = error
        self.state = OperationState.ERROR

    async def settle(self) -> None:
        """Returns when it is finished or continues at Spark, of which the client is told now."""
        await self._settled.wait()
        self._told = True

    async def cancel(self) -> None:
        """Stops waiting; returns when the work is gone."""
        self._told = True
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task])

    def step_seconds(self) -> float:
        """How long a status call is held: 500 ms at first, more the longer it lasts, at most 5 s (as HiveServer2)."""
        elapsed = time.monotonic() - self._began
        return min(5.0, (int(elapsed / 10) + 1) * 0.5)

    async def hold(self, *, bar: bool = False) -> None:
        """Waits one step for the operation to settle: clients poll without a pause. `bar`: this one draws progress."""
        seconds = self.step_seconds()
        if bar and self.report.refreshes:
            seconds = min(seconds, BAR_SECONDS)
        try:
            await asyncio.wait_for(self._settled.wait(), seconds)
        except TimeoutError:
            return

    # --- replies -----------------------------------------------------------------------------------

    def status(self, seqid: int, *, bar: bool = False) -> bytes:
        """Its state; with `bar` its progress too, as long as it runs.

        Also before the first refresh is known: a client that has once got none no longer waits with the log's lines
        for the bar to end, and mixes both.
        """
        self._told = self._told or self.settled
        if self.error is not None:
            return reply.operation_status(seqid, self.state, self.error.sqlstate, str(self.error), has_result_set=True)
        progress = self._progress() if bar and not self.settled else None
        return reply.operation_status(seqid, self.state, has_result_set=True, progress=progress)

    def _progress(self) -> reply.ProgressUpdate:
        """It never goes back, though further views may be found to be stale."""
        update = progress_update(self.report.refreshes)
        self._fraction = max(self._fraction, update.fraction)
        return replace(update, fraction=self._fraction)

    def metadata(self, seqid: int) -> bytes:
        return reply.result_metadata(seqid, self._result.columns)

    def fetch(self, seqid: int, call: FetchCall) -> bytes:
        """A page of the rows, or of the log. Before the end rows are an error, as Spark has it."""
        if call.fetch_type == FETCH_LOG:
            return self._fetch_log(seqid, call)
        self._told = self._told or self.settled
        if self.state is not OperationState.FINISHED:
            message = f"Expected state FINISHED, but found {self.state.name}. Fetch when the operation has finished."
            return reply.error("FetchResults", seqid, message, "HY010")
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
        return reply.fetch(seqid, row_set(LOG_COLUMNS, [(line,) for line in lines], self._protocol, start))
