"""The types of Spark that the engine for tables in memory has, too.

A type is here only if the engine holds every value of it exactly. Strings with a collation, CHAR (whose comparisons
Spark pads), intervals, binary and nested values are not.
"""

from __future__ import annotations

import re

_SIMPLE = {
    "boolean": "BOOLEAN",
    "tinyint": "TINYINT",
    "smallint": "SMALLINT",
    "int": "INTEGER",
    "bigint": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "string": "VARCHAR",
    "date": "DATE",
    # Microseconds since 1970-01-01 00:00:00 UTC, without a zone: none of the engine's own zones is ever used.
    "timestamp": "TIMESTAMP",
    # The same, of the time that is shown.
    "timestamp_ntz": "TIMESTAMP",
}
_DECIMAL = re.compile(r"decimal\((\d{1,2}),(\d{1,2})\)")
_VARCHAR = re.compile(r"varchar\(\d+\)")
DECIMAL_DIGITS_MAX = 38


def engine_type(spark_type: str) -> str | None:
    """The engine's type for a type of Spark (as DESCRIBE prints it); None if it has none."""
    spark_type = plain_type(spark_type)
    if (found := decimal_digits(spark_type)) is not None:
        return f"DECIMAL({found[0]},{found[1]})"
    return _SIMPLE.get(spark_type)


def plain_type(spark_type: str) -> str:
    """The type that a value has once it has been read: `string` for a VARCHAR."""
    return "string" if _VARCHAR.fullmatch(spark_type) else spark_type


def decimal_digits(spark_type: str) -> tuple[int, int] | None:
    """The precision and scale of a decimal type; None for any other type."""
    if (found := _DECIMAL.fullmatch(spark_type)) is None:
        return None
    precision, scale = int(found[1]), int(found[2])
    return (precision, scale) if 1 <= precision <= DECIMAL_DIGITS_MAX and scale <= precision else None


def identifier(name: str) -> str:
    """A name of a table or column as the engine reads it."""
    return '"' + name.replace('"', '""') + '"'
