"""Tests the changes to pages of metadata calls against the same changes to plain rows."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from TCLIService import ttypes
from wire import calls

from gateway.service.answers.metadata import (
    ROWS_MAX,
    ListedAs,
    Listing,
    Tables,
    TableTypes,
    WithoutDatabase,
    listing_of,
)
from gateway.wire import message as messages
from gateway.wire import reply as replies
from gateway.wire import rowset
from gateway.wire.frame import WireError
from gateway.wire.message import FetchCall
from gateway.wire.rowset import ResultColumn, Type, Value, row_set
from sql.names import TableName

STORAGE = "hidden"
MATERIALIZED = {TableName("sales", "daily"), TableName("nyc", "delays")}
NEXT, PRIOR, FIRST = 0, 1, 4
COLUMNS = [
    ResultColumn("TABLE_CAT"),
    ResultColumn("TABLE_SCHEM"),
    ResultColumn("TABLE_NAME"),
    ResultColumn("TABLE_TYPE"),
    ResultColumn("REMARKS"),
    ResultColumn("big", Type.BIGINT),
    ResultColumn("flag", Type.BOOLEAN),
    ResultColumn("ratio", Type.DOUBLE),
]
COLUMNAR, ROW_WISE = 9, 4
Row = tuple[Value, ...]

ROWS = st.lists(
    st.tuples(
        st.none(),
        st.sampled_from(["sales", "nyc", STORAGE, ""]),
        st.sampled_from(["daily", "delays", "t"]),
        st.sampled_from(["TABLE", "VIEW", "SYSTEM TABLE"]),
        st.none() | st.sampled_from(["", "ü😀", STORAGE, "VIEW"]),
        st.none() | st.integers(-(1 << 63), (1 << 63) - 1),
        st.none() | st.booleans(),
        st.none() | st.floats(allow_nan=False),
    ),
    max_size=40,
)
TYPES = st.lists(
    st.sampled_from(["TABLE", "VIEW", "MATERIALIZED_VIEW", "MATERIALIZED VIEW", "SYSTEM TABLE"]), unique=True
)
TEXTS = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=20), max_size=4)
PROTOCOLS = st.sampled_from([COLUMNAR, ROW_WISE])


class PagedRows:
    """Returns rows like Spark's Thrift server: an empty page is the end, and `hasMoreRows` is always false."""

    def __init__(self, rows: Sequence[Row], columns: Sequence[ResultColumn], protocol: int) -> None:
        self._rows, self._columns, self._protocol = rows, columns, protocol
        self._position = self._last = 0
        self.replies: list[bytes] = []
        self.asked: list[FetchCall] = []

    async def forward(self, payload: bytes) -> bytes:
        call = messages.fetch_call(payload)
        self.asked.append(call)
        if call.orientation == FIRST:
            self._position = 0
        elif call.orientation == PRIOR:
            self._position = max(0, self._last - call.rows_max)
        start = self._last = self._position
        page = self._rows[start : start + max(call.rows_max, 0)]
        self._position += len(page)
        rows = row_set(self._columns, page, self._protocol, start)
        if self._protocol < rowset.COLUMNAR_PROTOCOL:
            _leave_nulls_out(rows, page)
        self.replies.append(replies.fetch(messages.peek(payload).seqid, rows))
        return self.replies[-1]


def _leave_nulls_out(rows: Any, page: Sequence[Row]) -> None:
    """In a row-wise page, a null is a value struct without a value."""
    for row, values in zip(rows.rows, page, strict=True):
        for typed, value in zip(row.colVals, values, strict=True):
            if value is None:
                next(each for each in vars(typed).values() if each is not None).value = None


def fetch(listing: Listing, spark: PagedRows, rows_max: int, orientation: int = NEXT, seqid: int = 7) -> bytes:
    request = ttypes.TFetchResultsReq(calls.operation(), orientation, rows_max, 0)
    return asyncio.run(listing.fetch(spark.forward, calls.call("FetchResults", request, seqid)))


def read(page: bytes) -> list[Row]:
    """The rows, read as a client does."""
    response = calls.read_reply(page)
    assert response.hasMoreRows is False
    if response.results.columns is not None:
        return rowset.rows_of(response.results)
    return [
        tuple(next(each for each in vars(value).values() if each is not None).value for value in row.colVals)
        for row in response.results.rows
    ]


def fetch_all(listing: Listing, spark: PagedRows, rows_max: int, orientation: int = NEXT) -> list[Row]:
    """The rows of a client that fetches until a page is empty, and then once more."""
    found: list[Row] = []
    while page := read(fetch(listing, spark, rows_max, orientation)):
        found += page
        orientation = NEXT
    assert read(fetch(listing, spark, rows_max)) == []
    return found


