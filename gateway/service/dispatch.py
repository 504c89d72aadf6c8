"""Dispatches a client's requests: each becomes a Forward, an Answer, or work that results in one of them.

Tests: `test_router`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial

from gateway.errors import FreshgateError, UpstreamLost
from gateway.loops import BackgroundTasks
from gateway.mv.catalog.index import Catalog
from gateway.mv.refresh.habits import Habits
from gateway.mv.refresh.progress import Lines, Report
from gateway.service import elsewhere
from gateway.service.answers import healing
from gateway.service.answers.metadata import ListedOperation, listing_of
from gateway.service.clients import own_settings
from gateway.service.clients.audit import OTHER, Audit, Statement
from gateway.service.clients.bounds import too_long, too_many
from gateway.service.clients.handover import Logins
from gateway.service.clients.moving import LooseSessions
from gateway.service.clients.opening import Opening
from gateway.service.clients.session import Session, Sessions, stopping
from gateway.service.clients.setting_rules import NO_RULES, SettingRules
from gateway.service.clients.sides import Sides
from gateway.service.decision import Answer, Decision, Forward, Moving, decided, failure
from gateway.service.executions import Execution, Executions, enter, follow, lost
from gateway.service.leadership import Leadership
from gateway.service.memory.memory_answers import MemoryAnswers
from gateway.service.operations import ends
from gateway.service.operations.operation import (
    Asked,
    End,
    ForwardedOperation,
    Operation,
    Outcome,
    log_page,
    new_handle,
    timed_out,
)
from gateway.service.repeats import repeated
from gateway.service.results.store import ResultStore
from gateway.service.routing import one_server
from gateway.service.routing.own_statements import OwnStatements
from gateway.service.routing.router import Router
from gateway.service.routing.underway import Effects, Underway
from gateway.service.routing.ways import ListNames, ListSettings, Own, RefreshFirst, Send, Sent, sent
from gateway.wire import message, reply, request
from gateway.wire.frame import WireError
from gateway.wire.message import FETCH_LOG, ExecuteCall, Handle, Head
from gateway.wire.page import FittedPage
from gateway.wire.reading import Ahead, ResultReading
from gateway.wire.sasl import Login
from sql.understood import Understood

log = logging.getLogger(__name__)

OPERATION_REQUESTS = frozenset(name.decode("ascii") for name in message.OPERATION_METHODS)


@dataclass(frozen=True, slots=True)
class Service:
    """The parts that all clients share."""

    catalog: Catalog
    router: Router
    effects: Effects
    own: OwnStatements
    sides: Sides
    logins: Logins
    habits: Habits
    healing: healing.Healing = field(default_factory=healing.Healing)
    """Which of Spark's faults are corrected."""
    statement_bytes_max: int = 1 << 30
    sessions: Sessions = field(default_factory=Sessions)
    audit: Audit = field(default_factory=Audit)
    results: ResultStore = field(default_factory=partial(ResultStore, 0, 0, 0.0))
    background: BackgroundTasks = field(default_factory=partial(BackgroundTasks, "work for a client that has gone"))
    leadership: Leadership | None = None
    """None: no other gateway waits to take over."""
    loose: LooseSessions | None = None
    """Those that go on at the next gateway; None if no other one waits."""
    setting_rules: SettingRules = NO_RULES
    """Which settings of sessions are refused, ignored, forced or hidden."""
    shares: bool = False
    """Whether sessions are shared out over several Spark servers."""
    memory: MemoryAnswers | None = None
    """None if no views are held in memory."""


