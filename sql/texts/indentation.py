"""SQL as people are shown it: a statement that stands on one line gets several, and stays the same statement.

sqlparse does not know Spark's SQL. What it makes of a text is shown only where it consists of the same pieces by
Spark's lexical rules, so that it can be copied and run. Nothing that is stored or run by the gateway is laid out.
"""

from __future__ import annotations

import sqlparse
from sqlparse.exceptions import SQLParseError

from sql.scan import lexemes, marks

CHARACTERS_MAX = 10_000
"""Longer texts stay as they are: sqlparse takes 40 µs for a character, and 150 µs among deep brackets."""
LINE_CHARACTERS = 100
"""A list goes on in the next line behind so many."""
_LOOSE = frozenset("(),")
"""A blank beside one of these means nothing. Elsewhere it may: `< =`, `- -`, `1 .5` and `X '1F'` are two pieces."""


def indented(text: str) -> str:
    """The statement in lines of its own; as it is where its author chose the lines, or it would become another one.

    Takes up to two seconds: not for the event loop.
    """
    if len(text) > CHARACTERS_MAX or "\n" in text or "\r" in text:
        return text
    try:
        found: str = sqlparse.format(text, reindent=True, wrap_after=LINE_CHARACTERS).strip()
    except SQLParseError:  # it is nested too deeply
        return text
    return found if _pieces(found) == _pieces(text) else text


def _pieces(text: str) -> list[tuple[str, bool]]:
    """Words, symbols, strings, comments and hints, each with whether a blank that may mean something is before it."""
    places = [(piece.start, piece.end) for piece in lexemes(text)]
    places += [(mark.start, mark.end) for mark in marks(text) if mark.kind in ("comment", "hint")]
    found: list[tuple[str, bool]] = []
    before, position = "(", 0
    for start, end in sorted(places):
        piece = text[start:end]
        found.append((piece, start > position and _LOOSE.isdisjoint((before, piece))))
        before, position = piece, end
    return found
