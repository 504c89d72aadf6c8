"""The CTEs that names mean."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sqlglot import exp


class Ctes:
    """The CTEs of a tree that does not change.

    The query of a CTE sees those before it, and its own name only if it is recursive: `WITH t AS (SELECT * FROM t)`
    reads the table t. The way from a node to the next WITH is walked once: in a chain of a thousand UNIONs, the tables
    have hundreds of nodes above them.
    """

    def __init__(self) -> None:
        self._above: dict[int, tuple[exp.Expr, exp.Expr] | None] = {}

    def meant(self, table: exp.Table, fold: Callable[[str], str] = str.lower) -> exp.CTE | None:
        """The CTE that a mention of a relation means; None if it means another relation. `fold` makes names equal."""
        return None if table.args.get("db") else next(self.visible(table.name, table, fold), None)

    def visible(self, name: str, node: exp.Expr, fold: Callable[[str], str] = str.lower) -> Iterator[exp.CTE]:
        """The CTEs of the name that can be seen from a node of the tree; those further inside come first, and hide the
        others."""
        folded = fold(name)
        inside: exp.CTE | None = None
        place = node
        while (above := self._next(place)) is not None:
            child, place = above
            if isinstance(child, exp.CTE):
                inside = child
            if (with_ := place.args.get("with_")) is not None:
                yield from _found(with_, folded, inside if child is with_ else None, fold)

    def _next(self, node: exp.Expr) -> tuple[exp.Expr, exp.Expr] | None:
        """The next WITH, or query that has one, above a node, after its child on the way there."""
        passed: list[exp.Expr] = []
        child, found = node, None
        while id(child) not in self._above and (parent := child.parent) is not None:
            passed.append(child)
            if isinstance(parent, exp.With) or parent.args.get("with_") is not None:
                found = child, parent
                break
            child = parent
        else:
            found = self._above.get(id(child))
        self._above.update((id(each), found) for each in passed)
        return found


def _found(with_: exp.With, name: str, inside: exp.CTE | None, fold: Callable[[str], str]) -> Iterator[exp.CTE]:
    """The CTEs that this WITH calls so, as the query of `inside` sees them; None: as the query behind it does."""
    for cte in with_.expressions:
        if cte is inside and not with_.args.get("recursive"):
            return
        if isinstance(cte, exp.CTE) and fold(cte.alias) == name:
            yield cte
        if cte is inside:
            return
