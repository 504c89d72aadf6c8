"""Records what was written, and derives what a read may show of it.

Transaction n puts the row (n, p) into each of PARTS partitions. Transactions are numbered in order and written one at a
time. So at any moment a partition contains 1, 2, …, k, and what a read shows of it follows from k alone, because rows
carry their transaction's number.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

PARTS = 4

Content = list[tuple[int, int, int, int]]
"""Per partition: its number, the count of rows, the greatest transaction number, and their sum."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Numbers of transactions: a read must show all up to `least`, and none above `most`."""

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
        """Begins the next transaction, and returns its number."""
        with self._lock:
            self._begun = self._ended + 1
            return self._begun

    def end(self, number: int) -> None:
        with self._lock:
            self._ended = number


def fault(content: Content, bounds: Bounds) -> str | None:
    """Returns what is wrong with the rows of a read; None if nothing is."""
    counts = [rows for _, rows, _, _ in content]
    # A transaction's files appear one after the other: at the beginning, some partitions may exist before others.
    if len(content) != PARTS and (bounds.least > 0 or any(rows > 1 for rows in counts)):
        return "partitions are missing"
    for part, rows, last, total in content:
        if (last, total) != (rows, rows * (rows + 1) // 2):
            return f"partition {part} has {rows} rows, but not those of transactions 1 to {rows}"
    if counts and max(counts) - min(counts) > 1:
        return "it mixes moments: partitions differ by more than one transaction"
    if min(counts, default=0) < bounds.least:
        return f"it misses transactions that had ended before it began: {min(counts, default=0)} < {bounds.least}"
    if max(counts, default=0) > bounds.most:
        return f"it shows transactions that had not begun: {max(counts)} > {bounds.most}"
    return None
