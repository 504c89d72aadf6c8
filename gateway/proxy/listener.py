"""Accepts clients on its ports: one `Relay` per client, up to the limit."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from gateway import loops
from gateway.proxy.acceptor import Acceptor
from gateway.proxy.descriptors import Room
from gateway.proxy.farewell import Farewell
from gateway.proxy.relay import ConnectUpstream, Relay
from gateway.proxy.tls import Certificate
from gateway.proxy.traffic import Traffic
from gateway.proxy.trusted_proxies import TrustedProxies
from gateway.service.decision import Dispatcher
from gateway.wire.connection import ClientEnd
from gateway.wire.frame import WireLimits

log = logging.getLogger(__name__)

SWEEP_SECONDS = 5.0
"""Interval of the checks for slow or idle clients and for renewed certificates."""
DRAINED_SECONDS = 0.2
"""Interval of the checks whether the last statement has ended."""
_CUT_SECONDS = 1.0
"""For steps that need no peer's help, only a turn of the event loop."""
STARTING = "The gateway is starting. Try again in a few seconds."


@dataclass(frozen=True, slots=True)
class Port:
    """A port that clients connect to. `open_wire` makes the server's end of a connection; `certificate` is None without
    TLS.

    `tied`: what a client does ends with its connection; on other ports clients come back for it with new connections.
    `proxies`: the proxies that are trusted to tell a client's address.
    """

    host: str
    port: int
    open_wire: Callable[[], ClientEnd]
    certificate: Certificate | None = None
    tied: bool = True
    proxies: TrustedProxies = field(default_factory=TrustedProxies)


class PortUnavailable(OSError):
    """The gateway cannot listen on `port`. errno and strerror are the system's."""

    def __init__(self, port: Port, error: OSError) -> None:
        super().__init__(error.errno, error.strerror or str(error))
        self.port = port


