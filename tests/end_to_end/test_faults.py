"""Tests that after crashes no view is lost, no partial rows are shown, and nothing is left behind."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest
from clients import rows, unclosed
from databases import NAP, Database
from http_caller import Caller
from processes import Engine, Gateway, descendants, wait_until
from TCLIService import ttypes
from tiers import sampled

SLOW = (
    "SELECT sum(a) AS s, count(*) AS n, max(slept) AS slept "
    "FROM (SELECT a, nap('java.lang.Thread', 'sleep', bigint(a)) AS slept FROM t)"
)
"""Sleeps for the sum of t in milliseconds."""


SHORT_LOOPBACK = "127.1"
"""127.0.0.1 to the system. The gateway resolves no names, so it does not recognize a loopback address."""
PLANNED_SLOWLY = "levenshtein(repeat('x', 40000), repeat('y', 40000))"
"""Spark evaluates constant expressions during planning; this one takes some seconds and ignores interrupts."""
EXHAUSTING = "SELECT length(repeat('x', 2000000000))"
"""The text does not fit into Java's heap."""


def _storage_tables(cursor: Any, gateway: Gateway, database: str) -> list[str]:
    if not rows(cursor, f"SHOW DATABASES LIKE '{gateway.storage}'"):
        return []
    return [row[1] for row in rows(cursor, f"SHOW TABLES IN {gateway.storage} LIKE '{database}__*'")]


def _logged(gateway: Gateway, text: str) -> bool:
    return text in gateway.log.read_text(encoding="utf-8")


@pytest.mark.thorough
def test_after_a_kill_during_a_refresh_the_published_version_remains(
    database: Database, direct: Any, start_gateway: Any
) -> None:
    """It does not count as fresh, and the partial version is dropped."""
    gateway: Gateway = start_gateway(**{"versions.retention": 0})
    with unclosed(gateway, database.name) as cursor, ThreadPoolExecutor(1) as pool:
        rows(cursor, "CREATE TABLE t (a INT) USING parquet")
        rows(cursor, NAP)
        rows(cursor, f"CREATE MATERIALIZED VIEW m AS {SLOW}")
        rows(cursor, "INSERT INTO t VALUES (3000)")
        reading = pool.submit(rows, cursor, "SELECT s, n FROM m")
        wait_until(lambda: _logged(gateway, "Refreshing"), what="the refresh to begin")
        gateway.kill()
        assert reading.exception(30) is not None
    assert rows(direct, f"SELECT s, n FROM {database.name}.m") == [(None, 0)]
    again: Gateway = start_gateway(**{"versions.retention": 0})
    with unclosed(again, database.name) as cursor:
        (row,) = rows(cursor, "SHOW MATERIALIZED VIEWS LIKE 'm'")
        assert row[2:4] == ("STALE", 1)
        assert rows(cursor, "SELECT s, n FROM m") == [(3000, 1)]
        tables = _storage_tables(direct, gateway, database.name)
        (storage,) = [name for name in tables if not name.endswith("__definition")]
        current = rows(cursor, "SHOW MATERIALIZED VIEWS LIKE 'm'")[0][3]
        wait_until(
            lambda: rows(direct, f"SHOW PARTITIONS {gateway.storage}.{storage}") == [(f"freshgate_version={current}",)],
            what="other versions to be dropped",
        )
        rows(cursor, "DROP MATERIALIZED VIEW m")


@pytest.mark.thorough
def test_after_a_kill_during_a_creation_nothing_is_left_behind(
    database: Database, direct: Any, start_gateway: Any
) -> None:
    gateway: Gateway = start_gateway()
    with unclosed(gateway, database.name) as cursor, ThreadPoolExecutor(1) as pool:
        rows(cursor, "CREATE TABLE t (a INT) USING parquet")
        rows(cursor, "INSERT INTO t VALUES (5000)")
        rows(cursor, NAP)
        creating = pool.submit(rows, cursor, f"CREATE MATERIALIZED VIEW m AS {SLOW}")
        wait_until(lambda: len(_storage_tables(direct, gateway, database.name)) == 2, what="the storage table")
        gateway.kill()
        assert creating.exception(30) is not None
    again: Gateway = start_gateway(**{"versions.retention": 0})
    wait_until(lambda: _storage_tables(direct, gateway, database.name) == [], what="the leftovers to be dropped")
    with unclosed(again, database.name) as cursor:
        assert rows(cursor, "SHOW MATERIALIZED VIEWS") == []
        rows(cursor, "INSERT OVERWRITE t VALUES (1)")
        rows(cursor, NAP)
        rows(cursor, f"CREATE MATERIALIZED VIEW m AS {SLOW}")
        assert rows(cursor, "SELECT s FROM m") == [(1,)]
        rows(cursor, "DROP MATERIALIZED VIEW m")


