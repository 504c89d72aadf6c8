"""Tests the HTTP server of monitoring with real sockets, on both event loops."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from http import HTTPStatus

import pytest
import uvloop

from gateway.monitoring import http_server
from gateway.monitoring.http_server import HttpServer, Response, text
from gateway.proxy.hosts import Hosts

Scenario = Callable[[HttpServer], Awaitable[None]]
DEADLINE_SECONDS = 20
LARGE = b"x" * 5_000_000


async def _hello() -> Response:
    return text(HTTPStatus.OK, "hello")


async def _slowly() -> Response:
    await asyncio.sleep(0)
    return text(HTTPStatus.OK, "slowly")


async def _large() -> Response:
    return Response(HTTPStatus.OK, "text/plain", LARGE)


async def _broken() -> Response:
    raise ValueError("broken")


HANDLERS = {"/hello": _hello, "/slowly": _slowly, "/large": _large, "/broken": _broken}


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def play(request: pytest.FixtureRequest) -> Callable[[Scenario], None]:
    """Runs a scenario with a server."""

    async def within_deadline(scenario: Scenario) -> None:
        server = HttpServer("127.0.0.1", 0, HANDLERS)
        await server.start()
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                await scenario(server)
        finally:
            await server.close()

    def run(scenario: Scenario) -> None:
        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(within_deadline(scenario))

    return run


async def _ask(server: HttpServer, *pieces: bytes) -> bytes:
    """Everything that the server sends until it closes the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    for piece in pieces:
        writer.write(piece)
        await writer.drain()
        await asyncio.sleep(0)
    try:
        return await reader.read()
    finally:
        writer.close()


async def _nobody(server: HttpServer) -> None:
    """Returns when all connections are closed."""
    while server._clients:  # noqa: ASYNC110 - the server sets no event
        await asyncio.sleep(0)


def _one(method: str, path: str, *headers: str, version: str = "1.1") -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/{version}", "Host: h", *headers, "", ""]).encode()


def _last(path: str, method: str = "GET") -> bytes:
    return _one(method, path, "Connection: close")


@pytest.mark.parametrize(
    ("request_bytes", "status", "body"),
    [
        (_last("/hello"), b"200 OK", b"hello\n"),
        (_last("/hello?a=b"), b"200 OK", b"hello\n"),
        (_last("http://elsewhere/hello"), b"200 OK", b"hello\n"),
        (_last("/slowly"), b"200 OK", b"slowly\n"),
        (_last("/hello", "HEAD"), b"200 OK", b""),
        (_one("GET", "/hello", version="1.0"), b"200 OK", b"hello\n"),
        (
            _last("/nothing"),
            b"404 Not Found",
            b"Nothing is served at this path. Request one of /hello, /slowly, /large, /broken.\n",
        ),
        (_last("/hello", "POST"), b"405 Method Not Allowed", b"Use GET or HEAD.\n"),
        (_last("/hello", "DELETE"), b"405 Method Not Allowed", b"Use GET or HEAD.\n"),
        (
            _last("/broken"),
            b"500 Internal Server Error",
            b"The gateway failed to answer this request; its log says why.\n",
        ),
    ],
)
def test_a_request_is_answered(
    play: Callable[[Scenario], None], request_bytes: bytes, status: bytes, body: bytes
) -> None:
    async def scenario(server: HttpServer) -> None:
        head, _, found = (await _ask(server, request_bytes)).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 " + status + b"\r\n")
        assert found == body
        assert b"Connection: close" in head
        length = len(body) if not request_bytes.startswith(b"HEAD") else len(b"hello\n")
        assert f"Content-Length: {length}".encode() in head
        assert (b"Allow: GET, HEAD" in head) == status.startswith(b"405")

    play(scenario)


def test_the_body_of_a_request_is_skipped(play: Callable[[Scenario], None]) -> None:
    async def scenario(server: HttpServer) -> None:
        answer = await _ask(server, _one("GET", "/hello", "Content-Length: 5"), b"GET /", _last("/slowly"))
        assert answer.count(b"HTTP/1.1 200") == 2, answer
        assert answer.endswith(b"slowly\n")

    play(scenario)


def test_pipelined_requests_are_answered_in_order(play: Callable[[Scenario], None]) -> None:
    """The answers do not depend on how the bytes are split."""

    async def scenario(server: HttpServer) -> None:
        sent = _one("GET", "/slowly") + _one("HEAD", "/hello") + _one("GET", "/hello") + _last("/nothing")
        whole = await _ask(server, sent)
        assert [whole.index(part) for part in (b"slowly\n", b"hello\n", b"Nothing")] == sorted(
            whole.index(part) for part in (b"slowly\n", b"hello\n", b"Nothing")
        )
        assert whole.count(b"HTTP/1.1 200 OK") == 3
        assert whole.count(b"Connection: keep-alive") == 3
        assert await _ask(server, *(sent[at : at + 1] for at in range(len(sent)))) == whole

    play(scenario)


