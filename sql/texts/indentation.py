"""Formats SQL for display: breaks a one-line statement into several lines without changing its meaning.

sqlparse does not know Spark's SQL. Its result is shown only if it consists of the same tokens by Spark's lexical rules,
so that users can copy and run it. Statements that the gateway stores or runs are never formatted.
"""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import wrap

import sqlparse
from sqlparse.exceptions import SQLParseError

from sql.scan import Lexeme, lexemes

CHARACTERS_MAX = 10_000
"""Longer texts are not formatted: sqlparse takes 40 µs per character, and 150 µs in deeply nested parentheses."""
LINE_CHARACTERS = 100
"""The length of a line after which a list continues on the next line."""
DEEP_CHARACTERS = 24
"""A list that continues further to the right than this is folded."""
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
    tokens = _tokens(text)
    return next((each for each in (_folded(found), found) if _tokens(each) == tokens), text)


def _folded(text: str) -> str:
    """sqlparse puts the rest of a list below its first item, far to the right behind a long name, so that a line has
    room for one or two items only. Here such a list continues on the left."""
    lines = list[list[str]]()
    for line in text.split("\n"):
        if lines and lines[-1][-1].endswith(",") and len(line) - len(line.lstrip()) > DEEP_CHARACTERS:
            lines[-1].append(line.lstrip())
        else:
            lines.append([line])
    return "\n".join(part for line in lines for part in (_wrapped(" ".join(line)) if len(line) > 1 else line))


def _wrapped(line: str) -> list[str]:
    indent = " " * (len(line) - len(line.lstrip()) + 4)
    width = LINE_CHARACTERS + len(indent)
    return wrap(line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _tokens(text: str) -> list[tuple[str, bool]]:
    """Returns words, symbols, strings, comments and hints, and for each whether significant whitespace precedes it."""
    found: list[tuple[str, bool]] = []
    before = "("
    for token, spaced in _spaced(text):
        found.append((token, spaced and _LOOSE.isdisjoint((before, token))))
        before = token
    return found


def _spaced(text: str) -> Iterator[tuple[str, bool]]:
    """Yields each token, and whether whitespace precedes it. Comments and hints between two lexemes are one token."""
    position = 0
    for _, piece, start, end in [*lexemes(text), Lexeme("symbol", "", len(text), len(text))]:
        gap = text[position:start]
        if comments := gap.split():
            yield " ".join(comments), gap[0].isspace()
        yield piece, gap[-1:].isspace()
        position = end
