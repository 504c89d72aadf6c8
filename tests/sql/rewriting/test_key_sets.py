"""Tests of several sets of keys: which they are, and which numbers their groups have."""

from __future__ import annotations

import pytest
from sqlglot import exp

from sql.reading.parsing import Doubt
from sql.rewriting.dialect import parsed
from sql.rewriting.forms import form
from sql.rewriting.key_sets import key_sets, number_of, told_apart
from sql.rewriting.shape import shape_of


def group(text: str) -> exp.Group:
    found = parsed(shape_of(f"SELECT 1 FROM t GROUP BY {text}")).args["group"]
    assert isinstance(found, exp.Group)
    return found


def call(text: str) -> exp.Expr:
    found = parsed(shape_of(f"SELECT {text} FROM t")).expressions[0]
    assert isinstance(found, exp.Expr)
    return found


A, B, C = (form(call(each)) for each in "abc")


@pytest.mark.parametrize(
    ("text", "sets"),
    [
        ("ROLLUP (a, b)", [set(), {A}, {A, B}]),
        ("a, b WITH ROLLUP", [set(), {A}, {A, B}]),
        ("CUBE (a, b)", [set(), {A}, {B}, {A, B}]),
        ("a, b WITH CUBE", [set(), {A}, {B}, {A, B}]),
        ("GROUPING SETS ((a, b), (b), b, ())", [{A, B}, {B}, {B}, set()]),
        ("c, ROLLUP (a)", [{C}, {A, C}]),
        ("ROLLUP ((a, b), c)", [set(), {A, B}, {A, B, C}]),
    ],
)
def test_sets_of_keys(text: str, sets: list[set[str]]) -> None:
    assert sorted(map(sorted, key_sets(group(text)))) == sorted(map(sorted, sets))


def test_sets_within_sets_are_not_read() -> None:
    with pytest.raises(Doubt, match="sets of keys within others"):
        key_sets(group("GROUPING SETS (ROLLUP (a, b), (c))"))


def test_too_many_sets_are_not_read() -> None:
    with pytest.raises(Doubt, match="too many"):
        key_sets(group("CUBE (a, b, c, d, e, f, g)"))


@pytest.mark.parametrize(
    ("text", "used", "number"),
    [
        ("grouping_id(a, b, c)", {A}, 3),
        ("grouping_id(a, b, c)", {C}, 6),
        ("grouping_id()", {B}, 5),
        ("grouping_id(b, a)", {A}, 2),
        ("grouping(a)", {A}, 0),
        ("grouping(a)", {B}, 1),
        ("count(*)", {A}, None),
    ],
)
def test_numbers_of_sets(text: str, used: set[str], number: int | None) -> None:
    assert number_of(call(text), [A, B, C], frozenset(used)) == number


def test_sets_with_the_same_number_are_not_told_apart() -> None:
    assert list(told_apart([(0,), (1,), (1,), (3,)])) == [0, 3]
