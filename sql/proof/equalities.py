"""Columns that conditions make equal: each is written as one of them.

Tests: `test_random_proofs`.
"""

from __future__ import annotations

from collections.abc import Iterable

from sql.proof.identities import compose, replaced
from sql.proof.terms import Term, in_order
from sql.proof.understood_classes import has_identity


class Equalities:
    """The classes of columns, and of literals, that conditions of the form `a = b` make equal.

    Only values that are identical if they are equal: any of them can then stand for all, wherever these rows are used.
    """

    def __init__(self, where: Iterable[Term]) -> None:
        self._instead: dict[Term, Term] = {}
        """By the member of a class, another one, the last of which stands for the class."""
        self._others: list[Term] = []
        """The conditions that make nothing equal."""
        for each in in_order(where):
            if is_equality(each):
                self._join(*map(self._last, each.args))
            else:
                self._others.append(each)

    def _join(self, one: Term, other: Term) -> None:
        # A column stands for a class rather than a literal, which would be an operand that the other plan lacks.
        if one != other:
            first, second = sorted((one, other), key=lambda term: (term.op != "column", term.digest))
            self._instead[second] = first

    def _last(self, term: Term) -> Term:
        while (found := self._instead.get(term)) is not None:
            term = found
        return term

    def __bool__(self) -> bool:
        return bool(self._instead)

    def settled(self, term: Term) -> Term:
        """The term with one column for all that are equal to it."""
        return replaced(term, self._last) if self._instead else term

    def where(self) -> frozenset[Term]:
        """The conditions: each member of a class is equal to the column that stands for it."""
        if not self._instead:
            return frozenset(self._others)
        found = {self.settled(each) for each in self._others}
        return frozenset(
            found | {compose("EqualTo", (each, self._last(each)), _DETAIL, "boolean") for each in self._instead}
        )


def is_equality(condition: Term) -> bool:
    """Whether it makes two columns equal, or a column and a literal, whose equal values are identical."""
    if condition.op != "EqualTo" or condition.detail != _DETAIL:
        return False
    one, other = condition.args
    kinds = {each.op if each.op != "Literal" or each.detail != ("value=none",) else "" for each in condition.args}
    return one.type == other.type and has_identity(one.type) and "column" in kinds and kinds <= {"column", "Literal"}


_DETAIL = ("left=#", "right=#")
