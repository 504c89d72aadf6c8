"""Another Spark application writes to the tables of the same metastore, of which the gateway hears nothing."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any

import pytest
from clients import pyhive, rows
from lake import ICEBERG, lake_archives, lake_settings
from metastore import at_metastore, running_metastore
from processes import Engine, Gateway
from pyhive.exc import Error

QUERY = "SELECT d, count(*) AS n, sum(a) AS s FROM {} GROUP BY d"


@dataclass(frozen=True)
class Two:
    """Two Spark applications with one metastore, a gateway before the first, and a cursor on each."""

    metastore: SpawnProcess
    home: Path
    through: Any
    first: Any
    second: Any

    def start(self, database: str, stored: str = "(a INT, d STRING) USING parquet PARTITIONED BY (d)") -> str:
        """A table `t` with three rows, and a view `m` on it. Returns the table's name."""
        rows(self.through, f"CREATE DATABASE {database} LOCATION '{self.home / database}'")
        table = f"{ICEBERG}.{database}.t" if "iceberg" in stored else f"{database}.t"
        rows(self.through, f"CREATE TABLE {table} {stored}")
        rows(self.through, f"INSERT INTO {table} VALUES (1, 'x'), (2, 'y'), (3, 'z')")
        rows(self.through, f"CREATE MATERIALIZED VIEW {database}.m PARTITION BY (d) AS {QUERY.format(table)}")
        return table

    def view(self, database: str) -> list[tuple[Any, ...]]:
        return sorted(rows(self.through, f"SELECT * FROM {database}.m"))

    def base(self, database: str) -> list[tuple[Any, ...]]:
        return sorted(rows(self.first, QUERY.format(f"{database}.t")))

    def freshness(self, database: str) -> str:
        return str(rows(self.through, f"SHOW MATERIALIZED VIEWS IN {database}")[0][2])

    def tasks(self, database: str) -> list[tuple[str, list[str]]]:
        """Mode and partitions of the view's tasks, the last one first."""
        found = rows(
            self.through,
            'SELECT RefreshMode, NeedRefreshPartitions FROM tasks("type"="mv") '
            f"WHERE MvDatabaseName = '{database}' ORDER BY CAST(TaskId AS BIGINT) DESC",
        )
        return [(mode, [] if names == "\\N" else json.loads(names)) for mode, names in found]


@pytest.fixture(scope="module")
def two(spark_server: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Two]:
    with contextlib.ExitStack() as stack:
        home = tmp_path_factory.mktemp("metastore")
        process, port = stack.enter_context(running_metastore(home))
        settings = {
            **at_metastore(port),
            "spark.hadoop.hive.metastore.connect.retries": "1",
            "spark.hadoop.hive.metastore.failure.retries": "1",
            "spark.hadoop.hive.exec.dynamic.partition.mode": "nonstrict",
            "spark.sql.shuffle.partitions": "1",
            **lake_settings(home / "lake"),
        }
        cursors = []
        engines = []
        for name in ("first", "second"):
            engines.append(Engine(tmp_path_factory.mktemp(name), archives=lake_archives(), **settings))
            stack.callback(engines[-1].stop)
            cursors.append(stack.enter_context(pyhive(engines[-1].host, engines[-1].port)))
        upstream = f"{engines[0].host}:{engines[0].port}"
        log = home / "gateway.log"
        gateway = Gateway(log, upstream=upstream, **{"staleness.probe_interval": 0})
        stack.callback(gateway.stop)
        through = stack.enter_context(pyhive(gateway.host, gateway.port))
        yield Two(process, home, through, *cursors)


def test_a_write_of_another_application_recomputes_what_it_touched(two: Two) -> None:
    two.start("touched")
    assert two.view("touched") == two.base("touched")
    rows(two.second, "INSERT INTO touched.t VALUES (4, 'y'), (5, 'new')")
    assert two.view("touched") == [("new", 1, 5), ("x", 1, 1), ("y", 2, 6), ("z", 1, 3)] == two.base("touched")
    assert two.tasks("touched")[0] == ("PARTIAL", ["p_new", "p_y"])
    rows(two.second, "ALTER TABLE touched.t DROP PARTITION (d = 'x')")
    rows(two.second, "INSERT OVERWRITE touched.t PARTITION (d = 'z') VALUES (6)")
    assert two.view("touched") == [("new", 1, 5), ("y", 2, 6), ("z", 1, 6)] == two.base("touched")
    assert two.tasks("touched")[0] == ("PARTIAL", ["p_x", "p_z"])


