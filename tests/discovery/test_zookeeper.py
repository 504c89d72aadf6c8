"""Tests the registration in a real ZooKeeper: what clients find there, and what it survives."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError
from proxy.peers import until
from zookeeper_server import ZooKeeperServer

from gateway.discovery import zookeeper
from gateway.discovery.registration import LEAVE_SECONDS, Registration
from gateway.discovery.server_nodes import ServerNode
from gateway.discovery.zookeeper import ZooKeeper
from gateway.errors import FreshgateError


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    running = ZooKeeperServer(tmp_path_factory.mktemp("zookeeper"))
    yield running
    running.stop()


@pytest.fixture
def operator(server: ZooKeeperServer) -> Iterator[KazooClient]:
    with server.client() as client:
        yield client


@dataclass
class Here:
    """A registered gateway."""

    tree: ZooKeeper
    registration: Registration
    namespace: str
    deregistered: list[str]

    def nodes(self, operator: KazooClient) -> list[str]:
        found = operator.get_children(self.namespace) if operator.exists(self.namespace) else []
        return [f"{self.namespace}/{each}" for each in found]


@asynccontextmanager
async def registered(server: ZooKeeperServer, namespace: str, login: str = "") -> AsyncIterator[Here]:
    tree, told = ZooKeeper(server.address, login), list[str]()
    made = Registration(tree, namespace, lambda: told.append("deregistered"))
    made.start()
    made.enter([ServerNode(namespace, "serverUri=host:1;version=1;sequence=", "a=b")])
    try:
        yield Here(tree, made, namespace, told)
    finally:
        await made.leave()


def expire(server: ZooKeeperServer, session: tuple[int, bytes]) -> None:
    """Ends a client's session: it is closed by another client that claims it."""
    other = KazooClient(server.address, client_id=session)
    other.start()
    other.stop()
    other.close()


async def test_a_node_is_there_until_the_gateway_leaves(server: ZooKeeperServer, operator: KazooClient) -> None:
    async with registered(server, "/here/there") as here:
        await until(lambda: here.nodes(operator))
        (path,) = here.nodes(operator)
        assert path.startswith("/here/there/serverUri=host:1;version=1;sequence=00000")
        assert operator.get(path)[0] == b"a=b"
        # As if a reply had been lost.
        assert await here.tree.create("/here/there/serverUri=host:1", "a=b", numbered=True) == path
        for _ in range(2):
            assert await here.tree.create("/here/leader", "", numbered=False) == "/here/leader"
    assert here.nodes(operator) == []
    assert operator.exists("/here/leader") is None
    assert here.deregistered == []


async def test_a_deleted_node_is_reported(server: ZooKeeperServer, operator: KazooClient) -> None:
    async with registered(server, "/deleted") as here:
        await until(lambda: here.nodes(operator))
        operator.delete(*here.nodes(operator))
        await until(lambda: here.deregistered)
        assert here.nodes(operator) == []


async def test_a_session_that_expired_is_replaced(server: ZooKeeperServer, operator: KazooClient) -> None:
    async with registered(server, "/expired") as here:
        await until(lambda: here.nodes(operator))
        before = here.nodes(operator)
        expire(server, here.tree._client.client_id)
        await until(lambda: here.nodes(operator) and here.nodes(operator) != before)
        assert len(here.nodes(operator)) == 1
        assert here.deregistered == []


async def test_a_server_that_was_killed_and_comes_back_changes_nothing(
    server: ZooKeeperServer, operator: KazooClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    async with registered(server, "/killed") as here:
        await until(lambda: here.nodes(operator))
        before = here.nodes(operator)
        server.stop()
        await until(lambda: here.tree.session is None)
        await until(lambda: "no connection to ZooKeeper" in caplog.text)
        server.start()
        await until(lambda: "connected to ZooKeeper again" in caplog.text)
        assert here.nodes(operator) == before
        assert here.deregistered == []


async def test_a_gateway_starts_and_stops_without_a_server(server: ZooKeeperServer, operator: KazooClient) -> None:
    server.stop()
    try:
        began = time.monotonic()
        async with registered(server, "/away"):
            pass
        assert time.monotonic() - began < LEAVE_SECONDS + 1
        async with registered(server, "/later") as here:
            server.start()
            await until(lambda: here.nodes(operator))
    finally:
        server.stop()
        server.start()


async def test_only_its_user_changes_what_was_registered(server: ZooKeeperServer, operator: KazooClient) -> None:
    async with registered(server, "/owned", "ada:secret") as here:
        await until(lambda: here.nodes(operator))
        (path,) = here.nodes(operator)
        with pytest.raises(NoAuthError):
            operator.delete(path)
        assert operator.get(path)[0] == b"a=b"
        operator.add_auth("digest", "ada:secret")
        operator.delete(path)
        await until(lambda: here.deregistered)


def test_the_extra_is_named_if_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zookeeper, "KazooClient", None)
    with pytest.raises(FreshgateError, match=r"Install freshgate\[zookeeper\]"):
        ZooKeeper("127.0.0.1:1")
