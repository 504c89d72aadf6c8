"""An asyncio client of HiveServer2, for the gateway's own statements: refreshes, catalog reads, side connections.

A connection carries one call at a time. Handles are not bound to a connection: a statement that one connection waits
for is cancelled over another.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import socket
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, Self, cast

from TCLIService import ttypes

from gateway.errors import SparkLost, StatementFailed, UpstreamLost, UpstreamProtocolMismatch
from gateway.mv.ports import Before, Outlet, SqlSession
from gateway.sealed_transport import SealedTransport
from gateway.spark import older, protocol
from gateway.spark.row_list import RowList
from gateway.spark.storage_guard import unsigned
from gateway.wire.connection import UpstreamEnd
from gateway.wire.endpoint import Endpoint
from gateway.wire.frame import UPSTREAM_FRAME_BYTES_MAX, OtherProtocol, WireError, WireLimits
from gateway.wire.gssapi import Seal
from gateway.wire.http_connection import HTTP, CallRefused
from gateway.wire.message import Handle
from gateway.wire.page import rows_in
from gateway.wire.sasl import Login, LoginRefused
from sql.releases import NEWEST, Speaking

CONNECT_SECONDS = 10.0
END_SECONDS = 10.0  # For the short calls that cancel and close: nobody should wait longer for a server that hangs.
REPLY_BYTES_MAX = 256 * 1024 * 1024  # The gateway's own results are small; a longer reply is not a valid one.
LIMITS = WireLimits(reply_bytes_max=REPLY_BYTES_MAX)
READ_BYTES = 65536
LATE_JOB_SECONDS = 1.0  # See Session._abandon.
PAGE_ROWS = 1000
POLL_SECONDS_MAX = 0.5

# Spark holds a status call for up to 5 seconds. Other servers may answer at once, so polls pause in growing steps.
HELD_SECONDS = 0.05
POLL_SECONDS = 0.01
REASON_SECONDS = 5.0
"""How long to wait for the reason of a failed statement: Spark reports the failure first, and the reason a moment
later."""

SESSION_CATALOG_CLASS = "spark.sql.catalog.spark_catalog"
_WITHOUT_VIEWS = frozenset({"builtin", "<undefined>", "org.apache.spark.sql.delta.catalog.DeltaCatalog"})
"""Classes of it that leave views to Spark."""
_ABOUT_VIEWS = ("CREATE VIEW ", "DROP VIEW ", "SHOW VIEWS ")

ENDED_SESSION = "Invalid SessionHandle"
"""The start of HiveServer2's error message about a session that it does not have, or no longer has."""

_REPEATABLE = frozenset({"SELECT", "SHOW", "DESCRIBE", "EXPLAIN", "USE", "SET", "REFRESH"})
"""First words of the gateway's own statements that may be carried out twice. None of them writes."""

State = ttypes.TOperationState
RUNNING_STATES = frozenset({State.INITIALIZED_STATE, State.RUNNING_STATE, State.PENDING_STATE})


@dataclass(frozen=True, slots=True)
class OperationOutcome:
    """How an operation ended: its HiveServer2 state (TOperationState), and the error unless it is FINISHED."""

    state: int
    error: StatementFailed | None


