"""Both ends of the gateway for HiveServer2 over HTTP: each message is the body of one POST. No I/O.

httptools reads HTTP itself (RFC 9112). This module implements what HiveServer2's servers and drivers make of it: the
path, Basic logins (RFC 7617), bearer tokens (RFC 6750), tickets of Kerberos (RFC 4559), the cookie that replaces a
login, and one request after the other.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from http import HTTPStatus
from urllib.parse import parse_qsl

import httptools

from gateway.wire import request
from gateway.wire.connection import DirectReply, Event, RequestReader
from gateway.wire.cookies import NAME as COOKIE
from gateway.wire.cookies import Cookies
from gateway.wire.frame import UPSTREAM_FRAME_BYTES_MAX, WireError, WireLimits, frame
from gateway.wire.sasl import Exchange, Login, LoginRefused
from gateway.wire.scanner import message_end
from gateway.wire.shapes import Shapes

HTTP = "HTTP"
"""The mechanism of a login with user name and password over HTTP."""
BEARER = "BEARER"
"""The mechanism of a login by a token, which stands in the place of the password: whom it names is not known yet."""
NEGOTIATE = "NEGOTIATE"
"""The mechanism of a login by a ticket of Kerberos."""
COOKIE_LOGIN = "COOKIE"
"""The mechanism of a login that was checked when the cookie was issued."""
THRIFT = "application/x-thrift"
HEAD_BYTES_MAX = 64 * 1024
"""Request line and headers. Kerberos tickets of large companies, which may pass here, reach 48 KiB."""
_ALONE_BYTES_MAX = 4096
"""Longest request that is remembered so that a repetition is recognized. A status call with its head has about 500
bytes."""

_SHORT_BYTES_MAX = 2048
"""Longest reply that may be sent on before its body has ended. For a longer one, finding its end costs more than
waiting."""

VERSIONS = ("1.0", "1.1")
FORWARDED_FOR = "x-forwarded-for"
KEPT_HEADERS = frozenset({"authorization", "cookie", "expect", "host", "origin", "transfer-encoding", FORWARDED_FOR})
_JOINED = {"cookie": "; ", FORWARDED_FOR: ", "}
"""Headers that may be repeated, and the separator with which their values are joined."""
_SINGLE = frozenset({"authorization", "host", "origin"})
"""Headers of which a request may have only one: of two, another program on the way may have read the other."""
REQUESTS_AHEAD_MAX = 64
"""Requests that a client may send before it has the replies to the earlier ones. No known client sends even one."""

_COOKIE_TEXT = re.compile(rf"(?:^|;)\s*{re.escape(COOKIE)}=([^;]*)")
_DO_AS = "doas"
"""The parameter of the URL that names another user, in lower case (HiveServer2's ThriftHttpServlet)."""


Admission = Callable[[str | None, str | None], tuple[HTTPStatus, str] | None]


class _Message:
    """One HTTP request while it is read."""

    __slots__ = ("body", "headers", "keep_alive", "method", "passed", "unread", "url", "version")

    def __init__(self) -> None:
        self.method = ""
        self.url = b""
        self.version = "1.1"
        self.keep_alive = True
        self.headers: dict[str, str] = {}
        self.body = bytearray()
        self.passed = 0
        """Bytes of the body that have been received."""
        self.unread = False
        """The request will be refused whatever its body says, so the body is not kept."""

    @property
    def size(self) -> int:
        """Bytes that are buffered for the request."""
        return len(self.body) + len(self.url) + sum(map(len, self.headers.values()))

    @property
    def authorization(self) -> str:
        return self.headers.get("authorization", "")

    @property
    def cookie(self) -> str:
        found = _COOKIE_TEXT.search(self.headers.get("cookie", ""))
        return found[1].strip().strip('"') if found else ""


class _Requests:
    """httptools callbacks: collects requests in the order in which they were completed.

    `body_bytes_max` returns the maximum length of the body of a request whose head is complete.
    """

    def __init__(self, body_bytes_max: Callable[[_Message], int]) -> None:
        self.done: deque[_Message] = deque()
        self.current: _Message | None = None
        self._in_head = False
        self._body_bytes_max = body_bytes_max
        self._bytes_max = 0
        self._parser = httptools.HttpRequestParser(self)
        self._header_bytes = 0
        self._overhead = 0  # Bytes of the current request outside its body, without those of the last piece.
        self._last_seen = False  # The client has announced that no further request comes.

    @property
    def at_border(self) -> bool:
        """Every received request has been returned."""
        return self.current is None and not self.done

    def take_expectation(self) -> bool:
        """Returns True, once per request, if the client waits for permission to send the body.

        HTTP 1.0 has no such interim answer; its clients would take it for the reply (RFC 9110, 10.1.1).
        """
        message = self.current
        if message is None or self._in_head or message.passed or message.version == "1.0":
            return False
        return message.headers.pop("expect", "").lower() == "100-continue"

    def feed(self, data: bytes) -> None:
        """Raises WireError, with an answer that says why, for bytes that are not HTTP or that exceed the limits."""
        if self._last_seen:
            return
        before, had = self.current, self.current.passed if self.current else 0
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserCallbackError as error:
            cause = error.__context__
            raise cause if isinstance(cause, WireError) else WireError(str(error)) from None
        except httptools.HttpParserUpgrade:
            # Continuing with HTTP 1.1 would be correct too (RFC 9110, 7.8), but the parser skips the body.
            raise _bad("This server speaks HTTP 1.1 only: do not send the header Upgrade.") from None
        except httptools.HttpParserError as error:
            if self._last_seen:
                return  # Bytes after the last request, whose reply is due, are ignored.
            raise _bad(f"This is not a valid HTTP request: {error}.") from None
        self._count(before, had, len(data))
        if len(self.done) > REQUESTS_AHEAD_MAX:
            raise _bad("the client sent too many requests before it read the replies")

    def _count(self, before: _Message | None, had: int, fed: int) -> None:
        """Limits what the parser buffers of an incomplete request: endless headers, trailers and chunk extensions."""
        if self.current is None or self.current is not before:
            self._overhead = 0
            return
        self._overhead += fed - (self.current.passed - had)
        # Each small chunk adds a few bytes of overhead.
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
            return  # A trailer, after the body.
        self._header_bytes += len(name) + len(value)
        if self._header_bytes > HEAD_BYTES_MAX:
            raise _too_long_head()
        key, text = name.decode("latin-1").lower(), value.decode("latin-1").strip()
        if key in _SINGLE and key in headers:
            raise _bad(f"A request may have only one {key.capitalize()} header.")
        if key in KEPT_HEADERS:
            headers[key] = f"{headers[key]}{_JOINED[key]}{text}" if key in _JOINED and key in headers else text

    def on_headers_complete(self) -> None:
        message = self.current
        assert message is not None
        self._in_head = False
        message.method = self._parser.get_method().decode("latin-1")
        message.version = self._parser.get_http_version()
        if message.version not in VERSIONS:
            text = "This server speaks HTTP 1.1 only."
            raise WireError(text, refusal(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, text))
        message.keep_alive = self._parser.should_keep_alive()
        if message.version == "1.0" and "transfer-encoding" in message.headers:
            # A proxy that knows only HTTP 1.0 may have seen the end of the request elsewhere (RFC 9112, 6.1).
            message.keep_alive = False
        self._bytes_max = self._body_bytes_max(message)

    def on_body(self, body: bytes) -> None:
        assert self.current is not None
        self.current.passed += len(body)
        if not self.current.unread:
            self.current.body += body
        if self.current.passed > self._bytes_max:
            text = f"a request exceeds the limit of {self._bytes_max} bytes"
            raise WireError(text, refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, text))

    def on_message_complete(self) -> None:
        assert self.current is not None
        self.done.append(self.current)
        self._last_seen = not self.current.keep_alive
        self.current = None


