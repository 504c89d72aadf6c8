"""A small HTTP/1.1 server for monitoring: GET and HEAD of a few paths, keep-alive, and limits on everything."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import cast

import httptools

log = logging.getLogger(__name__)

CONNECTIONS_MAX = 100
"""Scrapers and probes are few; more connections are a fault."""
REQUEST_BYTES_MAX = 16_384
"""Longest request, head and body. Monitoring sends no body."""
REQUEST_SECONDS = 10.0
"""Time for a request to be complete once it has begun, and for an answer to be read."""
IDLE_SECONDS = 120.0
"""Longest time between two requests; longer than the usual scrape intervals."""
AHEAD_MAX = 8
"""Requests that a client may send before the first one is answered."""


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
        self._clients: set[_Client] = set()
        self._server: asyncio.Server | None = None

    @property
    def port(self) -> int:
        """The port in use, after `start`."""
        return self._port

    async def start(self) -> None:
        """Begins to listen. Raises OSError if it cannot."""
        family, kind, _, _, address = socket.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
            self._server = await asyncio.get_running_loop().create_server(lambda: _Client(self), sock=listening)
        except OSError:
            listening.close()
            raise
        self._port = int(self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        if self._server is None:
            return
        self._server.close()
        for client in tuple(self._clients):
            client.abort()
        await self._server.wait_closed()

    def enter(self, client: _Client) -> bool:
        """Registers a client. Returns whether the limit allows it."""
        self._clients.add(client)
        return len(self._clients) <= CONNECTIONS_MAX

    def leave(self, client: _Client) -> None:
        self._clients.discard(client)

    async def answer(self, request: _Request) -> Response:
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


class _Client(asyncio.Protocol):
    """One connection. Requests are answered in order, one at a time."""

    def __init__(self, server: HttpServer) -> None:
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self._url = b""
        self._headers: dict[str, str] = {}
        self._bytes = 0  # Bytes of the request that is being read.
        self._waiting: deque[_Request | Response] = deque()  # A Response in the queue ends the connection.
        self._last = False  # Data after the last waiting request is not read.
        self._work: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._writable = asyncio.Event()
        self._writable.set()

    # --- asyncio.Protocol --------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._limit(REQUEST_SECONDS)
        if not self._server.enter(self):
            self._end_with(
                text(
                    HTTPStatus.SERVICE_UNAVAILABLE,
                    f"More than {CONNECTIONS_MAX} connections are open. Try again later.",
                )
            )

    def data_received(self, data: bytes) -> None:
        if self._last:
            return
        self._bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._last = True  # The request is answered as if it had not asked for another protocol.
        except httptools.HttpParserError as error:
            if not self._last:
                self._end_with(text(HTTPStatus.BAD_REQUEST, f"This is not a valid HTTP request: {error}."))
        if self._bytes > REQUEST_BYTES_MAX:
            problem = f"A request may have at most {REQUEST_BYTES_MAX} bytes."
            self._end_with(text(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, problem))

    def eof_received(self) -> bool:
        # A client that sends nothing more may still read.
        self._last = True
        return self._work is not None

    def pause_writing(self) -> None:
        self._writable.clear()
        self._limit(REQUEST_SECONDS)

    def resume_writing(self) -> None:
        self._writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self._limit(None)
        self._server.leave(self)
        if self._work is not None:
            self._work.cancel()

    # --- httptools ---------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self._url = b""
        self._headers = {}
        if self._work is None:
            self._limit(REQUEST_SECONDS)

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        key, content = name.decode("latin-1").lower(), value.decode("latin-1").strip()
        if key in ("host", "origin"):
            # A repeated header is no name that is accepted.
            self._headers[key] = f"{self._headers[key]}, {content}" if key in self._headers else content

    def on_message_complete(self) -> None:
        self._bytes = 0
        if self._last:
            return
        keep_alive = self._parser.should_keep_alive() and not self._parser.should_upgrade()
        try:
            path = (httptools.parse_url(self._url).path or b"").decode("ascii", "replace")
        except httptools.HttpParserError:
            path = ""
        if len(self._waiting) >= AHEAD_MAX:
            self._end_with(text(HTTPStatus.TOO_MANY_REQUESTS, f"At most {AHEAD_MAX} requests may wait for an answer."))
            return
        self._last = not keep_alive
        host, origin = self._headers.get("host"), self._headers.get("origin")
        self._put(_Request(self._parser.get_method().decode("ascii"), path, keep_alive, host, origin))

    # --- answering ---------------------------------------------------------------------------------

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _end_with(self, response: Response) -> None:
        if not self._last or not self._waiting:
            self._last = True
            self._put(response)

    def _put(self, item: _Request | Response) -> None:
        self._waiting.append(item)
        if self._work is None:
            self._begin()

    def _begin(self) -> None:
        self._limit(None)
        self._work = self._loop.create_task(self._answer_all())
        self._work.add_done_callback(self._answered)

    async def _answer_all(self) -> None:
        assert self._transport is not None
        while self._waiting:
            item = self._waiting.popleft()
            if isinstance(item, Response):
                self._transport.write(_bytes(item, keep_alive=False, head=False))
                self._transport.close()
                return
            response = await self._server.answer(item)
            self._transport.write(_bytes(response, keep_alive=item.keep_alive, head=item.method == "HEAD"))
            if not item.keep_alive:
                self._transport.close()
                return
            await self._writable.wait()

    def _answered(self, work: asyncio.Task[None]) -> None:
        self._work = None
        if not work.cancelled() and (error := work.exception()) is not None:
            log.error("a monitoring connection failed", exc_info=error)
            self.abort()
        elif self._transport is None or self._transport.is_closing():
            self._limit(REQUEST_SECONDS)  # The client must read the answer in time.
        elif self._waiting:
            self._begin()  # The request came just as the work had ended.
        elif self._last:
            self._transport.close()
        else:
            self._limit(IDLE_SECONDS if not self._bytes else REQUEST_SECONDS)

    def _limit(self, seconds: float | None) -> None:
        """Aborts the connection after this time, unless something happens; None: never."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if seconds is None else self._loop.call_later(seconds, self.abort)


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
