"""Proves that two optimized plans have the same answer whatever the tables contain: docs/internals/proof.md.

Both plans are brought to a canonical form from the bottom up. If the forms are equal, so are the answers. Whatever is
not understood proves nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from sql.proof.differences import difference
from sql.proof.identities import compose, core, needed, replaced
from sql.proof.lossless import Joined, KeysOf, knowing
from sql.proof.merging import merge, merge_expanded, merge_optional, without_outer_join
from sql.proof.occurrences import apart, renamed
from sql.proof.parts import PartialRows, whole
from sql.proof.plan import Node, Plan, Scalar, Value, nodes_of
from sql.proof.terms import (
    ONLY_VALUE,
    NotUnderstood,
    Term,
    bounded,
    column,
    conditions,
    in_order,
    literal,
    names_of,
    within,
)
from sql.proof.understood_classes import (
    AGGREGATE,
    CONSTANT,
    EXISTENCE_JOIN,
    LISTINGS,
    NEWEST,
    ORDER_MATTERS,
    OUTER_JOINS,
    RANKS,
    SCALAR,
    STATIC_CALLS,
    STATIC_INVOKE,
    STRUCTURE,
    WINDOW,
    has_identity,
)

Columns: TypeAlias = Mapping[str, Term]
APPROXIMATE = frozenset({"float", "double"})
TRUE = literal("Boolean", "true", "boolean")
_COMBINING = frozenset({"Aggregate", "Expand", "Generate", "Join", "Window", "WindowGroupLimit"})
_SCAN = "org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation"


@dataclass(frozen=True, slots=True)
class Proved:
    """The answers are equal: the same rows, and the same names and types of columns."""


@dataclass(frozen=True, slots=True)
class NotProved:
    reason: str


@dataclass(frozen=True, slots=True)
class ProvedRows:
    """What a node returns: the combinations of the relations' rows that meet the conditions."""

    relations: tuple[Term, ...]
    where: frozenset[Term]
    output: tuple[tuple[str, Term], ...]
    """Each column's id and value, in the node's order."""
    order: tuple[Term, ...] = ()

    @property
    def columns(self) -> Columns:
        return dict(self.output)

    @property
    def core(self) -> Term:
        return core(self.relations, self.where)

    def renamed(self, names: Mapping[Term, Term]) -> ProvedRows:
        """The same rows of relations with other names."""
        relations = tuple(names.get(each, each) for each in self.relations)
        where = frozenset(renamed(each, names) for each in self.where)
        output = tuple((each, renamed(term, names)) for each, term in self.output)
        return ProvedRows(relations, where, output, tuple(renamed(each, names) for each in self.order))

    def settled(self) -> ProvedRows:
        """The same rows: see `Joined.settled`."""
        terms = tuple(term for _, term in self.output)
        found = Joined(self.relations, self.where, terms + self.order).settled()
        output = tuple((each, term) for (each, _), term in zip(self.output, found.values, strict=False))
        return ProvedRows(found.relations, found.where, output, found.values[len(terms) :])


def prove(query: Plan, rewritten: Plan, keys: KeysOf | None = None) -> Proved | NotProved:
    """Whether the plan of a query and the plan of a rewriting, with the definition in the view's place, are equal.

    `keys`: what holds in every state of the tables that is asked about.
    """
    try:
        with bounded(), knowing(keys or {}):
            return _compared(query, rewritten)
    except NotUnderstood as reason:
        return NotProved(str(reason))
    except RecursionError:
        return NotProved("it is nested too deeply")


def _compared(query: Plan, rewritten: Plan) -> Proved | NotProved:
    left, right = _answer(query), _answer(rewritten)
    names = [[(each.name, each.type) for each in plan.output] for plan in (query, rewritten)]
    if names[0] != names[1]:
        return NotProved("the names or types of the columns differ")
    if left.core != right.core:
        return NotProved(difference(left.core, right.core))
    if [term for _, term in left.output] != [term for _, term in right.output]:
        return NotProved("a column is computed differently")
    return Proved() if left.order == right.order else NotProved("the order of rows differs")