class Listener:
    """The ports that clients connect to. Serves from `start` to `close`."""

    def __init__(
        self,
        ports: Sequence[Port],
        limits: WireLimits,
        open_client: Callable[[], Dispatcher],
        connect_upstream: ConnectUpstream,
        traffic: Traffic | None = None,
    ) -> None:
        self._ports = tuple(ports)
        self.ports: list[int] = []
        """The ports in use, in the given order; after `bind`, 0 is replaced by the port that the system chose."""
        self._limits = limits
        self._open_client = open_client
        self._connect_upstream = connect_upstream
        self._traffic = traffic if traffic is not None else Traffic()
        self._sockets: list[tuple[Port, socket.socket]] = []
        self._servers: list[tuple[Port, Acceptor]] = []
        self._relays: set[Relay] = set()
        self._empty = asyncio.Event()
        self._empty.set()
        self._sweeper = loops.Loop("sweep of clients", self._sweep)
        self._serving = self._closing = False
        self._room = Room()

    @property
    def clients(self) -> int:
        """Current connections, including those being cleaned up."""
        return len(self._relays)

    @property
    def handshakes(self) -> int:
        """TLS connections whose handshake is not complete."""
        return sum(server.handshakes for _, server in self._servers)

    async def bind(self) -> None:
        """Takes the ports; until `start`, clients are told to come back. Raises PortUnavailable.

        A port that is bound but not listened on could be bound by a second gateway too, and one that listens without
        serving would let clients hang until Spark is up.
        """
        try:
            for port in self._ports:
                listening = _listening(port)
                self._sockets += ((port, each) for each in listening)
                self.ports.append(int(listening[0].getsockname()[1]))
        except OSError:
            self._close_sockets()
            raise
        for port, each in self._sockets:
            context = port.certificate.context if port.certificate is not None else None
            serve = partial(self._serve, port)
            server = Acceptor(each, context, self._limits.login_seconds, self._has_room, serve, self._starve)
            self._servers.append((port, server))

    async def start(self) -> None:
        """Begins to serve clients. Raises PortUnavailable if `bind` was not called before."""
        if not self._servers:
            await self.bind()
        self._serving = True
        self._sweeper.start()

    async def drain(self, seconds: float, busy: Callable[[], int]) -> None:
        """Accepts no more clients, and returns when nobody waits for a reply and no session is `busy`, or after
        `seconds`.

        Ports whose clients come back with new connections stay open until `close`.
        """
        for port, server in self._servers:
            if port.tied:
                server.close()
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while (waiting := sum(relay.waiting for relay in self._relays)) + (sessions := busy()):
            if loop.time() > until:
                log.warning(
                    "stopping after %g seconds although %d sessions run a statement and %d clients wait for a reply",
                    seconds,
                    sessions,
                    waiting,
                )
                return
            await asyncio.sleep(DRAINED_SECONDS)

    async def close(self, grace_seconds: float = 10.0) -> None:
        """Accepts no more clients, closes every client, and waits at most `grace_seconds` for their clean-up."""
        self._closing = True
        self._stop_accepting()
        # Each step ends those that the previous one could not: clients that read nothing, then clean-ups that hang.
        steps = ((Relay.close, grace_seconds), (Relay.abort, _CUT_SECONDS), (Relay.give_up, _CUT_SECONDS))
        for step, seconds in steps:
            for relay in list(self._relays):
                step(relay)
            try:
                async with asyncio.timeout(seconds):
                    await self._empty.wait()
                return
            except TimeoutError:
                log.warning("%d clients did not finish within %g seconds", len(self._relays), seconds)

    def _stop_accepting(self) -> None:
        self._sweeper.cancel()
        for _, server in self._servers:
            server.close()
        if not self._servers:
            self._close_sockets()

    def _close_sockets(self) -> None:
        while self._sockets:
            self._sockets.pop()[1].close()

    async def _sweep(self) -> None:
        await asyncio.sleep(SWEEP_SECONDS)
        now = asyncio.get_running_loop().time()
        for relay in list(self._relays):
            relay.sweep(now)
        self.renew_certificates()

    def renew_certificates(self) -> None:
        """Loads certificates that were replaced."""
        for port in self._ports:
            if port.certificate is not None:
                port.certificate.renew()

    def _has_room(self) -> bool:
        """Whether another TLS handshake may begin, and counts a refusal otherwise."""
        return not self._is_full(len(self._relays) + self.handshakes)

    def _is_full(self, taken: int) -> bool:
        if taken < self._limits.connections_max:
            return False
        self._traffic.refused += 1
        log.warning("a client was refused: %d connections are open (limits.connections)", taken)
        return True

    def _starve(self, error: OSError) -> None:
        """Reports that a client waits because it cannot be accepted."""
        self._traffic.starved += 1
        self._room.report(f"a client waits, because it cannot be accepted ({error.strerror or error})")

    def _serve(self, port: Port) -> asyncio.Protocol:
        if not self._serving:
            return Farewell(port.open_wire(), STARTING, self._traffic)
        return Relay(
            self._open_client,
            self._connect_upstream,
            port.open_wire(),
            self._limits,
            self,
            self._traffic,
            port.proxies,
        )

    def begin(self, relay: Relay) -> str | None:
        """Registers a client. Returns why it cannot be served, or None."""
        if self._closing:
            return "The gateway is being stopped. Connect again later."
        if self._room.is_short(relay.descriptor):
            self._traffic.starved += 1
            self._room.report("a client was refused")
            return "The gateway has too many open files and sockets to serve another client. Try again later."
        if self._is_full(len(self._relays)):
            return f"Too many connections: the gateway serves {self._limits.connections_max}. Try again later."
        self._traffic.accepted += 1
        self._relays.add(relay)
        self._empty.clear()
        return None

    def end(self, relay: Relay) -> None:
        """Removes a client whose clean-up is complete."""
        self._relays.discard(relay)
        if not self._relays:
            self._empty.set()


def _listening(port: Port) -> list[socket.socket]:
    """Listens on each address of the host's name, at the same port, because clients of `localhost` use any of its
    addresses.

    Raises PortUnavailable.
    """
    found: list[socket.socket] = []
    number, missing = port.port, OSError(errno.EADDRNOTAVAIL, os.strerror(errno.EADDRNOTAVAIL))
    try:
        for family, kind, _, _, address in _addresses(port):
            try:
                found.append(_listen(family, kind, (address[0], number, *address[2:])))
                number = found[-1].getsockname()[1]
            except OSError as error:
                # Containers often resolve a name to an IPv6 address but have no IPv6.
                if error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                    raise
                missing = error
        if not found:
            raise missing
    except OSError as error:
        for each in found:
            each.close()
        raise PortUnavailable(port, error) from error
    return found


def _addresses(port: Port) -> list[Any]:
    """The addresses from `getaddrinfo`, each once, IPv4 first."""
    found = dict.fromkeys(socket.getaddrinfo(port.host, port.port, type=socket.SOCK_STREAM))
    return sorted(found, key=lambda each: each[0] != socket.AF_INET)


def _listen(family: int, kind: int, address: tuple[Any, ...]) -> socket.socket:
    listening = socket.socket(family, kind)
    try:
        # Lets the port be bound although the system still knows connections of a gateway that has just ended.
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen()
    except OSError:
        listening.close()
        raise
    return listening
