"""Proposes how views answer a query that names base tables. What is proposed may be wrong: it must be proved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from sqlglot import exp

from sql.names import Namespace, TableName
from sql.reading.parsing import Doubt
from sql.rewriting.blocks import Block, BlockReader, ColumnsOf, inlined, selects_in
from sql.rewriting.candidate import Candidate, Mismatch, Parted, RewritableView, Whole, candidate
from sql.rewriting.compensation import compensated
from sql.rewriting.dialect import parsed, printed
from sql.rewriting.exclusions import excluded
from sql.rewriting.forms import OPENED, mapped
from sql.rewriting.shape import Shape, shape_of
from sql.rewriting.substitution import CONDITIONS_STEP, TABLES_STEP, rejection, substituted
from sql.rewriting.template import RELATION, Template
from sql.rewriting.whole import over_whole, whole_form
from sql.rewriting.wider_views import narrowed

VIEWS_TOGETHER_TRIED = 16
"""Views that are tried in one query, and the texts over several views that are proposed at most: each is proved."""
TOGETHER_MAX = 3
ABOVE_MAX = 8
"""Views of views that are proposed at most."""
_EXCLUDED = "a hint of the query excludes the view"
_TOO_DEEP = "the query, or the view's, is nested too deeply"


@dataclass(frozen=True, slots=True)
class Proposal:
    """A text over views that is to be proved equal to the query."""

    views: tuple[TableName, ...]
    template: Template
    pinned: frozenset[int]
    """The literals of the shape whose values the proposal depends on: others make another one necessary."""
    adds_rest: bool = False
    """Whether it adds rows of the base tables that the view does not have."""
    by_keys: bool = False
    """Whether it leaves out joins of the view, because of keys of the base tables."""
    tables: int = 0
    """How often it reads other tables than the views."""
    through: Proposal | None = None
    """The text over the views that its own views read, which is to be proved first; None if these read what the query
    reads."""

    @property
    def below(self) -> tuple[TableName, ...]:
        """The views that `through` reads, and those below."""
        return () if self.through is None else (*self.through.views, *self.through.below)


@dataclass(frozen=True, slots=True)
class Miss:
    """Why a view cannot answer the query."""

    view: TableName
    reason: str

    @property
    def name(self) -> TableName:
        return self.view

    @property
    def is_hint(self) -> bool:
        """Whether a hint of the query excludes the view."""
        return self.reason == _EXCLUDED


def propose(
    query: Shape | str,
    namespace: Namespace,
    views: Iterable[RewritableView],
    columns_of: ColumnsOf,
    temporary: frozenset[str] = frozenset(),
) -> list[Proposal | Miss]:
    """What each view can do for the query, also through the views that it reads, then what several can do together.
    `temporary`: the session's temporary views and functions, in lower case."""
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
    found = [
        _answering(blocks, view)
        if hints.allow(f"{view.name.catalog}.{view.name.database}.{view.name.table}")
        else Miss(view.name, _EXCLUDED)
        for view in views
    ]
    single = [each for each in found if isinstance(each, _Rewritten)]
    allowed = [
        view for view, each in zip(views, found, strict=True) if isinstance(each, _Rewritten) or not each.is_hint
    ]
    further = [*_above(single, allowed, namespace, columns_of), *_together(single, namespace, columns_of)]
    above = {each.name for each in further if each.through is not None}
    return [
        *(each if isinstance(each, Miss) else each.proposal(shape) for each in found if each.name not in above),
        *(each.proposal(shape) for each in further),
    ]


_NO_NAMES: Mapping[str, TableName] = {}


class _Blocks:
    """The parts of a query, each read once for all views."""

    def __init__(
        self, tree: exp.Expr, namespace: Namespace, columns_of: ColumnsOf, named: Mapping[str, TableName] = _NO_NAMES
    ) -> None:
        """`named`: as in BlockReader."""
        self.tree = tree
        self._namespace = namespace
        reader = BlockReader(namespace, columns_of, named)
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


