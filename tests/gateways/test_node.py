"""Tests gateways with real ports around a mark in memory: who serves clients when one ends, dies or is deposed."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial

import pytest
import uvloop
from proxy.peers import BOTH, LIMITS, Peer, Service, no_upstream, until
from wire import calls

from gateway.errors import FreshgateError, UpstreamLost
from gateway.gateways import control, node
from gateway.gateways.election import Linked, Phase, Silent, Vacant
from gateway.gateways.node import GatewayNode, Premises
from gateway.mv.catalog.epoch_counts import EpochCounts
from gateway.mv.catalog.fence import OtherGateway, Superseded
from gateway.mv.catalog.presence import PresenceMark, Process, Vigil
from gateway.proxy import doorway as doorways
from gateway.proxy.capacity import Capacity
from gateway.proxy.doorway import Doorway
from gateway.proxy.entrance import Entrance, Port
from gateway.proxy.leader_link import Leader, Trust
from gateway.proxy.listener import Listener
from gateway.proxy.relay_gate import RelayGate
from gateway.proxy.ticket_book import Pen
from gateway.proxy.traffic import Traffic
from gateway.service.decision import Answer
from gateway.wire.connection import NOSASL, ClientConnection
from gateway.wire.member import GatewayRole, Member
from gateway.wire.message import peek
from gateway.wire.reply import error

SECRET = "s" * 32
_numbers = itertools.count(1)


@pytest.fixture(autouse=True)
def loop_factory() -> object:
    return uvloop.new_event_loop


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in (
        *((node, each) for each in ("CHECK_SECONDS", "LOOK_SECONDS", "SUSPECTING_SECONDS")),
        *((control, each) for each in ("RETRY_SECONDS", "PING_SECONDS")),
        (doorways, "RETRY_SECONDS"),
    ):
        monkeypatch.setattr(module, name, 0.02)


@dataclass
class Database:
    """What the storage database says."""

    found: PresenceMark | None = None
    problem: FreshgateError | None = None
    unsafe: FreshgateError | None = None

    def put(self, mark: str, relay: str) -> None:
        self.found = PresenceMark(mark, mark, None, "1", leaving=False, ended=False, relay=relay, epoch=7)

    def end(self, mark: str) -> None:
        if self.found is not None and self.found.mark == mark:
            self.found = PresenceMark(mark, mark, None, "1", leaving=True, ended=True, relay=self.found.relay)

    # --- `node.Watched` ------------------------------------------------------------------------------------

    def vigil(self) -> Vigil:
        return Vigil(Process.own())

    async def other(self) -> PresenceMark | None:
        if self.problem is not None:
            raise self.problem
        return self.found

    async def examine(self) -> None:
        if self.unsafe is not None:
            raise self.unsafe

    async def wait_for_other(self) -> None:
        raise OtherGateway("another one that takes no relayed clients")


@dataclass
class FakeTerm:
    """A gateway that answers each request with its mark."""

    database: Database
    entrance: Entrance
    relay: str
    taking: asyncio.Event
    mark: str = field(default_factory=lambda: f"m{next(_numbers)}")
    done: list[str] = field(default_factory=list)
    busy: int = 0
    drain_seconds: float = 0.0
    asked: int = 0
    """How often it has asked Spark whether it still leads, in its start and after."""
    page: None = None

    def __post_init__(self) -> None:
        def service() -> Service:
            return Service(decide=lambda payload: Answer(self.answer(payload)), is_busy=self.busy > 0)

        self.listener = Listener(self.entrance, LIMITS, service, no_upstream)

    def answer(self, payload: bytes) -> bytes:
        head = peek(payload)
        return error(head.name, head.seqid, self.mark, "HY000")

    def member(self) -> Member:
        return Member(self.relay, GatewayRole.LEADER, 7, 0, self.listener.clients - self.listener.relayed, "0")

    async def prepare(self) -> None:
        self.done.append("prepare")

    async def calm_down(self) -> None:
        self.done.append("calm down")

    async def hand_over(self, acknowledged: Callable[[], Awaitable[None]]) -> None:
        self.done.append("hand over")
        self.acknowledged = acknowledged
        self.database.end(self.mark)

    async def go_on_with(self, tickets: Sequence[bytes], pen: Pen) -> None:
        self.tickets, self.pen = tickets, pen
        for number, ticket in enumerate(tickets):
            pen.keep(bytes(15) + bytes([number]), ticket)

    async def heed(self) -> None:
        self.done.append("heed")
        await self.check()

    async def start(self) -> None:
        self.database.put(self.mark, self.relay)
        await self.taking.wait()
        await self.check()
        await self.listener.start()

    async def watch(self) -> None:
        self.done.append("watch")

    async def check(self, *, ask: bool = True) -> None:
        self.asked += ask
        found = self.database.found
        if ask and (found is None or found.mark != self.mark):
            raise Superseded("another one")

    def reload(self) -> None:
        self.done.append("reload")

    async def drain(self) -> None:
        self.done.append("drain")
        await self.listener.drain(self.drain_seconds, lambda: self.busy, dismiss="hand over" in self.done)

    async def stop(self) -> None:
        self.done.append("stop")
        await self.listener.close()
        self.database.end(self.mark)


@dataclass
class House:
    """A node with its ports."""

    node: GatewayNode
    premises: Premises
    terms: list[FakeTerm]
    taking: asyncio.Event

    @property
    def mark(self) -> str:
        return self.terms[-1].mark

    async def client(self) -> Peer:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.node.ports[0])
        return Peer(reader, writer, False)

    async def answer(self) -> str:
        """Which gateway answers a new client."""
        peer = await self.client()
        try:
            return await said(peer)
        finally:
            await peer.end()

    def die(self) -> None:
        """As if the process were killed: its connections and ports end, and nothing is recorded."""
        self.node._loop.cancel()
        self.node._unwatch()
        for each in (self.premises.entrance, self.premises.relays):
            each.close()
        self.premises.gate.close()
        for term in self.terms[-1:]:
            for relay in list(term.listener._relays):
                relay.abort()


async def said(peer: Peer) -> str:
    peer.send(calls.open_session())
    return (await peer.message()).decode(errors="replace")


@asynccontextmanager
async def houses(count: int = 2) -> AsyncIterator[tuple[Database, list[House]]]:
    database, made = Database(), list[House]()
    try:
        for _ in range(count):
            made.append(house(database))
            await made[-1].node.bind()
        yield database, made
    finally:
        for each in made:
            await each.node.stop()


def house(database: Database) -> House:
    def wire() -> ClientConnection:
        return ClientConnection(BOTH, LIMITS)

    capacity, terms, taking = Capacity(100, Traffic()), list[FakeTerm](), asyncio.Event()
    taking.set()
    entrance, relays = (Entrance([Port("127.0.0.1", 0, wire)], 10) for _ in range(2))
    premises = Premises(
        entrance, relays, Doorway(Trust(SECRET), capacity, 10, 1 << 16, Traffic()), RelayGate(SECRET, capacity), None
    )

    def open_term() -> FakeTerm:
        terms.append(FakeTerm(database, entrance, f"127.0.0.1:{relays.numbers[0]}", taking))
        return terms[-1]

    return House(
        GatewayNode(premises, database, open_term, partial(asyncio.sleep, 0), 1.0, EpochCounts()),
        premises,
        terms,
        taking,
    )


@dataclass
class FakeRegister:
    """ZooKeeper."""

    leads: str = ""
    watched: str = ""
    report: Callable[[bool], None] = lambda present: None

    def lead(self, mark: str) -> None:
        self.leads = mark

    def watch(self, mark: str, report: Callable[[bool], None]) -> None:
        self.watched, self.report = mark, report


async def test_a_leader_that_is_silent_and_has_left_zookeeper_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "SILENT_SECONDS", 0.1)
    async with houses() as (_, (first, second)):
        registers = [FakeRegister(), FakeRegister()]
        for each, register in zip((first, second), registers, strict=True):
            each.node._premises = replace(each.premises, register=register)
            await each.node.start()
        assert registers[0].leads == registers[1].watched == first.mark
        await until(lambda: second.node._election.linked)
        # It answers, so it has only lost ZooKeeper.
        registers[1].report(False)
        await until(lambda: second.node._election.missing)
        registers[1].report(True)
        (watched,) = first.premises.gate._opened
        assert watched._transport is not None
        watched._transport.pause_reading()
        await until(lambda: second.node._election.phase is Phase.SUSPECTING)
        assert not second.node.leads
        registers[1].report(False)
        await until(lambda: second.node.leads)
        assert registers[1].leads == second.mark


async def test_the_first_leads_and_the_second_passes_its_clients_on() -> None:
    async with houses() as (_, (first, second)):
        await first.node.start()
        await second.node.start()
        assert first.node.leads
        assert not second.node.leads
        for each in (first, second):
            assert first.mark in await each.answer()
        assert all(each.done == ["prepare"] for each in second.terms)


async def test_the_leader_knows_its_doors() -> None:
    async with houses(3) as (_, (first, *doors)):
        for each in (first, *doors):
            await each.node.start()
        places = {str(each.premises.relays.address): each for each in doors}
        await until(lambda: {each.address for each in first.premises.gate.doors()} == set(places))
        assert [each.role for each in first.premises.gate.doors()] == [GatewayRole.DOOR] * 2
        await until(lambda: [each.epoch for each in first.premises.gate.doors()] == [7] * 2)
        peer = await doors[0].client()
        await said(peer)
        await until(lambda: sum(each.clients for each in first.premises.gate.doors()) == 1)
        assert (first.node.member().role, first.node.member().clients) == (GatewayRole.LEADER, 0)
        before = doors[1].node.member()
        assert before.since > 0
        await peer.end()
        await doors[0].node.stop()
        await until(lambda: len(first.premises.gate.doors()) == 1)
        first.die()
        await until(lambda: doors[1].node.leads)
        assert doors[1].node.member().role is GatewayRole.LEADER
        took = dict(doors[1].node._counts.takeover_seconds.buckets())
        assert took["+Inf"] == took["20.0"] == 1


async def test_none_starts_over_a_metastore_that_shows_what_has_gone() -> None:
    async with houses(1) as (database, (only,)):
        database.unsafe = FreshgateError("its epochs stand for too long")
        with pytest.raises(FreshgateError, match="stand for too long"):
            await only.node.start()
        assert only.terms == []


async def test_a_leader_asks_spark_only_while_clients_send_something() -> None:
    async with houses(1) as (_, (only,)):
        await only.node.start()
        looks = 0

        def renew() -> None:
            nonlocal looks
            looks += 1

        only.premises.relays.renew_certificates = renew  # type: ignore[method-assign]
        await until(lambda: looks > 3)
        assert only.terms[0].asked == 1
        await only.answer()
        await until(lambda: only.terms[0].asked > 1)
        asked, looks = only.terms[0].asked, 0
        await until(lambda: looks > 3)
        assert only.terms[0].asked <= asked + 1


async def test_a_client_that_waits_is_served_when_the_leader_has_died() -> None:
    async with houses() as (_, (first, second)):
        await first.node.start()
        await second.node.start()
        await until(lambda: second.node._election.linked)
        passed = await second.client()
        assert first.mark in await said(passed)
        second.taking.clear()
        first.die()
        await until(lambda: second.terms)
        waiting = await second.client()
        waiting.send(calls.open_session())
        await until(lambda: any(each._held for each in second.premises.doorway._passages))
        second.taking.set()
        assert second.mark in (await waiting.message()).decode(errors="replace")
        assert second.node.leads
        assert second.premises.doorway.clients == 0
        # Its session goes on.
        assert second.mark in await said(passed)
        await passed.end()
        await waiting.end()


async def test_a_leader_that_is_stopped_hands_over() -> None:
    async with houses(3) as (_, (first, *others)):
        for each in (first, *others):
            await each.node.start()
        old = first.terms[0]
        await until(lambda: all(each.node._election.linked for each in others))
        idle = await others[0].client()
        assert old.mark in await said(idle)
        old.busy, old.drain_seconds = 1, 30
        busy = await others[1].client()
        assert old.mark in await said(busy)
        draining = asyncio.create_task(first.node.drain())
        await until(lambda: any(each.node.leads for each in others))
        (heir,) = (each for each in others if each.node.leads)
        assert old.done == ["watch", "calm down", "hand over", "drain"]
        assert heir.terms[0].done == ["prepare", "watch"]
        # New clients are served at each door, and what runs goes on.
        for each in others:
            assert heir.mark in await each.answer()
        assert heir.mark in await said(idle)
        assert old.mark in await said(busy)
        assert not draining.done()
        # What such a statement has written is known at the next leader before its end is told.
        await old.acknowledged()
        assert heir.terms[0].done[-1] == "heed"
        old.busy = 0
        await draining
        await first.node.stop()
        assert heir.mark in await said(busy)
        for peer in (idle, busy):
            await peer.end()
        # A door that is not the heir has not taken over.
        assert [each.terms[0].done for each in others if each is not heir] == [["prepare"]]


async def test_nothing_is_told_that_the_next_leader_does_not_heed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "HEEDED_SECONDS", 0.3)
    monkeypatch.setattr(node, "HEEDED_SECONDS", 0.3)
    async with houses() as (database, (first, second)):
        await first.node.start()
        await second.node.start()
        await until(lambda: second.node._election.linked)
        await first.node.drain()
        await until(lambda: second.node.leads)
        await first.terms[0].acknowledged()
        # A third one has taken over meanwhile.
        database.put("third", "127.0.0.1:1")
        with pytest.raises(FreshgateError, match="not answered"):
            await first.terms[0].acknowledged()
        await first.node.stop()


async def test_the_heir_may_die() -> None:
    async with houses(3) as (_, (first, *others)):
        for each in (first, *others):
            await each.node.start()
        await until(lambda: all(each.node._election.linked for each in others))
        for each in others:
            each.taking.clear()
        await first.node.drain()
        await until(lambda: any(each.terms and each.node._term for each in others))
        (heir,) = (each for each in others if each.node._term)
        (other,) = (each for each in others if not each.node._term)
        heir.die()
        other.taking.set()
        heir.terms[0].database.found = None
        await until(lambda: other.node.leads)
        heir.taking.set()
        await first.node.stop()


async def test_a_door_is_ready_to_take_over(monkeypatch: pytest.MonkeyPatch) -> None:
    async with houses() as (_, (first, second)):
        await first.node.start()
        prepare, tried = FakeTerm.prepare, list[FakeTerm]()

        async def fails_first(term: FakeTerm) -> None:
            tried.append(term)
            if len(tried) == 1:
                raise UpstreamLost("Spark is away")
            await prepare(term)

        monkeypatch.setattr(FakeTerm, "prepare", fails_first)
        await second.node.start()
        # What could not be prepared is prepared later.
        await until(lambda: len(second.terms) == 2 and second.terms[1].done == ["prepare"])
        assert second.terms[0].done == ["stop"]
        assert not second.node.leads
        first.die()
        await until(lambda: second.node.leads)
        assert second.terms[1].done == ["prepare", "watch"]
        assert second.mark in await second.answer()


async def test_a_door_drops_at_its_end_what_it_has_prepared() -> None:
    async with houses() as (_, (first, second)):
        await first.node.start()
        await second.node.start()
        await until(lambda: second.terms and second.terms[0].done == ["prepare"])
        await second.node.drain()
        await second.node.stop()
        assert second.terms[0].done == ["prepare", "stop"]
        assert first.mark in await first.answer()


async def test_a_leader_that_was_deposed_is_a_door() -> None:
    async with houses() as (database, (first, second)):
        await first.node.start()
        served = await first.client()
        assert first.mark in await said(served)
        # A suspicion that was wrong: the second one sees nothing of the first, which learns of it from Spark.
        seen, database.found = database.found, None
        await second.node.start()
        assert seen is not None
        assert second.node.leads
        served.send(calls.open_session())
        await served.closed()
        await until(lambda: "stop" in first.terms[0].done)
        assert second.mark in await first.answer()
        await until(lambda: first.node._election.linked)
        assert not first.node.leads
        # And it leads again, with a new term, when the other one has died.
        second.die()
        await until(lambda: first.node.leads)
        assert len(first.terms) == 2
        assert first.mark in await first.answer()
        await served.end()


async def test_of_two_that_take_over_together_one_leads() -> None:
    async with houses() as (_, (first, second)):
        first.taking.clear()
        starting = asyncio.create_task(first.node.start())
        await until(lambda: first.terms)
        seen, second.node._watched.found = second.node._watched.found, None  # type: ignore[attr-defined]
        assert seen is not None
        await second.node.start()
        first.taking.set()
        await starting
        assert second.node.leads
        assert first.terms[0].done == ["stop"]
        assert second.mark in await first.answer()


async def test_spark_that_is_away_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    async with houses(1) as (database, (only,)):
        database.problem = UpstreamLost("Spark is away")
        starting = asyncio.create_task(only.node.start())
        await asyncio.sleep(0)
        database.problem = None
        await starting
        # Later, a look that fails changes nothing.
        database.problem = UpstreamLost("Spark is away")
        assert only.mark in await only.answer()
        database.problem = None
    monkeypatch.setattr(node, "SPARK_SECONDS", 0)
    async with houses(1) as (database, (only,)):
        database.problem = UpstreamLost("Spark is away")
        with pytest.raises(UpstreamLost):
            await only.node.start()


async def test_a_gateway_that_takes_no_relayed_clients_cannot_be_followed() -> None:
    async with houses(1) as (database, (only,)):
        database.put("old", "")
        with pytest.raises(OtherGateway):
            await only.node.start()
        assert only.terms == []


async def test_a_start_that_fails_is_an_error() -> None:
    async with houses(1) as (_, (only,)):
        made = only.node._open_term

        def broken() -> FakeTerm:
            term = made()
            assert isinstance(term, FakeTerm)

            async def start() -> None:
                raise FreshgateError("the catalog is of a later release")

            term.start = start  # type: ignore[method-assign]
            return term

        only.node._open_term = broken
        with pytest.raises(FreshgateError, match="later release"):
            await only.node.start()
        assert only.terms[0].done == ["stop"]


async def test_a_leader_that_answers_no_more_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "SILENT_SECONDS", 0.1)
    capacity = Capacity(100, Traffic())
    gate, found = RelayGate(SECRET, capacity), list[control.Report]()
    relays = Entrance([Port("127.0.0.1", 0, lambda: ClientConnection(frozenset({NOSASL}), LIMITS))], 10)
    await relays.bind(gate)
    leader = Leader("m", relays.address)
    gate.begin(leader)
    member = Member("door:1", GatewayRole.DOOR, 7, 5, 3, "0.1")
    link = control.ControlLink(leader, Trust(SECRET), lambda: member, found.append)
    link.start()
    await until(lambda: found == [Linked("m")])
    (watched,) = gate._opened
    assert watched._transport is not None
    await until(lambda: gate.doors() == [member])
    watched._transport.pause_reading()
    await until(lambda: Silent("m") in found)
    gate.clock = lambda: time.monotonic() + 10
    assert gate.doors() == [replace(member, role=GatewayRole.SILENT)]
    watched._transport.resume_reading()
    await until(lambda: found[-1] == Linked("m"))
    gate.close()
    await until(lambda: Vacant("m") in found)
    assert gate.doors() == []
    relays.close()
    found.clear()
    await until(lambda: Vacant("m") in found)
    link.stop()
    with suppress(asyncio.CancelledError):
        assert link._task is not None
        await link._task


async def test_each_door_has_the_tickets_of_sessions_that_belong_to_no_connection() -> None:
    async with houses(3) as (_, (first, second, third)):
        await first.node.start()
        pen = first.terms[-1].pen
        before, after = b"a" * 16, b"b" * 16
        pen.keep(before, b"before")
        for each in (second, third):
            await each.node.start()
        pen.keep(after, b"after")
        for each in (second, third):
            await until(lambda: each.premises.gate.book._tickets == {before: b"before", after: b"after"})  # noqa: B023
        pen.drop(before)
        pen.keep(after, b"newer")
        await until(lambda: second.premises.gate.book._tickets == {after: b"newer"})
        first.die()
        await until(lambda: second.node.leads or third.node.leads)
        leader, door = (second, third) if second.node.leads else (third, second)
        assert leader.terms[-1].tickets == [b"newer"]
        # The door keeps only what the next leader has told.
        await until(lambda: door.premises.gate.book._tickets == {bytes(16): b"newer"})
        pen.keep(before, b"late")
        await asyncio.sleep(0)


async def test_a_term_knows_whether_there_is_a_door() -> None:
    async with houses() as (_, (first, second)):
        await first.node.start()
        pen = first.terms[-1].pen
        told: list[str] = []
        pen.on_copy = lambda: told.append("copied")
        assert not pen.is_copied
        await second.node.start()
        await until(lambda: pen.is_copied)
        await until(lambda: told == ["copied"])
        second.die()
        await until(lambda: not pen.is_copied)


async def test_a_term_that_is_over_writes_no_tickets() -> None:
    async with houses() as (database, (first, second)):
        await first.node.start()
        pen = first.terms[-1].pen
        pen.keep(b"a" * 16, b"old")
        served = await first.client()
        await said(served)
        database.found = None
        await second.node.start()
        second.terms[-1].pen.keep(b"a" * 16, b"new")
        served.send(calls.open_session())
        await served.closed()
        await until(lambda: first.premises.gate.book._tickets == {b"a" * 16: b"new"})
        pen.keep(b"a" * 16, b"late")
        pen.drop(b"a" * 16)
        assert first.premises.gate.book._tickets == {b"a" * 16: b"new"}
        await served.end()


async def test_a_door_closes_a_connection_by_which_it_is_told_what_is_none() -> None:
    async with houses() as (_, (first, second)):
        await first.node.start()
        await second.node.start()
        await until(lambda: second.node._election.linked)
        (watching,) = first.premises.gate._opened
        watching.note(b"?")
        await until(lambda: watching not in first.premises.gate._opened)
        # It comes back, and is told everything.
        first.terms[-1].pen.keep(b"a" * 16, b"again")
        await until(lambda: second.premises.gate.book._tickets == {b"a" * 16: b"again"})
