"""Counting for those who look in: values that cost next to nothing to change, and are read when somebody asks."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate

SHORT_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
"""Bounds for what should take no time."""
LONG_SECONDS = (0.005, 0.025, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1800.0, 7200.0)
"""Bounds for what Spark works at."""


class Histogram:
    """How often a value was at most each bound, and the sum of all values."""

    __slots__ = ("_bounds", "_counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self.total += value

    def buckets(self) -> Iterator[tuple[str, float]]:
        """Each bound as a text, `+Inf` last, and how many values were at most that."""
        bounds = [*map(str, self._bounds), "+Inf"]
        return zip(bounds, map(float, accumulate(self._counts)), strict=True)
