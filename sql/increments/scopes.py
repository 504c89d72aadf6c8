"""The relations that a definition reads: each mention of a table, whether added rows there only add rows, and the names
of the columns that items may use.

Tests: `test_increment_mutants`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from sqlglot import exp

from sql.definition.functions import GENERATORS
from sql.increments.expansion import VIEW
from sql.increments.reasons import Reason
from sql.increments.written import Edit, Span, Written, refuse
from sql.names import Namespace, TableName, quote
from sql.query.resolution import HALF_JOINS, NULL_SIDES, Column, Scope, relation
from sql.query.trees import alias_columns, is_star, join_label, other_part, own_name

_SELECT = ("expressions", "from_", "joins", "laterals", "where", "group", "having", "order", "distinct")
_CLAUSE_NAMES = {
    "with_": "WITH in a subquery",
    "limit": "LIMIT",
    "windows": "WINDOW",
    "cluster": "CLUSTER BY",
    "distribute": "DISTRIBUTE BY",
    "sort": "SORT BY",
    "pivots": "PIVOT",
    "sample": "TABLESAMPLE",
    "kind": "SELECT AS",
}
Meaning: TypeAlias = tuple[str, ...]
"""The name of a relation and of its column, in lower case, and perhaps fields of structs."""


@dataclass(frozen=True, slots=True)
class Touch:
    """Which rows of another table change with rows of this one: those that fulfil a condition with one of them. The
    other table is the preserved side of an outer join, or stands above a subquery in IN or EXISTS."""

    place: int
    """The number of the mention whose rows these are."""
    table: TableName
    preserved: str
    other: str
    """The names by which the condition refers to both sides."""
    condition: str
    """What follows ON."""
    both: bool = False
    """Whether this table's own rows are preserved, too."""
    query: tuple[str, str] | None = None
    """IN or EXISTS, before and after the name of this table; there is no condition then."""

    def rows(self, preserved: str, changed: str) -> str:
        """The rows of the query `preserved` that change with those of the query `changed`."""
        if self.query is not None:
            found = f"{self.query[0]}({changed}){self.query[1]}"
            return f"SELECT {quote(self.preserved)}.* FROM ({preserved}) AS {quote(self.preserved)} WHERE {found}"
        return self._joined(preserved, self.preserved, "SEMI", changed, self.other)

    def own(self, state: str, changed: str | None, touched: str) -> str:
        """The rows of this table in a full join: those of `state` that are joined with the rows `touched` of the other
        side, and those of the query `changed` that are joined with none."""
        joined = self._joined(state, self.other, "SEMI", touched, self.preserved)
        if changed is None:
            return joined
        return f"({joined}) UNION ALL ({self._joined(changed, self.other, 'ANTI', touched, self.preserved)})"

    def _joined(self, left: str, name: str, kind: str, right: str, other: str) -> str:
        return (
            f"SELECT {quote(name)}.* FROM ({left}) AS {quote(name)} "
            f"LEFT {kind} JOIN ({right}) AS {quote(other)} ON {self.condition}"
        )


@dataclass(frozen=True, slots=True)
class Place:
    """One mention of a table in the definition."""

    number: int
    """In the order of the text, from 0."""
    table: TableName
    branch: int
    """The branch of a top-level UNION ALL, from 0."""
    grows: bool
    """Whether added rows only add rows, or change groups. Not on the null side of an outer join, and not in a condition
    with a subquery."""
    start: int
    end: int
    """The offsets of its name in the text."""
    alias: str = ""
    """The name by which columns refer to it, if it has no alias of its own."""
    columns: tuple[str, ...] = ()
    """What a star above it means; empty if there is none."""
    beside: frozenset[int] = frozenset()
    """The numbers of the places in other parts of a UNION ALL below FROM, whose rows never meet its own."""
    touch: Touch | None = None
    """If it does not grow, what its rows change, as far as that is known."""
    joined: tuple[str, ...] = ()
    """Its columns that are compared with a column of another relation."""
    direct: bool = False
    """Whether a further column of what stands for it has its own name in the SELECT of the branch."""

    def edit(self, source: str | None) -> Edit:
        """Replaces the mention by a query, or by the table's full name."""
        text = self.table.quoted
        if source is not None:
            text = f"({source})"
        elif self.columns:
            text = f"(SELECT {', '.join(map(quote, self.columns))} FROM {text})"
        return Edit(self.start, self.end, f"{text} AS {quote(self.alias)}" if self.alias else text)

    def nothing(self, source: str | None) -> str:
        """A query with the columns of the query that stands for the table, or of the table, and without rows."""
        rows = self.table.quoted if source is None else f"({source}) AS `freshgate_none`"
        return f"SELECT {', '.join(map(quote, self.columns)) or '*'} FROM {rows} WHERE false"


