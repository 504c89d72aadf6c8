"""Tests the HTTP connections to clients and to Spark: bytes in any pieces become events."""

from __future__ import annotations

import base64
import collections
import contextlib
import re
import tracemalloc
from dataclasses import dataclass
from random import Random

import pytest
from fuzzing import http_mutation
from fuzzing.mutation import mutated, pieces
from hypothesis import assume, given
from hypothesis import strategies as st
from wire import calls
from wire.calls import pieces_of

from gateway.proxy.hosts import Hosts
from gateway.wire import reply as replies
from gateway.wire.connection import DirectReply, Event
from gateway.wire.cookies import CHARACTERS_MAX, Cookies
from gateway.wire.frame import WireError, WireLimits
from gateway.wire.http_connection import (
    BEARER,
    COOKIE_LOGIN,
    HEAD_BYTES_MAX,
    HTTP,
    HttpClientConnection,
    HttpUpstreamConnection,
)
from gateway.wire.message import with_seqid
from gateway.wire.repeat import Repeat
from gateway.wire.reply import execute_ok
from gateway.wire.sasl import Login, LoginRefused

LIMITS = WireLimits(request_bytes_max=100_000, reply_bytes_max=5_000, buffer_bytes_max=20_000, values_max=1_000)
CONTINUE = DirectReply(b"HTTP/1.1 100 Continue\r\n\r\n")
CUTS = st.lists(st.integers(0, 100_000), max_size=12)
REQUESTS = st.lists(st.sampled_from(calls.samples()), min_size=1, max_size=6)
ADA = Login("ada", "x:y", HTTP)


