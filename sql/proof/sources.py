"""What the texts behind a plan tell of its literals: the statement, and the definitions of the views that it reads."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from sql.lexed import Lexed
from sql.proof.literal_text import is_safe
from sql.scan import Lexeme

_MOVING = re.compile(r"\s*(?:now|today|tomorrow|yesterday)(?!\w)", re.IGNORECASE)
"""Texts that Spark turns into the time at which it reads them."""
_NUMBER = re.compile(r"(?:0|[1-9]\d*)", re.ASCII)
_START = re.compile(r"\d+", re.ASCII)


@dataclass(frozen=True, slots=True)
class Literals:
    strings: frozenset[str]
    integers: frozenset[str]
    """Digits that are written as an INT, and in no other way that prints alike."""

    @property
    def has_spaces(self) -> bool:
        """Whether a string made of these strings could contain what separates expressions."""
        return any(" " in each.strip() for each in self.strings)


def literals_of(texts: Iterable[str]) -> Literals:
    """Raises ValueError if a text has a literal, or an option of a table, that a plan's text would not show exactly."""
    strings, integers, others = set[str](), set[str](), set[str]()
    for text in texts:
        pieces = Lexed(text).pieces
        _check_options(pieces)
        for place, piece in enumerate(pieces):
            if piece.kind == "string":
                strings.add(_string(pieces, place))
            elif piece.kind == "word" and (digits := _START.match(piece.text)) is not None:
                plain = _NUMBER.fullmatch(piece.text) is not None and not _is_fraction(pieces, place)
                (integers if plain else others).add(digits[0])
    return Literals(frozenset(strings), frozenset(integers - others))


def _string(pieces: Sequence[Lexeme], place: int) -> str:
    text = pieces[place].text
    value = text[1:-1]
    if place and pieces[place - 1].kind == "string":
        raise ValueError("it has a string of several parts")
    if _MOVING.match(value):
        raise ValueError("it contains a text such as 'today', whose value may change from one moment to the next")
    if text[0] not in "'\"" or text[0] in value or not is_safe(value):
        raise ValueError(f"a plan's text does not show exactly where the string {text} ends")
    return value


def _is_fraction(pieces: Sequence[Lexeme], place: int) -> bool:
    around = (*pieces[max(place - 1, 0) : place], *pieces[place + 1 : place + 2])
    return any(each.text == "." for each in around)


def _check_options(pieces: Sequence[Lexeme]) -> None:
    for one, other in pairwise(pieces):
        if one.kind == "word" and one.text.lower() == "with" and other.text == "(":
            raise ValueError("a plan's text does not show the options with which a table is read")


def casts_of_literals(analyzed: str) -> Iterator[tuple[str, str]]:
    """The literals that the text of an analyzed plan casts, and the types."""
    for part in analyzed.split("cast(")[1:]:
        value, as_, rest = part.partition(" as ")
        if as_ and not set(value) & set("(#"):
            yield value, rest.split(")")[0] + (")" if "(" in rest.split(")")[0] else "")