@dataclass(slots=True)
class Mention:
    """A place that is being read."""

    table: TableName
    branch: int
    grows: bool
    start: int
    end: int
    alias: str
    columns: tuple[str, ...]
    arms: Mapping[int, int]
    """The parts that it belongs to, by the number of the UNION ALL."""
    starred: bool = False
    touches: FromItem | None = None
    """The table whose rows change with its own, as `Touch` says."""
    name: str = ""
    condition: str = ""
    both: bool = False
    query: tuple[str, str] | None = None
    joined: set[str] = field(default_factory=set)
    direct: bool = False

    def place(self, number: int, beside: frozenset[int], ordered: Sequence[Mention]) -> Place:
        columns, touch = self.columns if self.starred else (), None
        if self.touches is not None and (self.both or self.touches.mentions[0].grows):
            at = ordered.index(self.touches.mentions[0])
            names = self.touches.name, self.name, self.condition
            touch = Touch(at, ordered[at].table, *names, self.both, self.query)
        found = Place(number, self.table, self.branch, self.grows, self.start, self.end, self.alias, columns, beside)
        return replace(found, touch=touch, joined=tuple(sorted(self.joined)), direct=self.direct)

    def is_beside(self, other: Mention) -> bool:
        """Whether they stand in different parts of a UNION ALL."""
        return any(other.arms.get(union, arm) != arm for union, arm in self.arms.items())


@dataclass(slots=True)
class FromItem:
    """One item of FROM."""

    name: str
    """In lower case; empty if there is none."""
    columns: tuple[str, ...]
    """An empty name stands for one that Spark makes."""
    mentions: list[Mention]
    plain: bool = False
    """Whether it is a table."""
    empties: bool = True
    """Whether it has no rows if its tables have none."""

    @property
    def is_named_so(self) -> bool:
        """Whether it is a table whose columns have their own names."""
        return self.plain and self.columns == self.mentions[0].columns

    def note_joined(self, column: str) -> None:
        """Notes that a column, called so here, is compared with one of another relation."""
        if self.plain:
            names = zip(self.columns, self.mentions[0].columns, strict=True)
            self.mentions[0].joined.update(own for name, own in names if name.lower() == column.lower())

    @property
    def scope(self) -> Scope[Meaning]:
        meanings: list[Meaning] = [(self.name or "?", name.lower()) for name in self.columns]
        columns = [Column(name or None, meaning) for name, meaning in zip(self.columns, meanings, strict=True)]
        return Scope.of(relation(columns, [(self.name,)] if self.name else []))


