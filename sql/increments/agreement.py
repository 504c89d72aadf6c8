"""Compares what was read from a definition's text with how Spark plans the definition.

The texts of a refresh by rows are spliced from the definition: rows that were added take the place of one mention of a
table, items are split into keys and aggregates. Spark explains the definition, and the text that was read from it, in
which each mention is marked. Both must compute the same rows of the same tables; and what is known of a mention, above
all whether rows that are added there only add rows, must be so where the mark stands in Spark's plan.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations

from sql.increments import texts
from sql.increments.outline import Kind, Outline
from sql.increments.planned_rows import are_within, computed
from sql.increments.scopes import Place
from sql.names import TableName, quote
from sql.query.explanations import Line, sections, tree

_MARK = re.compile(r"freshgate_place_(\d+)")
_GROWING: Mapping[str, tuple[bool, bool]] = {
    "Inner": (True, True),
    "Cross": (True, True),
    "LeftOuter": (True, False),
    "RightOuter": (False, True),
    "FullOuter": (False, False),
    "LeftSemi": (True, False),
    "LeftAnti": (True, False),
}
"""By Spark's type of a join, whether rows that are added to its left and to its right side only add rows."""
_ADDING = frozenset(
    {"Project", "Filter", "SubqueryAlias", "View", "Generate", "Sort", "Union", "ResolvedHint", "LateralJoin"}
)
"""Nodes above which added rows only add rows."""
_GROUPING = frozenset({"Aggregate", "Expand"})
_LAYERS = frozenset({"Window", "Distinct"})
"""Nodes that compute rows within keys, as groups do."""
_WITHOUT_TABLES = frozenset({"LocalRelation", "OneRowRelation"})


def marked(outline: Outline) -> str:
    """The definition as it was read from its text, in which each mention of a table has a mark."""
    return texts.described(outline, {place.number: _source(place) for place in outline.places})


def _source(place: Place) -> str:
    columns = ", ".join(map(quote, place.columns)) or "*"
    return f"SELECT {columns} FROM {place.table.quoted} AS {quote(f'freshgate_place_{place.number}')}"


def keyed(outline: Outline) -> str:
    """The same with all keys within which it is computed; empty if its rows or groups are computed one by one."""
    if outline.groups is None or outline.groups.layers is None:
        return ""
    return texts.complete(outline, {place.number: _source(place) for place in outline.places})


def is_within_keys(outline: Outline, read: str) -> bool:
    """Whether Spark computes each window and all groups within the keys. `read`: what EXPLAIN EXTENDED prints of
    `keyed`. Raises NoPlan."""
    shown = (*outline.columns, *outline.hidden)
    keys = [shown.index(key.column) for key in outline.groups.keys] if outline.groups is not None else []
    return are_within(tree(sections(read)["Optimized"]), keys)


def disagreement(outline: Outline, definition: str, read: str) -> str | None:
    """What Spark plans in another way than it was read; None if nothing. `definition`: what EXPLAIN EXTENDED prints of
    the definition, with all fields. `read`: the same of `marked`. Raises NoPlan."""
    wanted, found = (computed(tree(sections(each)["Optimized"])) for each in (definition, read))
    if wanted != found:
        return f"Spark plans the definition in another way than it was read: {_difference(wanted, found)}"
    return _of_marks(outline, tree(sections(read)["Analyzed"]))


def _difference(wanted: str, found: str) -> str:
    """The first words that differ."""
    pairs = zip(wanted.split(" "), found.split(" "), strict=False)
    place = next((place for place, (one, other) in enumerate(pairs) if one != other), 0)
    shown = [" ".join(each.split(" ")[max(place - 2, 0) : place + 8])[:120] for each in (wanted, found)]
    return f"{shown[0]} … instead of {shown[1]} …"


# --- marks ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Step:
    """A node above a mark, and by which of its children the mark is reached: -1 by a subquery in an expression."""

    node: Line
    child: int


_Path = tuple[_Step, ...]


def _of_marks(outline: Outline, plan: Line) -> str | None:
    found: dict[int, tuple[_Path, Line]] = {}
    for path, node in _leaves(plan):
        at = next((number for number, step in enumerate(path) if _mark_of(step.node) is not None), None)
        if at is None:
            if node.kind not in _WITHOUT_TABLES:
                return f"Spark reads a relation that was not found in its text: {node.text[:120]}"
            continue
        number = _mark_of(path[at].node)
        assert number is not None
        found.setdefault(number, (path[:at], path[at].node))
    if missing := next((place for place in outline.places if place.number not in found), None):
        return f"Spark's plan does not have the mention of {missing.table} that was found in its text"
    for place in outline.places:
        path, node = found[place.number]
        if not _is_of(node, place.table):
            return f"Spark reads another relation where {place.table} was found in its text"
        if (problem := _problem(place, path, outline)) is not None:
            return problem
    for one, other in combinations(outline.places, 2):
        is_beside = one.branch != other.branch or other.number in one.beside
        apart = _are_apart(found[one.number][0], found[other.number][0])
        if apart != is_beside or (one.number in other.beside) != (other.number in one.beside):
            return f"the mentions of {one.table} and {other.table} meet in Spark's plan, or do not, unlike in the text"
    return None


def _leaves(plan: Line) -> Iterator[tuple[_Path, Line]]:
    """The nodes without children, each with the path to it."""
    waiting: list[tuple[_Path, Line]] = [((), plan)]
    while waiting:
        path, node = waiting.pop()
        waiting += [((*path, _Step(node, number)), each) for number, each in enumerate(node.children)]
        waiting += [((*path, _Step(node, -1)), each) for each in node.queries]
        if not node.children:
            yield path, node


def _mark_of(node: Line) -> int | None:
    mark = _MARK.fullmatch(node.rest.strip("`")) if node.kind == "SubqueryAlias" else None
    return None if mark is None else int(mark[1])


def _is_of(mark: Line, table: TableName) -> bool:
    """Whether the relation below a mark has this name."""
    (below,) = mark.children
    named = (table.catalog, table.database, table.table)
    return below.kind == "SubqueryAlias" and below.rest.replace("`", "").lower() == ".".join(named).lower()


def _problem(place: Place, path: _Path, outline: Outline) -> str | None:
    grows, groups = True, 0
    layers = outline.groups is not None and outline.groups.layers is not None
    wanted = 1 if outline.kind is Kind.GROUPS else 0
    for step in path:
        kind = step.node.kind
        if step.child < 0:
            grows = False
        elif kind == "Join":
            type_ = step.node.rest.partition(",")[0].strip()
            grows = grows and _GROWING.get(type_, (False, False))[step.child]
        elif kind in _GROUPING:
            groups += kind == "Aggregate"
        elif kind not in _ADDING and not (layers and kind in _LAYERS):
            return f"Spark's plan has {kind} above {place.table}"
    if place.grows and not grows:
        return f"rows that are added to {place.table} can take away rows in Spark's plan"
    if groups != wanted and not layers:
        return f"Spark's plan has groups above {place.table} unlike its text"
    return None


def _are_apart(one: _Path, other: _Path) -> bool:
    """Whether they stand in different parts of a UNION ALL."""
    for mine, its in zip(one, other, strict=False):
        if mine.child != its.child or mine.node is not its.node:
            return mine.node is its.node and mine.node.kind == "Union"
    return False
