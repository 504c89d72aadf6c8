"""Cuts pages at any rows: the result has the bytes that the encoder gives the same rows."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from TCLIService import ttypes

from gateway.wire import reply
from gateway.wire.columnar import ColumnarPage, is_alike, joined
from gateway.wire.frame import WireError

KINDS: list[tuple[str, Any, Any, Any]] = [
    ("boolVal", ttypes.TBoolColumn, st.booleans(), False),
    ("byteVal", ttypes.TByteColumn, st.integers(-128, 127), 0),
    ("i16Val", ttypes.TI16Column, st.integers(-(2**15), 2**15 - 1), 0),
    ("i32Val", ttypes.TI32Column, st.integers(-(2**31), 2**31 - 1), 0),
    ("i64Val", ttypes.TI64Column, st.integers(-(2**63), 2**63 - 1), 0),
    ("doubleVal", ttypes.TDoubleColumn, st.floats(allow_nan=False), 0.0),
    ("stringVal", ttypes.TStringColumn, st.text(max_size=5), ""),
    ("binaryVal", ttypes.TBinaryColumn, st.binary(max_size=5), b""),
]


def encoded(kinds: list[int], rows: list[tuple[Any, ...]], start: int) -> bytes:
    """A page as Spark encodes it: nulls are a BitSet, which ends with the last one that is set."""
    columns = []
    for place, kind in enumerate(kinds):
        name, column, _, null = KINDS[kind]
        values = [row[place] for row in rows]
        bits = sum(1 << number for number, value in enumerate(values) if value is None)
        nulls = bits.to_bytes((bits.bit_length() + 7) // 8, "little")
        columns.append(ttypes.TColumn(**{name: column([null if each is None else each for each in values], nulls)}))
    return reply.fetch(3, ttypes.TRowSet(start, [], columns))


@st.composite
def results(draw: st.DrawFn) -> tuple[list[int], list[tuple[Any, ...]]]:
    kinds = draw(st.lists(st.integers(0, len(KINDS) - 1), min_size=1, max_size=4))
    row = st.tuples(*(st.none() | KINDS[kind][2] for kind in kinds))
    return kinds, draw(st.lists(row, max_size=40))


@given(results(), st.lists(st.integers(0, 40), max_size=5), st.integers(0, 40), st.integers(0, 40))
def test_rows_of_several_pages_make_one(
    result: tuple[list[int], list[tuple[Any, ...]]], borders: list[int], one: int, other: int
) -> None:
    kinds, rows = result
    ends = sorted({min(border, len(rows)) for border in borders} | {0, len(rows)})
    spans = list(pairwise(ends)) or [(0, 0)]
    pages = [ColumnarPage(encoded(kinds, rows[first:last], first)) for first, last in spans]
    assert is_alike(pages)
    begin, end = sorted((min(one, len(rows)), min(other, len(rows))))
    wanted = [
        (page, max(begin - page.start, 0), max(0, min(end - page.start, page.rows)))
        for page in pages
        if page.start < end and page.start + page.rows > begin
    ]
    assert joined(begin, wanted or [(pages[0], 0, 0)]) == encoded(kinds, rows[begin:end], begin)


@given(results(), st.integers(0, 2_000), st.integers(0, 255))
def test_bytes_that_are_no_page_are_refused_or_are_another_page(
    result: tuple[list[int], list[tuple[Any, ...]]], place: int, byte: int
) -> None:
    kinds, rows = result
    whole = encoded(kinds, rows, 0)
    place = min(place, len(whole) - 1)
    for payload in (whole[:place], whole[:place] + bytes((byte,)) + whole[place + 1 :]):
        try:
            page = ColumnarPage(payload)
        except WireError:
            continue
        joined(page.start, [(page, 0, page.rows)])


@pytest.mark.parametrize(
    "payload",
    [
        reply.error("FetchResults", 1, "no", "HY000"),
        reply.exception("FetchResults", 1, "no"),
        reply.fetch(1, ttypes.TRowSet(0, [ttypes.TRow([])], None)),
        reply.fetch(1, ttypes.TRowSet(0, [], None)),
    ],
)
def test_other_replies_are_refused(payload: bytes) -> None:
    with pytest.raises(WireError):
        ColumnarPage(payload)
