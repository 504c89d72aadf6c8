"""The leader's end of a connection that a door passes on: the client's transport, with chunks around what is sent.

Tests: `test_doorway`.
"""

from __future__ import annotations

import asyncio
from typing import Any

from gateway.wire.chunks import Chunk, chunk, head

_JOINED_BYTES_MAX = 4096
"""Shorter replies are copied behind their heads."""


class DoorTransport(asyncio.Transport):
    """Closing it closes the client; after `leave` the client waits at its door for the next leader."""

    def __init__(self, transport: asyncio.Transport) -> None:
        super().__init__()
        self.inner = transport
        self._is_answered = True

    def write(self, data: Any) -> None:
        """Sends part of a reply."""
        self._is_answered = False
        self._put(Chunk.PART, data)

    def reply(self, data: bytes) -> None:
        """Sends a reply, or the end of one, after which nothing that the client has sent is unanswered."""
        self._is_answered = True
        self._put(Chunk.REPLY, data)

    def ticket(self, data: bytes) -> None:
        """Sends what the next leader needs to go on with the client."""
        self._put(Chunk.TICKET, data)

    def leave(self) -> None:
        """Closes the connection, but not the client: nothing that it has sent since the last reply was acted upon."""
        if self._is_answered:
            self._put(Chunk.LEAVE, b"")
        self.inner.close()

    def cut(self) -> None:
        """Closes the connection, but not the client: it is unknown what became of what it has sent."""
        self.inner.close()

    def close(self) -> None:
        self._put(Chunk.CLOSE, b"")
        self.inner.close()

    def abort(self) -> None:
        self.inner.abort()

    def _put(self, kind: Chunk, data: bytes) -> None:
        if len(data) <= _JOINED_BYTES_MAX:
            self.inner.write(chunk(kind, data))
        else:
            self.inner.writelines((head(kind, len(data)), data))

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self.inner.get_extra_info(name, default)

    def is_closing(self) -> bool:
        return self.inner.is_closing()

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.inner.set_protocol(protocol)

    def pause_reading(self) -> None:
        self.inner.pause_reading()

    def resume_reading(self) -> None:
        self.inner.resume_reading()

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        """Closes the client, whose door then ends this connection."""
        self._put(Chunk.CLOSE, b"")

    def get_write_buffer_size(self) -> int:
        return self.inner.get_write_buffer_size()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self.inner.set_write_buffer_limits(high, low)
