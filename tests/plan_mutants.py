"""Plans with other answers, made of recorded ones: none may be proved equal to the plan that it is made of."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from sql.proof.cases import is_widened
from sql.proof.plan import Node, Plan, Scalar, Value
from sql.proof.understood_classes import STATIC_INVOKE

Path: TypeAlias = tuple[str | int, ...]
"""The fields, and the places in lists, that lead from the root to a part."""
CHANGES_MAX = 5
OTHER_KINDS = {
    **{"LessThan": "LessThanOrEqual", "LessThanOrEqual": "LessThan", "EqualTo": "LessThanOrEqual"},
    **{"GreaterThan": "GreaterThanOrEqual", "GreaterThanOrEqual": "GreaterThan"},
    **{"And": "Or", "Or": "And", "IsNotNull": "IsNull", "IsNull": "IsNotNull", "In": "Coalesce"},
    **{"Add": "Subtract", "Subtract": "Add", "Multiply": "Add", "Divide": "Multiply", "Concat": "Coalesce"},
    **{"Year": "Month", "Quarter": "Month", "Month": "DayOfMonth", "TruncTimestamp": "TruncDate", "Upper": "Lower"},
    **{"Min": "Max", "Max": "Min", "Sum": "Min", "Count": "Sum", "Average": "Max", "BitOrAgg": "BitAndAgg"},
    **{"Rank": "DenseRank", "RowNumber": "Rank", "StartsWith": "EndsWith", "Length": "BitLength"},
}
"""Operators and functions, and others that return something else."""
OTHER_JOINS = {
    "Inner$": "LeftOuter$",
    "LeftOuter$": "Inner$",
    "RightOuter$": "Inner$",
    "FullOuter$": "LeftOuter$",
    "LeftSemi$": "LeftAnti$",
    "LeftAnti$": "LeftSemi$",
}
_RELATIONS = frozenset({"LogicalRelation", "HiveTableRelation"})
_READ = frozenset((kind, "output") for kind in _RELATIONS)
_COUNTED_ONCE = frozenset({"Sum", "Count", "Average"})
"""DISTINCT changes what these are."""


@dataclass(frozen=True, slots=True)
class Change:
    """One part of a plan in the place of another one."""

    what: str
    path: Path
    value: Value


def changes(plan: Plan) -> list[Change]:
    """All changes of a plan of which each alone gives it another answer."""
    nodes = list(_nodes((), (), plan.root))
    used = {node.id for _, above, node in nodes if node.kind == "AttributeReference" and above[-2:] not in _READ}
    found = [Change(what, path, value) for path, above, node in nodes for what, value in _of(node, above)]
    for path, _, node in nodes:
        if node.kind in _RELATIONS:
            found += (Change("another column", path, value) for value in _other_columns(node, used))
    return found


def mutant(plan: Plan, made: tuple[Change, ...]) -> Plan:
    root: Value = plan.root
    for each in made:
        root = _placed(root, each.path, each.value)
    assert isinstance(root, Node)
    return replace(plan, root=root)


def some(source: random.Random, known: list[Change]) -> tuple[Change, ...]:
    """One to five changes of parts that do not contain each other."""
    chosen: list[Change] = []
    for other in source.sample(known, min(len(known), source.randint(1, CHANGES_MAX))):
        if not any(_overlap(each.path, other.path) for each in chosen):
            chosen.append(other)
    return tuple(chosen)


def _overlap(one: Path, other: Path) -> bool:
    length = min(len(one), len(other))
    return one[:length] == other[:length]


def _placed(value: Value, path: Path, part: Value) -> Value:
    if not path:
        return part
    step, rest = path[0], path[1:]
    if isinstance(value, Node) and isinstance(step, str):
        return replace(value, fields={**value.fields, step: _placed(value.fields[step], rest, part)})
    assert isinstance(value, tuple)
    assert isinstance(step, int)
    return (*value[:step], _placed(value[step], rest, part), *value[step + 1 :])


def _nodes(path: Path, above: tuple[str, ...], value: Value) -> Iterator[tuple[Path, tuple[str, ...], Node]]:
    """Each node with its path, and the classes and fields above it."""
    if isinstance(value, tuple):
        for place, each in enumerate(value):
            yield from _nodes((*path, place), above, each)
    elif isinstance(value, Node):
        yield path, above, value
        for name, each in value.fields.items():
            yield from _nodes((*path, name), (*above, value.kind, name), each)


def _of(node: Node, above: tuple[str, ...]) -> Iterator[tuple[str, Value]]:
    if (other := OTHER_KINDS.get(node.kind)) is not None:
        yield "another operation", replace(node, kind=other)
    yield from _BY_KIND.get(node.kind, _nothing)(node, above)


def _nothing(node: Node, above: tuple[str, ...]) -> Iterator[tuple[str, Value]]:
    return iter(())


def _with(node: Node, **fields: Value) -> Node:
    return replace(node, fields={**node.fields, **fields})


def _literal(node: Node, above: tuple[str, ...]) -> Iterator[tuple[str, Value]]:
    """(`count(7)` is `count(1)`, and a literal among the keys does not count. A limit has its number twice.)"""
    value = node.fields["value"]
    is_counted = "Count" in above and above[-1] in {"children", "_2", "trueValue"}
    if is_counted or above[-1] in {"groupingExpressions", "limitExpr", "offsetExpr"}:
        return
    others = _others(value) if isinstance(value, Scalar) else []
    # The values of IN are a set, so that they must not become each other.
    for other in others[:1] if above[-2:] == ("In", "list") else others:
        yield "another literal", _with(node, value=other)
    if value is not None:
        yield "NULL", _with(node, value=None)


def _others(value: Scalar) -> list[Scalar]:
    return [replace(value, text=text) for text in _other_texts(value)]


def _other_texts(value: Scalar) -> tuple[str, ...]:
    if value.kind in {"Byte", "Short", "Integer", "Long"}:
        return tuple(str(int(value.text) + more) for more in (1_000_000, 1, -1))
    if value.kind == "Boolean":
        return ("false" if value.text == "true" else "true",)
    return (value.text + "~", value.text[1:], "") if value.kind == "UTF8String" and value.text else ()


def _conjuncts(node: Node, above: tuple[str, ...]) -> Iterator[tuple[str, Value]]:
    """(That a value is not NULL follows from most other conditions on it.)"""
    for kept, dropped in (("left", "right"), ("right", "left")):
        part = node.fields[dropped]
        if isinstance(part, Node) and part.kind not in {"IsNotNull", "And"}:
            yield "a condition dropped", node.fields[kept]


def _not(node: Node, above: tuple[str, ...]) -> Iterator[tuple[str, Value]]:
    yield "NOT dropped", node.fields["child"]


def _filter(node: Node, above: tuple[str, ...]) -> Iterator[tuple[str, Value]]:
    condition = node.fields["condition"]
    if isinstance(condition, Node) and any(
        each.kind not in {"IsNotNull", "And", "AttributeReference"} for _, _, each in _nodes((), (), condition)
    ):
        yield "a filter dropped", node.fields["child"]


def _relation(node: Node, above: tuple[str, ...]) -> Iterator[tuple[str, Value]]:
    table = node.fields["table"]
    if isinstance(table, tuple) and isinstance(name := table[0], Scalar):
        yield "another table", _with(node, table=(replace(name, text=name.text + "2"), *table[1:]))


def _other_columns(node: Node, used: set[str]) -> Iterator[Value]:
    """The table with another of its columns in the place of one that is used."""
    columns = node.fields["output"]
    assert isinstance(columns, tuple)
    for place, column in enumerate(columns):
        for other in columns:
            assert isinstance(column, Node)
            assert isinstance(other, Node)
            if column.id in used and other.id != column.id and other.type == column.type:
                renamed = replace(column, fields=other.fields)
                yield _with(node, output=(*columns[:place], renamed, *columns[place + 1 :]))


def _cast(node: Node, above: tuple[str, ...]) -> Iterator[tuple[str, Value]]:
    child = node.fields["child"]
    yield "another type", replace(node, type="binary" if node.type == "string" else "string")
    if isinstance(child, Node) and child.type != node.type and not is_widened(child.type, node.type):
        yield "no cast", child


def _padded(node: Node, above: tuple[str, ...]) -> Iterator[tuple[str, Value]]:
    arguments = node.fields["arguments"]
    assert isinstance(arguments, tuple)
    yield "no padding", arguments[0]
    yield "another function", _with(node, functionName=Scalar("String", "charTypeWriteSideCheck"))


def _call(node: Node, above: tuple[str, ...]) -> Iterator[tuple[str, Value]]:
    function, distinct = node.fields["aggregateFunction"], node.fields["isDistinct"]
    if isinstance(function, Node) and isinstance(distinct, Scalar) and function.kind in _COUNTED_ONCE:
        other = "false" if distinct.text == "true" else "true"
        yield "DISTINCT or not", _with(node, isDistinct=replace(distinct, text=other))
    if node.fields["filter"] is not None:
        yield "FILTER dropped", _with(node, filter=None)


def _aggregate(node: Node, above: tuple[str, ...]) -> Iterator[tuple[str, Value]]:
    keys = node.fields["groupingExpressions"]
    assert isinstance(keys, tuple)
    for place, key in enumerate(keys):
        if isinstance(key, Node) and key.kind != "Literal":
            yield "a key dropped", _with(node, groupingExpressions=(*keys[:place], *keys[place + 1 :]))


def _join(node: Node, above: tuple[str, ...]) -> Iterator[tuple[str, Value]]:
    kind = node.fields["joinType"]
    if isinstance(kind, Scalar) and (other := OTHER_JOINS.get(kind.text)) is not None:
        yield "another join", _with(node, joinType=replace(kind, text=other))
    if node.fields["condition"] is not None:
        yield "a join without condition", _with(node, condition=None)


def _order(node: Node, above: tuple[str, ...]) -> Iterator[tuple[str, Value]]:
    """(The node of a window repeats the order of its functions.)"""
    if above[-2:] == ("Window", "orderSpec"):
        return
    way, nulls = node.fields["direction"], node.fields["nullOrdering"]
    if isinstance(way, Scalar) and isinstance(nulls, Scalar):
        yield "another direction", _with(node, direction=replace(way, text=_OTHER_WAYS[way.text]))
        yield "NULLs elsewhere", _with(node, nullOrdering=replace(nulls, text=_OTHER_WAYS[nulls.text]))


_OTHER_WAYS = {
    "Ascending$": "Descending$",
    "Descending$": "Ascending$",
    "NullsFirst$": "NullsLast$",
    "NullsLast$": "NullsFirst$",
}


def _sort(node: Node, above: tuple[str, ...]) -> Iterator[tuple[str, Value]]:
    yield "no order", node.fields["child"]


def _limit(node: Node, above: tuple[str, ...]) -> Iterator[tuple[str, Value]]:
    yield "no limit", node.fields["child"]


def _choice(node: Node, above: tuple[str, ...]) -> Iterator[tuple[str, Value]]:
    yes, no = node.fields["trueValue"], node.fields["falseValue"]
    yield "the other choice", _with(node, trueValue=no, falseValue=yes)


def _expand(node: Node, above: tuple[str, ...]) -> Iterator[tuple[str, Value]]:
    copies = node.fields["projections"]
    assert isinstance(copies, tuple)
    yield "a copy dropped", _with(node, projections=copies[:-1])
    yield "a copy twice", _with(node, projections=(*copies, copies[-1]))


def _union(node: Node, above: tuple[str, ...]) -> Iterator[tuple[str, Value]]:
    children = node.fields["children"]
    assert isinstance(children, tuple)
    yield "a branch dropped", _with(node, children=children[:-1])
    yield "a branch twice", _with(node, children=(*children, children[-1]))


_BY_KIND: Mapping[str, Callable[[Node, tuple[str, ...]], Iterator[tuple[str, Value]]]] = {
    "Literal": _literal,
    "And": _conjuncts,
    "Not": _not,
    "Filter": _filter,
    "LogicalRelation": _relation,
    "HiveTableRelation": _relation,
    "Cast": _cast,
    STATIC_INVOKE: _padded,
    "AggregateExpression": _call,
    "Aggregate": _aggregate,
    "Join": _join,
    "SortOrder": _order,
    "Sort": _sort,
    "GlobalLimit": _limit,
    "If": _choice,
    "Union": _union,
    "Expand": _expand,
}
