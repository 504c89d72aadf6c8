"""Whether one condition on a column implies another: `d >= '2024-01-01'` implies `d >= '2020-01-01'`, and that d is not
NULL."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal

from sqlglot import exp

from sql.rewriting.forms import form, holes_in, literal_text
from sql.rewriting.times import moment_of

_Value = Decimal | str
_OPERATORS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NEQ: "<>",
}
_FLIPPED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
_HOLDS: dict[str, Callable[[_Value, _Value], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_ISO = re.compile(r"\d{4}-\d\d-\d\d(?: \d\d:\d\d:\d\d)?")


@dataclass(frozen=True, slots=True)
class _Bound:
    """A comparison of an expression with constants: with one of several, if the sign is `=`."""

    subject: str
    sign: str
    values: tuple[_Value, ...]
    holes: frozenset[int]


def implied(condition: exp.Expr, others: Iterable[exp.Expr]) -> frozenset[int] | None:
    """Whether one of the others implies the condition: its holes, whose values decide that, or None."""
    nothing, wanted = _not_null(condition), _noted_bound(condition)
    for other in others:
        if (known := _noted_bound(other)) is None:
            continue
        if nothing is not None and known.subject == nothing:
            return frozenset()
        if wanted is not None and wanted.subject == known.subject and _implies(known, wanted):
            return known.holes
    return None


def _implies(known: _Bound, wanted: _Bound) -> bool:
    if len({type(value) for value in known.values + wanted.values}) != 1:
        return False
    if known.sign == "=":
        return all(any(_HOLDS[wanted.sign](value, limit) for limit in wanted.values) for value in known.values)
    (value,), limits = known.values, wanted.values
    if known.sign[0] == wanted.sign[0] and known.sign != "<>" and len(limits) == 1:
        return _HOLDS[wanted.sign](value, limits[0]) or (value == limits[0] and known.sign == wanted.sign[0])
    # x > 5 implies x <> 5.
    return wanted.sign == "<>" and known.sign != "<>" and not _HOLDS[known.sign](limits[0], value)


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
        return _Bound(form(condition.this), "=", known, holes_in(condition)) if whole else None
    if (sign := _OPERATORS.get(type(condition))) is None:
        return None
    left, right = condition.this, condition.expression
    if (value := _value(right)) is None:
        left, value, sign = right, _value(left), _FLIPPED.get(sign, sign)
    return None if value is None else _Bound(form(left), sign, (value,), holes_in(condition))


def _value(node: exp.Expr) -> _Value | None:
    """A number, or a text: of a date in an order that is that of the dates."""
    if isinstance(node, exp.Literal) and _NUMBER.fullmatch(text := literal_text(node)):
        return Decimal(text)
    moment = moment_of(node)
    if moment is None:
        return None
    if isinstance(node, exp.Literal):
        return moment
    return moment if _ISO.fullmatch(moment) else None
