"""The page's port at one of several gateways: any of them leads a browser to the page of the gateway that leads.

It stays open as long as the process runs. Unlike clients, browsers come back by themselves, so a browser is closed when
the leader changes.

Tests: `test_page_door`.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import Protocol, cast

from gateway import loops
from gateway.config import Address
from gateway.errors import FreshgateError
from gateway.proxy.leader_link import Leader, LeaderLink, NotLeading, NotServing, Trust, Unreachable, connect
from gateway.proxy.tls import Certificate
from gateway.wire.preface import Preface, Role

log = logging.getLogger(__name__)

CONNECTIONS_MAX = 200
"""As at the page itself."""
HELD_BYTES_MAX = 64 * 1024
"""What a browser may send before it is passed on."""
BUFFER_BYTES_MAX = 256 * 1024
IDLE_SECONDS = 60.0
"""A browser that has sent nothing for so long is closed; the page itself closes it sooner."""
RENEWAL_SECONDS = 5.0
PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Freshgate</title></head>
<body><main><h1>The page is not here at the moment</h1><p>{}</p></main></body></html>
"""
HEAD = (
    "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {}\r\n"
    "Retry-After: 5\r\nRefresh: 5\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
    "Content-Security-Policy: default-src 'none'; frame-ancestors 'none'\r\nConnection: close\r\n\r\n"
)


class PageHost(Protocol):
    """The page of a gateway that leads: `page.page_server.PageServer`."""

    def serve_relayed(self, peer: tuple[str, int], *, secure: bool) -> asyncio.Protocol:
        """Makes the protocol for a browser at this address. `secure`: TLS protects its connection."""
        ...


def listening(place: Address) -> socket.socket:
    """Listens for browsers. Raises FreshgateError."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(place.host, place.port, type=socket.SOCK_STREAM)[0]
        found = socket.socket(family, kind)
        try:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            found.bind(address)
            found.listen(CONNECTIONS_MAX)
            found.setblocking(False)
        except OSError:
            found.close()
            raise
    except OSError as error:
        raise FreshgateError(
            f"Cannot listen at {place} for the page: {error.strerror or error}. Check page.host and page.port."
        ) from error
    return found


class PageDoor:
    """Listens from `start` to `stop`."""

    def __init__(
        self,
        place: Address,
        certificate: Certificate | None,
        trust: Trust,
        leader: Callable[[], Leader | None],
        own: Callable[[], PageHost | None],
    ) -> None:
        """`leader`: the gateway that leads, if it is another one. `own`: this gateway's page while it leads."""
        self._place = place
        self._certificate = certificate
        self.trust = trust
        self.leader = leader
        self.own = own
        self._server: asyncio.Server | None = None
        self._renewal = loops.Loop("renewal of the page's certificate", self._renew, RENEWAL_SECONDS)
        self._passing = loops.BackgroundTasks("passing a browser on")
        self._browsers: set[Browser] = set()

    @property
    def port(self) -> int:
        """The port in use."""
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    async def start(self) -> None:
        """Raises FreshgateError if it cannot listen."""
        context = None if self._certificate is None else self._certificate.context
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: Browser(self), sock=listening(self._place), ssl=context)
        self._renewal.start()

    async def stop(self) -> None:
        await self._renewal.stop()
        if self._server is not None:
            self._server.close()
            self._server = None
        for each in list(self._browsers):
            each.close()

    async def _renew(self) -> None:
        if self._certificate is not None:
            self._certificate.renew()

    def enter(self, browser: Browser) -> bool:
        """Registers a browser that is to be passed on. Returns whether there is room."""
        if len(self._browsers) >= CONNECTIONS_MAX:
            return False
        self._browsers.add(browser)
        self._passing.begin(browser.join())
        return True

    def leave(self, browser: Browser) -> None:
        self._browsers.discard(browser)


class Browser(asyncio.Protocol):
    """A browser's connection. Also the receiver of what the leader sends."""

    def __init__(self, door: PageDoor) -> None:
        self._door = door
        self._held = bytearray()
        self._transport: asyncio.Transport | None = None
        self._leader: Leader | None = None
        self._link: LeaderLink | None = None
        self._idle: asyncio.TimerHandle | None = None
        self._problem = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = found = cast(asyncio.Transport, transport)
        if (own := self._door.own()) is not None:
            page = own.serve_relayed(self._peer(), secure=self._is_secure())
            found.set_protocol(page)
            page.connection_made(found)
        elif self._door.enter(self):
            found.set_write_buffer_limits(high=BUFFER_BYTES_MAX)
            self._wait()
        else:
            found.close()

    async def join(self) -> None:
        """Passes the browser on, or tells it why that is impossible."""
        leader = self._leader = self._door.leader()
        try:
            if leader is None:
                raise NotLeading("No gateway leads.")
            host, port = self._peer()
            preface = Preface(Role.PAGE, leader.name, "page", host, port, self._is_secure())
            link = await connect(leader, self._door.trust, preface)
            if self._transport is None or self._transport.is_closing():
                link.abort()
                return
            self._link = link
            link.attach(self, BUFFER_BYTES_MAX)
        except NotServing as error:
            self._fail(str(error) if error.for_now else "The gateway that leads has no page: set page.port there.")
        except (NotLeading, Unreachable) as error:
            log.info("a browser cannot be passed on: %s", error)
            self._fail("No gateway leads at the moment. This page looks again every five seconds.")
        else:
            link.send(bytes(self._held))
            self._held.clear()
            self._transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        self._wait()
        if self._problem:
            self._answer()
        elif self._link is None:
            self._held += data
            if len(self._held) > HELD_BYTES_MAX and self._transport is not None:
                self._transport.pause_reading()
        elif self._leader != self._door.leader():
            self.close()
        else:
            self._link.send(data)

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        if self._link is not None:
            self._link.read(wanted=False)

    def resume_writing(self) -> None:
        if self._link is not None:
            self._link.read(wanted=True)

    def connection_lost(self, exc: Exception | None) -> None:
        self._door.leave(self)
        if self._idle is not None:
            self._idle.cancel()
        if self._link is not None:
            self._link.close()

    # --- from the leader -----------------------------------------------------------------------------------

    def leader_data(self, data: bytes) -> None:
        if self._transport is not None:
            self._wait()
            self._transport.write(data)

    def leader_gone(self) -> None:
        self.close()

    def leader_writable(self, writable: bool) -> None:
        if self._transport is not None and not self._transport.is_closing():
            if writable:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    # --- ends ----------------------------------------------------------------------------------------------

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def _fail(self, problem: str) -> None:
        """Tells the browser once it has asked for something."""
        self._problem = problem
        if self._held:
            self._answer()

    def _answer(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            body = PAGE.format(self._problem).encode()
            self._transport.write(HEAD.format(len(body)).encode() + body)
            self._transport.close()

    def _wait(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
        self._idle = asyncio.get_running_loop().call_later(IDLE_SECONDS, self.close)

    def _peer(self) -> tuple[str, int]:
        assert self._transport is not None
        found = self._transport.get_extra_info("peername") or ("", 0)
        return str(found[0]), int(found[1])

    def _is_secure(self) -> bool:
        assert self._transport is not None
        return self._transport.get_extra_info("sslcontext") is not None