def tables(types: Sequence[str], hidden: str | None = STORAGE) -> Tables:
    return Tables(ListedAs.of(types), MATERIALIZED.__contains__, hidden)


def expected_tables(rows: Sequence[Row], types: Sequence[str]) -> list[Row]:
    """The rows that a client sees that asks for `types`."""
    asked = {each.replace(" VIEW", "_VIEW") for each in types}
    found = []
    for row in rows:
        kind = row[3]
        if kind == "VIEW" and TableName(str(row[1]), str(row[2])) in MATERIALIZED:
            named_so = not asked or "MATERIALIZED_VIEW" in asked
            seen_as = "MATERIALIZED_VIEW" if named_so else "VIEW" if asked & {"TABLE", "VIEW"} else None
        else:
            seen_as = str(kind) if not asked or kind in asked else None
        if seen_as is not None and row[1] != STORAGE:
            found.append((*row[:3], seen_as, *row[4:]))
    return found


@given(ROWS, TYPES, PROTOCOLS, st.integers(1, 9))
def test_tables_are_those_asked_for(rows: list[Row], types: list[str], protocol: int, rows_max: int) -> None:
    listing = tables(types)
    request = calls.call("GetTables", ttypes.TGetTablesReq(calls.session(), "", "%", "%", types))
    asked = messages.table_types(listing.request(request))
    spark = PagedRows([row for row in rows if not asked or row[3] in asked], COLUMNS, protocol)
    assert fetch_all(listing, spark, rows_max) == expected_tables(rows, types)
    assert fetch_all(listing, spark, rows_max, FIRST) == expected_tables(rows, types)


@given(ROWS, st.integers(0, 1), PROTOCOLS, st.integers(1, 9))
def test_the_rows_of_a_database_are_removed(rows: list[Row], column: int, protocol: int, rows_max: int) -> None:
    """The name of the database may be in any column."""
    listing = WithoutDatabase(STORAGE, column)
    spark = PagedRows([row[1 - column :] for row in rows], COLUMNS[1 - column :], protocol)
    assert fetch_all(listing, spark, rows_max) == [row[1 - column :] for row in rows if row[1] != STORAGE]


@given(ROWS, PROTOCOLS)
def test_a_page_without_changes_is_forwarded_unchanged(rows: list[Row], protocol: int) -> None:
    rows = [row for row in rows if row[1] != STORAGE]
    for listing in (WithoutDatabase(STORAGE, 1), tables(["TABLE", "VIEW"])):
        spark = PagedRows(rows, COLUMNS, protocol)
        assert fetch(listing, spark, 100) == spark.replies[-1]


@given(ROWS, PROTOCOLS, st.integers(0, 5))
def test_a_changed_page_differs_only_in_its_rows(rows: list[Row], protocol: int, before: int) -> None:
    rows = [("", "a", "t", "TABLE", "", 1, True, 1.0)] * before + [("", STORAGE, *row[2:]) for row in rows] + rows
    listing, spark = WithoutDatabase(STORAGE, 1), PagedRows(rows, COLUMNS, protocol)
    if before:
        fetch(listing, spark, before)
    page = fetch(listing, spark, len(rows) + 1, seqid=-3)
    given_by_spark, changed = calls.read_reply(spark.replies[-1]), calls.read_reply(page)
    assert messages.peek(page) == messages.peek(spark.replies[-1])
    assert changed.status == given_by_spark.status
    assert changed.results.startRowOffset == given_by_spark.results.startRowOffset
    assert read(page) == [row for row in rows[before:] if row[1] != STORAGE]


@given(st.lists(st.sampled_from(["TABLE", "VIEW"]), unique=True), PROTOCOLS, st.integers(1, 4))
def test_table_types_begin_with_materialized_view(types: list[str], protocol: int, rows_max: int) -> None:
    for orientation in (NEXT, FIRST):
        listing, spark = TableTypes(), PagedRows([(each,) for each in types], [ResultColumn("TABLE_TYPE")], protocol)
        assert read(fetch(listing, spark, 0)) == []
        first = read(fetch(listing, spark, rows_max, orientation))
        assert len(first) <= rows_max
        assert first + fetch_all(listing, spark, rows_max) == [("MATERIALIZED_VIEW",), *((each,) for each in types)]