def _bad(message: str) -> WireError:
    return WireError(message, refusal(HTTPStatus.BAD_REQUEST, message))


def _too_long_head() -> WireError:
    text = f"the headers of a request exceed the limit of {HEAD_BYTES_MAX} bytes"
    return WireError(text, refusal(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, text))


class HttpClientConnection:
    """The server's end of a client's HTTP connection; a `wire.connection.ClientEnd`.

    Each request carries credentials, because a proxy may send requests of several users over one connection. A request
    with other credentials than the previous one is preceded by a `Login`, and is returned once `accept_login` was
    called. Requests are returned one at a time, the next one when the reply is complete.
    """

    framed = tied = bound = False

    def __init__(
        self,
        limits: WireLimits,
        cookies: Cookies,
        *,
        secure: bool,
        admission: Admission = lambda *_: None,
        tickets: bool = False,
    ) -> None:
        """`admission` says how a request with these headers `Host` and `Origin` is refused; None: it is served.
        `tickets`: whether clients may log in with tickets of Kerberos."""
        self._limits = limits
        self._admission = admission
        self._tickets = tickets
        self._challenges = (_NEGOTIATE, _BASIC) if tickets else (_BASIC,)
        self._cookies = cookies
        self.secure = secure
        self._requests = _Requests(self._body_bytes_max)
        self._reader = RequestReader(limits)
        self._accepted: tuple[str, str] | None = None  # Authorization header and cookie of the last accepted login.
        self._accepted_until = math.inf
        self._asked: tuple[str, str] | None = None
        self._login: Login | None = None
        self._held: bytes | None = None  # The request whose login is being checked.
        self._current: _Message | None = None  # The request whose reply is due.
        self._answered = ""  # The HTTP version of the last answered request.
        self._alone = b""  # The last request with its head, if it arrived as one piece by itself.
        self._new_cookie = ""
        self._cookie_seconds = 0.0
        self._token = b""  # By which the client of the current request knows this server.
        self._begun = False  # The head of the reply has been sent.
        self.closing = False
        self.forwarded_for = ""
        self.do_as = ""

    @property
    def pending(self) -> bool:
        """Requests have been received and not yet returned."""
        return bool(self._requests.done) or self._held is not None

    @property
    def partial(self) -> bool:
        """Part of a request has been received."""
        return self._requests.current is not None

    def receive(self, data: bytes) -> list[Event]:
        """Returns the next request, if it is complete and the previous one was answered. Raises WireError."""
        if data:
            starts = self._requests.at_border
            self._requests.feed(data)
            short = len(data) <= _ALONE_BYTES_MAX and len(self._requests.done) == 1
            self._alone = data if short and starts and not self.partial else b""
        if self._login is not None:
            return self._waiting(data)
        if data and self._current is None and not self.pending and self._requests.take_expectation():
            return [DirectReply(b"HTTP/1.1 100 Continue\r\n\r\n")]
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
            raise WireError("the client sent too much data before it read the replies")
        return []

    def _body_bytes_max(self, message: _Message) -> int:
        """Accepts long bodies only from users who have logged in before, on this connection or another."""
        if self._is_known(*_credentials(message)):
            return self._limits.request_bytes_max
        if not message.authorization:
            # Usually an expired cookie: after the refusal the client logs in and sends the request again.
            message.unread = True
            return self._limits.request_bytes_max
        return min(self._limits.new_bytes_max, self._limits.request_bytes_max)

    def _is_known(self, authorization: str, cookie: str) -> bool:
        if _is_ticket(authorization):
            # Each one is new, and checked. Whoever has brought one may send long requests.
            return self._accepted is not None
        if authorization:
            accepted = (authorization, cookie) == self._accepted and self._is_unexpired
            return accepted or self._cookies.was_accepted(authorization)
        return bool(cookie) and self._cookies.find(cookie) is not None

    @property
    def _is_unexpired(self) -> bool:
        """Whether the last accepted login still counts: a token expires."""
        return self._cookies.now() < self._accepted_until

    def _take(self, message: _Message) -> list[Event]:
        self._current, self._begun = message, False
        self.forwarded_for = message.headers.get(FORWARDED_FOR, "")
        problem = self._problem(message)
        if problem is not None:
            return self._refuse(*problem)
        credentials = _credentials(message)
        again = credentials == self._accepted and self._is_unexpired and not _is_ticket(message.authorization)
        if again and self._is_known(*credentials):
            return [self._payload(message)]
        login = None if message.unread else self._login_of(*credentials)
        if login is None:
            text = "Authentication Error: send user name and password, a token or a ticket; none came, or it expired."
            return self._refuse(HTTPStatus.UNAUTHORIZED, text, *self._challenges)
        self._asked, self._login, self._held = credentials, login, self._payload(message)
        return [login]

    def _problem(self, message: _Message) -> tuple[HTTPStatus, str, str] | None:
        """Returns the answer to a request that is not a HiveServer2 message; None for one that may be."""
        refused = self._admission(message.headers.get("host"), message.headers.get("origin"))
        if refused is not None:
            return *refused, ""
        try:
            url = httptools.parse_url(bytes(message.url))
        except httptools.HttpParserInvalidURLError:
            return HTTPStatus.BAD_REQUEST, "The request target is not a valid URL.", ""
        if message.method != "POST":
            return HTTPStatus.METHOD_NOT_ALLOWED, "Send HiveServer2's messages with POST.", "Allow: POST"
        parameters = parse_qsl((url.query or b"").decode("latin-1"), keep_blank_values=True)
        named = [value for name, value in parameters if name.lower() == _DO_AS]
        if len(named) > 1 or named == [""]:
            return HTTPStatus.BAD_REQUEST, "The parameter doAs must name one user.", ""
        self.do_as = named[0] if named else ""
        return None

    def _payload(self, message: _Message) -> bytes:
        """Returns the single Thrift message in a body."""
        body, message.body = bytes(message.body), bytearray()
        try:
            events = self._reader.feed(body)
        except WireError as error:
            raise _bad(str(error)) from None
        if len(events) != 1 or not isinstance(events[0], bytes) or not self._reader.at_border:
            raise _bad("the body of a request must be exactly one Thrift message")
        return events[0]

    def _login_of(self, authorization: str, cookie: str) -> Login | None:
        """Returns the sender's login; None if the credentials are missing or unreadable."""
        if not authorization:
            known = self._cookies.find(cookie) if cookie else None
            return replace(known, mechanism=COOKIE_LOGIN) if known else None
        scheme, _, text = authorization.partition(" ")
        if scheme.lower() == "bearer":
            return Login("", text.strip(), BEARER)
        if _is_ticket(authorization) and self._tickets:
            return _ticket_login(text)
        if scheme.lower() != "basic":
            return None
        try:
            user, colon, password = base64.b64decode(text.strip(), validate=True).decode().partition(":")
        except (binascii.Error, ValueError):
            return None
        return Login(user, password, HTTP) if colon and user else None

    # --- replies -----------------------------------------------------------------------------------------

    def accept_login(self, identity: Login | None = None) -> bytes:
        """Sends nothing: the reply itself tells the client. `receive(b"")` returns the request."""
        assert self._login is not None
        login = identity or self._login
        if (exchange := self._login.exchange) is not None:
            self._token = exchange.answer
        if self._login.mechanism in {HTTP, BEARER, NEGOTIATE} and self._asked is not None:
            if exchange is None:
                self._cookies.accept(self._asked[0])
            self._new_cookie = self._cookies.issue(login)
            self._cookie_seconds = self._cookies.seconds_of(login)
        self._accepted, self._login, self._accepted_until = self._asked, None, login.until
        return b""

    def resume(self, *, framed: bool) -> None:
        """Raises WireError: each request has its login."""
        raise WireError("a client over HTTP logs in with each request")

    def refuse_login(self, message: str, *, fault: bool = False) -> bytes:
        """Answers 401, on which clients ask for another password; 503 for a `fault`."""
        if fault:
            return refusal(HTTPStatus.SERVICE_UNAVAILABLE, message)
        if self._login is None and self._current is None:
            return refusal(HTTPStatus.REQUEST_TIMEOUT, message)
        return refusal(HTTPStatus.UNAUTHORIZED, f"Authentication Error: {message}", *self._challenges)

    def refuse_connection(self, message: str, data: bytes) -> bytes:
        """The client reads it as the answer to its first request, and may send that again."""
        return refusal(HTTPStatus.SERVICE_UNAVAILABLE, message, "Retry-After: 2")

    def send(self, payload: bytes) -> bytes:
        """Returns a whole reply in the client's encoding."""
        return self.part(payload, ended=True)

    def on_wire(self, request: bytes, reply: bytes) -> tuple[bytes, bytes] | None:
        """Returns both with their heads, if the request arrived as one piece that contained nothing else."""
        if self.pending or self.partial or self.closing or not self._alone or not self._alone.endswith(request):
            return None
        return self._alone, self._head(self._answered, f"Content-Length: {len(reply)}", keep_alive=True) + reply

    def part(self, data: bytes, *, ended: bool) -> bytes:
        """Encodes the next piece of a reply; `ended` with the last one. A reply in one piece gets a Content-Length."""
        message = self._current
        if message is None:
            raise WireError("a reply without a request")
        chunked = message.version != "1.0"
        if not self._begun:
            self._begun = True
            if ended:
                head = self._head(message.version, f"Content-Length: {len(data)}", keep_alive=message.keep_alive)
                self._finish(message)
                return head + data
            # HTTP 1.0 has no chunks: the reply ends when the connection ends.
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
            secure = "; Secure" if self.secure else ""
            age = f"Max-Age={self._cookie_seconds:.0f}"
            lines.append(f"Set-Cookie: {COOKIE}={self._new_cookie}; Path=/; {age}; HttpOnly{secure}")
            self._new_cookie = ""
        if self._token:
            lines.append(f"{_NEGOTIATE} {base64.b64encode(self._token).decode()}")
            self._token = b""
        if not keep_alive:
            lines.append("Connection: close")
        elif version == "1.0":
            lines.append("Connection: keep-alive")
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")

    def _finish(self, message: _Message) -> None:
        self._current, self._answered = None, message.version
        self.closing = self.closing or not message.keep_alive

    def _refuse(self, status: HTTPStatus, text: str, *headers: str) -> list[Event]:
        message = self._current
        assert message is not None
        if message.method == "HEAD":
            message.keep_alive = False  # A HEAD client expects no body, and would read this one as the next reply.
        self._finish(message)
        given = [each for each in (*headers, "" if message.keep_alive else "Connection: close") if each]
        return [DirectReply(_response(status, text, given))]