@dataclass(slots=True)
class FromScope:
    """The relations of one FROM whose columns items can use."""

    names: Scope[Meaning] = field(default_factory=Scope)
    items: list[FromItem] = field(default_factory=list)
    empties: bool = False
    """As `FromItem.empties`."""

    @property
    def mentions(self) -> list[Mention]:
        return [mention for item in self.items for mention in item.mentions]

    def origin(self, words: Sequence[object]) -> tuple[int, str] | None:
        """Where the table is mentioned whose column these pieces of an expression are, and the column's name; None if
        they are anything else."""
        if len(words) != 1 or not isinstance(words[0], tuple) or len(words[0]) != 2:
            return None
        relation, column = words[0]
        for item in self.items:
            if item.plain and item.name == relation:
                names = zip(item.columns, item.mentions[0].columns, strict=True)
                return next(((item.mentions[0].start, own) for name, own in names if name.lower() == column), None)
        return None

    def note_direct(self) -> None:
        """Notes that this is the FROM of a branch."""
        for item in self.items:
            if item.is_named_so:
                item.mentions[0].direct = True

    def note(self, item: FromItem) -> None:
        if item.name and any(each.name == item.name for each in self.items):
            raise refuse(f"two relations are called {item.name}")
        self.items.append(item)

    def canonical(self, parts: Sequence[str]) -> Meaning | None:
        """A column and its fields, the same for all ways to write it; None if there is no such column."""
        found, fields = self.names.resolve(parts)
        if len(found) > 1:
            raise refuse(f"the column {'.'.join(parts)} is ambiguous")
        return (*found[0], *(name.lower() for name in fields)) if found else None


