"""The rows that an optimized plan computes, as a text without the names and numbers by which Spark tells columns apart,
so that plans of one meaning have one text.

Tests: `test_agreement`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sql.query.explanations import Line, NoPlan

_ID = re.compile(r"#(\d+)L?")
_ID_AT_END = re.compile(r"#(\d+)L?(?:: boolean)?\Z")
_ATTRIBUTE = re.compile(r"(?P<name>.*)#(?P<id>\d+)L?", re.DOTALL)
_AS_STRING = re.compile(r"\Acast\((@\d+|key \d+) as string\)\Z")
_BRACKETS = {"(": ")", "[": "]"}


def _split(text: str) -> list[str]:
    """The parts between the commas outside of brackets."""
    parts, depth, start = [], 0, 0
    for place, sign in enumerate(text):
        depth += (sign in _BRACKETS) - (sign in _BRACKETS.values())
        if sign == "," and depth <= 0:
            parts.append(text[start:place].strip())
            start = place + 1
    return [*parts, text[start:].strip()] if text.strip() else []


def _lists(text: str) -> list[str]:
    """The contents of the outermost square brackets."""
    found, depth, start = [], 0, 0
    for place, sign in enumerate(text):
        if sign == "[":
            depth += 1
            start = place + 1 if depth == 1 else start
        elif sign == "]":
            depth -= 1
            if depth == 0:
                found.append(text[start:place])
    return found


@dataclass(frozen=True, slots=True)
class PlanColumn:
    id: str
    """Empty if nothing refers to it."""
    name: str
    value: str


def _aliased(item: str) -> PlanColumn | None:
    """The parts of `expression AS name#id`; None if it is something else."""
    found = _ID_AT_END.search(item)
    if found is None:
        return None
    value, alias, name = item[: found.start()].rpartition(" AS ")
    return PlanColumn(found[1], name, value) if alias else None


def _attribute(item: str) -> PlanColumn | None:
    """The parts of `name#id`."""
    found = _ATTRIBUTE.fullmatch(item)
    return None if found is None else PlanColumn(found["id"], found["name"], "")


def _value_of(item: str) -> str:
    """The item without its alias."""
    alias = _aliased(item)
    return item if alias is None else alias.value


@dataclass(frozen=True, slots=True)
class Computed:
    """What a node computes: a text that is the same for plans that differ in names only."""

    text: str
    columns: tuple[PlanColumn, ...] | None
    """None if they are not told."""

    @property
    def rows(self) -> str:
        # A view casts its columns of the type VARCHAR.
        shown = [_AS_STRING.sub(r"\1", each.value) for each in self.columns or ()]
        values = "?" if self.columns is None else ", ".join(shown)
        return f"{self.text} -> {values}"


def computed(plan: Line) -> str:
    """What an optimized plan computes. The order of rows does not count. Raises NoPlan."""
    try:
        return _PlanReading().read(plan).rows
    except (IndexError, ValueError, RecursionError) as error:
        raise NoPlan(f"Spark's plan is not understood: {error!r}") from error


def are_within(plan: Line, keys: Sequence[int]) -> bool:
    """Whether all windows and groups of an optimized plan are computed within these of its columns. Raises NoPlan."""
    reading = _KeyReading()
    try:
        found = reading.read(plan).columns
        wanted = {found[place].value for place in keys} if found is not None else {""}
    except (IndexError, ValueError, RecursionError) as error:
        raise NoPlan(f"Spark's plan is not understood: {error!r}") from error
    return "" not in wanted and all(wanted <= each for each in reading.found)


class _PlanReading:
    def __init__(self) -> None:
        self._known: dict[str, PlanColumn] = {}
        self._new_ones = 0

    def read(self, node: Line) -> Computed:
        if node.kind == "Union":
            return self._union(node)
        if node.kind == "Aggregate":
            return self._aggregate(node)
        below = [self.read(each) for each in node.children]
        inputs = "; ".join([*(each.text for each in below), *(self.read(each).text for each in node.queries)])
        match node.kind:
            case "Project":
                return Computed(below[0].text, self._items(*_lists(node.rest)))
            case "Sort":
                return below[0]
            case "Filter":
                return Computed(f"Filter {self._meant(node.rest)} of ({inputs})", below[0].columns)
            case "Join":
                is_half = node.rest.startswith(("LeftSemi", "LeftAnti", "ExistenceJoin"))
                columns = below[0].columns if is_half else _together(below)
                return Computed(f"Join {self._meant(node.rest)} of ({inputs})", columns)
        if not below:
            listed = _lists(node.text)
            columns = tuple(self._column(each) for each in _split(listed[0])) if listed else None
            return Computed(f"{self._meant(node.text)} ({inputs})", columns)
        return Computed(f"{self._meant(node.text)} of ({inputs})", None)

    def _union(self, node: Line) -> Computed:
        """Each part by itself, so that equal parts have equal texts. The columns have the ids of those of the first."""
        parts = [_PlanReading().read(each) for each in node.children]
        columns = parts[0].columns
        if columns is not None:
            columns = tuple(self._new(each.id, each.name) for each in columns)
        return Computed(f"Union {node.rest} of ({_PART.join(each.rows for each in parts)})", columns)

    def _aggregate(self, node: Line) -> Computed:
        *listed, items = _lists(node.rest)
        keys = [key for each in listed for key in _split(each)]
        if keys and all(_value_of(item) in keys for item in _split(items)):
            return self._distinct(node, keys, _split(items))
        inputs = self.inputs(node)
        by = sorted(map(self._meant, keys))
        return Computed(f"Aggregate by {', '.join(by)} of ({inputs})", self._items(items))

    def _distinct(self, node: Line, keys: Sequence[str], items: Sequence[str]) -> Computed:
        """Drops all but one of a union's equal parts: only one counts, and Spark may leave out the others."""
        (below,) = node.children
        projects = []
        while below.kind in ("Project", "Sort"):
            projects += [below] if below.kind == "Project" else []
            (below,) = below.children
        parts = below.children if below.kind == "Union" else [below]
        first = _PlanReading().read(parts[0]).columns or ()
        found = {_PlanReading().part(each, first, projects, keys) for each in parts}
        columns = [_aliased(item) or _attribute(item) for item in items]
        known = [replace(each, value="") for each in columns if each is not None]
        places = [keys.index(_value_of(item)) for item in items]
        if len(known) != len(items):
            raise NoPlan(f"the keys of DISTINCT are not understood: {node.text[:200]}")
        made = tuple(replace(each, value=f"key {place}") for each, place in zip(known, places, strict=True))
        self._known |= {each.id: each for each in made}
        return Computed(f"Distinct of ({_PART.join(sorted(found))})", made)

    def part(self, line: Line, first: Sequence[PlanColumn], projects: Sequence[Line], keys: Sequence[str]) -> str:
        """One part of a union, with the values of the keys in it. `first`: the columns of the first part."""
        found = self.read(line)
        for name, column in zip(first, found.columns or (), strict=False):
            self._known[name.id] = replace(column, name=name.name)
        for each in reversed(projects):
            self._items(*_lists(each.rest))
        return f"{found.text} -> {', '.join(map(self._meant, keys))}"

    def inputs(self, node: Line) -> str:
        return "; ".join(self.read(each).text for each in (*node.children, *node.queries))

    def _items(self, text: str = "", *_: str) -> tuple[PlanColumn, ...]:
        return tuple(map(self._column, _split(text)))

    def _column(self, item: str) -> PlanColumn:
        """A column as it is listed: `name#id`, or `expression AS name#id`."""
        alias = _aliased(item)
        if alias is not None:
            found = replace(alias, value=self._meant(alias.value))
            self._known[found.id] = found
            return found
        value = self._meant(item)
        ids = _ID.findall(item)
        known = self._known.get(ids[-1]) if ids else None
        return known if known is not None and known.value == value else PlanColumn("", "", value)

    def _meant(self, text: str) -> str:
        """The text with what columns are in the place of their names and ids."""
        parts: list[str] = []
        at = 0
        for mark in _ID.finditer(text):
            before = text[at : mark.start()]
            word = re.search(r"[^\s,()\[\]]*\Z", before)
            known = self._known.get(mark[1]) or self._new(mark[1], word[0] if word is not None else "")
            is_named = known.name and before.lower().endswith(known.name.lower())
            parts += before[: -len(known.name)] if is_named else before, known.value
            at = mark.end()
        return "".join((*parts, text[at:]))

    def _new(self, id_: str, name: str) -> PlanColumn:
        """A column of a relation, by its number."""
        self._known[id_] = found = PlanColumn(id_, name, f"@{self._new_ones}")
        self._new_ones += 1
        return found


class _KeyReading(_PlanReading):
    """Collects by what windows and groups are computed."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[frozenset[str]] = []

    def read(self, node: Line) -> Computed:
        if not node.kind.startswith("Window"):
            return super().read(node)
        below = self.read(node.children[0])
        # Empty lists are not printed: without keys, the order follows, which has no keys. WindowGroupLimit has no
        # items.
        *items, keys = [*_lists(node.rest), ""][:2] if node.kind == "Window" else _lists(node.rest)[:1]
        self.found.append(frozenset(map(self._meant, _split(keys))))
        added = self._items(*items)
        return replace(below, columns=None if below.columns is None else (*below.columns, *added))

    def _aggregate(self, node: Line) -> Computed:
        below = [self.read(each) for each in node.children]
        *listed, items = _lists(node.rest)
        self.found.append(frozenset(self._meant(key) for each in listed for key in _split(each)))
        return Computed("; ".join(each.text for each in below), self._items(items))


_PART = "\n+ "
"""Between the parts of a union."""


def _together(below: Sequence[Computed]) -> tuple[PlanColumn, ...] | None:
    columns: list[PlanColumn] = []
    for each in below:
        if each.columns is None:
            return None
        columns += each.columns
    return tuple(columns)
