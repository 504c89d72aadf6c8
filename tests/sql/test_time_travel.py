"""Tests that VERSION AS OF and TIMESTAMP AS OF are found, and that blanking them leaves an ordinary query."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sql.classify import classify
from sql.lexed import Lexed
from sql.reading.time_travel import blanked, find
from sql.statement import Forwarded

NOW = "current_timestamp()"
CASES = [
    ("SELECT * FROM a.m VERSION AS OF 3 x JOIN b ON x.i = b.i", [("a.m", "3", "")]),
    ("SELECT * FROM `a b`.m FOR SYSTEM_VERSION AS OF '3'", [("a b.m", "3", "")]),
    ("SELECT * FROM m FOR VERSION AS OF 3, k version as of 4", [("m", "3", ""), ("k", "4", "")]),
    ("SELECT * FROM m TIMESTAMP AS OF '2026-01-01' WHERE 1 = 2", [("m", None, "'2026-01-01'")]),
    (f"SELECT * FROM m TIMESTAMP AS OF {NOW} - INTERVAL 1 HOUR AS q", [("m", None, f"{NOW} - INTERVAL 1 HOUR")]),
    (f"SELECT * FROM m TIMESTAMP AS OF {NOW} - INTERVAL '1' HOUR q", [("m", None, f"{NOW} - INTERVAL '1' HOUR")]),
    (
        "SELECT * FROM m TIMESTAMP AS OF TIMESTAMP '2026-01-01' - INTERVAL '1 2' DAY TO HOUR t",
        [("m", None, "TIMESTAMP '2026-01-01' - INTERVAL '1 2' DAY TO HOUR")],
    ),
    (
        "WITH c AS (SELECT * FROM m FOR SYSTEM_TIME AS OF date_sub(current_date(), 1)) SELECT * FROM c",
        [("m", None, "date_sub(current_date(), 1)")],
    ),
    ("SELECT * FROM a TIMESTAMP AS OF now() JOIN b VERSION AS OF 2", [("a", None, "now()"), ("b", "2", "")]),
    ("SELECT * FROM a TIMESTAMP AS OF now() z LEFT JOIN b", [("a", None, "now()")]),
    ("INSERT INTO t SELECT * FROM m VERSION AS OF 2 ORDER BY 1", [("m", "2", "")]),
    ("SELECT 'm VERSION AS OF 3' FROM m -- m VERSION AS OF 3", []),
    ("SELECT version AS of FROM m", []),
    ("SELECT * FROM m VERSION AS OF", []),
    ("VERSION AS OF 3", []),
]


@pytest.mark.parametrize(("text", "expected"), CASES)
def test_time_travel_clauses_are_found(text: str, expected: list[tuple[str, str | None, str]]) -> None:
    travels = find(Lexed(text))
    assert [(".".join(each.parts), each.version, each.moment) for each in travels] == expected
    for each in travels:
        assert text[: each.name_end].rstrip("`").endswith(each.parts[-1])
    rest = blanked(Lexed(text), travels)
    assert rest.pieces == Lexed(rest.text).pieces
    assert len(rest.text) == len(text)
    assert find(rest) == []
    statement = classify(rest)
    assert isinstance(statement, Forwarded)
    assert statement.exact or not travels


@pytest.mark.parametrize("name", ['"a"."m"', 'a."m"', '"a" . m'])
def test_double_quoted_names_are_complete(name: str) -> None:
    """Names are double-quoted with spark.sql.ansi.doubleQuotedIdentifiers."""
    assert [travel.parts for travel in find(Lexed(f"SELECT * FROM {name} VERSION AS OF 3"))] == [("a", "m")]


PIECES = [
    "(",
    ")",
    ",",
    ";",
    "'",
    "`",
    ".",
    *["m", "k", "FOR", "VERSION", "TIMESTAMP", "AS", "OF", "INTERVAL", "1", "HOUR", "'x'", "now()", "-", "x"],
]


@given(st.lists(st.sampled_from(PIECES)))
def test_any_text_can_be_searched_for_time_travel(pieces: list[str]) -> None:
    text = " ".join(pieces)
    travels = find(Lexed(text))
    assert all(0 < each.name_end <= each.start < each.end <= len(text) for each in travels)
    rest = blanked(Lexed(text), travels)
    assert rest.pieces == Lexed(rest.text).pieces
    assert len(rest.text) == len(text)
