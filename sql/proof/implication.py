"""Conditions that follow from a narrower range of the same value."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from decimal import Decimal, InvalidOperation
from typing import TypeAlias

from sql.proof.terms import Term

Value: TypeAlias = int | Decimal | bytes
_READERS: dict[str, Callable[[str], Value]] = {
    "Byte": int,
    "Short": int,
    "Integer": int,
    "Long": int,
    "Decimal": Decimal,
    # Spark compares strings without a collation by their bytes.
    "UTF8String": lambda text: text.encode("utf-8"),
}
"""Literals that are ordered as in Spark, by their Java classes. FLOAT and DOUBLE are not, because of NaN and -0.0."""


def implied(weak: Term, strong: Term) -> bool:
    """Whether `weak`, a comparison with a literal, is true whenever `strong` is."""
    for compared, holds in _comparisons(weak):
        for other, low, high in _ranges(strong):
            if other == compared and holds(low, high):
                return True
    return False


def _comparisons(term: Term) -> Iterator[tuple[Term, Callable[[Value | None, Value | None], bool]]]:
    """The value that a condition compares, and whether all of a range (both ends included) meets it."""
    if term.op not in {"LessThan", "LessThanOrEqual"}:
        return
    left, right = term.args
    strict = term.op == "LessThan"
    if (bound := _value(right)) is not None and left.type == right.type:
        limit = bound

        def below(low: Value | None, high: Value | None) -> bool:
            return high is not None and _less(high, limit, strict)

        yield left, below
    if (bound := _value(left)) is not None and left.type == right.type:
        limit = bound

        def above(low: Value | None, high: Value | None) -> bool:
            return low is not None and _less(limit, low, strict)

        yield right, above


def _ranges(term: Term) -> Iterator[tuple[Term, Value | None, Value | None]]:
    """The value of a condition, with the least and the largest one that meet it, as far as these are known."""
    left, *others = term.args or (term,)
    if term.op in {"LessThan", "LessThanOrEqual"}:
        (right,) = others
        # Without the end itself the range is narrower, so what all of this range meets is met.
        yield left, None, _value(right)
        yield right, _value(left), None
    elif term.op == "EqualTo":
        (right,) = others
        yield left, _value(right), _value(right)
        yield right, _value(left), _value(left)
    elif term.op == "In":
        values = [_value(each) for each in others]
        known = [each for each in values if each is not None]
        if len(known) == len(values):
            yield left, min(known), max(known)


def _less(one: Value, other: Value, strict: bool) -> bool:
    if type(one) is not type(other):
        return False
    return one < other if strict else one <= other  # type: ignore[operator]


def _value(term: Term) -> Value | None:
    if term.op != "Literal":
        return None
    kind, _, text = term.detail[0].removeprefix("value=").partition(" ")
    if kind not in _READERS:
        return None
    try:
        return _READERS[kind](ast.literal_eval(text))
    except (ValueError, InvalidOperation):
        return None
