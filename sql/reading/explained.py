"""Finds the statement that an EXPLAIN explains."""

from __future__ import annotations

from sql.lexed import Lexed

_MODES = frozenset({"EXTENDED", "FORMATTED", "COST", "CODEGEN", "LOGICAL"})


def query_start(lexed: Lexed) -> int | None:
    """The position of the first piece after EXPLAIN and its mode; None if there is none."""
    pieces = lexed.pieces
    if not pieces or pieces[0].text.upper() != "EXPLAIN":
        return None
    place = 2 if len(pieces) > 1 and pieces[1].kind == "word" and pieces[1].text.upper() in _MODES else 1
    return pieces[place].start if place < len(pieces) else None
