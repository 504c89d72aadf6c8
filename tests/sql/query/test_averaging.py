"""How averages are written as quotients, and how exactly."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal, localcontext

import pytest

from sql.query.aggregates import Digits, bounded, digits_of_average
from sql.query.averaging import EXACT_SCALE_MAX, SPARE_DIGITS, exact_quotient, quotient, spare_digits


def _text(averaged: Digits | None) -> str:
    return quotient(averaged, "s", "n", "CAST({} AS {})".format, "{} / {}".format)


def test_an_average_as_a_quotient() -> None:
    assert _text(None) == "CAST(s AS DOUBLE) / CAST(n AS DOUBLE)"
    assert _text(Digits(12, 2)) == "CAST(s / CAST(n AS DECIMAL(20,0)) AS DECIMAL(16,6))"


def test_an_average_as_a_whole_part_and_a_rest() -> None:
    """Spark computes both exactly, or with at least SPARE_DIGITS: a decimal of 38 digits less the 12 of the rest."""
    whole, rest = "CAST((s - (s % n)) / n AS DECIMAL(16,0))", "CAST(CAST((s % n) AS DECIMAL(14,2)) / n AS DECIMAL(7,6))"
    assert exact_quotient(Digits(18, 2), "s", "n") == f"CAST({whole} + {rest} AS DECIMAL(22,6))"
    for scale in range(EXACT_SCALE_MAX + 1):
        divided = bounded(12 + scale + 21, scale + 21)
        assert divided.scale - digits_of_average(Digits(18, scale)).scale >= SPARE_DIGITS


@pytest.mark.parametrize(("precision", "spare"), [(7, 17), (8, 16), (15, 9), (18, 6), (24, 0), (28, 0), (38, 0)])
def test_digits_behind_those_of_an_average(precision: int, spare: int) -> None:
    assert spare_digits(Digits(precision, 2)) == spare


@pytest.mark.parametrize("averaged", [Digits(15, 2), Digits(18, 2), Digits(18, 9)])
def test_fewer_than_so_many_values_are_averaged_correctly(averaged: Digits) -> None:
    """The worst sums: those whose average is next to the middle between two decimals of its type."""
    scale, spare = digits_of_average(averaged).scale, spare_digits(averaged)

    def differs(count: int) -> bool:
        with localcontext(prec=80):
            average = Decimal(14 * count + count - 1) / (2 * count)
            average = average.scaleb(-scale)
            once = round_to(average, scale)
            return once != round_to(round_to(average, scale + spare), scale)

    def round_to(value: Decimal, digits: int) -> Decimal:
        return value.quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)

    assert not any(differs(count) for count in (3, 1_001, 10**spare - 1))
    assert differs(10**spare + 1)
