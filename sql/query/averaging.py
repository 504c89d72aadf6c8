"""Averages as sums divided by the counts of the same values. Refreshes by rows and rewriting write such quotients, and
the proof finds them in Spark's plans."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from sql.query.aggregates import COUNT_DIGITS, Digits, bounded, digits_of_average, digits_of_sum

Written = TypeVar("Written")
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


def spare_digits(averaged: Digits) -> int:
    """How many digits the quotient of decimals has behind those of the average. It is rounded to them first, and then
    to the average: with fewer than 10^n values as if it was rounded once, because the quotient's distance from the
    middle between two averages is 0, or at least 1 / (2 count 10^scale)."""
    total = digits_of_sum(averaged)
    scale = total.scale + COUNT_DIGITS.precision + 1
    return bounded(total.precision - total.scale + scale, scale).scale - digits_of_average(averaged).scale