def basic(user: str, password: str) -> str:
    return "Authorization: Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def post(body: bytes, *headers: str, path: str = "/cliservice", version: str = "1.1", method: str = "POST") -> bytes:
    lines = [f"{method} {path} HTTP/{version}", "Host: here", f"Content-Length: {len(body)}", *headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + body


def opened(
    limits: WireLimits = LIMITS, cookies: Cookies | None = None, *, secure: bool = False
) -> HttpClientConnection:
    return HttpClientConnection(limits, cookies or Cookies(60), secure=secure)


def logged_in() -> HttpClientConnection:
    """A connection on which ada's first request was answered."""
    connection, body = opened(), calls.status()
    assert connection.receive(post(body, basic("ada", "x:y"))) == [ADA]
    assert connection.accept_login() == b""
    assert connection.receive(b"") == [body]
    connection.send(b"reply")
    return connection


@pytest.mark.parametrize("query", ["doAs=bob%20x", "a=b&DOAS=bob+x", "%64oAs=bob x"])
def test_the_url_says_in_whose_name_a_request_comes(query: str) -> None:
    connection = opened()
    path = f"/cliservice?{query}".replace(" ", "%20")
    connection.receive(post(calls.status(), basic("ada", "x:y"), path=path))
    assert connection.do_as == "bob x"
    connection.accept_login()
    connection.receive(b"")
    connection.send(b"reply")
    connection.receive(post(calls.status(), basic("ada", "x:y")))
    assert connection.do_as == ""


@dataclass
class Clock:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


BEARER_HEADER = "Authorization: Bearer a.b.c"


def test_a_token_is_a_login_until_it_expires() -> None:
    clock = Clock()
    cookies = Cookies(60, clock)
    connection, body = opened(cookies=cookies), calls.status()
    assert connection.receive(post(body, BEARER_HEADER)) == [Login("", "a.b.c", BEARER)]
    connection.accept_login(Login("ada", "", HTTP, until=clock.now + 10))
    assert connection.receive(b"") == [body]
    answer = connection.send(b"reply").decode()
    assert "; Max-Age=10; " in answer
    cookie = re.search(r"Set-Cookie: ([^;]+)", answer)
    assert cookie is not None
    clock.now += 9
    assert connection.receive(post(body, BEARER_HEADER)) == [body]
    connection.send(b"reply")
    (known,) = opened(cookies=cookies).receive(post(body, f"Cookie: {cookie[1]}"))
    assert known == Login("ada", "", COOKIE_LOGIN, until=clock.now + 1)
    clock.now += 1
    assert connection.receive(post(body, BEARER_HEADER)) == [Login("", "a.b.c", BEARER)]
    (refused,) = opened(cookies=cookies).receive(post(body, f"Cookie: {cookie[1]}"))
    assert isinstance(refused, DirectReply)
    assert refused.payload.startswith(b"HTTP/1.1 401 ")


def test_a_cookie_of_a_token_ends_on_its_own_connection_too() -> None:
    clock = Clock()
    cookies = Cookies(60, clock)
    connection, body = opened(cookies=cookies), calls.status()
    value = cookies.issue(Login("ada", "", HTTP, until=clock.now + 10))
    header = f"Cookie: hive.server2.auth={value}"
    assert connection.receive(post(body, header)) == [Login("ada", "", COOKIE_LOGIN, until=clock.now + 10)]
    connection.accept_login(Login("ada", "", COOKIE_LOGIN, until=clock.now + 10))
    assert connection.receive(b"") == [body]
    connection.send(b"reply")
    clock.now += 10
    (refused,) = connection.receive(post(body, header))
    assert isinstance(refused, DirectReply)


def test_forwarded_headers_are_those_of_the_current_request() -> None:
    """Further requests may have been received already, and each proxy may add its own header."""
    headers = [["X-Forwarded-For: 192.0.2.1", "X-Forwarded-For: 10.0.0.1"], ["x-forwarded-for: 192.0.2.2"], []]
    connection = opened()
    connection.receive(b"".join(post(calls.status(), basic("ada", "x:y"), *each) for each in headers))
    connection.accept_login()
    for expected in ("192.0.2.1, 10.0.0.1", "192.0.2.2", ""):
        connection.receive(b"")
        assert connection.forwarded_for == expected
        connection.send(execute_ok(7, calls.HANDLE))


def test_a_request_of_a_web_page_is_refused_before_its_login() -> None:
    hosts = Hosts((), exposed=False, setting="listen.http_hosts")
    connection = HttpClientConnection(LIMITS, Cookies(60), secure=False, admission=hosts.refusal)
    body = calls.status()
    assert connection.receive(post(body, basic("ada", "x:y"))) == [ADA]
    connection.accept_login()
    assert connection.receive(b"") == [body]
    connection.send(b"reply")
    for head, status in (
        (post(body, basic("ada", "x:y"), "Origin: http://evil.example"), b"403"),
        (post(body, basic("ada", "x:y")).replace(b"Host: here", b"Host: evil.example"), b"421"),
    ):
        (answer,) = connection.receive(head)
        assert isinstance(answer, DirectReply)
        assert answer.payload.startswith(b"HTTP/1.1 " + status)
    assert connection.receive(post(body, basic("ada", "x:y"))) == [body]


@pytest.mark.parametrize("header", ["Host: there", "Origin: a\r\nOrigin: b"])
def test_a_header_that_decides_who_asks_may_not_be_repeated(header: str) -> None:
    with pytest.raises(WireError, match="may have only one"):
        opened().receive(post(calls.status(), basic("ada", "x:y"), header))


@pytest.mark.parametrize("part", ["url", "header"])
def test_heads_sent_early_count_towards_the_limit(part: str) -> None:
    connection = opened()
    connection.receive(post(calls.status(), basic("ada", "x:y")))
    long = "x" * (HEAD_BYTES_MAX // 2)
    ahead = post(b"", path=f"/{long}") if part == "url" else post(b"", f"Cookie: {long}")
    with pytest.raises(WireError, match="too much data before"):
        connection.receive(ahead)


def served(connection: HttpClientConnection, pieces: list[bytes]) -> list[Event]:
    """All events, with each request answered immediately."""
    found: list[Event] = []
    for piece in pieces:
        events = connection.receive(piece)
        while events:
            found += events
            for event in events:
                if isinstance(event, bytes):
                    connection.send(b"reply")
            events = connection.receive(b"")
    return found


@given(REQUESTS, CUTS)
def test_requests_are_read_in_any_pieces(requests: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(post(request, basic("ada", "x:y")) for request in requests)
    assert served(logged_in(), pieces_of(stream, cuts)) == requests


def test_a_request_waits_for_the_reply_to_the_one_before() -> None:
    connection = logged_in()
    two = post(calls.status(), basic("ada", "x:y")) + post(calls.open_session(), basic("ada", "x:y"))
    assert connection.receive(two) == [calls.status()]
    assert connection.pending
    assert connection.receive(b"") == []
    connection.send(b"reply")
    assert connection.receive(b"") == [calls.open_session()]
    assert not connection.pending


def test_each_request_has_its_own_credentials() -> None:
    """A proxy may send the requests of several users over one connection."""
    connection = logged_in()
    request = calls.status()
    assert connection.receive(post(request, basic("eve", "x"))) == [Login("eve", "x", HTTP)]
    connection.accept_login()
    assert connection.receive(b"") == [request]
    connection.send(b"reply")
    assert connection.receive(post(request, basic("ada", "x:y"))) == [ADA]
    connection.accept_login()
    assert connection.receive(b"") == [request]
    connection.send(b"reply")
    (said,) = connection.receive(post(request))
    assert isinstance(said, DirectReply)
    assert said.payload.startswith(b"HTTP/1.1 401 ")


REPLY = replies.operation_status(1, 2)


def test_a_repeated_request_gets_the_same_reply() -> None:
    connection, request = logged_in(), post(calls.status(1), basic("ada", "x:y"))
    assert connection.receive(request) == [calls.status(1)]
    reply = connection.send(REPLY)
    on_wire = connection.on_wire(calls.status(1), REPLY)
    assert on_wire == (request, reply)
    later = post(calls.status(9), basic("ada", "x:y"))
    answer = Repeat(calls.status(1), REPLY, on_wire).answer(later)
    assert connection.receive(later) == [calls.status(9)]
    assert answer == connection.send(with_seqid(REPLY, 9))


@pytest.mark.parametrize(
    "pieces",
    [
        [post(calls.status(), basic("ada", "x:y"))[:40], post(calls.status(), basic("ada", "x:y"))[40:]],
        [post(calls.status(), basic("ada", "x:y")) + b"POST /cli"],
        [post(calls.status(), basic("ada", "x:y")), b"POST /cli"],
        [post(calls.status(), basic("ada", "x:y")), post(calls.status(2), basic("ada", "x:y"))],
        [post(calls.status(), basic("ada", "x:y"), "Connection: close")],
        [post(calls.status(), basic("ada", "x:y"), "X: " + "y" * 4096)],
    ],
    ids=["in pieces", "with more", "with more behind it", "with the next one behind it", "the last one", "long"],
)
def test_only_a_request_in_one_separate_piece_is_kept_for_recognition(pieces: list[bytes]) -> None:
    connection = logged_in()
    assert [event for piece in pieces for event in connection.receive(piece)] == [calls.status()]
    connection.send(REPLY)
    assert connection.on_wire(calls.status(), REPLY) is None


def test_a_repeated_reply_has_no_cookie() -> None:
    connection = opened()
    connection.receive(post(calls.status(1), basic("ada", "x:y")))
    connection.accept_login()
    connection.receive(b"")
    assert b"Set-Cookie" in connection.send(REPLY)
    on_wire = connection.on_wire(calls.status(1), REPLY)
    assert on_wire is not None
    assert b"Set-Cookie" not in on_wire[1]


def cookie_of(reply: bytes) -> str:
    (line,) = (line for line in reply.decode("latin-1").split("\r\n") if line.startswith("Set-Cookie: "))
    return line.removeprefix("Set-Cookie: ").partition(";")[0]


def test_a_cookie_replaces_the_login_until_it_expires() -> None:
    now = [0.0]
    cookies = Cookies(60, lambda: now[0])
    first = opened(cookies=cookies, secure=True)
    first.receive(post(calls.status(), basic("ada", "x:y")))
    first.accept_login()
    first.receive(b"")
    reply = first.send(b"reply")
    assert b"; HttpOnly; Secure\r\n" in reply
    cookie = f"Cookie: other=1; {cookie_of(reply)}"
    second = opened(cookies=cookies)
    assert second.receive(post(calls.status(), cookie)) == [Login("ada", "x:y", COOKIE_LOGIN)]
    second.accept_login()
    second.receive(b"")
    assert b"Set-Cookie" not in second.send(b"reply")
    now[0] = 61.0
    (said,) = opened(cookies=cookies).receive(post(calls.status(), cookie))
    assert isinstance(said, DirectReply)
    assert b"401" in said.payload
    assert b"WWW-Authenticate: Basic" in said.payload


def test_a_forged_cookie_is_refused() -> None:
    (said,) = opened().receive(post(calls.status(), "Cookie: hive.server2.auth=cu=ada&rn=1&s=x"))
    assert isinstance(said, DirectReply)


def test_the_memory_for_passwords_of_cookies_is_bounded() -> None:
    cookies = Cookies(60)
    long = Login("eve", "x" * (CHARACTERS_MAX // 4), HTTP)
    values = [cookies.issue(ADA), *(cookies.issue(long) for _ in range(5)), cookies.issue(ADA)]
    kept = [cookies.find(value) for value in values]
    assert kept == [None, None, None, long, long, long, ADA]


def test_user_and_password_take_precedence_over_a_cookie() -> None:
    cookies = Cookies(60)
    value = cookies.issue(ADA)
    both = post(calls.status(), f"Cookie: hive.server2.auth={value}", basic("eve", "x"))
    assert opened(cookies=cookies).receive(both) == [Login("eve", "x", HTTP)]


def test_every_path_is_served() -> None:
    """Web proxies have their own."""
    for path in ("/", "/cliservice", "/gateway/hive?x=1"):
        assert opened().receive(post(calls.status(), basic("ada", "x"), path=path)) == [Login("ada", "x", HTTP)]


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (post(b"", basic("ada", "x"), method="GET"), b"405"),
        (post(calls.status(), basic("ada", "x"), path="/cliservice?doAs="), b"400"),
        (post(calls.status(), basic("ada", "x"), path="/cliservice?doAs=bob&%64oas=root"), b"400"),
        (post(calls.status(), "Authorization: Negotiate YII="), b"401"),
        (post(calls.status(), "Authorization: Basic ???"), b"401"),
        (post(calls.status(), "Authorization: Basic " + base64.b64encode(b"nocolon").decode()), b"401"),
    ],
)
def test_an_invalid_request_is_answered_and_the_connection_stays_open(request_bytes: bytes, status: bytes) -> None:
    connection = opened()
    (said,) = connection.receive(request_bytes)
    assert isinstance(said, DirectReply)
    assert said.payload.startswith(b"HTTP/1.1 " + status)
    assert not connection.closing
    assert connection.receive(post(calls.status(), basic("ada", "x:y"))) == [ADA]


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"\x16\x03\x01hello TLS", b"400"),
        (post(b"no thrift", basic("ada", "x")), b"400"),
        (post(calls.status() + b"x", basic("ada", "x")), b"400"),
        (post(calls.status() * 2, basic("ada", "x")), b"400"),
        (post(calls.status()[:-1], basic("ada", "x")), b"400"),
        (post(calls.status(), basic("ada", "x"), basic("eve", "x")), b"400"),
        (post(bytes(200_000), basic("ada", "x")), b"413"),
        (post(calls.status(), "X: " + "y" * (HEAD_BYTES_MAX + 1)), b"431"),
        (b"POST /" + b"y" * (HEAD_BYTES_MAX + 1), b"431"),
        (post(calls.status(), basic("ada", "x")) * 80, b"400"),
        (b"GET / HTTP/1.1\r\n\r\n" * 80, b"400"),
        (post(calls.status(), basic("ada", "x"), version="0.9"), b"505"),
        (post(calls.status(), basic("ada", "x"), version="2.0"), b"505"),
        (b"GET /cliservice\r\n\r\n", b"505"),
        (post(calls.status(), *(f"X{number}: y" for number in range(20_000))), b"431"),
    ],
)
def test_a_malformed_request_closes_the_connection(sent: bytes, status: bytes) -> None:
    with pytest.raises(WireError) as problem:
        opened().receive(sent)
    assert problem.value.answer.startswith(b"HTTP/1.1 " + status)
    assert b"Connection: close" in problem.value.answer


