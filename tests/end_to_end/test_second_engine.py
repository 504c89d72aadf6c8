"""Tests that the gateway finds the writes of another Spark application that uses the same metastore."""

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
from processes import Engine, Gateway, Setting
from pyhive.exc import Error
from tiers import sampled

SESSION_CATALOG = "spark.sql.catalog.spark_catalog"
FOREIGN = {
    "spark.sql.defaultCatalog": ICEBERG,
    SESSION_CATALOG: "org.apache.iceberg.spark.SparkSessionCatalog",
    f"{SESSION_CATALOG}.type": "hive",
    # Iceberg would lock tables in the metastore, which has no tables for locks.
    "spark.hadoop.iceberg.engine.hive.lock-enabled": "false",
    # As in Iceberg's documentation: views in its catalogs are then Iceberg's.
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension,"
    "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
}
QUERY = "SELECT d, count(*) AS n, sum(a) AS s FROM {} GROUP BY d"


@dataclass(frozen=True)
class One:
    """A Spark application with a metastore in another process, a gateway in front of it, and a cursor on each."""

    metastore: SpawnProcess
    settings: dict[str, str]
    home: Path
    through: Any
    first: Any

    def start(self, database: str, stored: str = "(a INT, d STRING) USING parquet PARTITIONED BY (d)") -> str:
        """Creates a table `t` with three rows and a view `m` over it; returns the table's name."""
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
        """Returns mode and partitions of the view's tasks, the last one first."""
        found = rows(
            self.through,
            'SELECT RefreshMode, NeedRefreshPartitions FROM tasks("type"="mv") '
            f"WHERE MvDatabaseName = '{database}' ORDER BY CAST(TaskId AS BIGINT) DESC",
        )
        return [(mode, [] if names == "\\N" else json.loads(names)) for mode, names in found]


@dataclass(frozen=True)
class Two(One):
    """Two applications with one metastore.

    The second gateway is only for tests with another default catalog: there Iceberg's catalog is the default, and
    Spark's session catalog is Iceberg's too.
    """

    second: Any
    """Uses Spark's session catalog as Delta implements it."""
    other_default: Any
    """Goes through the second gateway, with the default catalog of the second application."""
    second_storage: str


@dataclass(frozen=True)
class Application:
    """A Spark application and a gateway in front of it, with a cursor on each."""

    gateway: Gateway
    through: Any
    direct: Any


@contextlib.contextmanager
def application(folder: Path, settings: dict[str, str]) -> Iterator[Application]:
    with contextlib.ExitStack() as stack:
        engine = Engine(folder / "data", archives=lake_archives(), spark=settings)
        stack.callback(engine.stop)
        direct = stack.enter_context(pyhive(engine.host, engine.port))
        if "spark.sql.defaultCatalog" not in settings:
            # PyHive starts each session with USE default.
            rows(direct, f"CREATE NAMESPACE {ICEBERG}.default")
        storage = f"storage_{folder.name.rstrip('0123456789')}"
        own: dict[str, Setting] = {"staleness.probe_interval": 0, "storage.database": storage}
        gateway = Gateway(folder / "gateway.log", upstream=f"{engine.host}:{engine.port}", settings=own)
        stack.callback(gateway.stop)
        yield Application(gateway, stack.enter_context(pyhive(gateway.host, gateway.port)), direct)


