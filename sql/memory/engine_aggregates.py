"""Aggregates of Spark that mean the same in the engine: docs/internals/memory.md argues each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from sql.memory.casts import FLOATS, INTEGERS, cast, decimal
from sql.memory.engine_texts import NotListed, Text, Typed, listed, sql
from sql.memory.scalars import (
    FULL_DIGITS,
    EngineScope,
    Fact,
    expression,
    node_of,
    nodes_in,
    quotient,
    text_of,
    unscaled,
)
from sql.proof.plan import Node
from sql.query.aggregates import COUNT_DIGITS, DIGITS_MAX, Digits, digits_of

_EXACT_DOUBLE = 1 << 53
"""Doubles up to here are all whole numbers, so their sums do not depend on the order."""


def aggregate(node: Node, scope: EngineScope, window: Text | None = None) -> Typed:
    """An AggregateExpression over the rows of the scope; with a window, over the frame of each. Raises NotListed."""
    if text_of(node.fields["mode"]) != "Complete$":
        raise NotListed("it contains an aggregate in parts")
    function = node_of(node.fields["aggregateFunction"])
    entry = _WRITERS.get(function.kind)
    if entry is None or set(function.fields) != set(entry[0].split()):
        raise NotListed(f"it contains the aggregate {function.kind}")
    rows = replace(scope, aggregate=None)
    distinct = "DISTINCT " if text_of(node.fields["isDistinct"]) == "true" else ""
    among = Text(())
    if node.fields["filter"] is not None:
        among = sql(" FILTER (WHERE ?)", expression(node_of(node.fields["filter"]), rows))
    if window is not None:
        among = sql("? ?", among, window)

    def over(call: str, *values: Text | Typed) -> Text:
        """A call of the engine's aggregate over the rows that count."""
        return sql(f"{call}?", *values, among)

    return entry[1](function, rows, over, distinct)


Over = Callable[..., Text]


def _count(node: Node, scope: EngineScope, over: Over, distinct: str) -> Typed:
    values = [expression(each, scope) for each in nodes_in(node.fields["children"])]
    if len(values) == 1:
        return cast(over(f"count({distinct}?)", values[0]), "bigint")
    if distinct:
        raise NotListed("it counts combinations of values")
    # A row counts if none of the values is NULL.
    complete = listed([sql("? IS NOT NULL", each) for each in values], " AND ")
    return cast(over("count(CASE WHEN ? THEN 1 END)", complete), "bigint")


def _sum(node: Node, scope: EngineScope, over: Over, distinct: str) -> Typed:
    value = expression(node_of(node.fields["child"]), scope)
    if value.type not in INTEGERS and digits_of(value.type) is None:
        raise NotListed(f"it sums values of type {value.type}, whose sum depends on their order")
    return cast(over(f"sum({distinct}?)", value), node.type)


def _extreme(function: str) -> Callable[[Node, EngineScope, Over, str], Typed]:
    def write(node: Node, scope: EngineScope, over: Over, distinct: str) -> Typed:
        child = node_of(node.fields["child"])
        value = expression(child, scope)
        if value.type in FLOATS:
            scope.needs(child, Fact.NO_NEGATIVE_ZERO)
        return cast(over(f"{function}(?)", value), node.type)

    return write


def _first(node: Node, scope: EngineScope, over: Over, distinct: str) -> Typed:
    """The value that all rows have. So Spark plans several DISTINCT, and so queries show what a key determines."""
    value = expression(node_of(node.fields["child"]), scope)
    one = sql("? <= 1", over("count(?)", value))
    if value.type not in FLOATS:
        one = sql("(? OR ? = ?)", one, over("min(?)", value), over("max(?)", value))
    if text_of(node.fields["ignoreNulls"]) != "true":
        one = sql("(? AND ? IN (0, ?))", one, over("count(?)", value), over("count(*)"))
    text = sql("CASE WHEN ? THEN ? ELSE error('several values') END", one, over("any_value(?)", value))
    return cast(text, node.type)


def _average(node: Node, scope: EngineScope, over: Over, distinct: str) -> Typed:
    value = expression(node_of(node.fields["child"]), scope)
    count = over(f"count({distinct}?)", value)
    total = over(f"sum({distinct}?)", value)
    if value.type in INTEGERS:
        size = over(f"sum({distinct}abs(CAST(? AS HUGEINT)))", value)
        text = (
            f"CASE WHEN ? = 0 THEN NULL WHEN ? <= {_EXACT_DOUBLE} THEN CAST(? AS DOUBLE) / CAST(? AS DOUBLE)"
            " ELSE error('too large for an average') END"
        )
        return cast(sql(text, count, size, total, count), "double")
    averaged, result = decimal(value.type), decimal(node.type)
    if COUNT_DIGITS.precision > FULL_DIGITS - result.scale:
        raise NotListed("it averages a decimal with too many digits")
    # A sum has as many digits as the engine has.
    above = unscaled(Typed(total, str(Digits(DIGITS_MAX, averaged.scale)).lower()))
    # No rows have the average NULL: their sum is NULL.
    below = sql("CAST(nullif(?, 0) AS HUGEINT)", count)
    return quotient(above, below, result.scale - averaged.scale, result)


_WRITERS: Mapping[str, tuple[str, Callable[[Node, EngineScope, Over, str], Typed]]] = {
    "Count": ("children", _count),
    "Sum": ("child evalContext", _sum),
    "Min": ("child", _extreme("min")),
    "Max": ("child", _extreme("max")),
    "Average": ("child evalMode", _average),
    "First": ("child ignoreNulls", _first),
    "Last": ("child ignoreNulls", _first),
}
