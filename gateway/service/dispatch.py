"""The way of a client's requests: each becomes a Forward, an Answer, or work that ends in one of the two."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Coroutine
from dataclasses import dataclass, field

from gateway.config import Healing
from gateway.errors import FreshgateError, LimitReached, UpstreamLost
from gateway.login.authenticator import Authenticator, Unchecked
from gateway.mv.catalog import Catalog
from gateway.mv.progress import Lines
from gateway.service import healing
from gateway.service.decision import Answer, Decision, Forward
from gateway.service.metadata import ListedOperation, listing_of
from gateway.service.operation import (
    FETCH_LOG,
    TERMINAL_STATES,
    End,
    ForwardedOperation,
    Operation,
    new_handle,
    timed_out,
)
from gateway.service.route import Own, Route, Router, Waiting
from gateway.service.session import CLOSE_SECONDS, Session, Sessions, stopping
from gateway.service.upstream import SideConnection, Upstream
from gateway.wire import message, reply, request
from gateway.wire.frame import WireError
from gateway.wire.http_connection import COOKIE_LOGIN, HTTP
from gateway.wire.message import ExecuteCall, Handle, Head, OpenCall
from gateway.wire.page import Page
from gateway.wire.sasl import Login
from sql.classify import glance

log = logging.getLogger(__name__)

NOSASL = "NOSASL"
ANONYMOUS = "anonymous"
"""Name and password of clients that give none, as Hive's drivers have it."""
PARSE_ERROR = "42601"
PROXY_USER_KEY = "hive.server2.proxy.user"
"""In OpenSession's configuration: as whom Spark is to run the session (ThriftCLIService.getProxyUser)."""
OPERATION_REQUESTS = frozenset(name.decode("ascii") for name in message.OPERATION_METHODS)


@dataclass(frozen=True, slots=True)
class Service:
    """What all clients share."""

    catalog: Catalog
    router: Router
    upstream: Upstream
    mechanism: str
    """How to log in to Spark: "PLAIN", "NOSASL" or "HTTP"."""
    statement_bytes_max: int = 1 << 30
    show_storage: bool = False
    """Metadata calls list the storage database like any other."""
    authenticator: Authenticator = field(default_factory=Unchecked)
    account: Login | None = None
    """Who logs in to Spark for every user, each of whom is named as a proxy user; None: each user does himself."""
    healing: Healing = field(default_factory=Healing)
    """Which faults of Spark's are made good."""
    sessions: Sessions = field(default_factory=Sessions)