def can_be_stored(definition: Plan) -> Proved | NotProved:
    """Whether a definition has one right answer, as a multiset of rows, so that a stored answer can take its place."""
    for node in nodes_of(definition.root):
        if node.kind in ORDER_MATTERS or (node.kind == "WindowExpression" and not _is_determined(node)):
            return NotProved(f"the definition contains {node.kind}, whose answer depends on the order of rows")
    try:
        with bounded():
            _answer(definition)
    except NotUnderstood as reason:
        return NotProved(str(reason))
    except RecursionError:
        return NotProved("it is nested too deeply")
    return Proved()


def is_ordered(plan: Plan) -> bool:
    """Whether its rows have an order anywhere, which stored ones lose."""
    return any(node.kind == "Sort" for node in nodes_of(plan.root))


def combines_rows(plan: Plan) -> bool:
    """Whether its rows take more than to read each row by itself: they are grouped, joined or ranked anywhere."""
    return any(node.kind in _COMBINING for node in nodes_of(plan.root))


def _is_determined(window: Node) -> bool:
    """Whether the rows alone determine the function's value for each of them, however equal ones are ordered."""
    function = _node(window.fields["windowFunction"])
    if function.kind == "AggregateExpression":
        function = _node(function.fields["aggregateFunction"])
    if function.kind in RANKS:
        return True
    frame = _node(_node(window.fields["windowSpec"]).fields["frameSpecification"])
    if frame.kind != "SpecifiedWindowFrame" or not (
        _text(frame.fields["frameType"]) == "RangeFrame$" or _is_whole(frame)
    ):
        return False
    return function.kind in {"Count", "Min", "Max"} or (function.kind == "Sum" and function.type not in APPROXIMATE)


def _is_whole(frame: Node) -> bool:
    """Whether it begins with the first row and ends with the last one."""
    bounds = [_node(frame.fields[name]).kind for name in ("lower", "upper")]
    return bounds == ["UnboundedPreceding$", "UnboundedFollowing$"]


def _answer(plan: Plan) -> ProvedRows:
    """The canonical form of a plan's answer, with the columns in the order of the answer."""
    for name in sorted(plan.constants - CONSTANT):
        raise NotUnderstood(f"it contains {name}, whose value may change from one moment to the next")
    rows = _rows(plan.root).settled()
    columns = rows.columns
    if any(each.id not in columns for each in plan.output):
        raise NotUnderstood("the plan lacks a column of the answer")
    where = frozenset(needed(rows.where))
    return ProvedRows(rows.relations, where, tuple((each.id, columns[each.id]) for each in plan.output), rows.order)


def _rows(node: Node) -> ProvedRows:
    build = _NODES.get(node.kind)
    if build is None:
        raise NotUnderstood(f"it contains the plan node {node.kind}")
    rows, fields = build
    for unknown in sorted(node.fields.keys() - set(fields.split())):
        raise NotUnderstood(f"the plan node {node.kind} has an unknown part {unknown}")
    return rows(node)


# Expressions


def _expression(node: Node, columns: Columns, aggregated: Columns | None = None) -> Term:
    """An expression over the columns; `aggregated` are those that aggregates in it are of."""
    if node.kind == "AttributeReference":
        if node.id not in columns:
            raise NotUnderstood(f"the column {_text(node.fields['name'])} is not one of the rows below")
        return columns[node.id]
    if node.kind == "Alias":
        return _expression(_node(node.fields["child"]), columns, aggregated)
    if node.kind == "ScalarSubquery":
        return _subquery(node)
    if node.kind == "SortOrder":
        way = _text(node.fields["direction"]), _text(node.fields["nullOrdering"])
        return Term("order", (_expression(_node(node.fields["child"]), columns),), way)
    if node.kind == STATIC_INVOKE:
        node = _static_call(node)
    if node.kind == "AggregateExpression":
        if _text(node.fields["mode"]) != "Complete$":
            raise NotUnderstood("it contains an aggregate in parts")
        fields = {name: node.fields[name] for name in ("aggregateFunction", "isDistinct", "filter")}
        node, columns = Node(node.kind, fields, node.type), aggregated or columns
    elif node.kind.removesuffix("$") not in SCALAR | AGGREGATE | WINDOW:
        raise NotUnderstood(f"it contains the expression {node.kind}")
    args: list[Term] = []
    detail = tuple(f"{name}={_part(value, columns, args, aggregated)}" for name, value in node.fields.items())
    if node.kind == "Literal":
        detail = (f"value={_part(node.fields['value'], columns, args)}",)
    return compose(node.kind, tuple(args), detail, node.type)


