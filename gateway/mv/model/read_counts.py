"""How often a view is read, how, when, and by whom.

Counts of days are stored with the view's next refresh; everything else is counted since the gateway began to lead.

Tests: `test_recent_statements`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from gateway.mv.model import properties as stored

log = logging.getLogger(__name__)

DAYS_MAX = 35
"""Days whose reads are counted."""
USERS_MAX = 20
"""Users that are remembered: those who read last."""
DAY_MS = 86_400_000


class How(StrEnum):
    """How a read of a view was answered."""

    NAMED = "named"
    """The statement names the view, or another view above it, and Spark read its rows."""
    REWRITTEN = "rewritten"
    """The statement names base tables, and a text on the view answered it."""
    MEMORY = "memory"
    """Of either kind, from memory."""


@dataclass(slots=True)
class ReadCounts:
    """The successful reads of one view. Times are milliseconds since the epoch, and days are numbered since then, in
    UTC."""

    counts: dict[How, int] = field(default_factory=lambda: dict.fromkeys(How, 0))
    waited_ms: int = 0
    """How long the reads waited for refreshes, in all."""
    last_at: int = 0
    """0: it was never read, as far as known."""
    users: dict[str, int] = field(default_factory=dict)
    """When each of them read last; oldest first."""
    days: dict[int, int] = field(default_factory=dict)
    """ReadCounts of each day that had any."""
    _unsaved: bool = False

    @classmethod
    def of_stored(cls, properties: Mapping[str, str]) -> ReadCounts:
        """What is stored. If that is damaged, nothing, so that the view is served all the same."""
        try:
            last_at, days = stored.read_reads(properties)
            return cls(last_at=last_at, days=days)
        except (stored.UnreadableProperties, ValueError, TypeError) as error:
            log.warning("the stored counts of a view's reads cannot be read and are ignored: %s", error)
            return cls()

    def recall(self, stored_before: ReadCounts) -> None:
        """Adds what was stored before this gateway counted."""
        self.last_at = max(self.last_at, stored_before.last_at)
        for day, reads in stored_before.days.items():
            self.days[day] = self.days.get(day, 0) + reads

    def count(self, how: How, user: str, at: int, waited_ms: int) -> None:
        """A statement that began `at` has read the view, and waited so long for refreshes."""
        self.counts[how] += 1
        self.waited_ms += waited_ms
        self.last_at = max(self.last_at, at)
        self.users.pop(user, None)
        self.users[user] = at
        if len(self.users) > USERS_MAX:
            del self.users[next(iter(self.users))]
        day = at // DAY_MS
        self.days[day] = self.days.get(day, 0) + 1
        if len(self.days) > DAYS_MAX:
            del self.days[min(self.days)]
        self._unsaved = True

    def since(self, day: int) -> int:
        """The reads of this day and later ones."""
        return sum(reads for each, reads in self.days.items() if each >= day)

    def unsaved(self) -> dict[str, str]:
        """The properties that store the counts; empty if nothing was read since `saved`."""
        return stored.write_reads(self.last_at, self.days) if self._unsaved else {}

    def saved(self, properties: Mapping[str, str]) -> None:
        """These properties were stored."""
        if stored.write_reads(self.last_at, self.days).items() <= properties.items():
            self._unsaved = False
