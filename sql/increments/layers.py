"""SELECTs over each other with windows, groups or DISTINCT, all within the values of some keys: the rows with one value
of these keys follow from the rows below with that value, so that those of the touched values can be computed alone.

Tests: `test_increment_definitions`, `test_increment_mutants`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from sql.increments.grouping import GroupingReader, check_group, item_of
from sql.increments.outline import StoredKey
from sql.increments.reasons import NotIncremental, Reason
from sql.increments.scopes import FromItem, FromScope, RelationReader, check_clauses, renamed
from sql.increments.templates import Key, TemplateReader
from sql.increments.written import Clauses, Edit, Span, Written, refuse
from sql.names import quote
from sql.query.trees import alias_columns, is_star, other_part

_FRAMES = frozenset({"order", "sort", "rows", "range"})
"""Words that end the keys of a window."""


@dataclass(frozen=True, slots=True)
class Layers:
    """A definition that is computed within the values of its keys."""

    body: Span
    """FROM and WHERE of the lowest SELECT."""
    keys: tuple[StoredKey, ...]
    """Over the rows of the body."""
    edits: tuple[Edit, ...]
    """What adds the hidden keys to the definition's items."""
    selects: tuple[exp.Select, ...]
    names: tuple[str, ...]
    """Of the items of the first SELECT."""


@dataclass(frozen=True, slots=True)
class _Part:
    """One of the SELECTs."""

    select: exp.Select
    clauses: Clauses
    below: exp.Subquery | None
    """What it selects from, if that is one of them, too."""


def layers_of(
    written: Written, select: exp.Select, span: Span, view_columns: Sequence[str], reader: RelationReader
) -> Layers | None:
    """None if it has no windows, and at most one SELECT with groups, which is the first. `reader` notes the places of
    the lowest SELECT. Raises NotIncremental."""
    parts = list(_chain(written, select, span))
    while len(parts) > 1 and not _is_special(written, parts[-1]):
        parts.pop()
    parts[-1] = replace(parts[-1], below=None)
    windows = sum(len(_windows(written, part)) for part in parts)
    first = parts[0]
    both = bool(first.select.args.get("distinct")) and _is_grouped(written, first)
    if not windows and len(parts) == 1 and not both:
        return None
    _check_all_found(written, parts, windows)
    below: _Layer | None = None
    for part in reversed(parts):
        below = _Layer(written, part, below, reader)
    assert below is not None
    return _layers(written, below, view_columns)


def has_windows(written: Written) -> bool:
    return written.tree.find(exp.Window) is not None or any(
        written.word(place) == "over" and written.symbol(place + 1) == "(" for place in range(len(written.pieces))
    )


def _chain(written: Written, select: exp.Select, span: Span) -> Iterator[_Part]:
    """The SELECT, and each one that is all the one above it selects from."""
    while True:
        if select.args.get("from_") is None:
            raise refuse("it has a SELECT without FROM")
        clauses = written.clauses(span, select)
        below, start = select.args["from_"].this, clauses.body.start + 1
        is_one = isinstance(below, exp.Subquery) and not other_part(below, "this", "alias")
        if select.args.get("joins") or select.args.get("laterals") or written.word(start + 1) != "select":
            is_one = False
        if not is_one or not isinstance(below.this, exp.Select) or below.this.args.get("from_") is None:
            yield _Part(select, clauses, None)
            return
        yield _Part(select, clauses, below)
        select, span = below.this, Span(start + 1, written.partner[start])


def _is_special(written: Written, part: _Part) -> bool:
    return bool(_windows(written, part) or part.select.args.get("distinct")) or _is_grouped(written, part)


def _is_grouped(written: Written, part: _Part) -> bool:
    if part.select.args.get("group") or part.select.args.get("having"):
        return True
    return any(
        item.holds(place) and not _is_windowed(written, place)
        for item in part.clauses.items
        for place in written.aggregates()
    )


def _is_windowed(written: Written, place: int) -> bool:
    """Whether OVER follows the call."""
    end = written.partner[place + 1] + 1
    while (word := written.word(end)) in ("filter", "ignore", "respect", "within"):
        opened = end + {"filter": 1, "within": 2}.get(word, 0)
        end = written.partner.get(opened, end + 1) + 1
    return written.word(end) == "over"


