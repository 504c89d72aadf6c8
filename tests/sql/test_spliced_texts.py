"""Tests splicing, inline tables, and the mentions of INFORMATION_SCHEMA.MATERIALIZED_VIEWS."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sql.classify import classify
from sql.lexed import Lexed
from sql.names import TableName
from sql.statement import Forwarded, Reference
from sql.texts.literals import inline_line, inline_lines, partition_value, safe_literal
from sql.texts.rewrite import (
    PLACES_MAX,
    REWRITTEN_CHARACTERS_MAX,
    UNREAD,
    catalog_references,
    places,
    replacement,
    splice,
)


@given(st.text(), st.data())
def test_splice_changes_only_the_ranges(text: str, data: st.DataObject) -> None:
    edges = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    ranges = list(zip(edges[::2], edges[1::2], strict=False))
    marked = splice(text, [(start, end, f"<{text[start:end]}>") for start, end in reversed(ranges)])
    assert len(marked) == len(text) + 2 * len(ranges)
    assert splice(text, [(start, end, text[start:end]) for start, end in ranges]) == text
    assert splice(text, []) == text


@pytest.mark.parametrize("ranges", [[(0, 2, ""), (1, 3, "")], [(2, 1, "")], [(0, 9, "")], [(-1, 1, "")]])
def test_splice_refuses_ranges_that_overlap_or_leave_the_text(ranges: list[tuple[int, int, str]]) -> None:
    with pytest.raises(ValueError, match="overlaps"):
        splice("abcd", ranges)


_FORM = re.compile(r"(?:'([^'\\]*)'|(CAST\()?X'([0-9a-f]*)'(?(2) AS STRING\)))")
"""A literal without characters whose meaning depends on the session's settings or on the substitution of variables."""


@given(st.text(st.characters(blacklist_categories=["Cs"])) | st.text("a \\'\"${}%\n`", max_size=8))
@example("${x}")
@example("\\")
@example("it's")
def test_a_literal_means_the_same_in_every_session(text: str) -> None:
    for literal, cast in ((safe_literal(text), True), (partition_value(text), False)):
        found = _FORM.fullmatch(literal)
        assert found is not None
        plain, casts, digits = found.groups()
        assert text == (plain if digits is None else bytes.fromhex(digits).decode())
        assert "${" not in literal
        assert digits is None or bool(casts) is cast


def test_an_inline_table_casts_each_column() -> None:
    odd = "it's ${x}\\"
    columns = [("a b", "STRING"), ("n", "BIGINT"), ("t", "TIMESTAMP"), ("f", "BOOLEAN")]
    rows = [(odd, 2**40, "2026-11-21T02:01:32.5+01:00", True), (None, None, None, None)]
    text = inline_lines(columns, [inline_line(columns, row) for row in rows])
    assert text == (
        "(SELECT CAST(c0 AS STRING) AS `a b`, CAST(c1 AS BIGINT) AS `n`, CAST(c2 AS TIMESTAMP_LTZ) AS `t`, "
        f"CAST(c3 AS BOOLEAN) AS `f` FROM VALUES (CAST(X'{odd.encode().hex()}' AS STRING), 1099511627776, "
        "timestamp_micros(1795222892500000), TRUE), (NULL, NULL, NULL, NULL) AS t(c0, c1, c2, c3))"
    )


def test_an_inline_table_may_be_empty() -> None:
    text = inline_lines([("a", "STRING")], [])
    assert text == "(SELECT CAST(c0 AS STRING) AS `a` FROM VALUES (NULL) AS t(c0) WHERE FALSE)"


@given(st.lists(st.tuples(st.text(st.characters(blacklist_categories=["Cs"])), st.none() | st.integers()), max_size=4))
def test_an_inline_table_reads_no_relation(rows: list[tuple[str, int | None]]) -> None:
    columns = [("a", "STRING"), ("n", "BIGINT")]
    text = f"SELECT * FROM {inline_lines(columns, [inline_line(columns, row) for row in rows])} AS x JOIN db.t"
    found = classify(Lexed(text))
    assert isinstance(found, Forwarded)
    assert [reference.parts for reference in found.reads if found.exact] in ([("db", "t")], [])
    assert found.exact or "{" in text


