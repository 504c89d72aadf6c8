"""Tests the cheap scan: the first word, and a set of words that misses none."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sql.classify import glance
from sql.lexed import Lexed
from sql.names import quote


def words_of(text: str) -> frozenset[str]:
    found = glance(Lexed(text)).words
    assert isinstance(found, frozenset), "so many words are kept in bounded space"
    return found


@pytest.mark.parametrize(
    ("text", "keyword"),
    [
        ("SELECT 1", "select"),
        ("  ((select 1))", "select"),
        ("-- a\n/* b /* c */ */ ( -- d\n With x", "with"),
        ("/*+ hint */ SELECT", "select"),
        ("-- only a comment", ""),
        ("/* open", ""),
        ("/", ""),
        ("-1", ""),
        ("", ""),
        ("`select` 1", ""),
        ("/* /*+ */ select /* */", "select"),
        ("u\u017fe s", "use"),
        ("\u0131nsert into t", "insert"),
    ],
)
def test_the_first_word_is_found(text: str, keyword: str) -> None:
    assert glance(Lexed(text)).keyword == keyword


@given(
    st.text(st.characters(blacklist_categories=["Cs"]), min_size=1),
    st.sampled_from(["", "x", "`", "it's `", "-- `\n", "/* ' */", "'`' '`'"]),
)
def test_every_backquoted_name_is_a_word(name: str, before: str) -> None:
    words = words_of(f"SELECT {before} {quote(name)} FROM t")
    assert name.lower() in words


@pytest.mark.parametrize("text", ['SELECT * FROM ice."My-Db"."o n"', 'TABLE "My-Db" . "o n"', '"My-Db"."o n'])
def test_double_quoted_names_are_words(text: str) -> None:
    assert all(word in words_of(text) for word in ("my-db", "o n"))


def test_a_name_that_contains_a_double_quote_is_a_word() -> None:
    assert 'not_"there' in words_of('FROM "not_""there"')
    assert 'mv"mv' in words_of("""ALTER/* ' */VIEW db."mv""mv"RENAME TO"mv2\"""")
    assert 'mv"mv' in words_of("""-- "\nALTER VIEW db."mv""mv" RENAME TO x""")
    assert "/*t" in words_of('FROM/* /* x */*/"/*t"')
    assert "t.u" in words_of('CREATE TABLE IF NOT EXISTS "t.u" (a INT)')


def test_dotted_names_are_split() -> None:
    words = words_of("SELECT * FROM `Proj-x.Ds`.MV, été.t1")
    assert {"proj-x.ds", "proj-x", "ds", "mv", "été", "t1"} <= words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (r"EXECUTE IMMEDIATE 'SELECT n FROM\ns.mv'", {"s", "mv"}),
        (r"EXECUTE IMMEDIATE 'INSERT INTO\ts.t VALUES (1)'", {"insert", "into", "s", "t"}),
        (r"BEGIN EXECUTE IMMEDIATE '\u0044ROP \VIEW \155v'; END", {"drop", "view", "mv"}),
        ("EXECUTE IMMEDIATE 'FROM m' 'v'", {"mv"}),
        (r"EXECUTE IMMEDIATE 'EXECUTE IMMEDIATE \'FROM\\nmv\''", {"mv"}),
        (r"SELECT * FROM IDENTIFIER('s.\155v')", {"mv"}),
        (r"CALL lake.system.drop('s\u002emv')", {"s", "mv"}),
        ("u\u017fe s", {"use", "s"}),
        ("SELECT * FROM `\u03b1\u03a3`.`x`, \u017ft", {"\u03b1\u03c2", "x", "\u017ft"}),
    ],
)
def test_words_of_texts_in_literals_are_found(text: str, words: set[str]) -> None:
    assert words <= words_of(text)


@pytest.mark.parametrize(
    ("text", "maybe"),
    [
        ("CREATE MATERIALIZED VIEW x AS SELECT 1", True),
        ("call `bq`.`refresh_materialized_view`('x')", True),
        ("CREATE TABLE materialized (a INT)", True),
        ("SELECT * FROM materialized", False),
        ("CREATE TABLE t (a INT)", False),
    ],
)
def test_a_possible_own_statement_is_recognized(text: str, maybe: bool) -> None:
    assert glance(Lexed(text)).maybe_command is maybe


@given(st.text(st.characters(max_codepoint=127)))
def test_the_words_of_a_text_without_quotes_are_those_of_a_regular_expression(text: str) -> None:
    assert set(re.findall(r"\w+", text.lower())) <= words_of(text)
    unquoted = text.replace("`", "").replace('"', "")
    assert words_of(unquoted) == set(re.findall(r"\w+", unquoted.lower()))
