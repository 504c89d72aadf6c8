"""Tests a door in front of a leader, with real sockets: clients pass as they are, wait, and are handed over."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trustme
from message_stream import http_reply
from proxy.peers import BOTH, LIMITS, Gateway, Peer, Service, echo_of, gateway, login_bytes, until
from proxy.test_http_relay import post
from proxy.test_http_relay import reply as http_reply_of
from wire import calls

from gateway.config import Address
from gateway.proxy import leader_link
from gateway.proxy.capacity import Capacity
from gateway.proxy.descriptors import Room
from gateway.proxy.doorway import HELD_BYTES_MAX, NOBODY, Doorway
from gateway.proxy.entrance import Entrance, Port
from gateway.proxy.leader_link import Leader, NotLeading, NotServing, Trust, Unreachable, connect
from gateway.proxy.relay_gate import RelayGate
from gateway.proxy.tls import Certificate
from gateway.proxy.traffic import Traffic
from gateway.service.decision import Answer
from gateway.wire import http_calls
from gateway.wire.connection import ClientConnection, ClientEnd
from gateway.wire.cookies import Cookies
from gateway.wire.frame import WireLimits
from gateway.wire.http_connection import HttpClientConnection
from gateway.wire.message import peek
from gateway.wire.preface import Preface, Role, Welcome, ticket_digest
from gateway.wire.sasl import COMPLETE, GSSAPI, OK, START, negotiation

SECRET = "s" * 32
TRUST = Trust(SECRET)
MARK = "mark"
ECHO = partial(Service, decide=lambda payload: Answer(echo_of(payload)))


@dataclass
class Door:
    """A leader behind its relay port, and a door with a client port."""

    gate: Gateway
    relay: RelayGate
    doorway: Doorway
    entrance: Entrance
    leader: Leader
    traffic: Traffic
    dialed: list[Peer] = field(default_factory=list)

    async def dial(self, trusting: ssl.SSLContext | None = None) -> Peer:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self.entrance.numbers[0], limit=1 << 16, ssl=trusting
        )
        self.dialed.append(Peer(reader, writer, False))
        return self.dialed[-1]

    async def client(self, trusting: ssl.SSLContext | None = None) -> Peer:
        """A client that is logged in with SASL."""
        peer = await self.dial(trusting)
        peer.writer.write(login_bytes())
        assert await peer.reader.readexactly(5) == negotiation(COMPLETE)
        peer.framed = True
        return peer

    def lead(self) -> None:
        self.relay.begin(self.leader)
        self.relay.open(self.gate.listener, None)
        self.doorway.lead_to(self.leader)


@asynccontextmanager
async def door(
    *,
    limits: WireLimits = LIMITS,
    door_limits: WireLimits = LIMITS,
    wait_seconds: float = 10.0,
    certificate: Certificate | None = None,
    relay_certificate: Certificate | None = None,
    trust: Trust = TRUST,
    service: Callable[[], Service] = ECHO,
    transport: str = "binary",
    http: bool = False,
    transports: frozenset[str] = BOTH,
) -> AsyncIterator[Door]:
    async with gateway(service=service, limits=limits, http=http, transports=transports) as gate:
        relay = RelayGate(SECRET, Capacity(100, gate.traffic))
        inner = Entrance([Port("127.0.0.1", 0, lambda: ClientConnection(BOTH, limits), relay_certificate)], 10)
        await inner.bind(relay)
        traffic = Traffic()
        doorway = Doorway(
            trust, Capacity(door_limits.connections_max, traffic), wait_seconds, limits.buffer_bytes_max, traffic
        )
        cookies = Cookies(60)

        def open_wire() -> ClientEnd:
            if http:
                return HttpClientConnection(limits, cookies, secure=False)
            return ClientConnection(BOTH, limits)

        port = Port("127.0.0.1", 0, open_wire, certificate, tied=not http, transport="http" if http else transport)
        entrance = Entrance([port], 10)
        await entrance.bind(doorway)
        leader = Leader(MARK, Address("127.0.0.1", inner.numbers[0]))
        made = Door(gate, relay, doorway, entrance, leader, traffic)
        try:
            yield made
        finally:
            entrance.close()
            inner.close()
            relay.close()
            doorway.close()
            for peer in made.dialed:
                with suppress(ssl.SSLError):
                    await peer.end()
            await until(lambda: doorway.clients == 0)


async def test_a_client_is_served_as_if_it_had_connected_to_the_leader() -> None:
    async with door() as it:
        it.lead()
        peer = await it.client()
        for request in (calls.status(), calls.execute("x" * 100_000)):
            peer.send(request)
            assert await peer.message() == echo_of(request)
        own = peer.writer.get_extra_info("sockname")
        assert it.gate.service.address == f"{own[0]}:{own[1]}"
        assert it.gate.service.user == "ada"
        peer.close()
        await until(lambda: it.gate.has("client_lost"))
        await until(lambda: it.doorway.clients == 0)


async def test_a_client_over_tls_is_passed_on(tmp_path: Path) -> None:
    authority, pem, trusting = trustme.CA(), tmp_path / "server.pem", ssl.create_default_context()
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(pem)
    authority.configure_trust(trusting)
    async with door(certificate=Certificate(str(pem), "")) as it:
        it.lead()
        peer = await it.client(trusting)
        peer.send(calls.status())
        assert await peer.message() == echo_of(calls.status())
        relay = next(iter(it.gate.listener._relays))
        assert relay._wire.secure


async def test_what_gateways_send_each_other_is_encrypted(tmp_path: Path) -> None:
    authority, pem, trusting = trustme.CA(), tmp_path / "server.pem", ssl.create_default_context()
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(pem)
    authority.configure_trust(trusting)
    certificate = Certificate(str(pem), "")
    async with door(relay_certificate=certificate, trust=Trust(SECRET, trusting)) as it:
        it.lead()
        peer = await it.client()
        for request in (calls.status(), calls.execute("x" * 100_000)):
            peer.send(request)
            assert await peer.message() == echo_of(request)
        assert not next(iter(it.gate.listener._relays))._wire.secure
        peer.close()
        await until(lambda: it.gate.has("client_lost"))
        stranger = Trust(SECRET, ssl.create_default_context())
        with pytest.raises(Unreachable, match="certificate verify failed"):
            await connect(it.leader, stranger, Preface(Role.CONTROL, it.leader.name))
        with pytest.raises(Unreachable):
            await connect(it.leader, Trust(SECRET), Preface(Role.CONTROL, it.leader.name))


async def test_a_long_answer_waits_for_a_slow_client() -> None:
    """Neither the door nor the leader keeps what the client does not read."""
    limits = replace(LIMITS, buffer_bytes_max=100_000)
    answer = echo_of(calls.status()) + bytes(30_000_000)
    async with door(limits=limits, service=partial(Service, decide=lambda _: Answer(answer))) as it:
        it.lead()
        peer = await it.client()
        peer.send(calls.status())
        (passage,) = it.doorway._passages
        await until(lambda: passage._link is not None and not passage._link._reading)
        assert passage._transport is not None
        assert passage._transport.get_write_buffer_size() < 1_000_000
        assert len(await peer.reader.readexactly(4 + len(answer))) == 4 + len(answer)


async def test_a_client_that_sends_much_waits_for_a_slow_leader() -> None:
    """The leader does not read a client whose last request is not decided."""
    decided = asyncio.Event()

    async def decide(payload: bytes) -> Answer:
        await decided.wait()
        return Answer(echo_of(payload))

    limits = replace(LIMITS, buffer_bytes_max=100_000)
    async with door(limits=limits, service=partial(Service, decide=decide)) as it:
        it.lead()
        peer = await it.client()
        request = calls.execute("x" * 1_000_000)
        for _ in range(30):
            peer.send(request)
        (passage,) = it.doorway._passages
        await until(lambda: not passage._reading)
        decided.set()
        for _ in range(30):
            assert await peer.message() == echo_of(request)


async def test_a_client_waits_until_a_gateway_leads(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[Welcome] = []

    def judge(gate: RelayGate, preface: Preface) -> Any:
        found = decided(gate, preface)
        said.append(found[0])
        return found

    decided = RelayGate.judge
    monkeypatch.setattr(RelayGate, "judge", judge)
    async with door() as it:
        peer = await it.dial()
        peer.writer.write(login_bytes())
        await until(lambda: it.doorway.clients == 1)
        it.doorway.lead_to(it.leader)
        await until(lambda: Welcome.NOT_LEADING in said)
        it.relay.begin(it.leader)
        await until(lambda: Welcome.WAIT in said)
        it.relay.open(it.gate.listener, None)
        assert await peer.reader.readexactly(5) == negotiation(COMPLETE)


async def test_a_client_that_waited_too_long_is_told_why() -> None:
    async with door(wait_seconds=0.05) as it:
        peer = await it.dial()
        peer.writer.write(login_bytes())
        assert NOBODY.encode() in await peer.closed()
        assert it.traffic.refused == 1
        it.doorway.lead_to(it.leader)
        peer = await it.dial()
        peer.writer.write(login_bytes())
        assert b"does not lead any more" in await peer.closed()
        it.relay.begin(it.leader)
        peer = await it.dial()
        peer.writer.write(login_bytes())
        assert b"takes no new clients at the moment" in await peer.closed()


async def test_a_transport_that_the_leader_does_not_serve_is_refused_at_once() -> None:
    async with door(transport="http") as it:
        it.lead()
        peer = await it.dial()
        peer.writer.write(login_bytes())
        assert b"does not serve this transport" in await peer.closed()


async def test_a_client_that_waits_is_served_by_the_gateway_that_takes_over() -> None:
    async with door() as it:
        quiet, early = await it.dial(), await it.dial()
        early.writer.write(login_bytes())
        await until(lambda: any(each._held for each in it.doorway._passages))
        it.entrance.host = it.gate.listener
        it.doorway.hand_over(it.gate.listener)
        quiet.writer.write(login_bytes())
        for peer in (quiet, early):
            assert await peer.reader.readexactly(5) == negotiation(COMPLETE)
            peer.framed = True
            peer.send(calls.status())
            assert await peer.message() == echo_of(calls.status())
        assert it.doorway.clients == 0
        assert it.gate.listener.clients == 2


async def test_a_client_over_tls_that_waits_is_handed_over(tmp_path: Path) -> None:
    authority, pem, trusting = trustme.CA(), tmp_path / "server.pem", ssl.create_default_context()
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(pem)
    authority.configure_trust(trusting)
    async with door(certificate=Certificate(str(pem), "")) as it:
        quiet, early, long = [await it.dial(trusting) for _ in range(3)]
        early.writer.write(login_bytes())
        long.writer.write(login_bytes() + bytes(HELD_BYTES_MAX + 1))
        await until(lambda: sum(bool(each._held) for each in it.doorway._passages) == 2)
        await until(lambda: any(not each._reading for each in it.doorway._passages))
        it.entrance.host = it.gate.listener
        it.doorway.hand_over(it.gate.listener)
        quiet.writer.write(login_bytes())
        for peer in (quiet, early, long):
            assert await peer.reader.readexactly(5) == negotiation(COMPLETE)
        for peer in (quiet, early):
            peer.framed = True
            peer.send(calls.execute("x" * 200_000))
            assert await peer.message() == echo_of(calls.execute("x" * 200_000))


def next_leader(it: Door, mark: str = "next") -> None:
    """The leader goes, and the same gateway leads again: with another mark it is another leader for doors."""
    it.relay.close()
    for relay in list(it.gate.listener._relays):
        relay.abort()
    it.leader = replace(it.leader, mark=mark)
    it.lead()


def unanswering(answered: list[bytes]) -> partial[Service]:
    """Answers only some requests."""

    async def never() -> Answer:
        await asyncio.Event().wait()
        raise AssertionError

    return partial(Service, decide=lambda payload: Answer(echo_of(payload)) if payload in answered else never())


async def test_a_client_moves_to_the_next_leader() -> None:
    async with door() as it:
        it.lead()
        peer = await it.client()
        for mark in ("second", "third"):
            peer.send(calls.status())
            assert await peer.message() == echo_of(calls.status())
            next_leader(it, mark)
        for request in (calls.status(), calls.execute("x" * 300_000), calls.fetch()):
            peer.send(request)
            assert await peer.message() == echo_of(request)
        first, second, third = it.gate.services
        assert (first.calls[0], first.calls[-1]) == ("passed_on", "client_lost")
        assert second.calls[:2] == third.calls[:2] == ["passed_on", "arrive"]
        # Each leader was told what the one before knew.
        assert [each.user for each in (first, second, third)] == ["ada"] * 3
        assert [each.replies for each in (first, second, third)] == [1, 2, 5]


class Plainly:
    """A context of Kerberos that protects nothing."""

    def wrap(self, data: bytes, *, confidential: bool) -> bytes:
        return data

    def unwrap(self, data: bytes) -> tuple[bytes, bool]:
        return data, False


class TakingTickets(Service):
    """Accepts each ticket."""

    async def admit(self) -> bool:
        assert self.identity.exchange is not None
        self.identity.exchange.context = Plainly()
        self.user = "ada"
        return False


async def test_a_client_with_a_ticket_moves_too() -> None:
    service = partial(TakingTickets, decide=unanswering([calls.status()]).keywords["decide"])
    async with door(service=service, transports=BOTH | {GSSAPI}) as it:
        it.lead()
        peer = await it.dial()
        peer.writer.write(negotiation(START, b"GSSAPI") + negotiation(OK, b"token"))
        offer = negotiation(OK, b"\1\0\0\0")
        assert await peer.reader.readexactly(len(offer)) == offer
        peer.writer.write(negotiation(COMPLETE, b"\1\0\0\0"))
        assert await peer.reader.readexactly(5) == negotiation(COMPLETE)
        peer.framed = True
        peer.send(calls.fetch())
        await until(lambda: it.gate.services and it.gate.services[0].calls[-1] == "FetchResults")
        next_leader(it)
        assert b"08S01" in await peer.message()
        peer.send(calls.status())
        assert await peer.message() == echo_of(calls.status())
        assert [each.user for each in it.gate.services] == ["ada", "ada"]


async def test_a_client_without_sasl_moves_too() -> None:
    async with door() as it:
        it.lead()
        peer = await it.dial()
        peer.send(calls.open_session())
        assert await peer.message() == echo_of(calls.open_session())
        next_leader(it)
        peer.send(calls.status())
        assert await peer.message() == echo_of(calls.status())
        assert [each.user for each in it.gate.services] == ["", ""]


@pytest.mark.parametrize(
    ("request_", "sqlstate"),
    [
        (calls.execute("INSERT INTO t VALUES (1)"), b"08007"),
        (calls.execute("WITH a AS (SELECT 1) INSERT INTO t SELECT * FROM a"), b"08007"),
        (calls.status(), b"08007"),
        (calls.execute("/* why */ SELECT 1"), b"08S01"),
        (calls.fetch(), b"08S01"),
    ],
)
async def test_a_request_under_way_is_answered_once_and_not_sent_again(request_: bytes, sqlstate: bytes) -> None:
    async with door(service=unanswering([calls.status(seqid=2)])) as it:
        it.lead()
        peer = await it.client()
        peer.send(request_)
        await until(lambda: any(relay.waiting for relay in it.gate.listener._relays))
        it.doorway.lead_to(None)
        assert sqlstate in await peer.message()
        next_leader(it)
        peer.send(calls.status(seqid=2))
        assert await peer.message() == echo_of(calls.status(seqid=2))
        assert len([each for each in it.gate.services[-1].calls if each in ("ExecuteStatement", "FetchResults")]) == 0


async def test_who_opens_a_session_is_told_to_connect_again() -> None:
    async with door(service=unanswering([]), http=True) as it:
        it.lead()
        peer = await it.dial()
        peer.writer.write(post(calls.open_session()))
        await until(lambda: it.gate.has("OpenSession"))
        it.doorway.lead_to(None)
        assert b"has gone. Connect again" in (await http_reply_of(peer))[1]


async def test_what_ends_anyway_is_answered_as_done() -> None:
    async with door(service=unanswering([])) as it:
        it.lead()
        peer = await it.client()
        peer.send(calls.close())
        await until(lambda: any(relay.waiting for relay in it.gate.listener._relays))
        it.doorway.lead_to(None)
        assert b"08" not in await peer.message()


async def test_part_of_a_request_is_sent_to_the_next_leader() -> None:
    async with door() as it:
        it.lead()
        peer = await it.client()
        whole = calls.execute("SELECT 1")
        framed = len(whole).to_bytes(4, "big") + whole
        peer.writer.write(framed[:30])
        await until(lambda: any(len(each._unanswered) == 30 for each in it.doorway._passages))
        it.doorway.lead_to(None)
        next_leader(it)
        peer.writer.write(framed[30:])
        assert await peer.message() == echo_of(whole)


async def test_a_leader_that_is_stopped_gives_back_what_it_has_not_begun() -> None:
    async with door() as it:
        it.lead()
        peer = await it.client()
        await until(lambda: bool(it.gate.services))
        it.gate.service.leaving = True
        peer.send(calls.execute("INSERT INTO t VALUES (1)"))
        await until(lambda: any(each._left for each in it.doorway._passages))
        assert it.gate.has("left")
        assert not it.gate.has("ExecuteStatement")
        next_leader(it)
        assert await peer.message() == echo_of(calls.execute("INSERT INTO t VALUES (1)"))


async def test_a_client_that_reads_part_of_a_reply_is_closed() -> None:
    async with door(service=unanswering([])) as it:
        it.lead()
        peer = await it.client()
        await until(lambda: bool(it.gate.listener._relays))
        (relay,) = it.gate.listener._relays
        peer.send(calls.fetch())
        await until(lambda: relay.waiting)
        relay._write(b"\0\0\0\x09half", whole=False)
        assert await peer.reader.readexactly(8) == b"\0\0\0\x09half"
        it.doorway.lead_to(None)
        assert await peer.closed() == b""


async def test_a_client_is_answered_while_nobody_leads_and_stays() -> None:
    async with door(wait_seconds=0.05) as it:
        it.lead()
        peer = await it.client()
        it.doorway.lead_to(None)
        peer.send(calls.execute("SELECT 1"))
        answer = await peer.message()
        assert b"08001" in answer
        assert NOBODY.encode() in answer
        next_leader(it)
        peer.send(calls.status())
        assert await peer.message() == echo_of(calls.status())


async def test_the_sessions_of_a_client_that_has_left_are_ended_by_the_next_leader() -> None:
    async with door() as it:
        it.lead()
        for number in range(2):
            peer = await it.client()
            it.doorway.lead_to(None)
            peer.cut()
            await until(lambda: it.doorway.clients == 0 and len(it.doorway._abandoned) == 1)
            before = len(it.gate.services)
            if number:
                it.doorway.hand_over(it.gate.listener)
            else:
                next_leader(it)
            await until(lambda: len(it.gate.services) > before)  # noqa: B023 - awaited here
            await until(lambda: it.gate.service.calls[-1] == "client_lost")
            assert "arrive" in it.gate.service.calls
            await until(lambda: not it.doorway._abandoned)
            next_leader(it, f"further {number}")


async def test_a_client_is_handed_over_with_its_session() -> None:
    async with door() as it:
        it.lead()
        peer = await it.client()
        it.doorway.lead_to(None)
        peer.send(calls.execute("SELECT 1"))
        it.doorway.hand_over(it.gate.listener)
        assert await peer.message() == echo_of(calls.execute("SELECT 1"))
        assert it.gate.service.calls == ["arrive", "ExecuteStatement"]


async def test_no_other_ticket_is_taken_than_the_one_announced() -> None:
    async with door() as it:
        it.lead()
        digest = ticket_digest(b"ada 0")
        preface = Preface(Role.CLIENT, it.leader.name, "binary", "127.0.0.1", 1, False, digest, "earlier")
        link = await connect(it.leader, TRUST, preface)
        link.send(len(b"eve 0").to_bytes(4, "big") + b"eve 0")
        await until(lambda: link._transport is not None and link._transport.is_closing())
        assert it.gate.services == []


async def answered(it: Door, request: bytes, peer: Peer | None = None) -> tuple[int, bytes]:
    """The status and body of the reply to a call over HTTP."""
    peer = peer if peer is not None else await it.dial()
    peer.writer.write(post(request))
    return await http_reply_of(peer)


async def test_a_client_over_http_goes_on_at_the_next_leader() -> None:
    async with door(http=True) as it:
        it.lead()
        peer = await it.dial()
        for mark in ("second", "third"):
            assert await answered(it, calls.status(), peer) == (200, echo_of(calls.status()))
            next_leader(it, mark)
        assert await answered(it, calls.execute("SELECT 1"), peer) == (200, echo_of(calls.execute("SELECT 1")))
        it.doorway.lead_to(None)
        peer.writer.write(post(calls.fetch()))
        await until(lambda: any(each._held for each in it.doorway._passages))
        it.doorway.hand_over(it.gate.listener)
        assert await http_reply_of(peer) == (200, echo_of(calls.fetch()))
        # Each leader checks the login.
        assert [each.calls[0] for each in it.gate.services] == ["login"] * 4


@pytest.mark.parametrize(
    ("request_", "sqlstate"),
    [
        (calls.execute("INSERT INTO t VALUES (1)"), b"08007"),
        (calls.status(), b"08007"),
        (calls.execute("SELECT 1"), b"08S01"),
    ],
)
async def test_a_call_over_http_is_answered_once_and_not_sent_again(request_: bytes, sqlstate: bytes) -> None:
    async with door(service=unanswering([]), http=True) as it:
        it.lead()
        peer = await it.dial()
        peer.writer.write(post(request_))
        await until(lambda: it.gate.has(peek(request_).name))
        next_leader(it)
        status, body = await http_reply_of(peer)
        assert status == 200
        assert sqlstate in body
        assert await peer.closed() == b""
        sent = [call for each in it.gate.services for call in each.calls]
        assert sent.count(peek(request_).name) == 1


@pytest.mark.parametrize(
    "sent", [post(b"no call"), b"no HTTP\r\n\r\n", post(calls.execute("x" * 70_000)), post(calls.status()) + b"POST"]
)
async def test_what_cannot_be_read_gets_a_502(sent: bytes) -> None:
    """Hive's driver would repeat a request that is not answered at all."""
    async with door(service=unanswering([]), http=True) as it:
        it.lead()
        peer = await it.dial()
        await until(lambda: bool(it.gate.listener._relays))
        (relay,) = it.gate.listener._relays
        # The leader reads nothing.
        relay._slices._read = lambda data: None
        peer.writer.write(sent)
        await until(lambda: any(each._unanswered or each._beyond for each in it.doorway._passages))
        await asyncio.sleep(0)
        it.doorway.lead_to(None)
        status, body = await http_reply_of(peer)
        assert (status, body) == (502, http_calls.UNKNOWN.encode() + b"\n")
        assert await peer.closed() == b""


