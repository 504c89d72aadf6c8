"""Tests what a door reads of requests that nobody has answered."""

from __future__ import annotations

import pytest

from gateway.wire import http_calls
from gateway.wire.frame import WireError

FIRST = b"POST /cliservice HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"
CHUNKED = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nde\r\n1\r\nf\r\n0\r\n\r\n"


def test_whole_requests_are_read() -> None:
    assert http_calls.bodies(FIRST) == [b"abc"]
    assert http_calls.bodies(FIRST + CHUNKED) == [b"abc", b"def"]


def test_part_of_a_request_is_none() -> None:
    for whole in (FIRST, CHUNKED):
        for end in range(len(whole)):
            assert http_calls.bodies(whole[:end]) == []


@pytest.mark.parametrize("received", [FIRST + CHUNKED[:9], b"\x00\x01", FIRST + b"\x00"])
def test_what_cannot_be_answered_is_an_error(received: bytes) -> None:
    with pytest.raises(WireError):
        http_calls.bodies(received)


def test_the_connection_ends_with_the_last_answer() -> None:
    head, body = http_calls.answer(b"abc", last=True).split(b"\r\n\r\n")
    assert body == b"abc"
    assert b"\r\nContent-Length: 3" in head
    assert b"\r\nConnection: close\r\n" in head
    assert b"close" not in http_calls.answer(b"abc", last=False)
    assert http_calls.unknown().startswith(b"HTTP/1.1 502 Bad Gateway\r\n")
