"""What is sent to Spark in place of a call that it cannot answer, and what is answered for it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from raw_session import decoded, encoded
from TCLIService import TCLIService, ttypes
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.transport.TTransport import TMemoryBuffer

from gateway.service.answers import healing
from gateway.service.answers.healing import Healing
from gateway.wire import message, reply
from gateway.wire.frame import WireError
from gateway.wire.rowset import COLUMNAR_PROTOCOL, ResultColumn, row_set
from gateway.wire.scanner import message_end
from sql.names import Namespace
from sql.understood import Understood

ALL = Healing(early_metadata=True, ddl_columns=True)
NONE = Healing.of(())
SESSION = ttypes.TSessionHandle(ttypes.THandleIdentifier(b"g" * 16, b"s" * 16))
SALES = Namespace("sales", "spark_catalog")
PATTERNS = st.text("ab*%|(+?.\\_[", max_size=8)


def call(name: str, *arguments: Any) -> bytes:
    return encoded(name, getattr(ttypes, f"T{name}Req")(SESSION, *arguments))


def request_of(payload: bytes) -> Any:
    """What a server reads."""
    assert message_end(payload, 1 << 20) == len(payload)
    protocol = TBinaryProtocol(TMemoryBuffer(payload))
    name, _, seqid = protocol.readMessageBegin()
    assert seqid == 1
    arguments = getattr(TCLIService, f"{name}_args")()
    arguments.read(protocol)
    return arguments.req


def mended(payload: bytes, settings: Healing = ALL, namespace: Namespace | None = SALES) -> bytes:
    return healing.metadata_call(settings, message.peek(payload).name, payload, namespace)


@pytest.mark.parametrize(
    ("name", "given_", "field", "expected"),
    [
        ("GetPrimaryKeys", (None, None, "t"), "schemaName", "sales"),
        ("GetPrimaryKeys", (None, "", "t"), "schemaName", ""),
        ("GetPrimaryKeys", (None, "x", None), "schemaName", "x"),
        ("GetCrossReference", (None, None, "t", None, None, None), "foreignSchemaName", "sales"),
        ("GetCrossReference", (None, "p", "t", None, "", None), "foreignSchemaName", ""),
    ],
)
def test_a_schema_is_filled_in(name: str, given_: tuple[str | None, ...], field: str, expected: str) -> None:
    payload = call(name, *given_)
    expected_request = request_of(payload)
    setattr(expected_request, field, expected)
    assert request_of(mended(payload)) == expected_request
    if getattr(request_of(payload), field) is not None:
        assert mended(payload) == payload
    assert mended(payload, NONE) == payload


@pytest.mark.parametrize("namespace", [None, Namespace("sales", "lake")])
def test_a_schema_that_is_not_known_is_the_empty_one(namespace: Namespace | None) -> None:
    assert request_of(mended(call("GetPrimaryKeys", None, None, "t"), namespace=namespace)).schemaName == ""


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("*", "%"),
        ("**", "%%"),
        ("*a*", "%a*"),
        ("%*", "%%"),
        ("a|*b", "a|%b"),
        ("(*)", "(%)"),
        (".*", ".*"),
        ("a*", "a*"),
        ("", ""),
        (None, None),
    ],
)
def test_stars_that_repeat_nothing(pattern: str | None, expected: str | None) -> None:
    assert request_of(mended(call("GetSchemas", None, pattern))).schemaName == expected
    tables = request_of(mended(call("GetTables", "*", pattern, "*", ["*"])))
    assert (tables.catalogName, tables.schemaName, tables.tableName, tables.tableTypes) == ("*", expected, "*", ["*"])
    columns = request_of(mended(call("GetColumns", None, pattern, "*", pattern)))
    assert (columns.schemaName, columns.tableName, columns.columnName) == (expected, "*", expected)
    functions = call("GetFunctions", None, pattern, "*")
    assert mended(functions) == functions


@given(PATTERNS, PATTERNS)
def test_only_stars_change(schema: str, column: str) -> None:
    payload = call("GetColumns", "c*", schema, "t*", column)
    changed = request_of(mended(payload))
    for before, after in ((schema, changed.schemaName), (column, changed.columnName)):
        assert len(before) == len(after)
        assert all(old == new or (old, new) == ("*", "%") for old, new in zip(before, after, strict=True))
        assert not after.startswith("*")
        assert "**" not in after
    assert (changed.catalogName, changed.tableName, changed.sessionHandle) == ("c*", "t*", SESSION)
    assert mended(payload, NONE) == payload


@given(st.integers(-1, 1 << 31 - 1))
def test_info_of_any_type(wanted: int) -> None:
    payload = call("GetInfo", wanted)
    answer = healing.info(message.peek(payload), payload, "ada")
    if wanted in healing.ANSWERED_BY_SPARK:
        assert answer is None
        return
    assert answer is not None
    found = decoded(answer)
    found.validate()
    values = [value for value in vars(found.infoValue).values() if value is not None]
    assert len(values) == 1
    assert message.reply_status(answer).code == 0


def test_info_without_a_type() -> None:
    payload = encoded("GetInfo", ttypes.TGetInfoReq(SESSION))
    answer = healing.info(message.peek(payload), payload, "ada")
    assert answer is not None
    assert decoded(answer).infoValue.lenValue == 0


def test_every_known_type_of_info_has_a_value_of_its_own() -> None:
    known = set(ttypes.TGetInfoType._VALUES_TO_NAMES) - healing.ANSWERED_BY_SPARK - {healing.USER_NAME}
    assert known <= set(healing.INFO)


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("CREATE TABLE t (a INT)", True),
        ("  -- note\n /* x */ insert into t values (1)", True),
        ("WITH q AS (SELECT 1 AS a) INSERT INTO t SELECT * FROM q", True),
        ("FROM q INSERT INTO t SELECT *", True),
        ("SET x", True),
        ("SELECT 'insert'", False),
        ("WITH q AS (SELECT 'insert into t' AS a) SELECT * FROM q", False),
        ("FROM insert SELECT *", False),
        ("(SELECT 1)", False),
        ("TABLE t", False),
        ("SHOW TABLES", False),
        ("BEGIN INSERT INTO t VALUES (1); SELECT * FROM t; END", False),
        ("EXECUTE IMMEDIATE 'SELECT 1'", False),
        ("", False),
    ],
)
def test_which_statements_may_have_no_result(statement: str, expected: bool) -> None:
    assert healing.may_lack_columns(Understood(statement)) is expected


def test_a_column_where_there_is_none() -> None:
    empty = reply.fetch(3, ttypes.TRowSet(5, [], []))
    changed = healing.with_column(empty)
    (column,) = decoded(changed).results.columns
    assert column.stringVal.values == []
    assert (decoded(changed).results.startRowOffset, decoded(changed).results.rows) == (5, [])
    assert message.peek(changed).seqid == 3


@pytest.mark.parametrize(
    "answer",
    [
        reply.fetch(3, ttypes.TRowSet(0, [])),
        reply.fetch(3, row_set([ResultColumn("a")], [], COLUMNAR_PROTOCOL)),
        reply.fetch(3, row_set([ResultColumn("a")], [["x"]], COLUMNAR_PROTOCOL)),
        reply.error("FetchResults", 3, "no", "HY000"),
        reply.exception("FetchResults", 3, "no"),
    ],
)
def test_other_rows_stay(answer: bytes) -> None:
    assert healing.with_column(answer) == answer


@given(st.dictionaries(st.integers(2, 9), st.text(max_size=5), max_size=4), st.lists(st.none() | st.text(), max_size=6))
def test_texts_are_put_into_a_request(texts: dict[int, str], arguments: list[str | None]) -> None:
    payload = call("GetCrossReference", *arguments)
    before = message.texts(payload)
    changed = message.with_texts(payload, texts)
    assert message_end(changed, 1 << 20) == len(changed)
    assert message.texts(changed) == before | texts
    assert message.request_handle(changed) == message.request_handle(payload)
    assert message.with_texts(payload, {}) == message.with_texts(payload, before) == payload


def test_texts_need_a_request() -> None:
    with pytest.raises(WireError):
        message.with_texts(b"\x80\x01\0\x01\0\0\0\x01x\0\0\0\0\0", {2: "a"})


# --- lists of names ----------------------------------------------------------------------------------------


def opened(protocol: int, configuration: dict[str, str] | None) -> message.OpenCall:
    return message.open_session(encoded("OpenSession", ttypes.TOpenSessionReq(protocol, "ada", None, configuration)))


PYHIVE, IMPYLA, JDBC = opened(5, {}), opened(5, None), opened(9, {"use:database": "sales"})
OF_DIALECTS = ["SHOW TABLES IN `sales`", "SHOW VIEWS IN `sales`", "SHOW VIEWS IN `a``b`"]
OF_OTHERS = [
    "SHOW TABLES",
    "SHOW VIEWS",
    "show tables in sales like '*'",
    "SHOW TABLES FROM `sales`",
    " SHOW TABLES",
    "SHOW TABLES IN `sales` LIKE 'x'",
]


@pytest.mark.parametrize("statement", OF_DIALECTS)
def test_names_come_first_for_pyhive_alone(statement: str) -> None:
    assert healing.lists_names("auto", PYHIVE, Understood(statement))
    assert healing.lists_names("auto", opened(5, {"set:hiveconf:spark.x": "1"}), Understood(statement))
    assert not healing.lists_names("auto", IMPYLA, Understood(statement))
    assert not healing.lists_names("auto", JDBC, Understood(statement))
    assert healing.lists_names("on", JDBC, Understood(statement))
    assert not healing.lists_names("off", PYHIVE, Understood(statement))


@pytest.mark.parametrize("statement", OF_OTHERS)
def test_what_no_dialect_sends_is_left_alone_unless_the_setting_is_on(statement: str) -> None:
    assert not healing.lists_names("auto", PYHIVE, Understood(statement))
    assert healing.lists_names("on", PYHIVE, Understood(statement))


@pytest.mark.parametrize("statement", ["SHOW TABLE EXTENDED LIKE '*'", "SHOW TBLPROPERTIES t", "SHOW VIEW", "SELECT 1"])
def test_other_statements_are_no_lists_of_names(statement: str) -> None:
    assert not healing.lists_names("on", PYHIVE, Understood(statement))