class Connection:
    """A connection to a Thrift server, made with `open`."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        wire: UpstreamEnd,
        reopen: Callable[[], Awaitable[Connection]],
        *,
        place: Endpoint,
        login: str,
        ends_sessions: bool,
        dialect: Speaking,
    ) -> None:
        self.at = ""
        """The name of the server, if there are several."""
        self.sign: Callable[[str], str] = unsigned
        """Adds what the guard inside Spark needs to a statement of the gateway's own in a client's session."""
        self.outlet: Outlet | None = None
        """What all statements of the gateway's own pass here."""
        self._place = place
        self.dialect = dialect
        """What the server understands, as far as that is known now."""
        self._login = login
        """The user and server, for errors about the connection."""
        self.ends_sessions = ends_sessions
        """The server closes the last session opened on the connection when the connection ends; false over HTTP."""
        self._reader = reader
        self._writer = writer
        self._wire = wire
        self._reopen = reopen
        self._lock = asyncio.Lock()
        self._seqids = itertools.count(1)
        self._broken = self._cut_off = False
        # Running calls, some of whose callers were cancelled; referenced here so that they are not garbage-collected.
        self._calls: set[asyncio.Task[bytes]] = set()

    @classmethod
    async def open(
        cls,
        endpoint: Endpoint,
        user: str,
        password: str = "",
        *,
        ask: bool = False,
        dialect: Speaking = lambda: NEWEST,
        sign: Callable[[str], str] = unsigned,
        outlet: Outlet | None = None,
    ) -> Self:
        """Connects and logs in. Raises UpstreamLost if no server answers, StatementFailed if it refuses the login.

        Over HTTP each call carries user name and password, so the first call is refused instead; `ask` makes a call
        that does nothing at once, to find out.
        """
        login = f"of {user} at {endpoint}"
        try:
            # Hive's PLAIN refuses an empty password even if it checks none.
            names = Login(user, password or "anonymous", endpoint.mechanism)
            async with asyncio.timeout(CONNECT_SECONDS):
                wire = await endpoint.connection(names, LIMITS)
                reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port, ssl=endpoint.tls)
                _keep_alive(writer)
                try:
                    if ask or endpoint.mechanism != HTTP:
                        await _log_in(reader, writer, wire)
                    if wire.seal is not None:
                        _seal(reader, writer, wire.seal)
                except BaseException:
                    writer.close()
                    raise
        except LoginRefused as error:
            raise _refused(login, error) from error
        except OtherProtocol as error:
            raise UpstreamProtocolMismatch(endpoint, error.spoken) from error
        except (OSError, WireError, EOFError) as error:
            raise UpstreamLost(
                f"Cannot connect to Spark at {endpoint}: {_reason(error)}. "
                "It may be starting; try again in a few seconds."
            ) from error
        ends_sessions = endpoint.mechanism != HTTP
        reopen = partial(cls.open, endpoint, user, password, dialect=dialect, sign=sign, outlet=outlet)
        connection = cls(
            reader,
            writer,
            wire,
            reopen,
            place=endpoint,
            login=login,
            ends_sessions=ends_sessions,
            dialect=dialect,
        )
        connection.sign, connection.outlet = sign, outlet
        return connection

    @property
    def alive(self) -> bool:
        """False once the connection broke or the server closed it."""
        return self._wire.usable and not (self._broken or self._reader.at_eof() or self._writer.is_closing())

    @property
    def busy(self) -> bool:
        """A call is under way, so another one would have to wait."""
        return bool(self._calls)

    async def open_session(
        self, configuration: Mapping[str, str] | None = None, database: str | None = None, user: str = ""
    ) -> ServerSession:
        """Opens a session. `configuration` holds Spark settings; HiveServer2's keys (`set:...`) pass unchanged.

        On a NOSASL connection only `user` identifies the user. Open one session per connection: Spark closes only the
        last one when the connection ends.
        """
        settings = {_session_key(key): value for key, value in (configuration or {}).items()}
        if database is not None:
            settings["use:database"] = database
        request = ttypes.TOpenSessionReq(protocol.PROTOCOL, user or None, None, settings)
        reply = await self.call("OpenSession", request)
        return ServerSession(self, protocol.handle_of(reply.sessionHandle), reply.configuration or {})

    def session(self, handle: Handle) -> ServerSession:
        """Returns a session that was opened elsewhere, over any connection."""
        return ServerSession(self, handle)

    async def sibling(self) -> Connection:
        """Opens a new connection to the same server with the same login. Raises as `open`, and UpstreamLost once the
        connection is `cut_off`."""
        if self._cut_off:
            raise UpstreamLost("The gateway is being stopped. Connect again later.")
        return await self._reopen()

    async def call(self, name: str, request: Any, before: Before | None = None) -> Any:
        """Makes one call and returns the reply's struct. Raises StatementFailed for an error status, UpstreamLost, and
        what `before` raises.

        If the caller is cancelled, the reply is still read, so that the connection stays usable.
        """
        return protocol.decode(name, await self.forward(protocol.encode(name, request, self.next_number()), before))

    def next_number(self) -> int:
        """The number of a call for `forward`."""
        return next(self._seqids)

    async def forward(self, payload: bytes, before: Before | None = None) -> bytes:
        """Sends one request message and returns the reply message, both unchanged. Raises UpstreamLost, StatementFailed
        if Spark refuses a login over HTTP, and what `before` raises."""
        task = asyncio.ensure_future(self._exchange(payload, before))
        self._calls.add(task)
        task.add_done_callback(self._forget)
        return await asyncio.shield(task)

    def _forget(self, task: asyncio.Task[bytes]) -> None:
        self._calls.discard(task)
        if not task.cancelled():
            task.exception()  # Marks it as retrieved: the caller may have been cancelled.

    async def _exchange(self, payload: bytes, before: Before | None) -> bytes:
        async with self._lock:
            if before is not None:
                await before()
            if not self.alive:
                raise UpstreamLost("The connection to Spark is closed. Try again.")
            try:
                self._writer.write(self._wire.send(payload))
                await self._writer.drain()
                return await self._reply()
            except CallRefused as error:
                self._break()
                raise _refused(self._login, error) from error
            except OtherProtocol as error:
                self._break()
                raise UpstreamProtocolMismatch(self._place, error.spoken) from error
            except WireError as error:
                self._break()
                raise UpstreamLost(f"Spark at {self._place} sent an invalid reply: {error}. Try again.") from error
            except (OSError, EOFError) as error:
                self._break()
                raise UpstreamLost("Spark closed the connection before it answered. Try again.") from error
            except asyncio.CancelledError:
                self._break()
                raise

    async def _reply(self) -> bytes:
        while True:
            chunk = await self._reader.read(READ_BYTES)
            if not chunk:
                raise EOFError
            if (reply := self._wire.collect(chunk)) is not None:
                return reply

    def _break(self) -> None:
        self._broken = True
        self._writer.close()

    def give_up(self) -> None:
        """Fails running calls and every later one."""
        self._break()

    def cut_off(self) -> None:
        """Waits for the server no longer: it is not even told, over a sibling, what to end."""
        self._cut_off = True
        self._break()

    def cut(self) -> None:
        """Breaks the connection without waiting for the server: running calls and later ones fail with UpstreamLost.
        What it has to send is lost."""
        self._broken = True
        self._writer.transport.abort()

    async def close(self) -> None:
        """Closes the connection, and with it the last session opened on it if it `ends_sessions`."""
        self._break()
        for task in tuple(self._calls):
            task.cancel()
        if self._writer.transport.get_write_buffer_size():
            self._writer.transport.abort()  # An orderly close would wait forever for a server that reads nothing.
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()


