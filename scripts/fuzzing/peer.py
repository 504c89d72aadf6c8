"""A client's end of one connection, with asyncio: right and wrong bytes alike."""

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
"""SO_LINGER that makes a close a reset."""


class Peer(ABC):
    """Make one with `connect`; end it with `close` or `reset`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @abstractmethod
    async def log_in(self, user: str) -> None:
        """From here on calls are that user's. Raises ConnectionError where it is refused."""

    @abstractmethod
    def on_the_wire(self, message: bytes) -> bytes:
        """A message as it is sent."""

    @abstractmethod
    async def reply(self) -> bytes:
        """The next message. Raises IncompleteReadError where the connection ends first, WireError for what is none."""

    async def exchange(self, message: bytes) -> bytes:
        """The reply to one message."""
        self.send(self.on_the_wire(message))
        return await self.reply()

    def send(self, data: bytes) -> None:
        """Raises ConnectionError where the connection has ended; uvloop knows no better than RuntimeError there."""
        if self.writer.transport.is_closing():
            raise ConnectionResetError("the gateway has closed the connection")
        self.writer.write(data)

    def end(self) -> None:
        """Sends no more, and goes on reading. Raises as `send`."""
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
        """As a client does that is killed, or a line that is cut."""
        connection: socket.socket | None = self.writer.get_extra_info("socket")
        if connection is not None:
            with contextlib.suppress(OSError):
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.writer.transport.abort()
        with contextlib.suppress(ConnectionError):
            await self.writer.wait_closed()


class BinaryPeer(Peer):
    """`framed`: with SASL."""

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
    """Writes its requests in all the ways in which HTTP lets it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, random: Random) -> None:
        super().__init__(reader, writer)
        self._random = random
        self.login = b""
        """The header that says who it is."""
        self.cookie = b""
        """The header that says so instead; none before the first reply."""
        self.ended = False
        """The gateway has said that no further reply comes."""

    @classmethod
    async def connect(cls, port: int, random: Random) -> HttpPeer:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        return cls(reader, writer, random)

    async def log_in(self, user: str) -> None:
        """Sends nothing: each request says who it comes from."""
        self.login, self.cookie = http_mutation.basic(user), b""

    def on_the_wire(self, message: bytes) -> bytes:
        who = self.cookie if self.cookie and self._random.random() < 0.7 else self.login
        return http_mutation.written(message, [who], self._random)

    async def answer(self) -> HttpReply:
        """The next answer, whatever it says."""
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
    """GetOperationStatus, GetResultSetMetadata, CancelOperation or CloseOperation."""
    return encoded(name, getattr(ttypes, f"T{name}Req")(operation))


def fetch(operation: Any, rows_max: int, orientation: int = 0) -> bytes:
    return encoded("FetchResults", ttypes.TFetchResultsReq(operation, orientation, rows_max, 0))


def close_session(session: Any) -> bytes:
    return encoded("CloseSession", ttypes.TCloseSessionReq(session))


def query(token: str, rows: int) -> str:
    return f"SELECT '{token}' AS token, CAST(id AS STRING) AS number FROM range({rows})"
