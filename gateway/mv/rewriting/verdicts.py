"""What is known of the shapes of queries: which views answer them, and why others do not.

Tests: `test_rewrites`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from gateway.mv.model.view import Schema
from gateway.mv.rewriting.candidates import Participant, Participants
from gateway.mv.rewriting.usage import WhyMissed
from sql.mentioned import Mentioned
from sql.names import Namespace, TableName
from sql.rewriting.template import Template


class Verdict(StrEnum):
    """What a view is to a query, and who answers it."""

    MEMORY = "MEMORY"
    """The query is answered from the view's rows in memory."""
    CHOSEN = "CHOSEN"
    """It answers the query."""
    SPARK = "SPARK"
    """Spark reads the view: its rows in memory do not answer the query."""
    USABLE = "USABLE"
    """It could answer the query, but another view has fewer bytes."""
    STALE = "STALE"
    """It could answer the query if it were fresh."""
    NOT_PROVED = "NOT PROVED"
    """It seems to answer the query, but that was not proved."""
    REJECTED = "REJECTED"
    """It does not answer the query."""
    CONSIDERING = "CONSIDERING"
    """Still being evaluated."""


@dataclass(frozen=True, slots=True)
class ShapeKey:
    """Queries with equal keys have the same proof: equal texts but for the literals in holes, in sessions of one user
    in which names and settings mean the same."""

    shape: str
    namespace: Namespace
    user: str
    settings: str
    """The session's `settings.id`."""


@dataclass(frozen=True, slots=True)
class AnsweringView:
    """A view that takes part in an answer."""

    id: str
    name: TableName
    proved: Participant
    """The view at the time of the proof."""
    keyed: int | None = None
    """The version of the view that shows a state in which the keys of the base tables hold, if the proof needs them."""


@dataclass(frozen=True, slots=True)
class ProvedAnswer:
    """Views that were proved to answer the queries of a shape, together if there are several."""

    views: tuple[AnsweringView, ...]
    template: Template
    pinned: tuple[tuple[int, str], ...]
    """Literals that must be these, by their number."""
    adds_rest: bool = False
    """As in Proposal."""
    tables: int = 0
    """As in Proposal."""
    below: tuple[AnsweringView, ...] = ()
    """Views that its own views read, if the proof goes through them."""

    @property
    def needed(self) -> tuple[AnsweringView, ...]:
        """The views that must be what they were at the time of the proof, and fresh enough."""
        return *self.views, *self.below

    @property
    def names(self) -> tuple[TableName, ...]:
        return tuple(each.name for each in self.views)

    @property
    def named(self) -> str:
        return ", ".join(map(str, self.names))

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(each.id for each in self.views)

    def replaces(self, other: ProvedAnswer) -> bool:
        """Whether it reads the other's views, and more of them, so that fewer tables are left."""
        return set(self.ids) > set(other.ids) and self.tables < other.tables

    def fits(self, literals: tuple[str, ...]) -> bool:
        return all(literals[number] == value for number, value in self.pinned)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a view, or several together, do not answer the queries of a shape."""

    views: tuple[TableName, ...]
    verdict: Verdict
    reason: str
    template: Template | None = None
    """The text that was not proved."""

    @property
    def named(self) -> str:
        return ", ".join(map(str, self.views))


@dataclass(frozen=True, slots=True)
class Grounds:
    """What the outcome for a shape depends on."""

    schemas: Mapping[TableName, Schema] = field(default_factory=dict)
    """Of the relations that its queries name, as they were described for the proofs."""
    sources: frozenset[TableName] = frozenset()
    """These relations and the functions that the queries call, with all that these read in turn."""
    participants: Participants = field(default_factory=dict)
    """The views that were considered, or would have been if the queries named more tables."""


@dataclass(slots=True)
class Considered:
    """The outcome for one shape. Times are seconds of a monotonic clock."""

    answers: tuple[ProvedAnswer, ...]
    """Those with the fewest bytes first."""
    refusals: tuple[Refusal, ...]
    at: float
    grounds: Grounds
    revision: int
    """The catalog's when the participants were last found to be the same."""
    text: str = ""
    """The query that was considered first."""

    @property
    def missed(self) -> WhyMissed:
        """Why none of the views answers, if there are no answers."""
        unproved = any(refusal.verdict is Verdict.NOT_PROVED for refusal in self.refusals)
        return WhyMissed.NOT_PROVED if unproved else WhyMissed.NO_VIEW


@dataclass(slots=True, eq=False)
class Consideration:
    """A shape that is being considered."""

    sources: frozenset[TableName] | None = None
    """As in Grounds; None: not known yet."""
    overtaken: bool = False
    """Whether a statement may have changed what its outcome depends on."""


class Verdicts:
    """The outcomes for the shapes used last."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: OrderedDict[ShapeKey, Considered] = OrderedDict()
        self._open: set[Consideration] = set()

    def find(self, key: ShapeKey) -> Considered | None:
        if (found := self._known.get(key)) is not None:
            self._known.move_to_end(key)
        return found

    def begin(self) -> Consideration:
        """A shape begins to be considered."""
        begun = Consideration()
        self._open.add(begun)
        return begun

    def end(self, begun: Consideration) -> None:
        self._open.discard(begun)

    def put(self, key: ShapeKey, found: Considered) -> None:
        self._known[key] = found
        self._known.move_to_end(key)
        if len(self._known) > self._most:
            self._known.popitem(last=False)

    def drop(self, key: ShapeKey) -> None:
        self._known.pop(key, None)

    def forget(self, named: Mentioned) -> None:
        """A statement may have changed what these names mean: what depends on them is no longer proved."""
        for key in [key for key, found in self._known.items() if any(map(named.includes, found.grounds.sources))]:
            del self._known[key]
        for begun in self._open:
            begun.overtaken |= begun.sources is None or any(map(named.includes, begun.sources))

    def items(self) -> list[tuple[ShapeKey, Considered]]:
        return list(self._known.items())
