"""One query block over one view.

Tests: `test_matching`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from sqlglot import exp

from sql.rewriting.blocks import Block, BlockOutput, BlockRelation, column_of
from sql.rewriting.candidate import Candidate, Mismatch
from sql.rewriting.derivation import COLUMNS_STEP, Derivation
from sql.rewriting.dialect import identifier, view_relation
from sql.rewriting.forms import form, holes_in, joined, mapped, shown
from sql.rewriting.ranges import implied
from sql.rewriting.rollup import Rollup
from sql.rewriting.subqueries import condition_form
from sql.table_keys import NO_KEYS

_Write = Callable[[exp.Expr], exp.Expr]
"""Writes an expression over the view."""
TABLES_STEP = 0
CONDITIONS_STEP, _GROUPS_STEP = 1, 2


def rejection(block: Block, view: Candidate) -> Mismatch | None:
    """Why the view cannot serve the block, if that is quickly seen: it reads other tables, or lacks a column."""
    mine, theirs = block.relations, view.block.relations
    if not theirs.keys() <= mine.keys():
        missing = next(key for key in theirs if key not in mine)
        return Mismatch(TABLES_STEP, f"the view reads {missing}, which the query does not")
    for column in block.columns - view.columns:
        relation, _, name = column.rpartition(".")
        if relation in theirs and view.columns.isdisjoint(block.equal.get(column, ())):
            return Mismatch(COLUMNS_STEP, f"the view has no column for {name}")
    return None


def substituted(block: Block, view: Candidate) -> tuple[exp.Select, frozenset[int]]:
    """The SELECT over the view, which is not rejected, and the holes whose values it depends on. Raises Mismatch."""
    if (optional := _optional(block, view)) is not None:
        return _joined_optionally(block, view, optional)
    others = _other_relations(block, view)
    pinned: set[int] = set()
    conditions = _remaining(block, view, pinned)
    if conditions or others or block.keys is not None:
        # A window over the rows that are left, or over their groups, has other values than the view's.
        view = replace(view, values={its: each for its, each in view.values.items() if its not in _windows(view)})
    alias = _free_alias(view.view.name.table, others)
    aliases = {each.key: each.alias for each in others}
    over = Derivation(view, alias, aliases, block.equal)
    writer = _Writer(
        block, view, [_ReadSource(view_relation(alias), alias), *map(_read_source, others)], conditions, over
    )
    if view.keys is None:
        made = writer.plain()
    elif block.keys is None:
        if not block.is_distinct:
            raise Mismatch(_GROUPS_STEP, "the query wants single rows, and the view groups them")
        made = writer.plain()
    else:
        made = writer.grouped()
    return made, frozenset(pinned | writer.pinned)


def _windows(view: Candidate) -> set[str]:
    """The forms of the view's columns that are computed by window functions."""
    return {form(each.value) for each in view.block.outputs if each.value.find(exp.Window) is not None}


def _optional(block: Block, view: Candidate) -> BlockRelation | None:
    """The right side of the block's LEFT JOIN, if the view has rows of that table."""
    (key, *more), relations = view.block.relations, view.block.relations
    is_rows = not more and view.keys is None and relations[key].on is None
    mine = block.relations[key]
    return mine if is_rows and mine.on is not None and not mine.full and mine.table is not None else None


def _joined_optionally(block: Block, view: Candidate, mine: BlockRelation) -> tuple[exp.Select, frozenset[int]]:
    """The same with the view as the right side. Only its columns are used: what is computed from them is not NULL for
    each row without a match."""
    pinned: set[int] = set()
    wanted = frozenset(map(form, mine.on or ()))
    for its, condition in view.conjuncts.items():
        if its not in wanted and (holes := implied(condition, mine.on or ())) is not None:
            pinned |= holes
        elif its not in wanted:
            raise Mismatch(_GROUPS_STEP, f"the view has only rows with {shown(condition)}")
    columns = {form(each.value) for each in view.block.outputs if isinstance(each.value, exp.Column)}
    view = replace(view, values={its: each for its, each in view.values.items() if its in columns})
    others = [each for each in block.relations.values() if each is not mine]
    alias = _free_alias(view.view.name.table, others)
    on = tuple(each for each in mine.on or () if form(each) not in view.conjuncts)
    sources = [
        _ReadSource(view_relation(alias), alias, on) if each is mine else _read_source(each)
        for each in block.relations.values()
    ]
    over = Derivation(view, alias, {each.key: each.alias for each in others}, {})
    writer = _Writer(block, view, sources, block.conjuncts, over)
    return writer.plain(), frozenset(pinned | writer.pinned)


