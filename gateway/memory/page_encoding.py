"""Encodes rows as Spark's Thrift server does: pages in columnar format, byte for byte.

Numbers and booleans have columns of their own type. There is no encoding of a float: Spark sends the double that its
decimal digits mean, and which digits these are depends on the release of Java (JDK-4511638). Everything else is a
string as HiveResult prints it: dates and timestamps with signs before years that have not four digits, without
zeros at the end of a fraction; decimals with all digits of their scale and no exponent. The value under a NULL is 0,
true or "". The set of NULLs has no zeros at its end (java.util.BitSet.toByteArray).

Tests: `test_memory_engine`.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any, NamedTuple

from gateway.wire.scanner import BOOL, DOUBLE, I16, I32, I64, LIST, REPLY, STOP, STRING, STRUCT
from sql.memory.engine_types import decimal_digits

_I8 = 3
"""Thrift's type of a byte."""
_NAME = b"FetchResults"
_HEAD = (
    struct.pack(">II", 0x80010000 | REPLY, len(_NAME))
    + _NAME
    + bytes(4)  # The number of the call.
    + bytes((STRUCT, 0, 0))
    + bytes((STRUCT, 0, 1, I32, 0, 1, 0, 0, 0, 0, STOP))  # TStatus(SUCCESS_STATUS)
    + bytes((BOOL, 0, 2, 0))  # hasMoreRows: Spark always says false.
    + bytes((STRUCT, 0, 3, I64, 0, 1))
)
_ROWS = bytes((LIST, 0, 2, STRUCT, 0, 0, 0, 0, LIST, 0, 3, STRUCT))
_NULLS = bytes((STRING, 0, 2))
_TAIL = bytes((STOP, STOP, STOP))
_LENGTH = struct.Struct(">I")


class _Encoding(NamedTuple):
    """How a type is encoded."""

    member: int
    """The field of TColumn."""
    kind: int
    """Thrift's type of a value."""
    packed: Callable[[Sequence[Any]], bytes]
    """The values, none of which is None."""
    null: Any
    """What stands under a NULL; None if `packed` knows."""


class PageFormat:
    """Encodes pages of one result."""

    def __init__(self, types: Sequence[str]) -> None:
        """`types` are Spark's. Raises ValueError for one that has no encoding here."""
        self._encodings = [_encoding(each) for each in types]

    def page(self, start: int, rows: Sequence[Sequence[Any]]) -> bytes:
        """A FetchResults reply with these rows, the first of which is number `start` of the result."""
        columns = zip(*rows, strict=True) if rows else [()] * len(self._encodings)
        encoded = [_column(encoding, values) for encoding, values in zip(self._encodings, columns, strict=True)]
        head = _HEAD + start.to_bytes(8, "big") + _ROWS + len(encoded).to_bytes(4, "big")
        return head + b"".join(encoded) + _TAIL


def _column(encoding: _Encoding, values: Sequence[Any]) -> bytes:
    nulls = b""
    if None in values:
        bits = sum(1 << number for number, value in enumerate(values) if value is None)
        nulls = bits.to_bytes((bits.bit_length() + 7) // 8, "little")
        if encoding.null is not None:
            values = [encoding.null if value is None else value for value in values]
    return b"".join(
        (
            bytes((STRUCT, 0, encoding.member, LIST, 0, 1, encoding.kind)),
            len(values).to_bytes(4, "big"),
            encoding.packed(values),
            _NULLS,
            len(nulls).to_bytes(4, "big"),
            nulls,
            bytes((STOP, STOP)),
        )
    )


def _numbers(code: str) -> Callable[[Sequence[Any]], bytes]:
    return lambda values: struct.pack(f">{len(values)}{code}", *values)


def _doubles(values: Sequence[float]) -> bytes:
    # Java writes one NaN, whichever it was.
    return struct.pack(f">{len(values)}d", *(math.nan if math.isnan(value) else value for value in values))


def _texts(printed: Callable[[Any], str]) -> Callable[[Sequence[Any]], bytes]:
    """A value that is None becomes an empty text."""

    def packed(values: Sequence[Any]) -> bytes:
        pieces = []
        for value in values:
            encoded = b"" if value is None else printed(value).encode("utf-8")
            pieces.append(_LENGTH.pack(len(encoded)))
            pieces.append(encoded)
        return b"".join(pieces)

    return packed


def date_text(value: date | str) -> str:
    """As Spark prints a date. The engine's client returns a text for one that Python's type does not have."""
    return value.isoformat() if isinstance(value, date) else _far(value)


def timestamp_text(value: datetime | str) -> str:
    """As Spark prints a timestamp, in the zone that it is in."""
    text = value.isoformat(sep=" ") if isinstance(value, datetime) else _far(value)
    return text.rstrip("0") if "." in text else text


def _far(text: str) -> str:
    """From the engine's text before year 1 or after 9999: `10000-01-01`, `0044-03-15 (BC) 12:00:00`."""
    shown = text.replace(" (BC)", "")
    year, _, rest = shown.partition("-")
    number = int(year) if shown == text else 1 - int(year)
    sign = "-" if number < 0 else "+" if number > 9999 else ""
    return f"{sign}{abs(number):04d}-{rest}"


def decimal_text(value: Decimal) -> str:
    """A zero has no sign in Java."""
    return f"{value.copy_abs() if value.is_zero() else value:f}"


_ENCODINGS = {
    "boolean": _Encoding(1, BOOL, bytes, True),
    "tinyint": _Encoding(2, _I8, _numbers("b"), 0),
    "smallint": _Encoding(3, I16, _numbers("h"), 0),
    "int": _Encoding(4, I32, _numbers("i"), 0),
    "bigint": _Encoding(5, I64, _numbers("q"), 0),
    "double": _Encoding(6, DOUBLE, _doubles, 0.0),
    "string": _Encoding(7, STRING, _texts(str), None),
    "date": _Encoding(7, STRING, _texts(date_text), None),
    "timestamp": _Encoding(7, STRING, _texts(timestamp_text), None),
    "timestamp_ntz": _Encoding(7, STRING, _texts(timestamp_text), None),
}
_DECIMAL = _Encoding(7, STRING, _texts(decimal_text), None)


def _encoding(spark_type: str) -> _Encoding:
    found = _DECIMAL if decimal_digits(spark_type) is not None else _ENCODINGS.get(spark_type)
    if found is None:
        raise ValueError(f"no encoding for {spark_type}")
    return found
