"""What the columns of a query are computed from, according to Spark's plan of it.

Tests: `test_column_lineage`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from sql.names import TableName
from sql.proof.plan import Node, Plan, Scalar, Value, nodes_of
from sql.proof.understood_classes import words

STEPS_MAX = 2_000_000
"""How many columns may be added up. A plan that takes more is not followed."""
_V2 = "org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation"


class Effect(StrEnum):
    """How a column has an effect on another one, or on all: OpenLineage's words."""

    IDENTITY = "IDENTITY"
    TRANSFORMATION = "TRANSFORMATION"
    AGGREGATION = "AGGREGATION"
    CONDITIONAL = "CONDITIONAL"
    WINDOW = "WINDOW"
    FILTER = "FILTER"
    JOIN = "JOIN"
    GROUP_BY = "GROUP_BY"
    SORT = "SORT"

    @property
    def is_direct(self) -> bool:
        """Whether the value is computed from it."""
        return self in _DIRECT


_DIRECT = (Effect.IDENTITY, Effect.TRANSFORMATION, Effect.AGGREGATION)
"""Each is stronger than those before it."""


@dataclass(frozen=True, slots=True, order=True)
class SourceColumn:
    table: TableName
    column: str


@dataclass(frozen=True, slots=True, order=True)
class SourceUse:
    """How a source column is used. `masking`: no value of it can be told from the result."""

    effect: Effect
    masking: bool = False


Sources: TypeAlias = Mapping[SourceColumn, frozenset[SourceUse]]


@dataclass(frozen=True, slots=True)
class ColumnLineage:
    columns: Mapping[str, Sources]
    """By the names of the query's columns, in their order."""
    whole: Sources
    """Columns that decide which rows there are, and in which order."""
    locations: Mapping[TableName, str]
    """Of the tables, where the plan tells it."""

    def without(self, hidden: Callable[[SourceColumn], bool]) -> ColumnLineage:
        """The same without these columns of tables."""

        def rest(sources: Sources) -> Sources:
            return {source: uses for source, uses in sources.items() if not hidden(source)}

        return ColumnLineage(
            {name: rest(each) for name, each in self.columns.items()}, rest(self.whole), self.locations
        )


class NotTraced(Exception):
    """The plan contains what is not understood. The message names it."""


def column_lineage(plan: Plan) -> ColumnLineage:
    """Raises NotTraced."""
    following = _Following(plan)
    try:
        following.visit(plan.root)
    except RecursionError as error:
        raise NotTraced("the plan is nested too deeply") from error
    columns = {each.name: following.known.get(each.id) for each in plan.output}
    if any(each is None for each in columns.values()) or len(columns) < len(plan.output):
        raise NotTraced("the plan does not show where its columns come from")
    found = {name: sources for name, sources in columns.items() if sources is not None}
    return ColumnLineage(found, following.whole, following.locations)


_MASKING = words("Md5 Sha1 Sha2 Crc32 XxHash64 Murmur3Hash HiveHash Mask Count CountIf")
_PASSING = words("""
    Sort GlobalLimit LocalLimit Offset Tail ResolvedHint Repartition RepartitionByExpression RebalancePartitions Sample
    SubqueryAlias View Distinct Deduplicate WithCTE Filter Subquery
    """)
"""They have the columns of their child."""
_HALF_JOINS = ("LeftSemi$", "LeftAnti$")
_QUERIES = words("ScalarSubquery Exists ListQuery LateralSubquery")
_CONSTANT = words("OneRowRelation LocalRelation Range EmptyRelation")


