"""Processes a client's data in slices, one per turn of the event loop.

The data may contain a request in every hundred bytes, or a frame in every five. If much has arrived, uvloop delivers
all of it in one turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

SLICE_BYTES = 32_768
"""Processing this many bytes takes 20 ms at most."""


class Slices:
    """Passes data to `read`, at once or in the next turns. True while some of it waits: then nothing more should be
    read."""

    __slots__ = ("_loop", "_read", "_rest")

    def __init__(self, loop: asyncio.AbstractEventLoop, read: Callable[[bytes], None]) -> None:
        self._loop = loop
        self._read = read
        self._rest = b""

    def __bool__(self) -> bool:
        return bool(self._rest)

    def feed(self, data: bytes) -> None:
        if self._rest:
            self._rest += data
        else:
            self._pass_slice(data)

    def take(self) -> bytes:
        """Returns what waits, which will not be passed."""
        rest, self._rest = self._rest, b""
        return rest

    def _pass_slice(self, data: bytes) -> None:
        if len(data) > SLICE_BYTES:
            data, self._rest = data[:SLICE_BYTES], data[SLICE_BYTES:]
            self._loop.call_soon(self._go_on)
        self._read(data)

    def _go_on(self) -> None:
        rest, self._rest = self._rest, b""
        self._pass_slice(rest)
