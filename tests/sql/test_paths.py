"""Tests which paths a statement may write to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sql.lexed import Lexed
from sql.reading.paths import written

CLAUSES = [
    ("INSERT OVERWRITE DIRECTORY '/a/b' USING parquet SELECT 1", {"/a/b"}),
    ("INSERT OVERWRITE LOCAL DIRECTORY '/a' SELECT 1", {"/a"}),
    ("INSERT OVERWRITE DIRECTORY USING parquet OPTIONS (path '/a', x '/b') SELECT 1", {"/a"}),
    ("INSERT OVERWRITE DIRECTORY USING parquet OPTIONS ('PA' 'TH' = '/a' '/b') SELECT 1", {"/a/b"}),
    (r"INSERT OVERWRITE DIRECTORY USING parquet OPTIONS ('p\u0061th' = '/a') SELECT 1", {"/a"}),
    ("CREATE TABLE t (a INT COMMENT '/c') USING parquet LOCATION /* c */ '/a' 'b' COMMENT '/d'", {"/ab"}),
    ("CREATE TABLE t USING csv OPTIONS (header true, path = '/a') AS SELECT 1", {"/a"}),
    ("ALTER TABLE t SET LOCATION '/a'", {"/a"}),
    ("ALTER TABLE t SET SERDEPROPERTIES ('path' = '/a')", {"/a"}),
    ("ALTER TABLE t ADD PARTITION (p = '/x') LOCATION '/a' PARTITION (p = 2) LOCATION '/b'", {"/a", "/b"}),
    ("LOAD DATA INPATH '/a' INTO TABLE t", {"/a"}),
    ("CREATE DATABASE d LOCATION '/a'", {"/a"}),
    ("CALL c.system.remove_orphan_files(table => 'd.t', location => '/a')", {"/a"}),
    ("CREATE TEMPORARY VIEW v USING parquet OPTIONS (path '/a')", {"/a"}),
    ("INSERT INTO t SELECT location, path FROM directory WHERE options(a) = '/a'", set()),
    ("INSERT INTO t VALUES ('/a', 'LOCATION')", set()),
]


@pytest.mark.parametrize(("text", "paths"), CLAUSES)
def test_paths_in_clauses_are_found(text: str, paths: set[str]) -> None:
    found = written(Lexed(text), exact=True)
    assert {path for path in found.clauses if "\\" not in path} == paths
    assert found.told


@pytest.mark.parametrize(
    "text",
    [
        "EXECUTE IMMEDIATE 'INSERT OVERWRITE DIRECTORY \"/a\" SELECT 1'",
        "EXECUTE IMMEDIATE 'INSERT OVERWRITE DIRECTORY ''/a'' SELECT 1'",
        r"EXECUTE IMMEDIATE 'INSERT OVERWRITE DIRECTORY \'/a\' SELECT 1'",
        "BEGIN IF true THEN INSERT OVERWRITE DIRECTORY '/a' SELECT 1; END IF; END",
        "EXECUTE IMMEDIATE \"EXECUTE IMMEDIATE 'CREATE TABLE t (a INT) LOCATION ''/a'''\"",
    ],
)
def test_paths_in_nested_texts_are_found(text: str) -> None:
    assert "/a" in written(Lexed(text), exact=False).clauses


@pytest.mark.parametrize(
    "text",
    [
        "EXECUTE IMMEDIATE 'CREATE TABLE t (a INT) USING parquet LOCATION ?' USING '/a'",
        "EXECUTE IMMEDIATE 'CREATE TABLE t (a INT) USING parquet LOCATION :p' USING '/a' AS p",
        "EXECUTE IMMEDIATE 'CREATE TABLE t (a INT) USING parquet LOCATION ' || place",
        "EXECUTE IMMEDIATE \"CREATE TABLE t (a INT) USING parquet LOCATION '/w' || x\"",
        "CREATE TABLE t (a INT) USING parquet LOCATION '${p}'",
        "CREATE TABLE t (a INT) USING parquet OPTIONS (path = concat('/', 'a'))",
    ],
)
def test_a_path_built_at_run_time_is_unknown(text: str) -> None:
    assert not written(Lexed(text), exact=False).told


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"OPTIONS ({'a.' * 30}b '/x')", True),
        (f"OPTIONS (a.path '/x', {'a.' * 30}b '/x')", True),
        (f"OPTIONS (path {'a.' * 30}b)", False),
        (f"OPTIONS (a = {chr(39)}x{chr(39)}{(' ' + chr(39) + 'x' + chr(39)) * 50})", False),
    ],
)
def test_only_the_beginning_of_a_long_option_is_read(text: str, told: bool) -> None:
    assert written(Lexed(f"CREATE TABLE t {text}"), exact=True).told is told


def test_nested_options_take_no_quadratic_time() -> None:
    """In quadratic time, a text of this length would take minutes."""
    assert written(Lexed("options(" * 50_000), exact=True).told
    assert written(Lexed("options(a = 'b', " * 20_000), exact=True).loose == {"b"}


def test_json_is_no_path() -> None:
    text = "BEGIN IF a = '[]' OR a = '{}' THEN SET b = ' {\"c\": [1]}'; SET d = '/e'; END IF; END"
    assert written(Lexed(text), exact=False).loose == {"/e", "c"}


def test_an_unknown_statement_may_write_to_any_string_in_it() -> None:
    assert {"/a", "/b"} <= written(Lexed("VACUUM '/a' RETAIN delta.`/b`"), exact=False).loose


@given(st.text(st.sampled_from("LOCATIONpath optins=(),'\"`\\/$?{} \n|:")) | st.text(), st.booleans())
def test_any_text_can_be_searched_for_paths(text: str, exact: bool) -> None:
    written(Lexed(text), exact=exact)
    written(Lexed(f"EXECUTE IMMEDIATE '{text}'"), exact=exact)