class _Following:
    """Follows one plan from below."""

    def __init__(self, plan: Plan) -> None:
        self.known: dict[str, Sources] = {}
        """By the id of each column of a node that was visited."""
        self.whole: Sources = {}
        self.locations: dict[TableName, str] = {}
        self._defined: dict[str, Node | None] = {
            _text(each.fields.get("id")): each for each in nodes_of(plan.root) if each.kind == _CTE
        }
        self._visited: dict[str, list[str]] = {}
        """The columns of common table expressions."""
        self._steps = 0

    # --- plan nodes --------------------------------------------------------------------------------

    def visit(self, node: Node) -> list[str]:
        """The ids of the node's columns, in their order."""
        if node.kind in _CONSTANT:
            return [self._define(each.id, {}) for each in _nodes(node.fields.get("output"))]
        if node.kind in ("LogicalRelation", "HiveTableRelation", _V2):
            return self._relation(node)
        if node.kind in _PASSING:
            ids = self.visit(_child(node, "plan" if node.kind == "WithCTE" else "child"))
            self._decide(node, ids)
            return ids
        visit = _VISITS.get(node.kind)
        if visit is None:
            raise NotTraced(f"the plan contains {node.kind}")
        return visit(self, node)

    def _decide(self, node: Node, ids: list[str]) -> None:
        """Notes the columns that decide about rows."""
        if node.kind == "Filter":
            self._note(Effect.FILTER, self._sources(node.fields.get("condition")))
        elif node.kind == "Sort":
            self._note(Effect.SORT, self._sources(node.fields.get("order")))
        elif node.kind == "Distinct":
            self._note(Effect.GROUP_BY, self._sum(self.known[each] for each in ids))
        elif node.kind == "Deduplicate":
            self._note(Effect.GROUP_BY, self._sources(node.fields.get("keys")))

    def _relation(self, node: Node) -> list[str]:
        table, location = _table(node)
        self.locations[table] = location
        columns = _nodes(node.fields.get("output"))
        identity = frozenset({SourceUse(Effect.IDENTITY)})
        return [
            self._define(each.id, {SourceColumn(table, _text(each.fields.get("name"))): identity}) for each in columns
        ]

    def _project(self, node: Node) -> list[str]:
        self.visit(_child(node))
        return self._named(node.fields.get("projectList"))

    def _aggregate(self, node: Node) -> list[str]:
        self.visit(_child(node))
        self._note(Effect.GROUP_BY, self._sources(node.fields.get("groupingExpressions")))
        return self._named(node.fields.get("aggregateExpressions"))

    def _window(self, node: Node) -> list[str]:
        return [*self.visit(_child(node)), *self._named(node.fields.get("windowExpressions"))]

    def _join(self, node: Node) -> list[str]:
        left = self.visit(_child(node, "left"))
        right = self.visit(_child(node, "right"))
        self._note(Effect.JOIN, self._sources(node.fields.get("condition")))
        kind = node.fields.get("joinType")
        if isinstance(kind, Node) and (exists := _nodes(kind.fields.get("exists"))):
            return [*left, *(self._define(each.id, self._sum(self.known[one] for one in right)) for each in exists)]
        return left if _text(kind) in _HALF_JOINS else left + right

    def _union(self, node: Node) -> list[str]:
        return self._merged([self.visit(each) for each in _nodes(node.fields.get("children"))])

    def _intersect(self, node: Node) -> list[str]:
        both = [self.visit(_child(node, side)) for side in ("left", "right")]
        if node.kind == "Except":
            self._note(Effect.FILTER, self._sum(self.known[each] for each in both[1]))
            return both[0]
        return self._merged(both)

    def _merged(self, parts: list[list[str]]) -> list[str]:
        """Columns of several queries one below the other have the ids of the first."""
        if len({len(each) for each in parts}) != 1:
            raise NotTraced("the plan puts rows of different lengths together")
        sums = [self._sum(self.known[each] for each in column) for column in zip(*parts, strict=True)]
        return [self._define(each, found) for each, found in zip(parts[0], sums, strict=True)]

    def _expand(self, node: Node) -> list[str]:
        self.visit(_child(node))
        rows = [row for row in _values(node.fields.get("projections")) if isinstance(row, tuple)]
        columns = _nodes(node.fields.get("output"))
        if any(len(row) != len(columns) for row in rows):
            raise NotTraced("the plan puts rows of different lengths together")
        return [
            self._define(each.id, self._sum(self._sources(row[place]) for row in rows))
            for place, each in enumerate(columns)
        ]

    def _generate(self, node: Node) -> list[str]:
        before = self.visit(_child(node))
        made = self._through(self._sources(node.fields.get("generator")), Effect.TRANSFORMATION)
        unused = {_text(each) for each in _values(node.fields.get("unrequiredChildIndex"))}
        kept = [each for place, each in enumerate(before) if str(place) not in unused]
        return kept + [self._define(each.id, made) for each in _nodes(node.fields.get("generatorOutput"))]

    def _reference(self, node: Node) -> list[str]:
        """A common table expression, under ids of its own."""
        number = _text(node.fields.get("cteId"))
        if number not in self._visited:
            definition = self._defined.get(number)
            if definition is None:
                raise NotTraced("the plan names a common table expression that it does not have")
            # One that reads itself would be visited for ever.
            self._defined[number] = None
            self._visited[number] = self.visit(_child(definition))
        columns, below = _nodes(node.fields.get("output")), self._visited[number]
        if len(columns) != len(below):
            raise NotTraced("the plan does not show the columns of a common table expression")
        return [self._define(each.id, self.known[one]) for each, one in zip(columns, below, strict=True)]

    def _lateral(self, node: Node) -> list[str]:
        left = self.visit(_child(node, "left"))
        right = self.visit(_child(_child(node, "right"), "plan"))
        self._note(Effect.JOIN, self._sources(node.fields.get("condition")))
        return left + right

    # --- expressions -------------------------------------------------------------------------------

    def _named(self, listed: Value) -> list[str]:
        # Those of one node are computed from the columns below it, not from each other.
        found = [(each.id, self._sources(each)) for each in _nodes(listed)]
        return [self._define(identifier, sources) for identifier, sources in found]

    def _sources(self, value: Value) -> Sources:
        if isinstance(value, tuple):
            return self._sum(self._sources(each) for each in value)
        if not isinstance(value, Node):
            return {}
        if value.kind == "AttributeReference":
            if value.id not in self.known:
                raise NotTraced("the plan does not show where a column comes from")
            return self.known[value.id]
        if value.kind in _QUERIES:
            return self._query(value)
        below = [value.fields.get(name) for name in value.fields]
        if value.kind in ("Alias", "OuterReference") or _changes_nothing(value):
            return self._sources(value.fields.get("child", value.fields.get("e")))
        if value.kind == "AggregateExpression":
            masking = isinstance(function := value.fields.get("aggregateFunction"), Node) and function.kind in _MASKING
            made = self._through(self._sources(function), Effect.AGGREGATION, masking=masking)
            return self._sum([made, self._through(self._sources(value.fields.get("filter")), Effect.CONDITIONAL)])
        if value.kind == "WindowExpression":
            made = self._through(self._sources(value.fields.get("windowFunction")), Effect.TRANSFORMATION)
            return self._sum([made, self._through(self._sources(value.fields.get("windowSpec")), Effect.WINDOW)])
        if value.kind == "If":
            condition, *below = (value.fields.get(name) for name in ("predicate", "trueValue", "falseValue"))
            return self._chosen([condition], below)
        if value.kind == "CaseWhen":
            conditions, results = _branches(value.fields.get("branches"))
            return self._chosen(conditions, [*results, value.fields.get("elseValue")])
        return self._through(self._sources(tuple(below)), Effect.TRANSFORMATION, masking=value.kind in _MASKING)

    def _chosen(self, conditions: Iterable[Value], results: Iterable[Value]) -> Sources:
        made = self._through(self._sources(tuple(results)), Effect.TRANSFORMATION)
        return self._sum([made, self._through(self._sources(tuple(conditions)), Effect.CONDITIONAL)])

    def _query(self, node: Node) -> Sources:
        """A query within an expression."""
        ids = self.visit(_child(node, "plan"))
        effect = Effect.CONDITIONAL if node.kind == "Exists" else Effect.TRANSFORMATION
        return self._through(self._sum(self.known[each] for each in ids), effect)

    # --- sources -----------------------------------------------------------------------------------

    def _define(self, identifier: str, sources: Sources) -> str:
        self.known[identifier] = sources
        return identifier

    def _note(self, effect: Effect, sources: Sources) -> None:
        if sources:
            self.whole = self._sum([self.whole, self._through(sources, effect)])

    def _sum(self, parts: Iterable[Sources]) -> Sources:
        found: dict[SourceColumn, frozenset[SourceUse]] = {}
        for part in parts:
            self._steps += len(part)
            if self._steps > STEPS_MAX:
                raise NotTraced("the plan has too many columns")
            for source, uses in part.items():
                found[source] = found[source] | uses if source in found else uses
        return found

    def _through(self, sources: Sources, effect: Effect, *, masking: bool = False) -> Sources:
        """What a value has an effect by that is computed from these, or decides in this way."""
        self._steps += len(sources)
        return {
            source: frozenset(_through(use, effect, masking=masking) for use in uses)
            for source, uses in sources.items()
        }