@pytest.mark.thorough
@pytest.mark.parametrize("show", [True, False])
def test_after_a_kill_views_are_checked_again_before_they_count_as_fresh(
    database: Database, start_gateway: Any, show: bool
) -> None:
    """A write just before the kill is noticed; unchanged views are not recomputed."""
    gateway: Gateway = start_gateway()
    with unclosed(gateway, database.name) as cursor:
        rows(cursor, "CREATE TABLE t (a INT) USING parquet")
        rows(cursor, "CREATE MATERIALIZED VIEW m AS SELECT a FROM t")
        rows(cursor, "CREATE MATERIALIZED VIEW above AS SELECT a FROM m")
        rows(cursor, "CREATE TABLE u (a INT) USING parquet")
        rows(cursor, "CREATE MATERIALIZED VIEW same AS SELECT a FROM u")
        rows(cursor, "INSERT INTO t VALUES (1)")
        gateway.kill()
    again: Gateway = start_gateway(**{"staleness.probe_interval": 100_000})
    with unclosed(again, database.name) as cursor:

        def shown() -> dict[str, tuple[str, bool]]:
            """Returns the freshness of each view and whether it was refreshed."""
            return {row[1]: (row[2], row[3] > 1) for row in rows(cursor, "SHOW MATERIALIZED VIEWS")}

        states = (
            "SELECT name, freshness, stale_because, stale_since FROM freshgate.materialized_views "
            f"WHERE database_name = '{database.name}' ORDER BY name"
        )
        reason = "its base tables have not been observed since the gateway was started"
        below = f"the materialized view {database.name}.m may be stale: {reason}"
        reasons = {"above": below, "m": reason, "same": reason}
        assert rows(cursor, states) == [(name, "UNKNOWN", why, None) for name, why in reasons.items()]
        if show:
            # SHOW observes the base tables of a few views.
            assert shown() == {"above": ("STALE", False), "m": ("STALE", False), "same": ("FRESH", False)}
        assert rows(cursor, "SELECT a FROM above") == [(1,)]
        assert rows(cursor, "SELECT a FROM same") == []
        assert [row[1] for row in rows(cursor, states)] == ["FRESH"] * 3
        assert shown() == {"above": ("FRESH", True), "m": ("FRESH", True), "same": ("FRESH", False)}
        rows(cursor, "DROP MATERIALIZED VIEW same")
        rows(cursor, "DROP MATERIALIZED VIEW above")
        rows(cursor, "DROP MATERIALIZED VIEW m")


def test_a_stopped_gateway_cancels_its_refresh(database: Database, direct: Any, start_gateway: Any) -> None:
    """On SIGTERM clients get an error, the refresh is cancelled at Spark, and the exit code is 0."""
    gateway: Gateway = start_gateway(**{"limits.drain_seconds": 1})
    with unclosed(gateway, database.name) as cursor, ThreadPoolExecutor(1) as pool:
        rows(cursor, "CREATE TABLE t (a INT) USING parquet")
        rows(cursor, NAP)
        rows(cursor, f"CREATE MATERIALIZED VIEW m AS {SLOW}")
        rows(cursor, "INSERT INTO t VALUES (60000)")
        reading = pool.submit(rows, cursor, "SELECT s FROM m")
        wait_until(lambda: _logged(gateway, "Refreshing"), what="the refresh to begin")
        assert gateway.stop() == 0
        assert reading.exception(30) is not None
    again: Gateway = start_gateway()
    with unclosed(again, database.name) as cursor:
        rows(cursor, "INSERT OVERWRITE t VALUES (1)")
        assert rows(cursor, "SELECT s FROM m") == [(1,)]
        rows(cursor, "DROP MATERIALIZED VIEW m")


