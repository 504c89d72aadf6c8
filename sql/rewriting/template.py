"""A text with holes for literals and one for the name of a relation."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from sql.rewriting.shape import HOLE

RELATION = "\ue001"
"""Stands for the relation's name while a text is built."""
_MARK = re.compile(f"'{HOLE}(\\d+){HOLE}'|{RELATION}")


def mark_of(number: int) -> str:
    """What stands for a hole while a text is parsed and printed: the content of a string literal."""
    return f"{HOLE}{number}{HOLE}"


def hole_of(content: str) -> int | None:
    """The number of the hole that the content of a string literal stands for."""
    return int(content[1:-1]) if content[:1] == HOLE else None


@dataclass(frozen=True, slots=True)
class Template:
    """The pieces of a text in their order: texts, numbers of literals, and None for the relation."""

    pieces: tuple[str | int | None, ...]
    relation: str
    """The relation's name as SQL."""

    @classmethod
    def of(cls, marked: str, relation: str) -> Template:
        """`marked`: a text in which marks stand for the holes."""
        pieces: list[str | int | None] = []
        done = 0
        for found in _MARK.finditer(marked):
            pieces += marked[done : found.start()], None if found[1] is None else int(found[1])
            done = found.end()
        return cls((*pieces, marked[done:]), relation)

    @property
    def holes(self) -> frozenset[int]:
        return frozenset(piece for piece in self.pieces if isinstance(piece, int))

    def over(self, relation: str) -> Template:
        """The same text with another relation, given as SQL, in the place of the first."""
        return Template(self.pieces, relation)

    def fill(self, literals: Sequence[str]) -> str:
        """The text with these literals, given as SQL, in its holes."""
        return "".join(
            self.relation if piece is None else literals[piece] if isinstance(piece, int) else piece
            for piece in self.pieces
        )