@pytest.fixture(scope="module")
def one(spark_server: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[One]:
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
        first = stack.enter_context(application(tmp_path_factory.mktemp("first"), settings))
        yield One(process, settings, home, first.through, first.direct)


@pytest.fixture(scope="module")
def two(one: One, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Two]:
    with application(tmp_path_factory.mktemp("second"), {**one.settings, **FOREIGN}) as second:
        for setting in ("spark.sql.defaultCatalog=spark_catalog", f"{SESSION_CATALOG}={one.settings[SESSION_CATALOG]}"):
            rows(second.direct, f"SET {setting}")
        rows(second.direct, "USE spark_catalog.default")
        found = (second.direct, second.through, second.gateway.storage)
        yield Two(one.metastore, one.settings, one.home, one.through, one.first, *found)


@pytest.mark.thorough
def test_a_write_of_another_application_recomputes_the_changed_partitions(two: Two) -> None:
    two.start("touched")
    assert two.view("touched") == two.base("touched")
    rows(two.second, "INSERT INTO touched.t VALUES (4, 'y'), (5, 'new')")
    assert two.view("touched") == [("new", 1, 5), ("x", 1, 1), ("y", 2, 6), ("z", 1, 3)] == two.base("touched")
    assert two.tasks("touched")[0] == ("PARTIAL", ["p_new", "p_y"])
    rows(two.second, "ALTER TABLE touched.t DROP PARTITION (d = 'x')")
    rows(two.second, "INSERT OVERWRITE touched.t PARTITION (d = 'z') VALUES (6)")
    assert two.view("touched") == [("new", 1, 5), ("y", 2, 6), ("z", 1, 6)] == two.base("touched")
    assert two.tasks("touched")[0] == ("PARTIAL", ["p_x", "p_z"])


KINDS = [
    ("csv", "(a INT, d STRING) USING csv PARTITIONED BY (d)", None),
    ("hive_text", "(a INT) PARTITIONED BY (d STRING) STORED AS TEXTFILE", None),
    ("hive_parquet", "(a INT) PARTITIONED BY (d STRING) STORED AS PARQUET", None),
    ("hive_orc", "(a INT) PARTITIONED BY (d STRING) STORED AS ORC", None),
    ("delta", "(a INT, d STRING) USING delta PARTITIONED BY (d)", "DELETE FROM {} WHERE a = 1"),
    ("iceberg", "(a INT, d STRING) USING iceberg PARTITIONED BY (d)", "UPDATE {} SET a = 7 WHERE d = 'x'"),
]


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "stored", "changed"), KINDS, ids=[kind[0] for kind in KINDS])
def test_a_read_recomputes_what_changed_since_the_last_read(
    two: Two, name: str, stored: str, changed: str | None
) -> None:
    database = f"of_{name}"
    table = two.start(database, stored)

    def check(*touched: str) -> None:
        shown = two.view(database)
        # Each session caches Iceberg's tables.
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


@pytest.mark.thorough
def test_reads_observe_tables_at_the_views_probe_interval(two: Two) -> None:
    two.start("seldom")
    rows(two.through, "ALTER MATERIALIZED VIEW seldom.m SET ('probe_interval' = '3600')")
    old, tasks = two.view("seldom"), two.tasks("seldom")
    rows(two.second, "INSERT INTO seldom.t VALUES (4, 'y')")
    assert two.view("seldom") == old != two.base("seldom")
    assert two.tasks("seldom") == tasks
    rows(two.through, "ALTER MATERIALIZED VIEW seldom.m SET ('probe_interval' = '0')")
    assert two.view("seldom") == two.base("seldom") != old
    assert two.tasks("seldom")[0] == ("PARTIAL", ["p_y"])


