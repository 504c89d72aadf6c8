"""Tests of the numbers in which the answers of tests are compared."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from math import nan

from exact_floats import ExactFloat, exact


def test_numbers_that_are_shown_alike_are_equal() -> None:
    assert exact((nan, 0.5, None, "x")) == exact((nan, 0.5, None, "x")) == (ExactFloat(nan), 0.5, None, "x")
    assert exact((1.0, -2.0)) == (1, -2)
    assert ExactFloat(0.5) == Decimal("0.5")
    assert Counter([exact((nan,)), exact((nan,)), exact((0.0,))]) == Counter([exact((0.0,)), *2 * [exact((nan,))]])


def test_the_two_zeros_are_different_rows() -> None:
    for other in (0.0, 0, ExactFloat(0.0)):
        assert exact((-0.0,)) != (other,)
        assert (other,) != exact((-0.0,))
    assert {exact((-0.0,))} != {exact((0.0,))}
    assert exact((-0.0,)) == (-0.0,)


def test_they_are_ordered() -> None:
    shown = [repr(each) for each in sorted(map(ExactFloat, (nan, 1.5, 0.0, -0.0, -1.0, 0.0)))]
    assert shown == ["-1.0", "-0.0", "0.0", "0.0", "1.5", "nan"]
