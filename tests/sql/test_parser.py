"""The grammar of the gateway's own statements: the cases of commands.sql, and a round trip."""

from __future__ import annotations

from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sql.classify import classify
from sql.names import quote
from sql.parser import SyntaxProblem, parse
from sql.rewrite import safe_literal
from sql.scan import string_value
from sql.statement import Column, Command, CreateMaterializedView, Forwarded
from tests.sql.cases import load


def shown(command: Command) -> str:
    """One line: the kind and each field that is not the default."""
    said = [type(command).__name__]
    for item in fields(command):
        value = getattr(command, item.name)
        if value in (None, False, ()):
            continue
        if item.name == "name":
            value = ".".join(value)
        elif item.name == "columns":
            value = ",".join(column.name + (f":{column.comment}" if column.comment else "") for column in value)
        elif item.name == "properties":
            value = ",".join(f"{key}={text}" for key, text in value)
        else:
            value = repr(value)
        said.append(f"{item.name}={value}")
    return " ".join(said)


@pytest.mark.parametrize(("text", "expected"), load("commands.sql"))
def test_case(text: str, expected: str) -> None:
    if not expected.startswith("SyntaxProblem "):
        assert shown(classify(text)) == expected
        return
    with pytest.raises(SyntaxProblem) as caught:
        classify(text)
    assert caught.value.message.startswith(expected.removeprefix("SyntaxProblem "))
    assert 0 <= caught.value.position <= len(text)


names = st.text(st.characters(blacklist_categories=["Cs"]), min_size=1, max_size=6)
texts = st.text(st.characters(blacklist_categories=["Cs"]), max_size=12)


@given(
    st.lists(names, min_size=1, max_size=3).map(tuple),
    st.lists(st.builds(Column, names, st.none() | texts), max_size=3).map(tuple),
    st.none() | texts,
    st.dictionaries(names, texts, max_size=3),
    st.booleans(),
    st.sampled_from(["", "\n", " -- note\n", "/* a /* b */ */"]),
)
def test_what_is_written_is_read(
    name: tuple[str, ...],
    columns: tuple[Column, ...],
    comment: str | None,
    properties: dict[str, str],
    replace: bool,
    blank: str,
) -> None:
    query = "SELECT ';' AS `a;b` FROM t"
    listed = ", ".join(
        quote(column.name) + (f" COMMENT {safe_literal(column.comment)}" if column.comment is not None else "")
        for column in columns
    )
    text = f"{blank}CREATE {'OR REPLACE ' if replace else ''}MATERIALIZED{blank} VIEW {'.'.join(map(quote, name))}"
    text += f"({listed})" if columns else ""
    if properties:
        pairs = ", ".join(f"{safe_literal(key)} = {safe_literal(value)}" for key, value in properties.items())
        text += f" TBLPROPERTIES ({pairs})"
    text += f" COMMENT {safe_literal(comment)}" if comment is not None else ""
    text += f" AS {blank}{query}{blank} ; {blank}"
    assert parse(text) == CreateMaterializedView(name, query, columns, comment, tuple(properties.items()), replace)


@given(texts)
def test_a_safe_literal_reads_back(text: str) -> None:
    literal = safe_literal(text)
    assert string_value(literal) == text
    assert "${" not in literal


@pytest.mark.parametrize(
    ("literal", "value"),
    [
        (r"'a\nb\t\\'", "a\nb\t\\"),
        (r"'\u00e9\U0001F600\101'", "é😀A"),
        (r"'100\%'", r"100\%"),
        ("r'\\n'", "\\n"),
        ('"it\'\'s ""x"""', "it''s \"x\""),
    ],
)
def test_escapes(literal: str, value: str) -> None:
    assert string_value(literal) == value


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM materialized",
        "SELECT 1 AS materialized",
        "SELECT materialized view FROM t",
        "CREATE VIEW materialized AS SELECT 1",
        "CREATE TABLE materialized (view INT)",
        "CREATE TABLE x AS SELECT * FROM materialized view",
        "CREATE OR REPLACE VIEW v AS SELECT 'CREATE MATERIALIZED VIEW x AS SELECT 1'",
        "-- CREATE MATERIALIZED VIEW x AS SELECT 1\nSELECT 1",
        "/* DROP MATERIALIZED VIEW x */ DROP TABLE materialized",
        "DROP VIEW materialized",
        "DROP TABLE `materialized view`",
        "REFRESH TABLE materialized",
        "REFRESH materialized",
        "SHOW TABLES IN materialized LIKE 'views'",
        "SHOW VIEWS IN materialized",
        "DESCRIBE materialized",
        "EXPLAIN CREATE MATERIALIZED VIEW x AS SELECT 1",
        "CALL other.refresh_materialized_view('x')",
        "CALL bq.refresh('x')",
        "SELECT bq.refresh_materialized_view('x')",
        "`CREATE` MATERIALIZED VIEW x AS SELECT 1",
        "",
        ";",
    ],
)
def test_what_spark_may_take_is_not_ours(text: str) -> None:
    assert isinstance(classify(text), Forwarded)