def _static_call(node: Node) -> Node:
    """A call of one of Spark's own functions as an expression of its own class."""
    fields = node.fields
    name = _text(fields["staticObject"]), _text(fields["functionName"])
    # Otherwise the function is called for NULL, too.
    if name not in STATIC_CALLS or _text(fields["propagateNull"]) != "true" or fields["scalarFunction"] is not None:
        raise NotUnderstood(f"it calls {'.'.join(name)}")
    return Node(STATIC_CALLS[name], {"arguments": fields["arguments"]}, node.type)


def _part(value: Value, columns: Columns, args: list[Term], aggregated: Columns | None = None) -> str:
    """A field as text. Operands within it are added to `args`; their places show in the text."""
    if value is None:
        return "none"
    if isinstance(value, tuple):
        return f"[{','.join(_part(each, columns, args, aggregated) for each in value)}]"
    if isinstance(value, Scalar):
        if value.kind == "opaque":
            raise NotUnderstood(f"it contains a value of the class {value.text}")
        return f"{value.kind} {value.text!r}"
    if value.kind in STRUCTURE:
        return f"({','.join(_part(each, columns, args, aggregated) for each in value.fields.values())})"
    args.append(_expression(value, columns, aggregated))
    return "#"


def _node(value: Value) -> Node:
    if not isinstance(value, Node):
        raise NotUnderstood("a plan node lacks a part")
    return value


def _nodes(value: Value) -> tuple[Node, ...]:
    if not isinstance(value, tuple):
        raise NotUnderstood("a plan node lacks a list")
    return tuple(_node(each) for each in value)


def _text(value: Value) -> str:
    if not isinstance(value, Scalar) or value.kind == "opaque":
        raise NotUnderstood("a plan node lacks a text")
    return value.text


# Plan nodes


def _child(node: Node) -> ProvedRows:
    return _rows(_node(node.fields["child"]))


def _table(node: Node) -> ProvedRows:
    if node.fields.get("table") is None:
        raise NotUnderstood("it reads rows that are not a table of the catalog")
    parts: list[str] = []
    for name in sorted(set(node.fields) - {"output"}):
        parts.append(f"{name}={_part(node.fields[name], {}, [])}")
    files = node.fields.get("relation")
    known = node.kind == "HiveTableRelation" or (isinstance(files, tuple) and _text(files[0]) in LISTINGS | NEWEST)
    if "streaming=Boolean 'true'" in parts or not known:
        raise NotUnderstood("it reads rows that are not a table of the catalog")
    named = fields[0] if isinstance(fields := node.fields["table"], tuple) and fields else None
    source = Term("table", detail=tuple(parts), type=named.text if isinstance(named, Scalar) else "")
    output = [
        (each.id, column(source, Term("field", detail=(_text(each.fields["name"]),), type=each.type)))
        for each in _nodes(node.fields["output"])
    ]
    return ProvedRows((source,), frozenset(), tuple(output))


def _project(node: Node) -> ProvedRows:
    rows = _child(node)
    columns = rows.columns
    output = tuple((each.id, _expression(each, columns)) for each in _nodes(node.fields["projectList"]))
    return ProvedRows(rows.relations, rows.where, output, rows.order)