def _windows(written: Written, part: _Part) -> list[int]:
    """The places of OVER in the items."""
    return [
        place
        for item in part.clauses.items
        for place in range(item.start, item.end)
        if written.word(place) == "over" and written.symbol(place - 1) != "."
    ]


def _check_all_found(written: Written, parts: Sequence[_Part], windows: int) -> None:
    """Raises NotIncremental for windows and aggregates elsewhere."""
    if windows != len(list(written.tree.find_all(exp.Window))):
        raise refuse("it has a window below a join, in a subquery, in ORDER BY or with a name")
    spans = [span for part in parts for span in (*part.clauses.items, part.clauses.having) if span is not None]
    for place in written.aggregates():
        if not any(span.holds(place) for span in spans):
            raise refuse(f"it has {written.word(place)} in a subquery", Reason.AGGREGATE_NOT_ON_TOP)
    for part in parts:
        if any(node.find(exp.Query) for node in _expressions(part)):
            raise refuse("it has a subquery above a window or above groups")


def _expressions(part: _Part) -> Iterator[exp.Expr]:
    names = ("having", "order") if part.below is None else ("where", "having", "order")
    yield from (part.select.args[name] for name in names if part.select.args.get(name))


def _layers(written: Written, top: _Layer, view_columns: Sequence[str]) -> Layers:
    all_layers = list(top.downwards())
    keys = _common([keys for layer in all_layers for keys in layer.constraints])
    if not keys:
        reason = Reason.OPERATOR if has_windows(written) else Reason.AGGREGATE_NOT_ON_TOP
        raise refuse("its windows, groups and DISTINCT have no key in common", reason)
    if len(top.names) != len(view_columns):
        raise refuse("its items are not those of the view")
    shown = [top.lowest(key) for key in top.outputs]
    stored = []
    for number, key in enumerate(keys):
        column = next((name for name, each in zip(view_columns, shown, strict=True) if _is_same(each, key)), None)
        origin = all_layers[-1].origin(key)
        stored.append(StoredKey(key.text, column or f"freshgate_k{number}", column is None, origin))
    hidden = {number: key for number, (key, each) in enumerate(zip(keys, stored, strict=True)) if each.hidden}
    edits = [edit for layer in all_layers for edit in layer.edits(hidden)]
    selects = tuple(layer.part.select for layer in all_layers)
    return Layers(all_layers[-1].part.clauses.body, tuple(stored), tuple(edits), selects, tuple(top.names))


def _common(constraints: Sequence[Sequence[Key]]) -> list[Key]:
    """The keys that all have."""
    found = [
        key for key in constraints[0] if all(any(_is_same(each, key) for each in others) for others in constraints[1:])
    ]
    return list({key.words: key for key in found}.values())


def _is_same(one: Key | None, other: Key) -> bool:
    return one is not None and one.words == other.words


