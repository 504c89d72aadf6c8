"""A client's end of one connection, with asyncio: right and wrong bytes alike."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from typing import Any

from raw_session import encoded, login
from TCLIService import ttypes

from gateway.wire.frame import frame
from gateway.wire.scanner import MessageScanner

READ_BYTES = 1 << 16
_RESET = struct.pack("ii", 1, 0)
"""SO_LINGER that makes a close a reset."""


class Peer:
    """Make one with `connect`; end it with `close` or `reset`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, framed: bool) -> None:
        self.reader = reader
        self.writer = writer
        self.framed = framed
        self._ahead = b""

    @classmethod
    async def connect(cls, port: int, framed: bool = True) -> Peer:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        return cls(reader, writer, framed)

    async def log_in(self, user: str) -> None:
        """Does nothing without SASL. Raises ConnectionError where it is refused."""
        if self.framed:
            self.send(login(user))
            answer = await self.reader.readexactly(5)
            if answer[0] != 5:
                raise ConnectionError(f"the login was answered by {answer!r}")

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

    def on_the_wire(self, message: bytes) -> bytes:
        return frame(message) if self.framed else message

    async def exchange(self, message: bytes) -> bytes:
        """The reply to one message."""
        self.send(self.on_the_wire(message))
        return await self.reply()

    async def reply(self) -> bytes:
        """The next message. Raises IncompleteReadError where the connection ends first."""
        if self.framed:
            size = int.from_bytes(await self.reader.readexactly(4), "big")
            return await self.reader.readexactly(size)
        scanner, message = MessageScanner(1 << 30), bytearray()
        while True:
            piece = self._ahead or await self.reader.read(READ_BYTES)
            if not piece:
                raise asyncio.IncompleteReadError(bytes(message), None)
            end = scanner.feed(piece)
            message += piece[:end]
            self._ahead = piece[end:] if end is not None else b""
            if end is not None:
                return bytes(message)

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
