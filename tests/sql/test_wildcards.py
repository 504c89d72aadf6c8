"""Tests the patterns of SHOW: what they match, and that many wildcards and long texts take little time."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.spark import protocol
from sql import wildcards
from sql.definition.determinism import nondeterministic
from sql.grammar.cursor import SyntaxProblem
from sql.grammar.parser import parse
from sql.lexed import Lexed


def _by_expression(pattern: str, name: str) -> bool:
    alternatives = (".*".join(map(re.escape, part.strip().split("*"))) for part in pattern.split("|"))
    return re.fullmatch("|".join(alternatives), name, re.IGNORECASE | re.DOTALL) is not None


@given(st.text("ab*|", max_size=12), st.text("ab", max_size=12))
def test_a_pattern_matches_like_the_regular_expression(pattern: str, name: str) -> None:
    assert wildcards.matcher(pattern)(name) is _by_expression(pattern, name)


@pytest.mark.parametrize(
    ("pattern", "name", "matches"),
    [
        ("daily*|monthly*", "Monthly_totals", True),
        (" DAILY ", "daily", True),
        ("a*a", "a", False),
        ("*ab*ab", "ab", False),
        ("**", "", True),
        ("a.c", "abc", False),
        ("%x%", "axb", True),
    ],
)
def test_a_pattern_has_wildcards_and_alternatives(pattern: str, name: str, matches: bool) -> None:
    assert wildcards.matcher(pattern, "*%")(name) is matches


def test_no_pattern_matches_everything() -> None:
    assert wildcards.matcher(None)("anything")


def test_many_wildcards_take_little_time() -> None:
    # A regular expression would practically never finish.
    assert not wildcards.matcher("*" * 500 + "x")("a" * 100_000)
    assert not wildcards.matcher("*a" * 400 + "*x")("a" * 10_000)


@pytest.mark.parametrize("pattern", ["a" * 1_001, "|".join(f"{n}*" for n in range(51))])
def test_a_too_long_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(SyntaxProblem, match="at most"):
        parse(Lexed(f"SHOW MATERIALIZED VIEWS LIKE '{pattern}'"))


def test_a_plan_with_many_line_ends_takes_little_time() -> None:
    plan = "== Analyzed Logical Plan ==\n" + "\n" * 200_000 + "x\n== Optimized Logical Plan ==\n"
    assert nondeterministic("SELECT 1", plan) == frozenset()


@pytest.mark.parametrize("repeated", ["[AB] ", "\n", "a.B: ", "[AB] a.B: ", "Error running query: "])
def test_a_long_error_of_spark_takes_little_time(repeated: str) -> None:
    error = protocol.failure(repeated * 1_000_000)
    assert len(str(error)) < 3_000
