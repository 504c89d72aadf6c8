"""How late the event loop is: everything that the gateway does waits so long."""

from __future__ import annotations

import asyncio
from collections import deque

from gateway import loops
from gateway.tally import SHORT_SECONDS, Histogram

INTERVAL_SECONDS = 1.0
WINDOW = 60
"""Measurements of which the greatest is told, so that scrapes at any interval up to a minute see it."""


class LoopLag:
    """Measures once a second by how much a timer is late."""

    def __init__(self) -> None:
        self.seconds = Histogram(SHORT_SECONDS)
        self._last: deque[float] = deque(maxlen=WINDOW)
        self.loop = loops.Loop("lag of the event loop", self._turn)

    @property
    def greatest(self) -> float:
        """Of the last minute, in seconds."""
        return max(self._last, default=0.0)

    async def _turn(self) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time() + INTERVAL_SECONDS
        await asyncio.sleep(INTERVAL_SECONDS)
        self.measure(loop.time() - due)

    def measure(self, late: float) -> None:
        """A timer was late by so many seconds."""
        # uvloop's clock counts whole milliseconds, so a timer may seem to be early.
        late = max(0.0, late)
        self.seconds.add(late)
        self._last.append(late)
