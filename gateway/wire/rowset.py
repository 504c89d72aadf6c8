"""Encodes the gateway's own rows as TRowSet and their columns as TTableSchema, and reads those of Spark's replies.

Tests: `test_reply`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Any, NamedTuple

from TCLIService import ttypes

from gateway.wire.frame import WireError

COLUMNAR_PROTOCOL = 5
"""HIVE_CLI_SERVICE_PROTOCOL_V6, the first version with columnar results; earlier clients read rows."""

Value = str | int | bool | float | datetime | None


class Type(Enum):
    """The column types of the gateway's own results; each value is the TTypeId."""

    BOOLEAN = 0
    INT = 3
    BIGINT = 4
    DOUBLE = 6
    STRING = 7
    TIMESTAMP = 8


@dataclass(frozen=True, slots=True)
class ResultColumn:
    name: str
    type: Type = Type.STRING
    comment: str | None = None


class _Layout(NamedTuple):
    """How a TRowSet holds the values of a type. A timestamp is a string there."""

    column_field: str
    column: Any
    value_field: str
    value: Any
    null: Value


_TEXT = _Layout("stringVal", ttypes.TStringColumn, "stringVal", ttypes.TStringValue, "")
_LAYOUTS = {
    Type.BOOLEAN: _Layout("boolVal", ttypes.TBoolColumn, "boolVal", ttypes.TBoolValue, False),
    Type.INT: _Layout("i32Val", ttypes.TI32Column, "i32Val", ttypes.TI32Value, 0),
    Type.BIGINT: _Layout("i64Val", ttypes.TI64Column, "i64Val", ttypes.TI64Value, 0),
    Type.DOUBLE: _Layout("doubleVal", ttypes.TDoubleColumn, "doubleVal", ttypes.TDoubleValue, 0.0),
    Type.STRING: _TEXT,
    Type.TIMESTAMP: _TEXT,
}
_COLUMN_FIELDS = ("boolVal", "byteVal", "i16Val", "i32Val", "i64Val", "doubleVal", "stringVal", "binaryVal")


def table_schema(columns: Sequence[ResultColumn]) -> Any:
    """A TTableSchema; positions count from 1, as Hive's do."""
    return ttypes.TTableSchema(
        [
            ttypes.TColumnDesc(
                column.name,
                ttypes.TTypeDesc([ttypes.TTypeEntry(ttypes.TPrimitiveTypeEntry(column.type.value))]),
                position,
                column.comment,
            )
            for position, column in enumerate(columns, 1)
        ]
    )


def row_set(
    columns: Sequence[ResultColumn], rows: Sequence[Sequence[Value]], protocol: int, start_offset: int = 0
) -> Any:
    """A TRowSet for a session's protocol version (counted from 0). Each row is as long as `columns`."""
    if protocol < COLUMNAR_PROTOCOL:
        return ttypes.TRowSet(start_offset, [_row(columns, row) for row in rows])
    return ttypes.TRowSet(
        start_offset,
        [],
        [_column(column.type, [row[index] for row in rows]) for index, column in enumerate(columns)],
    )


def rows_of(row_set: Any) -> list[tuple[Any, ...]]:
    """The rows of a TRowSet, columnar or not, as Python values: numbers, booleans, strings, bytes; all other types are
    strings. Raises WireError if lengths differ."""
    if row_set.columns is None:
        rows = [tuple(map(_value_of, row.colVals or ())) for row in row_set.rows or ()]
        if len({len(row) for row in rows}) > 1:
            raise WireError("the rows differ in length")
        return rows
    columns = [_values_of(column) for column in row_set.columns]
    if len({len(column) for column in columns}) > 1:
        raise WireError("the columns differ in length")
    return list(zip(*columns, strict=True))


def count_rows(row_set: Any) -> int:
    """The number of rows of a TRowSet, columnar or not."""
    if row_set.columns is None:
        return len(row_set.rows or [])
    return len(_typed(row_set.columns[0]).values) if row_set.columns else 0