_BASIC = 'WWW-Authenticate: Basic realm="HiveServer2"'
_NEGOTIATE = "WWW-Authenticate: Negotiate"


def _is_ticket(authorization: str) -> bool:
    return authorization[:10].lower() == "negotiate "


def _ticket_login(text: str) -> Login | None:
    """None if the text is not a token. Hive's drivers write a colon before it."""
    try:
        token = base64.b64decode(text.strip().removeprefix(":").strip(), validate=True)
    except (binascii.Error, ValueError):
        return None
    return Login("", "", NEGOTIATE, exchange=Exchange(token))


def refusal(status: HTTPStatus, text: str, *headers: str) -> bytes:
    """Returns a whole answer, after which the connection ends."""
    return _response(status, text, [*headers, "Connection: close"])


def _response(status: HTTPStatus, text: str, headers: list[str]) -> bytes:
    body = text.encode("utf-8", "replace") + b"\n"
    lines = [f"HTTP/1.1 {status.value} {status.phrase}", "Content-Type: text/plain; charset=utf-8", *headers]
    return ("\r\n".join([*lines, f"Content-Length: {len(body)}"]) + "\r\n\r\n").encode("latin-1") + body


def _credentials(message: _Message) -> tuple[str, str]:
    """Returns Authorization header and cookie; the cookie counts only without the header."""
    return message.authorization, "" if message.authorization else message.cookie


