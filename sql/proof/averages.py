"""Averages in plans: sums divided by the counts of the same values, as `sql.query.averaging` writes them."""

from __future__ import annotations

from sql.proof.terms import Term, column
from sql.query.aggregates import COUNT_DIGITS, Digits, digits_in_average, digits_of, digits_of_sum, sum_is_certain
from sql.query.averaging import SPARE_DIGITS, SUMMED_EXACTLY

_PLAIN = ("child=#",)


def plain(function: Term) -> Term:
    """An average without its mode, which matters only if the sum overflows."""
    operand = function.args[0]
    is_exact = operand.type in SUMMED_EXACTLY or _is_summed_exactly(digits_of(operand.type))
    if "TRY" in "".join(function.detail) or not is_exact:
        return function
    return Term(function.op, (operand,), _PLAIN, function.type)


def of_integers(quotient: Term) -> Term:
    """`CAST(sum(x) AS DOUBLE) / CAST(count(x) AS DOUBLE)` is `avg(x)`; any other quotient stays."""
    parts = [each.args[0] for each in quotient.args if each.op == "Cast" and each.type == quotient.type == "double"]
    if len(parts) < 2 or any(each.type != "bigint" for each in parts):
        return quotient
    return _average(parts[0], parts[1], SUMMED_EXACTLY, quotient.type) or quotient


def of_decimals(cast: Term) -> Term:
    """`CAST(sum(x) / CAST(count(x) AS DECIMAL(20,0)) AS …)` is `avg(x)` if the cast is to its type."""
    (quotient,) = cast.args
    result = digits_of(cast.type)
    operand = None if result is None else digits_in_average(result)
    if result is None or operand is None or quotient.op != "Divide" or quotient.args[1].op != "Cast":
        return cast
    summed, counted = quotient.args
    divided = digits_of(quotient.type)
    if divided is None or divided.scale < result.scale + SPARE_DIGITS or digits_of(counted.type) != COUNT_DIGITS:
        return cast
    if not _is_summed_exactly(operand) or digits_of(summed.type) != digits_of_sum(operand):
        return cast
    return _average(summed, counted.args[0], frozenset({str(operand).lower()}), cast.type) or cast


def _average(summed: Term, counted: Term, types: frozenset[str], result: str) -> Term | None:
    """The average of values of these types, if both are of the same values, groups and filters."""
    source = None
    if counted.op == "null for none":
        counted = counted.args[0]
    if summed.op == counted.op == "column" and summed.args[0] == counted.args[0]:
        source, summed, counted = summed.args[0], summed.args[1], counted.args[1]
    if not summed.op == counted.op == "AggregateExpression" or summed.detail != counted.detail:
        return None
    (total, *tests), (count, *others) = summed.args, counted.args
    if total.op != "Sum" or count.op != "Count" or total.args != count.args or tests != others:
        return None
    if total.args[0].type not in types or "TRY" in "".join(total.detail):
        return None
    call = Term(summed.op, (Term("Average", total.args, _PLAIN, result), *tests), summed.detail, result)
    return call if source is None else column(source, call)


def _is_summed_exactly(operand: Digits | None) -> bool:
    """Whether they are decimals of which fewer than 10^10 do not overflow."""
    return operand is not None and sum_is_certain(operand)
