"""What a SELECT groups by: its keys and grouping sets.

Tests: `test_increment_definitions`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from sqlglot import exp

from sql.increments.templates import Key, TemplateReader
from sql.increments.written import Span, Written, refuse
from sql.query.keys import KeyItems, NoSuchItem
from sql.query.trees import other_part

_SETS_MAX = 64
_Set = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Item:
    """One item of SELECT, without its alias."""

    span: Span
    alias: str


@dataclass(frozen=True, slots=True)
class Grouping:
    keys: tuple[Key, ...]
    sets: tuple[_Set, ...]
    """Each grouping set by the numbers of its keys."""

    @property
    def plain(self) -> bool:
        return self.sets == (tuple(range(len(self.keys))),)

    @property
    def text(self) -> str:
        """The same groups without ordinals and aliases."""
        if self.plain:
            return ", ".join(key.text for key in self.keys)
        sets = (f"({', '.join(self.keys[number].text for number in each)})" for each in self.sets)
        return f"GROUPING SETS ({', '.join(sets)})"


class GroupingReader:
    """Reads what follows GROUP BY. Raises NotIncremental."""

    def __init__(self, written: Written, reader: TemplateReader, items: Sequence[tuple[Span, str]]) -> None:
        """`items`: each item's span and alias."""
        self._written = written
        self._reader = reader
        self._spans = [span for span, _ in items]
        self._items = KeyItems([alias for _, alias in items], reader.is_known)
        self._keys: dict[tuple[object, ...], int] = {}
        self._found: list[Key] = []

    def read(self, span: Span, group: exp.Group) -> Grouping | None:
        """None if all rows are one group."""
        if not group.args.get("all"):
            return self._listed(span)
        if not self._items.are_all(group):
            raise refuse("GROUP BY ALL may mean a column")
        return self._all()

    def _listed(self, span: Span) -> Grouping:
        written = self._written
        if written.word(span.end - 2) == "with" and written.word(span.end - 1) in ("rollup", "cube"):
            singles = [self._number(each) for each in written.split(Span(span.start, span.end - 2))]
            sets = list(_sets_of(written.word(span.end - 1), singles))
        else:
            elements = [list(self._element(each)) for each in written.split(span)]
            size = 1
            for each in elements:
                size *= len(each)
            if size > _SETS_MAX:
                raise refuse(f"it has more than {_SETS_MAX} grouping sets")
            sets = [_merged(*each) for each in product(*elements)]
        if len({frozenset(each) for each in sets}) != len(sets):
            raise refuse("it has the same grouping set twice")
        if not self._found:
            raise refuse("it groups by nothing")
        grouping = Grouping(tuple(self._found), tuple(sets))
        if {number for each in sets for number in each} != set(range(len(self._found))) or () in sets[:1]:
            raise refuse("its grouping sets are not understood")
        return grouping

    def _all(self) -> Grouping | None:
        """GROUP BY ALL: the items without aggregates; None if all have some. Constants do not change the groups."""
        plain = [item for item in self._spans if not self._reader.has_aggregate(item)]
        for item in plain:
            if self._reader.has_column(item):
                self._number(item)
        if plain and not self._found:
            raise refuse("it groups by constants")
        return Grouping(tuple(self._found), (tuple(range(len(self._found))),)) if plain else None

    def _element(self, span: Span) -> Iterator[_Set]:
        """The grouping sets of one element of GROUP BY."""
        written = self._written
        if span.start >= span.end:
            raise refuse("GROUP BY is not understood")
        word, after = written.word(span.start), span.start + 1
        if word == "grouping" and written.word(after) == "sets" and written.partner.get(after + 1) == span.end - 1:
            for each in written.split(Span(after + 2, span.end - 1)):
                yield self._set(each)
        elif word in ("rollup", "cube") and written.partner.get(after) == span.end - 1:
            singles = [self._number(each) for each in written.split(Span(after + 1, span.end - 1))]
            if len(singles) > 6:
                raise refuse(f"it has more than {_SETS_MAX} grouping sets")
            yield from _sets_of(word, singles)
        else:
            yield (self._number(span),)

    def _set(self, span: Span) -> _Set:
        written = self._written
        if written.symbol(span.start) == "(" and written.partner[span.start] == span.end - 1:
            inside = Span(span.start + 1, span.end - 1)
            return (
                _merged(*((self._number(each),) for each in written.split(inside))) if inside.start < inside.end else ()
            )
        return (self._number(span),)

    def _number(self, span: Span) -> int:
        """The number of the key."""
        key = self._reader.key(self._meant(span))
        if key.words not in self._keys:
            self._keys[key.words] = len(self._found)
            self._found.append(key)
        return self._keys[key.words]

    def _meant(self, span: Span) -> Span:
        """The item that an ordinal or an alias means."""
        written = self._written
        while written.symbol(span.start) == "(" and written.partner[span.start] == span.end - 1:
            span = Span(span.start + 1, span.end - 1)
            if any(written.symbol(place) == "," for place in written.outer(span)):
                raise refuse("it groups by a tuple")
        if span.end <= span.start:
            raise refuse("GROUP BY is not understood")
        if span.end - span.start == 1 and (item := self._item(span.start)) is not None:
            return self._spans[item]
        return span

    def _item(self, place: int) -> int | None:
        """The item that the piece means."""
        number = self._written.pieces[place].text
        try:
            if number.isdecimal():
                return self._items.numbered(number)
        except NoSuchItem:
            raise refuse(f"it groups by item {number}") from None
        column = self._written.columns.get(place)
        return None if column is None else self._items.called(column.name)


def check_group(written: Written, span: Span, group: exp.Group) -> None:
    """GROUPING SETS behind other keys would be taken for a part of the last one."""
    behind = other_part(group, "expressions")
    with_ = written.word(span.end - 2) == "with" and written.word(span.end - 1) == behind
    if behind and behind != "all" and not with_:
        raise refuse(f"it has keys and {behind.upper().replace('_', ' ')}")
    elements = written.split(Span(span.start, span.end - 2) if with_ else span)
    if behind != "all" and len(elements) != len(group.expressions):
        raise refuse("GROUP BY is not understood")


def item_of(written: Written, span: Span, node: exp.Expr) -> Item:
    if not isinstance(node, exp.Alias):
        return Item(span, "")
    place = written.place(node.args["alias"])
    if place != span.end - 1:
        raise refuse("an alias is not understood")
    end = place - 1 if written.word(place - 1) == "as" else place
    if end <= span.start:
        raise refuse("an alias is not understood")
    return Item(Span(span.start, end), node.alias)


def _merged(*sets: _Set) -> _Set:
    return tuple(dict.fromkeys(number for each in sets for number in each))


def _sets_of(word: str, singles: Sequence[int]) -> Iterator[_Set]:
    if word == "rollup":
        for length in range(len(singles), -1, -1):
            yield tuple(singles[:length])
        return
    for chosen in product((True, False), repeat=len(singles)):
        yield tuple(number for number, wanted in zip(singles, chosen, strict=True) if wanted)
