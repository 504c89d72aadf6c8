"""Tests the gateway's own replies with PyHive's generated code."""

from __future__ import annotations

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from TCLIService import ttypes
from wire import calls

from gateway.wire import message as messages
from gateway.wire import reply as replies
from gateway.wire.reply import METHODS
from gateway.wire.rowset import ResultColumn, Type, Value, null_bits, row_set, rows_of, table_schema

COLUMNS = [ResultColumn(kind.name.lower(), kind, "what it is") for kind in Type]
ROW = st.tuples(
    st.none() | st.booleans(),
    st.none() | st.integers(-(1 << 31), (1 << 31) - 1),
    st.none() | st.integers(-(1 << 63), (1 << 63) - 1),
    st.none() | st.floats(allow_nan=False),
    st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    st.none() | st.sampled_from(["2026-01-31 12:00:00", "1970-01-01 00:00:00.5"]),
)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_has_an_error_reply(name: str) -> None:
    response = calls.read_reply(replies.error(name, 5, "no such view", "42P01", 7))
    status = response.status
    assert (status.statusCode, status.sqlState, status.errorCode) == (3, "42P01", 7)
    assert status.errorMessage == "no such view"


@pytest.mark.parametrize("name", ["SetClientInfo", "UploadData", "DownloadData"])
def test_a_method_newer_than_the_types_has_an_error_reply(name: str) -> None:
    error = replies.error(name, 5, "no", "0A000")
    assert messages.peek(error).name == name
    assert messages.reply_status(error) == (3, "0A000", "no")


@pytest.mark.parametrize("name", ["GetQueryId", "CloseImpalaOperation", "Nonsense"])
def test_a_method_without_a_status_gets_an_exception(name: str) -> None:
    error = replies.error(name, 5, "no", "0A000")
    assert messages.peek(error)[:3] == (name, 3, 5)


def test_replies_of_success_are_valid() -> None:
    response = calls.read_reply(replies.execute_ok(5, calls.OTHER))
    handle = response.operationHandle
    assert (handle.operationId.guid, handle.operationId.secret) == (calls.OTHER.guid, calls.OTHER.secret)
    assert (handle.operationType, handle.hasResultSet) == (0, True)
    for name in ("CloseOperation", "CloseSession", "CancelOperation"):
        assert calls.read_reply(replies.closed(name, -1)).status.statusCode == 0
        assert messages.peek(replies.closed(name, -1)).seqid == -1


def test_an_operation_status_has_state_and_error() -> None:
    response = calls.read_reply(replies.operation_status(5, 5, "58000", "gone"))
    assert (response.operationState, response.sqlState, response.errorMessage) == (5, "58000", "gone")
    assert response.errorCode == 0
    assert messages.operation_state(replies.operation_status(5, 1)) == 1


def test_result_metadata_has_names_and_types() -> None:
    schema = calls.read_reply(replies.result_metadata(5, COLUMNS)).schema
    assert [column.columnName for column in schema.columns] == [column.name for column in COLUMNS]
    assert [column.position for column in schema.columns] == [1, 2, 3, 4, 5, 6]
    kinds = [column.typeDesc.types[0].primitiveEntry.type for column in schema.columns]
    assert kinds == [ttypes.TTypeId._NAMES_TO_VALUES[f"{kind.name}_TYPE"] for kind in Type]
    assert schema == table_schema(COLUMNS)


@given(st.lists(ROW, max_size=20))
def test_columnar_rows_are_read_back(rows: list[tuple[Value, ...]]) -> None:
    payload = replies.fetch(5, row_set(COLUMNS, rows, 9, 40))
    results = calls.read_reply(payload).results
    assert rows_of(results) == rows
    assert (results.startRowOffset, results.rows, len(results.columns)) == (40, [], len(COLUMNS))


@given(st.lists(ROW, max_size=5), st.integers(0, 4))
def test_rows_of_old_protocols_are_read_back(rows: list[tuple[Value, ...]], protocol: int) -> None:
    results = calls.read_reply(replies.fetch(5, row_set(COLUMNS, rows, protocol))).results
    fields = ["boolVal", "i32Val", "i64Val", "doubleVal", "stringVal", "stringVal"]
    read = [
        tuple(getattr(value, name).value for value, name in zip(row.colVals, fields, strict=True))
        for row in results.rows
    ]
    assert read == rows
    assert results.columns is None


def test_null_bits_begin_with_the_lowest() -> None:
    assert null_bits([None, 1, None, 1, 1, 1, 1, 1, None]) == b"\x05\x01"
    assert null_bits([]) == b""


def test_a_missing_null_bit_means_not_null() -> None:
    column = ttypes.TColumn(stringVal=ttypes.TStringColumn(["a", "b"], b""))
    assert rows_of(ttypes.TRowSet(0, [], [column])) == [("a",), ("b",)]


def test_a_timestamp_has_the_format_of_java() -> None:
    rows = row_set([ResultColumn("at", Type.TIMESTAMP)], [(datetime(2026, 1, 31, 12, 5, 0, 250),)], 9)
    assert rows_of(rows) == [("2026-01-31 12:05:00.000250",)]


def test_a_status_may_have_progress() -> None:
    update = replies.ProgressUpdate(("A", "B"), [("1", "é"), ("2", "")], 0.25, "below", 1_700_000_000_000)
    progress = calls.read_reply(replies.operation_status(5, 1, progress=update)).progressUpdateResponse
    assert (progress.headerNames, progress.rows) == (["A", "B"], [["1", "é"], ["2", ""]])
    assert (progress.progressedPercentage, progress.footerSummary) == (0.25, "below")
    assert (progress.startTime, progress.status) == (1_700_000_000_000, ttypes.TJobExecutionStatus.IN_PROGRESS)
    assert calls.read_reply(replies.operation_status(5, 1)).progressUpdateResponse is None
