"""Tests on real Spark what a client sees while its statement waits for a refresh, and the refresh's settings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from clients import beeline, pyhive, rows, unclosed
from databases import Database
from fault_proxy import FaultProxy
from processes import Engine, Gateway, wait_until
from pyhive.exc import OperationalError
from tiers import EVERYTHING, sampled

PATIENCE = 120.0
NUMBERS = 3000 if EVERYTHING else 2000
SLOW = "SELECT t.d, sum(t.a) AS s, max(hash(x.id, y.id, t.a)) AS h FROM t CROSS JOIN n x CROSS JOIN n y GROUP BY t.d"
"""Keeps a core busy for at least a second per row of t; the suite's Sparks interpret it. (A view with the user-defined
function `nap` could not follow partitions, because such a function may read tables.)"""
SUM = NUMBERS * NUMBERS


PREPARED = (
    "CREATE TABLE t (a INT, d INT) USING parquet PARTITIONED BY (d)",
    f"CREATE TABLE n USING parquet AS SELECT id FROM range({NUMBERS})",
    f"CREATE MATERIALIZED VIEW m PARTITION BY (d) PROPERTIES ('refresh_partition_num' = '1') AS {SLOW}",
    "INSERT INTO t VALUES (1, 1), (1, 2)",
)
"""A view with two stale partitions, which are written one after the other."""


@pytest.fixture
def slow(database: Database) -> Database:
    database.run(*PREPARED)
    return database


def test_beeline_shows_log_and_progress_bar(slow: Database) -> None:
    url = f"jdbc:hive2://{slow.gateway.host}:{slow.gateway.port}/{slow.name}"
    done = beeline(url, "SELECT d, s FROM m ORDER BY d")
    assert [line.split("\t") for line in done.stdout.splitlines()[1:3]] == [["1", str(SUM)], ["2", str(SUM)]]
    shown = re.sub(r"\x1b\[[0-9;]*m", "", done.stderr)
    name = re.escape(f"{slow.name}.m")
    assert re.search(rf"Refreshing materialized view {name} \(\w+: .+\)", shown)
    assert re.search(rf"{name}\s+(PARTITIONS|COMPLETE)\s+RUNNING\s", shown)
    assert re.search(r"VIEWS: 0/1 .*\d+%\s+ELAPSED TIME: \d+\.\d+ s", shown)
    assert re.search(rf"Refreshed materialized view {name} in \d+\.\d+ s", shown)
    assert "Exception" not in shown


@pytest.mark.thorough
def test_beelines_progress_bar_counts_a_new_view_from_the_first_frame(slow: Database) -> None:
    url = f"jdbc:hive2://{slow.gateway.host}:{slow.gateway.port}/{slow.name}"
    shown = beeline(url, f"CREATE MATERIALIZED VIEW made AS {SLOW}").stderr
    assert f"Building materialized view {slow.name}.made" in shown
    assert "VIEWS: 0/1" in shown
    assert "VIEWS: 0/0" not in shown


@pytest.mark.thorough
def test_a_session_without_in_place_progress_has_no_bar(slow: Database) -> None:
    url = f"jdbc:hive2://{slow.gateway.host}:{slow.gateway.port}/{slow.name}?hive.server2.in.place.progress=false"
    shown = beeline(url, f"CREATE MATERIALIZED VIEW made AS {SLOW}").stderr
    assert f"Building materialized view {slow.name}.made" in shown
    assert "VIEWS:" not in shown


@pytest.mark.thorough
@pytest.mark.usefixtures("spark_server")
def test_the_statement_log_shows_partitions_and_stages(tmp_path: Path) -> None:
    """Clients without beeline's progress bar get log lines. The gateway knows the stages of its embedded Spark."""
    gateway = Gateway(tmp_path / "gateway.log", data_dir=tmp_path / "data")
    lines: list[str] = []
    try:
        with unclosed(gateway) as cursor:
            for statement in PREPARED:
                rows(cursor, statement)
            cursor.execute("SELECT d, s FROM m", async_=True)

            def ended() -> bool:
                lines.extend(cursor.fetch_logs())
                return bool(cursor.poll(get_progress_update=False).operationState == 2)

            wait_until(ended, PATIENCE)
            assert sorted(cursor.fetchall()) == [(1, SUM), (2, SUM)]
    finally:
        gateway.stop()
    counted = [line for line in lines if re.fullmatch(r"default\.m: \d of 2 partitions.*, \d+ s", line)]
    assert any(": 1 of 2 partitions" in line for line in counted), lines
    assert any(re.search(r"stage \d+ of \d+, \d+ of \d+ tasks", line) for line in counted), lines


