"""Accepts clients: one `Relay` each, as many as the limit allows."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

from gateway.proxy.relay import ConnectUpstream, Relay
from gateway.proxy.traffic import Traffic
from gateway.service.decision import Dispatcher
from gateway.wire.connection import NOSASL, PLAIN
from gateway.wire.frame import WireLimits
from gateway.wire.sasl import refusal

log = logging.getLogger(__name__)

_CUT_SECONDS = 1.0
"""For what needs no peer's help, only a turn of the event loop."""


@dataclass(frozen=True, slots=True)
class ListenerSettings:
    """`transports`: what clients may speak, of "PLAIN" and "NOSASL"; both are told apart by the first byte."""

    host: str = "127.0.0.1"
    port: int = 10000
    transports: frozenset[str] = frozenset({PLAIN, NOSASL})
    limits: WireLimits = field(default_factory=WireLimits)


class Listener:
    """The port that clients connect to. Between `start` and `close` it serves."""

    def __init__(
        self,
        settings: ListenerSettings,
        open_client: Callable[[], Dispatcher],
        connect_upstream: ConnectUpstream,
        traffic: Traffic | None = None,
    ) -> None:
        self.port = settings.port
        """The port in use; after `start` the one that the system chose, if 0 was asked for."""
        self._settings = settings
        self._open_client = open_client
        self._connect_upstream = connect_upstream
        self._traffic = traffic if traffic is not None else Traffic()
        self._socket: socket.socket | None = None
        self._server: asyncio.Server | None = None
        self._relays: set[Relay] = set()
        self._empty = asyncio.Event()
        self._empty.set()

    @property
    def clients(self) -> int:
        """Connections at this moment, those being cleaned up included."""
        return len(self._relays)

    def bind(self) -> None:
        """Takes the address; clients are refused until `start`. Raises `OSError` when it cannot be had."""
        host, port = self._settings.host, self._settings.port
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        self._socket = socket.socket(family, kind)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind(address)
        except OSError:
            self._socket.close()
            raise

    async def start(self) -> None:
        """Raises `OSError` when the address cannot be had."""
        if self._socket is None:
            self.bind()
        assert self._socket is not None
        self._server = await asyncio.get_running_loop().create_server(self._accept, sock=self._socket)
        self.port = int(self._server.sockets[0].getsockname()[1])

    async def close(self, grace_seconds: float = 10.0) -> None:
        """Accepts no more, closes every client, and waits for their clean-up at most `grace_seconds`."""
        if self._server is not None:
            self._server.close()
        elif self._socket is not None:
            self._socket.close()
        # Each step is for those that the one before could not end: clients that read nothing, then clean-ups
        # that hang.
        steps = ((Relay.close, grace_seconds), (Relay.abort, _CUT_SECONDS), (Relay.give_up, _CUT_SECONDS))
        for step, seconds in steps:
            for relay in list(self._relays):
                step(relay)
            try:
                async with asyncio.timeout(seconds):
                    await self._empty.wait()
                return
            except TimeoutError:
                log.warning("%d clients were not done within %g seconds", len(self._relays), seconds)

    def _accept(self) -> asyncio.Protocol:
        settings = self._settings
        if len(self._relays) >= settings.limits.connections_max:
            self._traffic.refused += 1
            log.warning("a client was refused: %d connections are open", len(self._relays))
            return _Refusal(f"Too many connections: the gateway serves {settings.limits.connections_max}.")
        self._traffic.accepted += 1
        relay = Relay(
            self._open_client,
            self._connect_upstream,
            settings.transports,
            settings.limits,
            self._forget,
            self._traffic,
        )
        self._relays.add(relay)
        self._empty.clear()
        return relay

    def _forget(self, relay: Relay) -> None:
        self._relays.discard(relay)
        if not self._relays:
            self._empty.set()


class _Refusal(asyncio.Protocol):
    """Tells a client that there is no place for it. Written unasked: a SASL client reads it as its login's
    answer.
    """

    def __init__(self, message: str) -> None:
        self._message = message

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        connection = cast(asyncio.Transport, transport)
        connection.write(refusal(self._message))
        connection.close()
