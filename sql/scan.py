"""Spark's lexical rules: words, back quotes, strings, comments.

sqlglot's tokenizer is made for whole statements that it knows: it takes all that follows SHOW, CALL or EXECUTE as one
string and joins `MSCK REPAIR` into one token. The heads of statements are read here instead, lazily, so that a long
body costs nothing. Rules: Spark's SqlBaseLexer. Comments nest; `/*+` begins none, and outside of comments a hint, which
is passed over like a comment. `--` goes on after a backslash at the line's end. Strings are raw, or double their
quotes. Keywords are compared in Java's upper case, to which two letters beyond ASCII lead. (Spark refuses a text with
a few control characters that count as blanks here.)

The rules are stated once and compiled twice. `tokens` gives lexemes with their kinds and places. `coarse_pieces` gives
the texts of larger pieces only, in a third of that time: each query pays for it that a view might answer. It is exact
for texts without open quotes and nested comments, whose callers give up on any other text. A test compares both with
each other, and with Spark's lexer. (`sql.redaction` looks for secrets in texts that need not be SQL, and may be cut off
anywhere; it follows no lexical rules.)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import Enum, auto
from typing import Literal, NamedTuple, cast

from sql.names import Parts

Kind = Literal["word", "quoted", "string", "symbol"]


QUOTES = "'\"`"


class Lexeme(NamedTuple):
    """A piece of text with its character offsets, end exclusive; `text` is as written, quotes included."""

    kind: Kind
    text: str
    start: int
    end: int


Token = tuple[Kind, str, int]
"""The kind, the text and the start of a piece: a Lexeme takes three times as long to create."""

_RAW = r"""[rR](?:'[^']*+'|"[^"]*+")"""
_IN_SINGLE = r"""'[^'\\]*+(?:(?:\\.|'')[^'\\]*+)*"""
_IN_DOUBLE = r""""[^"\\]*+(?:(?:\\.|"")[^"\\]*+)*"""
_IN_BACK_QUOTES = r"`[^`]*+(?:``[^`]*+)*"
_STRING = rf"""{_IN_SINGLE}'|{_IN_DOUBLE}\""""
_QUOTED = rf"{_IN_BACK_QUOTES}`"
_LINE_COMMENT = r"--(?:\\\n|[^\r\n])*+"
_COMMENT_REST = r"(?!\+)[^*/]*+(?:(?:\*(?!/)|/(?!\*))[^*/]*+)*\*/"
_PLAIN_COMMENT = rf"/\*{_COMMENT_REST}"
"""One in which no other one begins."""
_BLANK = re.compile(rf"(?:\s+|{_LINE_COMMENT})+")
_COMMENT = re.compile(r"/\*(?!\+)")
_COMMENT_EDGE = re.compile(r"/\*(?!\+)|\*/")
_PASSED_OVER = rf"\s++ | {_LINE_COMMENT} | {_PLAIN_COMMENT}"
_LEXEME = re.compile(
    rf"""{_PASSED_OVER} | (?P<string>{_RAW}|{_STRING}) | (?P<word>\w++) | (?P<quoted>{_QUOTED})
    | (?P<symbol>\*/|(?!/\*)[^'"`]) | (?P<odd>.)""",
    re.VERBOSE | re.DOTALL,
)
"""`*/` ends a hint, and nothing begins within it: in ADD JAR, `*/*` begins no comment. Odd are an open quote, and the
beginning of a hint, or of a comment that is not plain."""
_BEHIND_OPEN_QUOTE = re.compile(
    rf"{_PASSED_OVER} | (?P<word>\w++) | (?P<symbol>\*/|(?!/\*).) | (?P<odd>.)", re.VERBOSE | re.DOTALL
)

_COARSE = re.compile(
    rf"""[a-qs-wyzA-QS-WYZ_]\w*+ | [(),.+%;] | \*/?+ | {_LINE_COMMENT}
    | /\*(?:\+[^*]*+(?:\*(?!/)[^*]*+)*(?:\*/|\Z) | {_COMMENT_REST})?
    | {_RAW} | {_IN_SINGLE}(?:'|\\?\Z) | {_IN_DOUBLE}(?:"|\\?\Z) | {_IN_BACK_QUOTES}(?:`|\Z)
    | [xX]{_IN_SINGLE}(?:'|\\?\Z)
    | \d++(?:\.(?![rR]['"])\d*+)?(?:[eE][+-]?+\d++)?\w*+ | \w++
    | <(?:=>?|>|<)?+ | >(?:=|>>?)?+ | !(?:[=<>])?+ | =(?:=|>)?+ | \|[|>]?+ | :[:=]?+ | ->?+ | \S""",
    re.VERBOSE | re.DOTALL,
)
"""What is frequent stands first. A quote or a hint without an end reaches to the end of the text: looking for the end
of each later one would take quadratic time."""
_CLOSED = re.compile(rf"""[xX]?{_STRING}|{_QUOTED}|(?![xX]')[^'"`].*""", re.DOTALL)

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
        if found.group() == "*/":
            return found.end()
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


