"""The lemma of parts: two branches of a UNION ALL that split the same rows by a condition have all of them together.

Tests: `test_random_proofs`.
"""

from __future__ import annotations

from dataclasses import dataclass

from sql.proof.identities import core, needed, replaced
from sql.proof.terms import Term, column, conditions, in_order, literal

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
    """The conditions of both parts together, and what splits them: it is true of one part, and false of the other."""
    for negation in in_order(rest):
        if negation.op != "Not" or negation.args[0].op != "Coalesce" or negation.args[0].args[1:] != (FALSE,):
            continue
        test = negation.args[0]
        both = rest - {negation}
        if needed(both | conditions(test.args[0])) == needed(met):
            return both, test
    return None
