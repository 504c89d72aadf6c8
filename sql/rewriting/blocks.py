"""Query blocks: one SELECT over base tables, with the derived tables and CTEs that it merely projects, filters and
joins merged into it. All its columns are resolved to those of base tables. `sql.increments.unwrapping` merges queries
over groups, in texts.

Tests: `test_matching`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice, permutations, product
from types import MappingProxyType
from typing import TypeAlias

from sqlglot import exp

from sql.names import Namespace, TableName
from sql.query.aggregates import AGGREGATES
from sql.query.ctes import Ctes
from sql.query.keys import KeyItems, NoSuchItem
from sql.query.resolution import Column, Scope, relation
from sql.query.trees import alias_columns, is_star, items_of, join_label, other_part
from sql.reading.parsing import Doubt
from sql.rewriting.forms import call_of, conjuncts_of, form, mapped, rebuilt
from sql.rewriting.labels import label_of
from sql.rewriting.subqueries import closed, with_closed_subqueries

ColumnsOf = Callable[[TableName], Sequence[str] | None]
"""The columns of a base table; None: unknown."""
SELECTS_MAX = 40
"""In one query, a CTE counted each time that it is named: each is compared with the views."""
INLINED_NODES_MAX = 20_000
"""The nodes that CTEs add to a query: ten that name the one before twice would double it ten times."""
ASSIGNMENTS_MAX = 6
"""Ways in which occurrences of a table are tried for those of a view."""
_KNOWN_CLAUSES = frozenset(
    {
        "expressions",
        "from_",
        "joins",
        "where",
        "group",
        "having",
        "order",
        "limit",
        "offset",
        "distinct",
        "kind",
        "hint",
        "operation_modifiers",
    }
)
_INNER, _LEFT, _RIGHT = ("", "INNER", "CROSS"), ("LEFT", "LEFT OUTER"), ("RIGHT", "RIGHT OUTER")
_FULL = ("FULL", "FULL OUTER")
_KEEPING = ("LEFT SEMI", "SEMI", "LEFT ANTI", "ANTI")
_SEVERAL_SETS = (exp.Tuple, exp.Rollup, exp.Cube, exp.GroupingSets)
GROUPING = frozenset({"grouping", "grouping_id"})
"""Functions that tell the sets of GROUP BY apart."""
_UNITS = frozenset({"timestampadd", "timestampdiff", "dateadd", "datediff", "date_add", "date_diff"})
"""Functions whose first argument may be a bare unit of time, which looks like a column."""


@dataclass(frozen=True, slots=True)
class BlockRelation:
    """What a block reads."""

    key: str
    """Its id in resolved columns."""
    table: TableName | None
    """None: a derived table that is not merged."""
    node: exp.Expr
    """What stands in FROM, without its alias."""
    alias: str
    on: tuple[exp.Expr, ...] | None = None
    """The condition of a LEFT or FULL JOIN, whose right side it is; None in an inner join."""
    full: bool = False
    """Whether that is a FULL JOIN: of two tables, and nothing else."""


@dataclass(frozen=True, slots=True)
class BlockOutput:
    """A column of the result."""

    name: str | None
    """None if Spark makes a name that is not known."""
    value: exp.Expr
    written: exp.Expr | None = None
    """The item that Spark names."""


@dataclass(slots=True)
class Block:
    """A SELECT with its parts resolved. A column without a table, in `order`, is one of the outputs."""

    select: exp.Select
    relations: dict[str, BlockRelation] = field(default_factory=dict)
    conjuncts: list[exp.Expr] = field(default_factory=list)
    outputs: list[BlockOutput] = field(default_factory=list)
    keys: list[exp.Expr] | None = None
    """What it groups by; empty: all rows are one group; None: it does not group."""
    sets: exp.Group | None = None
    """GROUP BY with ROLLUP, CUBE or GROUPING SETS of these keys."""
    having: list[exp.Expr] = field(default_factory=list)
    order: list[exp.Expr] = field(default_factory=list)

    equal: dict[str, list[str]] = field(default_factory=dict)
    """By its form, each column that a condition a = b makes equal to others: the forms of all these."""
    columns: frozenset[str] = frozenset()
    """The forms of the columns that it uses."""

    def assignments(self, wanted: Collection[str]) -> Iterator[Block]:
        """The block, and the same with other names of the tables that it reads several times, as far as relations of
        the wanted names are among them: each stands for every occurrence once."""
        groups: dict[str, list[str]] = {}
        for key in self.relations:
            groups.setdefault(key.partition("#")[0], []).append(key)
        several = [its for its in groups.values() if len(its) > 1 and not set(its).isdisjoint(wanted)]
        orders = product(*(permutations(its) for its in several))
        for chosen in islice(orders, ASSIGNMENTS_MAX):
            names = dict(zip(chain.from_iterable(several), chain.from_iterable(chosen), strict=True))
            yield self if all(old == new for old, new in names.items()) else self._renamed(names)

    def _renamed(self, names: Mapping[str, str]) -> Block:
        def named(node: exp.Expr) -> exp.Expr | None:
            is_other = isinstance(node, exp.Column) and node.table in names
            return column_of(names[node.table], node.name) if is_other and isinstance(node, exp.Column) else None

        def change(node: exp.Expr) -> exp.Expr:
            return mapped(node, named)

        relations = (
            replace(each, key=names.get(key, key), on=None if each.on is None else tuple(map(change, each.on)))
            for key, each in self.relations.items()
        )
        sets = None if self.sets is None else change(self.sets)
        made = replace(
            self,
            relations={each.key: each for each in relations},
            conjuncts=list(map(change, self.conjuncts)),
            outputs=[replace(each, value=change(each.value)) for each in self.outputs],
            keys=None if self.keys is None else list(map(change, self.keys)),
            sets=sets if isinstance(sets, exp.Group) else None,
            having=list(map(change, self.having)),
            order=list(map(change, self.order)),
        )
        made.equal, made.columns = _equal_columns(made.conjuncts), frozenset(_columns(made))
        return made

    @property
    def is_distinct(self) -> bool:
        return bool(self.select.args.get("distinct"))

    @property
    def tables(self) -> frozenset[TableName]:
        return frozenset(each.table for each in self.relations.values() if each.table is not None)


def is_aggregate(node: exp.Expr) -> bool:
    """Whether a node is the call of an aggregate function, perhaps with FILTER or WITHIN GROUP."""
    if isinstance(node, exp.Filter | exp.WithinGroup | exp.IgnoreNulls | exp.RespectNulls):
        return is_aggregate(node.this)
    return call_of(node)[0] in AGGREGATES


def aggregates_in(node: exp.Expr) -> Iterator[exp.Expr]:
    """The outermost calls of aggregate functions. The function of a window is none, but those in its arguments are."""
    if isinstance(node, exp.Query):
        return
    if isinstance(node, exp.Window):
        function = node.this
        while isinstance(function, exp.Filter | exp.IgnoreNulls | exp.RespectNulls):
            function = function.this
        for child in (
            *function.iter_expressions(),
            *(each for each in node.iter_expressions() if each is not node.this),
        ):
            yield from aggregates_in(child)
    elif is_aggregate(node):
        yield node
    else:
        for child in node.iter_expressions():
            yield from aggregates_in(child)


def _has_window(node: exp.Expr) -> bool:
    return node.find(exp.Window) is not None


# --- names in FROM -------------------------------------------------------------------------------------

_Scope: TypeAlias = Scope[exp.Expr]


def _meant(scope: _Scope, parts: Sequence[str]) -> exp.Expr | None:
    """The value of a column; None if there is none of the name. Fields of structs may follow it."""
    values, fields = scope.resolve(parts)
    if len(values) > 1:
        raise Doubt(f"the column {'.'.join(parts)} is ambiguous")
    value = values[0] if values else None
    for field_name in fields if value is not None else ():
        value = exp.Dot(this=value, expression=exp.to_identifier(field_name))
    return value


def _star(scope: _Scope, qualifier: tuple[str, ...]) -> list[BlockOutput]:
    columns = scope.star(qualifier)
    if columns is None:
        raise Doubt("it is not known which columns * has")
    return [BlockOutput(column.name, column.value) for column in columns]


def column_of(relation: str, name: str) -> exp.Column:
    return exp.Column(
        this=exp.Identifier(this=name.lower(), quoted=False), table=exp.Identifier(this=relation, quoted=True)
    )


# --- reading a SELECT ----------------------------------------------------------------------------------


class BlockReader:
    """Makes blocks of the SELECTs of a query without CTEs (see `inlined`)."""

    def __init__(
        self, namespace: Namespace, columns_of: ColumnsOf, named: Mapping[str, TableName] = MappingProxyType({})
    ) -> None:
        """`named`: what some words in the place of tables stand for."""
        self._namespace = namespace
        self._columns_of = columns_of
        self._named = named
        self._keys: set[str] = set()
        self._aliases: set[str] = set()

    def block(self, select: exp.Select) -> Block:
        """Raises Doubt."""
        self._keys, self._aliases = set(), set()
        block = self._block(select)
        block.equal = _equal_columns(block.conjuncts)
        block.columns = frozenset(_columns(block))
        return block

    def _block(self, select: exp.Select) -> Block:
        if strange := other_part(select, *_KNOWN_CLAUSES):
            raise Doubt(f"it has the clause {strange.strip('_').upper()}")
        select = with_closed_subqueries(select, self._namespace, self._columns_of)
        block = Block(select)
        source = select.args.get("from_")
        if source is None:
            raise Doubt("it reads no table")
        scope = self._relation(source.this, block, left=False)
        for join in select.args.get("joins") or ():
            scope = self._join(join, block, scope)
        where = select.args.get("where")
        if where is not None:
            block.conjuncts += [_resolved(each, scope) for each in conjuncts_of(where.this)]
        self._outputs(select, block, scope)
        self._groups(select, block, scope)
        order = select.args.get("order")
        block.order = [_ordered(each, block, scope) for each in order.expressions] if order is not None else []
        return block

    def _join(self, join: exp.Join, block: Block, left: _Scope) -> _Scope:
        label = join_label(join)
        if label in _KEEPING:
            return self._kept(join, block, left, is_anti=label.endswith("ANTI"))
        if label not in _INNER + _LEFT + _RIGHT + _FULL or join.args.get("match_condition"):
            raise Doubt(f"it has a join of the kind {label}")
        before = len(block.conjuncts)
        if label in _FULL and (before or len(block.relations) > 1 or join.args.get("using")):
            raise Doubt("it has a FULL JOIN of joined or filtered tables, or with USING")
        if label in _RIGHT and (before or len(block.relations) > 1):
            raise Doubt("it has a RIGHT JOIN of joined or filtered tables")
        if any(each.full for each in block.relations.values()):
            raise Doubt("it joins the result of a FULL JOIN")
        right = self._relation(join.this, block, left=label in _LEFT)
        names = [name.name for name in join.args.get("using") or ()]
        pairs = left.keys(right, names) if names else []
        if pairs is None:
            raise Doubt(f"it is not known which columns USING ({', '.join(names)}) joins")
        scope = left.joined_by(right, pairs, label) if names else left.beside(right)
        conditions = [_resolved(each, scope) for each in conjuncts_of(join.args.get("on"))]
        conditions += [exp.EQ(this=mine.value, expression=other.value) for mine, other in pairs]
        if label in _LEFT:
            # A condition of the right side alone is one of the rows that may match.
            conditions += block.conjuncts[before:]
            del block.conjuncts[before:]
        if label in _FULL and (len(block.conjuncts) > before or len(block.relations) != 2):
            raise Doubt("it has a FULL JOIN of joined or filtered tables")
        if label in _LEFT + _RIGHT + _FULL:
            last = next(iter(block.relations.values())) if label in _RIGHT else next(reversed(block.relations.values()))
            optional = replace(last, on=tuple(conditions), full=label in _FULL)
            block.relations.pop(last.key)
            block.relations[last.key] = optional
        else:
            block.conjuncts += conditions
        return scope

    def _kept(self, join: exp.Join, block: Block, left: _Scope, *, is_anti: bool) -> _Scope:
        """A semi or anti join: EXISTS, or its negation."""
        if not isinstance(join.this, exp.Table) or join.args.get("using"):
            raise Doubt("it has a semi join with more than a table, or with USING")
        where = exp.Where(this=join.args.get("on") or exp.Boolean(this=True))
        query = exp.Select(expressions=[exp.Literal.number(1)], from_=exp.From(this=join.this), where=where)
        exists = exp.Exists(this=closed(query, self._namespace, self._columns_of))
        block.conjuncts.append(_resolved(exp.Not(this=exists) if is_anti else exists, left))
        return left

    # --- relations

    def _relation(self, node: exp.Expr, block: Block, *, left: bool) -> _Scope:
        """`left`: whether it is the right side of a LEFT JOIN."""
        if node.args.get("pivots") or node.args.get("sample") or node.args.get("laterals"):
            raise Doubt("it has a PIVOT, TABLESAMPLE or LATERAL VIEW")
        if isinstance(node, exp.Table):
            scope = self._table(node, block)
        elif isinstance(node, exp.Subquery) and isinstance(node.this, exp.Table):
            if node.args.get("alias") or left:
                raise Doubt("it has joined tables in brackets")
            scope = self._relation(node.this, block, left=False)
        elif isinstance(node, exp.Subquery):
            scope = self._derived(node, block, left=left)
        else:
            raise Doubt(f"it reads from a {type(node).__name__.lower()}")
        for join in node.args.get("joins") or ():
            if left:
                raise Doubt("it has joined tables in brackets")
            scope = self._join(join, block, scope)
        return scope

    def _table(self, node: exp.Table, block: Block) -> _Scope:
        if not isinstance(node.this, exp.Identifier) or node.args.get("version") or node.args.get("when"):
            raise Doubt("it reads from a function, or an older version of a table")
        parts = tuple(part.name for part in node.parts)
        name = self._named.get(parts[0]) or TableName.resolve(parts, self._namespace)
        columns = self._columns_of(name)
        if columns is None:
            raise Doubt(f"the columns of {name} are not known")
        if alias_columns(node):
            raise Doubt("a table has other names for its columns")
        key, shown = self._free(str(name), self._keys, "#"), self._free(node.alias or name.table, self._aliases, "_")
        plain = exp.Table(**{place: value for place, value in node.args.items() if place not in ("alias", "joins")})
        block.relations[key] = BlockRelation(key, name, plain, shown)
        qualifiers = [(node.alias,)] if node.alias else [parts[place:] for place in range(len(parts))]
        return Scope.of(relation([Column(column, column_of(key, column)) for column in columns], qualifiers))

    def _derived(self, node: exp.Subquery, block: Block, *, left: bool) -> _Scope:
        query = node.this
        while isinstance(query, exp.Subquery) and not query.args.get("alias"):
            query = query.this
        names = alias_columns(node)
        qualifiers = [(node.alias,)] if node.alias else []
        inner = self._mergeable(query, left=left)
        if inner is not None:
            block.relations |= inner.relations
            block.conjuncts += inner.conjuncts
            key, outputs = next(reversed(inner.relations)), inner.outputs
        else:
            key = shown = self._free(node.alias or "t", self._aliases, "_")
            key = f"({key})"
            block.relations[key] = BlockRelation(key, None, node, shown)
            outputs = [
                BlockOutput(name, column_of(key, name)) if name else BlockOutput(None, exp.Null())
                for name in _names(query)
            ]
        if names:
            outputs = [BlockOutput(name, output.value) for name, output in zip(names, outputs, strict=False)]
        columns = [Column(output.name, output.value) for output in outputs]
        if inner is None and not outputs:
            return Scope.of(relation(columns, qualifiers, complete=False, unlisted=lambda name: column_of(key, name)))
        return Scope.of(relation(columns, qualifiers))

    def _mergeable(self, query: exp.Expr, *, left: bool) -> Block | None:
        """The block of a derived table, if its rows are those of its FROM and WHERE."""
        if not isinstance(query, exp.Select) or any(
            query.args.get(clause) for clause in ("group", "having", "distinct", "order", "limit", "offset")
        ):
            return None
        if any(_has_window(item) or next(aggregates_in(item), None) is not None for item in query.expressions):
            return None
        inner = self._block(query)
        if left and not (
            len(inner.relations) == 1 and all(isinstance(each.value, exp.Column) for each in inner.outputs)
        ):
            raise Doubt("it has a LEFT JOIN with joined tables, or with computed columns")
        return inner

    @staticmethod
    def _free(name: str, taken: set[str], sign: str) -> str:
        found, number = name, 1
        while found.lower() in taken:
            number += 1
            found = f"{name}{sign}{number}"
        taken.add(found.lower())
        return found

    # --- outputs and groups

    def _outputs(self, select: exp.Select, block: Block, scope: _Scope) -> None:
        earlier: dict[str, exp.Expr] = {}
        for item in select.expressions:
            if is_star(item):
                qualifier = tuple(part.name.lower() for part in item.parts[:-1]) if isinstance(item, exp.Column) else ()
                if item.find(exp.Except, exp.Replace) or item.args.get("except_"):
                    raise Doubt("it has * EXCEPT")
                block.outputs += _star(scope, qualifier)
                continue
            value = _resolved(item.this if isinstance(item, exp.Alias) else item, scope, earlier)
            name = label_of(item)
            block.outputs.append(BlockOutput(name, value, None if isinstance(item, exp.Alias) else item))
            if isinstance(item, exp.Alias):
                earlier.setdefault(item.alias.lower(), value)

    def _groups(self, select: exp.Select, block: Block, scope: _Scope) -> None:
        group, having = select.args.get("group"), select.args.get("having")
        aliases = _aliases(block)
        if group is not None:
            block.keys, block.sets = _grouped(group, block, scope, aliases)
        elif any(next(aggregates_in(output.value), None) is not None for output in block.outputs):
            block.keys = []
        if having is not None:
            block.keys = [] if block.keys is None else block.keys
            block.having = [_resolved_late(each, scope, aliases) for each in conjuncts_of(having.this)]


def _columns(block: Block) -> Iterator[str]:
    left = (each for relation in block.relations.values() for each in relation.on or ())
    values = (output.value for output in block.outputs)
    for expression in chain(block.conjuncts, left, values, block.keys or (), block.having, block.order):
        yield from (form(column) for column in expression.find_all(exp.Column) if column.table)


def _equal_columns(conditions: Sequence[exp.Expr]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for each in conditions:
        if isinstance(each, exp.EQ) and isinstance(each.this, exp.Column) and isinstance(each.expression, exp.Column):
            left, right = form(each.this), form(each.expression)
            both = list(dict.fromkeys([*found.get(left, [left]), *found.get(right, [right])]))
            found.update(dict.fromkeys(both, both))
    return found


def _names(query: exp.Expr) -> list[str | None]:
    """The names of the columns of a derived table; none if they are not known."""
    items = items_of(query)
    return [] if any(map(is_star, items)) else [label_of(item) for item in items]


def _aliases(block: Block) -> dict[str, exp.Expr]:
    found: dict[str, exp.Expr] = {}
    for output in block.outputs:
        if output.name is not None:
            found.setdefault(output.name.lower(), output.value)
    return found


def _grouped(
    group: exp.Group, block: Block, scope: _Scope, aliases: Mapping[str, exp.Expr]
) -> tuple[list[exp.Expr], exp.Group | None]:
    """The keys, and the clause with them if they are grouped by several sets of them."""
    if not group.find(*_SEVERAL_SETS):
        return list(_group_keys(group, block, scope, aliases)), None
    keys: list[exp.Expr] = []
    items = KeyItems([each.name for each in block.outputs], lambda name: _meant(scope, [name]) is not None)

    def change(node: exp.Expr) -> exp.Expr | None:
        if node is group or isinstance(node, (*_SEVERAL_SETS, exp.Paren)):
            return None
        try:
            item = items.of(node)
        except NoSuchItem as number:
            raise Doubt(f"it groups by column {number}, which it does not have") from None
        keys.append(_resolved(node, scope, aliases) if item is None else block.outputs[item].value)
        return keys[-1]

    made = mapped(group, change)
    assert isinstance(made, exp.Group)
    return list({form(each): each for each in keys}.values()), made


def _group_keys(group: exp.Group, block: Block, scope: _Scope, aliases: Mapping[str, exp.Expr]) -> Iterator[exp.Expr]:
    if other_part(group, "expressions", "all"):
        raise Doubt("it has ROLLUP, CUBE or GROUPING SETS")
    items = KeyItems([each.name for each in block.outputs], lambda name: _meant(scope, [name]) is not None)
    if group.args.get("all"):
        if not items.are_all(group):
            raise Doubt("its GROUP BY ALL may mean a column")
        yield from (each.value for each in block.outputs if next(aggregates_in(each.value), None) is None)
    for key in group.expressions:
        try:
            item = items.of(key)
        except NoSuchItem as number:
            raise Doubt(f"it groups by column {number}, which it does not have") from None
        yield _resolved(key, scope, aliases) if item is None else block.outputs[item].value


def _ordered(item: exp.Expr, block: Block, scope: _Scope) -> exp.Expr:
    """An item of ORDER BY, in which a column without a table means an output."""
    value = item.this
    if isinstance(value, exp.Literal) and value.name.isdecimal():
        return item
    aliases = _aliases(block)
    if isinstance(value, exp.Column) and len(value.parts) == 1 and value.name.lower() in aliases:
        resolved: exp.Expr = exp.Column(this=exp.to_identifier(value.name))
    else:
        resolved = _resolved_late(value, scope, aliases)
    return exp.Ordered(**{**item.args, "this": resolved})


def _resolved(node: exp.Expr, scope: _Scope, aliases: Mapping[str, exp.Expr] | None = None) -> exp.Expr:
    """The expression with resolved columns; a name that no relation has may be an item of SELECT (`aliases`)."""

    def change(each: exp.Expr) -> exp.Expr | None:
        if isinstance(each, exp.Placeholder | exp.Parameter):
            raise Doubt("it has parameters")
        if not isinstance(each, exp.Column) or isinstance(each.this, exp.Star):
            return None
        parts = [part.name for part in each.parts]
        if (found := _meant(scope, parts)) is not None:
            return found
        if aliases is not None and len(parts) == 1 and (found := aliases.get(parts[0].lower())) is not None:
            return found
        if len(parts) == 1 and each.parent is not None and call_of(each.parent)[0] in _UNITS:
            return exp.Var(this=parts[0])
        raise Doubt(f"the column {'.'.join(parts)} is not known")

    return mapped(node, change)


def _resolved_late(node: exp.Expr, scope: _Scope, aliases: Mapping[str, exp.Expr]) -> exp.Expr:
    """The same in HAVING and ORDER BY, where a name outside of aggregates means an item of SELECT first."""

    def change(each: exp.Expr) -> exp.Expr | None:
        if is_aggregate(each):
            return _resolved(each, scope, aliases)
        if isinstance(each, exp.Column) and len(each.parts) == 1:
            return aliases.get(each.name.lower()) or _resolved(each, scope)
        return _resolved(each, scope) if isinstance(each, exp.Column) else None

    return mapped(node, change)


# --- CTEs ----------------------------------------------------------------------------------------------


def selects_in(query: exp.Expr) -> list[exp.Select]:
    """The SELECTs of a query, outermost first. Raises Doubt if there are very many."""
    found = list(islice(query.find_all(exp.Select, bfs=True), SELECTS_MAX + 1))
    if len(found) > SELECTS_MAX:
        raise Doubt(f"it has more than {SELECTS_MAX} SELECTs")
    return found


def inlined(query: exp.Expr) -> exp.Expr:
    """The query with its CTEs as derived tables. A tree may be part of the result several times. Raises Doubt, also if
    CTEs that name each other several times make a very large query."""
    withs = list(query.find_all(exp.With))
    if any(with_.args.get("recursive") for with_ in withs):
        raise Doubt("it has a recursive CTE")
    names = frozenset(cte.alias.lower() for with_ in withs for cte in with_.expressions)
    return mapped(query, _Inliner(names).change) if withs else query


class _Inliner:
    def __init__(self, names: frozenset[str]) -> None:
        """`names`: those of all CTEs."""
        self._names = names
        self._ctes = Ctes()
        self._bodies: dict[int, tuple[exp.Expr, int]] = {}
        """By the identity of a CTE, the query that stands for it, and the number of its nodes."""
        self._nodes = 0
        """How many nodes CTEs have added so far."""

    def change(self, node: exp.Expr) -> exp.Expr | None:
        """What stands for a node (see `mapped`)."""
        if isinstance(node, exp.Table) and self._may_mean(node) and (cte := self._ctes.meant(node)) is not None:
            return self._derived(node, cte)
        if node.args.get("with_"):
            return rebuilt(node, self.change, without=("with_",))
        return None

    def _may_mean(self, table: exp.Table) -> bool:
        return table.name.lower() in self._names

    def _derived(self, table: exp.Table, cte: exp.CTE) -> exp.Expr:
        body, nodes = self._body(cte)
        self._nodes += nodes
        if self._nodes > INLINED_NODES_MAX:
            raise Doubt("its CTEs name each other too often")
        alias = table.args.get("alias") or exp.TableAlias(this=exp.to_identifier(table.name))
        kept = rebuilt(table, self.change, without=("this", "alias"))
        rest = {place: kept.args[place] for place in ("joins", "pivots", "sample") if place in kept.args}
        names = alias.args.get("columns") or cte.args["alias"].args.get("columns")
        return exp.Subquery(this=body, alias=exp.TableAlias(this=alias.this, columns=names), **rest)

    def _body(self, cte: exp.CTE) -> tuple[exp.Expr, int]:
        if (found := self._bodies.get(id(cte))) is None:
            before, nodes = self._nodes, list(cte.this.walk())
            plain = not any(
                isinstance(node, exp.With) or (isinstance(node, exp.Table) and self._may_mean(node)) for node in nodes
            )
            body = cte.this if plain else mapped(cte.this, self.change)
            found = self._bodies[id(cte)] = body, len(nodes) + self._nodes - before
        return found
