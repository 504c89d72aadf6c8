"""Changes at which other systems gave wrong rows, one by one."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import pytest
from duck import Definition, Row, Step, name, outline_of, play

from sql.increments import texts
from sql.increments.terms import terms

T: list[Row] = [
    (1, "x", 1, Decimal("0.25"), 0.5),
    (1, "x", 2, None, None),
    (2, None, None, None, None),
    (None, "y", 3, Decimal("1.00"), 1.5),
]
U: list[Row] = [(1, "p", 1), (3, None, 2), (None, "q", 3)]
MORE = Step({"t": [T[0], (2, "z", 5, None, 2.5), T[3]], "u": [(1, "r", 4), (2, "s", 5)]})
MORE_LEFT = Step({"t": MORE.added["t"]})
LESS = Step({}, {"t": [1, 2, 3], "u": [0]})
ALL_GONE = Step({}, {"t": [0, 1, 2, 3]})
NONE = Step({})

CASES = [
    # 6 and 7: a join of new rows with old ones, and of a table with itself.
    ("SELECT p.a AS x, q.c AS y FROM t AS p JOIN u AS q ON p.a = q.a", [MORE, LESS, MORE]),
    ("SELECT p.a AS x, q.v AS y FROM t AS p JOIN t AS q ON p.a = q.a", [MORE, LESS, MORE]),
    ("SELECT p.a AS x, count(*) AS y FROM t AS p, t AS q, u AS r WHERE p.a = q.a GROUP BY p.a", [MORE, LESS, MORE]),
    # 9: dangling rows of an outer join.
    ("SELECT p.a AS x, q.c AS y FROM t AS p LEFT JOIN u AS q ON p.a = q.a", [MORE_LEFT, MORE, LESS]),
    ("SELECT p.a AS x, q.c AS y FROM t AS p FULL JOIN u AS q ON p.a = q.a", [MORE_LEFT, MORE, LESS]),
    # 10 and 11: a sum without values, a group without rows.
    ("SELECT t.b AS x, sum(t.v) AS y, avg(t.w) AS z FROM t GROUP BY t.b", [LESS, MORE, ALL_GONE]),
    ("SELECT sum(t.v) AS x, count(*) AS y, avg(t.v) AS z FROM t", [LESS, ALL_GONE, MORE]),
    # 13: averages.
    ("SELECT t.a AS x, avg(t.v) AS y, avg(t.w) AS z FROM t GROUP BY t.a", [MORE, LESS, MORE]),
    # 18: groups that HAVING hides, and shows later.
    ("SELECT t.a AS x, 1 / (count(*) - 1) AS y FROM t GROUP BY t.a HAVING count(*) > 1", [MORE, LESS, MORE]),
    # 20: how often a row is there.
    ("SELECT DISTINCT t.a AS x, t.b AS y FROM t", [MORE, LESS, LESS]),
    # 28: NOT IN with NULL.
    ("SELECT t.a AS x FROM t WHERE t.a NOT IN (SELECT u.a FROM u)", [MORE_LEFT, MORE]),
    # 29: all rows of an empty table are one group.
    ("SELECT count(*) AS x, max(t.v) AS y FROM t WHERE t.v > 100", [NONE, MORE]),
]


@pytest.mark.parametrize(("query", "steps"), CASES)
def test_a_view_has_the_rows_of_its_definition(query: str, steps: Sequence[Step]) -> None:
    columns = tuple(column for column in "xyz" if f" AS {column}" in query)
    play(Definition(query, columns), {"t": T, "u": U}, steps)


@pytest.mark.parametrize("removed", [0, 1])
def test_zeros_that_differ_only_by_their_sign_are_different_rows(removed: int) -> None:
    zeros: list[Row] = [(1, None, None, None, 0.0), (1, None, None, None, -0.0)]
    definition = Definition("SELECT t.a AS x, t.f AS y FROM t", ("x", "y"))
    play(definition, {"t": zeros, "u": []}, [Step({}, {"t": [removed]}), Step({"t": zeros}, {})])


def test_totals_are_other_groups_than_those_of_null() -> None:
    """14."""
    query = "SELECT t.a AS x, count(*) AS y FROM t GROUP BY ROLLUP(t.a)"
    play(Definition(query, ("x", "y"), "t.a", query), {"t": T, "u": U}, [MORE, LESS, MORE])


def test_queries_that_are_put_together_stand_in_brackets() -> None:
    """24."""
    changed = "SELECT * FROM x EXCEPT ALL SELECT * FROM y"
    joined = outline_of(Definition("SELECT p.a AS x FROM t AS p, t AS q", ("x",)))
    text = texts.appended(joined, terms(joined, {name("t"): changed}, {name("t"): changed}, {}))
    assert text.count(f"({changed}) AS ") == text.count(changed) == 3
    assert text.startswith("(SELECT ")
    grouped = outline_of(Definition("SELECT DISTINCT a AS x FROM t", ("x",)))
    text = texts.merged(grouped, changed, terms(grouped, {name("t"): changed}, {}, {}))
    assert text.count(f"({changed}) AS ") == text.count(changed) == 2


def test_rows_of_a_view_without_groups_are_only_appended() -> None:
    outline = outline_of(Definition("SELECT a AS x FROM t", ("x",)))
    with pytest.raises(ValueError, match="appended"):
        texts.appended(outline, terms(outline, {}, {}, {name("t"): "R"}))
    least = outline_of(Definition("SELECT min(v) AS x FROM t", ("x",)))
    change = terms(least, {}, {}, {name("t"): "R"})
    with pytest.raises(ValueError, match="subtracted"):
        texts.merged(least, "S", change)
