"""Both ends of the gateway without I/O: bytes in, events out; requests in, bytes out.

A `ClientEnd` is the server's end of a client's connection, an `UpstreamEnd` the client's end of the connection to
Spark. `ClientConnection` and `UpstreamConnection` implement the binary transport; `http_connection` implements HTTP.
Partially received messages are kept only here.
"""

from __future__ import annotations

from collections.abc import Collection
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
from gateway.wire.gssapi import ClientContext, GssapiClient, Layer, LayerServer, Seal
from gateway.wire.message import peek
from gateway.wire.reply import exception
from gateway.wire.sasl import (
    COMPLETE,
    GSSAPI,
    PLAIN,
    START,
    Exchange,
    Login,
    PlainClient,
    SaslServer,
    negotiation,
    refusal,
)
from gateway.wire.scanner import CALL, MessageScanner
from gateway.wire.shapes import Shapes

NOSASL = "NOSASL"


@dataclass(frozen=True, slots=True)
class DirectReply:
    """Bytes for the client that do not answer a request for Spark."""

    payload: bytes


@dataclass(frozen=True, slots=True)
class Sealed:
    """Both sides protect their frames from here on. `rest`: protected bytes that have already come."""

    seal: Seal
    rest: bytes


Event = Login | bytes | DirectReply | Sealed
"""`Login`: the client has identified itself. `bytes`: one whole request."""

_STRICT_MESSAGE = 0x80
_TLS_HANDSHAKE = 0x16
_AGAIN_BYTES_MAX = 512
"""Longest request that is remembered so that a repetition is recognized. A status call has about 110 bytes."""


class ClientEnd(Protocol):
    """Reads a client: first its login, then its requests.

    After a `Login` with a mechanism other than NOSASL, no request is returned until `accept_login` was called. Under
    NOSASL no request longer than `new_bytes_max` is accepted until then. After `accept_login`, call `receive(b"")` for
    what the client has sent meanwhile; call it again after each complete reply while requests are `pending`.

    Whatever a client sends, methods raise nothing but `WireError`. After one the connection cannot continue;
    `WireError.answer` is what to send before closing it.
    """

    tied: bool
    """The client belongs to its connection: its login and its sessions end with it."""
    secure: bool
    """TLS protects the client's connection."""
    forwarded_for: str
    """Where the last request comes from according to web proxies; empty if they said nothing."""
    do_as: str
    """In whose name the last request comes according to its URL; empty if it said nothing."""

    @property
    def framed(self) -> bool:
        """Data sent to the client is in SASL frames, so Spark's frames pass unchanged."""
        ...

    @property
    def bound(self) -> bool:
        """Only this gateway can read the connection, because its frames are protected, or may soon be."""
        ...

    @property
    def pending(self) -> bool:
        """Whole requests have been received and not yet returned."""
        ...

    @property
    def partial(self) -> bool:
        """Part of a request has been received."""
        ...

    @property
    def closing(self) -> bool:
        """The connection ends after the last data sent."""
        ...

    def receive(self, data: bytes) -> list[Event]:
        """Returns the events that these bytes complete, in order."""
        ...

    def accept_login(self, identity: Login | None = None) -> bytes:
        """Returns the bytes that tell the client that its login is accepted. `identity`: as whom, if its login did not
        say so."""
        ...

    def resume(self, *, framed: bool) -> None:
        """The client has logged in at another gateway, with SASL if `framed`; its requests follow. Raises WireError if
        clients of this transport log in again."""
        ...

    def refuse_login(self, message: str, *, fault: bool = False) -> bytes:
        """Returns the bytes that tell the client that its login is refused. Close the connection after sending them.

        `fault`: the login may be right, but cannot be checked now.
        """
        ...

    def refuse_connection(self, message: str, data: bytes) -> bytes:
        """Returns the bytes that tell a client that it cannot be served. `data` is what it has sent so far."""
        ...

    def send(self, payload: bytes) -> bytes:
        """Returns one whole reply in the client's encoding."""
        ...

    def on_wire(self, request: bytes, reply: bytes) -> tuple[bytes, bytes] | None:
        """Returns the last request and its whole reply as they were received and are sent.

        None if the bytes alone would not identify the same request when it comes again.
        """
        ...

    def part(self, data: bytes, *, ended: bool) -> bytes:
        """Encodes a piece of a reply, from `UpstreamEnd.relay`, for the client; `ended`: the reply ends with it."""
        ...


