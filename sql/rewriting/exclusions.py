"""What is never rewritten, whatever the views are."""

from __future__ import annotations

from itertools import pairwise

from sql.definition.determinism import CHANGING_FUNCTIONS, DATE_FUNCTIONS, SAMPLE, WITHOUT_PARENTHESES
from sql.rewriting.shape import HOLE, Shape

_BEGINNINGS = frozenset({"select", "with", "(", "from"})
_CHANGING = CHANGING_FUNCTIONS | DATE_FUNCTIONS | {"aes_encrypt"}
_WITHOUT_CALL = WITHOUT_PARENTHESES - {"user"}
"""(A column may be called user, and is not known otherwise.)"""
_NOW = frozenset({"unix_timestamp", "to_unix_timestamp"})
"""Without arguments they tell the time."""

_SUSPICIOUS = _CHANGING | _NOW | {SAMPLE, "_metadata", ";", "of", "identifier"}
"""Without any of these words, and without @, nothing is excluded."""


def excluded(shape: Shape, temporary: frozenset[str] = frozenset()) -> str | None:
    """Why the query is not rewritten; None if it may be. `temporary`: names of temporary views and functions."""
    if shape.trouble:
        return f"the query cannot be compared with others: {shape.trouble}"
    hints = shape.hints
    if hints.off:
        return "a hint of the query forbids it"
    if hints.foreign:
        return f"the query has the hint {hints.foreign[0]}"
    words = [piece.lower() for piece in shape.pieces if piece[0] != HOLE and not piece.startswith("/*+")]
    if not words or words[0] not in _BEGINNINGS:
        return "it is not a query"
    if "$" in words and "{" in words:
        return "the query has variables, ${…}"
    if found := next((word.strip("`") for word in words if word.strip("`") in temporary), None):
        return f"{found} is a temporary view or function of the session"
    return None if _SUSPICIOUS.isdisjoint(words) and "@" not in shape.key else _clause(words) or _function(words)


def _clause(words: list[str]) -> str | None:
    if ";" in words:
        return "it is a script"
    present = frozenset(words)
    if SAMPLE in present:
        return "the query has TABLESAMPLE"
    if "_metadata" in present:
        return "the query reads the column _metadata"
    for first, second in pairwise(words):
        if (first, second) == ("as", "of"):
            return "the query reads an older version of a table"
        if first == "@" or (first in ("table", "from", "join") and "@" in second):
            return "the query reads an older version of a table"
        if first == "identifier" and second == "(":
            return "the query makes names at run time, with IDENTIFIER"
    return None


def _function(words: list[str]) -> str | None:
    for place, word in enumerate(words):
        after = words[place + 1 : place + 3]
        is_call = after[:1] == ["("]
        if word in _CHANGING and (is_call or (word in _WITHOUT_CALL and words[place - 1] not in (".", "as"))):
            return f"{word} may have another value each time"
        if word in _NOW and after == ["(", ")"]:
            return f"{word}() may have another value each time"
    return None
