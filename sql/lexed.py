"""A text with its pieces (lexemes), which are lexed at most once; a cursor over them, for small grammars; and the texts
that a text may run: the values of its string literals, and of the literals within these.

EXECUTE IMMEDIATE runs the value of a literal, IDENTIFIER uses it as a name, and CALL passes it to a procedure. The
value depends on settings that are not known here, so a literal has all the values that it could have.

Tests: `test_scan`.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice, takewhile
from typing import overload

from sql.names import Parts
from sql.scan import (
    Kind,
    Lexeme,
    LiteralReading,
    Token,
    identifier,
    is_identifier,
    lexeme,
    string_value,
    string_values,
    tokens,
)

DEPTH_MAX = 4
"""The maximum nesting of literals. Each level doubles the backslashes of the level below."""
CHARACTERS_MAX = 400_000
"""The maximum length of all texts within a text. Longer ones are not searched."""
SIGNS = ("\\", "''", '""')
"""A literal without any of these has the same value under all settings."""
_SETTING = re.compile("(?:escaped|consecutive)StringLiterals", re.IGNORECASE)
"""A setting that may change between the texts."""
_PACKED_CHARACTERS = 100_000
"""The pieces of a longer text are packed."""
_BLOCK = 64
"""The number of pieces that are lexed at a time, because often only a statement's head is needed."""


class Lexed:
    """A text with its pieces, which are lexed when they are needed."""

    __slots__ = ("_inside", "_pieces", "_source", "_tokens", "_within", "text")

    def __init__(self, text: str, source: Iterable[Token] | None = None) -> None:
        """`source`: the text's tokens, if they are known."""
        self.text = text
        self._source = None if source is None else iter(source)
        self._tokens: list[Token] | _Packed = [] if len(text) <= _PACKED_CHARACTERS else _Packed(text)
        self._pieces: list[Lexeme] = []
        self._inside: dict[str, Lexed] = {}
        self._within: Within | None = None

    def __reduce__(self) -> tuple[type[Lexed], tuple[str]]:
        return Lexed, (self.text,)

    @property
    def tokens(self) -> Sequence[Token | Lexeme]:
        """All tokens, or all pieces if these are packed."""
        self._tokens.extend(self._rest())
        return self._tokens

    @property
    def pieces(self) -> Sequence[Lexeme]:
        """All pieces."""
        found = self._tokens
        found.extend(self._rest())
        if isinstance(found, _Packed):
            return found
        if len(self._pieces) < len(found):
            self._pieces += map(lexeme, found[len(self._pieces) :])
        return self._pieces

    def at(self, place: int) -> Lexeme | None:
        """The piece at that place; None after the end."""
        if place < len(self._pieces):
            return self._pieces[place]
        found = self._tokens
        while place >= (known := len(found)):
            found.extend(islice(self._rest(), _BLOCK))
            if len(found) == known:
                return None
        if isinstance(found, _Packed):
            return found[place]
        self._pieces += map(lexeme, found[len(self._pieces) : place + 1])
        return self._pieces[place]

    def _rest(self) -> Iterator[Token]:
        """The tokens that have not been lexed yet."""
        if self._source is None:
            self._source = tokens(self.text)
        return self._source

    def start_of(self, place: int) -> int:
        """The offset of the piece at that place; the text's length after the end."""
        piece = self.at(place)
        return len(self.text) if piece is None else piece.start

    def until(self, position: int) -> Sequence[Lexeme]:
        """The pieces that begin before that offset."""
        if len(self.text) <= position:
            return self.pieces
        return list(takewhile(lambda piece: piece.start < position, self._from(0)))

    def place_of(self, position: int) -> int:
        """The place of the first piece that begins at or after that offset."""
        return len(self.until(position))

    def _from(self, place: int) -> Iterator[Lexeme]:
        while (piece := self.at(place)) is not None:
            yield piece
            place += 1

    # --- texts that are derived from it

    def part(self, place: int, end: int) -> Lexed:
        """The text of the pieces from `place` to `end` (exclusive)."""
        pieces = self.pieces[place:end]
        start = pieces[0].start
        tokens = ((each.kind, each.text, each.start - start) for each in pieces)
        return self._derived(self.text[start : pieces[-1].end], tokens)

    def without(self, spans: Sequence[tuple[int, int]]) -> Lexed:
        """The text with blanks in these spans of offsets, so that all other offsets stay the same. The spans are in
        order, do not overlap, and split no piece."""
        kept: list[str] = []
        done = 0
        for start, end in spans:
            kept += self.text[done:start], " " * (end - start)
            done = end
        rest = (each for each in self._from(0) if not any(start <= each.start < end for start, end in spans))
        return self._derived("".join([*kept, self.text[done:]]), _tokens_of(rest))

    def behind(self, place: int, begins: str = "") -> Lexed:
        """The text from a piece on, at its offset, after blanks, or after the word `begins` and blanks."""
        start = self.start_of(place)
        first: list[Token] = [("word", begins, 0)] if begins else []
        return self._derived(begins.ljust(start) + self.text[start:], chain(first, _tokens_of(self._from(place))))

    def _derived(self, text: str, source: Iterable[Token]) -> Lexed:
        """A text of these tokens, which shares the texts of its literals with this one."""
        derived = Lexed(text, source)
        derived._inside = self._inside
        return derived

    # --- texts within it

    @property
    def within(self) -> Within:
        """The texts that it may run."""
        if self._within is None:
            self._within = _within(self)
        return self._within

    def inside(self, text: str) -> Lexed:
        """A text within this one. Repeated calls return the same object."""
        if (found := self._inside.get(text)) is None:
            found = self._inside[text] = Lexed(text)
        return found


