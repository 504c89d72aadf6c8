"""The change of a definition's rows as a sum of terms, each a query over changed rows, old states and new states."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from sql.increments.outline import Outline
from sql.increments.reasons import NotIncremental, Reason
from sql.increments.scopes import Place
from sql.names import TableName

Texts = Mapping[TableName, str]
_NOTHING: Texts = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ChangeTerm:
    """One summand of the change."""

    sources: Mapping[int, str]
    """By the number of a place, the query that stands for the table there. Other places read their table."""
    branch: int
    removes: bool = False
    """Whether its rows are to be subtracted."""
    empty: frozenset[int] = frozenset()
    """The numbers of the places that are read without rows."""
    place: int | None = None
    """The number of the place whose changed rows it has, unless these only tell which rows of others have changed."""
    signed: str = ""
    """Those that were added there, and those that were removed, in one query with the column `REMOVED`; empty if that
    is not known."""


def terms(
    outline: Outline,
    added: Texts,
    before: Texts,
    removed: Texts,
    now: Texts = _NOTHING,
    signed: Texts = _NOTHING,
) -> tuple[ChangeTerm, ...]:
    """In each branch, for each place whose table changed: the old state left of it, its change there, the new state
    right of it, nothing beside it. A table that is read at two places is two places. `before`: the old state of each
    changed table, needed where several places of a branch changed; empty if it can no longer be read. `now`: the new
    state of each table. Where a place does not grow, such as on the null side of an outer join, the rows of the other
    table that change with it are joined with its new state, and removed as they were joined with its old one. `signed`:
    as in `ChangeTerm`, where it is known. Raises NotIncremental."""
    changed = added.keys() | removed.keys()
    found: list[ChangeTerm] = []
    for branch in range(len(outline.branches)):
        places = [place for place in outline.places if place.branch == branch and place.table in changed]
        if fixed := next((place for place in places if not place.grows and place.touch is None), None):
            raise NotIncremental(Reason.NULL_SIDE_CHANGED, str(fixed.table))
        found += _of_branch(branch, places, added, before, removed, now)
    return tuple(replace(term, signed=_signed(outline, term, signed)) for term in found)


def _signed(outline: Outline, term: ChangeTerm, signed: Texts) -> str:
    return "" if term.place is None else signed.get(outline.places[term.place].table, "")


def _of_branch(
    branch: int, places: Sequence[Place], added: Texts, before: Texts, removed: Texts, now: Texts
) -> Iterator[ChangeTerm]:
    for at, place in enumerate(places):
        left = [each for each in places[:at] if each.number not in place.beside]
        joined = [] if place.touch is None else [place]
        old = {each.number: before[each.table] for each in left}
        if gone := next((each.table for each in (*left, *joined) if not before[each.table]), None):
            raise NotIncremental(Reason.HISTORY_GONE, f"the earlier rows of {gone} cannot be read")
        if place.touch is not None:
            changed = " UNION ALL ".join(f"({rows[place.table]})" for rows in (added, removed) if place.table in rows)
            preserved = old.get(place.touch.place) or now[place.touch.table]
            rows = place.touch.rows(preserved, changed)
            for state, part, removes in ((now, added, False), (before, removed, True)):
                own = state[place.table]
                if place.touch.both:
                    own = place.touch.own(own, part.get(place.table), rows)
                sources = {**old, place.touch.place: rows, place.number: own}
                yield ChangeTerm(sources, branch, removes, place.beside)
            continue
        for change, removes in ((added, False), (removed, True)):
            if place.table in change:
                sources = {**old, place.number: change[place.table]}
                yield ChangeTerm(sources, branch, removes, place.beside, place.number)


def paired(terms: Sequence[ChangeTerm]) -> Iterator[tuple[ChangeTerm, ChangeTerm | None]]:
    """The terms, of which those of rows that were added to a place come with those of rows that were removed there:
    both read the same rows of all other tables."""
    rest = list(terms)
    while rest:
        term = rest.pop(0)
        yield term, rest.pop(0) if rest and _are_of_one_place(term, rest[0]) else None


def _are_of_one_place(added: ChangeTerm, removed: ChangeTerm) -> bool:
    if added.place is None or added.removes or not removed.removes:
        return False
    return (added.place, added.branch) == (removed.place, removed.branch)