def _piece(data: bytes, chunked: bool) -> bytes:
    if not chunked or not data:
        return data
    return b"%x\r\n%b\r\n" % (len(data), data)


class _Responses:
    """httptools callbacks: reads Spark's answers, one after the other."""

    def __init__(self) -> None:
        self.keep_alive = True
        """The connection can be reused after the last complete answer."""
        self.stays = True
        """The connection can be reused after the answer that is being read, according to its head."""
        self._body: list[bytes] = []
        self._parser = httptools.HttpResponseParser(self)
        # Counts of requests sent, of answers begun and ended, and of replies returned.
        self._asked = self._begun = self._ended = self._returned = 0
        self._excess = False

    def expect(self) -> None:
        """Records that a request is sent: its answer follows the rest of the previous one."""
        self._asked += 1

    def mark_returned(self) -> None:
        """Records that the reply was returned: of this answer only the end of its body may follow."""
        self._returned = self._asked

    @property
    def ended(self) -> bool:
        """The answer to the last request is complete."""
        return self._ended == self._asked

    @property
    def status(self) -> int:
        """The HTTP status of the answer to the last request; 0 before it has begun."""
        return int(self._parser.get_status_code()) if self._begun == self._asked else 0

    def on_message_begin(self) -> None:
        self._begun += 1

    def on_headers_complete(self) -> None:
        self.stays = self._parser.should_keep_alive()

    def on_body(self, body: bytes) -> None:
        self._excess = self._excess or self._begun <= self._returned
        self._body.append(body)

    def on_message_complete(self) -> None:
        self._ended += 1
        self.keep_alive = self._parser.should_keep_alive()

    def feed(self, data: bytes) -> bytes:
        """Returns the part of the last request's reply that is in `data`. Raises WireError."""
        if self.ended:
            if data.strip(b"\r\n"):
                raise _surplus()
            return b""  # Empty lines after an answer mean nothing. The parser skips those that come with it, too.
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            raise WireError(f"the upstream server's answer is not HTTP: {error}") from None
        if self._begun > self._asked or self._excess:
            raise _surplus()
        body, self._body = b"".join(self._body), []
        return body


