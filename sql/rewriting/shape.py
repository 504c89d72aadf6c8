"""The shape of a text: what remains without its literals, blanks and comments. Texts of one shape share a rewriting.

A literal becomes a hole that only says its type, unless its value decides what the text means: an ordinal, a unit of
time, the length of a type. Such a literal is pinned: it stays in the shape. Numbers of different types, and strings
that look like dates, have different holes, so the texts of one shape are typed alike. Names keep their case, because
the columns of a result are called as the client wrote them; only words of the grammar are folded, and not where they
may be names.

Tests: `test_query_shape`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from sql.scan import coarse_pieces, is_torn

HOLE = "\ue000"
"""Begins a hole among the pieces of a shape; its kind follows."""
LIMIT, STRING, DAY, MOMENT, INTEGER, LONG = "limit", "string", "day", "moment", "int", "bigint"
"""Kinds of holes: the number behind LIMIT; strings, among them those that look like a date, or a date and time; whole
numbers, with how many digits they have, for these are the precision of one that a decimal is multiplied by. Other kinds
are `decimal(p,s)`, `double`, and the suffixes of numbers."""

_GRAMMAR = """
    select from where group by having order limit offset join inner left right full outer cross semi anti on using union
    and or not in is like rlike between as case when then else with over partition interval values except intersect
    preceding following
"""
_FOLDED = {form: word.upper() for word in _GRAMMAR.split() for form in (word, word.upper(), word.capitalize())}
"""Words of the grammar as people write them."""
_BEFORE_NAMES = frozenset({".", "AS", ","})
_AFTER_NAMES = frozenset({",", ")", "FROM", ";"})
"""No folded word ends an item, so one that stands before these is a name."""
_SPECIAL = frozenset("0123456789'\"`-/rRxX")
"""What may begin a literal, a comment or a hint."""
_FRAMES = frozenset({"PRECEDING", "FOLLOWING"})
_OF_CLAUSES = _FRAMES | frozenset(
    {"BY", "SELECT", "HAVING", "ORDER", "LIMIT", "OFFSET", "UNION", "EXCEPT", "INTERSECT", "FROM", "WHERE"}
)
"""Words that begin or end BY, or stand behind the number of a frame."""
_FORMAT_NAMES = """
    trunc date_format from_unixtime unix_timestamp to_unix_timestamp to_date to_timestamp to_timestamp_ltz
    to_timestamp_ntz try_to_date try_to_timestamp from_utc_timestamp to_utc_timestamp next_day to_char to_varchar
    to_number format_number format_string round bround ceil ceiling floor lag lead nth_value percentile
    percentile_approx approx_percentile approx_count_distinct conv from_json schema_of_json from_csv collate