@pytest.mark.thorough
def test_a_spark_that_hangs_does_not_delay_the_stop(
    engine: Engine, database: Database, direct: Any, start_gateway: Any
) -> None:
    """The gateway abandons its sessions and its refresh at Spark before a service manager would kill it."""
    gateway: Gateway = start_gateway(**{"limits.drain_seconds": 0, "listen.http_port": 0})
    (java,) = [process for process in descendants(engine.program.process.pid) if process.name() == "java"]
    with (
        unclosed(gateway, database.name) as cursor,
        contextlib.closing(Caller(gateway.http_port)) as caller,
        ThreadPoolExecutor(1) as pool,
    ):
        caller.call("OpenSession", ttypes.TOpenSessionReq(username="ada"))
        rows(cursor, "CREATE TABLE t (a INT) USING parquet")
        rows(cursor, NAP)
        rows(cursor, f"CREATE MATERIALIZED VIEW m AS {SLOW}")
        rows(cursor, "INSERT INTO t VALUES (8000)")
        reading = pool.submit(rows, cursor, "SELECT s FROM m")
        wait_until(lambda: _logged(gateway, "Refreshing"), what="the refresh to begin")
        java.suspend()
        try:
            assert gateway.stop() == 0
        finally:
            java.resume()
        assert reading.exception(30) is not None
    assert _logged(gateway, "Spark took longer than 20 seconds to end the gateway's sessions")
    again: Gateway = start_gateway(**{"versions.retention": 0})
    with unclosed(again, database.name) as cursor:
        rows(cursor, "INSERT OVERWRITE t VALUES (1)")
        assert rows(cursor, "SELECT s FROM m") == [(1,)]
        rows(cursor, "DROP MATERIALIZED VIEW m")
    wait_until(
        lambda: _storage_tables(direct, again, database.name) == [], what="the rows of the refresh to be dropped"
    )


class _Embedded:
    """A gateway with an embedded engine that tests may kill. It assumes that other machines reach its address, and is
    configured to accept that."""

    def __init__(self, directory: Path) -> None:
        exposed = {"listen.host": SHORT_LOOPBACK, "engine.accept_user_code": "true"}
        self.gateway = Gateway(directory / "gateway.log", data_dir=directory / "data", settings=exposed)
        self._printed = directory / "data" / "engine.out"

    def java(self) -> psutil.Process:
        (java,) = [p for p in psutil.Process(self.gateway.pid).children(recursive=True) if p.name() == "java"]
        return java

    def threads(self) -> list[str]:
        """Returns the name and stack of each of Spark's threads. Java prints them on SIGQUIT."""
        before = len(self._dumped())
        self.java().send_signal(signal.SIGQUIT)
        wait_until(lambda: "JNI global refs" in self._dumped()[before:], what="Java's thread dump")
        return self._dumped()[before:].split("\n\n")

    def _dumped(self) -> str:
        return self._printed.read_text(encoding="utf-8", errors="replace")


