"""Pages of rows in columnar format (TRowSet of HiveServer2 since protocol 6), cut anew from their bytes.

Spark encodes the rows of a page by columns: the values, and a set of bits for NULLs without trailing zeros
(RowSetUtils.toColumnBasedSet, java.util.BitSet.toByteArray). A page with other rows of the same result therefore has
the same bytes as one that Spark would send. Everything that deviates is refused: the bytes are compared with this one
layout instead of being walked (`wire.scanner`), field by field, for whatever they might hold.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

from gateway.wire.frame import WireError
from gateway.wire.message import peek
from gateway.wire.scanner import BOOL, BYTE, DOUBLE, I16, I32, I64, LIST, STOP, STRING, STRUCT, WIDTHS

Value: TypeAlias = bool | int | float | str | None
COLUMN_BYTES = 250
"""What the objects of a column take in memory beside its values."""
_LENGTH = struct.Struct(">I")
_FORMATS = {BOOL: "?", BYTE: "b", I16: "h", I32: "i", I64: "q", DOUBLE: "d"}
_SUCCESS = bytes((STRUCT, 0, 0))
_STATUS = bytes((STRUCT, 0, 1, I32, 0, 1, 0, 0, 0, 0, STOP))
"""TStatus(SUCCESS_STATUS)."""
_MORE = bytes((BOOL, 0, 2))
_RESULTS = bytes((STRUCT, 0, 3))
_OFFSET = bytes((I64, 0, 1))
_ROWS = bytes((LIST, 0, 2, STRUCT, 0, 0, 0, 0))
"""No rows in the other format."""
_COLUMNS = bytes((LIST, 0, 3, STRUCT))
_NULLS = bytes((STRING, 0, 2))


@dataclass(frozen=True, slots=True)
class _Values:
    """One column of one page."""

    member: int
    """The field of TColumn that tells the type."""
    kind: int
    """Thrift's type of a value."""
    values: bytes
    ends: array[int] | None
    """The offsets behind each value; None if all have the same width."""
    nulls: int
    """The bits of NULLs; the lowest one is the first row's."""


class ColumnarPage:
    """The rows of one FetchResults reply."""

    __slots__ = ("_columns", "bytes", "head", "rows", "tail")

    def __init__(self, reply: bytes) -> None:
        """Raises WireError if the reply is not a page in exactly this format."""
        cut = _Cut(reply, peek(reply).body_offset)
        cut.expect(_SUCCESS)
        start = cut.at
        cut.expect(_STATUS)
        cut.expect(_MORE)
        cut.take(1)
        cut.expect(_RESULTS)
        cut.expect(_OFFSET)
        self.head = reply[start : cut.at]
        """From the status to the number of the first row."""
        cut.take(8)
        cut.expect(_ROWS)
        cut.expect(_COLUMNS)
        counted = [_column(cut) for _ in range(cut.number(4))]
        self._columns = [column for column, _ in counted]
        self.rows = counted[0][1] if counted else 0
        if not counted or any(count != self.rows for _, count in counted):
            raise WireError("a page whose columns differ in length")
        self.tail = reply[cut.at :]
        """What follows the columns. Spark adds no binary columns."""
        if self.tail != _TAIL:
            raise WireError("a page with an unknown end")
        ends = (column.ends for column in self._columns if column.ends is not None)
        self.bytes = len(reply) + sum(each.itemsize * len(each) for each in ends) + COLUMN_BYTES * len(self._columns)
        """How much memory it takes, about."""

    def part(self, number: int, start: int, count: int) -> tuple[_Values, int, bytes, int]:
        """A column's type, the number of rows, the bytes of these rows' values, and their NULLs."""
        column = self._columns[number]
        count = max(0, min(count, self.rows - start))
        if column.ends is None:
            width = WIDTHS[column.kind]
            values = column.values[start * width : (start + count) * width]
        else:
            first = column.ends[start - 1] if start else 0
            values = column.values[first : column.ends[start + count - 1] if count else first]
        return column, count, values, (column.nulls >> start) & ((1 << count) - 1)

    def texts(self, number: int) -> list[bytes]:
        """The values of a column of strings. Raises WireError for another one."""
        column = self._columns[number]
        if column.ends is None:
            raise WireError("a column that has no strings")
        starts = (0, *column.ends[:-1])
        return [column.values[start + 4 : end] for start, end in zip(starts, column.ends, strict=bool(column.ends))]

    @property
    def columns(self) -> int:
        return len(self._columns)

    def values(self, number: int) -> list[Value]:
        """The values of a column."""
        column = self._columns[number]
        if column.ends is None:
            found: Sequence[Value] = struct.unpack(f">{self.rows}{_FORMATS[column.kind]}", column.values)
        else:
            starts = (0, *column.ends)
            found = [column.values[start + 4 : end].decode() for start, end in pairwise(starts)]
        return [None if column.nulls >> row & 1 else value for row, value in enumerate(found)]


