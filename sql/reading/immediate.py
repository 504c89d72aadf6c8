"""EXECUTE IMMEDIATE: the expression whose value it executes, and the arguments for the markers in that text.

Tests: `test_hidden`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sql.lexed import Lexed
from sql.scan import Lexeme, identifier, is_identifier

_MODES = frozenset({"EXTENDED", "CODEGEN", "COST", "FORMATTED", "LOGICAL"})
"""Words between EXPLAIN and the statement."""

_LITERAL = re.compile(r"\s*'\s*(\w+)\b[^'\\]*'\s*", re.ASCII)
"""A text that means the same whatever the settings of literals are."""


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument in USING: for the marker `:name`, or, if it is the n-th, for the n-th `?`."""

    expression: str
    name: str
    """In lower case; empty if it has none."""
    text: str
    """As written, with the name."""


@dataclass(frozen=True, slots=True)
class Immediate:
    """`start` and `end` are the offsets of the expression, `using` of the USING clause (the text's end if none)."""

    expression: str
    start: int
    end: int
    literal: bool
    """Whether the expression is a literal, which no setting makes a variable's name."""
    using: int
    arguments: tuple[Argument, ...]


def first_word(lexed: Lexed) -> str:
    """The first word of the statement that EXECUTE IMMEDIATE executes, in lower case, if that is a plain literal;
    otherwise empty. A name in it may still be built at run time."""
    if "${" in lexed.text or lexed.at(0) is None or (found := find(lexed)) is None:
        return ""
    literal = _LITERAL.fullmatch(found.expression)
    return "" if literal is None else literal[1].lower()


def find(lexed: Lexed) -> Immediate | None:
    """EXECUTE IMMEDIATE, perhaps in EXPLAIN; None for other statements."""
    pieces = lexed.pieces
    words = [piece.text.upper() if piece.kind == "word" else "" for piece in pieces[:4]]
    place = 0
    if words[:1] == ["EXPLAIN"]:
        place = 2 if words[1:2] and words[1] in _MODES else 1
    if words[place : place + 2] != ["EXECUTE", "IMMEDIATE"] or len(pieces) < place + 3:
        return None
    return at(lexed, place + 2, len(pieces))


def at(lexed: Lexed, place: int, end: int) -> Immediate:
    """EXECUTE IMMEDIATE whose expression begins at that place, and which ends before the piece at `end`."""
    pieces, text = lexed.pieces, lexed.text
    while end > place + 1 and pieces[end - 1].text == ";":
        end -= 1
    clauses = {pieces[each].text.upper(): each for each in _outside(pieces, place + 1, end, "INTO", "USING")}
    close = min(clauses.values(), default=end)
    run = pieces[place:close]
    last = run[-1].end
    literal = all(piece.kind == "string" for piece in run) and any(piece.text[-1] == "'" for piece in run)
    using = clauses.get("USING")
    after = pieces[end - 1].end if using is None else pieces[using].start
    arguments = () if using is None else tuple(_arguments(text, pieces, using + 1, end))
    return Immediate(text[run[0].start : last], run[0].start, last, literal, after, arguments)


def _arguments(text: str, pieces: Sequence[Lexeme], place: int, end: int) -> Iterator[Argument]:
    if place < end and pieces[place].text == "(" and closing(pieces, place) == end - 1:
        place, end = place + 1, end - 1
    for start, stop in split(pieces, place, end):
        name, last = "", stop
        if stop - start == 1 and is_identifier(pieces[start]):
            name = identifier(pieces[start])
        elif stop - start > 1 and is_identifier(pieces[stop - 1]) and _ends_operand(pieces[stop - 2]):
            name, last = identifier(pieces[stop - 1]), stop - 1
            if last - start > 1 and pieces[last - 1].kind == "word" and pieces[last - 1].text.upper() == "AS":
                last -= 1
        begin = pieces[start].start
        yield Argument(text[begin : pieces[last - 1].end], name.lower(), text[begin : pieces[stop - 1].end])


def _ends_operand(piece: Lexeme) -> bool:
    """Whether a name behind this piece is an argument's."""
    return piece.kind != "symbol" or piece.text in (")", "]")


def closing(pieces: Sequence[Lexeme], opening: int) -> int | None:
    depth = 0
    for place in range(opening, len(pieces)):
        depth += {"(": 1, ")": -1}.get(pieces[place].text, 0)
        if not depth:
            return place
    return None


def split(pieces: Sequence[Lexeme], start: int, end: int) -> Iterator[tuple[int, int]]:
    depth = 0
    for place in range(start, end):
        depth += {"(": 1, ")": -1}.get(pieces[place].text, 0)
        if pieces[place].text == "," and not depth:
            if place > start:
                yield start, place
            start = place + 1
    if end > start:
        yield start, end


def _outside(pieces: Sequence[Lexeme], start: int, end: int, *words: str) -> Iterator[int]:
    """The places of these words outside of brackets."""
    depth = 0
    for place in range(start, end):
        piece = pieces[place]
        depth += {"(": 1, ")": -1}.get(piece.text, 0)
        if not depth and piece.kind == "word" and piece.text.upper() in words:
            yield place


def filled(text: str, first: int, arguments: Sequence[Argument]) -> tuple[str, frozenset[int]]:
    """An expression with arguments in the place of its markers, and the numbers of the `?` among these. `first`: the
    number of `?` before it."""
    lexed = Lexed(text)
    names = {each.name: each for each in arguments if each.name}
    out, done, used = list[str](), 0, set[int]()
    pieces = lexed.pieces
    for place, piece in enumerate(pieces):
        if piece.kind != "symbol" or piece.text not in "?:" or piece.start < done:
            continue
        found, end = None, piece.end
        if piece.text == "?":
            number = first + len(used)
            found = arguments[number] if number < len(arguments) else None
            used.add(number)
        elif place + 1 < len(pieces) and is_identifier(pieces[place + 1]) and pieces[place - 1].text != ":":
            found, end = names.get(identifier(pieces[place + 1]).lower()), pieces[place + 1].end
        if found is not None:
            out += text[done : piece.start], f"({found.expression})"
            done = end
    return "".join([*out, text[done:]]), frozenset(used)
