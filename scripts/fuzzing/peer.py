"""A client's end of one connection, with asyncio, for valid and malformed bytes."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import struct
from abc import ABC, abstractmethod
from random import Random
from typing import Any

from message_stream import HttpReply, MessageStream, http_reply
from raw_session import encoded, login
from TCLIService import ttypes

from fuzzing import http_mutation
from gateway.wire.frame import WireError, frame

READ_BYTES = 1 << 16
COOKIE = re.compile(rb"hive\.server2\.auth=[\w-]{43}")
_RESET = struct.pack("ii", 1, 0)
"""SO_LINGER that turns a close into a reset."""


class Peer(ABC):
    """A connection, opened with `connect`; end it with `close` or `reset`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @abstractmethod
    async def log_in(self, user: str) -> None:
        """Logs in; later calls are that user's. Raises ConnectionError if the login is refused."""

    @abstractmethod
    def on_the_wire(self, message: bytes) -> bytes:
        """Encodes a message for this transport."""

    @abstractmethod
    async def reply(self) -> bytes:
        """Returns the next message. Raises IncompleteReadError if the connection ends first, WireError if it is
        malformed."""

    async def exchange(self, message: bytes) -> bytes:
        """Returns the reply to a message."""
        self.send(self.on_the_wire(message))
        return await self.reply()

    def send(self, data: bytes) -> None:
        """Sends data. Raises ConnectionError if the connection has ended, for which uvloop raises only RuntimeError."""
        if self.writer.transport.is_closing():
            raise ConnectionResetError("the gateway has closed the connection")
        self.writer.write(data)

    def end(self) -> None:
        """Closes the sending direction only. Raises as `send`."""
        if self.writer.transport.is_closing():
            raise ConnectionResetError("the gateway has closed the connection")
        try:
            self.writer.write_eof()
        except OSError as error:
            raise ConnectionResetError("the gateway has closed the connection") from error

    async def close(self) -> None:
        self.writer.close()
        with contextlib.suppress(ConnectionError):
            await self.writer.wait_closed()

    async def reset(self) -> None:
        """Resets the connection, as a killed client does."""
        connection: socket.socket | None = self.writer.get_extra_info("socket")
        if connection is not None:
            with contextlib.suppress(OSError):
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.writer.transport.abort()
        with contextlib.suppress(ConnectionError):
            await self.writer.wait_closed()


class BinaryPeer(Peer):
    """A client of the binary transport. `framed`: with SASL."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, framed: bool) -> None:
        super().__init__(reader, writer)
        self.framed = framed
        self._stream = MessageStream(reader, framed)

    @classmethod
    async def connect(cls, port: int, framed: bool = True) -> BinaryPeer:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        return cls(reader, writer, framed)

    async def log_in(self, user: str) -> None:
        """Does nothing without SASL."""
        if self.framed:
            self.send(login(user))
            answer = await self.reader.readexactly(5)
            if answer[0] != 5:
                raise ConnectionError(f"the login was answered by {answer!r}")

    def on_the_wire(self, message: bytes) -> bytes:
        return frame(message) if self.framed else message

    async def reply(self) -> bytes:
        return await self._stream.message()


class HttpPeer(Peer):
    """A client of the HTTP transport, which uses all valid forms of requests."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, random: Random) -> None:
        super().__init__(reader, writer)
        self._random = random
        self.login = b""
        """The Authorization header."""
        self.cookie = b""
        """The cookie header that replaces it; empty before the first reply."""
        self.ended = False
        """The gateway has announced that no further reply comes."""

    @classmethod
    async def connect(cls, port: int, random: Random) -> HttpPeer:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        return cls(reader, writer, random)

    async def log_in(self, user: str) -> None:
        """Sends nothing, because each request carries the login."""
        self.login, self.cookie = http_mutation.basic(user), b""

    def on_the_wire(self, message: bytes) -> bytes:
        who = self.cookie if self.cookie and self._random.random() < 0.7 else self.login
        return http_mutation.written(message, [who], self._random)

    async def answer(self) -> HttpReply:
        """Returns the next answer, whatever its status."""
        found = await http_reply(self.reader)
        self.ended = found.fields.get("connection") == "close"
        if given := COOKIE.match(found.fields.get("set-cookie", "").encode("latin-1")):
            self.cookie = b"Cookie: " + given[0]
        return found

    async def reply(self) -> bytes:
        found = await self.answer()
        if found.status != 200:
            raise WireError(f"{found.status}: {found.body!r}")
        return found.body


def open_session(user: str, protocol: int = 5) -> bytes:
    return encoded("OpenSession", ttypes.TOpenSessionReq(protocol, user, None, {"use:database": "default"}))


def execute(session: Any, sql: str, run_async: bool = False) -> bytes:
    return encoded("ExecuteStatement", ttypes.TExecuteStatementReq(session, sql, {}, run_async))


def about(name: str, operation: Any) -> bytes:
    """A GetOperationStatus, GetResultSetMetadata, CancelOperation or CloseOperation call."""
    return encoded(name, getattr(ttypes, f"T{name}Req")(operation))


def fetch(operation: Any, rows_max: int, orientation: int = 0) -> bytes:
    return encoded("FetchResults", ttypes.TFetchResultsReq(operation, orientation, rows_max, 0))


def close_session(session: Any) -> bytes:
    return encoded("CloseSession", ttypes.TCloseSessionReq(session))


def query(token: str, rows: int) -> str:
    return f"SELECT '{token}' AS token, CAST(id AS STRING) AS number FROM range({rows})"
