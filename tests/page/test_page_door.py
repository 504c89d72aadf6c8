"""The page's port at a gateway that does not lead."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import pytest
from certificates import Certificates
from page_site import PageSite

from gateway.config import Address
from gateway.login.authenticator import Unchecked
from gateway.page import page_server
from gateway.page.page_server import PageServer
from gateway.proxy import page_door
from gateway.proxy.capacity import Capacity
from gateway.proxy.entrance import Entrance, Port
from gateway.proxy.leader_link import Leader, Trust
from gateway.proxy.listener import Listener
from gateway.proxy.page_door import PageDoor
from gateway.proxy.relay_gate import RelayGate
from gateway.proxy.tls import Certificate
from gateway.proxy.traffic import Traffic
from gateway.wire.connection import ClientConnection
from gateway.wire.frame import WireLimits

SECRET = "of the tests"
LIMITS = WireLimits()
LISTENER = cast(Listener, object())


@dataclass
class Pair:
    """A gateway that leads and has a page, and a door with the page's port."""

    page: PageSite
    server: PageServer
    gate: RelayGate
    leader: Leader
    door: PageDoor
    led: list[Leader] = field(default_factory=list)
    """The gateway that leads, as the door knows it."""

    def lead(self, server: PageServer | None) -> None:
        self.gate.begin(self.leader)
        self.gate.open(LISTENER, server)
        self.led[:] = [self.leader]

    async def ask(self, request: str, trusting: ssl.SSLContext | None = None) -> str:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.door.port, ssl=trusting)
        writer.write(request.encode())
        try:
            async with asyncio.timeout(20):
                return (await reader.read()).decode()
        finally:
            writer.close()

    async def get(self, path: str = "/", trusting: ssl.SSLContext | None = None) -> str:
        return await self.ask(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n", trusting)


@asynccontextmanager
async def pair(
    *, leads: bool = True, own: bool = False, tls: Certificate | None = None, **site: Any
) -> AsyncIterator[Pair]:
    page = PageSite(**site)
    server = PageServer(None, page.app, None)
    await server.start()
    gate = RelayGate(SECRET, Capacity(100, Traffic()))
    relays = Entrance([Port("127.0.0.1", 0, partial(ClientConnection, frozenset(), LIMITS))], 10)
    await relays.bind(gate)
    led: list[Leader] = []
    door = PageDoor(
        Address("127.0.0.1", 0), tls, Trust(SECRET), lambda: next(iter(led), None), lambda: server if own else None
    )
    await door.start()
    made = Pair(page, server, gate, Leader("mark", Address("127.0.0.1", relays.numbers[0])), door, led)
    if leads:
        made.lead(server)
    try:
        yield made
    finally:
        await door.stop()
        relays.close()
        gate.close()
        await server.stop()


@pytest.mark.parametrize("own", [False, True])
async def test_a_browser_is_served_as_at_the_leader(own: bool) -> None:
    async with pair(own=own, authenticator=Unchecked()) as it:
        answer = await it.get("/views")
        assert answer.startswith("HTTP/1.1 200")
        assert "<h1><bdi>Views</bdi></h1>" in answer


@pytest.mark.parametrize("own", [False, True])
async def test_the_page_learns_the_browsers_own_address(own: bool) -> None:
    seen: list[str] = []

    class Recorder(Unchecked):
        required = True

        async def check(self, login: Any, peer: str = "") -> Any:
            seen.append(peer)
            return login

    async with pair(own=own, authenticator=Recorder()) as it:
        reader, writer = await asyncio.open_connection("127.0.0.1", it.door.port)
        host, port = writer.get_extra_info("sockname")
        body = "user=ada&password=x"
        head = f"POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write((head + body).encode())
        assert b"set-cookie: freshgate=" in await reader.read()
        writer.close()
        assert seen == [f"{host}:{port}"]


async def test_the_door_ends_tls(certificates: Certificates) -> None:
    trusting = ssl.create_default_context(cafile=str(certificates.ca))
    tls = Certificate(str(certificates.server), str(certificates.server))
    async with pair(tls=tls, authenticator=Unchecked()) as it:
        assert (await it.get("/", trusting)).startswith("HTTP/1.1 200")


async def test_without_a_leader_the_browser_is_told_and_looks_again() -> None:
    async with pair(leads=False, authenticator=Unchecked()) as it:
        answer = await it.get()
        assert answer.startswith("HTTP/1.1 503")
        assert "Refresh: 5" in answer
        assert "No gateway leads at the moment" in answer
        it.lead(it.server)
        assert (await it.get()).startswith("HTTP/1.1 200")


async def test_a_leader_without_a_page_is_told_of() -> None:
    async with pair(leads=False) as it:
        it.lead(None)
        assert "set page.port there" in await it.get()
        it.gate.hold()
        assert "takes no new clients at the moment" in await it.get()


async def test_a_gateway_that_leads_no_more_shows_nothing() -> None:
    async with pair(authenticator=Unchecked()) as it:
        it.gate.close()
        assert (await it.get()).startswith("HTTP/1.1 503")


async def test_a_stranger_is_not_passed_on() -> None:
    async with pair(authenticator=Unchecked()) as it:
        it.door.trust = Trust("another secret")
        assert (await it.get()).startswith("HTTP/1.1 503")


async def test_a_connection_is_closed_when_another_gateway_leads() -> None:
    async with pair(authenticator=Unchecked()) as it:
        reader, writer = await asyncio.open_connection("127.0.0.1", it.door.port)
        request = b"GET /views HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
        writer.write(request)
        assert (await reader.readuntil(b"</html>")).startswith(b"HTTP/1.1 200")
        it.led[:] = [Leader("another", it.leader.relay)]
        writer.write(request)
        async with asyncio.timeout(10):
            assert not (await reader.read()).startswith(b"HTTP")
        writer.close()


async def test_a_long_request_passes() -> None:
    async with pair() as it:
        body = "x" * 300_000
        answer = await it.ask(
            f"POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n{body}"
        )
        assert answer.startswith("HTTP/1.1 413")


async def test_the_number_of_browsers_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_door, "CONNECTIONS_MAX", 2)
    async with pair(authenticator=Unchecked()) as it:
        held = [await asyncio.open_connection("127.0.0.1", it.door.port) for _ in range(2)]
        assert await it.get() == ""
        for _, writer in held:
            writer.close()


@pytest.mark.parametrize(
    "sent", ["", "GET / HT", "POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\nuser"]
)
@pytest.mark.parametrize("own", [False, True])
async def test_a_connection_without_a_whole_request_is_closed(
    monkeypatch: pytest.MonkeyPatch, own: bool, sent: str
) -> None:
    monkeypatch.setattr(page_server, "REQUEST_SECONDS", 0.2)
    async with pair(own=own) as it:
        with_deadline = it.ask(sent)
        with suppress(ConnectionResetError):
            assert await with_deadline == ""


async def test_a_connection_that_waits_after_a_request_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes that come now and then do not keep it."""
    monkeypatch.setattr(page_server, "REQUEST_SECONDS", 0.2)
    async with pair(own=True, authenticator=Unchecked()) as it:
        request = "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
        with suppress(ConnectionResetError):
            assert (await it.ask(f"{request}GET / HT")).startswith("HTTP/1.1 200")