class RelationReader:
    """Reads the FROM and WHERE of SELECTs. Raises NotIncremental."""

    def __init__(self, written: Written, namespace: Namespace, columns: Mapping[TableName, Sequence[str]]) -> None:
        self._written = written
        self._namespace = namespace
        self._columns = columns
        self._arms: dict[int, int] = {}
        """The parts of each UNION ALL below FROM that is being read."""
        self._unions = 0
        self.mentions: list[Mention] = []

    def finish(self) -> tuple[Place, ...]:
        """All places. Each table of the tree must be one."""
        ordered = sorted(self.mentions, key=lambda each: each.start)
        return tuple(each.place(number, _beside(each, ordered), ordered) for number, each in enumerate(ordered))

    # --- SELECT

    def select(self, select: exp.Select, branch: int, *, grows: bool = True) -> FromScope:
        """The relations of a SELECT; their places are noted."""
        check_clauses(select)
        if select.args.get("from_") is None:
            raise refuse("it has a SELECT without FROM")
        scope = FromScope()
        first = self._relation(select.args["from_"].this, branch, grows)
        scope.empties = first.empties
        self._add(scope, first)
        for join in select.args.get("joins") or ():
            self._join(scope, join, branch, grows)
        for lateral in select.args.get("laterals") or ():
            self._add(scope, _lateral(lateral))
        where = select.args.get("where")
        if where is not None:
            self._condition(where.this, branch, scope)
        return scope

    @staticmethod
    def _add(scope: FromScope, item: FromItem) -> None:
        scope.note(item)
        scope.names = scope.names.beside(item.scope)

    def _join(self, scope: FromScope, join: exp.Join, branch: int, grows: bool) -> None:
        label = join_label(join)
        if label not in NULL_SIDES:
            raise refuse(f"it has a join of the kind {label}")
        if strange := other_part(join, "this", "side", "kind", "on", "using"):
            raise refuse(f"it has a join with {strange.upper()}")
        half, (null_left, null_right) = label.endswith(HALF_JOINS), NULL_SIDES[label]
        left, right = not null_left, not null_right and not half
        on = join.args.get("on")
        if on is not None and on.find(exp.Query) is not None:
            raise refuse("it has a subquery in ON")
        if isinstance(join.this, exp.Lateral):
            if label not in ("", "INNER", "CROSS", "LEFT", "LEFT OUTER"):
                raise refuse("it has an outer join with LATERAL")
            self._add(scope, _lateral(join.this))
            return
        relation = self._relation(join.this, branch, grows and right)
        touched = list(self._touched(scope, relation, on, left, right)) if grows and on is not None else []
        if not left:
            for mention in scope.mentions:
                mention.grows, mention.touches = False, None
        for changed, other, condition in touched:
            mention = changed.mentions[0]
            mention.touches, mention.name, mention.condition = other, changed.name, condition
            mention.both = not left and not right
        scope.empties = _empties(scope.empties, relation.empties, left=left, right=right)
        using = [name.name for name in join.args.get("using") or ()]
        _note_joined(on, using, [*scope.items, relation])
        if using:
            scope.names = _joined(scope.names, relation.scope, using, label)
        elif not half:
            scope.names = scope.names.beside(relation.scope)
        if not half:
            scope.note(relation)

    def _touched(
        self, scope: FromScope, relation: FromItem, on: exp.Expr, left: bool, right: bool
    ) -> Iterator[tuple[FromItem, FromItem, str]]:
        """Each table of a join that does not grow, with the preserved one whose rows change with its own, and the
        condition, which must name these two alone. `left`, `right`: whether the join preserves the side."""
        named = list(on.find_all(exp.Column))
        owners = [_owners(column, [*scope.items, relation]) for column in named]
        others = {id(found[0]): found[0] for found in owners if len(found) == 1 and found[0] is not relation}
        if (left and right) or not relation.is_named_so or any(len(found) != 1 for found in owners) or len(others) != 1:
            return
        (other,) = others.values()
        span = self._written.condition(self._written.place_of[relation.mentions[0].start])
        places = {self._written.place(column.parts[0]) for column in named}
        if (
            span is None
            or not other.is_named_so
            or places != {each for each in self._written.columns if span.holds(each)}
        ):
            return
        condition = self._written.slice(span)
        if not right and (left or other.mentions[0].grows):
            yield relation, other, condition
        if not left and other.mentions[0].grows:
            yield other, relation, condition

    def _condition(self, node: exp.Expr, branch: int, scope: FromScope) -> None:
        """A condition of WHERE. Subqueries may stand in IN and EXISTS."""
        _note_compared(node, scope.items)
        for query in _outermost_queries(node):
            holder = query.parent
            if not isinstance(holder, exp.Exists) and not (
                isinstance(holder, exp.In) and holder.args.get("query") is query
            ):
                raise refuse("it has a scalar subquery")
            found = self._query(query, branch, grows=False, where="a subquery")
            self._note_query(query, holder, scope, found.mentions)

    def _note_query(self, query: exp.Expr, holder: exp.Expr, scope: FromScope, mentions: Sequence[Mention]) -> None:
        """Notes which rows the only table of a subquery changes, if the subquery names one table above it."""
        query = query.unnest()
        if len(mentions) != 1 or not isinstance(query, exp.Select) or query.args.get("laterals"):
            return
        (mention,) = mentions
        inner, columns = query.args["from_"].this, list(holder.find_all(exp.Column))
        starred = isinstance(holder, exp.In) and query.find(exp.Star) is not None
        if starred or not isinstance(inner, exp.Table) or query.args.get("joins"):
            return
        item = FromItem((inner.alias or inner.name).lower(), renamed(inner, mention.columns), [mention], plain=True)
        lhs = holder.this if isinstance(holder, exp.In) else None
        outer: dict[int, FromItem] = {}
        for column in columns:
            owners = _owners(column, [item]) if column is not lhs else []
            owners = owners or _owners(column, scope.items)
            if len(owners) != 1:
                return
            if owners[0] is not item:
                outer[id(owners[0])] = owners[0]
        _note_compared(holder, [item, *scope.items])
        if isinstance(lhs, exp.Column) and isinstance(query.expressions[0], exp.Column):
            item.note_joined(query.expressions[0].name)
        span = self._predicate(mention, lhs)
        if len(outer) != 1 or span is None or (lhs is not None and not _is_conjunct(holder)):
            return
        (preserved,) = outer.values()
        if not preserved.is_named_so:
            return
        written, edit = self._written, f" AS {quote(mention.alias)}" if mention.alias else ""
        start, end = written.pieces[span.start].start, written.pieces[span.end - 1].end
        mention.touches, mention.name = preserved, item.name
        mention.query = written.text[start : mention.start], edit + written.text[mention.end : end]

    def _predicate(self, mention: Mention, lhs: exp.Expr | None) -> Span | None:
        """The pieces of EXISTS (...), or of a column and IN (...), around the mention."""
        written, place = self._written, self._written.place_of[mention.start]
        opened = max((start for start, end in written.partner.items() if start < place < end), default=0)
        end, word = written.partner.get(opened, 0) + 1, written.word(opened - 1)
        if lhs is None:
            return Span(opened - 1, end) if word == "exists" else None
        if word != "in" or not isinstance(lhs, exp.Column):
            return None
        start = written.place(lhs.parts[0])
        return Span(start, end) if start + 2 * len(lhs.parts) - 1 == opened - 1 else None

    def _query(self, query: exp.Expr, branch: int, *, grows: bool, where: str) -> FromItem:
        """The relation that a query is: SELECTs that only project, filter and join, perhaps below UNION ALL."""
        if isinstance(query, exp.Subquery) and not other_part(query, "this"):
            return self._query(query.this, branch, grows=grows, where=where)
        if not isinstance(query, exp.Select | exp.Union):
            raise refuse(f"it has {where} of a kind that is not understood")
        order = query.args.get("order")
        if order is not None and order.find(exp.Query) is not None:
            raise refuse("it has a subquery in ORDER BY")
        if isinstance(query, exp.Union):
            return self._union(query, branch, grows=grows, where=where)
        if query.args.get("group") or query.args.get("having"):
            raise refuse(f"it has GROUP BY in {where}", Reason.AGGREGATE_NOT_ON_TOP)
        if query.args.get("distinct"):
            raise refuse(f"it has DISTINCT in {where}", Reason.AGGREGATE_NOT_ON_TOP)
        scope = self.select(query, branch, grows=grows)
        for item in query.expressions:
            if item.find(exp.Query) is not None:
                raise refuse("it has a scalar subquery")
        return FromItem("", self.outputs(query, scope), scope.mentions, empties=scope.empties)

    def _union(self, union: exp.Union, branch: int, *, grows: bool, where: str) -> FromItem:
        """UNION ALL: while the change of one part is computed, the others must be without rows."""
        number, self._unions = self._unions, self._unions + 1
        columns: tuple[str, ...] | None = None
        mentions: list[Mention] = []
        for arm, part in enumerate(parts_of(union)):
            self._arms[number] = arm
            found = self._query(part, branch, grows=grows, where=where)
            if not found.empties:
                raise refuse(f"it has a part of UNION ALL in {where} that has rows of its own")
            columns = found.columns if columns is None else columns
            mentions += found.mentions
        del self._arms[number]
        return FromItem("", columns or (), mentions)

    # --- FROM

    def _relation(self, node: exp.Expr, branch: int, grows: bool) -> FromItem:
        if isinstance(node, exp.Table):
            return self._table(node, branch, grows)
        if isinstance(node, exp.Subquery):
            return self._derived(node, branch, grows)
        if isinstance(node, exp.Values):
            return _constants(node)
        raise refuse(f"it reads from {type(node).__name__.upper()}")

    def _table(self, node: exp.Table, branch: int, grows: bool) -> FromItem:
        if not isinstance(node.this, exp.Identifier):
            raise refuse("it reads from a table function")
        if strange := other_part(node, "this", "db", "catalog", "alias"):
            raise refuse(f"a table has {_CLAUSE_NAMES.get(strange, strange.upper())}")
        parts = tuple(part.name for part in node.parts)
        table = TableName.resolve(parts, self._namespace)
        if table.path:
            raise refuse(f"it reads from the path {table.path}")
        if table not in self._columns:
            raise refuse(f"the columns of {table} are not known")
        pieces = [self._written.pieces[self._written.place(part)] for part in node.parts]
        columns = tuple(self._columns[table])
        alias = "" if node.alias else node.name
        arms = dict(self._arms)
        mention = Mention(table, branch, grows, pieces[0].start, pieces[-1].end, alias, columns, arms)
        self.mentions.append(mention)
        return FromItem((node.alias or node.name).lower(), renamed(node, columns), [mention], plain=True)

    def _derived(self, node: exp.Subquery, branch: int, grows: bool) -> FromItem:
        if strange := other_part(node, "this", "alias"):
            raise refuse(f"a derived table has {_CLAUSE_NAMES.get(strange, strange.upper())}")
        if isinstance(node.this, exp.Table):
            raise refuse("it has joined tables in brackets")
        found = self._query(node.this, branch, grows=grows, where="a view" if node.alias == VIEW else "a derived table")
        return replace(found, name=node.alias.lower(), columns=renamed(node, found.columns))

    # --- names of columns

    def outputs(self, select: exp.Select, scope: FromScope) -> tuple[str, ...]:
        """The names of the items; empty where Spark makes one."""
        found: list[str] = []
        for item in select.expressions:
            if is_star(item):
                found += self._star(item, select, scope)
            else:
                found.append(item.alias if isinstance(item, exp.Alias) else own_name(item) or "")
        return tuple(found)

    def _star(self, item: exp.Expr, select: exp.Select, scope: FromScope) -> list[str]:
        star = item.this if isinstance(item, exp.Column) else item
        parts = item.parts[:-1] if isinstance(item, exp.Column) else []
        if star.args.get("except_") or star.args.get("replace") or star.args.get("rename"):
            raise refuse("it has a star that is not frozen")
        joins = select.args.get("joins") or ()
        if any(join.args.get("using") for join in joins) and (parts or any(_is_cross(join) for join in joins)):
            raise refuse("it has a star over a join with USING")
        columns = scope.names.star([part.name for part in parts])
        if columns is None:
            raise refuse(f"the star of {'.'.join(part.name for part in parts)} is not understood")
        names = [column.name for column in columns if column.name is not None]
        if len(names) < len(columns):
            raise refuse("it has a star over a column without a name")
        for each in scope.items:
            if each.plain and (not parts or each.name == parts[0].name.lower()):
                each.mentions[0].starred = True
        return names


