"""CASE with zeros, whose sums add nothing where it gives none.

Tests: `test_random_proofs`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from decimal import Decimal, InvalidOperation

from sql.proof.terms import Term, literal, null
from sql.query.aggregates import digits_of, digits_of_sum, sum_is_certain

CASES = frozenset({"If", "CaseWhen"})
INTEGERS = {"tinyint": "Byte", "smallint": "Short", "int": "Integer", "bigint": "Long"}
"""The integer types, and the Java classes of their values."""
_NUMBERS = frozenset(INTEGERS.values()) | {"Decimal"}


def results_at(case: Term) -> tuple[int, ...]:
    """The places of what it gives among its operands, which alternate with conditions; the last one is that of ELSE."""
    count = len(case.args)
    return (*range(1, count, 2), *((count - 1,) if count % 2 else ()))


def zero(type_: str) -> Term:
    """0 of an integer type, or of a decimal one in whatever way it was written."""
    return literal(INTEGERS.get(type_, "Decimal"), "0", type_)


def is_zero(term: Term) -> bool:
    if term.op != "Literal" or not term.detail[0].startswith("value="):
        return False
    kind, _, text = term.detail[0].removeprefix("value=").partition(" ")
    try:
        return kind in _NUMBERS and Decimal(ast.literal_eval(text)) == 0
    except (ValueError, SyntaxError, InvalidOperation):
        return False


def results_of(case: Term) -> Iterator[Term]:
    """What a CASE gives, through CASE within CASE."""
    if case.op not in CASES:
        yield case
    else:
        for place in results_at(case):
            yield from results_of(case.args[place])


def with_results(case: Term, change: Callable[[Term], Term], test: Callable[[Term], Term], type_: str) -> Term:
    """The CASE, of this type, with other results, and with other conditions."""
    if case.op not in CASES:
        return change(case)
    at = results_at(case)
    args = (with_results(each, change, test, type_) if n in at else test(each) for n, each in enumerate(case.args))
    return Term(case.op, tuple(args), case.detail, type_)


def measured(case: Term) -> frozenset[Term]:
    """Its results other than zeros and NULL."""
    return frozenset(each for each in results_of(case) if not is_zero(each) and each != null(each.type))


def exactly(call: Term) -> Term:
    """A sum of a CASE of decimals whose results have more digits only because of the type of its zeros: the same sum
    of fewer digits, widened. Of fewer than 10^10 rows, neither overflows."""
    function = call.args[0]
    case = function.args[0]
    types = {narrowed(each).type for each in measured(case)}
    digits = digits_of(min(types, default=""))
    if len(types) != 1 or digits is None or "TRY" in "".join(function.detail):
        return call
    (type_,) = types

    def result(each: Term) -> Term:
        return zero(type_) if is_zero(each) else null(type_) if each == null(each.type) else narrowed(each)

    narrow = Term(function.op, (with_results(case, result, lambda test: test, type_),), function.detail, function.type)
    if type_ == case.type:
        return Term(call.op, (narrow, *call.args[1:]), call.detail, call.type)
    if not sum_is_certain(digits):
        return call
    total = str(digits_of_sum(digits)).lower()
    narrow = Term(narrow.op, narrow.args, narrow.detail, total)
    return Term("widened", (Term(call.op, (narrow, *call.args[1:]), call.detail, total),), type=call.type)


def narrowed(term: Term) -> Term:
    """A decimal without a cast to more digits, which changes no value."""
    return term.args[0] if term.op == "Cast" and is_widened(term.args[0].type, term.type) else term


def is_widened(narrow: str, wide: str) -> bool:
    """Whether a decimal type has all values of another one of the same scale."""
    below, result = digits_of(narrow), digits_of(wide)
    return below is not None and result is not None and below.scale == result.scale and below <= result
