"""Replaces a definition by a simpler one with the same rows: a query over groups by these groups with other items, and
UNION by SELECT DISTINCT over UNION ALL.

Rewriting merges other queries: `sql.rewriting.blocks` puts a derived table that only projects, filters and joins into
the tree of the query above, and leaves groups as they are. Here such tables stay, because a mention of a table has to
keep its place in the text (`scopes` reads through them), and groups are merged, because only those of the whole query
can be stored.

Tests: `test_increment_definitions`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from sqlglot import exp

from sql.increments.expansion import VIEW
from sql.increments.written import Clauses, Edit, Span, Written, refuse
from sql.names import quote
from sql.query.keys import KeyItems, NoSuchItem
from sql.query.trees import alias_columns, is_star, other_part, own_name
from sql.scan import identifier

_ABOVE = ("expressions", "from_", "where", "order")
"""The clauses of a SELECT that can be merged with the query below."""
_ITEMS = ("expressions", "from_")
_STRANGE = frozenset({"select", "over"})
_BELOW = ("expressions", "from_", "joins", "laterals", "where", "group", "having", "order")


def unwrapped(written: Written, columns: Sequence[str], known: AbstractSet[str]) -> Written:
    """`columns`: those of the view. `known`: the names of the columns of all tables, in lower case. Raises
    NotIncremental."""
    while (text := _of_one_query(written, known) or _united(written, columns)) is not None:
        written = Written(text)
    return written


def without_order(written: Written) -> Span:
    """The pieces without the ORDER BY of the whole, which does not change the rows."""
    order = written.tree.args.get("order")
    if order is None:
        return written.all
    if order.find(exp.Query) is not None:
        raise refuse("it has a subquery in ORDER BY")
    places = [place for place in written.outer(written.all) if written.word(place) == "order"]
    if not places or written.word(places[-1] + 1) != "by":
        raise refuse("ORDER BY is not understood")
    return Span(0, places[-1])


def _united(written: Written, columns: Sequence[str]) -> str | None:
    tree = written.tree
    if not isinstance(tree, exp.Union) or not tree.args.get("distinct"):
        return None
    span = without_order(written)
    edits = []
    for place in written.outer(span):
        if written.word(place) == "union" and written.word(place + 1) != "all":
            last = place + 1 if written.word(place + 1) == "distinct" else place
            edits.append(Edit(written.pieces[place].start, written.pieces[last].end, "UNION ALL"))
    names = ", ".join(map(quote, columns))
    return f"SELECT DISTINCT {names} FROM ({written.edited(span, edits)}) AS `freshgate_union`({names})"


def _of_one_query(written: Written, known: AbstractSet[str]) -> str | None:
    """One SELECT for a SELECT over another one."""
    tree = written.tree
    if not isinstance(tree, exp.Select) or other_part(tree, *_ABOVE):
        return None
    below = tree.args["from_"].this if tree.args.get("from_") else None
    if not isinstance(below, exp.Subquery) or other_part(below, "this", "alias"):
        return None
    if any((order := each.args.get("order")) and order.find(exp.Query) for each in (tree, below.this)):
        return None
    above = written.clauses(written.all, tree)
    start = above.body.start + 1
    if written.symbol(start) != "(" or written.word(start + 1) != "select":
        return None
    inside = Span(start + 1, written.partner[start])
    first = tree.expressions[0]
    if (
        len(tree.expressions) == 1
        and isinstance(first, exp.Star)
        and not other_part(first)
        and not tree.args.get("where")
    ):
        return written.slice(inside)
    if not isinstance(below.this, exp.Select) or below.this.args.get("from_") is None:
        return None
    return _Merge(written, above, below, inside, known).text()


def _is_plain_star(item: exp.Expr) -> bool:
    return isinstance(item, exp.Star) and not other_part(item)


@dataclass(frozen=True, slots=True)
class _Item:
    """An item of SELECT."""

    name: str
    """Empty if Spark makes one."""
    aliased: bool
    span: Span
    """Without the alias."""
    text: str

    @property
    def key(self) -> str:
        return self.name.lower()


class _Merge:
    """A SELECT and the query below it, whose items are written in the places of their names."""

    def __init__(
        self, written: Written, above: Clauses, below: exp.Subquery, inside: Span, known: AbstractSet[str]
    ) -> None:
        self._written = written
        self._above = above
        self._select: exp.Select = below.this
        self._inside = inside
        self._clauses = written.clauses(inside, below.this)
        self._items = [
            self._item(span, node) for span, node in zip(self._clauses.items, below.this.expressions, strict=True)
        ]
        # Which columns FROM has is not known here: see _is_certain.
        self._keys = KeyItems([item.key if item.aliased else None for item in self._items], lambda _: False)
        self._meant = self._names(below)
        self._aggregates = set(written.aggregates())
        body = self._clauses.body
        self._columns = known | {self._folded(place) for place in range(body.start, body.end)}
        """Names that may be those of columns below."""
        self._qualifier = below.alias.lower()

    def text(self) -> str | None:
        """None if they cannot be merged."""
        select = self._select
        from_ = select.args["from_"].this if select.args.get("from_") else None
        grouped = bool(select.args.get("group")) and not select.args["group"].args.get("all")
        if select.args.get("distinct") and not other_part(select, *_BELOW, "distinct"):
            return self._passed()
        passing = isinstance(from_, exp.Subquery) and from_.alias == VIEW and not other_part(select, *_ITEMS)
        if any(self._written.word(place) == "over" for place in range(self._inside.start, self._clauses.items[-1].end)):
            return None
        if not (grouped or passing) or other_part(select, *_BELOW) or any(map(is_star, select.expressions)):
            return None
        if not self._meant:
            return None
        shown, condition = self._shown(), self._condition()
        group, having = (self._group(), self._having()) if grouped else ("", "")
        if shown is None or condition is None or group is None or having is None:
            return None
        text = f"SELECT {shown} {self._written.slice(self._clauses.body)}"
        if passing:
            return f"{text} WHERE {condition}" if condition else text
        both = " AND ".join(f"({each})" for each in (having, condition) if each)
        return f"{text} GROUP BY {group}" + (f" HAVING {both}" if both else "")

    def _item(self, span: Span, node: exp.Expr) -> _Item:
        end = span.end
        if isinstance(node, exp.Alias):
            end = self._written.place(node.args["alias"])
            end -= 1 if self._written.word(end - 1) == "as" else 0
        bare = Span(span.start, end)
        name = node.alias if isinstance(node, exp.Alias) else own_name(node) or ""
        return _Item(name, isinstance(node, exp.Alias), bare, self._written.slice(bare))

    def _names(self, below: exp.Subquery) -> dict[str, str]:
        """What the names mean above."""
        names = [name.lower() for name in alias_columns(below)] or [item.key for item in self._items]
        if len(set(names)) != len(names) or len(names) != len(self._items) or not all(names):
            return {}
        return {name: item.text for name, item in zip(names, self._items, strict=True)}

    def _folded(self, place: int) -> str:
        piece = self._written.pieces[place]
        return identifier(piece).lower() if piece.kind in ("word", "quoted") else ""

    # --- the SELECT above

    def _passed(self) -> str | None:
        """The query below, if all its columns are shown as they are."""
        where = self._written.tree.args.get("where")
        texts = [self._over(span) for span in (self._item(*each).span for each in self._nodes())]
        return None if where or texts != list(self._meant.values()) else self._written.slice(self._inside)

    def _nodes(self) -> Iterator[tuple[Span, exp.Expr]]:
        return zip(self._above.items, self._written.tree.expressions, strict=True)

    def _shown(self) -> str | None:
        found = []
        for span, node in self._nodes():
            if _is_plain_star(node):
                found += [f"{text} AS {quote(name)}" for name, text in self._meant.items()]
                continue
            item = self._item(span, node)
            text = None if is_star(node) else self._over(item.span)
            if text is None:
                return None
            found.append(f"{text} AS {quote(item.name)}" if item.name else text)
        return ", ".join(found)

    def _condition(self) -> str | None:
        body = self._above.body
        where = next((place for place in self._written.outer(body) if self._written.word(place) == "where"), None)
        if where is None:
            return ""
        return self._over(Span(where + 1, body.end))

    def _over(self, span: Span) -> str | None:
        """The expression over the items below; None if it is more than that."""
        written = self._written
        edits = []
        place = span.start
        while place < span.end:
            if place in self._aggregates or written.word(place) in _STRANGE or self._is_arrow(place):
                return None
            column = written.columns.get(place)
            if column is None:
                place += 1
                continue
            parts = [part.name.lower() for part in column.parts]
            after = place + 2 * len(parts) - 1
            if len(parts) == 2 and parts[0] == self._qualifier:
                parts = parts[1:]
            if len(parts) > 1 or parts[0] not in self._meant:
                return None
            text = self._meant[parts[0]]
            if (place, after) == (span.start, span.end):
                return text
            edits.append(Edit(written.pieces[place].start, written.pieces[after - 1].end, f"({text})"))
            place = after
        return written.edited(span, edits)

    def _is_arrow(self, place: int) -> bool:
        """Whether it belongs to a lambda, whose names may be those of items."""
        return (self._written.symbol(place), self._written.symbol(place + 1)) == ("-", ">")

    # --- the clauses below, in which names and numbers may mean items

    def _alias(self, place: int) -> _Item | None:
        """The item that is called so."""
        number = self._keys.called(self._folded(place))
        return None if number is None else self._items[number]

    def _is_certain(self, item: _Item) -> bool:
        """Whether its name means the item, or a column that is the same."""
        column = self._written.columns.get(item.span.start)
        itself = column is not None and column.name.lower() == item.key
        whole = column is not None and item.span.end - item.span.start == 2 * len(column.parts) - 1
        return (itself and whole) or item.key not in self._columns

    def _group(self) -> str | None:
        written, span = self._written, self._clauses.group
        if span is None:
            return None
        found = []
        for element in written.split(span):
            item, number = None, written.slice(element)
            if number.isdecimal():
                try:
                    item = self._items[self._keys.numbered(number)]
                except NoSuchItem:
                    return None
            elif element.end - element.start == 1 and (item := self._alias(element.start)) is not None:
                if not self._is_certain(item):
                    return None
            elif any(self._alias(place) or self._is_number(place) for place in range(element.start, element.end)):
                return None
            found.append(item.text if item is not None else number)
        return ", ".join(found)

    def _is_number(self, place: int) -> bool:
        """Whether it may be the number of an item in ROLLUP and the like."""
        return self._written.pieces[place].text.isdecimal() and self._written.symbol(place - 1) in ("(", ",")

    def _having(self) -> str | None:
        written, span = self._written, self._clauses.having
        if span is None:
            return ""
        edits = []
        for place in range(span.start, span.end):
            column = written.columns.get(place)
            if column is None or len(column.parts) > 1 or (item := self._alias(place)) is None:
                continue
            if not self._is_certain(item):
                return None
            edits.append(Edit(written.pieces[place].start, written.pieces[place].end, f"({item.text})"))
        return written.edited(span, edits)