def lexemes(text: str) -> Iterator[Lexeme]:
    """The pieces of `text`. Never fails: an unclosed quote is a symbol, and so is any after it."""
    return map(lexeme, tokens(text))


def lexeme(token: Token) -> Lexeme:
    kind, text, start = token
    return Lexeme(kind, text, start, start + len(text))


def tokens(text: str) -> Iterator[Token]:
    """The same: the lexer.

    (Spark refuses a text with an unclosed quote. To look for the end of each quote again would take quadratic time.)
    """
    pattern, hints, position = _LEXEME, True, 0
    while position < len(text):
        for found in pattern.finditer(text, position):
            kind = found.lastgroup
            if kind is None:
                continue
            if kind == "odd":
                piece, start = found.group(), found.start()
                if piece == "/" and (position := _passed_over(text, start, hints=hints)) > start:
                    break
                yield "symbol", piece, start
                if piece == "/":
                    hints = False  # It is open: no other one behind it is closed.
                    continue
                pattern, position = _BEHIND_OPEN_QUOTE, start + 1
                break
            yield cast(Kind, kind), found.group(), found.start()
        else:
            return


def coarse_pieces(text: str) -> list[str]:
    """The texts of its pieces, which are larger than lexemes: numbers with points and signs, operators, `x'00'`.
    Comments and hints are among them. Not those of Spark if a comment or hint, or the last piece, `is_torn`."""
    return _COARSE.findall(text)


def is_torn(piece: str) -> bool:
    """Whether a coarse piece may end elsewhere to Spark: a comment that holds another one, a hint that holds an end of
    hints in a string, or a quote without an end."""
    if piece.startswith("/*"):
        return piece == "/*" or skip_blank(piece) < len(piece)
    return _CLOSED.fullmatch(piece) is None


def _passed_over(text: str, start: int, *, hints: bool) -> int:
    """The end of the comment that begins at `start`, and holds others or is open, or of a hint; `start`: of none."""
    if not text.startswith("+", start + 2):
        return _comment_end(text, start)
    end = _hint_end(text, start) if hints else None
    return start if end is None else end


def is_identifier(lexeme: Lexeme) -> bool:
    """Whether this piece can be part of a name. In double quotes it can with spark.sql.ansi.doubleQuotedIdentifiers.

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


class LiteralReading(Enum):
    """How Spark's settings have it read string literals."""

    UNESCAPED = auto()
    """By default."""
    AS_WRITTEN = auto()
    """spark.sql.parser.escapedStringLiterals: what stands between the quotes, of a raw one with its first quote."""
    JOINED = auto()
    """spark.sql.legacy.consecutiveStringLiterals.enabled: a doubled quote stands for nothing."""


def string_values(literals: Sequence[str]) -> dict[LiteralReading, str]:
    """What adjacent literals stand for together, under each of these settings."""
    written = "".join(literal[1:-1] for literal in literals)
    values = "".join(map(string_value, literals))
    joined = "".join(string_value(_without_doubled(literal)) for literal in literals)
    return {LiteralReading.UNESCAPED: values, LiteralReading.AS_WRITTEN: written, LiteralReading.JOINED: joined}


_PIECE = re.compile(r"""\\.|''|""" + '""', re.DOTALL)


def _without_doubled(literal: str) -> str:
    quote = literal[0]
    if quote in "rR" or quote * 2 not in literal[1:-1]:
        return literal
    kept = _PIECE.sub(lambda found: "" if found.group() == quote * 2 else found.group(), literal[1:-1])
    return f"{quote}{kept}{quote}"


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
    """Whether the name that ends before place `end` is complete: not before a dot, or where it is made at run time."""
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
    """Whether IDENTIFIER(…) stands there."""
    following = pieces[place + 1 : place + 2]
    return bool(following) and following[0].text == "(" and pieces[place].text.upper() == "IDENTIFIER"
