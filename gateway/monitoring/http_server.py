"""A small HTTP/1.1 server for monitoring: GET and HEAD of a few paths, keep-alive, and limits on everything.

httptools parses, asyncio's streams move the bytes. What remains are the limits, which no library would take over: the
servers of the standard library and of prometheus-client have a thread for each connection, and uvicorn and aiohttp, two
more dependencies, do not limit the time in which a request arrives.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus

import httptools

from gateway.config import Address

log = logging.getLogger(__name__)

CONNECTIONS_MAX = 100
"""Scrapers and probes are few; more connections are a fault."""
REQUEST_BYTES_MAX = 16_384
"""Longest request, head and body. Monitoring sends no body."""
REQUEST_SECONDS = 10.0
"""Time for a request to be complete once it has begun, and for an answer to be read."""
IDLE_SECONDS = 120.0
"""Longest time between two requests; longer than the usual scrape intervals."""


@dataclass(frozen=True, slots=True)
class Response:
    status: HTTPStatus
    content_type: str
    body: bytes


@dataclass(frozen=True, slots=True)
class _Request:
    method: str
    path: str
    keep_alive: bool
    host: str | None
    origin: str | None


Handler = Callable[[], Awaitable[Response]]
Admission = Callable[[str | None, str | None], tuple[HTTPStatus, str] | None]


def text(status: HTTPStatus, message: str) -> Response:
    return Response(status, "text/plain; charset=utf-8", message.encode() + b"\n")


class HttpServer:
    """Dispatches requests by path."""

    def __init__(
        self, host: str, port: int, handlers: Mapping[str, Handler], admission: Admission = lambda *_: None
    ) -> None:
        """`admission` says how a request with these headers `Host` and `Origin` is refused; None: it is served."""
        self._admission = admission
        self._host = host
        self._port = port
        self._handlers = handlers
        self._clients: dict[asyncio.StreamWriter, asyncio.Task[None]] = {}
        self._server: asyncio.Server | None = None

    @property
    def port(self) -> int:
        """The port in use, after `start`."""
        return self._port

    @property
    def place(self) -> Address:
        """The address and port in use."""
        return Address(self._host, self._port)

    async def start(self) -> None:
        """Begins to listen. Raises OSError if it cannot."""
        family, kind, _, _, address = socket.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
            self._server = await asyncio.start_server(self._serve, sock=listening, limit=REQUEST_BYTES_MAX)
        except OSError:
            listening.close()
            raise
        self._port = int(self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        if self._server is None:
            return
        self._server.close()
        for client in self._clients:
            client.transport.abort()
        await asyncio.gather(*self._clients.values())
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answers the requests of a connection in order."""
        serving = asyncio.current_task()
        assert serving is not None
        self._clients[writer] = serving
        try:
            if len(self._clients) <= CONNECTIONS_MAX:
                await self._answer_all(reader, writer)
            else:
                busy = f"More than {CONNECTIONS_MAX} connections are open. Try again later."
                await _send(writer, text(HTTPStatus.SERVICE_UNAVAILABLE, busy), keep_alive=False)
        except (TimeoutError, OSError):
            writer.transport.abort()
        except Exception:  # A bug here must not leave the client waiting, nor be reported by asyncio without a context.
            log.exception("a monitoring connection failed")
            writer.transport.abort()
        finally:
            del self._clients[writer]
            writer.close()

    async def _answer_all(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests, idle_seconds = _RequestReader(reader), REQUEST_SECONDS
        while True:
            for request in await requests.following(idle_seconds):
                response = await self._answer(request)
                await _send(writer, response, keep_alive=request.keep_alive, head=request.method == "HEAD")
                if not request.keep_alive:
                    return
            if requests.problem is not None:
                await _send(writer, requests.problem, keep_alive=False)
            if requests.problem is not None or reader.at_eof():
                return
            idle_seconds = IDLE_SECONDS

    async def _answer(self, request: _Request) -> Response:
        refused = self._admission(request.host, request.origin)
        if refused is not None:
            return text(*refused)
        handler = self._handlers.get(request.path)
        if handler is None:
            return text(
                HTTPStatus.NOT_FOUND, f"Nothing is served at this path. Request one of {', '.join(self._handlers)}."
            )
        if request.method not in ("GET", "HEAD"):
            return text(HTTPStatus.METHOD_NOT_ALLOWED, "Use GET or HEAD.")
        try:
            return await handler()
        except Exception:  # A fault of the gateway must not leave a probe or a scrape without an answer.
            log.exception("the answer to %s failed", request.path)
            return text(
                HTTPStatus.INTERNAL_SERVER_ERROR, "The gateway failed to answer this request; its log says why."
            )


class _RequestReader:
    """The requests of a connection."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self._parser = httptools.HttpRequestParser(self)
        self._url = b""
        self._headers: dict[str, str] = {}
        self._bytes = 0  # Bytes of the request that is being read.
        self._found: list[_Request] = []
        self.problem: Response | None = None
        """The answer to what follows and is not a request."""

    async def following(self, idle_seconds: float) -> list[_Request]:
        """The next requests, as many as have arrived together; none at the end or before a problem. Raises
        TimeoutError if none begins in this time, or if one is not complete in time."""
        self._found = []
        async with asyncio.timeout(REQUEST_SECONDS if self._bytes else idle_seconds) as limit:
            while not self._found and self.problem is None and (data := await self._reader.read(REQUEST_BYTES_MAX)):
                if not self._bytes:
                    limit.reschedule(asyncio.get_running_loop().time() + REQUEST_SECONDS)
                self._feed(data)
        return self._found

    def _feed(self, data: bytes) -> None:
        self._bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            pass  # The request is answered as if it had not asked for another protocol.
        except httptools.HttpParserError as error:
            self.problem = text(HTTPStatus.BAD_REQUEST, f"This is not a valid HTTP request: {error}.")
        if self._bytes > REQUEST_BYTES_MAX:
            long = f"A request may have at most {REQUEST_BYTES_MAX} bytes."
            self.problem = text(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, long)

    # --- httptools ---------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self._url = b""
        self._headers = {}

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        key, content = name.decode("latin-1").lower(), value.decode("latin-1").strip()
        if key in ("host", "origin"):
            # A repeated header is not an accepted name.
            self._headers[key] = f"{self._headers[key]}, {content}" if key in self._headers else content

    def on_message_complete(self) -> None:
        self._bytes = 0
        keep_alive = self._parser.should_keep_alive() and not self._parser.should_upgrade()
        try:
            path = (httptools.parse_url(self._url).path or b"").decode("ascii", "replace")
        except httptools.HttpParserError:
            path = ""
        host, origin = self._headers.get("host"), self._headers.get("origin")
        self._found.append(_Request(self._parser.get_method().decode("ascii"), path, keep_alive, host, origin))


async def _send(writer: asyncio.StreamWriter, response: Response, *, keep_alive: bool, head: bool = False) -> None:
    """Raises OSError if the client has gone, and TimeoutError if it does not read the answer in time."""
    if writer.is_closing():
        raise ConnectionResetError
    writer.transport.set_write_buffer_limits(0)  # `drain` waits until the client has everything.
    writer.write(_bytes(response, keep_alive=keep_alive, head=head))
    async with asyncio.timeout(REQUEST_SECONDS):
        await writer.drain()


def _bytes(response: Response, *, keep_alive: bool, head: bool) -> bytes:
    """Encodes a response; `head`: without the body."""
    status = response.status
    lines = [
        f"HTTP/1.1 {status.value} {status.phrase}",
        f"Content-Type: {response.content_type}",
        f"Content-Length: {len(response.body)}",
        "Cache-Control: no-store",
        f"Connection: {'keep-alive' if keep_alive else 'close'}",
        *(["Allow: GET, HEAD"] if status is HTTPStatus.METHOD_NOT_ALLOWED else []),
    ]
    return "\r\n".join([*lines, "", ""]).encode() + (b"" if head else response.body)
