"""Decides from texts alone whether a materialized view's partitions can follow those of one base table.

A view that is partitioned by its column v follows the partition column b of a table T if every row with a value of v
depends only on those rows of T whose b maps to that value. After a change to some partitions of T, only the view's
partitions that they map to must be refreshed. A wrong yes gives wrong results, so everything uncertain is refused.

Each relation is analyzed bottom-up: the origin of each column, and how often each table is read. If a row depends on
rows of other partitions (LIMIT, outer joins, windows), the columns concerned lose their origin. Finally, all mentions
of T must be ones that the column was traced to. sqlglot's tree gives the structure. The few expressions that a column
may go through are checked in the text itself, because sqlglot drops some signs (`+b`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from sqlglot import exp

from sql.definition.functions import GENERATORS, called, foreign
from sql.definition.origins import (
    UNCERTAIN,
    UNKNOWN_COLUMNS,
    Lost,
    Origin,
    Traced,
    TracedRelation,
    TracedScope,
    Value,
    joined,
    kept,
    merged,
    value_at,
    without_origin,
)
from sql.lexed import Lexed
from sql.names import Namespace, TableName
from sql.query.ctes import Ctes
from sql.query.keys import KeyItems, NoSuchItem
from sql.query.resolution import NULL_SIDES, Column
from sql.query.trees import (
    alias_columns,
    holds_relation,
    is_named,
    is_star,
    join_label,
    others,
    own_name,
    own_parts,
    partition_keys,
    strange_clause,
    strange_part,
    unseen_word,
)
from sql.reading.lineage import query_tree, relations
from sql.reading.parsing import Doubt
from sql.scan import Lexeme, identifier

_DATE = "DATE"
_DEFAULT_NAMESPACE = Namespace()
_COARSER = {
    "HOUR": frozenset({"HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR"}),
    "DAY": frozenset({"DAY", "WEEK", "MONTH", "QUARTER", "YEAR"}),
    "WEEK": frozenset({"WEEK"}),
    "MONTH": frozenset({"MONTH", "QUARTER", "YEAR"}),
    "QUARTER": frozenset({"QUARTER", "YEAR"}),
    "YEAR": frozenset({"YEAR"}),
}
"""By unit, the units that consist of whole such units. (A week may belong to two months.)"""


class CannotFollow(ValueError):
    """The view's partitions cannot follow those of a base table; the message is the reason, for users."""


@dataclass(frozen=True, slots=True)
class Source:
    """A relation that a definition reads."""

    columns: tuple[str, ...]
    """In the metastore's order."""
    partition_columns: tuple[str, ...] = ()
    """A table's physical partition columns, or the columns that a materialized view is partitioned by."""
    units: Mapping[str, str] = field(default_factory=dict)
    """HOUR, DAY, WEEK, MONTH, QUARTER or YEAR of partition columns that are truncated to it, by their names."""
    view_text: str | None = None
    """The query of a Spark view, resolved in `namespace`; `columns` are its columns by position."""
    namespace: Namespace = _DEFAULT_NAMESPACE


@dataclass(frozen=True, slots=True)
class Followed:
    """The partition column that is followed.

    `expression` is valid only under the definition's session settings (time zone). A set operation or USING may give
    the view's column another type than the expression has; if the types differ, values may not match.
    """

    table: TableName
    column: str
    """The partition column as in Source.partition_columns."""
    expression: str
    """Spark SQL for the view column's value, with {} for the base column's value. It does not include the unit of
    PARTITION BY."""


def follow(
    query: str, namespace: Namespace, position: int, unit: str | None, sources: Mapping[TableName, Source]
) -> Followed:
    """The partition column that the query's output column at `position` (from 0) follows.

    `unit` is that of PARTITION BY date_trunc(column, unit). `sources` has every relation that the query reads, also
    through views. Raises only CannotFollow.
    """
    try:
        relation = _Reading(query, namespace, _Sources(sources)).relation()
    except RecursionError:
        raise CannotFollow("the query is nested too deeply") from None
    if not 0 <= position < len(relation.columns):
        raise CannotFollow(relation.problem or "the position of the partition column in the query is not certain")
    value = relation.columns[position].value
    if isinstance(value, Lost):
        raise CannotFollow(value.reason)
    if relation.reads[value.table] != value.scans or any(_is_within(name, value.table) for name in relation.reads):
        raise CannotFollow(f"it reads {value.table} more than once")
    _check_unit(value, unit)
    expression = "{}"
    for call in value.calls:
        # Without ANSI mode, a string that is not a date becomes NULL in the definition. With it, the definition fails.
        cast = f"try_cast({expression} AS {'DATE' if call == _DATE else 'TIMESTAMP'})"
        expression = cast if call == _DATE else f"date_trunc('{call}', {cast})"
    return Followed(value.table, value.column, expression)


