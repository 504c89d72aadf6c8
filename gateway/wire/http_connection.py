"""Both ends of the gateway where HiveServer2's messages travel in HTTP: one message is the body of one POST.

HTTP itself is read by httptools (RFC 9112); what HiveServer2's servers and drivers make of it is here: the path, Basic
logins (RFC 7617), the cookie that stands for a login, and one request after the other. No sockets here.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections import deque
from collections.abc import Callable
from http import HTTPStatus
from urllib.parse import unquote_plus

import httptools

from gateway.wire import request
from gateway.wire.connection import Event, RequestReader, Said
from gateway.wire.cookies import NAME as COOKIE
from gateway.wire.cookies import Cookies
from gateway.wire.frame import UPSTREAM_FRAME_BYTES_MAX, WireError, WireLimits, frame
from gateway.wire.sasl import Login, LoginRefused
from gateway.wire.scanner import message_end
from gateway.wire.shapes import Shapes

HTTP = "HTTP"
"""The mechanism of a login by user and password over HTTP."""
COOKIE_LOGIN = "COOKIE"
"""The mechanism of a login whose password was checked when the cookie was given out."""
THRIFT = "application/x-thrift"
HEAD_BYTES_MAX = 64 * 1024
"""Request line and headers. Kerberos tickets of large companies, which pass by here, reach 48 KiB."""
_ALONE_BYTES_MAX = 4096
"""A longer request is not remembered to recognize the next one by. A status call with its head has about 500 bytes."""

_SHORT_BYTES_MAX = 2048
"""A reply up to here may be sent on before its body has ended. To look for the end of a longer one takes longer."""

VERSIONS = ("1.0", "1.1")
FORWARDED_FOR = "x-forwarded-for"
KEPT_HEADERS = frozenset({"authorization", "cookie", "expect", "transfer-encoding", FORWARDED_FOR})
_JOINED = {"cookie": "; ", FORWARDED_FOR: ", "}
"""Headers that may come several times, and what stands between their values when they are made one."""
REQUESTS_AHEAD_MAX = 64
"""Requests that may be sent before the replies to those before have come. No known client sends even one."""

_COOKIE_TEXT = re.compile(rf"(?:^|;)\s*{re.escape(COOKIE)}=([^;]*)")
_DO_AS = re.compile(r"(?:^|&)doas=", re.IGNORECASE)


class _Message:
    """One HTTP request as it is read."""

    __slots__ = ("body", "headers", "keep_alive", "method", "passed", "unread", "url", "version")

    def __init__(self) -> None:
        self.method = ""
        self.url = b""
        self.version = "1.1"
        self.keep_alive = True
        self.headers: dict[str, str] = {}
        self.body = bytearray()
        self.passed = 0
        """Bytes of the body so far."""
        self.unread = False
        """It will be refused whatever its body says, which is not kept."""

    @property
    def size(self) -> int:
        """Bytes that are kept of it."""
        return len(self.body) + len(self.url) + sum(map(len, self.headers.values()))

    @property
    def authorization(self) -> str:
        return self.headers.get("authorization", "")

    @property
    def cookie(self) -> str:
        found = _COOKIE_TEXT.search(self.headers.get("cookie", ""))
        return found[1].strip().strip('"') if found else ""


class _Requests:
    """What httptools calls: requests in the order in which they were complete.

    `body_bytes_max` says, of a request whose head has come, how long its body may be.
    """

    def __init__(self, body_bytes_max: Callable[[_Message], int]) -> None:
        self.done: deque[_Message] = deque()
        self.current: _Message | None = None
        self._in_head = False
        self._body_bytes_max = body_bytes_max
        self._bytes_max = 0
        self._parser = httptools.HttpRequestParser(self)
        self._header_bytes = 0
        self._overhead = 0  # Bytes of the current request that are not its body, those of the last piece aside.
        self._over = False  # The client has said that no further request comes.

    @property
    def at_border(self) -> bool:
        """Nothing has come that was not given out."""
        return self.current is None and not self.done

    def take_expectation(self) -> bool:
        """The client waits with the body until it is told that it is welcome; True once for a request.

        HTTP 1.0 knows no such answer, and would take it for the reply (RFC 9110, 10.1.1).
        """
        message = self.current
        if message is None or self._in_head or message.passed or message.version == "1.0":
            return False
        return message.headers.pop("expect", "").lower() == "100-continue"

    def feed(self, data: bytes) -> None:
        """Raises WireError, whose answer says why, for what is not HTTP or beyond the limits."""
        if self._over:
            return
        before, had = self.current, self.current.passed if self.current else 0
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserCallbackError as error:
            cause = error.__context__
            raise cause if isinstance(cause, WireError) else WireError(str(error)) from None
        except httptools.HttpParserUpgrade:
            # To go on with HTTP 1.1 would be right too (RFC 9110, 7.8), but the parser passes over the body.
            raise _bad("Here is HTTP 1.1 only: do not ask for another protocol (Upgrade).") from None
        except httptools.HttpParserError as error:
            if self._over:
                return  # What comes behind the last request, whose reply is due, does not count.
            raise _bad(f"This is no HTTP request for HiveServer2: {error}.") from None
        self._count(before, had, len(data))
        if len(self.done) > REQUESTS_AHEAD_MAX:
            raise _bad("the client sends many requests before it has read its replies")

    def _count(self, before: _Message | None, had: int, fed: int) -> None:
        """A parser keeps what is not finished: endless headers, trailers and extensions of chunks."""
        if self.current is None or self.current is not before:
            self._overhead = 0
            return
        self._overhead += fed - (self.current.passed - had)
        # Small chunks have some bytes of their own.
        if self._overhead > HEAD_BYTES_MAX + self.current.passed:
            raise _too_long_head()

    def on_message_begin(self) -> None:
        self.current = _Message()
        self._in_head = True
        self._header_bytes = 0

    def on_url(self, url: bytes) -> None:
        assert self.current is not None
        self.current.url += url
        if len(self.current.url) > HEAD_BYTES_MAX:
            raise _too_long_head()

    def on_header(self, name: bytes, value: bytes) -> None:
        assert self.current is not None
        headers = self.current.headers
        if not self._in_head:
            return  # A trailer, behind the body.
        self._header_bytes += len(name) + len(value)
        if self._header_bytes > HEAD_BYTES_MAX:
            raise _too_long_head()
        key, text = name.decode("latin-1").lower(), value.decode("latin-1").strip()
        if key == "authorization" and key in headers:
            raise _bad("A request can carry one Authorization header only.")
        if key in KEPT_HEADERS:
            headers[key] = f"{headers[key]}{_JOINED[key]}{text}" if key in _JOINED and key in headers else text

    def on_headers_complete(self) -> None:
        message = self.current
        assert message is not None
        self._in_head = False
        message.method = self._parser.get_method().decode("latin-1")
        message.version = self._parser.get_http_version()
        if message.version not in VERSIONS:
            text = "Here is HTTP 1.1 only."
            raise WireError(text, refusal(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, text))
        message.keep_alive = self._parser.should_keep_alive()
        if message.version == "1.0" and "transfer-encoding" in message.headers:
            # A proxy that knows HTTP 1.0 only may have seen the request's end elsewhere (RFC 9112, 6.1).
            message.keep_alive = False
        self._bytes_max = self._body_bytes_max(message)

    def on_body(self, body: bytes) -> None:
        assert self.current is not None
        self.current.passed += len(body)
        if not self.current.unread:
            self.current.body += body
        if self.current.passed > self._bytes_max:
            text = f"a request is beyond the limit of {self._bytes_max} bytes"
            raise WireError(text, refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, text))

    def on_message_complete(self) -> None:
        assert self.current is not None
        self.done.append(self.current)
        self._over = not self.current.keep_alive
        self.current = None


def _bad(message: str) -> WireError:
    return WireError(message, refusal(HTTPStatus.BAD_REQUEST, message))


def _too_long_head() -> WireError:
    text = f"the headers of a request are beyond the limit of {HEAD_BYTES_MAX} bytes"
    return WireError(text, refusal(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, text))


class HttpClientConnection:
    """The server's end of a client's HTTP connection; a `wire.connection.ClientEnd`.

    Each request says who sends it, for a proxy in between may send those of several users over one connection: a
    request with other credentials than the last one's comes as a `Login` of its own, with the request behind it when
    `accept_login` was sent. Requests are given out one at a time, the next one when the reply is complete.
    """

    framed = False

    def __init__(self, limits: WireLimits, cookies: Cookies, path: str, *, secure: bool) -> None:
        self._limits = limits
        self._cookies = cookies
        self._path = path
        self._secure = secure
        self._requests = _Requests(self._body_bytes_max)
        self._reader = RequestReader(limits)
        self._accepted: tuple[str, str] | None = None  # The header and cookie of the last accepted login.
        self._asked: tuple[str, str] | None = None
        self._login: Login | None = None
        self._held: bytes | None = None  # The request whose login is being checked.
        self._current: _Message | None = None  # The request whose reply is due.
        self._answered = ""  # The version of HTTP of the last request that was answered.
        self._alone = b""  # The last request, head included, where it came in one piece by itself.
        self._new_cookie = ""
        self._begun = False  # The reply's head was sent.
        self.closing = False
        self.forwarded_for = ""

    @property
    def pending(self) -> bool:
        """There are requests that were read and not given out."""
        return bool(self._requests.done) or self._held is not None

    @property
    def partial(self) -> bool:
        """A part of a request has come, the rest has not."""
        return self._requests.current is not None

    def receive(self, data: bytes) -> list[Event]:
        """The next request, if it is complete and the one before it was answered. Raises WireError."""
        if data:
            starts = self._requests.at_border
            self._requests.feed(data)
            short = len(data) <= _ALONE_BYTES_MAX and len(self._requests.done) == 1
            self._alone = data if short and starts and not self.partial else b""
        if self._login is not None:
            return self._waiting(data)
        if data and self._current is None and not self.pending and self._requests.take_expectation():
            return [Said(b"HTTP/1.1 100 Continue\r\n\r\n")]
        if self._held is not None:
            payload, self._held = self._held, None
            return [payload]
        events: list[Event] = []
        while self._requests.done and self._current is None and not self.closing:
            events += self._take(self._requests.done.popleft())
        return events or self._waiting(data)

    def _waiting(self, data: bytes) -> list[Event]:
        ahead = sum(each.size for each in self._requests.done)
        if data and ahead > self._limits.buffer_bytes_max:
            raise WireError("the client sends much before it has read its replies")
        return []

    def _body_bytes_max(self, message: _Message) -> int:
        """Long bodies are taken from those only who have logged in before: here, or on another connection."""
        if self._is_known(*_credentials(message)):
            return self._limits.request_bytes_max
        if not message.authorization:
            # A cookie that is too old, mostly: its client logs in and sends all this again once it has read so.
            message.unread = True
            return self._limits.request_bytes_max
        return min(self._limits.new_bytes_max, self._limits.request_bytes_max)

    def _is_known(self, authorization: str, cookie: str) -> bool:
        if authorization:
            return (authorization, cookie) == self._accepted or self._cookies.was_accepted(authorization)
        return bool(cookie) and self._cookies.find(cookie) is not None

    def _take(self, message: _Message) -> list[Event]:
        self._current, self._begun = message, False
        self.forwarded_for = message.headers.get(FORWARDED_FOR, "")
        problem = self._refused(message)
        if problem is not None:
            return self._said(*problem)
        credentials = _credentials(message)
        if credentials == self._accepted and self._is_known(*credentials):
            return [self._payload(message)]
        login = None if message.unread else self._named(*credentials)
        if login is None:
            text = "Authentication Error: user and password are missing, or the cookie is too old."
            return self._said(HTTPStatus.UNAUTHORIZED, text, _CHALLENGE)
        self._asked, self._login, self._held = credentials, login, self._payload(message)
        return [login]

    def _refused(self, message: _Message) -> tuple[HTTPStatus, str, str] | None:
        """What to say to a request that is no message of HiveServer2's; None for one that may be."""
        try:
            url = httptools.parse_url(bytes(message.url))
        except httptools.HttpParserInvalidURLError:
            return HTTPStatus.BAD_REQUEST, "This is no URL.", ""
        if (url.path or b"/").decode("latin-1").rstrip("/") != self._path:
            return HTTPStatus.NOT_FOUND, f"Nothing is here; HiveServer2's messages go to {self._path}.", ""
        if message.method != "POST":
            return HTTPStatus.METHOD_NOT_ALLOWED, "Send HiveServer2's messages with POST.", "Allow: POST"
        if _DO_AS.search(unquote_plus((url.query or b"").decode("latin-1"))):
            return HTTPStatus.FORBIDDEN, "doAs is not supported: log in as the user himself.", ""
        return None

    def _payload(self, message: _Message) -> bytes:
        """The one Thrift message of a body."""
        body, message.body = bytes(message.body), bytearray()
        try:
            events = self._reader.feed(body)
        except WireError as error:
            raise _bad(str(error)) from None
        if len(events) != 1 or not isinstance(events[0], bytes) or not self._reader.at_border:
            raise _bad("the body of a request must be one Thrift message")
        return events[0]

    def _named(self, authorization: str, cookie: str) -> Login | None:
        """Who sends the request; None where that is not said in a way that can be read."""
        if not authorization:
            known = self._cookies.find(cookie) if cookie else None
            return Login(known.user, known.password, COOKIE_LOGIN) if known else None
        scheme, _, text = authorization.partition(" ")
        if scheme.lower() != "basic":
            return None
        try:
            user, colon, password = base64.b64decode(text.strip(), validate=True).decode().partition(":")
        except (binascii.Error, ValueError):
            return None
        return Login(user, password, HTTP) if colon and user else None

    # --- replies -----------------------------------------------------------------------------------------

    def accept_login(self) -> bytes:
        """Nothing is sent: the reply itself says it. `receive(b"")` gives the request out."""
        assert self._login is not None
        if self._login.mechanism == HTTP and self._asked is not None:
            self._cookies.accept(self._asked[0])
            self._new_cookie = self._cookies.issue(self._login)
        self._accepted, self._login = self._asked, None
        return b""

    def refuse_login(self, message: str, *, fault: bool = False) -> bytes:
        """The answer 401, upon which clients ask for another password; 503 for a `fault`."""
        if fault:
            return refusal(HTTPStatus.SERVICE_UNAVAILABLE, message)
        if self._login is None and self._current is None:
            return refusal(HTTPStatus.REQUEST_TIMEOUT, message)
        return refusal(HTTPStatus.UNAUTHORIZED, f"Authentication Error: {message}", _CHALLENGE)

    def refuse_connection(self, message: str, data: bytes) -> bytes:
        """What the client reads as the answer to its first request."""
        return refusal(HTTPStatus.SERVICE_UNAVAILABLE, message)

    def send(self, payload: bytes) -> bytes:
        """A whole reply."""
        return self.part(payload, ended=True)

    def on_wire(self, request: bytes, reply: bytes) -> tuple[bytes, bytes] | None:
        """The request with its head, if they came as one piece that said nothing else, and the reply with its own."""
        if self.pending or self.partial or self.closing or not self._alone or not self._alone.endswith(request):
            return None
        return self._alone, self._head(self._answered, f"Content-Length: {len(reply)}", keep_alive=True) + reply

    def part(self, data: bytes, *, ended: bool) -> bytes:
        """The next piece of a reply; `ended` with the last one. One that comes at once is sent with its length."""
        message = self._current
        if message is None:
            raise WireError("a reply to no request")
        chunked = message.version != "1.0"
        if not self._begun:
            self._begun = True
            if ended:
                head = self._head(message.version, f"Content-Length: {len(data)}", keep_alive=message.keep_alive)
                self._finish(message)
                return head + data
            # HTTP 1.0 knows no chunks: the end of the connection is the end of the reply.
            message.keep_alive = message.keep_alive and chunked
            length = "Transfer-Encoding: chunked" if chunked else ""
            return self._head(message.version, length, keep_alive=message.keep_alive) + _piece(data, chunked)
        if ended:
            self._finish(message)
            return _piece(data, chunked) + (b"0\r\n\r\n" if chunked else b"")
        return _piece(data, chunked)

    def _head(self, version: str, length: str, *, keep_alive: bool) -> bytes:
        lines = ["HTTP/1.1 200 OK", f"Content-Type: {THRIFT}"]
        if length:
            lines.append(length)
        if self._new_cookie:
            secure = "; Secure" if self._secure else ""
            age = f"Max-Age={self._cookies.seconds:.0f}"
            lines.append(f"Set-Cookie: {COOKIE}={self._new_cookie}; Path=/; {age}; HttpOnly{secure}")
            self._new_cookie = ""
        if not keep_alive:
            lines.append("Connection: close")
        elif version == "1.0":
            lines.append("Connection: keep-alive")
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")

    def _finish(self, message: _Message) -> None:
        self._current, self._answered = None, message.version
        self.closing = self.closing or not message.keep_alive

    def _said(self, status: HTTPStatus, text: str, header: str) -> list[Event]:
        message = self._current
        assert message is not None
        if message.method == "HEAD":
            message.keep_alive = False  # Its body, which a client does not expect, must not be read as the next reply.
        self._finish(message)
        headers = [each for each in (header, "" if message.keep_alive else "Connection: close") if each]
        return [Said(_response(status, text, headers))]


