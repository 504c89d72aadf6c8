"""Views that have only a part of the rows that a query asks for: the others come from the base tables.

A condition splits the rows: the view has those for which it is true.

Tests: `test_pair_corpora`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial, reduce

from sqlglot import exp

from sql.rewriting.blocks import Block, BlockRelation
from sql.rewriting.candidate import Candidate, Mismatch
from sql.rewriting.dialect import identifier, view_relation
from sql.rewriting.forms import joined, literal_text, mapped
from sql.rewriting.ranges import implied, is_range, negated, subject_of
from sql.rewriting.subqueries import condition_form
from sql.rewriting.substitution import CONDITIONS_STEP, missing_conditions, substituted

_PART = "<part>"
"""Stands for a key of the groups that no query has: groups of both parts are added up."""


def compensated(block: Block, view: Candidate) -> tuple[exp.Select, frozenset[int]]:
    """As `substituted`, over the view and the rest of the rows. Raises Mismatch."""
    split = missing_conditions(block, view)
    if (
        not split
        or view.only
        or view.block.is_distinct
        or view.block.having
        or (view.keys is not None and not view.keys)
    ):
        raise Mismatch(CONDITIONS_STEP, "the rest of the rows cannot be added")
    for condition in split:
        if not is_range(condition) or implied(negated(condition), block.conjuncts) is not None:
            raise Mismatch(CONDITIONS_STEP, "the view has none of the rows, or they are not those of a range")
    pinned: set[int] = set()
    of_rest: list[exp.Expr] = []
    above: list[exp.Expr] = []
    for each in block.conjuncts:
        holes = None if condition_form(each) in view.conjuncts else implied(each, split)
        (above if holes is None else of_rest).append(each)
        pinned |= holes or frozenset()
    whole = replace(
        view,
        conjuncts={its: each for its, each in view.conjuncts.items() if not any(each is one for one in split)},
        keys=None if view.keys is None else view.keys | {_PART},
    )
    made, holes = substituted(replace(block, conjuncts=above), whole)
    alias = made.args["from_"].this.alias
    both = exp.Union(this=_of_view(view), expression=_rest(view, split, of_rest), distinct=False)
    made.set("from_", exp.From(this=exp.Subquery(this=both, alias=exp.TableAlias(this=identifier(alias)))))
    return made, holes | pinned


def _of_view(view: Candidate) -> exp.Select:
    items = [exp.Column(this=identifier(name)) for name in view.view.columns]
    return exp.Select(expressions=items, from_=exp.From(this=view_relation(view.view.name.table)))


def _rest(view: Candidate, split: list[exp.Expr], also: list[exp.Expr]) -> exp.Select:
    """The definition's rows for which the conditions are not true but others are."""
    block = view.block
    aliases = {key: f"{relation.alias}_{place}" for place, (key, relation) in enumerate(block.relations.items())}
    written = partial(_written, aliases)
    if any(each.full for each in block.relations.values()) or any(_is_window(each.value) for each in block.outputs):
        raise Mismatch(CONDITIONS_STEP, "the rest of the rows cannot be added to those of a FULL JOIN or of windows")
    tables = [(_table(relation, aliases[key]), relation.on) for key, relation in block.relations.items()]
    kept = [each for each in block.conjuncts if not any(each is one for one in split)]
    where = joined(
        [*map(written, kept), written(_not_true(split)), *(mapped(each, partial(_placed, aliases)) for each in also)]
    )
    return exp.Select(
        expressions=[
            exp.Alias(this=written(output.value), alias=identifier(name))
            for output, name in zip(block.outputs, view.view.columns, strict=True)
        ],
        from_=exp.From(this=tables[0][0]),
        joins=[_join(table, on, written) for table, on in tables[1:]],
        where=exp.Where(this=where),
        group=exp.Group(expressions=list(map(written, block.keys))) if block.keys else None,
    )


def _join(table: exp.Expr, on: tuple[exp.Expr, ...] | None, written: partial[exp.Expr]) -> exp.Join:
    if on is None:
        return exp.Join(this=table, kind="CROSS")
    return exp.Join(this=table, side="LEFT", on=joined(map(written, on)))


def _not_true(split: list[exp.Expr]) -> exp.Expr:
    """That one of these ranges is not true, in comparisons with which Spark leaves out files and partitions."""
    cases = [case for each in split for case in (negated(each), exp.Is(this=subject_of(each), expression=exp.Null()))]
    return exp.Paren(this=reduce(lambda one, other: exp.Or(this=one, expression=other), cases))


def _is_window(value: exp.Expr) -> bool:
    return value.find(exp.Window) is not None


def _table(relation: BlockRelation, alias: str) -> exp.Expr:
    if relation.table is None:
        raise Mismatch(CONDITIONS_STEP, "the view reads a derived table")
    parts = (relation.table.catalog, relation.table.database, relation.table.table)
    catalog, database, table = (exp.Identifier(this=each, quoted=True) for each in parts)
    return exp.Table(this=table, db=database, catalog=catalog, alias=exp.TableAlias(this=identifier(alias)))


def _written(aliases: Mapping[str, str], node: exp.Expr) -> exp.Expr:
    """A part of the definition, whose literals are not holes of the query."""
    return mapped(node, lambda each: _text(each) or _placed(aliases, each))


def _text(node: exp.Expr) -> exp.Expr | None:
    return exp.Var(this=literal_text(node)) if isinstance(node, exp.Literal) else None


def _placed(aliases: Mapping[str, str], node: exp.Expr) -> exp.Expr | None:
    if not isinstance(node, exp.Column):
        return None
    if node.table not in aliases:
        raise Mismatch(CONDITIONS_STEP, f"the rest of the rows has no column {node.name}")
    return exp.Column(this=identifier(node.name), table=identifier(aliases[node.table]))
