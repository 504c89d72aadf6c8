"""Canonical forms of expressions: two of one form are taken to have the same value. The columns in an expression are
resolved: `table` is the id of a relation, `name` is in lower case. Expressions are never changed in place.

Tests: `test_matching`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from functools import lru_cache

from sqlglot import exp

from sql.query.aggregates import SYNONYMS
from sql.rewriting.dialect import WRITTEN
from sql.rewriting.template import hole_of

_SYMMETRIC: dict[type[exp.Expr], str] = {exp.EQ: "=", exp.NEQ: "<>", exp.NullSafeEQ: "<=>", exp.Add: "+", exp.Mul: "*"}
_COMPARED: dict[type[exp.Expr], str] = {exp.LT: "<", exp.LTE: "<="}
_FLIPPED: dict[type[exp.Expr], str] = {exp.GT: "<", exp.GTE: "<="}
_SYNONYMS = {
    **SYNONYMS,
    "substr": "substring",
    "ceiling": "ceil",
    "lcase": "lower",
    "ucase": "upper",
    "dayofmonth": "day",
    "ifnull": "coalesce",
    "nvl": "coalesce",
    "datepart": "date_part",
    "pow": "power",
    "char_length": "length",
    "len": "length",
    "approx_percentile": "percentile_approx",
}
_CASTS = frozenset(
    {"date", "timestamp", "int", "bigint", "double", "float", "string", "boolean", "smallint", "tinyint", "decimal"}
)
"""Names of types that are also called as functions."""
_PARTS = frozenset({"year", "quarter", "month", "week", "day", "dayofweek", "hour", "minute", "second"})


def form(node: exp.Expr) -> str:
    """The canonical form. It is noted at the node, since the expressions of a query are compared with many views."""
    found = node.meta.get(_FORM)
    if found is None:
        found = node.meta[_FORM] = _form(node)
    return str(found)


_FORM, _SHOWN, OPENED = "form", "shown", "opened"
"""Names of notes. The last one is at a query within an expression that uses nothing of the query around it: it, before
its names were closed."""


def _form(node: exp.Expr) -> str:
    match node:
        case exp.Column():
            return f"{node.table}.{node.name}"
        case exp.Literal():
            return literal_text(node)
        case exp.Paren():
            return form(node.this)
        case exp.Identifier():
            return node.name.lower()
        case exp.And() | exp.Or():
            return f"{node.key}({', '.join(sorted(set(map(form, operands(node, type(node))))))})"
        case exp.Between():
            return f"and({', '.join(sorted(map(form, conjuncts_of(node))))})"
        case exp.In() if len(node.expressions) == 1 and not node.args.get("query"):
            return " = ".join(sorted((form(node.this), form(node.expressions[0]))))
        case exp.Anonymous() | exp.Extract() | exp.Cast():
            return _call_form(node)
        case exp.Union() if _is_union_all(node):
            return f"union all({', '.join(sorted(form(_unnamed(each)) for each in _branches(node)))})"
    kind = type(node)
    if sign := _SYMMETRIC.get(kind):
        return f"({f' {sign} '.join(sorted((form(node.this), form(node.expression))))})"
    if sign := _COMPARED.get(kind):
        return f"({form(node.this)} {sign} {form(node.expression)})"
    if sign := _FLIPPED.get(kind):
        return f"({form(node.expression)} {sign} {form(node.this)})"
    parts = (f"{place}={_value_form(value)}" for place, value in node.args.items() if value not in (None, False, []))
    return f"{node.key}({', '.join(parts)})"


def _is_union_all(node: exp.Expr) -> bool:
    present = {place for place, value in node.args.items() if value not in (None, False, [])}
    return isinstance(node, exp.Union) and present == {"this", "expression"}


def _branches(node: exp.Expr) -> Iterator[exp.Expr]:
    """The queries of a UNION ALL."""
    if _is_union_all(node):
        yield from _branches(node.this)
        yield from _branches(node.expression)
    else:
        yield node


def _unnamed(query: exp.Expr) -> exp.Expr:
    """A branch without the names of its columns, which only those of the first one have a meaning of."""
    if not isinstance(query, exp.Select):
        return query
    items = [each.this if isinstance(each, exp.Alias) else each for each in query.expressions]
    return exp.Select(**{**query.args, "expressions": items})


def _value_form(value: object) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_value_form, value))}]"
    return form(value) if isinstance(value, exp.Expr) else str(value).lower()


def _call_form(node: exp.Expr) -> str:
    if isinstance(node, exp.Cast):
        return f"{node.key}({form(node.this)} as {type_of(node).lower()})"
    name, arguments = call_of(node)
    if name == "to_date" and len(arguments) == 1:
        return f"cast({form(arguments[0])} as date)"
    if name in _CASTS and len(arguments) == 1:
        return f"cast({form(arguments[0])} as {name})"
    if name == "count" and len(arguments) == 1 and isinstance(arguments[0], exp.Star | exp.Literal):
        return COUNT_OF_ROWS
    shown_arguments = list(map(form, arguments))
    if name in _UNIT_AT and len(arguments) == 2 and isinstance(arguments[_UNIT_AT[name]], exp.Literal):
        shown_arguments[_UNIT_AT[name]] = shown_arguments[_UNIT_AT[name]].lower()
    return f"{name}({', '.join(shown_arguments)})"


_UNIT_AT = {"date_trunc": 0, "date_part": 0, "trunc": 1}
"""Calls in which the case of a literal does not matter, and its place."""
COUNT_OF_ROWS = "count(*)"


def type_of(cast: exp.Expr) -> str:
    """The type of a cast, as Spark writes it."""
    to = cast.args["to"]
    plain = isinstance(to.this, exp.DType) and not any(value for place, value in to.args.items() if place != "this")
    return _plain_type(to.this) if plain else str(to.sql(dialect="spark"))


@lru_cache(maxsize=256)
def _plain_type(name: exp.DType) -> str:
    return str(exp.DataType(this=name).sql(dialect="spark"))


def call_of(node: exp.Expr) -> tuple[str, list[exp.Expr]]:
    """The name of a call, in lower case and without synonyms, and its arguments; no name for anything else."""
    if isinstance(node, exp.Anonymous):
        name = node.name.lower()
        name = _SYNONYMS.get(name, name)
        if name == "date_part" and len(node.expressions) == 2 and node.expressions[0].name.lower() in _PARTS:
            return node.expressions[0].name.lower(), node.expressions[1:]
        return name, node.expressions
    if isinstance(node, exp.Extract):
        return node.name.lower(), [node.expression]
    return "", []


def as_case(node: exp.Expr) -> exp.Case | None:
    """CASE, or IF as such; None for anything else."""
    while isinstance(node, exp.Paren):
        node = node.this
    name, arguments = call_of(node)
    if name == "if" and len(arguments) == 3:
        return exp.Case(ifs=[exp.If(this=arguments[0], true=arguments[1])], default=arguments[2])
    return node if isinstance(node, exp.Case) else None


def results_of(case: exp.Case) -> list[exp.Expr]:
    """What CASE may give, but for the NULL of a missing ELSE."""
    default = case.args.get("default")
    return [*(each.args["true"] for each in case.args["ifs"]), *([] if default is None else [default])]


def literal_text(literal: exp.Expr) -> str:
    """A literal as written; every string that holds no quote or escape in single quotes."""
    written = literal.meta.get(WRITTEN)
    if isinstance(written, str):
        return written
    return f"'{literal.name}'" if literal.args.get("is_string") else literal.name


def holes_in(node: exp.Expr) -> frozenset[int]:
    """The holes among the literals of an expression."""
    found = (hole_of(literal.name) for literal in node.find_all(exp.Literal))
    return frozenset(number for number in found if number is not None)


def operands(node: exp.Expr, kind: type[exp.Expr]) -> Iterator[exp.Expr]:
    """What AND or OR joins, through brackets."""
    if isinstance(node, exp.Paren):
        yield from operands(node.this, kind)
    elif type(node) is kind:
        yield from operands(node.this, kind)
        yield from operands(node.expression, kind)
    else:
        yield node


def conjuncts_of(condition: exp.Expr | None) -> list[exp.Expr]:
    """The conditions that AND joins; BETWEEN is two."""
    found: list[exp.Expr] = []
    for each in operands(condition, exp.And) if condition is not None else ():
        if isinstance(each, exp.Between) and not each.args.get("symmetric"):
            found.append(exp.GTE(this=each.this, expression=each.args["low"]))
            found.append(exp.LTE(this=each.this, expression=each.args["high"]))
        else:
            found.append(each)
    return found


def joined(conditions: Iterable[exp.Expr]) -> exp.Expr | None:
    """The conditions joined with AND; None if there is none."""
    both: exp.Expr | None = None
    for each in conditions:
        each = exp.Paren(this=each) if isinstance(each, exp.Or) else each
        both = each if both is None else exp.And(this=both, expression=each)
    return both


def mapped(node: exp.Expr, change: Callable[[exp.Expr], exp.Expr | None]) -> exp.Expr:
    """A copy with the nodes that `change` gives for nodes, outermost first; None: a copy with changed children."""
    if (changed := change(node)) is not None:
        return changed
    return rebuilt(node, change)


def rebuilt(node: exp.Expr, change: Callable[[exp.Expr], exp.Expr | None], without: Collection[str] = ()) -> exp.Expr:
    """A copy with changed children, as `mapped`, without the arguments of these names."""
    kept = (place for place in node.args if place not in without)
    made = type(node)(**{place: _mapped_value(node.args[place], change) for place in kept})
    if isinstance(node, exp.Literal):
        made.meta.update(node.meta)
    elif (opened := node.meta.get(OPENED)) is not None:
        made.meta[OPENED] = opened
    return made


def _mapped_value(value: object, change: Callable[[exp.Expr], exp.Expr | None]) -> object:
    if isinstance(value, exp.Expr):
        return mapped(value, change)
    return [_mapped_value(each, change) for each in value] if isinstance(value, list) else value


def copied(node: exp.Expr) -> exp.Expr:
    return mapped(node, lambda _: None)


def shown(node: exp.Expr) -> str:
    """An expression for people: columns without their tables, literals as written."""
    found = node.meta.get(_SHOWN)
    if found is None:
        found = node.meta[_SHOWN] = mapped(node, _shown_part).sql(dialect="spark", normalize_functions=False)
    return str(found)


def _shown_part(node: exp.Expr) -> exp.Expr | None:
    if isinstance(node, exp.Column):
        return exp.Column(this=exp.to_identifier(node.name))
    return exp.Var(this=literal_text(node)) if isinstance(node, exp.Literal) else None
