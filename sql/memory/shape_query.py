"""A query for the engine that serves all queries of one shape with other literals in its holes.

Tests: `test_translation`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from itertools import islice
from string import ascii_letters

from sql.memory.engine_literals import negative, read, written
from sql.memory.engine_texts import Hole, NotListed, ViewTable
from sql.memory.holes import marked
from sql.memory.plan_parts import parts_of
from sql.memory.scalars import Decides
from sql.memory.settled import Settling
from sql.memory.translation import EngineQuery, ViewSource, translated
from sql.memory.zone_rules import DAY, ZoneRules
from sql.proof.plan import Node, Plan
from sql.rewriting.shape import Shape, others_of

OTHERS_MAX = 40
YEAR = 366 * DAY


@dataclass(frozen=True, slots=True)
class ShapeQuery:
    """A query for the engine, with holes."""

    query: EngineQuery
    pinned: Mapping[int, str]
    """The literals that it is for, by their numbers; all others may be other ones."""
    zone: ZoneRules
    """That of the sessions that it is for."""
    parts: frozenset[str] = frozenset()
    """What it computes, as in `plan_parts`."""

    def text(self, literals: Sequence[str], table: Callable[[ViewTable], str]) -> str:
        """The engine's text of the query with these literals. Raises NotListed if it is for other ones."""
        for number, literal in self.pinned.items():
            if literals[number] != literal:
                raise NotListed("it is known with another literal only")

        def value(hole: Hole) -> str:
            found = read(literals[hole.number], hole.type, self.zone)
            if found is not None and hole.negative:
                found = negative(found, hole.type)
            if found is None:
                raise NotListed("a literal has no such value in the type that Spark compares it in")
            return written(found, hole.type)

        return self.query.text.filled(value, table)


def varied(shape: Shape) -> tuple[str, ...]:
    """Other literals of the same kinds, no two of which have the same value. A literal stays if there are no others."""
    taken, found = {_value(each) for each in shape.literals}, list[str]()
    for kind, literal in zip(shape.kinds, shape.literals, strict=True):
        others = islice(others_of(kind, literal), OTHERS_MAX)
        found.append(next((each for each in others if _value(each) not in taken), literal))
        taken.add(_value(found[-1]))
    return tuple(found)


def _value(literal: str) -> str:
    """What a literal has in common with all that may have the same value in some type."""
    text = literal[literal.index(literal[-1]) + 1 : -1] if literal[-1] in "'\"" else literal.rstrip(ascii_letters)
    try:
        return f"{Decimal(text).normalize():f}"
    except InvalidOperation:
        return text


def shape_query(
    plans: tuple[Plan, Plan],
    shape: Shape,
    sources: Mapping[str, ViewSource],
    zone: ZoneRules,
    times: tuple[int, int] | None = None,
) -> ShapeQuery:
    """`plans`: of the query, and of the same one with `varied` literals, both made without looking at the values of
    literals; or twice that of the query, which then is for its own literals only. `zone`: that of the
    session. `times`: the first and the last one among the rows of the views, in seconds, if they have any. Raises
    NotListed."""
    others, pinned = varied(shape), frozenset[int]()
    # A year more on both sides: for truncated times, and for those of later versions.
    near = zone if times is None else zone.within(times[0] - YEAR, times[1] + YEAR)
    while True:
        found = marked(*plans, shape.literals, others, pinned, zone=zone)
        root = Settling(shape.literals, zone).settled(found.plan.root)
        assert isinstance(root, Node)
        try:
            query = translated(replace(found.plan, root=root), sources, near)
        except Decides as decides:
            pinned |= {decides.hole}
            continue
        fixed = {number: text for number, text in enumerate(shape.literals) if number not in found.holes}
        return ShapeQuery(query, fixed, zone, parts_of(found.plan))
