"""The queries that no view answered, by their shapes: how often they ran, and how long."""

from __future__ import annotations

import re
from collections import OrderedDict
from dataclasses import dataclass

from gateway.mv.rewriting.usage import CountedQueries
from sql.names import Namespace
from sql.rewriting.shape import shape_of

CHARACTERS_MAX = 4_000
"""Longer texts are not counted."""
_WORTH = re.compile(
    r"\b(?:group|distinct|join|count|count_if|sum|avg|mean|min|max|bool_and|bool_or|every|some|any|bit_and|bit_or)\b",
    re.IGNORECASE,
)
"""A query without any of these words reads single rows of one table, mostly."""


@dataclass(slots=True)
class Runs:
    """Counts the runs of one user's queries of one shape. Times are in seconds."""

    text: str
    """The last one. Its literals are never shown."""
    count: int = 0
    seconds: float = 0.0
    longest: float = 0.0


class Unanswered:
    """Counts the queries that no view answered, of the shapes that ran last."""

    def __init__(self, most: int) -> None:
        """`most`: the number of shapes; 0: nothing is counted."""
        self.counts = most > 0
        self._most = most
        self._known: OrderedDict[CountedQueries, Runs] = OrderedDict()

    def is_counted(self, text: str) -> bool:
        """Whether views may be suggested for a query."""
        return self.counts and len(text) <= CHARACTERS_MAX and _WORTH.search(text) is not None

    def took(self, text: str, namespace: Namespace, user: str, seconds: float) -> None:
        """A query has succeeded in this time."""
        asked = CountedQueries(shape_of(text).key, namespace, user)
        runs = self._known.get(asked)
        if runs is None:
            runs = self._known[asked] = Runs(text)
            if len(self._known) > self._most:
                self._known.popitem(last=False)
        else:
            self._known.move_to_end(asked)
        runs.text = text
        runs.count += 1
        runs.seconds += seconds
        runs.longest = max(runs.longest, seconds)

    def items(self) -> list[tuple[CountedQueries, Runs]]:
        """Those that ran last at the end."""
        return list(self._known.items())