def _other_relations(block: Block, view: Candidate) -> list[BlockRelation]:
    """What the block reads besides the view's relations."""
    mine, theirs = block.relations, view.block.relations
    for key, relation in theirs.items():
        if relation.table is None:
            raise Mismatch(TABLES_STEP, "the view reads a derived table")
        if _join_form(relation) != _join_form(mine[key]) and not _keeps_more(relation, mine[key], block):
            raise Mismatch(TABLES_STEP, f"the view joins {key} in another way")
    return [relation for key, relation in mine.items() if key not in theirs]


def _keeps_more(theirs: BlockRelation, mine: BlockRelation, block: Block) -> bool:
    """Whether the view has a LEFT or FULL JOIN where the block has an inner join on the same conditions, or a FULL JOIN
    where it has a LEFT JOIN."""
    if theirs.full and mine.on is not None:
        return not mine.full and sorted(map(form, theirs.on or ())) == sorted(map(form, mine.on))
    known = set(map(form, block.conjuncts))
    return mine.on is None and theirs.on is not None and known.issuperset(map(form, theirs.on))


def _matched(block: Block, view: Candidate) -> list[exp.Expr]:
    """Conditions that leave those rows of the view's LEFT JOINs that an inner join has: a column that is compared for
    the join is not NULL in them. Without such a column, other conditions of the block may do. Raises Mismatch."""
    found: list[exp.Expr] = []
    for key, relation in view.block.relations.items():
        if relation.full and not block.relations[key].full:
            found += _matched_fully(relation, block.relations[key], view)
            continue
        if relation.on is None or block.relations[key].on is not None:
            continue
        compared = [each for condition in relation.on for each in condition.find_all(exp.Column) if each.table == key]
        column = next((each for each in compared if form(each) in view.values), None)
        if column is not None:
            found.append(exp.Not(this=exp.Is(this=column, expression=exp.Null())))
        elif not _is_matched(relation, block) and not _always_matches(relation, view):
            raise Mismatch(TABLES_STEP, f"the view joins {key} in another way")
    return found


def _matched_fully(theirs: BlockRelation, mine: BlockRelation, view: Candidate) -> Iterator[exp.Expr]:
    """Conditions that leave those rows of the view's FULL JOIN that an inner join has, or a LEFT JOIN."""
    others = [each for each in view.block.relations if each != theirs.key]
    compared = [each for condition in theirs.on or () for each in condition.find_all(exp.Column)]
    for key in (*others, *([theirs.key] if mine.on is None else ())):
        table = view.block.relations[key].table
        present = () if table is None else view.view.keys.get(table, NO_KEYS).present
        known = [each for each in compared if each.table == key and form(each) in view.values]
        if mine.on is not None:
            # A row of the left side alone may have NULL for what is compared.
            known = [column_of(key, name) for name in sorted(present) if form(column_of(key, name)) in view.values]
        if not known:
            raise Mismatch(TABLES_STEP, f"the view joins {theirs.key} in another way, and no column of {key} tells")
        yield exp.Not(this=exp.Is(this=known[0], expression=exp.Null()))


_COMPARISONS = exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.In


def _is_matched(relation: BlockRelation, block: Block) -> bool:
    """Whether another condition of the block is never true of a row without a match."""
    on = set(map(form, relation.on or ()))
    compared = (each for each in block.conjuncts if isinstance(each, _COMPARISONS) and form(each) not in on)
    sides = (side for each in compared for side in (each.this, each.args.get("expression")))
    return any(isinstance(side, exp.Column) and side.table == relation.key for side in sides)


def _always_matches(relation: BlockRelation, view: Candidate) -> bool:
    """Whether a foreign key refers to the relation."""
    foreign = (each for keys in view.view.keys.values() for each in keys.foreign)
    return relation.table is not None and any(each.table == relation.table.quoted for each in foreign)


def _join_form(relation: BlockRelation) -> tuple[bool, list[str]] | None:
    return None if relation.on is None else (relation.full, sorted(map(form, relation.on)))


def _remaining(block: Block, view: Candidate, pinned: set[int]) -> list[exp.Expr]:
    """The block's conditions that the view's rows do not all fulfil."""
    forms = [condition_form(each) for each in block.conjuncts]
    known = frozenset(forms)
    for wanted, condition in view.conjuncts.items():
        if wanted in known or _are_equal(condition, block):
            continue
        if (holes := implied(condition, _with_equals(block))) is None:
            raise Mismatch(CONDITIONS_STEP, f"the view has only rows with {shown(condition)}")
        pinned |= holes
    inner = [each for key, each in view.block.relations.items() if block.relations[key].on is None]
    joined_so = {form(each) for relation in inner for each in relation.on or ()}
    kept = [each for each, its in zip(block.conjuncts, forms, strict=True) if its not in {*view.conjuncts, *joined_so}]
    return kept + _matched(block, view)


