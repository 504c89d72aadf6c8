"""Whether one comparison implies another, compared with all values of a small range."""

from __future__ import annotations

import operator
from collections.abc import Callable
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sql.query.comparisons import FLIPPED, Comparison, implies

HOLDS: dict[str, Callable[[int, int], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "<>": operator.ne,
}
VALUES = range(-1, 8)
_ONE = st.builds(Comparison, st.just("x"), st.sampled_from([*HOLDS]), st.tuples(st.integers(0, 6)))
_SEVERAL = st.builds(
    Comparison, st.just("x"), st.just("="), st.lists(st.integers(0, 6), min_size=1, max_size=3).map(tuple)
)
COMPARISONS = st.one_of(_ONE, _SEVERAL)


def holds(comparison: Comparison, value: int) -> bool:
    if comparison.sign == "=":
        return value in comparison.values
    (limit,) = comparison.values
    assert isinstance(limit, int)
    return HOLDS[comparison.sign](value, limit)


@given(COMPARISONS, COMPARISONS)
def test_what_is_implied_holds(strong: Comparison, weak: Comparison) -> None:
    if implies(strong, weak):
        assert all(holds(weak, value) for value in VALUES if holds(strong, value))


@pytest.mark.parametrize(
    ("strong", "sign", "limit", "implied"),
    [
        (("<", 5), "<", 5, True),
        (("<", 5), "<", 4, False),
        (("<=", 5), "<", 5, False),
        (("<", 5), "<=", 5, True),
        ((">", 5), ">=", 5, True),
        (("<", 5), "<>", 5, True),
        (("<", 5), "<>", 3, False),
        (("=", 5), "<>", 3, True),
        (("=", 5), ">", 3, True),
        (("<>", 5), "<", 5, False),
        (("<>", 5), "<>", 5, True),
    ],
)
def test_comparisons(strong: tuple[str, int], sign: str, limit: int, implied: bool) -> None:
    known, value = strong
    assert implies(Comparison("x", known, (value,)), Comparison("x", sign, (limit,))) == implied


def test_of_other_values_nothing_follows() -> None:
    assert not implies(Comparison("x", "<", (1,)), Comparison("y", "<", (2,)))
    assert not implies(Comparison("x", "<", (1,)), Comparison("x", "<", (Decimal(2),)))


def test_sides_can_be_exchanged() -> None:
    assert all(FLIPPED[FLIPPED[sign]] == sign for sign in FLIPPED)
