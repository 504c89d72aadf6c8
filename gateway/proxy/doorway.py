"""The clients of a gateway that does not lead: passes their bytes to the leader, and holds them while nobody leads.

The bytes are not read while the leader serves. When it has gone, the client stays: the door answers what the client
still waits for with an error, and presents the client's ticket to the next leader (`wire.chunks`). A client over HTTP
has no ticket, because its sessions belong to no connection: it is answered, and its next request goes to that leader.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Protocol, cast

from gateway import loops
from gateway.proxy.capacity import Capacity
from gateway.proxy.entrance import Host, Port
from gateway.proxy.farewell import Farewell
from gateway.proxy.leader_link import Leader, LeaderLink, NotLeading, NotServing, Trust, Unreachable, connect
from gateway.proxy.lost_requests import Told, over_binary, over_http
from gateway.proxy.traffic import Traffic
from gateway.proxy.upstream import set_socket_options
from gateway.service.answers.without_leader import unanswered as answer_for_lost
from gateway.service.answers.without_leader import unserved
from gateway.wire import http_calls
from gateway.wire.chunks import Chunk, ChunkReader
from gateway.wire.frame import WireError
from gateway.wire.preface import Preface, Role, ticket_digest
from gateway.wire.sasl import START

log = logging.getLogger(__name__)

RETRY_SECONDS = 0.25
"""Interval of the attempts for a client that waits for a leader."""
HELD_BYTES_MAX = 64 * 1024
"""What a client may send before it is passed on. Its login is shorter."""
LEAVING_SECONDS = 30.0
"""How long a client may take to read what was sent to it before its connection was closed."""
IDLE_RETRY_SECONDS = 1.0
"""The same for a client that has sent nothing meanwhile."""
UNANSWERED_BYTES_MAX = 64 * 1024
"""A client that waits for the answer to a longer request is closed when the leader goes."""
DISMISSED_SECONDS = 0.2
"""Interval of looks for connections that a gateway which is being stopped may close."""
ABANDONED_SECONDS = 120.0
"""How long the sessions of a client that has left are kept for a leader, which ends them."""
MOVED_TOGETHER = 32
"""Most clients that are presented to a new leader at the same time."""
NOBODY = "No gateway leads at the moment. Connect again in a few seconds."


class NextHost(Host, Protocol):
    """Serves also clients that another leader has served: the listener."""

    def serve_arrived(self, port: Port, ticket: bytes) -> asyncio.Protocol:
        """Makes the protocol for such a client."""
        ...

    def end_arrived(self, ticket: bytes) -> None:
        """Ends the sessions of one that has left."""
        ...


class Doorway:
    """Serves clients from `open` on, until they are handed over. Implements `entrance.Host`."""

    def __init__(
        self, trust: Trust, capacity: Capacity, wait_seconds: float, buffer_bytes_max: int, traffic: Traffic
    ) -> None:
        """`wait_seconds`: how long a client waits for a leader. `buffer_bytes_max`: bytes that may wait for a slow end
        of a connection before the other end is not read any more."""
        self.trust = trust
        self.wait_seconds = wait_seconds
        self.buffer_bytes_max = buffer_bytes_max
        self.traffic = traffic
        self._capacity = capacity
        self._passages: set[Passage] = set()
        self._empty = asyncio.Event()
        self._empty.set()
        self._closing = False
        self._spared: Leader | None = None
        self._changed = asyncio.Event()
        self._abandoned: set[Passage] = set()
        """Clients that have left while nobody led, and have sessions."""
        self.moving = asyncio.Semaphore(MOVED_TOGETHER)
        self.leader: Leader | None = None
        self.host: NextHost | None = None
        """What serves the clients while this gateway leads."""

    @property
    def clients(self) -> int:
        """Current connections."""
        return len(self._passages)

    def spare(self, leader: Leader) -> None:
        """This gateway is being stopped: clients that were passed to it stay until it closes them itself."""
        self._spared = leader

    def lead_to(self, leader: Leader | None) -> None:
        """From now on clients are passed to this gateway. Those that were passed to another one move there if they
        can, and are closed otherwise, unless that one is spared."""
        self.leader, self.host = leader, None
        for passage in list(self._passages):
            passage.keep_to(leader, self._spared)
        self._changed.set()
        self._changed = asyncio.Event()

    def hand_over(self, host: NextHost) -> None:
        """This gateway leads now: `host` serves the clients that wait."""
        self.lead_to(None)
        self.host = host
        for passage in [*self._passages, *self._abandoned]:
            passage.hand_over(host)

    async def pause(self, seconds: float) -> None:
        """Returns when another gateway leads, or after `seconds`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()

    async def drain(self, seconds: float) -> None:
        """Returns when no client is left, or after `seconds`. Accept no more clients before. Closes connections over
        HTTP that wait for nothing: their clients come back with others."""
        try:
            async with asyncio.timeout(seconds):
                while self._passages:
                    for passage in list(self._passages):
                        passage.dismiss()
                    with suppress(TimeoutError):
                        async with asyncio.timeout(DISMISSED_SECONDS):
                            await self._empty.wait()
        except TimeoutError:
            log.info("stopping after %g seconds although %d clients are connected", seconds, len(self._passages))

    def close(self) -> None:
        """Closes every client."""
        self._closing = True
        for passage in [*self._passages, *self._abandoned]:
            passage.close()

    @property
    def closing(self) -> bool:
        return self._closing

    def serve(self, port: Port) -> asyncio.Protocol:
        """Implements `entrance.Host`."""
        return Passage(self, port)

    def has_room(self, handshakes: int) -> bool:
        """Implements `entrance.Host`."""
        return not self._capacity.is_full(len(self._passages) + handshakes)

    def starve(self, error: OSError) -> None:
        """Implements `entrance.Host`."""
        self._capacity.starve(error)

    def enter(self, passage: Passage, descriptor: int) -> str | None:
        """Registers a client. Returns why it cannot be served, or None."""
        if self._closing:
            return "The gateway is being stopped. Connect again later."
        if (problem := self._capacity.refusal(len(self._passages), descriptor)) is not None:
            return problem
        self.traffic.accepted += 1
        self._passages.add(passage)
        self._empty.clear()
        return None

    def leave(self, passage: Passage, *, abandoned: bool = False) -> None:
        """Removes a client. `abandoned`: a leader must still end its sessions."""
        self._passages.discard(passage)
        self._abandoned.discard(passage)
        if abandoned:
            self._abandoned.add(passage)
        if not self._passages:
            self._empty.set()