def check_clauses(select: exp.Select) -> None:
    """Raises NotIncremental for clauses that are not understood."""
    if strange := other_part(select, *_SELECT):
        raise refuse(f"it has {_CLAUSE_NAMES.get(strange, strange.upper().strip('_'))}")
    distinct = select.args.get("distinct")
    if distinct is not None and distinct.args.get("on"):
        raise refuse("it has DISTINCT ON")


def _owners(column: exp.Column, items: Sequence[FromItem]) -> list[FromItem]:
    """The relations that a column may be of."""
    parts = [part.name.lower() for part in column.parts]
    if len(parts) > 1:
        return [item for item in items if item.name == parts[0]]
    return [item for item in items if parts[0] in map(str.lower, item.columns)]


def _note_joined(on: exp.Expr | None, using: Sequence[str], items: Sequence[FromItem]) -> None:
    """Notes the columns of tables that a join compares."""
    if on is not None:
        _note_compared(on, items)
    for item in items:
        for name in using:
            item.note_joined(name)


def _note_compared(condition: exp.Expr, items: Sequence[FromItem]) -> None:
    """Notes the columns of tables that the condition compares with columns of other relations."""
    for equal in condition.find_all(exp.EQ, exp.NullSafeEQ):
        sides = equal.this, equal.expression
        if not all(isinstance(side, exp.Column) and len(side.parts) <= 2 for side in sides):
            continue
        owners = [_owners(side, items) for side in sides]
        if any(len(each) != 1 for each in owners) or owners[0][0] is owners[1][0]:
            continue
        for side, (owner,) in zip(sides, owners, strict=True):
            owner.note_joined(side.name)


