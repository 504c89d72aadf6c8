"""Finds VERSION AS OF and TIMESTAMP AS OF after the name of a relation.

Spark's grammar (SqlBaseParser.g4, temporalClause): `[FOR] (SYSTEM_VERSION | VERSION) AS OF` a whole number or a string,
`[FOR] (SYSTEM_TIME | TIMESTAMP) AS OF` a value expression. Spark refuses both after a view's name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sql.lexed import Lexed
from sql.names import Parts
from sql.scan import Lexeme, identifier, is_identifier, string_value
from sql.words import Words

_VERSION_WORDS = frozenset({"VERSION", "SYSTEM_VERSION"})
_TIME_WORDS = frozenset({"TIMESTAMP", "SYSTEM_TIME"})
WORDS = frozenset(word.lower() for word in _VERSION_WORDS | _TIME_WORDS)
"""A text without any of these words has no such clause."""
_ENDS = frozenset(
    [
        *("AS", "ON", "USING", "WHERE", "GROUP", "HAVING", "ORDER", "SORT", "CLUSTER", "DISTRIBUTE", "LIMIT", "OFFSET"),
        *("JOIN", "INNER", "LEFT", "RIGHT", "FULL", "CROSS", "NATURAL", "SEMI", "ANTI", "LATERAL", "WINDOW"),
        *("UNION", "EXCEPT", "INTERSECT", "MINUS", "TABLESAMPLE", "PIVOT", "UNPIVOT", "SELECT", "WHEN", "SET"),
    ]
)
"""Words after a relation that a value expression contains only within brackets."""
_BEFORE_OPERAND = frozenset({"INTERVAL", "TIMESTAMP", "DATE", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ", "NOT", "DIV"})
"""Words after which an expression continues."""
_UNITS = frozenset(
    unit + plural
    for unit in ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND")
    for plural in ("", "S")
)


CHARACTERS_MAX = 100_000
"""The length of a text that is searched. Spark refuses later clauses, as it does for every view."""


@dataclass(frozen=True, slots=True)
class Travel:
    """A read of an earlier state of a relation. The clause is at the character offsets from `start` to `end`
    (exclusive), directly after the name `parts`, which ends at `name_end`."""

    parts: Parts
    name_end: int
    start: int
    end: int
    version: str | None = None
    """The value of VERSION AS OF; None for TIMESTAMP AS OF."""
    moment: str = ""
    """The expression of TIMESTAMP AS OF, as in the text."""


def may_be(words: Words) -> bool:
    """Whether a text with these words may have such a clause."""
    return not words.isdisjoint(WORDS) and "as" in words and "of" in words


def find(lexed: Lexed, characters: int = CHARACTERS_MAX) -> list[Travel]:
    """All such clauses of a text, in order; they do not overlap. Never raises; malformed clauses are ignored.

    Takes linear time, and searches only the first `characters`.
    """
    pieces = lexed.until(characters)
    found: list[Travel] = []
    at = 1
    while at < len(pieces):
        travel, at = _at(pieces, at, lexed.text)
        if travel is not None:
            found.append(travel)
    return found


def blanked(lexed: Lexed, travels: Sequence[Travel]) -> Lexed:
    """The text with these clauses replaced by blanks, so that all other offsets stay the same."""
    return lexed.without([(travel.start, travel.end) for travel in travels])


def _at(pieces: Sequence[Lexeme], at: int, text: str) -> tuple[Travel | None, int]:
    """The clause whose VERSION or TIMESTAMP is at place `at`, and the place to continue at."""
    word = pieces[at].text.upper()
    if pieces[at].kind != "word" or word not in _VERSION_WORDS | _TIME_WORDS or at + 3 >= len(pieces):
        return None, at + 1
    first = at - 1 if pieces[at - 1].kind == "word" and pieces[at - 1].text.upper() == "FOR" else at
    parts = tuple(reversed(list(_name_before(pieces, first))))
    if [piece.text.upper() for piece in pieces[at + 1 : at + 3]] != ["AS", "OF"] or not parts:
        return None, at + 1
    start, name_end = pieces[first].start, pieces[first - 1].end
    value = pieces[at + 3]
    if word in _VERSION_WORDS:
        if value.kind != "string" and not (value.kind == "word" and value.text.isdecimal()):
            return None, at + 1
        said = value.text if value.kind == "word" else string_value(value.text)
        return Travel(parts, name_end, start, value.end, version=said), at + 4
    after = _after_expression(pieces, at + 3)
    if after == at + 3:
        return None, after
    end = pieces[after - 1].end
    return Travel(parts, name_end, start, end, moment=text[value.start : end]), after


def _name_before(pieces: Sequence[Lexeme], end: int) -> Iterator[str]:
    """The parts of the dotted name that ends before place `end`, last first."""
    place = end - 1
    while place >= 0 and is_identifier(pieces[place]):
        yield identifier(pieces[place])
        if place == 0 or pieces[place - 1].text != ".":
            return
        place -= 2


def _after_expression(pieces: Sequence[Lexeme], start: int) -> int:
    """The place after the expression that begins at place `start`; `start` if there is none.

    The expression ends before a word that follows a complete operand: an alias or the next clause.
    """
    depth, complete, interval = 0, False, False
    place = start
    while place < len(pieces):
        piece = pieces[place]
        word = piece.text.upper() if piece.kind == "word" else ""
        if depth == 0:
            if piece.text in (",", ")", ";") or word in _ENDS:
                break
            if complete and piece.kind in ("word", "quoted") and not _continues(word, interval=interval):
                break
        depth += {"(": 1, ")": -1}.get(piece.text, 0) if piece.kind == "symbol" else 0
        if depth == 0:
            interval = word == "INTERVAL" or (interval and piece.kind != "symbol")
        complete = piece.text == ")" or (piece.kind != "symbol" and word not in _BEFORE_OPERAND)
        place += 1
    return place


def _continues(word: str, *, interval: bool) -> bool:
    """Whether a word continues an expression whose last operand is complete."""
    return word == "DIV" or (interval and (word in _UNITS or word == "TO"))
