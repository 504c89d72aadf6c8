"""Doris' table functions mv_infos(), jobs() and tasks(): where a query calls them, found without parsing it.

Spark has no such functions, and neither it nor sqlglot reads `f("type"="mv")` as a relation. So the calls are found
in the text's pieces (comments and strings are told apart by the lexer), and only where a relation may stand: a
function of a user that happens to have such a name is left alone in an expression.
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
"""Without one of these a text has no such call."""
_MENTION = re.compile(r"\b(?:mv_infos|jobs|tasks)\s*+(?:\(|/\*|--)")
"""Perhaps a call; a comment may stand before the bracket."""
_COUNT_ALL = re.compile(r"\bcount\s*\(\s*\*\s*\)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A call in the place of a relation; `start` and `end` are character offsets, the closing bracket included."""

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
"""After these no comma separates relations."""
_NO_ALIAS = _ENDING_FROM | frozenset(
    (
        *("JOIN", "INNER", "CROSS", "LEFT", "RIGHT", "FULL", "OUTER", "NATURAL", "SEMI", "ANTI", "ON", "USING"),
        *("LATERAL", "TABLESAMPLE", "PIVOT", "UNPIVOT", "MAP", "REDUCE", "INSERT", "WHEN"),
    )
)
"""Words that may stand behind a relation and are no alias of it."""


@dataclass(slots=True)
class _Level:
    """What is known inside one pair of brackets, or outside all of them."""

    query: bool
    """A query, rather than the arguments of a function such as EXTRACT(DAY FROM …)."""
    relations: bool = False
    """Between FROM and the clause after it: a comma is followed by a relation."""


def find(lexed: Lexed) -> tuple[FunctionCall, ...]:
    """The calls in a text, in its order. Cheap where none of the words occurs; never raises."""
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
    """Whether a `*` stands in it that is not count(*)'s: a query may ask for all columns."""
    return "*" in _COUNT_ALL.sub("", text)


def _step(piece: Lexeme, before: Lexeme | None, levels: list[_Level]) -> None:
    """Note what this piece opens, closes or begins."""
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
    """The call whose name stands at `index`; None if its brackets hold anything but `string = string` pairs."""
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