CHUNKED = "POST /cliservice HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    "begun", ["POST / HTTP/1.1\r\nX: ", "POST /", CHUNKED + "0\r\nX: ", CHUNKED + "1;x=", "POST / HTTP/1.1\r\n"]
)
def test_an_endless_head_is_refused(begun: str) -> None:
    connection = opened()
    connection.receive(begun.encode())
    with pytest.raises(WireError):
        collections.deque((connection.receive(b"y" * 4000) for _ in range(100)), maxlen=0)


def test_long_bodies_are_accepted_only_after_a_login() -> None:
    limits, cookies = WireLimits(request_bytes_max=4_000_000, new_bytes_max=100_000), Cookies(60)
    long, login = calls.execute("x" * 200_000), basic("ada", "x:y")
    with pytest.raises(WireError) as problem:
        opened(limits, cookies).receive(post(long, login))
    assert problem.value.answer.startswith(b"HTTP/1.1 413")
    connection = opened(limits, cookies)
    connection.receive(post(calls.status(), login))
    connection.accept_login()
    connection.receive(b"")
    connection.send(b"reply")
    assert connection.receive(post(long, login)) == [long]
    # Behind a proxy, the next request may arrive on any connection, where its password is checked.
    assert opened(limits, cookies).receive(post(long, login)) == [ADA]
    with pytest.raises(WireError):
        opened(limits, cookies).receive(post(long, basic("ada", "another")))
    cookie = f"Cookie: hive.server2.auth={cookies.issue(ADA)}"
    assert opened(limits, cookies).receive(post(long, cookie)) == [Login("ada", "x:y", COOKIE_LOGIN)]


