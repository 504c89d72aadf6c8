"""The life of a view in front of each supported release of Spark: a Thrift server from its PySpark package, a gateway,
and a cursor on each. `FRESHGATE_TESTS=all` and `scripts/setup --spark-versions` are needed."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from clients import pyhive, rows
from databases import Database, make_database
from lake import ARCHIVES, ICEBERG, lake_archives, lake_settings
from processes import Gateway, wait_until
from pyhive.exc import OperationalError
from spark_releases import LOCKED, RELEASES, ReleaseServer, home_of
from tiers import sampled

TODAY = "SELECT day, sum(amount) AS total, count(*) AS n FROM orders GROUP BY day"
LEFT = "SHOW TABLES IN storage_restarted LIKE 'kept__*'"


@dataclass(frozen=True)
class Place:
    """A Spark of a release, and a gateway in front of it."""

    release: str
    spark: ReleaseServer
    directory: Path
    _numbers: Iterator[int]

    def gateway(self, **settings: Any) -> Gateway:
        number = next(self._numbers)
        log = self.directory / f"gateway-{number}.log"
        wanted: dict[str, Any] = {"storage.database": f"storage_{number}", "rewrite.wait": 60}
        wanted |= {"staleness.probe_interval": 0, **settings}
        return Gateway(log, upstream=f"{self.spark.host}:{self.spark.port}", settings=wanted)

    def before(self, release: str) -> bool:
        return tuple(map(int, self.release.split("."))) < tuple(map(int, release.split(".")))


@pytest.fixture(scope="module", params=sampled(RELEASES, set()))
def place(
    request: pytest.FixtureRequest, spark_server: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Place]:
    home = home_of(request.param)
    if home is None:
        pytest.skip(f"Spark {request.param} is not installed: scripts/setup --spark-versions")
    directory = tmp_path_factory.mktemp("release")
    spark = ReleaseServer(home, directory / "spark", spark={"spark.sql.shuffle.partitions": "1"})
    yield Place(request.param, spark, directory, itertools.count(1))
    spark.stop()


@pytest.fixture(scope="module", params=sampled(list(ARCHIVES), set()))
def lake(
    request: pytest.FixtureRequest, spark_server: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Any, Any]]:
    """A cursor through a gateway, and one on its Spark, which has Delta Lake and Iceberg."""
    home, directory = home_of(request.param), tmp_path_factory.mktemp("lake")
    if home is None:
        pytest.skip(f"Spark {request.param} is not installed: scripts/setup --spark-versions")
    settings = {"spark.sql.shuffle.partitions": "1", **lake_settings(directory / "lake")}
    spark = ReleaseServer(home, directory / "spark", lake_archives(request.param), spark=settings)
    own: dict[str, Any] = {"staleness.probe_interval": 0}
    with contextlib.ExitStack() as stack:
        stack.callback(spark.stop)
        gateway = Gateway(directory / "gateway.log", upstream=f"{spark.host}:{spark.port}", settings=own)
        stack.callback(gateway.stop)
        through = stack.enter_context(pyhive(gateway.host, gateway.port))
        yield through, stack.enter_context(pyhive(spark.host, spark.port))


@pytest.fixture(scope="module")
def running(place: Place) -> Iterator[Gateway]:
    gateway = place.gateway()
    yield gateway
    gateway.stop()


@pytest.fixture
def base(running: Gateway) -> Iterator[Database]:
    """A database of its own, with a table of orders by day."""
    for database in make_database(running, "r"):
        database.run(
            "CREATE TABLE orders (day STRING, amount DECIMAL(10,2)) USING parquet",
            "INSERT INTO orders VALUES ('mon', 10), ('mon', 5), ('tue', 1)",
        )
        yield database


@pytest.fixture
def direct(place: Place, base: Database) -> Iterator[Any]:
    """A cursor on Spark itself, in the same database."""
    with pyhive(place.spark.host, place.spark.port) as cursor:
        rows(cursor, f"USE {base.name}")
        yield cursor


def refused(base: Database, sql: str) -> tuple[str, str]:
    """The SQLSTATE and the message of a refused statement."""
    with pytest.raises(OperationalError) as error:
        rows(base.cursor, sql)
    status = error.value.args[0].status
    return str(status.sqlState), str(status.errorMessage)


def mode(base: Database, view: str) -> str:
    """How the last refresh of a view was done."""
    found = rows(
        base.cursor,
        'SELECT RefreshMode FROM tasks("type"="mv") '
        f"WHERE MvName = '{view}' AND MvDatabaseName = '{base.name}' ORDER BY CAST(TaskId AS BIGINT) DESC LIMIT 1",
    )
    return str(found[0][0])


def texts(found: list[tuple[Any, ...]]) -> list[tuple[str, ...]]:
    return [tuple(map(str, row)) for row in found]


def test_a_view_is_created_read_refreshed_altered_and_dropped(base: Database, direct: Any) -> None:
    base.run(f"CREATE MATERIALIZED VIEW totals COMMENT 'per day' AS {TODAY}")
    assert texts(base.rows("SELECT * FROM totals")) == [("mon", "15.00", "2"), ("tue", "1.00", "1")]
    base.run("INSERT INTO orders VALUES ('tue', 41.5)")
    assert base.freshness("totals") == "STALE"
    assert texts(base.rows("SELECT * FROM totals WHERE day = 'tue'")) == [("tue", "42.50", "2")]
    rows(direct, "INSERT INTO orders VALUES ('wed', 3)")
    assert texts(base.rows("SELECT day, n FROM totals")) == [("mon", "2"), ("tue", "2"), ("wed", "1")]
    assert texts(rows(direct, "SELECT day, n FROM totals WHERE day = 'wed'")) == [("wed", "1")]
    base.run("REFRESH MATERIALIZED VIEW totals COMPLETE")
    assert base.freshness("totals") == "FRESH"
    shown = rows(base.cursor, f"SHOW MATERIALIZED VIEWS IN {base.name}")
    assert shown[0][7:9] == (f"{base.name}.orders", "per day")
    (created,) = rows(base.cursor, "SHOW CREATE MATERIALIZED VIEW totals")
    assert "GROUP BY" in str(created)
    assert {"day", "total", "n"} <= {row[0] for row in rows(base.cursor, "DESCRIBE totals")}
    assert ("Comment", "per day") in [row[:2] for row in rows(base.cursor, "DESCRIBE EXTENDED totals")]
    base.run("ALTER MATERIALIZED VIEW totals SET ('grace_period' = '3600')")
    base.run("INSERT INTO orders VALUES ('thu', 1)")
    assert len(base.rows("SELECT * FROM totals")) == 3
    base.run("ALTER MATERIALIZED VIEW totals RENAME TO sums", "REFRESH MATERIALIZED VIEW sums")
    assert len(base.rows("SELECT * FROM sums")) == 4
    base.run("CREATE OR REPLACE MATERIALIZED VIEW sums (d COMMENT 'the day') AS SELECT DISTINCT day FROM orders")
    assert base.rows("SELECT d FROM sums") == [("mon",), ("thu",), ("tue",), ("wed",)]
    base.run("DROP MATERIALIZED VIEW sums")
    assert [row[1] for row in base.rows(f"SHOW TABLES IN {base.name}")] == ["orders"]


def test_the_clauses_of_create(base: Database) -> None:
    base.run(
        "CREATE TABLE sales (amount INT, day DATE) USING parquet PARTITIONED BY (day)",
        "INSERT INTO sales VALUES (1, DATE'2024-01-01'), (2, DATE'2024-01-02')",
        """CREATE MATERIALIZED VIEW IF NOT EXISTS m (day COMMENT 'of the order', total)
        BUILD DEFERRED REFRESH AUTO ON SCHEDULE EVERY 1 HOUR STARTS '2100-01-31 04:00:00'
        PARTITION BY (date_trunc(day, 'month')) DISTRIBUTED BY HASH(day) BUCKETS 2 USING orc COMMENT 'sums by day'
        PROPERTIES ('grace_period' = '60') AS SELECT day, sum(amount) AS total FROM sales GROUP BY day""",
    )
    base.run("REFRESH MATERIALIZED VIEW m")
    assert texts(base.rows("SELECT * FROM m")) == [("2024-01-01", "1"), ("2024-01-02", "2")]
    base.run("PAUSE MATERIALIZED VIEW JOB ON m", "RESUME MATERIALIZED VIEW JOB ON m")
    base.run(
        "CREATE MATERIALIZED VIEW u DUPLICATE KEY (day) TBLPROPERTIES ('team' = 'a, b=c') AS SELECT day FROM sales"
    )
    assert dict(base.rows("SHOW TBLPROPERTIES u"))["team"] == "a, b=c"
    base.run("CREATE MATERIALIZED VIEW inlined WHEN STALE INLINE AS SELECT count(*) AS n FROM sales")
    base.run("INSERT INTO sales VALUES (3, DATE'2024-01-02')")
    assert base.rows("SELECT n FROM inlined") == [(3,)]
    assert base.freshness("inlined") == "STALE"


STORED = {
    "parquet": "(a INT, d STRING) USING parquet",
    "orc": "(a INT, d STRING) USING orc",
    "csv": "(a INT, d STRING) USING csv OPTIONS (header 'true', sep ';')",
    "json": "(a INT, d STRING) USING json",
    "hive text": "(a INT, d STRING) STORED AS TEXTFILE",
    "hive parquet": "(a INT, d STRING) STORED AS PARQUET",
    "partitioned parquet": "(a INT, d STRING) USING parquet PARTITIONED BY (d)",
    "partitioned csv": "(a INT, d STRING) USING csv PARTITIONED BY (d)",
    "partitioned hive": "(a INT) PARTITIONED BY (d STRING) STORED AS TEXTFILE",
}


@pytest.mark.parametrize("stored", STORED.values(), ids=STORED)
def test_changes_by_others_are_noticed(base: Database, direct: Any, stored: str) -> None:
    by_day = "PARTITION BY (d) " if "PARTITIONED" in stored else ""
    base.run(
        "SET hive.exec.dynamic.partition.mode=nonstrict",
        f"CREATE TABLE t {stored}",
        "INSERT INTO t VALUES (1, 'x'), (2, 'y z')",
        f"CREATE MATERIALIZED VIEW m {by_day}AS SELECT d, sum(a) AS s FROM t GROUP BY d",
    )
    rows(direct, "SET hive.exec.dynamic.partition.mode=nonstrict")
    rows(direct, "INSERT INTO t VALUES (4, 'x'), (8, 'new')")
    assert base.rows("SELECT * FROM m") == [("new", 8), ("x", 5), ("y z", 2)]
    before = base.version("m")
    assert base.rows("SELECT * FROM m") == [("new", 8), ("x", 5), ("y z", 2)]
    assert base.version("m") == before
    if "PARTITIONED" in stored:
        rows(direct, "ALTER TABLE t DROP PARTITION (d = 'x')")
        assert base.rows("SELECT * FROM m") == [("new", 8), ("y z", 2)]
    rows(direct, "TRUNCATE TABLE t")
    assert base.rows("SELECT * FROM m") == []
    rows(direct, "DROP TABLE t")
    rows(direct, f"CREATE TABLE t {stored}")
    rows(direct, "INSERT INTO t VALUES (16, 'again')")
    assert base.rows("SELECT * FROM m") == [("again", 16)]


def test_only_changed_partitions_are_computed(base: Database, direct: Any) -> None:
    base.run(
        "CREATE TABLE t (a INT, d STRING) USING parquet PARTITIONED BY (d)",
        "INSERT INTO t VALUES (1, 'x'), (2, 'y'), (3, NULL)",
        "CREATE MATERIALIZED VIEW m PARTITION BY (d) AS SELECT d, sum(a) AS s FROM t GROUP BY d",
    )
    rows(direct, "INSERT INTO t VALUES (10, 'y')")
    base.run("REFRESH MATERIALIZED VIEW m PARTITIONS (d = 'y')")
    assert base.rows("SELECT * FROM m WHERE d = 'y'") == [("y", 12)]
    rows(direct, "INSERT INTO t VALUES (20, 'x')")
    assert base.rows("SELECT * FROM m") == [("x", 21), ("y", 12), (None, 3)]
    assert mode(base, "m") == "PARTIAL"


def test_appended_rows_are_added(base: Database, direct: Any) -> None:
    base.run(
        "CREATE TABLE t (a INT, d STRING) USING parquet PARTITIONED BY (d)",
        "INSERT INTO t VALUES (1, 'a b%20#1'), (2, 'y')",
        "CREATE MATERIALIZED VIEW f REFRESH INCREMENTAL FALLBACK AS SELECT a, upper(d) AS d FROM t WHERE a > 1",
        "CREATE MATERIALIZED VIEW g REFRESH INCREMENTAL AS SELECT d, sum(a) AS s, count(*) AS n FROM t GROUP BY d",
    )
    rows(direct, "INSERT INTO t VALUES (10, 'a b%20#1'), (20, 'z')")
    assert base.rows("SELECT * FROM f") == [(10, "A B%20#1"), (2, "Y"), (20, "Z")]
    assert base.rows("SELECT * FROM g") == [("a b%20#1", 11, 2), ("y", 2, 1), ("z", 20, 1)]
    assert (mode(base, "f"), mode(base, "g")) == ("INCREMENTAL", "INCREMENTAL")
    rows(direct, "INSERT INTO t VALUES (30, 'Zürich?')")
    assert (30, "ZÜRICH?") in base.rows("SELECT * FROM f")
    rows(direct, "TRUNCATE TABLE t")
    assert base.rows("SELECT * FROM f") == []
    assert mode(base, "f") != "INCREMENTAL"


def test_types_are_kept(place: Place, base: Database) -> None:
    values = {
        "ntz": "TIMESTAMP_NTZ'2024-01-02 03:04:05.678'",
        "ltz": "TIMESTAMP'2024-01-02 03:04:05.678'",
        "day": "DATE'2024-01-02'",
        "months": "INTERVAL '1-2' YEAR TO MONTH",
        "seconds": "INTERVAL '1 02:03:04.5' DAY TO SECOND",
        "exact": "CAST(12345678901234567890.123456789 AS DECIMAL(38, 9))",
        "nested": "named_struct('x', array(1, NULL), 'y z', map('k', 1.5D))",
        "bytes": "X'00FF'",
        "short": "CAST('ab' AS VARCHAR(5))",
        "padded": "CAST('ab' AS CHAR(5))",
        "small": "CAST(7 AS TINYINT)",
        "truth": "true",
    }
    if not place.before("4.0"):
        values["open"] = "CAST(parse_json('{\"a\": [1, null]}') AS STRING)"
    columns = ", ".join(f"{text} AS {name}" for name, text in values.items())
    base.run(f"CREATE MATERIALIZED VIEW m AS SELECT {columns} FROM orders LIMIT 1")
    assert base.rows("SELECT * FROM m") == base.rows(f"SELECT {columns}")
    kinds = {row[0]: row[1] for row in rows(base.cursor, f"DESCRIBE QUERY SELECT {columns}")}
    assert {row[0]: row[1] for row in rows(base.cursor, "DESCRIBE m")} == kinds


def test_the_settings_of_the_creator_are_kept(place: Place, base: Database) -> None:
    with pyhive(base.gateway.host, base.gateway.port) as creator:
        rows(creator, f"USE {base.name}")
        rows(creator, "SET spark.sql.session.timeZone=Asia/Tokyo")
        rows(creator, "SET spark.sql.ansi.enabled=false")
        rows(creator, "CREATE TABLE texts (t STRING, at TIMESTAMP) USING csv")
        rows(creator, "INSERT INTO texts VALUES ('x', TIMESTAMP'2024-01-01 00:00:00')")
        rows(creator, "CREATE MATERIALIZED VIEW m AS SELECT CAST(t AS INT) AS n, CAST(at AS STRING) AS at FROM texts")
        rows(creator, "INSERT INTO texts VALUES ('7', TIMESTAMP'2024-01-02 00:00:00')")
    base.run("SET spark.sql.ansi.enabled=true", "SET spark.sql.session.timeZone=UTC")
    assert base.rows("SELECT * FROM m") == [(7, "2024-01-02 00:00:00"), (None, "2024-01-01 00:00:00")]


def test_refusals_say_why(base: Database) -> None:
    base.run(f"CREATE MATERIALIZED VIEW m AS {TODAY}")
    assert refused(base, "CREATE MATERIALIZED VIEW r AS SELECT rand() AS r FROM orders")[0] == "42P16"
    state, message = refused(base, "CREATE MATERIALIZED VIEW r AS SELECT a FROM nothing")
    assert (state, "nothing" in message) == ("42P01", True)
    state, message = refused(base, "CREATE MATERIALIZED VIEW r AS SELECT absent FROM orders")
    assert (state, "absent" in message) == ("42703", True)
    assert refused(base, "CREATE MATERIALIZED VIEW r AS SELEC 1")[0] == "42601"
    assert refused(base, "CREATE MATERIALIZED VIEW m AS SELECT day FROM orders")[0] == "42P07"
    assert refused(base, "INSERT INTO m VALUES ('x', 1, 1)")[0] == "42809"
    assert refused(base, "DROP TABLE m")[0] == "42809"
    assert refused(base, "REFRESH MATERIALIZED VIEW absent")[0] == "42P01"
    assert refused(base, "CREATE MATERIALIZED VIEW r AS SELECT 1 AS one")[0] == "42P16"
    base.run("DROP TABLE orders")
    assert "orders" in refused(base, "REFRESH MATERIALIZED VIEW m")[1]


def test_a_failed_refresh_keeps_the_view(base: Database) -> None:
    base.run(
        "SET spark.sql.ansi.enabled=true",
        "CREATE MATERIALIZED VIEW m AS SELECT CAST(day AS STRING) AS day, 1 / (amount - 7) AS r FROM orders",
    )
    before = base.rows("SELECT * FROM m")
    base.run("INSERT INTO orders VALUES ('bad', 7)")
    assert "DIVIDE_BY_ZERO" in refused(base, "REFRESH MATERIALIZED VIEW m")[1]
    base.run("INSERT OVERWRITE orders SELECT 'mon', 10")
    assert base.rows("SELECT * FROM m") != before


def test_temporary_views_hide_names(base: Database) -> None:
    base.run(f"CREATE MATERIALIZED VIEW m AS {TODAY}", "CREATE TEMPORARY VIEW m AS SELECT 'hidden' AS h")
    assert base.rows("SELECT * FROM m") == [("hidden",)]
    base.run("INSERT INTO orders VALUES ('wed', 1)")
    assert len(base.rows(f"SELECT * FROM {base.name}.m")) == 3
    base.run("DROP VIEW m")
    assert len(base.rows("SELECT * FROM m")) == 3


def test_views_over_views(base: Database, direct: Any) -> None:
    base.run(
        "CREATE VIEW plain AS SELECT day, amount FROM orders WHERE amount > 1",
        "CREATE MATERIALIZED VIEW lower AS SELECT day, sum(amount) AS total FROM plain GROUP BY day",
        "CREATE MATERIALIZED VIEW upper AS SELECT count(*) AS n FROM lower",
    )
    assert base.rows("SELECT * FROM upper") == [(1,)]
    rows(direct, "CREATE OR REPLACE VIEW plain AS SELECT day, amount FROM orders")
    assert base.rows("SELECT * FROM upper") == [(2,)]


def test_a_view_answers_queries_that_do_not_name_it(base: Database) -> None:
    base.run(f"CREATE MATERIALIZED VIEW m ENABLE QUERY REWRITE AS {TODAY}")
    query = "SELECT sum(amount) FROM orders WHERE day = 'mon'"
    ((_, verdict, *_),) = rows(base.cursor, f"EXPLAIN REWRITE {query}")
    assert verdict == "CHOSEN"
    assert texts(base.rows(query)) == [("15.00",)]
    assert rows(base.cursor, "SELECT sum(hits) FROM freshgate.rewrites") == [(1,)]
    base.run("INSERT INTO orders VALUES ('mon', 100)")
    assert texts(base.rows(query)) == [("115.00",)]


def test_a_transaction_sees_one_version(base: Database) -> None:
    base.run(f"CREATE MATERIALIZED VIEW m AS {TODAY}", "BEGIN")
    assert len(base.rows("SELECT * FROM m")) == 2
    with pyhive(base.gateway.host, base.gateway.port) as other:
        rows(other, f"INSERT INTO {base.name}.orders VALUES ('wed', 1)")
        assert len(rows(other, f"SELECT * FROM {base.name}.m")) == 3
    assert len(base.rows("SELECT * FROM m")) == 2
    base.run("COMMIT")
    assert len(base.rows("SELECT * FROM m")) == 3
    assert len(base.rows("SELECT * FROM m VERSION AS OF 1")) == 2


def test_a_restart_loads_the_views(place: Place) -> None:
    first = place.gateway(**{"storage.database": "storage_restarted"})
    with pyhive(first.host, first.port) as cursor:
        rows(cursor, "CREATE DATABASE kept")
        rows(cursor, "CREATE TABLE kept.orders (day STRING, amount INT) USING parquet")
        rows(cursor, "INSERT INTO kept.orders VALUES ('mon', 1)")
        rows(cursor, "SET spark.sql.session.timeZone=Asia/Tokyo")
        rows(cursor, f"CREATE MATERIALIZED VIEW kept.m AS {TODAY.replace('orders', 'kept.orders')}")
    assert first.stop() == 0
    with pyhive(place.spark.host, place.spark.port) as cursor:
        rows(cursor, "INSERT INTO kept.orders VALUES ('mon', 2)")
    second = place.gateway(**{"storage.database": "storage_restarted"})
    try:
        with pyhive(second.host, second.port) as cursor:
            assert rows(cursor, "SELECT * FROM kept.m") == [("mon", 3, 2)]
            rows(cursor, "DROP MATERIALIZED VIEW kept.m")
            rows(cursor, "DROP DATABASE kept CASCADE")
            wait_until(lambda: rows(cursor, LEFT) == [], 60, "the storage to be empty")
    finally:
        second.stop()


@pytest.mark.thorough
def test_an_upgrade_of_spark_keeps_the_views(spark_server: None, tmp_path: Path) -> None:
    old, new = home_of("3.5"), home_of(LOCKED)
    if old is None or new is None:
        pytest.skip("Spark 3.5 is not installed: scripts/setup --spark-versions")
    own: dict[str, Any] = {"staleness.probe_interval": 0, "storage.database": "storage_upgraded"}
    query = "SELECT d, sum(a) AS s, count(n) AS k FROM t GROUP BY d"
    with contextlib.ExitStack() as stack:
        spark = ReleaseServer(old, tmp_path / "spark")
        stack.callback(spark.stop)
        gateway = Gateway(tmp_path / "before.log", upstream=f"{spark.host}:{spark.port}", settings=own)
        stack.callback(gateway.stop)
        through = stack.enter_context(pyhive(gateway.host, gateway.port))
        rows(through, "CREATE TABLE t (a INT, n STRUCT<x: INT, y: STRING>, d STRING) USING parquet PARTITIONED BY (d)")
        rows(through, "INSERT INTO t VALUES (1, named_struct('x', 1, 'y', 'y'), 'x'), (2, NULL, 'y')")
        rows(through, "CREATE TABLE h (a INT, d STRING) STORED AS TEXTFILE")
        rows(through, "INSERT INTO h VALUES (1, 'x')")
        rows(through, "SET spark.sql.ansi.enabled=false")
        rows(through, f"CREATE MATERIALIZED VIEW m PARTITION BY (d) AS {query}")
        rows(through, "CREATE MATERIALIZED VIEW o AS SELECT CAST(d AS INT) AS n, a FROM h")
    with contextlib.ExitStack() as stack:
        spark = ReleaseServer(new, tmp_path / "spark")
        stack.callback(spark.stop)
        gateway = Gateway(tmp_path / "after.log", upstream=f"{spark.host}:{spark.port}", settings=own)
        stack.callback(gateway.stop)
        through = stack.enter_context(pyhive(gateway.host, gateway.port))
        assert sorted(rows(through, "SELECT * FROM m")) == [("x", 1, 1), ("y", 2, 0)]
        rows(through, "INSERT INTO t VALUES (4, NULL, 'y')")
        rows(through, "INSERT INTO h VALUES (2, '7')")
        assert sorted(rows(through, "SELECT * FROM m")) == [("x", 1, 1), ("y", 6, 0)]
        assert sorted(rows(through, "SELECT * FROM o"), key=repr) == [(7, 2), (None, 1)]
        states = [row[2] for row in rows(through, "SHOW MATERIALIZED VIEWS IN default")]
        assert states == ["FRESH", "FRESH"]
        rows(through, "DROP MATERIALIZED VIEW m")
        rows(through, "DROP MATERIALIZED VIEW o")


@pytest.mark.parametrize("provider", ["delta", "iceberg"])
def test_changes_of_tables_with_versions(lake: tuple[Any, Any], provider: str) -> None:
    through, direct = lake
    rows(through, f"CREATE DATABASE of_{provider}")
    table = f"{ICEBERG if provider == 'iceberg' else 'spark_catalog'}.of_{provider}.t"
    if provider == "iceberg":
        rows(direct, f"CREATE DATABASE IF NOT EXISTS {ICEBERG}.of_{provider}")
    rows(direct, f"CREATE TABLE {table} (a INT, d STRING) USING {provider} PARTITIONED BY (d)")
    rows(direct, f"INSERT INTO {table} VALUES (1, 'x'), (2, 'y')")
    view, added = f"of_{provider}.m", f"of_{provider}.added"
    rows(through, f"CREATE MATERIALIZED VIEW {view} PARTITION BY (d) AS SELECT d, sum(a) AS s FROM {table} GROUP BY d")
    rows(through, f"CREATE MATERIALIZED VIEW {added} REFRESH INCREMENTAL FALLBACK AS SELECT a, d FROM {table}")
    rows(direct, f"INSERT INTO {table} VALUES (4, 'y'), (8, 'z')")
    assert sorted(rows(through, f"SELECT * FROM {view}")) == [("x", 1), ("y", 6), ("z", 8)]
    assert sorted(rows(through, f"SELECT * FROM {added}")) == [(1, "x"), (2, "y"), (4, "y"), (8, "z")]
    asked = f'SELECT MvName, RefreshMode FROM tasks("type"="mv") WHERE MvDatabaseName = \'of_{provider}\' '
    tasks = dict(rows(through, f"{asked} ORDER BY CAST(TaskId AS BIGINT)"))
    assert (tasks["m"], tasks["added"]) == ("PARTIAL", "INCREMENTAL")
    rows(direct, f"DELETE FROM {table} WHERE a < 4")
    assert sorted(rows(through, f"SELECT * FROM {view}")) == [("y", 4), ("z", 8)]
    assert sorted(rows(through, f"SELECT * FROM {added}")) == [(4, "y"), (8, "z")]
    rows(direct, f"ALTER TABLE {table} ADD COLUMNS (b INT)")
    rows(direct, f"INSERT INTO {table} VALUES (16, 'z', 1)")
    assert sorted(rows(through, f"SELECT * FROM {view}")) == [("y", 4), ("z", 24)]
    for name in (view, added):
        rows(through, f"DROP MATERIALIZED VIEW {name}")
