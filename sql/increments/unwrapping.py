"""Replaces a definition by a simpler one with the same rows: the query below a SELECT that only passes it on, and
SELECT DISTINCT over UNION ALL for UNION."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from sql.definition.trees import is_star, own_name
from sql.increments.expansion import VIEW
from sql.increments.written import Clauses, Edit, Span, Written, refuse
from sql.names import quote

_PASSING = frozenset({"expressions", "from_", "order"})
"""The clauses of a SELECT that passes on what is below it."""


def unwrapped(written: Written, columns: Sequence[str]) -> Written:
    """`columns`: those of the view. Raises NotIncremental."""
    while (text := _passed(written) or _united(written, columns)) is not None:
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


def _passed(written: Written) -> str | None:
    """The query below, if the SELECT shows its columns as they are, or some of a GROUP BY in any order."""
    tree = written.tree
    if not isinstance(tree, exp.Select) or any(value and name not in _PASSING for name, value in tree.args.items()):
        return None
    below = tree.args["from_"].this if tree.args.get("from_") else None
    if not isinstance(below, exp.Subquery) or any(
        value and name not in ("this", "alias") for name, value in below.args.items()
    ):
        return None
    order = tree.args.get("order")
    if order is not None and order.find(exp.Query) is not None:
        return None
    start = written.clauses(written.all, tree).body.start + 1
    if written.symbol(start) != "(" or written.word(start + 1) != "select":
        return None
    inside = Span(start + 1, written.partner[start])
    if len(tree.expressions) == 1 and isinstance(tree.expressions[0], exp.Star):
        star = tree.expressions[0]
        return None if any(star.args.values()) else written.slice(inside)
    if not isinstance(below.this, exp.Select):
        return None
    chosen = _chosen(tree, below)
    if chosen is None:
        return None
    if chosen == list(range(len(below.this.expressions))):
        return written.slice(inside)
    return _selected(written, inside, below.this, chosen)


def _chosen(tree: exp.Select, below: exp.Subquery) -> list[int] | None:
    """The numbers of the items that the SELECT shows; None if it shows anything else."""
    alias = below.args.get("alias")
    items = below.this.expressions
    names = [_item_name(item) for item in items]
    if alias is not None and alias.args.get("columns"):
        names = [column.name.lower() for column in alias.args["columns"]]
    if any(is_star(item) for item in items) or len(names) != len(items):
        return None
    found = []
    for item in tree.expressions:
        column = item.this if isinstance(item, exp.Alias) else item
        if not isinstance(column, exp.Column) or isinstance(column.this, exp.Star):
            return None
        parts = [part.name.lower() for part in column.parts]
        if len(parts) > 2 or (len(parts) == 2 and parts[0] != below.alias.lower()) or names.count(parts[-1]) != 1:
            return None
        found.append(names.index(parts[-1]))
    return found


def _item_name(item: exp.Expr) -> str:
    return (item.alias if isinstance(item, exp.Alias) else own_name(item) or "").lower()


def _selected(written: Written, inside: Span, select: exp.Select, chosen: Sequence[int]) -> str | None:
    """The query of groups, or of a view, with the chosen items. No other clause may refer to an item by its number or
    name."""
    group = select.args.get("group")
    below = select.args["from_"].this if select.args.get("from_") else None
    if not (isinstance(below, exp.Subquery) and below.alias == VIEW) and (not group or group.args.get("all")):
        return None
    if select.args.get("distinct") or select.args.get("order"):
        return None
    clauses = written.clauses(inside, select)
    names = {_item_name(item) for item in select.expressions if isinstance(item, exp.Alias)}
    if _mentions(written, clauses, names):
        return None
    start, end = clauses.items[0].start, clauses.items[-1].end
    listed = ", ".join(written.slice(clauses.items[number]) for number in chosen)
    return written.edited(inside, [Edit(written.pieces[start].start, written.pieces[end - 1].end, listed)])


def _mentions(written: Written, clauses: Clauses, names: set[str]) -> bool:
    for span in (clauses.group, clauses.having):
        for place in range(span.start, span.end) if span is not None else ():
            text = written.pieces[place].text
            if text.strip("`").lower() in names or (span is clauses.group and text.isdecimal()):
                return True
    return False
