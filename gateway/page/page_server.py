"""Serves the page in the gateway's event loop.

Tests: `test_page_door`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterator
from typing import Any, cast

import uvicorn
from starlette.applications import Starlette
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol

from gateway import loops
from gateway.config import Address
from gateway.proxy.page_door import CONNECTIONS_MAX, listening
from gateway.proxy.tls import Certificate

log = logging.getLogger(__name__)

IDLE_SECONDS = 20
REQUEST_SECONDS = 20.0
"""A connection without a whole request for so long is closed: otherwise a few browsers that send a byte now and then
would leave no connection to others."""
ANSWER_SECONDS = 60.0
"""The same for an answer that is not taken."""
STOP_SECONDS = 2
HEAD_BYTES_MAX = 32 * 1024
RENEWAL_SECONDS = 5.0


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leaves signals to the gateway."""
        yield


class _BrowserConnection(H11Protocol):
    """Ends connections that are too slow."""

    _due: asyncio.TimerHandle | None = None
    _answering = False

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._expect(REQUEST_SECONDS)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        cycle = self.cycle
        if cycle is not None and not cycle.more_body and not cycle.response_complete and not self._answering:
            self._expect(ANSWER_SECONDS)
            self._answering = True

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._expect(REQUEST_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._due is not None:
            self._due.cancel()

    def _expect(self, seconds: float) -> None:
        self._answering = False
        if self._due is not None:
            self._due.cancel()
        self._due = self.loop.call_later(seconds, self.transport.abort)


class _RelayedBrowser(asyncio.Protocol):
    """A connection that a door passes on, until the page's protocol takes it over."""

    def __init__(self, serves: H11Protocol, peer: tuple[str, int], *, secure: bool) -> None:
        self._serves = serves
        self._peer = peer
        self._secure = secure

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        found = cast(asyncio.Transport, transport)
        found.set_protocol(self._serves)
        self._serves.connection_made(_RelayedTransport(found, self._peer, secure=self._secure))


class _RelayedTransport(asyncio.Transport):
    """The connection, with the browser's address in the place of the door's."""

    def __init__(self, inner: asyncio.Transport, peer: tuple[str, int], *, secure: bool) -> None:
        super().__init__()
        self._inner = inner
        self._told = {"peername": peer, "sslcontext": True if secure else None, "socket": None}

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._told[name] if name in self._told else self._inner.get_extra_info(name, default)

    def write(self, data: Any) -> None:
        self._inner.write(data)

    def close(self) -> None:
        self._inner.close()

    def abort(self) -> None:
        self._inner.abort()

    def is_closing(self) -> bool:
        return self._inner.is_closing()

    def pause_reading(self) -> None:
        self._inner.pause_reading()

    def resume_reading(self) -> None:
        self._inner.resume_reading()

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._inner.set_protocol(protocol)


class PageServer:
    """Listens from `start` to `stop`, or only serves what is passed on to it. Implements `proxy.page_door.PageHost`."""

    def __init__(self, place: Address | None, application: Starlette, certificate: Certificate | None) -> None:
        """`place`: None if a `PageDoor` listens."""
        self._place = place
        self._application = application
        self._certificate = certificate
        self._renewal = loops.Loop("renewal of the page's certificate", self._renew)
        self._server: _Server | None = None
        self._serving: asyncio.Task[None] | None = None

    @property
    def address(self) -> str:
        """Where browsers find it, once it has started."""
        scheme = "http" if self._certificate is None else "https"
        return f"{scheme}://{self._place}/"

    async def start(self) -> None:
        """Raises FreshgateError if it cannot listen."""
        sockets = []
        if self._place is not None:
            sockets.append(listening(self._place))
            self._place = Address(self._place.host, int(sockets[0].getsockname()[1]))
        certificate = self._certificate
        config = Config(
            self._application,
            http=_BrowserConnection,
            loop="none",
            lifespan="off",
            log_config=None,
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=CONNECTIONS_MAX,
            timeout_keep_alive=IDLE_SECONDS,
            timeout_graceful_shutdown=STOP_SECONDS,
            h11_max_incomplete_event_size=HEAD_BYTES_MAX,
            ssl_context_factory=None if certificate is None else lambda *_: certificate.context,
        )
        config.load()
        self._server = _Server(config)
        self._serving = asyncio.create_task(self._server.serve(sockets), name="page")
        self._renewal.start()
        if self._place is not None:
            log.info("the page is at %s", self.address)

    async def stop(self) -> None:
        if self._server is None or self._serving is None:
            return
        await self._renewal.stop()
        self._server.should_exit = True
        await self._serving
        self._server = self._serving = None

    def serve_relayed(self, peer: tuple[str, int], *, secure: bool) -> asyncio.Protocol:
        """Implements `PageHost`, once it has started."""
        assert self._server is not None
        serves = _BrowserConnection(self._server.config, self._server.server_state, {})
        return _RelayedBrowser(serves, peer, secure=secure)

    async def _renew(self) -> None:
        await asyncio.sleep(RENEWAL_SECONDS)
        if self._certificate is not None:
            self._certificate.renew()
