"""Pages that are cut anew have the bytes that Thrift's generated code, and so Spark, would write."""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from TCLIService import ttypes

from gateway.wire import columnar, reply
from gateway.wire.envelope import replied
from gateway.wire.frame import WireError

MEMBERS: dict[str, tuple[Any, st.SearchStrategy[Any]]] = {
    "boolVal": (ttypes.TBoolColumn, st.booleans()),
    "byteVal": (ttypes.TByteColumn, st.integers(-128, 127)),
    "i16Val": (ttypes.TI16Column, st.integers(-(2**15), 2**15 - 1)),
    "i32Val": (ttypes.TI32Column, st.integers(-(2**31), 2**31 - 1)),
    "i64Val": (ttypes.TI64Column, st.integers(-(2**63), 2**63 - 1)),
    "doubleVal": (ttypes.TDoubleColumn, st.floats(allow_nan=False)),
    "stringVal": (ttypes.TStringColumn, st.text(max_size=5)),
    "binaryVal": (ttypes.TBinaryColumn, st.binary(max_size=5)),
}
TABLES = st.lists(st.sampled_from(list(MEMBERS)), min_size=1, max_size=4).flatmap(
    lambda kinds: st.tuples(
        st.just(kinds),
        st.lists(st.tuples(*(st.tuples(MEMBERS[kind][1], st.booleans()) for kind in kinds)), max_size=30),
    )
)


def encoded(kinds: list[str], rows: list[Any], start: int, seqid: int = 7) -> bytes:
    columns = []
    for number, kind in enumerate(kinds):
        values = [row[number][0] for row in rows]
        bits = sum(1 << place for place, row in enumerate(rows) if row[number][1])
        nulls = bits.to_bytes((bits.bit_length() + 7) // 8, "little")
        columns.append(ttypes.TColumn(**{kind: MEMBERS[kind][0](values, nulls)}))
    return reply.fetch(seqid, ttypes.TRowSet(start, [], columns))


@given(TABLES, st.integers(0, 30), st.integers(0, 30), st.integers(0, 35), st.integers(0, 35))
def test_any_part_of_a_result(table: Any, one: int, other: int, start: int, count: int) -> None:
    kinds, rows = table
    cuts = sorted({0, min(one, len(rows)), min(other, len(rows)), len(rows)})
    bounds = list(pairwise(cuts)) or [(0, 0)]
    pages = [columnar.ColumnarPage(encoded(kinds, rows[first:last], first)) for first, last in bounds]
    body = columnar.page(pages, start, count)
    assert replied("FetchResults", 7, body) == encoded(kinds, rows[start : start + count], start)


@given(TABLES, st.data())
def test_damaged_pages_are_refused_or_differ(table: Any, data: st.DataObject) -> None:
    kinds, rows = table
    whole = encoded(kinds, rows, 0)
    for broken in (whole[:-1], whole + b"\0", whole.replace(b"\x0c\x00\x03", b"\x0c\x00\x04", 1)):
        with pytest.raises(WireError):
            columnar.ColumnarPage(broken)
    place = data.draw(st.integers(24, len(whole) - 1))
    broken = whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :]
    with suppress(WireError):
        columnar.page([columnar.ColumnarPage(broken)], 0, len(rows))
