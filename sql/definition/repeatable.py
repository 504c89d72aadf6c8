"""Decides from its text alone whether a query gives the same rows each time, as long as its relations do."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sql.definition.determinism import (
    CHANGING_FUNCTIONS,
    DATE_FUNCTIONS,
    METADATA,
    SAMPLE,
    UNSEEDED,
    WITHOUT_PARENTHESES,
)
from sql.definition.functions import FUNCTIONS, READERS, called
from sql.scan import Lexeme, identifier, string_value

_CHANGING = CHANGING_FUNCTIONS | DATE_FUNCTIONS | WITHOUT_PARENTHESES | {UNSEEDED, "unix_timestamp"} | READERS
_WORDS = WITHOUT_PARENTHESES | {METADATA, SAMPLE, "identifier", "transform"}
"""Words that make it uncertain, wherever they stand."""
_MOMENT = re.compile(r"\s*(?:now|today|tomorrow|yesterday|epoch)\b.*", re.IGNORECASE | re.DOTALL)


def is_repeatable(pieces: Sequence[Lexeme]) -> bool:
    """Whether it calls only functions of Spark's whose value depends on nothing but their arguments. `pieces` are those
    of the whole text; variables (`${...}`), parameters and names computed at run time are refused."""
    for piece in pieces:
        if piece.kind == "string" and ("${" in piece.text or _MOMENT.fullmatch(string_value(piece.text))):
            return False
        if piece.text in ("?", ":", "$", "@") or "${" in piece.text:
            return False
        if piece.kind in ("word", "quoted") and identifier(piece).lower() in _WORDS:
            return False
    # A name behind a dot is that of a user's function; an alias with a column list is taken for one.
    return all(name in FUNCTIONS and name not in _CHANGING for name in called(pieces))