def _is_cross(join: exp.Join) -> bool:
    """Also a comma, behind which USING has another left side."""
    return not join.args.get("using") and not join.args.get("on")


def _empties(left_empties: bool, right_empties: bool, *, left: bool, right: bool) -> bool:
    """Whether a join has no rows if the tables of its sides, which grow or not, have none."""
    if left and right:
        return left_empties or right_empties
    if left:
        return left_empties
    return right_empties if right else left_empties and right_empties


def _joined(left: Scope[Meaning], right: Scope[Meaning], using: Sequence[str], label: str) -> Scope[Meaning]:
    """The names of a join with USING. After a comma, its left side begins behind it: so the last column of the name is
    meant."""
    found = [(left.named(name), right.named(name)) for name in using]
    if not all(mine and len(its) == 1 for mine, its in found):
        raise refuse(f"it is not known which columns USING ({', '.join(using)}) joins")
    pairs = [(mine[-1], its[0]) for mine, its in found]
    return left.joined_by(right, pairs, label, [Column(mine.name, ("", *mine.value[1:])) for mine, _ in pairs])


def _beside(mention: Mention, mentions: Sequence[Mention]) -> frozenset[int]:
    return frozenset(number for number, each in enumerate(mentions) if mention.is_beside(each))


def parts_of(union: exp.Expr) -> Iterator[exp.Expr]:
    """The queries that UNION ALL joins, in order. Raises NotIncremental for another UNION."""
    if not isinstance(union, exp.Union):
        yield union
        return
    if strange := other_part(union, "this", "expression", "distinct", "order"):
        raise refuse(f"UNION has {strange.upper().strip('_')}")
    if union.args.get("distinct"):
        raise refuse("it has UNION without ALL", Reason.AGGREGATE_NOT_ON_TOP)
    yield from parts_of(union.this)
    yield union.expression


