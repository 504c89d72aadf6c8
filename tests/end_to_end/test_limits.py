"""Tests the gateway's limits and their messages, and its graceful shutdown."""

from __future__ import annotations

import json
import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest
from clients import pyhive, rows, unclosed
from databases import Database
from processes import Gateway, wait_until
from raw_session import RawSession, texts
from TCLIService import ttypes
from tiers import sampled

from gateway.service.clients.session import FETCHING_SECONDS
from gateway.wire.sasl import COMPLETE, START, negotiation

LOGIN = negotiation(START, b"PLAIN") + negotiation(COMPLETE, b"\0ada\0x")


def _logged(gateway: Gateway, text: str) -> bool:
    return text in gateway.log.read_text(encoding="utf-8")


def _dial(gateway: Gateway, *sent: bytes) -> socket.socket:
    client = socket.create_connection((gateway.host, gateway.port), timeout=60)
    for each in sent:
        client.sendall(each)
    return client


def _rest(client: socket.socket) -> bytes:
    """Returns everything received until the gateway closes the connection."""
    found = b""
    try:
        while data := client.recv(65536):
            found += data
    except ConnectionResetError:
        pass
    return found


def test_sessions_of_one_user_are_limited(start_gateway: Any) -> None:
    gateway: Gateway = start_gateway(**{"limits.sessions_per_user": 2})
    with ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(pyhive(gateway.host, gateway.port, user="ada"))
        with pytest.raises(Exception, match=r"ada has 2 open sessions; limits\.sessions_per_user"):
            stack.enter_context(pyhive(gateway.host, gateway.port, user="ada"))
        stack.enter_context(pyhive(gateway.host, gateway.port, user="eve"))
    with pyhive(gateway.host, gateway.port, user="ada") as cursor:
        assert rows(cursor, "SELECT 1") == [(1,)]


def test_rules_limit_sessions_and_statements(start_gateway: Any) -> None:
    """The long statement runs at Spark until it is cancelled; the one behind it waits, and then runs."""
    rules = ["ada: sessions 2", "* each: statements 1, queue 1"]
    gateway: Gateway = start_gateway(**{"limits.rules": json.dumps(rules)})
    with ExitStack() as stack:
        one, two = (stack.enter_context(pyhive(gateway.host, gateway.port, user="ada")) for _ in range(2))
        with pytest.raises(Exception, match=r"ada has 2 open sessions, and the rule 'ada: sessions 2'") as refusal:
            stack.enter_context(pyhive(gateway.host, gateway.port, user="ada"))
        assert "54000" in str(refusal.value)
        one.execute("SELECT count(*) FROM range(1000000000000)", async_=True)
        two.execute("SELECT 2", async_=True)
        assert "Waiting for one of 1 statements that ada may run" in "\n".join(two.fetch_logs())
        other = stack.enter_context(pyhive(gateway.host, gateway.port, user="eve"))
        assert rows(other, "SELECT used, most, waiting FROM freshgate.limits WHERE who = 'ada'") == []
        assert rows(other, "SELECT who, used FROM freshgate.limits WHERE what = 'statements'") == [("eve", 1)]
        one.cancel()
        finished = ttypes.TOperationState.FINISHED_STATE
        wait_until(lambda: two.poll().operationState == finished, what="the second statement")
        assert two.fetchall() == [(2,)]