def _is_within(name: TableName, table: TableName) -> bool:
    """Whether `name` is a branch, tag or metadata table of the Iceberg table, such as `orders.files`."""
    return (*name.catalog.split("."), *name.database.split("."))[-2:] == (
        table.database.rpartition(".")[2],
        table.table,
    )


# --- units of time -----------------------------------------------------------------------------------


def _check_unit(value: Origin, unit: str | None) -> None:
    for known in (unit, value.unit):
        if known is not None and known not in _COARSER:
            raise CannotFollow(f"{known} is not a unit of partitions")
    for call in value.calls:
        if unit is not None and call != _DATE and unit not in _COARSER[call]:
            raise CannotFollow(
                f"the partition column's time unit {unit} should be greater than date_trunc('{call}', …) in the query"
            )
    if value.unit is not None and not _is_constant_within(value.unit, value.calls, unit):
        raise CannotFollow(
            f"the partition column's time unit should be {value.unit}, by which {value.table} is partitioned, or a "
            f"unit that consists of whole {value.unit}s"
        )


def _is_constant_within(unit: str, calls: Sequence[str], outermost: str | None) -> bool:
    """Whether all moments within one such unit get the same value.

    One of the calls must be at least as coarse, and the calls before it must not affect its result.
    """
    steps = ["DAY" if call == _DATE else call for call in calls] + ([outermost] if outermost else [])
    for count, step in enumerate(steps):
        if not all(step in _COARSER[before] for before in steps[:count]):
            return False
        if step in _COARSER[unit]:
            return True
    return False


class _Sources:
    """The relations that texts may name; each is analyzed once."""

    def __init__(self, sources: Mapping[TableName, Source]) -> None:
        self._sources = sources
        self._read: dict[TableName, TracedRelation | None] = {}

    def __contains__(self, name: TableName) -> bool:
        return name in self._sources

    def relation(self, name: TableName) -> TracedRelation:
        if name in self._read:
            known = self._read[name]
            if known is None:
                raise CannotFollow(f"the view {name} reads itself")
            return known
        source = self._sources.get(name)
        if source is None:
            raise CannotFollow(f"the relation {name} is not known")
        self._read[name] = None
        found = _table(name, source) if source.view_text is None else self._view(name, source, source.view_text)
        self._read[name] = found
        return found

    def _view(self, name: TableName, source: Source, text: str) -> TracedRelation:
        reading = _Reading(text, source.namespace, self)
        found = reading.relation()
        columns = [
            self._view_column(name, column, shown, reading.has_star)
            for column, shown in zip(found.columns, found.renamed(source.columns).columns, strict=False)
        ]
        return TracedRelation(tuple(columns), found.reads).renamed(source.columns)

    def _view_column(self, name: TableName, column: Traced, shown: Traced, has_star: bool) -> Traced:
        # A Spark view keeps the time zone and ANSI mode of the session that created it, so its expressions of times may
        # have other values than the same expressions elsewhere.
        if isinstance(column.value, Origin) and column.value.calls:
            return without_origin(
                column, f"the view {name} computes its column {shown.name} under its own session settings"
            )
        # A view finds the columns of a star by their names at its creation. New columns may have moved the positions.
        if has_star and column.folded != shown.folded:
            return without_origin(column, f"it is not certain which column the view {name} shows as {shown.name}")
        return column


