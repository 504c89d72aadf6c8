"""The gateway on a cluster: Spark's standalone master with two workers, a warehouse on HDFS, and Hive's metastore as a
service on PostgreSQL."""

from __future__ import annotations

import contextlib
import json
import threading
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from clients import pyhive, rows
from cluster import LOOPBACK, Hdfs, Standalone, postgres_programs, running_hdfs, running_postgres
from databases import NAP
from jars import jar
from metastore import at_metastore, running_metastore
from processes import Gateway, free_port, wait_until
from sample_views import CLAUSES, QUERY, check_equal, create, fill, freshness, last_task

pytestmark = pytest.mark.thorough

NAPPING = "SELECT a, d, nap('java.lang.Thread', 'sleep', bigint(200)) AS nothing FROM {}.t"
"""Takes a fifth of a second for each row."""
REFRESH_SECONDS = 120.0


@dataclass
class Cluster:
    """The servers, and the gateway with the embedded engine as their client."""

    home: Path
    hdfs: Hdfs
    spark: Standalone
    metastore: int
    """The port of the metastore."""
    ui: int = field(init=False)
    """The port of the UI of Spark's driver."""
    gateway: Gateway = field(init=False)

    @property
    def log(self) -> str:
        return self.gateway.log.read_text(encoding="utf-8")

    def start(self, name: str) -> None:
        """Starts a gateway with a data directory of its own."""
        self.ui = free_port()
        spark = {
            **at_metastore(self.metastore),
            "spark.sql.warehouse.dir": f"{self.hdfs.url}/warehouse",
            "spark.executor.memory": "512m",
            "spark.executor.cores": "1",
            "spark.driver.host": LOOPBACK,
            "spark.driver.bindAddress": LOOPBACK,
            "spark.ui.enabled": "true",
            "spark.ui.port": str(self.ui),
        }
        settings: dict[str, Any] = {f"engine.{key}": value for key, value in spark.items()}
        settings |= {"engine.spark.master": self.spark.master, "engine.spark.driver.memory": "1g"}
        settings |= {"staleness.probe_interval": 0, "storage.locations": f"{self.hdfs.url}/views"}
        self.gateway = Gateway(self.home / f"{name}.log", data_dir=self.home / name, settings=settings)

    @contextlib.contextmanager
    def cursor(self) -> Iterator[Any]:
        with pyhive(self.gateway.host, self.gateway.port) as cursor:
            yield cursor

    def busy_executors(self) -> list[str]:
        """The numbers of the executors that run tasks."""
        found = []
        api = f"http://{LOOPBACK}:{self.ui}/api/v1/applications"
        (application,) = _fetched(api)
        for executor in _fetched(f"{api}/{application['id']}/executors"):
            if executor["id"] != "driver" and executor["activeTasks"]:
                found.append(executor["id"])
        return found


def _fetched(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=30) as answer:
        return json.load(answer)