@pytest.mark.parametrize(
    ("name", "database"),
    [
        ("INFORMATION_SCHEMA.MATERIALIZED_VIEWS", None),
        ("Db.information_schema.Materialized_Views", "db"),
        ("cat.db.INFORMATION_SCHEMA.MATERIALIZED_VIEWS", "db"),
        ("`proj.ds`.INFORMATION_SCHEMA.MATERIALIZED_VIEWS", "ds"),
        ("`proj-x.ds.INFORMATION_SCHEMA.MATERIALIZED_VIEWS`", "ds"),
        ("spark_catalog.INFORMATION_SCHEMA.MATERIALIZED_VIEWS", None),
    ],
)
def test_mentions_of_the_information_schema_are_replaced(name: str, database: str | None) -> None:
    text = f"SELECT * FROM {name} JOIN {name} AS m USING (table_name) WHERE x = '{name}'"
    found = classify(Lexed(text))
    assert isinstance(found, Forwarded)
    mentions = catalog_references(found)
    assert [limit for _, _, limit in mentions] == [database, database]
    assert _replaced(text, [reference for reference, *_ in mentions], "MATERIALIZED_VIEWS") == (
        f"SELECT * FROM (Q) AS MATERIALIZED_VIEWS JOIN (Q) AS m USING (table_name) WHERE x = '{name}'"
    )


def _replaced(text: str, references: Sequence[Reference], alias: str) -> str:
    around = places(Lexed(text))
    return splice(text, [each for reference in references for each in replacement(around, reference, "(Q)", alias)])


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM db.MATERIALIZED_VIEWS",
        "SELECT 'INFORMATION_SCHEMA.MATERIALIZED_VIEWS'",
        "EXECUTE IMMEDIATE 'SELECT * FROM INFORMATION_SCHEMA.MATERIALIZED_VIEWS'",
    ],
)
def test_other_names_and_strings_are_no_mentions(text: str) -> None:
    found = classify(Lexed(text))
    assert isinstance(found, Forwarded)
    assert catalog_references(found) == ()


@pytest.mark.parametrize("between", [" ", "\n", "/* a */", " -- TABLE\n"])
def test_a_table_statement_becomes_a_query(between: str) -> None:
    text = f"SELECT 1 UNION ALL table{between}information_schema.materialized_views"
    found = classify(Lexed(text))
    assert isinstance(found, Forwarded)
    ((reference, *_),) = catalog_references(found)
    assert _replaced(text, [reference], "M") == "SELECT 1 UNION ALL SELECT * FROM (Q) AS M"


def test_a_region_limits_to_no_database() -> None:
    found = classify(Lexed("SELECT * FROM `region-eu`.INFORMATION_SCHEMA.MATERIALIZED_VIEWS"))
    assert isinstance(found, Forwarded)
    assert [database for _, _, database in catalog_references(found)] == [None]


def test_the_own_schema_is_not_found_in_another_catalog() -> None:
    found = classify(Lexed("SELECT * FROM Freshgate.materialized_views JOIN other.freshgate.materialized_views"))
    assert isinstance(found, Forwarded)
    ((reference, schema, database),) = catalog_references(found)
    assert (reference.parts, schema, database) == (("Freshgate", "materialized_views"), "freshgate", None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT db.mv.a FROM db.mv", True),
        ("SELECT `DB` . `mv`.a FROM mv", True),
        ('SELECT db."mv".a FROM db.mv', True),
        ("SELECT a FROM db.mv TABLESAMPLE (10 ROWS)", True),
        ("SELECT a FROM db.mv VERSION AS OF 3", True),
        ("SELECT mv.a FROM db.mv", False),
        ("SELECT CAST(a AS TIMESTAMP) AS ofs FROM db.mv", False),
    ],
)
def test_a_subquery_may_break_some_texts(text: str, expected: bool) -> None:
    assert places(Lexed(text)).disturb(TableName("db", "mv")) is expected


def test_a_long_text_is_not_scanned() -> None:
    assert places(Lexed("SELECT 1" + " " * REWRITTEN_CHARACTERS_MAX)) == UNREAD
    assert places(Lexed("SELECT " + ", ".join(f"a.b{number}.c" for number in range(PLACES_MAX + 1)))) == UNREAD
    assert places(Lexed("SELECT a")).disturb(TableName("db", "mv")) is False
    assert UNREAD.disturb(TableName("db", "mv"))
