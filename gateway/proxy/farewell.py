"""The end of a connection whose client is not served, and told why."""

from __future__ import annotations

import asyncio
from typing import cast

from gateway.proxy.traffic import Traffic
from gateway.wire.connection import ClientEnd

SILENT_SECONDS = 1.0
"""For a client to begin to speak: what it begins with shows how it can be told."""
LEAVING_SECONDS = 2.0
"""For a client that was told to go by itself."""


class Farewell(asyncio.Protocol):
    """Answers the first bytes, and waits until the client has gone: who still writes to a closed connection is reset,
    and does not hear why."""

    def __init__(self, wire: ClientEnd, reason: str, traffic: Traffic) -> None:
        self._wire = wire
        self._reason = reason
        self._traffic = traffic
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._told = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._timer = asyncio.get_running_loop().call_later(SILENT_SECONDS, self._tell, b"")

    def data_received(self, data: bytes) -> None:
        self._traffic.from_clients += len(data)
        if not self._told:
            self._tell(data)

    def eof_received(self) -> bool:
        return False  # closes

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _tell(self, data: bytes) -> None:
        assert self._transport is not None
        assert self._timer is not None
        self._told = True
        self._timer.cancel()
        words = self._wire.refuse_connection(self._reason, data)
        self._traffic.to_clients += len(words)
        self._transport.write(words)
        if self._transport.can_write_eof():
            self._transport.write_eof()
        self._timer = asyncio.get_running_loop().call_later(LEAVING_SECONDS, self._transport.abort)
