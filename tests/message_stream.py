"""Reads HiveServer2 messages from an asyncio stream: with frames, without frames, or in HTTP."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from gateway.wire.frame import WireError
from gateway.wire.scanner import MessageScanner

MESSAGE_BYTES_MAX = 1 << 31
READ_BYTES = 1 << 20


class MessageStream:
    """Reads messages one by one. `framed` may be changed between two messages."""

    def __init__(self, reader: asyncio.StreamReader, framed: bool) -> None:
        self.reader = reader
        self.framed = framed
        self._ahead = b""

    async def message(self) -> bytes:
        """The next whole message. Raises `IncompleteReadError` when the other side has closed."""
        scanner, message = MessageScanner(MESSAGE_BYTES_MAX), bytearray()
        if self.framed:
            while scanner.feed(piece := await self._frame()) is None:
                message += piece
            return bytes(message + piece)
        while True:
            piece = self._ahead or await self.reader.read(READ_BYTES)
            if not piece:
                raise asyncio.IncompleteReadError(bytes(message), None)
            end = scanner.feed(piece)
            message += piece[:end]
            self._ahead = piece[end:] if end is not None else b""
            if end is not None:
                return bytes(message)

    async def _frame(self) -> bytes:
        return await self.reader.readexactly(int.from_bytes(await self.reader.readexactly(4), "big"))


@dataclass(frozen=True, slots=True)
class HttpReply:
    """An HTTP response; `fields` has the names in lower case."""

    status: int
    fields: dict[str, str]
    body: bytes


async def http_reply(reader: asyncio.StreamReader) -> HttpReply:
    """The next response; interim responses (100) are skipped.

    Raises `IncompleteReadError` when the other side has closed, and WireError for an invalid response.
    """
    try:
        return await _reply(reader)
    except (ValueError, asyncio.LimitOverrunError) as error:
        raise WireError(f"invalid HTTP response: {error}") from error


async def _reply(reader: asyncio.StreamReader) -> HttpReply:
    while True:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.rstrip().split("\r\n")
        version, code, _ = first.split(" ", 2)
        if version != "HTTP/1.1":
            raise ValueError(first)
        if code != "100":
            break
    fields = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    if "content-length" in fields:
        body = await reader.readexactly(int(fields["content-length"]))
    elif "transfer-encoding" in fields:
        body = await _chunks(reader)
    else:
        body = await reader.read()
    return HttpReply(int(code), fields, body)


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    body = bytearray()
    while size := int(await reader.readuntil(b"\r\n"), 16):
        body += (await reader.readexactly(size + 2))[:-2]
    await reader.readexactly(2)
    return bytes(body)
