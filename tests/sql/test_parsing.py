"""Tests that sqlglot tries a bounded number of readings of any text."""

from __future__ import annotations

import threading

import pytest
from sqlglot.dialects.dialect import Dialect

from sql.lexed import Lexed
from sql.reading import parsing
from sql.reading.doubts import adapted
from sql.reading.effects import forwarded as forwarded_from
from sql.reading.lineage import parsed_closely, query_tree
from sql.reading.parsing import SPARK, Doubt, trees_of
from sql.rewriting import dialect
from sql.rewriting.shape import shape_of
from sql.statement import Forwarded

LEVELS = 30
"""sqlglot would take hours."""
OPENINGS = [
    *("TRIM(", "SUBSTRING(", "LISTAGG(", "CEIL(", "FLOOR(", "INITCAP(", "STRING_AGG(", "GROUP_CONCAT(", "DECODE("),
    *("OPENJSON(", "XMLTABLE(", "JSON_TABLE(", "CAST(", "EXTRACT(", "CONVERT(", "POSITION(", "f(", "DECIMAL("),
]
JOINS = ["JOIN", "LEFT JOIN", "RIGHT OUTER JOIN", "INNER JOIN", "LEFT SEMI JOIN", "FULL JOIN"]
FRAMES = [
    "SELECT a FROM s.v {}",
    "INSERT INTO s.t SELECT a FROM s.v {}",
    "SELECT a, b, (SELECT c FROM s.v {}), d FROM u",
    "SELECT a FROM u WHERE a IN (SELECT c FROM s.v {})",
    "DELETE FROM s.t WHERE EXISTS (SELECT 1 FROM s.v {})",
    "WITH c AS (SELECT a FROM s.v {}) SELECT * FROM c",
    "MERGE INTO s.t USING (SELECT a FROM s.v {}) x ON t.a = x.a WHEN MATCHED THEN DELETE",
    "SELECT a FROM u UNION ALL SELECT a FROM s.v {}",
]


def nested(opening: str, join: str = "JOIN", levels: int = LEVELS) -> str:
    return f'"y" {join} ' + f'{opening}"y" {join} ' * levels + '"y"' + ")" * levels


def forwarded(text: str) -> Forwarded:
    found = forwarded_from(Lexed(text), text.split(maxsplit=1)[0].lower())
    assert isinstance(found, Forwarded)
    return found


def check(text: str) -> None:
    found = forwarded(text)
    assert ("s", "v") in {read.parts for read in found.reads}
    assert ("s", "t") in found.writes or "s.t" not in text
    # Doubtful texts count as reading and writing all that they mention.
    assert found.exact or "y" in {read.parts[-1] for read in found.reads}


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("opening", OPENINGS)
def test_joins_within_calls(opening: str, frame: str) -> None:
    check(frame.format(nested(opening)))


@pytest.mark.parametrize("join", JOINS)
@pytest.mark.parametrize("frame", FRAMES)
def test_joins_of_every_kind(join: str, frame: str) -> None:
    check(frame.format(nested("TRIM(", join)))


@pytest.mark.parametrize("opening", OPENINGS)
def test_parsers_of_sqlglot_stop(opening: str) -> None:
    text = f"SELECT a FROM s.v {nested(opening)}"
    with pytest.raises(Doubt):
        query_tree(Lexed(text))
    shape = shape_of(text)
    if shape is not None:
        with pytest.raises(Doubt):
            dialect.parsed(shape)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1 FROM s.v " + "JOIN u " * LEVELS,
        "SELECT 1 FROM s.v LEFT JOIN " + "(u LEFT JOIN TRIM(u LEFT JOIN " * LEVELS + "u" + "))" * LEVELS,
        "DELETE FROM s.t WHERE a = " + "DECIMAL(" * LEVELS + "1" + ")" * LEVELS,
        "SELECT * FROM s.v, " + "LATERAL(" * LEVELS + "SELECT 1" + ")" * LEVELS,
        "SELECT CAST(a AS " + "ARRAY<" * 90 + "INT" + ">" * 90 + ") FROM s.v",
        "SELECT CAST(a AS " + "STRUCT<a: DECIMAL(" * LEVELS + "1" + ")>" * LEVELS + ") FROM s.v",
    ],
)
def test_other_nests(text: str) -> None:
    found = parsed_closely(Lexed(text))
    assert not found.exact


def test_the_names_of_a_doubtful_text_count() -> None:
    found = forwarded(f"INSERT INTO s.t SELECT a FROM s.v {nested('TRIM(')}")
    assert not found.exact
    assert "too many readings" in found.reason
    assert {("s", "v"), ("s", "t")} <= {read.parts for read in found.reads}


def test_a_long_text_has_more_steps() -> None:
    """Lists of operands have one step for each, and are not nested."""
    items = ", ".join(f"f{number}(a{number} + 1)" for number in range(3_000))
    assert parsed_closely(Lexed(f"SELECT {items} FROM s.v")).exact


@pytest.mark.parametrize(
    "nest", ["SELECT 1 FROM a " + "JOIN b " * LEVELS, "SELECT 1 + " + "DECIMAL(" * LEVELS + "1" + ")" * LEVELS]
)
def test_each_parse_has_steps_of_its_own(nest: str) -> None:
    """A parse that was ended takes nothing from the next one, or from other threads."""
    for _ in range(2):
        with pytest.raises(Doubt, match="too many readings"):
            trees_of(list(adapted(SPARK.tokenize(nest))), nest)
        assert parsed_closely(Lexed("SELECT a FROM t JOIN u ON t.a = u.a")).exact
    seen: list[bool] = []
    thread = threading.Thread(target=lambda: seen.append(parsed_closely(Lexed("SELECT a FROM t")).exact))
    thread.start()
    thread.join()
    assert seen == [True]


def test_sqlglot_looks_at_the_tables_that_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another release of sqlglot may not look at one of them, and would then have no limit."""
    monkeypatch.setattr(parsing, "STEPS", 0)
    monkeypatch.setattr(parsing, "STEPS_A_TOKEN", 0)
    for text in ("SELECT a", "SELECT 1 FROM a JOIN b", "SELECT CAST(a AS INT)"):
        with pytest.raises(Doubt):
            trees_of(SPARK.tokenize(text), text)
    assert set(parsing.COUNTED) <= set(dir(Dialect.get_or_raise("spark").parser_class))
