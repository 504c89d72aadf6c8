"""Queries that are word for word a view's own: those whose parts are not understood, such as ones with ROLLUP or UNION,
are compared as wholes."""

from __future__ import annotations

from sqlglot import exp

from sql.names import Namespace, TableName
from sql.query.trees import is_star, items_of
from sql.rewriting.dialect import identifier, view_relation
from sql.rewriting.forms import form, holes_in, mapped
from sql.rewriting.labels import label_of

_ABOVE = ("order", "limit", "offset")
"""Clauses above the rows of a query."""


def whole_form(query: exp.Expr, namespace: Namespace) -> str:
    """The form of a query without ORDER BY and LIMIT, its tables with full names."""

    def change(node: exp.Expr) -> exp.Expr | None:
        if node is query or not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
            return None
        name = TableName.resolve(tuple(part.name for part in node.parts), namespace)
        kept = {place: value for place, value in node.args.items() if place not in ("this", "db", "catalog")}
        alias = node.args.get("alias") or exp.TableAlias(this=node.this)
        return exp.Table(**{**kept, "this": exp.Identifier(this=str(name), quoted=True), "alias": alias})

    bare = type(query)(**{place: value for place, value in query.args.items() if place not in _ABOVE})
    return form(mapped(bare, change))


def over_whole(query: exp.Expr, columns: tuple[str, ...], alias: str) -> exp.Select | None:
    """The query over a view that is its own, which has these columns; None if its clauses name more than columns."""
    names = _names(query)
    order = query.args.get("order")
    items = order.expressions if order is not None else []
    if len(names) != len(columns) or not all(_is_output(item.this, names) for item in items):
        return None
    return exp.Select(
        expressions=[
            exp.Alias(this=exp.Column(this=identifier(column), table=identifier(alias)), alias=identifier(name))
            for column, name in zip(columns, names, strict=True)
        ],
        from_=exp.From(this=view_relation(alias)),
        **{clause: query.args.get(clause) for clause in _ABOVE},
    )


def _names(query: exp.Expr) -> list[str]:
    labels = [None if is_star(item) or holes_in(item) else label_of(item) for item in items_of(query)]
    return [label for label in labels if label is not None]


def _is_output(node: exp.Expr, names: list[str]) -> bool:
    if isinstance(node, exp.Literal):
        return node.name.isdecimal()
    return isinstance(node, exp.Column) and not node.table and node.name.lower() in map(str.lower, names)
