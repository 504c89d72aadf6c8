"""Tests that SQL formatted for display stays the same statement (test_spark_parser.py asks Spark's parser)."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
import sqlparse
import statement_cases
from hypothesis import given
from hypothesis import strategies as st

from sql.grammar.parser import parse
from sql.lexed import Lexed
from sql.scan import lexemes
from sql.statement import CreateClauses, CreateMaterializedView
from sql.texts.create_text import create_statement
from sql.texts.indentation import CHARACTERS_MAX, indented

HERE = Path(__file__).parent


@cache
def definitions() -> list[str]:
    """Returns the queries of the views in the case files."""
    files = sorted(path.relative_to(HERE).as_posix() for path in HERE.rglob("*.sql"))
    texts = [
        text
        for name in files
        for text, result in statement_cases.load(name)
        if result.startswith("CreateMaterializedView")
    ]
    parsed = [parse(Lexed(text)) for text in texts]
    return [each.query for each in parsed if isinstance(each, CreateMaterializedView)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT 1", "SELECT 1"),
        ("SELECT  a FROM t", "SELECT a\nFROM t"),
        (
            "WITH c AS (SELECT * FROM t) SELECT c.a, x.b FROM c JOIN t AS x ON c.a = x.a -- both",
            "WITH c AS\n  (SELECT *\n   FROM t)\nSELECT c.a, x.b\nFROM c\nJOIN t AS x ON c.a = x.a -- both",
        ),
        ("FROM t SELECT a WHERE x IN ( 1,2 )", "FROM t\nSELECT a\nWHERE x IN (1,2)"),
        (
            "select /*+ BROADCAST(t) */ `A b`, r'\\n', X'1F' from t where a<=>'it''s  ' and b",
            "select /*+ BROADCAST(t) */ `A b`, r'\\n', X'1F'\nfrom t\nwhere a<=>'it''s  '\n  and b",
        ),
    ],
)
def test_a_one_line_statement_is_broken_into_lines(text: str, expected: str) -> None:
    assert indented(text) == expected


def test_the_columns_of_an_insert_fill_lines() -> None:
    columns = ", ".join(f"`column_{number}`" for number in range(20))
    found = indented(f"INSERT INTO `spark_catalog`.`d`.`v` PARTITION (`version`) ({columns}) SELECT {columns} FROM t")
    lines = found.split("\n")
    assert len(lines) <= 8
    assert max(map(len, lines)) <= 120
    assert max(len(line) - len(line.lstrip()) for line in lines) <= 8


def test_a_list_is_not_folded_within_a_literal() -> None:
    texts = ", ".join(f"'some  text,   {'x' * 20} {number}'" for number in range(20))
    text = f"INSERT INTO `spark_catalog`.`d`.`v` PARTITION (`version`) VALUES ({texts}) -- a,  b"
    assert [each.text for each in lexemes(indented(text))] == [each.text for each in lexemes(text)]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT a,\n  b FROM t",
        "SELECT a,\r  b FROM t",
        "SELECT '\n' FROM t",
        f"SELECT a FROM t WHERE b = '{'x' * CHARACTERS_MAX}'",
        # sqlparse gives up at a depth of 100.
        f"SELECT {'(' * 200}a{')' * 200} FROM t",
        # sqlparse knows neither nested comments nor raw strings.
        "SELECT 1 AS a /* x /* y */ , z */ FROM t",
        "SELECT r'\\', ' FROM a, ' FROM t",
        "",
    ],
)
def test_a_statement_with_line_breaks_or_that_sqlparse_misreads_is_unchanged(text: str) -> None:
    assert indented(text) == text


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("SELECT a < = b", "SELECT a <= b"),
        ("SELECT a - - b", "SELECT a -\n- b, c"),
        ("SELECT 1 .5", "SELECT 1.5"),
        ("SELECT X '1F'", "SELECT X'1F'"),
        ("SELECT 'a' 'b'", "SELECT 'a''b'"),
        ("SELECT ${x}", "SELECT ${ x}"),
        ("SELECT a", "SELECT A"),
        ("SELECT 'a'", "SELECT 'A'"),
        ("SELECT 'a  b'", "SELECT 'a b'"),
        ("SELECT a -- b", "SELECT a"),
        ("SELECT a /* b */", "SELECT a /* c */"),
        ("SELECT /*+ COALESCE(1) */ a", "SELECT /*+ COALESCE(2) */ a"),
        ("SELECT /*+ COALESCE(1) */ a", "SELECT a"),
        ("SELECT a /* b */ , c", "SELECT a, /* b */ c"),
        ("SELECT a -- b", "-- b SELECT a"),
    ],
)
def test_a_result_with_another_meaning_is_discarded(text: str, changed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlparse, "format", lambda *_, **__: changed)
    assert indented(text) == text


@st.composite
def one_liners(draw: st.DrawFn) -> str:
    """A definition on one line, with other whitespace and more comments between its tokens."""
    definition = draw(st.sampled_from(definitions()))
    hints = [found.span() for found in re.finditer(r"/\*\+.*?\*/", definition, re.DOTALL)]
    spans = sorted(hints + [(piece.start, piece.end) for piece in lexemes(definition)])
    blanks = st.sampled_from([" ", "  ", "\t", " /* c */ ", " /* SELECT /* ' */ */ ", "/**/", " /*+ x */ "])
    pieces, position = list[str](), 0
    for start, end in spans:
        pieces.append(draw(blanks) if start > position else "")
        pieces.append(definition[start:end])
        position = end
    return "".join(pieces).strip() + draw(st.sampled_from(["", " -- the end", " /* the end */"]))


@given(one_liners())
def test_a_formatted_definition_has_the_same_tokens(text: str) -> None:
    formatted = indented(text)
    assert [piece.text for piece in lexemes(formatted)] == [piece.text for piece in lexemes(text)]
    assert remarks(formatted) == remarks(text)
    assert indented(formatted) == formatted
    parsed = parse(Lexed(create_statement("`mv`", (), None, CreateClauses(), (), formatted)))
    assert isinstance(parsed, CreateMaterializedView)
    # A definition ends with its last token; comments after it are not part of it.
    assert formatted.startswith(parsed.query)
    assert all(piece.start < len(parsed.query) for piece in lexemes(formatted))


def remarks(text: str) -> list[str]:
    """Returns the comments and hints, those between the same two lexemes together."""
    ends = [0, *(piece.end for piece in lexemes(text))]
    starts = [*(piece.start for piece in lexemes(text)), len(text)]
    return [" ".join(words) for end, start in zip(ends, starts, strict=True) if (words := text[end:start].split())]


def test_every_definition_with_a_table_is_broken_into_lines() -> None:
    joined = [" ".join(text.split()) for text in definitions() if "--" not in text]
    reading = [text for text in joined if " FROM " in text.upper()]
    assert len(reading) > 30
    assert [text for text in reading if "\n" not in indented(text)] == []
