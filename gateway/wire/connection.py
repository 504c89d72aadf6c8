"""Both ends of the gateway as values: bytes in, events out; requests in, bytes out. No sockets here.

A `ClientEnd` is the server's end of a client's connection, an `UpstreamEnd` the client's end of the connection to
Spark. `ClientConnection` and `UpstreamConnection` are those of the binary transport; `http_connection` has the others.
Half-read bytes live here and nowhere else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from gateway.wire.frame import (
    HEADER_BYTES,
    UPSTREAM_FRAME_BYTES_MAX,
    FrameReader,
    WireError,
    WireLimits,
    frame,
)
from gateway.wire.message import peek
from gateway.wire.reply import exception
from gateway.wire.sasl import COMPLETE, START, Login, PlainClient, PlainServer, negotiation, refusal
from gateway.wire.scanner import CALL, MessageScanner
from gateway.wire.shapes import Shapes

PLAIN = "PLAIN"
NOSASL = "NOSASL"


@dataclass(frozen=True, slots=True)
class Said:
    """Bytes for the client that answer what was no request for Spark."""

    payload: bytes


Event = Login | bytes | Said
"""`Login`: the client has said who it is. `bytes`: one whole request."""

_STRICT_MESSAGE = 0x80
_TLS_HANDSHAKE = 0x16
_AGAIN_BYTES_MAX = 512
"""Longest request that is remembered to recognize the next one by. A status call has about 110 bytes."""


class ClientEnd(Protocol):
    """Reads a client: who it is first, then requests.

    After a `Login` of a mechanism other than NOSASL comes no request until `accept_login` was sent, and under NOSASL
    none that is longer than `new_bytes_max`. Call `receive(b"")` then for what the client has sent meanwhile, and again
    when a reply is complete while there is something `pending`.
    Every method raises `WireError` and nothing else for what a client may send; then the connection cannot go on, and
    `WireError.answer` is what to send before closing it.
    """

    forwarded_for: str
    """What web proxies have written about where the last request comes from; empty where they did not."""

    @property
    def framed(self) -> bool:
        """What is sent goes in SASL's frames, so frames of Spark's pass as they are."""
        ...

    @property
    def pending(self) -> bool:
        """Whole requests have come that were not given out."""
        ...

    @property
    def partial(self) -> bool:
        """A request has begun to come and is not complete."""
        ...

    @property
    def closing(self) -> bool:
        """The connection ends with what was sent last."""
        ...

    def receive(self, data: bytes) -> list[Event]:
        """What is complete with these bytes, in order."""
        ...

    def accept_login(self) -> bytes:
        """The bytes that tell the client so."""
        ...

    def refuse_login(self, message: str, *, fault: bool = False) -> bytes:
        """The bytes that tell the client so. The connection is to be closed behind them.

        `fault`: the login may be right, but cannot be looked at now.
        """
        ...

    def refuse_connection(self, message: str, data: bytes) -> bytes:
        """The bytes that tell a client which has sent `data` first, or nothing yet, that it cannot be served."""
        ...

    def send(self, payload: bytes) -> bytes:
        """One whole reply as it goes to the client."""
        ...

    def on_wire(self, request: bytes, reply: bytes) -> tuple[bytes, bytes] | None:
        """The last request and its whole reply as they were read and are sent.

        None where the same request could not be told by its bytes alone if it came again.
        """
        ...

    def part(self, data: bytes, *, ended: bool) -> bytes:
        """What `UpstreamEnd.relay` gave of a reply as it goes to the client; `ended`: the reply ends with it."""
        ...


class UpstreamEnd(Protocol):
    """The client's end towards Spark: the login, then requests, each followed by its reply, streamed or collected."""

    @property
    def framed(self) -> bool:
        """What comes is in SASL's frames."""
        ...

    @property
    def usable(self) -> bool:
        """False where Spark closes the connection behind the last reply."""
        ...

    def login(self) -> bytes:
        """What to send first; nothing where there is no login."""
        ...

    def receive_login(self, data: bytes) -> bool:
        """True when Spark has accepted. Raises `LoginRefused` with Spark's text, or `WireError`."""
        ...

    def send(self, payload: bytes) -> bytes:
        """One request as it goes to Spark; its reply is read from here on."""
        ...

    def relay(self, data: bytes, to_frames: bool) -> tuple[bytes, bool]:
        """Reply bytes, in frames or as they are, and whether the reply ends with them. Raises `WireError`."""
        ...

    def collect(self, data: bytes) -> bytes | None:
        """The whole reply when it is there. Raises `WireError`, also beyond `reply_bytes_max`."""
        ...

    def late(self, data: bytes, to_frames: bool) -> bytes:
        """What comes when no reply is due: bytes that belong to the last one all the same, if it was streamed, as they
        go to the client. Raises `WireError`."""
        ...


