"""What the gateway asks of one of several Spark Thrift servers before its own sessions are there.

Tests: `test_servers`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from gateway.errors import FreshgateError
from gateway.mv.ports import SqlSession
from gateway.mv.refresh.habits import Habits
from gateway.spark import probe
from gateway.spark.client import Connection
from gateway.spark.servers import KnownServer
from gateway.spark.storage_guard import StorageGuard
from gateway.wire.endpoint import Endpoint

FORGET_TABLES = "CLEAR CACHE"
"""CACHE TABLE may have kept rows there before other servers wrote to the table."""


async def any_metastore(session: SqlSession) -> None:
    """Recognizes every metastore."""


@dataclass(slots=True)
class ServerChecks:
    """Implements `servers.Checks`."""

    endpoint: Callable[[KnownServer], Awaitable[Endpoint]]
    user: str
    password: str
    guard: StorageGuard
    habits: Habits
    recognize: Callable[[SqlSession], Awaitable[None]] = any_metastore
    """Raises FreshgateError if the session has another metastore than the gateway's views."""

    async def as_home(self, server: KnownServer, *, moved: bool) -> None:
        endpoint = await self.endpoint(server)
        connection = await Connection.open(endpoint, self.user, self.password, dialect=self.habits.speaking)
        try:
            if self.guard.secret:
                # Without the secret: this server may be another one than the guard's.
                stranger = await connection.open_session(user=self.user)
                await stranger.close()
                self.guard.meet(stranger.told)
            session = await connection.open_session(self.guard.session, user=self.user)
            await self.recognize(session)
            await self.guard.greet(session)
            await self.habits.greet(session)
            if moved:
                await session.run(FORGET_TABLES)
            await session.close()
        finally:
            await connection.close()

    async def log_in(self, server: KnownServer) -> None:
        async def endpoint() -> Endpoint:
            return await self.endpoint(server)

        await probe.log_in(endpoint, self.user, self.password)


class OtherMetastore(FreshgateError):
    """A server has another metastore than the gateway's views."""

    sqlstate = "08001"