def test_settings_of_sessions_are_forced_refused_ignored_and_hidden(start_gateway: Any) -> None:
    gateway: Gateway = start_gateway(
        **{
            "session.forced": "spark.sql.shuffle.partitions=7",
            "session.refused": "spark.sql.files.*",
            "session.ignored": "spark.sql.ansi.*",
            "session.hidden": "*warehouse*",
        }
    )
    ansi, forced = "spark.sql.ansi.enabled", ("spark.sql.shuffle.partitions", "7")
    with pyhive(gateway.host, gateway.port, configuration={ansi: "false", f"set:hiveconf:{ansi}": "false"}) as cursor:
        assert rows(cursor, "SET spark.sql.shuffle.partitions") == [forced]
        assert rows(cursor, f"SET {ansi}=false") == rows(cursor, f"SET {ansi}")
        for text in (
            "SET spark.sql.shuffle.partitions=8",
            "SET `spark.sql.shuffle.partitions`=8",
            "SET mapred.reduce.tasks=8",
            "RESET spark.sql.shuffle.partitions",
            "RESET",
            "EXECUTE IMMEDIATE 'SET spark.sql.shuffle.partitions=8'",
            "SET spark.sql.files.maxPartitionBytes=1",
            "${x}",
        ):
            with pytest.raises(Exception, match="cannot be set or reset in this session"):
                rows(cursor, text)
        assert rows(cursor, "SET spark.sql.warehouse.dir") == [("spark.sql.warehouse.dir", "<undefined>")]
        names = {row[0] for row in rows(cursor, "SET -v")}
        assert "spark.sql.shuffle.partitions" in names
        assert not [name for name in names if "warehouse" in name.lower()]
        assert rows(cursor, "SELECT '${spark.sql.warehouse.dir}'") == [("${spark.sql.warehouse.dir}",)]
        assert rows(cursor, "SET spark.sql.shuffle.partitions") == [forced]
    for key in ("spark.sql.files.maxPartitionBytes", "set:hivevar:spark.sql.shuffle.partitions"):
        with (
            pytest.raises(Exception, match="42501"),
            pyhive(gateway.host, gateway.port, configuration={key: "1"}),
        ):
            pass


def test_a_long_statement_is_refused_and_the_session_stays_open(start_gateway: Any) -> None:
    gateway: Gateway = start_gateway(**{"limits.statement_bytes": 2000})
    with pyhive(gateway.host, gateway.port) as cursor:
        with pytest.raises(Exception, match=r"has 3009 bytes; limits\.statement_bytes allows 2000") as refusal:
            rows(cursor, "SELECT '" + "é" * 1500 + "'")
        assert refusal.value.args[0].status.sqlState == "54000"
        assert rows(cursor, "SELECT 1") == [(1,)]


def test_connections_are_limited(start_gateway: Any) -> None:
    gateway: Gateway = start_gateway(**{"limits.connections": 1})
    with pyhive(gateway.host, gateway.port) as cursor:
        with pytest.raises(Exception, match="Too many connections: the gateway serves 1"):
            pyhive(gateway.host, gateway.port).__enter__()
        assert rows(cursor, "SELECT 1") == [(1,)]


def test_an_idle_connection_is_closed_with_its_session(start_gateway: Any) -> None:
    gateway: Gateway = start_gateway(**{"limits.idle_seconds": 1})
    with unclosed(gateway) as cursor:
        assert rows(cursor, "SELECT 1") == [(1,)]
        wait_until(lambda: _logged(gateway, "limits.idle_seconds"), what="the connection to be closed")
        with pytest.raises(Exception, match=r"read 0 bytes|[Cc]onnection|[Bb]roken pipe|None"):
            rows(cursor, "SELECT 1")


def test_a_connection_with_an_incomplete_request_is_closed(start_gateway: Any) -> None:
    gateway: Gateway = start_gateway(constants={"gateway.assembly.listening.WireLimits.stall_seconds": 1})
    client = _dial(gateway, LOGIN)
    assert client.recv(5) == negotiation(COMPLETE)
    client.sendall(b"\0\0\1\0" + b"\x80\1\0\1\0\0\0\x0bOpenSession")
    assert _rest(client) == b""
    client.close()
    assert _logged(gateway, "it stalled while reading or sending")


def test_a_client_that_reads_nothing_is_disconnected(start_gateway: Any) -> None:
    gateway: Gateway = start_gateway(constants={"gateway.assembly.listening.WireLimits.stall_seconds": 1})
    with unclosed(gateway) as cursor:
        cursor.execute("SELECT repeat('x', 1000) FROM range(100000)")
        handle = cursor._operationHandle
        client = cursor._connection.client
        fetch = ttypes.TFetchResultsReq(handle, ttypes.TFetchOrientation.FETCH_NEXT, 100_000)
        client.send_FetchResults(fetch)  # and never reads the reply
        wait_until(lambda: _logged(gateway, "it stalled while reading or sending"), 60, "the client to be disconnected")


def _nap(seconds: int) -> str:
    """Returns a statement that sleeps, and records its start and its end as properties of Spark's JVM."""
    sleep = f"java_method('java.lang.Thread', 'sleep', {seconds}000L)"
    return f"SELECT {_note('begun', 'yes')}, {sleep}, 7, {_note(f'ended.{seconds}', 'yes')}"


def _note(name: str, value: str) -> str:
    return f"java_method('java.lang.System', 'setProperty', 'freshgate.{name}', '{value}')"