def _are_equal(condition: exp.Expr, block: Block) -> bool:
    """Whether other conditions of the block imply one of the form a = b."""
    return isinstance(condition, exp.EQ) and form(condition.expression) in block.equal.get(form(condition.this), ())


def missing_conditions(block: Block, view: Candidate) -> list[exp.Expr]:
    """The view's conditions that the block does not have."""
    known = frozenset(map(condition_form, block.conjuncts))
    return [
        condition
        for wanted, condition in view.conjuncts.items()
        if wanted not in known and not _are_equal(condition, block) and implied(condition, _with_equals(block)) is None
    ]


def _with_equals(block: Block) -> Iterator[exp.Expr]:
    """The conditions, and those of one column with each column that is equal to it in its place."""
    yield from block.conjuncts
    for condition in block.conjuncts:
        columns = {form(each) for each in condition.find_all(exp.Column)}
        if len(columns) == 1:
            (its,) = columns
            for other in block.equal.get(its, ()):
                if other != its:
                    yield mapped(condition, partial(_instead, its, other))


def _instead(of: str, other: str, node: exp.Expr) -> exp.Expr | None:
    if not isinstance(node, exp.Column) or form(node) != of:
        return None
    relation, _, name = other.rpartition(".")
    return column_of(relation, name)


def _free_alias(name: str, others: Sequence[BlockRelation]) -> str:
    taken = {each.alias.lower() for each in others}
    while name in taken:
        name += "_mv"
    return name


@dataclass(frozen=True, slots=True)
class _ReadSource:
    """What the SELECT reads."""

    node: exp.Expr
    alias: str
    on: tuple[exp.Expr, ...] | None = None
    """As in BlockRelation."""
    full: bool = False
    """As in BlockRelation."""


def _read_source(relation: BlockRelation) -> _ReadSource:
    return _ReadSource(_aliased(relation), relation.alias, relation.on, relation.full)


