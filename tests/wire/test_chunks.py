"""Tests what the leader sends to a door about a client, cut in any way."""

from __future__ import annotations

import pytest

from gateway.wire.chunks import TICKET_BYTES_MAX, Chunk, ChunkReader, chunk, head
from gateway.wire.frame import WireError

STREAM = [
    (Chunk.PART, b"abc"),
    (Chunk.TICKET, b"ticket"),
    (Chunk.REPLY, b"xyz"),
    (Chunk.TICKET, b""),
    (Chunk.REPLY, b""),
    (Chunk.PART, b""),
    (Chunk.LEAVE, b""),
    (Chunk.CLOSE, b""),
]


@pytest.mark.parametrize("size", range(1, 70))
def test_a_stream_is_read_however_it_is_cut(size: int) -> None:
    stream = b"".join(chunk(kind, data) for kind, data in STREAM)
    reader, found = ChunkReader(), list[tuple[Chunk, bytes]]()
    for start in range(0, len(stream), size):
        found += reader.feed(stream[start : start + size])
    replies = (Chunk.PART, Chunk.REPLY)
    assert b"".join(data for kind, data in found if kind in replies) == b"abcxyz"
    assert [each for each in found if each[0] not in replies] == [each for each in STREAM if each[0] not in replies]
    # The pieces of a reply before its last one are parts.
    assert [kind for kind, _ in found if kind is not Chunk.PART] == [k for k, _ in STREAM if k is not Chunk.PART]


def test_a_long_reply_passes_in_pieces() -> None:
    reader = ChunkReader()
    assert list(reader.feed(head(Chunk.REPLY, 10) + b"12345")) == [(Chunk.PART, b"12345")]
    assert list(reader.feed(b"67890")) == [(Chunk.REPLY, b"67890")]


@pytest.mark.parametrize("data", [b"\x09\0\0\0\0", head(Chunk.TICKET, TICKET_BYTES_MAX + 1)])
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(WireError):
        list(ChunkReader().feed(data))
