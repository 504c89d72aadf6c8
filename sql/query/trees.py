"""Helpers for sqlglot's trees of queries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from sqlglot import exp

_CLAUSES = {
    "with_": "WITH",
    "pivots": "PIVOT",
    "sample": "TABLESAMPLE",
    "version": "time travel",
    "when": "time travel",
}


_NODES_OF: dict[str, tuple[type[exp.Expr], ...]] = {
    "limit": (exp.Limit,),
    "offset": (exp.Offset,),
    "fetch": (exp.Fetch,),
    "tablesample": (exp.TableSample,),
    "pivot": (exp.Pivot,),
    "unpivot": (exp.Pivot,),
    "over": (exp.Window,),
    "qualify": (exp.Qualify,),
    "group": (exp.Group, exp.WithinGroup),
    "having": (exp.Having,),
    "join": (exp.Join,),
    "lateral": (exp.Lateral,),
    "union": (exp.Union,),
    "intersect": (exp.Intersect,),
}
"""Keywords that affect which rows a query has, and the nodes that sqlglot creates for them."""


def unseen_word(tree: exp.Expr, words: Iterable[str]) -> str | None:
    """A keyword in the text for which the tree has no node; None if there is none. Names that equal keywords do not
    count."""
    written = Counter(word for word in words if word in _NODES_OF)
    if not written:
        return None
    names = Counter(name.name.lower() for name in tree.find_all(exp.Identifier))
    seen = Counter(word for word, kinds in _NODES_OF.items() if word in written for _ in tree.find_all(*kinds))
    return next((word for word, count in written.items() if count > seen[word] + names[word]), None)


def _children(value: object) -> Iterator[exp.Expr]:
    for each in value if isinstance(value, list) else [value]:
        if isinstance(each, exp.Expr):
            yield each


def others(node: exp.Expr, but: Iterable[str]) -> list[exp.Expr]:
    """The children of a node, except those under the argument names `but`."""
    known = frozenset(but)
    return [child for place, value in node.args.items() if place not in known for child in _children(value)]


def other_part(node: exp.Expr, *known: str) -> str:
    """The argument name of a part of the node that is not one of `known`; empty if there is none."""
    return next((place for place, value in node.args.items() if value and place not in known), "")


def strange_clause(node: exp.Expr, known: Iterable[str]) -> str | None:
    """Describes a clause of the node that is not one of `known`; None if there is none."""
    if node.args.get("by_name"):
        return "UNION BY NAME"
    distinct = node.args.get("distinct")
    if isinstance(distinct, exp.Distinct) and distinct.args.get("on"):
        return "DISTINCT ON"
    found = other_part(node, *known)
    return f"it is below {_CLAUSES.get(found, found.upper().strip('_'))}" if found else None


def own_parts(node: exp.Select, *kinds: type[exp.Expr]) -> Iterator[exp.Expr]:
    """The nodes of these kinds in a SELECT, without those in subqueries."""
    for part in node.walk(prune=lambda part: part is not node and isinstance(part, exp.Select | exp.SetOperation)):
        if isinstance(part, kinds):
            yield part


def strange_part(node: exp.Select) -> str | None:
    """Describes a PIVOT, TABLESAMPLE or TRANSFORM of the SELECT, which Spark applies to all of FROM; None if there is
    none. sqlglot attaches these to various nodes."""
    found = next(own_parts(node, exp.Pivot, exp.TableSample, exp.QueryTransform), None)
    if found is None:
        return None
    name = "PIVOT or UNPIVOT" if isinstance(found, exp.Pivot) else "TRANSFORM"
    return f"it is below {'TABLESAMPLE' if isinstance(found, exp.TableSample) else name}"


def partition_keys(node: exp.Select, window: exp.Expr) -> list[exp.Expr]:
    """The PARTITION BY expressions of a window, and those of the named window that it refers to."""
    keys = list(window.args.get("partition_by") or ())
    if name := window.alias.lower():
        named = [each for each in node.args.get("windows") or () if each.name.lower() == name]
        if len(named) == 1 and not named[0].alias:
            keys += named[0].args.get("partition_by") or ()
    return keys


def join_label(join: exp.Join) -> str:
    """The words before JOIN, in upper case. sqlglot takes a comma for CROSS JOIN."""
    return " ".join(filter(None, (join.method, join.side, join.kind))).upper()


def is_star(item: exp.Expr) -> bool:
    return isinstance(item, exp.Star) or (isinstance(item, exp.Column) and isinstance(item.this, exp.Star))


def own_name(item: exp.Expr) -> str | None:
    """The name of an output column without an alias; None if Spark generates it. A cast keeps the column's name."""
    item = item.unnest()
    if isinstance(item, exp.Cast):
        item = item.this.unnest()
    return item.name if isinstance(item, exp.Column) else None


def items_of(query: exp.Expr) -> list[exp.Expr]:
    """The items that name the columns of a query: those of its first SELECT."""
    while isinstance(query, exp.SetOperation | exp.Subquery):
        query = query.this
    return query.expressions if isinstance(query, exp.Select) else []


def alias_columns(node: exp.Expr) -> list[str]:
    """The names that an alias gives the columns of a relation; empty if it gives none."""
    alias = node.args.get("alias")
    return [column.name for column in alias.args.get("columns") or ()] if isinstance(alias, exp.TableAlias) else []


def is_named(table: exp.Table) -> bool:
    """Whether it is a relation with a name: not a function, and not the argument of a hint."""
    return not isinstance(table.this, exp.Func) and table.find_ancestor(exp.Hint) is None


def holds_relation(node: exp.Expr) -> bool:
    """Whether the parenthesized item of FROM makes the names of its relations visible, as `(a JOIN b)` does."""
    if not isinstance(node, exp.Subquery):
        return isinstance(node, exp.Table)
    return bool(node.args.get("alias") or node.args.get("joins")) or holds_relation(node.this)
