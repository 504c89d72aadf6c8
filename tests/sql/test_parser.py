"""Tests the parser of the gateway's own statements: the cases of commands.sql, and a round trip."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from statement_cases import is_user_property, load

from sql.classify import classify, glance
from sql.grammar.parser import SyntaxProblem, parse, parse_about
from sql.lexed import Lexed
from sql.names import quote
from sql.scan import string_value
from sql.statement import (
    Command,
    CreateClauses,
    CreateMaterializedView,
    Forwarded,
    Grantee,
    ListedColumn,
    Refreshing,
    Schedule,
)
from sql.texts.literals import string_token


def shown(value: object) -> str:
    """One line: the type and each field that differs from the default. The clauses of CREATE are flattened."""
    return " ".join([type(value).__name__, *shown_fields(value)])


def shown_fields(value: object) -> Iterator[str]:
    for item in fields(value):  # type: ignore[arg-type]
        part = getattr(value, item.name)
        if part == item.default or (item.default is MISSING and part in (None, False, ())):
            continue
        if isinstance(part, Grantee):
            yield f"{item.name}={part}"
        elif isinstance(part, CreateClauses | Refreshing | Schedule):
            yield from shown_fields(part)
        elif item.name in ("change", "statement"):
            yield f"{item.name}={shown(part)}"
        elif is_dataclass(part):
            yield f"{item.name}({' '.join(shown_fields(part))})"
        else:
            yield f"{item.name}={shown_value(item.name, part)}"


def shown_value(name: str, value: Any) -> str:
    match name:
        case "name":
            return ".".join(value)
        case "columns" if isinstance(value[0], ListedColumn):
            return ",".join(column.name + (f":{column.comment}" if column.comment else "") for column in value)
        case "properties":
            return ",".join(f"{key}={text}" for key, text in value)
        case "granted":
            return str(value)
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return repr(str(value) if isinstance(value, str) else value)


FAMILIES = sorted(path.name for path in (Path(__file__).parent / "commands").glob("*.sql"))
CASES = [
    pytest.param(text, expected, id=f"{name}-{number}")
    for name in ("commands.sql", *(f"commands/{family}" for family in FAMILIES))
    for number, (text, expected) in enumerate(load(name), 1)
]


@pytest.mark.parametrize(("text", "expected"), CASES)
def test_own_statement_is_parsed_or_refused(text: str, expected: str) -> None:
    assert glance(Lexed(text)).maybe_command
    if not expected.startswith("SyntaxProblem "):
        assert shown(classify(Lexed(text))) == expected
        return
    with pytest.raises(SyntaxProblem) as caught:
        classify(Lexed(text))
    assert str(caught.value).startswith(expected.removeprefix("SyntaxProblem "))
    assert 0 <= caught.value.position <= len(text)


PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "statements.md").read_text(encoding="utf-8")
EXAMPLES = [
    statement.strip()
    for block in re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)
    for statement in block.split(";")
    if statement.strip()
]


@pytest.mark.parametrize("text", EXAMPLES)
def test_an_example_of_the_documentation_is_parsed(text: str) -> None:
    assert parse(Lexed(text)) is not None


@pytest.mark.parametrize(("text", "expected"), load("about.sql"))
def test_sparks_statement_about_a_name_is_parsed(text: str, expected: str) -> None:
    found = parse_about(Lexed(text))
    assert ("None" if found is None else shown(found)) == expected
    assert isinstance(classify(Lexed(text)), Forwarded)


names = st.text(st.characters(blacklist_categories=["Cs"]), min_size=1, max_size=6)
texts = st.text(st.characters(blacklist_categories=["Cs"]), max_size=12)


@given(
    st.lists(names, min_size=1, max_size=3).map(tuple),
    st.lists(st.builds(ListedColumn, names, st.none() | texts), max_size=3).map(tuple),
    st.none() | texts,
    st.dictionaries(names.filter(is_user_property), texts, max_size=3),
    st.booleans(),
    st.sampled_from(["", "\n", " -- note\n", "/* a /* b */ */"]),
)
def test_a_generated_statement_is_parsed(
    name: tuple[str, ...],
    columns: tuple[ListedColumn, ...],
    comment: str | None,
    properties: dict[str, str],
    replace: bool,
    blank: str,
) -> None:
    query = "SELECT ';' AS `a;b` FROM t"
    listed = ", ".join(
        quote(column.name) + (f" COMMENT {string_token(column.comment)}" if column.comment is not None else "")
        for column in columns
    )
    text = f"{blank}CREATE {'OR REPLACE ' if replace else ''}MATERIALIZED{blank} VIEW {'.'.join(map(quote, name))}"
    text += f"({listed})" if columns else ""
    if properties:
        pairs = ", ".join(f"{string_token(key)} = {string_token(value)}" for key, value in properties.items())
        text += f" TBLPROPERTIES ({pairs})"
    text += f" COMMENT {string_token(comment)}" if comment is not None else ""
    text += f" AS {blank}{query}{blank} ; {blank}"
    assert parse(Lexed(text)) == CreateMaterializedView(
        name, query, columns, comment, tuple(properties.items()), replace
    )


pieces = st.sampled_from(
    [
        *("mv", "`a b`", "'s'", "'2030-01-31'", "1", "0", ".", ",", "(", ")", "[", "]", "=", ";", "'", "`", "-", "--"),
        *("IF", "EXISTS", "AS", "SELECT", "WITH", "NO", "DATA", "COMMENT", "BUILD", "DEFERRED", "REFRESH", "AUTO"),
        *("ON", "SCHEDULE", "EVERY", "HOUR", "STARTS", "CRON", "AT", "TIME", "ZONE", "TRIGGER", "UPDATE", "ASYNC"),
        *("PARTITION", "PARTITIONED", "BY", "DATE_TRUNC", "DISTRIBUTED", "HASH", "RANDOM", "BUCKETS", "CLUSTERED"),
        *("INTO", "SORTED", "CLUSTER", "USING", "ORC", "STORED", "LOCATION", "DUPLICATE", "KEY", "PROPERTIES"),
        *("TBLPROPERTIES", "OPTIONS", "ARRAY", "INTERVAL", "GRACE", "PERIOD", "WHEN", "STALE", "FAIL", "ENABLE"),
        *("REWRITE", "SET", "UNSET", "RENAME", "TO", "OWNER", "REPLACE", "SWAP", "MATERIALIZED", "VIEW", "REBUILD"),
        *("DROP", "ADD", "IS", "NULL", "PARTITIONS", "FULL", "SYNC", "MODE", "EXTENDED", "partitioning", "labels"),
    ]
)
beginnings = st.sampled_from(
    [
        *("CREATE MATERIALIZED VIEW", "CREATE MATERIALIZED VIEW mv", "CREATE OR REPLACE MATERIALIZED VIEW mv WITH ("),
        *("DROP MATERIALIZED VIEW", "REFRESH MATERIALIZED VIEW mv", "ALTER MATERIALIZED VIEW mv", "SHOW", "DESC"),
        *("ALTER MATERIALIZED VIEW mv SET", "EXPLAIN", "COMMENT ON", "ANALYZE", "CALL bq.refresh_materialized_view"),
        *("ALTER VIEW mv", "SHOW TBLPROPERTIES", "DESCRIBE EXTENDED", "SHOW CREATE", "ANALYZE TABLE mv", ""),
    ]
)


def outcome(text: str) -> Command | SyntaxProblem | None:
    try:
        return parse(Lexed(text))
    except SyntaxProblem as problem:
        return problem


@given(beginnings, st.lists(pieces, max_size=14).map(" ".join))
def test_any_text_is_parsed_or_refused(beginning: str, rest: str) -> None:
    text = f"{beginning} {rest}"
    parse_about(Lexed(text))
    found = outcome(text)
    if isinstance(found, SyntaxProblem):
        assert 0 <= found.position <= len(text)
        assert str(found)
        assert found.sqlstate in ("42601", "22023")
    assert found is None or glance(Lexed(text)).maybe_command


@given(texts)
def test_a_string_token_has_the_value_it_was_made_of(text: str) -> None:
    literal = string_token(text)
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
def test_escapes_in_strings_are_resolved(literal: str, value: str) -> None:
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
        "DESCRIBE MATERIALIZED VIEW",
        "DESC EXTENDED materialized view;",
        "DESCRIBE materialized view.field",
        "DESCRIBE MATERIALIZED VIEW AS JSON",
        "DESCRIBE TABLE materialized",
        "DESCRIBE materialized PARTITION (view = 1)",
        "EXPLAIN SELECT * FROM materialized",
        "EXPLAIN CREATE VIEW materialized AS SELECT 1",
        "EXPLAIN REFRESH TABLE materialized",
        "ALTER VIEW materialized RENAME TO view",
        "ALTER TABLE materialized SET TBLPROPERTIES ('a' = 'b')",
        "ANALYZE TABLE materialized COMPUTE STATISTICS",
        "COMMENT ON TABLE materialized IS 'view'",
        "SHOW CREATE TABLE materialized",
        "SHOW COLUMNS IN materialized",
        "SHOW COLUMNS IN jobs",
        "SHOW TABLES IN jobs LIKE 'tasks'",
        "SHOW TABLES LIKE 'jobs'",
        "CALL other.refresh_materialized_view('x')",
        "CALL bq.refresh('x')",
        "SELECT bq.refresh_materialized_view('x')",
        "`CREATE` MATERIALIZED VIEW x AS SELECT 1",
        "",
        ";",
    ],
)
def test_a_statement_that_spark_may_accept_is_forwarded(text: str) -> None:
    assert isinstance(classify(Lexed(text)), Forwarded)