def _noted(direct: Any, name: str) -> bool:
    return rows(direct, f"SELECT java_method('java.lang.System', 'getProperty', 'freshgate.{name}')") == [("yes",)]


def _has_begun(direct: Any) -> bool:
    return _noted(direct, "begun")


@pytest.fixture
def spark(direct: Any) -> Any:
    """A cursor on Spark, after the record of a started statement is reset."""
    rows(direct, f"SELECT {_note('begun', 'no')}")
    return direct


def test_a_stopping_gateway_waits_for_running_statements(start_gateway: Any, spark: Any) -> None:
    gateway: Gateway = start_gateway(**{"limits.drain_seconds": 60})
    nap = _nap(3)
    with unclosed(gateway) as slow, unclosed(gateway) as other, ThreadPoolExecutor(1) as pool:
        reading = pool.submit(rows, slow, nap)
        wait_until(lambda: _has_begun(spark), what="the statement to run")
        gateway.program.process.send_signal(signal.SIGTERM)
        wait_until(lambda: _logged(gateway, "stopping when"), what="the signal to be handled")
        with pytest.raises(Exception, match="being stopped") as refusal:
            rows(other, "SELECT 1")
        assert refusal.value.args[0].status.sqlState == "57P01"
        with pytest.raises(ConnectionRefusedError):
            _dial(gateway)
        assert reading.result(60)[0][2] == 7
    assert gateway.stop() == 0


def test_a_stopping_gateway_waits_until_slowly_read_rows_are_read(start_gateway: Any) -> None:
    """The Hive 2.3 driver polls the status with each row, and fetches a page when its rows are used up."""
    gateway: Gateway = start_gateway(**{"limits.drain_seconds": 60})
    with RawSession(gateway) as client:
        operation = client.execute("VALUES ('a'), ('b')", run_async=True)
        client.wait(operation)
        assert texts(client.fetch(operation, rows_max=1)) == [("a",)]
        gateway.program.process.send_signal(signal.SIGTERM)
        wait_until(lambda: _logged(gateway, "stopping when"), what="the signal to be handled")
        page_ends = time.monotonic() + 1.5 * FETCHING_SECONDS
        while time.monotonic() < page_ends:
            assert client.wait(operation) == ttypes.TOperationState.FINISHED_STATE
        assert texts(client.fetch(operation, rows_max=1)) == [("b",)]
    assert gateway.stop() == 0


@pytest.mark.thorough
def test_a_stopping_gateway_waits_for_statements_that_are_rarely_polled(start_gateway: Any, spark: Any) -> None:
    """Some clients poll the status only every 15 seconds."""
    gateway: Gateway = start_gateway(**{"limits.drain_seconds": 60})
    with RawSession(gateway) as client:
        operation = client.execute(_nap(8), run_async=True)
        wait_until(lambda: _has_begun(spark), what="the statement to run")
        gateway.program.process.send_signal(signal.SIGTERM)
        wait_until(lambda: _noted(spark, "ended.8"), what="the statement to end")
        assert client.wait(operation) == ttypes.TOperationState.FINISHED_STATE
        assert texts(client.fetch(operation, rows_max=1)) == [("no", "null", "null")]
    assert gateway.stop() == 0


@pytest.mark.parametrize("how", sampled(["timeout", "a second signal"], {"timeout"}))
def test_statements_that_do_not_end_are_aborted(start_gateway: Any, spark: Any, how: str) -> None:
    gateway: Gateway = start_gateway(**{"limits.drain_seconds": 1 if how == "timeout" else 600})
    nap = _nap(10)
    with unclosed(gateway) as slow, ThreadPoolExecutor(1) as pool:
        reading = pool.submit(rows, slow, nap)
        wait_until(lambda: _has_begun(spark), what="the statement to run")
        gateway.program.process.send_signal(signal.SIGTERM)
        wait_until(lambda: _logged(gateway, "stopping when"), what="the signal to be handled")
        if how == "a second signal":
            gateway.program.process.send_signal(signal.SIGTERM)
        assert reading.exception(60) is not None
    assert gateway.program.process.wait(30) == 0


def test_idle_sessions_do_not_delay_the_stop(database: Database, start_gateway: Any) -> None:
    gateway: Gateway = start_gateway(**{"limits.drain_seconds": 600})
    with unclosed(gateway) as cursor:
        assert rows(cursor, "SELECT 1") == [(1,)]
        assert gateway.stop() == 0
