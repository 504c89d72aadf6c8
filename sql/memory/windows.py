"""Window functions of Spark that mean the same in the engine: docs/internals/memory.md argues each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from sql.memory.casts import FLOATS, cast
from sql.memory.engine_aggregates import aggregate
from sql.memory.engine_texts import NotListed, Text, Typed, listed, sql
from sql.memory.scalars import EngineScope, constant, expression, node_of, nodes_in, text_of
from sql.proof.plan import Node

_DIRECTIONS = {"Ascending$": "ASC", "Descending$": "DESC"}
_NULLS = {"NullsFirst$": "NULLS FIRST", "NullsLast$": "NULLS LAST"}


def way(key: Node) -> str:
    """The direction of a SortOrder."""
    return f"{_DIRECTIONS[text_of(key.fields['direction'])]} {_NULLS[text_of(key.fields['nullOrdering'])]}"


def window(function: Node, spec: Node, scope: EngineScope, *, total: bool) -> Typed:
    """A window function over the rows of the scope. `total`: whether its order has no equal rows within a partition.
    Raises NotListed."""
    parts = [expression(part, scope) for part in nodes_in(spec.fields["partitionSpec"])]
    if any(part.type in FLOATS for part in parts):
        raise NotListed("it has windows by a floating-point number")
    keys = nodes_in(spec.fields["orderSpec"])
    order = [sql(f"? {way(key)}", expression(node_of(key.fields["child"]), scope)) for key in keys]
    over = sql(
        "??",
        sql("PARTITION BY ? ", listed([part.text for part in parts])) if parts else Text(()),
        sql("ORDER BY ?", listed(order)) if order else Text(()),
    )
    if function.kind == "AggregateExpression":
        return _aggregated(function, spec, scope, over, total=total)
    entry = _FUNCTIONS.get(function.kind.removesuffix("$"))
    if entry is None:
        raise NotListed(f"it contains the window function {function.kind}")
    names, has_one_answer, write = entry
    if set(function.fields) != set(names.split()):
        raise NotListed(f"the window function {function.kind} has unknown parts")
    if not (has_one_answer or total):
        raise NotListed("it has windows whose order may have equal rows")
    return cast(sql("? OVER (?)", write(function, scope), over), function.type)


# --- aggregates --------------------------------------------------------------------------------------------------


def _aggregated(function: Node, spec: Node, scope: EngineScope, over: Text, *, total: bool) -> Typed:
    """An aggregate of a frame: of rows as far as these are determined, or of a range without distances."""
    frame = node_of(spec.fields["frameSpecification"])
    kind = text_of(frame.fields["frameType"])
    bounds = [_bound(node_of(frame.fields[side]), kind) for side in ("lower", "upper")]
    whole = bounds == ["UNBOUNDED PRECEDING", "UNBOUNDED FOLLOWING"]
    if kind == "RowFrame$" and not (whole or total):
        raise NotListed("it has windows whose order may have equal rows")
    word = "ROWS" if kind == "RowFrame$" else "RANGE"
    framed = sql(f"OVER (? {word} BETWEEN {bounds[0]} AND {bounds[1]})", over)
    called = node_of(function.fields["aggregateFunction"])
    if called.kind in _ENDS and total and function.fields["filter"] is None:
        nulls = " IGNORE NULLS" if text_of(called.fields["ignoreNulls"]) == "true" else ""
        value = expression(node_of(called.fields["child"]), scope)
        return cast(sql(f"{_ENDS[called.kind]}(?{nulls}) ?", value, framed), called.type)
    return aggregate(function, scope, framed)


_ENDS = {"First": "first_value", "Last": "last_value"}
"""Of a frame whose rows have one order."""


_BOUNDS = {
    "UnboundedPreceding$": "UNBOUNDED PRECEDING",
    "CurrentRow$": "CURRENT ROW",
    "UnboundedFollowing$": "UNBOUNDED FOLLOWING",
}


def _bound(node: Node, kind: str) -> str:
    if node.kind in _BOUNDS:
        return _BOUNDS[node.kind]
    if kind != "RowFrame$":
        raise NotListed("it has windows with distances of values")
    distance = int(constant(node, "int"))
    return f"{abs(distance)} {'PRECEDING' if distance < 0 else 'FOLLOWING'}"


# --- other functions ---------------------------------------------------------------------------------------------


def _plain(call: str, node: Node, scope: EngineScope) -> Text:
    return Text((call,))


def _beside(function: str, distance: str, node: Node, scope: EngineScope) -> Text:
    """The value of another row of the partition."""
    if text_of(node.fields["ignoreNulls"]) != "false":
        raise NotListed(f"it contains {node.kind} without NULLs")
    value = expression(node_of(node.fields["input"]), scope)
    rows = int(constant(node_of(node.fields[distance]), "int"))
    default = node_of(node.fields["default"])
    if default.type == "void":
        return sql(f"{function}(?, {rows})", value)
    other = expression(default, scope)
    if default.kind not in {"Literal", "Hole"} or other.type != value.type:
        raise NotListed(f"it contains {node.kind} with a default of another type, or that is not a literal")
    return sql(f"{function}(?, {rows}, ?)", value, other)


def _buckets(node: Node, scope: EngineScope) -> Text:
    return Text((f"ntile({int(constant(node_of(node.fields['buckets']), 'int'))})",))


_FUNCTIONS: Mapping[str, tuple[str, bool, Callable[[Node, EngineScope], Text]]] = {
    "RowNumber": ("", True, partial(_plain, "row_number()")),
    "Rank": ("children", True, partial(_plain, "rank()")),
    "DenseRank": ("children", True, partial(_plain, "dense_rank()")),
    "PercentRank": ("children", True, partial(_plain, "percent_rank()")),
    "CumeDist": ("", True, partial(_plain, "cume_dist()")),
    "NTile": ("buckets", False, _buckets),
    "Lag": ("input inputOffset default ignoreNulls", False, partial(_beside, "lag", "inputOffset")),
    "Lead": ("input offset default ignoreNulls", False, partial(_beside, "lead", "offset")),
}
"""How a function is written, by its class: the fields that it has, and whether it is answered although rows may be
equal in the order of the window."""