_CHALLENGE = 'WWW-Authenticate: Basic realm="HiveServer2"'


def refusal(status: HTTPStatus, text: str, *headers: str) -> bytes:
    """A whole answer with which the connection ends."""
    return _response(status, text, [*headers, "Connection: close"])


def _response(status: HTTPStatus, text: str, headers: list[str]) -> bytes:
    body = text.encode("utf-8", "replace") + b"\n"
    lines = [f"HTTP/1.1 {status.value} {status.phrase}", "Content-Type: text/plain; charset=utf-8", *headers]
    return ("\r\n".join([*lines, f"Content-Length: {len(body)}"]) + "\r\n\r\n").encode("latin-1") + body


def _credentials(message: _Message) -> tuple[str, str]:
    """What says who sends a request: a cookie counts only without user and password."""
    return message.authorization, "" if message.authorization else message.cookie


def _piece(data: bytes, chunked: bool) -> bytes:
    if not chunked or not data:
        return data
    return b"%x\r\n%b\r\n" % (len(data), data)


class _Responses:
    """What httptools calls while Spark's answers are read, one after the other."""

    def __init__(self) -> None:
        self.keep_alive = True
        """The connection can be used again behind the last answer that has ended."""
        self.stays = True
        """It can be used behind the answer that is being read, as its head has it."""
        self._body: list[bytes] = []
        self._parser = httptools.HttpResponseParser(self)
        # How many requests went out, how many answers have begun and ended, and for how many the reply was given out.
        self._asked = self._begun = self._ended = self._given = 0
        self._excess = False

    def expect(self) -> None:
        """A request goes out: its answer comes behind what is left of the one before."""
        self._asked += 1

    def give(self) -> None:
        """The reply in the answer was given out, so nothing may come of it but the answer's end."""
        self._given = self._asked

    @property
    def ended(self) -> bool:
        """The answer to the last request has come to its end."""
        return self._ended == self._asked

    @property
    def status(self) -> int:
        """Of the answer to the last request; 0 before it has begun."""
        return int(self._parser.get_status_code()) if self._begun == self._asked else 0

    def on_message_begin(self) -> None:
        self._begun += 1

    def on_headers_complete(self) -> None:
        self.stays = self._parser.should_keep_alive()

    def on_body(self, body: bytes) -> None:
        self._excess = self._excess or self._begun <= self._given
        self._body.append(body)

    def on_message_complete(self) -> None:
        self._ended += 1
        self.keep_alive = self._parser.should_keep_alive()

    def feed(self, data: bytes) -> bytes:
        """What of the last request's reply is in `data`. Raises WireError."""
        if self.ended:
            if data.strip(b"\r\n"):
                raise _behind()
            return b""  # Empty lines behind an answer mean nothing: the parser skips those that come with it, too.
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            raise WireError(f"the upstream server's answer is not HTTP: {error}") from None
        if self._begun > self._asked or self._excess:
            raise _behind()
        body, self._body = b"".join(self._body), []
        return body


