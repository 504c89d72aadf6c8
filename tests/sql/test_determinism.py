"""Which functions of a definition are found non-deterministic, from its text and Spark's plan."""

from __future__ import annotations

import pytest

from sql.determinism import nondeterministic

PLAN = "== Parsed Logical Plan ==\nrand(1)\n== Analyzed Logical Plan ==\n{}\n== Optimized Logical Plan ==\nuuid()\n"


@pytest.mark.parametrize(
    ("query", "analyzed", "expected"),
    [
        ("SELECT a FROM t", "Project [a#1]", set()),
        ("SELECT rand() FROM t", "Project [rand(4711) AS r#1]", {"rand"}),
        ("SELECT RAND(5) FROM t", "Project [rand(5) AS r#1]", {"rand"}),
        ("SELECT v FROM some_view", "Project [uuid(Some(1)) AS v#1]", {"uuid"}),
        ("SELECT current_date AS d FROM t", "Project [current_date(Some(UTC)) AS d#1]", {"current_date"}),
        ("SELECT unix_timestamp() FROM t", "Project [unix_timestamp(current_timestamp(), y)]", {"current_timestamp"}),
        ("SELECT 'call rand() now()' FROM t", "Project [call rand() now() AS x#1]", set()),
        ("SELECT now, 'now()' FROM t", "Project [now#1, now() AS x#2]", set()),
        ("SELECT now(), 'now()' FROM t", "Project [now() AS n#1, now() AS x#2]", {"now"}),
        ("SELECT user, 'user()' FROM t", "Project [user#1, user() AS x#2]", {"user"}),
        ("SELECT strand(a), t.rand FROM t", "Project [strand(a#1), rand#2]", set()),
        ("SELECT * FROM t TABLESAMPLE (10 PERCENT)", "Project [a#1]\n+- Sample 0.0, 0.1, false, 525", {"tablesample"}),
        ("SELECT * FROM t TABLESAMPLE (10 PERCENT) REPEATABLE (5)", "+- Sample 0.0, 0.1, false, 5", set()),
    ],
)
def test_functions(query: str, analyzed: str, expected: set[str]) -> None:
    assert nondeterministic(query, PLAN.format(analyzed)) == expected
