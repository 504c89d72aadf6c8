"""Translates Spark's optimized plan of a query on views into a text for the engine that holds their rows.

Whatever is not on the lists (`_NODES`, `scalars`, `engine_aggregates`) is refused, so that Spark answers.

Tests: `test_translation`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import takewhile

from sql.memory.casts import FLOATS, required
from sql.memory.engine_aggregates import aggregate
from sql.memory.engine_texts import NotListed, Text, Typed, ViewTable, listed, sql
from sql.memory.engine_types import engine_type, identifier, plain_type
from sql.memory.scalars import (
    EngineColumn,
    EngineScope,
    Fact,
    ValuesBelow,
    constant,
    expression,
    node_of,
    nodes_in,
    text_of,
)
from sql.memory.windows import way, window
from sql.memory.zone_rules import UTC_RULES, ZoneRules
from sql.memory.zone_texts import ZoneTexts
from sql.proof.plan import Node, Output, Plan, nodes_of
from sql.proof.understood_classes import CONSTANT

_RELATIONS = frozenset({"LogicalRelation", "HiveTableRelation"})
CHARACTERS_MAX = 200_000
"""Of a text for the engine: some parts of a plan are written several times."""


@dataclass(frozen=True, slots=True)
class ViewSource:
    """A view, or a base table, whose rows may be in memory."""

    view: str
    """Its id."""
    columns: Mapping[str, tuple[str, str]]
    """Its columns in the engine, by the names that the plan's relation has for them: each one's name and type."""
    own: frozenset[str] = frozenset()
    """Columns of the plan's relation by which the view chooses its rows. No query can name them. A condition on one of
    them, and on nothing else but `beside`, is the view's, and holds of all rows in memory."""
    beside: frozenset[str] = frozenset()
    """Columns that such a condition may also name."""
    reading: tuple[object, ...] | None = None
    """How plans must read the relation, as in `reading_of`; None: however they do."""


@dataclass(frozen=True, slots=True)
class EngineQuery:
    """A query for the engine."""

    text: Text
    output: tuple[Output, ...]
    needed: frozenset[tuple[str, str, Fact]]
    """What must hold of the views' values: the view, the column, and the fact."""
    order: tuple[int, ...] = ()
    """The columns by which the rows are ordered, one after the other, as far as the answer has them."""
    determined: bool = True
    """Whether the query has one right answer, apart from the order of rows: a LIMIT may leave several."""
    counted: bool = True
    """Whether all right answers have the same number of rows."""

    @property
    def views(self) -> frozenset[str]:
        return frozenset(each.view for each in self.text.pieces if isinstance(each, ViewTable))


@dataclass(frozen=True, slots=True)
class EngineRows:
    """What a node of the plan returns, as a SELECT without an order."""

    text: Text
    columns: Mapping[str, EngineColumn]
    """By their ids."""
    order: tuple[str, ...] = ()
    """The columns of the text by which its rows are ordered, as in ORDER BY."""
    unique: frozenset[str] | None = None
    """The ids of columns in which no two rows are equal; None if there are none that are known."""

    def unique_by(self, ids: Set[str]) -> bool:
        """Whether no two rows are equal in all of these columns."""
        return self.unique is not None and self.unique <= ids


def reading_of(plan: Plan) -> tuple[object, ...] | None:
    """How a plan of a query of one table, without conditions, reads it; None if it is another plan."""
    node = plan.root
    while node.kind == "Project":
        node = node_of(node.fields["child"])
    return _reading(node) if node.kind in _RELATIONS else None


def _reading(node: Node) -> tuple[object, ...]:
    """The table, with the format and the options with which its files are read. Which of the files are listed, and by
    what, depends on the conditions of the query."""
    files = node.fields.get("relation")
    return node.kind, node.fields["table"], files[1:] if isinstance(files, tuple) else files


