"""Tables that are joined with themselves: each occurrence is a relation of its own.

Which of them is called the first means nothing, so all assignments of names to the occurrences stand for the same rows.
The canonical one is chosen by nothing but the rows and the values that are computed of them.

Tests: `test_plan_mutants`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import permutations, product
from math import factorial, prod

from sql.proof.identities import replaced
from sql.proof.terms import NotUnderstood, Term, column

ASSIGNMENTS_MAX = 24
"""Four occurrences of one table, or two of each of four tables."""


def occurrence(table: Term, number: int) -> Term:
    """The occurrence of a table behind so many others."""
    return Term("again", (table,), (str(number),), table.type) if number else table


def apart(relations: tuple[Term, ...], others: tuple[Term, ...]) -> dict[Term, Term] | None:
    """What takes the place of those of the others that are among the relations, so that none occurs twice; None if one
    of them is not a table."""
    taken, found = {*relations, *others}, dict[Term, Term]()
    for each in others:
        if each in relations:
            table = table_of(each)
            if table.op != "table":
                return None
            number = 1
            while occurrence(table, number) in taken:
                number += 1
            found[each] = occurrence(table, number)
            taken.add(found[each])
    return found


def table_of(relation: Term) -> Term:
    return relation.args[0] if relation.op == "again" else relation


def renaming(names: Mapping[Term, Term]) -> Callable[[Term], Term]:
    """Changes the columns of these relations to those of others, for `replaced`."""
    return lambda each: column(names[each.args[0]], each.args[1]) if each.args[0] in names else each


def renamed(term: Term, names: Mapping[Term, Term]) -> Term:
    """A term over other relations."""
    return replaced(term, renaming(names)) if names else term


def assignments(relations: Iterable[Term]) -> Iterator[Mapping[Term, Term]]:
    """All ways to name the occurrences of tables that occur several times; nothing if none does. Raises
    NotUnderstood."""
    by_table: dict[Term, list[Term]] = {}
    for each in relations:
        by_table.setdefault(table_of(each), []).append(each)
    several = [(table, its) for table, its in by_table.items() if len(its) > 1 or its[0] != table]
    if prod(factorial(len(its)) for _, its in several) > ASSIGNMENTS_MAX:
        raise NotUnderstood("it joins a table with itself too often")
    if not several:
        return
    orders = (permutations([occurrence(table, number) for number in range(len(its))]) for table, its in several)
    before = [each for _, its in several for each in its]
    for chosen in product(*orders):
        yield dict(zip(before, (each for order in chosen for each in order), strict=True))
