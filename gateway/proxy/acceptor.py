"""Accepts clients, and counts TLS connections from before their handshake.

asyncio's own servers do not report TLS connections before the handshake is complete, so any number of them could be
open. And a process without descriptors closes connections unseen with uvloop's servers.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable

log = logging.getLogger(__name__)

SHUTDOWN_SECONDS = 2.0
"""How long a TLS client may take to answer the closing of the connection; many never do."""
_ACCEPTED_TOGETHER = 100
"""Connections accepted in one turn of the event loop."""
_RETRY_SECONDS = 1.0
"""Delay before the next attempt when the process has no descriptors left."""


class Acceptor:
    """Accepts from its creation, within a running event loop, until it is closed.

    `context` is None without TLS. `handshake_seconds`: the longest handshake. `has_room` is called for each TLS
    connection; if it returns False, the connection is closed without a message, because none can be sent before the
    handshake. `serve` makes the protocol for a client that is connected. `starved` is called with the error when the
    process has no descriptor for a client; clients then wait until it has.
    """

    def __init__(
        self,
        listening: socket.socket,
        context: ssl.SSLContext | None,
        handshake_seconds: float,
        has_room: Callable[[], bool],
        serve: Callable[[], asyncio.Protocol],
        starved: Callable[[OSError], None],
    ) -> None:
        self._listening = listening
        self._context = context
        self._handshake_seconds = handshake_seconds
        self._has_room = has_room
        self._serve = serve
        self._starved = starved
        self._loop = asyncio.get_running_loop()
        self._handshakes: set[asyncio.Task[None]] = set()
        self._retry: asyncio.TimerHandle | None = None
        listening.setblocking(False)
        self._loop.add_reader(listening.fileno(), self._accept)

    @property
    def handshakes(self) -> int:
        """TLS handshakes that are not complete."""
        return len(self._handshakes) if self._context is not None else 0

    def close(self) -> None:
        """Accepts no more clients and cancels the handshakes; clients that are served stay."""
        if self._retry is not None:
            self._retry.cancel()
        if self._listening.fileno() >= 0:
            self._loop.remove_reader(self._listening.fileno())
            self._listening.close()
        if self._context is not None:
            # Without TLS, they are connected in the next turns of the event loop, and uvloop would not tell a protocol
            # that was just made that its connection is closed.
            for task in self._handshakes:
                task.cancel()

    def _accept(self) -> None:
        for _ in range(_ACCEPTED_TOGETHER):
            try:
                client, address = self._listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._starved(error)
                self._loop.remove_reader(self._listening.fileno())
                self._retry = self._loop.call_later(
                    _RETRY_SECONDS, self._loop.add_reader, self._listening.fileno(), self._accept
                )
                return
            if self._context is not None and not self._has_room():
                client.close()
                continue
            client.setblocking(False)
            task = self._loop.create_task(self._handshake(client, f"{address[0]}:{address[1]}"), name="accepting")
            self._handshakes.add(task)
            task.add_done_callback(self._handshakes.discard)

    async def _handshake(self, client: socket.socket, peer: str) -> None:
        try:
            await self._loop.connect_accepted_socket(
                self._serve,
                client,
                ssl=self._context,
                ssl_handshake_timeout=self._handshake_seconds if self._context is not None else None,
                ssl_shutdown_timeout=SHUTDOWN_SECONDS if self._context is not None else None,
            )
        except OSError as error:  # An SSL error, a client that has gone, or one that is too slow.
            # Load balancers connect like this to test whether the port is open.
            level = logging.DEBUG if isinstance(error, ConnectionResetError) else logging.INFO
            what = "not connected" if self._context is None else "no TLS handshake"
            log.log(level, "client %s closed: %s: %s", peer, what, str(error) or type(error).__name__)