def _filter(node: Node) -> ProvedRows:
    rows = _child(node)
    where = conditions(_expression(_node(node.fields["condition"]), rows.columns))
    return ProvedRows(rows.relations, rows.where | where, rows.output, rows.order)


def _sort(node: Node) -> ProvedRows:
    rows = _child(node)
    if _text(node.fields["global"]) != "true":
        raise NotUnderstood("it sorts parts of the rows")
    columns = rows.columns
    order = tuple(_expression(each, columns) for each in _nodes(node.fields["order"]))
    return ProvedRows(rows.relations, rows.where, rows.output, order)


def _shuffled(node: Node) -> ProvedRows:
    return replace(_child(node), order=())


def _join(node: Node) -> ProvedRows:
    left, right = _rows(_node(node.fields["left"])), _rows(_node(node.fields["right"]))
    condition, join = node.fields["condition"], node.fields["joinType"]
    if isinstance(join, Node) and join.kind == EXISTENCE_JOIN:
        return _marked(left.settled(), right.settled(), condition, _node(join.fields["exists"]).id)
    kind = _text(join).removesuffix("$")
    if kind in {"Inner", "Cross"}:
        names = apart(left.relations, right.relations)
        if names is None:
            raise NotUnderstood("it joins groups with themselves")
        right = right.renamed(names)
        relations = left.relations + right.relations
        output = left.output + right.output
        where = conditions(_expression(condition, dict(output))) if isinstance(condition, Node) else frozenset()
        return ProvedRows(relations, left.where | right.where | where, output)
    if kind not in OUTER_JOINS:
        raise NotUnderstood(f"it contains a join of the type {kind}")
    left, right = left.settled(), right.settled()
    if kind in {"LeftSemi", "LeftAnti"}:
        return _kept_by(left, right, condition, is_anti=kind == "LeftAnti")
    if kind == "RightOuter":
        kind, left, right = "LeftOuter", right, left
    # The same table may stand on both sides, so each column says of which side it is.
    sides = [
        {each: Term(side, (term,), type=term.type) for each, term in rows.output}
        for side, rows in (("left", left), ("right", right))
    ]
    marked = {each: column(Term("side"), term) for side in sides for each, term in side.items()}
    on = _expression(condition, marked) if isinstance(condition, Node) else TRUE
    source = Term(kind, (left.core, right.core, Term("on", in_order(conditions(on)))))

    def kept(term: Term) -> Term:
        """A value of the side whose rows are all kept: computed above as well as below."""
        return replaced(term, lambda below: column(source, Term("left", (below,), type=below.type)))

    plain = kind != "FullOuter"
    output = tuple((each, kept(term) if plain else column(source, sides[0][each])) for each, term in left.output)
    if kind in {"LeftOuter", "FullOuter"}:
        # A value of the other side is NULL where that has no row, so it stays what it was computed from below.
        output += tuple((each, column(source, side)) for each, side in sides[1].items())
    return ProvedRows((source,), frozenset(), output)


def _kept_by(left: ProvedRows, right: ProvedRows, condition: Value, *, is_anti: bool) -> ProvedRows:
    """The left rows for which there is, or is not, a right one."""
    exists = _exists(left, right, condition)
    test = compose("Not", (exists,), (), "boolean") if is_anti else exists
    return replace(left, where=left.where | {test})


def _marked(left: ProvedRows, right: ProvedRows, condition: Value, mark: str) -> ProvedRows:
    """The left rows, with a column that says whether there is a right one."""
    return replace(left, output=(*left.output, (mark, _exists(left, right, condition))))


def _exists(left: ProvedRows, right: ProvedRows, condition: Value) -> Term:
    """A condition on left rows, with the right rows in it: there is one."""
    # The same table may stand on both sides.
    theirs = {each: column(Term("side"), Term("right", (term,), type=term.type)) for each, term in right.output}
    on = _expression(condition, {**left.columns, **theirs}) if isinstance(condition, Node) else TRUE
    return Term("exists", (right.core, Term("on", in_order(conditions(on)))), type="boolean")