async def test_part_of_a_request_over_http_waits_for_the_next_leader() -> None:
    async with door(http=True) as it:
        it.lead()
        peer = await it.dial()
        whole = post(calls.execute("SELECT 1"))
        peer.writer.write(whole[:-5])
        await until(lambda: any(len(each._unanswered) == len(whole) - 5 for each in it.doorway._passages))
        next_leader(it)
        peer.writer.write(whole[-5:])
        assert await http_reply_of(peer) == (200, echo_of(calls.execute("SELECT 1")))


async def test_a_client_over_http_that_rests_is_not_closed_for_want_of_a_login() -> None:
    async with door(http=True) as it:
        it.lead()
        resting, other = await it.dial(), await it.dial()
        for peer in (resting, other):
            assert await answered(it, calls.status(), peer) == (200, echo_of(calls.status()))
        next_leader(it)
        assert await answered(it, calls.status(), resting) == (200, echo_of(calls.status()))
        # The leader knows nothing of the other one, nor does the next, until it sends something.
        assert it.gate.listener.clients == 1
        it.doorway.lead_to(None)
        await until(lambda: it.gate.listener.clients == 0)
        it.doorway.hand_over(it.gate.listener)
        assert it.gate.listener.clients == 0
        assert await answered(it, calls.status(), other) == (200, echo_of(calls.status()))
        assert await answered(it, calls.status(), resting) == (200, echo_of(calls.status()))


