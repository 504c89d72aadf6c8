"""A listening socket whose clients speak TLS. Who has begun a handshake, or has yet to, holds a place like a client.

asyncio's own servers make TLS connections too, and tell nobody of them before their handshake: as many could be open as
the machine bears.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable

log = logging.getLogger(__name__)

SHUTDOWN_SECONDS = 2.0
"""For a TLS client to answer that the connection ends; many never do."""
_ACCEPTED_TOGETHER = 100
"""Connections that are accepted in one turn of the event loop."""
_RETRY_SECONDS = 1.0
"""Before the next try where the machine lends no more descriptors."""


class TlsServer:
    """Serves once made, within a running event loop, until it is closed.

    `handshake_seconds`: how long one may take. `has_place`: asked for each connection; who finds none is closed, for
    nothing can be said before the handshake. `serve` makes the protocol of whoever is through.
    """

    def __init__(
        self,
        listening: socket.socket,
        context: ssl.SSLContext,
        handshake_seconds: float,
        has_place: Callable[[], bool],
        serve: Callable[[], asyncio.Protocol],
    ) -> None:
        self._listening = listening
        self._context = context
        self._handshake_seconds = handshake_seconds
        self._has_place = has_place
        self._serve = serve
        self._loop = asyncio.get_running_loop()
        self._shaking: set[asyncio.Task[None]] = set()
        self._retry: asyncio.TimerHandle | None = None
        listening.setblocking(False)
        self._loop.add_reader(listening.fileno(), self._accept)

    @property
    def handshakes(self) -> int:
        """How many have not ended."""
        return len(self._shaking)

    def close(self) -> None:
        """Accepts no more, and ends the handshakes; who is served stays."""
        if self._retry is not None:
            self._retry.cancel()
        if self._listening.fileno() >= 0:
            self._loop.remove_reader(self._listening.fileno())
            self._listening.close()
        for task in self._shaking:
            task.cancel()

    def _accept(self) -> None:
        for _ in range(_ACCEPTED_TOGETHER):
            try:
                client, address = self._listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                log.error("no client can be accepted: %s; tried again after %g s", error, _RETRY_SECONDS)
                self._loop.remove_reader(self._listening.fileno())
                self._retry = self._loop.call_later(
                    _RETRY_SECONDS, self._loop.add_reader, self._listening.fileno(), self._accept
                )
                return
            if not self._has_place():
                client.close()
                continue
            client.setblocking(False)
            task = self._loop.create_task(self._shake_hands(client, f"{address[0]}:{address[1]}"), name="TLS handshake")
            self._shaking.add(task)
            task.add_done_callback(self._shaking.discard)

    async def _shake_hands(self, client: socket.socket, peer: str) -> None:
        try:
            await self._loop.connect_accepted_socket(
                self._serve,
                client,
                ssl=self._context,
                ssl_handshake_timeout=self._handshake_seconds,
                ssl_shutdown_timeout=SHUTDOWN_SECONDS,
            )
        except OSError as error:  # of ssl, of a client that goes, or of one that is too slow
            # Balancers ask so whether the port is open.
            level = logging.DEBUG if isinstance(error, ConnectionResetError) else logging.INFO
            log.log(level, "client %s closed: no TLS handshake: %s", peer, str(error) or type(error).__name__)