def _through(use: SourceUse, effect: Effect, *, masking: bool) -> SourceUse:
    if not effect.is_direct or not use.effect.is_direct:
        return SourceUse(use.effect if effect.is_direct else effect, use.masking or masking)
    return SourceUse(max(use.effect, effect, key=_DIRECT.index), use.masking or masking)


_CTE = "CTERelationDef"
_VISITS: Mapping[str, Callable[[_Following, Node], list[str]]] = {
    "Project": _Following._project,
    "Aggregate": _Following._aggregate,
    "Window": _Following._window,
    "Join": _Following._join,
    "Union": _Following._union,
    "Intersect": _Following._intersect,
    "Except": _Following._intersect,
    "Expand": _Following._expand,
    "Generate": _Following._generate,
    "CTERelationRef": _Following._reference,
    "LateralJoin": _Following._lateral,
}


def _changes_nothing(node: Node) -> bool:
    """Whether it is a cast to the type that its operand has, as those that Spark adds to the columns of views."""
    below = node.fields.get("child")
    return node.kind == "Cast" and isinstance(below, Node) and below.type == node.type


def _branches(value: Value) -> tuple[list[Value], list[Value]]:
    """The conditions and the results of CASE."""
    conditions, results = list[Value](), list[Value]()
    for pair in _values(value):
        parts = list(pair.fields.values()) if isinstance(pair, Node) else list(_values(pair))
        if len(parts) != 2:
            raise NotTraced("the plan does not show the branches of CASE")
        conditions.append(parts[0])
        results.append(parts[1])
    return conditions, results


