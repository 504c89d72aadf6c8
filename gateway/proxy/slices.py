"""What a client sends, some of it in each turn of the event loop.

There may be a request in every hundred bytes of it, or a frame in every five; and where much has come, uvloop gives all
of it in one turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

SLICE_BYTES = 32_768
"""To look at so many takes 20 ms at the most."""


class Slices:
    """Gives what is fed to it to `read`, at once or in the next turns. True while some of it waits: nothing more is to
    be read then."""

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
            self._give(data)

    def _give(self, data: bytes) -> None:
        if len(data) > SLICE_BYTES:
            data, self._rest = data[:SLICE_BYTES], data[SLICE_BYTES:]
            self._loop.call_soon(self._go_on)
        self._read(data)

    def _go_on(self) -> None:
        rest, self._rest = self._rest, b""
        self._give(rest)
