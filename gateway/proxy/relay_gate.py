"""The port at which the gateway that leads takes clients that doors pass on.

It is open as long as the process runs, so that doors are told when this gateway does not lead.

Tests: `test_doorway`.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import cast

from gateway import loops
from gateway.errors import FreshgateError
from gateway.proxy.capacity import Capacity
from gateway.proxy.descriptors import REPORT_SECONDS
from gateway.proxy.door_transport import DoorTransport
from gateway.proxy.entrance import Port
from gateway.proxy.leader_link import Leader
from gateway.proxy.listener import Listener
from gateway.proxy.page_door import PageHost
from gateway.proxy.relay import Relay
from gateway.proxy.ticket_book import TicketBook
from gateway.proxy.upstream import set_socket_options
from gateway.tally import Seldom
from gateway.wire.chunks import TICKET_BYTES_MAX
from gateway.wire.frame import WireError
from gateway.wire.member import GatewayRole, Member
from gateway.wire.preface import LeaderEnd, Preface, Role, Welcome, ticket_digest

log = logging.getLogger(__name__)

INTRODUCTION_SECONDS = 5.0
"""Time for a door to say whose bytes follow. Nobody is authenticated before."""
CONTROLS_MAX = 1000
"""Most connections by which doors watch this gateway; more are a fault."""
_LENGTH_BYTES = 4
STRANGER = "a connection to gateways.address"
SILENT_SECONDS = 5.0
"""A door that has said nothing for so long is shown as silent. It says something every second."""
UNSENT_BYTES_MAX = 16 * 1024 * 1024
"""A door that takes so much less than it is told is cut off, and told everything when it comes back."""
HEARD, HEEDED, LEAVING, SUCCEED = b"!", b"*", b"-", b"+"
"""What a leader says to doors that watch it: it has heard what they are; it has done what one that YIELDED asks for; it
is being stopped; and the door is to take over."""


class RelayGate:
    """Admits what doors pass on. Implements `entrance.Host`."""

    def __init__(self, secret: str, capacity: Capacity, clock: Callable[[], float] = time.monotonic) -> None:
        self.secret = secret
        self.clock = clock
        self._capacity = capacity
        self._name: str | None = None
        self._listener: Listener | None = None
        self.page: PageHost | None = None
        """This gateway's page while it serves clients."""
        self._opened: set[Arrival] = set()
        """Connections that are not yet introduced, and those of doors that watch."""
        self._seldom = Seldom(REPORT_SECONDS)
        self._leaving = False
        self._successor: Arrival | None = None
        self._news = asyncio.Event()
        """Set when a door has said something, or has gone."""
        self._heeding = loops.BackgroundTasks("heeding the gateway that led before")
        self._order = asyncio.Lock()
        self._telling = loops.BackgroundTasks("telling a door of sessions")
        self.book = TicketBook()
        """What doors are told of sessions that belong to no connection."""
        self.book.tell = self._tell
        self.heed: Callable[[], Awaitable[None]] | None = None
        """Takes for changed whatever statements of the leader before may have written; None while this gateway does not
        lead. Raises FreshgateError if it does not lead any more."""

    def begin(self, leader: Leader) -> None:
        """This gateway is about to lead with this mark, at this address."""
        self._name, self._leaving = leader.name, False

    def open(self, listener: Listener, page: PageHost | None) -> None:
        """From now on `listener` serves the clients, and `page` browsers, if there is one."""
        self._listener, self.page = listener, page

    def hold(self) -> None:
        """From now on clients that doors pass on are asked to wait."""
        self._listener = self.page = None

    def close(self) -> None:
        """This gateway does not lead any more. Doors that watch it are told."""
        self._name = self._listener = self.page = self.heed = None
        for each in list(self._opened):
            each.abort()

    def judge(self, preface: Preface) -> tuple[Welcome, Relay | None]:
        """What a door is told, and, if a client of it is accepted, what serves the client. For a browser that is
        accepted, `page` does."""
        if preface.leader != self._name:
            return Welcome.NOT_LEADING, None
        if preface.role is Role.CONTROL:
            return Welcome.ACCEPTED, None
        if preface.role is Role.PAGE and self._listener is not None:
            return (Welcome.UNSERVED if self.page is None else Welcome.ACCEPTED), None
        if self._listener is None or self._listener.refuses_new(preface.transport):
            return Welcome.WAIT, None
        if preface.earlier == self._name:
            return Welcome.ENDED, None
        peer = preface.host, preface.port
        serves = self._listener.serve_relayed(preface.transport, peer, secure=preface.secure)
        return (Welcome.ACCEPTED if serves is not None else Welcome.UNSERVED), serves

    async def find_successor(self, seconds: float) -> bool:
        """Tells the doors that this gateway is being stopped, and one of them that it is to take over. Returns whether
        there is one, when it is ready, or after so many seconds all the same."""
        self._leaving = True
        for each in self._watching():
            each.say(LEAVING)
        try:
            async with asyncio.timeout(seconds):
                while (found := self._chosen()) is not None and not found.is_ready:
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            log.info("the next gateway was not ready within %g seconds", seconds)
        return self._successor is not None

    def _watching(self) -> list[Arrival]:
        """The doors that watch this gateway, those that have said something first."""
        found = [each for each in self._opened if each.watched]
        return sorted(found, key=lambda each: (each.said is None, each.said[1].address if each.said else ""))

    def _chosen(self) -> Arrival | None:
        """The door that is to take over; another one if that has gone."""
        if self._successor not in self._opened:
            self._successor = next(iter(self._watching()), None)
            if self._successor is not None:
                self._successor.say(SUCCEED)
        return self._successor

    def watched_by(self, each: Arrival) -> None:
        """A door watches this gateway from now on."""
        if self._leaving:
            each.say(LEAVING)
        self.book.copies = len(self._watching())
        self._telling.begin(self.book.tell_all(each.note))
        self._news.set()

    def _tell(self, note: bytes) -> None:
        for each in self._watching():
            each.note(note)

    def heard(self, each: Arrival, member: Member) -> None:
        """A door has said something."""
        if member.role is GatewayRole.YIELDED:
            self._heeding.begin(self._heed(each))
            return
        each.said = self.clock(), member
        each.say(HEARD)
        self._news.set()

    async def _heed(self, each: Arrival) -> None:
        """Answers in the order in which the door has asked, or closes the connection."""
        async with self._order:
            try:
                if self.heed is None:
                    raise FreshgateError("a gateway has handed over to this one, which does not lead")
                await self.heed()
            except FreshgateError:
                each.abort()
                raise
            each.say(HEEDED)

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
        self.book.copies = len(self._watching())
        self._news.set()

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
        self.watched = False
        """A door watches this gateway over it."""
        self._arriving: tuple[Relay, str] | None = None
        """What will serve a client whose ticket is due, and the ticket's digest."""
        self._received = b""
        self.said: tuple[float, Member] | None = None
        """What the door has last said of itself, and when."""
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_ready(self) -> bool:
        """Whether the door has said that it can take over."""
        return self.said is not None and self.said[1].role is GatewayRole.SUCCESSOR

    def say(self, what: bytes) -> None:
        if self._transport is not None:
            self._transport.write(what)

    def note(self, note: bytes) -> None:
        """Tells a door that watches this gateway of a session."""
        if self._transport is None or self._transport.is_closing():
            return
        if self._transport.get_write_buffer_size() > UNSENT_BYTES_MAX:
            self._transport.abort()
        else:
            self._transport.write(self._end.note(note))

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
            if self.watched:
                self._listen(data)
            elif self._arriving is not None:
                self._receive_ticket(self._transport, data, *self._arriving)
            elif (preface := self._end.receive(data)) is not None:
                self._introduced(self._transport, preface)
        except WireError as error:
            name = self._transport.get_extra_info("peername")
            self._gate.report(str(name[0]) if name else "?", error)
            self._transport.write(error.answer)
            self._transport.close()

    def _listen(self, data: bytes) -> None:
        """Raises WireError for anything but what the door says of itself."""
        for member in self._end.members(data):
            self._gate.heard(self, member)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        self._gate.leave(self)

    def _introduced(self, transport: asyncio.Transport, preface: Preface) -> None:
        welcome, serves = self._gate.judge(preface)
        transport.write(self._end.answer(welcome))
        if serves is not None and preface.ticket:
            self._arriving = serves, preface.ticket
            return
        self._stop_timer()
        page = self._gate.page
        if serves is not None:
            self._serve(transport, serves)
        elif preface.role is Role.PAGE and welcome is Welcome.ACCEPTED and page is not None:
            self._gate.leave(self)
            browser = page.serve_relayed((preface.host, preface.port), secure=preface.secure)
            transport.set_protocol(browser)
            browser.connection_made(transport)
        elif welcome is Welcome.ACCEPTED:
            self.watched = True
            self._gate.watched_by(self)
        else:
            transport.close()

    def _receive_ticket(self, transport: asyncio.Transport, data: bytes, serves: Relay, digest: str) -> None:
        """Raises WireError for another ticket than the door has announced."""
        self._received += data
        length = int.from_bytes(self._received[:_LENGTH_BYTES], "big")
        if length > TICKET_BYTES_MAX:
            raise WireError("a door presents a ticket that is too long")
        end = _LENGTH_BYTES + length
        if len(self._received) < max(end, _LENGTH_BYTES + 1):
            return
        ticket, rest = self._received[_LENGTH_BYTES:end], self._received[end:]
        if not hmac.compare_digest(ticket_digest(ticket), digest):
            raise WireError("a door presents another ticket than it has announced")
        self._stop_timer()
        serves.ticket = ticket
        self._serve(transport, serves)
        if rest:
            serves.data_received(rest)

    def _serve(self, transport: asyncio.Transport, serves: Relay) -> None:
        self._gate.leave(self)
        transport.set_protocol(serves)
        serves.connection_made(DoorTransport(transport))

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