async def test_a_door_that_is_stopped_waits_for_no_client_over_http_that_waits_for_nothing() -> None:
    answers = asyncio.Event()

    async def later() -> Answer:
        await answers.wait()
        return Answer(b"late")

    service = partial(Service, decide=lambda payload: later() if payload == calls.fetch() else Answer(echo_of(payload)))
    async with door(http=True, service=service) as it:
        it.lead()
        idle, waiting, new = await it.dial(), await it.dial(), await it.dial()
        assert await answered(it, calls.status(), idle) == (200, echo_of(calls.status()))
        waiting.writer.write(post(calls.fetch()))
        await until(lambda: it.gate.has("FetchResults"))
        draining = asyncio.ensure_future(it.doorway.drain(60))
        assert await idle.closed() == await new.closed() == b""
        assert not draining.done()
        answers.set()
        assert await http_reply_of(waiting) == (200, b"late")
        await draining
        assert await waiting.closed() == b""


async def test_a_request_over_http_that_no_leader_has_had_may_be_sent_again() -> None:
    async with door(http=True, wait_seconds=0.05) as it:
        peer = await it.dial()
        peer.writer.write(post(calls.status()))
        answer = await http_reply(peer.reader)
        assert (answer.status, answer.fields["retry-after"]) == (503, "2")
        assert NOBODY.encode() in answer.body