class Passage(asyncio.Protocol):
    """A client's connection. It waits for a leader first; then this Protocol is the client's end, and the leader's end
    calls the methods `leader_...`."""

    def __init__(self, doorway: Doorway, port: Port) -> None:
        self._doorway = doorway
        self._port = port
        self._held = bytearray()
        """What the client has sent and no leader has."""
        self._held_since: float | None = asyncio.get_running_loop().time()
        """Since when the client waits for a leader; None if it waits for nothing."""
        self._ticket = b""
        self._earlier = ""
        """The leader that gave the ticket, or has left the client."""
        self._framed = False
        self._chunks = ChunkReader()
        self._unanswered = bytearray()
        """What the leader has and has not answered."""
        self._beyond = False
        """That was too long to be kept."""
        self._partly = False
        """The client has part of a reply."""
        self._left = False
        """The leader has said that it did not act on what is unanswered."""
        self._gone = False
        """The client has left."""
        self._rests = False
        """A client over HTTP that has sent nothing since its leader has gone. The next one would take it for a client
        that does not log in, and close it."""
        self._reading = True
        self._timer: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport | None = None
        self._waiting: asyncio.Task[None] | None = None
        self._leader: Leader | None = None
        self._link: LeaderLink | None = None

    # --- while there is no leader ------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        set_socket_options(self._transport)
        descriptor = int(self._transport.get_extra_info("socket").fileno())
        if (problem := self._doorway.enter(self, descriptor)) is not None:
            self._refuse(problem)
            return
        self._transport.set_write_buffer_limits(high=self._doorway.buffer_bytes_max)
        self._wait()

    async def _join(self) -> None:
        loop = asyncio.get_running_loop()
        gone_at = loop.time() + ABANDONED_SECONDS
        problem = NOBODY
        while True:
            leader = self._doorway.leader
            # One that has left would say that it has served this client.
            if leader is not None and not (self._left and leader.name == self._earlier):
                try:
                    link = await self._connect(leader)
                except NotServing as error:
                    problem = f"{error} Connect again later."
                    if not error.for_now:
                        break
                except (NotLeading, Unreachable) as error:
                    problem = f"{error} Connect again in a few seconds."
                else:
                    if self._begin(leader, link):
                        return
            since = self._held_since
            if since is not None and loop.time() > since + self._doorway.wait_seconds:
                if not self._ticket:
                    break
                self._tell(bytes(self._held), partial(unserved, problem=problem))
            if self._gone and loop.time() > gone_at:
                break
            await self._doorway.pause(IDLE_RETRY_SECONDS if self._held_since is None else RETRY_SECONDS)
        self._waiting = None
        self._doorway.traffic.refused += 1
        log.info("client %s was refused: %s", self._peer()[0], problem)
        if self._ticket:
            self._doorway.leave(self)
            self.close()
        else:
            self._refuse(problem)

    async def _connect(self, leader: Leader) -> LeaderLink:
        trust, preface = self._doorway.trust, self._preface(leader)
        if not self._ticket:
            return await connect(leader, trust, preface)
        async with self._doorway.moving:
            return await connect(leader, trust, preface)

    def _preface(self, leader: Leader) -> Preface:
        host, port = self._peer()
        secure = self._transport is not None and self._transport.get_extra_info("sslcontext") is not None
        digest, earlier = (ticket_digest(self._ticket), self._earlier) if self._ticket else ("", "")
        return Preface(Role.CLIENT, leader.name, self._port.transport, host, port, secure, digest, earlier)

    def _begin(self, leader: Leader, link: LeaderLink) -> bool:
        """Passes on from here; False if there is another leader meanwhile, or the connection is lost again."""
        assert self._transport is not None
        if leader != self._doorway.leader:
            link.close()
            return False
        self._waiting = None
        self._leader, self._link = leader, link
        self._chunks, self._left, self._partly = ChunkReader(), False, False
        try:
            link.attach(self, self._doorway.buffer_bytes_max)
        except Unreachable:
            self._leader = self._link = None
            return False
        if self._ticket:
            link.send(len(self._ticket).to_bytes(4, "big") + self._ticket)
        self._send(link, bytes(self._held))
        self._held.clear()
        self._held_since = None
        self._read_client(wanted=True)
        return True

    def _send(self, link: LeaderLink, data: bytes) -> None:
        if not self._ticket and not self._unanswered and data:
            self._framed = data[0] == START
        if len(self._unanswered) + len(data) > UNANSWERED_BYTES_MAX:
            self._beyond = True
            self._unanswered.clear()
        if not self._beyond:
            self._unanswered += data
        link.send(data)

    def hand_over(self, host: NextHost) -> None:
        """Lets `host` serve the client, if it still waits for a leader."""
        if self._gone:
            self._stop_waiting()
            self._doorway.leave(self)
            host.end_arrived(self._ticket)
            return
        if self._link is not None or self._transport is None or self._transport.is_closing() or self._rests:
            return
        self._stop_waiting()
        self._doorway.leave(self)
        serves = host.serve_arrived(self._port, self._ticket) if self._ticket else host.serve(self._port)
        self._read_client(wanted=True)
        self._transport.set_protocol(serves)
        serves.connection_made(self._transport)
        if self._held:
            serves.data_received(bytes(self._held))

    def _refuse(self, reason: str) -> None:
        assert self._transport is not None
        self._doorway.leave(self)
        if self._transport.is_closing():
            return
        self._read_client(wanted=True)
        farewell = Farewell(self._port.open_wire(), reason, self._doorway.traffic)
        self._transport.set_protocol(farewell)
        farewell.connection_made(self._transport)
        if self._held:
            farewell.data_received(bytes(self._held))

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    # --- the client's end --------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        self._doorway.traffic.from_clients += len(data)
        if self._link is not None:
            self._send(self._link, data)
            return
        self._held += data
        if self._held_since is None:
            self._held_since = asyncio.get_running_loop().time()
        if self._rests:
            self._rests = False
            self._wait()
            return
        if len(self._held) > HELD_BYTES_MAX:
            self._read_client(wanted=False)

    def eof_received(self) -> bool:
        # TLS connections cannot be closed in one direction. False closes the client, also one that waited.
        tls = self._transport is not None and self._transport.get_extra_info("sslcontext") is not None
        return not tls and self._link is not None and self._link.end()

    def pause_writing(self) -> None:
        if self._link is not None:
            self._link.read(wanted=False)

    def resume_writing(self) -> None:
        if self._link is not None:
            self._link.read(wanted=True)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._link is not None:
            self._link.close()
        elif self._waiting is not None and self._ticket and not self._doorway.closing:
            self._gone, self._held_since = True, None
            self._held.clear()
            self._doorway.leave(self, abandoned=True)
            return
        self._stop_waiting()
        self._doorway.leave(self)

    def keep_to(self, *leaders: Leader | None) -> None:
        """Moves the client if it was passed to another gateway than these."""
        if self._leader is not None and self._leader not in leaders and self._link is not None:
            self._link.close()
            self.leader_gone()

    def dismiss(self) -> None:
        """Closes a connection over HTTP whose client waits for nothing."""
        if not (self._port.tied or self._unanswered or self._beyond or self._partly or self._held):
            self.close()

    def close(self) -> None:
        """Closes the client after what was already sent to it, if it takes that in time."""
        self._stop_waiting()
        if self._transport is not None and not self._transport.is_closing():
            self._transport.close()
            self._timer = asyncio.get_running_loop().call_later(LEAVING_SECONDS, self._transport.abort)

    # --- the leader's end --------------------------------------------------------------------------------

    def leader_data(self, data: bytes) -> None:
        try:
            for kind, piece in self._chunks.feed(data):
                self._take(kind, piece)
        except WireError as error:
            log.error("client %s closed: %s", self._peer()[0], error)
            self.close()

    def _take(self, kind: Chunk, piece: bytes) -> None:
        match kind:
            case Chunk.PART:
                self._partly = True
                self._write(piece)
            case Chunk.REPLY:
                self._partly = self._beyond = False
                self._unanswered.clear()
                self._write(piece)
            case Chunk.TICKET:
                assert self._leader is not None
                self._ticket, self._earlier = piece, self._leader.name
                if self._gone and self._link is not None:
                    self._link.close()
                    self._doorway.leave(self)
            case Chunk.LEAVE:
                self._left = True
            case Chunk.CLOSE:
                self._ticket = b""
                self.close()

    def _write(self, data: bytes) -> None:
        if data and self._transport is not None and not self._transport.is_closing():
            self._doorway.traffic.to_clients += len(data)
            self._transport.write(data)

    def leader_gone(self) -> None:
        """Waits for the next leader, if the client can go on there."""
        if self._left and self._leader is not None:
            self._earlier = self._leader.name
        self._link = self._leader = None
        closing = self._transport is None or self._transport.is_closing() or self._doorway.closing
        unanswered = bytes(self._unanswered)
        self._unanswered.clear()
        if self._gone:
            self._wait()
            return
        if closing or self._partly or (self._port.tied and (self._beyond or not self._ticket)):
            self.close()
            return
        if self._beyond:
            self._beyond = False
            self._write(http_calls.unknown())
            self.close()
            return
        self._read_client(wanted=True)
        if self._left:
            self._held += unanswered
            self._held_since = asyncio.get_running_loop().time() if unanswered else None
        elif not self._tell(unanswered, answer_for_lost):
            return
        if self._held or self._port.tied:
            self._wait()
        else:
            self._rests = True

    def _wait(self) -> None:
        if self._doorway.host is not None:
            # The leader that has handed over to this gateway has served the client to the end.
            self.hand_over(self._doorway.host)
            return
        self._waiting = asyncio.get_running_loop().create_task(self._join())
        loops.heard(self._waiting, "passing a client on")

    def _tell(self, received: bytes, answer: Callable[[bytes], bytes]) -> bool:
        """Answers what was received, and holds part of a request. Closes the client, and returns False, if that is
        impossible."""
        self._held.clear()
        self._held_since = None
        if not received:
            return True
        try:
            told = self._told(received, answer)
        except WireError as error:
            log.info("client %s closed: %s", self._peer()[0], error)
            self.close()
            return False
        self._held += told.kept
        self._write(told.answers)
        if told.ends:
            self.close()
        return not told.ends

    def _told(self, received: bytes, answer: Callable[[bytes], bytes]) -> Told:
        """Raises WireError."""
        if not self._port.tied:
            return over_http(received)
        return over_binary(self._port.open_wire(), received, answer, framed=self._framed)

    def leader_writable(self, writable: bool) -> None:
        self._read_client(wanted=writable)

    def _read_client(self, *, wanted: bool) -> None:
        if self._transport is None or self._transport.is_closing() or self._reading is wanted:
            return
        self._reading = wanted
        if wanted:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    def _peer(self) -> tuple[str, int]:
        name = self._transport.get_extra_info("peername") if self._transport is not None else None
        return (str(name[0]), int(name[1])) if name else ("unknown", 0)