def test_a_long_request_with_a_password_is_accepted_after_the_cookie_has_expired() -> None:
    """The first login is as old as the cookie."""
    now = 0.0
    limits, cookies = WireLimits(request_bytes_max=4_000_000, new_bytes_max=100_000), Cookies(7200, lambda: now)
    connection = opened(limits, cookies)
    connection.receive(post(calls.status(), basic("ada", "x:y")))
    connection.accept_login()
    connection.receive(b"")
    connection.send(b"reply")
    now = 7201.0
    assert opened(limits, cookies).receive(post(calls.execute("x" * 200_000), basic("ada", "x:y"))) == [ADA]


@given(CUTS)
def test_a_long_request_with_an_expired_cookie_gets_a_401(cuts: list[int]) -> None:
    """The connection stays open for the same request with a password."""
    limits = WireLimits(request_bytes_max=40_000, new_bytes_max=1_000)
    connection = opened(limits)
    stream = post(calls.execute("x" * 20_000), "Cookie: hive.server2.auth=old")
    said = [event for piece in pieces_of(stream, cuts) for event in connection.receive(piece)]
    assert len(said) == 1
    assert isinstance(said[0], DirectReply)
    assert said[0].payload.startswith(b"HTTP/1.1 401")
    assert not connection.closing
    assert connection.receive(post(calls.status(), basic("ada", "x:y"))) == [ADA]