def test_http_1_0_may_keep_the_connection_alive(play: Callable[[Scenario], None]) -> None:
    async def scenario(server: HttpServer) -> None:
        kept = _one("GET", "/hello", "Connection: keep-alive", version="1.0")
        answer = await _ask(server, kept + _one("GET", "/hello", version="1.0"))
        assert answer.count(b"hello\n") == 2

    play(scenario)


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"400"),
        (b"hello\r\n\r\n", b"400"),
        (b"GET /hello HTTP/1.1\r\nContent-Length: x\r\n\r\n", b"400"),
        (b"CONNECT h:1 HTTP/1.1\r\nHost: h\r\n\r\n", b"404"),
        (b"GET /hello HTTP/1.1\r\nX: " + b"a" * http_server.REQUEST_BYTES_MAX + b"\r\n", b"431"),
        (b"GET /" + b"a" * http_server.REQUEST_BYTES_MAX, b"431"),
        (_one("GET", "/hello", "Content-Length: 10000000") + b"a" * http_server.REQUEST_BYTES_MAX, b"431"),
    ],
)
def test_an_invalid_request_gets_an_error(play: Callable[[Scenario], None], sent: bytes, status: bytes) -> None:
    async def scenario(server: HttpServer) -> None:
        answer = await _ask(server, sent)
        assert answer.startswith(b"HTTP/1.1 " + status)
        assert answer.count(b"Connection: close") == 1
        assert b"hello\n" in await _ask(server, _last("/hello"))

    play(scenario)


def test_an_upgrade_to_another_protocol_is_ignored(play: Callable[[Scenario], None]) -> None:
    async def scenario(server: HttpServer) -> None:
        answer = await _ask(server, _one("GET", "/hello", "Upgrade: h2c", "Connection: Upgrade") + b"PRI * HTTP/2.0")
        assert answer.startswith(b"HTTP/1.1 200")
        assert b"Connection: close" in answer

    play(scenario)


def test_many_pipelined_requests_are_answered(play: Callable[[Scenario], None]) -> None:
    async def scenario(server: HttpServer) -> None:
        answer = await _ask(server, _one("GET", "/slowly") * 3_000 + _last("/hello"))
        assert answer.count(b"slowly\n") == 3_000
        assert answer.endswith(b"hello\n")

    play(scenario)


def test_a_half_closed_client_is_answered(play: Callable[[Scenario], None]) -> None:
    async def scenario(server: HttpServer) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(_one("GET", "/slowly"))
        writer.write_eof()
        assert (await reader.read()).endswith(b"slowly\n")
        writer.close()

    play(scenario)


def test_a_client_that_vanishes_is_not_reported(
    play: Callable[[Scenario], None], caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(server: HttpServer) -> None:
        _, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.transport.abort()
        await asyncio.sleep(0)
        arrived = asyncio.StreamReader()
        arrived.feed_data(_last("/hello"))
        await server._serve(arrived, writer)

    play(scenario)
    assert [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING] == []


def test_slow_and_silent_clients_are_closed(play: Callable[[Scenario], None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "REQUEST_SECONDS", 0.1)
    monkeypatch.setattr(http_server, "IDLE_SECONDS", 0.1)

    async def scenario(server: HttpServer) -> None:
        for sent in (b"", b"GET /hel", _one("GET", "/hello"), _one("GET", "/hello") + b"GET /hel"):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(sent)
            try:
                answer = await reader.read()
            except ConnectionResetError:
                answer = b""
            assert answer.count(b"hello\n") <= sent.count(b"/hello HTTP")
            writer.close()

    play(scenario)


def test_a_client_that_does_not_read_is_closed(
    play: Callable[[Scenario], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "REQUEST_SECONDS", 0.1)

    async def scenario(server: HttpServer) -> None:
        _, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1024)
        writer.write(_one("GET", "/large") * 4)
        # The client gets only what the sockets hold.
        await _nobody(server)
        writer.close()

    play(scenario)


def test_large_answers_are_complete(play: Callable[[Scenario], None]) -> None:
    async def scenario(server: HttpServer) -> None:
        answer = await _ask(server, _one("GET", "/large") + _last("/large"))
        assert answer.count(b"x") >= 2 * len(LARGE)

    play(scenario)


def test_too_many_connections_are_refused(play: Callable[[Scenario], None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "CONNECTIONS_MAX", 2)

    async def scenario(server: HttpServer) -> None:
        writers = [(await asyncio.open_connection("127.0.0.1", server.port))[1] for _ in range(2)]
        assert (await _ask(server)).startswith(b"HTTP/1.1 503")
        for writer in writers:
            writer.close()
        await _nobody(server)
        assert (await _ask(server, _last("/hello"))).startswith(b"HTTP/1.1 200")

    play(scenario)


def test_web_pages_get_no_metrics() -> None:
    """A page whose own name means this machine sends no Origin with a GET, but its name as Host."""

    async def scenario() -> None:
        hosts = Hosts((), exposed=False, setting="metrics.hosts")
        server = HttpServer("127.0.0.1", 0, HANDLERS, hosts.refusal)
        await server.start()
        try:
            asked = {
                host: await _ask(server, f"GET /hello HTTP/1.1\r\n{host}\r\nConnection: close\r\n\r\n".encode())
                for host in ("Host: 127.0.0.1", "Host: evil.example", "Host: a\r\nHost: b", "Host: a\r\nOrigin: null")
            }
        finally:
            await server.close()
        assert [answer.split(b" ")[1] for answer in asked.values()] == [b"200", b"421", b"421", b"403"]
        assert b"metrics.hosts" in asked["Host: evil.example"]

    asyncio.run(asyncio.wait_for(scenario(), DEADLINE_SECONDS))
