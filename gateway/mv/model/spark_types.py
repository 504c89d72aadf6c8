"""Types of columns, which Spark describes as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable


def sql_type(type_json: str) -> str:
    """The type of a column as SQL; texts of limited length count as strings."""
    kind = json.loads(type_json)
    match kind.get("name"):
        case "decimal":
            return f"decimal({kind.get('precision')},{kind.get('scale')})"
        case "timestamp_ltz":
            return "timestamp"
        case "varchar" | "char":
            return "string"
        case name:
            return str(name)


BINARY = "UTF8_BINARY"
"""The collation that compares bytes."""
_NOT_COMPARED = frozenset({"map", "variant", "geography", "geometry"})


_EXACT = frozenset(
    {
        *("boolean", "tinyint", "smallint", "int", "bigint", "decimal", "string", "varchar", "binary"),
        *("date", "timestamp_ltz", "timestamp_ntz", "byte", "short", "integer", "long"),
    }
)


def is_exact(type_json: str) -> bool:
    """Whether values of the type that Spark finds equal are the same, unlike -0.0 and 0.0. False if it is unknown."""
    kind = json.loads(type_json) if type_json else {}
    return kind.get("name") in _EXACT and kind.get("collation", BINARY) == BINARY


def are_exact(columns: Iterable[tuple[str, str]]) -> bool:
    """Whether rows that Spark finds equal are the same. `columns`: names with types as JSON."""
    return all(is_exact(kind) for _, kind in columns)


_FLOATS = {"float": "FLOAT", "double": "DOUBLE"}


def float_type(type_json: str) -> str:
    """FLOAT or DOUBLE, of which 0.0 equals -0.0; empty for every other type."""
    return _FLOATS.get(json.loads(type_json).get("name"), "")


def has_floats_within(type_json: str) -> bool:
    """Whether it is a type with others within, and one of these is FLOAT or DOUBLE."""
    kind = json.loads(type_json)
    return kind.get("name") not in _FLOATS and _has_floats(list(kind.values()))


def _has_floats(kind: object) -> bool:
    if isinstance(kind, list):
        return any(map(_has_floats, kind))
    return isinstance(kind, dict) and (kind.get("name") in _FLOATS or _has_floats(list(kind.values())))


def is_compared(type_json: str) -> bool:
    """Whether Spark compares values of the type by all that they consist of."""
    return _is_compared(json.loads(type_json))


def _is_compared(kind: object) -> bool:
    if isinstance(kind, list):
        return all(map(_is_compared, kind))
    if not isinstance(kind, dict):
        return True
    plain = kind.get("name") not in _NOT_COMPARED and kind.get("collation", BINARY) == BINARY
    return bool(plain) and all(map(_is_compared, kind.values()))