@pytest.fixture(scope="module")
def embedded(spark_server: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[_Embedded]:
    running = _Embedded(tmp_path_factory.mktemp("embedded"))
    yield running
    running.gateway.stop()


def _rows_after_restart(cursor: Any, sql: str) -> list[tuple[Any, ...]]:
    """Repeats the statement until Spark runs again, and returns its rows."""
    found: list[list[tuple[Any, ...]]] = []

    def answered() -> bool:
        try:
            found.append(rows(cursor, sql))
        except Exception as error:
            if "08S01" not in str(error):
                raise
            return False
        return True

    wait_until(answered, 90, what="Spark to run again")
    return found[-1]


@pytest.mark.thorough
def test_an_engine_that_other_machines_reach_is_logged(embedded: _Embedded) -> None:
    log = embedded.gateway.log.read_text(encoding="utf-8")
    assert "WARNING" in log
    assert SHORT_LOOPBACK in log


@pytest.mark.thorough
def test_a_statement_cancelled_during_planning_submits_no_job(embedded: _Embedded) -> None:
    """Its thread at Spark ends with the planning; the job, which would take hours, is never submitted."""
    with unclosed(embedded.gateway) as cursor:
        statement = f"SELECT count(*) FROM range(1000000000000) WHERE id % {PLANNED_SLOWLY} = -1"
        cursor.execute(statement, async_=True)

        def planned_now() -> list[str]:
            return [each for each in embedded.threads() if "SparkExecuteStatementOperation" in each]

        wait_until(lambda: any("levenshtein" in each for each in planned_now()), 90, "Spark to plan the statement")
        cursor.cancel()
        wait_until(lambda: not planned_now(), 180, "the statement's thread to end")
        wait_until(
            lambda: not any("TaskRunner" in each for each in embedded.threads()), 90, "the statement's tasks to end"
        )
        assert rows(cursor, "SELECT 1") == [(1,)]


def _kill(embedded: _Embedded) -> None:
    os.kill(embedded.java().pid, signal.SIGKILL)


def _exhaust(embedded: _Embedded) -> None:
    with unclosed(embedded.gateway) as cursor, pytest.raises(Exception, match="08S01"):
        rows(cursor, EXHAUSTING)


@pytest.mark.parametrize("end", sampled([_kill, _exhaust], {"killed"}, ["killed", "out of memory"]))
def test_a_connection_survives_the_death_of_spark(embedded: _Embedded, end: Callable[[_Embedded], None]) -> None:
    """The running statement fails with a clear error; later ones of the connection run in a new session."""
    with unclosed(embedded.gateway) as cursor, ThreadPoolExecutor(1) as pool:
        rows(cursor, "DROP MATERIALIZED VIEW IF EXISTS m")
        rows(cursor, "DROP TABLE IF EXISTS t")
        rows(cursor, "CREATE TABLE t (a INT) USING parquet")
        rows(cursor, "INSERT INTO t VALUES (1)")
        rows(cursor, NAP)
        rows(cursor, f"CREATE MATERIALIZED VIEW m AS {SLOW}")
        rows(cursor, "CREATE TEMPORARY VIEW gone AS SELECT 1 AS a")
        running = pool.submit(rows, cursor, "SELECT reflect('java.lang.Thread', 'sleep', 60000L)")
        wait_until(running.running, what="the statement to run")
        end(embedded)
        error = running.exception(60)
        assert error is not None
        assert "08S01" in str(error)
        assert "temporary views" in str(error)
        assert _rows_after_restart(cursor, "SELECT s FROM m") == [(1,)]
        rows(cursor, "INSERT INTO t VALUES (2)")
        assert rows(cursor, "SELECT s FROM m") == [(3,)]
        with pytest.raises(Exception, match="TABLE_OR_VIEW_NOT_FOUND"):
            rows(cursor, "SELECT * FROM gone")


@pytest.mark.thorough
def test_the_first_statement_after_spark_died_unnoticed_fails(embedded: _Embedded) -> None:
    """The session's settings are lost, and the client must learn that."""
    with unclosed(embedded.gateway) as cursor:
        rows(cursor, "SET spark.sql.session.timeZone=Asia/Tokyo")
        old = embedded.java()
        old.kill()
        old.wait(30)
        with pytest.raises(Exception, match="08S01"):
            rows(cursor, "SELECT current_timezone()")
        assert _rows_after_restart(cursor, "SELECT 1") == [(1,)]


@pytest.mark.thorough
def test_a_view_is_refreshed_again_after_spark_died_during_a_refresh(embedded: _Embedded) -> None:
    with unclosed(embedded.gateway) as cursor, ThreadPoolExecutor(1) as pool:
        rows(cursor, "CREATE TABLE IF NOT EXISTS t (a INT) USING parquet")
        rows(cursor, NAP)
        rows(cursor, f"CREATE MATERIALIZED VIEW IF NOT EXISTS m AS {SLOW}")
        rows(cursor, "INSERT OVERWRITE t VALUES (4000)")
        begun = embedded.gateway.log.read_text(encoding="utf-8").count("Refreshing")
        reading = pool.submit(rows, cursor, "SELECT s FROM m")
        wait_until(
            lambda: embedded.gateway.log.read_text(encoding="utf-8").count("Refreshing") > begun,
            what="the refresh to begin",
        )
        os.kill(embedded.java().pid, signal.SIGKILL)
        assert "08S01" in str(reading.exception(60))
        assert _rows_after_restart(cursor, "SELECT s FROM m") == [(4000,)]
        rows(cursor, "DROP MATERIALIZED VIEW m")
        rows(cursor, "DROP TABLE t")