def is_whole(plan: Plan, source: ViewSource, relation: str) -> bool:
    """Whether a plan of `SELECT * FROM view` shows all of the rows that the view chooses, and its columns as they are:
    nobody has put a filter or a mask before them."""
    node, asked = plan.root, list[Node]()
    try:
        while node.kind in {"Project", "Filter"}:
            if node.kind == "Filter":
                asked += _conditions(node_of(node.fields["condition"]))
            elif any(_plain(each).kind != "AttributeReference" for each in nodes_in(node.fields["projectList"])):
                return False
            node = node_of(node.fields["child"])
        found = _Translation({relation: source})
        found.rows(node)
    except NotListed:
        return False
    return node.kind in _RELATIONS and all(map(found.is_own, asked))


def _plain(node: Node) -> Node:
    """A value without its name. A VARCHAR that is read as a STRING is the same value."""
    if node.kind == "Alias":
        return _plain(node_of(node.fields["child"]))
    child = node.fields.get("child") if node.kind == "Cast" and node.type == "string" else None
    return child if isinstance(child, Node) and plain_type(child.type) == "string" else node


def translated(plan: Plan, sources: Mapping[str, ViewSource], zone: ZoneRules = UTC_RULES) -> EngineQuery:
    """The query for the engine. `sources`: by `catalog.database.table`, without quotes. `zone`: that of the session.
    Raises NotListed."""
    for name in sorted(plan.constants - CONSTANT):
        raise NotListed(f"it contains {name}, whose value may change from one moment to the next")
    try:
        return _Translation(sources, zone).query(plan)
    except RecursionError:
        raise NotListed("it is nested too deeply") from None


@dataclass(slots=True)
class _RightAnswers:
    """What several right answers of a query have in common, as far as its plan was read."""

    several: bool = False
    """Whether there may be several: by a LIMIT, or by `row_number` among equal rows."""
    numbers: set[str] = field(default_factory=set)
    """The ids of such numbers, of rows that are the same in all answers."""
    same_number: bool = True
    """Whether all have the same number of rows."""
    same_order: bool = True
    """Whether all have the same values in the columns by which they are ordered."""

    def chosen(self, *condition: Node) -> None:
        """Rows are chosen by their values, or joined, or grouped."""
        named = {each.id for each in nodes_of(condition) if each.kind == "AttributeReference"}
        if self.several and not (named and named <= self.numbers):
            self.same_number = self.same_order = False


