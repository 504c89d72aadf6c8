"""Tests that the gateway's own HiveServer2 client works against a real Spark Thrift server."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import patch

import pytest
import uvloop
from processes import Engine, FixedEndpoint
from TCLIService import ttypes
from wire import calls

from gateway.errors import SparkLost, StatementFailed, UpstreamLost
from gateway.mv.catalog.fence import Fence, Superseded
from gateway.mv.catalog.fenced import Fenced
from gateway.spark import client
from gateway.spark.client import Connection, ServerSession, SessionPool
from gateway.spark.metastore import SparkMetastore
from gateway.spark.row_list import RowList
from gateway.wire import reply as replies
from gateway.wire import request
from gateway.wire.endpoint import Endpoint
from gateway.wire.frame import frame
from gateway.wire.http_connection import HTTP
from gateway.wire.message import Handle
from gateway.wire.sasl import COMPLETE, negotiation
from sql.releases import NEWEST, Dialect
from sql.texts.observation import LISTING_SETTINGS

ENDLESS = "SELECT count(*) FROM range(100000000000000)"
NAP = "SELECT java_method('java.lang.Thread', 'sleep', 5000L)"  # ends by itself if nobody cancels it
DEADLINE_SECONDS = 60.0


def at(engine: Engine) -> Endpoint:
    return Endpoint(engine.host, engine.port)


@contextlib.asynccontextmanager
async def session_at(engine: Engine, **configuration: str) -> AsyncIterator[ServerSession]:
    async with asyncio.timeout(DEADLINE_SECONDS):
        connection = await Connection.open(at(engine), "tester")
        try:
            session = await connection.open_session(configuration, "default")
            yield session
            await session.close()
        finally:
            await connection.close()


def test_rows_hold_values_and_nulls_of_each_type(engine: Engine) -> None:
    async def check() -> None:
        async with session_at(engine) as session:
            result = await session.run(
                "SELECT 1 AS a, CAST(2 AS BIGINT) AS b, CAST(3 AS SMALLINT) AS c, CAST(4 AS TINYINT) AS d, 'é' AS e, "
                "TRUE AS f, 1.5D AS g, CAST('ab' AS BINARY) AS h, CAST(2.5 AS DECIMAL(5,2)) AS i, "
                "DATE'2013-01-01' AS j, array(1, 2) AS k, NULL AS l, CAST(NULL AS INT) AS m"
            )
        assert result.columns == tuple("abcdefghijklm")
        assert result.rows == [(1, 2, 3, 4, "é", True, 1.5, b"ab", "2.50", "2013-01-01", "[1,2]", None, None)]

    asyncio.run(check())


def test_all_pages_are_fetched_and_statements_without_rows_return_none(engine: Engine) -> None:
    async def check() -> None:
        async with session_at(engine) as session:
            result = await session.run("SELECT id, IF(id % 3 = 0, NULL, id) AS n FROM range(2500)")
            assert result.rows == [(i, None if i % 3 == 0 else i) for i in range(2500)]
            assert (await session.run("CREATE OR REPLACE TEMPORARY VIEW pages AS SELECT 1 AS a")).rows == []
            assert await session.run("SELECT * FROM pages WHERE a = 2") == RowList(("a",), [])

    asyncio.run(check())


@pytest.mark.parametrize(
    ("sql", "sqlstate", "message"),
    [
        ("SELECT * FROM no_such_table", "42P01", "[TABLE_OR_VIEW_NOT_FOUND] The table or view `no_such_table`"),
        ("SELEC 1", "42601", "[PARSE_SYNTAX_ERROR] Syntax error at or near 'SELEC'"),
        ("SELECT CAST('a' AS INT)", "22018", "[CAST_INVALID_INPUT] The value 'a'"),
        ("SELECT raise_error('boom') FROM range(3)", "P0001", "[USER_RAISED_EXCEPTION] boom"),
    ],
)
def test_errors_have_sparks_message_without_the_stack(engine: Engine, sql: str, sqlstate: str, message: str) -> None:
    async def check() -> None:
        async with session_at(engine) as session:
            with pytest.raises(StatementFailed) as failed:
                await session.run(sql)
            assert (await session.run("SELECT 1")).rows == [(1,)]
        assert failed.value.sqlstate == sqlstate
        assert message in str(failed.value)
        assert str(failed.value).count("[") <= 2
        assert "\tat " not in str(failed.value)

    asyncio.run(check())


async def test_changes_pass_as_scripts_that_fail_once_the_epoch_is_gone(engine: Engine) -> None:
    """Spark says of each the same as without a script. Time stands still: this gateway is sure to lead."""
    fencing = SessionPool(FixedEndpoint(at(engine)), "tester", 2)
    first, second = (Fence(SparkMetastore(fencing), "fenced", "here", lambda: 0.0, several=True) for _ in range(2))
    pool = SessionPool(FixedEndpoint(at(engine)), "tester", 1, outlet=Fenced(first))
    change = "CREATE VIEW fenced.late AS SELECT 1 AS a"
    failing = [
        "CREATE VIEW fenced.v AS SELECT b FROM VALUES (1) AS t(a)",
        "ALTER VIEW fenced.no_such_view AS SELECT 1",
        "CREATE VIEW fenced.v AS SELECT a FRM t",
        "INSERT INTO fenced.t SELECT 1, 2",
    ]
    try:
        await first.take()
        async with pool.session() as fenced, fencing.session() as plain:
            await fenced.run("CREATE TABLE fenced.t AS SELECT 1 AS a LIMIT 0")
            await fenced.run("INSERT INTO fenced.t SELECT 7 -- a comment")
            assert (await fenced.run("SELECT * FROM fenced.t")).rows == [(7,)]
            for text in failing:
                said = []
                for session in (fenced, plain):
                    with pytest.raises(StatementFailed) as failed:
                        await session.run(text)
                    said.append((failed.value.sqlstate, str(failed.value)))
                assert said[0] == said[1]
            assert (await fenced.run("SELECT * FROM fenced.t")).rows == [(7,)]
            await fenced.run("SET spark.sql.scripting.enabled=false")
            await fenced.run("DROP TABLE fenced.t")
            await fenced.run("RESET spark.sql.scripting.enabled")
        await second.take()
        async with pool.session() as fenced:
            if first.runs_scripts:
                with pytest.raises(Superseded):
                    await fenced.run(change)
            assert (await fenced.run("SHOW VIEWS IN fenced LIKE 'late'")).rows == []
    finally:
        async with fencing.session() as plain:
            await plain.run("DROP DATABASE fenced CASCADE")
        await pool.close()
        await fencing.close()


def test_a_session_opens_with_a_configuration_and_a_database(engine: Engine) -> None:
    async def check() -> None:
        async with session_at(engine, **{"spark.sql.shuffle.partitions": "3"}) as session:
            assert (await session.run("SET spark.sql.shuffle.partitions")).rows[0][1] == "3"
            assert (await session.run("SELECT current_database()")).rows == [("default",)]
        connection = await Connection.open(at(engine), "tester")
        with pytest.raises(StatementFailed, match="SCHEMA_NOT_FOUND"):
            await connection.open_session({}, "no_such_database")
        await connection.close()

    asyncio.run(check())


def test_a_session_can_be_used_over_another_connection(engine: Engine) -> None:
    async def check() -> None:
        async with session_at(engine) as session:
            await session.run("CREATE TEMPORARY VIEW mine AS SELECT 7 AS a")
            side = await session.connection.sibling()
            assert (await side.session(session.handle).run("SELECT * FROM mine")).rows == [(7,)]
            await side.close()
            assert (await session.run("SELECT * FROM mine")).rows == [(7,)]

    asyncio.run(check())


async def _started(session: ServerSession, sql: str = ENDLESS) -> tuple[asyncio.Task[RowList], Handle]:
    """Starts a statement; returns its task and its handle."""
    statement: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    handles: list[Handle] = []
    execute = session.execute

    async def recorded(text: str, **options: Any) -> Handle:
        handles.append(await execute(text, **options))
        return handles[-1]

    with patch.object(session, "execute", recorded):
        task = asyncio.create_task(session.run(sql, on_start=statement.set_result))
        assert await statement == str(uuid.UUID(bytes=handles[0].guid))
    return task, handles[0]


def test_cancellation_ends_the_statement_at_spark(engine: Engine) -> None:
    async def check() -> None:
        async with session_at(engine) as session:
            task, handle = await _started(session)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            # The operation is closed: Spark no longer knows its handle.
            with pytest.raises(StatementFailed, match="Invalid OperationHandle"):
                await session.wait(handle)
            # Endless jobs would occupy all cores, and this statement would never run.
            assert (await session.run("SELECT count(*) FROM range(1000)")).rows == [(1000,)]

    asyncio.run(check())


def test_cancellation_before_the_handle_is_known_ends_the_statement(engine: Engine) -> None:
    async def check() -> None:
        async with session_at(engine) as session:
            for _ in range(2):
                task = asyncio.create_task(session.run(ENDLESS))
                await asyncio.sleep(0)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            assert (await session.run("SELECT count(*) FROM range(1000)")).rows == [(1000,)]

    asyncio.run(check())


def test_a_statement_cancelled_by_another_caller_fails_with_hy008(engine: Engine) -> None:
    async def check() -> None:
        async with session_at(engine) as session:
            task, handle = await _started(session)
            await session.cancel(handle)
            with pytest.raises(StatementFailed, match="canceled") as failed:
                await task
            assert failed.value.sqlstate == "HY008"
            assert (await session.run("SELECT count(*) FROM range(1000)")).rows == [(1000,)]

    asyncio.run(check())


class FailingLate:
    """A connection on which a statement has failed: the first `early` status replies lack the reason."""

    def __init__(self, early: int) -> None:
        self._early = early

    async def call(self, _: str, __: object) -> ttypes.TGetOperationStatusResp:
        self._early -= 1
        failed = ttypes.TGetOperationStatusResp(ttypes.TStatus(0), ttypes.TOperationState.ERROR_STATE)
        if self._early < 0:
            failed.errorMessage, failed.sqlState = "[SCHEMA_NOT_FOUND] no such schema", "42704"
        return failed


async def test_a_failed_statement_is_polled_until_spark_gives_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    session = ServerSession(cast(Connection, FailingLate(early=3)), Handle(b"g" * 16, b"s" * 16))
    outcome = await session.wait(Handle(b"o" * 16, b"s" * 16))
    assert outcome.error is not None
    assert (outcome.error.sqlstate, "SCHEMA_NOT_FOUND" in str(outcome.error)) == ("42704", True)
    monkeypatch.setattr(client, "REASON_SECONDS", 0.05)
    session = ServerSession(cast(Connection, FailingLate(early=1_000)), Handle(b"g" * 16, b"s" * 16))
    outcome = await session.wait(Handle(b"o" * 16, b"s" * 16))
    assert str(outcome.error) == "Spark gave no reason."


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_a_refused_connection_is_explained(loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    async def check() -> None:
        server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        server.close()
        await server.wait_closed()
        with pytest.raises(UpstreamLost) as lost:
            await Connection.open(Endpoint("127.0.0.1", port), "tester")
        assert str(lost.value) == (
            f"Cannot connect to Spark at 127.0.0.1:{port}: Connection refused. It may be starting; try again in a few "
            "seconds."
        )

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(check())


def test_a_server_that_does_not_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async def check() -> None:
        left = asyncio.Event()

        async def be_silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while await reader.read(1000):
                pass
            writer.close()
            left.set()

        async with asyncio.timeout(DEADLINE_SECONDS), await asyncio.start_server(be_silent, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            with pytest.raises(UpstreamLost, match=r": no answer in 0\.1 seconds\. It may be starting; try again"):
                await Connection.open(Endpoint("127.0.0.1", port), "tester")
            await left.wait()

    monkeypatch.setattr(client, "CONNECT_SECONDS", 0.1)
    asyncio.run(check())


@contextlib.asynccontextmanager
async def relay(engine: Engine) -> AsyncIterator[tuple[Endpoint, list[asyncio.StreamWriter]]]:
    """A port that forwards everything to the engine until the test closes its writers."""
    writers: list[asyncio.StreamWriter] = []

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream_reader, upstream_writer = await asyncio.open_connection(engine.host, engine.port)
        writers.extend((writer, upstream_writer))
        await asyncio.gather(pump(reader, upstream_writer), pump(upstream_reader, writer))

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        yield Endpoint("127.0.0.1", server.sockets[0].getsockname()[1]), writers
    finally:
        server.close()
        for writer in writers:
            writer.close()


def test_a_connection_lost_during_a_statement_fails_the_statement(engine: Engine) -> None:
    async def check() -> None:
        async with asyncio.timeout(DEADLINE_SECONDS), relay(engine) as (address, writers):
            connection = await Connection.open(address, "tester")
            session = await connection.open_session()
            task, _ = await _started(session, NAP)
            for writer in writers:
                writer.close()
            with pytest.raises(UpstreamLost):
                await task
            assert not connection.alive
            with pytest.raises(UpstreamLost):
                await session.run("SELECT 1")
            await connection.close()

    asyncio.run(check())


@contextlib.asynccontextmanager
async def silent_spark() -> AsyncIterator[ServerSession]:
    """A session of a server that neither answers nor reads after OpenSession."""
    over, ended = asyncio.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1000)
        handle = ttypes.TSessionHandle(ttypes.THandleIdentifier(b"g" * 16, b"s" * 16))
        answer = calls.reply("OpenSession", ttypes.TOpenSessionResp(ttypes.TStatus(0), 9, handle, {}), 1)
        writer.write(negotiation(COMPLETE))
        await reader.read(1000)
        writer.write(frame(answer))
        await over.wait()
        writer.transport.abort()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
        ended.set()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=1000)
    async with asyncio.timeout(DEADLINE_SECONDS):
        connection = await Connection.open(Endpoint("127.0.0.1", server.sockets[0].getsockname()[1]), "tester")
        try:
            yield await connection.open_session()
        finally:
            over.set()
            await ended.wait()
            await connection.close()
            server.close()


def test_a_session_whose_cancelled_statement_may_still_start_is_abandoned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "END_SECONDS", 0.1)

    async def check() -> None:
        async with silent_spark() as session:
            statement = asyncio.create_task(session.run("INSERT INTO t VALUES (1)"))
            await asyncio.sleep(0)
            statement.cancel()
            with pytest.raises(asyncio.CancelledError):
                await statement
            assert not session.connection.alive

    asyncio.run(check())


def test_a_session_whose_statement_is_cancelled_twice_is_abandoned() -> None:
    async def check() -> None:
        async with silent_spark() as session:
            statement = asyncio.create_task(session.run("INSERT INTO t VALUES (1)"))
            await asyncio.sleep(0)
            statement.cancel()
            await asyncio.sleep(0)
            statement.cancel()
            with pytest.raises(asyncio.CancelledError):
                await statement
            assert not session.connection.alive

    asyncio.run(check())


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_a_server_that_reads_nothing_does_not_delay_close(loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    async def check() -> None:
        async with silent_spark() as session:
            statement = asyncio.create_task(session.run("x" * 20_000_000))
            while not session.connection._writer.transport.get_write_buffer_size():  # noqa: ASYNC110
                await asyncio.sleep(0)
            await session.connection.close()
            await asyncio.wait([statement])

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(check())


def test_an_invalid_reply_counts_as_a_lost_server() -> None:
    async def check(answer: bytes) -> None:
        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(1000)
            writer.write(negotiation(COMPLETE))
            await reader.read(1000)
            writer.write(answer)
            writer.close()

        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        connection = await Connection.open(Endpoint("127.0.0.1", server.sockets[0].getsockname()[1]), "tester")
        with pytest.raises(UpstreamLost):
            await connection.open_session()
        await connection.close()
        server.close()

    for answer in (b"", b"HTTP/1.1 400 no\r\n\r\n", b"\xff\xff\xff\xff", frame(b"\x80\x01\x00\x02"), frame(b"junk")):
        asyncio.run(check(answer))


def test_an_idle_connection_over_http_that_the_server_closes_is_not_alive() -> None:
    """The server sends the last chunk of its reply's body separately, after the rows."""

    async def check() -> None:
        close = asyncio.Event()
        reply = replies.unknown_method("CloseSession", 1)

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            for _ in range(2):  # the login's call, and ours
                await http_request(reader)
                writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n" % len(reply) + reply)
                await writer.drain()
                await asyncio.sleep(0)
                writer.write(b"\r\n0\r\n\r\n")
            await close.wait()
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        connection = await Connection.open(
            Endpoint("127.0.0.1", server.sockets[0].getsockname()[1], HTTP), "ada", ask=True
        )
        assert await connection.forward(request.close_session(Handle(b"g" * 16, b"s" * 16))) == reply
        assert connection.alive
        close.set()
        async with asyncio.timeout(DEADLINE_SECONDS):
            while connection.alive:  # noqa: ASYNC110 (there is no event to wait for)
                await asyncio.sleep(0)
        await connection.close()
        server.close()

    asyncio.run(check())