def _table(name: TableName, source: Source) -> TracedRelation:
    partitioned = {column.lower(): column for column in source.partition_columns}
    listed = ", ".join(source.partition_columns)
    columns = []
    for column in source.columns:
        value: Value
        if column.lower() in partitioned:
            value = Origin(name, partitioned[column.lower()], source.units.get(partitioned[column.lower()]))
        elif partitioned:
            value = Lost(f"the column {column} of {name} is not one of its partition columns ({listed})")
        else:
            value = Lost(f"{name}, from which its column {column} comes, has no partition columns")
        columns.append(Column(column, value))
    return TracedRelation(tuple(columns), Counter({name: 1}))


# --- analyzing a text --------------------------------------------------------------------------------

_FROM_PARTS = frozenset({"with_", "from_", "joins", "laterals", "hint"})
_HARMLESS = frozenset({"expressions", "where", "distinct", "order", "sort", "cluster", "distribute"})
_SELECT_PARTS = _FROM_PARTS | _HARMLESS | {"group", "having", "windows"}
_CUTTING = frozenset({"limit", "offset", "qualify"})
"""Clauses that remove rows depending on other rows, and keep the columns' positions."""
_CLAUSE_WORDS = (
    "from where group having order sort cluster distribute limit union except intersect minus lateral window rows range"
)
_ENDS = frozenset([*_CLAUSE_WORDS.split(), ",", ")"])
"""What may follow a complete expression or its alias."""
_STARTS = frozenset({"select", "all", "distinct", "by", ","})