def _tokens_of(pieces: Iterable[Lexeme]) -> Iterator[Token]:
    return ((piece.kind, piece.text, piece.start) for piece in pieces)


class _Packed(Sequence[Lexeme]):
    """The pieces of a long text, in nine bytes each; a list takes about two hundred."""

    __slots__ = ("_ends", "_kinds", "_starts", "_text")
    _KINDS: tuple[Kind, ...] = ("word", "quoted", "string", "symbol")

    def __init__(self, text: str) -> None:
        self._text = text
        self._kinds, self._starts, self._ends = bytearray(), array("I"), array("I")

    def extend(self, source: Iterable[Token]) -> None:
        number_of = self._KINDS.index
        for kind, text, start in source:
            self._kinds.append(number_of(kind))
            self._starts.append(start)
            self._ends.append(start + len(text))

    def __len__(self) -> int:
        return len(self._kinds)

    @overload
    def __getitem__(self, place: int) -> Lexeme: ...
    @overload
    def __getitem__(self, place: slice) -> list[Lexeme]: ...
    def __getitem__(self, place: int | slice) -> Lexeme | list[Lexeme]:
        if isinstance(place, slice):
            return list(map(self._piece, self._kinds[place], self._starts[place], self._ends[place]))
        return self._piece(self._kinds[place], self._starts[place], self._ends[place])

    def __iter__(self) -> Iterator[Lexeme]:
        return map(self._piece, self._kinds, self._starts, self._ends)

    def _piece(self, kind: int, start: int, end: int) -> Lexeme:
        return Lexeme(self._KINDS[kind], self._text[start:end], start, end)


# --- the values of its literals ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Within:
    """The texts that may run, each once, the outermost first. Not `whole`: there are deeper or longer ones, too."""

    texts: tuple[Lexed, ...] = ()
    whole: bool = True


def _within(text: Lexed) -> Within:
    """The texts that may run within `text`, without itself. Never raises."""
    if not _has_literal(text.text):
        return Within()
    if _SETTING.search(text.text) is not None:
        return Within(whole=False)
    found: dict[str, None] = {}
    left = CHARACTERS_MAX
    for setting in LiteralReading if any(sign in text.text for sign in SIGNS) else [LiteralReading.UNESCAPED]:
        level = [text]
        for _ in range(DEPTH_MAX):
            inner = dict.fromkeys(value for each in level for value in _values(text, each, setting))
            level = [text.inside(each) for each in inner if _has_literal(each)]
            left -= sum(len(each) for each in inner)
            if left < 0:
                return Within(tuple(map(text.inside, found)), whole=False)
            found.update(inner)
        if any(_values(text, each, setting) for each in level):
            return Within(tuple(map(text.inside, found)), whole=False)
    return Within(tuple(map(text.inside, found)))


def _has_literal(text: str) -> bool:
    return "'" in text or '"' in text


def _values(outer: Lexed, text: Lexed, setting: LiteralReading) -> list[str]:
    """The values of the literals of a text; adjacent literals are one literal, as in Spark."""
    values = [string_values(run)[setting] for run in _runs(text)]
    if setting is not LiteralReading.AS_WRITTEN:
        return values
    return [value for value in values if "\\" not in value or not _has_backslash(outer.inside(value))]


def _has_backslash(text: Lexed) -> bool:
    """Whether it has a backslash outside of quotes and comments. Such a text is neither SQL nor a name."""
    return any(piece.text == "\\" for piece in text.pieces)


def _runs(text: Lexed) -> Iterator[list[str]]:
    run: list[str] = []
    for piece in text.pieces:
        if piece.kind == "string":
            run.append(piece.text)
        elif run:
            yield run
            run = []
    if run:
        yield run


