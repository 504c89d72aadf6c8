"""A materialized view that may answer queries, and what its query computes.

Tests: `test_matching`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

from sqlglot import exp

from sql.names import Namespace, TableName
from sql.reading.parsing import Doubt
from sql.rewriting.blocks import Block, BlockReader, aggregates_in, inlined, is_aggregate
from sql.rewriting.dialect import parsed
from sql.rewriting.forms import form
from sql.rewriting.key_sets import key_sets, number_of, told_apart
from sql.rewriting.shape import shape_of
from sql.rewriting.subqueries import condition_form
from sql.rewriting.times import truncation
from sql.rewriting.whole import whole_form
from sql.table_keys import TableKeys

CANDIDATES_MAX = 4_096
"""Views whose queries are kept parsed."""
_WITHOUT_IDENTITY = re.compile(r"FLOAT|DOUBLE|COLLATE", re.IGNORECASE)


class Mismatch(Exception):
    """The view cannot answer the query; the reason is for people."""

    def __init__(self, step: int, reason: str) -> None:
        super().__init__(reason)
        self.step = step
        """How far the comparison came: of several blocks, the reason of the one that came farthest is told."""


@dataclass(frozen=True, slots=True)
class RewritableView:
    """A view that takes part in rewriting."""

    name: TableName
    columns: tuple[str, ...]
    types: tuple[str, ...]
    """Spark's types of the columns."""
    query: str
    """The SELECT of its definition, whose names are resolved in `namespace`."""
    namespace: Namespace
    bases: Mapping[TableName, tuple[str, ...]]
    """The base tables, with their columns."""
    keys: Mapping[TableName, TableKeys] = field(default_factory=dict)
    """What holds of the base tables' rows in the state that the view shows."""

    def __hash__(self) -> int:
        return hash((self.name.table, self.query))


@dataclass(frozen=True, slots=True)
class ViewColumn:
    """A column of a view."""

    name: str
    type: str

    @property
    def has_identity(self) -> bool:
        """Whether equal values are the same in every expression: 0.0 = -0.0, but their texts differ."""
        return _WITHOUT_IDENTITY.search(self.type) is None


@dataclass(frozen=True, slots=True)
class Candidate:
    """A view whose query is one block."""

    view: RewritableView
    block: Block
    values: dict[str, ViewColumn]
    """Non-aggregate columns, by canonical form: the keys, if the view groups."""
    measures: dict[str, ViewColumn]
    """By their forms, the aggregates."""
    times: tuple[tuple[str, str, ViewColumn], ...]
    """The keys that truncate a time: the unit, the form of the time, and the column."""
    conjuncts: dict[str, exp.Expr]
    """By their forms."""
    columns: frozenset[str]
    """The forms of the columns of base tables that it knows anything about."""
    keys: frozenset[str] | None
    """The forms of what it groups by; None: it does not group."""
    only: tuple[tuple[ViewColumn, int], ...] = ()
    """The columns, and their values, of those of its rows that are meant: the groups of one of several sets of keys."""


@dataclass(frozen=True, slots=True)
class Whole:
    """A view whose query is not understood in parts: it answers that query only."""

    view: RewritableView
    form: str
    reason: str
    """Why it answers no other one."""


@dataclass(frozen=True, slots=True)
class Parted:
    """A view that answers its own query, and others by a part of its rows or columns."""

    whole: Whole
    parts: tuple[Candidate, ...]
    """By one of several sets of keys, those with the fewest first; or what a view with window functions has."""


@lru_cache(maxsize=CANDIDATES_MAX)
def candidate(view: RewritableView) -> Candidate | Parted | Whole | str:
    """The view's query, or why it cannot be compared with others."""
    parts: list[Candidate] = []
    try:
        tree = inlined(parsed(shape_of(view.query)))
        if tree.args.get("limit") or tree.args.get("offset"):
            return "the view has a LIMIT"
        reason = "" if isinstance(tree, exp.Select) else "it has several SELECTs"
        if isinstance(tree, exp.Select):
            block = BlockReader(view.namespace, view.bases.get).block(tree)
            has_windows = tree.find(exp.Window) is not None
            if block.sets is None and not has_windows:
                return _candidate(view, block)
            if block.sets is None:
                reason = "it has window functions over groups"
                parts = [_candidate(view, block)] if block.keys is None and not block.is_distinct else []
            else:
                reason = "it has ROLLUP, CUBE or GROUPING SETS, and no column tells their groups apart"
                parts = [] if has_windows or block.having else list(_of_sets(view, block, block.sets))
    except Doubt as doubt:
        reason = str(doubt)
    try:
        whole = Whole(
            view, whole_form(inlined(parsed(shape_of(view.query))), view.namespace), f"{_ONLY_ITS_OWN}: {reason}"
        )
    except Doubt as doubt:
        return f"the view's query is not understood: {doubt}"
    return Parted(whole, tuple(parts)) if parts else whole


_ONLY_ITS_OWN = "the view answers no query but its own"


def _of_sets(view: RewritableView, block: Block, group: exp.Group) -> Iterator[Candidate]:
    """The view's groups of each set of keys that its columns tell apart."""
    sets, keys = key_sets(group), list(map(form, block.keys or ()))
    plain = _candidate(view, replace(block, sets=None))
    numbers = [
        (output.value, ViewColumn(name, type_))
        for output, name, type_ in zip(block.outputs, view.columns, view.types, strict=True)
        if number_of(output.value, keys, frozenset()) is not None
    ]
    of_sets = [tuple(number_of(call, keys, its) or 0 for call, _ in numbers) for its in sets]
    known = [(sets[place], of_sets[place]) for place in told_apart(of_sets)]
    for its, values in sorted(known, key=lambda each: len(each[0])):
        if its:
            yield replace(
                plain,
                values={key: column for key, column in plain.values.items() if key in its},
                keys=its,
                only=tuple((column, value) for (_, column), value in zip(numbers, values, strict=True)),
            )


def _candidate(view: RewritableView, block: Block) -> Candidate:
    if not len(view.columns) == len(view.types) == len(block.outputs):
        raise Doubt("its columns are not those of its query")
    values: dict[str, ViewColumn] = {}
    measures: dict[str, ViewColumn] = {}
    times: list[tuple[str, str, ViewColumn]] = []
    for output, name, type_ in zip(block.outputs, view.columns, view.types, strict=True):
        column = ViewColumn(name, type_)
        if is_aggregate(output.value):
            measures.setdefault(form(output.value), column)
        elif next(aggregates_in(output.value), None) is None:
            values.setdefault(form(output.value), column)
            if (found := truncation(output.value)) is not None:
                times.append((found[0], form(found[1]), column))
    keys = block.keys
    if block.is_distinct:
        if keys is not None:
            raise Doubt("it has DISTINCT and groups")
        keys = [output.value for output in block.outputs]
    return Candidate(
        view,
        block,
        values,
        measures,
        tuple(times),
        {condition_form(each): each for each in block.conjuncts},
        block.columns,
        None if keys is None else frozenset(map(form, keys)),
    )
