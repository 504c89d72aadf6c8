"""Cheap counters and histograms for monitoring, and what keeps the log short."""

from __future__ import annotations

import math
import time
from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate

SHORT_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
"""Bucket bounds, in seconds, for what should be fast."""
LONG_SECONDS = (0.005, 0.025, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1800.0, 7200.0)
"""Bucket bounds, in seconds, for work at Spark."""


class Histogram:
    """Counts values by bucket, and sums them."""

    __slots__ = ("_bounds", "_counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self.total += value

    def buckets(self) -> Iterator[tuple[str, float]]:
        """Each bound as a string, `+Inf` last, and the number of values up to it."""
        bounds = [*map(str, self._bounds), "+Inf"]
        return zip(bounds, map(float, accumulate(self._counts)), strict=True)


class Seldom:
    """Lets something happen at most once in so many seconds."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._last = -math.inf

    def is_due(self) -> bool:
        """Whether it may happen now; then it counts as having happened."""
        now = time.monotonic()
        if now - self._last < self._seconds:
            return False
        self._last = now
        return True
