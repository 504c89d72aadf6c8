"""Measures how late the event loop is: everything in the gateway waits that long."""

from __future__ import annotations

import asyncio
from collections import deque

from gateway import loops
from gateway.tally import SHORT_SECONDS, Histogram

INTERVAL_SECONDS = 1.0
WINDOW = 60
"""Measurements in the maximum, so that scrapes at any interval up to a minute see it."""


class LoopLag:
    """Measures once a second how late a timer is."""

    def __init__(self) -> None:
        self.seconds = Histogram(SHORT_SECONDS)
        self._last: deque[float] = deque(maxlen=WINDOW)
        self.loop = loops.Loop("lag of the event loop", self._turn)

    @property
    def greatest(self) -> float:
        """The maximum of the last minute, in seconds."""
        return max(self._last, default=0.0)

    async def _turn(self) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time() + INTERVAL_SECONDS
        await asyncio.sleep(INTERVAL_SECONDS)
        self.measure(loop.time() - due)

    def measure(self, late: float) -> None:
        """Records by how many seconds a timer was late."""
        # uvloop's clock counts whole milliseconds, so a timer may seem early.
        late = max(0.0, late)
        self.seconds.add(late)
        self._last.append(late)
