"""Tests what Spark's statements read and write: the cases of forwarded.sql, and properties."""

from __future__ import annotations

import time
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statement_cases import load

from sql.classify import classify
from sql.grammar.parser import SyntaxProblem
from sql.lexed import Lexed
from sql.names import quote
from sql.reading.lineage import PARSED_CHARACTERS_MAX, relations
from sql.scan import dotted_name, lexemes
from sql.statement import Forwarded, Reference


def forwarded(text: str) -> Forwarded:
    found = classify(Lexed(text))
    assert isinstance(found, Forwarded)
    return found


def read_back(text: str, reference: Reference) -> tuple[str, ...] | None:
    """The name in the text at the position of a reference."""
    return dotted_name(list(lexemes(text[reference.start : reference.end])))[0]


def facts(found: Forwarded) -> dict[str, str]:
    """The facts in the notation of the case file."""
    reads = " ".join(".".join(read.parts) + "+" * read.aliased for read in found.reads)
    writes = " ".join(".".join(parts) for parts in found.writes)
    named = {
        "reads": reads,
        "writes": writes,
        "view": ".".join(found.creates_view or ()),
        "drops": ".".join(found.drops or ()),
    }
    flags = {
        "temp": found.temporary,
        "function": found.creates_function,
        "database": found.drops_database,
        "probe": not found.touches_rows,
        "use": found.changes_namespace,
        "guess": not found.exact,
        "files": found.writes_files,
    }
    return {key: text for key, text in named.items() if text} | {flag: "" for flag, is_set in flags.items() if is_set}


def agrees(expected: str, actual: str) -> bool:
    """Whether the lists agree; `… x …` stands for any list that contains x."""
    if not expected.startswith("…"):
        return expected == actual
    return expected.strip("… ") in actual.split()


@pytest.mark.parametrize(("text", "expected"), load("forwarded.sql"))
def test_sparks_statement_is_understood(text: str, expected: str) -> None:
    found = forwarded(text)
    wanted = dict(part.strip().partition(":")[::2] for part in expected.split("|") if part.strip())
    actual = facts(found)
    assert actual.keys() == wanted.keys(), found
    for key, value in wanted.items():
        assert agrees(value.strip(), actual[key]), (key, actual[key])
    assert bool(found.reason) is not found.exact
    for reference in found.reads:
        if reference.end:  # a name in a string has no position
            assert read_back(text, reference) == reference.parts


identifiers = st.text(st.characters(blacklist_categories=["Cs", "Cc"]), min_size=1, max_size=8)


@given(st.lists(identifiers, min_size=1, max_size=3), st.text("é😀 \n", max_size=4), st.booleans())
def test_any_backquoted_name_is_found_at_its_position(parts: list[str], space: str, aliased: bool) -> None:
    name = ".".join(map(quote, parts))
    text = f"SELECT '{space}' FROM {name}{' AS x' if aliased else ''} WHERE 1 = 1"
    if "${" in text:
        return
    (reference,) = forwarded(text).reads
    assert reference.parts == tuple(parts)
    assert text[reference.start : reference.end] == name
    assert reference.aliased is aliased


WORDS = """SELECT FROM WITH a AS ( ) , . ; mv JOIN ON INSERT INTO TABLE VALUES CREATE VIEW DROP ALTER EXPLAIN CACHE
' ` " -- /* */ LIMIT 0 1 = WHERE UNION ${x} MATERIALIZED REFRESH SHOW VIEWS CALL SET VAR USE RETURN FUNCTION LATERAL
[ ] |>"""
words = st.sampled_from([*WORDS.split(), "\n"])


@settings(max_examples=400, deadline=None)
@given(st.one_of(st.text(max_size=60), st.lists(words, max_size=25).map(" ".join)))
def test_any_text_is_classified_or_refused(text: str) -> None:
    with suppress(SyntaxProblem):
        found = classify(Lexed(text))
        for reference in found.reads if isinstance(found, Forwarded) else ():
            assert 0 <= reference.start < reference.end <= len(text) or reference.end == 0


