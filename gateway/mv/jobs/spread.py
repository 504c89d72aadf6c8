"""When overdue refreshes begin after a start: not all at once.

Tests: `test_spread`.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

APART_MS = 2_000
"""How far apart overdue refreshes begin on average. Few of them lose little time, and many do not begin together."""
LONGEST_MS = 900_000
"""The last of very many begins so late. By then a view that is refreshed each quarter of an hour is due again."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Times are in milliseconds, since the epoch where they are moments."""

    began: int
    """What was due by then is spread."""
    window: int
    """How long after that the last refresh begins at most."""

    @classmethod
    def of(cls, began: int, overdue: int) -> Spread:
        """The spread of so many refreshes. A single one begins at once."""
        return cls(began, min(LONGEST_MS, max(0, overdue - 1) * APART_MS))

    def start(self, view_id: str, following: int | None) -> int:
        """When the overdue refresh of a view begins: always at the same place in the window, and no later than its
        schedule is due again (`following`)."""
        window = self.window if following is None else min(self.window, max(0, following - self.began))
        place = int.from_bytes(hashlib.sha256(view_id.encode()).digest()[:8])
        return self.began + (place * window >> 64)


NO_SPREAD = Spread(-1, 0)
"""Before the start."""