class UpstreamEnd(Protocol):
    """The client's end of a connection to Spark: the login, then requests, each followed by its reply, streamed or
    collected."""

    @property
    def framed(self) -> bool:
        """Data from Spark is in SASL frames."""
        ...

    @property
    def usable(self) -> bool:
        """False if Spark closes the connection after the last reply."""
        ...

    def login(self) -> bytes:
        """Returns what to send first; empty if there is no login."""
        ...

    def receive_login(self, data: bytes) -> bool:
        """Returns True once Spark has accepted the login. Raises `LoginRefused` with Spark's text, or `WireError`.
        Otherwise send `more_login`."""
        ...

    @property
    def more_login(self) -> bytes:
        """What the login needs to send next; often nothing."""
        ...

    @property
    def seal(self) -> Seal | None:
        """How frames are protected after the login; None: not at all."""
        ...

    def send(self, payload: bytes) -> bytes:
        """Returns one request in Spark's encoding, and expects its reply."""
        ...

    def relay(self, data: bytes, to_frames: bool) -> tuple[bytes, bool]:
        """Returns reply bytes, framed if asked, and whether the reply ends with them. Raises `WireError`."""
        ...

    def collect(self, data: bytes) -> bytes | None:
        """Returns the whole reply once it is complete. Raises `WireError`, also above `reply_bytes_max`."""
        ...

    def late(self, data: bytes, to_frames: bool) -> bytes:
        """Encodes, for the client, bytes that arrive when no reply is due. They may belong to the last reply if it was
        streamed. Raises `WireError`."""
        ...