def _behind() -> WireError:
    return WireError("the upstream server sent bytes behind its reply")


class CallRefused(WireError):
    """The server does not take the login that a call carries; the text is the server's."""


class HttpUpstreamConnection:
    """The client's end towards a Thrift server in HTTP mode; a `wire.connection.UpstreamEnd`.

    `early`: a short reply is given out when it is whole; the end of its body goes to `late`, or to whoever reads the
    next reply. Who uses it must hear of the connection's end though that is there unread.
    """

    framed = False

    def __init__(self, login: Login, limits: WireLimits, host: str, path: str, *, early: bool) -> None:
        if ":" in login.user:
            raise LoginRefused("A user name cannot contain a colon where Spark speaks HTTP.")
        names = base64.b64encode(f"{login.user}:{login.password}".encode()).decode("ascii")
        lines = [
            f"POST {path} HTTP/1.1",
            f"Host: {host}",
            f"Content-Type: {THRIFT}",
            f"Accept: {THRIFT}",
            f"Authorization: Basic {names}",
            # Spark refuses calls without it where its filter against forged requests is on.
            "X-XSRF-HEADER: true",
            "Content-Length: ",
        ]
        self._head = "\r\n".join(lines).encode("latin-1")
        self._limits = limits
        self._early = early
        self._responses = _Responses()
        self._shapes = Shapes()
        self._parts = bytearray()
        self._passed = False  # Something of the reply was given out.

    @property
    def usable(self) -> bool:
        """False when the server ends the connection behind its reply."""
        return self._responses.keep_alive

    def login(self) -> bytes:
        """HTTP has no login of its own: a call that does nothing shows whether the names are accepted."""
        return self.send(request.unknown())

    def receive_login(self, data: bytes) -> bool:
        """True when Spark has accepted. Raises `LoginRefused`, or `WireError`."""
        self._parts += self._responses.feed(data)
        if len(self._parts) > self._limits.reply_bytes_max:
            raise WireError("the upstream server's answer to the login is too long")
        if not self._responses.ended:
            return False
        try:
            self._check()
        except CallRefused as error:
            raise LoginRefused(str(error)) from None
        return True

    def _check(self) -> None:
        if self._responses.status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            text = bytes(self._parts[:200]).decode("utf-8", "replace").strip()
            raise CallRefused(text or "The server refused user and password.")
        if self._responses.status != HTTPStatus.OK:
            raise WireError(f"the upstream server answered with HTTP status {self._responses.status}")

    def send(self, payload: bytes) -> bytes:
        """One request as it goes to Spark; its reply is read from here on."""
        self._responses.expect()
        self._parts = bytearray()
        self._passed = False
        return self._head + str(len(payload)).encode("ascii") + b"\r\n\r\n" + payload

    def relay(self, data: bytes, to_frames: bool) -> tuple[bytes, bool]:
        """Reply bytes as they go to the client, and whether the reply ends with them. Raises `WireError`."""
        body = self._responses.feed(data)
        if body or self._responses.ended:
            self._check()
        ended = self._responses.ended or (not self._passed and self._is_whole(body))
        self._passed = self._passed or bool(body)
        return (frame(body) if to_frames and body else body), ended

    def collect(self, data: bytes) -> bytes | None:
        """The whole reply when it is there. Raises `WireError`, also beyond `reply_bytes_max`."""
        self._parts += self._responses.feed(data)
        if len(self._parts) > min(self._limits.reply_bytes_max, UPSTREAM_FRAME_BYTES_MAX):
            raise WireError(f"a reply is beyond the limit of {self._limits.reply_bytes_max} bytes")
        if not self._responses.ended and not self._is_whole(self._parts):
            return None
        self._check()
        return bytes(self._parts)

    def late(self, data: bytes, to_frames: bool) -> bytes:
        """Of a reply that was given out whole the end of its body comes late, and nothing else."""
        return self._responses.feed(data)

    def _is_whole(self, body: bytes | bytearray) -> bool:
        """Whether this is all of a reply though its body has not ended: a web server sends the end of a body in chunks
        by itself, a tenth of a millisecond later. (The next request may go out before that has come.)"""
        responses = self._responses
        if not self._early or not 0 < len(body) <= _SHORT_BYTES_MAX:
            return False
        if responses.status != HTTPStatus.OK or not responses.stays:
            return False
        reply = bytes(body)
        if not self._shapes.know(reply):
            try:
                if message_end(reply, _SHORT_BYTES_MAX) != len(reply):
                    return False
            except WireError:
                return False  # Whatever it is, it ends with its body.
            self._shapes.learn(reply)
        responses.give()
        return True
