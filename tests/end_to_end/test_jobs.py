"""Tests refresh jobs and tasks on real Spark: schedules, ON COMMIT, queues, cancellation and retries."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from clients import pyhive, rows, unclosed
from databases import NAP, Database
from lineage_receiver import LineageReceiver
from processes import Engine, Gateway, Setting, wait_until
from pyhive.exc import OperationalError

SLOW = (
    "SELECT sum(a) AS s, max(slept) AS slept "
    "FROM (SELECT a, nap('java.lang.Thread', 'sleep', bigint(abs(a))) AS slept FROM t)"
)
"""Sleeps for the sum of the absolute values in t, in milliseconds."""


@dataclass(frozen=True)
class Task:
    id: int
    status: str
    trigger: str
    mode: str
    by: str
    error: str


class Site(Database):
    """A database at a separate gateway that runs jobs."""

    def tasks(self, view: str) -> list[Task]:
        """Returns the view's tasks, oldest first."""
        found = rows(
            self.cursor,
            'SELECT TaskId, Status, TaskContext, RefreshMode, TriggeredBy, ErrorMsg FROM tasks("type"="mv") '
            f"WHERE MvName = '{view}' AND MvDatabaseName = '{self.name}' ORDER BY CAST(TaskId AS BIGINT)",
        )
        return [Task(int(row[0]), row[1], json.loads(row[2])["triggerMode"], *row[3:]) for row in found]

    def job(self, view: str) -> tuple[str, str, str]:
        """Returns the job's type, strategy and status."""
        (found,) = rows(
            self.cursor,
            'SELECT ExecuteType, RecurringStrategy, Status FROM jobs("type"="mv") '
            f"WHERE MvName = '{view}' AND MvDatabaseName = '{self.name}'",
        )
        return found

    def state(self, view: str) -> tuple[str, str | None]:
        """Returns the freshness and the time of the next scheduled refresh."""
        (found,) = rows(
            self.cursor,
            "SELECT freshness, CAST(next_refresh_time AS STRING) FROM freshgate.materialized_views "
            f"WHERE name = '{view}' AND database_name = '{self.name}'",
        )
        return found


PATIENCE = 90.0
SETTINGS: dict[str, Setting] = {
    "storage.database": "storage_of_jobs",
    "jobs.watch_interval": 1,
    "staleness.probe_interval": 3600,
}
CONSTANTS = {
    "gateway.assembly.refreshes.RefreshJobs.allow_seconds": True,
    "gateway.assembly.refreshes.RefreshLimits.retry_wait": 0,
}


