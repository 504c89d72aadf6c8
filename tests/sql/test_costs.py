"""Tests that no text takes any reader of texts more than linear time: `tests/costs.py`."""

from __future__ import annotations

from random import Random

import pytest
from costs import CORPUS, READERS, Pattern, Reader, lines, phrases_of, seconds, worst

from sql import wildcards

SIZE = 300
EVALUATIONS = 12
TIMES = 4
GROWTH_MAX = 1.6 * TIMES
"""How many times as many lines a text takes that is TIMES as long. Of quadratic ones, it is 16 times."""
FEW_LINES = 2_000
"""What one long name, or the first use of a table, may add."""
CHARACTERS = 40_000
SECONDS_MAX = 1.5
"""Of a search in C, for CHARACTERS. Linear ones take a few milliseconds, quadratic ones several seconds."""


def growth(reader: Reader, pattern: Pattern, size: int = SIZE) -> float:
    short, long = (lines(reader, pattern.text(size * times)) for times in (1, TIMES))
    return long / (short + FEW_LINES / GROWTH_MAX)


@pytest.mark.parametrize("name", READERS)
def test_the_costliest_text_that_is_found_takes_linear_time(name: str) -> None:
    reader = READERS[name]
    found = worst(lambda text: lines(reader, text), Random(name), EVALUATIONS, SIZE, phrases_of(CORPUS))
    assert growth(reader, found.pattern) < GROWTH_MAX, found


# --- what was found ------------------------------------------------------------------------------------------


def of(text: str, closing: str = "", gap: str = " ", *, numbered: bool = False) -> Pattern:
    """The pattern `head … unit … middle … end`, written with bars between."""
    head, unit, middle, end = (tuple(part.split()) for part in text.split("|"))
    return Pattern(head, unit, middle, tuple(closing.split()), end, gap, numbered)


FOUND = {
    "joins in calls": ("sqlglot", of("SELECT a FROM s.mv y JOIN |TRIM ( y JOIN |y|", ")")),
    "joins in calls, of a query": ("matcher", of("SELECT a FROM t y JOIN |TRIM ( y JOIN |y|", ")")),
    "joins in calls, in a list": (
        "understood",
        of("INSERT INTO s.t SELECT a , ( SELECT b FROM u|JOIN f ( y |y|)", ")"),
    ),
    "joins": ("sqlglot", of("SELECT a FROM s.mv|JOIN u||")),
    "types": ("sqlglot", of("SELECT CAST ( a AS|ARRAY <|INT|) FROM s.mv", ">")),
    "types like functions": ("sqlglot", of("DELETE FROM s.t WHERE a =|DECIMAL (|1|", ")")),
    "WHERE with brackets": ("sqlglot", of("INSERT INTO s.t SELECT a FROM s.mv|WHERE ( a||")),
    "VALUES in brackets": ("sqlglot", of("SELECT a FROM s.mv WHERE a IN|( VALUES ( 1 ) ,||")),
    "TABLE behind brackets": ("sqlglot", of("INSERT INTO s.t|( SELECT 1 ) TABLE t||")),
    "unions": ("sqlglot", of("INSERT INTO s.t SELECT a FROM s.mv|EXCEPT SELECT a FROM t||")),
    "CTEs": (
        "tables",
        of("WITH a AS ( SELECT a FROM t )|, a AS ( SELECT x.a FROM a x JOIN a y ON 1 )||SELECT a FROM a"),
    ),
    "statements": ("understood", of("BEGIN|x ;||END")),
    "conditions": ("matcher", of("SELECT a , sum ( c ) FROM t WHERE a > 1|AND b > a||GROUP BY a", numbered=True)),
}


@pytest.mark.parametrize("case", FOUND)
def test_a_text_that_took_too_long(case: str) -> None:
    name, pattern = FOUND[case]
    assert growth(READERS[name], pattern, 500) < GROWTH_MAX


@pytest.mark.parametrize("unit", ["\\'", '\\"', "/*+,", "``a", "'", "`", "/*", "x'", "a'", "--", "$$", "{{", "\\"])
@pytest.mark.parametrize("name", ["shape", "passwords", "indentation", "repeatable", "bases"])
def test_signs_without_an_end(name: str, unit: str) -> None:
    """Their ends are searched in C, of which no line is counted."""
    assert seconds(READERS[name], "SELECT a FROM t WHERE b = " + unit * (CHARACTERS // len(unit))) < SECONDS_MAX


# --- the search ----------------------------------------------------------------------------------------------


def planted(text: str) -> int:
    """Quadratic, in one word only. (Lines of the project count, not those of the test.)"""
    return sum(wildcards.problem("a") is None for each in text.split() if each == "QUALIFY" for _ in text.split())


def test_the_search_finds_a_reader_that_is_quadratic_in_one_word() -> None:
    found = worst(lambda text: lines(planted, text), Random(1), 3_000, SIZE, ())
    assert growth(planted, found.pattern) > GROWTH_MAX