class _Writer:
    """Writes the SELECT over the view."""

    def __init__(
        self,
        block: Block,
        view: Candidate,
        sources: Sequence[_ReadSource],
        conditions: Sequence[exp.Expr],
        over: Derivation,
    ) -> None:
        """`sources`: the view and all others."""
        self._block = block
        self._view = view
        self._sources = sources
        self._conditions = conditions
        self._over = over
        self._used: set[int] = set()
        """Holes whose values it depends on."""

    @property
    def pinned(self) -> set[int]:
        return self._over.pinned | self._used

    def plain(self) -> exp.Select:
        """Over a view that does not group, or for a query whose distinct values are those of the view's keys."""
        block, value = self._block, self._over.value
        if self._view.block.having:
            raise Mismatch(_GROUPS_STEP, "the view has HAVING")
        keys = None if block.keys is None else [value(key) for key in block.keys]
        return self._select(value, keys, block.having)

    def grouped(self) -> exp.Select:
        """Over a view that groups, for a query that does."""
        keys = self._block.keys or []
        forms = frozenset(map(form, keys))
        having = {form(each): each for each in self._block.having}
        filtered = [form(each) for each in self._view.block.having]
        kept = having.keys() >= set(filtered)
        self._used |= {hole for each in filtered if each in having for hole in holes_in(having[each])}
        if forms == self._view.keys and self._block.sets is None and len(self._sources) == 1 and kept:
            try:
                rollup = Rollup(self._over, same_groups=True, has_keys=bool(keys))
                return self._select(rollup.value, None, (), self._block.having)
            except Mismatch as mismatch:
                return self._added_up(keys, mismatch)
        return self._added_up(keys)

    def _added_up(self, keys: Sequence[exp.Expr], otherwise: Mismatch | None = None) -> exp.Select:
        """Over groups of the view. `otherwise`: why its groups are not simply those of the query."""
        self._over.pinned.clear()
        if self._view.block.having:
            raise Mismatch(_GROUPS_STEP, "the view has HAVING, so it lacks groups")
        rollup = Rollup(self._over, same_groups=False, has_keys=bool(keys))
        try:
            return self._select(rollup.value, [self._over.value(key) for key in keys], self._block.having)
        except Mismatch as mismatch:
            raise (otherwise or mismatch) from None

    def _select(
        self,
        value: _Write,
        keys: Sequence[exp.Expr] | None,
        having: Sequence[exp.Expr],
        filters: Sequence[exp.Expr] = (),
    ) -> exp.Select:
        """`filters`: conditions on groups that become conditions on rows."""
        joins, where = self._joins()
        where += [value(each) for each in filters]
        where += [_equal(self._over.column(column), number) for column, number in self._view.only]
        clauses = {clause: self._block.select.args.get(clause) for clause in ("distinct", "limit", "offset")}
        order = self._order(value)
        condition, of_groups = joined(where), joined([value(each) for each in having])
        return exp.Select(
            expressions=[self._item(output, value) for output in self._block.outputs],
            from_=exp.From(this=self._sources[0].node),
            joins=joins,
            where=None if condition is None else exp.Where(this=condition),
            group=self._group(keys),
            having=None if of_groups is None else exp.Having(this=of_groups),
            order=exp.Order(expressions=order) if order else None,
            **clauses,
        )

    def _group(self, keys: Sequence[exp.Expr] | None) -> exp.Expr | None:
        if not keys:
            return None
        by_form = dict(zip(map(form, self._block.keys or ()), keys, strict=True))
        sets = self._block.sets
        return exp.Group(expressions=list(keys)) if sets is None else mapped(sets, lambda each: by_form.get(form(each)))

    def _item(self, output: BlockOutput, value: _Write) -> exp.Expr:
        if output.name is None:
            raise Mismatch(_GROUPS_STEP, "a column of the query has no alias, and Spark's name for it is not known")
        if output.written is not None:
            # Spark names it after its literals. Where it is a key, those of GROUP BY stay the same as these.
            same = (key for key in self._block.keys or () if form(key) == form(output.value))
            self._used |= holes_in(output.written).union(*map(holes_in, same))
        made = value(output.value)
        if isinstance(made, exp.Column) and made.name == output.name:
            return made
        return exp.Alias(this=made, alias=identifier(output.name))

    def _order(self, value: _Write) -> list[exp.Expr]:
        named = {form(output.value): output for output in self._block.outputs if output.name is not None}
        found: list[exp.Expr] = []
        for item in self._block.order:
            by = item.this if isinstance(item, exp.Ordered) else item
            if isinstance(item, exp.Ordered) and not isinstance(by, exp.Literal):
                made = value(by) if (output := named.get(form(by))) is None else self._named_output(output, by)
                item = exp.Ordered(**{**item.args, "this": made})
            found.append(item)
        return found

    def _named_output(self, output: BlockOutput, same: exp.Expr) -> exp.Expr:
        """The output in the place of an expression that is the same as long as its literals are."""
        self._used |= holes_in(output.value) | holes_in(same)
        return exp.Column(this=identifier(output.name or ""))

    def _joins(self) -> tuple[list[exp.Join], list[exp.Expr]]:
        """The joins with the sources behind the first, and the conditions on all of them."""
        left = [self._over.value(each) for each in self._conditions]
        joins: list[exp.Join] = []
        first, *others = self._sources
        if first.on is not None:
            raise Mismatch(TABLES_STEP, "the query begins with the right side of a LEFT JOIN")
        seen = {first.alias}
        for other in others:
            seen.add(other.alias)
            if other.on is not None:
                on = joined([self._over.value(each) for each in other.on])
                joins.append(exp.Join(this=other.node, side="FULL" if other.full else "LEFT", on=on))
                continue
            # Spark allows no query that depends on the row in ON.
            own = [each for each in left if _aliases_in(each) <= seen and other.alias in _aliases_in(each)]
            own = [each for each in own if each.find(exp.Query) is None]
            left = [each for each in left if not any(each is one for one in own)]
            joins.append(exp.Join(this=other.node, kind="INNER" if own else "CROSS", on=joined(own)))
        return joins, left


def _equal(column: exp.Expr, number: int) -> exp.EQ:
    return exp.EQ(this=column, expression=exp.Literal.number(number))


def _aliases_in(node: exp.Expr) -> set[str]:
    return {column.table for column in node.find_all(exp.Column)}


def _aliased(relation: BlockRelation) -> exp.Expr:
    alias = exp.TableAlias(this=identifier(relation.alias))
    old = relation.node.args.get("alias")
    if isinstance(relation.node, exp.Subquery) and old is not None:
        alias = exp.TableAlias(this=alias.this, columns=old.args.get("columns"))
    kept = {place: value for place, value in relation.node.args.items() if place not in ("alias", "joins")}
    return type(relation.node)(**kept, alias=alias)
