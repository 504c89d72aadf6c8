"""The comparison of two queries' answers."""

from __future__ import annotations

import pytest

from sql.rewriting.comparison import determined, difference, summary


@pytest.mark.parametrize(
    ("query", "kept"),
    [
        ("SELECT a FROM t ORDER BY a LIMIT 10", "SELECT a FROM t ORDER BY a"),
        ("select a from t limit 10 offset 5;", "SELECT a FROM t"),
        ("SELECT a -- LIMIT 3\nFROM t", "SELECT a FROM t"),
        ("SELECT 'x LIMIT 3', 5 AS n FROM t", "SELECT 'x LIMIT 3' , 5 AS n FROM t"),
        ("SELECT a FROM (SELECT a FROM t LIMIT 3) LIMIT 2", None),
        ("SELECT a FROM t LIMIT (SELECT 3)", None),
        ("SELECT rank() OVER (ORDER BY a) FROM t", None),
        ("SELECT a FROM t TABLESAMPLE (5 ROWS)", None),
        ("SELECT 'a", None),
    ],
)
def test_what_has_only_one_right_answer(query: str, kept: str | None) -> None:
    assert determined(query) == kept


def test_the_summary_does_not_fetch_rows() -> None:
    text = summary("SELECT 1", ["int", "double", "map<int,int>", "array<float>"])
    assert text.startswith("SELECT count(*), bit_xor(h), sum(CAST(h AS DECIMAL(20, 0))), sum(c1 * ")
    assert "isnull(c2), isnull(c3)) AS h" in text
    assert text.endswith("FROM (SELECT 1) AS t(c0, c1, c2, c3))")


@pytest.mark.parametrize(
    ("first", "second", "differ"),
    [
        ((2, 5, "7", 1.0, 1.0), (2, 5, "7", 1.0, 1.0), None),
        ((0, None, None, None, None), (0, None, None, None, None), None),
        ((2, 5, "7", 1.0, 1.0), (3, 5, "7", 1.0, 1.0), "2 rows and 3 rows"),
        ((2, 5, "7", 1.0, 1.0), (2, 6, "7", 1.0, 1.0), "other values in 2 rows"),
        ((2, 5, "7", 1.0, 1.0), (2, 5, "8", 1.0, 1.0), "other values in 2 rows"),
        ((2, 5, "7", 0.1 + 0.2, 0.3), (2, 5, "7", 0.3, 0.3), None),
        ((2, 5, "7", 0.31, 0.31), (2, 5, "7", 0.3, 0.3), "other values of the type double"),
    ],
)
def test_what_differs(first: tuple[object, ...], second: tuple[object, ...], differ: str | None) -> None:
    found = difference(first, second, ["string", "double"])
    assert found is None if differ is None else (found or "").startswith(differ)
