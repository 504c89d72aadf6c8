"""What was learned of the shapes of queries on views in memory.

Tests: `test_memory_answers`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from gateway.mv.rewriting.candidates import Participant
from gateway.mv.rewriting.verdicts import ShapeKey
from sql.memory.columns import MemoryColumn
from sql.memory.shape_query import ShapeQuery
from sql.mentioned import Mentioned
from sql.names import TableName

SHAPES_MAX = 2_000
VARIANTS_MAX = 8
"""Of a shape, for different literals that decide what is computed, such as that of LIMIT."""


@dataclass(frozen=True, slots=True)
class MemoryKey:
    """Queries with equal keys have answers with the same columns, by the same query for the engine."""

    shape: ShapeKey
    views: tuple[str, ...]
    """The ids of the views and base tables that it reads."""
    client: tuple[object, ...]
    """What else Spark's replies depend on."""


@dataclass(frozen=True, slots=True)
class LearnedShape:
    """How the engine answers queries of a shape, or why it does not."""

    query: ShapeQuery | None
    reason: str
    """Why there is none."""
    literals: tuple[str, ...]
    """Of the query that was learned."""
    status: bytes
    metadata: bytes
    """Spark's replies, as in `results.recorded.Recorded`."""
    seconds: float
    """That Spark took for that query."""
    views: Mapping[str, Participant]
    """The views that it reads, as they were then."""
    columns: Mapping[str, tuple[MemoryColumn, ...]]
    """Those of the views in memory."""
    at: float
    """When, in seconds of a monotonic clock."""
    tables: tuple[TableName, ...] = ()
    """The base tables that it reads."""

    @property
    def names(self) -> Iterator[TableName]:
        """The names of everything that it reads."""
        return chain((view.name for view in self.views.values()), self.tables)

    def is_for(self, literals: Sequence[str]) -> bool:
        """Whether it says something of queries with these literals."""
        if self.query is None:
            return tuple(literals) == self.literals
        return all(literals[number] == text for number, text in self.query.pinned.items())


class LearnedShapes:
    """Those used last."""

    def __init__(self, most: int = SHAPES_MAX) -> None:
        self._most = most
        self._known: OrderedDict[MemoryKey, tuple[LearnedShape, ...]] = OrderedDict()
        self.forgotten = 0
        """Increases whenever something that is being learned may be outdated."""

    def __len__(self) -> int:
        return len(self._known)

    def find(self, key: MemoryKey, literals: Sequence[str]) -> LearnedShape | None:
        found = self._known.get(key)
        if found is None:
            return None
        self._known.move_to_end(key)
        return next((each for each in found if each.is_for(literals)), None)

    def put(self, key: MemoryKey, learned: LearnedShape) -> None:
        """In the place of what was known for the same literals."""
        others = (each for each in self._known.get(key, ()) if not each.is_for(learned.literals))
        self._known[key] = (learned, *others)[:VARIANTS_MAX]
        self._known.move_to_end(key)
        if len(self._known) > self._most:
            self._known.popitem(last=False)

    def drop(self, key: MemoryKey) -> None:
        self._known.pop(key, None)

    def forget(self, named: Mentioned) -> None:
        """A statement may have changed what these names mean, or, if it may name anything, rights."""
        self.forgotten += 1
        for key, found in list(self._known.items()):
            if any(named.includes(name) for each in found for name in each.names):
                del self._known[key]
