"""Tests where connections to Spark are opened, and what becomes of those that cannot be."""

from __future__ import annotations

import errno
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from gateway.config import Address, Upstream
from gateway.errors import UpstreamLost
from gateway.mv.refresh.habits import Habits
from gateway.proxy.traffic import Traffic
from gateway.spark.connector import Connector
from gateway.spark.servers import Health, KnownServer, Servers
from gateway.spark.storage_guard import StorageGuard
from gateway.wire.endpoint import Endpoint
from gateway.wire.http_connection import HTTP
from gateway.wire.sasl import PLAIN, Login

PROTOCOL = Endpoint("", 0, HTTP, "/path")


class _PassingChecks:
    """Every server may be the home."""

    async def as_home(self, server: KnownServer, *, moved: bool) -> None: ...

    async def as_peer(self, server: KnownServer) -> str:
        return ""


class _Opened:
    """A connection."""

    at = ""
    alive = True

    def cut(self) -> None: ...


def at(host: str, port: int = 1) -> KnownServer:
    async def locate() -> Address:
        return Address(host, port)

    return KnownServer(locate, host)


class Place:
    """Servers of which some refuse connections."""

    def __init__(self, *servers: KnownServer, refusing: str = "", protocol: Endpoint = PROTOCOL) -> None:
        self.traffic = Traffic()
        guard, habits = StorageGuard("", ""), Habits()
        self.connector = Connector(servers, protocol, Upstream(), guard, habits, self.traffic.connecting)
        self.connector.servers = Servers(servers, cast(Any, _PassingChecks()))
        self.tried: list[Endpoint] = []
        self._refusing = refusing

    async def open(self, endpoint: Endpoint) -> _Opened:
        self.tried.append(endpoint)
        if endpoint.host in self._refusing:
            raise UpstreamLost("Cannot connect to Spark.") from ConnectionRefusedError(errno.ECONNREFUSED, "refused")
        return _Opened()


@pytest.mark.parametrize("reach", [Connector.reach, Connector.reach_for_client])
async def test_a_home_that_is_lost_is_replaced_at_once(
    reach: Callable[[Connector, Callable[[Endpoint], Awaitable[Any]]], Awaitable[_Opened]],
) -> None:
    place = Place(at("a"), at("b"), refusing="a")
    link = await reach(place.connector, place.open)
    assert link.at == "b"
    assert place.tried == [Endpoint("a", 1, HTTP, "/path"), Endpoint("b", 1, HTTP, "/path")]
    assert [server.health for server in place.connector.servers.all] == [Health.DOWN, Health.UP]


async def test_a_session_does_not_move_to_another_server() -> None:
    place = Place(at("a"), at("b"), refusing="b")
    assert (await place.connector.reach_for_client(place.open, "a")).at == "a"
    with pytest.raises(UpstreamLost):
        await place.connector.reach_for_client(place.open, "b")
    assert [each.host for each in place.tried] == ["a", "b"]
    with pytest.raises(UpstreamLost, match="lost, and with it the session"):
        await place.connector.reach_for_client(place.open, "b")


async def test_the_only_server_is_tried_once() -> None:
    place = Place(at("a"), refusing="a")
    with pytest.raises(UpstreamLost):
        await place.connector.reach(place.open)
    assert len(place.tried) == 1


async def test_second_connections_of_sessions_are_counted() -> None:
    place = Place(at("127.0.0.1"), protocol=Endpoint("", 0, PLAIN))
    with pytest.raises(UpstreamLost):
        await place.connector.connect(Login("ada", "x", PLAIN))
    assert (place.traffic.connects, place.traffic.connects_failed) == (1, 1)
