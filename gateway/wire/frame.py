"""Frames: what SASL connections carry. A 4-byte big-endian length, then that many payload bytes.

One message is not always one frame: a frame may hold two messages, and a message may be spread over frames.
"""

from __future__ import annotations

from dataclasses import dataclass

HEADER_BYTES = 4
UPSTREAM_FRAME_BYTES_MAX = 0x7FFFFFFF
"""What a signed length can say. Spark writes one result page as one frame, whatever its size."""


class WireError(Exception):
    """The peer sent bytes that are not the protocol. The connection cannot go on.

    `answer` holds the bytes to send before closing, where the peer can be told; empty otherwise.
    """

    def __init__(self, message: str, answer: bytes = b"") -> None:
        super().__init__(message)
        self.answer = answer


class OtherProtocol(WireError):
    """The peer speaks a protocol that is known, only not the one that was expected."""

    def __init__(self, spoken: str) -> None:
        super().__init__(f"it speaks {spoken}")
        self.spoken = spoken


HTTP_SPOKEN, TLS_SPOKEN = "HTTP", "TLS"
_BEGINNINGS = ((b"HTTP/", HTTP_SPOKEN), (b"POST ", HTTP_SPOKEN), (b"GET ", HTTP_SPOKEN))
_TLS_RECORDS = (b"\x15\x03", b"\x16\x03")
"""An alert, with which a server answers what is no TLS, and a handshake."""
OTHER_BEGINNINGS = frozenset(text[:1] for text in (*dict(_BEGINNINGS), *_TLS_RECORDS))
"""First bytes after which four more tell whether a peer speaks one of these."""


def check_protocol(data: bytes) -> None:
    """Raises OtherProtocol where a peer's first bytes are those of HTTP or TLS."""
    for beginning, spoken in _BEGINNINGS:
        if data.startswith(beginning):
            raise OtherProtocol(spoken)
    if data.startswith(_TLS_RECORDS):
        raise OtherProtocol(TLS_SPOKEN)


@dataclass(frozen=True, slots=True)
class WireLimits:
    """Bounds of one connection. Each keeps a client from taking what belongs to all."""

    request_bytes_max: int = 64 * 1024 * 1024
    """Longest request. Statements with large IN lists reach megabytes; nothing sane is longer."""
    new_bytes_max: int = 1024 * 1024
    """Longest request of somebody whose password was not looked at yet, where requests come before that."""
    reply_bytes_max: int = 16 * 1024 * 1024
    """Longest reply that is collected whole to be looked at. Result pages are streamed and have no limit."""
    login_seconds: float = 30.0
    """Time from connecting to the whole login, and again for the login upstream."""
    connections_max: int = 1000
    """Client connections at one time."""
    buffer_bytes_max: int = 1024 * 1024
    """Bytes waiting for a slow peer before the other side is not read any more."""
    half_read_bytes_max: int = 1 << 40
    """Bytes of requests that are not complete, of all connections together."""
    stall_seconds: float = 120.0
    """Time in which a client must take some of what waits for it, and complete a request that it has begun."""
    idle_seconds: float = 0.0
    """Time without a request after which a client is closed. 0: none."""
    login_bytes_max: int = 16 * 1024
    """Longest message of the handshake. Before it nobody is authenticated, so it is short."""
    values_max: int = 5_000
    """Thrift values in one request: bounds the time that looking at hostile nesting takes, some milliseconds. An
    OpenSession has two for each setting."""


def frame(payload: bytes) -> bytes:
    """The payload with its length in front."""
    return len(payload).to_bytes(4, "big") + payload


class FrameReader:
    """Finds the frames in a stream of chunks, with no more memory than an unfinished header.

    Raises `WireError` for a length below zero or above `bytes_max`, before anything of the frame is taken in.
    """

    __slots__ = ("_bytes_max", "_header", "_remaining")

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._header = b""
        self._remaining = 0

    @property
    def at_border(self) -> bool:
        """Between two frames: nothing of the next one was seen."""
        return self._remaining == 0 and not self._header

    def feed(self, data: bytes) -> list[tuple[bytes, bool]]:
        """Payload pieces in order, each with whether its frame ends with it. Frames of no bytes give no
        piece.
        """
        pieces: list[tuple[bytes, bool]] = []
        position = 0
        while position < len(data):
            if not self._remaining:
                position = self._read_header(data, position)
                continue
            piece = data[position : position + self._remaining]
            position += len(piece)
            self._remaining -= len(piece)
            pieces.append((piece, self._remaining == 0))
        return pieces

    def skip(self, data: bytes) -> int:
        """Like `feed`, for bytes that pass through as they are: how many frames (with content) end in this
        chunk.
        """
        size = len(data)
        if (
            not self._remaining
            and not self._header
            and size > HEADER_BYTES
            and int.from_bytes(data[:4], "big") == size - HEADER_BYTES
            and size - HEADER_BYTES <= self._bytes_max
        ):
            return 1
        ended = 0
        position = 0
        while position < size:
            if not self._remaining:
                position = self._read_header(data, position)
                continue
            step = min(self._remaining, size - position)
            position += step
            self._remaining -= step
            ended += self._remaining == 0
        return ended

    def _read_header(self, data: bytes, position: int) -> int:
        taken = data[position : position + HEADER_BYTES - len(self._header)]
        header = self._header + taken
        if len(header) < HEADER_BYTES:
            self._header = header
            return position + len(taken)
        length = int.from_bytes(header, "big", signed=True)
        if not 0 <= length <= self._bytes_max:
            raise WireError(f"a frame of {length} bytes is outside the limit of {self._bytes_max} bytes")
        self._header = b""
        self._remaining = length
        return position + len(taken)