CATALOGS = [
    ("spark_catalog.{}.p", "parquet", ICEBERG),
    ("spark_catalog.{}.i", "iceberg", "spark_catalog"),
    (f"{ICEBERG}.{{}}.i", "iceberg", ICEBERG),
]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("table", "provider", "current"),
    sampled(CATALOGS, {"Iceberg's"}, ["default", "Iceberg's", "default and base"]),
)
def test_views_work_if_another_catalog_is_the_default(two: Two, table: str, provider: str, current: str) -> None:
    """The gateway's own statements name Spark's session catalog, which may be Iceberg's."""
    database = f"catalogs_{table[0]}{provider[0]}_{current[0]}"
    table, view = table.format(database), f"spark_catalog.{database}.m"
    query = QUERY.format(table)
    for statement in (
        f"CREATE DATABASE spark_catalog.{database} LOCATION '{two.home / database}'",
        f"CREATE NAMESPACE IF NOT EXISTS {ICEBERG}.{database}",
        f"USE {current}.{database}",
        f"CREATE TABLE {table} (a INT, d STRING) USING {provider} PARTITIONED BY (d)",
        f"INSERT INTO {table} VALUES (1, 'x'), (2, 'y'), (3, 'z')",
        f"CREATE MATERIALIZED VIEW {view} PARTITION BY (d) COMMENT 'it' AS {query}",
    ):
        rows(two.other_default, statement)

    def shown() -> list[tuple[Any, ...]]:
        return sorted(rows(two.other_default, f"SELECT * FROM {view}"))

    def mode() -> tuple[str, str]:
        """Returns mode and partitions of the last task."""
        (found,) = rows(
            two.other_default,
            'SELECT RefreshMode, NeedRefreshPartitions FROM tasks("type"="mv") '
            f"WHERE MvDatabaseName = '{database}' ORDER BY CAST(TaskId AS BIGINT) DESC LIMIT 1",
        )
        return found

    assert shown() == [("x", 1, 1), ("y", 1, 2), ("z", 1, 3)]
    rows(two.other_default, f"INSERT INTO {table} VALUES (4, 'y')")
    assert shown() == [("x", 1, 1), ("y", 2, 6), ("z", 1, 3)]
    assert mode() == ("PARTIAL", '["p_y"]')
    rows(two.other_default, f"INSERT INTO {table} VALUES (5, 'x')")
    rows(two.other_default, f"REFRESH MATERIALIZED VIEW {view}")
    assert rows(two.other_default, f"SHOW MATERIALIZED VIEWS IN spark_catalog.{database}")[0][2] == "FRESH"
    assert shown() == [("x", 2, 6), ("y", 2, 6), ("z", 1, 3)]
    rows(two.other_default, f"ALTER MATERIALIZED VIEW {view} RENAME TO m2")
    assert sorted(rows(two.other_default, f"SELECT n FROM {view}2")) == [(1,), (2,), (2,)]
    with pytest.raises(Error, match="is a materialized view"):
        rows(two.other_default, f"DROP TABLE {view}2")
    rows(two.other_default, f"DROP MATERIALIZED VIEW {view}2")
    assert rows(two.first, f"SHOW TABLES IN {two.second_storage} LIKE '{database}__*'") == []
    assert rows(two.first, f"SHOW VIEWS IN {database}") == []


def check_not_falsely_fresh(one: One, database: str) -> None:
    """Checks that after a failed observation a read fails, and the view is not shown as fresh."""
    with pytest.raises(Error):
        one.view(database)
    try:
        freshness = one.freshness(database)
    except Error:
        return
    assert freshness == "UNKNOWN"


@pytest.mark.thorough
def test_deleted_files_are_noticed(one: One) -> None:
    one.start("removed")
    shutil.rmtree(one.home / "removed" / "t")
    assert one.view("removed") == [] == one.base("removed")
    assert one.freshness("removed") == "FRESH"


@pytest.mark.thorough
def test_a_view_over_a_location_that_cannot_be_listed_is_not_fresh(two: Two) -> None:
    two.start("nowhere")
    # The location is a partition's: the metastore refuses such a location for a table.
    rows(two.second, "ALTER TABLE nowhere.t PARTITION (d = 'y') SET LOCATION 'nofs:/x'")
    check_not_falsely_fresh(two, "nowhere")
    original = two.home / "nowhere" / "t" / "d=y"
    rows(two.second, f"ALTER TABLE nowhere.t PARTITION (d = 'y') SET LOCATION '{original}'")
    assert two.view("nowhere") == two.base("nowhere")
    assert two.freshness("nowhere") == "FRESH"


def test_without_the_metastore_no_view_is_fresh(one: One) -> None:
    """This test must be the last one, because it stops the metastore."""
    one.start("lost")
    assert one.freshness("lost") == "FRESH"
    one.metastore.kill()
    one.metastore.join()
    check_not_falsely_fresh(one, "lost")
