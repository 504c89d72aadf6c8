"""Runs clients' statements at Spark: those whose clients wait for Spark, and those that the gateway starts itself."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from gateway.config import Healing
from gateway.errors import FreshgateError, Overtaken, StatementFailed, UpstreamLost
from gateway.loops import Errands
from gateway.mv.refresh.progress import Report
from gateway.service.answers import healing
from gateway.service.clients.audit import Statement
from gateway.service.clients.session import Session, Sessions
from gateway.service.clients.side_connections import SideConnection
from gateway.service.operations import ends
from gateway.service.operations.operation import TIMED_OUT, End, ForwardedOperation, OperationState, timed_out
from gateway.service.results.key import Key
from gateway.service.results.recording import Recording
from gateway.service.results.replay import Replay
from gateway.service.results.store import Results
from gateway.service.routing.outcomes import Route, Waiting
from gateway.service.routing.scope import unseen
from gateway.wire import message, request
from gateway.wire.frame import WireError
from gateway.wire.message import ExecuteCall, Handle, Head
from gateway.wire.reading import Reading
from gateway.wire.rowset import COLUMNAR_PROTOCOL
from sql.understood import Understood

log = logging.getLogger(__name__)

STALL_SECONDS = 0.5
"""How long a query waits for the next page that an equal query's client takes, before it goes to Spark itself."""
FOLLOWING_SECONDS = 5.0
"""How long it waits in all since that query ended at Spark."""
CHANGING_RIGHTS = frozenset({"grant", "revoke", "role", "roles"})
"""A text with one of these words may change rights."""
ASKING_SECONDS = 1.0
"""How often it makes sure that Spark is being asked whether that query has ended."""


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms on which clients are served."""

    statement_bytes_max: int = 1 << 30
    operations_max: int = 0
    """Most open operations of one session; 0: unlimited."""
    show_storage: bool = False
    """Whether metadata calls list the storage database."""
    healing: Healing = field(default_factory=Healing)
    """Which of Spark's faults are corrected."""
    reads_ahead: Callable[[], bool] = bool
    """Whether rows may be requested from Spark before the client asks for them."""


@dataclass(frozen=True, slots=True)
class Execution:
    """A client's request to execute a statement."""

    session: Session
    head: Head
    call: ExecuteCall
    payload: bytes
    known: Understood
    statement: Statement

    def with_text(self, text: str | None) -> bytes:
        """The request with `text` as its statement; None: unchanged."""
        return self.payload if text is None else message.with_statement(self.payload, text)

    def for_the_rest(self, began: float) -> Execution:
        """The same request; its time limit is shorter by the time since `began`."""
        return replace(self, payload=_for_the_rest(self.payload, self.call, began))


