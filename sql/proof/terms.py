"""Terms: expressions and sources of rows, identified by structure."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

STEPS_MAX = 50_000
"""Terms that a proof may make, and conditions that it may compare: a third of a second. Ordinary queries take hundreds.
A term may be within another one many times, so that a short plan can stand for very many terms."""


ONLY_VALUE = "only value"
"""The operation of a subquery that is a value. Its rows do not belong to the expression."""


class NotUnderstood(Exception):
    """The plan has a part of which the proof says nothing. The message is for users."""


class _Steps(threading.local):
    left: float = float("inf")


_steps = _Steps()


@contextmanager
def bounded() -> Iterator[None]:
    """Limits the work that is done within it: `step` raises NotUnderstood after STEPS_MAX steps."""
    _steps.left = STEPS_MAX
    try:
        yield
    finally:
        _steps.left = float("inf")


def step() -> None:
    """Counts a step of a proof. Raises NotUnderstood."""
    _steps.left -= 1
    if _steps.left < 0:
        raise NotUnderstood("it would take too long to compare")


@dataclass(frozen=True, slots=True, eq=False)
class Term:
    """An operation on terms. Terms are equal if their digests are: a term within many others is compared once."""

    op: str
    args: tuple[Term, ...] = ()
    detail: tuple[str, ...] = ()
    type: str = ""
    digest: bytes = field(init=False, repr=False)

    def __post_init__(self) -> None:
        step()
        hashed = hashlib.sha256(repr((self.op, self.detail, self.type)).encode("utf-8", "surrogatepass"))
        for each in self.args:
            hashed.update(each.digest)
        object.__setattr__(self, "digest", hashed.digest())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Term) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)


def in_order(terms: Iterable[Term]) -> tuple[Term, ...]:
    """The terms once each, in an order that depends on nothing but them."""
    return tuple(sorted(set(terms), key=lambda term: term.digest))


def column(source: Term, name: Term) -> Term:
    """A column of a source of rows. Its name is a term: what it is below that source."""
    return Term("column", (source, name), type=name.type)


def literal(kind: str, value: str, type_text: str) -> Term:
    """A constant; `kind` is the Java class of the value."""
    return Term("Literal", detail=(f"value={kind} {value!r}",), type=type_text)


def null(type_text: str) -> Term:
    return Term("Literal", detail=("value=none",), type=type_text)


def is_key(term: Term) -> bool:
    """Whether a column is a group's key, here or further below."""
    step()
    if term.op == "key":
        return True
    if term.op != "column":
        return any(is_key(each) for each in term.args) if term.op in {"left", "right", "branches"} else False
    source, name = term.args
    if source.op == "grouped" and name in source.args[1].args:
        return True
    return is_key(name)


def conditions(where: Term) -> frozenset[Term]:
    return frozenset(where.args if where.op == "And" else (where,))


def columns_of(term: Term) -> Iterator[Term]:
    step()
    if term.op == "column":
        yield term
    else:
        for each in term.args:
            yield from columns_of(each)


def names_of(term: Term) -> Iterator[Term]:
    """A column and all that it is called in the sources below, down to the columns of tables."""
    step()
    if term.op == "column":
        yield term
        yield from names_of(term.args[1])
    else:
        for each in term.args:
            yield from names_of(each)


def within(term: Term) -> Iterator[Term]:
    """The term and all terms below it, each once."""
    waiting, seen = [term], set[bytes]()
    while waiting:
        each = waiting.pop()
        if each.digest not in seen:
            seen.add(each.digest)
            yield each
            waiting.extend(each.args)