class Dispatch:
    """One client connection. Implements `decision.Dispatcher`."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._sessions = service.sessions
        self._mine: list[Session] = []
        """Sessions that were opened on this connection."""
        self._newest: Session | None = None
        """The one that Spark closes with the connection: opened last, and none was closed since."""
        self._login = Login("", "", NOSASL)
        self._users: set[str] = set()
        """Without SASL each session of a connection may be another user's."""
        self._peer = ""
        self._joined_as: str | None = None
        """Whose name and password the connection to Spark was made with; None while there is none."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._outstanding: tuple[Session, Route] | None = None
        """The statement that was forwarded and not answered yet."""

    # --- decision.Dispatcher -----------------------------------------------------------------------

    def login(self, login: Login) -> None:
        self._login = login

    async def admit(self, peer: str) -> None:
        self._peer = peer
        if self._login.mechanism != COOKIE_LOGIN:  # Its password was checked when the cookie was given out.
            await self._service.authenticator.check(self._login, peer)
        self._users.add(self._login.user)

    def upstream_login(self) -> Login:
        self._joined_as = self._login.user
        return self._spark_login()

    def _spark_login(self) -> Login:
        """The client's own name and password, if no account stands for all users.

        Spark takes no empty password, so it gets the one drivers send then.
        """
        if self._service.account is not None:
            return self._service.account
        return Login(self._login.user or ANONYMOUS, self._login.password or ANONYMOUS, self._service.mechanism)

    def request(self, payload: bytes) -> Decision:
        head = message.peek(payload)
        try:
            if head.name == "OpenSession":
                return self._open_session(payload)
            handle = message.request_handle(payload)
            if handle is None:
                # No session, no operation: a call that neither Spark nor the gateway knows. Clients rely on the error.
                if not self._users and self._service.authenticator.required:
                    # Nobody has logged in yet, and a connection to Spark is made for those who have.
                    return Answer(reply.unknown_method(head.name, head.seqid))
                return Forward(payload)
            if head.name in OPERATION_REQUESTS:
                return self._operation_request(handle, head, payload)
            session = self._sessions.find(handle, self._users)
            if session is None:
                text = f"Invalid SessionHandle: it was not opened by {self._login.user}, or is closed."
                return self._refuse(head, text)
            return self._session_request(session, head, payload)
        except WireError as error:
            # A whole message, but not one that its method can have: the client's fault, and no more than this call's.
            return Answer(reply.exception(head.name, head.seqid, f"This is no call of {head.name}: {error}."))

    def upstream_lost(self, outstanding: bytes | None) -> bytes | None:
        """Every session of this connection is gone at Spark; the client stays and hears of it. Over HTTP they stay."""
        self._joined_as = None
        if self._service.mechanism != HTTP:
            for session in self._mine:
                self._sessions.lose(session)
                if self._service.healing.leaked_sessions and session is not self._newest:
                    self._keep(self._close_left(session.upstream_handle))
            self._newest = None
        self._abandon_outstanding()
        if outstanding is None:
            return None
        for session in self._mine:
            session.told_lost = session.lost
        head = message.peek(outstanding)
        if head.name == "OpenSession":
            return self._error(head, UpstreamLost("Spark does not answer. Try to connect again in some seconds."))
        return self._error(head, _lost())

    async def client_lost(self) -> None:
        """Ends the client's sessions at Spark, so that what they were writing has ended when it is noted as ended.

        Where the setting leaves it to Spark, which ends the newest one only, the others stay open and can be used from
        any connection.
        """
        mine, self._mine = self._mine, []
        if not self._service.healing.leaked_sessions:
            mine = [session for session in mine if session is self._newest]
        await asyncio.gather(*(self._sessions.end(session) for session in mine))
        self._abandon_outstanding()

    async def _close_left(self, handle: Handle) -> None:
        """Where only the connection broke, and not Spark, it has closed the newest session and kept the others."""
        with contextlib.suppress(FreshgateError, TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                side = await self._service.upstream.connect(self._spark_login())
                try:
                    await side.forward(request.close_session(handle))
                finally:
                    await side.close()

    def _abandon_outstanding(self) -> None:
        outstanding, self._outstanding = self._outstanding, None
        if outstanding is not None:
            session, route = outstanding
            session.outstanding -= 1
            route.abandon()

    # --- sessions ----------------------------------------------------------------------------------

    def _open_session(self, payload: bytes) -> Decision:
        call = message.open_session(payload)
        if self._login.mechanism != NOSASL:
            return self._open_as(self._login, call, payload)
        login = Login(call.username or ANONYMOUS, call.password or "", NOSASL)
        if self._service.authenticator.required:
            return self._check_and_open(login, call, payload)
        return self._open_as(login, call, payload)

    async def _check_and_open(self, login: Login, call: OpenCall, payload: bytes) -> Forward | Answer:
        """Without SASL each OpenSession is a login."""
        try:
            await self._service.authenticator.check(login, self._peer)
        except FreshgateError as error:
            return Answer(self._error(message.peek(payload), error))
        return await _decided(self._open_as(login, call, payload))

    def _open_as(self, login: Login, call: OpenCall, payload: bytes) -> Decision:
        try:
            self._refuse_another(login, call)
        except FreshgateError as error:
            return Answer(self._error(message.peek(payload), error))
        self._login = login
        payload = self._handed_on(payload)
        try:
            self._sessions.check_room(self._login.user)
        except FreshgateError as error:
            return Answer(self._error(message.peek(payload), error))
        if self._login.mechanism in {HTTP, COOKIE_LOGIN}:
            return self._open_apart(call, payload)

        def on_reply(answer: bytes) -> bytes:
            session = self._opened(call, payload, answer)
            if session is not None:
                # Spark has taken the login now, too.
                self._users.add(login.user)
                self._sessions.add(session)
                self._mine.append(session)
                self._newest = session
            return answer

        return Forward(payload, on_reply)

    async def _open_apart(self, call: OpenCall, payload: bytes) -> Answer:
        """Over HTTP a session is not the connection's: it gets one to Spark of its own, with which it ends there."""
        try:
            side = await self._service.upstream.connect(self._spark_login())
        except FreshgateError as error:
            return Answer(self._error(message.peek(payload), error))
        session = None
        try:
            answer = await side.forward(payload)
            session = self._opened(call, payload, answer)
        except FreshgateError as error:
            answer = self._error(message.peek(payload), error)
        finally:
            if session is None:
                await side.close()
        if session is not None:
            session.anchor(side)
            self._sessions.add(session, loose=True)
        return Answer(answer)

    def _opened(self, call: OpenCall, payload: bytes, answer: bytes) -> Session | None:
        found = message.opened(answer)
        if found is None:
            return None
        handle, protocol = found
        login = self._spark_login()
        return Session(handle, protocol, self._login.user, login, call, payload, self._service.upstream)

    def _refuse_another(self, login: Login, call: OpenCall) -> None:
        """Raises FreshgateError where Spark would take the session for somebody else's than the gateway does."""
        if self._service.account is not None:
            named = {value for key, value in call.configuration.items() if key.lower().endswith(PROXY_USER_KEY)}
            if named - {login.user}:
                other = min(named - {login.user})
                raise FreshgateError(
                    f"User {login.user!r} cannot open a session as {other!r}: the gateway itself names the user to "
                    f"Spark. Leave {PROXY_USER_KEY} out, or log in as {other!r}.",
                    "42501",
                )
        elif self._service.mechanism != NOSASL and self._joined_as not in (None, login.user):
            # Spark takes every session of a connection for the one's whose password it has seen.
            raise FreshgateError(
                f"This connection is {self._joined_as!r}'s at Spark. Open another one for {login.user!r}.", "28000"
            )

    def _handed_on(self, payload: bytes) -> bytes:
        """The OpenSession request as it goes to Spark, in the name of the user who was let in."""
        account = self._service.account
        if account is not None:
            payload = message.with_configuration(payload, {PROXY_USER_KEY: self._login.user})
            return message.with_names(payload, account.user, account.password)
        if self._service.mechanism == NOSASL and (
            self._service.authenticator.required or self._login.mechanism != NOSASL
        ):
            # Spark believes what stands here, and so would a client with SASL name whom it likes.
            login = self._spark_login()
            return message.with_names(payload, login.user, login.password)
        return payload

    def _session_request(self, session: Session, head: Head, payload: bytes) -> Decision:
        if session.lost:
            if head.name == "CloseSession":
                return self._close_lost(session, head)
            return self._after_loss(session, head, payload)
        if head.name == "ExecuteStatement":
            return self._execute(session, head, payload)
        if head.name == "GetInfo" and self._service.healing.get_info:
            answer = healing.info(head, payload, session.user)
            if answer is not None:
                return Answer(answer)
        payload = self._at_spark(session, payload)
        if head.name in message.METADATA_METHODS:
            return self._list(session, head, payload)
        if head.name == "CloseSession":
            return self._close_loose(session, head) if session.anchored else self._close_session(session, payload)
        return Forward(payload)

    def _at_spark(self, session: Session, payload: bytes) -> bytes:
        """The request with Spark's handle, which differs once the session was opened anew."""
        if session.upstream_handle is session.handle:
            return payload
        return message.with_handle(payload, session.upstream_handle)

    async def _close_session(self, session: Session, payload: bytes) -> Forward:
        await session.cancel_own()

        def on_reply(answer: bytes) -> bytes:
            self._forget(session)
            return answer

        await session.drop_side()
        return Forward(payload, on_reply)

    async def _close_loose(self, session: Session, head: Head) -> Answer:
        await self._sessions.end(session)
        return Answer(reply.closed(head.name, head.seqid))

    async def _close_lost(self, session: Session, head: Head) -> Answer:
        await session.cancel_own()
        self._forget(session)
        await session.drop_side()
        return Answer(reply.closed(head.name, head.seqid))

    def _forget(self, session: Session) -> None:
        self._newest = None
        self._sessions.remove(session)
        if session in self._mine:
            self._mine.remove(session)

    async def _after_loss(self, session: Session, head: Head, payload: bytes) -> Forward | Answer:
        """Spark went away since the last statement. Its temporary views and settings went with it: that must be told
        once before statements run in a new session."""
        if not session.told_lost:
            session.told_lost = True
            return Answer(self._error(head, _lost()))
        try:
            await session.reopen()
        except FreshgateError as error:
            return Answer(self._error(head, error))
        decision = self._session_request(session, head, payload)
        return decision if isinstance(decision, Forward | Answer) else await decision

    def _list(self, session: Session, head: Head, payload: bytes) -> Forward:
        """A metadata call: Spark makes the list, and the client sees it as `Listing` has it."""
        payload = healing.metadata_call(self._service.healing, head.name, payload, session.namespace)
        listing = listing_of(head.name, payload, self._service.catalog, self._service.show_storage)

        def on_reply(answer: bytes) -> bytes:
            handle = message.execute_handle(answer)
            if handle is not None:
                operation = ForwardedOperation(handle) if listing is None else ListedOperation(handle, listing)
                operation.ended = True
                self._sessions.add_operation(session, handle, operation)
            return answer

        return Forward(payload if listing is None else listing.request(payload), on_reply)

    # --- statements --------------------------------------------------------------------------------

    def _execute(self, session: Session, head: Head, payload: bytes) -> Decision:
        call = message.statement(payload)
        if self._sessions.stopping:
            return Answer(self._error(head, stopping()))
        if len(call.statement) > self._service.statement_bytes_max:
            return Answer(self._error(head, self._too_long(call)))
        route = self._service.router.plain(session, call.statement)
        if route is not None:
            return self._forward(session, call, payload, route)
        return self._considered(session, head, call, payload)

    async def _considered(self, session: Session, head: Head, call: ExecuteCall, payload: bytes) -> Forward | Answer:
        """A statement that may be ours, or mention what a materialized view depends on."""
        try:
            route = await self._service.router.consider(session, call.statement)
        except FreshgateError as error:
            return Answer(self._error(head, error))
        if isinstance(route, Route):
            return self._forward(session, call, payload, route)
        if isinstance(route, Waiting) and not call.run_async:
            return await self._after_refresh(session, head, call, payload, route)
        return await self._own_operation(session, head, call, payload, route)

    def _forward(self, session: Session, call: ExecuteCall, payload: bytes, route: Route) -> Forward:
        self._outstanding = session, route
        session.outstanding += 1
        if route.text is not None:
            payload = message.with_statement(payload, route.text)
        return Forward(self._at_spark(session, payload), lambda answer: self._started(session, call, route, answer))

    def _started(self, session: Session, call: ExecuteCall, route: Route, answer: bytes) -> bytes:
        """Spark has begun the statement, or refused it; a synchronous one has ended as well."""
        self._outstanding = None
        session.outstanding -= 1
        handle = message.execute_handle(answer)
        if handle is None:
            route.abandon(_refusal(call.statement, answer))
            return answer
        operation = self._watched(handle, route, call.statement)
        self._sessions.add_operation(session, handle, operation)
        if not call.run_async:
            operation.end(End.SUCCEEDED)
        return answer

    async def _after_refresh(
        self, session: Session, head: Head, call: ExecuteCall, payload: bytes, route: Waiting
    ) -> Forward | Answer:
        """A synchronous client waits for its reply; there is nothing to send it before."""
        try:
            async with asyncio.timeout(call.query_timeout_seconds or None):
                await route.wait(Lines(log.debug))
        except (FreshgateError, TimeoutError) as error:
            route.then.abandon(End.FAILED)
            late = timed_out(call.query_timeout_seconds)
            return Answer(self._error(head, error if isinstance(error, FreshgateError) else late))
        except asyncio.CancelledError:
            route.then.abandon(End.FAILED)
            raise
        return self._forward(session, call, payload, route.then)

    async def _own_operation(
        self, session: Session, head: Head, call: ExecuteCall, payload: bytes, route: Own | Waiting
    ) -> Answer:
        operation = Operation(new_handle(), session.protocol)
        self._sessions.add_operation(session, operation.handle, operation)
        if isinstance(route, Own):
            operation.start(route.work(operation.report), call.query_timeout_seconds)
        else:
            operation.start(self._continue(session, payload, route, operation), call.query_timeout_seconds)
        if not call.run_async:
            await operation.settle()
            if operation.error is not None:
                self._sessions.remove_operation(session, operation.handle)
                return Answer(self._error(head, operation.error))
        return Answer(reply.execute_ok(head.seqid, operation.handle))

    async def _continue(
        self, session: Session, payload: bytes, route: Waiting, operation: Operation
    ) -> ForwardedOperation:
        """Waits for the refresh, then starts the client's own request over the session's side connection."""
        try:
            await route.wait(operation.report)
            side = await session.side()
        except BaseException:  # cancelled too: what was noted of the statement ends with it
            route.then.abandon(End.FAILED)
            raise
        if route.then.text is not None:
            payload = message.with_statement(payload, route.then.text)
        started = asyncio.ensure_future(side.forward(message.with_handle(payload, session.upstream_handle)))
        try:
            answer = await asyncio.shield(started)
        except asyncio.CancelledError:
            self._keep(self._stop_started(side, started, route.then))
            raise
        except BaseException:  # Spark may have begun it: nobody knows how it ends
            route.then.abandon()
            raise
        handle = message.execute_handle(answer)
        if handle is None:
            route.then.abandon(End.FAILED)
            status = message.reply_status(answer)
            raise FreshgateError(status.message or "Spark refused the statement.", sqlstate=status.sqlstate or "HY000")
        return self._watched(handle, route.then, message.statement(payload).statement)

    async def _stop_started(self, side: SideConnection, started: asyncio.Future[bytes], route: Route) -> None:
        """The client has gone while its statement was being started at Spark: it is ended there as well."""
        try:
            handle = message.execute_handle(await started)
            if handle is not None:
                await side.forward(request.cancel_operation(handle))
                await side.forward(request.close_operation(handle))
        except FreshgateError as error:
            log.info("a statement could not be cancelled: %s", error)
        finally:
            route.abandon()

    def _watched(self, handle: Handle, route: Route, statement: str) -> ForwardedOperation:
        operation = ForwardedOperation(handle)
        if route.ends:
            operation.on_end.append(route.on_end)
            operation.runs_others = _runs_others(statement)
        if route.closes:
            operation.on_close.append(route.on_close)
        operation.may_lack_columns = self._service.healing.ddl_columns and healing.may_lack_columns(statement)
        return operation

    def _keep(self, work: Coroutine[None, None, None]) -> None:
        """Does the work in the background; the loop itself holds tasks only weakly."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # --- operations --------------------------------------------------------------------------------

    def _operation_request(self, handle: Handle, head: Head, payload: bytes) -> Decision:
        found = self._sessions.find_operation(handle, self._users)
        if found is None:
            return self._refuse(head, f"Invalid OperationHandle: it is not {self._login.user}'s, or is closed.")
        session, operation = found
        if isinstance(operation, ForwardedOperation):
            return self._forwarded_request(session, operation, operation.handle, head, payload)
        if operation.continued is not None:
            return self._continued_request(session, operation, operation.continued, head, payload)
        return self._own_request(session, operation, head, payload)

    def _forwarded_request(
        self, session: Session, operation: ForwardedOperation, known_as: Handle, head: Head, payload: bytes
    ) -> Decision:
        """A request about one of Spark's operations; the client knows it under `known_as`."""
        if operation.lost:
            return self._lost_request(session, known_as, head)
        if head.name == "GetOperationStatus":
            if operation.final_status is not None:
                # The Hive 2.3 driver asks once per row.
                return Answer(message.with_seqid(operation.final_status, head.seqid), operation.is_open)
            return Forward(payload, lambda answer: _status_seen(operation, answer))
        if head.name == "CloseOperation":
            return Forward(payload, lambda answer: self._closed(session, operation, known_as, answer))
        if head.name == "FetchResults" and isinstance(operation, ListedOperation):
            return self._listed(session, operation, head, payload)
        if head.name == "FetchResults" and (operation.on_end or operation.may_lack_columns):
            return Forward(payload, lambda answer: _fetched(operation, payload, answer))
        if head.name == "FetchResults" and self._service.healing.page_bytes:
            return self._page(operation, payload)
        if head.name == "GetResultSetMetadata" and self._service.healing.early_metadata and not operation.ended:
            return self._metadata_when_ended(session, operation, head, payload)
        return Forward(payload)

    def _page(self, operation: ForwardedOperation, payload: bytes) -> Forward:
        if message.fetch_call(payload).fetch_type == FETCH_LOG:
            return Forward(payload)
        page = Page(payload, self._service.healing.page_bytes, operation.fit)
        return Forward(page.request, page=page)

    async def _listed(
        self, session: Session, operation: ListedOperation, head: Head, payload: bytes
    ) -> Forward | Answer:
        """A page of a metadata call: several of Spark's may be needed, so they come over the side connection."""
        if message.fetch_call(payload).fetch_type == FETCH_LOG:
            return Forward(payload)
        try:
            page = await operation.listing.fetch((await session.side()).forward, payload)
        except FreshgateError as error:
            page = self._error(head, error)
        # A new side connection may reach Spark before the session's loss is noticed: then Spark knows no such handle.
        return self._lost_request(session, operation.handle, head) if operation.lost else Answer(page)

    def _lost_request(self, session: Session, known_as: Handle, head: Head) -> Answer:
        """The operation went with Spark. Closing it works: clients close the old one before they run the next."""
        if head.name == "CloseOperation":
            self._sessions.remove_operation(session, known_as)
            return Answer(reply.closed(head.name, head.seqid))
        session.told_lost = True
        return Answer(self._error(head, _lost()))

    def _closed(self, session: Session, operation: ForwardedOperation, known_as: Handle, answer: bytes) -> bytes:
        operation.close()
        self._sessions.remove_operation(session, known_as)
        return answer

    def _continued_request(
        self, session: Session, operation: Operation, continued: ForwardedOperation, head: Head, payload: bytes
    ) -> Decision:
        if head.name == "FetchResults" and operation.has_log and message.fetch_call(payload).fetch_type == FETCH_LOG:
            return Answer(operation.fetch(head.seqid, message.fetch_call(payload)))
        payload = message.with_handle(payload, continued.handle)
        if head.name == "GetResultSetMetadata" and not continued.ended:
            return self._metadata_when_ended(session, continued, head, payload)
        return self._forwarded_request(session, continued, operation.handle, head, payload)

    async def _metadata_when_ended(
        self, session: Session, operation: ForwardedOperation, head: Head, payload: bytes
    ) -> Forward | Answer:
        """Asked before the end, Spark answers one wrong column, and goes on answering it after the end."""
        status = request.operation_status(operation.handle)
        try:
            side = await session.side()
            while not operation.ended:
                if message.operation_state(_status_seen(operation, await side.forward(status))) is None:
                    break  # Spark does not know it any more, and says so again when it is asked for the metadata.
        except FreshgateError as error:
            return Answer(self._error(head, error))
        return Forward(payload)

    def _own_request(self, session: Session, operation: Operation, head: Head, payload: bytes) -> Decision:
        match head.name:
            case "GetOperationStatus":
                return self._own_status(session, operation, head, payload)
            case "GetResultSetMetadata":
                return self._own_metadata(session, operation, head, payload)
            case "FetchResults":
                return Answer(operation.fetch(head.seqid, message.fetch_call(payload)))
            case "CancelOperation":
                return self._own_cancel(operation, head)
            case "CloseOperation":
                return self._own_close(session, operation, head)
            case _:
                # As Spark says it: PyHive and impyla try GetLog first, and know by this that there is none.
                return Answer(reply.unknown_method(head.name, head.seqid))

    async def _own_status(self, session: Session, operation: Operation, head: Head, payload: bytes) -> Forward | Answer:
        bar = message.wants_progress(payload)
        if not operation.settled:
            await operation.hold(bar=bar)
        if operation.continued is not None:
            return await _decided(self._continued_request(session, operation, operation.continued, head, payload))
        return Answer(operation.status(head.seqid, bar=bar))

    async def _own_metadata(
        self, session: Session, operation: Operation, head: Head, payload: bytes
    ) -> Forward | Answer:
        await operation.settle()
        if operation.continued is not None:
            return await _decided(self._continued_request(session, operation, operation.continued, head, payload))
        if operation.error is not None:
            return Answer(self._error(head, operation.error))
        return Answer(operation.metadata(head.seqid))

    async def _own_cancel(self, operation: Operation, head: Head) -> Answer:
        await operation.cancel()
        return Answer(reply.closed(head.name, head.seqid))

    async def _own_close(self, session: Session, operation: Operation, head: Head) -> Answer:
        await operation.cancel()
        if operation.continued is not None:
            operation.continued.close()
        self._sessions.remove_operation(session, operation.handle)
        return Answer(reply.closed(head.name, head.seqid))

    # --- errors ------------------------------------------------------------------------------------

    def _too_long(self, call: ExecuteCall) -> LimitReached:
        size, limit = len(call.statement), self._service.statement_bytes_max
        return LimitReached(f"The statement has {size} characters; limits.statement_bytes allows {limit}.")

    def _refuse(self, head: Head, text: str) -> Answer:
        return Answer(reply.error(head.name, head.seqid, text, "HY000"))

    def _error(self, head: Head, error: FreshgateError) -> bytes:
        return reply.error(head.name, head.seqid, str(error), error.sqlstate)