class Executions:
    """Starts statements over their sessions' side connections, and watches what runs at Spark."""

    def __init__(self, sessions: Sessions, results: Results, terms: Terms, errands: Errands) -> None:
        self._sessions = sessions
        self._results = results
        self._terms = terms
        self._errands = errands

    async def after(self, execution: Execution, route: Waiting, report: Report) -> ForwardedOperation | Replay:
        """Waits for the refresh, then starts the client's statement over the session's side connection, unless its
        answer is known."""
        session = execution.session
        began = time.monotonic()
        try:
            await route.wait(report)
            if route.then.key is not None and (replay := await self.recall(route.then.key)) is not None:
                if route.holds():
                    self.answered(execution.statement, route.then, replay, report)
                    return replay
                replay.release()
            side = await session.side()
        except BaseException:  # Including cancellation: the statement has ended for its route.
            route.then.abandon(End.FAILED)
            raise
        execution = execution.for_the_rest(began)
        if route.instead is not None:
            return await self._stand_in(execution, side, route, report)
        return await self._start(execution, side, route.then, execution.statement)

    async def _stand_in(
        self, execution: Execution, side: SideConnection, route: Waiting, report: Report
    ) -> ForwardedOperation | Replay:
        """Runs the text that stands in for the client's to its end. If it fails, no row of it has been seen: the
        client's own text runs once instead."""
        assert route.instead is not None
        try:
            operation = await self._start(execution, side, route.then, None)
            await self._ended(side, operation, execution.call.query_timeout_seconds)
            if not route.holds():
                self._drop(side, operation)
                raise Overtaken("What it read was written while it ran.")
        except FreshgateError as error:
            if isinstance(error, UpstreamLost) or error.sqlstate == TIMED_OUT:
                raise
            own = await route.instead(error)
            follow(execution.statement, own.then)
            return await self.after(execution, own, report)
        operation.statement = execution.statement
        execution.statement.started(operation.handle)
        execution.statement.end(End.SUCCEEDED)
        return operation

    # --- answers in memory -------------------------------------------------------------------------

    async def recall(self, key: Key) -> Replay | None:
        """The answer, if it is known, or soon will be because an equal query is running."""
        replay = self._results.replay(key)
        if replay is None and (recording := self._results.recording(key)) is not None:
            await self._follow(recording)
            if (replay := self._results.replay(key)) is not None:
                self._results.counts.shared += 1
        return replay

    async def _follow(self, recording: Recording) -> None:
        """Waits for an equal query, at most until STALL_SECONDS after its end and each page that its client takes."""
        while not recording.over:
            seconds = ASKING_SECONDS
            if recording.succeeded:
                until = min(recording.moved_at + STALL_SECONDS, recording.made_at + FOLLOWING_SECONDS)
                if (seconds := until - self._results.clock()) <= 0:
                    return
            elif recording.ask is not None:
                await recording.ask()
            if not recording.over:
                await recording.wait(seconds)

    def answered(self, statement: Statement, route: Route, replay: Replay, report: Report) -> None:
        """The statement is not sent, because its answer is known."""
        route.abandon(End.FAILED)
        statement.answered_from_memory()
        report(f"Answered from memory: Spark made these rows {self._results.age(replay):.1f} s ago")

    def record(self, execution: Execution, route: Route) -> None:
        """The statement is about to be sent: records its answer if others may get it."""
        session, key = execution.session, route.key
        if not execution.known.look.words.isdisjoint(CHANGING_RIGHTS):
            route.sends.append(self._results.clear)
            route.ends.append(lambda _: self._results.clear())
        settings = session.settings
        if key is None or route.recording is not None or not _is_as(session, key):
            return
        route.recording = recording = self._results.begin(key)
        if recording is not None:
            changes = settings.changes
            undisturbed = lambda: settings.changes == changes and _is_as(session, key)  # noqa: E731
            recording.begin(undisturbed, unseen(route, session).look)
            route.ends.append(recording.ended)
            route.closes.append(recording.spoil)

    # --- statements that stand in ------------------------------------------------------------------

    async def _ended(self, side: SideConnection, operation: ForwardedOperation, seconds: int) -> None:
        """Waits until the statement, whose time limit is `seconds`, has succeeded; raises FreshgateError otherwise."""
        status, state = request.operation_status(operation.handle), None
        try:
            while not operation.ended:
                answer = await side.forward(status)
                state = ends.status_seen(operation, answer)
                if state is None:
                    raise StatementFailed(message.reply_status(answer).message or "Spark does not know the statement.")
            if state == OperationState.TIMEDOUT:
                raise timed_out(seconds)
            if state != OperationState.FINISHED:
                raise StatementFailed(message.operation_error(answer) or "Spark ended the statement.")
        except BaseException:  # Including cancellation: nobody needs its rows.
            self._drop(side, operation)
            raise

    def _drop(self, side: SideConnection, operation: ForwardedOperation) -> None:
        self._errands.begin(self._stop(side, operation.handle))
        operation.close()

    async def _start(
        self, execution: Execution, side: SideConnection, route: Route, statement: Statement | None
    ) -> ForwardedOperation:
        """Starts a statement over the session's side connection."""
        session, payload = execution.session, execution.with_text(route.text)
        self.record(execution, route)
        route.on_send()
        started = asyncio.ensure_future(side.forward(message.with_handle(payload, session.upstream_handle)))
        try:
            answer = await asyncio.shield(started)
            handle, status = message.execute_handle(answer), message.reply_status(answer)
        except asyncio.CancelledError:
            self._errands.begin(self._stop_started(side, started, route))
            raise
        except BaseException as error:  # Spark may have started it: the outcome is unknown.
            route.abandon()
            if isinstance(error, WireError):
                raise UpstreamLost(f"Spark's reply to the statement cannot be read: {error}.") from error
            raise
        if handle is None:
            route.abandon(End.FAILED)
            raise StatementFailed(status.message or "Spark refused the statement.", sqlstate=status.sqlstate or "HY000")
        return self.watched(execution, handle, route, statement)

    async def _stop_started(self, side: SideConnection, started: asyncio.Future[bytes], route: Route) -> None:
        """Cancels and closes a statement at Spark whose client has gone while it was being started."""
        try:
            handle = message.execute_handle(await started)
            if handle is not None:
                await self._stop(side, handle)
        except FreshgateError as error:
            log.info("a statement could not be cancelled: %s", error)
        finally:
            route.abandon()

    async def _stop(self, side: SideConnection, handle: Handle) -> None:
        """Cancels and closes a statement at Spark."""
        try:
            await side.forward(request.cancel_operation(handle))
            await side.forward(request.close_operation(handle))
        except FreshgateError as error:
            log.info("a statement could not be cancelled: %s", error)
        self._sessions.cancel_jobs(handle.public_id)

    def watched(
        self, execution: Execution, handle: Handle, route: Route, statement: Statement | None
    ) -> ForwardedOperation:
        operation = ForwardedOperation(handle, statement=statement)
        if statement is not None:
            statement.started(handle)
        if route.unseen is not None:
            route.unseen.started(operation)
        if route.ends:
            operation.on_end.append(route.on_end)
            operation.runs_others = route.runs_others
        if route.closes:
            operation.on_close.append(route.on_close)
        if route.recording is not None:
            operation.recorder = route.recording
        operation.may_lack_columns = self._terms.healing.ddl_columns and healing.may_lack_columns(execution.known)
        if self._may_read_ahead(execution.session, operation):
            operation.reading = Reading()
        return operation

    def _may_read_ahead(self, session: Session, operation: ForwardedOperation) -> bool:
        """Whether pages pass unchanged, and Spark never has to go back to earlier rows."""
        as_they_are = not operation.may_lack_columns and not self._terms.healing.page_bytes
        whole = self._terms.reads_ahead() and not session.collects_in_parts
        return as_they_are and whole and session.protocol >= COLUMNAR_PROTOCOL


def _is_as(session: Session, key: Key) -> bool:
    """Whether names and settings mean in the session what the key says."""
    return session.settings.id == key.settings and session.namespace == key.namespace and not session.unseen


def follow(statement: Statement, route: Route) -> None:
    """The statement takes this route."""
    statement.understood(route.mentions)
    statement.sent((route.text or "") if route.stands_in else "", route.took)


def _for_the_rest(payload: bytes, call: ExecuteCall, began: float) -> bytes:
    """The request with the rest of its time limit in whole seconds; `began` is from `time.monotonic`."""
    if not call.query_timeout_seconds:
        return payload
    left = call.query_timeout_seconds - int(time.monotonic() - began)
    return message.with_query_timeout(payload, max(left, 1))
