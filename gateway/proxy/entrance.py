"""The ports that clients connect to: binds them, and gives each client to the one that serves.

They stay open when what serves behind them changes.

Tests: `test_listener`.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from gateway.config import Address
from gateway.proxy.acceptor import Acceptor
from gateway.proxy.inherited import InheritedSockets
from gateway.proxy.tls import Certificate
from gateway.proxy.trusted_proxies import TrustedProxies
from gateway.wire.connection import ClientEnd


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
    transport: str = "binary"


class PortUnavailable(OSError):
    """The gateway cannot listen on `port`. errno and strerror are the system's."""

    def __init__(self, port: Port, error: OSError) -> None:
        super().__init__(error.errno, error.strerror or str(error))
        self.port = port


class Host(Protocol):
    """Serves the clients of the ports."""

    def serve(self, port: Port) -> asyncio.Protocol:
        """Makes the protocol for a client that is connected."""
        ...

    def has_room(self, handshakes: int) -> bool:
        """Whether another TLS handshake may begin beside so many; counts a refusal otherwise."""
        ...

    def starve(self, error: OSError) -> None:
        """Reports that a client waits because it cannot be accepted."""
        ...


class Entrance:
    """Ports, from `bind` to `close`. `host` serves their clients, and may be replaced at any time."""

    def __init__(
        self, ports: Sequence[Port], handshake_seconds: float, inherited: InheritedSockets | None = None
    ) -> None:
        """`inherited`: sockets that are used instead of others for these ports. Raises FreshgateError for one that is
        none of theirs."""
        self._ports = tuple(ports)
        inherited = inherited if inherited is not None else InheritedSockets()
        self._inherited = [(port, inherited.take(port)) for port in self._ports]
        inherited.raise_if_left()
        self._handshake_seconds = handshake_seconds
        self.numbers: list[int] = []
        """The ports in use, in the given order; after `bind`, 0 is replaced by the port that the system chose."""
        self.host: Host | None = None
        self._acceptors: list[tuple[Port, Acceptor]] = []
        self._unopened: list[tuple[Port, socket.socket]] = []
        """Inherited sockets before `open`."""

    def port_for(self, transport: str) -> Port | None:
        """The port whose clients use this transport."""
        return next((port for port in self._ports if port.transport == transport), None)

    @property
    def address(self) -> Address:
        """The first port's, after `bind`."""
        return Address(self._ports[0].host, self.numbers[0])

    @property
    def bound(self) -> bool:
        return bool(self._acceptors or self._unopened)

    @property
    def handshakes(self) -> int:
        """TLS connections whose handshake is not complete."""
        return sum(acceptor.handshakes for _, acceptor in self._acceptors)

    async def bind(self, host: Host) -> None:
        """Takes the ports; from now on `host` serves their clients. Raises PortUnavailable.

        A port that is bound but not listened on could be bound by a second gateway too, and one that listens without
        serving would let clients hang until Spark is up.
        """
        self.host = host
        found: list[tuple[Port, socket.socket]] = []
        try:
            for port, inherited in self._inherited:
                listening = inherited or _listening(port)
                (self._unopened if inherited else found).extend((port, each) for each in listening)
                self.numbers.append(int(listening[0].getsockname()[1]))
        except OSError:
            for _, each in found:
                each.close()
            raise
        self._accept(found)

    def open(self) -> None:
        """Accepts clients of inherited sockets, too: they wait in the system until then, so nobody has to refuse
        them."""
        found, self._unopened = self._unopened, []
        self._accept(found)

    def _accept(self, found: Iterable[tuple[Port, socket.socket]]) -> None:
        for port, each in found:
            context = port.certificate.context if port.certificate is not None else None
            serve = partial(self._serve, port)
            acceptor = Acceptor(each, context, self._handshake_seconds, self._has_room, serve, self._starve)
            self._acceptors.append((port, acceptor))

    def close(self, *, tied_only: bool = False) -> None:
        """Accepts no more clients, or only those that come back with new connections."""
        for port, acceptor in self._acceptors:
            if port.tied or not tied_only:
                acceptor.close()
        for _, each in self._unopened:
            each.close()
        self._unopened = []

    def renew_certificates(self) -> None:
        """Loads certificates that were replaced."""
        for port in self._ports:
            if port.certificate is not None:
                port.certificate.renew()

    def _serve(self, port: Port) -> asyncio.Protocol:
        assert self.host is not None
        return self.host.serve(port)

    def _has_room(self) -> bool:
        assert self.host is not None
        return self.host.has_room(self.handshakes)

    def _starve(self, error: OSError) -> None:
        assert self.host is not None
        self.host.starve(error)


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
