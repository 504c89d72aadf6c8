"""Spark's optimized plan of a query as a tree, from whatever source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Scalar:
    """A field's value: a number, a text, a type, a mode. `kind` is its class; "opaque" is one that was not read."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Node:
    """A plan node, an expression, or a structure within one."""

    kind: str
    """The class, without its package if that is one of Catalyst's."""
    fields: Mapping[str, Value]
    type: str = ""
    """An expression's type, as Spark prints it."""
    id: str = ""
    """The id of a named expression, by which attributes refer to it."""


Value: TypeAlias = Node | Scalar | tuple["Value", ...] | None


@dataclass(frozen=True, slots=True)
class Output:
    """A column of the answer."""

    id: str
    name: str
    type: str


@dataclass(frozen=True, slots=True)
class Plan:
    output: tuple[Output, ...]
    constants: frozenset[str]
    """The classes of all expressions without a column before optimization, when they may have been replaced by their
    value at that moment."""
    root: Node


def nodes_of(value: Value) -> Iterator[Node]:
    """All nodes in a value, in no particular order."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, tuple):
            waiting.extend(each)
        elif isinstance(each, Node):
            yield each
            waiting.extend(each.fields.values())
