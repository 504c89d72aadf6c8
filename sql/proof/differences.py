"""Says why two sources of rows are not proved equal. Nothing depends on it being right."""

from __future__ import annotations

from sql.proof.terms import Term, step
from sql.proof.understood_classes import OUTER_JOINS

_SOURCES = OUTER_JOINS | {"core", "relations", "grouped", "windowed", "union", "expanded", "limited"}


def difference(left: Term, right: Term) -> str:
    """Where the rows of two different cores differ, for users."""
    if _depth(left) != _depth(right):
        return "the groups cannot be computed from the view's groups"
    while left.args[1] == right.args[1] and (groups := _groups(left, right)) is not None:
        if groups[0].args[1] != groups[1].args[1]:
            return "the rows are grouped by different keys"
        left, right = (each.args[0] for each in groups)
    if left.args[0] == right.args[0]:
        return "the conditions differ"
    return "the tables, or what is read of them, differ"


def _groups(left: Term, right: Term) -> tuple[Term, Term] | None:
    """The groups, if both cores consist of groups only."""
    relations = left.args[0].args, right.args[0].args
    if any(len(each) != 1 or each[0].op != "grouped" for each in relations):
        return None
    return relations[0][0], relations[1][0]


def _depth(term: Term) -> int:
    """How many groups of groups there are in a source of rows."""
    step()
    return max((_depth(each) for each in term.args if each.op in _SOURCES), default=0) + (term.op == "grouped")