def _constants(node: exp.Values) -> FromItem:
    columns = tuple(alias_columns(node))
    if not columns or not node.alias:
        raise refuse("VALUES does not name its columns")
    if other_part(node, "expressions", "alias"):
        raise refuse("VALUES is not understood")
    if node.find(exp.Query) is not None:
        raise refuse("it has a scalar subquery")
    return FromItem(node.alias.lower(), columns, [], empties=False)


def _lateral(node: exp.Expr) -> FromItem:
    """LATERAL VIEW explode(...), or LATERAL explode(...)."""
    if not isinstance(node, exp.Lateral) or not isinstance(node.this, exp.Func):
        raise refuse("it has a LATERAL subquery")
    if other_part(node, "this", "view", "outer", "alias", "ordinality"):
        raise refuse("LATERAL is not understood")
    call = node.this
    if call.find(exp.Query) is not None:
        raise refuse("it has a scalar subquery")
    name = call.name if isinstance(call, exp.Anonymous) else call.sql_name()
    if name.lower() not in GENERATORS and not isinstance(call, exp.Explode | exp.Posexplode | exp.Inline):
        raise refuse(f"it has LATERAL {name}")
    if not (columns := tuple(alias_columns(node))):
        raise refuse("LATERAL does not name its columns")
    return FromItem(node.alias.lower(), columns, [])


def renamed(node: exp.Expr, columns: tuple[str, ...]) -> tuple[str, ...]:
    """The columns by the names that the alias gives them."""
    names = tuple(alias_columns(node))
    if names and len(names) != len(columns):
        raise refuse("an alias has another number of columns than its relation")
    return names or columns


def _is_conjunct(node: exp.Expr) -> bool:
    """Whether rows for which the condition is NULL are left out as those are for which it is false."""
    above = node.parent
    while isinstance(above, exp.And | exp.Paren):
        above = above.parent
    return isinstance(above, exp.Where)


def _outermost_queries(node: exp.Expr) -> Iterable[exp.Expr]:
    for each in node.walk(prune=lambda each: isinstance(each, exp.Query)):
        if isinstance(each, exp.Query):
            yield each
