"""What is known of the shapes of queries: which views answer them, and why others do not."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from gateway.mv.model.view import Schema
from gateway.mv.rewriting.usage import Missed
from sql.names import Namespace, TableName
from sql.rewriting.template import Template


class Verdict(StrEnum):
    """What a view is to a query."""

    CHOSEN = "CHOSEN"
    """It answers the query."""
    USABLE = "USABLE"
    """It could answer the query, but another view has fewer bytes."""
    STALE = "STALE"
    """It could answer the query if it were fresh."""
    NOT_PROVED = "NOT PROVED"
    """It seems to answer the query, but that was not proved."""
    REJECTED = "REJECTED"
    """It does not answer the query."""
    CONSIDERING = "CONSIDERING"
    """It is being found out."""


@dataclass(frozen=True, slots=True)
class Key:
    """Queries with equal keys have the same proof: equal texts but for the literals in holes, in sessions of one user
    in which names and settings mean the same."""

    shape: str
    namespace: Namespace
    user: str
    settings: str
    """The session's `settings.id`."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A view that was proved to answer the queries of a shape."""

    view_id: str
    view: TableName
    template: Template
    pinned: tuple[tuple[int, str], ...]
    """Literals that must be these, by their number."""
    schemas: Mapping[TableName, Schema]
    """The base tables, as the view's last refresh before the proof saw them."""

    def fits(self, literals: tuple[str, ...]) -> bool:
        return all(literals[number] == value for number, value in self.pinned)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a view does not answer the queries of a shape."""

    view: TableName
    verdict: Verdict
    reason: str
    template: Template | None = None
    """The text that was not proved."""


@dataclass(slots=True)
class Considered:
    """The outcome for one shape. Times are seconds of a monotonic clock."""

    answers: tuple[Answer, ...]
    """Those with the fewest bytes first."""
    refusals: tuple[Refusal, ...]
    at: float
    revision: int
    """The catalog's, at that time."""
    text: str = ""
    """The query that was considered first."""

    @property
    def missed(self) -> Missed:
        """Why none of the views answers, if there are no answers."""
        unproved = any(refusal.verdict is Verdict.NOT_PROVED for refusal in self.refusals)
        return Missed.NOT_PROVED if unproved else Missed.NO_VIEW


class Verdicts:
    """The outcomes for the shapes used last."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: OrderedDict[Key, Considered] = OrderedDict()

    def find(self, key: Key) -> Considered | None:
        if (found := self._known.get(key)) is not None:
            self._known.move_to_end(key)
        return found

    def put(self, key: Key, found: Considered) -> None:
        self._known[key] = found
        self._known.move_to_end(key)
        if len(self._known) > self._most:
            self._known.popitem(last=False)

    def forget(self) -> None:
        """What names or rights mean may have changed: nothing is proved any more."""
        self._known.clear()

    def items(self) -> list[tuple[Key, Considered]]:
        return list(self._known.items())