def test_an_expired_cookie_is_refused_on_its_own_connection() -> None:
    now = 0.0
    cookies = Cookies(60, lambda: now)
    cookie = f"Cookie: hive.server2.auth={cookies.issue(ADA)}"
    connection = opened(cookies=cookies)
    assert connection.receive(post(calls.status(), cookie)) == [Login("ada", "x:y", COOKIE_LOGIN)]
    connection.accept_login()
    connection.receive(b"")
    connection.send(b"reply")
    assert connection.receive(post(calls.status(), cookie)) == [calls.status()]
    connection.send(b"reply")
    now = 61.0
    (said,) = connection.receive(post(calls.status(), cookie))
    assert isinstance(said, DirectReply)
    assert said.payload.startswith(b"HTTP/1.1 401")


def test_a_head_request_closes_the_connection() -> None:
    connection = opened()
    (said,) = connection.receive(post(b"", method="HEAD"))
    assert isinstance(said, DirectReply)
    assert b"Connection: close" in said.payload
    assert connection.closing


def test_a_client_that_expects_100_continue_gets_it() -> None:
    connection = opened()
    whole = post(calls.status(), basic("ada", "x:y"), "Expect: 100-continue")
    head, body = whole[: -len(calls.status())], whole[-len(calls.status()) :]
    assert connection.receive(head) == [CONTINUE]
    assert connection.receive(body) == [ADA]


def test_100_continue_is_sent_once() -> None:
    connection = opened()
    head = f"POST /cliservice HTTP/1.1\r\n{basic('ada', 'x:y')}\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked"
    assert connection.receive(f"{head}\r\n\r\n".encode()) == [CONTINUE]
    body = b"000%x\r\n%b\r\n0\r\n\r\n" % (len(calls.status()), calls.status())
    assert served(connection, [bytes((byte,)) for byte in body]) == [ADA]


def test_a_client_of_http_1_0_gets_no_100_continue() -> None:
    whole = post(calls.status(), basic("ada", "x:y"), "Expect: 100-continue", version="1.0")
    connection = opened()
    assert connection.receive(whole[: -len(calls.status())]) == []
    assert connection.receive(whole[-len(calls.status()) :]) == [ADA]


def test_an_upgrade_to_another_protocol_is_refused() -> None:
    upgrade = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__")
    with pytest.raises(WireError, match="Upgrade"):
        opened().receive(post(calls.status(), basic("ada", "x:y"), *upgrade))


def test_a_request_may_have_an_absolute_url() -> None:
    assert opened().receive(post(calls.status(), basic("ada", "x:y"), path="http://h:1/cliservice")) == [ADA]


