"""IDENTIFIER(expression): a name that Spark evaluates at run time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sql.lexed import Lexed
from sql.scan import Lexeme


@dataclass(frozen=True, slots=True)
class Clause:
    """A clause with its position in the text."""

    expression: str
    start: int
    end: int


def clauses(lexed: Lexed) -> list[Clause]:
    """The clauses of a statement, in order. Of nested clauses, only the outer one."""
    return list(_clauses(lexed.text, lexed.pieces))


def named(text: str, clauses: Sequence[Clause], names: Sequence[str]) -> str:
    """The statement with its clauses replaced by these names, in order."""
    pieces, done = list[str](), 0
    for clause, name in zip(clauses, names, strict=True):
        pieces += text[done : clause.start], f" {name} "
        done = clause.end
    return "".join([*pieces, text[done:]])


def _clauses(text: str, pieces: Sequence[Lexeme]) -> Iterator[Clause]:
    place = 0
    while place < len(pieces) - 1:
        piece, after = pieces[place : place + 2]
        place += 1
        if piece.kind == "word" and piece.text.upper() == "IDENTIFIER" and after.text == "(":
            closing = _closing(pieces, place)
            if closing is None:
                return
            yield Clause(text[after.end : pieces[closing].start].strip(), piece.start, pieces[closing].end)
            place = closing + 1


def _closing(pieces: Sequence[Lexeme], opening: int) -> int | None:
    """The place of the bracket that closes the one at `opening`."""
    depth = 0
    for place in range(opening, len(pieces)):
        if pieces[place].kind == "symbol" and pieces[place].text in "()":
            depth += 1 if pieces[place].text == "(" else -1
            if not depth:
                return place
    return None