class _Layer:
    """One SELECT, with the keys within which it is computed."""

    def __init__(self, written: Written, part: _Part, below: _Layer | None, relations: RelationReader) -> None:
        self._written = written
        self.part = part
        self.below = below
        self._columns: tuple[str, ...] = ()
        """The names of the columns below, as they are called here."""
        select = part.select
        self._scope = relations.select(select, 0) if below is None else self._above(below)
        self._reader = TemplateReader(written, self._scope, select)
        nodes = zip(part.clauses.items, select.expressions, strict=True)
        self._items = [item_of(written, span, node) for span, node in nodes]
        self.names = relations.outputs(select, self._scope)
        self.outputs = list(self._outputs())
        """The keys that the items are; None for other items."""
        self._grouped = self._groups()
        found = [list(self._of_window(place)) for place in _windows(written, part)]
        if self._grouped is not None:
            found.append(self._grouped)
        if select.args.get("distinct"):
            found.append([key for key in self.outputs if key is not None])
        self.constraints = [[low for key in keys if (low := self.lowest(key))] for keys in found]
        """For each window, the groups and DISTINCT, the keys over the lowest rows."""

    def _above(self, below: _Layer) -> FromScope:
        derived = self.part.below
        assert derived is not None
        check_clauses(self.part.select)
        self._columns = renamed(derived, below.names)
        scope, item = FromScope(), FromItem(derived.alias.lower(), self._columns, [])
        scope.note(item)
        scope.names = scope.names.beside(item.scope)
        return scope

    def downwards(self) -> Iterator[_Layer]:
        yield self
        if self.below is not None:
            yield from self.below.downwards()

    def lowest(self, key: Key | None) -> Key | None:
        """The key over the rows of the lowest SELECT; None if it is more than a column in between."""
        if self.below is None or key is None:
            return key
        word = key.words[0]
        if len(key.words) > 1 or not isinstance(word, tuple) or len(word) != 2:
            return None
        places = [place for place, name in enumerate(self._columns) if name.lower() == word[1]]
        return self.below.lowest(self.below.outputs[places[0]]) if len(places) == 1 else None

    def origin(self, key: Key) -> tuple[int, str] | None:
        return self._scope.origin(key.words)

    def _outputs(self) -> Iterator[Key | None]:
        for item, node in zip(self._items, self.part.select.expressions, strict=True):
            if is_star(node):
                parts = [part.name for part in node.parts[:-1]] if isinstance(node, exp.Column) else []
                for column in self._scope.names.star(parts) or ():
                    relation, name = column.value[:2]
                    named = f"{quote(relation)}." if relation not in ("", "?") else ""
                    yield Key(named + quote(name), (column.value,), True)
            else:
                yield self._key(item.span)

    def _key(self, span: Span) -> Key | None:
        if any(self._written.word(place) == "over" for place in range(span.start, span.end)):
            return None
        try:
            return self._reader.key(span)
        except NotIncremental:
            return None

    def _of_window(self, over: int) -> Iterator[Key]:
        """The keys of a window."""
        written = self._written
        if written.symbol(over + 1) != "(":
            raise refuse("it has a window with a name")
        inside = Span(over + 2, written.partner[over + 1])
        if written.word(inside.start) in ("distribute", "cluster"):
            raise refuse("it has a window with DISTRIBUTE BY or CLUSTER BY")
        if written.word(inside.start) != "partition":
            return
        outer = written.outer(Span(inside.start + 2, inside.end))
        end = next((place for place in outer if written.word(place) in _FRAMES), inside.end)
        for span in written.split(Span(inside.start + 2, end)):
            while written.symbol(span.start) == "(" and written.partner[span.start] == span.end - 1:
                span = Span(span.start + 1, span.end - 1)
            if span.start < span.end and (key := self._key(span)) is not None:
                yield key

    def _groups(self) -> list[Key] | None:
        """The keys of GROUP BY; None if there are no groups."""
        written, select, span = self._written, self.part.select, self.part.clauses.group
        if span is None:
            return [] if _is_grouped(written, self.part) else None
        if select.args["group"].args.get("all") and _windows(written, self.part):
            raise refuse("it has GROUP BY ALL and a window")
        check_group(written, span, select.args["group"])
        grouper = GroupingReader(written, self._reader, [(item.span, item.alias) for item in self._items])
        grouping = grouper.read(span, select.args["group"])
        if grouping is not None and not grouping.plain:
            raise refuse("it has several grouping sets below or beside other groups", Reason.AGGREGATE_NOT_ON_TOP)
        return [] if grouping is None else list(grouping.keys)

    # --- the hidden keys

    def edits(self, hidden: dict[int, Key]) -> Iterator[Edit]:
        """What adds the hidden keys, by their numbers, to the items."""
        if not hidden:
            return
        added = "".join(f", {self._text(number, key)} AS {_name(number)}" for number, key in hidden.items())
        end = self._end(self.part.clauses.items[-1].end)
        yield Edit(end, end, added)
        if self.part.below is None:
            return
        for item, node in zip(self._items, self.part.select.expressions, strict=True):
            if is_star(node):
                listed = ", ".join(map(quote, self._columns))
                yield Edit(self._written.pieces[item.span.start].start, self._end(item.span.end), listed)
        if alias_columns(self.part.below):
            last = self.part.below.args["alias"].args["columns"][-1]
            end = self._end(self._written.place(last.this if isinstance(last, exp.ColumnDef) else last) + 1)
            yield Edit(end, end, "".join(f", {_name(number)}" for number in hidden))

    def _end(self, place: int) -> int:
        return self._written.pieces[place - 1].end

    def _text(self, number: int, key: Key) -> str:
        if self.below is None:
            return key.text
        return next((each.text for each in self._grouped or () if _is_same(self.lowest(each), key)), _name(number))


def _name(number: int) -> str:
    return quote(f"freshgate_k{number}")