class _Reading:
    """The analysis of one text."""

    def __init__(self, text: str, namespace: Namespace, sources: _Sources) -> None:
        self._namespace = namespace
        self._sources = sources
        lexed = Lexed(text)
        self._tree = _tree(lexed)
        self._pieces = tuple(lexed.pieces)
        self._places = {piece.start: place for place, piece in enumerate(self._pieces)}
        self._ctes = Ctes()
        self._traced: dict[int, TracedRelation] = {}
        """CTEs by their identity."""
        self._check_calls()
        self._check_mentions(lexed)

    def relation(self) -> TracedRelation:
        return self._query(self._tree)

    @property
    def has_star(self) -> bool:
        return any(is_star(item) for select in self._tree.find_all(exp.Select) for item in select.expressions)

    def _check_calls(self) -> None:
        """Refuses functions that are not Spark's own, because they may read tables, and clauses that the tree lacks."""
        calls = called(self._pieces)
        aliases = Counter(alias.name.lower() for alias in self._tree.find_all(exp.TableAlias) if alias.columns)
        if (name := foreign(calls, aliases)) is not None:
            raise CannotFollow(f"it calls the function {name.removeprefix('.')}, which may read tables")
        if any(word.text.lower() == "using" and after.kind == "string" for word, after in pairwise(self._pieces)):
            raise CannotFollow("the query runs a script")
        if (word := unseen_word(self._tree, (piece.text.lower() for piece in self._pieces))) is not None:
            raise CannotFollow(f"not every {word.upper()} in the query is understood")
        self._generates = not GENERATORS.isdisjoint(calls)

    def _check_mentions(self, lexed: Lexed) -> None:
        """Refuses the text if `lineage.relations` finds a mention of a relation that the tree lacks."""
        lineage = relations(lexed)
        if not lineage.exact:
            raise CannotFollow(f"the query is not understood: {lineage.reason}")
        unsure = (TableName.resolve(read.parts, self._namespace) for read in lineage.reads if read.perhaps)
        if (name := next((name for name in unsure if name in self._sources), None)) is not None:
            raise CannotFollow(f"{name} is also the name of a CTE, unless names are case-sensitive")
        mine = Counter(self._name(table) for table in self._tree.find_all(exp.Table) if is_named(table))
        mine.subtract(Counter(TableName.resolve(read.parts, self._namespace) for read in lineage.reads))
        if missed := next((name for name, count in mine.items() if count < 0), None):
            raise CannotFollow(f"not all mentions of {missed} are understood")

    def _name(self, table: exp.Table) -> TableName:
        return TableName.resolve(_parts(table), self._namespace)

    def _reads(self, nodes: Iterable[exp.Expr]) -> Counter[TableName]:
        """The tables read anywhere in these parts of the tree; possibly too many, never too few."""
        reads: Counter[TableName] = Counter()
        for node in nodes:
            for table in node.find_all(exp.Table):
                if not is_named(table):
                    continue
                parts = _parts(table)
                ctes = list(self._ctes.visible(parts[0], table)) if len(parts) == 1 else []
                for cte in ctes:  # Old settings of Spark let the outermost hide the others.
                    # What another CTE within these parts reads is counted there.
                    reads += self._traced[id(cte)].reads if id(cte) in self._traced else Counter()
                if not ctes:
                    reads += self._sources.relation(self._name(table)).reads
        return reads

    # --- queries -------------------------------------------------------------------------------------

    def _query(self, node: exp.Expr) -> TracedRelation:
        self._with(node)
        if isinstance(node, exp.Select):
            return self._select(node)
        if isinstance(node, exp.SetOperation):
            return self._set_operation(node)
        if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Query):
            found = self._query(node.this)
            reads = found.reads + self._reads(others(node, {"this", "with_"}))
            harmless = {"this", "with_", "order", "sort", "cluster", "distribute"}
            found = replace(found, reads=reads)
            if problem := strange_clause(node, harmless | _CUTTING):
                return replace(found.lost(problem), complete=False, problem=problem)
            problem = strange_clause(node, harmless)
            return found if problem is None else found.lost(problem)
        return replace(UNKNOWN_COLUMNS, reads=self._reads([node]))

    def _with(self, node: exp.Expr) -> None:
        """Traces the CTEs of a node."""
        with_ = node.args.get("with_")
        if with_ is None:
            return
        if problem := strange_clause(with_, {"expressions", "recursive"}):
            raise CannotFollow(problem)
        for cte in with_.expressions:
            if any(other is not cte for other in self._ctes.visible(cte.alias, cte)):
                raise CannotFollow(f"two CTEs are named {cte.alias}")
            if problem := strange_clause(cte, {"this", "alias"}):
                raise CannotFollow(problem)
            if with_.args.get("recursive"):
                # Within a recursive CTE its name means the CTE. In case it does not, the table of that name is counted.
                table = TableName.resolve((cte.alias.lower(),), self._namespace)
                reads = self._sources.relation(table).reads if table in self._sources else Counter[TableName]()
                self._traced[id(cte)] = replace(UNKNOWN_COLUMNS, reads=reads)
                found = replace(UNKNOWN_COLUMNS, reads=self._reads([cte.this]))
            else:
                found = self._query(cte.this)
            self._traced[id(cte)] = found.renamed(alias_columns(cte))

    def _set_operation(self, node: exp.SetOperation) -> TracedRelation:
        left, right = self._query(node.this), self._query(node.expression)
        reads = left.reads + right.reads + self._reads(others(node, {"this", "expression", "with_"}))
        whole = [len(side.columns) for side in (left, right) if side.complete]
        if len(set(whole)) != 1:
            return replace(UNKNOWN_COLUMNS, reads=reads)
        places = range(whole[0])
        names = [column.name for column in left.columns] if left.complete else [None for _ in places]
        values = [merged(value_at(left, place), value_at(right, place), left.reads, right.reads) for place in places]
        found = TracedRelation(tuple(map(Column, names, values)), reads)
        harmless = {"this", "expression", "with_", "distinct", "order", "sort", "cluster", "distribute"}
        problem = strange_clause(node, harmless)
        return found if problem is None else found.lost(problem)

    def _select(self, node: exp.Select) -> TracedRelation:
        scope = self._from(node)
        reads = scope.reads + self._reads(others(node, _FROM_PARTS))
        outputs, complete = self._outputs(node, scope)
        found = TracedRelation(tuple(outputs), reads, complete)
        if problem := strange_clause(node, _SELECT_PARTS | _CUTTING) or strange_part(node):
            columns = tuple(replace(column, value=Lost(problem)) for column in found.columns)
            return TracedRelation(columns, reads, complete=False, problem=problem)
        if problem := strange_clause(node, _SELECT_PARTS):
            return found.lost(problem)
        found = self._grouped(node, scope, found)
        for window in own_parts(node, exp.Window):
            if window.parent is node and window.arg_key == "windows":
                continue
            keys = [self._value(key, scope) for key in partition_keys(node, window)]
            found = kept(found, keys, "a window function is not partitioned by it")
        return found

    def _grouped(self, node: exp.Select, scope: TracedScope, found: TracedRelation) -> TracedRelation:
        group = node.args.get("group")
        if group is None:
            over_all = node.args.get("having") is not None or any(
                not isinstance(aggregate.find_ancestor(exp.Window, exp.Select), exp.Window)
                for aggregate in own_parts(node, exp.AggFunc)
            )
            return found.lost("the query aggregates all rows, without GROUP BY") if over_all else found
        items = KeyItems(
            [column.name for column in found.columns], lambda name: not scope.complete or bool(scope.named(name))
        )
        if items.are_all(group):
            return found  # Every output without an aggregate is a key.
        if problem := strange_clause(group, {"expressions"}):
            return found.lost(f"{problem} in GROUP BY")
        if any(isinstance(key, exp.Rollup | exp.Cube | exp.GroupingSets) for key in group.expressions):
            return found.lost("GROUP BY has several grouping sets")
        keys = [self._key(key, scope, found, items) for key in group.expressions]
        return kept(found, keys, "GROUP BY does not contain it")

    def _key(self, key: exp.Expr, scope: TracedScope, found: TracedRelation, items: KeyItems) -> Value:
        try:
            item = items.of(key)
        except NoSuchItem:
            return Lost(UNCERTAIN)
        if item is None:
            return self._value(key, scope)
        is_whole = not isinstance(key.unnest(), exp.Column) or (isinstance(key, exp.Column) and self._is_bare(key))
        return found.columns[item].value if is_whole else Lost(UNCERTAIN)

    # --- FROM ----------------------------------------------------------------------------------------

    def _from(self, node: exp.Select) -> TracedScope:
        from_ = node.args.get("from_")
        scope = TracedScope() if from_ is None else self._item(from_.this)
        scope = self._joined(scope, node.args.get("joins") or ())
        for lateral in node.args.get("laterals") or ():
            scope = scope.joined_with(self._opaque(lateral))
        return scope

    def _joined(self, scope: TracedScope, joins: Sequence[exp.Join]) -> TracedScope:
        # After a comma, USING and NATURAL have another left side.
        has_comma = any(join_label(join).endswith("CROSS") for join in joins)
        for join in joins:
            named = bool(join.args.get("using")) or bool(join.args.get("method"))
            right = self._item(join.this)
            reads = self._reads(others(join, {"this"}))
            if named and has_comma:
                scope = scope.joined_with(right).uncertain(
                    "a join by column names is combined with a comma or CROSS JOIN"
                )
            else:
                scope = _joined(scope, right, join)
            scope = scope.with_reads(reads)
        return scope

    def _item(self, node: exp.Expr) -> TracedScope:
        """A table, a parenthesized query or parenthesized joins, with the joins that sqlglot attaches to it."""
        alias = node.args.get("alias")
        allowed = {"this", "db", "catalog", "alias", "joins", "with_"}
        if strange_clause(node, allowed) is not None or not isinstance(node, exp.Table | exp.Subquery):
            return self._opaque(node)
        joins = node.args.get("joins") or ()
        if isinstance(node, exp.Table):
            if not is_named(node):
                return self._opaque(node)
            scope = self._named(node)
        elif isinstance(node.this, exp.Query) and not holds_relation(node.this):
            self._with(node)
            inner = self._query(node.this)
            scope = TracedScope.of_relation(inner.renamed(alias_columns(node)), _alias(alias))
        else:
            scope = self._item(node.this)
            if alias is not None:
                inner = TracedRelation(scope.columns, scope.reads, scope.complete).renamed(alias_columns(node))
                scope = TracedScope.of_relation(inner, _alias(alias))
        return self._joined(scope, joins)

    def _named(self, node: exp.Table) -> TracedScope:
        alias, parts = node.args.get("alias"), _parts(node)
        if (cte := self._ctes.meant(node)) is not None:
            if id(cte) not in self._traced:
                raise CannotFollow(f"the CTE {cte.alias} is not understood")
            found = self._traced[id(cte)]
            qualifiers: list[tuple[str, ...]] = [parts]
        else:
            name = self._name(node)
            found = self._sources.relation(name)
            qualifiers = [(name.table,), (name.database, name.table), (name.catalog, name.database, name.table)]
        if alias is None:
            return TracedScope.of_relation(found, qualifiers)
        return TracedScope.of_relation(found.renamed(alias_columns(node)), _alias(alias) or qualifiers)

    def _opaque(self, node: exp.Expr) -> TracedScope:
        """A relation of which only the alias and the tables read below it are known."""
        alias = node.args.get("alias")
        found = replace(UNKNOWN_COLUMNS, reads=self._reads([node]))
        return TracedScope.of_relation(found.renamed(alias_columns(node)), _alias(alias))

    # --- outputs and expressions ---------------------------------------------------------------------

    def _outputs(self, node: exp.Select, scope: TracedScope) -> tuple[list[Traced], bool]:
        """The output columns whose positions are certain, and whether these are all."""
        outputs: list[Traced] = []
        for item in node.expressions:
            if is_star(item):
                columns = _star(item, scope)
                if columns is None:
                    return outputs, False
                outputs += [Column(column.name, column.value) for column in columns]
            elif isinstance(item, exp.Aliases):
                outputs += [Column(name.name, Lost(_COMPUTED)) for name in item.expressions]
            elif isinstance(item, exp.Alias):
                outputs.append(Column(item.alias, self._value(item.this, scope, item.alias)))
            elif self._may_be_many(item):
                return outputs, False
            else:
                outputs.append(Column(own_name(item), self._value(item, scope)))
        return outputs, True

    def _may_be_many(self, item: exp.Expr) -> bool:
        """Whether an item without an alias may be several columns: a generator or a backquoted regular expression."""
        if self._generates and item.find(exp.Func) is not None:
            return True
        column = item.unnest()
        return isinstance(column, exp.Column) and not _REGEX_SIGNS.isdisjoint(column.name)

    def _value(self, node: exp.Expr, scope: TracedScope, alias: str | None = None) -> Value:
        """The origin of an expression: a column, possibly parenthesized or truncated to a date or unit of time."""
        wraps: list[exp.Expr] = []
        while isinstance(node, exp.Paren | exp.TsOrDsToDate | exp.TimestampTrunc | exp.Cast):
            wraps.append(node)
            node = node.this
        if not isinstance(node, exp.Column) or is_star(node):
            return Lost(_COMPUTED)
        value = scope.origin([part.name for part in node.parts])
        if isinstance(value, Lost):
            return value
        span = self._span(node)
        calls = list(value.calls)
        for wrap in reversed(wraps):
            if span is None:
                break
            call, span = self._wrapped(wrap, span)
            calls += [call] if call else []
        if span is None or not self._stands_free(span, alias):
            return Lost(_COMPUTED)
        if value.mixed is not None and len(calls) > len(value.calls):
            return Lost("it is computed from a column that a join or a set operation may have given another type")
        return replace(value, calls=tuple(calls))

    # --- expressions in the text, as the indexes of their first and last lexeme ------------------------

    def _piece(self, place: int) -> Lexeme | None:
        return self._pieces[place] if 0 <= place < len(self._pieces) else None

    def _word(self, place: int) -> str:
        """The lower-case keyword or symbol there; empty for quoted names and strings."""
        piece = self._piece(place)
        return piece.text.lower() if piece is not None and piece.kind in ("word", "symbol") else ""

    def _span(self, column: exp.Column) -> tuple[int, int] | None:
        """The span of a column's name; None if the text differs from the tree."""
        names = [part.name for part in column.parts]
        first = self._places.get(column.parts[0].meta.get("start", -1))
        if first is None or column.args.get("join_mark"):
            return None
        last = first + 2 * (len(names) - 1)
        written = self._pieces[first : last + 1]
        if len(written) != last - first + 1 or any(piece.text != "." for piece in written[1::2]):
            return None
        found = [identifier(piece) for piece in written[::2] if piece.kind in ("word", "quoted")]
        return (first, last) if found == names else None

    def _wrapped(self, wrap: exp.Expr, span: tuple[int, int]) -> tuple[str, tuple[int, int] | None]:
        """The call around the span (empty for parentheses), and the extended span; None if the text differs."""
        first, last = span
        before, after = self._word(first - 1), self._word(last + 1)
        function = self._word(first - 2) if self._word(first - 3) != "." else ""
        if isinstance(wrap, exp.TimestampTrunc):
            unit = self._piece(first - 2)
            called = [self._word(first - 4), self._word(first - 3), before, after] == ["date_trunc", "(", ",", ")"]
            # In double quotes it may be a column (spark.sql.ansi.doubleQuotedIdentifiers).
            name = unit.text.upper() if called and unit is not None and unit.kind == "string" else ""
            known = name[:1] == name[-1:] == "'" and name[1:-1] in _COARSER and self._word(first - 5) != "."
            return name[1:-1], (first - 4, last + 1) if known else None
        if before != "(":
            return "", None
        if isinstance(wrap, exp.Paren):
            return "", (first - 1, last + 1) if after == ")" else None
        names = {"to_date"} if isinstance(wrap, exp.TsOrDsToDate) else {"date"}
        if after == ")" and function in names:
            return _DATE, (first - 2, last + 1)
        ending = [self._word(last + distance) for distance in (1, 2, 3)]
        cast = isinstance(wrap, exp.Cast) and function == "cast" and ending == ["as", "date", ")"]
        return _DATE, (first - 2, last + 3) if cast else None

    def _stands_free(self, span: tuple[int, int], alias: str | None) -> bool:
        """Whether the span is the whole expression: no sign before it, and only its alias after it."""
        first, last = span
        after = last + 1
        if alias is not None:
            after += self._word(after) == "as" and self._piece(after + 1) is not None
            piece = self._piece(after)
            if piece is None or piece.kind not in ("word", "quoted") or identifier(piece) != alias:
                return False
            after += 1
        ends = self._piece(after) is None or self._word(after) in _ENDS or self._word(after) == ";"
        return self._word(first - 1) in _STARTS and ends

    def _is_bare(self, column: exp.Column) -> bool:
        span = self._span(column)
        return span is not None and self._stands_free(span, None)


