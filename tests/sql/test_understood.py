"""Tests that one reading of a text answers every question about it, and lexes the text only once."""

from __future__ import annotations

import pickle
from collections import Counter

import pytest
from lexings import counted

from sql import understood
from sql.statement import Forwarded
from sql.understood import PARTS, TooMuch, Understood, packed

INNER = "INSERT INTO s.t SELECT * FROM s.mv"
STATEMENTS = {
    "query": "SELECT n FROM s.mv WHERE a = 'x'",
    "nested query": "WITH c AS (SELECT * FROM s.t) SELECT * FROM c JOIN LATERAL (SELECT 1) USING (a)",
    "version": "SELECT * FROM s.mv VERSION AS OF 3",
    "catalog function": "SELECT * FROM mv_infos('database' = 's')",
    "catalog table": "SELECT * FROM freshgate.materialized_views",
    "write": "INSERT INTO s.t VALUES (1, 'a')",
    "write of a query": "INSERT INTO s.t SELECT * FROM s.mv",
    "merge": "MERGE INTO s.t USING s.u ON t.a = u.a WHEN MATCHED THEN DELETE",
    "drop": "DROP VIEW IF EXISTS s.mv",
    "table with a path": "CREATE TABLE s.u USING parquet OPTIONS (path '/lake/u') AS SELECT * FROM s.mv",
    "temporary view": "CREATE TEMPORARY VIEW v AS SELECT * FROM s.mv",
    "database": "USE s",
    "setting": "SET spark.sql.shuffle.partitions = 4",
    "explanation": "EXPLAIN EXTENDED SELECT * FROM s.mv",
    "name at run time": "DROP VIEW IDENTIFIER(concat('s.', 'mv'))",
    "unknown": "FROBNICATE s.mv WITH 'x'",
    "command": "CREATE MATERIALIZED VIEW s.mv AS SELECT 'a' FROM s.t",
}
RUNNING = {
    "script": f"BEGIN {INNER}; DROP VIEW s.v; SET x = '{INNER}'; END",
    "script that runs a text": f"BEGIN EXECUTE IMMEDIATE '{INNER}'; END",
    "text": f"EXECUTE IMMEDIATE '{INNER}'",
    "text with values": f"EXECUTE IMMEDIATE '{INNER}' USING 1 AS a",
    "text built at run time": f"EXECUTE IMMEDIATE '{INNER}' || x",
    "call": f"CALL run('{INNER}')",
}


@pytest.fixture
def lexings(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each text is lexed."""
    return counted(monkeypatch)


def ask_everything(known: Understood) -> None:
    for name in PARTS if isinstance(known.statement, Forwarded) else ("statement", "look", "composes"):
        getattr(known, name)


@pytest.mark.parametrize("text", STATEMENTS.values(), ids=STATEMENTS.keys())
def test_a_statement_is_lexed_once(text: str, lexings: Counter[str]) -> None:
    ask_everything(Understood(text))
    assert lexings[text] == 1
    assert set(lexings.values()) == {1}


@pytest.mark.parametrize("text", RUNNING.values(), ids=RUNNING.keys())
def test_a_text_within_a_statement_is_lexed_once_more(text: str, lexings: Counter[str]) -> None:
    ask_everything(Understood(text))
    assert (lexings[text], lexings[INNER]) == (1, 1)
    assert set(lexings.values()) == {1}


@pytest.mark.parametrize("text", [*STATEMENTS.values(), *RUNNING.values()])
def test_a_reading_from_another_process_is_the_same(text: str) -> None:
    here, there = Understood(text), Understood(text)
    there.packed = packed(*pickle.loads(pickle.dumps(there.recipe)))
    names = PARTS if isinstance(here.statement, Forwarded) else ("statement", "look", "composes", "start", "shown")
    assert {name: getattr(there, name) for name in names} == {name: getattr(here, name) for name in names}


def test_a_part_is_computed_once() -> None:
    known = Understood("SELECT * FROM s.mv")
    assert known.statement is known.statement
    assert known.places is known.places


def test_a_part_that_is_too_large_does_not_affect_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(understood, "PART_BYTES_MAX", 300)
    known = Understood("SELECT 1 FROM " + ", ".join(f"t{number}" for number in range(100)))
    known.packed = packed(*known.recipe)
    assert known.start == 0
    with pytest.raises(TooMuch):
        known.statement  # noqa: B018


def test_the_text_that_another_statement_runs_is_never_a_command() -> None:
    text = "CREATE MATERIALIZED VIEW s.mv AS SELECT 1"
    assert not isinstance(Understood(text).statement, Forwarded)
    assert not Understood(text, ours=False).sparks.exact


def test_another_spelling_keeps_the_statement() -> None:
    known = Understood("INSERT INTO s.t SELECT '${x}'")
    respelled = known.respelled("INSERT INTO s.t SELECT 'location'")
    assert respelled.statement is known.statement
    assert "location" in respelled.look.words
    assert "location" not in known.respelled("INSERT INTO s.t SELECT 'location'", words=True).look.words


def test_fewer_reads_change_only_the_statement() -> None:
    known = Understood("SELECT * FROM s.mv, s.t")
    fewer = known.with_reads(known.sparks.reads[1:])
    assert [read.parts for read in fewer.sparks.reads] == [("s", "t")]
    assert [read.parts for read in known.sparks.reads] == [("s", "mv"), ("s", "t")]
    assert fewer.lexed is known.lexed