def test_tasks_show_their_progress(slow: Database) -> None:
    with unclosed(slow.gateway, slow.name) as reader, ThreadPoolExecutor(1) as pool:
        reading = pool.submit(rows, reader, "SELECT s FROM m")
        select = (
            'SELECT Progress, NeedRefreshPartitions, CompletedPartitions, TriggeredBy FROM tasks("type"="mv") '
            f"WHERE MvDatabaseName = '{slow.name}' AND Status = 'RUNNING'"
        )
        seen: list[tuple[Any, ...]] = []

        def half() -> bool:
            seen.extend(rows(slow.cursor, select))
            return any(row[0] == "50.00% (1/2)" for row in seen)

        wait_until(half, PATIENCE, "half of the refresh")
        assert reading.exception(PATIENCE) is None
    assert ("50.00% (1/2)", '["p_1","p_2"]', '["p_1"]', "tester") in seen
    assert rows(slow.cursor, select.replace("RUNNING", "SUCCESS"))[-1][0] == "100.00% (2/2)"
    counted = select.replace("RUNNING", "SUCCESS").replace("TriggeredBy", "RowCount")
    wait_until(lambda: rows(slow.cursor, counted)[-1][3] == "2", PATIENCE, "the row count")


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("statement", "count"),
    sampled(
        [
            ("ALTER MATERIALIZED VIEW m REPLACE WITH MATERIALIZED VIEW other", 9),
            ("CREATE OR REPLACE MATERIALIZED VIEW m AS SELECT a FROM t WHERE d = 2", 7),
        ],
        {"create"},
        ["alter", "create"],
    ),
)
def test_a_waiting_read_uses_the_view_that_has_the_name_afterwards(slow: Database, statement: str, count: int) -> None:
    """The name gets another view during the wait; the reader sees that view's rows, and they are fresh."""
    slow.run(
        "CREATE MATERIALIZED VIEW other AS SELECT a FROM t",
        f"INSERT INTO t VALUES {', '.join(['(1, 2)'] * 6)}, (1, 3)",
    )
    running = f"SELECT 1 FROM tasks(\"type\"=\"mv\") WHERE MvDatabaseName = '{slow.name}' AND Status = 'RUNNING'"
    with unclosed(slow.gateway, slow.name) as reader, ThreadPoolExecutor(1) as pool:
        reading = pool.submit(rows, reader, "SELECT count(*) FROM m")
        wait_until(lambda: rows(slow.cursor, running), PATIENCE, "the refresh to begin")
        slow.run(statement)
        assert reading.result(PATIENCE) == [(count,)]


@dataclass
class Recorded:
    """A gateway, and the statements that it sends to Spark."""

    gateway: Gateway
    texts: list[str] = field(default_factory=list)


@pytest.fixture
def recorded(engine: Engine, tmp_path: Path) -> Iterator[Recorded]:
    texts: list[str] = []
    proxy = FaultProxy(engine.host, engine.port, texts.append)
    gateway = Gateway(
        tmp_path / "gateway.log", upstream=proxy.address, settings={"storage.database": "storage_of_waiting"}
    )
    yield Recorded(gateway, texts)
    gateway.stop()
    proxy.close()


def test_a_refresh_has_its_own_pool_and_settings(recorded: Recorded, database: Database, direct: Any) -> None:
    with pyhive(recorded.gateway.host, recorded.gateway.port, database=database.name) as cursor:
        rows(cursor, "CREATE TABLE t (a INT) USING parquet")
        rows(cursor, "INSERT INTO t SELECT id FROM range(100)")
        rows(
            cursor,
            "CREATE MATERIALIZED VIEW m PROPERTIES ('workload_group' = 'etl', "
            "'session.spark.sql.adaptive.enabled' = 'false', 'session.spark.sql.shuffle.partitions' = '3') "
            "AS SELECT a, count(*) AS n FROM t GROUP BY a",
        )
        ((storage,),) = rows(cursor, "SELECT storage_table FROM freshgate.materialized_views WHERE name = 'm'")
        files = rows(direct, f"SELECT count(DISTINCT _metadata.file_path) FROM {storage}")
        assert files == [(3,)]
        rows(cursor, "CREATE MATERIALIZED VIEW plain AS SELECT a, count(*) AS n FROM t GROUP BY a")
        pool = "SET `spark.sql.thriftserver.scheduler.pool`="
        sent = [
            text
            for text in recorded.texts
            if text.startswith((pool, "INSERT OVERWRITE `spark_catalog`.`storage_of_waiting`"))
        ]
        assert [text.removeprefix(pool)[:6] for text in sent] == ["`etl`", "INSERT", "`fresh", "INSERT"]
        with pytest.raises(OperationalError, match=r"shuffle\.partitions"):
            rows(
                cursor,
                "CREATE MATERIALIZED VIEW bad PROPERTIES ('session.spark.sql.shuffle.partitions' = 'many') "
                "AS SELECT a FROM t",
            )
        assert [row[1] for row in rows(cursor, "SHOW MATERIALIZED VIEWS")] == ["m", "plain"]
        for view in ("m", "plain"):
            rows(cursor, f"DROP MATERIALIZED VIEW {view}")
