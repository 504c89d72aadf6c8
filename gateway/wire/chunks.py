"""What the leader sends to a door about one client, without I/O: replies in chunks, and between them what only the door
reads.

The door learns from it whether a client still waits for a reply, how the client's sessions can go on at another leader,
and whether the end of the connection is the client's too.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum

from gateway.wire.frame import WireError

HEAD_BYTES = 5
TICKET_BYTES_MAX = 64 * 1024
_LENGTH_MAX = (1 << 32) - 1


class Chunk(IntEnum):
    """What follows the length."""

    PART = 1
    """Bytes for the client: part of a reply."""
    REPLY = 2
    """Bytes for the client: a reply, or the end of one. All that the client has sent is answered."""
    TICKET = 3
    """With these bytes, the next leader goes on with the client. They replace those sent before."""
    LEAVE = 4
    """This gateway leaves: it has not acted on what the client has sent since its last reply."""
    CLOSE = 5
    """The client is to be closed."""


def chunk(kind: Chunk, data: bytes = b"") -> bytes:
    """One chunk, of less than 4 GiB."""
    return head(kind, len(data)) + data


def head(kind: Chunk, length: int) -> bytes:
    if length > _LENGTH_MAX:
        raise WireError("a chunk for a door is too long")
    return bytes((kind,)) + length.to_bytes(4, "big")


class ChunkReader:
    """Reads chunks, however the stream is cut."""

    def __init__(self) -> None:
        self._head = b""
        self._left = 0
        """Bytes of the current chunk that have not come."""
        self._kind = Chunk.PART
        self._kept = bytearray()
        """What has come of a chunk that is returned as a whole."""

    def feed(self, data: bytes) -> Iterator[tuple[Chunk, bytes]]:
        """What these bytes complete. Replies come in pieces, the last of a REPLY as REPLY, all others as PART. Raises
        WireError."""
        start = 0
        while start < len(data) or (self._head and not self._left):
            if not self._left and len(self._head) < HEAD_BYTES:
                start = self._read_head(data, start)
                if len(self._head) < HEAD_BYTES:
                    return
            piece = data[start : start + self._left]
            start += len(piece)
            self._left -= len(piece)
            yield from self._taken(piece)
            if self._left:
                return
            self._head = b""

    def _read_head(self, data: bytes, start: int) -> int:
        """Returns where the chunk's bytes start."""
        end = start + HEAD_BYTES - len(self._head)
        self._head += data[start:end]
        if len(self._head) == HEAD_BYTES:
            try:
                self._kind = Chunk(self._head[0])
            except ValueError as error:
                raise WireError("the leading gateway sent a chunk of an unknown kind") from error
            self._left = int.from_bytes(self._head[1:], "big")
            if self._kind not in (Chunk.PART, Chunk.REPLY) and self._left > TICKET_BYTES_MAX:
                raise WireError("the leading gateway sent a ticket that is too long")
        return min(end, len(data))

    def _taken(self, piece: bytes) -> Iterator[tuple[Chunk, bytes]]:
        if self._kind in (Chunk.PART, Chunk.REPLY):
            if piece or not self._left:
                yield (Chunk.PART if self._left else self._kind), piece
            return
        self._kept += piece
        if not self._left:
            whole, self._kept = bytes(self._kept), bytearray()
            yield self._kind, whole
