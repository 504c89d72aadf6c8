"""Values for the engine that have one of Spark's types."""

from __future__ import annotations

from sql.memory.engine_texts import NotListed, Text, Typed, sql
from sql.memory.engine_types import engine_type
from sql.query.aggregates import Digits, digits_of

INTEGERS = frozenset({"tinyint", "smallint", "int", "bigint"})
FLOATS = frozenset({"float", "double"})
TIMES = frozenset({"timestamp", "timestamp_ntz"})


def required(type_text: str) -> str:
    """The engine's type for one of Spark's. Raises NotListed if its values cannot be in memory."""
    if (found := engine_type(type_text)) is None:
        raise NotListed(f"it computes a value of type {type_text}")
    return found


def decimal(type_text: str) -> Digits:
    """The digits of a decimal type. Raises NotListed for another type."""
    if (digits := digits_of(type_text)) is None:
        raise NotListed(f"it uses a {type_text} as a decimal")
    return digits


def cast(text: Text, type_text: str) -> Typed:
    """The text as a value of one of Spark's types: the engine fails if the type does not have it."""
    return Typed(sql(f"CAST(? AS {required(type_text)})", text), type_text)