@dataclass(slots=True)
class _Translation:
    sources: Mapping[str, ViewSource]
    zone: ZoneRules = UTC_RULES
    needed: set[tuple[str, str, Fact]] = field(default_factory=set)
    own: set[str] = field(default_factory=set)
    """The ids of columns by which views choose their rows."""
    beside: set[str] = field(default_factory=set)
    answers: _RightAnswers = field(default_factory=_RightAnswers)
    _names: Iterator[int] = field(default_factory=itertools.count)

    def query(self, plan: Plan) -> EngineQuery:
        rows = self.rows(plan.root)
        if any(each.id not in rows.columns for each in plan.output):
            raise NotListed("the plan lacks a column of the answer")
        for each in plan.output:
            required(each.type)
            if each.type == "float":
                # Spark shows the double that Java's digits of a FLOAT mean, which are not always the shortest.
                raise NotListed("it shows a FLOAT")
        values = [rows.columns[each.id].value.text for each in plan.output]
        clocks = ZoneTexts(self.zone, lambda text: text)
        local = [
            clocks.local(value) if each.type == "timestamp" else value
            for each, value in zip(plan.output, values, strict=True)
        ]
        text = sql("SELECT ? FROM (?)", listed(local), rows.text)
        if rows.order:
            text = sql(f"? ORDER BY {', '.join(rows.order)}", text)
        shown = [str(each) for each in values]
        keys = takewhile(shown.__contains__, (each.split()[0] for each in rows.order))
        found = self.answers
        order = tuple(shown.index(each) for each in keys) if found.same_order else ()
        return EngineQuery(text, plan.output, frozenset(self.needed), order, not found.several, found.same_number)

    def rows(self, node: Node) -> EngineRows:
        entry = _NODES.get(node.kind)
        if entry is None:
            raise NotListed(f"it contains the plan node {node.kind}")
        names, read = entry
        if set(node.fields) != set(names.split()):
            raise NotListed(f"the plan node {node.kind} has unknown parts")
        found = read(self, node)
        if sum(len(each) if isinstance(each, str) else 1 for each in found.text.pieces) > CHARACTERS_MAX:
            raise NotListed("its text for the engine is too long")
        return found

    def below(self, node: Node) -> EngineRows:
        return self.rows(node_of(node.fields["child"]))

    def scope(self, rows: EngineRows) -> EngineScope:
        return self.scope_of(rows.columns)

    def scope_of(self, columns: Mapping[str, EngineColumn]) -> EngineScope:
        return EngineScope(columns, self.needed, subquery=self.scalar, zone=self.zone)

    def scope_above(self, rows: EngineRows) -> tuple[EngineScope, ValuesBelow]:
        """A scope of which some values are computed below it."""
        below = ValuesBelow(self.new_name)
        return replace(self.scope(rows), below=below), below

    def scalar(self, plan: Node) -> Typed:
        """The value of a subquery. More than one row is an error, here as in Spark."""
        rows = self.rows(plan)
        self.answers.chosen()
        (output,) = _output(plan)
        value = rows.columns[output.id].value
        return Typed(sql("(SELECT ? FROM (?))", value, rows.text), value.type)

    def named(
        self, source: Text, values: Sequence[tuple[str, EngineColumn]], order: tuple[str, ...] = ()
    ) -> EngineRows:
        """A SELECT of these values, each known by its id, and of the columns of the order."""
        columns, items, names = dict[str, EngineColumn](), list[Text](), dict[str, str]()
        for id_, column in values:
            name = self.new_name()
            names.setdefault(str(column.value.text), name)
            items.append(sql(f"? AS {name}", column.value))
            columns[id_] = replace(column, value=Typed(Text((name,)), column.value.type))
        items += [Text((each,)) for each in dict.fromkeys(each.split()[0] for each in order) if each not in names]
        order = tuple(" ".join((names.get(name, name), way)) for name, way in (each.split(" ", 1) for each in order))
        # A SELECT needs a column: `SELECT count(*)` reads none.
        return EngineRows(sql("SELECT ? FROM ?", listed(items or [Text(("1 AS one",))]), source), columns, order)

    def is_own(self, condition: Node) -> bool:
        """Whether the condition is one by which a view chooses its rows."""
        named = {each.id for each in nodes_of(condition) if each.kind == "AttributeReference"}
        return not self.own.isdisjoint(named) and named <= self.own | self.beside

    def new_name(self) -> str:
        return f"c{next(self._names)}"


# --- rows --------------------------------------------------------------------------------------------------------


def _relation(self: _Translation, node: Node) -> EngineRows:
    table = node.fields["table"]
    # Plans from texts have no quotes.
    name = text_of(table[0]).replace("`", "") if isinstance(table, tuple) else ""
    source = self.sources.get(name)
    if source is None:
        raise NotListed("it reads what is not in memory")
    if source.reading is not None and source.reading != _reading(node):
        raise NotListed("it reads a table in another way than its rows in memory were read")
    values = list[tuple[str, EngineColumn]]()
    for each in nodes_in(node.fields["output"]):
        name = text_of(each.fields["name"])
        if name in source.own:
            self.own.add(each.id)
        if name in source.beside:
            self.beside.add(each.id)
        known = source.columns.get(name)
        if known is not None and known[1] == each.type and engine_type(each.type) is not None:
            column = Typed(Text((identifier(known[0]),)), each.type)
            values.append((each.id, EngineColumn(column, (source.view, known[0]))))
    return self.named(Text((ViewTable(source.view),)), values)