class ClientConnection:
    """A `ClientEnd` of the binary transport. The first byte tells SASL (1) from NOSASL (0x80)."""

    forwarded_for = ""
    pending = False
    closing = False

    def __init__(self, transports: frozenset[str], limits: WireLimits) -> None:
        self._transports = transports
        self._limits = limits
        self._server: PlainServer | None = None
        self._frames: FrameReader | None = None
        self._held = b""
        self._ready = False
        self._known = False
        self._requests = RequestReader(limits)

    @property
    def framed(self) -> bool:
        """The client speaks SASL, so what is sent to it goes in frames."""
        return self._frames is not None

    @property
    def partial(self) -> bool:
        """A request has begun to come and is not complete."""
        return self._ready and not (self._requests.at_border and self._frame_at_border)

    @property
    def _frame_at_border(self) -> bool:
        return self._frames is None or self._frames.at_border

    def receive(self, data: bytes) -> list[Event]:
        """What is complete with these bytes, in order."""
        if self._ready:
            return self._messages(data)
        if self._known:
            self._hold(data)
            return []
        return self._login(data)

    def accept_login(self) -> bytes:
        """The bytes that tell the client so; none for NOSASL, whose requests may be as long as others' from here on."""
        self._ready = True
        self._requests.limit(self._limits.request_bytes_max)
        return negotiation(COMPLETE) if self.framed else b""

    def refuse_login(self, message: str, *, fault: bool = False) -> bytes:
        """SASL knows one refusal. The connection is to be closed behind it."""
        return refusal(message) if self.framed or self._server else b""

    def refuse_connection(self, message: str, data: bytes) -> bytes:
        """What a SASL client reads as its login's answer, another one as its first request's."""
        return _told(data, message) if data[:1] == bytes((_STRICT_MESSAGE,)) else refusal(message)

    def send(self, payload: bytes) -> bytes:
        """One reply as it goes to the client."""
        return frame(payload) if self._frames is not None else payload

    def on_wire(self, request: bytes, reply: bytes) -> tuple[bytes, bytes] | None:
        """Both as `send` would write them, while nothing of a further request has come."""
        if self._held or self.partial or len(request) > _AGAIN_BYTES_MAX:
            return None
        return self.send(request), self.send(reply)

    def part(self, data: bytes, *, ended: bool) -> bytes:
        """The bytes as they are: `UpstreamConnection.relay` has put them into frames where they need some."""
        return data

    def _login(self, data: bytes) -> list[Event]:
        if self._server is None:
            if not data:
                return []
            if data[0] == _STRICT_MESSAGE:
                return self._without_login(data)
            if data[0] != START:
                raise _stranger(data)
            if PLAIN not in self._transports:
                message = "This server takes connections without SASL only: connect with auth=noSasl."
                raise WireError(message, refusal(message))
            self._server = PlainServer(self._limits.login_bytes_max)
        login = self._server.receive(data)
        if login is None:
            return []
        self._frames = FrameReader(self._limits.request_bytes_max)
        self._known = True
        self._hold(self._server.rest)
        self._server = None
        return [login]

    def _without_login(self, data: bytes) -> list[Event]:
        if NOSASL not in self._transports:
            # The client waits for a reply to its first call, and can be told by one if the call's head is
            # here.
            message = "This server asks for a login: connect without auth=noSasl, with user and password."
            raise WireError(message, _told(data, message))
        self._known = self._ready = True
        self._requests.limit(min(self._limits.new_bytes_max, self._limits.request_bytes_max))
        return [Login("", "", NOSASL), *self._messages(data)]

    def _hold(self, data: bytes) -> None:
        if len(self._held) + len(data) > self._limits.buffer_bytes_max:
            raise WireError("the client sends much before its login is answered")
        self._held += data

    def _messages(self, data: bytes) -> list[Event]:
        requests = self._requests
        if self._held:
            data, self._held = self._held + data, b""
        frames = self._frames
        try:
            if frames is None:
                return requests.feed(data)
            if len(data) - HEADER_BYTES == int.from_bytes(data[:HEADER_BYTES], "big") and frames.at_border:
                return requests.feed(data[HEADER_BYTES:])
            # At once: a client may send a message in frames of one byte.
            return requests.feed(b"".join(piece for piece, _ in frames.feed(data)))
        except WireError as error:
            answer = requests.answer_to_current(str(error))
            raise WireError(str(error), self.send(answer) if answer else b"") from None


class RequestReader:
    """Requests out of a stream of payload bytes, wherever the pieces are cut."""

    __slots__ = ("_bytes_max", "_parts", "_scanner", "_shapes", "_values_max")

    def __init__(self, limits: WireLimits) -> None:
        self._bytes_max = limits.request_bytes_max
        self._values_max = limits.values_max
        self._scanner = self._new_scanner()
        self._parts = bytearray()
        self._shapes = Shapes()

    def _new_scanner(self) -> MessageScanner:
        return MessageScanner(self._bytes_max, self._values_max, texts_only=True)

    def limit(self, bytes_max: int) -> None:
        """How long the requests may be that begin from here on."""
        self._bytes_max = bytes_max
        if self.at_border:
            self._scanner = self._new_scanner()

    @property
    def at_border(self) -> bool:
        return not self._parts

    def feed(self, data: bytes) -> list[Event]:
        if not self._parts and len(data) <= self._bytes_max and self._shapes.know(data):
            return [data]
        events: list[Event] = []
        start = 0
        while start < len(data):
            end = self._scanner.feed(data, start)
            if end is None:
                self._parts += data[start:]
                break
            request = data[start:end]
            if self._parts:
                request = bytes(self._parts + request)
                self._parts = bytearray()
            self._finish(request)
            events.append(request)
            start = end
        return events

    def answer_to_current(self, message: str) -> bytes:
        """An exception for the request that is being read, if its head is known."""
        return _told(self._scanner.head, message)

    def _finish(self, request: bytes) -> None:
        if request[3] != CALL:
            raise WireError("a client sends calls, not replies")
        self._scanner = self._new_scanner()
        self._shapes.learn(request)