class ServerSession:
    """A session on the server, used over one connection."""

    def __init__(self, connection: Connection, handle: Handle, told: Mapping[str, str] | None = None) -> None:
        """`told`: what the server said about the session when it was opened."""
        self.connection = connection
        self.handle = handle
        self.told: Mapping[str, str] = told or {}
        self._session_catalog: str | None = None

    async def run(self, sql: str, *, on_start: Callable[[str], None] | None = None) -> RowList:
        """Runs a statement to its end and returns its whole result.

        `on_start` gets the statement's Spark job group once it has started. Raises StatementFailed with Spark's own
        reason, or UpstreamLost. If the caller is cancelled, Spark's work is cancelled before this returns.
        """
        if sql.startswith(_ABOUT_VIEWS):
            async with self._builtin_catalog():
                return await self._pass(sql, on_start)
        return await self._pass(sql, on_start)

    async def _pass(self, sql: str, on_start: Callable[[str], None] | None) -> RowList:
        async def send(text: str, before: Before | None) -> RowList:
            plainly = partial(self._run, on_start=on_start, before=before)
            return await older.run(self.connection.dialect(), text, plainly)

        signed, outlet = self.connection.sign(sql), self.connection.outlet
        return await (send(signed, None) if outlet is None else outlet.run(signed, send))

    @contextlib.asynccontextmanager
    async def _builtin_catalog(self) -> AsyncIterator[None]:
        """Spark's own catalog is `spark_catalog` meanwhile, whatever class the session has for it.

        With Iceberg's SQL extensions and its SparkSessionCatalog, as Iceberg's documentation sets Spark up, CREATE VIEW
        makes a view of Iceberg's, which no ALTER VIEW changes; DROP VIEW IF EXISTS leaves every other one, and SHOW
        VIEWS leaves it out (RewriteViewCommands).
        """
        if self._session_catalog is None:
            self._session_catalog = str((await self._run(f"SET {SESSION_CATALOG_CLASS}")).rows[0][1])
        chosen = self._session_catalog
        if chosen in _WITHOUT_VIEWS:
            yield
            return
        await self._run(f"SET {SESSION_CATALOG_CLASS}=builtin")
        try:
            yield
        finally:
            await self._run(f"SET {SESSION_CATALOG_CLASS}={chosen}")

    async def _run(
        self, sql: str, on_start: Callable[[str], None] | None = None, before: Before | None = None
    ) -> RowList:
        started = asyncio.ensure_future(self.execute(sql, before=before))
        try:
            handle = await asyncio.shield(started)
        except asyncio.CancelledError:
            await self._abandon(started)
            raise
        try:
            if on_start is not None:
                # The Thrift server runs an operation's jobs in the group named by its public id; servers other than
                # Spark may have no such groups.
                on_start(handle.public_id)
            outcome = await self.wait(handle)
            if outcome.error is not None:
                if outcome.state != State.ERROR_STATE:
                    await asyncio.sleep(LATE_JOB_SECONDS)  # Cancelled from elsewhere; see _abandon.
                raise outcome.error
            result = await self._fetch(handle)
        except asyncio.CancelledError:
            await self._abandon(started)
            raise
        except StatementFailed:
            await self._close_quietly(handle)
            raise
        await self._close_quietly(handle)
        return result

    async def pages(self, sql: str, rows: int) -> AsyncGenerator[bytes, None]:
        """Implements `mv.ports.RowPages`. The statement is sent as it is, also to a Spark 3.5."""

        async def send(text: str, before: Before | None) -> Handle:
            return await self.execute(text, before=before)

        signed, outlet = self.connection.sign(sql), self.connection.outlet
        started = asyncio.ensure_future(send(signed, None) if outlet is None else outlet.run(signed, send))
        try:
            handle = await asyncio.shield(started)
            outcome = await self.wait(handle)
        except asyncio.CancelledError:
            await self._abandon(started)
            raise
        try:
            if outcome.error is not None:
                raise outcome.error
            request = ttypes.TFetchResultsReq(
                protocol.operation_handle(handle), ttypes.TFetchOrientation.FETCH_NEXT, rows
            )
            while (page := await self._page(request)) is not None:
                yield page
        finally:
            await self._close_quietly(handle)

    async def _page(self, request: Any) -> bytes | None:
        """The next page; None at the end."""
        reply = await self.connection.forward(protocol.encode("FetchResults", request, self.connection.next_number()))
        count = rows_in(reply)
        if count is None and protocol.rows_of(protocol.decode("FetchResults", reply).results):
            raise UpstreamLost("The Spark Thrift server sent rows in an unknown format.")
        return reply if count else None

    def spoil(self) -> None:
        """Breaks the connection, so that a pool never lends the session again and the server ends it."""
        self.connection.give_up()

    async def execute(self, sql: str, *, run_async: bool = True, before: Before | None = None) -> Handle:
        """Starts a statement and returns its operation handle; `wait` returns how it ends. Without `run_async` it has
        ended."""
        request = ttypes.TExecuteStatementReq(protocol.session_handle(self.handle), sql, {}, run_async)
        reply = await self.connection.call("ExecuteStatement", request, before)
        return protocol.handle_of(reply.operationHandle)

    async def wait(self, handle: Handle) -> OperationOutcome:
        """Waits until the operation has ended."""
        request = ttypes.TGetOperationStatusReq(protocol.operation_handle(handle))
        clock = asyncio.get_running_loop().time
        pause, reason_until = POLL_SECONDS, float("inf")
        while True:
            asked = clock()
            reply = await self.connection.call("GetOperationStatus", request)
            state: int = reply.operationState
            if state == State.FINISHED_STATE:
                return OperationOutcome(state, None)
            if state == State.ERROR_STATE:
                reason_until = min(reason_until, clock() + REASON_SECONDS)
                if reply.errorMessage or clock() >= reason_until:
                    return OperationOutcome(state, protocol.failure(reply.errorMessage, reply.sqlState))
            elif state not in RUNNING_STATES:
                name = State._VALUES_TO_NAMES.get(state, str(state)).removesuffix("_STATE").lower()
                return OperationOutcome(
                    state, StatementFailed(f"Spark ended the statement before it was complete ({name}).", "HY008")
                )
            if clock() - asked < HELD_SECONDS:
                await asyncio.sleep(pause)
                pause = min(pause * 2, POLL_SECONDS_MAX)

    async def _fetch(self, handle: Handle) -> RowList:
        operation = protocol.operation_handle(handle)
        metadata = await self.connection.call("GetResultSetMetadata", ttypes.TGetResultSetMetadataReq(operation))
        columns = tuple(column.columnName for column in metadata.schema.columns or ()) if metadata.schema else ()
        rows: list[tuple[Any, ...]] = []
        request = ttypes.TFetchResultsReq(operation, ttypes.TFetchOrientation.FETCH_NEXT, PAGE_ROWS)
        while True:
            reply = await self.connection.call("FetchResults", request)
            page = protocol.rows_of(reply.results)
            # Spark's hasMoreRows is always false: an empty page is the end.
            if not page:
                return RowList(columns, rows)
            rows += page

    async def cancel(self, handle: Handle) -> None:
        """Cancels an operation, over another connection if this one is busy. Raises as `Connection.call`."""
        request = ttypes.TCancelOperationReq(protocol.operation_handle(handle))
        if not self.connection.busy and self.connection.alive:
            await self.connection.call("CancelOperation", request)
            return
        other = await self.connection.sibling()
        try:
            await other.call("CancelOperation", request)
        finally:
            await other.close()

    async def close_operation(self, handle: Handle) -> None:
        """Frees the operation on the server. Raises as `Connection.call`."""
        request = ttypes.TCloseOperationReq(protocol.operation_handle(handle))
        await self.connection.call("CloseOperation", request)

    async def close(self) -> None:
        """Closes the session on the server. A server that is gone has already closed it."""
        request = ttypes.TCloseSessionReq(protocol.session_handle(self.handle))
        with contextlib.suppress(StatementFailed, UpstreamLost, TimeoutError):
            async with asyncio.timeout(END_SECONDS):
                await self.connection.call("CloseSession", request)

    async def _close_quietly(self, handle: Handle) -> None:
        # The statement's own result or error matters more than whether its operation could be closed.
        with contextlib.suppress(StatementFailed, UpstreamLost, TimeoutError):
            async with asyncio.timeout(END_SECONDS):
                await self.close_operation(handle)

    async def _abandon(self, started: asyncio.Task[Handle]) -> None:
        """Cancels and closes a statement whose caller has gone, once it has a handle.

        Spark cancels only the jobs that exist at that moment. A statement that is still being planned submits its first
        job afterwards, and nobody waits for it or ends it. Closing the operation cancels its jobs once more, so that is
        done a little later. A statement that has no handle in time may begin at any moment, so its session is not used
        again.
        """
        handle = None
        try:
            async with asyncio.timeout(END_SECONDS):
                handle = await started
                await self.cancel(handle)
                await asyncio.sleep(LATE_JOB_SECONDS)
                await self.close_operation(handle)
        except (TimeoutError, asyncio.CancelledError):
            # Pythons before 3.11.3 report a timeout as CancelledError, because this task has been cancelled already.
            if handle is None:
                self.spoil()
        except (StatementFailed, UpstreamLost):
            return


