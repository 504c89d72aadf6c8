"""The lemma of parts: two branches of a UNION ALL that split the same rows by a condition have all of them together.

Tests: `test_random_proofs`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sql.proof.identities import core, needed, replaced, strict_columns
from sql.proof.terms import Term, column, conditions, in_order, literal, null

FALSE = literal("Boolean", "false", "boolean")


@dataclass(frozen=True, slots=True)
class PartialRows:
    """A branch of a union: the combinations of the relations' rows that meet the conditions, and its columns."""

    relations: tuple[Term, ...]
    where: frozenset[Term]
    columns: tuple[Term, ...]


def whole(branches: list[PartialRows]) -> PartialRows | None:
    """What two branches are together; None if they are not known to be two parts."""
    if len(branches) != 2:
        return None
    for one, other in (branches, branches[::-1]):
        if (found := _rows(one, other) or _groups(one, other)) is not None:
            return found
    return None


def _rows(met: PartialRows, rest: PartialRows) -> PartialRows | None:
    """Single rows: `met` are those for which a condition is true, `rest` those for which it is not."""
    if set(met.relations) != set(rest.relations) or met.columns != rest.columns:
        return None
    split = _split(met.where, rest.where)
    return None if split is None else PartialRows(met.relations, split[0], met.columns)


def _groups(met: PartialRows, rest: PartialRows) -> PartialRows | None:
    """Groups of such rows: the groups of all rows by the same keys and by whether the condition is true."""
    if len(met.relations) != 1 or len(rest.relations) != 1 or met.where or rest.where:
        return None
    one, other = met.relations[0], rest.relations[0]
    # Without keys there is a row of no rows.
    if one.op != "grouped" or other.op != "grouped" or one.args[1] != other.args[1] or not one.args[1].args:
        return None
    (its_rows, its_where), (rest_rows, rest_where) = one.args[0].args, other.args[0].args
    split = _split(frozenset(its_where.args), frozenset(rest_where.args))
    if its_rows != rest_rows or split is None:
        return None
    where, test = split
    source = Term("grouped", (core(its_rows.args, where), Term("keys", in_order((*one.args[1].args, test)))))

    def of_all(term: Term) -> Term:
        return replaced(term, lambda each: column(source, each.args[1]))

    columns = tuple(map(of_all, met.columns))
    return PartialRows((source,), frozenset(), columns) if columns == tuple(map(of_all, rest.columns)) else None


def _split(met: frozenset[Term], rest: frozenset[Term]) -> tuple[frozenset[Term], Term] | None:
    """The conditions of both parts together, and what splits them: it is true of one part, and not of the other."""
    for negation in in_order(rest):
        others = rest - {negation}
        for test in _tests(negation, others):
            if needed(others | test) == needed(met):
                true = in_order(test)[0] if len(test) == 1 else Term("And", in_order(test), type="boolean")
                return others, Term("Coalesce", (true, FALSE), type="boolean")
    return None


def _tests(negation: Term, others: frozenset[Term]) -> Iterator[frozenset[Term]]:
    """Conditions that are not all true where `negation` is, and are where it is not: of rows that meet the others."""
    if negation.op == "Not" and negation.args[0].op == "Coalesce" and negation.args[0].args[1:] == (FALSE,):
        yield conditions(negation.args[0].args[0])
    cases = in_order(negation.args) if negation.op == "Or" else (negation,)
    unknown = frozenset(each.args[0] for each in cases if each.op == "IsNull")
    ranges = [each for each in cases if each.op != "IsNull"]
    known = unknown | {found for condition in others for found in strict_columns(condition)}
    subjects = [_subject(each) for each in ranges]
    if ranges and all(each in known for each in subjects) and unknown <= set(subjects):
        yield frozenset(Term(_BEYOND[each.op], each.args[::-1], each.detail, each.type) for each in ranges)


_BEYOND = {"LessThan": "LessThanOrEqual", "LessThanOrEqual": "LessThan"}
"""The comparison that is true where another one, with its operands exchanged, is false. One of both is true unless an
operand is NULL: NaN is equal to itself and larger than all numbers."""


def _subject(comparison: Term) -> Term | None:
    """What is compared with a literal that is not NULL; None for anything else."""
    if comparison.op not in _BEYOND:
        return None
    (one, other) = comparison.args
    if other.op == "Literal":
        one, other = other, one
    return other if one.op == "Literal" and one != null(one.type) else None
