"""Frames, the unit of SASL connections: a 4-byte big-endian length, then that many payload bytes.

A message is not always one frame: a frame may hold two messages, and a message may span several frames.
"""

from __future__ import annotations

from dataclasses import dataclass

HEADER_BYTES = 4
REQUEST_BYTES_MIN = 16 * 1024 * 1024
"""The least limit of requests, which also carry sessions' settings: twice the usual limit of statements."""
UPSTREAM_FRAME_BYTES_MAX = 0x7FFFFFFF
"""The maximum of a signed length. Spark writes a result page as one frame, whatever its size."""


class WireError(Exception):
    """The peer violated the protocol. The connection cannot continue.

    `answer` holds the bytes to send before closing, if the peer can be told; otherwise it is empty.
    """

    def __init__(self, message: str, answer: bytes = b"") -> None:
        super().__init__(message)
        self.answer = answer


class OtherProtocol(WireError):
    """The peer speaks another known protocol."""

    def __init__(self, spoken: str) -> None:
        super().__init__(f"the peer speaks {spoken}")
        self.spoken = spoken


_HTTP, _TLS = "HTTP", "TLS"
_PREFIXES = ((b"HTTP/", _HTTP), (b"POST ", _HTTP), (b"GET ", _HTTP))
_TLS_RECORDS = (b"\x15\x03", b"\x16\x03")
"""A TLS alert, which a TLS server sends in answer to anything else, and a TLS handshake."""
OTHER_BEGINNINGS = frozenset(text[:1] for text in (*dict(_PREFIXES), *_TLS_RECORDS))
"""First bytes of these protocols. Four more bytes tell whether a peer speaks one of them."""


def check_protocol(data: bytes) -> None:
    """Raises OtherProtocol if a peer's first bytes are those of HTTP or TLS."""
    for prefix, spoken in _PREFIXES:
        if data.startswith(prefix):
            raise OtherProtocol(spoken)
    if data.startswith(_TLS_RECORDS):
        raise OtherProtocol(_TLS)


@dataclass(frozen=True, slots=True)
class WireLimits:
    """Limits of one connection. Each prevents one client from taking the resources of all."""

    request_bytes_max: int = 64 * 1024 * 1024
    """Longest request. Statements with large IN lists reach megabytes; no reasonable one exceeds this."""
    new_bytes_max: int = 1024 * 1024
    """Longest request of a client that has not been authenticated, where requests come before the login is checked."""
    reply_bytes_max: int = 16 * 1024 * 1024
    """Longest reply that is collected whole. Result pages are streamed and have no limit."""
    login_seconds: float = 30.0
    """Time from connecting until the login is complete; the same again for the login upstream."""
    connections_max: int = 1000
    """Concurrent client connections."""
    buffer_bytes_max: int = 1024 * 1024
    """Bytes waiting for a slow peer before the gateway stops reading from the other side."""
    half_read_bytes_max: int = 256 * 1024 * 1024
    """Bytes of incomplete requests, over all connections: 16 of the longest ones. Above it, a client that sends more
    than 64 KiB of one is disconnected."""
    stall_seconds: float = 120.0
    """Time within which a client must take some of the data that waits for it, and complete a request that it has
    begun."""
    idle_seconds: float = 0.0
    """Time without a request after which a client's connection is closed. 0: unlimited."""
    login_bytes_max: int = 16 * 1024
    """Longest handshake message. It is short because nobody is authenticated before it."""
    values_max: int = 5_000
    """Thrift values in one request. Bounds the time spent on hostile nesting to a few milliseconds. An OpenSession has
    two per setting."""


def frame(payload: bytes) -> bytes:
    """The payload, prefixed with its length."""
    return len(payload).to_bytes(4, "big") + payload


class FrameReader:
    """Finds the frames in a stream of chunks, and buffers no more than an incomplete header.

    Raises `WireError` for a length below zero or above `bytes_max`, before it consumes anything of the frame.
    """

    __slots__ = ("_bytes_max", "_header", "_remaining")

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._header = b""
        self._remaining = 0

    @property
    def at_border(self) -> bool:
        """The reader is between two frames: it has seen nothing of the next one."""
        return self._remaining == 0 and not self._header

    def feed(self, data: bytes) -> list[tuple[bytes, bool]]:
        """Returns payload pieces in order, each with whether its frame ends with it. Empty frames give no piece."""
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
        """Like `feed`, for bytes that pass through unchanged: returns how many non-empty frames end in this chunk."""
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
            raise WireError(f"a frame length of {length} bytes is outside the limit of {self._bytes_max} bytes")
        self._header = b""
        self._remaining = length
        return position + len(taken)