class EndpointSource(Protocol):
    """Provides Spark's address."""

    async def endpoint(self) -> Endpoint:
        """Returns Spark's current address and protocol. Raises UpstreamLost."""

    async def reach(self, opened: Callable[[Endpoint], Awaitable[Connection]]) -> Connection:
        """Opens a connection to Spark. Raises UpstreamLost, and what `opened` raises."""
        return await opened(await self.endpoint())


class PooledSession(ServerSession):
    """A session of a pool.

    If the server has ended it since its last loan, as servers do with idle sessions, or the Spark behind the server has
    ended, it is opened again at the first statement of the next loan. Checking beforehand would cost each loan a call.
    `on_loss` is called when Kyuubi says that it has lost the Spark.
    """

    def __init__(
        self, session: ServerSession, opened: Callable[[], Awaitable[ServerSession]], on_loss: Callable[[], None]
    ) -> None:
        super().__init__(session.connection, session.handle)
        self._opened = opened
        self._on_loss = on_loss
        self._untouched = True

    def lend(self) -> Self:
        self._untouched = True
        return self

    async def execute(self, sql: str, *, run_async: bool = True, before: Before | None = None) -> Handle:
        untouched, self._untouched = self._untouched, False
        try:
            return await self._send(sql, run_async, before)
        except StatementFailed as error:
            # Later statements of a loan would miss what the borrower has set.
            if not untouched or not _may_be_repeated(sql, error):
                raise
        await self.connection.close()
        session = await self._opened()
        self.connection, self.handle = session.connection, session.handle
        return await self._send(sql, run_async, before)

    async def _send(self, sql: str, run_async: bool, before: Before | None) -> Handle:
        with self._noting():
            return await super().execute(sql, run_async=run_async, before=before)

    async def _fetch(self, handle: Handle) -> RowList:
        with self._noting():
            return await super()._fetch(handle)

    async def _page(self, request: Any) -> bytes | None:
        with self._noting():
            return await super()._page(request)

    async def wait(self, handle: Handle) -> OperationOutcome:
        outcome = await super().wait(handle)
        if outcome.error is not None:
            self._note(outcome.error)
        return outcome

    @contextlib.contextmanager
    def _noting(self) -> Iterator[None]:
        try:
            yield
        except StatementFailed as error:
            self._note(error)
            raise

    def _note(self, error: StatementFailed) -> None:
        """Spoils the session if no later statement in it can succeed, and if its operation vanished."""
        if isinstance(error, SparkLost):
            self._on_loss()
        if isinstance(error, SparkLost) or is_ended(error) or error.sqlstate == protocol.UNKNOWN_OUTCOME:
            self.spoil()