class Dispatch:
    """One client connection. Implements `decision.Dispatcher`."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._healing = service.healing
        self._sessions = service.sessions
        self._turns = service.sessions.quotas.turns
        self._audit = service.audit
        self._requests = service.audit.counts.requests
        self._executions = Executions(
            service.sessions,
            service.habits,
            service.healing,
            service.router,
            service.effects,
            service.background,
            service.results,
            service.memory,
        )
        self._opening = Opening(
            service.sessions,
            service.sides,
            service.logins,
            service.setting_rules,
            service.audit,
            service.background,
            service.leadership.stands if service.leadership is not None else None,
            close_left=service.healing.leaked_sessions,
        )
        self.moving: Moving = self._opening
        self._users = self._opening.users
        self._reader = object()
        """Identifies this connection, also to objects that outlive it."""
        self._session: Session | None = None
        """The session of the last request."""
        self._outstanding: tuple[Session, Underway, Statement] | None = None
        """The statement that was forwarded and is not answered yet."""
        self._asking: Asked | None = None
        """Must be notified when Spark has answered whether an operation has ended."""

    # --- decision.Dispatcher -----------------------------------------------------------------------

    def came_from(self, address: str, do_as: str = "") -> None:
        self._opening.peer, self._opening.do_as = address, do_as

    def login(self, login: Login) -> None:
        self._opening.login = login

    @property
    def identity(self) -> Login:
        """The last login, once admitted with the name of its user."""
        return self._opening.login

    async def admit(self) -> bool:
        return await self._opening.admit()

    @property
    def logged_in(self) -> bool:
        return bool(self._users)

    @property
    def is_busy(self) -> bool:
        return self._session is not None and not self._session.over and self._session.is_busy()

    async def refused_by_spark(self, error: FreshgateError) -> None:
        await self._opening.refused_by_spark(error)

    def login_ended(self, error: FreshgateError | None) -> None:
        self._opening.login_ended(error)

    def upstream_login(self) -> Login:
        return self._opening.upstream_login()

    def joined(self, at: str) -> None:
        self._opening.joined(at)

    @property
    def at(self) -> str | None:
        return self._session.at if self._session is not None else None

    def request(self, payload: bytes) -> Decision:
        self._session = None
        decision = self._decide(payload)
        # Spark's servers do not know each other's sessions, and the client's own connection may have to stay.
        session, bound_to = self._session, self._opening.bound_to
        if session is None or bound_to in (None, session.at):
            return decision
        return elsewhere.forwarded(session, decision, self._abandon_outstanding)

    def _decide(self, payload: bytes) -> Decision:
        head = message.peek(payload)
        self._requests[head.name if head.name in self._requests else OTHER] += 1
        try:
            if head.name == "OpenSession":
                return self._opening.request(payload)
            self._opening.drop_asked()
            handle = message.request_handle(payload)
            if handle is None:
                # Without session and operation it is a call that neither Spark nor the gateway knows. Clients rely on
                # the error.
                if not self._users and self._service.logins.authenticator.required:
                    # Nobody has logged in yet, and only logged-in clients get a connection to Spark.
                    return Answer(reply.unknown_method(head.name, head.seqid))
                return Forward(payload)
            if head.name in OPERATION_REQUESTS:
                return self._operation_request(handle, head, payload)
            session = self._sessions.find(handle, self._users)
            if session is None:
                text = f"Invalid SessionHandle: it was not opened by {self._opening.login.user}, or is closed."
                return _refused(head, text)
            self._session = session
            return self._session_request(session, head, payload)
        except WireError as error:
            # A complete message, but not valid for its method: the client's fault, which concerns only this call.
            return Answer(reply.exception(head.name, head.seqid, f"This is not a valid {head.name} call: {error}."))

    def replied(self) -> None:
        self._answered()
        if self._session is not None:
            self._session.touch()
            self._sessions.changed(self._session)

    def upstream_lost(self, outstanding: bytes | None) -> bytes | None:
        """All sessions of this connection are gone at Spark, unless it uses HTTP; the client stays, and is told."""
        self._answered()
        self._opening.upstream_lost(reported=outstanding is not None)
        self._abandon_outstanding()
        if outstanding is None:
            return None
        head = message.peek(outstanding)
        if head.name == "OpenSession":
            return failure(head, UpstreamLost("Spark does not answer. Try to connect again in a few seconds."))
        return failure(head, lost())

    def not_joined(self, outstanding: bytes, error: FreshgateError) -> bytes:
        self._answered()
        self._opening.not_joined(error)
        self._abandon_outstanding(error)
        return failure(message.peek(outstanding), error)

    async def client_lost(self) -> None:
        self._answered()
        await self._opening.client_lost()
        self._abandon_outstanding()

    def _answered(self) -> None:
        """Ends a request whether an operation has ended: it is answered, or the answer is lost."""
        asking, self._asking = self._asking, None
        if asking is not None:
            asking.answered(self)

    def _abandon_outstanding(self, error: FreshgateError | None = None) -> None:
        """Gives up the outstanding statement: no reply will come. `error`: why it never reached Spark."""
        outstanding, self._outstanding = self._outstanding, None
        if outstanding is not None:
            session, underway, statement = outstanding
            session.outstanding -= 1
            if error is None:
                underway.abandon()
                statement.end(End.UNKNOWN)
            else:
                underway.abandon(End.FAILED)
                statement.broke(error)

    # --- sessions ----------------------------------------------------------------------------------

    def _session_request(self, session: Session, head: Head, payload: bytes) -> Decision:
        leadership = self._service.leadership
        if leadership is None or not leadership.needs_check(head):
            return self._routed(session, head, payload)
        return leadership.then(head, partial(self._routed, session, head, payload))

    def _routed(self, session: Session, head: Head, payload: bytes) -> Decision:
        if session.continuity.arrived and head.name != "CloseSession":
            return self._after_arrival(session, head, payload)
        if session.lost:
            if head.name == "CloseSession":
                return self._opening.close(session, head, payload)
            call = message.statement(payload) if head.name == "ExecuteStatement" else None
            return self._after_loss(session, head, call, payload)
        if head.name == "ExecuteStatement":
            return self._execute(session, head, payload)
        if head.name == "GetInfo" and self._healing.get_info:
            answer = healing.info(head, payload, session.user)
            if answer is not None:
                return Answer(answer)
        payload = _at_spark(session, payload)
        if head.name in message.METADATA_METHODS:
            return self._list(session, head, payload)
        if head.name == "CloseSession":
            return self._opening.close(session, head, payload)
        return Forward(payload)

    async def _after_loss(
        self, session: Session, head: Head, call: ExecuteCall | None, payload: bytes
    ) -> Forward | Answer:
        """A request after Spark went away, and with it the session's temporary views and settings. The client gets this
        error once; then statements run in a new session."""
        try:
            if not session.loss_reported:
                session.loss_reported = True
                raise lost()
            await session.reopen()
        except FreshgateError as error:
            if call is not None:
                self._audit.begin(session, self._opening.peer, Understood(call.statement)).broke(error)
            return Answer(failure(head, error))
        return await decided(self._session_request(session, head, payload))

    async def _after_arrival(self, session: Session, head: Head, payload: bytes) -> Forward | Answer:
        """The first request in a session that goes on here after another gateway has gone."""
        try:
            recall = own_settings.recall if session.continuity.taken_over else None
            await session.confirm(recall)
            if session.lost and session.continuity.taken_over:
                return await _never_again(self._sessions, session, head)
            if session.lost and session.continuity.loose:
                self._sessions.lose(session)
            session.continuity.taken_over = False
            if session.continuity.interrupted and not session.lost and head.name == "ExecuteStatement":
                session.continuity.interrupted = False
                raise _interrupted()
        except FreshgateError as error:
            return Answer(failure(head, error))
        return await decided(self._session_request(session, head, payload))

    def _list(self, session: Session, head: Head, payload: bytes) -> Forward | Answer:
        """A metadata call: Spark makes the list, and `Listing` changes it for the client."""
        if (refusal := too_many(session, self._sessions.operations_max)) is not None:
            return Answer(failure(head, refusal))
        payload = healing.metadata_call(self._healing, head.name, payload, session.namespace)
        listing = listing_of(head.name, payload, self._service.catalog)

        def on_reply(answer: bytes) -> None:
            handle = message.execute_handle(answer)
            if handle is not None:
                operation = ForwardedOperation(handle) if listing is None else ListedOperation(handle, listing)
                operation.ended = True
                self._sessions.add_operation(session, handle, operation)

        return Forward(payload if listing is None else listing.request(payload), on_reply)

    # --- statements --------------------------------------------------------------------------------

    def _execute(self, session: Session, head: Head, payload: bytes) -> Decision:
        call = message.statement(payload)
        known = Understood(call.statement)
        statement = self._audit.begin(session, self._opening.peer, known)
        execution = Execution(session, head, call, payload, known, statement)
        refusal = self._refusal(session, call) or repeated(session, head, payload, self._reader)
        # Doors know of the statement before anything of it takes effect.
        self._sessions.changed(session)
        if refusal is None and self._service.shares:
            refusal = one_server.refusal(known)
        if refusal is not None:
            statement.refuse(refusal)
            return Answer(failure(head, refusal))
        if (rules := self._service.setting_rules).active:
            try:
                listing = rules.decide(known, overlaid=call.overlaid)
            except FreshgateError as error:
                statement.refuse(error)
                return Answer(failure(head, error))
            if listing is not None:
                statement.taken_for_command()
                listed = Own(ListSettings(listing, rules))
                return self._execute_here(execution, partial(self._service.own.execute, listed, session))
        if self._turns.active:
            try:
                turn = enter(self._turns, session, statement)
            except FreshgateError as error:
                statement.refuse(error)
                return Answer(failure(head, error))
            if turn is not None and turn.waits:
                work = partial(self._executions.in_turn, execution, turn, self._service.own)
                return self._execute_here(execution, work, confirms=True)
        if healing.lists_names(self._healing.show_tables, session.call, known):
            statement.taken_for_command()
            listed = Own(ListNames(known.text))
            return self._execute_here(execution, partial(self._service.own.execute, listed, session))
        send = self._service.router.plain(session, known)
        if send is None:
            return self._considered(execution)
        return self._forward(execution, self._service.effects.begin(session, send))

    def _refusal(self, session: Session, call: ExecuteCall) -> FreshgateError | None:
        """Why this statement, or every statement, is refused; None if it is not."""
        if self._sessions.stopping:
            return stopping()
        return too_many(session, self._sessions.operations_max) or too_long(call, self._service.statement_bytes_max)

    async def _considered(self, execution: Execution) -> Forward | Answer:
        """A statement that may be the gateway's own, or may mention tables that materialized views depend on."""
        statement = execution.statement
        statement.enter()
        try:
            way = await self._service.router.consider(execution.session, execution.known)
        except FreshgateError as error:
            statement.refuse(error)
            return Answer(failure(execution.head, error))
        except BaseException as error:  # Including cancellation.
            statement.broke(error)
            raise
        if isinstance(way, Own):
            statement.taken_for_command()
            return await self._execute_here(execution, partial(self._service.own.execute, way, execution.session))
        underway = self._service.effects.begin(execution.session, sent(way))
        follow(statement, way)
        if isinstance(way, Send) and self._executions.key(execution, way) is None:
            return self._forward(execution, underway)
        if isinstance(way, RefreshFirst) and not execution.call.run_async:
            return await self._after_refresh(execution, way, underway)
        return await self._executed(execution, way, underway)

    def _forward(self, execution: Execution, underway: Underway) -> Forward:
        session = execution.session
        self._executions.count_left(session, underway.send)
        self._outstanding = session, underway, execution.statement
        session.outstanding += 1
        self._sessions.changed(session)
        underway.sent(synchronous=not execution.call.run_async)
        payload = _at_spark(session, execution.with_text(underway.send.text))
        confirm, leadership = None, self._service.leadership
        if leadership is not None and not execution.call.run_async and underway.matters:
            confirm = partial(leadership.confirmed, execution.head)
        return Forward(payload, lambda answer: self._started(execution, underway, answer), confirm=confirm)

    def _started(self, execution: Execution, underway: Underway, answer: bytes) -> None:
        """Spark has started or refused the statement; a synchronous statement has also ended."""
        session = execution.session
        handle, status = message.execute_handle(answer), message.reply_status(answer)
        if handle is None:
            underway.abandon(ends.refused(answer, runs_others=underway.send.runs_others))
            execution.statement.rejected(status)
        else:
            operation = self._executions.watched(execution, handle, underway, execution.statement)
            if not execution.call.run_async:
                operation.end(End.SUCCEEDED)
            if not self._sessions.add_operation(session, handle, operation):
                operation.close()  # Another connection has closed the session.
        # Last, so that the statement is still outstanding if any of this fails.
        self._outstanding = None
        session.outstanding -= 1

    async def _after_refresh(self, execution: Execution, way: RefreshFirst, underway: Underway) -> Forward | Answer:
        """A synchronous statement: the client waits for its reply, and nothing can be sent before."""
        session, call, statement = execution.session, execution.call, execution.statement
        session.outstanding += 1
        began = time.monotonic()
        try:
            async with asyncio.timeout(call.query_timeout_seconds or None):
                with statement.waiting():
                    underway.departs(await self._service.router.prepare(way, statement.listening(Lines(log.debug))))
            self._service.router.check_again(way)
        except (FreshgateError, TimeoutError) as error:
            underway.abandon(End.FAILED)
            shown = error if isinstance(error, FreshgateError) else timed_out(call.query_timeout_seconds)
            statement.broke(shown)
            return Answer(failure(execution.head, shown))
        except BaseException as error:  # Including cancellation.
            underway.abandon(End.FAILED)
            statement.broke(error)
            raise
        finally:
            session.outstanding -= 1
        execution = execution.for_the_rest(began)
        if self._executions.key(execution, underway.send) is not None:
            return await self._executed(execution, underway.send, underway)
        return self._forward(execution, underway)

    async def _execute_here(
        self, execution: Execution, work: Callable[[Report], Awaitable[Outcome]], *, confirms: bool = False
    ) -> Answer:
        """A statement that the gateway runs, or that waits here: the work gets the operation's log. `confirms`: whether
        the client may only be told of its end by a gateway that leads."""
        operation = self._operation(execution)
        if isinstance(operation, Answer):
            return operation
        answer = await self._run(execution, operation, work(execution.statement.listening(operation.report)))
        leadership = self._service.leadership
        if leadership is None or execution.call.run_async or not confirms:
            return answer
        return Answer(await leadership.confirmed(execution.head, answer.payload))

    async def _executed(self, execution: Execution, way: Sent, underway: Underway) -> Answer:
        """A statement that the gateway sends over the session's side connection, perhaps after a wait."""
        operation = self._operation(execution)
        if isinstance(operation, Answer):
            underway.abandon(End.FAILED)
            return operation
        report, matters = execution.statement.listening(operation.report), underway.matters
        answer = await self._run(execution, operation, self._executions.after(execution, way, underway, report))
        leadership = self._service.leadership
        if leadership is None or execution.call.run_async or not matters:
            return answer
        return Answer(await leadership.confirmed(execution.head, answer.payload))

    def _operation(self, execution: Execution) -> Operation | Answer:
        """A new operation of the gateway's for the statement; the client's reply if it can have none."""
        session, statement = execution.session, execution.statement
        operation = Operation(new_handle(), session.protocol)
        if not self._sessions.add_operation(session, operation.handle, operation):
            gone = FreshgateError("Another connection has closed the session.")
            statement.refuse(gone)
            return Answer(failure(execution.head, gone))
        statement.known_as(operation.handle)
        statement.enter()
        return operation

    async def _run(self, execution: Execution, operation: Operation, work: Awaitable[Outcome]) -> Answer:
        session, head, call = execution.session, execution.head, execution.call
        operation.start(work, call.query_timeout_seconds, execution.statement.settled)
        if not call.run_async:
            await operation.settle()
            if operation.error is not None:
                self._sessions.remove_operation(session, operation.handle)
                return Answer(failure(head, operation.error))
        return Answer(reply.execute_ok(head.seqid, operation.handle))

    # --- operations --------------------------------------------------------------------------------

    def _operation_request(self, handle: Handle, head: Head, payload: bytes) -> Decision:
        found = self._sessions.find_operation(handle, self._users)
        if found is None and (self._opening.has_arrived or self._sessions.taken_over & self._users):
            return _gone(head)
        if found is None:
            user = self._opening.login.user
            return _refused(head, f"Invalid OperationHandle: it does not belong to {user}, or is closed.")
        session, operation = found
        self._session = session
        if isinstance(operation, ForwardedOperation):
            return self._forwarded_request(session, operation, operation.handle, head, payload)
        if operation.continued is not None:
            return self._continued_request(session, operation, operation.continued, head, payload)
        return self._own_request(session, operation, head, payload)

    def _forwarded_request(
        self, session: Session, operation: ForwardedOperation, known_as: Handle, head: Head, payload: bytes
    ) -> Decision:
        """A request about one of Spark's operations, which the client knows as `known_as`."""
        if operation.lost:
            return self._lost_request(session, known_as, head)
        if head.name == "GetOperationStatus":
            return self._status(session, operation, head, payload)
        if head.name == "CloseOperation":
            return self._close_forwarded(session, operation, known_as, head, payload)
        if head.name == "CancelOperation":
            if operation.statement is not None:
                operation.statement.cancel()
            # Only after Spark's cancellation, so that the statement ends as cancelled and not as failed.
            return Forward(payload, lambda _: self._sessions.end_jobs(operation))
        if operation.notes and head.name == "FetchResults" and message.fetch_call(payload).fetch_type == FETCH_LOG:
            notes, operation.notes = operation.notes, ()
            return Answer(log_page(head.seqid, notes, session.protocol))
        if head.name == "FetchResults" and isinstance(operation, ListedOperation):
            return self._listed(session, operation, head, payload)
        if head.name == "FetchResults":
            if operation.outcome_matters and not operation.ended:
                return self._rows_of_pending(session, operation, head, payload)
            return self._rows(session, operation, head, payload)
        if head.name == "GetResultSetMetadata" and self._healing.early_metadata and not operation.ended:
            return _metadata_when_ended(session, operation, head, payload)
        return Forward(payload)

    def _status(self, session: Session, operation: ForwardedOperation, head: Head, payload: bytes) -> Decision:
        confirm, leadership = None, self._service.leadership
        if leadership is not None and operation.outcome_matters and not operation.told:
            confirm = partial(leadership.status_told, operation, head)
        if operation.final_status is not None:
            # The Hive 2.3 driver polls once per row.
            answer = message.with_seqid(operation.final_status, head.seqid)
            if confirm is not None:
                return _answered(confirm(answer))
            return Answer(answer, lambda: operation.is_open() and session.touch())
        if operation.pending is not None:
            self._asking = operation.pending
            operation.pending.asked(self)
        return Forward(payload, lambda answer: ends.status_seen(operation, answer), confirm=confirm)

    def _rows(self, session: Session, operation: ForwardedOperation, head: Head, payload: bytes) -> Decision:
        if operation.reading is not None:
            return self._page(session, operation, operation.reading, head, payload)
        page_bytes = self._healing.page_bytes
        if not (operation.may_lack_columns or page_bytes) or message.fetch_call(payload).fetch_type == FETCH_LOG:
            return Forward(payload)
        if operation.may_lack_columns:
            return Forward(payload, mend=healing.with_column)
        page = FittedPage(payload, page_bytes, operation.fit)
        return Forward(page.request, page=page)

    def _page(
        self, session: Session, operation: ForwardedOperation, reading: ResultReading, head: Head, payload: bytes
    ) -> Decision:
        """A page of a result whose next page may already have been requested from Spark."""
        call = reading.call(payload)
        if call.fetch_type == FETCH_LOG:
            return Forward(payload)
        if (elsewhere := reading.asked_elsewhere(self._reader)) is not None:
            return self._page_back(session, operation, elsewhere, head, payload)
        if reading.lost:
            return Answer(failure(head, _rows_lost()))
        return Forward(payload, page=reading.page(payload, call, self._reader))

    async def _page_back(
        self, session: Session, operation: ForwardedOperation, ahead: Ahead, head: Head, payload: bytes
    ) -> Forward | Answer:
        """A page that has been requested from Spark over another connection, whose client has not fetched it."""
        over = asyncio.Event()
        ahead.on_over.append(over.set)
        ahead.drop()
        if not ahead.over:
            await over.wait()
        if operation.lost:
            return self._lost_request(session, operation.handle, head)
        return await decided(self._rows(session, operation, head, payload))

    async def _rows_of_pending(
        self, session: Session, operation: ForwardedOperation, head: Head, payload: bytes
    ) -> Forward | Answer:
        """Rows for a client that has not asked whether its statement has ended: it gets them only if it succeeded."""
        if message.fetch_call(payload).fetch_type != FETCH_LOG:
            try:
                status = await (await session.side()).forward(request.operation_status(operation.handle))
            except FreshgateError as error:
                return Answer(failure(head, error))
            ends.status_seen(operation, status)
        return await decided(self._rows(session, operation, head, payload))

    async def _listed(
        self, session: Session, operation: ListedOperation, head: Head, payload: bytes
    ) -> Forward | Answer:
        """A page of a metadata call. It may need several of Spark's, so these come over the side connection."""
        if message.fetch_call(payload).fetch_type == FETCH_LOG:
            return Forward(payload)
        try:
            page = await operation.listing.fetch((await session.side()).forward, payload)
        except FreshgateError as error:
            page = failure(head, error)
        # A new side connection may reach a new Spark, which does not know the handle, before the loss shows.
        return self._lost_request(session, operation.handle, head) if operation.lost else Answer(page)

    def _lost_request(self, session: Session, known_as: Handle, head: Head) -> Answer:
        """A request about an operation that was lost with Spark. Closing it succeeds, because clients close one
        operation before they run the next statement."""
        if head.name == "CloseOperation":
            self._sessions.remove_operation(session, known_as)
            return Answer(reply.closed(head.name, head.seqid))
        session.loss_reported = True
        return Answer(failure(head, lost()))

    def _close_forwarded(
        self, session: Session, operation: ForwardedOperation, known_as: Handle, head: Head, payload: bytes
    ) -> Forward:
        """Closes an operation at Spark. If it has ended, this cannot fail, so the client does not wait for it."""

        def closed(_: bytes = b"") -> None:
            self._sessions.end_jobs(operation)
            operation.close()
            self._sessions.remove_operation(session, known_as)

        if operation.reading is not None:
            operation.reading.close()
        if not operation.ended:
            return Forward(payload, closed)
        return Forward(payload, closed, at_once=reply.closed(head.name, head.seqid), on_sent=closed)

    def _continued_request(
        self, session: Session, operation: Operation, continued: ForwardedOperation, head: Head, payload: bytes
    ) -> Decision:
        if head.name == "FetchResults" and operation.has_log and message.fetch_call(payload).fetch_type == FETCH_LOG:
            return Answer(operation.fetch(head.seqid, message.fetch_call(payload)))
        payload = message.with_handle(payload, continued.handle)
        if head.name == "GetResultSetMetadata" and not continued.ended:
            return _metadata_when_ended(session, continued, head, payload)
        return self._forwarded_request(session, continued, operation.handle, head, payload)

    def _own_request(self, session: Session, operation: Operation, head: Head, payload: bytes) -> Decision:
        match head.name:
            case "GetOperationStatus":
                return self._own_status(session, operation, head, payload)
            case "GetResultSetMetadata":
                return self._own_metadata(session, operation, head, payload)
            case "FetchResults":
                return Answer(operation.fetch(head.seqid, message.fetch_call(payload)))
            case "CancelOperation":
                return _own_cancel(operation, head)
            case "CloseOperation":
                return self._own_close(session, operation, head)
            case _:
                # In Spark's words: PyHive and impyla try GetLog first, and recognize by this error that it is missing.
                return Answer(reply.unknown_method(head.name, head.seqid))

    async def _own_status(self, session: Session, operation: Operation, head: Head, payload: bytes) -> Forward | Answer:
        bar = session.shows_progress and message.wants_progress(payload)
        if not operation.settled:
            await operation.hold(bar=bar)
        if operation.continued is not None:
            return await decided(self._continued_request(session, operation, operation.continued, head, payload))
        return Answer(operation.status(head.seqid, bar=bar))

    async def _own_metadata(
        self, session: Session, operation: Operation, head: Head, payload: bytes
    ) -> Forward | Answer:
        await operation.settle()
        if operation.continued is not None:
            return await decided(self._continued_request(session, operation, operation.continued, head, payload))
        if operation.error is not None:
            return Answer(failure(head, operation.error))
        return Answer(operation.metadata(head.seqid))

    async def _own_close(self, session: Session, operation: Operation, head: Head) -> Answer:
        await operation.cancel()
        if operation.continued is not None:
            operation.continued.close()
        self._sessions.remove_operation(session, operation.handle)
        return Answer(reply.closed(head.name, head.seqid))


