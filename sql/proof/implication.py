"""Conditions that follow from a narrower range of the same value, or from one of several such ranges."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from decimal import Decimal, InvalidOperation

from sql.proof.terms import Term, step
from sql.query.comparisons import FLIPPED, Comparison, Constant, implies

_READERS: dict[str, Callable[[str], Constant]] = {
    "Byte": int,
    "Short": int,
    "Integer": int,
    "Long": int,
    "Decimal": Decimal,
    # Spark compares strings without a collation by their bytes.
    "UTF8String": lambda text: text.encode("utf-8"),
}
"""Literals that are ordered as in Spark, by their Java classes. FLOAT and DOUBLE are not, because of NaN and -0.0."""
_SIGNS = {"LessThan": "<", "LessThanOrEqual": "<=", "EqualTo": "="}


def implied(weak: Term, strong: Term) -> bool:
    """Whether `weak`, a range of a value or a combination of such conditions, is true whenever `strong` is."""
    step()
    if weak == strong:
        return True
    if weak.op == "And":
        return all(implied(each, strong) for each in weak.args)
    if strong.op == "Or":
        return all(implied(weak, each) for each in strong.args)
    if strong.op == "And" and any(implied(weak, each) for each in strong.args):
        return True
    if weak.op == "Or":
        return any(implied(each, strong) for each in weak.args)
    return any(implies(known, wanted) for wanted in _comparisons(weak) for known in _comparisons(strong))


def _comparisons(term: Term) -> Iterator[Comparison]:
    """A condition as a comparison of one of its operands with constants."""
    if term.op in {*_SIGNS, "In"} and len({each.type for each in term.args}) > 1:
        return
    if term.op == "Not" and term.args[0].op == "EqualTo":
        for each in _comparisons(term.args[0]):
            yield Comparison(each.subject, "<>", each.values)
    elif (sign := _SIGNS.get(term.op)) is not None:
        left, right = term.args
        if (bound := _value(right)) is not None:
            yield Comparison(left, sign, (bound,))
        if (bound := _value(left)) is not None:
            yield Comparison(right, FLIPPED.get(sign, sign), (bound,))
    elif term.op == "In":
        values = [_value(each) for each in term.args[1:]]
        known = tuple(each for each in values if each is not None)
        if len(known) == len(values):
            yield Comparison(term.args[0], "=", known)


def _value(term: Term) -> Constant | None:
    if term.op != "Literal":
        return None
    kind, _, text = term.detail[0].removeprefix("value=").partition(" ")
    if kind not in _READERS:
        return None
    try:
        return _READERS[kind](ast.literal_eval(text))
    except (ValueError, InvalidOperation):
        return None
