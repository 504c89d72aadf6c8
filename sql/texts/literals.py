"""Literals, and inline tables of them, whose values do not depend on the settings of a session.

Tests: `test_spliced_texts`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from sql.names import quote

Value = str | int | bool | None
_ODD = re.compile(r"[\\']|\$\{")
"""Characters whose meaning depends on settings: spark.sql.parser.escapedStringLiterals makes backslashes literal, and
${name} is replaced anywhere in a text unless spark.sql.variable.substitute is off."""


def safe_literal(text: str) -> str:
    """An expression whose value is `text` in every session. Where Spark's grammar takes no expression, use
    `string_token` or `partition_value`."""
    return f"'{text}'" if _ODD.search(text) is None else f"CAST({_bytes(text)} AS STRING)"


def partition_value(text: str) -> str:
    """The constant after `PARTITION (column =`, where Spark takes no expression."""
    return f"'{text}'" if _ODD.search(text) is None else _bytes(text)


def _bytes(text: str) -> str:
    return f"X'{text.encode().hex()}'"


def string_token(text: str) -> str:
    """The string of a clause, such as a property, comment or location. Spark unescapes these in every session. The
    escape `\\{` means `{` and prevents the substitution of a variable."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("${", "$\\{")
    return f"'{escaped}'"


def comment_clause(text: str | None) -> str:
    return "" if text is None else f" COMMENT {string_token(text)}"


def property_list(properties: Mapping[str, str]) -> str:
    """What stands between the parentheses of TBLPROPERTIES."""
    return ", ".join(f"{string_token(key)} = {string_token(value)}" for key, value in properties.items())


_CAST_TYPES = {
    "STRING": "STRING",
    "BIGINT": "BIGINT",
    "INT": "INT",
    "BOOLEAN": "BOOLEAN",
    # The meaning of TIMESTAMP depends on spark.sql.timestampType.
    "TIMESTAMP": "TIMESTAMP_LTZ",
}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def inline_line(columns: Sequence[tuple[str, str]], row: Sequence[Value]) -> str:
    """One row for `inline_lines`. A TIMESTAMP is given as ISO 8601 text, in UTC unless it has an offset. Raises
    ValueError for an invalid timestamp."""
    return "(" + ", ".join(_constant(value, kind) for value, (_, kind) in zip(row, columns, strict=True)) + ")"


def inline_lines(columns: Sequence[tuple[str, str]], lines: Sequence[str]) -> str:
    """A parenthesized query that yields rows; a column is (name, STRING | BIGINT | INT | BOOLEAN | TIMESTAMP). The
    rows do not depend on the session's time zone. Raises KeyError for another type."""
    names = [f"c{number}" for number in range(len(columns))]
    shown = ", ".join(
        f"CAST({short} AS {_CAST_TYPES[kind]}) AS {quote(name)}"
        for short, (name, kind) in zip(names, columns, strict=True)
    )
    nothing = "" if lines else " WHERE FALSE"
    values = ", ".join(lines or ["(" + ", ".join(["NULL"] * len(columns)) + ")"])
    return f"(SELECT {shown} FROM VALUES {values} AS t({', '.join(names)}){nothing})"


def _constant(value: Value, kind: str) -> str:
    if value is None:
        return "NULL"
    if kind == "TIMESTAMP":
        moment = datetime.fromisoformat(str(value))
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return f"timestamp_micros({(moment - _EPOCH) // timedelta(microseconds=1)})"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    return safe_literal(value) if isinstance(value, str) else str(value)