def _project(self: _Translation, node: Node) -> EngineRows:
    rows = self.below(node)
    (scope, below), values = self.scope_above(rows), list[tuple[str, EngineColumn]]()
    for each in nodes_in(node.fields["projectList"]):
        if each.kind == "AttributeReference" and each.id not in rows.columns:
            # Spark keeps columns that nothing above uses.
            continue
        values.append((each.id, _value(each, scope)))
    named = self.named(sql("(?)", below.source(rows.text)), values, rows.order)
    return replace(named, unique=_passed(rows.unique, nodes_in(node.fields["projectList"])))


def _value(node: Node, scope: EngineScope) -> EngineColumn:
    """A value, with what is known of it if it is a column of a view."""
    plain = _plain(node)
    if plain.kind == "AttributeReference" and plain.id in scope.columns:
        return scope.columns[plain.id]
    return EngineColumn(expression(node, scope))


def _filter(self: _Translation, node: Node) -> EngineRows:
    rows = self.below(node)
    asked = [each for each in _conditions(node_of(node.fields["condition"])) if not self.is_own(each)]
    if not asked:
        return rows
    self.answers.chosen(*asked)
    scope, below = self.scope_above(rows)
    where = listed([expression(each, scope).text for each in asked], " AND ")
    return replace(rows, text=sql("SELECT * FROM (?) WHERE ?", below.source(rows.text), where))


def _conditions(node: Node) -> Iterator[Node]:
    if node.kind == "And":
        yield from _conditions(node_of(node.fields["left"]))
        yield from _conditions(node_of(node.fields["right"]))
    else:
        yield node


def _sort(self: _Translation, node: Node) -> EngineRows:
    if text_of(node.fields["global"]) != "true":
        raise NotListed("it sorts parts of the rows")
    rows = self.below(node)
    self.answers.same_order = not self.answers.several
    order, keys = list[str](), list[tuple[str, EngineColumn]]()
    scope, below = self.scope_above(rows)
    for each in nodes_in(node.fields["order"]):
        value = _value(node_of(each.fields["child"]), scope)
        keys.append((f"order {len(keys)}", value))
        order.append(way(each))
    ordered = self.named(sql("(?)", below.source(rows.text)), [*rows.columns.items(), *keys])
    known = {str(column.value.text): ordered.columns[id_] for id_, column in rows.columns.items()}
    names = [str(known.get(str(value.value.text), ordered.columns[key]).value.text) for key, value in keys]
    columns = {id_: ordered.columns[id_] for id_ in rows.columns}
    return EngineRows(ordered.text, columns, tuple(map(" ".join, zip(names, order, strict=True))), rows.unique)


def _limit(self: _Translation, node: Node) -> EngineRows:
    """The first of the rows that an inner LIMIT, of parts of the rows, or an OFFSET leaves."""
    rows, name = self.below(node), "limitExpr" if "limitExpr" in node.fields else "offsetExpr"
    self.answers.several = True
    way = "LIMIT" if name == "limitExpr" else "OFFSET"
    order = f" ORDER BY {', '.join(rows.order)}" if rows.order else ""
    return replace(rows, text=sql(f"SELECT * FROM (?){order} {way} {_number(node, name)}", rows.text))


def _number(node: Node, name: str) -> int:
    return int(constant(node_of(node.fields[name]), "int"))


