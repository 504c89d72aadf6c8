"""The two peers of the gateway, with real sockets: a scripted Spark, and a client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace

from message_stream import MessageStream

from gateway.errors import FreshgateError
from gateway.proxy.entrance import Entrance, Port
from gateway.proxy.listener import Listener
from gateway.proxy.traffic import Traffic
from gateway.proxy.trusted_proxies import TrustedProxies
from gateway.proxy.upstream import UpstreamSocket, connect
from gateway.service.decision import Answer, Decision, Forward, Login
from gateway.wire.connection import NOSASL, ClientConnection, ClientEnd
from gateway.wire.cookies import Cookies
from gateway.wire.endpoint import Endpoint
from gateway.wire.frame import WireLimits, frame
from gateway.wire.http_connection import HttpClientConnection
from gateway.wire.message import peek
from gateway.wire.reply import error
from gateway.wire.sasl import COMPLETE, PLAIN, START, SaslServer, negotiation, refusal

BOTH = frozenset({PLAIN, NOSASL})
LIMITS = WireLimits(login_seconds=10, buffer_bytes_max=256 * 1024)


async def no_upstream(login: Login, address: str | None) -> UpstreamSocket:
    """Connects a test's clients that must not reach Spark."""
    raise AssertionError("no client of this test reaches Spark")


async def until(condition: Callable[[], object]) -> None:
    """Waits for a condition until the test's deadline."""
    while not condition():  # noqa: ASYNC110 (the conditions set no event)
        await asyncio.sleep(0.001)


