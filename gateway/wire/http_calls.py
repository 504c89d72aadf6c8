"""What a client has sent over HTTP and no gateway has answered, for a door that must answer it. No I/O.

Logins are not looked at: a door knows none, and its answers say nothing that a stranger may not know.

Tests: `test_http_calls`.
"""

from __future__ import annotations

from http import HTTPStatus

import httptools

from gateway.wire.frame import WireError
from gateway.wire.http_connection import THRIFT, refusal

UNKNOWN = (
    "The gateway that led has gone, and it is unknown what became of this request. Look what it has done before you "
    "send it once more."
)


class _Calls:
    """httptools callbacks."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.begun = False
        self._body = bytearray()
        self._parser = httptools.HttpRequestParser(self)

    def feed(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_message_begin(self) -> None:
        self.begun = True
        self._body.clear()

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        self.begun = False
        self.bodies.append(bytes(self._body))


def bodies(received: bytes) -> list[bytes]:
    """The bodies of the requests; none if only part of one has been received. Raises WireError for what is not HTTP,
    and for part of a request behind others."""
    calls = _Calls()
    try:
        calls.feed(received)
    except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
        raise WireError(f"this is not HTTP: {error}") from None
    if calls.bodies and calls.begun:
        raise WireError("part of a request follows another one")
    return calls.bodies


def answer(reply: bytes, *, last: bool) -> bytes:
    """A reply to a call; the connection ends with the last one, because the client may have asked for that."""
    ends = "Connection: close\r\n" if last else ""
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {THRIFT}\r\n{ends}Content-Length: {len(reply)}\r\n\r\n"
    return head.encode("latin-1") + reply


def unknown() -> bytes:
    """The answer to what is not a call that can be read. A client takes an end without an answer for a request that
    was never received, and Hive's driver then sends it again."""
    return refusal(HTTPStatus.BAD_GATEWAY, UNKNOWN)
