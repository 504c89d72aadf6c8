"""Finds calls of Doris' table functions mv_infos(), jobs() and tasks() without parsing the query.

Spark has no such functions, and neither it nor sqlglot parses `f("type"="mv")` as a relation. So the calls are found in
the text's pieces, and only in the positions of relations: in an expression, the name is that of a user's function.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sql.lexed import Lexed
from sql.scan import Lexeme, string_value

Function = Literal["mv_infos", "jobs", "tasks"]
_FUNCTIONS: dict[str, Function] = {"mv_infos": "mv_infos", "jobs": "jobs", "tasks": "tasks"}
WORDS = frozenset(_FUNCTIONS)
"""A text without any of these words has no such call."""
_MENTION = re.compile(r"\b(?:mv_infos|jobs|tasks)\s*+(?:\(|/\*|--)")
"""A possible call; a comment may precede the bracket."""
_COUNT_ALL = re.compile(r"\bcount\s*\(\s*\*\s*\)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A call in the position of a relation; `start` and `end` are its character offsets with the closing bracket."""

    function: Function
    arguments: tuple[tuple[str, str], ...]
    start: int
    end: int
    aliased: bool = False
    """Whether an alias follows."""


_ENDING_FROM = frozenset(
    (
        *("SELECT", "WHERE", "GROUP", "HAVING", "ORDER", "SORT", "CLUSTER", "DISTRIBUTE", "LIMIT", "OFFSET", "WINDOW"),
        *("QUALIFY", "UNION", "EXCEPT", "MINUS", "INTERSECT", "VALUES", "SET"),
    )
)
"""After these words, commas do not separate relations."""
_NO_ALIAS = _ENDING_FROM | frozenset(
    (
        *("JOIN", "INNER", "CROSS", "LEFT", "RIGHT", "FULL", "OUTER", "NATURAL", "SEMI", "ANTI", "ON", "USING"),
        *("LATERAL", "TABLESAMPLE", "PIVOT", "UNPIVOT", "MAP", "REDUCE", "INSERT", "WHEN"),
    )
)
"""Words that may follow a relation and are not its alias."""


@dataclass(slots=True)
class _Level:
    """The state within a pair of brackets, or outside all brackets."""

    query: bool
    """Whether it is a query, not the arguments of a function such as EXTRACT(DAY FROM …)."""
    relations: bool = False
    """Whether it is between FROM and the next clause, where a relation follows a comma."""


def find(lexed: Lexed) -> tuple[FunctionCall, ...]:
    """The calls in a text, in order. Cheap if none of the words occurs; never raises."""
    folded = lexed.text.lower()
    if not any(name in folded for name in _FUNCTIONS) or _MENTION.search(folded) is None:
        return ()
    pieces = lexed.pieces
    levels = [_Level(query=True)]
    found: list[FunctionCall] = []
    for index, piece in enumerate(pieces):
        if piece.kind == "word" and _may_be_relation(pieces, index, levels[-1]):
            call = _call(pieces, index)
            if call is not None:
                found.append(call)
        _step(piece, pieces[index - 1] if index else None, levels)
    return tuple(found)


def asks_for_all(text: str) -> bool:
    """Whether it has a `*` outside of count(*), so that it may ask for all columns."""
    return "*" in _COUNT_ALL.sub("", text)


def _step(piece: Lexeme, before: Lexeme | None, levels: list[_Level]) -> None:
    """Updates the levels by this piece."""
    word = piece.text.upper() if piece.kind in ("word", "symbol") else ""
    level = levels[-1]
    if word == "(":
        levels.append(_Level(query=False))
    elif word == ")":
        if len(levels) > 1:
            levels.pop()
    elif word == "FROM":
        if before is not None and before.text == "(":
            level.query = True
        level.relations = level.query
    elif word in _ENDING_FROM:
        level.relations = False
        level.query = level.query or word == "SELECT"


def _may_be_relation(pieces: Sequence[Lexeme], index: int, level: _Level) -> bool:
    if pieces[index].text.lower() not in _FUNCTIONS or index == 0 or pieces[index - 1].kind not in ("word", "symbol"):
        return False
    match pieces[index - 1].text.upper():
        case "JOIN":
            return True
        case "FROM":  # x IS DISTINCT FROM f() is an expression
            return level.query and not (index > 1 and pieces[index - 2].text.upper() == "DISTINCT")
        case ",":
            return level.relations
    return False


def _call(pieces: Sequence[Lexeme], index: int) -> FunctionCall | None:
    """The call whose name is at `index`; None if its arguments are not pairs `string = string`."""
    opening = pieces[index + 1] if index + 1 < len(pieces) else None
    if opening is None or opening.text != "(":
        return None
    arguments: list[tuple[str, str]] = []
    place = index + 2
    while place < len(pieces) and pieces[place].text != ")":
        if arguments:
            if pieces[place].text != ",":
                return None
            place += 1
        argument = pieces[place : place + 3]
        if len(argument) < 3 or argument[0].kind != "string" or argument[2].kind != "string" or argument[1].text != "=":
            return None
        arguments.append((string_value(argument[0].text), string_value(argument[2].text)))
        place += 3
    if place >= len(pieces):
        return None
    name = pieces[index]
    function = _FUNCTIONS[name.text.lower()]
    return FunctionCall(function, tuple(arguments), name.start, pieces[place].end, _alias_at(pieces, place + 1))


def _alias_at(pieces: Sequence[Lexeme], index: int) -> bool:
    if index >= len(pieces):
        return False
    piece = pieces[index]
    return piece.kind == "quoted" or (piece.kind == "word" and piece.text.upper() not in _NO_ALIAS)
