"""Tests what is registered in ZooKeeper, and what its changes lead to, over a fake one."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from proxy.peers import until

from gateway.discovery import registration
from gateway.discovery.registration import Registration, ZooKeeperUnavailable
from gateway.discovery.server_nodes import ServerNode, leader_path

SERVER = ServerNode("/freshgate", "serverUri=host:1;version=1;sequence=", "a=b")
OTHER = ServerNode("/freshgate_http", "serverUri=host:2;version=1;sequence=", "a=c")


@dataclass
class Servers:
    """ZooKeeper: paths, each with its data and its session."""

    nodes: dict[str, tuple[str, int]] = field(default_factory=dict)
    clients: list[FakeTree] = field(default_factory=list)
    numbers: itertools.count[int] = field(default_factory=itertools.count)

    def tree(self) -> FakeTree:
        return FakeTree(self)

    def delete(self, path: str) -> None:
        del self.nodes[path]
        self.tell()

    def tell(self) -> None:
        for each in self.clients:
            each.changed()

    def below(self, namespace: str) -> list[str]:
        return sorted(data for path, (data, _) in self.nodes.items() if path.startswith(f"{namespace}/"))

    @property
    def only(self) -> str:
        (path,) = self.nodes
        return path


class FakeTree:
    """A session."""

    def __init__(self, servers: Servers) -> None:
        self.servers = servers
        self.session: int | None = None
        self.changed: Callable[[], None] = lambda: None
        self.problem: ZooKeeperUnavailable | None = None
        self.looks = 0
        servers.clients.append(self)

    def start(self) -> None:
        self.connect()

    def connect(self) -> None:
        self.session = next(self.servers.numbers)
        self.changed()

    def interrupt(self) -> int:
        """Loses the connection, not the session."""
        assert self.session is not None
        before, self.session = self.session, None
        self.changed()
        return before

    def expire(self) -> None:
        gone, self.session = self.session, None
        for path in [path for path, (_, owner) in self.servers.nodes.items() if owner == gone]:
            del self.servers.nodes[path]
        self.servers.tell()

    async def create(self, path: str, data: str, *, numbered: bool) -> str:
        await self._answer()
        assert self.session is not None
        created = f"{path}{next(self.servers.numbers):010}" if numbered else path
        self.servers.nodes[created] = (data, self.session)
        return created

    async def exists(self, path: str) -> bool:
        await self._answer()
        return path in self.servers.nodes

    async def stop(self) -> None:
        await self._answer()
        self.expire()

    async def _answer(self) -> None:
        self.looks += 1
        await asyncio.sleep(0)
        if self.problem is not None:
            raise self.problem


@dataclass
class Registered:
    """A gateway's registration."""

    tree: FakeTree
    registration: Registration
    deregistered: list[str]


@asynccontextmanager
async def registered(servers: Servers) -> AsyncIterator[Registered]:
    tree, told = servers.tree(), list[str]()
    made = Registration(tree, "/freshgate", lambda: told.append("deregistered"))
    made.start()
    try:
        yield Registered(tree, made, told)
    finally:
        await made.leave()


async def settled(tree: FakeTree) -> None:
    """Returns when nothing is left to do."""
    while True:
        looks = tree.looks
        for _ in range(20):
            await asyncio.sleep(0)
        if looks == tree.looks:
            return


async def test_clients_find_a_gateway_from_enter_to_leave() -> None:
    servers = Servers()
    async with registered(servers) as one:
        await settled(one.tree)
        assert servers.nodes == {}
        assert not one.registration.registered
        one.registration.enter([SERVER, OTHER])
        await settled(one.tree)
        assert one.registration.registered
        assert (servers.below("/freshgate"), servers.below("/freshgate_http")) == (["a=b"], ["a=c"])
    assert servers.nodes == {}
    assert one.deregistered == []


async def test_a_deleted_node_drains_its_gateway_once() -> None:
    servers = Servers()
    async with registered(servers) as one, registered(servers) as other:
        one.registration.enter([SERVER])
        await settled(one.tree)
        path = servers.only
        other.registration.enter([SERVER])
        await settled(other.tree)
        servers.delete(path)
        await settled(one.tree)
        await settled(other.tree)
        assert (one.deregistered, other.deregistered) == (["deregistered"], [])
        # It does not come back.
        servers.tell()
        await settled(one.tree)
        assert len(servers.nodes) == 1


async def test_a_session_that_expired_is_followed_by_another_one() -> None:
    servers = Servers()
    async with registered(servers) as one:
        one.registration.enter([SERVER])
        one.registration.lead("m")
        await settled(one.tree)
        one.tree.expire()
        await settled(one.tree)
        assert servers.nodes == {}
        one.tree.connect()
        await settled(one.tree)
        assert servers.below("/freshgate") == ["a=b"]
        assert leader_path("/freshgate", "m") in servers.nodes
        assert one.deregistered == []