def _aggregate(self: _Translation, node: Node) -> EngineRows:
    rows = self.below(node)
    self.answers.chosen()
    below, before = self.scope_above(rows)
    keys = nodes_in(node.fields["groupingExpressions"])
    outputs = nodes_in(node.fields["aggregateExpressions"])
    if not keys and not any(each.kind == "AggregateExpression" for each in nodes_of(outputs)):
        raise NotListed("it groups by nothing without an aggregate")
    texts = [expression(each, below) for each in keys]
    if any(each.kind != "AttributeReference" or each.type in FLOATS for each in keys):
        raise NotListed("it groups by a floating-point number, or by what is not a column")
    groups = {each.id: rows.columns[each.id] for each in keys}
    above = replace(self.scope_of(groups), aggregate=lambda each: aggregate(each, below))
    values = [(each.id, _value(each, above)) for each in outputs]
    found = self.named(sql("(?)", before.source(rows.text)), values)
    if keys:
        grouped = sql("? GROUP BY ?", found.text, listed([each.text for each in texts]))
        found = replace(found, text=grouped)
    return replace(found, unique=_passed(frozenset(groups), outputs))


def _passed(unique: frozenset[str] | None, outputs: Sequence[Node]) -> frozenset[str] | None:
    """The columns in which no two rows are equal, as they are called above."""
    names = {_plain(each).id: each.id for each in outputs if _plain(each).kind == "AttributeReference"}
    return None if unique is None or not unique <= names.keys() else frozenset(names[each] for each in unique)


_JOINS = {
    "Inner": "JOIN",
    "Cross": "JOIN",
    "LeftOuter": "LEFT JOIN",
    "RightOuter": "RIGHT JOIN",
    "FullOuter": "FULL JOIN",
    "LeftSemi": "SEMI JOIN",
    "LeftAnti": "ANTI JOIN",
}


def _join(self: _Translation, node: Node) -> EngineRows:
    kind = text_of(node.fields["joinType"]).removesuffix("$")
    if kind not in _JOINS:
        raise NotListed(f"it contains a join of the type {kind}")
    left, right = (self.rows(node_of(node.fields[side])) for side in ("left", "right"))
    self.answers.chosen()
    columns = {**left.columns, **right.columns}
    on = Text(("true",))
    if node.fields["condition"] is not None:
        on = expression(node_of(node.fields["condition"]), self.scope_of(columns)).text
    # A value of the side without a row is NULL, so nothing is known of it as a column of a view.
    kept = columns if kind not in {"LeftSemi", "LeftAnti"} else left.columns
    text = sql(f"(?) AS {self.new_name()} {_JOINS[kind]} (?) AS {self.new_name()} ON ?", left.text, right.text, on)
    return self.named(text, list(kept.items()))


def _union(self: _Translation, node: Node) -> EngineRows:
    if text_of(node.fields["byName"]) != "false":
        raise NotListed("it contains a union by name")
    children = nodes_in(node.fields["children"])
    branches = list[Text]()
    ids = [each.id for each in _output(children[0])]
    names = [self.new_name() for _ in ids]
    types = [each.type for each in _output(children[0])]
    for child in children:
        rows = self.rows(child)
        outputs = _output(child)
        if len(outputs) != len(ids) or any(each.id not in rows.columns for each in outputs):
            raise NotListed("the branches of a union have different columns")
        if [each.type for each in outputs] != types:
            raise NotListed("the branches of a union have different types")
        values = [rows.columns[each.id].value for each in outputs]
        items = [sql(f"? AS {name}", value) for name, value in zip(names, values, strict=True)]
        branches.append(sql("SELECT ? FROM (?)", listed(items), rows.text))
    columns = {
        id_: EngineColumn(Typed(Text((name,)), type_text))
        for id_, name, type_text in zip(ids, names, types, strict=True)
    }
    return EngineRows(listed(branches, " UNION ALL "), columns)


