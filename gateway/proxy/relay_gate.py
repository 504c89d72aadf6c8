"""The port at which the gateway that leads takes clients that doors pass on.

It is open as long as the process runs, so that doors are told when this gateway does not lead.

Tests: `test_doorway`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import replace
from typing import cast

from gateway.proxy.capacity import Capacity
from gateway.proxy.descriptors import REPORT_SECONDS
from gateway.proxy.entrance import Port
from gateway.proxy.leader_link import Leader
from gateway.proxy.listener import Listener
from gateway.proxy.upstream import set_socket_options
from gateway.tally import Seldom
from gateway.wire.frame import WireError
from gateway.wire.member import GatewayRole, Member
from gateway.wire.preface import LeaderEnd, Preface, Role, Welcome

log = logging.getLogger(__name__)

INTRODUCTION_SECONDS = 5.0
"""Time for a door to say whose bytes follow. Nobody is authenticated before."""
CONTROLS_MAX = 1000
"""Most connections by which doors watch this gateway; more are a fault."""
STRANGER = "a connection to gateways.address"
SILENT_SECONDS = 5.0
"""A door that has said nothing for so long is shown as silent. It says something every second."""
_HEARD = b"!"


class RelayGate:
    """Admits what doors pass on. Implements `entrance.Host`."""

    def __init__(self, secret: str, capacity: Capacity, clock: Callable[[], float] = time.monotonic) -> None:
        self.secret = secret
        self.clock = clock
        self._capacity = capacity
        self._name: str | None = None
        self._listener: Listener | None = None
        self._opened: set[Arrival] = set()
        """Connections that are not yet introduced, and those of doors that watch."""
        self._seldom = Seldom(REPORT_SECONDS)

    def begin(self, leader: Leader) -> None:
        """This gateway is about to lead with this mark, at this address."""
        self._name = leader.name

    def open(self, listener: Listener) -> None:
        """From now on `listener` serves the clients."""
        self._listener = listener

    def close(self) -> None:
        """This gateway does not lead any more. Doors that watch it are told."""
        self._name = self._listener = None
        for each in list(self._opened):
            each.abort()

    def judge(self, preface: Preface) -> tuple[Welcome, asyncio.Protocol | None]:
        """What a door is told, and, if a client of it is accepted, what serves the client."""
        if preface.leader != self._name:
            return Welcome.NOT_LEADING, None
        if preface.role is Role.CONTROL:
            return Welcome.ACCEPTED, None
        if self._listener is None or self._listener.refuses_new(preface.transport):
            return Welcome.WAIT, None
        peer = preface.host, preface.port
        serves = self._listener.serve_relayed(preface.transport, peer, secure=preface.secure)
        return (Welcome.ACCEPTED if serves is not None else Welcome.UNSERVED), serves

    def doors(self) -> list[Member]:
        """What the doors that watch this gateway have last said of themselves, by their addresses."""
        heard: dict[str, tuple[float, Member]] = {}
        for each in self._opened:
            if each.said is not None:
                _, member = each.said
                # A door that was cut off and has come back may have two connections.
                heard[member.address] = max(heard.get(member.address, each.said), each.said, key=lambda it: it[0])
        now = self.clock()
        return [
            replace(member, role=GatewayRole.SILENT) if now - at > SILENT_SECONDS else member
            for _, (at, member) in sorted(heard.items())
        ]

    def serve(self, port: Port) -> asyncio.Protocol:
        """Implements `entrance.Host`."""
        return Arrival(self)

    def has_room(self, handshakes: int) -> bool:
        """Implements `entrance.Host`."""
        return not self._capacity.is_full(max(0, handshakes - CONTROLS_MAX), STRANGER)

    def starve(self, error: OSError) -> None:
        """Implements `entrance.Host`."""
        self._capacity.starve(error)

    def enter(self, each: Arrival, descriptor: int) -> bool:
        """Registers a new connection. Returns whether there is room for it, and leaves descriptors to those that are
        served: nobody is authenticated yet."""
        self._opened.add(each)
        return self._capacity.refusal(max(0, len(self._opened) - CONTROLS_MAX), descriptor, STRANGER) is None

    def leave(self, each: Arrival) -> None:
        self._opened.discard(each)

    def report(self, host: str, error: WireError) -> None:
        """Logs what is wrong with a connection, unless that was done for another one a moment ago: whoever can connect
        can be one, as often as they like."""
        if self._seldom.is_due():
            log.warning("a connection of %s to gateways.address was closed: %s", host, error)


class Arrival(asyncio.Protocol):
    """A connection from a door, until a client's protocol takes it over."""

    def __init__(self, gate: RelayGate) -> None:
        self._gate = gate
        self._end = LeaderEnd(gate.secret)
        self._watched = False
        self.said: tuple[float, Member] | None = None
        """What the door has last said of itself, and when."""
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        set_socket_options(self._transport)
        if not self._gate.enter(self, int(self._transport.get_extra_info("socket").fileno())):
            self._transport.abort()
            return
        self._timer = asyncio.get_running_loop().call_later(INTRODUCTION_SECONDS, self.abort)
        self._transport.write(self._end.greeting)

    def data_received(self, data: bytes) -> None:
        assert self._transport is not None
        try:
            if self._watched:
                self._listen(self._transport, data)
            elif (preface := self._end.receive(data)) is not None:
                self._introduced(self._transport, preface)
        except WireError as error:
            name = self._transport.get_extra_info("peername")
            self._gate.report(str(name[0]) if name else "?", error)
            self._transport.write(error.answer)
            self._transport.close()

    def _listen(self, transport: asyncio.Transport, data: bytes) -> None:
        """Raises WireError for anything but what the door says of itself."""
        for member in self._end.members(data):
            self.said = self._gate.clock(), member
            transport.write(_HEARD)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        self._gate.leave(self)

    def _introduced(self, transport: asyncio.Transport, preface: Preface) -> None:
        self._stop_timer()
        welcome, serves = self._gate.judge(preface)
        transport.write(self._end.answer(welcome))
        if serves is not None:
            self._gate.leave(self)
            transport.set_protocol(serves)
            serves.connection_made(transport)
        elif welcome is Welcome.ACCEPTED:
            self._watched = True
        else:
            transport.close()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
