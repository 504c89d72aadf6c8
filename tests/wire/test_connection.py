"""Tests the gateway's connections to clients and to Spark: bytes in any pieces become events."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wire import calls
from wire.calls import pieces_of

from gateway.wire import reply as replies
from gateway.wire.connection import NOSASL, ClientConnection, Event, UpstreamConnection
from gateway.wire.frame import WireError, WireLimits, frame
from gateway.wire.message import peek, reply_status, with_seqid
from gateway.wire.rowset import ResultColumn, row_set
from gateway.wire.sasl import COMPLETE, OK, PLAIN, START, Login, LoginRefused, negotiation, refusal

BOTH = frozenset({PLAIN, NOSASL})
LIMITS = WireLimits(request_bytes_max=100_000, reply_bytes_max=5_000, buffer_bytes_max=2_000, values_max=1_000)
HANDSHAKE = negotiation(START, b"PLAIN") + negotiation(COMPLETE, b"\0ada\0x")
ADA = Login("ada", "x", PLAIN)
CUTS = st.lists(st.integers(0, 100_000), max_size=12)
REQUESTS = st.lists(st.sampled_from(calls.samples()), max_size=6)
PAGE = replies.fetch(1, row_set([ResultColumn("a")], [("x" * 30,)] * 40, 9))


def logged_in(transports: frozenset[str] = BOTH) -> ClientConnection:
    connection = ClientConnection(transports, LIMITS)
    assert connection.receive(HANDSHAKE) == [ADA]
    assert connection.accept_login() == negotiation(COMPLETE)
    return connection


def received(connection: ClientConnection, pieces: list[bytes]) -> list[Event]:
    return [event for piece in pieces for event in connection.receive(piece)]


@given(REQUESTS, CUTS)
def test_sasl_requests_are_read_in_any_pieces(requests: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(frame(request) for request in requests)
    assert received(logged_in(), pieces_of(stream, cuts)) == requests


@given(REQUESTS, CUTS, CUTS)
def test_messages_may_span_frames(requests: list[bytes], frames: list[int], cuts: list[int]) -> None:
    stream = b"".join(frame(piece) for piece in pieces_of(b"".join(requests), frames))
    assert received(logged_in(), pieces_of(stream, cuts)) == requests


@given(REQUESTS.filter(bool), CUTS)
def test_nosasl_requests_are_read_in_any_pieces(requests: list[bytes], cuts: list[int]) -> None:
    connection = ClientConnection(BOTH, LIMITS)
    events = received(connection, pieces_of(b"".join(requests), cuts))
    assert events == [Login("", "", NOSASL), *requests]
    assert connection.accept_login() == b""
    assert connection.send(b"reply") == b"reply"


@given(st.integers(0, (1 << 31) - 1), CUTS)
def test_repeated_requests_are_read(seqid: int, cuts: list[int]) -> None:
    connection = logged_in()
    requests = [with_seqid(calls.status(), (seqid + step) & 0x7FFFFFFF) for step in range(5)] + [calls.fetch()]
    assert [event for each in requests for event in connection.receive(frame(each))] == requests
    assert received(connection, pieces_of(b"".join(map(frame, requests)), cuts)) == requests


def test_a_login_is_read_byte_by_byte_before_early_requests() -> None:
    connection = ClientConnection(BOTH, LIMITS)
    early = frame(calls.open_session())
    events = received(connection, [bytes((byte,)) for byte in HANDSHAKE + early])
    assert events == [ADA]
    connection.accept_login()
    assert connection.receive(b"") == [calls.open_session()]
    assert connection.receive(b"") == []


def test_early_bytes_before_the_login_are_bounded() -> None:
    connection = ClientConnection(BOTH, LIMITS)
    connection.receive(HANDSHAKE)
    connection.receive(bytes(2_000))
    with pytest.raises(WireError, match="before its login"):
        connection.receive(b"x")


@pytest.mark.parametrize("mechanism", [PLAIN, NOSASL])
def test_a_repeated_request_within_a_statement_is_not_recognized(mechanism: str) -> None:
    """A statement may contain the bytes of the request before it, in a chunk of their own."""
    inner = calls.status()
    outer = messages_head_of_statement(calls.execute("select 1"))[:-4] + len(inner).to_bytes(4, "big")
    connection = logged_in() if mechanism == PLAIN else ClientConnection(BOTH, LIMITS)
    wrap = frame if mechanism == PLAIN else bytes
    assert connection.receive(wrap(inner))[-1] == inner
    assert received(connection, [wrap(outer), wrap(inner), wrap(b"\0\0")]) == [outer + inner + b"\0\0"]


def test_empty_frames_are_ignored() -> None:
    connection = logged_in()
    assert connection.receive(frame(b"")) == []
    assert connection.receive(frame(calls.status()) + frame(b"")) == [calls.status()]
    assert connection.receive(frame(b"")) == []


@pytest.mark.parametrize("transport", [PLAIN, NOSASL])
def test_a_client_of_a_disabled_transport_gets_the_reason(transport: str) -> None:
    connection = ClientConnection(BOTH - {transport}, LIMITS)
    with pytest.raises(WireError, match="connect with") as caught:
        connection.receive(HANDSHAKE if transport == PLAIN else calls.open_session())
    assert caught.value.answer


def test_a_client_without_sasl_gets_the_reason_of_a_refusal() -> None:
    connection = ClientConnection(frozenset({PLAIN}), LIMITS)
    with pytest.raises(WireError) as caught:
        connection.receive(calls.open_session(seqid=9))
    assert peek(caught.value.answer)[:3] == ("OpenSession", 3, 9)
    assert "auth=noSasl" in (reply_status(caught.value.answer).message or "")


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (b"GET / HTTP/1.1\r\n", "HTTP"),
        (b"POST /cliservice HTTP/1.1\r\n", "HTTP"),
        (b"\x16\x03\x01\x02\x00", "TLS"),
        (b"\x00\x00\x00\x10", "not a HiveServer2 client"),
    ],
)
def test_another_protocol_is_named(data: bytes, name: str) -> None:
    with pytest.raises(WireError, match=name) as caught:
        ClientConnection(BOTH, LIMITS).receive(data)
    assert caught.value.answer.startswith(b"HTTP/1.1 400") == (name == "HTTP")


def test_a_too_long_request_is_refused_at_its_header_and_answered() -> None:
    connection = logged_in()
    with pytest.raises(WireError, match="limit"):
        connection.receive((100_001).to_bytes(4, "big"))
    connection = logged_in()
    request = bytearray(calls.execute("select 1"))
    request[76 + 16 - 4 : 80 + 16 - 4] = b"\x7f\xff\xff\xff"
    head = messages_head_of_statement(bytes(request))
    with pytest.raises(WireError, match="limit") as caught:
        connection.receive(frame(head))
    assert peek(caught.value.answer[4:])[:3] == ("ExecuteStatement", 3, 7)


def messages_head_of_statement(request: bytes) -> bytes:
    """ExecuteStatement up to the length of the statement."""
    return request[: 76 + 16]


def test_replies_from_a_client_are_refused() -> None:
    with pytest.raises(WireError, match="not a call"):
        logged_in().receive(frame(replies.closed("CloseSession", 1)))


@given(st.binary(max_size=200), CUTS)
def test_garbage_is_refused_or_incomplete(data: bytes, cuts: list[int]) -> None:
    for connection, prefix in (
        (ClientConnection(BOTH, LIMITS), b""),
        (logged_in(), b""),
        (logged_in(), b"\0\0\0\xff\x80\x01"),
    ):
        try:
            received(connection, pieces_of(prefix + data, cuts))
        except WireError:
            continue


def test_a_login_is_refused_according_to_the_handshake() -> None:
    connection = ClientConnection(BOTH, LIMITS)
    assert connection.refuse_login("late") == b""
    connection.receive(HANDSHAKE[:7])
    assert connection.refuse_login("late") == refusal("late")
    connection.receive(HANDSHAKE[7:])
    assert connection.refuse_login("no") == refusal("no")


# --- upstream --------------------------------------------------------------------------------------------


def upstream(mechanism: str) -> UpstreamConnection:
    connection = UpstreamConnection(Login("ada", "x", mechanism), LIMITS)
    if mechanism == PLAIN:
        assert connection.login() == HANDSHAKE
        assert connection.receive_login(negotiation(COMPLETE))
    else:
        assert connection.login() == b""
    return connection


def on_the_wire(payload: bytes, framed: bool) -> bytes:
    return frame(payload) if framed else payload


def unframed(data: bytes) -> bytes:
    connection = UpstreamConnection(Login("ada", "x", PLAIN), LIMITS)
    return connection.relay(data, False)[0]


@pytest.mark.parametrize("mechanism", [PLAIN, NOSASL])
@pytest.mark.parametrize("to_frames", [True, False])
@given(cuts=CUTS)
def test_a_reply_is_streamed_in_any_pieces(mechanism: str, to_frames: bool, cuts: list[int]) -> None:
    connection = upstream(mechanism)
    for reply in (PAGE, replies.closed("CloseOperation", 1)):
        connection.send(calls.fetch())
        chunks = pieces_of(on_the_wire(reply, mechanism == PLAIN), cuts)
        results = [connection.relay(chunk, to_frames) for chunk in chunks]
        assert [ended for _, ended in results] == [False] * (len(chunks) - 1) + [True]
        sent = b"".join(chunk for chunk, _ in results)
        assert (unframed(sent) if to_frames else sent) == reply
        if mechanism == PLAIN and to_frames:
            assert sent == frame(reply), "frames between two SASL connections are forwarded unchanged"


@pytest.mark.parametrize("mechanism", [PLAIN, NOSASL])
@given(cuts=CUTS)
def test_a_reply_is_collected_in_any_pieces(mechanism: str, cuts: list[int]) -> None:
    connection = upstream(mechanism)
    for reply in (PAGE, replies.closed("CloseOperation", 1)):
        connection.send(calls.fetch())
        chunks = pieces_of(on_the_wire(reply, mechanism == PLAIN), cuts)
        assert [connection.collect(chunk) for chunk in chunks] == [None] * (len(chunks) - 1) + [reply]


def test_a_collected_reply_may_span_frames() -> None:
    connection = upstream(PLAIN)
    connection.send(calls.fetch())
    assert connection.collect(frame(PAGE[:50])) is None
    assert connection.collect(frame(PAGE[50:])) == PAGE


@pytest.mark.parametrize("mechanism", [PLAIN, NOSASL])
def test_a_collected_reply_is_bounded(mechanism: str) -> None:
    connection = upstream(mechanism)
    connection.send(calls.fetch())
    page = replies.fetch(1, row_set([ResultColumn("a")], [("x" * 3_000,)] * 2, 9))
    with pytest.raises(WireError, match="limit of 5000"):
        connection.collect(on_the_wire(page, mechanism == PLAIN))


@pytest.mark.parametrize("mechanism", [PLAIN, NOSASL])
def test_bytes_after_a_collected_reply_are_refused(mechanism: str) -> None:
    connection = upstream(mechanism)
    connection.send(calls.fetch())
    with pytest.raises(WireError, match="after its reply"):
        connection.collect(on_the_wire(PAGE + b"x", mechanism == PLAIN))


def test_a_refused_login_at_the_upstream_is_an_error() -> None:
    connection = UpstreamConnection(ADA, LIMITS)
    with pytest.raises(LoginRefused, match="no"):
        connection.receive_login(refusal("no"))
    with pytest.raises(WireError):
        UpstreamConnection(ADA, LIMITS).receive_login(negotiation(OK, b"?"))
    with pytest.raises(WireError, match="before the first request"):
        UpstreamConnection(ADA, LIMITS).receive_login(negotiation(COMPLETE) + b"x")


def test_a_long_request_is_not_kept_for_recognition() -> None:
    connection = ClientConnection(frozenset({PLAIN, NOSASL}), WireLimits())
    for text, kept in (("select 1", True), ("select '" + "x" * 600 + "'", False)):
        request = calls.execute(text)
        assert request in connection.receive(request)
        assert (connection.on_wire(request, b"reply") is not None) == kept