_TAIL = bytes((STOP, STOP, STOP))
"""The ends of TRowSet, of TFetchResultsResp, and of the reply."""


def page(pages: Sequence[ColumnarPage], start: int, count: int) -> bytes:
    """The body of a FetchResults reply with at most `count` rows from `start` on; `pages` are all rows in order."""
    first = pages[0]
    parts = list(_parts(pages, start, count))
    columns = b"".join(_encoded(parts, number) for number in range(first.columns))
    head = first.head + start.to_bytes(8, "big") + _ROWS + _COLUMNS + first.columns.to_bytes(4, "big")
    return _SUCCESS + head + columns + first.tail


def rows_of(pages: Sequence[ColumnarPage]) -> Iterator[tuple[Value, ...]]:
    """The rows: booleans, numbers and texts. All other types are texts."""
    for each in pages:
        yield from zip(*(each.values(number) for number in range(each.columns)), strict=True)


def _parts(pages: Sequence[ColumnarPage], start: int, count: int) -> Iterator[tuple[ColumnarPage, int, int]]:
    """The pages with these rows, each with its first row and how many of it."""
    for each in pages:
        if start < each.rows and count > 0:
            taken = min(count, each.rows - start)
            yield each, start, taken
            count -= taken
            start = 0
        else:
            start = max(0, start - each.rows)
    # A page without rows names the columns, too.
    yield pages[0], 0, 0


def _encoded(parts: Sequence[tuple[ColumnarPage, int, int]], number: int) -> bytes:
    found = [each.part(number, start, count) for each, start, count in parts]
    column = found[0][0]
    if any((other.member, other.kind) != (column.member, column.kind) for other, *_ in found):
        raise WireError("a result whose pages have other types")
    total = sum(count for _, count, _, _ in found)
    nulls, shift = 0, 0
    for _, count, _, bits in found:
        nulls |= bits << shift
        shift += count
    packed = nulls.to_bytes((nulls.bit_length() + 7) // 8, "little")
    return b"".join(
        (
            bytes((STRUCT, 0, column.member, LIST, 0, 1, column.kind)),
            total.to_bytes(4, "big"),
            *(values for _, _, values, _ in found),
            _NULLS,
            len(packed).to_bytes(4, "big"),
            packed,
            bytes((STOP, STOP)),
        )
    )


def _column(cut: _Cut) -> tuple[_Values, int]:
    """The next column, and how many values it has."""
    opened = cut.take(3)
    member = opened[2]
    if opened[0] != STRUCT or opened[1] or not 1 <= member <= 8:
        raise WireError("a column of an unknown type")
    cut.expect(bytes((LIST, 0, 1)))
    kind = cut.take(1)[0]
    count = cut.number(4)
    start = cut.at
    ends: array[int] | None = None
    if kind == STRING:
        ends = cut.texts(count)
    elif kind < STRING and WIDTHS[kind] > 0:
        cut.take(count * WIDTHS[kind])
    else:
        raise WireError("a column of an unknown type")
    values = cut.data[start : cut.at]
    cut.expect(_NULLS)
    packed = cut.take(cut.number(4))
    if packed[-1:] == b"\0":
        raise WireError("a set of bits with zeros at its end")
    cut.expect(bytes((STOP, STOP)))
    return _Values(member, kind, values, ends, int.from_bytes(packed, "little")), count


class _Cut:
    """Compares a message with the layout, piece by piece. Raises WireError."""

    def __init__(self, data: bytes, at: int) -> None:
        self.data = data
        self.at = at

    def take(self, length: int) -> bytes:
        found = self.data[self.at : self.at + length]
        if length < 0 or len(found) != length:
            raise WireError("a page that ends early")
        self.at += length
        return found

    def expect(self, expected: bytes) -> None:
        if self.take(len(expected)) != expected:
            raise WireError("a page in another format")

    def texts(self, count: int) -> array[int]:
        """Takes so many texts, and returns the offset behind each. A page may have a million of them."""
        ends, start, at, data = array("I"), self.at, self.at, self.data
        try:
            for _ in range(count):
                (length,) = _LENGTH.unpack_from(data, at)
                at += 4 + length
                ends.append(at - start)
        except (struct.error, OverflowError):
            raise WireError("a page that ends early") from None
        if at > len(data):
            raise WireError("a page that ends early")
        self.at = at
        return ends

    def number(self, width: int) -> int:
        return int(struct.unpack_from(">i", self.take(width))[0])
