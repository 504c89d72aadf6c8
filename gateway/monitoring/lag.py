"""How late the event loop is: everything that the gateway does waits so long."""

from __future__ import annotations

import asyncio
from collections import deque

from gateway.tally import SHORT_SECONDS, Histogram

INTERVAL_SECONDS = 1.0
WINDOW = 60
"""Measurements of which the greatest is told, so that scrapes at any interval up to a minute see it."""


class LoopLag:
    """Measures once a second by how much a timer is late."""

    def __init__(self) -> None:
        self.seconds = Histogram(SHORT_SECONDS)
        self._last: deque[float] = deque(maxlen=WINDOW)
        self._timer: asyncio.TimerHandle | None = None

    @property
    def greatest(self) -> float:
        """Of the last minute, in seconds."""
        return max(self._last, default=0.0)

    def start(self) -> None:
        """From within the event loop."""
        loop = asyncio.get_running_loop()
        self._await(loop, loop.time() + INTERVAL_SECONDS)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _await(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        self._timer = loop.call_at(due, self._measure, loop, due)

    def _measure(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        now = loop.time()
        # uvloop's clock counts whole milliseconds, so a timer may seem to be early.
        late = max(0.0, now - due)
        self.seconds.add(late)
        self._last.append(late)
        self._await(loop, now + INTERVAL_SECONDS)
