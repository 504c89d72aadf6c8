"""Counts what epochs cost and prevent, over all terms of one gateway."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum

from gateway.tally import SHORT_SECONDS, Histogram

TAKEOVER_SECONDS = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0, 60.0, 120.0, 300.0)
"""Bucket bounds of how long a takeover took."""


class What(StrEnum):
    """What was refused because this gateway does not lead, or could not find out whether it does."""

    STATEMENT = "statement"
    """A client's request was not routed."""
    END = "end"
    """A client was told that the outcome of a statement is unknown."""
    CHANGE = "change"
    """A change of views or of what they store."""


@dataclass(frozen=True, slots=True)
class EpochCounts:
    check_seconds: Histogram = field(default_factory=lambda: Histogram(SHORT_SECONDS))
    """Of the checks whether the own epoch stands, those that failed too."""
    takeover_seconds: Histogram = field(default_factory=lambda: Histogram(TAKEOVER_SECONDS))
    """From the suspicion that the leader has gone, or the beginning of the attempt, until clients are served."""
    fenced: Counter[What] = field(default_factory=Counter)
