"""Tests which queries the skimmer understands, and that it gives up if a keyword may be a name."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sql.lexed import Lexed
from sql.reading.skim import skim


def reads(text: str) -> list[tuple[str, ...]] | None:
    found = skim(Lexed(text))
    return None if found is None else [reference.parts for reference in found.reads]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT * FROM a WHERE 1 = 1 AND 0 = 0 LIMIT 10", ["a"]),
        ("SELECT * FROM a /* /* */ */, b -- c\\\n, d", ["a", "b"]),
        ("SELECT x >>> 2, stack(), -interval -1 day 1 hour FROM a", ["a"]),
        ("SELECT extract(DAY FROM d), trim(BOTH FROM e) FROM a WHERE x IS NOT DISTINCT FROM y", ["a"]),
        ("SELECT * FROM a LATERAL VIEW explode(x) t AS y, z WHERE y = 1", ["a"]),
        ("SELECT * FROM VALUES (1), (2) AS t(x), a", ["a"]),
        ("SELECT * FROM f(1) x, ((a JOIN b USING (i)) CROSS JOIN c), d", ["a", "b", "c", "d"]),
        ("SELECT * FROM a JOIN b ON left(a.x, 2) = b.y LEFT JOIN c ON true, d", ["a", "b", "c", "d"]),
        ("TABLE a |> JOIN b ON x = y |> EXTEND 1 AS i, 2 AS j |> UNION ALL TABLE c", ["a", "b", "c"]),
        ("WITH RECURSIVE t(n) MAX RECURSION LEVEL 9 AS (SELECT 1 UNION ALL SELECT n FROM t) FROM t SELECT n", []),
        ("WITH RECURSIVE t AS (SELECT 1), u AS (WITH v AS (SELECT * FROM v) SELECT * FROM v) SELECT * FROM u", ["v"]),
        ("(WITH t AS (SELECT 1) SELECT * FROM t) UNION SELECT * FROM t", ["t"]),
        (
            "SELECT f(), `f`(), g.f(), count() OVER (), *, a.*, struct(*), ?, x[0], -1 FROM (SELECT DISTINCT * FROM a)",
            ["a"],
        ),
    ],
)
def test_relations_of_a_plain_query_are_found(text: str, expected: list[str]) -> None:
    assert reads(text) == [(name,) for name in expected]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM VALUES",
        "SELECT * FROM VALUES (), (mv)",
        "SELECT * FROM VALUES (1), (mv x) AS t",
        "SELECT * FROM a WINDOW (x, y), mv t",
        "SELECT * FROM a SELECT (x, y), mv t",
        "SELECT * FROM a, LATERAL HAVING (SELECT 1)",
        "SELECT x HAVING > false DISTINCT FROM mv",
        "SELECT as FROM mv",
        "SELECT distinct FROM mv",
        "SELECT * FROM STREAM mv",
        "SELECT * FROM db.IDENTIFIER('mv')",
        'SELECT * FROM "mv"',
        'SELECT "db".f(1)',
        'SELECT "a\\" FROM mv WHERE x = "',
        "SELECT * FROM a WHERE WHERE",
        "SELECT * FROM a WHERE 1 = 0",
        "SELECT * FROM a WHERE x AND (0 = 1)",
        "SELECT * FROM a LIMIT 0",
        "SELECT * FROM s INSERT INTO mv SELECT 1",
        "SELECT * FROM a; SELECT * FROM mv",
        "SELECT * FROM f(TABLE(mv))",
        "SELECT * FROM mv TABLESAMPLE (1 ROWS) x",
        "SELECT a, from(b)",
        "SELECT a + from(b)",
        "SELECT a * from(b)",
        "SELECT a, union((SELECT 1))",
        "SELECT NOT from(b)",
        "SELECT a LIKE from(b)",
        "SELECT ALL from(b)",
        "SELECT CASE WHEN a THEN from(b) END",
        "VALUES (f(from(((b)))))",
        "FROM LATERAL(VALUES(), (date))",
        "VALUES (1), ()",
    ],
)
def test_an_ambiguous_query_is_given_up(text: str) -> None:
    """Most of these were found by random mutation of Spark's tests and comparison with Spark's parser."""
    assert reads(text) is None


WORDS = (
    "SELECT FROM JOIN TABLE WITH AS ( ) , . ; VALUES LATERAL VIEW WINDOW UNION ON USING BY a b 'x' \" ` |> 1. -- /* */"
)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from([*WORDS.split(), "\n"]), max_size=25).map(" ".join))
def test_any_text_is_skimmed_or_given_up(text: str) -> None:
    found = skim(Lexed(text))
    for reference in () if found is None else found.reads:
        assert 0 <= reference.start < reference.end <= len(text)
