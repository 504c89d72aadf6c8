"""Formats SQL for display: breaks a one-line statement into several lines without changing its meaning.

sqlparse does not know Spark's SQL. Its result is shown only if it consists of the same tokens by Spark's lexical rules,
so that users can copy and run it. Statements that the gateway stores or runs are never formatted.
"""

from __future__ import annotations

import sqlparse
from sqlparse.exceptions import SQLParseError

from sql.scan import lexemes, marks

CHARACTERS_MAX = 10_000
"""Longer texts are not formatted: sqlparse takes 40 µs per character, and 150 µs in deeply nested parentheses."""
LINE_CHARACTERS = 100
"""The length of a line after which a list continues on the next line."""
_LOOSE = frozenset("(),")
"""Whitespace beside these tokens has no meaning. Elsewhere it may: `< =`, `- -`, `1 .5` and `X '1F'` are two tokens."""


def indented(text: str) -> str:
    """Returns the statement broken into lines, or unchanged if it has line breaks already or its meaning would change.

    Takes up to two seconds, so do not call it in the event loop.
    """
    if len(text) > CHARACTERS_MAX or "\n" in text or "\r" in text:
        return text
    try:
        found: str = sqlparse.format(text, reindent=True, wrap_after=LINE_CHARACTERS).strip()
    except SQLParseError:  # nested too deeply
        return text
    return found if _tokens(found) == _tokens(text) else text


def _tokens(text: str) -> list[tuple[str, bool]]:
    """Returns words, symbols, strings, comments and hints, and for each whether significant whitespace precedes it."""
    spans = [(lexeme.start, lexeme.end) for lexeme in lexemes(text)]
    spans += [(mark.start, mark.end) for mark in marks(text) if mark.kind in ("comment", "hint")]
    found: list[tuple[str, bool]] = []
    before, position = "(", 0
    for start, end in sorted(spans):
        token = text[start:end]
        found.append((token, start > position and _LOOSE.isdisjoint((before, token))))
        before, position = token, end
    return found