class UpstreamConnection:
    """An `UpstreamEnd` of the binary transport.

    With SASL a streamed reply ends with its frame: a Java server writes one reply as one frame. Without SASL there are
    no borders, so its values are walked.
    """

    usable = True

    def __init__(self, login: Login, limits: WireLimits) -> None:
        self.framed = login.mechanism == PLAIN
        self._limits = limits
        self._client = PlainClient(login, limits.login_bytes_max) if self.framed else None
        self._frames = FrameReader(UPSTREAM_FRAME_BYTES_MAX)
        self._scanner = MessageScanner(UPSTREAM_FRAME_BYTES_MAX)
        self._shapes = Shapes()
        self._parts = bytearray()

    def login(self) -> bytes:
        """The handshake; nothing without SASL."""
        return self._client.start() if self._client else b""

    def receive_login(self, data: bytes) -> bool:
        """True when Spark has accepted. Raises `LoginRefused` with Spark's text, or `WireError`."""
        if self._client is None:
            raise WireError("the upstream server speaks before it was asked")
        if not self._client.receive(data):
            return False
        if self._client.rest:
            raise WireError("the upstream server speaks before it was asked")
        return True

    def send(self, payload: bytes) -> bytes:
        """One request as it goes to Spark; its reply is read from here on."""
        self._scanner = MessageScanner(UPSTREAM_FRAME_BYTES_MAX)
        self._parts = bytearray()
        return frame(payload) if self.framed else payload

    def relay(self, data: bytes, to_frames: bool) -> tuple[bytes, bool]:
        """Reply bytes as they go to the client, and whether the reply ends with them.

        Between two SASL connections frames pass as they are. Raises `WireError` for bytes behind the reply's
        end.
        """
        if not self.framed:
            end = self._scanner.feed(data)
            if end is not None and end != len(data):
                raise WireError("the upstream server sent bytes behind its reply")
            return (frame(data) if to_frames else data), end is not None
        if to_frames:
            return data, self._frames.skip(data) > 0
        pieces = self._frames.feed(data)
        ended = any(end for _, end in pieces)
        return (pieces[0][0] if len(pieces) == 1 else b"".join(piece for piece, _ in pieces)), ended

    def collect(self, data: bytes) -> bytes | None:
        """The whole reply when it is there. Raises `WireError` beyond `reply_bytes_max` or for bytes behind
        the reply.
        """
        pieces = [piece for piece, _ in self._frames.feed(data)] if self.framed else [data]
        if len(pieces) == 1 and not self._parts and self._shapes.know(pieces[0]):
            return pieces[0]
        ended = False
        for piece in pieces:
            if ended:
                raise WireError("the upstream server sent bytes behind its reply")
            end = self._scanner.feed(piece)
            ended = end is not None
            if ended and end != len(piece):
                raise WireError("the upstream server sent bytes behind its reply")
            self._parts += piece
            if len(self._parts) > self._limits.reply_bytes_max:
                raise WireError(f"a reply is beyond the limit of {self._limits.reply_bytes_max} bytes")
        if not ended:
            return None
        reply = bytes(self._parts)
        self._shapes.learn(reply)
        return reply

    def late(self, data: bytes, to_frames: bool) -> bytes:
        """More frames: a message may be spread over several."""
        if not self.framed:
            raise WireError("Spark sent bytes that answer no request")
        return self.relay(data, to_frames)[0]


def _stranger(data: bytes) -> WireError:
    """The error for a peer that speaks another protocol, naming it."""
    if data[0] == _TLS_HANDSHAKE:
        return WireError("this looks like TLS: the port speaks HiveServer2's binary protocol without TLS")
    if 0x41 <= data[0] <= 0x5A:
        message = "This looks like HTTP: the port speaks HiveServer2's protocol with transportMode=binary."
        body = message.encode() + b"\n"
        head = f"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\n"
        return WireError(message, head.encode() + b"Connection: close\r\n\r\n" + body)
    return WireError("the first byte is neither SASL's nor a Thrift message's: this is no HiveServer2 client")


def _told(request: bytes, message: str) -> bytes:
    """An exception that answers the request; nothing where its head is not whole or not readable."""
    try:
        head = peek(request + b"\0")
    except WireError:
        return b""
    return exception(head.name, head.seqid, message)
