"""What a gateway has of Spark: pools of sessions, the metastore, second connections of its clients' sessions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from types import TracebackType
from typing import Any

from gateway.errors import UpstreamLost
from gateway.mv.ports import Function, Relation, SqlSession
from gateway.service.operations.operation import OperationState
from gateway.wire import message, reply
from gateway.wire.message import Handle
from gateway.wire.sasl import Login
from sql.names import TableName
from world.spark import Rows, Spark, SparkSession, Statement

LATE_JOB_SECONDS = 1.0
"""As in `gateway.spark.client`: what a cancelled statement may still begin is waited for."""


async def ended(spark: Spark, running: Statement) -> Any:
    """What a statement answers. Who is cancelled has it cancelled at Spark, and waits a moment."""
    assert running.future is not None
    try:
        return await running.future
    except asyncio.CancelledError:
        spark.cancel(running)
        await asyncio.sleep(LATE_JOB_SECONDS)
        raise


class Session:
    """Implements `ports.SqlSession`."""

    def __init__(self, spark: Spark, at_spark: SparkSession) -> None:
        self._spark = spark
        self.at_spark = at_spark

    async def run(self, sql: str, *, on_start: Callable[[str], None] | None = None) -> Rows:
        if (answer := self._spark.at_once(sql)) is not None:
            return answer
        running = self._spark.submit(self.at_spark, sql)
        if on_start is not None:
            on_start("1")
        columns = ("id",) if running.text.startswith("DESCRIBE DETAIL") else ()
        return Rows(await ended(self._spark, running) or [], columns)

    def spoil(self) -> None:
        self.at_spark.alive = False


class Pool:
    """Implements `ports.Sessions`, with the rest that `gateway.server` asks of a pool."""

    def __init__(self, spark: Spark, gateway: str, size: int, *, greet: Callable[[Any], Awaitable[None]]) -> None:
        self.spark = spark
        self.gateway = gateway
        self.greet = greet
        self.application = spark.application
        self.places = asyncio.Semaphore(size)
        self.idle: list[Session] = []
        self.closed = False

    def session(self, *, fresh: bool = False) -> Lent:
        return Lent(self, fresh)

    async def close(self) -> None:
        self.closed = True

    def cut_off(self) -> None:
        self.closed = True


class Lent:
    """A session on loan."""

    __slots__ = ("_fresh", "_pool", "_session")

    def __init__(self, pool: Pool, fresh: bool) -> None:
        self._pool = pool
        self._fresh = fresh

    async def __aenter__(self) -> Session:
        pool = self._pool
        await pool.places.acquire()
        try:
            self._session = await self._take(pool)
        except BaseException:
            pool.places.release()
            raise
        return self._session

    async def _take(self, pool: Pool) -> Session:
        if pool.closed:
            raise UpstreamLost("The gateway is stopping.")
        while pool.idle and not self._fresh:
            session = pool.idle.pop()
            if session.at_spark.alive:
                return session
        session = Session(pool.spark, pool.spark.open(pool.gateway))
        if pool.application != pool.spark.application:
            await pool.greet(session)
            pool.application = pool.spark.application
        return session

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session.at_spark.alive and not self._fresh:
            self._pool.idle.append(self._session)
        self._pool.places.release()


class MetastorePort:
    """Implements `ports.Metastore`: each question is one step of Spark's."""

    def __init__(self, sessions: Pool) -> None:
        self._sessions = sessions
        self._spark = sessions.spark

    async def run(self, sql: str) -> Rows:
        async with self._sessions.session() as session:
            return await session.run(sql)

    async def relation(self, name: TableName, *, identify: bool = True) -> Relation | None:
        found: Relation | None = await self._ask(f"DESCRIBE {name}", lambda at: at.metastore.relation(name))
        return replace(found, created="") if found and found.provider == "delta" and not identify else found

    async def databases(self) -> frozenset[str]:
        found: frozenset[str] = await self._ask("SHOW DATABASES", lambda at: frozenset(at.metastore.databases))
        return found

    async def tables(self, database: str) -> frozenset[str]:
        found: frozenset[str] = await self._ask(f"SHOW TABLES IN {database}", lambda at: at.metastore.names(database))
        return found

    async def views(self, database: str) -> frozenset[str]:
        found: frozenset[str] = await self._ask(f"SHOW VIEWS IN {database}", lambda at: at.metastore.views(database))
        return found

    async def function(self, name: TableName) -> Function | None:
        return None

    async def functions(self, database: str) -> frozenset[str]:
        return frozenset()

    async def properties(self, table: TableName) -> Mapping[str, str]:
        dotted = f"{table.database}.{table.table}"
        found: Mapping[str, str] = await self._ask(
            f"SHOW TBLPROPERTIES {table}", lambda at: dict(at.metastore.thing(dotted).properties)
        )
        return found

    async def _ask(self, text: str, work: Callable[[Statement], object]) -> Any:
        async with self._sessions.session() as session:
            return await ended(self._spark, self._spark.begin(session.at_spark, "ask", text, work))


class Upstream:
    """Implements `service.clients.side_connections.Upstream`."""

    mechanism = "PLAIN"

    def __init__(self, spark: Spark, gateway: str) -> None:
        self._spark = spark
        self._gateway = gateway

    async def endpoint(self) -> Any:
        raise UpstreamLost("The simulation has no sockets.")

    async def connect(self, login: Login, *, ask: bool = False) -> Side:
        return Side(self._spark)


class Side:
    """Implements `service.clients.side_connections.SideConnection`."""

    busy = False

    def __init__(self, spark: Spark) -> None:
        self._spark = spark
        self._application = spark.application

    @property
    def alive(self) -> bool:
        return self._application == self._spark.application

    async def forward(self, payload: bytes) -> bytes:
        """Answers calls about whether a session or a statement has ended; the latter is held until it has."""
        head, handle = message.peek(payload), message.request_handle(payload)
        if handle is None:
            return reply.unknown_method(head.name, head.seqid)
        if head.name == "GetInfo" and self._spark.knows(handle.guid):
            return reply.closed("CloseSession", head.seqid)  # Only the status is read.
        running = self._spark.operations.get(handle.guid)
        if running is None or head.name != "GetOperationStatus":
            return reply.error(head.name, head.seqid, "Invalid OperationHandle", "HY000")
        await asyncio.wait([running])
        if running.cancelled() or (error := running.exception()) is None:
            return reply.operation_status(head.seqid, OperationState.FINISHED)
        if isinstance(error, UpstreamLost):
            raise error
        return reply.operation_status(head.seqid, OperationState.ERROR, "XX000", str(error))

    def session(self, handle: Handle) -> SqlSession:
        at_spark = self._spark.sessions.get(handle.guid)
        if at_spark is None:
            raise UpstreamLost("Invalid SessionHandle")
        return Session(self._spark, at_spark)

    async def close(self) -> None: ...
