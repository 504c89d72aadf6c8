"""Cuts pages of rows in columnar format, as Spark would have sent the rows in other pages.

A page is a FetchResults reply. Its columns are lists of values, each with a bitmap of nulls that ends with the last
null, as `java.util.BitSet` writes it. So rows of one page or of several make another page without being decoded, and
the result has the bytes that Spark's encoder gives the same rows.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gateway.wire import message
from gateway.wire.frame import WireError
from gateway.wire.scanner import BOOL, I16, I32, I64, LIST, STRING, STRUCT

_BYTE, _DOUBLE = 3, 4
_WIDTHS = {BOOL: 1, _BYTE: 1, I16: 2, I32: 4, I64: 8, _DOUBLE: 8, STRING: 0}
"""Bytes of a value; 0: it begins with its length."""
_START = bytes((I64, 0, 1))
_NO_ROWS = bytes((LIST, 0, 2, STRUCT, 0, 0, 0, 0))
"""The list of rows, which a columnar page has empty."""
_COLUMNS = bytes((LIST, 0, 3, STRUCT))
_VALUES = bytes((LIST, 0, 1))
_NULLS = bytes((STRING, 0, 2))
_LENGTH = struct.Struct(">i")


@dataclass(slots=True)
class _Column:
    """A column of a page. Offsets count from the start of the page."""

    union: int
    """The member of TColumn."""
    kind: int
    first: int
    """The offset of the first value."""
    nulls: int
    """One bit for each row, the lowest first; set if the value is null."""
    row: int = 0
    offset: int = 0
    """Where a row begins that was looked for last; rows are mostly read in order."""


class ColumnarPage:
    """A page with the places of its columns. Raises WireError unless it has the format that Spark's pages have."""

    __slots__ = ("_before", "_columns", "payload", "rows", "start")

    def __init__(self, payload: bytes) -> None:
        self.payload = payload
        place = message.results(payload)
        at = -1 if place is None else place.start
        if place is None or payload[at : at + 3] != _START or payload[at + 11 : at + 19] != _NO_ROWS:
            raise WireError("not a page in columnar format")
        self._before = at + 3
        self.start = int.from_bytes(payload[at + 3 : at + 11], "big", signed=True)
        """The position of its first row in the result."""
        try:
            self._columns, end = self._read(at + 19)
        except IndexError:
            raise WireError("a page ends too early") from None
        counts = {count for _, count in self._columns}
        if len(counts) > 1 or payload[end:] != b"\0\0\0":
            raise WireError("a page in an unknown format")
        self.rows = counts.pop() if counts else 0
        """The number of its rows."""

    def _read(self, at: int) -> tuple[list[tuple[_Column, int]], int]:
        payload, columns = self.payload, list[tuple[_Column, int]]()
        if payload[at : at + 4] != _COLUMNS:
            raise WireError("a page without columns")
        number, at = _int(payload, at + 4), at + 8
        for _ in range(number):
            if payload[at] != STRUCT or payload[at + 3 : at + 6] != _VALUES:
                raise WireError("a column in an unknown format")
            kind, count, first = payload[at + 6], _int(payload, at + 7), at + 11
            if kind not in _WIDTHS or count < 0:
                raise WireError("a column of an unknown type")
            end = _after(payload, kind, first, count)
            if payload[end : end + 3] != _NULLS:
                raise WireError("a column without nulls")
            behind = end + 7 + _int(payload, end + 3)
            nulls = payload[end + 7 : behind]
            if payload[behind : behind + 2] != b"\0\0" or nulls.endswith(b"\0"):
                raise WireError("a column in an unknown format")
            union = int.from_bytes(payload[at + 1 : at + 3], "big")
            columns.append((_Column(union, kind, first, int.from_bytes(nulls, "little"), 0, first), count))
            at = behind + 2
        return columns, at

    @property
    def values(self) -> int:
        """The number of its values."""
        return self.rows * len(self._columns)

    @property
    def head(self) -> bytes:
        """The bytes before the position of the first row."""
        return self.payload[: self._before]

    @property
    def kinds(self) -> list[tuple[int, int]]:
        """The members of TColumn, with the types of their values."""
        return [(column.union, column.kind) for column, _ in self._columns]

    def cut(self, number: int, begin: int, end: int) -> tuple[bytes, int]:
        """The values of a column from row `begin` to `end` of this page (exclusive), and their nulls as bits."""
        column, _ = self._columns[number]
        first = self._offset(column, begin)
        last = self._offset(column, end)
        bits = (column.nulls >> begin) & ((1 << (end - begin)) - 1)
        return self.payload[first:last], bits

    def _offset(self, column: _Column, row: int) -> int:
        width = _WIDTHS[column.kind]
        if width:
            return column.first + row * width
        if row < column.row:
            column.row, column.offset = 0, column.first
        column.offset = _after(self.payload, column.kind, column.offset, row - column.row)
        column.row = row
        return column.offset


Span = tuple[ColumnarPage, int, int]
"""Rows of a page: from the first number to the second (exclusive), counted in the page."""


def joined(start: int, spans: Sequence[Span]) -> bytes:
    """A page with these rows, of which the first is at position `start` in the result. There is at least one span, and
    all are of pages of one result."""
    like = spans[0][0]
    pieces = [like.head, start.to_bytes(8, "big", signed=True), _NO_ROWS, _COLUMNS, _LENGTH.pack(len(like.kinds))]
    rows = sum(end - begin for _, begin, end in spans)
    for number, (union, kind) in enumerate(like.kinds):
        nulls = done = 0
        pieces += bytes((STRUCT,)), union.to_bytes(2, "big"), _VALUES, bytes((kind,)), _LENGTH.pack(rows)
        for page, begin, end in spans:
            values, bits = page.cut(number, begin, end)
            pieces.append(values)
            nulls |= bits << done
            done += end - begin
        flags = nulls.to_bytes((nulls.bit_length() + 7) // 8, "little")
        pieces += _NULLS, _LENGTH.pack(len(flags)), flags, b"\0\0"
    return b"".join([*pieces, b"\0\0\0"])


def is_alike(pages: Iterable[ColumnarPage]) -> bool:
    """Whether the pages have the same columns."""
    return len({tuple(page.kinds) for page in pages}) <= 1


def _int(payload: bytes, at: int) -> int:
    try:
        (found,) = _LENGTH.unpack_from(payload, at)
    except struct.error:
        raise WireError("a page ends too early") from None
    return int(found)


def _after(payload: bytes, kind: int, offset: int, count: int) -> int:
    """The offset behind so many values."""
    if width := _WIDTHS[kind]:
        return offset + width * count
    read, size = _LENGTH.unpack_from, len(payload)
    try:
        for _ in range(count):
            (length,) = read(payload, offset)
            if length < 0:
                raise WireError("a value of negative length")
            offset += 4 + length
    except struct.error:
        raise WireError("a page ends too early") from None
    if offset > size:
        raise WireError("a page ends too early")
    return int(offset)
