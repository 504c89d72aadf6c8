"""Small questions about sqlglot's trees of queries."""

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


_MEANT: dict[str, tuple[type[exp.Expr], ...]] = {
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
"""Words that change which rows there are, with the nodes that sqlglot makes of them."""


def unseen_word(tree: exp.Expr, words: Iterable[str]) -> str | None:
    """Such a word of the text that sqlglot has passed over; None if there is none. A name may be such a word, too."""
    written = Counter(word for word in words if word in _MEANT)
    if not written:
        return None
    names = Counter(name.name.lower() for name in tree.find_all(exp.Identifier))
    seen = Counter(word for word, kinds in _MEANT.items() if word in written for _ in tree.find_all(*kinds))
    return next((word for word, count in written.items() if count > seen[word] + names[word]), None)


def _children(value: object) -> Iterator[exp.Expr]:
    for each in value if isinstance(value, list) else [value]:
        if isinstance(each, exp.Expr):
            yield each


def others(node: exp.Expr, but: Iterable[str]) -> list[exp.Expr]:
    """The parts of a node in other places than these."""
    known = frozenset(but)
    return [child for place, value in node.args.items() if place not in known for child in _children(value)]


def strange_clause(node: exp.Expr, known: Iterable[str]) -> str | None:
    """A clause of the node's that is not one of these."""
    names = frozenset(known)
    if node.args.get("by_name"):
        return "UNION BY NAME"
    distinct = node.args.get("distinct")
    if isinstance(distinct, exp.Distinct) and distinct.args.get("on"):
        return "DISTINCT ON"
    found = next((place for place, value in node.args.items() if value and place not in names), None)
    return None if found is None else f"it is below {_CLAUSES.get(found, found.upper().strip('_'))}"


def own_parts(node: exp.Select, *kinds: type[exp.Expr]) -> Iterator[exp.Expr]:
    """The parts of these kinds in a SELECT, those in queries inside it left out."""
    for part in node.walk(prune=lambda part: part is not node and isinstance(part, exp.Select | exp.SetOperation)):
        if isinstance(part, kinds):
            yield part


def strange_part(node: exp.Select) -> str | None:
    """What Spark applies to all of FROM, wherever sqlglot hangs it."""
    found = next(own_parts(node, exp.Pivot, exp.TableSample, exp.QueryTransform), None)
    if found is None:
        return None
    name = "PIVOT or UNPIVOT" if isinstance(found, exp.Pivot) else "TRANSFORM"
    return f"it is below {'TABLESAMPLE' if isinstance(found, exp.TableSample) else name}"


def partition_keys(node: exp.Select, window: exp.Expr) -> list[exp.Expr]:
    """The expressions of PARTITION BY, the window's own and those of the named one it builds upon."""
    keys = list(window.args.get("partition_by") or ())
    if name := window.alias.lower():
        named = [each for each in node.args.get("windows") or () if each.name.lower() == name]
        if len(named) == 1 and not named[0].alias:
            keys += named[0].args.get("partition_by") or ()
    return keys


def is_star(item: exp.Expr) -> bool:
    return isinstance(item, exp.Star) or (isinstance(item, exp.Column) and isinstance(item.this, exp.Star))


def own_name(item: exp.Expr) -> str | None:
    """The name of an output without alias; a cast column keeps its name. None where Spark makes one up."""
    item = item.unnest()
    if isinstance(item, exp.Cast):
        item = item.this.unnest()
    return item.name if isinstance(item, exp.Column) else None


def is_named(table: exp.Table) -> bool:
    """Is it a relation with a name, no function and no hint's argument?"""
    return not isinstance(table.this, exp.Func) and table.find_ancestor(exp.Hint) is None


def holds_relation(node: exp.Expr) -> bool:
    """Does what stands in brackets in FROM have the names of relations to offer, as `(a JOIN b)` does?"""
    if not isinstance(node, exp.Subquery):
        return isinstance(node, exp.Table)
    return bool(node.args.get("alias") or node.args.get("joins")) or holds_relation(node.this)
