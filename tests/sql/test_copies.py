"""Tests of the lemma of copies: which copies of expanded rows a condition leaves."""

from __future__ import annotations

import pytest

from sql.proof.copies import copies_of, of_copy
from sql.proof.identities import compose, core
from sql.proof.terms import Term, column, literal, null

TABLE = Term("table", type="sold")
SHOP = column(TABLE, Term("field", detail=("shop",), type="int"))
SOURCE = Term("expanded", (core((TABLE,), ()),), ("3",))
"""GROUPING SETS ((shop, kind), (shop), ()): with the number of the set."""
NUMBER = column(SOURCE, Term("branches", tuple(literal("Long", each, "bigint") for each in "013"), type="bigint"))
KEY = column(SOURCE, Term("branches", (SHOP, SHOP, null("int")), type="int"))


def number(value: int, type_: str = "bigint") -> Term:
    return literal({"bigint": "Long", "int": "Integer"}[type_], str(value), type_)


def is_(op: str, *args: Term) -> Term:
    return compose(op, args, (), "boolean")


GROUPING_OF_KIND = compose(
    "Cast",
    (
        compose(
            "BitwiseAnd", (compose("ShiftRight", (NUMBER, number(0, "int")), (), "bigint"), number(1)), (), "bigint"
        ),
    ),
    (),
    "tinyint",
)


@pytest.mark.parametrize(
    ("condition", "left"),
    [
        (is_("EqualTo", NUMBER, number(1)), [1]),
        (is_("EqualTo", NUMBER, number(2)), []),
        (is_("LessThan", NUMBER, number(2)), [0, 1]),
        (is_("GreaterThan", NUMBER, number(0)), [1, 2]),
        (is_("In", NUMBER, number(0), number(3)), [0, 2]),
        (is_("Not", is_("EqualTo", NUMBER, number(1))), [0, 2]),
        (is_("Or", is_("EqualTo", NUMBER, number(0)), is_("EqualTo", NUMBER, number(3))), [0, 2]),
    ],
)
def test_copies_that_are_left(condition: Term, left: list[int]) -> None:
    other = is_("LessThan", SHOP, number(3, "int"))
    assert copies_of(SOURCE, {condition, other}) == (left, frozenset({other}))


def test_several_conditions_leave_what_all_leave() -> None:
    conditions = {is_("LessThan", NUMBER, number(2)), is_("GreaterThan", NUMBER, number(0))}
    assert copies_of(SOURCE, conditions) == ([1], frozenset())


@pytest.mark.parametrize(
    "condition",
    [
        # It is true of some rows of a copy.
        is_("EqualTo", KEY, number(1, "int")),
        is_("IsNull", KEY),
        is_("Or", is_("EqualTo", NUMBER, number(1)), is_("EqualTo", SHOP, number(1, "int"))),
        # It is NULL.
        is_("EqualTo", NUMBER, null("bigint")),
        # It uses no column of the source.
        is_("EqualTo", number(1), number(2)),
        is_("EqualTo", SHOP, number(1, "int")),
        # These operations are not computed.
        is_("Cast", NUMBER),
        is_("EqualTo", compose("Add", (NUMBER, number(1)), (), "bigint"), number(2)),
        # Spark's value of it is out of range.
        is_(
            "EqualTo",
            compose("Cast", (compose("ShiftRight", (number(2**40), NUMBER), (), "bigint"),), (), "tinyint"),
            KEY,
        ),
    ],
)
def test_other_conditions_leave_all_copies(condition: Term) -> None:
    assert copies_of(SOURCE, {condition}) is None


def test_a_number_of_one_key() -> None:
    condition = compose("EqualTo", (GROUPING_OF_KIND, literal("Byte", "0", "tinyint")), (), "boolean")
    assert copies_of(SOURCE, {condition}) == ([0], frozenset())


def test_a_copy_has_its_own_values() -> None:
    assert of_copy(KEY, SOURCE, 1) == SHOP
    assert of_copy(KEY, SOURCE, 2) == null("int")
    assert of_copy(SHOP, SOURCE, 2) == SHOP
