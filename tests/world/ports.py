"""What a gateway has of the simulated Spark: pools of sessions, and the metastore."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, TypeVar, cast

from fake_spark import Answer, FakeSide, FakeSqlSession, MetastorePort

from gateway.errors import UpstreamLost
from gateway.mv.ports import Outlet
from gateway.spark.servers import KnownServer, Servers
from gateway.wire.sasl import PLAIN, Login
from sql.names import Namespace
from world.spark import SimulatedSession, SimulatedSpark
from world.storage import Metastore

T = TypeVar("T")


class Connector:
    """Connects one gateway with clients' logins. In the place of `spark.connector`."""

    mechanism = PLAIN

    def __init__(self, spark: SimulatedSpark, outlet: Outlet | None) -> None:
        self.servers = Servers([KnownServer(cast(Any, None))], spark.checks)
        self._spark = spark
        self._outlet = outlet

    async def connect(self, login: Login, *, ask: bool = False, at: str | None = None) -> FakeSide:
        return FakeSide(self._spark, self._outlet)


class Pool:
    """Implements `ports.Sessions`, with the rest that `gateway.server` asks of a pool."""

    def __init__(
        self,
        spark: SimulatedSpark,
        gateway: str,
        size: int,
        outlet: Outlet | None = None,
        *,
        greet: Callable[[Any], Awaitable[None]],
    ) -> None:
        self.spark = spark
        self.outlet = outlet
        self.gateway = gateway
        self.greet = greet
        self.application = spark.application
        self.places = asyncio.Semaphore(size)
        self.idle: list[FakeSqlSession[SimulatedSession]] = []
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

    async def __aenter__(self) -> FakeSqlSession[SimulatedSession]:
        pool = self._pool
        await pool.places.acquire()
        try:
            self._session = await self._take(pool)
        except BaseException:
            pool.places.release()
            raise
        return self._session

    async def _take(self, pool: Pool) -> FakeSqlSession[SimulatedSession]:
        if pool.closed:
            raise UpstreamLost("The gateway is stopping.")
        while pool.idle and not self._fresh:
            session = pool.idle.pop()
            if session.session.alive:
                return session
        session = FakeSqlSession(pool.spark, pool.spark.open(pool.gateway, Namespace()), pool.outlet)
        if pool.application != pool.spark.application:
            await pool.greet(session)
            pool.application = pool.spark.application
        return session

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session.session.alive and not self._fresh:
            self._pool.idle.append(self._session)
        self._pool.places.release()


class SimulatedMetastore(MetastorePort[Metastore]):
    """Each question is one step of Spark's."""

    def __init__(self, sessions: Pool) -> None:
        self._sessions = sessions
        self._spark = sessions.spark

    async def run(self, sql: str) -> Answer:
        async with self._sessions.session() as session:
            return await session.run(sql)

    async def _ask(self, method: str, subject: object, look: Callable[[Metastore], T]) -> T:
        async with self._sessions.session() as session:
            asked = self._spark.begin(session.session, "ask", f"{method} {subject}", lambda at: look(at.metastore))
            found: T = await self._spark.ended(asked)
            return found