def _expand(self: _Translation, node: Node) -> EngineRows:
    """Each row once for each of the projections: of ROLLUP, CUBE and GROUPING SETS."""
    rows = self.below(node)
    outputs, projections = nodes_in(node.fields["output"]), node.fields["projections"]
    if not isinstance(projections, tuple):
        raise NotListed("a plan lacks a list")
    names, branches = [self.new_name() for _ in outputs], list[Text]()
    # The engine reads the rows below once.
    below = self.new_name()
    facts = [set[tuple[str, str] | None]() for _ in outputs]
    for projection in projections:
        for found, each in zip(facts, nodes_in(projection), strict=True):
            if each.kind != "Literal" or each.fields["value"] is not None:
                found.add(_value(each, self.scope(rows)).fact)
        values = [expression(each, self.scope(rows)) for each in nodes_in(projection)]
        if [each.type for each in values] != [each.type for each in outputs]:
            raise NotListed("the branches of a grouping have different types")
        items = [sql(f"? AS {name}", value) for name, value in zip(names, values, strict=True)]
        branches.append(sql(f"SELECT ? FROM {below}", listed(items)))
    text = sql(f"WITH {below} AS MATERIALIZED (?) ?", rows.text, listed(branches, " UNION ALL "))
    columns = {
        each.id: EngineColumn(Typed(Text((name,)), each.type), found.pop() if len(found) == 1 else None)
        for name, each, found in zip(names, outputs, facts, strict=True)
    }
    return EngineRows(sql("SELECT * FROM (?)", text), columns)


def _group_limit(self: _Translation, node: Node) -> EngineRows:
    """Leaves out rows that a condition above leaves out as well."""
    return self.below(node)


def _window(self: _Translation, node: Node) -> EngineRows:
    rows = self.below(node)
    (scope, below), values = self.scope_above(rows), list(rows.columns.items())
    for each in nodes_in(node.fields["windowExpressions"]):
        called = node_of(each.fields["child"]) if each.kind == "Alias" else each
        if called.kind != "WindowExpression":
            raise NotListed(f"it contains the window function {called.kind}")
        spec = node_of(called.fields["windowSpec"])
        by = {part.id for part in (*_parts(spec), *_ordered(spec)) if part.kind == "AttributeReference"}
        function, total = node_of(called.fields["windowFunction"]), rows.unique_by(by)
        found = window(function, spec, scope, total=total)
        if function.kind == "RowNumber" and not total:
            self.answers.numbers |= set() if self.answers.several else {each.id}
            self.answers.several = True
        values.append((each.id, EngineColumn(found)))
    named = self.named(sql("(?)", below.source(rows.text)), values)
    return replace(named, unique=rows.unique)


def _parts(spec: Node) -> tuple[Node, ...]:
    return nodes_in(spec.fields["partitionSpec"])


def _ordered(spec: Node) -> Iterator[Node]:
    return (node_of(each.fields["child"]) for each in nodes_in(spec.fields["orderSpec"]))


def _output(node: Node) -> tuple[Node, ...]:
    """The columns of a branch, where the plan shows them."""
    for name in ("projectList", "aggregateExpressions", "output"):
        if name in node.fields:
            return nodes_in(node.fields[name])
    if node.kind in {"Filter", "Sort", "GlobalLimit", "LocalLimit", "Offset"}:
        return _output(node_of(node.fields["child"]))
    raise NotListed(f"it contains a union of {node.kind}")


_NODES: Mapping[str, tuple[str, Callable[[_Translation, Node], EngineRows]]] = {
    "LogicalRelation": ("output streaming table relation", _relation),
    "HiveTableRelation": ("output table", _relation),
    "Project": ("projectList child", _project),
    "Filter": ("condition child", _filter),
    "Sort": ("order global child hint", _sort),
    "GlobalLimit": ("limitExpr child", _limit),
    "LocalLimit": ("limitExpr child", _limit),
    "Offset": ("offsetExpr child", _limit),
    "Expand": ("projections output child", _expand),
    "WindowGroupLimit": ("partitionSpec orderSpec rankLikeFunction limit child", _group_limit),
    "Window": ("windowExpressions partitionSpec orderSpec child hint", _window),
    "Aggregate": ("groupingExpressions aggregateExpressions child hint", _aggregate),
    "Join": ("left right joinType condition hint", _join),
    "Union": ("children byName allowMissingCol", _union),
}
"""How a node is read, and the fields that it has: one that a later Spark adds may change what it means."""
