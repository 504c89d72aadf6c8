"""The clients of a gateway that does not lead: passes their bytes to the leader, and holds new ones while nobody leads.

The bytes are not read. A client's connection ends with the leader's end of it.
"""

from __future__ import annotations

import asyncio
import logging
from typing import cast

from gateway import loops
from gateway.proxy.capacity import Capacity
from gateway.proxy.entrance import Host, Port
from gateway.proxy.farewell import Farewell
from gateway.proxy.leader_link import Leader, LeaderLink, NotLeading, NotServing, Trust, Unreachable, connect
from gateway.proxy.traffic import Traffic
from gateway.proxy.upstream import set_socket_options
from gateway.wire.preface import Preface, Role

log = logging.getLogger(__name__)

RETRY_SECONDS = 0.25
"""Interval of the attempts for a client that waits for a leader."""
HELD_BYTES_MAX = 64 * 1024
"""What a client may send before it is passed on. Its login is shorter."""
LEAVING_SECONDS = 30.0
"""How long a client may take to read what was sent to it before its connection was closed."""
NOBODY = "No gateway leads at the moment. Connect again in a few seconds."


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
        self.leader: Leader | None = None

    @property
    def clients(self) -> int:
        """Current connections."""
        return len(self._passages)

    def spare(self, leader: Leader) -> None:
        """This gateway is being stopped: clients that were passed to it stay until it closes them itself."""
        self._spared = leader

    def lead_to(self, leader: Leader | None) -> None:
        """From now on clients are passed to this gateway. Closes those that were passed to another one, unless it is
        spared."""
        self.leader = leader
        for passage in list(self._passages):
            passage.keep_to(leader, self._spared)

    def hand_over(self, host: Host) -> None:
        """This gateway leads now: `host` serves the clients that wait. Closes those that were passed to another one."""
        self.lead_to(None)
        for passage in list(self._passages):
            passage.hand_over(host)

    async def drain(self, seconds: float) -> None:
        """Returns when no client is left, or after `seconds`. Accept no more clients before."""
        try:
            async with asyncio.timeout(seconds):
                await self._empty.wait()
        except TimeoutError:
            log.info("stopping after %g seconds although %d clients are connected", seconds, len(self._passages))

    def close(self) -> None:
        """Closes every client."""
        self._closing = True
        for passage in list(self._passages):
            passage.close()

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

    def leave(self, passage: Passage) -> None:
        """Removes a client."""
        self._passages.discard(passage)
        if not self._passages:
            self._empty.set()


class Passage(asyncio.Protocol):
    """A client's connection. It waits for a leader first; then this Protocol is the client's end, and the leader's end
    calls the methods `leader_...`."""

    def __init__(self, doorway: Doorway, port: Port) -> None:
        self._doorway = doorway
        self._port = port
        self._held = bytearray()
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
        self._waiting = asyncio.get_running_loop().create_task(self._join())
        loops.heard(self._waiting, "passing a client on")

    async def _join(self) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + self._doorway.wait_seconds
        problem = NOBODY
        while True:
            leader = self._doorway.leader
            if leader is not None:
                try:
                    link = await connect(leader, self._doorway.trust, self._preface(leader))
                except NotServing as error:
                    problem = f"{error} Connect again later."
                    if not error.for_now:
                        break
                except (NotLeading, Unreachable) as error:
                    problem = f"{error} Connect again in a few seconds."
                else:
                    if self._begin(leader, link):
                        return
            if loop.time() > until:
                break
            await asyncio.sleep(RETRY_SECONDS)
        self._doorway.traffic.refused += 1
        log.info("client %s was refused: %s", self._peer()[0], problem)
        self._refuse(problem)

    def _preface(self, leader: Leader) -> Preface:
        host, port = self._peer()
        secure = self._transport is not None and self._transport.get_extra_info("sslcontext") is not None
        return Preface(Role.CLIENT, leader.name, self._port.transport, host, port, secure)

    def _begin(self, leader: Leader, link: LeaderLink) -> bool:
        """Passes on from here; False if there is another leader meanwhile, or the connection is lost again."""
        assert self._transport is not None
        if leader != self._doorway.leader:
            link.close()
            return False
        self._waiting = None
        self._leader, self._link = leader, link
        try:
            link.attach(self, self._doorway.buffer_bytes_max)
        except Unreachable:
            self._leader = self._link = None
            return False
        link.send(bytes(self._held))
        self._held.clear()
        self._read_client(wanted=True)
        return True

    def hand_over(self, host: Host) -> None:
        """Lets `host` serve the client, if it still waits for a leader."""
        if self._link is not None or self._transport is None or self._transport.is_closing():
            return
        self._stop_waiting()
        self._doorway.leave(self)
        serves = host.serve(self._port)
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
            self._link.send(data)
            return
        self._held += data
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
        self._stop_waiting()
        if self._timer is not None:
            self._timer.cancel()
        if self._link is not None:
            self._link.close()
        self._doorway.leave(self)

    def keep_to(self, *leaders: Leader | None) -> None:
        """Closes the client if it was passed to another gateway than these."""
        if self._leader is not None and self._leader not in leaders:
            self.close()

    def close(self) -> None:
        """Closes the client after what was already sent to it, if it takes that in time."""
        self._stop_waiting()
        if self._transport is not None and not self._transport.is_closing():
            self._transport.close()
            self._timer = asyncio.get_running_loop().call_later(LEAVING_SECONDS, self._transport.abort)

    # --- the leader's end --------------------------------------------------------------------------------

    def leader_data(self, data: bytes) -> None:
        self._doorway.traffic.to_clients += len(data)
        if self._transport is not None:
            self._transport.write(data)

    def leader_gone(self) -> None:
        self._link = None
        self.close()

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
