"""A connection to the Spark Thrift Server, one per client connection.

Tests: `test_relay`.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Protocol, cast

from gateway.errors import FreshgateError, UpstreamLost, UpstreamProtocolMismatch
from gateway.proxy.traffic import Traffic
from gateway.sealed_transport import SealedTransport
from gateway.wire.connection import UpstreamEnd
from gateway.wire.endpoint import Endpoint
from gateway.wire.frame import UPSTREAM_FRAME_BYTES_MAX, OtherProtocol, WireError, WireLimits
from gateway.wire.sasl import Login, LoginRefused

_KEEPALIVE_SECONDS = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 4}
"""A peer whose machine is gone is detected after two minutes. Also keeps load balancers from dropping idle connections
of long queries."""


class UpstreamRefused(FreshgateError):
    """Spark refused the login; the message is Spark's."""

    sqlstate = "28000"


class Receiver(Protocol):
    """Receives Spark's data: the relay."""

    def upstream_data(self, data: bytes) -> None: ...

    def upstream_gone(self) -> None: ...


class UpstreamSocket(asyncio.Protocol):
    """A connection to Spark, logged in once `connect` has returned it. `wire` implements its protocol."""

    def __init__(self, wire: UpstreamEnd, traffic: Traffic) -> None:
        self.wire = wire
        self.at = ""
        """The name of the server, if there are several."""
        self._traffic = traffic
        self.accepted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._transport: asyncio.Transport | None = None
        self._receiver: Receiver | None = None
        self._alive = True
        self._paused = False

    def attach(self, receiver: Receiver) -> None:
        """Passes all further data to `receiver`. Raises `UpstreamLost` if Spark has closed the connection meanwhile."""
        if not self._alive:
            raise UpstreamLost("Spark closed the connection right after the login. Connect again.")
        self._receiver = receiver

    def send(self, payload: bytes) -> None:
        if self._transport is not None:
            self._write(self._transport, self.wire.send(payload))

    def _write(self, transport: asyncio.Transport, data: bytes) -> None:
        self._traffic.to_spark += len(data)
        transport.write(data)

    def pause(self) -> None:
        """Stops reading, so that back pressure reaches Spark."""
        if self._transport is not None and self._alive and not self._paused:
            self._paused = True
            self._transport.pause_reading()

    def resume(self) -> None:
        if self._transport is not None and self._alive and self._paused:
            self._paused = False
            self._transport.resume_reading()

    def close(self) -> None:
        """Closes the connection; the receiver gets nothing more."""
        self._receiver = None
        if self._transport is not None:
            end(self._transport)

    @property
    def alive(self) -> bool:
        return self._alive

    def cut(self) -> None:
        """Breaks the connection at once; the receiver learns of it."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        set_socket_options(self._transport)
        if handshake := self.wire.login():
            self._write(self._transport, handshake)
        else:
            self.accepted.set_result(None)

    def data_received(self, data: bytes) -> None:
        self._traffic.from_spark += len(data)
        if self._receiver is not None:
            self._receiver.upstream_data(data)
        elif not self.accepted.done():
            try:
                if self.wire.receive_login(data):
                    self._seal()
                    self.accepted.set_result(None)
                elif self._transport is not None and (more := self.wire.more_login):
                    self._write(self._transport, more)
            except (LoginRefused, WireError) as error:
                self.accepted.set_exception(error)
        elif self._transport is not None:
            # No request is under way, or nobody listens any more, so nobody can receive these bytes.
            self._transport.abort()

    def _seal(self) -> None:
        if self._transport is not None and self.wire.seal is not None:
            self._transport = SealedTransport(self._transport, self, self.wire.seal, UPSTREAM_FRAME_BYTES_MAX)

    def connection_lost(self, exc: Exception | None) -> None:
        self._alive = False
        if not self.accepted.done():
            self.accepted.set_exception(exc or ConnectionError("the server closed the connection during the login"))
        if self._receiver is not None:
            self._receiver.upstream_gone()


async def connect(
    endpoint: Endpoint, login: Login, limits: WireLimits, traffic: Traffic | None = None
) -> UpstreamSocket:
    """Connects and logs in, within `login_seconds`.

    Raises `UpstreamRefused` with Spark's text, or `UpstreamLost` if Spark cannot be reached or closes the connection.
    """
    loop = asyncio.get_running_loop()
    usable = False
    protocol: UpstreamSocket | None = None
    try:
        async with asyncio.timeout(limits.login_seconds):
            wire = await endpoint.connection(login, limits, early=True)
            opened = protocol = UpstreamSocket(wire, traffic if traffic is not None else Traffic())
            await loop.create_connection(lambda: opened, endpoint.host, endpoint.port, ssl=endpoint.tls)
            await protocol.accepted
    except LoginRefused as error:
        raise UpstreamRefused(str(error)) from error
    except TimeoutError as error:
        seconds = f"{limits.login_seconds:g} seconds"
        raise UpstreamLost(
            f"Spark at {endpoint} did not answer the login within {seconds}. Try again later."
        ) from error
    except OtherProtocol as error:
        raise UpstreamProtocolMismatch(endpoint, error.spoken) from error
    except (OSError, WireError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UpstreamLost(
            f"Cannot connect to Spark at {endpoint}: {reason}. It may be starting; try again in a few seconds."
        ) from error
    else:
        usable = True
        return protocol
    finally:
        if protocol is not None and not usable:
            # Whatever stopped it, including a client that has gone.
            protocol.accepted.cancel()
            protocol.close()


def end(transport: asyncio.Transport) -> None:
    """Closes a connection to a server, at once if that has not read everything yet: a server that has stopped reading
    would block an orderly close forever."""
    if transport.get_write_buffer_size():
        transport.abort()
    else:
        transport.close()


def set_socket_options(transport: asyncio.Transport) -> None:
    """Sends small messages at once, and detects a vanished peer."""
    sock: socket.socket | None = transport.get_extra_info("socket")
    if sock is None or sock.family not in (socket.AF_INET, socket.AF_INET6):
        return
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE_SECONDS.items():
        # Not every system has all three options.
        if (option := getattr(socket, name, None)) is not None:
            sock.setsockopt(socket.IPPROTO_TCP, option, value)
