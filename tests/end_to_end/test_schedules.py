"""Tests schedules on real Spark, with a clock that the test sets."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from clients import pyhive, rows
from databases import Database
from processes import Engine, Gateway, Setting, wait_until

PATIENCE = 120.0
SCHEDULES = {
    "minutes": "REFRESH AUTO ON SCHEDULE EVERY 10 MINUTE",
    "hourly": "REFRESH AUTO ON SCHEDULE EVERY 1 HOUR",
    "daily": "REFRESH COMPLETE ON SCHEDULE EVERY 1 DAY STARTS '2030-01-01 04:00:00'",
    "weekly": "REFRESH AUTO ON SCHEDULE EVERY 1 WEEK STARTS '2030-01-01 04:00:00'",
    "tokyo": "SCHEDULE CRON '0 9 * * *' AT TIME ZONE 'Asia/Tokyo'",
    "paused": "REFRESH AUTO ON SCHEDULE EVERY 10 MINUTE",
}


class Clock:
    """The gateway's time of day."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def set(self, moment: str) -> None:
        ahead = datetime.fromisoformat(moment).replace(tzinfo=UTC).timestamp() - time.time()
        replaced = self.file.with_suffix(".new")
        replaced.write_text(str(ahead), encoding="ascii")
        replaced.rename(self.file)


@pytest.fixture
def clock(tmp_path: Path) -> Clock:
    return Clock(tmp_path / "clock")


@pytest.fixture
def start(engine: Engine, clock: Clock, tmp_path: Path) -> Iterator[Callable[[], Gateway]]:
    started: list[Gateway] = []

    def begin() -> Gateway:
        log = tmp_path / f"gateway-{len(started)}.log"
        settings: dict[str, Setting] = {"storage.database": "storage_of_schedules", "jobs.time_zone": "UTC"}
        settings["jobs.watch_interval"] = 0
        started.append(Gateway(log, upstream=f"{engine.host}:{engine.port}", clock=clock.file, settings=settings))
        return started[-1]

    yield begin
    for running in started:
        running.stop()


def scheduled(cursor: Any, database: str) -> Counter[str]:
    """Counts each view's finished scheduled tasks; checks that none has failed."""
    found = rows(
        cursor,
        'SELECT MvName, Status FROM tasks("type"="mv") '
        f"WHERE MvDatabaseName = '{database}' AND TaskContext LIKE '%SYSTEM%'",
    )
    assert {status for _, status in found} <= {"SUCCESS", "RUNNING", "PENDING"}
    return Counter(name for name, status in found if status == "SUCCESS")


@pytest.mark.thorough
def test_each_schedule_runs_once_when_it_is_due(database: Database, clock: Clock, start: Callable[[], Gateway]) -> None:
    """The clock moves by minutes, days and a week, is set back, and moves while no gateway runs."""
    expected: Counter[str] = Counter()

    def have_run(cursor: Any, *due: str) -> None:
        """Waits until each of these views has one more task, however many runs were due, and the others have none."""
        expected.update(due)
        wait_until(lambda: scheduled(cursor, database.name) == expected, PATIENCE, f"a task of {due}")
        written = rows(cursor, "SELECT count(*) FROM t")
        for name in due:
            assert rows(cursor, f"SELECT n FROM {name}") == written, name

    def at(cursor: Any, moment: str, *due: str) -> None:
        rows(cursor, "INSERT INTO t VALUES (1)")
        clock.set(moment)
        # The scheduler reads the clock at least every 30 seconds, and whenever a job changes.
        rows(cursor, "RESUME MATERIALIZED VIEW JOB ON nudge")
        have_run(cursor, *due)

    clock.set("2030-01-01 00:30:00")
    gateway = start()
    with pyhive(gateway.host, gateway.port, database=database.name) as cursor:
        rows(cursor, "CREATE TABLE t (a INT) USING parquet")
        for name, schedule in SCHEDULES.items():
            rows(cursor, f"CREATE MATERIALIZED VIEW {name} {schedule} AS SELECT count(*) AS n FROM t")
        rows(cursor, "CREATE MATERIALIZED VIEW nudge REFRESH ON MANUAL AS SELECT count(*) AS n FROM t")
        rows(cursor, "PAUSE MATERIALIZED VIEW JOB ON paused")
        at(cursor, "2030-01-01 00:39:00")
        at(cursor, "2030-01-01 00:41:00", "minutes")
        at(cursor, "2030-01-01 01:31:30", "minutes", "hourly")
        at(cursor, "2030-01-01 04:00:30", "minutes", "hourly", "daily", "weekly")
        at(cursor, "2030-01-02 00:00:30", "minutes", "hourly", "tokyo")
        at(cursor, "2030-01-08 04:01:00", "minutes", "hourly", "daily", "weekly", "tokyo")
        # The clock is set back: nothing runs again immediately, and nothing waits until the old time is reached.
        at(cursor, "2030-01-05 12:00:00")
        at(cursor, "2030-01-05 12:41:00", "minutes", "hourly")
        rows(cursor, "RESUME MATERIALIZED VIEW JOB ON paused")
        at(cursor, "2030-01-05 12:45:00")
        at(cursor, "2030-01-05 12:52:00", "minutes", "paused")
        rows(cursor, "INSERT INTO t VALUES (1)")
    gateway.kill()
    clock.set("2030-01-06 01:05:00")
    gateway = start()
    with pyhive(gateway.host, gateway.port, database=database.name) as cursor:
        # After the restart, nothing records that the clock was set back after the last tasks of the other views.
        have_run(cursor, "minutes", "hourly", "paused")
        at(cursor, "2030-01-06 01:06:00")
        view = f"name = 'daily' AND database_name = '{database.name}'"
        following = f"SELECT CAST(next_refresh_time AS STRING) FROM freshgate.materialized_views WHERE {view}"
        assert rows(cursor, following) == [("2030-01-06 04:00:00",)]
        at(cursor, "2030-01-06 04:01:00", "minutes", "hourly", "daily", "paused")
        for name in [*SCHEDULES, "nudge"]:
            rows(cursor, f"DROP MATERIALIZED VIEW {name}")
