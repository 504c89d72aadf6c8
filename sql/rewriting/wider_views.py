"""Views that join more tables than a query: without the joins that keep every row exactly once, by keys that hold.

Tests: `test_pair_corpora`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from sqlglot import exp

from sql.names import TableName
from sql.rewriting.blocks import Block, BlockRelation
from sql.rewriting.candidate import Candidate, ViewColumn
from sql.rewriting.forms import form
from sql.table_keys import NO_KEYS, ForeignKey, TableKeys

_JoinCondition = tuple[exp.Expr, exp.Column, exp.Column]
"""A condition of a join, its column of the relation, and the column that this is equal to."""


def narrowed(block: Block, view: Candidate) -> Candidate:
    """The view without relations that the block does not read, as far as its joins with them change nothing."""
    left = dict(view.block.relations)
    conjuncts = dict(view.conjuncts)
    values = dict(view.values)
    while True:
        extra = [each for key, each in left.items() if key not in block.relations]
        found = next(
            (its for each in extra if (its := _removable(each, left, conjuncts, view.view.keys)) is not None), None
        )
        if found is None:
            break
        removed, conditions = found
        del left[removed.key]
        for condition, mine, other in conditions:
            conjuncts.pop(form(condition), None)
            if removed.on is None:
                _note_equal(mine, other, conditions, values, conjuncts)
    if len(left) == len(view.block.relations):
        return view
    return replace(view, block=replace(view.block, relations=left), conjuncts=conjuncts, values=values)


def _note_equal(
    mine: exp.Column,
    other: exp.Column,
    conditions: Iterable[_JoinCondition],
    values: dict[str, ViewColumn],
    conjuncts: dict[str, exp.Expr],
) -> None:
    """A column of the view that is one of the removed table is also each of those that it was joined with, which are
    equal to each other."""
    if (column := values.get(form(mine))) is not None:
        values.setdefault(form(other), column)
    same = next(each for _, its, each in conditions if form(its) == form(mine))
    if form(same) != form(other):
        equal = exp.EQ(this=same, expression=other)
        conjuncts.setdefault(form(equal), equal)


def _removable(
    relation: BlockRelation,
    left: Mapping[str, BlockRelation],
    conjuncts: Mapping[str, exp.Expr],
    keys: Mapping[TableName, TableKeys],
) -> tuple[BlockRelation, list[_JoinCondition]] | None:
    """The relation, and the conditions that join it; None if the join may change anything."""
    if relation.table is None:
        return None
    its = keys.get(relation.table, NO_KEYS)
    mine = [each for each in conjuncts.values() if _mentions(each, relation.key)]
    if relation.on is not None:
        joined = _joins(relation.on, relation.key)
        compared = {column.name.lower() for _, column, _ in joined}
        return (relation, joined) if not mine and any(unique <= compared for unique in its.unique) else None
    joined = _joins(mine, relation.key)
    if len(joined) < len(mine):
        return None
    for other in left.values():
        for foreign in keys.get(other.table, NO_KEYS).foreign if other.table is not None else ():
            if foreign.table == relation.table.quoted and _refers(other.key, foreign, joined):
                return relation, joined
    return None


def _refers(key: str, foreign: ForeignKey, joined: Iterable[_JoinCondition]) -> bool:
    """Whether the conditions compare the columns of the key, and no others."""
    pairs = {(column.name.lower(), other.table, other.name.lower()) for _, column, other in joined}
    wanted = {(its, key, name) for name, its in zip(foreign.columns, foreign.others, strict=True)}
    return wanted <= pairs and {each[0] for each in pairs} == set(foreign.others)


def _joins(conditions: Iterable[exp.Expr], key: str) -> list[_JoinCondition]:
    return [(each, *sides) for each in conditions if (sides := _sides(each, key)) is not None]


def _mentions(condition: exp.Expr, key: str) -> bool:
    return any(each.table == key for each in condition.find_all(exp.Column))


def _sides(condition: exp.Expr, key: str) -> tuple[exp.Column, exp.Column] | None:
    """The columns that it makes equal, if one of them is the relation's: that one first."""
    one, other = (condition.this, condition.expression) if isinstance(condition, exp.EQ) else (None, None)
    if (
        not isinstance(one, exp.Column)
        or not isinstance(other, exp.Column)
        or (one.table == key) == (other.table == key)
    ):
        return None
    return (one, other) if one.table == key else (other, one)
