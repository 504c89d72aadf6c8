"""Tests reads that wait for a refresh, in each driver: progress, cancellation and time-outs.

The refresh of the view takes a minute, so that no read ends by itself.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import jpype
import pytest
from clients import pyhive, rows
from databases import NAP
from drivers.contents import USER, Server
from drivers.hive_jdbc import VERSIONS, connected, outcome
from drivers.test_node_driver import session as node_session
from drivers.test_python_drivers import with_impyla
from processes import Gateway, wait_until
from TCLIService.ttypes import TOperationState
from tiers import sampled

VIEW = "waits.m"
READ = f"SELECT * FROM {VIEW}"
ONE = "SELECT 1 AS one"
STREAM = "org.apache.hive.jdbc.logs.InPlaceUpdateStream"


class Waits:
    """The view that takes a minute, with a separate cursor to observe its tasks."""

    def __init__(self, cursor: Any) -> None:
        self._cursor = cursor

    def statuses(self) -> list[str]:
        """The statuses of all its tasks, the latest one last."""
        select = (
            'SELECT Status FROM tasks("type"="mv") WHERE MvDatabaseName = \'waits\' ORDER BY CAST(TaskId AS BIGINT)'
        )
        return [status for (status,) in rows(self._cursor, select)]

    def until_it_runs(self) -> None:
        wait_until(lambda: self.statuses()[-1:] == ["RUNNING"], what="the refresh to run")

    def check_ended(self, read: Callable[[], Any]) -> Any:
        """The outcome of `read`. The refresh must be cancelled with it, because no other read waits for it. On a slow
        machine, a driver cancels before the refresh has begun."""
        before = len(self.statuses())
        outcome = read()
        wait_until(lambda: set(self.statuses()[before:]) <= {"CANCELED"}, what="the refresh to be cancelled")
        return outcome


@pytest.fixture(scope="module")
def waits(gateway: Gateway) -> Iterator[Waits]:
    with pyhive(gateway.host, gateway.port, USER) as cursor:
        for statement in (
            "CREATE DATABASE waits",
            "USE waits",
            "CREATE TABLE t USING parquet AS SELECT 60000 AS a",
            NAP,
            f"CREATE MATERIALIZED VIEW {VIEW} BUILD DEFERRED "
            "AS SELECT nap('java.lang.Thread', 'sleep', bigint(a)) AS slept FROM t",
        ):
            rows(cursor, statement)
        yield Waits(cursor)
        rows(cursor, f"DROP MATERIALIZED VIEW {VIEW}")
        rows(cursor, "DROP DATABASE waits CASCADE")


class Bar:
    """Receives the progress from which beeline draws its progress bar."""

    def __init__(self) -> None:
        loader = jpype.java.lang.Thread.currentThread().getContextClassLoader()
        self._notifier = jpype.JClass(loader.loadClass(f"{STREAM}$EventNotifier"))()
        self.stream = jpype.JProxy(jpype.JClass(loader.loadClass(STREAM)), inst=self)
        self.seen: list[list[str]] = []

    def update(self, response: Any) -> None:
        if response is not None:
            self.seen += [[str(value).strip() for value in row] for row in response.getRows()]

    def getEventNotifier(self) -> Any:
        return self._notifier


@pytest.mark.parametrize("version", sampled(VERSIONS, {"4.0.1"}))
def test_hive_jdbc_shows_progress_and_cancels(waits: Waits, through: Server, version: str) -> None:
    def read() -> tuple[Any, Any, list[list[str]], list[str]]:
        with connected(version, through.url) as connection, connection.createStatement() as statement:
            bar = Bar()
            statement.setInPlaceUpdateStream(bar.stream)

            def cancel() -> None:
                wait_until(lambda: any("RUNNING" in row for row in bar.seen), what="the bar to show the refresh")
                logged.extend(map(str, statement.getQueryLog(True, 1000)))
                statement.cancel()

            logged: list[str] = []
            other = threading.Thread(target=cancel)
            other.start()
            ended = outcome(statement.executeQuery, READ)
            other.join()
            with connection.createStatement() as following:
                return ended, outcome(following.executeQuery, ONE), bar.seen, logged

    ended, following, seen, logged = waits.check_ended(read)
    assert ended[3].startswith("Query was cancelled")
    assert following[1] == [("java.lang.Integer 1",)]
    assert all(VIEW in row[0] for row in seen)
    assert any(f"Refreshing materialized view {VIEW}" in line for line in logged)


@pytest.mark.parametrize("version", sampled(VERSIONS, {"4.0.1"}))
def test_hive_jdbc_times_out(waits: Waits, through: Server, version: str) -> None:
    def read() -> tuple[Any, Any]:
        with connected(version, through.url) as connection, connection.createStatement() as statement:
            statement.setQueryTimeout(1)
            ended = outcome(statement.executeQuery, READ)
            statement.setQueryTimeout(0)
            return ended, outcome(statement.executeQuery, ONE)

    ended, following = waits.check_ended(read)
    assert ended[0] == "java.sql.SQLTimeoutException"
    assert following[1] == [("java.lang.Integer 1",)]


def test_pyhive_cancels(waits: Waits, through: Server) -> None:
    def read() -> tuple[Any, Any]:
        with pyhive(through.host, through.port, USER) as cursor:
            cursor.execute(READ, async_=True)
            waits.until_it_runs()
            cursor.cancel()
            return cursor.poll().operationState, rows(cursor, ONE)

    assert waits.check_ended(read) == (TOperationState.CANCELED_STATE, [(1,)])


def test_impyla_cancels(waits: Waits, through: Server) -> None:
    def read() -> tuple[Any, Any]:
        with with_impyla(through) as cursor, with_impyla(through) as other:
            cursor.execute_async(READ)
            waits.until_it_runs()
            cursor.cancel_operation(reset_state=False)
            status = cursor.status()
            cursor.close_operation()
            other.execute(ONE)
            return status, other.fetchall()

    assert waits.check_ended(read) == ("CANCELED_STATE", [(1,)])


def test_the_node_driver_cancels(waits: Waits, through: Server) -> None:
    cancelled, following = waits.check_ended(lambda: node_session(through, {"sql": READ, "cancel": True}, {"sql": ONE}))
    assert cancelled["message"] == "The operation was canceled by a client"
    assert following["rows"] == [{"one": 1}]


def test_the_node_driver_times_out(waits: Waits, through: Server) -> None:
    late, following = waits.check_ended(lambda: node_session(through, {"sql": READ, "seconds": 1}, {"sql": ONE}))
    assert "failed" in late
    assert following["rows"] == [{"one": 1}]
