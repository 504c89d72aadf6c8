"""What was written so far, and what a read may show of it.

A transaction with the number n puts the row (n, p) into each of PARTS partitions. Numbers are given one after the
other, and one transaction is written at a time. So a partition holds 1, 2, …, k at any moment, and what a read shows of
it is known from k alone: the rows carry their transaction's number.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

PARTS = 4

Content = list[tuple[int, int, int, int]]
"""Of each partition: its number, the rows, the greatest transaction number, and the sum of all."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a read must show at least, and may show at most: numbers of transactions."""

    least: int
    most: int


class Journal:
    """The transactions of one table."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._begun = self._ended = 0

    @property
    def begun(self) -> int:
        with self._lock:
            return self._begun

    @property
    def ended(self) -> int:
        with self._lock:
            return self._ended

    def begin(self) -> int:
        """The number of the next transaction."""
        with self._lock:
            self._begun = self._ended + 1
            return self._begun

    def end(self, number: int) -> None:
        with self._lock:
            self._ended = number


def fault(content: Content, bounds: Bounds) -> str | None:
    """What is wrong with what a read showed; None where nothing is."""
    counts = [rows for _, rows, _, _ in content]
    # A transaction's files come one after the other: in the beginning some partitions may be there alone.
    if len(content) != PARTS and (bounds.least > 0 or any(rows > 1 for rows in counts)):
        return "partitions are missing"
    for part, rows, last, total in content:
        if (last, total) != (rows, rows * (rows + 1) // 2):
            return f"partition {part} has {rows} rows, but not those of transactions 1 to {rows}"
    if counts and max(counts) - min(counts) > 1:
        return "it mixes moments: partitions are more than one transaction apart"
    if min(counts, default=0) < bounds.least:
        return f"it misses transactions that had ended before it began: {min(counts, default=0)} < {bounds.least}"
    if max(counts, default=0) > bounds.most:
        return f"it shows transactions that had not begun: {max(counts)} > {bounds.most}"
    return None
