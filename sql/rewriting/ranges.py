"""Whether one condition on a column implies another: `d >= '2024-01-01'` implies `d >= '2020-01-01'`, and that d is not
NULL."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

from sqlglot import exp

from sql.query.comparisons import FLIPPED, Comparison, Constant, implies
from sql.rewriting.forms import conjuncts_of, form, holes_in, literal_text, operands
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
    return next((holes for other in others if (holes := _implied(condition, other)) is not None), None)


def _implied(weak: exp.Expr, strong: exp.Expr) -> frozenset[int] | None:
    alternatives, parts = list(operands(strong, exp.Or)), conjuncts_of(strong)
    if len(alternatives) > 1:
        return _all(_implied(weak, each) for each in alternatives)
    if len(wanted := conjuncts_of(weak)) > 1:
        return _all(_implied(each, strong) for each in wanted)
    found = _bound_implied(weak, strong)
    if found is None and len(parts) > 1:
        found = next((holes for each in parts if (holes := _implied(weak, each)) is not None), None)
    choices = list(operands(weak, exp.Or))
    if found is None and len(choices) > 1:
        found = next((holes for each in choices if (holes := _implied(each, strong)) is not None), None)
    return found


def _all(found: Iterable[frozenset[int] | None]) -> frozenset[int] | None:
    """The holes of all; None if one is None."""
    holes: frozenset[int] = frozenset()
    for each in found:
        if each is None:
            return None
        holes |= each
    return holes


def _bound_implied(weak: exp.Expr, strong: exp.Expr) -> frozenset[int] | None:
    if form(weak) == form(strong):
        return holes_in(strong)
    if (known := _noted_bound(strong)) is None:
        return None
    if (nothing := _not_null(weak)) is not None and known.known.subject == nothing:
        return frozenset()
    wanted = _noted_bound(weak)
    return known.holes if wanted is not None and implies(known.known, wanted.known) else None


_NEGATED: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.LT: exp.GTE,
    exp.LTE: exp.GT,
    exp.GT: exp.LTE,
    exp.GTE: exp.LT,
}


def is_range(condition: exp.Expr) -> bool:
    """Whether it compares a value with a literal, as larger or smaller."""
    return type(condition) in _NEGATED and _noted_bound(condition) is not None


def negated(condition: exp.Expr) -> exp.Expr:
    """The range that begins where another one ends."""
    return _NEGATED[type(condition)](this=condition.this, expression=condition.expression)


def subject_of(condition: exp.Expr) -> exp.Expr:
    """What a range compares with a literal."""
    sides: list[exp.Expr] = [condition.this, condition.expression]
    return sides[1] if _value(sides[1]) is None else sides[0]


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
