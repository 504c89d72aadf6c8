"""Whether one condition on a column implies another: `d >= '2024-01-01'` implies `d >= '2020-01-01'`, and that d is not
NULL."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

from sqlglot import exp

from sql.query.comparisons import FLIPPED, Comparison, Constant, implies
from sql.rewriting.forms import form, holes_in, literal_text
from sql.rewriting.times import moment_of

_OPERATORS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NEQ: "<>",
}
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_ISO = re.compile(r"\d{4}-\d\d-\d\d(?: \d\d:\d\d:\d\d)?")


@dataclass(frozen=True, slots=True)
class _Bound:
    """A comparison of an expression, by its form, with constants."""

    known: Comparison
    holes: frozenset[int]


def implied(condition: exp.Expr, others: Iterable[exp.Expr]) -> frozenset[int] | None:
    """Whether one of the others implies the condition: its holes, whose values decide that, or None."""
    nothing, wanted = _not_null(condition), _noted_bound(condition)
    for other in others:
        if (known := _noted_bound(other)) is None:
            continue
        if nothing is not None and known.known.subject == nothing:
            return frozenset()
        if wanted is not None and implies(known.known, wanted.known):
            return known.holes
    return None


def _not_null(condition: exp.Expr) -> str | None:
    """The expression that IS NOT NULL is about."""
    inner = condition.this if isinstance(condition, exp.Not) else None
    return form(inner.this) if isinstance(inner, exp.Is) and isinstance(inner.expression, exp.Null) else None


def _noted_bound(condition: exp.Expr) -> _Bound | None:
    """The bound, noted at the node."""
    if _NOTE not in condition.meta:
        condition.meta[_NOTE] = _bound(condition)
    found = condition.meta[_NOTE]
    return found if isinstance(found, _Bound) else None


_NOTE = "bound"


def _bound(condition: exp.Expr) -> _Bound | None:
    if isinstance(condition, exp.Paren):
        return _bound(condition.this)
    if isinstance(condition, exp.In) and not condition.args.get("query"):
        values = [_value(each) for each in condition.expressions]
        known = tuple(value for value in values if value is not None)
        whole = len(known) == len(values) > 0
        return _Bound(Comparison(form(condition.this), "=", known), holes_in(condition)) if whole else None
    if (sign := _OPERATORS.get(type(condition))) is None:
        return None
    left, right = condition.this, condition.expression
    if (value := _value(right)) is None:
        left, value, sign = right, _value(left), FLIPPED.get(sign, sign)
    return None if value is None else _Bound(Comparison(form(left), sign, (value,)), holes_in(condition))


def _value(node: exp.Expr) -> Constant | None:
    """A number, or a text: of a date in an order that is that of the dates."""
    if isinstance(node, exp.Literal) and _NUMBER.fullmatch(text := literal_text(node)):
        return Decimal(text)
    moment = moment_of(node)
    if moment is None:
        return None
    if isinstance(node, exp.Literal):
        return moment
    return moment if _ISO.fullmatch(moment) else None
