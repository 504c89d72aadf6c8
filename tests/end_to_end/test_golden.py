"""Tests that Spark's own test files give the same answers directly and through a gateway (scripts/fuzz --golden), and
how answers are compared."""

from __future__ import annotations

from pathlib import Path

import pytest
from golden import Answer, Golden, Report, files
from processes import Engine, Gateway

SAMPLE = ("cte-command.sql", "session-variable-precedence.sql", "show-views.sql")
"""Writes from CTEs, variables with the names of columns, and lists: statements that the gateway inspects."""

QUERY = "SELECT a FROM t"
ROWS = Answer((("a", "INT_TYPE"),), ("(1,)", "(2,)"))
REVERSED = Answer(ROWS.columns, ROWS.rows[::-1])
VARIES = "may differ: Spark's answer varies"
REFUSED = Answer(error="42P01 [TABLE_OR_VIEW_NOT_FOUND] There is no t.")


def test_the_gateway_answers_as_spark_does(engine: Engine, gateway: Gateway, tmp_path: Path) -> None:
    golden, total = Golden(engine, gateway, tmp_path), Report()
    with golden.prepared(SAMPLE):
        for file in SAMPLE:
            total.include(golden.run(file))
    assert not total.differences, "\n".join(map(str, total.differences))
    assert total.counts["files"] == len(SAMPLE)
    assert total.counts["statements"] == 44
    assert total.counts["errors on both sides"] > 0, total
    assert total.counts["same"] >= 40, total


def test_files_are_listed_in_the_order_of_their_patterns() -> None:
    assert files(["show-views.sql", "cte-c*", "cte-*"])[:2] == ["show-views.sql", "cte-command.sql"]
    assert set(files(["cte*", "!cte-*"])) == {"cte.sql"}
    assert set(files(["!*/*"])) < set(files()) == {*files(["!*/*"]), *files(["*/*"])}


def test_reports_are_summed() -> None:
    one, two, total = Report(), Report(), Report()
    one.add("a.sql", QUERY, ROWS, ROWS, lambda: ROWS)
    two.add("b.sql", QUERY, REFUSED, REFUSED, lambda: REFUSED)
    two.add("b.sql", QUERY, ROWS, REFUSED, lambda: ROWS)
    for report in (one, two):
        total.include(report)
    counts = {"statements": 3, "same": 2, "different": 1, "errors on both sides": 1}
    assert {name: count for name, count in total.counts.items() if count} == counts
    assert total.differences == two.differences


@pytest.mark.parametrize(
    "through",
    [
        Answer(ROWS.columns, ROWS.rows[:1]),
        Answer((("A", "INT_TYPE"),), ROWS.rows),
        Answer((("a", "BIGINT_TYPE"),), ROWS.rows),
        REFUSED,
    ],
)
@pytest.mark.parametrize("swapped", [False, True])
def test_a_planted_difference_is_found(through: Answer, swapped: bool) -> None:
    pair = (through, ROWS) if swapped else (ROWS, through)
    assert _compared(QUERY, *pair) == {"different"}


def test_errors_are_compared_by_sqlstate_and_text() -> None:
    assert _compared(QUERY, REFUSED, Answer(error=REFUSED.error.replace("42P01", "42000"))) == {"different"}
    assert _compared(QUERY, REFUSED, Answer(error=REFUSED.error.replace(" t.", " u."))) == {"different"}


def test_the_order_of_rows_counts_only_if_the_statement_specifies_it() -> None:
    assert _compared(QUERY, ROWS, REVERSED) == {"may differ: order of rows not specified"}
    assert _compared(f"{QUERY} ORDER BY a", ROWS, REVERSED) == {"different"}
    assert _compared("SHOW TABLES", ROWS, REVERSED) == {"different"}


def test_answers_that_vary_at_spark_are_not_differences() -> None:
    once_more = Answer(ROWS.columns, ("(4,)",))
    direct, through = Answer(ROWS.columns, ("(3,)",)), Answer(ROWS.columns, ("(5,)",))
    assert _compared("SELECT rand() AS a", direct, through, once_more) == {VARIES}
    assert _compared("SELECT rand() AS a", direct, REFUSED, once_more) == {"different"}
    assert _compared("SELECT rand() AS a", direct, ROWS, once_more) == {"different"}


def test_intended_differences_are_explained() -> None:
    listed = Answer((("namespace", "S"), ("viewName", "S"), ("isTemporary", "B")), ("('d', 'v', False)",))
    turned = Answer((("viewName", "S"), ("namespace", "S"), ("isTemporary", "B")), ("('v', 'd', False)",))
    assert _compared("SHOW VIEWS IN `d`", listed, turned) == {"explained: PyHive gets the name first (healing)"}
    assert _compared("SHOW VIEWS LIKE 'v'", listed, turned) == {"different"}
    assert _compared("SHOW VIEWS IN `d`", listed, Answer(turned.columns, listed.rows)) == {"different"}
    assert _compared("SHOW VIEWS IN `d`", listed, REFUSED) == {"different"}


def _compared(command: str, direct: Answer, through: Answer, again: Answer | None = None) -> set[str]:
    """Returns the counts that the comparison has raised."""
    report = Report()
    report.add("file.sql", command, direct, through, lambda: again or direct)
    assert len(report.differences) == report.counts["different"]
    return set(report.counts) - {"statements", "errors on both sides"}
