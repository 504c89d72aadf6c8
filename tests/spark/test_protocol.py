"""Tests that replies are decoded and Spark's errors made readable."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from fuzzing.mutation import mutated
from hypothesis import given
from hypothesis import strategies as st
from TCLIService import TCLIService, ttypes
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TApplicationException, TMessageType
from thrift.transport.TTransport import TMemoryBuffer

from gateway.errors import SparkLost, StatementFailed, UpstreamLost
from gateway.spark import protocol
from gateway.wire import reply
from gateway.wire.message import Handle
from gateway.wire.rowset import ResultColumn, Type, row_set

MISSING = (
    "org.apache.hive.service.cli.HiveSQLException: Error running query: [TABLE_OR_VIEW_NOT_FOUND] "
    "org.apache.spark.sql.AnalysisException: [TABLE_OR_VIEW_NOT_FOUND] The table or view `nope` cannot be found. "
    "Verify the spelling.\nTo tolerate the error on drop use DROP VIEW IF EXISTS. SQLSTATE: 42P01; line 1 pos 14;\n"
    "'Project [*]\n+- 'UnresolvedRelation [nope]\n\n\tat org.apache.spark.sql.X.y(X.scala:1)\n"
    "Caused by: Z: q\n\tat a.b"
)


def test_only_the_reason_and_advice_of_a_spark_error_are_kept() -> None:
    error = protocol.failure(MISSING, "42P01")
    assert str(error) == (
        "[TABLE_OR_VIEW_NOT_FOUND] The table or view `nope` cannot be found. Verify the spelling.\n"
        "To tolerate the error on drop use DROP VIEW IF EXISTS. SQLSTATE: 42P01; line 1 pos 14"
    )
    assert error.sqlstate == "42P01"


def test_the_sqlstate_is_read_from_the_message_if_spark_sends_none() -> None:
    assert protocol.failure(MISSING).sqlstate == "42P01"
    assert protocol.failure("something odd").sqlstate == "HY000"


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        (None, "Spark gave no reason."),
        ("", "Spark gave no reason."),
        ("Invalid OperationHandle: OperationHandle [x]", "Invalid OperationHandle: OperationHandle [x]"),
        ("Error running query: java.lang.IllegalStateException: gone\n\tat a.b(C.java:1)", "gone"),
        ("a.b.OuterException: c.d.InnerError: both\nCaused by: x", "both"),
        (
            "Error running query: a.SparkException: Job aborted: b.SparkException: [TASK_WRITE_FAILED] Task failed."
            "\n\tat a.b(C.java:1)\nCaused by: b.SparkException: [SOME_CAUSE] no\n\tat a.b(C.java:1)\n"
            "Caused by: b.SparkArithmeticException: [DIVIDE_BY_ZERO] Division by zero.\n== SQL ==\nx",
            "Job aborted: b.SparkException: [TASK_WRITE_FAILED] Task failed. Caused by: [DIVIDE_BY_ZERO] Division by "
            "zero.",
        ),
        (
            "[PARSE_SYNTAX_ERROR] org.apache.spark.sql.catalyst.parser.ParseException: \n[PARSE_SYNTAX_ERROR] Syntax "
            "error at or near 'selec'. SQLSTATE: 42601 (line 1, pos 0)\n\n== SQL ==\nselec 1\n^^^",
            "[PARSE_SYNTAX_ERROR] Syntax error at or near 'selec'. SQLSTATE: 42601 (line 1, pos 0)",
        ),
    ],
)
def test_a_message_loses_exception_names_and_stack(sent: str | None, kept: str) -> None:
    assert str(protocol.failure(sent)) == kept


THRIFT = "org.apache.kyuubi.shaded.thrift.transport.TTransportException"
KYUUBI = "org.apache.kyuubi.KyuubiSQLException: "
OPERATING = f"{KYUUBI}Error operating ExecuteStatement: "


def test_the_messages_of_kyuubi_are_reduced_to_spark_s() -> None:
    missing = f"{KYUUBI}{OPERATING}org.apache.spark.sql.catalyst.ExtendedAnalysisException: {MISSING[120:]}"
    assert protocol.failure(missing).sqlstate == "42P01"
    assert str(protocol.failure(missing)).startswith("[TABLE_OR_VIEW_NOT_FOUND] The table")
    assert str(protocol.failure(f"{OPERATING}{OPERATING}java.io.IOException: no\n\tat a.b(C.java:1)")) == "no"


@pytest.mark.parametrize(
    "sent",
    [
        f"{OPERATING}Socket for SessionHandle [28b21a8e-96b1] is closed\n\tat a.b(C.java:1)",
        f"{OPERATING}{THRIFT}: java.net.SocketException: Broken pipe",
        f"{OPERATING}{THRIFT}\n\tat a.b(C.java:1)",
    ],
)
def test_the_outcome_of_a_statement_is_unknown_if_its_spark_was_lost(sent: str) -> None:
    error = protocol.failure(sent)
    assert (type(error), error.sqlstate) == (SparkLost, "08007")
    assert str(error).startswith("Kyuubi has no Spark for the session")


def test_the_outcome_of_a_statement_is_unknown_if_its_operation_is() -> None:
    error = protocol.failure("Invalid OperationHandle [28b21a8e]")
    assert (type(error), error.sqlstate) == (StatementFailed, "08007")


@pytest.mark.parametrize(
    ("sent", "sqlstate"),
    [
        ("connection does not exist", "08003"),
        (
            f"Error operating LaunchEngine: {THRIFT}: java.net.SocketException: Connection reset\n\tat a.b(C.java:1)",
            None,
        ),
    ],
)
def test_a_statement_was_not_sent_if_its_session_has_no_spark(sent: str, sqlstate: str | None) -> None:
    error = protocol.failure(sent, sqlstate)
    assert (type(error), error.sqlstate) == (SparkLost, "08003")
    assert str(error).endswith((": connection does not exist", ": Connection reset"))


def test_a_lost_spark_named_within_a_reason_is_not_one() -> None:
    assert protocol.failure("no such path: Socket for SessionHandle [x] is closed").sqlstate == "HY000"


@given(st.text(max_size=300))
def test_any_message_becomes_an_error_with_a_sqlstate(text: str) -> None:
    error = protocol.failure(text)
    assert len(str(error)) <= max(len(text), 30)
    assert len(error.sqlstate) == 5


def test_a_long_message_is_shortened() -> None:
    assert len(str(protocol.failure("x" * 9000))) < 2100


def _column(kind: str, values: list[Any], nulls: bytes) -> Any:
    thrift = {"stringVal": ttypes.TStringColumn, "i64Val": ttypes.TI64Column}[kind]
    return ttypes.TColumn(**{kind: thrift(values, nulls)})


def _bitmap(flags: list[bool]) -> bytes:
    size = (len(flags) + 7) // 8
    return sum(1 << index for index, flag in enumerate(flags) if flag).to_bytes(size, "little")


@given(st.lists(st.tuples(st.one_of(st.none(), st.text(max_size=3)), st.one_of(st.none(), st.integers(-9, 9)))))
def test_columns_with_nulls_become_rows(rows: list[tuple[str | None, int | None]]) -> None:
    texts = _column("stringVal", [text or "" for text, _ in rows], _bitmap([text is None for text, _ in rows]))
    numbers = _column("i64Val", [number or 0 for _, number in rows], _bitmap([number is None for _, number in rows]))
    assert protocol.rows_of(ttypes.TRowSet(0, [], [texts, numbers])) == rows


def test_values_beyond_the_null_bitmap_are_not_null() -> None:
    assert protocol.rows_of(ttypes.TRowSet(0, [], [_column("i64Val", [1, 2], b"")])) == [(1,), (2,)]
    assert protocol.rows_of(ttypes.TRowSet(0, [], [_column("i64Val", list(range(9)), b"\x01")]))[8] == (8,)


def _reply(name: str, response: Any, kind: int = TMessageType.REPLY) -> bytes:
    buffer = TMemoryBuffer()
    thrift = TBinaryProtocol(buffer, strictRead=True, strictWrite=True)
    thrift.writeMessageBegin(name, kind, 1)
    response.write(thrift)
    payload: bytes = buffer.getvalue()
    return payload


def _closed(status: Any) -> Any:
    return TCLIService.CloseSession_result(ttypes.TCloseSessionResp(status))


def test_a_reply_with_an_error_status_raises() -> None:
    status = ttypes.TStatus(ttypes.TStatusCode.ERROR_STATUS, sqlState="42601", errorMessage="no")
    with pytest.raises(StatementFailed, match="no") as refusal:
        protocol.decode("CloseSession", _reply("CloseSession", _closed(status)))
    assert refusal.value.sqlstate == "42601"


def test_an_application_exception_raises() -> None:
    problem = TApplicationException(TApplicationException.UNKNOWN_METHOD, "Invalid method name: 'X'")
    with pytest.raises(StatementFailed, match="Invalid method name"):
        protocol.decode("X", _reply("X", problem, TMessageType.EXCEPTION))


@given(st.binary(max_size=60))
def test_a_random_payload_counts_as_a_lost_server(payload: bytes) -> None:
    with pytest.raises((UpstreamLost, StatementFailed)):
        protocol.decode("CloseSession", payload)


def test_truncated_or_mismatched_replies_count_as_a_lost_server() -> None:
    whole = _reply("CloseSession", _closed(ttypes.TStatus(ttypes.TStatusCode.SUCCESS_STATUS)))
    assert protocol.decode("CloseSession", whole).status.statusCode == ttypes.TStatusCode.SUCCESS_STATUS
    for end in range(len(whole)):
        with pytest.raises(UpstreamLost):
            protocol.decode("CloseSession", whole[:end])
    with pytest.raises(UpstreamLost, match="answered CloseSession to OpenSession"):
        protocol.decode("OpenSession", _reply("CloseSession", TCLIService.OpenSession_result()))


ROWS = [("a", 3), (None, None)]
TWO_COLUMNS = [ResultColumn("a"), ResultColumn("b", Type.INT)]
REPLIES = {
    "ExecuteStatement": reply.execute_ok(1, Handle(b"g" * 16, b"s" * 16)),
    "GetOperationStatus": reply.operation_status(1, 2),
    "GetResultSetMetadata": reply.result_metadata(1, TWO_COLUMNS),
    "FetchResults": reply.fetch(1, row_set(TWO_COLUMNS, ROWS, 9)),
    "CloseOperation": reply.closed("CloseOperation", 1),
}
OLD_ROWS = reply.fetch(1, row_set(TWO_COLUMNS, ROWS, 4))
USES: dict[str, Callable[[Any], object]] = {
    "ExecuteStatement": lambda found: protocol.handle_of(found.operationHandle),
    "FetchResults": lambda found: protocol.rows_of(found.results),
}


@given(st.integers(0, 1 << 32).map(Random), st.sampled_from([*REPLIES.items(), ("FetchResults", OLD_ROWS)]))
def test_mutated_replies_raise_no_other_error(random: Random, answered: tuple[str, bytes]) -> None:
    name, answer = answered
    wrong = mutated(answer, random, list(REPLIES.values()), random.randrange(1, 4))
    try:
        found = protocol.decode(name, wrong)
        if name in USES:
            USES[name](found)
    except (UpstreamLost, StatementFailed):
        pass


@pytest.mark.parametrize("name", ["OpenSession", "ExecuteStatement", "GetOperationStatus", "FetchResults"])
def test_a_reply_without_its_required_fields_counts_as_a_lost_server(name: str) -> None:
    response = getattr(ttypes, f"T{name}Resp")()
    result = getattr(TCLIService, f"{name}_result")(response)
    with pytest.raises(UpstreamLost, match=f"answered {name} without a status"):
        protocol.decode(name, _reply(name, result))
    response.status = ttypes.TStatus(ttypes.TStatusCode.SUCCESS_STATUS)
    with pytest.raises(UpstreamLost, match=f"answered {name} without its"):
        protocol.decode(name, _reply(name, result))


@pytest.mark.parametrize("handle", [ttypes.TSessionHandle(), ttypes.TOperationHandle(ttypes.THandleIdentifier(b"g"))])
def test_an_empty_handle_counts_as_a_lost_server(handle: Any) -> None:
    with pytest.raises(UpstreamLost, match="empty handle"):
        protocol.handle_of(handle)


def test_handles_survive_a_round_trip() -> None:
    handle = Handle(b"g" * 16, b"s" * 16)
    assert protocol.handle_of(protocol.session_handle(handle)) == handle
    assert protocol.handle_of(protocol.operation_handle(handle)) == handle


def test_rows_of_protocols_before_columnar_results_are_read() -> None:
    text, number = ttypes.TStringValue("a"), ttypes.TI64Value(3)
    nothing = ttypes.TColumnValue(stringVal=ttypes.TStringValue())
    rows = [
        ttypes.TRow([ttypes.TColumnValue(stringVal=text), ttypes.TColumnValue(i64Val=number)]),
        ttypes.TRow([nothing, ttypes.TColumnValue()]),
    ]
    assert protocol.rows_of(ttypes.TRowSet(0, rows)) == [("a", 3), (None, None)]
    assert protocol.rows_of(ttypes.TRowSet(0, [])) == []
