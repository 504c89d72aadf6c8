"""A text with holes for literals and for the names of relations."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sql.rewriting.shape import HOLE

RELATION = "\ue001"
"""Stands for the name of a relation while a text is built; its number may follow."""
_MARK = re.compile(f"'{HOLE}(\\d+){HOLE}'|{RELATION}(\\d*)")


def mark_of(number: int) -> str:
    """What stands for a hole while a text is parsed and printed: the content of a string literal."""
    return f"{HOLE}{number}{HOLE}"


def hole_of(content: str) -> int | None:
    """The number of the hole that the content of a string literal stands for."""
    return int(content[1:-1]) if content[:1] == HOLE else None


class TemplatePlace(NamedTuple):
    """Where a relation stands."""

    number: int


@dataclass(frozen=True, slots=True)
class Template:
    """The pieces of a text in their order: texts, numbers of literals, and places of relations."""

    pieces: tuple[str | int | TemplatePlace, ...]
    relations: tuple[str, ...]
    """Their names as SQL."""

    @classmethod
    def of(cls, marked: str, *relations: str) -> Template:
        """`marked`: a text in which marks stand for the holes. One without a number stands for the last relation."""
        pieces: list[str | int | TemplatePlace] = []
        done = 0
        for found in _MARK.finditer(marked):
            place = TemplatePlace(int(found[2]) if found[2] else len(relations) - 1)
            pieces += marked[done : found.start()], place if found[1] is None else int(found[1])
            done = found.end()
        return cls((*pieces, marked[done:]), relations)

    @property
    def holes(self) -> frozenset[int]:
        return frozenset(piece for piece in self.pieces if isinstance(piece, int))

    def over(self, *relations: str) -> Template:
        """The same text with other relations, given as SQL, in the place of the first."""
        return Template(self.pieces, relations)

    def fill(self, literals: Sequence[str]) -> str:
        """The text with these literals, given as SQL, in its holes."""
        return "".join(
            self.relations[piece.number]
            if isinstance(piece, TemplatePlace)
            else literals[piece]
            if isinstance(piece, int)
            else piece
            for piece in self.pieces
        )
