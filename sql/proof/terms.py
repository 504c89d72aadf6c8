"""Canonical terms: expressions and sources of rows, in a form that is equal whenever the proof may call them equal."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from sql.proof.understood_classes import COMMUTATIVE, FLIPPED, STRICT, has_identity, is_collated


class NotUnderstood(Exception):
    """The plan has a part of which the proof says nothing. The message is for users."""


@dataclass(frozen=True, slots=True, eq=False)
class Term:
    """An operation on terms. Terms are equal if their digests are: a term within many others is compared once."""

    op: str
    args: tuple[Term, ...] = ()
    detail: tuple[str, ...] = ()
    type: str = ""
    digest: bytes = field(init=False, repr=False)

    def __post_init__(self) -> None:
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


def core(relations: tuple[Term, ...], where: Iterable[Term]) -> Term:
    """All combinations of the relations' rows that meet all conditions."""
    ordered = tuple(sorted(relations, key=lambda term: term.digest))
    return Term("core", (Term("relations", ordered), Term("where", needed(frozenset(where)))))


def needed(where: frozenset[Term]) -> tuple[Term, ...]:
    """Leaves out `x IS NOT NULL` where another condition is never true of a NULL in x."""
    strict = {found for condition in where for found in _strict_columns(condition)}
    return in_order(each for each in where if not (each.op == "IsNotNull" and each.args[0] in strict))


def _strict_columns(term: Term) -> Iterator[Term]:
    if term.op == "column":
        yield term
    elif term.op in STRICT:
        for each in term.args[:1] if term.op == "In" else term.args:
            yield from _strict_columns(each)


def compose(op: str, args: tuple[Term, ...], detail: tuple[str, ...], type_text: str) -> Term:
    """An expression in canonical form. Raises NotUnderstood where an operand may stand only by itself."""
    for each in args:
        if is_collated(each.type):
            raise NotUnderstood(f"it computes with a string of a collation ({each.type})")
        if not has_identity(each.type) and each.op == "column" and is_key(each):
            raise NotUnderstood(f"it computes with a group's key of type {each.type}, of which equal values may differ")
    if op in {"And", "Or"}:
        flat = [part for each in args for part in (each.args if each.op == op else (each,))]
        return Term(op, in_order(flat), type=type_text)
    if op in FLIPPED:
        return Term(FLIPPED[op], args[::-1], detail, type_text)
    if op in COMMUTATIVE:
        args = tuple(sorted(args, key=lambda term: term.digest))
    if op == "In":
        args = (args[0], *in_order(args[1:]))
        detail = ()
    if op == "Cast" and args[0].op == "widened" and args[0].args[0].type == type_text:
        return args[0].args[0]
    if op == "Coalesce" and len(args) == 2 and args[0].op == "null for none" and args[1] == ZERO:
        return args[0].args[0]
    if op == "Coalesce" and is_count(args[0]) and args[0].type == type_text:
        return args[0]
    return Term(op, args, detail, type_text)


ZERO = Term("Literal", detail=("value=Long '0'",), type="bigint")


def is_count(term: Term) -> bool:
    """Whether the term is a count of a group's rows, which is never NULL."""
    if term.op == "column" and term.args[0].op == "grouped":
        term = term.args[1]
    return term.op == "AggregateExpression" and term.args[0].op == "Count"


def is_key(term: Term) -> bool:
    """Whether a column is a group's key, here or further below."""
    if term.op != "column":
        return any(is_key(each) for each in term.args) if term.op in {"left", "right"} else False
    source, name = term.args
    if source.op == "grouped" and name in source.args[1].args:
        return True
    return is_key(name)


def conditions(where: Term) -> frozenset[Term]:
    return frozenset(where.args if where.op == "And" else (where,))


def replaced(term: Term, change: Callable[[Term], Term]) -> Term:
    """The term with another one in the place of each of its columns."""
    if term.op == "column":
        return change(term)
    if not term.args:
        return term
    return compose(term.op, tuple(replaced(each, change) for each in term.args), term.detail, term.type)


def columns_of(term: Term) -> Iterator[Term]:
    if term.op == "column":
        yield term
    else:
        for each in term.args:
            yield from columns_of(each)


def names_of(term: Term) -> Iterator[Term]:
    """A column and all that it is called in the sources below, down to the columns of tables."""
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
