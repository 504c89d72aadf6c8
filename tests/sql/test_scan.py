"""Tests Spark's lexical rules for comments, hints, strings and names, and the texts in strings that may be run."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sql.lexed import DEPTH_MAX, Lexed, Within
from sql.scan import Lexeme, folded, lexemes, string_value


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("/* /*+ */ a", ["a"]),
        ("/* a /* b */ c */ d", ["d"]),
        ("/* /* /*+ */ */ a", ["a"]),
        ("/* /*+ /* */ */ a */ b", ["a", "*/", "b"]),
        ("/* //*/ b */ c", []),
        ("/*/ a */ b", ["b"]),
        ("a /*+ b('x */') -- */\n */ c", ["a", "c"]),
        ("a /*+ /* x */ */ b", ["a", "b"]),
        ("a /*+ 'b' c", ["a", "/", "*", "+", "'b'", "c"]),
        ("-- a\\\nb\nc", ["c"]),
        ("-- a\\\r\nb", ["b"]),
        ("r'a\\' b", ["r'a\\'", "b"]),
        ("1r'a'", ["1r", "'a'"]),
        ("a\u3000b\u00a0c\x0bd", ["a", "b", "c", "d"]),
    ],
)
def test_a_text_is_split_into_lexemes(text: str, pieces: list[str]) -> None:
    """The expected lexemes are those of Spark 4.1.4's lexer."""
    assert [piece.text for piece in lexemes(text)] == pieces


def test_unclosed_hints_take_no_quadratic_time() -> None:
    assert len(list(lexemes("/*+ " * 50_000))) == 150_000


def test_unclosed_quotes_take_no_quadratic_time() -> None:
    """In quadratic time, a text of this length would take minutes."""
    text = "'\\" * 50_000
    assert len(list(lexemes(text + "--"))) == len(text)


@pytest.mark.parametrize(
    ("literal", "value"),
    [
        (r"'\101\177\200\400'", "A\x7f200400"),
        (r"'\ud83d\ude00 \U0001F600'", "\U0001f600 \U0001f600"),
        (r"'U\SE \u0073\n'", "USE s\n"),
        (r"R'a\n'", r"a\n"),
        ("'it''s'", "it's"),
    ],
)
def test_escapes_in_a_literal_are_resolved(literal: str, value: str) -> None:
    assert string_value(literal) == value


def test_keywords_are_folded_as_in_java() -> None:
    assert folded("u\u017fe DROP v\u0131ew \u212a") == "use drop view k"


SIGNS = st.text(st.sampled_from("ab.;/*+-'\"`\\ \n\rR"), max_size=40)


@given(SIGNS)
def test_lexemes_stand_in_the_text_in_order(text: str) -> None:
    pieces = list(lexemes(text))
    assert all(text[piece.start : piece.end] == piece.text for piece in pieces)
    assert all(before.end <= after.start for before, after in pairwise(pieces))


@given(SIGNS)
def test_only_blanks_comments_and_hints_are_passed_over(text: str) -> None:
    end = 0
    for piece in [*lexemes(text), Lexeme("symbol", "", len(text), len(text))]:
        gap = text[end : piece.start].strip()
        assert not gap or gap.startswith(("--", "/*"))
        end = piece.end


@pytest.mark.parametrize(
    ("text", "texts"),
    [
        ("SELECT 1", set()),
        (r"EXECUTE IMMEDIATE 'SELECT n FROM\ns.mv'", {"SELECT n FROM\ns.mv"}),
        ("EXECUTE IMMEDIATE 'FROM s.m' /* c */ -- d\n 'v'", {"FROM s.mv"}),
        ("EXECUTE IMMEDIATE 'FROM m''v'", {"FROM m'v", "FROM mv", "FROM m''v"}),
        (r"BEGIN EXECUTE IMMEDIATE r'D\ROP'; END", {r"D\ROP"}),
        ("SELECT 'a', `'b'`, /* 'c' */ \"d\" -- 'e'", {"a", "d"}),
        ("EXECUTE IMMEDIATE \"EXECUTE IMMEDIATE 'FROM t'\"", {"EXECUTE IMMEDIATE 'FROM t'", "FROM t"}),
        (r"EXECUTE IMMEDIATE 'SELECT \'\x\' FROM t'", {"SELECT 'x' FROM t", "x"}),
    ],
)
def test_texts_in_literals_are_found(text: str, texts: set[str]) -> None:
    """If the value of a literal depends on settings, all possible values are found."""
    assert texts <= {inner.text for inner in within(text).texts}
    assert within(text).whole


def within(text: str) -> Within:
    return Lexed(text).within


def nested(depth: int) -> str:
    text = "EXECUTE IMMEDIATE 'DROP VIEW v'"
    for _ in range(depth):
        text = "EXECUTE IMMEDIATE '" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
    return text


def test_the_search_within_literals_is_bounded() -> None:
    assert "DROP VIEW v" in {inner.text for inner in within(nested(DEPTH_MAX - 1)).texts}
    assert not within(nested(DEPTH_MAX)).whole
    assert not within("EXECUTE IMMEDIATE 'SET spark.sql.parser.escapedStringLiterals = true'").whole
    assert not within("SELECT '" + "x" * 500_000 + "'").whole


@given(st.text(st.sampled_from("abR'\"\\ nu0061`/*")) | st.text())
def test_any_text_can_be_searched(text: str) -> None:
    within(text)
