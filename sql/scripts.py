"""Splits a script into statements, with what each reads and writes, in the order in which they may run.

In Spark's grammar (SqlBaseParser.g4, compoundBody) statements end with semicolons, and control-flow keywords precede
some (`IF … THEN`, `label: LOOP`). If the beginning of a statement is not clear, its effects are overestimated.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sql.classify import glance, with_few_names
from sql.lexed import Lexed
from sql.reading import hidden
from sql.reading.effects import forwarded
from sql.reading.lineage import guess
from sql.scan import Lexeme, folded
from sql.statement import Forwarded

_BEFORE_STATEMENT = frozenset({"begin", "else", "loop", "repeat", "do", "then", "not", "atomic"})
"""Keywords that a statement may follow directly."""
_CONTROL = frozenset(
    {"if", "elseif", "while", "for", "case", "when", "until", "end", "set", "declare", "leave", "iterate"}
)
"""First words of a part that has more than one statement, or that means something else outside scripts."""
_CONDITIONAL = frozenset({"if", "elseif", "while", "when", "for"})
_REPEATED = frozenset({"while", "loop", "repeat", "for", "handler"})
_WRITING = frozenset(
    [
        *("insert", "merge", "update", "delete", "truncate", "load", "overwrite", "into", "copy", "restore"),
        *("create", "replace", "alter", "drop", "msck", "repair", "call", "execute", "cache"),
    ]
)


class ScriptStep(NamedTuple):
    statement: Forwarded
    composed: bool
    """Whether it may build a name at run time, or has too many names to be kept."""


def steps(script: Lexed) -> list[ScriptStep]:
    """The statements in order. The list is doubled if some may run again or at any time, so that each statement also
    follows every other one."""
    pieces = script.pieces
    found = [_step(script, start, end) for start, end in _split(pieces) if end > start]
    again = any(piece.kind == "word" and folded(piece.text) in _REPEATED for piece in pieces)
    return found * 2 if again else found


def _split(pieces: Sequence[Lexeme]) -> Iterator[tuple[int, int]]:
    """The places between semicolons, the ends left out."""
    start = 0
    for place, piece in enumerate(pieces):
        if piece.text == ";":
            yield start, place
            start = place + 1
    yield start, len(pieces)


def begins(pieces: Sequence[Lexeme], start: int, end: int) -> int:
    """Where the statement begins of which these are the pieces between two semicolons: after control-flow keywords,
    after the condition of IF and of loops, and in the block of a handler."""
    place = _after_words(pieces, start, end)
    words = [folded(piece.text) if piece.kind == "word" else "" for piece in pieces[place:end]]
    first = words[0] if words else ""
    before = ("then", "do") if first in _CONDITIONAL else ("begin",) if "handler" in words[:3] else ()
    inner = next((at for at, word in enumerate(words, place) if word in before), None)
    if inner is not None:
        return _after_words(pieces, inner + 1, end)
    return place


def _after_words(pieces: Sequence[Lexeme], place: int, end: int) -> int:
    while place < end:
        if place + 1 < end and pieces[place + 1].text == ":":  # a label
            place += 2
        elif pieces[place].kind == "word" and folded(pieces[place].text) in _BEFORE_STATEMENT:
            place += 1
        else:
            break
    return place


def _step(script: Lexed, start: int, end: int) -> ScriptStep:
    pieces = script.pieces[start:end]
    place = _after_words(pieces, 0, len(pieces))
    if place == len(pieces):
        return ScriptStep(Forwarded(touches_rows=False), composed=False)
    keyword = folded(pieces[place].text)
    part = script.part(start + place, end)
    if keyword not in _CONTROL:
        return _kept(forwarded(part, keyword), part)
    words = {folded(piece.text) for piece in pieces if piece.kind == "word"}
    return _kept(guess(part, f"begins with {keyword.upper()}", writes=not words.isdisjoint(_WRITING)), part)


def _kept(statement: Forwarded, text: Lexed) -> ScriptStep:
    statement = with_few_names(statement)
    composed = not statement.exact and (statement.everything or hidden.composes(text, glance(text).words))
    return ScriptStep(statement, composed)
