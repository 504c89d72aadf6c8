"""The types of sums and averages, and which aggregates merge."""

from __future__ import annotations

import pytest

from sql.definition.functions import FUNCTIONS
from sql.query.aggregates import (
    AGGREGATES,
    MERGED,
    SYNONYMS,
    Digits,
    digits_in_average,
    digits_in_sum,
    digits_of,
    digits_of_average,
    digits_of_sum,
    sum_is_certain,
)


@pytest.mark.parametrize(
    ("averaged", "total", "average"),
    [
        ("decimal(12,2)", "DECIMAL(22,2)", "DECIMAL(16,6)"),
        ("DECIMAL(28, 2)", "DECIMAL(38,2)", "DECIMAL(32,6)"),
        ("decimal(30,2)", "DECIMAL(38,2)", "DECIMAL(34,6)"),
        ("decimal(38,36)", "DECIMAL(38,36)", "DECIMAL(38,38)"),
    ],
)
def test_types_of_sums_and_averages(averaged: str, total: str, average: str) -> None:
    digits = digits_of(averaged)
    assert digits is not None
    assert (str(digits_of_sum(digits)), str(digits_of_average(digits))) == (total, average)
    assert sum_is_certain(digits) == (digits.precision <= 28)
    if sum_is_certain(digits):
        assert digits_in_sum(digits_of_sum(digits)) == digits_in_average(digits_of_average(digits)) == digits


def test_what_is_no_decimal() -> None:
    assert digits_of("double") is None
    assert digits_of("array<decimal(12,2)>") is None
    assert digits_in_average(Digits(10, 3)) is None


def test_aggregates_are_functions_of_sparks() -> None:
    assert AGGREGATES <= FUNCTIONS
    assert {*SYNONYMS, *SYNONYMS.values()} <= MERGED
