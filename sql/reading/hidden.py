"""Finds statements within texts that run other statements: scripts and EXECUTE IMMEDIATE.

What such a text reads and writes cannot be determined, but DROP VIEW, ALTER VIEW, CREATE OR REPLACE VIEW and DROP
DATABASE begin with words that can be found in it and in its strings (`sql.lexed`). A statement that is built at run
time (`'DROP ' || 'VIEW v'`) cannot be found, but it is recognized that a text may build one.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass

from sql.lexed import CHARACTERS_MAX, SIGNS, Lexed
from sql.names import Parts
from sql.scan import QUOTES, Lexeme, dotted_name, folded, is_whole, string_value

GLOBAL_TEMPORARY = "global_temp"
_DATABASES = ("DATABASE", "SCHEMA", "NAMESPACE")
_DATABASE_WORDS = tuple(map(str.lower, _DATABASES))


@dataclass(frozen=True, slots=True)
class HiddenChanges:
    """What a text may change. `told`, `told_databases`: the names of all views, or all databases, are known."""

    views: frozenset[Parts] = frozenset()
    databases: frozenset[Parts] = frozenset()
    told: bool = True
    told_databases: bool = True

    def __or__(self, other: HiddenChanges) -> HiddenChanges:
        return HiddenChanges(
            self.views | other.views,
            self.databases | other.databases,
            self.told and other.told,
            self.told_databases and other.told_databases,
        )


def changes(text: Lexed) -> HiddenChanges:
    """The views and databases that statements anywhere in `text` drop, alter or replace; its strings are included if it
    contains EXECUTE IMMEDIATE."""
    found = HiddenChanges()
    for each in _texts(text):
        if not _holds(each.text, "drop", "alter", "create"):
            continue
        if _is_torn(each):
            escapes = "\\" in each.text  # They may spell any word.
            views, databases = _holds(each.text, "view"), _holds(each.text, *_DATABASE_WORDS)
            found |= HiddenChanges(told=not (escapes or views), told_databases=not (escapes or databases))
            continue
        pieces = each.pieces
        for index, piece in enumerate(pieces):
            if piece.kind == "word" and piece.text.upper() in ("DROP", "ALTER", "CREATE"):
                found |= _change(pieces[index : index + _HEAD_PIECES])
    return found


def _is_torn(text: Lexed) -> bool:
    """Whether it is a script whose statements and strings cannot be distinguished. Long scripts are searched anyway."""
    return len(text.text) <= CHARACTERS_MAX and "begin" in folded(text.text) and _has_open_quote(text)


def temporaries(text: Lexed) -> frozenset[Parts]:
    """The temporary views and functions that statements anywhere in `text` may create, also with CACHE TABLE; its
    strings are included if it contains EXECUTE IMMEDIATE. Names of global temporary views begin with `global_temp`. The
    last part is "" if the name is unknown."""
    found: set[Parts] = set()
    for each in _texts(text):
        if not _holds(each.text, "temp", "cache"):
            continue
        pieces = each.pieces
        for index, piece in enumerate(pieces):
            if piece.kind == "word" and piece.text.upper() in ("TEMP", "TEMPORARY", "CACHE"):
                name = _made(pieces[index : index + _HEAD_PIECES], goes_on=each is not text)
                shared = index > 0 and pieces[index - 1].text.upper() == "GLOBAL"
                if name is not None:
                    found.add((GLOBAL_TEMPORARY, name) if shared else (name,))
    return frozenset(found)


def _texts(text: Lexed) -> Iterator[Lexed]:
    """The text and all texts that it may run."""
    yield text
    if "immediate" in folded(text.text):
        yield from text.within.texts


def _made(pieces: Sequence[Lexeme], *, goes_on: bool) -> str | None:
    """The name that a statement with these first pieces creates; None if it creates none. `goes_on`: the pieces end a
    string that may be concatenated with another one."""
    words = [piece.text.upper() if piece.kind == "word" else "" for piece in pieces]
    # CREATE TEMPORARY TABLE ... USING makes a view, too.
    kinds = ("TABLE",) if words[0] == "CACHE" else ("VIEW", "FUNCTION", "TABLE")
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
"""More pieces than the longest head has: DROP VIEW IF EXISTS with IDENTIFIER('…') or a name of four parts."""


def _holds(text: str, *words: str) -> bool:
    lower = folded(text)
    return any(word in lower for word in words)


def composes(text: Lexed, words: Container[str]) -> bool:
    """Whether the text may build a name, a path or a whole statement at run time. `words` are its words in lower
    case."""
    return "directory" in words or puts_together(text, words)


def puts_together(text: Lexed, words: Container[str]) -> bool:
    """Whether the text may build a name or a whole statement at run time."""
    if moves(text, words):
        return True
    if "identifier" not in words:
        return False
    inner = text.within.texts if "immediate" in words else ()
    return any(_puts_together(each, "identifier") for each in (text, *inner))


def moves(text: Lexed, words: Container[str]) -> bool:
    """Whether the text may build a whole statement at run time, which may change the current database."""
    if "${" in text.text or ("begin" in words and _has_open_quote(text)):
        return True
    if "immediate" not in words:
        return False
    inner = text.within
    return not inner.whole or any(
        "${" in each.text
        or _puts_together(each, "immediate")
        or ("begin" in folded(each.text) and _has_open_quote(each))
        for each in (text, *inner.texts)
    )


def _has_open_quote(text: Lexed) -> bool:
    """Whether it has a quote that is not closed, as ADD JAR may have within a script. The text after it cannot be split
    into names, strings and comments."""
    if not any(quote in text.text for quote in QUOTES):
        return False
    if len(text.text) > CHARACTERS_MAX:
        return True
    return any(piece.kind == "symbol" and piece.text in QUOTES for piece in text.pieces)


def _puts_together(text: Lexed, word: str) -> bool:
    if len(text.text) > CHARACTERS_MAX:
        return True
    if word not in folded(text.text):
        return False
    pieces = text.pieces
    return any(
        piece.kind == "word" and folded(piece.text) == word and not _is_plain(pieces, place)
        for place, piece in enumerate(pieces)
    )


def _is_plain(pieces: Sequence[Lexeme], place: int) -> bool:
    """Whether it is IDENTIFIER('t') or EXECUTE IMMEDIATE 'text', whose name or text is a literal. Double quotes may
    contain the name of a variable."""
    after = place + 1
    if pieces[place].text.upper() == "IMMEDIATE":
        if not place or pieces[place - 1].text.upper() != "EXECUTE":
            return True  # a column
        while after < len(pieces) and pieces[after].kind == "string":
            after += 1
        ends = after == len(pieces) or pieces[after].text.upper() in (";", "USING", "INTO")
        return ends and any(piece.text[-1] == "'" for piece in pieces[place + 1 : after])
    if after == len(pieces) or pieces[after].text != "(":
        return True  # a column of this name
    literal, closing = (*pieces[after + 1 : after + 3], None, None)[:2]
    if literal is None or literal.text[-1] != "'" or closing is None or closing.text != ")":
        return False
    return not any(sign in literal.text[1:-1] for sign in SIGNS)


def _change(pieces: Sequence[Lexeme]) -> HiddenChanges:
    """The changes by the statement that begins with the first piece, if it is one of the four kinds."""
    words = [piece.text.upper() if piece.kind in ("word", "symbol") else "" for piece in pieces]
    place = 1
    if words[0] == "CREATE":
        if words[1:3] != ["OR", "REPLACE"]:
            return HiddenChanges()
        place = 3
    kind = words[place] if place < len(words) else ""
    is_database = words[0] == "DROP" and kind in _DATABASES
    if kind != "VIEW" and not is_database:
        return HiddenChanges()
    place += 1
    if words[place : place + 2] == ["IF", "EXISTS"]:
        place += 2
    name = _name(pieces[place:])
    if name is None:
        return HiddenChanges(told_databases=False) if is_database else HiddenChanges(told=False)
    return HiddenChanges(databases=frozenset({name})) if is_database else HiddenChanges(views=frozenset({name}))


def _name(pieces: Sequence[Lexeme]) -> Parts | None:
    """The dotted name at the beginning; None if it is unknown."""
    parts, after = dotted_name(pieces)
    if not parts and pieces and pieces[0].kind == "string":
        return (string_value(pieces[0].text),)
    return parts if parts and is_whole(pieces, after) else None
