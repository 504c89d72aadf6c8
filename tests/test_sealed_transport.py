"""Tests that protected frames carry the same bytes in both directions, short and long ones, and end a wrong one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from proxy.peers import until
from wire.calls import pieces_of

from gateway.sealed_transport import AT_ONCE_BYTES, SealedTransport
from gateway.wire.frame import FrameReader, WireError, frame
from gateway.wire.gssapi import Seal

LIMIT = 4 * 1024 * 1024


class Numbered:
    """A context that numbers what it protects, and notes whether two threads use it at the same time."""

    def __init__(self) -> None:
        self.sent = self.read = self.uses = 0
        self.threads: set[int] = set()
        self.together = False

    def _use(self) -> None:
        self.uses += 1
        self.together = self.together or self.uses > 1
        self.threads.add(threading.get_ident())
        self.uses -= 1

    def wrap(self, data: bytes, *, confidential: bool) -> bytes:
        self._use()
        self.sent += 1
        return self.sent.to_bytes(4, "big") + bytes(each ^ 255 for each in data[:4]) + data[4:]

    def unwrap(self, data: bytes) -> tuple[bytes, bool]:
        self._use()
        self.read += 1
        if int.from_bytes(data[:4], "big") != self.read:
            raise WireError("the wrong number")
        return bytes(each ^ 255 for each in data[4:8]) + data[8:], True


class Wire(asyncio.Transport):
    """The inner transport: notes what happens to it."""

    def __init__(self) -> None:
        super().__init__()
        self.protocol: Any = None
        self.written = b""
        self.reading = True
        self.closed = ""

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = protocol

    def write(self, data: Any) -> None:
        assert not self.closed
        self.written += data

    def pause_reading(self) -> None:
        assert self.reading
        self.reading = False

    def resume_reading(self) -> None:
        assert not self.reading
        self.reading = True

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return bool(self.closed)

    def close(self) -> None:
        self.closed = self.closed or "closed"

    def abort(self) -> None:
        self.closed = "aborted"


class Reader(asyncio.Protocol):
    """What a relay is to a transport."""

    def __init__(self) -> None:
        self.frames = FrameReader(LIMIT)
        self.got = b""
        self.writable = True
        self.lost = False
        self.on_data: Callable[[], object] = bool

    def data_received(self, data: bytes) -> None:
        self.got += b"".join(piece for piece, _ in self.frames.feed(data))
        self.on_data()

    def pause_writing(self) -> None:
        assert self.writable
        self.writable = False

    def resume_writing(self) -> None:
        assert not self.writable
        self.writable = True

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True


class End:
    """One end of a connection."""

    def __init__(self, frame_bytes_max: int = LIMIT, size: int = 64 * 1024, received: bytes = b"") -> None:
        self.context, self.wire, self.reader = Numbered(), Wire(), Reader()
        self.seal = Seal(self.context, True, size)
        self.transport = SealedTransport(self.wire, self.reader, self.seal, frame_bytes_max, received)


def sealed(*datas: bytes) -> bytes:
    """What another end would send."""
    context = Numbered()
    return b"".join(frame(context.wrap(data, confidential=True)) for data in datas)


LENGTHS = st.sampled_from([0, 1, 3, 100, 65_535, 65_536, 65_537, AT_ONCE_BYTES, AT_ONCE_BYTES + 1, 700_000])


@settings(max_examples=40)
@given(
    lengths=st.lists(LENGTHS, max_size=5),
    cuts=st.lists(st.integers(0, 900_000), max_size=8),
    size=st.sampled_from([100_000, 65_536, 50]),
)
def test_both_ends_read_what_the_other_wrote(lengths: list[int], cuts: list[int], size: int) -> None:
    datas = [bytes([number + 1]) * length for number, length in enumerate(lengths) if length < 500 * size]

    async def play() -> None:
        here, there = End(size=size), End()
        for piece in pieces_of(b"".join(map(frame, datas)), cuts):
            here.transport.write(piece)
        await until(lambda: not here.transport.get_write_buffer_size() and here.transport._task is None)
        for piece in pieces_of(here.wire.written, cuts):
            there.wire.protocol.data_received(piece)
        await until(lambda: there.reader.got == b"".join(datas))
        assert not here.context.together
        assert not there.context.together
        assert here.reader.writable
        assert there.wire.reading
        if max(lengths, default=0) <= AT_ONCE_BYTES and len(lengths) < 2:
            assert here.context.threads <= {threading.get_ident()}

    asyncio.run(play())


def test_long_frames_are_protected_in_threads_and_hold_their_writer_back() -> None:
    async def play() -> None:
        end = End()
        end.transport.write(frame(b"x" * 3_000_000))
        assert not end.reader.writable
        end.transport.write(frame(b"y"))
        # It ends with everything that was written before.
        end.transport.close()
        assert end.transport.is_closing()
        assert not end.wire.closed
        await until(lambda: end.wire.closed == "closed")
        assert threading.get_ident() not in end.context.threads
        other = End(received=end.wire.written)
        await until(lambda: other.reader.got == b"x" * 3_000_000 + b"y")

    asyncio.run(play())


def test_a_reader_that_pauses_gets_the_rest_later() -> None:
    async def play() -> None:
        end = End()
        end.reader.on_data = end.transport.pause_reading
        end.wire.protocol.data_received(sealed(b"a" * 600_000, b"b"))
        await until(lambda: end.reader.got)
        first = len(end.reader.got)
        assert first < 600_000
        assert not end.wire.reading
        await asyncio.sleep(0)
        assert len(end.reader.got) == first
        end.reader.on_data = bool
        end.transport.resume_reading()
        await until(lambda: end.reader.got == b"a" * 600_000 + b"b")
        assert end.wire.reading

    asyncio.run(play())


def test_a_reader_may_answer_and_close_at_once() -> None:
    async def play() -> None:
        end = End()

        def answer() -> None:
            end.transport.write(frame(b"answer"))
            end.transport.close()

        end.reader.on_data = answer
        end.wire.protocol.data_received(sealed(b"request", b"not read any more"))
        assert end.wire.closed == "closed"
        assert end.wire.written == sealed(b"answer")
        assert end.reader.got == b"request"
        end.wire.protocol.connection_lost(None)
        assert end.reader.lost

    asyncio.run(play())


@pytest.mark.parametrize(
    "data", [sealed(b"a")[:4] + b"\0\0\0\7" + b"a", frame(b"x" * (LIMIT + 2000))[:10], b"\xff" * 4, b"GET /"]
)
@pytest.mark.parametrize("before", [b"", b"first"])
def test_a_changed_frame_ends_the_connection(data: bytes, before: bytes) -> None:
    async def play() -> None:
        end = End()
        end.wire.protocol.data_received((sealed(before) if before else b"") + data)
        assert end.wire.closed == "aborted"
        end.transport.write(frame(b"never sent"))
        assert not end.wire.written
        end.wire.protocol.connection_lost(None)
        assert end.reader.lost

    asyncio.run(play())


def test_a_long_changed_frame_ends_the_connection() -> None:
    async def play() -> None:
        end = End()
        end.wire.protocol.data_received(frame(b"\0\0\0\7" + b"x" * 500_000))
        await until(lambda: end.wire.closed == "aborted")

    asyncio.run(play())


def test_a_lost_connection_forgets_what_waits() -> None:
    async def play() -> None:
        end = End()
        end.transport.write(frame(b"x" * 2_000_000))
        end.wire.protocol.connection_lost(None)
        await until(lambda: end.transport._task is None)
        assert end.reader.lost
        assert not end.wire.written
        assert not end.transport.get_write_buffer_size()

    asyncio.run(play())


def test_a_full_connection_is_written_to_later() -> None:
    async def play() -> None:
        end = End()
        end.wire.protocol.pause_writing()
        assert not end.reader.writable
        end.transport.write(frame(b"later"))
        assert not end.wire.written
        end.wire.protocol.resume_writing()
        assert end.reader.writable
        assert end.wire.written == sealed(b"later")

    asyncio.run(play())
