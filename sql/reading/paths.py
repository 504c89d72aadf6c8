"""Finds paths that a statement may write to, move files from, or use as the location of a table or database.

The paths are found in the lexemes of any statement, because Spark has many clauses with a path, and other formats add
more. A string is a path because of its position (`LOCATION '…'`, `OPTIONS (path '…')`). If the text is not understood,
every string counts, and every text within a string.
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
"""Words of statements that run other statements, or accept a path as a string or as a table's name."""
_SHAPE = re.compile(
    rf"\b(?:{'|'.join(sorted(_CLAUSE_WORDS))})\s*['\"?:=$/\-]|\b(?:{'|'.join(sorted(_LIST_WORDS))})\s*[(/\-]",
    re.IGNORECASE,
)
"""A clause with a path: the word and what may follow it, including a comment."""
_RUNNING = frozenset({"immediate", "begin"})
"""Words of statements that run other statements."""
_DEPTH_MAX = 3
"""The maximum nesting of texts within strings."""
_KEYS = ("path", "location", "dir")
"""Parts of the keys of options whose value is a path."""
_OPTION_PIECES = 40
"""The maximum number of pieces of an option that are read, because lists may be nested up to the end of the text."""


_JSON = ("[", "{", "")
"""The first characters of strings that are JSON, or patterns of files, which are paths only in clauses."""


@dataclass(slots=True)
class Paths:
    """`clauses` are certainly paths, `loose` are texts that may be paths. `told`: the path of each clause is known."""

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
    """The paths in a statement that may write. `exact`: the statement is understood, so its strings are not executed
    and the tables that it writes are known by name."""
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
    """Reads what follows LOCATION and similar words. `inner`: the string may be concatenated with another one."""
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
    """The places of the commas and the closing bracket (or the end), by the place of the opening bracket."""
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
    """Reads an option, `key value` or `key = value`: the key is a dotted name or a string, the value any constant.
    `whole`: it has no more pieces."""
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
    """The adjacent strings at that place, which Spark concatenates."""
    end = place
    while end < len(pieces) and pieces[end].kind == "string":
        end += 1
    return list(pieces[place:end])


def _add(values: set[str], found: Paths) -> None:
    found.clauses |= values
    found.told &= not any("${" in value for value in values)


def _values(literal: Sequence[Lexeme]) -> set[str]:
    """The values that a literal may have: with and without backslash escapes (escapedStringLiterals)."""
    if not literal:
        return set()
    return {"".join(string_value(each.text) for each in literal), "".join(map(_inside, literal))}


def _inside(piece: Lexeme) -> str:
    return piece.text[2:-1] if piece.text[0] in "rR" else piece.text[1:-1]


def _spelt(piece: Lexeme) -> str:
    return string_value(piece.text) if piece.kind == "string" else identifier(piece)
