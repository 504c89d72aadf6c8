"""Compares the lexer, and the coarse pieces that it gives for shapes of queries, with Spark's own lexer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle.corpus import statements
from oracle.mutation import Texts
from oracle.plans import APART, Piece, lexed

from sql.scan import coarse_pieces, is_torn, lexemes

SEED = 20_261_128
MUTATED = 6_000
RANDOM = 20_000
SIGNS = (*"ab.;/*+-'\"`\\ \n\rRx1e<>=!|:,()", "/*", "*/", "/*+", "--", "''", "\\'", "1.5", "r'")
_KINDS = {"STRING_LITERAL": "s", "DOUBLEQUOTED_STRING": "s", "BACKQUOTED_IDENTIFIER": "q"}
_OUR_KINDS = {"string": "s", "quoted": "q"}


def random_texts(count: int) -> list[str]:
    random = Random(SEED)
    return ["".join(random.choices(SIGNS, k=random.randint(1, 16))) for _ in range(count)]


def sampled(count: int) -> list[str]:
    texts = Texts(statements(), SEED)
    return [texts.sample(number).text for number in range(count)]


def is_refused(text: str, tokens: Sequence[Piece]) -> bool:
    """Whether Spark refuses the text because of its tokens: an open quote, or an address as a name (`a://b--c`)."""
    return any(
        (kind == "UNRECOGNIZED" and text[start] in "'\"`") or (kind == "IDENTIFIER" and "://" in text[start:end])
        for kind, start, end in tokens
    )


def of_spark(text: str, tokens: Sequence[Piece]) -> list[Piece]:
    """Spark's tokens outside of hints; a hint without an end is none. Control characters that Spark does not know, and
    so refuses, are blanks to us."""
    found: list[Piece] = []
    place = 0
    while place < len(tokens):
        each = tokens[place]
        ends = (at for at in range(place, len(tokens)) if tokens[at].kind == "HENT_END")
        if each.kind == "HENT_START" and (end := next(ends, None)) is not None:
            place = end
        elif not text[each.start : each.end].isspace():
            found.append(each)
        place += 1
    return found


def marked(text: str, pieces: Iterable[tuple[str, int, int]]) -> str:
    """The text with a letter in place of each character: of a string, of a quoted name, of another token; blanks
    between tokens."""
    marks = [" "] * len(text)
    for kind, start, end in pieces:
        marks[start:end] = kind * (end - start)
    return "".join(marks)


def is_split_alike(text: str, tokens: Sequence[Piece]) -> bool:
    """Whether the same characters are strings, names, other tokens and blanks, and every token of Spark's consists of
    lexemes."""
    expected, found = of_spark(text, tokens), list(lexemes(text))
    theirs = marked(text, [(_KINDS.get(each.kind, "w"), each.start, each.end) for each in expected])
    ours = marked(text, [(_OUR_KINDS.get(each.kind, "w"), each.start, each.end) for each in found])
    edges = {edge for each in found for edge in (each.start, each.end)}
    return theirs == ours and all({each.start, each.end} <= edges for each in expected)


@pytest.mark.parametrize("texts", [random_texts(RANDOM), sampled(MUTATED)], ids=["random", "mutated"])
def test_texts_are_split_as_by_spark(texts: list[str]) -> None:
    texts = [text for text in texts if text and APART.isdisjoint(text)]
    compared = [(text, found) for text, found in zip(texts, lexed(texts), strict=True) if not is_refused(text, found)]
    assert [text for text, found in compared if not is_split_alike(text, found)] == []
    assert len(compared) > len(texts) / 4


def agree(text: str) -> bool:
    """Whether the coarse pieces consist of the text's lexemes, if they claim to."""
    coarse = coarse_pieces(text)
    kept = [each for each in coarse if not each.startswith(("--", "/*"))]
    if any(map(is_torn, coarse[-1:])) or any(is_torn(each) for each in coarse if each.startswith("/*")):
        return True
    return [part.text for each in kept for part in lexemes(each)] == [each.text for each in lexemes(text)]


@settings(max_examples=2_000, deadline=None)
@given(st.lists(st.sampled_from(SIGNS), max_size=16).map("".join))
def test_coarse_pieces_consist_of_lexemes(text: str) -> None:
    assert agree(text)


def test_coarse_pieces_of_statements_consist_of_lexemes() -> None:
    assert [text for text in (*sampled(MUTATED), *random_texts(RANDOM)) if not agree(text)] == []


@pytest.mark.parametrize(
    "text",
    [
        "SELECT /*+ f('*/') */ a -- '\n FROM t",
        "SELECT /*+ f(/* */) */ a",
        "SELECT 1 /* /* */ */",
        "SELECT 'a''",
        "SELECT x'a",
        "/*",
    ],
)
def test_what_ends_elsewhere_to_spark_is_torn(text: str) -> None:
    coarse = coarse_pieces(text)
    assert any(is_torn(each) for each in coarse if each.startswith("/*") or each is coarse[-1])