def _status_seen(operation: ForwardedOperation, answer: bytes) -> bytes:
    state = message.operation_state(answer)
    if state in TERMINAL_STATES:
        operation.final_status = answer
        operation.end(_end(operation, state, answer))
    return answer


def _fetched(operation: ForwardedOperation, payload: bytes, answer: bytes) -> bytes:
    """Rows are given out only of what has succeeded: a client that asks for no status is noticed by this."""
    if message.fetch_call(payload).fetch_type == FETCH_LOG:
        return answer
    if message.reply_status(answer).code != message.STATUS_ERROR:
        operation.end(End.SUCCEEDED)
    return healing.with_column(answer) if operation.may_lack_columns else answer


def _end(operation: ForwardedOperation, state: int | None, status: bytes) -> End:
    end = _ENDS.get(state, End.UNKNOWN) if state is not None else End.UNKNOWN
    refused = end is End.FAILED and message.operation_sqlstate(status) == PARSE_ERROR
    return End.REFUSED if refused and not operation.runs_others else end


_ENDS = {2: End.SUCCEEDED, 5: End.FAILED}
"""FINISHED and ERROR; a cancelled or timed-out statement may still commit."""


def _refusal(statement: str, answer: bytes) -> End:
    """How a statement ended that Spark answered with an error at once."""
    refused = message.reply_status(answer).sqlstate == PARSE_ERROR
    return End.REFUSED if refused and not _runs_others(statement) else End.FAILED


def _runs_others(statement: str) -> bool:
    """A script, or EXECUTE IMMEDIATE: a parse error may come after a part of it was done."""
    return not {"begin", "execute"}.isdisjoint(glance(statement).words)


async def _decided(decision: Decision) -> Forward | Answer:
    return decision if isinstance(decision, Forward | Answer) else await decision


def _lost() -> UpstreamLost:
    return UpstreamLost(
        "Spark went away, and with it this session's temporary views, settings and running statements. "
        "Run the statement again: a new session is opened for it."
    )