# --- cursor --------------------------------------------------------------------------------------------


class Cursor:
    """A place in a text, which the words that a small grammar expects move forward."""

    def __init__(self, lexed: Lexed, place: int = 0) -> None:
        self.lexed = lexed
        self.place = place
        """The index of the next piece."""

    @property
    def text(self) -> str:
        return self.lexed.text

    def peek(self, distance: int = 0) -> Lexeme | None:
        """The piece `distance` places ahead, or None at the end."""
        return self.lexed.at(self.place + distance)

    def take(self) -> Lexeme | None:
        """The next piece, consumed; None at the end."""
        piece = self.peek()
        if piece is not None:
            self.place += 1
        return piece

    @property
    def position(self) -> int:
        """The offset of the next piece; the text's length at the end."""
        return self.lexed.start_of(self.place)

    def sees(self, *expected: str) -> bool:
        """Whether these words (in upper case) or symbols come next. Back-quoted names are not words."""
        for distance, word in enumerate(expected):
            piece = self.peek(distance)
            if piece is None or piece.kind not in ("word", "symbol") or piece.text.upper() != word:
                return False
        return True

    def accept(self, *expected: str) -> bool:
        """Consumes these words or symbols if all of them come next."""
        if not self.sees(*expected):
            return False
        self.place += len(expected)
        return True

    def accept_any(self, *expected: str) -> str | None:
        """Consumes one of these words and returns it; None if none comes next."""
        return next((word for word in expected if self.accept(word)), None)

    def name(self) -> Parts | None:
        """Consumes a dotted name; None if no identifier comes next, or none after a dot, which is consumed then.

        The parts before such a dot are not a table's name, for example `db` in db.'t'.
        """
        parts: list[str] = []
        while (piece := self.peek()) is not None and is_identifier(piece):
            parts.append(identifier(piece))
            self.take()
            if not self.accept("."):
                return tuple(parts)
        return None

    def string(self) -> str | None:
        """Consumes a string literal (adjacent ones are one, as in Spark); None if none comes next."""
        values: list[str] = []
        while (piece := self.peek()) is not None and piece.kind == "string":
            values.append(string_value(piece.text))
            self.take()
        return "".join(values) if values else None

    def skip_brackets(self) -> None:
        """Consumes the bracketed group that comes next, if any, but no group after it."""
        depth = 0
        while (piece := self.peek()) is not None:
            if piece.text == "(":
                depth += 1
            elif depth == 0:
                return
            elif piece.text == ")":
                depth -= 1
            self.take()
            if depth == 0:
                return

    def at_query(self) -> bool:
        """Whether a query begins here. (`WITH SERDEPROPERTIES` and `WITH SCHEMA BINDING` do not begin one.)"""
        piece = self.peek()
        if piece is None or piece.kind != "word" or (word := piece.text.upper()) not in _BEGINNINGS:
            return False
        if word == "WITH":
            return self.peek(2) is not None and not self.sees("WITH", "SERDEPROPERTIES") and self._names_cte()
        return True

    def _names_cte(self) -> bool:
        if self.sees("WITH", "RECURSIVE"):
            return True
        after = self.peek(2)
        return after is not None and after.text.upper() in ("AS", "(", "MAX")

    def find_query(self) -> int | None:
        """Moves to the first query outside of brackets and returns its place; None if there is none.

        AS is optional before a query in brackets, so brackets contain a query unless they follow a clause with a list.
        """
        before = ""
        while (piece := self.peek()) is not None:
            if self.at_query():
                return self.place
            if self.accept("AS"):
                if self.sees("(") or self.at_query():
                    return self.place
            elif piece.text != "(":
                self.take()
            elif before in _BEFORE_LIST:
                self.skip_brackets()
            else:
                return self.place
            before = piece.text.upper() if piece.kind == "word" else ""
        return None

    def brackets_hold_query(self) -> bool:
        """Whether the next brackets hold a query. Those of a list of names may begin with the same word."""
        depth = 0
        while (piece := self.peek(depth)) is not None and piece.text == "(":
            depth += 1
        if not depth or piece is None or piece.kind != "word" or piece.text.upper() not in _BEGINNINGS:
            return False
        after = self.peek(depth + 1)
        return depth > 1 or (after is not None and after.text not in (",", ")"))


_BEGINNINGS = frozenset({"SELECT", "FROM", "VALUES", "TABLE", "MAP", "REDUCE", "WITH"})
_BEFORE_LIST = frozenset({"BY", "ON", "OPTIONS", "TBLPROPERTIES", "SERDEPROPERTIES"})
"""PARTITIONED BY (…), OPTIONS (…): words behind which brackets hold columns or properties."""
