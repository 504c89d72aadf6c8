"""Tests the reading and splicing of messages against PyHive's generated code."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from TCLIService import ttypes
from wire import calls
from wire.calls import HANDLE, OTHER

from gateway.wire import message as messages
from gateway.wire import reply as replies
from gateway.wire.frame import WireError
from gateway.wire.message import ExecuteCall, FetchCall, Handle, OpenCall, ReplyStatus

HANDLES = st.builds(Handle, st.binary(min_size=16, max_size=16), st.binary(min_size=16, max_size=16))
SEQIDS = st.integers(-(1 << 31), (1 << 31) - 1)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)
IDENTIFIER = b"\x0b\x00\x01\x00\x00\x00\x10" + HANDLE.guid + b"\x0b\x00\x02\x00\x00\x00\x10" + HANDLE.secret + b"\0"
UNKNOWN = b"\x0d\x7f\x01\x0b\x0c\0\0\0\x01\0\0\0\x01k\x02\x00\x01\x01\x00" + b"\x0f\x7f\x02\x0b\0\0\0\x01\0\0\0\x02ab"


def unusual(text: bytes = b"select 1") -> bytes:
    """ExecuteStatement with its fields in reverse order, and unknown fields in every struct."""
    session = b"\x0c\x00\x01" + UNKNOWN + b"\x0c\x00\x01" + UNKNOWN + IDENTIFIER + b"\0"
    body = b"\x02\x00\x04\x01" + b"\x0b\x00\x02" + len(text).to_bytes(4, "big") + text + UNKNOWN + session + b"\0"
    return b"\x80\x01\0\x01\0\0\0\x10ExecuteStatement\0\0\0\x05" + UNKNOWN + b"\x0c\x00\x01" + body + b"\0"


@given(st.sampled_from(calls.samples()), SEQIDS)
def test_a_sequence_id_is_replaced(request_: bytes, seqid: int) -> None:
    before = messages.peek(request_)
    changed = messages.with_seqid(request_, seqid)
    head = messages.peek(changed)
    assert (head.name, head.kind, head.seqid) == (before.name, 1, seqid)
    assert messages.with_seqid(changed, before.seqid) == request_


@pytest.mark.parametrize("data", [b"", b"\x80\x01", b"GET / HTTP/1.1", b"\x80\x01\0\x01\x7f\xff\xff\xff", b"\0" * 40])
def test_peek_refuses_an_invalid_message(data: bytes) -> None:
    with pytest.raises(WireError):
        messages.peek(data)


def test_a_handle_is_read_and_its_secret_is_not_printed() -> None:
    assert messages.request_handle(calls.execute("select 1")) == HANDLE
    assert messages.request_handle(calls.status()) == HANDLE
    assert messages.request_handle(calls.open_session()) is None
    assert HANDLE.secret.hex() not in repr(HANDLE)
    assert repr(HANDLE.secret) not in repr(HANDLE)


@given(st.sampled_from(calls.samples()[1:]), HANDLES)
def test_only_the_handle_is_replaced(request_: bytes, handle: Handle) -> None:
    changed = messages.with_handle(request_, handle)
    assert messages.request_handle(changed) == handle
    assert messages.with_handle(changed, HANDLE) == request_
    decoded = calls.read_call(changed)
    about = getattr(decoded, "sessionHandle", None) or decoded.operationHandle
    identifier = about.sessionId if hasattr(about, "sessionId") else about.operationId
    assert (identifier.guid, identifier.secret) == (handle.guid, handle.secret)


def test_a_handle_of_another_length_or_position_is_replaced() -> None:
    short = Handle(b"g", b"longer than sixteen bytes")
    for request in (calls.status(), unusual()):
        changed = messages.with_handle(request, short)
        assert messages.request_handle(changed) == short
        assert messages.with_handle(changed, HANDLE) == request
    with pytest.raises(WireError, match="without a handle"):
        messages.with_handle(calls.open_session(), OTHER)


@given(TEXTS, st.booleans(), st.integers(0, 1 << 40), st.dictionaries(TEXTS, TEXTS, max_size=2))
def test_a_statement_is_read(text: str, run_async: bool, timeout: int, settings: dict[str, str]) -> None:
    request = calls.execute(text, run_async, queryTimeout=timeout, confOverlay=settings)
    assert messages.statement(request) == ExecuteCall(text, run_async, timeout, bool(settings))


@given(TEXTS, TEXTS)
def test_a_statement_is_spliced(text: str, other: str) -> None:
    request = calls.execute(text)
    changed = messages.with_statement(request, other)
    assert changed == calls.execute(other)
    assert messages.with_statement(changed, text) == request


@given(TEXTS, st.integers(0, 1 << 40), st.integers(0, 1 << 40))
def test_a_time_limit_is_spliced(text: str, timeout: int, other: int) -> None:
    request = calls.execute(text, queryTimeout=timeout)
    assert messages.with_query_timeout(request, other) == calls.execute(text, queryTimeout=other)
    without = calls.execute(text, queryTimeout=None)
    assert messages.with_query_timeout(without, other) == without


def test_a_negative_time_limit_means_none() -> None:
    assert messages.statement(calls.execute("select 1", queryTimeout=-1)).query_timeout_seconds == 0


@given(TEXTS)
def test_a_splice_keeps_unknown_fields_and_their_order(text: str) -> None:
    request = unusual()
    assert messages.statement(request) == ExecuteCall("select 1", True)
    changed = messages.with_statement(request, text)
    assert changed == unusual(text.encode())
    assert messages.statement(changed).statement == text


def test_invalid_utf8_is_decoded_as_in_spark() -> None:
    assert messages.statement(unusual(b"select \xff")).statement == "select \ufffd"


def test_open_session_and_fetch_are_read() -> None:
    configuration = {"use:database": "sales", "ключ": "значение"}
    assert messages.open_session(calls.open_session()) == OpenCall("ada", "secret", configuration, 9)
    bare = calls.call("OpenSession", ttypes.TOpenSessionReq(5))
    assert messages.open_session(bare) == OpenCall(None, None, {}, 5, configured=False)
    assert messages.fetch_call(calls.fetch()) == FetchCall(HANDLE, 0, 1000, 1)
    assert "secret" not in repr(messages.open_session(calls.open_session()))


@given(st.sampled_from([*calls.samples(), unusual()]), st.data())
def test_damaged_requests_are_read_or_refused(request_: bytes, data: st.DataObject) -> None:
    damaged = bytearray(request_)
    damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    payload = bytes(damaged[: data.draw(st.integers(0, len(damaged)))])
    for read in (
        messages.peek,
        messages.statement,
        messages.open_session,
        messages.fetch_call,
        messages.request_handle,
    ):
        try:
            read(payload)
        except WireError:
            continue


def test_replies_are_read() -> None:
    ok = ttypes.TStatus(0)
    failed = ttypes.TStatus(3, ["*stack"], "42703", 0, "no such column")
    opened = calls.reply("OpenSession", ttypes.TOpenSessionResp(ok, 9, calls.session(), {}))
    assert messages.opened(opened) == (HANDLE, 9)
    assert messages.opened(calls.reply("OpenSession", ttypes.TOpenSessionResp(failed, 9))) is None
    executed = calls.reply("ExecuteStatement", ttypes.TExecuteStatementResp(ok, calls.operation()))
    assert messages.execute_handle(executed) == HANDLE
    refused = calls.reply("ExecuteStatement", ttypes.TExecuteStatementResp(failed))
    assert messages.execute_handle(refused) is None
    assert messages.reply_status(executed) == ReplyStatus(0, None, None)
    assert messages.reply_status(refused) == ReplyStatus(3, "42703", "no such column")
    state = ttypes.TGetOperationStatusResp(ok, 5, "42000", 0, "failed")
    assert messages.operation_state(calls.reply("GetOperationStatus", state)) == 5
    assert messages.operation_state(calls.reply("GetOperationStatus", ttypes.TGetOperationStatusResp(failed))) is None


def test_a_thrift_exception_is_read_as_an_error() -> None:
    fault = replies.exception("GetQueryId", 3, "Invalid method name")
    assert messages.reply_status(fault) == ReplyStatus(3, None, "Invalid method name")
    assert messages.opened(fault) is None
    assert messages.execute_handle(fault) is None
    assert messages.operation_state(fault) is None


@pytest.mark.parametrize(("asked", "expected"), [(True, True), (False, False), (None, False)])
def test_the_flag_for_progress_is_read(asked: bool | None, expected: bool) -> None:
    request = calls.call("GetOperationStatus", ttypes.TGetOperationStatusReq(calls.operation(), asked))
    assert messages.wants_progress(request) is expected


@given(
    st.none() | TEXTS,
    st.none() | st.dictionaries(TEXTS, TEXTS, max_size=4),
    st.dictionaries(TEXTS, TEXTS, max_size=3),
    TEXTS,
    TEXTS,
)
def test_user_and_configuration_of_open_session_are_replaced(
    name: str | None, configuration: dict[str, str] | None, values: dict[str, str], user: str, password: str
) -> None:
    request = calls.call("OpenSession", ttypes.TOpenSessionReq(5, name, None, configuration), 9)
    changed = messages.with_names(messages.with_configuration(request, values), user, password)
    read = calls.read_call(changed)
    assert (read.client_protocol, read.username, read.password) == (5, user, password)
    assert read.configuration == {**(configuration or {}), **values}
    assert messages.open_session(changed) == OpenCall(user, password, {**(configuration or {}), **values}, 5)
    assert messages.peek(changed) == messages.peek(request)


def test_unknown_fields_of_open_session_are_kept() -> None:
    # The configuration is not a map of strings, and the name follows an unknown field.
    body = b"\x0d\x00\x04\x0b\x08\0\0\0\x01\0\0\0\x01k\0\0\0\x05" + UNKNOWN + b"\x0b\x00\x02\0\0\0\x01x"
    request = b"\x80\x01\0\x01\0\0\0\x0bOpenSession\0\0\0\x05\x0c\x00\x01" + body + b"\0\0"
    changed = messages.with_names(messages.with_configuration(request, {"a": "b"}), "ada", "secret")
    assert UNKNOWN in changed
    assert messages.open_session(changed) == OpenCall("ada", "secret", {"a": "b"}, 0)
    assert calls.read_call(changed).configuration == {"a": "b"}


def test_invalid_utf8_in_a_configuration_is_kept() -> None:
    request = calls.open_session().replace("значение".encode(), b"\xff" * 16)
    assert b"\xff" * 16 in messages.with_configuration(request, {"a": "b"})