async def test_a_leader_that_is_stopped_gives_back_a_call_over_http() -> None:
    async with door(http=True) as it:
        it.lead()
        peer = await it.dial()
        assert await answered(it, calls.status(), peer) == (200, echo_of(calls.status()))
        it.gate.service.leaving = True
        peer.writer.write(post(calls.execute("INSERT INTO t VALUES (1)")))
        await until(lambda: any(each._left for each in it.doorway._passages))
        assert not it.gate.has("ExecuteStatement")
        # Also a client that has sent nothing meanwhile stays.
        idle = await it.dial()
        assert await answered(it, calls.status(), idle) == (200, echo_of(calls.status()))
        await until(lambda: len(it.gate.listener._relays) == 1)
        next(iter(it.gate.listener._relays)).close()
        await until(lambda: sum(each._left for each in it.doorway._passages) == 2)
        next_leader(it)
        insert = calls.execute("INSERT INTO t VALUES (1)")
        assert await http_reply_of(peer) == (200, echo_of(insert))
        assert await answered(it, calls.status(), idle) == (200, echo_of(calls.status()))


async def test_a_client_is_closed_with_the_leaders_end() -> None:
    async with door() as it:
        it.lead()
        peer = await it.client()
        for relay in list(it.gate.listener._relays):
            relay.abort()
        assert await peer.closed() == b""


