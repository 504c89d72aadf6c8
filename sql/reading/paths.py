"""Paths that a statement may write to, move files from, or put a table or database at.

Read from the text's lexemes, whatever statement it is: Spark has many clauses with a path, and other formats add
theirs. A path counts by where it stands (`LOCATION '…'`, `OPTIONS (path '…')`); in a text that is not understood every
string does, and every text within a string.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from sql.lexed import Lexed
from sql.scan import Lexeme, identifier, string_value
from sql.statement import Glance
from sql.words import may_hold_path

_CLAUSE_WORDS = frozenset({"directory", "location", "managedlocation", "inpath"})
_LIST_WORDS = frozenset({"options", "properties", "serdeproperties", "tblproperties", "dbproperties"})
_COMMANDS = frozenset({"immediate", "begin", "call", "vacuum", "convert", "restore", "copy", "optimize", "generate"})
"""Statements that run others, or take a path as a string or a table's name."""
_SHAPE = re.compile(
    rf"\b(?:{'|'.join(sorted(_CLAUSE_WORDS))})\s*['\"?:=$/\-]|\b(?:{'|'.join(sorted(_LIST_WORDS))})\s*[(/\-]",
    re.IGNORECASE,
)
"""A clause with a path: the word, and what may follow it; a comment may stand between."""
_RUNNING = frozenset({"immediate", "begin"})
"""Words of statements that run others."""
_DEPTH_MAX = 3
"""Texts within strings within texts."""
_KEYS = ("path", "location", "dir")
"""What stands in the keys of options that hold a path."""
_OPTION_PIECES = 40
"""What is looked at of one option: lists may stand in lists, each to the end of the text."""


_JSON = ("[", "{", "")
"""How a string begins that is JSON, or a pattern of files, which only a clause can hold."""


@dataclass(slots=True)
class Paths:
    """`clauses` are surely paths. `loose` are texts that may be one. `told`: every clause's path could be read."""

    clauses: set[str] = field(default_factory=set)
    loose: set[str] = field(default_factory=set)
    told: bool = True

    def __bool__(self) -> bool:
        return bool(self.clauses or self.loose or not self.told)


def may_hold(text: str, look: Glance) -> bool:
    """Whether a statement that may write may contain such a path; a cheap check."""
    words = look.words
    if look.keyword in _COMMANDS or not words.isdisjoint(_RUNNING) or "${" in text:
        return True
    if "`" in text and may_hold_path(words):
        return True
    if words.isdisjoint(_CLAUSE_WORDS) and words.isdisjoint(_LIST_WORDS):
        return False
    return _SHAPE.search(text) is not None


def written(text: Lexed, *, exact: bool) -> Paths:
    """The paths in a statement that does more than to read. `exact`: the statement was understood, so that its strings
    run nothing, and the tables that it writes are known by name."""
    found = Paths()
    _look(text, text, found, 0, deep=not exact)
    return found


def _look(outer: Lexed, text: Lexed, found: Paths, depth: int, *, deep: bool) -> None:
    pieces = text.pieces
    edges: dict[int, list[int]] | None = None
    for place, piece in enumerate(pieces):
        word = piece.text.lower() if piece.kind == "word" else ""
        if word in _CLAUSE_WORDS:
            _clause(pieces, place + 1, found, inner=depth > 0)
        elif word in _LIST_WORDS and place + 1 < len(pieces) and pieces[place + 1].text == "(":
            edges = _edges(pieces) if edges is None else edges
            begin = place + 2
            for edge in edges[place + 1]:
                _option(pieces[begin : min(edge, begin + _OPTION_PIECES)], found, whole=edge <= begin + _OPTION_PIECES)
                begin = edge + 1
    if deep:
        _strings_within(outer, pieces, found, depth)


def _clause(pieces: Sequence[Lexeme], place: int, found: Paths, *, inner: bool) -> None:
    """What stands behind LOCATION and its like. `inner`: a string that ends there may be put together with another."""
    while place < len(pieces) and pieces[place].text in ("=", ">"):  # CALL …(location => '…')
        place += 1
    if place >= len(pieces):
        found.told &= not inner
    elif pieces[place].kind == "string":
        literal = _strings(pieces, place)
        _add(_values(literal), found)
        after = pieces[place + len(literal)].text if place + len(literal) < len(pieces) else ""
        found.told &= after != "|"
    else:
        found.told &= pieces[place].text not in ("?", ":", "$")


def _edges(pieces: Sequence[Lexeme]) -> dict[int, list[int]]:
    """By the place of each opening bracket, those of its commas, and of its closing bracket or the end."""
    found: dict[int, list[int]] = {}
    open_ones: list[list[int]] = []
    for place, piece in enumerate(pieces):
        if piece.text == "(":
            found[place] = []
            open_ones.append(found[place])
        elif piece.text == "," and open_ones:
            open_ones[-1].append(place)
        elif piece.text == ")" and open_ones:
            open_ones.pop().append(place)
    for left in open_ones:
        left.append(len(pieces))
    return found


def _option(entry: Sequence[Lexeme], found: Paths, *, whole: bool) -> None:
    """One option, `key value` or `key = value`: the key is a dotted name or a string, the value any constant. Not
    `whole`: there is more of it."""
    equals = next((at for at, piece in enumerate(entry) if piece.text == "="), None)
    first = next((at for at, piece in enumerate(entry) if piece.kind == "string" and at > 0), len(entry))
    begin = equals + 1 if equals is not None else first
    key, value = "".join(map(_spelt, entry[:begin])).lower(), entry[begin:]
    literal = _strings(value, 0)
    cut = not whole and len(literal) == len(value)
    if not any(word in key for word in _KEYS):
        found.loose |= _values(literal)
        found.told &= not (cut and literal)
    elif len(literal) == len(value) and not cut:
        _add(_values(literal), found)
    else:
        found.told = False


def _strings_within(outer: Lexed, pieces: Sequence[Lexeme], found: Paths, depth: int) -> None:
    place = 0
    while place < len(pieces):
        piece = pieces[place]
        place += 1
        if piece.kind == "quoted":
            found.loose.add(identifier(piece))
        elif piece.kind == "string":
            literal = _strings(pieces, place - 1)
            place += len(literal) - 1
            values = _values(literal)
            found.loose |= {value for value in values if value.lstrip()[:1] not in _JSON}
            if depth < _DEPTH_MAX:
                for value in values:
                    _look(outer, outer.inside(value), found, depth + 1, deep=True)


def _strings(pieces: Sequence[Lexeme], place: int) -> list[Lexeme]:
    """The strings that stand there one after the other: Spark joins them."""
    end = place
    while end < len(pieces) and pieces[end].kind == "string":
        end += 1
    return list(pieces[place:end])


def _add(values: set[str], found: Paths) -> None:
    found.clauses |= values
    found.told &= not any("${" in value for value in values)


def _values(literal: Sequence[Lexeme]) -> set[str]:
    """What a literal may stand for: with and without the meaning of backslashes (escapedStringLiterals)."""
    if not literal:
        return set()
    return {"".join(string_value(each.text) for each in literal), "".join(map(_inside, literal))}


def _inside(piece: Lexeme) -> str:
    return piece.text[2:-1] if piece.text[0] in "rR" else piece.text[1:-1]


def _spelt(piece: Lexeme) -> str:
    return string_value(piece.text) if piece.kind == "string" else identifier(piece)