def _surplus() -> WireError:
    return WireError("the upstream server sent bytes after its reply")


class CallRefused(WireError):
    """The server refused the login that a call carries; the text is the server's."""


class HttpUpstreamConnection:
    """The client's end of a connection to a Thrift server in HTTP mode; a `wire.connection.UpstreamEnd`.

    `early`: a short reply is returned as soon as its message is complete. The end of its body goes to `late`, or to the
    reader of the next reply. With `early`, the caller must notice that the connection was closed even while the end of
    a body is unread.
    """

    framed = tied = False
    more_login = b""
    seal = None

    def __init__(self, login: Login, limits: WireLimits, host: str, path: str, *, early: bool) -> None:
        if ":" in login.user:
            raise LoginRefused(
                "The user name contains a colon, which HTTP Basic logins cannot transmit: use a user name without one."
            )
        names = base64.b64encode(f"{login.user}:{login.password}".encode()).decode("ascii")
        lines = [
            f"POST {path} HTTP/1.1",
            f"Host: {host}",
            f"Content-Type: {THRIFT}",
            f"Accept: {THRIFT}",
            f"Authorization: Basic {names}",
            # Spark refuses calls without this header if its XSRF filter is on.
            "X-XSRF-HEADER: true",
            "Content-Length: ",
        ]
        self._head = "\r\n".join(lines).encode("latin-1")
        self._limits = limits
        self._early = early
        self._responses = _Responses()
        self._shapes = Shapes()
        self._parts = bytearray()
        self._passed = False  # Part of the reply has been returned.

    @property
    def usable(self) -> bool:
        """False if the server closes the connection after its reply."""
        return self._responses.keep_alive

    def login(self) -> bytes:
        """HTTP has no separate login: a call that does nothing shows whether the credentials are accepted."""
        return self.send(request.unknown())

    def receive_login(self, data: bytes) -> bool:
        """Returns True once Spark has accepted the login. Raises `LoginRefused`, or `WireError`."""
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
            raise CallRefused(text or "The server refused user name and password.")
        if self._responses.status != HTTPStatus.OK:
            raise WireError(f"the upstream server answered with HTTP status {self._responses.status}")

    def send(self, payload: bytes) -> bytes:
        """Returns one request in Spark's encoding, and expects its reply."""
        self._responses.expect()
        self._parts = bytearray()
        self._passed = False
        return self._head + str(len(payload)).encode("ascii") + b"\r\n\r\n" + payload

    def relay(self, data: bytes, to_frames: bool) -> tuple[bytes, bool]:
        """Returns reply bytes in the client's encoding, and whether the reply ends with them. Raises `WireError`."""
        body = self._responses.feed(data)
        if body or self._responses.ended:
            self._check()
        ended = self._responses.ended or (not self._passed and self._is_whole(body))
        self._passed = self._passed or bool(body)
        return (frame(body) if to_frames and body else body), ended

    def collect(self, data: bytes) -> bytes | None:
        """Returns the whole reply once it is complete. Raises `WireError`, also above `reply_bytes_max`."""
        self._parts += self._responses.feed(data)
        if len(self._parts) > min(self._limits.reply_bytes_max, UPSTREAM_FRAME_BYTES_MAX):
            raise WireError(f"a reply exceeds the limit of {self._limits.reply_bytes_max} bytes")
        if not self._responses.ended and not self._is_whole(self._parts):
            return None
        self._check()
        return bytes(self._parts)

    def late(self, data: bytes, to_frames: bool) -> bytes:
        """Consumes the end of a body whose reply was already returned; nothing else may come late."""
        return self._responses.feed(data)

    def _is_whole(self, body: bytes | bytearray) -> bool:
        """Whether this is the complete reply although its body has not ended. A web server sends the end of a chunked
        body separately, a tenth of a millisecond later. (The next request may be sent before it has arrived.)"""
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
                return False  # Unreadable bytes end with their body.
            self._shapes.learn(reply)
        responses.mark_returned()
        return True