def test_a_fault_during_login_gets_a_503() -> None:
    connection = opened()
    connection.receive(post(calls.status(), basic("ada", "x:y")))
    assert connection.refuse_login("Spark is away", fault=True).startswith(b"HTTP/1.1 503")


def test_credentials_in_a_trailer_are_ignored() -> None:
    body = calls.status()
    head = f"POST /cliservice HTTP/1.1\r\nHost: here\r\n{basic('ada', 'x:y')}\r\nTransfer-Encoding: chunked\r\n\r\n"
    trailer = f"0\r\n{basic('root', 'x')}\r\n\r\n"
    sent = head.encode() + b"%x\r\n%b\r\n" % (len(body), body) + trailer.encode()
    assert opened().receive(sent) == [ADA]


def test_a_streamed_reply_is_chunked_and_a_complete_one_has_a_length() -> None:
    connection = logged_in()
    connection.receive(post(calls.status(), basic("ada", "x:y")))
    first = connection.part(b"ab", ended=False)
    assert first.endswith(b"\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n")
    assert connection.part(b"", ended=False) == b""
    assert connection.part(b"cde", ended=True) == b"3\r\ncde\r\n0\r\n\r\n"
    connection.receive(post(calls.status(), basic("ada", "x:y")))
    assert connection.part(b"abc", ended=True).endswith(b"\r\nContent-Length: 3\r\n\r\nabc")
    assert not connection.closing


def test_http_1_0_gets_no_chunks() -> None:
    connection = opened()
    connection.receive(post(calls.status(), basic("ada", "x:y"), "Connection: keep-alive", version="1.0"))
    connection.accept_login()
    connection.receive(b"")
    first = connection.part(b"ab", ended=False)
    assert b"Transfer-Encoding" not in first
    assert b"Content-Length" not in first
    assert first.endswith(b"Connection: close\r\n\r\nab")
    assert connection.part(b"c", ended=True) == b"c"
    assert connection.closing


def test_a_chunked_request_of_http_1_0_closes_the_connection() -> None:
    connection = opened()
    body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(calls.status()), calls.status())
    lines = ["POST /cliservice HTTP/1.0", basic("ada", "x:y"), "Connection: keep-alive", "Transfer-Encoding: chunked"]
    hidden = post(calls.status(), basic("eve", "x"))
    assert connection.receive(("\r\n".join(lines) + "\r\n\r\n").encode() + body + hidden) == [ADA]
    connection.accept_login()
    assert connection.receive(b"") == [calls.status()]
    assert b"\r\nConnection: close\r\n" in connection.send(b"reply")
    assert connection.closing
    assert connection.receive(b"") == []


@given(st.integers(0, 1 << 32).map(Random), CUTS)
def test_an_ambiguous_request_is_answered_at_most_once(random: Random, cuts: list[int]) -> None:
    hidden = post(calls.open_session(), basic("eve", "x"))
    stream = http_mutation.ambiguous(hidden, calls.status(), [basic("ada", "x").encode()], random)
    connection = opened()
    events = []
    with contextlib.suppress(WireError):
        for piece in pieces_of(stream, cuts):
            events += served_or_stopped(connection, [piece])
        assert connection.closing
    assert hidden not in events
    assert sum(not isinstance(event, Login) for event in events) <= 1


def test_a_client_may_close_the_connection_with_a_header() -> None:
    connection = logged_in()
    connection.receive(post(calls.status(), basic("ada", "x:y"), "Connection: close"))
    assert b"\r\nConnection: close\r\n" in connection.send(b"reply")
    assert connection.closing
    assert connection.receive(post(calls.status(), basic("ada", "x:y"))) == []


@given(st.binary(max_size=300), CUTS)
def test_garbage_is_answered_or_refused(data: bytes, cuts: list[int]) -> None:
    connection = opened()
    pieces = pieces_of(data, cuts)
    with contextlib.suppress(WireError):
        for piece in pieces:
            assert all(isinstance(event, DirectReply) for event in connection.receive(piece))


@given(REQUESTS, st.integers(0, 2_000), st.integers(0, 255), CUTS)
def test_damaged_requests_are_answered_or_refused(requests: list[bytes], at: int, byte: int, cuts: list[int]) -> None:
    stream = bytearray(b"".join(post(request, basic("ada", "x:y")) for request in requests))
    stream[at % len(stream)] = byte
    connection = logged_in()
    try:
        served_or_stopped(connection, pieces_of(bytes(stream), cuts))
    except WireError:
        return