async def test_a_client_that_leaves_is_left_at_the_leader() -> None:
    async with door() as it:
        it.lead()
        peer = await it.client()
        peer.cut()
        await until(lambda: it.gate.has("client_lost"))
        waiting = await it.dial()
        it.doorway.lead_to(None)
        await until(lambda: it.doorway.clients == 1)
        waiting.cut()
        await until(lambda: it.doorway.clients == 0)


async def test_the_limit_of_connections_holds_at_the_door() -> None:
    async with door(door_limits=replace(LIMITS, connections_max=1)) as it:
        it.lead()
        await it.client()
        second = await it.dial()
        second.writer.write(login_bytes())
        assert b"Too many connections: the gateway serves 1." in await second.closed()
        assert it.traffic.refused == 1


async def test_the_limit_of_the_leader_holds_for_relayed_clients() -> None:
    async with door(limits=replace(LIMITS, connections_max=1)) as it:
        it.lead()
        await it.client()
        second = await it.dial()
        second.writer.write(login_bytes())
        assert b"Too many connections: the gateway serves 1." in await second.closed()


async def test_a_stranger_is_not_served(monkeypatch: pytest.MonkeyPatch) -> None:
    async with door() as it:
        it.lead()
        reader, writer = await asyncio.open_connection("127.0.0.1", it.leader.relay.port)
        writer.write(login_bytes() + bytes(200))
        await Peer(reader, writer, False).closed()
        writer.close()
        assert it.gate.listener.clients == 0
        preface = Preface(Role.CLIENT, it.leader.name, "binary", "127.0.0.1", 1)
        with pytest.raises(Unreachable, match=r"another gateways\.secret"):
            await connect(it.leader, Trust("t" * 32), preface)
        with pytest.raises(NotLeading):
            await connect(replace(it.leader, mark="other"), Trust(SECRET), replace(preface, leader="other"))
        with pytest.raises(NotServing):
            await connect(it.leader, Trust(SECRET), replace(preface, transport="http"))
        monkeypatch.setattr(leader_link, "CONNECT_SECONDS", 0.05)
        server = socket.create_server(("127.0.0.1", 0))
        silent = Address("127.0.0.1", server.getsockname()[1])
        with pytest.raises(Unreachable, match="does not answer"):
            await connect(Leader(MARK, silent), Trust(SECRET), preface)
        server.close()
        with pytest.raises(NotLeading, match="Nothing listens"):
            await connect(Leader(MARK, silent), Trust(SECRET), preface)