@pytest.mark.parametrize(
    ("types", "ask"),
    [
        ((), None),
        (("TABLE",), ("TABLE", "VIEW")),
        (("VIEW",), None),
        (("TABLE", "VIEW"), None),
        (("MATERIALIZED_VIEW",), ("VIEW",)),
        (("TABLE", "MATERIALIZED VIEW"), ("TABLE", "VIEW")),
        (("VIEW", "MATERIALIZED_VIEW"), ("VIEW",)),
        (("LOCAL TEMPORARY",), None),
    ],
)
def test_the_types_requested_from_spark(types: tuple[str, ...], ask: tuple[str, ...] | None) -> None:
    request = calls.call("GetTables", ttypes.TGetTablesReq(calls.session(), "", "%", "t", list(types)))
    assert ListedAs.of(types).ask == ask
    spliced = tables(types).request(request)
    assert spliced == calls.call("GetTables", ttypes.TGetTablesReq(calls.session(), "", "%", "t", list(ask or types)))


def test_the_storage_database_may_be_shown() -> None:
    materialized: Row = ("", "nyc", "delays", "VIEW", None, 1, True, 1.0)
    temporary: Row = (None, None, "t", "VIEW", None, 1, None, 1.0)
    rows: list[Row] = [("", STORAGE, "t", "TABLE", None, 1, True, 1.0), temporary, materialized]
    spark = PagedRows(rows, COLUMNS, COLUMNAR)
    assert fetch_all(tables(["TABLE", "VIEW"], hidden=None), spark, 10) == rows
    spark = PagedRows(rows, COLUMNS, COLUMNAR)
    assert fetch_all(tables([], hidden=None), spark, 10) == [
        *rows[:2],
        (*materialized[:3], "MATERIALIZED_VIEW", *materialized[4:]),
    ]


@dataclass(frozen=True)
class Known:
    """The part of the catalog that listings read; `views_now` may change after the call."""

    views_now: set[TableName]
    storage_database: str = STORAGE

    def views(self) -> list[Any]:
        return [SimpleNamespace(name=name) for name in self.views_now]

    def named(self, name: TableName) -> Any:
        return name if name in self.views_now else None


def begun(name: str, known: Known) -> Listing | None:
    request = calls.call("GetTables", ttypes.TGetTablesReq(calls.session(), "", "%", "%", []))
    return listing_of(name, request, known)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "is_changed"),
    [
        ("GetSchemas", True),
        ("GetTables", True),
        ("GetColumns", True),
        ("GetFunctions", True),
        ("GetTableTypes", True),
        ("GetTypeInfo", False),
        ("GetCatalogs", False),
        ("GetPrimaryKeys", False),
        ("GetCrossReference", False),
    ],
)
def test_only_some_metadata_calls_are_changed(name: str, is_changed: bool) -> None:
    assert (begun(name, Known(set())) is not None) == is_changed


def test_a_view_created_or_dropped_during_the_call_is_recognized() -> None:
    known = Known({TableName("sales", "old")})
    listing = begun("GetTables", known)
    assert listing is not None
    known.views_now.clear()
    known.views_now.add(TableName("sales", "new"))
    rows: list[Row] = [("", "sales", name, "VIEW", None, 1, True, 1.0) for name in ("old", "new", "plain")]
    found = read(fetch(listing, PagedRows(rows, COLUMNS, COLUMNAR), 10))
    assert [row[3] for row in found] == ["MATERIALIZED_VIEW", "MATERIALIZED_VIEW", "VIEW"]


@pytest.mark.parametrize("orientation", [NEXT, FIRST])
def test_hidden_pages_are_skipped(orientation: int) -> None:
    hidden: list[Row] = [("", STORAGE, "t", "TABLE", None, 1, True, 1.0)] * 8
    shown: Row = ("", "sales", "t", "TABLE", None, 1, True, 1.0)
    spark = PagedRows([*hidden, shown, *hidden], COLUMNS, COLUMNAR)
    listing = tables([])
    assert read(fetch(listing, spark, 2, orientation)) == [shown]
    assert [each.orientation for each in spark.asked] == [orientation, NEXT, NEXT, NEXT, NEXT]
    assert read(fetch(listing, spark, 2)) == []


def test_no_page_is_skipped_backwards() -> None:
    """Before the first page, a server may return the first page again."""
    spark = PagedRows([("", STORAGE, "t", "TABLE", None, 1, True, 1.0)] * 4, COLUMNS, COLUMNAR)
    assert read(fetch(tables([]), spark, 2, PRIOR)) == []
    assert len(spark.asked) == 1


@pytest.mark.parametrize(("asked", "passed_on"), [(-1, -1), (0, 0), (5, 5), (ROWS_MAX + 1, ROWS_MAX)])
def test_a_page_is_bounded(asked: int, passed_on: int) -> None:
    spark = PagedRows([], COLUMNS, COLUMNAR)
    fetch(tables([]), spark, asked)
    assert spark.asked[0].rows_max == passed_on