class OneSession:
    """Implements `mv.ports.ServiceSessions` with one session."""

    def __init__(self, session: SqlSession) -> None:
        self._session = session

    @contextlib.asynccontextmanager
    async def session(self, *, fresh: bool = False) -> AsyncIterator[SqlSession]:
        yield self._session


class SessionPool:
    """Lends the gateway's own sessions, at most `size` at a time, each with its own connection.

    A borrower must return a session unchanged: no other current database, settings or temporary views.
    """

    def __init__(
        self,
        spark: EndpointSource,
        user: str,
        size: int,
        configuration: Mapping[str, str] | None = None,
        *,
        password: str = "",
        settings: Mapping[str, str] | None = None,
        meet: Callable[[Connection], Awaitable[None]] | None = None,
        greet: Callable[[ServerSession], Awaitable[None]] | None = None,
        dialect: Speaking = lambda: NEWEST,
        outlet: Outlet | None = None,
    ) -> None:
        """`configuration` is that of OpenSession. `settings` are set by statements afterwards: Kyuubi starts a Spark
        with the configuration of the session that needs it first, and it would hold for all other sessions. `meet`
        is called with each new connection before its session is opened, `greet` with each new session before it is
        lent."""
        self._spark = spark
        self._outlet = outlet
        self._dialect = dialect
        self._meet = meet
        self._greet = greet
        self._user = user
        self._configuration = dict(configuration or {})
        self._settings = dict(settings or {})
        self._password = password
        self._places = asyncio.Semaphore(size)
        self._idle: list[PooledSession] = []
        self._lent: set[PooledSession] = set()
        self._endings: set[asyncio.Task[None]] = set()
        self._closed = False

    @contextlib.asynccontextmanager
    async def session(self, *, fresh: bool = False) -> AsyncIterator[ServerSession]:
        """Lends a session; waits while all are lent. A broken session is never lent again, a `fresh` one only once.
        Raises UpstreamLost."""
        async with self._places:
            session = self._pooled(await self._open()) if fresh else await self._take()
            self._lent.add(session)
            try:
                yield session
            finally:
                self._lent.discard(session)
                if fresh or self._closed or not session.connection.alive:
                    await self._discard(session)
                else:
                    self._idle.append(session)

    async def _take(self) -> PooledSession:
        while self._idle:
            session = self._idle.pop()
            if session.connection.alive:
                return session.lend()
            await self._discard(session)
        if self._closed:
            raise UpstreamLost("The gateway is being stopped. Connect again later.")
        return self._pooled(await self._open())

    def _pooled(self, session: ServerSession) -> PooledSession:
        return PooledSession(session, self._open, self._spoil_idle)

    def _spoil_idle(self) -> None:
        """The Spark that Kyuubi has lost is that of all sessions of the user."""
        for session in self._idle:
            session.spoil()

    async def _open(self) -> ServerSession:
        connection = await self._spark.reach(
            partial(
                Connection.open,
                user=self._user,
                password=self._password,
                dialect=self._dialect,
                outlet=self._outlet,
            )
        )
        try:
            if self._meet is not None:
                await self._meet(connection)
            session = await connection.open_session(self._configuration, user=self._user)
            for name, value in self._settings.items():
                await session.run(f"SET {name}={value}")
            if self._greet is not None:
                await self._greet(session)
        except SparkLost as error:
            await connection.close()
            raise UpstreamLost(str(error)) from error
        except BaseException:
            await connection.close()
            raise
        return session

    async def _discard(self, session: ServerSession) -> None:
        await session.connection.close()
        if not session.connection.ends_sessions:
            # In the background, because the server may be away.
            ending = asyncio.create_task(_end(session))
            self._endings.add(ending)
            ending.add_done_callback(self._endings.discard)

    async def close(self) -> None:
        """Closes all idle sessions; lent ones are closed when they are returned."""
        self._closed = True
        while self._idle:
            session = self._idle.pop()
            await session.close()
            await session.connection.close()
        await asyncio.gather(*self._endings)

    def cut_off(self) -> None:
        """Cuts off the connections of all sessions, including the lent ones."""
        self._closed = True
        for session in (*self._idle, *self._lent):
            session.connection.cut_off()