def _subquery(node: Node) -> Term:
    """The only value of a subquery that does not depend on the row; of several rows it fails on both sides."""
    for name, empty in (("outerAttrs", ()), ("joinCond", ())):
        if node.fields[name] != empty:
            raise NotUnderstood("it contains a subquery that depends on the row")
    rows = _rows(_node(node.fields["plan"]))
    ((_, value),) = rows.output
    return Term(ONLY_VALUE, (Term("core", (*rows.core.args, value)),), type=node.type)


def _aggregate(node: Node) -> ProvedRows:
    rows = _child(node)
    columns = rows.columns
    grouping = [(each.id, _expression(each, columns)) for each in _nodes(node.fields["groupingExpressions"])]
    keys = _without_constants(key for _, key in grouping)
    for key in keys:
        _check_key(key, rows.core)
    # Outside of aggregates a key is the group's, so that no identity looks into it.
    outside = {each: Term("key", (key,), type=key.type) for each, key in grouping if each in columns and key in keys}
    output = [
        (each.id, _expression(each, {**columns, **outside}, columns))
        for each in _nodes(node.fields["aggregateExpressions"])
    ]
    return _grouped(rows.relations, rows.where, keys, tuple(output))


def _without_constants(keys: Iterable[Term]) -> frozenset[Term]:
    """Without literals, unless there is nothing else: then there is a group only if there are rows."""
    all_keys = frozenset(keys)
    return frozenset(key for key in all_keys if key.op != "Literal") or all_keys


def _check_key(key: Term, below: Term) -> None:
    """Raises NotUnderstood if a condition may have been moved below the groups, where it has another meaning."""
    if has_identity(key.type):
        return
    if key.op != "column":
        raise NotUnderstood(f"it groups by a computed {key.type}, of which equal values may differ")
    names = set(names_of(key))
    tests = [term for term in within(below) if term.op in {"where", "on"}]
    if any(not names.isdisjoint(within(test)) for test in tests):
        raise NotUnderstood(f"it has a condition on a group's key of type {key.type}, of which equal values may differ")


def _grouped(
    relations: tuple[Term, ...], where: frozenset[Term], keys: frozenset[Term], output: tuple[tuple[str, Term], ...]
) -> ProvedRows:
    by = in_order(keys)
    found = Joined(relations, where, (*by, *(term for _, term in output))).settled()
    relations, where, keys = found.relations, found.where, _without_constants(found.values[: len(by)])
    output = tuple((each, term) for (each, _), term in zip(output, found.values[len(by) :], strict=True))
    for source in relations:
        for lemma in (merge, merge_expanded, merge_optional, without_outer_join):
            if (groups := lemma(source, relations, where, keys, output)) is not None:
                return _grouped(*groups)
    source = Term("grouped", (core(relations, where), Term("keys", in_order(keys))))

    def above(term: Term) -> Term:
        if term.op == "key":
            key = term.args[0]
            return column(source, key) if key in keys or key.op != "Literal" else key
        if term.op == "AggregateExpression" or (term in keys and term.op != "Literal"):
            return column(source, term)
        if term.op == "column":
            raise NotUnderstood("it uses a column that is not grouped")
        if term.op == ONLY_VALUE:
            return term
        return compose(term.op, tuple(above(each) for each in term.args), term.detail, term.type) if term.args else term

    return ProvedRows((source,), frozenset(), tuple((each, above(term)) for each, term in output))


def _window(node: Node) -> ProvedRows:
    rows = _child(node).settled()
    columns = rows.columns
    source = Term("windowed", (rows.core,))
    output = [(each, replaced(term, lambda below: column(source, below))) for each, term in rows.output]
    for each in _nodes(node.fields["windowExpressions"]):
        output.append((each.id, column(source, _expression(each, columns))))
    return ProvedRows((source,), frozenset(), tuple(output))


