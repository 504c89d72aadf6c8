"""Connections to Spark's servers: for the gateway's own sessions at its home, for a client's session where this is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import TypeVar

from gateway.config import Upstream
from gateway.errors import UpstreamLost
from gateway.mv.ports import Outlet
from gateway.mv.refresh.habits import Habits
from gateway.spark.client import Connection, EndpointSource
from gateway.spark.server_checks import ServerChecks
from gateway.spark.servers import KnownServer, Link, Servers
from gateway.spark.storage_guard import StorageGuard
from gateway.wire.endpoint import Endpoint
from gateway.wire.sasl import Login

AnyLink = TypeVar("AnyLink", bound=Link)


class Connector(EndpointSource):
    """Implements `spark.client.EndpointSource`, and for the sessions' second connections
    `service.clients.side_connections.SideConnector`."""

    def __init__(
        self,
        servers: Sequence[KnownServer],
        protocol: Endpoint,
        account: Upstream,
        guard: StorageGuard,
        habits: Habits,
        connecting: Callable[[], AbstractContextManager[None]],
    ) -> None:
        """`protocol`: that of all servers; its address is replaced by theirs. `connecting`: surrounds the opening of a
        session's second connection."""
        self.outlet: Outlet | None = None
        """What the gateway's own statements in clients' sessions pass."""
        self.mechanism = protocol.mechanism
        self.checks = ServerChecks(self.endpoint_of, account.user, account.password, guard, habits)
        self.servers = Servers(servers, self.checks, share=account.share)
        self._protocol = protocol
        self._dialect = habits.speaking
        self._sign = guard.signed
        self._connecting = connecting

    async def endpoint(self) -> Endpoint:
        """That of the gateway's own sessions."""
        return await self.endpoint_of(await self.servers.home())

    async def endpoint_of(self, server: KnownServer) -> Endpoint:
        address = await server.locate()
        return replace(self._protocol, host=address.host, port=address.port)

    async def reach(self, opened: Callable[[Endpoint], Awaitable[AnyLink]]) -> AnyLink:
        return await self._reach(opened, self.servers.home)

    async def reach_for_client(
        self, opened: Callable[[Endpoint], Awaitable[AnyLink]], at: str | None = None
    ) -> AnyLink:
        """As `reach`, for a client's session. `at`: the name of the server at which it is; None for a new one."""
        if at is None:
            return await self._reach(opened, self.servers.for_client, of_client=True)
        server = self.servers.named(at)
        try:
            link = await opened(await self.endpoint_of(server))
        except UpstreamLost as error:
            self.servers.failed(server, error)
            raise
        self.servers.reached(server, link, of_client=True)
        return link

    async def _reach(
        self,
        opened: Callable[[Endpoint], Awaitable[AnyLink]],
        chosen: Callable[[], Awaitable[KnownServer]],
        *,
        of_client: bool = False,
    ) -> AnyLink:
        """Opens a connection. A server that turns out to be lost is replaced by another one at once."""
        while True:
            server = await chosen()
            try:
                link = await opened(await self.endpoint_of(server))
            except UpstreamLost as error:
                if not self.servers.failed(server, error):
                    raise
            else:
                self.servers.reached(server, link, of_client=of_client)
                return link

    async def connect(self, login: Login, *, ask: bool = False, at: str | None = None) -> Connection:
        opened = partial(
            Connection.open,
            user=login.user,
            password=login.password,
            ask=ask,
            dialect=self._dialect,
            sign=self._sign,
            outlet=self.outlet,
        )
        with self._connecting():
            return await self.reach_for_client(opened, at)