class ClientConnection:
    """A `ClientEnd` for the binary transport. The first byte tells SASL (1) from NOSASL (0x80)."""

    tied = True
    secure = False
    forwarded_for = ""
    do_as = ""
    pending = False
    closing = False

    def __init__(
        self, transports: frozenset[str], limits: WireLimits, layers: Collection[Layer] = (Layer.AUTH,)
    ) -> None:
        """`transports`: the mechanisms that clients may use. `layers`: how frames may be protected, with GSSAPI."""
        self._transports = transports
        self._limits = limits
        self._layers = layers
        self._server: SaslServer | None = None
        self._exchange: Exchange | None = None
        self._layer_server: LayerServer | None = None
        self._seal: Seal | None = None
        self._frames: FrameReader | None = None
        self._held = b""
        self._ready = False
        self._known = False
        self._requests = RequestReader(limits)

    @property
    def framed(self) -> bool:
        """The client speaks SASL, so data sent to it is framed."""
        return self._frames is not None

    @property
    def partial(self) -> bool:
        """Part of a request has been received, or of what follows an accepted login."""
        if self._layer_server is not None:
            return True
        return self._ready and not (self._requests.at_border and self._frame_at_border)

    @property
    def _frame_at_border(self) -> bool:
        return self._frames is None or self._frames.at_border

    def receive(self, data: bytes) -> list[Event]:
        """Returns the events that these bytes complete, in order."""
        if self._ready:
            return self._messages(data)
        if self._layer_server is not None:
            return self._agree(self._layer_server, data)
        if self._known:
            self._hold(data)
            return []
        return self._login(data)

    def _agree(self, server: LayerServer, data: bytes) -> list[Event]:
        """Goes on with a handshake whose login was accepted."""
        if self._held:
            data, self._held = self._held + data, b""
        events: list[Event] = []
        while answer := server.receive(data):
            events.append(DirectReply(answer))
            data = b""
        if server.done:
            self._seal, self._layer_server = server.seal, None
            self._ready = True
            events += self._messages(server.rest) if self._seal is None else [Sealed(self._seal, server.rest)]
        return events

    @property
    def bound(self) -> bool:
        """The client is agreeing on how frames are protected, or they are."""
        return self._layer_server is not None or self._seal is not None

    def accept_login(self, identity: Login | None = None) -> bytes:
        """Returns the bytes that accept the login; empty for NOSASL. Requests may have full length from here on."""
        self._requests.limit(self._limits.request_bytes_max)
        if self._exchange is not None:
            self._layer_server, self._exchange = LayerServer(self._exchange, self._layers), None
            return self._layer_server.start()
        self._ready = True
        return negotiation(COMPLETE) if self.framed else b""

    def resume(self, *, framed: bool) -> None:
        """The client has logged in at another gateway, with SASL if `framed`. Its requests follow."""
        self._frames = FrameReader(self._limits.request_bytes_max) if framed else None
        self._known = True
        self.accept_login()

    def refuse_login(self, message: str, *, fault: bool = False) -> bytes:
        """Returns SASL's only refusal. Close the connection after sending it."""
        return refusal(message) if self.framed or self._server else b""

    def refuse_connection(self, message: str, data: bytes) -> bytes:
        """A SASL client reads it as the answer to its login, another client as the answer to its first request."""
        return _exception_reply(data, message) if data[:1] == bytes((_STRICT_MESSAGE,)) else refusal(message)

    def send(self, payload: bytes) -> bytes:
        """Returns one whole reply in the client's encoding."""
        return frame(payload) if self._frames is not None else payload

    def on_wire(self, request: bytes, reply: bytes) -> tuple[bytes, bytes] | None:
        """Returns both in wire format, if nothing of a further request has been received."""
        if self._held or self._seal is not None or self.partial or len(request) > _AGAIN_BYTES_MAX:
            return None
        return self.send(request), self.send(reply)

    def part(self, data: bytes, *, ended: bool) -> bytes:
        """Returns the bytes unchanged: `UpstreamConnection.relay` has framed them if needed."""
        return data

    def _login(self, data: bytes) -> list[Event]:
        if self._server is None:
            if not data:
                return []
            if data[0] == _STRICT_MESSAGE:
                return self._without_login(data)
            if data[0] != START:
                raise _wrong_protocol(data)
            if not {PLAIN, GSSAPI} & self._transports:
                message = "This server accepts only connections without SASL: connect with auth=noSasl."
                raise WireError(message, refusal(message))
            self._server = SaslServer(self._limits.login_bytes_max, self._transports & {PLAIN, GSSAPI})
        login = self._server.receive(data)
        if login is None:
            return []
        self._frames = FrameReader(self._limits.request_bytes_max)
        self._known = True
        self._hold(self._server.rest)
        self._server, self._exchange = None, login.exchange
        return [login]

    def _without_login(self, data: bytes) -> list[Event]:
        if NOSASL not in self._transports:
            # The client waits for a reply to its first call. If the head of that call has arrived, the reply can carry
            # the message.
            message = "This server requires a login: connect with user name and password, without auth=noSasl."
            raise WireError(message, _exception_reply(data, message))
        self._known = self._ready = True
        self._requests.limit(min(self._limits.new_bytes_max, self._limits.request_bytes_max))
        return [Login("", "", NOSASL), *self._messages(data)]

    def _hold(self, data: bytes) -> None:
        if len(self._held) + len(data) > self._limits.buffer_bytes_max:
            raise WireError("the client sent too much data before its login was answered")
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
            # Joined first, because a client may send a message in frames of one byte.
            return requests.feed(b"".join(piece for piece, _ in frames.feed(data)))
        except WireError as error:
            answer = requests.answer_to_current(str(error))
            raise WireError(str(error), self.send(answer) if answer else b"") from None


class RequestReader:
    """Reads requests from a stream of payload bytes, wherever the chunks are cut."""

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
        """Sets the maximum length of requests that begin from here on."""
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
        """Returns an exception for the request that is being read, if its head is known."""
        return _exception_reply(self._scanner.head, message)

    def _finish(self, request: bytes) -> None:
        if request[3] != CALL:
            raise WireError("the client sent a message that is not a call")
        self._scanner = self._new_scanner()
        self._shapes.learn(request)