def wrong_request(random: Random) -> bytes:
    """An invalid request of ada or eve, generated as in scripts/fuzz."""
    body, names = random.choice(calls.samples()), [basic(random.choice(("ada", "eve")), "x").encode()]
    if random.random() < 0.2:
        body = mutated(body, random, calls.samples())
    request = random.choice(
        (
            lambda: http_mutation.written(body, names, random),
            lambda: http_mutation.wrong_head(http_mutation.post(body, *names), random, random.randrange(1, 3)),
            lambda: http_mutation.wrong_chunks(body, names, random),
        )
    )()
    return mutated(request, random, calls.samples()) if random.random() < 0.1 else request


@given(st.integers(0, 1 << 32).map(Random))
def test_invalid_requests_have_the_same_outcome_in_any_pieces(random: Random) -> None:
    stream = b"".join(wrong_request(random) for _ in range(random.randrange(1, 4)))
    assume(len(stream) < 5_000)  # Stay below the limits, because small pieces exceed them earlier.
    outcomes = [outcome([stream]), outcome(pieces(stream, random)), outcome([bytes((byte,)) for byte in stream])]
    for events, ended in outcomes[1:]:
        # An error hides the events before it in the same piece.
        assert events[: len(outcomes[0][0])] == outcomes[0][0]
        assert ended == outcomes[0][1]


def outcome(pieces: list[bytes]) -> tuple[list[Event], bool]:
    """All events except 100 Continue, and whether the connection was closed."""
    connection = opened()
    events: list[Event] = []
    try:
        for piece in pieces:
            events += served_or_stopped(connection, [piece])
    except WireError:
        return [each for each in events if each != CONTINUE], True
    return [each for each in events if each != CONTINUE], connection.closing


def served_or_stopped(connection: HttpClientConnection, pieces: list[bytes]) -> list[Event]:
    """All events until the connection is closed, with each request answered immediately."""
    found: list[Event] = []
    for piece in pieces:
        events = connection.receive(piece)
        found += events
        while events and not connection.closing:
            for event in events:
                if isinstance(event, Login):
                    connection.accept_login()
                elif isinstance(event, bytes):
                    connection.send(b"reply")
            events = connection.receive(b"")
            found += events
    return found


# --- connections to Spark ----------------------------------------------------------------------------------


def upstream(login: Login = ADA, *, early: bool = True) -> HttpUpstreamConnection:
    return HttpUpstreamConnection(login, LIMITS, "spark:10001", "/cliservice", early=early)


def response(body: bytes, status: str = "200 OK", *headers: str) -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status}", *headers, f"Content-Length: {len(body)}", "", ""]).encode() + body


def test_the_login_is_a_call_without_effect() -> None:
    connection = upstream()
    sent = connection.login()
    assert basic("ada", "x:y").encode() in sent
    assert connection.receive_login(response(b"whatever"))
    refused = upstream()
    refused.login()
    with pytest.raises(LoginRefused, match="Authentication Error: no"):
        refused.receive_login(response(b"Authentication Error: no", "401 Unauthorized"))
    with pytest.raises(LoginRefused, match="colon"):
        upstream(Login("a:b", "x", HTTP))


@given(st.binary(max_size=4_000), CUTS)
def test_a_reply_is_read_in_any_pieces(body: bytes, cuts: list[int]) -> None:
    stream = response(body)
    connection = upstream()
    connection.send(calls.status())
    found = [connection.relay(piece, False) for piece in pieces_of(stream, cuts)]
    assert b"".join(data for data, _ in found) == body
    assert [ended for _, ended in found if ended] == [True]
    assert found[-1][1]
    connection.send(calls.status())
    collected = [connection.collect(piece) for piece in pieces_of(stream, cuts)]
    assert collected[-1] == body
    assert collected[:-1] == [None] * (len(collected) - 1)


def chunked(body: bytes) -> tuple[bytes, bytes]:
    """A response in the form of Spark's web server, which sends the end of the body separately."""
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head + b"%x\r\n%b\r\n" % (len(body), body), b"0\r\n\r\n"


