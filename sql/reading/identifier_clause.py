"""IDENTIFIER(expression): a name that Spark evaluates at run time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sql.lexed import SIGNS, Lexed
from sql.names import Parts, quote
from sql.scan import Lexeme, dotted_name, lexemes


@dataclass(frozen=True, slots=True)
class Clause:
    """A clause with its position in the text."""

    expression: str
    start: int
    end: int
    literal: bool
    """Whether the expression is a literal that has the same value under all settings."""


def clauses(lexed: Lexed) -> list[Clause]:
    """The clauses of a statement, in order. Of nested clauses, only the outer one."""
    return list(_clauses(lexed.text, lexed.pieces))


def name(value: str) -> Parts | None:
    """The parts of the name that this value of an expression means; None if it is not a name."""
    pieces = list(lexemes(value))
    parts, end = dotted_name(pieces)
    return parts if parts and end == len(pieces) and all(piece.kind != "string" for piece in pieces) else None


def named(text: str, clauses: Sequence[Clause], names: Sequence[Parts]) -> str:
    """The statement with its clauses replaced by these names, in order."""
    pieces, done = list[str](), 0
    for clause, parts in zip(clauses, names, strict=True):
        pieces += text[done : clause.start], f" {'.'.join(map(quote, parts))} "
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
            expression = text[after.end : pieces[closing].start].strip()
            literal = closing == place + 2 and _is_literal(pieces[place + 1])
            yield Clause(expression, piece.start, pieces[closing].end, literal)
            place = closing + 1


def _is_literal(piece: Lexeme) -> bool:
    return piece.text[-1] == "'" and not any(sign in piece.text[1:-1] for sign in SIGNS)


def _closing(pieces: Sequence[Lexeme], opening: int) -> int | None:
    """The place of the bracket that closes the one at `opening`."""
    depth = 0
    for place in range(opening, len(pieces)):
        if pieces[place].kind == "symbol" and pieces[place].text in "()":
            depth += 1 if pieces[place].text == "(" else -1
            if not depth:
                return place
    return None