def _table(node: Node) -> tuple[TableName, str]:
    """The name and the location of a table; the latter is empty if the plan does not tell it."""
    parts = [_text(each) for each in _values(node.fields.get("table"))]
    if node.kind == _V2 and len(parts) > 2:
        return TableName(".".join(parts[1:-1]).lower(), parts[-1].lower(), parts[0].lower()), ""
    names = parts[0].strip("`").split("`.`" if parts[0].startswith("`") else ".") if parts else []
    if len(names) != 3 or node.kind == _V2:
        raise NotTraced("the plan reads rows that are not a table of the catalog")
    catalog, database, table = (each.replace("``", "`") for each in names)
    location = parts[2] if len(parts) > 2 else ""
    inner = location.removeprefix("Some(").removesuffix(")") if location.startswith("Some(") else location
    return TableName(database.lower(), table.lower(), catalog.lower()), "" if inner == "None" else inner


def _child(node: Node, name: str = "child") -> Node:
    found = node.fields.get(name)
    if not isinstance(found, Node):
        raise NotTraced(f"the plan does not show what is below {node.kind}")
    return found


def _values(value: Value) -> tuple[Value, ...]:
    return value if isinstance(value, tuple) else ()


def _nodes(value: Value) -> list[Node]:
    parts = value if isinstance(value, tuple) else (value,)
    return [each for each in parts if isinstance(each, Node)]


def _text(value: Value) -> str:
    return value.text if isinstance(value, Scalar) else ""