class UpstreamConnection:
    """An `UpstreamEnd` for the binary transport.

    With SASL, a streamed reply ends with its frame, because a Java server writes one reply as one frame. Without SASL
    there are no frames, so the reply is scanned value by value.
    """

    usable = True

    def __init__(self, login: Login, limits: WireLimits, ticket: ClientContext | None = None) -> None:
        """`ticket`: for a login with GSSAPI."""
        self.framed = login.mechanism != NOSASL
        self._limits = limits
        self._client: PlainClient | GssapiClient | None = None
        if ticket is not None:
            self._client = GssapiClient(ticket)
        elif self.framed:
            self._client = PlainClient(login, limits.login_bytes_max)
        self._frames = FrameReader(UPSTREAM_FRAME_BYTES_MAX)
        self._scanner = MessageScanner(UPSTREAM_FRAME_BYTES_MAX)
        self._shapes = Shapes()
        self._parts = bytearray()

    def login(self) -> bytes:
        """Returns the handshake; empty without SASL."""
        return self._client.start() if self._client else b""

    def receive_login(self, data: bytes) -> bool:
        """Returns True once Spark has accepted the login. Raises `LoginRefused` with Spark's text, or `WireError`."""
        if self._client is None:
            raise WireError("the upstream server sent bytes before the first request")
        if not self._client.receive(data):
            return False
        if self._client.rest:
            raise WireError("the upstream server sent bytes before the first request")
        return True

    @property
    def more_login(self) -> bytes:
        """The handshake goes on with these bytes."""
        return self._client.more if self._client else b""

    @property
    def seal(self) -> Seal | None:
        """How frames are protected after the login."""
        return self._client.seal if self._client else None

    def send(self, payload: bytes) -> bytes:
        """Returns one request in Spark's encoding, and expects its reply."""
        self._scanner = MessageScanner(UPSTREAM_FRAME_BYTES_MAX)
        self._parts = bytearray()
        return frame(payload) if self.framed else payload

    def relay(self, data: bytes, to_frames: bool) -> tuple[bytes, bool]:
        """Returns reply bytes in the client's encoding, and whether the reply ends with them.

        Between two SASL connections frames pass unchanged. Raises `WireError` for bytes after the end of the reply.
        """
        if not self.framed:
            end = self._scanner.feed(data)
            if end is not None and end != len(data):
                raise WireError("the upstream server sent bytes after its reply")
            return (frame(data) if to_frames else data), end is not None
        if to_frames:
            return data, self._frames.skip(data) > 0
        pieces = self._frames.feed(data)
        ended = any(end for _, end in pieces)
        return (pieces[0][0] if len(pieces) == 1 else b"".join(piece for piece, _ in pieces)), ended

    def collect(self, data: bytes) -> bytes | None:
        """Returns the whole reply once it is complete. Raises `WireError` above `reply_bytes_max`, and for bytes after
        the reply."""
        pieces = [piece for piece, _ in self._frames.feed(data)] if self.framed else [data]
        if len(pieces) == 1 and not self._parts and self._shapes.know(pieces[0]):
            return pieces[0]
        ended = False
        for piece in pieces:
            if ended:
                raise WireError("the upstream server sent bytes after its reply")
            end = self._scanner.feed(piece)
            ended = end is not None
            if ended and end != len(piece):
                raise WireError("the upstream server sent bytes after its reply")
            self._parts += piece
            if len(self._parts) > self._limits.reply_bytes_max:
                raise WireError(f"a reply exceeds the limit of {self._limits.reply_bytes_max} bytes")
        if not ended:
            return None
        reply = bytes(self._parts)
        self._shapes.learn(reply)
        return reply

    def late(self, data: bytes, to_frames: bool) -> bytes:
        """Relays further frames: a message may span several."""
        if not self.framed:
            raise WireError("Spark sent bytes without a request")
        return self.relay(data, to_frames)[0]


def _wrong_protocol(data: bytes) -> WireError:
    """Returns the error for a peer that speaks another protocol, naming the protocol."""
    if data[0] == _TLS_HANDSHAKE:
        return WireError("this looks like TLS: this port serves HiveServer2's binary protocol without TLS")
    if 0x41 <= data[0] <= 0x5A:
        message = (
            "This looks like HTTP: this port serves HiveServer2's binary protocol. Connect with transportMode=binary."
        )
        body = message.encode() + b"\n"
        head = f"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\n"
        return WireError(message, head.encode() + b"Connection: close\r\n\r\n" + body)
    return WireError("the first byte is neither SASL nor Thrift: the peer is not a HiveServer2 client")


def _exception_reply(request: bytes, message: str) -> bytes:
    """Returns an exception that answers the request; empty if its head is incomplete or unreadable."""
    try:
        head = peek(request + b"\0")
    except WireError:
        return b""
    return exception(head.name, head.seqid, message)
