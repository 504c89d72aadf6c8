"""Queries within expressions: EXISTS, IN and values. Their own columns are hidden from the block around them.

Tests: `test_matching`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from sql.names import Namespace, TableName
from sql.query.resolution import Column, Scope, relation
from sql.query.trees import other_part
from sql.reading.parsing import Doubt
from sql.rewriting.dialect import identifier, printed
from sql.rewriting.forms import OPENED, conjuncts_of, form, mapped

_Columns = Callable[[TableName], Sequence[str] | None]


def with_closed_subqueries(select: exp.Select, namespace: Namespace, columns_of: _Columns) -> exp.Select:
    """The SELECT with words in the place of the columns of its subqueries. What is still a column in a subquery belongs
    to the SELECT. Their tables have full names, so that equal ones have equal forms."""

    def change(node: exp.Expr) -> exp.Expr | None:
        if node is select:
            return None
        if isinstance(node, exp.From):
            return node
        if isinstance(node, exp.Join):
            on = node.args.get("on")
            return exp.Join(**{**node.args, "on": None if on is None else mapped(on, change)})
        return closed(node, namespace, columns_of) if isinstance(node, exp.Query) else None

    if sum(1 for _ in select.find_all(exp.Select)) == 1:
        return select
    made = mapped(select, change)
    assert isinstance(made, exp.Select)
    return made


def closed(query: exp.Expr, namespace: Namespace, columns_of: _Columns) -> exp.Expr:
    """A query within an expression, with words in the place of its own columns. Of one SELECT, the tables have aliases
    by their places, so that equal ones have equal forms."""
    scope = _scope(query, namespace, columns_of)
    places = {} if scope is None else {id(each): f"e_{n}" for n, each in enumerate(query.find_all(exp.Table))}

    def change(node: exp.Expr) -> exp.Expr | None:
        if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
            name = TableName.resolve(tuple(part.name for part in node.parts), namespace)
            alias = node.args.get("alias") or exp.TableAlias(this=node.this)
            if (place := places.get(id(node))) is not None:
                alias = exp.TableAlias(this=identifier(place))
            kept = {part: value for part, value in node.args.items() if part not in ("this", "db", "catalog", "alias")}
            kept["joins"] = [mapped(each, change) for each in kept.get("joins") or ()]
            return exp.Table(this=exp.Var(this=name.quoted), alias=alias, **kept)
        if isinstance(node, exp.Column) and not isinstance(node.this, exp.Star):
            found, fields = ([], []) if scope is None else scope.resolve([part.name for part in node.parts])
            if len(found) > 1:
                raise Doubt("a query within an expression uses a name with several meanings")
            if found:
                return exp.Var(this=".".join((found[0], *(printed(identifier(each)) for each in fields))))
            return exp.Var(this=printed(node)) if scope is None else None
        return None

    made = mapped(query, change)
    if made.find(exp.Column) is None:
        made.meta[OPENED] = query
    return made


def _scope(query: exp.Expr, namespace: Namespace, columns_of: _Columns) -> Scope[str] | None:
    """Its own columns, as they are written behind the aliases of their tables; None if it reads more than tables of
    known columns, and every name counts as its own."""
    tables = list(query.find_all(exp.Table))
    if sum(1 for _ in query.find_all(exp.Select)) != 1 or not tables:
        return None
    scope: Scope[str] | None = None
    for place, table in enumerate(tables):
        parts = tuple(part.name for part in table.parts)
        qualifiers = [(table.alias,)] if table.alias else [parts[place:] for place in range(len(parts))]
        columns = columns_of(TableName.resolve(parts, namespace))
        if columns is None:
            return None
        its = relation([Column(each, f"e_{place}.{printed(identifier(each.lower()))}") for each in columns], qualifiers)
        scope = Scope.of(its) if scope is None else scope.beside(Scope.of(its))
    return scope


def condition_form(condition: exp.Expr) -> str:
    """The form of a condition that rows must meet, whose subqueries are closed: x IN (SELECT c ...) has that of
    EXISTS (SELECT ... WHERE c = x)."""
    if isinstance(condition, exp.In) and isinstance(query := condition.args.get("query"), exp.Expr):
        select = query.this if isinstance(query, exp.Subquery) else query
        items = select.expressions if isinstance(select, exp.Select) else []
        if isinstance(select, exp.Select) and len(items) == 1 and not isinstance(condition.this, exp.Tuple):
            item = items[0].this if isinstance(items[0], exp.Alias) else items[0]
            return _existence_form(select, exp.EQ(this=item, expression=condition.this)) or form(condition)
    if isinstance(condition, exp.Exists) and isinstance(condition.this, exp.Select):
        return _existence_form(condition.this) or form(condition)
    return form(condition)


def _existence_form(select: exp.Select, *more: exp.Expr) -> str | None:
    """The form of EXISTS, by the tables and conditions of its query; None if there is more to that."""
    if other_part(select, "expressions", "from_", "joins", "where", "kind"):
        return None
    where = select.args.get("where")
    conditions = [*conjuncts_of(where.this if where is not None else None), *more]
    sources = [form(each) for each in (select.args.get("from_"), *(select.args.get("joins") or ())) if each is not None]
    return f"exists({'; '.join(sources)} where {', '.join(sorted(set(map(form, conditions))))})"