@pytest.mark.parametrize(
    "text",
    [
        "SELECT mv.a[0] FROM db.mv WHERE WHERE",
        "EXECUTE IMMEDIATE 'select * from db.mv'",
        "EXECUTE IMMEDIATE 'select * from `db`.`mv`'",
        'EXECUTE IMMEDIATE "it`s from db . mv"',
        """EXECUTE IMMEDIATE 'select * from "db".`mv`'""",
        """SELECT * FROM "it's a/b", "db"/**/.--\n"mv\"""",
        "SELECT * FROM a ` JOIN db.mv",
        "SELECT ' FROM db.mv",
        "SELECT {# FROM db.mv",
        "SELECT " + "(" * 500 + "SELECT 1 FROM db.mv" + ")" * 500,
        "SELECT * FROM " + "(SELECT * FROM " * 30_000 + "db.mv" + ")" * 30_000,
        "SELECT " + "FROM " * 30_000 + "db.mv",
        "SELECT * FROM a " + "STRAIGHT_JOIN b " * 40 + ", db.mv",
        "SELECT '" + "x" * PARSED_CHARACTERS_MAX + """' FROM db."mv\"""",
        "SELECT a IN (SELECT b FROM `t` where(a), db.mv)",
        "INSERT INTO t WITH RECURSIVE q (x) AS (SELECT 1) (WITH mv (SELECT x FROM db.mv) SELECT 1)",
        'MERGE INTO db.mv USING values"x" ON b WHEN MATCHED THEN DELETE',
        "SET VAR x = (SELECT * FROM db.mv, LATERAL(VALUES(true), (1)))",
        "SET VAR x = (SELECT * FROM db.mv, LATERAL((SELECT a WINDOW w AS (PARTITION BY b) |> SET a = 1)))",
        "CREATE TABLE t (a INT DEFAULT 42 AND (SELECT 'x' FROM db.mv))",
    ],
    ids=lambda text: text[:30],
)
def test_a_statement_that_is_not_exact_misses_no_name(text: str) -> None:
    found = forwarded(text)
    assert not found.exact
    assert ("db", "mv") in {tuple(reference.parts) for reference in found.reads}


@pytest.mark.parametrize(
    "text",
    ["SELECT " + "NOT " * 40_000 + "a FROM db.mv", "SELECT '" + "x" * PARSED_CHARACTERS_MAX + "' FROM db.mv"],
    ids=lambda text: text[:30],
)
def test_a_query_that_can_be_skimmed_is_exact_at_any_length(text: str) -> None:
    found = forwarded(text)
    assert found.exact
    assert [reference.parts for reference in found.reads] == [("db", "mv")]


@pytest.mark.parametrize(
    "join", ["JOIN b ", "LEFT JOIN b ", "JOIN LATERAL (SELECT 1) b ", ", LATERAL (SELECT 1) b JOIN c "]
)
def test_joins_without_a_condition_take_no_exponential_time(join: str) -> None:
    text = "SELECT * FROM a " + join * 40
    started = time.perf_counter()
    found = forwarded(text)
    assert time.perf_counter() - started < 2
    assert ("a",) in {reference.parts for reference in found.reads}


def test_a_long_insert_of_values_is_exact() -> None:
    text = "INSERT INTO db.t VALUES " + ", ".join("(1, 'it''s; mv')" for _ in range(30_000))
    assert forwarded(text) == Forwarded(writes=(("db", "t"),))


def test_called_functions_are_found() -> None:
    assert ("db", "f") in forwarded("SELECT db.f(1), g(2) FROM a").calls
    assert ("g",) in forwarded("SELECT * FROM g(2)").calls


@pytest.mark.parametrize(
    "text",
    [
        'SELECT "f"(1)',
        'SELECT db."f"(1) FROM t',
        'SELECT * FROM "f"(1)',
        "INSERT INTO t VALUES (1, ')'), (f(1), 2)",
        "INSERT INTO t VALUES (1 + `f` (1))",
        'INSERT INTO t VALUES ("f"(1))',
        "INSERT INTO t VALUES (f /* x */ (1))",
        "INSERT INTO t VALUES (f -- x\n (1))",
    ],
)
def test_every_form_of_a_call_is_found(text: str) -> None:
    """The function may be a temporary one, whose query reads a view."""
    assert "f" in {call[-1] for call in forwarded(text).calls}


