"""The rows of some partitions of a view, in the engine's SQL.

Tests: `test_version_changes`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import date

from sql.memory.engine_types import identifier

_INTEGERS = ("tinyint", "smallint", "int", "bigint")


def partitions_condition(column: str, kind: str, keys: Iterable[str | None]) -> str | None:
    """The condition that a row belongs to one of these partitions, never NULL; empty for none. `kind`: the column's
    type at Spark. None if the engine's value of a key is not certain."""
    values = list(keys)
    named = sorted(key for key in values if key is not None)
    try:
        literals = [_LITERALS[kind](key) for key in named]
    except (KeyError, ValueError):
        return None
    conditions = [f"coalesce({identifier(column)} IN ({', '.join(literals)}), false)"] if literals else []
    if None in values:
        conditions.append(f"{identifier(column)} IS NULL")
    return " OR ".join(conditions)


def _string(key: str) -> str:
    if "\0" in key:
        raise ValueError(key)
    return "'" + key.replace("'", "''") + "'"


def _boolean(key: str) -> str:
    if key not in ("true", "false"):
        raise ValueError(key)
    return key


def _date(key: str) -> str:
    return f"DATE '{date.fromisoformat(key).isoformat()}'"


_LITERALS: dict[str, Callable[[str], str]] = {
    **dict.fromkeys(_INTEGERS, lambda key: str(int(key))),
    "string": _string,
    "boolean": _boolean,
    "date": _date,
}
