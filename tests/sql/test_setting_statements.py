"""Tests which settings a statement changes or shows, as far as its text tells."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sql.lexed import Lexed
from sql.reading.settings import KEY_PIECES_MAX, LONG_CHARACTERS, TIME_ZONE, UNCLEAR, plain_name, uses


def read(text: str) -> list[tuple[str, str]]:
    return [(use.does.value, use.name) for use in uses(Lexed(text))]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("SET spark.sql.x=1", "spark.sql.x"),
        ("  set\tspark.sql.x = a = b ;", "spark.sql.x"),
        ("/* c */ SET -- c\n spark.sql.x /* = */ = 1", "spark.sql.x"),
        ("SET `spark.sql.x` = `a=b`", "spark.sql.x"),
        ("SET spark . sql . x=1", "spark.sql.x"),
        ("SET spark.sql.x\n=\n1", "spark.sql.x"),
        ("SET spark.sql.x==1", "spark.sql.x"),
        ("SET spark.sql.x=${y}", "spark.sql.x"),
        ("SET spark.sql.x='${y}'", "spark.sql.x"),
        ("SET spark.sql.x-y=1", "spark.sql.x-y"),
        ("SET hiveconf:spark.sql.x=1", "spark.sql.x"),
        ("SET 1a.2b=1", "1a.2b"),
        ("SET mapred.reduce.tasks=1", "spark.sql.shuffle.partitions"),
        ("SET catalog=1", "catalog"),
        ("SET time zone 'UTC'", TIME_ZONE),
        ("SET TIME ZONE LOCAL", TIME_ZONE),
        ("EXECUTE IMMEDIATE 'SET spark.sql.x=1'", "spark.sql.x"),
        ('execute immediate "set spark.sql.x=1"', "spark.sql.x"),
        ("BEGIN SELECT 1; EXECUTE IMMEDIATE 'SET spark.sql.x=1'; END", "spark.sql.x"),
        ("EXECUTE IMMEDIATE 'EXECUTE IMMEDIATE \"SET spark.sql.x=1\"'", "spark.sql.x"),
    ],
)
def test_a_statement_sets(text: str, name: str) -> None:
    assert read(text) == [("SET", name)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("RESET", ("RESET", "")),
        ("reset ;", ("RESET", "")),
        ("RESET spark.sql.x;", ("RESET", "spark.sql.x")),
        ("RESET `spark.sql.x`", ("RESET", "spark.sql.x")),
        ("SET", ("SHOW", "")),
        ("SET;", ("SHOW", "")),
        ("SET -v", ("SHOW", "")),
        ("SET -- c\n -V", ("SHOW", "")),
        ("SET spark.sql.x", ("SHOW", "spark.sql.x")),
    ],
)
def test_a_statement_resets_or_shows(text: str, expected: tuple[str, str]) -> None:
    assert read(text) == [expected]


@pytest.mark.parametrize(
    "text",
    [
        "${x}",
        "${x} spark.sql.y=1",
        "/* ${x} */ SELECT 1",
        "--${x}\nSELECT 1",
        "S${x} spark.sql.y=1",
        "SET ${x}=1",
        "SET spark.${x}=1",
        "RESET ${x}",
        "SET ${x}",
        "SET `${x}`=1",
        "SET =1",
        "EXECUTE IMMEDIATE v",
        "EXECUTE IMMEDIATE 'SET ' || v",
        "EXECUTE IMMEDIATE 'S\\x45T spark.sql.x=1'",
        "EXECUTE IMMEDIATE 'SET ' 'spark.sql.x=1'",
        "EXECUTE IMMEDIATE '${x}'",
        "BEGIN EXECUTE IMMEDIATE v; END",
        "BEGIN EXECUTE /* c */ IMMEDIATE v; END",
        "SET " + "a." * KEY_PIECES_MAX + "=1",
        "BEGIN SELECT '" + "x" * LONG_CHARACTERS + "'; END",
    ],
)
def test_a_statement_that_may_set_any_setting_is_unclear(text: str) -> None:
    assert ("SET", UNCLEAR) in read(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "SELECT 1",
        "SELECT '${x}'",
        "SELECT 'SET spark.sql.x=1'",
        "SET VAR x = 1",
        "SET VARIABLE x = 1",
        "SET CATALOG spark_catalog",
        "UPDATE t SET a = 1",
        "ALTER TABLE t SET TBLPROPERTIES ('a' = 'b')",
        "BEGIN DECLARE x INT; SET x = 1; SELECT x; END",
        "BEGIN",
        "EXECUTE IMMEDIATE 'SELECT 1'",
        "EXPLAIN SELECT 1",
    ],
)
def test_other_statements_leave_settings_alone(text: str) -> None:
    assert read(text) == []


@pytest.mark.parametrize(
    "key",
    [
        "spark.sql.x",
        "set:hiveconf:spark.sql.x",
        "set:hivevar:spark.sql.x",
        "hiveconf:spark.sql.x",
        " SET:HIVECONF:spark.sql.x ",
    ],
)
def test_prefixes_of_clients_do_not_count(key: str) -> None:
    assert plain_name(key) == "spark.sql.x"


@given(st.text(alphabet="SETRest =.`'\"${}xv;-/*\n:", max_size=30), st.sampled_from(["", "SET ", "RESET ", "BEGIN "]))
def test_no_text_is_too_odd(text: str, head: str) -> None:
    uses(Lexed(head + text))


def test_long_texts_take_little_time() -> None:
    for text in ("SET a.b=" + "x " * 4_000_000, "SELECT " + "x, " * 2_000_000, "SET " + "x " * 4_000_000):
        began = time.perf_counter()
        uses(Lexed(text))
        assert time.perf_counter() - began < 0.5
