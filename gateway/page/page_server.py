"""Serves the page in the gateway's event loop.

Tests: `test_browser_page`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Iterator

import uvicorn
from starlette.applications import Starlette
from uvicorn.config import Config

from gateway import loops
from gateway.config import Address
from gateway.errors import FreshgateError
from gateway.proxy.tls import Certificate

log = logging.getLogger(__name__)

CONNECTIONS_MAX = 200
"""Browsers open a few connections each; more are refused with 503."""
IDLE_SECONDS = 20
STOP_SECONDS = 2
HEAD_BYTES_MAX = 32 * 1024
RENEWAL_SECONDS = 5.0


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leaves signals to the gateway."""
        yield


class PageServer:
    """Listens from `start` to `stop`."""

    def __init__(self, host: str, port: int, application: Starlette, certificate: Certificate | None) -> None:
        self._place = Address(host, port)
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
        try:
            listening = _listening(self._place)
        except OSError as error:
            raise FreshgateError(
                f"Cannot listen at {self._place} for the page: {error.strerror or error}. Check page.host and "
                f"page.port."
            ) from error
        self._place = Address(self._place.host, int(listening.getsockname()[1]))
        certificate = self._certificate
        config = Config(
            self._application,
            http="h11",
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
        self._server = _Server(config)
        self._serving = asyncio.create_task(self._server.serve([listening]), name="page")
        self._renewal.start()
        log.info("the page is at %s", self.address)

    async def stop(self) -> None:
        if self._server is None or self._serving is None:
            return
        await self._renewal.stop()
        self._server.should_exit = True
        await self._serving
        self._server = self._serving = None

    async def _renew(self) -> None:
        await asyncio.sleep(RENEWAL_SECONDS)
        if self._certificate is not None:
            self._certificate.renew()


def _listening(place: Address) -> socket.socket:
    family, kind, _, _, address = socket.getaddrinfo(place.host, place.port, type=socket.SOCK_STREAM)[0]
    listening = socket.socket(family, kind)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(CONNECTIONS_MAX)
        listening.setblocking(False)
    except OSError:
        listening.close()
        raise
    return listening
