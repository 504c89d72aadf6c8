"""How often queries of a shape were answered from views, and how long they took, from views and unchanged.

It outlives proofs, which end with every change of the catalog.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from dataclasses import dataclass, field
from enum import StrEnum

from sql.names import Namespace, TableName

SHAPES_MAX = 2_000
"""Shapes of queries whose proofs, or reasons against one, are remembered. Those not used for the longest time are
forgotten first."""


class WhyMissed(StrEnum):
    """Why a query on the base tables of views that take part was forwarded unchanged."""

    NEW = "not considered yet"
    NO_VIEW = "no view fits"
    NOT_PROVED = "not proved"
    LITERAL = "another literal"
    """It was proved for other values of a literal."""
    NOT_FRESH = "not fresh"
    SESSION = "session"
    """Temporary names, or a statement that may change what names and settings mean and has not ended."""
    LENGTH = "too long"
    QUARANTINED = "quarantined"
    """The view once gave other rows than its base tables."""
    FAILED = "failed"
    """The text on the view failed at Spark."""


@dataclass(slots=True)
class Counts:
    """Counts of all queries, since the start."""

    considered: int = 0
    matched: int = 0
    proved: int = 0
    used: int = 0
    failed: int = 0
    """Rewritings that failed at Spark, for which the client's own text ran."""
    answers_compared: int = 0
    """Answers from views that were compared with those of the clients' own texts."""
    answers_differed: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    """Queries that were forwarded unchanged, by `WhyMissed`."""
    saved_seconds: float = 0.0
    """Never decreases: an answer that took longer than the client's own text does not count."""


@dataclass(slots=True)
class Durations:
    """The durations of statements that succeeded."""

    count: int = 0
    seconds: float = 0.0

    @property
    def mean(self) -> float | None:
        return self.seconds / self.count if self.count else None

    def add(self, seconds: float) -> None:
        self.count += 1
        self.seconds += seconds


@dataclass(frozen=True, slots=True)
class CountedQueries:
    """The queries that are counted together."""

    shape: str
    namespace: Namespace
    user: str


@dataclass(slots=True)
class Usage:
    """Counts and durations of the queries of one shape."""

    counts: Counts
    hits: Counter[tuple[TableName, ...]] = field(default_factory=Counter)
    """By the views that answered together; mostly it is one."""
    misses: Counter[WhyMissed] = field(default_factory=Counter)
    own: Durations = field(default_factory=Durations)
    """Of the clients' own texts, at Spark."""
    answered: Durations = field(default_factory=Durations)
    """Of the texts on views."""

    def missed(self, reason: WhyMissed) -> None:
        """A query is forwarded unchanged."""
        self.misses[reason] += 1
        self.counts.refused[reason] += 1

    def used(self, views: tuple[TableName, ...]) -> None:
        """Views answer a query."""
        self.hits[views] += 1
        self.counts.used += 1

    def took(self, seconds: float) -> None:
        """A view has answered a query in this time."""
        self.answered.add(seconds)
        if (own := self.own.mean) is not None:
            self.counts.saved_seconds += max(0.0, own - seconds)

    def failed(self, views: tuple[TableName, ...], reason: WhyMissed = WhyMissed.FAILED) -> None:
        """The views did not answer after all: the client's own text runs, and has `missed`."""
        self.hits -= Counter({views: 1})
        self.counts.used -= 1
        self.counts.failed += reason is WhyMissed.FAILED

    @property
    def saved_seconds(self) -> float | None:
        """Estimated: what the answered queries would have taken unchanged, less what they took. None if no query of
        the shape has run unchanged."""
        own = self.own.mean
        return None if own is None else own * self.answered.count - self.answered.seconds


class Usages:
    """The usage of the shapes that were used last."""

    def __init__(self, most: int = SHAPES_MAX) -> None:
        self.counts = Counts()
        self.nothing = Usage(self.counts)
        """Of queries without a shape."""
        self._most = most
        self._known: OrderedDict[CountedQueries, Usage] = OrderedDict()

    def of(self, shape: str, namespace: Namespace, user: str) -> Usage:
        asked = CountedQueries(shape, namespace, user)
        found = self._known.get(asked)
        if found is None:
            found = self._known[asked] = Usage(self.counts)
            if len(self._known) > self._most:
                self._known.popitem(last=False)
        else:
            self._known.move_to_end(asked)
        return found

    def items(self) -> list[tuple[CountedQueries, Usage]]:
        """Those used last at the end."""
        return list(self._known.items())