def _at_spark(session: Session, payload: bytes) -> bytes:
    """The request with Spark's handle, which differs from the client's once the session was reopened."""
    if session.upstream_handle is session.handle:
        return payload
    return message.with_handle(payload, session.upstream_handle)


async def _own_cancel(operation: Operation, head: Head) -> Answer:
    await operation.cancel()
    return Answer(reply.closed(head.name, head.seqid))


async def _metadata_when_ended(
    session: Session, operation: ForwardedOperation, head: Head, payload: bytes
) -> Forward | Answer:
    """Waits for the statement's end: if asked before, Spark answers with one wrong column, also after the end."""
    status = request.operation_status(operation.handle)
    try:
        side = await session.side()
        while not operation.ended:
            if ends.status_seen(operation, await side.forward(status)) is None:
                break  # Spark no longer knows it, and says so again when asked for the metadata.
    except FreshgateError as error:
        return Answer(failure(head, error))
    return Forward(payload)


def _refused(head: Head, text: str) -> Answer:
    return Answer(reply.error(head.name, head.seqid, text, "HY000"))


async def _never_again(sessions: Sessions, session: Session, head: Head) -> Answer:
    """Spark does not have a session over HTTP that was opened at another gateway: its client may have closed it."""
    sessions.remove(session)
    await session.drop_side()
    return _refused(head, "Invalid SessionHandle: Spark does not have this session any more. Connect again.")


def _rows_lost() -> UpstreamLost:
    return UpstreamLost(
        "Spark answered with an error, or its connection broke, while rows were under way. It is unknown which rows of "
        "this result come next. Run the statement again."
    )


async def _answered(reply: Awaitable[bytes]) -> Answer:
    return Answer(await reply)


def _interrupted() -> FreshgateError:
    return FreshgateError(
        "The transaction of this session has ended, because the gateway that held its versions has gone. Begin it "
        "again.",
        "25000",
    )


def _gone(head: Head) -> Answer:
    """The answer about an operation of another gateway. Closing it succeeds, because clients close one operation before
    they run the next statement."""
    if head.name in {"CloseOperation", "CancelOperation"}:
        return Answer(reply.closed(head.name, head.seqid))
    if head.name in message.UNKNOWN_METHODS:
        return Answer(reply.unknown_method(head.name, head.seqid))
    error = FreshgateError(
        "The gateway that ran this statement has gone, and another one leads. If the statement writes, it may have "
        "taken effect: look before you run it again.",
        "08007",
    )
    return Answer(failure(head, error))
