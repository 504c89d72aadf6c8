"""What the gateway asks of one of several Spark Thrift servers before its own sessions are there.

Tests: `test_servers`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from gateway.errors import FreshgateError
from gateway.mv.ports import SqlSession
from gateway.mv.refresh.habits import SINGLE_SESSION, UNSET, Habits
from gateway.spark import probe
from gateway.spark.client import Connection
from gateway.spark.servers import KnownServer
from gateway.spark.storage_guard import KYUUBI, StorageGuard
from gateway.wire.endpoint import Endpoint

MEANINGFUL = "spark.sql."
"""Prefix of the settings that may change results."""
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
    _peers: dict[str, tuple[StorageGuard, Habits]] = field(default_factory=dict, init=False)
    """What is known of the servers that are not the home, by their names."""

    async def as_home(self, server: KnownServer, *, moved: bool) -> None:
        connection = await self._connected(server)
        try:
            await self._meet(connection, self.guard)
            session = await connection.open_session(self.guard.session, user=self.user)
            await self.recognize(session)
            await self.guard.greet(session)
            await self.habits.greet(session)
            if moved:
                await session.run(FORGET_TABLES)
            await session.close()
        finally:
            await connection.close()

    async def _connected(self, server: KnownServer) -> Connection:
        return await Connection.open(
            await self.endpoint(server), self.user, self.password, dialect=self.habits.speaking
        )

    async def _meet(self, connection: Connection, guard: StorageGuard) -> Mapping[str, str]:
        """What the server says about a session without the guard's secret: it may be another one than the guard's."""
        stranger = await connection.open_session(user=self.user)
        await stranger.close()
        if guard.secret:
            guard.meet(stranger.told)
        return stranger.told

    async def as_peer(self, server: KnownServer) -> str:
        if server.name not in self._peers:
            self._peers[server.name] = StorageGuard(self.guard.secret, self.guard.database), Habits()
        guard, habits = self._peers[server.name]
        connection = await self._connected(server)
        try:
            told = await self._meet(connection, guard)
            session = await connection.open_session(guard.session, user=self.user)
            await self.recognize(session)
            await guard.greet(session)
            await habits.greet(session)
            await session.close()
        finally:
            await connection.close()
        if any(name.startswith(KYUUBI) for name in told):
            return "it is Apache Kyuubi, which starts a Spark for each user"
        if guard.state is not self.guard.state:
            return f"its guard of materialized views is {guard.state.value}, the other one's {self.guard.state.value}"
        return differing(habits, self.habits)

    async def log_in(self, server: KnownServer) -> None:
        async def endpoint() -> Endpoint:
            return await self.endpoint(server)

        await probe.log_in(endpoint, self.user, self.password)


def differing(one: Habits, other: Habits) -> str:
    """A difference between two Sparks that may show in results, as a sentence without its period; empty if there is
    none."""
    if one.version != other.version:
        return f"its version is {one.version or 'unknown'}, the other one's {other.version or 'unknown'}"
    here, there = ({**each.defaults, **each.settings} for each in (one, other))
    # Spark lists a default only once it has loaded the class that reads it.
    listed = (here.keys() & there.keys()) | one.settings.keys() | other.settings.keys()
    for name in sorted(listed):
        if name.startswith(MEANINGFUL) and here.get(name) != there.get(name):
            return f"{name} is {here.get(name, UNSET)}, the other one's {there.get(name, UNSET)}"
    if here.get(SINGLE_SESSION) == "true":
        return f"{SINGLE_SESSION} is on, so its sessions share their settings"
    return ""


class OtherMetastore(FreshgateError):
    """A server has another metastore than the gateway's views."""

    sqlstate = "08001"
