"""What stands inside texts that run other statements: scripts, EXECUTE IMMEDIATE, and names in odd forms.

Such a text cannot be told apart into what it reads and writes, but DROP VIEW, ALTER VIEW, CREATE OR REPLACE VIEW and
DROP DATABASE begin with words that can be found in it and in its strings. What a text puts together when it runs
(`'DROP ' || 'VIEW v'`) stays hidden; that it may do so can be told.
"""

from __future__ import annotations

import re
from collections.abc import Container
from dataclasses import dataclass

from sql.scan import Lexeme, dotted_name, is_whole, lexemes, string_value
from sql.statement import Parts

GLOBAL_TEMPORARY = "global_temp"
_DEPTH_MAX = 3
"""Texts within strings within texts."""
_DATABASES = ("DATABASE", "SCHEMA", "NAMESPACE")


@dataclass(frozen=True, slots=True)
class Changes:
    """What a text may change. `told`: every name could be read."""

    views: frozenset[Parts] = frozenset()
    databases: frozenset[Parts] = frozenset()
    told: bool = True

    def __or__(self, other: Changes) -> Changes:
        return Changes(self.views | other.views, self.databases | other.databases, self.told and other.told)


def changes(text: str, depth: int = 0) -> Changes:
    """The views and databases that statements anywhere in `text`, its strings included, drop, alter or replace."""
    found = Changes()
    if not _holds(text, "drop", "alter", "create"):
        return found
    pieces = list(lexemes(text))
    for index, piece in enumerate(pieces):
        if piece.kind == "string" and depth < _DEPTH_MAX:
            found |= changes(string_value(piece.text), depth + 1)
        elif piece.kind == "word" and piece.text.upper() in ("DROP", "ALTER", "CREATE"):
            found |= _change(pieces[index : index + _HEAD_PIECES])
    return found


def temporaries(text: str, depth: int = 0) -> frozenset[Parts]:
    """The temporary views and functions that statements anywhere in `text` may make, in its strings too where it has
    EXECUTE IMMEDIATE; CACHE TABLE may make one as well. Those of all sessions begin with `global_temp`. The last part
    is "" where it cannot be read."""
    found: set[Parts] = set()
    if not _holds(text, "temp", "cache"):
        return frozenset()
    runs_strings = depth > 0 or "immediate" in text.lower()
    pieces = list(lexemes(text))
    for index, piece in enumerate(pieces):
        if piece.kind == "string" and runs_strings and depth < _DEPTH_MAX:
            found |= temporaries(string_value(piece.text), depth + 1)
        elif piece.kind == "word" and piece.text.upper() in ("TEMP", "TEMPORARY", "CACHE"):
            name = _made(pieces[index : index + _HEAD_PIECES], goes_on=depth > 0)
            shared = index > 0 and pieces[index - 1].text.upper() == "GLOBAL"
            if name is not None:
                found.add((GLOBAL_TEMPORARY, name) if shared else (name,))
    return frozenset(found)


def _made(pieces: list[Lexeme], *, goes_on: bool) -> str | None:
    """What the statement makes in whose head these pieces stand; None for no such statement. `goes_on`: a string that
    ends with them may be put together with another one."""
    words = [piece.text.upper() if piece.kind == "word" else "" for piece in pieces]
    kinds = ("TABLE",) if words[0] == "CACHE" else ("VIEW", "FUNCTION")
    place = 2 if words[1:2] == ["LAZY"] else 1
    if place >= len(words):
        return "" if goes_on else None
    if words[place] not in kinds:
        return None
    place += 1
    if words[place : place + 3] == ["IF", "NOT", "EXISTS"]:
        place += 3
    name = _name(pieces[place:])
    return name[-1].lower() if name and (place + 1 < len(pieces) or not goes_on) else ""


_HEAD_PIECES = 24
"""More than the longest head, DROP VIEW IF EXISTS IDENTIFIER('…') or a name of four parts, has."""


_NUMBERED = re.compile(r"(?<!\\)(?:\\\\)*\\(?:[uU]|[0-3][0-7]{2})")
"""A character of a string that is written by its number, so that words may stand in it which nobody sees."""


def _holds(text: str, *words: str) -> bool:
    """Whether one of the words may stand in it, perhaps in the strings of its strings."""
    folded = text.lower()
    return any(word in folded for word in words) or _NUMBERED.search(text) is not None


_PLAIN_ARGUMENT = re.compile(
    r"""\bidentifier\s*\(\s*'[^'\\]*'\s*\)"""
    r"""|\bimmediate\s+('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")\s*(?=;|using\b|into\b|\Z)""",
    re.IGNORECASE | re.DOTALL,
)
"""IDENTIFIER('t') and EXECUTE IMMEDIATE 'text': what they name stands in the text after all."""


_COMPOSING = re.compile(r"\b(?:identifier|immediate)\b", re.IGNORECASE)


def composes(text: str, words: Container[str]) -> bool:
    """Whether a name, or a whole statement, may be put together when the text runs, so that it does not stand in it.
    `words` are those of the text, in lower case."""
    if "${" in text or "directory" in words:
        return True
    if "identifier" not in words and "immediate" not in words:
        return False
    return _COMPOSING.search(_without_plain(text)) is not None


_IN_PARTS = re.compile(r"\.\s*identifier\s*\(|\bidentifier\s*\([^()]*\)\s*\.", re.IGNORECASE)
"""db.IDENTIFIER('t'): names within strings are looked for without such parts."""


def _without_plain(text: str) -> str:
    return _PLAIN_ARGUMENT.sub(_inside, text)


def _inside(found: re.Match[str]) -> str:
    """What is still to be looked at: a statement in a string may put names together in its turn, from parameters."""
    literal = found[1]
    if literal is None:
        return " "
    text = string_value(literal)
    return found[0] if _NUMBERED.search(literal) or _IN_PARTS.search(text) else _without_plain(text)


def _change(pieces: list[Lexeme]) -> Changes:
    """What the statement that begins with the first piece changes, if it is one of these."""
    words = [piece.text.upper() if piece.kind in ("word", "symbol") else "" for piece in pieces]
    place = 1
    if words[0] == "CREATE":
        if words[1:3] != ["OR", "REPLACE"]:
            return Changes()
        place = 3
    kind = words[place] if place < len(words) else ""
    is_database = words[0] == "DROP" and kind in _DATABASES
    if kind != "VIEW" and not is_database:
        return Changes()
    place += 1
    if words[place : place + 2] == ["IF", "EXISTS"]:
        place += 2
    name = _name(pieces[place:])
    if name is None:
        return Changes(told=False)
    return Changes(databases=frozenset({name})) if is_database else Changes(views=frozenset({name}))


def _name(pieces: list[Lexeme]) -> Parts | None:
    """The dotted name at the beginning; None where it cannot be told."""
    parts, after = dotted_name(pieces)
    if not parts and pieces and pieces[0].kind == "string":
        return (string_value(pieces[0].text),)
    return parts if parts and is_whole(pieces, after) else None
