"""The gateway with tables and views on S3: with Spark's own commits, which move files, and with S3A's committer."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from clients import pyhive, rows
from databases import NAP
from processes import START_SECONDS, Gateway, descendants, wait_until
from pyhive.exc import OperationalError
from s3 import MOVED, URL, Store, running_store
from sample_views import CLAUSES, QUERY, check_equal, create, fill, freshness, last_task

pytestmark = pytest.mark.thorough

COMMITS: dict[str, dict[str, str]] = {"moved": MOVED, "magic": {}}
STORAGE = "warehouse/freshgate_storage.db"


@dataclass
class Lake:
    """A gateway with the embedded engine, whose warehouse is on S3."""

    home: Path
    store: Store
    commits: str
    gateway: Gateway = field(init=False)

    @property
    def log(self) -> str:
        return self.gateway.log.read_text(encoding="utf-8")

    def start(self, name: str) -> None:
        spark = {**self.store.spark_settings(), **COMMITS[self.commits]}
        settings: dict[str, Any] = {f"engine.{key}": value for key, value in spark.items()}
        settings |= {"engine.spark.driver.memory": "1g", "staleness.probe_interval": 0, "versions.retention": 0}
        settings |= {"storage.locations": f"{URL}/views"}
        self.gateway = Gateway(self.home / f"{name}.log", data_dir=self.home / "data", settings=settings)

    @contextlib.contextmanager
    def cursor(self) -> Iterator[Any]:
        with pyhive(self.gateway.host, self.gateway.port) as cursor:
            yield cursor


@pytest.fixture(scope="module", params=list(COMMITS))
def lake(
    request: pytest.FixtureRequest, spark_server: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Lake]:
    home = tmp_path_factory.mktemp("lake")
    with running_store(home) as store:
        running = Lake(home, store, request.param)
        try:
            running.start("first")
        except FileNotFoundError as error:
            pytest.skip(str(error))
        try:
            yield running
        finally:
            running.gateway.stop()


def versions(store: Store, view: str) -> set[str]:
    """The versions that have files on S3, of the views of this name."""
    parts = [key.removeprefix(f"{STORAGE}/").split("/") for key in store.files(STORAGE)]
    return {part[1].removeprefix("freshgate_version=") for part in parts if f"__{view}__" in part[0]}


def test_views_live_on_s3(lake: Lake) -> None:
    with lake.cursor() as cursor:
        fill(cursor, "life")
        create(cursor, "life", *CLAUSES)
        assert lake.store.files("warehouse/life.db/t")
        check_equal(cursor, "life", *CLAUSES)
        rows(cursor, "INSERT INTO life.t VALUES (100, 'd1')")
        assert freshness(cursor, "life") == {"STALE"}
        check_equal(cursor, "life", *CLAUSES)
        assert last_task(cursor, "life", "daily") == ("PARTIAL", '["p_d1"]')
        assert last_task(cursor, "life", "merged")[0] == "INCREMENTAL"
        rows(cursor, "INSERT INTO life.t VALUES (200, 'new')")
        check_equal(cursor, "life", *CLAUSES)
        assert last_task(cursor, "life", "daily") == ("PARTIAL", '["p_new"]')
        rows(cursor, "ALTER TABLE life.t DROP PARTITION (d = 'd2')")
        rows(cursor, "ALTER MATERIALIZED VIEW life.merged REFRESH AUTO")
        check_equal(cursor, "life", *CLAUSES)
        rows(cursor, "INSERT OVERWRITE life.t PARTITION (d = 'd1') VALUES (7)")
        assert freshness(cursor, "life") == {"STALE"}
        check_equal(cursor, "life", *CLAUSES)
        rows(cursor, "TRUNCATE TABLE life.t")
        check_equal(cursor, "life", *CLAUSES)
        assert rows(cursor, "SELECT * FROM life.daily") == []
        assert freshness(cursor, "life") == {"FRESH"}
        assert "ERROR" not in lake.log


def test_replaced_versions_leave_no_objects(lake: Lake) -> None:
    with lake.cursor() as cursor:
        fill(cursor, "kept")
        create(cursor, "kept", "plain", "daily")
        for number in range(3):
            rows(cursor, f"INSERT INTO kept.t VALUES ({number}, 'd0')")
            check_equal(cursor, "kept", "plain", "daily")
        current = {str(row[0]) for row in rows(cursor, "SHOW MATERIALIZED VIEW VERSIONS kept.plain")}
        wait_until(lambda: len(versions(lake.store, "plain")) == 1, what="old versions to be dropped")
        assert versions(lake.store, "plain") <= current
        # Partitions that no refresh has replaced stay in the version that wrote them.
        wait_until(lambda: len(versions(lake.store, "daily")) == 2, what="old partitions to be dropped")
        check_equal(cursor, "kept", "plain", "daily")
        for view in ("plain", "daily"):
            rows(cursor, f"DROP MATERIALIZED VIEW kept.{view}")
            assert versions(lake.store, view) == set()


def test_a_view_has_its_location_on_s3(lake: Lake) -> None:
    with lake.cursor() as cursor:
        fill(cursor, "located")
        query = QUERY.format("located")
        rows(cursor, f"CREATE MATERIALIZED VIEW located.m LOCATION '{URL}/views/located' AS {query}")
        assert lake.store.files("views/located")
        rows(cursor, "INSERT INTO located.t VALUES (100, 'd1')")
        assert sorted(rows(cursor, "SELECT * FROM located.m")) == sorted(rows(cursor, query))
        rows(cursor, "REFRESH MATERIALIZED VIEW located.m")
        assert sorted(rows(cursor, "SELECT * FROM located.m")) == sorted(rows(cursor, query))
        rows(cursor, "TRUNCATE TABLE located.t")
        assert rows(cursor, "SELECT * FROM located.m") == []
        rows(cursor, "DROP MATERIALIZED VIEW located.m")
        assert lake.store.files("views/located") == []


def test_objects_that_bypass_the_gateway_are_noticed(lake: Lake) -> None:
    with lake.cursor() as cursor:
        fill(cursor, "bypassed")
        create(cursor, "bypassed", "daily")
        (file, *_) = lake.store.files("warehouse/bypassed.db/t/d=d2")
        again = file.replace("part-", "part-again-")
        lake.store.copy(file, again)
        # Some rows of the partition are there twice.
        assert rows(cursor, "SELECT sum(n) FROM bypassed.daily")[0][0] > 30
        assert last_task(cursor, "bypassed", "daily") == ("PARTIAL", '["p_d2"]')
        check_equal(cursor, "bypassed", "daily")
        lake.store.remove(again)
        check_equal(cursor, "bypassed", "daily")
        assert rows(cursor, "SELECT sum(n) FROM bypassed.daily")[0][0] == 30
        # S3 has no directories: a partition without objects has nothing at its location.
        for key in lake.store.files("warehouse/bypassed.db/t/d=d2"):
            lake.store.remove(key)
        check_equal(cursor, "bypassed", "daily")
        assert rows(cursor, "SELECT sum(n) FROM bypassed.daily")[0][0] == 20


def test_dynamic_overwrites_need_commits_that_move_files(lake: Lake) -> None:
    overwrite = "INSERT OVERWRITE dynamic.t SELECT 7, 'd1'"
    with lake.cursor() as cursor:
        fill(cursor, "dynamic")
        create(cursor, "dynamic", "daily")
        rows(cursor, "SET spark.sql.sources.partitionOverwriteMode=dynamic")
        if lake.commits == "magic":
            with pytest.raises(OperationalError, match="dynamic"):
                rows(cursor, overwrite)
        else:
            rows(cursor, overwrite)
            assert rows(cursor, "SELECT n, s FROM dynamic.daily WHERE d = 'd1'") == [(1, 7)]
            assert last_task(cursor, "dynamic", "daily") == ("PARTIAL", '["p_d1"]')
        check_equal(cursor, "dynamic", "daily")


def test_tables_of_other_formats_and_paths_are_observed(lake: Lake) -> None:
    sources = {"csv": "USING csv", "hive": "STORED AS TEXTFILE", "orc": "USING orc"}
    with lake.cursor() as cursor:
        for statement in ("CREATE DATABASE formats", "USE formats"):
            rows(cursor, statement)
        for name, clause in sources.items():
            rows(cursor, f"CREATE TABLE {name} (a INT) {clause}")
            rows(cursor, f"INSERT INTO {name} VALUES (1)")
        relations = {**{name: name for name in sources}, "path": f"csv.`{URL}/warehouse/formats.db/csv`"}
        for name, relation in relations.items():
            rows(cursor, f"CREATE MATERIALIZED VIEW of_{name} AS SELECT count(*) AS n FROM {relation}")
        for name in sources:
            rows(cursor, f"INSERT INTO {name} VALUES (2), (3)")
        for name in relations:
            assert rows(cursor, f"SELECT n FROM of_{name}") == [(3,)], name
        assert freshness(cursor, "formats") == {"FRESH"}
        for name in sources:
            (file, *_) = lake.store.files(f"warehouse/formats.db/{name}")
            lake.store.copy(file, file.replace("part-", "part-again-", 1))
        for name, relation in relations.items():
            assert rows(cursor, f"SELECT n FROM of_{name}") == rows(cursor, f"SELECT count(*) FROM {relation}"), name


def test_the_loss_of_spark_during_a_refresh_leaves_the_old_version(lake: Lake) -> None:
    running = "SELECT Status FROM tasks(\"type\"=\"mv\") WHERE MvDatabaseName = 'lost' AND Status = 'RUNNING'"
    query = "SELECT a, d, nap('java.lang.Thread', 'sleep', bigint(200)) AS nothing FROM lost.t"
    with lake.cursor() as cursor:
        fill(cursor, "lost")
        for statement in (NAP, f"CREATE MATERIALIZED VIEW lost.m WHEN STALE SERVE AS {query}"):
            rows(cursor, statement)
        rows(cursor, "INSERT INTO lost.t SELECT CAST(id AS INT), 'more' FROM range(100, 120)")
        rows(cursor, "REFRESH MATERIALIZED VIEW lost.m ASYNC")
        wait_until(lambda: rows(cursor, running), what="a refresh")
        (java,) = [process for process in descendants(lake.gateway.pid) if process.name() == "java"]
        java.kill()

    def answers() -> bool:
        with contextlib.suppress(Exception), lake.cursor() as cursor:
            return len(rows(cursor, "SELECT 1")) == 1
        return False

    wait_until(answers, START_SECONDS, "another Spark")
    with lake.cursor() as cursor:
        assert len(rows(cursor, "SELECT a FROM lost.m")) in {30, 50}
        rows(cursor, "REFRESH MATERIALIZED VIEW lost.m")
        shown = sorted(rows(cursor, "SELECT a, d FROM lost.m"))
        assert shown == sorted(rows(cursor, "SELECT a, d FROM lost.t"))
        assert len(shown) == 50
        wait_until(lambda: len(versions(lake.store, "m")) == 1, what="the rows of the lost refresh to be dropped")


def test_views_outlive_a_restart(lake: Lake) -> None:
    """This test must be the last one, because it replaces the gateway."""
    with lake.cursor() as cursor:
        fill(cursor, "restarted")
        create(cursor, "restarted", "daily", "merged")
    assert lake.gateway.stop() == 0
    lake.start("second")
    with lake.cursor() as cursor:
        assert freshness(cursor, "restarted") == {"FRESH"}
        rows(cursor, "INSERT INTO restarted.t VALUES (100, 'd1')")
        check_equal(cursor, "restarted", "daily", "merged")
        assert last_task(cursor, "restarted", "daily") == ("PARTIAL", '["p_d1"]')