_REGEX_SIGNS = frozenset(".^$*+?()[]{}|\\")
_COMPUTED = "it is neither a column nor a column truncated by date_trunc, to_date or CAST AS DATE"


# --- parts of trees ---------------------------------------------------------------------------------


def _tree(lexed: Lexed) -> exp.Query:
    try:
        tree = query_tree(lexed)
    except Doubt as doubt:
        raise CannotFollow(f"the query is not understood: {doubt}") from None
    if "|>" in lexed.text:
        raise CannotFollow("the query has a pipe operator")
    if tree.find(exp.Command, exp.Directory, exp.Semicolon) is not None:
        raise CannotFollow("the query has a part that is not understood")
    return tree


def _star(item: exp.Expr, scope: TracedScope) -> list[Traced] | None:
    """The columns of `*` or `t.*`, also with EXCEPT; None if they are not certain."""
    star = item if isinstance(item, exp.Star) else item.this
    qualifier = [part.name for part in item.parts[:-1]] if isinstance(item, exp.Column) else []
    columns = None if strange_clause(star, {"except_"}) else scope.star(qualifier)
    for left_out in star.args.get("except_") or ():
        if columns is None or not isinstance(left_out, exp.Column) or len(left_out.parts) != 1:
            return None
        found = [column for column in columns if column.folded == left_out.name.lower()]
        if len(found) != 1:
            return None
        columns = [column for column in columns if column is not found[0]]
    return columns


def _alias(alias: exp.Expr | None) -> list[tuple[str, ...]]:
    return [(alias.name,)] if alias is not None and alias.name else []


def _joined(left: TracedScope, right: TracedScope, join: exp.Join) -> TracedScope:
    natural, label = join.method.upper() == "NATURAL", join_label(join).removeprefix("NATURAL").strip()
    strange = strange_clause(join, {"this", "on", "using", "side", "kind", "method"})
    if strange is not None or label not in NULL_SIDES:
        return left.joined_with(right).uncertain(f"the join {join.method.upper() or label} is not understood")
    using = [name.name for name in join.args.get("using") or ()]
    return joined(left, right, label, natural=natural, using=using)


def _parts(table: exp.Table) -> tuple[str, ...]:
    parts = tuple(part.name for part in table.parts if isinstance(part, exp.Identifier))
    if not parts or len(parts) != len(table.parts):
        raise CannotFollow("the name of a relation is not understood")
    return parts
