"""Tests both roles of the SASL handshake, and invalid input."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wire.calls import pieces_of

from gateway.wire.frame import OtherProtocol, WireError
from gateway.wire.sasl import (
    BAD,
    COMPLETE,
    ERROR,
    OK,
    START,
    Login,
    LoginRefused,
    PlainClient,
    SaslServer,
    negotiation,
    refusal,
)

LIMIT = 1024
ADA = Login("ada", "pässwort", "PLAIN")


def handshake(status: int = COMPLETE, names: bytes = "\0ada\0pässwort".encode()) -> bytes:
    return negotiation(START, b"PLAIN") + negotiation(status, names)


@pytest.mark.parametrize("status", [OK, COMPLETE])
@given(cuts=st.lists(st.integers(0, 100), max_size=40), trailing=st.binary(max_size=8))
def test_a_server_reads_a_login_in_any_pieces(status: int, cuts: list[int], trailing: bytes) -> None:
    server = SaslServer(LIMIT)
    data = handshake(status)
    logins = [server.receive(piece) for piece in pieces_of(data, cuts)[:-1]]
    assert not any(logins)
    assert server.receive(pieces_of(data, cuts)[-1] + trailing) == ADA
    assert server.rest == trailing


def test_a_server_accepts_an_equal_authorization_identity() -> None:
    assert SaslServer(LIMIT).receive(handshake(OK, b"ada\0ada\0x")) == Login("ada", "x", "PLAIN")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (negotiation(START, b"GSSAPI"), "GSSAPI"),
        (negotiation(OK, b"PLAIN"), "begin with START"),
        (negotiation(START, b"PLAIN") + negotiation(BAD, b""), "aborted"),
        (handshake(OK, b"ada"), "three parts"),
        (handshake(OK, b"\0ada\0x\0y"), "three parts"),
        (handshake(OK, b"\0\0x"), "No user name"),
        (handshake(OK, b"bob\0ada\0x"), "another user"),
        (handshake(OK, b"\0\xff\0x"), "UTF-8"),
        (b"\x01\x00\x00\x04\x01", "exceeds the limit"),
        (b"\x01\xff\xff\xff\xff", "exceeds the limit"),
        (negotiation(START, b"PLAIN") + b"\x07", "status 7"),
    ],
)
def test_a_server_refuses_with_a_reason_for_the_client(data: bytes, reason: str) -> None:
    with pytest.raises(WireError, match=reason) as caught:
        SaslServer(LIMIT).receive(data)
    assert caught.value.answer == refusal(str(caught.value))


@given(st.binary(max_size=200))
def test_a_server_refuses_garbage(data: bytes) -> None:
    answer = refusal("")
    try:
        SaslServer(LIMIT).receive(data)
    except WireError as error:
        answer = error.answer
    assert answer[0] == BAD


def test_client_and_server_understand_each_other() -> None:
    client, server = PlainClient(ADA, LIMIT), SaslServer(LIMIT)
    assert server.receive(client.start()) == ADA
    assert not client.receive(negotiation(COMPLETE)[:3])
    assert client.receive(negotiation(COMPLETE)[3:] + b"more")
    assert client.rest == b"more"


@pytest.mark.parametrize("status", [BAD, ERROR])
def test_a_client_gets_the_reason_of_a_refusal(status: int) -> None:
    with pytest.raises(LoginRefused, match="no such user"):
        PlainClient(ADA, LIMIT).receive(negotiation(status, b"no such user"))


@pytest.mark.parametrize("answer", [negotiation(OK, b"challenge"), b"HTTP/1.1 400", b"\x02\x00\x01\x00\x00"])
def test_a_client_refuses_an_invalid_answer(answer: bytes) -> None:
    with pytest.raises(WireError):
        PlainClient(ADA, LIMIT).receive(answer)


@pytest.mark.parametrize("login", [Login("a\0b", "x", "PLAIN"), Login("a", "x\0root\0y", "PLAIN")])
def test_a_client_refuses_null_characters_in_a_login(login: Login) -> None:
    with pytest.raises(LoginRefused):
        PlainClient(login, LIMIT)


def test_a_password_is_not_part_of_the_repr() -> None:
    assert "pässwort" not in repr(ADA)


@pytest.mark.parametrize(
    ("answer", "spoken"),
    [
        (b"HTTP/1.1 400 Illegal character CNTL=0x1\r\n", "HTTP"),
        (b"\x15\x03\x03\x00\x02\x02\x0a", "TLS"),
        (b"\x16\x03\x01\x00\x05", "TLS"),
    ],
)
@given(cuts=st.lists(st.integers(0, 100), max_size=40))
def test_a_server_of_another_protocol_is_recognized(answer: bytes, spoken: str, cuts: list[int]) -> None:
    client = PlainClient(ADA, LIMIT)

    def receive() -> None:
        for piece in pieces_of(answer, cuts):
            client.receive(piece)

    with pytest.raises(OtherProtocol) as other:
        receive()
    assert other.value.spoken == spoken


def test_a_server_of_an_unknown_protocol_is_refused() -> None:
    for answer in (b"\x48\x00\x00\x00\x00", b"SSH-2.0-x", b"\xff"):
        with pytest.raises(WireError, match="not a SASL handshake status"):
            PlainClient(ADA, LIMIT).receive(answer)