@pytest.fixture(scope="module")
def cluster(spark_server: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    if postgres_programs() is None:
        pytest.skip("PostgreSQL's server is missing (Debian's package postgresql)")
    try:
        for artifact in ("postgresql", "hadoop-client-minicluster"):
            jar(artifact)
    except FileNotFoundError as error:
        pytest.skip(str(error))
    home = tmp_path_factory.mktemp("cluster")
    for name in ("hdfs", "metastore", "spark"):
        (home / name).mkdir()
    with contextlib.ExitStack() as stack:
        # Web interfaces of Spark's processes take their address from it.
        stack.enter_context(pytest.MonkeyPatch.context()).setenv("SPARK_LOCAL_IP", LOOPBACK)
        database = stack.enter_context(running_postgres())
        hdfs = stack.enter_context(running_hdfs(home / "hdfs"))
        warehouse = f"{hdfs.url}/warehouse"
        _, port = stack.enter_context(running_metastore(home / "metastore", database, warehouse))
        spark = Standalone(home / "spark")
        stack.callback(spark.stop)
        spark.start()
        running = Cluster(home, hdfs, spark, port)
        running.start("first")
        try:
            yield running
        finally:
            running.gateway.stop()


def test_views_live_on_the_cluster(cluster: Cluster) -> None:
    with cluster.cursor() as cursor:
        fill(cursor, "life")
        create(cursor, "life", *CLAUSES)
        assert cluster.hdfs.files("/warehouse/life.db/t")
        assert cluster.hdfs.files("/warehouse/freshgate_storage.db")
        check_equal(cursor, "life", *CLAUSES)
        rows(cursor, "INSERT INTO life.t VALUES (100, 'd1')")
        assert freshness(cursor, "life") == {"STALE"}
        check_equal(cursor, "life", *CLAUSES)
        assert last_task(cursor, "life", "daily") == ("PARTIAL", '["p_d1"]')
        assert last_task(cursor, "life", "merged")[0] == "INCREMENTAL"
        rows(cursor, "INSERT INTO life.t VALUES (200, 'new')")
        for view in CLAUSES:
            rows(cursor, f"REFRESH MATERIALIZED VIEW life.{view}")
        assert freshness(cursor, "life") == {"FRESH"}
        check_equal(cursor, "life", *CLAUSES)
        assert "Derby" not in cluster.log


def test_a_view_has_its_location_on_hdfs(cluster: Cluster) -> None:
    with cluster.cursor() as cursor:
        fill(cursor, "located")
        place, query = f"{cluster.hdfs.url}/views/located", QUERY.format("located")
        rows(cursor, f"CREATE MATERIALIZED VIEW located.m LOCATION '{place}' AS {query}")
        assert cluster.hdfs.files("/views/located")
        rows(cursor, "INSERT INTO located.t VALUES (100, 'd1')")
        assert sorted(rows(cursor, "SELECT * FROM located.m")) == sorted(rows(cursor, query))
        rows(cursor, "DROP MATERIALIZED VIEW located.m")


def test_files_that_bypass_the_gateway_are_noticed(cluster: Cluster) -> None:
    with cluster.cursor() as cursor:
        fill(cursor, "bypassed")
        create(cursor, "bypassed", "daily")
        (file, *_) = cluster.hdfs.files("/warehouse/bypassed.db/t/d=d2")
        cluster.hdfs.copy(file, file.replace("part-", "part-again-"))
        # Some rows of the partition are there twice.
        assert rows(cursor, "SELECT sum(n) FROM bypassed.daily")[0][0] > 30
        assert last_task(cursor, "bypassed", "daily") == ("PARTIAL", '["p_d2"]')
        check_equal(cursor, "bypassed", "daily")


def test_a_refresh_survives_the_loss_of_a_worker(cluster: Cluster) -> None:
    with cluster.cursor() as cursor, cluster.cursor() as refreshing:
        fill(cursor, "lost")
        query = NAPPING.format("lost")
        for statement in (NAP, f"CREATE MATERIALIZED VIEW lost.m AS {query}"):
            rows(cursor, statement)
        rows(cursor, "INSERT INTO lost.t SELECT CAST(id AS INT), 'more' FROM range(100, 110)")
        refresh = threading.Thread(target=rows, args=(refreshing, "REFRESH MATERIALIZED VIEW lost.m COMPLETE"))
        refresh.start()
        busy: list[str] = []

        def both_are_busy() -> bool:
            busy[:] = cluster.busy_executors()
            return len(busy) == 2

        wait_until(both_are_busy, what="tasks on both workers")
        cluster.spark.kill_worker(busy[0])
        assert refresh.is_alive()
        refresh.join(REFRESH_SECONDS)
        assert not refresh.is_alive()
        assert freshness(cursor, "lost") == {"FRESH"}
        shown = sorted(rows(cursor, "SELECT a, d FROM lost.m"))
        assert shown == sorted(rows(cursor, "SELECT a, d FROM lost.t"))
        assert len(shown) == 40


def test_another_gateway_finds_the_views_in_the_metastore(cluster: Cluster) -> None:
    """This test must be the last one, because it replaces the gateway."""
    with cluster.cursor() as cursor:
        fill(cursor, "kept")
        create(cursor, "kept", "daily", "merged")
    assert cluster.gateway.stop() == 0
    cluster.start("second")
    with cluster.cursor() as cursor:
        assert freshness(cursor, "kept") == {"FRESH"}
        check_equal(cursor, "kept", "daily", "merged")
        rows(cursor, "INSERT INTO kept.t VALUES (100, 'd1')")
        assert freshness(cursor, "kept") == {"STALE"}
        check_equal(cursor, "kept", "daily", "merged")
        assert last_task(cursor, "kept", "daily") == ("PARTIAL", '["p_d1"]')
