"""Proposes how views answer a query that names base tables. What is proposed may be wrong: it must be proved."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sqlglot import exp

from sql.names import Namespace, TableName
from sql.reading.parsing import Doubt
from sql.rewriting.blocks import Block, BlockReader, ColumnsOf, inlined, selects_in
from sql.rewriting.candidate import Candidate, Mismatch, RewritableView, Whole, candidate
from sql.rewriting.compensation import compensated
from sql.rewriting.dialect import parsed, printed
from sql.rewriting.exclusions import excluded
from sql.rewriting.forms import mapped
from sql.rewriting.shape import Shape, shape_of
from sql.rewriting.substitution import CONDITIONS_STEP, TABLES_STEP, rejection, substituted
from sql.rewriting.template import Template
from sql.rewriting.whole import over_whole, whole_form
from sql.rewriting.wider_views import narrowed

_TOO_DEEP = "the query, or the view's, is nested too deeply"


@dataclass(frozen=True, slots=True)
class Proposal:
    """A text over a view that is to be proved equal to the query."""

    view: TableName
    template: Template
    pinned: frozenset[int]
    """The literals of the shape whose values the proposal depends on: others make another one necessary."""
    adds_rest: bool = False
    """Whether it adds rows of the base tables that the view does not have."""
    by_keys: bool = False
    """Whether it leaves out joins of the view, because of keys of the base tables."""


@dataclass(frozen=True, slots=True)
class Miss:
    """Why a view cannot answer the query."""

    view: TableName
    reason: str


def propose(
    query: Shape | str,
    namespace: Namespace,
    views: Iterable[RewritableView],
    columns_of: ColumnsOf,
    temporary: frozenset[str] = frozenset(),
) -> list[Proposal | Miss]:
    """What each view can do for the query. `temporary`: the session's temporary views and functions, in lower case."""
    shape = shape_of(query) if isinstance(query, str) else query
    views = list(views)
    if (reason := excluded(shape, temporary)) is not None:
        return [Miss(view.name, reason) for view in views]
    try:
        blocks = _Blocks(inlined(parsed(shape)), namespace, columns_of)
    except Doubt as doubt:
        return [Miss(view.name, f"the query is not understood: {doubt}") for view in views]
    except RecursionError:
        return [Miss(view.name, _TOO_DEEP) for view in views]
    hints = shape.hints
    return [
        _proposed(shape, blocks, view)
        if hints.allow(f"{view.name.catalog}.{view.name.database}.{view.name.table}")
        else Miss(view.name, "a hint of the query excludes the view")
        for view in views
    ]


class _Blocks:
    """The parts of a query, each read once for all views."""

    def __init__(self, tree: exp.Expr, namespace: Namespace, columns_of: ColumnsOf) -> None:
        self.tree = tree
        self._namespace = namespace
        reader = BlockReader(namespace, columns_of)
        self.selects = [(each, _block(reader, each)) for each in selects_in(tree)]
        """The SELECTs, outermost first: each with its block, or why it is not understood."""
        self._wholes: list[tuple[exp.Expr, str]] | None = None

    def wholes(self) -> list[tuple[exp.Expr, str]]:
        """The queries in it, outermost first, with their forms."""
        if self._wholes is None:
            queries = self.tree.find_all(exp.Select, exp.SetOperation, bfs=True)
            self._wholes = [(each, whole_form(each, self._namespace)) for each in queries]
        return self._wholes


def _block(reader: BlockReader, select: exp.Select) -> Block | str:
    try:
        return reader.block(select)
    except Doubt as doubt:
        return f"the query is not understood: {doubt}"


_Parts = dict[int, tuple[exp.Select, frozenset[int]]]
"""By the id of a part of the query: the SELECT that takes its place, and the holes whose values that depends on."""


def _proposed(shape: Shape, blocks: _Blocks, view: RewritableView) -> Proposal | Miss:
    try:
        return _compared(shape, blocks, view)
    except RecursionError:
        return Miss(view.name, _TOO_DEEP)


def _compared(shape: Shape, blocks: _Blocks, view: RewritableView) -> Proposal | Miss:
    known = candidate(view)
    if isinstance(known, str):
        return Miss(view.name, known)
    parts, reason = _of_whole(blocks, known) if isinstance(known, Whole) else _of_blocks(blocks, known)
    if not parts:
        return Miss(view.name, reason)
    pinned: set[int] = set()

    def change(node: exp.Expr) -> exp.Expr | None:
        if (found := parts.get(id(node))) is None:
            return None
        made, holes = found
        pinned.update(holes)
        # It may read derived tables that are parts as well.
        return mapped(made, lambda inner: None if inner is made else change(inner))

    template = Template.of(printed(mapped(blocks.tree, change)), view.name.quoted)
    adds_rest = any(made.find(exp.Union) is not None for made, _ in parts.values())
    vanished = frozenset(range(len(shape.literals))) - template.holes
    by_keys = any(
        not isinstance(block, str)
        and id(select) in parts
        and isinstance(known, Candidate)
        and not known.block.relations.keys() <= block.relations.keys()
        for select, block in blocks.selects
    )
    return Proposal(view.name, template, vanished | pinned, adds_rest, by_keys)


def _of_blocks(blocks: _Blocks, view: Candidate) -> tuple[_Parts, str]:
    """What takes the place of blocks; the reason if nothing does, of the block that comes farthest."""
    parts: _Parts = {}
    farthest = Mismatch(-1, "the query does not read the view's tables")
    for select, block in blocks.selects:
        try:
            needed = view if isinstance(block, str) else narrowed(block, view)
            if (found := _rejection(block, needed)) is None and not isinstance(block, str):
                parts[id(select)] = _over(block, needed)
        except Mismatch as mismatch:
            found = mismatch
        if found is not None and found.step > farthest.step:
            farthest = found
    return parts, str(farthest)


def _over(block: Block, view: Candidate) -> tuple[exp.Select, frozenset[int]]:
    """The SELECT over the view, or over the view and the rest of the rows. Raises Mismatch."""
    try:
        return substituted(block, view)
    except Mismatch as mismatch:
        if mismatch.step != CONDITIONS_STEP:
            raise
        try:
            return compensated(block, view)
        except Mismatch:
            raise mismatch from None


def _rejection(block: Block | str, view: Candidate) -> Mismatch | None:
    return Mismatch(TABLES_STEP, block) if isinstance(block, str) else rejection(block, view)


def _of_whole(blocks: _Blocks, view: Whole) -> tuple[_Parts, str]:
    alias = view.view.name.table
    for query, its in blocks.wholes():
        if its == view.form and (made := over_whole(query, view.view.columns, alias)) is not None:
            return {id(query): (made, frozenset())}, ""
    return {}, view.reason