"""
FORMATS = frozenset(_FORMAT_NAMES.split())
"""Calls in which a literal behind the first argument decides the meaning or the type."""
UNITS = frozenset(
    {
        "date_trunc",
        "date_part",
        "datepart",
        "decimal",
        "dec",
        "numeric",
        "char",
        "character",
        "varchar",
        "ntile",
        "convert_timezone",
        "extract",
        "named_struct",
        "stack",
    }
)
"""Calls, and types, in which every literal does."""
_BEFORE_PINNED = frozenset({"INTERVAL", "ESCAPE"})
_NUMBER = re.compile(r"(\d+)(\.\d*)?([eE][+-]?\d+)?([a-zA-Z]*)")
_DIGIT_AT_END = re.compile(r"\d(?!\.?\d)")
"""The last one of a number without its exponent: another one in its place leaves the type as it is."""
_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d)(?:[ T]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?)?")
_SUFFIXES = frozenset({"L", "S", "Y", "D", "F", "BD"})
_INTEGER_DIGITS, _LONG_DIGITS, _DECIMAL_DIGITS = 9, 18, 38
"""Numbers of so many digits surely fit the type."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A text without its literals."""

    key: str
    literals: tuple[str, ...]
    """What stood in the holes, as written."""
    pieces: tuple[str, ...]
    """The words and symbols of the key, with hints, without comments."""
    trouble: str = ""
    """Why the text has no shape that others could share."""

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kind of each hole."""
        return tuple(piece[1:] for piece in self.pieces if piece[0] == HOLE)

    @property
    def hints(self) -> Hints:
        return _hints(self.pieces)

    def changed(self) -> tuple[str, ...]:
        """Other literals of the same kinds: a rewriting that also holds for these does not depend on the values."""
        return tuple(map(_changed, self.kinds, self.literals))


def shape_of(text: str) -> Shape:
    """Never raises."""
    if HOLE in text:
        return Shape(text, (), (), "it contains a character of Unicode's private use area")
    reader = _Reader()
    reader.read(coarse_pieces(text))
    pieces = reader.pieces
    return Shape(" ".join(pieces), tuple(reader.literals), tuple(pieces), reader.trouble)


_WRITTEN_HOLE = re.compile(f"{HOLE}\\S+")


def readable(key: str) -> str:
    """The key of a shape with `?` for each hole."""
    return _WRITTEN_HOLE.sub("?", key)


class _Reader:
    """One pass over the tokens of a text."""

    __slots__ = ("_by", "_calls", "literals", "pieces", "trouble")

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.literals: list[str] = []
        self.trouble = ""
        self._calls: list[str] = []
        """What stands before each open bracket."""
        self._by = -1
        """The number of open brackets around the GROUP BY or ORDER BY that has begun; -1: none has."""

    def read(self, tokens: Sequence[str]) -> None:
        pieces, calls, folded, special = self.pieces, self._calls, _FOLDED, _SPECIAL
        add = pieces.append
        previous, written = "", ""
        for token in tokens:
            if (word := folded.get(token)) is not None and previous not in _BEFORE_NAMES:
                if word == "FROM" and written:
                    pieces[-1] = written
                if word in _OF_CLAUSES:
                    self._clause(word)
                add(word)
                previous, written = word, token
                continue
            if token == "(":
                calls.append(previous)
            elif token == ")":
                self._close()
            elif token[0] in special:
                token = self._special(token, previous)
                if not token:
                    continue
            if written:
                if token in _AFTER_NAMES:
                    pieces[-1] = written
                written = ""
            add(token)
            previous = token
        self._end(written)
        if tokens and is_torn(tokens[-1]):
            self.trouble = "it has a quote without an end"

    def _clause(self, word: str) -> None:
        if word == "BY":
            self._by = len(self._calls)
        elif word in _FRAMES:
            if self.pieces and self.pieces[-1][0] == HOLE:
                self.pieces[-1] = self.literals.pop()
        elif self._by >= len(self._calls):
            self._by = -1

    def _end(self, written: str) -> None:
        if written:
            self.pieces[-1] = written
        while self.pieces and self.pieces[-1] == ";":
            self.pieces.pop()

    def _special(self, token: str, previous: str) -> str:
        """What stands for a token: a hole for a literal, nothing for a comment, otherwise the token."""
        first = token[0]
        if first in "-/":
            return self._comment(token)
        if token[-1] in "'\"":
            return self._string(token, previous)
        if first.isdigit():
            return self._after_point(token) if previous == "." else self._number(token, previous)
        return token

    def _comment(self, token: str) -> str:
        """Or a symbol that begins like one."""
        if token.startswith("/*") and is_torn(token):
            self.trouble = "it has a comment within a comment, or one without an end"
        if token.startswith("/*+"):
            return _folded_hint(token)
        return "" if token.startswith(("--", "/*")) else token

    def _close(self) -> None:
        """A bracket."""
        if self._calls:
            self._calls.pop()
        if self._by > len(self._calls):
            self._by = -1

    def _string(self, token: str, previous: str) -> str:
        # In double quotes it may be a name.
        if token[0] in 'xX"' or previous.upper() in _BEFORE_PINNED or (self._calls and self._decides(previous)):
            return token
        self.literals.append(token)
        return HOLE + _string_kind(token)

    def _after_point(self, token: str) -> str:
        """`.5`, which stays as it is, or a name after a point."""
        before = self.pieces[-2] if len(self.pieces) > 1 else ""
        if before not in _FOLDED.values() and (before[-1:].isalnum() or before[-1:] in ("_", "`", ")", "]")):
            return token
        self.pieces.pop()
        return f".{token}"

    def _number(self, token: str, previous: str) -> str:
        if previous in ("LIMIT", "OFFSET"):
            return self._hole(LIMIT, token) if token.strip("0") and token.isdecimal() else token
        is_ordinal = self._by == len(self._calls) and previous in ("BY", ",")
        if is_ordinal or previous.upper() == "INTERVAL" or (self._calls and self._decides(previous)):
            return token
        is_integer = token.isdecimal() and len(token) <= _INTEGER_DIGITS
        kind = f"{INTEGER}{len(token)}" if is_integer else _number_kind(token)
        return self._hole(kind, token) if kind else token

    def _decides(self, previous: str) -> bool:
        """Whether a literal here decides the meaning of the call around it."""
        call = self._calls[-1].lower()
        return call in UNITS or (previous != "(" and call in FORMATS)

    def _hole(self, kind: str, token: str) -> str:
        self.literals.append(token)
        return HOLE + kind


def _number_kind(token: str) -> str:
    """Empty for one that is pinned: a name such as `2nd`, or a number of a rare form."""
    found = _NUMBER.fullmatch(token)
    if found is None:
        return ""
    whole, fraction, exponent, suffix = found.groups()
    if suffix:
        return suffix.upper() if suffix.upper() in _SUFFIXES - {"BD"} else ""
    if exponent:
        return "double"
    if fraction is None:
        digits = len(whole.lstrip("0"))
        return f"{LONG}{digits}" if _INTEGER_DIGITS + 1 < digits <= _LONG_DIGITS else ""
    scale = len(fraction) - 1
    precision = max(len((whole + fraction[1:]).lstrip("0")), scale)
    return f"decimal({precision},{scale})" if 0 < precision <= _DECIMAL_DIGITS else ""


def _string_kind(token: str) -> str:
    if token[5:6] == "-" and (found := _MOMENT.fullmatch(token, 1, len(token) - 1)):
        return DAY if found.end() - found.start() == len("2024-01-01") else MOMENT
    return STRING


def others_of(kind: str, literal: str) -> Iterator[str]:
    """Other literals of a kind."""
    found = literal
    if literal[-1] in "'\"":
        while True:
            yield (found := _changed(kind, found))
    number = _NUMBER.match(literal)
    whole, fraction = (number[1], number[2] or "") if number is not None else ("", "")
    first = len(whole) - len(whole.lstrip("0") or whole[-1:])
    for place in reversed(range(first, len(whole + fraction))):
        for step in range(1, 10) if literal[place].isdecimal() else ():
            digit = (int(literal[place]) + step) % 10
            if digit or place > first or len(whole + fraction) == 1:
                yield f"{literal[:place]}{digit}{literal[place + 1 :]}"


def _changed(kind: str, literal: str) -> str:
    if kind in (STRING, DAY, MOMENT):
        quote = literal[-1]
        start = literal.index(quote) + 1
        if kind != STRING and (day := _next_day(literal[start : start + 10])):
            return literal[:start] + day + literal[start + 10 :]
        return f"{literal[:-1]}~{quote}"
    return _DIGIT_AT_END.sub(lambda found: "8" if found[0] == "9" else str(int(found[0]) + 1), literal, count=1)


def _next_day(text: str) -> str | None:
    try:
        return str(date.fromisoformat(text) + timedelta(days=1))
    except (ValueError, OverflowError):
        return None


# --- hints ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Hints:
    """What the hints of a text say about its rewriting."""

    off: bool = False
    """NO_REWRITE, or NO_USE_MV of all views."""
    only: frozenset[str] = frozenset()
    """REWRITE(v), USE_MV(v): the views that may be used, as written, in lower case. None: all."""
    without: frozenset[str] = frozenset()
    """NO_USE_MV(v)."""
    foreign: tuple[str, ...] = ()
    """Hints of Spark, which may name relations."""

    def allow(self, name: str) -> bool:
        """Whether a view may be used; `name` is its full name, with its catalog."""
        if self.off or (self.without and _names(self.without, name)):
            return False
        return not self.only or _names(self.only, name)


_HINT = re.compile(r"([\w.`]++)\s*+(?:\(([^()]*+)\))?")
_MARKS = str.maketrans("", "", "` ")


def _folded_hint(token: str) -> str:
    return " ".join(token.lower().split())


def _hints(pieces: Sequence[str]) -> Hints:
    off, only, without, foreign = False, set[str](), set[str](), list[str]()
    for piece in pieces:
        if not piece.startswith("/*+"):
            continue
        for name, arguments in _HINT.findall(piece[3:-2]):
            views = {each for each in arguments.translate(_MARKS).split(",") if each}
            if name in ("rewrite", "use_mv"):
                only |= views
            elif name == "no_rewrite" or (name == "no_use_mv" and not views):
                off = True
            elif name == "no_use_mv":
                without |= views
            else:
                foreign.append(name.upper())
    return Hints(off, frozenset(only), frozenset(without), tuple(foreign))


def _names(written: frozenset[str], name: str) -> bool:
    return any(f".{name}".endswith(f".{each}") for each in written)
