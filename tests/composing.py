"""A model of how Spark evaluates the expressions by which statements put names and texts together."""

from __future__ import annotations

import re
from collections.abc import Mapping

from sql.lexed import Lexed
from sql.reading.immediate import split
from sql.scan import identifier, is_identifier, string_value


class Unknown(Exception):
    """The model does not know the value."""


def values(select: str, variables: Mapping[str, str]) -> tuple[object, ...]:
    """The values of `SELECT expression, …`. Raises Unknown."""
    lexed = Lexed(select)
    return tuple(_value(lexed, start, end, variables) for start, end in split(lexed.pieces, 1, len(lexed.pieces)))


def value(expression: str, variables: Mapping[str, str]) -> object:
    lexed = Lexed(expression)
    return _value(lexed, 0, len(lexed.pieces), variables)


def _value(lexed: Lexed, start: int, end: int, variables: Mapping[str, str]) -> object:
    pieces = lexed.pieces
    operands, depth, first = list[tuple[int, int]](), 0, start
    for place in range(start, end):
        depth += {"(": 1, ")": -1}.get(pieces[place].text, 0)
        if not depth and [piece.text for piece in pieces[place : place + 2]] == ["|", "|"] and place > first:
            operands.append((first, place))
            first = place + 2
    if operands:
        return "".join(str(_value(lexed, *each, variables)) for each in [*operands, (first, end)])
    words = [piece.text for piece in pieces[start:end]]
    if words and all(piece.kind == "string" for piece in pieces[start:end]):
        return "".join(map(string_value, words))
    if words[:1] == ["("] and words[-1:] == [")"]:
        return _value(lexed, start + 1, end - 1, variables)
    if [word.lower() for word in words[:1]] == ["concat"]:
        return "".join(str(_value(lexed, *each, variables)) for each in split(pieces, start + 2, end - 1))
    if len(words) == 1 and re.fullmatch(r"\d+", words[0]):
        return int(words[0])
    if len(words) == 1 and is_identifier(pieces[start]) and (name := identifier(pieces[start]).lower()) in variables:
        return variables[name]
    raise Unknown(" ".join(words))