async def test_a_door_that_was_sent_elsewhere_shows_no_password() -> None:
    """What listens there knows the leader and passes on all that the two say to each other."""
    learned: list[bytes] = []
    async with door(wait_seconds=0.05) as it:
        it.lead()

        async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, note: list[bytes]) -> None:
            with suppress(OSError):
                while data := await reader.read(1 << 16):
                    note.append(data)
                    writer.write(data)
            writer.close()

        async def between(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            back, forth = await asyncio.open_connection("127.0.0.1", it.leader.relay.port)
            await asyncio.gather(pass_on(reader, forth, learned), pass_on(back, writer, []))

        server = await asyncio.start_server(between, "127.0.0.1", 0)
        place = Address("127.0.0.1", server.sockets[0].getsockname()[1])
        it.doorway.lead_to(replace(it.leader, relay=place))
        peer = await it.dial()
        peer.writer.write(login_bytes())
        async with asyncio.timeout(10):
            assert b"does not lead any more" in await peer.closed()
        assert it.gate.listener.clients == 0
        assert learned
        assert login_bytes() not in b"".join(learned)
        server.close()


async def stranger(it: Door, sends: bytes) -> bytes:
    """What the port for doors answers to a client without the secret, until it closes the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", it.leader.relay.port)
    writer.write(sends)
    answer = bytearray()
    with suppress(ConnectionResetError):
        while more := await reader.read(1000):
            answer += more
    writer.close()
    return bytes(answer)


async def test_strangers_fill_neither_the_log_nor_the_last_descriptors(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with door() as it:
        it.lead()
        with caplog.at_level(logging.WARNING):
            garbage = (1).to_bytes(2, "big") + bytes(65)
            assert {(await stranger(it, garbage))[-33] for _ in range(5)} == {Welcome.UNTRUSTED}
        assert ["asks to relay" in each.message for each in caplog.records] == [True]
        monkeypatch.setattr(Room, "is_short", lambda room, descriptor: True)
        assert await stranger(it, b"") == b""


def test_a_full_gateway_says_so_once_in_a_while(caplog: pytest.LogCaptureFixture) -> None:
    traffic = Traffic()
    capacity = Capacity(1, traffic)
    with caplog.at_level(logging.WARNING):
        assert [capacity.is_full(taken) for taken in (0, 1, 2, 3)] == [False, True, True, True]
    assert (traffic.refused, len(caplog.records)) == (3, 1)


async def test_a_leader_that_drains_takes_no_new_clients() -> None:
    async with door(wait_seconds=0.05) as it:
        it.lead()
        await it.gate.listener.drain(0, lambda: 0)
        peer = await it.dial()
        peer.writer.write(login_bytes())
        assert b"takes no new clients at the moment" in await peer.closed()


async def test_a_client_without_sasl_is_told_in_its_own_form() -> None:
    async with door(wait_seconds=0.05) as it:
        peer = await it.dial()
        peer.send(calls.open_session())
        assert NOBODY.encode() in await peer.message()