def texts_of(row_set: Any, column: int) -> list[str | None]:
    """The values of a string column, counted from 0. Raises WireError if there is no such column."""
    try:
        if row_set.columns is None:
            return [row.colVals[column].stringVal.value for row in row_set.rows or []]
        typed = row_set.columns[column].stringVal
        return [None if null else value for value, null in zip(typed.values, _nulls(typed), strict=True)]
    except (AttributeError, IndexError, TypeError) as cause:
        raise WireError(f"column {column} of the rows is not a string column") from cause


def keep_rows(row_set: Any, kept: Sequence[int]) -> None:
    """Keeps only these rows (counted from 0) of a TRowSet; types, nulls and start offset stay unchanged."""
    if row_set.columns is None:
        row_set.rows = [row_set.rows[index] for index in kept]
        return
    for column in row_set.columns:
        typed = _typed(column)
        nulls = _nulls(typed)
        typed.nulls = _bits([nulls[index] for index in kept])
        typed.values = [typed.values[index] for index in kept]


def put_texts(row_set: Any, column: int, texts: Mapping[int, str]) -> None:
    """Replaces strings, by row, in a column that `texts_of` reads and that has no nulls in these rows."""
    for index, text in texts.items():
        if row_set.columns is None:
            row_set.rows[index].colVals[column].stringVal.value = text
        else:
            row_set.columns[column].stringVal.values[index] = text


def put_first(row_set: Any, text: str) -> None:
    """Inserts a row before the others of a TRowSet with a single string column."""
    if row_set.columns is None:
        row_set.rows = [_row([ResultColumn("")], [text]), *(row_set.rows or [])]
        return
    (column,) = row_set.columns
    column.stringVal.nulls = _bits([False, *_nulls(column.stringVal)])
    column.stringVal.values.insert(0, text)


def null_bits(values: Sequence[Value]) -> bytes:
    """One bit per value, the lowest first; set if it is null."""
    return _bits([value is None for value in values])


def _bits(flags: Sequence[bool]) -> bytes:
    bits = sum(1 << index for index, flag in enumerate(flags) if flag)
    return bits.to_bytes((len(flags) + 7) // 8, "little")


def _column(kind: Type, values: Sequence[Value]) -> Any:
    layout = _LAYOUTS[kind]
    filled = [layout.null if value is None else _wire_value(value) for value in values]
    return ttypes.TColumn(**{layout.column_field: layout.column(filled, null_bits(values))})


def _row(columns: Sequence[ResultColumn], row: Sequence[Value]) -> Any:
    values = []
    for column, value in zip(columns, row, strict=True):
        layout = _LAYOUTS[column.type]
        # A value struct without a value means null.
        values.append(ttypes.TColumnValue(**{layout.value_field: layout.value(_wire_value(value))}))
    return ttypes.TRow(values)


def _wire_value(value: Value) -> Value:
    if isinstance(value, datetime):
        # The format that java.sql.Timestamp reads; it has no time zone.
        return value.replace(tzinfo=None).isoformat(sep=" ")
    return value


def _value_of(value: Any) -> Any:
    """The value of a TColumnValue; without one it is null."""
    typed = next((member for name in _COLUMN_FIELDS if (member := getattr(value, name, None)) is not None), None)
    return None if typed is None else typed.value


def _values_of(column: Any) -> list[Any]:
    typed = _typed(column)
    if not any(typed.nulls or b""):
        return list(typed.values)
    return [None if null else value for value, null in zip(typed.values, _nulls(typed), strict=True)]


def _typed(column: Any) -> Any:
    """The member of the TColumn union that is set. Raises WireError for a column of unknown type."""
    for name in _COLUMN_FIELDS:
        typed = getattr(column, name)
        if typed is not None and typed.values is not None:
            return typed
    raise WireError("a column has an unknown type")


def _nulls(typed: Any) -> list[bool]:
    """Whether each value of a column is null."""
    # Values beyond the end of the bitmap are not null; Spark sends an empty bitmap for columns without nulls.
    bits = int.from_bytes(typed.nulls or b"", "little")
    return [bool(bits >> index & 1) for index in range(len(typed.values))] if bits else [False] * len(typed.values)
