"""Tests that calls of mv_infos(), jobs() and tasks() are found in place of a relation, and nowhere else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sql.lexed import Lexed
from sql.reading.catalog_functions import FunctionCall, find

INFOS = (("database", "tpch"),)
MV = (("type", "mv"),)


def found(text: str) -> list[tuple[str, tuple[tuple[str, str], ...], bool]]:
    return [(call.function, call.arguments, call.aliased) for call in find(Lexed(text))]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('select * from mv_infos("database"="tpch") where Name="mv1"', [("mv_infos", INFOS, False)]),
        ('select * from jobs("type"="mv") order by CreateTime', [("jobs", MV, False)]),
        ('select * from tasks("type"="mv");', [("tasks", MV, False)]),
        ("SELECT * FROM TASKS ( 'type' = 'mv' ) AS t", [("tasks", MV, True)]),
        ("SELECT * FROM tasks('type' = 'mv') `t`", [("tasks", MV, True)]),
        ("SELECT * FROM tasks('type' = 'mv') t JOIN jobs('type' = 'mv') j", [("tasks", MV, True), ("jobs", MV, True)]),
        ("SELECT * FROM a, jobs('type' = 'mv')", [("jobs", MV, False)]),
        ("SELECT * FROM a JOIN b ON a.x = b.x, jobs('type' = 'mv')", [("jobs", MV, False)]),
        ("SELECT * FROM jobs('type' = 'mv') LEFT JOIN a ON true", [("jobs", MV, False)]),
        ("FROM jobs('type' = 'mv') SELECT *", [("jobs", MV, False)]),
        ("SELECT * FROM (FROM jobs('type' = 'mv') SELECT *)", [("jobs", MV, False)]),
        ("SELECT (SELECT count(*) FROM tasks('type' = 'mv')), 1", [("tasks", MV, False)]),
        ("SELECT * FROM /* x */ mv_infos -- y\n ('database' = 'tpch')", [("mv_infos", INFOS, False)]),
        ("SELECT * FROM jobs()", [("jobs", (), False)]),
        (
            "SELECT * FROM jobs('type' = 'mv', 'a\\'b' = 'c')",
            [("jobs", (("type", "mv"), ("a'b", "c")), False)],
        ),
        ("SELECT * FROM jobs('type' = 'mv') UNION ALL SELECT 1", [("jobs", MV, False)]),
        ("CREATE VIEW v AS SELECT * FROM jobs('type' = 'mv')", [("jobs", MV, False)]),
    ],
)
def test_a_call_in_place_of_a_relation_is_found(text: str, expected: object) -> None:
    assert found(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM jobs",
        "SELECT jobs('type' = 'mv')",
        "SELECT a, jobs('type' = 'mv') FROM t",
        "SELECT a FROM t WHERE f(a, jobs('type' = 'mv'))",
        "SELECT a FROM t GROUP BY a, jobs('type' = 'mv')",
        "SELECT extract(day FROM jobs())",
        "SELECT a IS DISTINCT FROM jobs() FROM t",
        "SELECT * FROM db.jobs('type' = 'mv')",
        "SELECT * FROM `jobs`('type' = 'mv')",
        "SELECT * FROM jobs('type')",
        "SELECT * FROM jobs(type = 'mv')",
        "SELECT * FROM jobs('type' => 'mv')",
        "SELECT * FROM jobs('type' = 'mv',)",
        "SELECT * FROM jobs('type' = 'mv'",
        "SELECT * FROM jobs(",
        "SELECT * FROM my_jobs('type' = 'mv')",
        "SELECT 'FROM jobs(''type'' = ''mv'')'",
        "SELECT 1 -- FROM jobs('type' = 'mv')",
        "jobs('type' = 'mv')",
        "))) SELECT 1, jobs()",
    ],
)
def test_a_call_elsewhere_is_ignored(text: str) -> None:
    assert find(Lexed(text)) == ()


def test_the_position_of_a_call_is_found() -> None:
    text = "SELECT * FROM é, jobs ('type' = 'mv') j"
    (call,) = find(Lexed(text))
    assert call == FunctionCall("jobs", MV, text.index("jobs"), text.index(")") + 1, aliased=True)


pieces = st.sampled_from(
    ["jobs", "tasks", "(", ")", "'a'", "=", ",", "FROM", "JOIN", "SELECT", "DISTINCT", "`", "'", "x", ".", "/*", "*/"]
)


@given(st.lists(pieces, max_size=30).map(" ".join))
def test_any_text_can_be_searched_for_calls(text: str) -> None:
    for call in find(Lexed(text)):
        assert text[call.start : call.end].lower().startswith(call.function)
        assert text[call.end - 1] == ")"