@pytest.mark.parametrize(
    ("name", "stored", "changed"),
    [
        ("csv", "(a INT, d STRING) USING csv PARTITIONED BY (d)", None),
        ("hive_text", "(a INT) PARTITIONED BY (d STRING) STORED AS TEXTFILE", None),
        ("hive_parquet", "(a INT) PARTITIONED BY (d STRING) STORED AS PARQUET", None),
        ("hive_orc", "(a INT) PARTITIONED BY (d STRING) STORED AS ORC", None),
        ("delta", "(a INT, d STRING) USING delta PARTITIONED BY (d)", "DELETE FROM {} WHERE a = 1"),
        ("iceberg", "(a INT, d STRING) USING iceberg PARTITIONED BY (d)", "UPDATE {} SET a = 7 WHERE d = 'x'"),
    ],
)
def test_tables_of_other_kinds(two: Two, name: str, stored: str, changed: str | None) -> None:
    """What one read recomputes is what the other application has touched since the read before."""
    database = f"of_{name}"
    table = two.start(database, stored)

    def check(*touched: str) -> None:
        shown = two.view(database)
        # Iceberg's tables are remembered by each session.
        rows(two.first, f"REFRESH TABLE {table}")
        assert shown == sorted(rows(two.first, QUERY.format(table)))
        assert two.tasks(database)[0] == ("PARTIAL", [f"p_{value}" for value in touched])

    rows(two.second, f"INSERT INTO {table} VALUES (4, 'y'), (5, 'new')")
    check("new", "y")
    rows(two.second, f"INSERT OVERWRITE {table} PARTITION (d = 'z') VALUES (6)")
    check("z")
    rows(two.second, changed.format(table) if changed else f"ALTER TABLE {table} DROP PARTITION (d = 'x')")
    check("x")
    rows(two.second, f"ALTER TABLE {table} ADD COLUMNS (more STRING)")
    rows(two.second, f"INSERT INTO {table} (a, d) VALUES (8, 'y')")
    rows(two.first, f"REFRESH TABLE {table}")
    assert two.view(database) == sorted(rows(two.first, QUERY.format(table)))
    rows(two.second, f"DROP TABLE {table}")
    rows(two.second, f"CREATE TABLE {table} {stored}")
    rows(two.second, f"INSERT INTO {table} VALUES (9, 'new')")
    rows(two.first, f"REFRESH TABLE {table}")
    assert two.view(database) == [("new", 1, 9)] == sorted(rows(two.first, QUERY.format(table)))
    assert two.tasks(database)[0][0] == "COMPLETE"


def test_a_read_looks_as_often_as_the_view_says(two: Two) -> None:
    two.start("seldom")
    rows(two.through, "ALTER MATERIALIZED VIEW seldom.m SET ('probe_interval' = '3600')")
    old, tasks = two.view("seldom"), two.tasks("seldom")
    rows(two.second, "INSERT INTO seldom.t VALUES (4, 'y')")
    assert two.view("seldom") == old != two.base("seldom")
    assert two.tasks("seldom") == tasks
    rows(two.through, "ALTER MATERIALIZED VIEW seldom.m SET ('probe_interval' = '0')")
    assert two.view("seldom") == two.base("seldom") != old
    assert two.tasks("seldom")[0] == ("PARTIAL", ["p_y"])


def check_not_falsely_fresh(two: Two, database: str) -> None:
    """A look has failed: a read says so, and nothing says that the view is fresh."""
    with pytest.raises(Error):
        two.view(database)
    try:
        freshness = two.freshness(database)
    except Error:
        return
    assert freshness == "UNKNOWN"


def test_files_that_are_gone_are_rows_that_are_gone(two: Two) -> None:
    two.start("removed")
    shutil.rmtree(two.home / "removed" / "t")
    assert two.view("removed") == [] == two.base("removed")
    assert two.freshness("removed") == "FRESH"


def test_a_place_that_cannot_be_looked_at(two: Two) -> None:
    two.start("nowhere")
    # Of a partition: the metastore itself refuses such a place for a table.
    rows(two.second, "ALTER TABLE nowhere.t PARTITION (d = 'y') SET LOCATION 'nofs:/x'")
    check_not_falsely_fresh(two, "nowhere")
    place = two.home / "nowhere" / "t" / "d=y"
    rows(two.second, f"ALTER TABLE nowhere.t PARTITION (d = 'y') SET LOCATION '{place}'")
    assert two.view("nowhere") == two.base("nowhere")
    assert two.freshness("nowhere") == "FRESH"


def test_without_the_metastore_no_view_is_fresh(two: Two) -> None:
    """The last one: nothing works after it."""
    two.start("lost")
    assert two.freshness("lost") == "FRESH"
    two.metastore.kill()
    two.metastore.join()
    check_not_falsely_fresh(two, "lost")
