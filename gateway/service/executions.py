"""Runs clients' statements at Spark: those whose clients wait for Spark, and those that the gateway starts itself.

Tests: `test_kept_answers`.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Hashable
from dataclasses import dataclass, replace
from functools import partial
from typing import cast

from gateway.errors import FreshgateError, Overtaken, StatementFailed, UpstreamLost
from gateway.loops import BackgroundTasks
from gateway.mv.refresh.habits import Habits
from gateway.mv.refresh.progress import Report
from gateway.service.answers import healing
from gateway.service.clients.audit import Statement, TakenFor
from gateway.service.clients.quotas import StatementTurn, StatementTurns
from gateway.service.clients.session import Session, Sessions, at_spark
from gateway.service.clients.side_connections import SideConnection
from gateway.service.memory.memory_answers import MemoryAnswers, MemoryRead
from gateway.service.operations import ends
from gateway.service.operations.operation import TIMED_OUT, End, ForwardedOperation, OperationState, Outcome, timed_out
from gateway.service.recording import record, unrecordable
from gateway.service.results.recorded import Recorded
from gateway.service.results.store import ENTRY_BYTES_MAX, ResultStore
from gateway.service.routing.own_statements import OwnStatements
from gateway.service.routing.router import Router
from gateway.service.routing.underway import Effects, Underway
from gateway.service.routing.ways import (
    FromView,
    ListNames,
    Own,
    QueryMissed,
    RefreshFirst,
    RepeatableRead,
    Send,
    Sent,
    UnknownTables,
    sent,
)
from gateway.wire import message, request
from gateway.wire.frame import WireError
from gateway.wire.message import ExecuteCall, Handle, Head
from gateway.wire.reading import ResultReading
from sql.understood import Understood

log = logging.getLogger(__name__)


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


@dataclass(frozen=True, slots=True)
class CacheableRead:
    """A read whose result may be in memory, or be kept there."""

    execution: Execution
    way: Sent
    underway: Underway
    key: Hashable
    """What decides its result: `Executions.key`."""
    report: Report
    source: RepeatableRead
    versions_known: bool
    """False if only Spark knows the versions of the views."""

    @property
    def holds(self) -> bool:
        """Whether Spark will read these versions, and the session has sent nothing since that may change the meaning of
        the text."""
        return self.versions_known and self.execution.session.settings.changes == self.source.changes


class Executions:
    """Starts statements over their sessions' side connections, and watches what runs at Spark."""

    def __init__(
        self,
        sessions: Sessions,
        habits: Habits,
        healed: healing.Healing,
        router: Router,
        effects: Effects,
        background: BackgroundTasks,
        results: ResultStore,
        memory: MemoryAnswers | None,
    ) -> None:
        """`memory`: None if no views are held in memory."""
        self._sessions = sessions
        self._habits = habits
        self._healing = healed
        self._router = router
        self._effects = effects
        self._background = background
        self._results = results
        self._memory = memory

    # --- results in memory -------------------------------------------------------------------------

    def key(self, execution: Execution, send: Send) -> Hashable:
        """What decides the result of a read; None if that is not known, or if its result cannot be kept."""
        source, session = send.repeatable, execution.session
        if source is None or execution.call.overlaid or unrecordable(session, self._habits):
            return None
        if not self._keeps(session) and (self._memory is None or not self._memory.has(self._asked(session, source))):
            return None
        if session.settings.changes != source.changes:
            return None
        # That all users see the same rows is known of views only.
        user = "" if self._results.shared and not source.reads_tables else session.user
        # Its digest stands for the text, which may be long.
        text = hashlib.sha256(source.text.encode("utf-8", "surrogatepass")).digest()
        read = text, source.namespace, source.versions
        key = (*read, user, session.settings.id, session.protocol, self._habits.application)
        return None if self._results.is_too_large(key) else key

    def count_left(self, session: Session, send: Send) -> None:
        """Counts a read of views without a key: Spark answers it."""
        if self._memory is None:
            return
        if send.repeatable is not None:
            self._memory.count_left(self._asked(session, send.repeatable))
        elif isinstance(send.source, UnknownTables) and unrecordable(session, self._habits) is None:
            self._memory.miss_tables(session, send.source)

    def _keeps(self, session: Session) -> bool:
        """Whether results of the session are kept."""
        return self._results.active and session.settings.keeps_results

    def _asked(self, session: Session, source: RepeatableRead) -> MemoryRead:
        return MemoryRead.of(session, source, self._habits)

    async def _known(
        self, execution: Execution, way: Sent, underway: Underway, key: Hashable, report: Report
    ) -> Recorded | ForwardedOperation:
        """The result from memory; otherwise runs the statement, and keeps its result if it is small."""
        source = underway.send.repeatable
        assert source is not None
        try:
            known = await self._router.answers_hold()
            record = partial(self._record, CacheableRead(execution, way, underway, key, report, source, known))
            if known and self._keeps(execution.session):
                found, operation = await self._results.get(key, source.views, record)
            else:
                found, operation = None, (await record(False))[1]
        except BaseException:  # Including cancellation.
            underway.abandon(End.FAILED)
            raise
        if found is None:
            if isinstance(operation, Recorded):
                underway.abandon(End.SUCCEEDED)
            return cast("Recorded | ForwardedOperation", operation)
        if found.known or found.shared:
            execution.statement.taken_from_memory()
            age = "an equal query has just run" if found.shared else f"computed {found.seconds:.0f} s ago"
            report(f"Answered from memory: {age}")
        underway.abandon(End.SUCCEEDED)
        return found.recorded

    async def _record(
        self, read: CacheableRead, keeps: bool
    ) -> tuple[Recorded | None, ForwardedOperation | Recorded | None]:
        """Computes the result from rows in memory. Otherwise runs the statement to its end at Spark, and reads its
        result if that is small and may be kept, or else the client reads it."""
        if self._memory is None or not read.versions_known:
            return await self._recorded(read, None, keeps=keeps)
        asked = self._asked(read.execution.session, read.source)
        if (answer := await self._from_rows(read.execution, asked, read.report)) is not None:
            return (answer, None) if keeps else (None, answer)
        with self._memory.at_spark(asked):
            return await self._recorded(read, asked, keeps=keeps)

    async def _recorded(
        self, read: CacheableRead, asked: MemoryRead | None, *, keeps: bool
    ) -> tuple[Recorded | None, ForwardedOperation | Recorded | None]:
        """The same, by Spark. `asked`: the engine may learn from its answer."""
        execution, way, underway = read.execution, read.way, read.underway
        began, side = time.monotonic(), await execution.session.side()
        # While it waits for an equal read, or runs, its session may send what changes the meaning of its text.
        holds = read.holds
        # Spark may read other rows of base tables than those that were observed.
        keeps, learns = keeps and holds and not read.source.reads_tables, asked is not None and holds
        if isinstance(way, FromView):
            try:
                operation = await self._from_view(execution, side, way, underway)
            except FreshgateError as error:
                return None, await self._own_text(execution, way, error, read.report)
        else:
            operation = await self._start(execution, side, underway, execution.statement)
            if not (keeps or learns) or not await self._succeeds(side, operation):
                return None, operation
        if not (keeps or learns):
            return None, operation
        limit = self._results.entry_bytes_max if keeps else ENTRY_BYTES_MAX
        try:
            status = operation.final_status or b""
            recorded = await record(side, operation.handle, status, min(limit, self._healing.page_bytes or limit))
        except BaseException:  # Including cancellation: nobody needs its rows.
            self._drop(side, operation)
            raise
        if recorded is None:
            self._results.too_large(read.key)
            return None, operation
        self._background.begin(self._close(side, operation.handle))
        operation.close()
        if not read.holds:
            return None, recorded
        if asked is not None and self._memory is not None:
            self._memory.observe(asked, recorded, time.monotonic() - began)
        return (recorded, None) if keeps else (None, recorded)

    async def _from_rows(self, execution: Execution, asked: MemoryRead, report: Report) -> Recorded | None:
        """The answer from the rows of views in memory, if these have it."""
        if self._memory is None or (answer := await self._memory.answer(asked)) is None:
            return None
        execution.statement.taken_from_memory(TakenFor.MEMORY)
        report(f"Answered from rows in memory: {', '.join(name for _, name, _ in asked.read.versions)}")
        return answer

    async def _succeeds(self, side: SideConnection, operation: ForwardedOperation) -> bool:
        """Waits until the statement has ended; if it has failed, Spark tells its client why."""
        try:
            while not operation.ended:
                if ends.status_seen(operation, await side.forward(request.operation_status(operation.handle))) is None:
                    return False
        except BaseException:  # Including cancellation: nobody needs its rows.
            self._drop(side, operation)
            raise
        status = operation.final_status
        return status is not None and message.operation_state(status) == OperationState.FINISHED

    async def _close(self, side: SideConnection, handle: Handle) -> None:
        try:
            await side.forward(request.close_operation(handle))
        except FreshgateError as error:
            log.info("a statement could not be closed: %s", error)

    # --- statements that wait ----------------------------------------------------------------------

    async def in_turn(self, execution: Execution, turn: StatementTurn, own: OwnStatements, report: Report) -> Outcome:
        """Waits until the statement may run by the rules of limits.rules, then runs it. Raises FreshgateError."""
        session, statement, began = execution.session, execution.statement, time.monotonic()
        report(turn.why)
        with statement.waiting():
            await turn.wait()
        if session.lost:
            raise lost()
        known = execution.known
        try:
            listed = healing.lists_names(self._healing.show_tables, session.call, known)
            way = Own(ListNames(known.text)) if listed else await self._router.consider(session, known)
        except FreshgateError as error:
            statement.refuse(error)
            raise
        if isinstance(way, Own):
            statement.taken_for_command()
            return await own.execute(way, session, report)
        underway = self._effects.begin(session, sent(way))
        follow(statement, way)
        return await self.after(execution.for_the_rest(began), way, underway, report)

    async def after(
        self, execution: Execution, way: Sent, underway: Underway, report: Report
    ) -> Recorded | ForwardedOperation:
        """Waits for the refresh, if there is one, then starts the client's statement over the session's side
        connection, unless its result is in memory."""
        session = execution.session
        began = time.monotonic()
        try:
            if isinstance(way, RefreshFirst):
                with execution.statement.waiting():
                    underway.departs(await self._router.prepare(way, report))
            for note in underway.send.notes:
                report(note)
            underway.departs(replace(underway.send, notes=()))
            if (key := self.key(execution, underway.send)) is not None:
                return await self._known(execution.for_the_rest(began), way, underway, key, report)
            self.count_left(session, underway.send)
            side = await session.side()
            if isinstance(way, RefreshFirst):
                self._router.check_again(way)
        except BaseException:  # Including cancellation: the statement does not get to Spark.
            underway.abandon(End.FAILED)
            raise
        execution = execution.for_the_rest(began)
        if not isinstance(way, FromView):
            return await self._start(execution, side, underway, execution.statement)
        try:
            return await self._from_view(execution, side, way, underway)
        except FreshgateError as error:
            return await self._own_text(execution, way, error, report)

    async def _from_view(
        self, execution: Execution, side: SideConnection, way: FromView, underway: Underway
    ) -> ForwardedOperation:
        """Runs the text that stands in for the client's to its end."""
        operation = await self._start(execution, side, underway, None)
        await self._ended(side, operation, execution.call.query_timeout_seconds)
        if not self._effects.rewrites.still_holds(way.hit):
            self._drop(side, operation)
            raise Overtaken("What it read was written while it ran.")
        operation.statement = execution.statement
        execution.statement.started(operation.handle)
        execution.statement.end(End.SUCCEEDED)
        return operation

    async def _own_text(
        self, execution: Execution, way: FromView, error: FreshgateError, report: Report
    ) -> Recorded | ForwardedOperation:
        """Runs the client's own text after another one has failed, of which no row has been seen."""
        if isinstance(error, UpstreamLost) or error.sqlstate == TIMED_OUT:
            raise error
        own = await self._router.own_text(execution.session, way, error)
        underway = self._effects.begin(execution.session, sent(own))
        follow(execution.statement, own)
        return await self.after(execution, own, underway, report)

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
        self._background.begin(self._stop(side, operation.handle))
        operation.close()

    async def _start(
        self, execution: Execution, side: SideConnection, underway: Underway, statement: Statement | None
    ) -> ForwardedOperation:
        """Starts a statement over the session's side connection."""
        session, payload = execution.session, execution.with_text(underway.send.text)
        underway.sent()
        started = asyncio.ensure_future(side.forward(message.with_handle(payload, session.upstream_handle)))
        try:
            answer = await asyncio.shield(started)
            handle, status = message.execute_handle(answer), message.reply_status(answer)
        except asyncio.CancelledError:
            self._background.begin(self._stop_started(side, started, underway))
            raise
        except BaseException as error:  # Spark may have started it: the outcome is unknown.
            underway.abandon()
            if isinstance(error, WireError):
                raise UpstreamLost(f"Spark's reply to the statement cannot be read: {error}.") from error
            raise
        if handle is None:
            underway.abandon(End.FAILED)
            raise StatementFailed(status.message or "Spark refused the statement.", sqlstate=status.sqlstate or "HY000")
        return self.watched(execution, handle, underway, statement)

    async def _stop_started(self, side: SideConnection, started: asyncio.Future[bytes], underway: Underway) -> None:
        """Cancels and closes a statement at Spark whose client has gone while it was being started."""
        try:
            handle = message.execute_handle(await started)
            if handle is not None:
                await self._stop(side, handle)
        except FreshgateError as error:
            log.info("a statement could not be cancelled: %s", error)
        finally:
            underway.abandon()

    async def _stop(self, side: SideConnection, handle: Handle) -> None:
        """Cancels and closes a statement at Spark."""
        try:
            await side.forward(request.cancel_operation(handle))
            await side.forward(request.close_operation(handle))
        except FreshgateError as error:
            log.info("a statement could not be cancelled: %s", error)
        self._sessions.cancel_jobs(handle.public_id)

    def watched(
        self, execution: Execution, handle: Handle, underway: Underway, statement: Statement | None
    ) -> ForwardedOperation:
        operation = ForwardedOperation(handle, statement=statement, notes=underway.send.notes)
        if statement is not None:
            statement.started(handle)
        underway.started(operation)
        operation.may_lack_columns = self._healing.ddl_columns and healing.may_lack_columns(execution.known)
        if self._may_read_ahead(execution.session, operation):
            operation.reading = ResultReading()
        return operation

    def _may_read_ahead(self, session: Session, operation: ForwardedOperation) -> bool:
        """Whether pages pass unchanged, and Spark never has to go back to earlier rows."""
        as_they_are = not operation.may_lack_columns and not self._healing.page_bytes
        return as_they_are and unrecordable(session, self._habits) is None


