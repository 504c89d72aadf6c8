"""Texts for the engine that holds views in memory, DuckDB, with holes for literals and for the names of tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias


class NotListed(Exception):
    """The plan has a part that is not on the list of what means the same in the engine. The message is for users."""


@dataclass(frozen=True, slots=True)
class Hole:
    """A literal of the query that may be another one."""

    number: int
    """Its number among the literals of the query's shape."""
    type: str
    """Spark's type of the literal in the plan."""
    negative: bool = False
    """Whether the plan has it with a sign."""


@dataclass(frozen=True, slots=True)
class ViewTable:
    """A view's rows in the engine."""

    view: str
    """The view's id."""


Piece: TypeAlias = "str | Hole | ViewTable"


@dataclass(frozen=True, slots=True)
class Text:
    """A piece of SQL for the engine."""

    pieces: tuple[Piece, ...]

    def __str__(self) -> str:
        return "".join(each if isinstance(each, str) else f"<{each}>" for each in self.pieces)

    @property
    def holes(self) -> Iterator[Hole]:
        return (each for each in self.pieces if isinstance(each, Hole))

    def filled(self, literal: Callable[[Hole], str], table: Callable[[ViewTable], str]) -> str:
        """The text with what stands in its holes, as the engine's SQL."""
        return "".join(
            each if isinstance(each, str) else literal(each) if isinstance(each, Hole) else table(each)
            for each in self.pieces
        )


@dataclass(frozen=True, slots=True)
class Typed:
    """An expression for the engine, whose value is that of Spark's expression of this type."""

    text: Text
    type: str
    """As Spark prints it."""


def sql(template: str, *parts: Text | Typed) -> Text:
    """The template with the parts in the places of `?`, in their order. A template has no other question mark."""
    pieces: list[Piece] = []
    texts = template.split("?")
    if len(texts) != len(parts) + 1:
        raise ValueError(f"{len(parts)} parts for {template!r}")
    for number, text in enumerate(texts):
        if number:
            part = parts[number - 1]
            pieces += (part.text if isinstance(part, Typed) else part).pieces
        pieces.append(text)
    return Text(tuple(_joined(pieces)))


def listed(parts: list[Text], between: str = ", ") -> Text:
    """The parts, one after the other."""
    return sql(between.join("?" * len(parts)), *parts)


def _joined(pieces: list[Piece]) -> Iterator[Piece]:
    """The pieces, with texts that follow each other put together."""
    text = ""
    for each in pieces:
        if isinstance(each, str):
            text += each
            continue
        if text:
            yield text
        yield each
        text = ""
    if text:
        yield text