@dataclass(frozen=True, slots=True)
class _Rewritten:
    """The query over views."""

    views: tuple[RewritableView, ...]
    tree: exp.Expr
    """The relation of each view has its number."""
    pinned: frozenset[int]
    adds_rest: bool
    by_keys: bool
    through: _Rewritten | None = None
    """As in Proposal."""

    @property
    def name(self) -> TableName:
        return self.views[-1].name

    def reads(self, number: int) -> bool:
        """Whether it reads its view of this number."""
        return any(each.name == f"{RELATION}{number}" for each in self.tree.find_all(exp.Table))

    @property
    def tables(self) -> int:
        """How often it reads other tables."""
        return sum(not each.name.startswith(RELATION) for each in self.tree.find_all(exp.Table))

    def proposal(self, shape: Shape) -> Proposal:
        names = tuple(view.name for view in self.views)
        template = Template.of(printed(self.tree), *(name.quoted for name in names))
        vanished = frozenset(range(len(shape.literals))) - template.holes
        through = None if self.through is None else self.through.proposal(shape)
        pinned = vanished | self.pinned | (frozenset() if through is None else through.pinned)
        return Proposal(names, template, pinned, self.adds_rest, self.by_keys, self.tables, through)


def _answering(blocks: _Blocks, view: RewritableView, before: tuple[RewritableView, ...] = ()) -> _Rewritten | Miss:
    """`before`: the views that the query reads already."""
    try:
        return _compared(blocks, view, before)
    except RecursionError:
        return Miss(view.name, _TOO_DEEP)


def _compared(blocks: _Blocks, view: RewritableView, before: tuple[RewritableView, ...]) -> _Rewritten | Miss:
    known = candidate(view)
    if isinstance(known, str):
        return Miss(view.name, known)
    parts, reason, used = _parts(blocks, known)
    if not parts:
        return Miss(view.name, reason)
    pinned: set[int] = set()
    relation = f"{RELATION}{len(before)}"

    def change(node: exp.Expr) -> exp.Expr | None:
        if isinstance(node, exp.Identifier):
            return exp.Identifier(this=relation, quoted=False) if node.name == RELATION else None
        if (opened := node.meta.get(OPENED)) is not None:
            # It may be, or read, a part as well.
            return mapped(opened, change)
        if (found := parts.get(id(node))) is None:
            return None
        made, holes = found
        pinned.update(holes)
        # It may read derived tables that are parts as well.
        return mapped(made, lambda inner: None if inner is made else change(inner))

    tree = mapped(blocks.tree, change)
    adds_rest = any(made.find(exp.Union) is not None for made, _ in parts.values())
    by_keys = any(
        not isinstance(block, str)
        and id(select) in parts
        and used is not None
        and not used.block.relations.keys() <= block.relations.keys()
        for select, block in blocks.selects
    )
    return _Rewritten((*before, view), tree, frozenset(pinned), adds_rest, by_keys)


def _parts(blocks: _Blocks, known: Candidate | Parted | Whole) -> tuple[_Parts, str, Candidate | None]:
    """What takes the place of parts of the query, the reason if nothing does, and what the view is read as, if that is
    a block."""
    if isinstance(known, Candidate):
        return *_of_blocks(blocks, known), known
    parts, reason = _of_whole(blocks, known.whole if isinstance(known, Parted) else known)
    for each in known.parts if isinstance(known, Parted) and not parts else ():
        parts, reason = _of_blocks(blocks, each)
        if parts:
            return parts, "", each
    return parts, reason, None


