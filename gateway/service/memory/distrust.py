"""What is not answered from memory any more, because an answer from memory was not Spark's.

Nobody knows which part of the query was at fault. So whatever else computes one of the same things is Spark's, too,
until a person says that it may be tried again.

Tests: `test_memory_answers`.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

from gateway.service.routing.ways import RepeatableRead

DIFFERENCES_MAX = 100
"""With more of them nothing is answered from memory."""


@dataclass(frozen=True, slots=True)
class _Difference:
    shape: str
    read: RepeatableRead
    parts: Set[str]
    """What the query computes, as in `ShapeQuery.parts`."""

    @property
    def names(self) -> str:
        return ", ".join(name for _, name, _ in self.read.versions)


class DistrustedAnswers:
    """The differences that were found."""

    def __init__(self) -> None:
        self._found: list[_Difference] = []

    def __len__(self) -> int:
        return len(self._found)

    def note(self, read: RepeatableRead, shape: str, parts: Set[str]) -> None:
        self._found.append(_Difference(shape, read, parts))

    def of_views(self, read: RepeatableRead) -> str | None:
        """Why no query of these views in these versions is answered: their rows may be wrong."""
        if len(self._found) > DIFFERENCES_MAX:
            return f"more than {DIFFERENCES_MAX} answers from memory were not Spark's"
        for each in self._found:
            for wrong in (version for version in read.versions if version in each.read.versions):
                return f"an answer from version {wrong[2]} of {wrong[1]} in memory was not Spark's"
        return None

    def of_query(self, shape: str, parts: Set[str]) -> str | None:
        """Why a query of this shape, which computes these things, is not answered."""
        for each in self._found:
            if shape == each.shape:
                return f"an answer of this shape from {each.names} was not Spark's"
            if not each.parts:
                return f"an answer from {each.names} was not Spark's, and computed nothing that could be left out"
            if common := sorted(parts & each.parts):
                return f"it computes {', '.join(common)}, as an answer from {each.names} did that was not Spark's"
        return None

    def forget(self, view: str) -> None:
        """Answers may be tried again that are distrusted because of the view with this id."""
        self._found = [each for each in self._found if view not in each.read.views]