class Peer(MessageStream):
    """One end of a connection, reading messages with or without frames."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, framed: bool) -> None:
        super().__init__(reader, framed)
        self.writer = writer

    def send(self, payload: bytes) -> None:
        self.writer.write(frame(payload) if self.framed else payload)

    async def closed(self) -> bytes:
        """The bytes that the other side sends until it closes."""
        rest = b""
        with suppress(ConnectionError):
            while data := await self.reader.read(1 << 16):
                rest += data
        return rest

    def close(self) -> None:
        self.writer.close()

    def cut(self) -> None:
        self.writer.transport.abort()

    async def end(self) -> None:
        """Closes the connection immediately and waits for it; the other side may have closed it already."""
        self.cut()
        with suppress(ConnectionError):
            await self.writer.wait_closed()


Script = Callable[[Peer], Awaitable[None]]


async def echo(peer: Peer) -> None:
    """Answers every request with an error that contains its length, by which replies can be distinguished."""
    while True:
        request = await peer.message()
        peer.send(echo_of(request))


def echo_of(request: bytes) -> bytes:
    head = peek(request)
    return error(head.name, head.seqid, f"{len(request)} bytes", "HY000")


@dataclass
class ScriptedServer:
    """Accepts logins, and then runs `script` for each connection."""

    mechanism: str = PLAIN
    script: Script = echo
    refuse_with: str | None = None
    logins: list[Login] = field(default_factory=list)
    peers: list[Peer] = field(default_factory=list)
    closed: int = 0
    before_answer: asyncio.Event | None = None
    port: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = Peer(reader, writer, self.mechanism == PLAIN)
        self.peers.append(peer)
        try:
            if self.mechanism == NOSASL or await self._login(peer):
                await self.script(peer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.closed += 1
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    async def _login(self, peer: Peer) -> bool:
        server = SaslServer(10_000)
        login = None
        while login is None:
            data = await peer.reader.read(1000)
            if not data:
                return False
            login = server.receive(data)
        self.logins.append(login)
        if self.before_answer is not None:
            await self.before_answer.wait()
        peer.writer.write(negotiation(COMPLETE) if self.refuse_with is None else refusal(self.refuse_with))
        return self.refuse_with is None

    def connected(self) -> int:
        return len(self.peers) - self.closed


@dataclass
class Service:
    """A dispatcher that decides with `decide`; by default it forwards everything."""

    mechanism: str = PLAIN
    decide: Callable[[bytes], Decision] = Forward
    calls: list[str] = field(default_factory=list)
    user: str = ""
    client_lost_gate: asyncio.Event | None = None
    reply_to_loss: bool = True
    refuse_with: str | None = None
    """The message with which logins are refused; None: they are accepted."""
    spark_accepts: bool = True
    """Whether Spark must accept a login before the client is accepted."""
    address: str = ""
    login_error: FreshgateError | None = None
    replies: int = 0
    is_busy: bool = False
    told: tuple[str, int] | None = None
    leaving: bool = False

    def came_from(self, address: str, do_as: str = "") -> None:
        self.address = address

    async def refused_by_spark(self, error: FreshgateError) -> None:
        self.calls.append("refused by Spark")

    def login_ended(self, error: FreshgateError | None) -> None:
        self.login_error = error

    def login(self, login: Login) -> None:
        self.calls.append("login")
        self.user = login.user
        self.identity = login

    async def admit(self) -> bool:
        if self.refuse_with is not None:
            raise FreshgateError(self.refuse_with)
        return self.spark_accepts

    @property
    def logged_in(self) -> bool:
        return bool(self.user) or "OpenSession" in self.calls

    def request(self, payload: bytes) -> Decision:
        self.calls.append(peek(payload).name)
        return self.decide(payload)

    at = None

    def joined(self, at: str) -> None: ...

    def upstream_login(self) -> Login:
        self.calls.append("upstream_login")
        return Login(self.user or "gateway", "x", self.mechanism)

    def replied(self) -> None:
        self.replies += 1

    def upstream_lost(self, outstanding: bytes | None) -> bytes | None:
        self.calls.append("upstream_lost")
        if outstanding is None or not self.reply_to_loss:
            return None
        head = peek(outstanding)
        return error(head.name, head.seqid, "Spark is gone", "08S01")

    def not_joined(self, outstanding: bytes, refusal: FreshgateError) -> bytes:
        self.calls.append("not_joined")
        head = peek(outstanding)
        return error(head.name, head.seqid, str(refusal), refusal.sqlstate)

    @property
    def moving(self) -> Service:
        return self

    def passed_on(self) -> None:
        self.calls.append("passed_on")

    def stays(self) -> None:
        self.calls.append("stays")

    def ticket(self) -> bytes | None:
        if self.told == (now := (self.user, self.replies)):
            return None
        self.told = now
        return f"{self.user} {self.replies}".encode()

    def arrive(self, ticket: bytes) -> Login:
        self.calls.append("arrive")
        self.user, replies = ticket.decode().split(" ")
        self.replies = int(replies)
        return Login(self.user, "x", PLAIN if self.user else NOSASL)

    def leaves(self, request: bytes) -> bool:
        return self.leaving

    def left(self) -> None:
        self.calls.append("left")

    def client_lost(self) -> Awaitable[None] | None:
        self.calls.append("client_lost")
        return self._wait() if self.client_lost_gate is not None else None

    async def _wait(self) -> None:
        assert self.client_lost_gate is not None
        await self.client_lost_gate.wait()
        self.calls.append("client_lost done")


@dataclass
class Gateway:
    """The listener between the peers, with everything that tests check."""

    listener: Listener
    spark: ScriptedServer
    services: list[Service]
    limits: WireLimits
    traffic: Traffic
    dialed: list[Peer] = field(default_factory=list)

    @property
    def service(self) -> Service:
        return self.services[-1]

    def has(self, call: str) -> bool:
        """Whether any client's service got this call."""
        return any(call in each.calls for each in self.services)

    async def dial(self) -> Peer:
        """A connection without a login."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.listener.ports[0], limit=1 << 16)
        self.dialed.append(Peer(reader, writer, False))
        return self.dialed[-1]

    async def client(self, mechanism: str = PLAIN) -> Peer:
        """A client that is logged in."""
        peer = await self.dial()
        if mechanism == PLAIN:
            peer.writer.write(login_bytes())
            assert await peer.reader.readexactly(5) == negotiation(COMPLETE)
            peer.framed = True
        return peer


def login_bytes() -> bytes:
    return negotiation(START, b"PLAIN") + negotiation(COMPLETE, b"\0ada\0x")


@asynccontextmanager
async def gateway(
    spark: ScriptedServer | None = None,
    service: Callable[[], Service] = Service,
    limits: WireLimits = LIMITS,
    transports: frozenset[str] = BOTH,
    http: bool = False,
    proxies: TrustedProxies | None = None,
) -> AsyncIterator[Gateway]:
    spark = spark or ScriptedServer()
    server = await asyncio.start_server(spark.serve, "127.0.0.1", 0)
    spark.port = server.sockets[0].getsockname()[1]
    services: list[Service] = []

    def open_client() -> Service:
        services.append(replace(service(), mechanism=spark.mechanism, calls=[]))
        return services[-1]

    async def connect_upstream(login: Login, at: str | None) -> UpstreamSocket:
        return await connect(Endpoint("127.0.0.1", spark.port, spark.mechanism), login, limits)

    cookies = Cookies(60)

    def open_wire() -> ClientEnd:
        if http:
            return HttpClientConnection(limits, cookies, secure=False)
        return ClientConnection(transports, limits)

    traffic = Traffic()
    transport = "http" if http else "binary"
    port = Port("127.0.0.1", 0, open_wire, tied=not http, proxies=proxies or TrustedProxies(), transport=transport)
    listener = Listener(Entrance([port], limits.login_seconds), limits, open_client, connect_upstream, traffic)
    await listener.start()
    gate = Gateway(listener, spark, services, limits, traffic)
    try:
        yield gate
    finally:
        await listener.close()
        for peer in gate.dialed:
            await peer.end()
        server.close()
        await until(lambda: spark.connected() == 0)
        assert listener.clients == 0
        for each in services:
            assert each.calls.count("client_lost") == 1, each.calls


__all__ = [
    "Answer",
    "Forward",
    "Gateway",
    "Peer",
    "ScriptedServer",
    "Service",
    "echo_of",
    "gateway",
    "login_bytes",
    "until",
]
