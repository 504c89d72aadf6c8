"""Spark's lexical rules: words, back quotes, strings, comments; and a cursor over them for small grammars.

sqlglot's tokenizer is made for whole statements that it knows: it takes all that follows SHOW, CALL or EXECUTE as one
string and joins `MSCK REPAIR` into one token. The heads of statements are read here instead, lazily, so that a long
body costs nothing. Rules: Spark's SqlBaseLexer. Comments nest; `/*+` begins none, and outside of comments a hint, whose
pieces are lexed. `--` goes on after a backslash at the line's end. Strings are raw, or double their quotes. Keywords
are compared in Java's upper case, to which two letters beyond ASCII lead.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from enum import Enum, auto
from typing import Literal, NamedTuple

from sql.statement import Parts

Kind = Literal["word", "quoted", "string", "symbol"]


QUOTES = "'\"`"


class Lexeme(NamedTuple):
    """A piece of text with its character offsets, end exclusive; `text` is as written, quotes included."""

    kind: Kind
    text: str
    start: int
    end: int


_RAW = r"""[rR](?:'[^']*'|"[^"]*")"""
_STRING = r"""'[^'\\]*(?:(?:\\.|'')[^'\\]*)*'|"[^"\\]*(?:(?:\\.|"")[^"\\]*)*\""""
_QUOTED = r"`[^`]*(?:``[^`]*)*`"
_LEXEME = re.compile(
    rf"""
    (?P<string>{_RAW}|{_STRING})
    |(?P<word>\w+)
    |(?P<quoted>{_QUOTED})
    |(?P<symbol>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_PLAIN = re.compile(r"(?P<word>\w+)|(?P<symbol>.)", re.DOTALL)
_LINE_COMMENT = r"--(?:\\\n|[^\r\n])*+"
_BLANK = re.compile(rf"(?:\s+|{_LINE_COMMENT})+")
_COMMENT = re.compile(r"/\*(?!\+)")
_COMMENT_EDGE = re.compile(r"/\*(?!\+)|\*/")

_KEYWORD_LETTERS = {ord("\u0131"): "i", ord("\u017f"): "s"}
"""The dotless i and the long s, whose capitals in Java are I and S."""


def folded(text: str) -> str:
    """In lower case, with keywords as Spark reads them: `u\u017fe` is USE. (Names are not read so: see str.lower.)"""
    return text.lower() if text.isascii() else text.translate(_KEYWORD_LETTERS).lower()


def skip_blank(text: str, position: int = 0) -> int:
    """The offset of the first character from `position` on that is neither space nor comment nor part of a hint."""
    position = _skip_comments(text, position)
    while text.startswith("/*+", position) and (end := _hint_end(text, position)) is not None:
        position = _skip_comments(text, end)
    return position


def _skip_comments(text: str, position: int) -> int:
    while position < len(text):
        if blank := _BLANK.match(text, position):
            position = blank.end()
        elif _COMMENT.match(text, position):
            position = _comment_end(text, position)
        else:
            break
    return position


def _hint_end(text: str, position: int) -> int | None:
    """Where the hint ends that begins at `position`; None: nowhere. Strings and comments in it may hold such an end."""
    position = _skip_comments(text, position + 3)
    while found := _LEXEME.match(text, position):
        if found.group() in QUOTES:
            return None
        if found.group() == "*" and text.startswith("/", found.end()):
            return found.end() + 1
        position = _skip_comments(text, found.end())
    return None


def _comment_end(text: str, position: int) -> int:
    """Where the comment ends that begins at `position`: comments nest, an unclosed one takes the rest."""
    depth = 0
    for edge in _COMMENT_EDGE.finditer(text, position):
        depth += 1 if edge.group() == "/*" else -1
        if depth == 0:
            return edge.end()
    return len(text)


def lexemes(text: str, position: int = 0) -> Iterator[Lexeme]:
    """The pieces of `text` from `position` on. Never fails: an unclosed quote is a symbol, and so is any after it.

    (Spark refuses such a text. To look for the end of each quote again would take quadratic time.)
    """
    match_at = _LEXEME.match
    skip: Callable[[str, int], int] = skip_blank
    position = skip(text, position)
    while found := match_at(text, position):
        kind: Kind = found.lastgroup  # type: ignore[assignment]
        if kind == "symbol":
            if found.group() in QUOTES:
                match_at = _PLAIN.match
            elif text.startswith("/*", position):  # an open hint: no other one behind it is closed
                skip = _skip_comments
        yield Lexeme(kind, found.group(), position, found.end())
        position = skip(text, found.end())


def is_identifier(lexeme: Lexeme) -> bool:
    """Can this piece be a part of a name? Text in double quotes is one with spark.sql.ansi.doubleQuotedIdentifiers.

    Without that setting it is a string, and Spark refuses it wherever only a name may stand.
    """
    return lexeme.kind in ("word", "quoted") or (lexeme.kind == "string" and lexeme.text[0] == '"')


def identifier(lexeme: Lexeme) -> str:
    """The name that a word, a back-quoted or a double-quoted identifier stands for."""
    if lexeme.kind not in ("quoted", "string"):
        return lexeme.text
    quote = lexeme.text[0]
    return lexeme.text[1:-1].replace(quote * 2, quote)


_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([01][0-7]{2})|(.))|(''|\"\")", re.DOTALL)
_SURROGATES = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_CONTROLS = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}


def string_value(literal: str) -> str:
    """The text that a string literal stands for, as Spark reads it by default (no escapedStringLiterals)."""
    if literal[0] in "rR":
        return literal[2:-1]

    def unescape(found: re.Match[str]) -> str:
        short, long, octal, character, doubled = found.groups()
        if doubled:
            return str(doubled[0]) if doubled[0] == literal[0] else str(doubled)
        if code := short or long:
            number = int(code, 16)
            return chr(number) if number <= 0x10FFFF else "\ufffd"
        return chr(int(octal, 8)) if octal else _CONTROLS.get(character, character)

    value = _ESCAPE.sub(unescape, literal[1:-1])
    return value if value.isascii() else _SURROGATES.sub(_joined, value)


def _joined(pair: re.Match[str]) -> str:
    """The character that is written as two surrogates, as in Java."""
    return pair.group().encode("utf-16", "surrogatepass").decode("utf-16")


class Literals(Enum):
    """How Spark's settings have it read string literals."""

    UNESCAPED = auto()
    """By default."""
    AS_WRITTEN = auto()
    """spark.sql.parser.escapedStringLiterals: what stands between the quotes, of a raw one with its first quote."""
    JOINED = auto()
    """spark.sql.legacy.consecutiveStringLiterals.enabled: a doubled quote stands for nothing."""


def string_values(literals: Sequence[str]) -> dict[Literals, str]:
    """What adjacent literals stand for together, under each of these settings."""
    written = "".join(literal[1:-1] for literal in literals)
    values = "".join(map(string_value, literals))
    joined = "".join(string_value(_without_doubled(literal)) for literal in literals)
    return {Literals.UNESCAPED: values, Literals.AS_WRITTEN: written, Literals.JOINED: joined}


_PIECE = re.compile(r"""\\.|''|""" + '""', re.DOTALL)


def _without_doubled(literal: str) -> str:
    quote = literal[0]
    if quote in "rR" or quote * 2 not in literal[1:-1]:
        return literal
    kept = _PIECE.sub(lambda found: "" if found.group() == quote * 2 else found.group(), literal[1:-1])
    return f"{quote}{kept}{quote}"


class Mark(NamedTuple):
    """What in a text is not to be read as words and symbols."""

    kind: Literal["comment", "hint", "string", "quoted"]
    start: int
    end: int


_MARK = re.compile(
    rf"""(?P<line>{_LINE_COMMENT})
      | (?P<comment>/\*)
      | (?P<string>{_STRING})
      | (?P<raw>{_RAW})
      | (?P<quoted>{_QUOTED})
      | (?P<open>['"`].*)""",
    re.VERBOSE | re.DOTALL,
)
_COMMENT_MARK = re.compile(rf"(?P<line>{_LINE_COMMENT})|(?P<comment>/\*)")

_IN_WORD = re.compile(r"\w\w")


def marks(text: str) -> Iterator[Mark]:
    """The comments, hints, strings and quoted names of a text, those within hints left out: as `lexemes` has it, at the
    speed of a search. Behind an unclosed quote there are comments only."""
    position, hints = 0, True
    search = _MARK.search
    while found := search(text, position):
        start, position = found.span()
        kind = found.lastgroup
        if kind == "comment":
            if text.startswith("+", position):
                end = _hint_end(text, start) if hints else None
                hints = hints and end is not None
                if end is not None:
                    yield Mark("hint", start, end)
                    position = end
                continue
            position = _comment_end(text, start)
            yield Mark("comment", start, position)
        elif kind == "line":
            yield Mark("comment", start, position)
        elif kind == "raw" and _IN_WORD.match(text, start - 1):
            position = start + 1
        elif kind == "open":
            # To look for the end of each further quote would take quadratic time.
            search, position = _COMMENT_MARK.search, start + 1
        else:
            yield Mark("quoted" if kind == "quoted" else "string", start, position)


def dotted_name(pieces: Sequence[Lexeme], start: int = 0) -> tuple[Parts, int]:
    """The parts of the name that begins at place `start`, none if none does, and the place behind it.

    IDENTIFIER('a.b') among them stands for what its string holds (Spark 4.1). A dot that no part follows is left.
    """
    parts: list[str] = []
    place = start
    while place < len(pieces) and is_identifier(pieces[place]):
        found, place = _parts_at(pieces, place)
        parts += found
        if place + 1 >= len(pieces) or pieces[place].text != "." or not is_identifier(pieces[place + 1]):
            break
        place += 1
    return tuple(parts), place


def is_whole(pieces: Sequence[Lexeme], end: int) -> bool:
    """Is the name that ends before place `end` all of a name? Not before a dot, or where it is made at run time."""
    return end >= len(pieces) or not (pieces[end].text == "." or _makes_name(pieces, end - 1))


def _parts_at(pieces: Sequence[Lexeme], place: int) -> tuple[list[str], int]:
    if _makes_name(pieces, place) and place + 3 < len(pieces):
        literal, closing = pieces[place + 2], pieces[place + 3]
        # (In double quotes it may be a variable.)
        if literal.kind == "string" and literal.text[0] != '"' and closing.text == ")":
            held = lexemes(string_value(literal.text))
            return [identifier(piece) for piece in held if is_identifier(piece)], place + 4
    return [identifier(pieces[place])], place + 1


def _makes_name(pieces: Sequence[Lexeme], place: int) -> bool:
    """Does IDENTIFIER(…) stand there?"""
    return [piece.text.upper() for piece in pieces[place : place + 2]] == ["IDENTIFIER", "("]


class Cursor:
    """A place in a text, moved forward by the words that a small grammar expects."""

    def __init__(self, text: str, position: int = 0) -> None:
        self.text = text
        self._source = lexemes(text, position)
        self._ahead: list[Lexeme] = []

    def peek(self, distance: int = 0) -> Lexeme | None:
        """The piece `distance` places ahead, or None at the end."""
        while len(self._ahead) <= distance:
            piece = next(self._source, None)
            if piece is None:
                return None
            self._ahead.append(piece)
        return self._ahead[distance]

    def take(self) -> Lexeme | None:
        """The next piece, consumed; None at the end."""
        piece = self.peek()
        if piece is not None:
            del self._ahead[0]
        return piece

    @property
    def position(self) -> int:
        """The offset of the next piece; the text's length at the end."""
        piece = self.peek()
        return len(self.text) if piece is None else piece.start

    def sees(self, *expected: str) -> bool:
        """Do these words or symbols come next? Words in upper case; back-quoted names are no words."""
        for distance, word in enumerate(expected):
            piece = self.peek(distance)
            if piece is None or piece.kind not in ("word", "symbol") or piece.text.upper() != word:
                return False
        return True

    def accept(self, *expected: str) -> bool:
        """Consume these words or symbols if all of them come next."""
        if not self.sees(*expected):
            return False
        del self._ahead[: len(expected)]
        return True

    def accept_any(self, *expected: str) -> str | None:
        """Consume one of these words and tell which; None if none comes next."""
        return next((word for word in expected if self.accept(word)), None)

    def name(self) -> Parts | None:
        """Consume a dotted name; None if no identifier comes next, or none after a dot, which is consumed then.

        What stands before such a dot is the name of something else: `db` of db.'t' is no table.
        """
        parts: list[str] = []
        while (piece := self.peek()) is not None and is_identifier(piece):
            parts.append(identifier(piece))
            self.take()
            if not self.accept("."):
                return tuple(parts)
        return None

    def string(self) -> str | None:
        """Consume a string literal (adjacent ones are one, as in Spark); None if none comes next."""
        values: list[str] = []
        while (piece := self.peek()) is not None and piece.kind == "string":
            values.append(string_value(piece.text))
            self.take()
        return "".join(values) if values else None

    def skip_brackets(self) -> None:
        """Consume the bracketed group that comes next, if one does, with all that it holds; not another behind it."""
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
        """Does a query begin here? (`WITH SERDEPROPERTIES` and `WITH SCHEMA BINDING` do not begin one.)"""
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
        """Move to the first query that is not inside brackets and give its offset; None if there is none.

        AS may be left out before one in brackets, so these hold one unless a clause that has a list stands before them.
        """
        before = ""
        while (piece := self.peek()) is not None:
            if self.at_query():
                return piece.start
            if self.accept("AS"):
                if self.sees("(") or self.at_query():
                    return self.position
            elif piece.text != "(":
                self.take()
            elif before in _BEFORE_LIST:
                self.skip_brackets()
            else:
                return piece.start
            before = piece.text.upper() if piece.kind == "word" else ""
        return None

    def brackets_hold_query(self) -> bool:
        """Do brackets come next that hold a query? Those of a list of names may begin with the same word."""
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
