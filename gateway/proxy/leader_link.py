"""A connection from a door to the gateway that leads.

Tests: `test_doorway`.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, cast

from gateway.config import Address
from gateway.errors import FreshgateError
from gateway.proxy.upstream import end, set_socket_options
from gateway.wire.frame import WireError
from gateway.wire.member import Member
from gateway.wire.preface import DoorEnd, Preface, Welcome

CONNECT_SECONDS = 3.0
"""Time to connect and to be accepted. Both gateways are in one network."""


@dataclass(frozen=True, slots=True)
class Leader:
    """The gateway that leads."""

    mark: str
    relay: Address
    """Where it takes clients that doors pass on."""

    @property
    def name(self) -> str:
        """What doors call it in prefaces."""
        return f"{self.mark} at {self.relay}"


@dataclass(frozen=True, slots=True)
class Trust:
    """How gateways recognize each other."""

    secret: str
    tls: ssl.SSLContext | None = None
    """For connections to the leader; None without TLS."""


class Unreachable(FreshgateError):
    """The leader does not answer, or not as a gateway. It may lead all the same."""

    sqlstate = "08001"


class NotLeading(FreshgateError):
    """No gateway leads there: nothing listens at the port, or the gateway there says so."""

    sqlstate = "08001"


class NotServing(FreshgateError):
    """The leader serves no new clients at the moment (`for_now`), or none of this transport."""

    sqlstate = "08004"

    def __init__(self, message: str, *, for_now: bool) -> None:
        super().__init__(message)
        self.for_now = for_now


class LeaderReceiver(Protocol):
    """Takes what the leader sends."""

    def leader_data(self, data: bytes) -> None: ...

    def leader_gone(self) -> None: ...

    def leader_writable(self, writable: bool) -> None: ...


class LeaderLink(asyncio.Protocol):
    """Introduced once `connect` has returned it."""

    def __init__(self, end: DoorEnd) -> None:
        self._end = end
        self._transport: asyncio.Transport | None = None
        self._receiver: LeaderReceiver | None = None
        self.judged: asyncio.Future[Welcome] = asyncio.get_running_loop().create_future()
        self._alive = self._reading = True

    def attach(self, receiver: LeaderReceiver, buffer_bytes_max: int) -> None:
        """Passes on what the leader sends from here on. Raises Unreachable if it has closed the connection."""
        if not self._alive or self._transport is None:
            raise Unreachable("The leading gateway closed the connection.")
        self._receiver = receiver
        self._transport.set_write_buffer_limits(high=buffer_bytes_max)
        if self._end.rest:
            receiver.leader_data(self._end.rest)

    def send(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def say(self, member: Member) -> None:
        """Tells the leader what this gateway is, over a connection by which it watches the leader."""
        self.send(self._end.said(member))

    def heard(self, data: bytes) -> Iterator[bytes]:
        """What the leader says over such a connection (`DoorEnd.heard`). Raises WireError."""
        return self._end.heard(data)

    def end(self) -> bool:
        """Sends nothing more, after what was already sent. Returns False if only the whole connection can be closed."""
        if not self._alive or self._transport is None or not self._transport.can_write_eof():
            return False
        self._transport.write_eof()
        return True

    def read(self, *, wanted: bool) -> None:
        """Goes on reading, or stops, so that back pressure reaches the leader."""
        if self._alive and self._transport is not None and self._reading is not wanted:
            self._reading = wanted
            if wanted:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    def close(self) -> None:
        """Closes the connection; the receiver gets nothing more."""
        self._receiver = None
        if self._transport is not None:
            end(self._transport)

    def abort(self) -> None:
        """Closes the connection at once."""
        self._receiver = None
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        set_socket_options(self._transport)

    def data_received(self, data: bytes) -> None:
        if self._receiver is not None:
            self._receiver.leader_data(data)
            return
        if self.judged.done() or self._transport is None:
            return
        try:
            if answer := self._end.receive(data):
                self._transport.write(answer)
        except WireError as error:
            self.judged.set_exception(Unreachable(f"The leading gateway cannot be used: {error}."))
        else:
            if self._end.welcome is not None:
                self.judged.set_result(self._end.welcome)

    def eof_received(self) -> bool:
        return False  # The leader never shuts down only one direction.

    def pause_writing(self) -> None:
        if self._receiver is not None:
            self._receiver.leader_writable(False)

    def resume_writing(self) -> None:
        if self._receiver is not None:
            self._receiver.leader_writable(True)

    def connection_lost(self, exc: Exception | None) -> None:
        self._alive = False
        if not self.judged.done():
            self.judged.set_exception(Unreachable("The leading gateway closed the connection."))
        if self._receiver is not None:
            self._receiver.leader_gone()


async def connect(leader: Leader, trust: Trust, preface: Preface) -> LeaderLink:
    """Connects to the leader and is accepted. Raises Unreachable, NotLeading, NotServing."""
    link = LeaderLink(DoorEnd(trust.secret, preface))
    place = leader.relay
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            await asyncio.get_running_loop().create_connection(lambda: link, place.host, place.port, ssl=trust.tls)
            welcome = await link.judged
    except ConnectionRefusedError as error:
        raise NotLeading(f"Nothing listens at {place}, where a gateway led.") from error
    except TimeoutError as error:
        link.abort()
        raise Unreachable(f"The leading gateway at {place} does not answer.") from error
    except OSError as error:
        raise Unreachable(f"The leading gateway at {place} cannot be reached: {error.strerror or error}.") from error
    except BaseException:
        link.abort()
        raise
    if welcome is Welcome.ACCEPTED:
        return link
    link.abort()
    if welcome is Welcome.WAIT:
        raise NotServing("The gateway that leads takes no new clients at the moment.", for_now=True)
    if welcome is Welcome.UNSERVED:
        raise NotServing("The gateway that leads does not serve this transport.", for_now=False)
    if welcome is Welcome.ENDED:
        raise NotServing("The connection to the gateway that leads broke, which ended the session.", for_now=False)
    raise NotLeading(f"The gateway at {place} does not lead any more.")