@pytest.mark.parametrize("listing", [tables([]), WithoutDatabase(STORAGE, 1), TableTypes()])
def test_an_error_of_spark_is_forwarded(listing: Listing) -> None:
    errors = [replies.error("FetchResults", 7, f"no {STORAGE} VIEW", "HY000"), replies.exception("FetchResults", 7, "")]
    for error in errors:

        async def forward(_: bytes, answer: bytes = error) -> bytes:
            return answer

        assert asyncio.run(listing.fetch(forward, calls.fetch())) == error


def test_unknown_fields_around_the_rows_are_kept() -> None:
    """A later Spark may send such fields."""
    unknown, another = (b"\x0b\x7f" + bytes((number,)) + b"\x00\x00\x00\x02hi" for number in (1, 2))
    page = replies.fetch(7, row_set([ResultColumn("TABLE_SCHEM")], [("a",), (STORAGE,), ("b",)], COLUMNAR, 5))
    place = messages.results(page)
    assert place is not None
    before, behind = page[: place.start - 3] + unknown, another + page[place.end :]

    async def forward(_: bytes) -> bytes:
        return before + page[place.start - 3 : place.end] + behind

    changed = asyncio.run(WithoutDatabase(STORAGE, 0).fetch(forward, calls.fetch()))
    assert changed.startswith(before)
    assert changed.endswith(behind)
    assert read(changed) == [("a",), ("b",)]


def test_a_row_is_inserted_before_nulls() -> None:
    rows = row_set([ResultColumn("TABLE_TYPE")], [(None,), ("TABLE",), (None,)], COLUMNAR)
    rowset.put_first(rows, "VIEW")
    assert rowset.rows_of(rows) == [("VIEW",), (None,), ("TABLE",), (None,)]


def test_a_bitmap_shorter_than_its_column_is_read() -> None:
    columns = [ttypes.TColumn(stringVal=ttypes.TStringColumn(list("abcdefghijk"), b"\x02"))]
    rows = ttypes.TRowSet(0, [], columns)
    assert rowset.texts_of(rows, 0) == ["a", None, *"cdefghijk"]
    rowset.keep_rows(rows, [0, 1, 10])
    assert rowset.rows_of(rows) == [("a",), (None,), ("k",)]


@pytest.mark.parametrize(
    "rows",
    [
        row_set([ResultColumn("n", Type.INT)], [(1,)], COLUMNAR),
        row_set([ResultColumn("n", Type.INT)], [(1,)], ROW_WISE),
        ttypes.TRowSet(0, [], []),
    ],
)
def test_a_column_that_is_not_a_string_is_refused(rows: Any) -> None:
    with pytest.raises(WireError, match="column 0"):
        rowset.texts_of(rows, 0)


def test_a_column_of_an_unknown_type_is_refused() -> None:
    with pytest.raises(WireError, match="unknown type"):
        rowset.count_rows(ttypes.TRowSet(0, [], [ttypes.TColumn()]))


@given(st.integers(0, 200), st.sampled_from([b"\x0c", b"\x0f\xff", b""]))
def test_damaged_rows_are_refused(cut: int, end: bytes) -> None:
    page = replies.fetch(7, row_set(COLUMNS, [("", "a", "b", "c", "d", 1, True, 1.0)], COLUMNAR))
    place = messages.results(page)
    assert place is not None
    damaged = page[: place.start + cut % (place.end - place.start)] + end
    with pytest.raises(WireError):
        replies.read_rows(damaged, messages.ValuePlace(place.kind, place.start, len(damaged)))


@given(st.none() | TEXTS, TEXTS)
def test_table_types_are_spliced(types: list[str] | None, others: list[str]) -> None:
    request = calls.call("GetTables", ttypes.TGetTablesReq(calls.session(), "", "%", "t", types))
    assert messages.table_types(request) == tuple(types or ())
    changed = messages.with_table_types(request, others)
    assert calls.read_call(changed).tableTypes == (None if types is None else others)
    assert messages.with_table_types(changed, types or ()) == request


@given(st.integers(0, 5), st.integers(-1, 1 << 40))
def test_a_fetch_is_spliced(orientation: int, rows_max: int) -> None:
    changed = messages.with_fetch(calls.fetch(), orientation, rows_max)
    assert messages.fetch_call(changed) == FetchCall(calls.HANDLE, orientation, rows_max, 1)
    assert messages.with_fetch(changed, 0, 1000) == calls.fetch()
    bare = calls.call("GetOperationStatus", ttypes.TGetOperationStatusReq(calls.operation()))
    assert messages.with_fetch(bare, orientation, rows_max) == bare