def _union(node: Node) -> ProvedRows:
    children = [_rows(each).settled() for each in _nodes(node.fields["children"])]
    if _text(node.fields["byName"]) != "false":
        raise NotUnderstood("it contains a union by name")
    ids = tuple(each for each, _ in children[0].output)
    branches = [PartialRows(each.relations, each.where, tuple(term for _, term in each.output)) for each in children]
    if (together := whole(branches)) is not None:
        return ProvedRows(together.relations, together.where, tuple(zip(ids, together.columns, strict=True)))
    # Their order does not matter, as long as it is the same for the rows and for each column.
    children.sort(key=lambda each: (each.core.digest, sorted(term.digest for _, term in each.output)))
    return _stacked(
        Term("union", tuple(each.core for each in children)),
        ids,
        [[term for _, term in each.output] for each in children],
    )


def _expand(node: Node) -> ProvedRows:
    rows = _child(node).settled()
    columns = rows.columns
    projections = node.fields["projections"]
    if not isinstance(projections, tuple):
        raise NotUnderstood("a plan node lacks a list")
    values = [[_expression(each, columns) for each in _nodes(projection)] for projection in projections]
    ids = tuple(each.id for each in _nodes(node.fields["output"]))
    return _stacked(Term("expanded", (rows.core,), (str(len(values)),)), ids, values)


def _stacked(source: Term, ids: tuple[str, ...], branches: list[list[Term]]) -> ProvedRows:
    """The rows of several branches; a column is known by its value in each of them."""
    if any(len(each) != len(ids) for each in branches):
        raise NotUnderstood("the branches of a union have different columns")
    names = [Term("branches", tuple(values), type=values[0].type) for values in zip(*branches, strict=True)]
    output = tuple((each, column(source, name)) for each, name in zip(ids, names, strict=True))
    return ProvedRows((source,), frozenset(), output)


def _limit(node: Node) -> ProvedRows:
    """GLOBAL LIMIT over LOCAL LIMIT, with an OFFSET between; Spark plans nothing else for LIMIT and OFFSET."""
    count, skipped, below = _count(node, "limitExpr"), 0, _node(node.fields["child"])
    if below.kind == "Offset":
        skipped, below = _count(below, "offsetExpr"), _node(below.fields["child"])
    if below.kind != "LocalLimit" or _count(below, "limitExpr") != count + skipped:
        raise NotUnderstood("it contains a limit of another form")
    rows = _child(below)
    source = Term("limited", (rows.core, Term("ordered", rows.order)), (str(count), str(skipped)))

    def lifted(term: Term) -> Term:
        return replaced(term, lambda below: column(source, below))

    order = tuple(Term("order", (lifted(each.args[0]),), each.detail) for each in rows.order)
    return ProvedRows((source,), frozenset(), tuple((each, lifted(term)) for each, term in rows.output), order)


def _count(node: Node, field: str) -> int:
    literal = _node(node.fields[field])
    if literal.kind != "Literal" or literal.type != "int":
        raise NotUnderstood("it contains a limit that is computed")
    return int(_text(literal.fields["value"]))


_NODES: Mapping[str, tuple[Callable[[Node], ProvedRows], str]] = {
    "LogicalRelation": (_table, "output streaming table relation"),
    "HiveTableRelation": (_table, "output table"),
    _SCAN: (_table, "output table relation scan keyGroupedPartitioning ordering"),
    "Project": (_project, "projectList child"),
    "Filter": (_filter, "condition child"),
    "Sort": (_sort, "order global child hint"),
    "Join": (_join, "left right joinType condition hint"),
    "Aggregate": (_aggregate, "groupingExpressions aggregateExpressions child hint"),
    "Window": (_window, "windowExpressions partitionSpec orderSpec child hint"),
    "Union": (_union, "children byName allowMissingCol"),
    "Expand": (_expand, "projections output child"),
    "GlobalLimit": (_limit, "limitExpr child"),
    "Repartition": (_shuffled, "numPartitions shuffle child"),
}
"""How a node is read, and the fields that it has: one that a later Spark adds may change what it means."""
