"""Refuses a client with a reason, and closes its connection."""

from __future__ import annotations

import asyncio
from typing import cast

from gateway.proxy.traffic import Traffic
from gateway.wire.connection import ClientEnd

SILENT_SECONDS = 1.0
"""How long to wait for the client's first bytes, which show how to answer it."""
LEAVING_SECONDS = 2.0
"""How long a refused client may take to close the connection."""


class Farewell(asyncio.Protocol):
    """Answers the first bytes, then waits until the client has closed. A client that still writes to a closed
    connection is reset and would not receive the reason."""

    def __init__(self, wire: ClientEnd, reason: str, traffic: Traffic) -> None:
        self._wire = wire
        self._reason = reason
        self._traffic = traffic
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._answered = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._timer = asyncio.get_running_loop().call_later(SILENT_SECONDS, self._answer, b"")

    def data_received(self, data: bytes) -> None:
        self._traffic.from_clients += len(data)
        if not self._answered:
            self._answer(data)

    def eof_received(self) -> bool:
        return False  # Closes the transport.

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _answer(self, data: bytes) -> None:
        assert self._transport is not None
        assert self._timer is not None
        self._answered = True
        self._timer.cancel()
        refusal = self._wire.refuse_connection(self._reason, data)
        self._traffic.to_clients += len(refusal)
        self._transport.write(refusal)
        if self._transport.can_write_eof():
            self._transport.write_eof()
        self._timer = asyncio.get_running_loop().call_later(LEAVING_SECONDS, self._transport.abort)