async def http_request(reader: asyncio.StreamReader) -> bytes:
    """Reads the next request and returns its body."""
    head = await reader.readuntil(b"\r\n\r\n")
    return await reader.readexactly(int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0]))


def test_over_http_a_refused_login_fails_at_open_or_at_the_first_call() -> None:
    async def check() -> None:
        seen: list[bytes] = []

        async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            seen.append(await http_request(reader))
            writer.write(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\nno")
            await reader.read()
            writer.close()

        server = await asyncio.start_server(refuse, "127.0.0.1", 0)
        endpoint = Endpoint("127.0.0.1", server.sockets[0].getsockname()[1], HTTP)
        with pytest.raises(StatementFailed, match=r"refused the login of ada at 127\.0\.0\.1:\d+: no") as asked:
            await Connection.open(endpoint, "ada", ask=True)
        connection = await Connection.open(endpoint, "ada")
        with pytest.raises(StatementFailed, match=r"refused the login of ada at 127\.0\.0\.1:\d+: no") as refused:
            await connection.open_session()
        assert asked.value.sqlstate == refused.value.sqlstate == "28000"
        assert not connection.alive
        await connection.close()
        assert [b"OpenSession" in body for body in seen] == [False, True]
        server.close()
        await server.wait_closed()

    asyncio.run(check())


def test_the_pool_limits_its_sessions_and_replaces_lost_ones(engine: Engine) -> None:
    async def check() -> None:
        async with asyncio.timeout(DEADLINE_SECONDS), relay(engine) as (address, writers):
            source = FixedEndpoint(address)
            pool = SessionPool(source, "service", 1, {"spark.sql.shuffle.partitions": "5"})
            async with pool.session() as first:
                assert (await first.run("SET spark.sql.shuffle.partitions")).rows[0][1] == "5"
                assert (await first.run("SELECT current_user()")).rows == [("service",)]
                waiting = asyncio.create_task(_same_session(pool))
                await asyncio.sleep(0)
                assert not waiting.done()
            assert await waiting is first
            for writer in writers:
                writer.close()
            source.current = at(engine)
            with contextlib.suppress(UpstreamLost):
                # The pool may not have noticed the loss yet: the first caller then fails, the next gets a new session.
                await _same_session(pool)
            assert await _same_session(pool) is not first
            await pool.close()
            with pytest.raises(UpstreamLost):
                await _same_session(pool)

    asyncio.run(check())


class ServerlessPool(SessionPool):
    """Opens sessions without a server."""

    async def _open(self) -> ServerSession:
        connection = SimpleNamespace(alive=True, ends_sessions=True, close=_nothing)
        return ServerSession(cast(Connection, connection), Handle(b"g" * 16, b"s" * 16))


class LostSession:
    """A connection to a Kyuubi that has lost the Spark of the session: ExecuteStatement fails with `refusal`, or the
    started statement with `reason`."""

    ends_sessions, busy, outlet = True, False, None

    @staticmethod
    def dialect() -> Dialect:
        return NEWEST

    @staticmethod
    def sign(sql: str) -> str:
        return sql

    def __init__(self, refusal: StatementFailed | None = None, reason: str = "") -> None:
        self.alive = True
        self.failing = ""
        self.refusal = refusal
        self._reason = reason

    async def call(self, name: str, *_: object) -> object:
        if name == self.failing:
            raise SparkLost("Broken pipe", "08007")
        if name == "GetOperationStatus":
            state = ttypes.TOperationState.ERROR_STATE if self._reason else ttypes.TOperationState.FINISHED_STATE
            return ttypes.TGetOperationStatusResp(operationState=state, errorMessage=self._reason)
        if self.refusal is not None:
            raise self.refusal
        handle = ttypes.TOperationHandle(ttypes.THandleIdentifier(b"o" * 16, b"s" * 16), 0, True)
        return ttypes.TExecuteStatementResp(operationHandle=handle)

    def give_up(self) -> None:
        self.alive = False

    async def close(self) -> None:
        self.alive = False


@pytest.mark.parametrize("value", ["dynamic", "static"])
def test_the_settings_of_a_pool_are_set_once_the_session_is_open(engine: Engine, value: str) -> None:
    async def check() -> None:
        name = "spark.sql.sources.partitionOverwriteMode"
        greeted = list[str]()

        async def greet(session: ServerSession) -> None:
            greeted.append(str((await session.run(f"SET {name}")).rows[0][1]))

        pool = SessionPool(FixedEndpoint(at(engine)), "service", 1, settings={name: value}, greet=greet)
        async with asyncio.timeout(DEADLINE_SECONDS), pool.session() as session:
            assert (await session.run(f"SET {name}")).rows[0][1] == value
        await pool.close()
        assert greeted == [value]

    asyncio.run(check())


def test_a_session_that_the_server_has_ended_has_the_settings_of_its_pool_again(engine: Engine) -> None:
    async def check() -> None:
        pool = SessionPool(FixedEndpoint(at(engine)), "service", 1, settings=LISTING_SETTINGS)
        async with asyncio.timeout(DEADLINE_SECONDS), pool.session() as first:
            other = await first.connection.sibling()
            await other.session(first.handle).close()
            await other.close()
        async with asyncio.timeout(DEADLINE_SECONDS), pool.session() as again:
            assert again is first
            for name, value in LISTING_SETTINGS.items():
                assert (await again.run(f"SET {name}")).rows[0][1] == value
        await pool.close()

    asyncio.run(check())


class PoolOf(SessionPool):
    """Opens sessions on the given connections, one after the other."""

    def __init__(self, *connections: LostSession, size: int = 1) -> None:
        super().__init__(FixedEndpoint(Endpoint("nowhere", 1)), "service", size)
        self.unused = list(connections)

    async def _open(self) -> ServerSession:
        return ServerSession(cast(Connection, self.unused.pop(0)), Handle(b"g" * 16, b"s" * 16))


@pytest.mark.parametrize(("sqlstate", "sql"), [("08003", "INSERT INTO t VALUES (1)"), ("08007", "SHOW TABLES")])
async def test_a_session_whose_spark_kyuubi_has_lost_is_opened_again(sqlstate: str, sql: str) -> None:
    lost, well = LostSession(SparkLost("connection does not exist", sqlstate)), LostSession()
    pool = PoolOf(lost, well)
    async with pool.session() as session:
        await session.wait(await session.execute(sql))
    assert (lost.alive, well.alive) == (False, True)


async def test_a_later_statement_of_a_loan_is_not_repeated_in_another_session() -> None:
    lost, well = LostSession(), LostSession()
    pool = PoolOf(lost, well)
    async with pool.session() as session:
        await session.execute("SET a=1")
        lost.refusal = SparkLost("connection does not exist", "08003")
        with pytest.raises(SparkLost):
            await session.execute("SELECT 1")
    assert (lost.alive, pool.unused) == (False, [well])


async def test_a_session_whose_spark_was_lost_while_rows_were_fetched_is_not_lent_again() -> None:
    lost = LostSession()
    lost.failing = "GetResultSetMetadata"
    pool = PoolOf(lost)
    with pytest.raises(SparkLost):
        async with pool.session() as session:
            await session.run("SELECT 1")
    assert not lost.alive


async def test_the_idle_sessions_of_a_lost_spark_are_not_lent_again() -> None:
    lost, idle, well = LostSession(), LostSession(), LostSession()
    pool = PoolOf(lost, idle, well, size=2)
    async with pool.session() as first:
        async with pool.session():
            pass
        lost.refusal = SparkLost("Broken pipe", "08007")
        with pytest.raises(SparkLost):
            await first.execute("INSERT INTO t VALUES (1)")
    assert (lost.alive, idle.alive) == (False, False)
    async with pool.session() as session:
        assert session.connection is cast(Connection, well)


async def test_a_new_session_for_which_kyuubi_finds_no_spark_counts_as_a_lost_server(engine: Engine) -> None:
    async def greet(_: ServerSession) -> None:
        raise SparkLost("Connection reset", "08003")

    pool = SessionPool(FixedEndpoint(at(engine)), "service", 1, greet=greet)
    with pytest.raises(UpstreamLost, match="Connection reset"):
        await _same_session(pool)
    await pool.close()


@pytest.mark.parametrize("started", [False, True])
async def test_a_session_whose_spark_was_lost_during_a_statement_is_not_lent_again(started: bool) -> None:
    reason = "Error operating ExecuteStatement: Socket for SessionHandle [x] is closed"
    lost = LostSession(reason=reason) if started else LostSession(SparkLost(reason, "08007"))
    pool = PoolOf(lost, well := LostSession())
    with pytest.raises(StatementFailed) as failed:
        async with pool.session() as session:
            await session.run("INSERT INTO t VALUES (1)")
    assert failed.value.sqlstate == "08007"
    assert (lost.alive, pool.unused) == (False, [well])
    async with pool.session() as session:
        await session.wait(await session.execute("SELECT 1"))
    assert pool.unused == []


async def _nothing() -> None: ...


async def test_a_fresh_session_is_new_and_never_reused() -> None:
    pool = ServerlessPool(FixedEndpoint(Endpoint("nowhere", 1)), "service", 1)
    async with pool.session() as first:
        pass
    async with pool.session(fresh=True) as fresh:
        assert fresh is not first
    async with pool.session() as again:
        assert again is first


async def _same_session(pool: SessionPool) -> ServerSession:
    async with pool.session() as session:
        assert (await session.run("SELECT 1")).rows == [(1,)]
        return session
