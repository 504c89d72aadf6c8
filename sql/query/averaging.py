"""Averages as sums divided by the counts of the same values. Refreshes by rows and rewriting write such quotients, and
the proof finds them in Spark's plans."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from sql.query.aggregates import COUNT_DIGITS, Digits, bounded, digits_of_average, digits_of_sum

Written = TypeVar("Written")
SPARE_DIGITS = 9
"""A quotient with so many (`spare_digits`) is the average of fewer than 10^9 values."""
_REST_DIGITS = 12
EXACT_SCALE_MAX = 13
"""Of decimals for `exact_quotient`: the rest of a division has 22 - scale digits behind those of the average."""
SUMMED_EXACTLY = frozenset({"tinyint", "smallint", "int"})
"""Spark adds up the integers of an average as DOUBLE, which is exact as long as the sum has no more than 53 bits."""


def quotient(
    averaged: Digits | None,
    total: Written,
    count: Written,
    cast: Callable[[Written, str], Written],
    divide: Callable[[Written, Written], Written],
) -> Written:
    """The average of decimals, or of other numbers (None), whose sum and count are given. `cast` and `divide` write
    expressions. The count must not be 0."""
    if averaged is None:
        return divide(cast(total, "DOUBLE"), cast(count, "DOUBLE"))
    return cast(divide(total, cast(count, str(COUNT_DIGITS))), str(digits_of_average(averaged)))


def exact_quotient(averaged: Digits, total: str, count: str) -> str:
    """The same as SQL, of decimals whose quotient has few spare digits: the whole part, and the quotient of the rest,
    which has more of them, because the rest has no more digits than the count: at most 12."""
    result, rest = digits_of_average(averaged), f"({total} % {count})"
    whole = f"CAST(({total} - {rest}) / {count} AS {Digits(averaged.precision - averaged.scale, 0)})"
    small = f"CAST({rest} AS {Digits(_REST_DIGITS + averaged.scale, averaged.scale)})"
    return f"CAST({whole} + CAST({small} / {count} AS {Digits(result.scale + 1, result.scale)}) AS {result})"


def spare_digits(averaged: Digits) -> int:
    """How many digits the quotient of decimals has behind those of the average. It is rounded to them first, and then
    to the average: with fewer than 10^n values as if it was rounded once, because the quotient's distance from the
    middle between two averages is 0, or at least 1 / (2 count 10^scale)."""
    total = digits_of_sum(averaged)
    scale = total.scale + COUNT_DIGITS.precision + 1
    return bounded(total.precision - total.scale + scale, scale).scale - digits_of_average(averaged).scale