def is_ended(error: StatementFailed) -> bool:
    """Whether the server does not have the session, or no longer has it."""
    return str(error).startswith(ENDED_SESSION)


def _may_be_repeated(sql: str, error: StatementFailed) -> bool:
    """Whether a statement that failed with this error in one session can be executed in another."""
    if isinstance(error, SparkLost):
        return error.sqlstate == protocol.UNSENT or sql.split(maxsplit=1)[0].upper() in _REPEATABLE
    return is_ended(error)


async def _end(session: ServerSession) -> None:
    """Closes a session whose connection is closed."""
    with contextlib.suppress(StatementFailed, UpstreamLost, TimeoutError):
        async with asyncio.timeout(END_SECONDS):
            connection = await session.connection.sibling()
            try:
                await connection.session(session.handle).close()
            finally:
                await connection.close()


def _refused(login: str, error: Exception) -> StatementFailed:
    return StatementFailed(f"Spark refused the login {login}: {error}", "28000")


def _session_key(key: str) -> str:
    return key if key.startswith(("set:", "use:", "hive.server2.")) else f"set:hiveconf:{key}"


def _reason(error: Exception) -> str:
    """Returns why no server answers, without a full stop or an error number."""
    number = error.errno if isinstance(error, OSError) else None
    # Not its strerror: asyncio adds the address, which the message already has. TLS errors number their causes
    # differently.
    if number is not None and not isinstance(error, (ssl.SSLError, socket.gaierror)):
        return os.strerror(number)
    return str(error).rstrip(".") or f"no answer in {CONNECT_SECONDS:g} seconds"


def _keep_alive(writer: asyncio.StreamWriter) -> None:
    # A long refresh is silent for hours; without keepalive probes a vanished server would never be noticed.
    connection: socket.socket | None = writer.get_extra_info("socket")
    if connection is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 4)


async def _log_in(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, wire: UpstreamEnd) -> None:
    handshake = wire.login()
    if not handshake:
        return
    writer.write(handshake)
    while True:
        data = await reader.read(READ_BYTES)
        if not data:
            raise EOFError("the server closed the connection during the login")
        if wire.receive_login(data):
            return
        writer.write(wire.more_login)


def _seal(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seal: Seal) -> None:
    """Protects the frames of the connection from here on."""
    protocol = cast(asyncio.StreamReaderProtocol, writer.transport.get_protocol())
    inner = cast(asyncio.Transport, writer.transport)
    transport = SealedTransport(inner, protocol, seal, UPSTREAM_FRAME_BYTES_MAX)
    # As asyncio's own start_tls does it. A second writer would not do, because the first one closes its transport
    # when it is forgotten.
    reader._transport = transport  # type: ignore[attr-defined]
    writer._transport = transport  # type: ignore[attr-defined]