def _together(single: Sequence[_Rewritten], namespace: Namespace, columns_of: ColumnsOf) -> list[_Rewritten]:
    """Several views in one query: each takes the place of other tables, or answers another part. Only those that leave
    fewer tables than each of their views alone, those that leave the fewest first."""
    found: dict[frozenset[TableName], _Rewritten] = {}
    able = [each for each in islice(single, VIEWS_TOGETHER_TRIED) if each.tables and not each.adds_rest]
    for first in sorted(able, key=lambda each: each.tables)[:TOGETHER_MAX]:
        made = first
        for (view,) in (each.views for each in able):
            if view not in made.views and (further := _further(made, view, namespace, columns_of)) is not None:
                made = further
        if len(made.views) > 1:
            found.setdefault(frozenset(view.name for view in made.views), made)
    return sorted(found.values(), key=lambda each: each.tables)


def _further(made: _Rewritten, view: RewritableView, namespace: Namespace, columns_of: ColumnsOf) -> _Rewritten | None:
    """The query over one more view, if that leaves fewer tables."""
    again = _again(made, view, namespace, columns_of)
    if again is None or again.tables >= made.tables or not all(map(again.reads, range(len(made.views)))):
        return None
    return replace(again, pinned=again.pinned | made.pinned, by_keys=again.by_keys or made.by_keys)


def _again(made: _Rewritten, view: RewritableView, namespace: Namespace, columns_of: ColumnsOf) -> _Rewritten | None:
    """The query over views, over one more."""
    columns = {each.name: each.columns for each in made.views}
    named = {f"{RELATION}{number}": each.name for number, each in enumerate(made.views)}
    try:
        blocks = _Blocks(made.tree, namespace, lambda table: columns.get(table) or columns_of(table), named)
    except (Doubt, RecursionError):
        return None
    again = _answering(blocks, view, made.views)
    return None if isinstance(again, Miss) or again.adds_rest else again


def _above(
    single: Sequence[_Rewritten], views: Sequence[RewritableView], namespace: Namespace, columns_of: ColumnsOf
) -> list[_Rewritten]:
    """The query over views of views: what each of these can do for the query over the view that it reads."""
    found: list[_Rewritten] = []
    waiting = [each for each in single if not each.adds_rest]
    for made in waiting:
        for view in views if len(found) < ABOVE_MAX else ():
            if made.name not in view.bases or (again := _again(made, view, namespace, columns_of)) is None:
                continue
            if not again.reads(0) and all(each.name != view.name for each in found):
                tree = mapped(again.tree, _first_only)
                found.append(replace(again, views=(view,), tree=tree, through=made))
                waiting.append(found[-1])
    return found


def _first_only(node: exp.Expr) -> exp.Expr | None:
    """The only view of a query over two as its first."""
    is_second = isinstance(node, exp.Identifier) and node.name == f"{RELATION}1"
    return exp.Identifier(this=f"{RELATION}0", quoted=False) if is_second else None


def _of_blocks(blocks: _Blocks, view: Candidate) -> tuple[_Parts, str]:
    """What takes the place of blocks; the reason if nothing does, of the block that comes farthest."""
    parts: _Parts = {}
    farthest = Mismatch(-1, "the query does not read the view's tables")
    for select, block in blocks.selects:
        made = Mismatch(TABLES_STEP, block) if isinstance(block, str) else _any_over(block, view)
        if not isinstance(made, Mismatch):
            parts[id(select)] = made
        elif made.step > farthest.step:
            farthest = made
    return parts, str(farthest)


def _any_over(block: Block, view: Candidate) -> tuple[exp.Select, frozenset[int]] | Mismatch:
    """What takes the place of a block, for the first way in which its occurrences of tables can be the view's."""
    farthest = Mismatch(-1, "")
    for each in block.assignments(view.block.relations):
        try:
            needed = narrowed(each, view)
            if (found := rejection(each, needed)) is None:
                return _over(each, needed)
        except Mismatch as mismatch:
            found = mismatch
        if found.step > farthest.step:
            farthest = found
    return farthest


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


def _of_whole(blocks: _Blocks, view: Whole) -> tuple[_Parts, str]:
    alias = view.view.name.table
    for query, its in blocks.wholes():
        if its == view.form and (made := over_whole(query, view.view.columns, alias)) is not None:
            return {id(query): (made, frozenset())}, ""
    return {}, view.reason
