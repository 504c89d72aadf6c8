"""A connection whose frames are protected by GSSAPI (RFC 4752, `wire.gssapi`): both sides see plain frames.

Protecting 64 KiB takes a third of a millisecond, a page of rows up to a tenth of a second. So long frames are protected
in a thread, one at a time for each connection: the library must not be called for one context by two threads.

Tests: `test_sealed_transport`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from gateway.wire.frame import UPSTREAM_FRAME_BYTES_MAX, FrameReader, WireError, frame
from gateway.wire.gssapi import Seal

log = logging.getLogger(__name__)

AT_ONCE_BYTES = 128 * 1024
"""So much is protected on the event loop. A thread costs more than a millisecond when all are busy."""
BATCH_BYTES = 1024 * 1024
"""Of data to be protected in one turn of a thread."""
PIECE_BYTES = 256 * 1024
"""Of a long frame that is passed on at a time, like what a socket brings."""
OVERHEAD_BYTES = 1024
"""At most so much longer is a protected frame."""


class SealedTransport(asyncio.Transport):
    """In the place of `inner` and between it and `protocol`, both of which it takes over. `received`: protected frames
    that have already come."""

    def __init__(
        self,
        inner: asyncio.Transport,
        protocol: asyncio.Protocol,
        seal: Seal,
        frame_bytes_max: int,
        received: bytes = b"",
    ) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._inner = inner
        self._protocol = protocol
        self._seal = seal
        self._reader = FrameReader(frame_bytes_max + OVERHEAD_BYTES)
        self._pieces: list[bytes] = []  # Of a protected frame.
        self._frames: deque[list[bytes]] = deque()  # Whole protected frames.
        self._plain = memoryview(b"")  # A frame that is being passed on.
        self._writer = FrameReader(UPSTREAM_FRAME_BYTES_MAX)
        self._outgoing = bytearray()
        self._high = BATCH_BYTES
        self._task: asyncio.Future[Any] | None = None
        self._pumping = False
        self._paused = False  # By the protocol.
        self._stopped = False  # The inner transport is not read.
        self._full = False  # The inner transport takes nothing at the moment.
        self._writes_paused = False
        self._closing = self._lost = False
        inner.set_protocol(_Inner(self))
        if received:
            self._loop.call_soon(self.receive, received)

    @property
    def partial(self) -> bool:
        """Part of a frame has come, and nothing is being done with what came before it."""
        return bool(self._pieces) and self._task is None and not self._paused

    # --- from the connection -------------------------------------------------------------------------

    def receive(self, data: bytes) -> None:
        """Protected bytes have come."""
        if self._closing:
            return
        try:
            for piece, ended in self._reader.feed(data):
                self._pieces.append(piece)
                if ended:
                    self._frames.append(self._pieces)
                    self._pieces = []
        except WireError as error:
            self._fail(error)
            return
        self._pump()

    def lose(self, error: Exception | None) -> None:
        """The connection has ended."""
        self._lost = self._closing = True
        self._frames.clear()
        self._outgoing.clear()
        self._protocol.connection_lost(error)

    def fill(self, full: bool) -> None:
        """The connection takes nothing more at the moment, or again."""
        self._full = full
        self._report_room()
        if not full:
            self._pump()

    def end_of_data(self) -> bool:
        return bool(self._protocol.eof_received())

    # --- both directions -----------------------------------------------------------------------------

    def _pump(self) -> None:
        """Does what there is to do: here while it is little, otherwise in a thread that this continues after."""
        if self._pumping:
            return
        self._pumping = True
        try:
            while self._task is None and not self._lost and (self._send_some() or self._pass_some()):
                pass
        finally:
            self._pumping = False
        self._read_or_stop()
        self._report_room()
        if self._closing and not self._lost and not self._outgoing and self._task is None:
            self._inner.close()

    def _send_some(self) -> bool:
        if not self._outgoing or (self._full and not self._closing):
            return False
        data = bytes(self._outgoing[:BATCH_BYTES])
        del self._outgoing[: len(data)]
        self._do(len(data), partial(_sealed, self._seal, data), self._inner.write)
        return True

    def _pass_some(self) -> bool:
        if self._paused or self._closing:
            return False
        if self._plain:
            piece, self._plain = bytes(self._plain[:PIECE_BYTES]), self._plain[PIECE_BYTES:]
            self._protocol.data_received(piece)
            return True
        if not self._frames:
            return False
        sealed = self._frames.popleft()
        self._do(sum(map(len, sealed)), partial(_plain_frame, self._seal, sealed), self._unsealed)
        return True

    def _unsealed(self, plain: bytes) -> None:
        self._plain = memoryview(plain)

    def _do(self, size: int, work: Callable[[], bytes], then: Callable[[bytes], object]) -> None:
        if size > AT_ONCE_BYTES:
            self._task = self._loop.run_in_executor(None, work)
            self._task.add_done_callback(partial(self._done, then))
            return
        try:
            then(work())
        except WireError as error:
            self._fail(error)

    def _done(self, then: Callable[[bytes], object], task: asyncio.Future[bytes]) -> None:
        self._task = None
        if self._lost or task.cancelled():
            return
        try:
            then(task.result())
        except Exception as error:
            # Whatever it was, this connection cannot go on, and nobody awaits the task.
            self._fail(error)
            return
        self._pump()

    def _fail(self, error: Exception) -> None:
        log.warning("a connection with protected frames is closed: %s", error)
        self.abort()

    def _read_or_stop(self) -> None:
        wanted = not (self._paused or self._plain or self._frames or self._task)
        if wanted is not self._stopped or self._closing:
            return
        self._stopped = not wanted
        if wanted:
            self._inner.resume_reading()
        else:
            self._inner.pause_reading()

    def _report_room(self) -> None:
        paused = not self._lost and (self._full or len(self._outgoing) > self._high)
        if paused is self._writes_paused or self._closing:
            return
        self._writes_paused = paused
        if paused:
            self._protocol.pause_writing()
        else:
            self._protocol.resume_writing()

    # --- a transport's ------------------------------------------------------------------------------

    def write(self, data: Any) -> None:
        """Sends plain frames, or parts of them."""
        if self._closing:
            return
        for piece, _ in self._writer.feed(bytes(data)):
            self._outgoing += piece
        self._pump()

    def pause_reading(self) -> None:
        self._paused = True
        self._read_or_stop()

    def resume_reading(self) -> None:
        self._paused = False
        self._read_or_stop()
        self._loop.call_soon(self._pump)

    def close(self) -> None:
        self._closing = True
        self._pump()

    def abort(self) -> None:
        self._closing = True
        self._outgoing.clear()
        self._inner.abort()

    def is_closing(self) -> bool:
        return self._closing or self._inner.is_closing()

    def get_write_buffer_size(self) -> int:
        return len(self._outgoing) + self._inner.get_write_buffer_size()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._inner.set_write_buffer_limits(high, low)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._inner.get_extra_info(name, default)

    def can_write_eof(self) -> bool:
        return False

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._protocol


class _Inner(asyncio.Protocol):
    """Receives what the connection brings."""

    def __init__(self, sealed: SealedTransport) -> None:
        self._sealed = sealed

    def data_received(self, data: bytes) -> None:
        self._sealed.receive(data)

    def eof_received(self) -> bool:
        return self._sealed.end_of_data()

    def connection_lost(self, exc: Exception | None) -> None:
        self._sealed.lose(exc)

    def pause_writing(self) -> None:
        self._sealed.fill(True)

    def resume_writing(self) -> None:
        self._sealed.fill(False)


def _sealed(seal: Seal, data: bytes) -> bytes:
    """The protected frames of data."""
    size = seal.frame_bytes_max
    return b"".join(frame(seal.seal(data[at : at + size])) for at in range(0, len(data), size))


def _plain_frame(seal: Seal, pieces: list[bytes]) -> bytes:
    """The frame that was protected; empty for one without data."""
    plain = seal.unseal(b"".join(pieces))
    return frame(plain) if plain else b""