@pytest.mark.parametrize("how", ["relay", "collect"])
@pytest.mark.parametrize("later", [0, 1, 4, 5])
def test_a_complete_message_does_not_wait_for_the_end_of_the_body(how: str, later: int) -> None:
    """`later`: how many bytes of that end arrive only after the next request."""
    connection = upstream()
    for _ in range(3):
        reply = execute_ok(7, calls.HANDLE)
        first, end = chunked(reply)
        connection.send(calls.execute("select 1"))
        if how == "relay":
            assert connection.relay(first, False) == (reply, True)
        else:
            assert connection.collect(first) == reply
        if now := end[: 5 - later]:
            assert connection.late(now, False) == b""
        connection.send(calls.status())
        rest = end[5 - later :] + response(b"another")
        assert connection.collect(rest) == b"another"
        assert connection.usable


def test_an_incomplete_message_waits_for_the_end_of_the_body() -> None:
    for body in (b"no message", execute_ok(7, calls.OTHER)[:-1], execute_ok(7, calls.OTHER) * 2):
        connection = upstream()
        connection.send(calls.execute("select 1"))
        first, end = chunked(body)
        assert connection.collect(first) is None
        assert connection.collect(end) == body


def test_without_early_reading_a_message_waits_for_the_end_of_the_body() -> None:
    first, end = chunked(execute_ok(7, calls.HANDLE))
    for relayed in (False, True):
        connection = upstream(early=False)
        connection.send(calls.execute("select 1"))
        read = (lambda data, one=connection: one.relay(data, False)[1]) if relayed else connection.collect
        assert not read(first)
        assert read(end)


def test_a_long_reply_is_copied_once() -> None:
    """Other clients wait meanwhile. Copying the reply for each piece would take seconds for 32 MB."""
    connection = HttpUpstreamConnection(ADA, WireLimits(), "spark:10001", "/cliservice", early=True)
    connection.send(calls.fetch())
    piece = b"x" * 65_536
    assert connection.collect(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (len(piece) * 200)) is None
    for _ in range(150):
        assert connection.collect(piece) is None
    peaks = []
    for _ in range(49):
        tracemalloc.start()
        assert connection.collect(piece) is None
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert min(peaks) < 1_000_000  # Some pieces make the buffer grow.
    assert len(connection.collect(piece) or b"") == len(piece) * 200


def test_only_the_end_of_the_body_may_follow_a_complete_message() -> None:
    reply = execute_ok(7, calls.OTHER)
    first, end = chunked(reply)
    for more in (b"1\r\nx\r\n" + end, end + b"x", b"x", end + response(b"x")):
        connection = upstream()
        connection.send(calls.execute("select 1"))
        assert connection.relay(first, False) == (reply, True)
        with pytest.raises(WireError):
            connection.late(more, False)
        connection = upstream()
        connection.send(calls.execute("select 1"))
        assert connection.relay(first, False) == (reply, True)
        connection.send(calls.status())
        if more != end + response(b"x"):
            with pytest.raises(WireError):
                connection.collect(more + response(b"y"))


@pytest.mark.parametrize("apart", [False, True])
def test_empty_lines_after_a_response_are_ignored(apart: bool) -> None:
    """They may arrive with the response or separately."""
    connection, reply = upstream(), execute_ok(7, calls.OTHER)
    connection.send(calls.execute("select 1"))
    first, *behind = [response(reply), b"\r\n", b"\n"] if apart else [response(reply) + b"\r\n\n"]
    assert connection.collect(first) == reply
    for piece in behind:
        assert connection.late(piece, False) == b""
    connection.send(calls.status())
    assert connection.collect(b"\r\n" + response(reply)) == reply


def test_a_message_from_a_closing_server_waits_for_the_end_of_the_body() -> None:
    connection = upstream()
    connection.send(calls.execute("select 1"))
    reply = execute_ok(7, calls.OTHER)
    first, end = chunked(reply)
    assert connection.collect(first.replace(b"OK\r\n", b"OK\r\nConnection: close\r\n")) is None
    assert connection.collect(end) == reply
    assert not connection.usable


def test_an_invalid_response_is_refused() -> None:
    two = response(b"x") + response(b"y")
    late = response(b"oops", "500 Server Error") + response(b"x")
    for sent in (late[:-20], response(b"x") + b"more", b"\0\0\0\1x", response(bytes(6_000)), two, two[:-5], late):
        connection = upstream()
        connection.send(calls.status())
        with pytest.raises(WireError):
            connection.collect(sent)


def test_a_connection_that_the_server_closes_is_not_used_again() -> None:
    connection = upstream()
    connection.send(calls.status())
    assert connection.relay(response(b"x", "200 OK", "Connection: close"), False) == (b"x", True)
    assert not connection.usable