@pytest.mark.parametrize("name", ['spark_catalog."d"', "IDENTIFIER('d')", "IDENTIFIER('spark_catalog').d"])
def test_the_altered_database_is_found(name: str) -> None:
    found = forwarded(f"ALTER DATABASE {name} SET LOCATION '/x'")
    assert found.exact
    assert (found.alters_database or ())[-1:] == ("d",)


def test_an_unqualified_path_in_double_quotes_is_no_name() -> None:
    assert ("a/b",) not in forwarded('CALL load("a/b", "x y")').writes
    assert ("delta", "a/b") in forwarded('CALL load(delta."a/b")').writes


def test_a_definition_reads_its_base_tables() -> None:
    found = relations(Lexed("WITH t AS (SELECT * FROM a) SELECT * FROM t JOIN db.b USING (x)"))
    assert found.exact
    assert [reference.parts for reference in found.reads] == [("a",), ("db", "b")]


@pytest.mark.parametrize("text", ["SELECT ((( FROM mv", "INSERT INTO mv SELECT 1", ""])
def test_a_definition_that_is_not_a_query_is_not_exact(text: str) -> None:
    found = relations(Lexed(text))
    assert not found.exact
    assert found.reason


@pytest.mark.parametrize("nested", ["DECIMAL(", "DECIMAL[", "MAP<INT, ", "IF[", "ARRAY<DECIMAL(", "LATERAL("])
def test_deeply_nested_types_are_not_parsed(nested: str) -> None:
    """Each level doubles sqlglot's time, so forty would take weeks. All names of the text count instead."""
    found = forwarded(f"DELETE FROM db.t WHERE a = {nested * 40} 1")
    assert not found.exact
    assert ("db", "t") in found.writes


def test_comparisons_of_columns_named_like_types_are_parsed() -> None:
    months = " ".join(
        f"WHEN date < DATE'2024-{month:02}-01' OR t.year < {month} THEN {month}" for month in range(1, 13)
    )
    found = forwarded(f"INSERT INTO r SELECT CASE {months} END, array({', '.join(['struct(a, b)'] * 250)}) FROM t")
    assert (found.exact, found.writes) == (True, (("r",),))


def test_usual_nested_types_are_parsed() -> None:
    types = "STRUCT<a: ARRAY<MAP<STRING, DECIMAL(10, 2)>>, b: ARRAY<STRUCT<c: INT, d: ARRAY<VARCHAR(3)>>>>"
    casts = ", ".join(f"CAST(a{number} AS DECIMAL(38, {number % 10})) > 1 AND b < 2" for number in range(500))
    found = forwarded(f"DELETE FROM t WHERE CAST(a AS {types}) IS NULL AND date(timestamp(string(b))) IN ({casts})")
    assert found.exact


@pytest.mark.parametrize(
    ("text", "read"),
    [
        # After LATERAL, Spark reads a relation, but sqlglot a function's name.
        ("SELECT * FROM LATERAL mv", "mv"),
        ("SELECT * FROM LATERAL db.mv", "db.mv"),
        ("SELECT * FROM a, LATERAL `c`.`db`.`mv` x", "c.db.mv"),
        ("CREATE TABLE s SELECT * FROM a, LATERAL mv", "mv"),
        ("SELECT a UNION ((WITH x (SELECT u) TABLE t1 MINUS TABLE q))", "t1"),
        # An alias in a pipe is not a CTE, but sqlglot treats it as one.
        ("WITH c AS (VALUES ((1)), (INTERVAL)) SELECT x FROM q |> WHERE (b) IN (SELECT b FROM s.v) |> AS `q`", "q"),
    ],
)
def test_relations_that_sqlglot_misses_are_found(text: str, read: str) -> None:
    assert tuple(read.split(".")) in {each.parts for each in forwarded(text).reads}


@pytest.mark.parametrize("rows", ["(IDENTIFIER('a.b.f')())", "(IDENTIFIER(x))"])
def test_rows_with_names_built_at_run_time_are_not_exact(rows: str) -> None:
    assert not forwarded(f"INSERT INTO t VALUES {rows}").exact