async def test_a_session_that_expired_and_began_again_during_a_look_is_no_deletion() -> None:
    servers = Servers()
    async with registered(servers) as one:
        one.registration.enter([SERVER])
        await settled(one.tree)
        looking = one.tree.exists

        async def late(path: str) -> bool:
            one.tree.exists = looking  # type: ignore[method-assign]
            one.tree.expire()
            one.tree.connect()
            return await looking(path)

        one.tree.exists = late  # type: ignore[method-assign]
        servers.tell()
        await settled(one.tree)
        assert one.deregistered == []
        assert servers.below("/freshgate") == ["a=b"]


async def test_an_interruption_changes_nothing() -> None:
    servers = Servers()
    async with registered(servers) as one:
        one.registration.enter([SERVER])
        await settled(one.tree)
        before = dict(servers.nodes)
        session = one.tree.interrupt()
        await settled(one.tree)
        assert not one.registration.registered
        one.tree.session = session
        one.tree.changed()
        await settled(one.tree)
        assert servers.nodes == before
        # One that is deleted meanwhile is noticed when the connection is back.
        one.tree.interrupt()
        servers.delete(servers.only)
        await settled(one.tree)
        assert one.deregistered == []
        one.tree.session = session
        one.tree.changed()
        await settled(one.tree)
        assert one.deregistered == ["deregistered"]


async def test_a_leader_is_missed_only_if_it_was_there() -> None:
    servers, told = Servers(), list[bool]()
    async with registered(servers) as door:
        door.registration.watch("m", told.append)
        await settled(door.tree)
        assert told == []
        async with registered(servers) as leader:
            leader.registration.lead("m")
            await settled(leader.tree)
            servers.tell()
            await settled(door.tree)
            assert told == [True]
            leader.tree.expire()
            await settled(door.tree)
            assert told == [True, False]
            servers.tell()
            await settled(door.tree)
            assert told == [True, False]
            leader.tree.connect()
            await settled(leader.tree)
            servers.tell()
            await settled(door.tree)
            assert told == [True, False, True]
            door.registration.lead("n")
            leader.tree.expire()
            await settled(door.tree)
            assert told == [True, False, True]


async def test_a_door_without_a_connection_misses_nobody() -> None:
    servers, told = Servers(), list[bool]()
    async with registered(servers) as door, registered(servers) as leader:
        leader.registration.lead("m")
        await settled(leader.tree)
        door.registration.watch("m", told.append)
        await settled(door.tree)
        door.tree.interrupt()
        leader.tree.expire()
        await settled(door.tree)
        assert told == [True]
        door.tree.connect()
        await settled(door.tree)
        assert told == [True, False]


async def test_a_leader_whose_node_was_deleted_creates_it_again() -> None:
    servers = Servers()
    async with registered(servers) as one:
        one.registration.lead("m")
        await settled(one.tree)
        servers.delete(leader_path("/freshgate", "m"))
        await settled(one.tree)
        assert servers.only == leader_path("/freshgate", "m")
        assert one.deregistered == []


async def test_an_error_is_tried_again(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(registration, "COMPARE_SECONDS", 0.01)
    servers = Servers()
    async with registered(servers) as one:
        one.tree.problem = ZooKeeperUnavailable("it refuses")
        one.registration.enter([SERVER])
        await until(lambda: "it refuses" in caplog.text)
        one.tree.problem = None
        await until(lambda: servers.nodes)


async def test_clients_find_a_gateway_that_may_not_register_as_the_leader(caplog: pytest.LogCaptureFixture) -> None:
    servers = Servers()
    async with registered(servers) as one:
        create = one.tree.create

        async def refusing(path: str, data: str, *, numbered: bool) -> str:
            if not numbered:
                raise ZooKeeperUnavailable("NoAuthError")
            return await create(path, data, numbered=numbered)

        one.tree.create = refusing  # type: ignore[method-assign]
        one.registration.lead("m")
        one.registration.enter([SERVER])
        await settled(one.tree)
        assert one.registration.registered
        assert "NoAuthError" in caplog.text


async def test_a_stop_does_not_wait_for_a_zookeeper_that_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registration, "LEAVE_SECONDS", 0.01)
    tree = Servers().tree()
    tree.stop = asyncio.Event().wait  # type: ignore[assignment, method-assign]
    made = Registration(tree, "/freshgate", lambda: None)
    made.start()
    await made.leave()
