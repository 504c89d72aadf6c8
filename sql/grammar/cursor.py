"""The cursor that the parsers of the gateway's own statements use, and the error that they raise."""

from __future__ import annotations

from sql.lexed import Cursor
from sql.names import Parts
from sql.scan import identifier, is_identifier

SYNTAX = "42601"
"""SQLSTATE: syntax error."""
WRONG_VALUE = "22023"
"""SQLSTATE: a property, schedule or other value that is well-formed but invalid."""
NOT_SUPPORTED = "0A000"
_NUMBER_MAX = 999_999
"""Larger counts of buckets, partitions or time units are meaningless, and dates overflow."""


class SyntaxProblem(Exception):
    """One of the gateway's own statements is malformed; `position` is a character offset in the text."""

    def __init__(self, message: str, position: int, sqlstate: str) -> None:
        super().__init__(message)
        self.position = position
        self.sqlstate = sqlstate


class Grammar(Cursor):
    """A cursor that raises SyntaxProblem if the text is not as expected."""

    def problem(self, expected: str) -> SyntaxProblem:
        """An error that says what was expected at the cursor, and what was found."""
        piece = self.peek()
        found = "the end of the statement" if piece is None else piece.text
        if len(found) > 40:
            found = found[:40] + "…"
        return self.refusal(f"expected {expected}, found {found}", sqlstate=SYNTAX)

    def refusal(self, message: str, position: int | None = None, sqlstate: str = WRONG_VALUE) -> SyntaxProblem:
        """An error about the text at `position`, by default at the cursor."""
        place = self.position if position is None else position
        line = self.text.count("\n", 0, place) + 1
        column = place - self.text.rfind("\n", 0, place)
        return SyntaxProblem(f"{message} (line {line}, column {column})", place, sqlstate)

    def expect(self, *words: str) -> None:
        """Consumes these words."""
        if not self.accept(*words):
            raise self.problem(" ".join(words))

    def expect_any(self, *words: str, after: str) -> str:
        """Consumes one of these words and returns it."""
        if (word := self.accept_any(*words)) is None:
            raise self.problem(f"{listed(words)} after {after}")
        return word

    def expect_name(self, what: str, *, before: tuple[str, ...] = ()) -> Parts:
        """A dotted name. An unquoted word of `before` begins the next clause: then the name is missing."""
        if any(self.sees(word) for word in before) and not self._dot_follows():
            raise self.problem(what)
        place = self.position
        name = self.name()
        if name is None and self.position > place:
            raise self.problem("a name after the dot")
        if name is None or not name[-1]:
            raise self.problem(what)
        return name

    def _dot_follows(self) -> bool:
        after = self.peek(1)
        return after is not None and after.text == "."

    def sees_identifier(self, distance: int = 0) -> bool:
        """Whether a word or a quoted name comes next."""
        piece = self.peek(distance)
        return piece is not None and is_identifier(piece)

    def expect_identifier(self, what: str) -> str:
        """A name of one part."""
        piece = self.peek()
        if piece is None or piece.kind not in ("word", "quoted") or not identifier(piece):
            raise self.problem(what)
        self.take()
        return identifier(piece)

    def identifiers(self, what: str) -> tuple[str, ...]:
        """Names of one part, separated by commas, without duplicates."""
        names: dict[str, None] = {}
        while True:
            place = self.position
            name = self.expect_identifier(what)
            if name.lower() in (given.lower() for given in names):
                raise self.refusal(f"{name} is listed twice", place, SYNTAX)
            names[name] = None
            if not self.accept(","):
                return tuple(names)

    def bracketed(self, after: str) -> tuple[str, ...]:
        """A list of columns in parentheses."""
        if not self.accept("("):
            raise self.problem(f"(columns) after {after}")
        names = self.identifiers("a column's name")
        if not self.accept(")"):
            raise self.problem("a comma or ) after the column")
        return names

    def expect_condition(self) -> str:
        """The text between a bracket and the one that closes it, without comments at its ends."""
        if not self.accept("("):
            raise self.problem("(condition)")
        start, end, depth = self.position, self.position, 1
        while (piece := self.take()) is not None:
            depth += {"(": 1, ")": -1}.get(piece.text, 0)
            if not depth:
                break
            end = piece.end
        if depth or end == start:
            raise self.problem("a condition and )")
        return self.text[start:end]

    def expect_string(self, what: str) -> str:
        """The value of a string literal."""
        value = self.string()
        if value is None:
            raise self.problem(what)
        return value

    def expect_number(self, what: str, most: int = _NUMBER_MAX) -> int:
        """A whole number from 1 to `most`."""
        piece = self.peek()
        digits = "" if piece is None or piece.kind != "word" else piece.text
        if not (digits.isascii() and digits.isdecimal() and 1 <= int(digits[:20]) <= most):
            raise self.problem(f"{what}, a whole number from 1 to {most}")
        self.take()
        return int(digits)

    def expect_end(self) -> None:
        """Expects the end of the text; semicolons may precede it."""
        while self.accept(";"):
            pass
        if self.peek() is not None:
            raise self.problem("the end of the statement")


def listed(words: tuple[str, ...]) -> str:
    """`A, B or C`."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"