@pytest.fixture(scope="module")
def served(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    log = tmp_path_factory.mktemp("jobs") / "gateway.log"
    running = Gateway(log, upstream=f"{engine.host}:{engine.port}", constants=CONSTANTS, settings=SETTINGS)
    yield running
    running.stop()


@pytest.fixture
def site(database: Database, served: Gateway) -> Iterator[Site]:
    with pyhive(served.host, served.port, database=database.name) as cursor:
        here = Site(database.name, served, cursor)
        here.run("CREATE TABLE t (a INT) USING parquet", NAP)
        yield here
        views = [row[1] for row in rows(cursor, "SHOW MATERIALIZED VIEWS")]
        for view in views:
            here.run(f"DROP MATERIALIZED VIEW {view}")


def wait_for_rows(site: Site, view: str, expected: list[tuple[Any, ...]], columns: str = "*") -> None:
    """Waits until the view has the rows; reads do not refresh it."""
    wait_until(lambda: site.rows(f"SELECT {columns} FROM {view}") == expected, PATIENCE, f"{view} to show {expected}")


def test_a_scheduled_job_can_be_paused_cancelled_resumed_altered_and_dropped(site: Site) -> None:
    site.run(f"CREATE MATERIALIZED VIEW m REFRESH AUTO ON SCHEDULE EVERY 1 SECOND AS {SLOW}")
    assert site.job("m")[0] == "RECURRING"
    assert site.job("m")[1].startswith("EVERY 1 SECOND")
    assert site.job("m")[2] == "RUNNING"
    site.run("INSERT INTO t VALUES (1)")
    wait_for_rows(site, "m", [(1,)], "s")
    scheduled = next(task for task in site.tasks("m") if task.trigger == "SYSTEM" and task.mode == "COMPLETE")
    assert scheduled.status == "SUCCESS"
    assert scheduled.by.startswith("EVERY 1 SECOND")

    site.run("PAUSE MATERIALIZED VIEW JOB ON m", "INSERT INTO t VALUES (2)")
    assert site.job("m")[2] == "PAUSED"
    assert site.state("m") == ("STALE", None)
    wait_until(lambda: all(task.status == "SUCCESS" for task in site.tasks("m")), PATIENCE, "the last task to end")
    before = len(site.tasks("m"))
    assert site.rows("SELECT s FROM m") == [(1,)]
    site.run("REFRESH MATERIALIZED VIEW m")
    assert site.rows("SELECT s FROM m") == [(3,)]
    assert [task.trigger for task in site.tasks("m")][before:] == ["MANUAL"]

    site.run("INSERT INTO t VALUES (60000)")
    ((task,),) = rows(site.cursor, "REFRESH MATERIALIZED VIEW m ASYNC")
    wait_until(lambda: site.tasks("m")[-1].status == "RUNNING", PATIENCE, "the task to run")
    site.run(f"CANCEL MATERIALIZED VIEW TASK {task} ON m")
    last = site.tasks("m")[-1]
    assert (last.id, last.status, last.error) == (task, "CANCELED", "cancelled by tester")
    assert site.rows("SELECT s FROM m") == [(3,)]

    site.run("INSERT OVERWRITE t VALUES (1), (2), (3)", "RESUME MATERIALIZED VIEW JOB ON m")
    assert site.job("m")[2] == "RUNNING"
    wait_for_rows(site, "m", [(6,)], "s")

    site.run("ALTER MATERIALIZED VIEW m REFRESH COMPLETE ON SCHEDULE EVERY 1 DAY STARTS '2030-01-31 04:00:00'")
    assert site.job("m") == ("RECURRING", "EVERY 1 DAY STARTS 2030-01-31 04:00:00", "RUNNING")
    assert site.state("m")[1] == "2030-01-31 04:00:00"
    site.run("ALTER MATERIALIZED VIEW m REFRESH ON MANUAL")
    assert site.job("m") == ("MANUAL", "MANUAL TRIGGER", "RUNNING")
    site.run("DROP MATERIALIZED VIEW m")
    assert rows(site.cursor, f'SELECT * FROM jobs("type"="mv") WHERE MvDatabaseName = \'{site.name}\'') == []


@pytest.mark.thorough
def test_cron_schedules_run_and_when_stale_refresh_still_applies(site: Site, gateway: Gateway) -> None:
    clause = "SCHEDULE CRON '*/2 * * * * ?' AT TIME ZONE 'Asia/Tokyo'"
    site.run(f"CREATE MATERIALIZED VIEW m {clause} AS SELECT count(*) AS n FROM t", "INSERT INTO t VALUES (1)")
    wait_for_rows(site, "m", [(1,)])
    assert site.state("m")[1] is not None
    assert "SYSTEM" in {task.trigger for task in site.tasks("m")}
    # With WHEN STALE REFRESH a read does not wait for the schedule.
    later = "REFRESH ON SCHEDULE EVERY 1 DAY WHEN STALE REFRESH"
    site.run(f"CREATE MATERIALIZED VIEW warm {later} AS SELECT count(*) AS n FROM t", "INSERT INTO t VALUES (2)")
    assert site.rows("SELECT * FROM warm") == [(2,)]
    assert site.tasks("warm")[-1].trigger == "READ"
    refused = pytest.raises(OperationalError, match="can not be second")
    with pyhive(gateway.host, gateway.port, database=site.name) as plain, refused:
        rows(plain, f"CREATE MATERIALIZED VIEW no {clause} AS SELECT count(*) AS n FROM t")


@pytest.mark.thorough
def test_on_commit_refreshes_after_writes_and_after_refreshes_of_lower_views(site: Site) -> None:
    site.run(
        "CREATE MATERIALIZED VIEW low REFRESH ON COMMIT AS SELECT count(*) AS n FROM t",
        "CREATE MATERIALIZED VIEW plain AS SELECT n FROM low",
        "CREATE MATERIALIZED VIEW top REFRESH ON COMMIT AS SELECT n + 1 AS n FROM plain",
        "INSERT INTO t VALUES (1)",
    )
    wait_for_rows(site, "top", [(2,)])
    assert site.rows("SELECT * FROM low") == [(1,)]
    assert {task.trigger for task in site.tasks("low")} == {"MANUAL", "COMMIT"}
    # The background check may run before the end of the write is noted.
    assert site.tasks("low")[1].by in {f"{site.name}.t", "a check of its base tables"}
    site.run("PAUSE MATERIALIZED VIEW JOB ON low", "INSERT INTO t VALUES (2)")
    assert site.state("low")[0] == "STALE"
    site.run("REFRESH MATERIALIZED VIEW low")
    wait_for_rows(site, "top", [(3,)])


def test_changes_made_directly_at_spark_are_found_in_the_background(site: Site, direct: Any) -> None:
    site.run("CREATE MATERIALIZED VIEW m REFRESH ON COMMIT AS SELECT count(*) AS n FROM t")
    rows(direct, f"INSERT INTO {site.name}.t VALUES (1)")
    wait_for_rows(site, "m", [(1,)])
    assert site.tasks("m")[-1].by == "a check of its base tables"


@pytest.mark.thorough
def test_a_failed_on_commit_refresh_is_repeated_only_after_a_change(site: Site, direct: Any) -> None:
    """The background check runs every second; a second view shows that it still runs."""
    site.run(
        "SET spark.sql.ansi.enabled=true",
        "CREATE TABLE u (a INT) USING parquet",
        "CREATE MATERIALIZED VIEW m REFRESH ON COMMIT AS SELECT sum(1 div a) AS s FROM t",
        "CREATE MATERIALIZED VIEW other REFRESH ON COMMIT AS SELECT count(*) AS n FROM u",
        "INSERT INTO t VALUES (0)",
    )
    wait_until(lambda: site.tasks("m")[-1].status == "FAILED", PATIENCE, "the task to fail")
    before = len(site.tasks("m"))
    for number in range(1, 4):
        rows(direct, f"INSERT INTO {site.name}.u VALUES ({number})")
        wait_for_rows(site, "other", [(number,)])
    assert len(site.tasks("m")) <= before + 1, "a check that began before the failure may have started one more"
    rows(direct, f"INSERT OVERWRITE {site.name}.t VALUES (1)")
    wait_for_rows(site, "m", [(1,)])


@pytest.mark.thorough
def test_at_most_one_automatic_task_waits_but_manual_ones_queue(site: Site) -> None:
    site.run(f"CREATE MATERIALIZED VIEW m REFRESH COMPLETE ON COMMIT AS {SLOW}", "INSERT INTO t VALUES (4000)")
    wait_until(lambda: site.tasks("m")[-1].status == "RUNNING", PATIENCE, "the task to run")
    (running,) = (task for task in site.tasks("m") if task.status == "RUNNING")
    site.run("INSERT INTO t VALUES (-4000)", "INSERT INTO t VALUES (1)", "INSERT INTO t VALUES (2)")
    ((first,),) = rows(site.cursor, "REFRESH MATERIALIZED VIEW m ASYNC")
    ((second,),) = rows(site.cursor, "REFRESH MATERIALIZED VIEW m ASYNC")
    waiting = [task for task in site.tasks("m") if task.status == "PENDING"]
    assert [task.trigger for task in waiting] == ["COMMIT", "MANUAL", "MANUAL"]
    assert [task.id for task in waiting[1:]] == [first, second]
    site.run(f"CANCEL MATERIALIZED VIEW TASK {first} ON m", f"CANCEL MATERIALIZED VIEW TASK {running.id} ON m")
    wait_until(lambda: all(task.status not in {"RUNNING", "PENDING"} for task in site.tasks("m")), PATIENCE, "the end")
    ended = {task.id: task for task in site.tasks("m")}
    assert [ended[each].status for each in (running.id, waiting[0].id, first, second)] == [
        *("CANCELED", "SUCCESS", "CANCELED", "SUCCESS")
    ]
    assert ended[first].error == ended[running.id].error == "cancelled by tester"
    assert site.rows("SELECT s FROM m") == [(3,)]
    with pytest.raises(OperationalError, match="no running task"):
        site.run(f"CANCEL MATERIALIZED VIEW TASK {first} ON m")


def test_a_cancelled_task_ends_at_spark_and_its_reader_gets_an_error(site: Site) -> None:
    site.run(f"CREATE MATERIALIZED VIEW m AS {SLOW}", "INSERT INTO t VALUES (60000)")
    with unclosed(site.gateway, site.name) as reader, ThreadPoolExecutor(1) as pool:
        reading = pool.submit(rows, reader, "SELECT s FROM m")
        wait_until(lambda: site.tasks("m")[-1].status == "RUNNING", PATIENCE, "the task to run")
        site.run(f"CANCEL MATERIALIZED VIEW TASK {site.tasks('m')[-1].id} ON m")
        error = str(reading.exception(20))
    assert "HY008" in error
    assert "cancelled by tester" in error
    # Both of Spark's two slots are free again.
    site.run("INSERT OVERWRITE t VALUES (1), (2)")
    assert site.rows("SELECT s FROM m") == [(3,)]


@pytest.mark.thorough
def test_a_cancelled_reader_does_not_cancel_a_manual_refresh(site: Site) -> None:
    site.run(f"CREATE MATERIALIZED VIEW m AS {SLOW}", "INSERT INTO t VALUES (2000)")
    ((task,),) = rows(site.cursor, "REFRESH MATERIALIZED VIEW m ASYNC")
    with unclosed(site.gateway, site.name) as reader:
        reader.execute("SELECT s FROM m", async_=True)
        reader.cancel()
    wait_until(lambda: site.tasks("m")[-1].status == "SUCCESS", PATIENCE, "the task to end")
    assert site.tasks("m")[-1].id == task


@pytest.mark.thorough
def test_refreshes_wait_for_a_slot_and_end_at_the_timeout(database: Database, start_gateway: Any) -> None:
    """The second refresh waits for the first, and runs when the first is cancelled."""
    constants = {"gateway.assembly.refreshes.RefreshLimits.retries": 0}
    limits = {"refresh.max_concurrent": 1, "refresh.timeout": 10, "storage.database": f"s_{database.name}"}
    gateway: Gateway = start_gateway(constants=constants, **SETTINGS | limits)
    with pyhive(gateway.host, gateway.port, database=database.name) as cursor:
        site = Site(database.name, gateway, cursor)
        site.run(
            NAP,
            "CREATE TABLE t (a INT) USING parquet",
            "CREATE TABLE u (a INT) USING parquet",
            f"CREATE MATERIALIZED VIEW long AS {SLOW}",
            "CREATE MATERIALIZED VIEW short AS SELECT count(*) AS n FROM u",
            "INSERT INTO t VALUES (60000)",
            "INSERT INTO u VALUES (1)",
            "REFRESH MATERIALIZED VIEW long ASYNC",
        )
        wait_until(lambda: site.tasks("long")[-1].status == "RUNNING", PATIENCE, "the first task to run")
        site.run("REFRESH MATERIALIZED VIEW short ASYNC")
        assert (site.tasks("long")[-1].status, site.tasks("short")[-1].status) == ("RUNNING", "PENDING")
        wait_until(lambda: site.tasks("short")[-1].status == "SUCCESS", PATIENCE, "the second task")
        last = site.tasks("long")[-1]
        assert last.status == "FAILED"
        assert "took longer than 10 s and was cancelled" in last.error
        assert site.rows("SELECT n FROM short") == [(1,)]
        site.run("DROP MATERIALIZED VIEW long", "DROP MATERIALIZED VIEW short")


@pytest.mark.thorough
def test_readers_get_slots_while_a_refresh_occupies_spark(site: Site) -> None:
    """The refresh has sixty tasks on two slots; with FIFO scheduling a reader would wait for all of them."""
    nap = "nap('java.lang.Thread', 'sleep', bigint(500 * a))"
    site.run(
        "CREATE MATERIALIZED VIEW m AS SELECT max(slept) AS slept "
        f"FROM (SELECT {nap} AS slept FROM (SELECT /*+ REPARTITION(60) */ a FROM t))",
        "INSERT INTO t SELECT 1 FROM range(60)",
    )
    ((task,),) = rows(site.cursor, "REFRESH MATERIALIZED VIEW m ASYNC")
    wait_until(lambda: site.tasks("m")[-1].status == "RUNNING", PATIENCE, "the task to run")
    for _ in range(3):
        assert site.rows("SELECT count(*) FROM t") == [(60,)]
    assert site.tasks("m")[-1].status == "RUNNING"
    site.run(f"CANCEL MATERIALIZED VIEW TASK {task} ON m")


@pytest.mark.thorough
def test_runs_missed_during_downtime_run_once(database: Database, start_gateway: Any, direct: Any) -> None:
    first: Gateway = start_gateway(**SETTINGS | {"storage.database": f"s_{database.name}"})
    with pyhive(first.host, first.port, database=database.name) as cursor:
        rows(cursor, "CREATE TABLE t (a INT) USING parquet")
        rows(cursor, "CREATE MATERIALIZED VIEW m REFRESH ON SCHEDULE EVERY 2 SECOND AS SELECT count(*) AS n FROM t")
        rows(cursor, "CREATE MATERIALIZED VIEW c REFRESH ON COMMIT AS SELECT count(*) AS n FROM t")
        rows(cursor, "PAUSE MATERIALIZED VIEW JOB ON c")
        rows(cursor, "CREATE MATERIALIZED VIEW d REFRESH ON COMMIT AS SELECT count(*) AS n FROM t")
    first.kill()
    rows(direct, f"INSERT INTO {database.name}.t VALUES (1)")
    unwatched = SETTINGS | {"jobs.watch_interval": 0}
    again: Gateway = start_gateway(**unwatched | {"storage.database": f"s_{database.name}"})
    with pyhive(again.host, again.port, database=database.name) as cursor:
        site = Site(database.name, again, cursor)
        wait_for_rows(site, "m", [(1,)])
        assert (site.job("m")[2], site.job("c")[2]) == ("RUNNING", "PAUSED")
        assert site.rows("SELECT * FROM c") == [(0,)]
        wait_for_rows(site, "d", [(1,)])
        assert site.tasks("d")[-1].by == "a change before the start"
        site.run("DROP MATERIALIZED VIEW m", "DROP MATERIALIZED VIEW c", "DROP MATERIALIZED VIEW d")


@pytest.mark.thorough
def test_a_refresh_is_retried_if_the_error_may_be_temporary(site: Site, tmp_path: Path) -> None:
    """A damaged file is repaired after the retries."""
    home = tmp_path / "late"
    site.run(
        f"CREATE TABLE late (a INT) USING parquet LOCATION '{home}'",
        "INSERT INTO late VALUES (1)",
        "CREATE MATERIALIZED VIEW m REFRESH COMPLETE ON MANUAL AS SELECT sum(a) AS s FROM late",
    )
    (file,) = (path for path in home.iterdir() if path.suffix == ".parquet")
    good = file.read_bytes()
    file.with_name(f".{file.name}.crc").unlink()
    file.write_bytes(good[:-4] + b"BAD!")
    with pytest.raises(OperationalError):
        site.run("REFRESH MATERIALIZED VIEW m")
    log = site.gateway.log.read_text(encoding="utf-8")
    assert log.count(f"The refresh of materialized view {site.name}.m failed") == 3
    assert site.tasks("m")[-1].status == "FAILED"
    file.write_bytes(good)
    site.run("REFRESH MATERIALIZED VIEW m")
    assert site.tasks("m")[-1].status == "SUCCESS"


PARENT = "airflow/dag.task/01920000-0000-7000-8000-000000000001"


def test_refreshes_are_told_to_a_receiver_of_lineage(start_gateway: Callable[..., Gateway]) -> None:
    """From the first build to the last drop; and the gateway stops although the receiver does not answer any more."""
    receiver = LineageReceiver()
    gateway = start_gateway(**{"lineage.url": receiver.url, "lineage.namespace": "tests"})
    try:
        with pyhive(gateway.host, gateway.port, user="ada") as cursor:
            for text in (
                "CREATE DATABASE told",
                "USE told",
                "CREATE TABLE t (a INT, b STRING) USING parquet",
                "INSERT INTO t VALUES (1, 'x'), (2, 'y')",
                "CREATE VIEW v AS SELECT * FROM t WHERE a > 0",
                "CREATE MATERIALIZED VIEW low COMMENT 'sums' AS SELECT b, sum(a) AS s FROM v GROUP BY b",
                f"SET freshgate.lineage.parent = {PARENT}",
                "CREATE MATERIALIZED VIEW high AS SELECT max(s) AS m FROM low",
                "INSERT INTO t VALUES (3, 'z')",
                "SELECT * FROM high",
                "RESET freshgate.lineage.parent",
            ):
                rows(cursor, text)
            (location,) = {str(row[1]) for row in rows(cursor, "DESCRIBE EXTENDED t") if row[0] == "Location"}
            with pytest.raises(OperationalError):
                rows(
                    cursor,
                    "CREATE MATERIALIZED VIEW bad AS SELECT b, CAST(b AS INT) AS x FROM t WHERE b > 'password=hush'",
                )
            rows(cursor, "ALTER MATERIALIZED VIEW high RENAME TO top")
            wait_until(lambda: len(receiver.events) >= 11)
            low, high, bad = (receiver.of(f"told.{name}") for name in ("low", "high", "bad"))
            assert [each["eventType"] for each in (*low, *high, *bad)] == [*["START", "COMPLETE"] * 4, "START", "FAIL"]
            assert {each["job"]["namespace"] for each in (*low, *high)} == {"tests"}
            parents = [each["run"]["facets"].get("parent", {}).get("run", {}).get("runId") for each in (*low, *high)]
            assert parents == [None, None, *[PARENT.rpartition("/")[2]] * 6]
            (read,) = low[1]["inputs"]
            assert (read["namespace"], read["name"]) == ("file", location.removeprefix("file:"))
            (wrote,) = low[1]["outputs"]
            assert [each["name"] for each in high[3]["inputs"]] == [wrote["name"]]
            assert wrote["outputFacets"]["outputStatistics"]["rowCount"] == 2
            sources = {
                name: [(each["name"], each["field"]) for each in found["inputFields"]]
                for name, found in wrote["facets"]["columnLineage"]["fields"].items()
            }
            assert sources == {"b": [(read["name"], "b")], "s": [(read["name"], "a")]}
            (total,) = high[3]["outputs"][0]["facets"]["columnLineage"]["fields"]["m"]["inputFields"]
            assert (total["name"], total["field"]) == (wrote["name"], "s")
            assert "hush" not in str(receiver.events)
            renamed = receiver.events[-1]["dataset"]["facets"]
            assert renamed["lifecycleStateChange"]["lifecycleStateChange"] == "RENAME"
            assert renamed["symlinks"]["identifiers"][0]["name"] == "told.top"
            receiver.open.clear()
            rows(cursor, "REFRESH MATERIALIZED VIEW low")
            for name in ("top", "low"):
                rows(cursor, f"DROP MATERIALIZED VIEW {name}")
            rows(cursor, "DROP DATABASE told CASCADE")
        wait_until(lambda: len(receiver.taken) == 12)
    finally:
        began = time.monotonic()
        gateway.stop()
        stopped = time.monotonic() - began
        receiver.close()
    assert stopped < 15


def test_a_lag_refreshes_what_it_reads_and_finds_writes_past_the_gateway(site: Site, direct: Any) -> None:
    site.run(
        "CREATE MATERIALIZED VIEW low TARGET LAG DOWNSTREAM AS SELECT a FROM t WHERE a > 0",
        "CREATE MATERIALIZED VIEW top TARGET LAG '10 seconds' AS SELECT sum(a) AS s FROM low",
    )
    (created,) = site.rows("SHOW CREATE MATERIALIZED VIEW top")
    assert "\nTARGET LAG '10 seconds'\n" in created[1]
    site.run("INSERT INTO t VALUES (1), (-1)")
    wait_for_rows(site, "top", [(1,)])
    assert site.tasks("top")[-1].by == "TARGET LAG 10 seconds"
    assert site.job("top")[:2] == ("RECURRING", "TARGET LAG 10 seconds")
    rows(direct, f"INSERT INTO {site.name}.t VALUES (41)")
    wait_for_rows(site, "top", [(42,)])


@pytest.mark.thorough
def test_what_nothing_needs_waits_and_so_does_what_was_refreshed_lately(site: Site) -> None:
    site.run(
        "CREATE MATERIALIZED VIEW alone TARGET LAG DOWNSTREAM AS SELECT a FROM t",
        "CREATE MATERIALIZED VIEW m REFRESH ON COMMIT AT MOST EVERY '1 hour' AS SELECT sum(a) AS s FROM t",
        "INSERT INTO t VALUES (8)",
    )
    wait_until(lambda: site.state("m")[1], PATIENCE, "the next refresh to be planned")
    assert site.rows("SELECT s FROM m") == [(None,)]
    site.run("REFRESH MATERIALIZED VIEW m AUTO")
    assert site.rows("SELECT s FROM m") == [(8,)]
    assert site.rows("SELECT a FROM alone") == []
    assert [task.trigger for task in site.tasks("alone")] == ["MANUAL"]
    site.run("ALTER MATERIALIZED VIEW m TARGET LAG '2 seconds'", "INSERT INTO t VALUES (1)")
    wait_for_rows(site, "m", [(9,)])


def test_a_view_that_fails_again_and_again_is_paused_until_it_is_refreshed(site: Site) -> None:
    site.run(
        "CREATE TABLE gone (a INT) USING parquet",
        "CREATE MATERIALIZED VIEW m REFRESH ON SCHEDULE EVERY 1 SECOND AS SELECT sum(a) AS s FROM gone",
        "DROP TABLE gone",
    )
    wait_until(lambda: site.job("m")[2] == "PAUSED", PATIENCE, "the job to be paused")
    (shown,) = site.rows("SHOW MATERIALIZED VIEWS LIKE 'm'")
    assert shown[-1].startswith("PAUSED: 5 refreshes in a row have failed. Mend the cause, then run RESUME")
    assert site.state("m")[1] is None
    site.run("CREATE TABLE gone (a INT) USING parquet", "INSERT INTO gone VALUES (7)", "REFRESH MATERIALIZED VIEW m")
    wait_until(lambda: site.job("m")[2] == "RUNNING", PATIENCE, "the job to go on")
    site.run("INSERT INTO gone VALUES (1)")
    wait_for_rows(site, "m", [(8,)])