def enter(turns: StatementTurns, session: Session, statement: Statement) -> StatementTurn | None:
    """The turn of a statement, which ends with it; None if no rule of limits.rules is about it. Raises LimitReached."""

    async def ask() -> None:
        await _ask_for_end(session, statement)

    turn = turns.enter(session.who, session.peer, ask)
    if turn is not None:
        statement.holds(turn.end)
    return turn


async def _ask_for_end(session: Session, statement: Statement) -> None:
    """Asks Spark whether the statement has ended: its client may not."""
    running = (at_spark(each) for each in list(session.operations.values()))
    own = next((each for each in running if each is not None and each.statement is statement), None)
    if own is None or own.ended or own.lost or session.over or session.lost:
        return
    try:
        async with session.spare() as side:
            ends.status_seen(own, await side.forward(request.operation_status(own.handle)))
    except (FreshgateError, WireError) as error:
        log.info("Spark could not be asked whether a statement of %s has ended: %s", session.user, error)


def follow(statement: Statement, way: Sent) -> None:
    """The statement goes this way."""
    send = sent(way)
    statement.understood(send.mentions)
    if isinstance(way, FromView):
        statement.rewritten(send.text or "", way.hit.answer.ids)
    else:
        missed = next((effect.reason for effect in send.effects if isinstance(effect, QueryMissed)), "")
        statement.not_rewritten(missed)


def _for_the_rest(payload: bytes, call: ExecuteCall, began: float) -> bytes:
    """The request with the rest of its time limit in whole seconds; `began` is from `time.monotonic`."""
    if not call.query_timeout_seconds:
        return payload
    left = call.query_timeout_seconds - int(time.monotonic() - began)
    return message.with_query_timeout(payload, max(left, 1))


def lost() -> UpstreamLost:
    return UpstreamLost(
        "Spark went away, and with it this session's current database, temporary views, settings and running "
        "statements. Run the statement again: a new session is opened for it."
    )
