"""Tests views that follow a base table's partitions: which ones a refresh recomputes, and what is reported."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from clients import pyhive, rows, unclosed
from databases import Database
from processes import Engine, Gateway, wait_until
from pyhive.exc import OperationalError
from tiers import sampled

from sql.texts.literals import safe_literal

SALES = "CREATE TABLE sales (item STRING, price INT, shop INT, day DATE) USING parquet PARTITIONED BY (day)"
ROWS = "INSERT INTO sales VALUES ('a', 1, 1, DATE'2024-01-01'), ('b', 2, 2, DATE'2024-01-02'), ('c', 3, 1, NULL)"
DAILY = "SELECT day, count(*) AS n, sum(price) AS total FROM sales GROUP BY day"

PATIENCE = 120.0


def last_task(database: Database, view: str) -> tuple[str, list[str], str]:
    """Returns mode, partitions and reason of the view's last task."""
    found = rows(
        database.cursor,
        'SELECT RefreshMode, NeedRefreshPartitions, Reason FROM tasks("type"="mv") '
        f"WHERE MvName = '{view}' AND MvDatabaseName = '{database.name}' ORDER BY CAST(TaskId AS BIGINT) DESC LIMIT 1",
    )
    mode, partitions, reason = found[0]
    return mode, [] if partitions == "\\N" else json.loads(partitions), reason


def known_freshness(database: Database) -> list[tuple[str, Any]]:
    """Returns freshness and stale_since of the database's view, without a new observation."""
    select = "SELECT freshness, stale_since FROM freshgate.materialized_views"
    return rows(database.cursor, f"{select} WHERE database_name = '{database.name}'")


def check(database: Database, view: str, query: str) -> None:
    assert database.rows(f"SELECT * FROM {view}") == database.rows(query)


@pytest.fixture
def sales(database: Database) -> Database:
    database.run(SALES, ROWS, f"CREATE MATERIALIZED VIEW daily PARTITION BY (day) AS {DAILY}")
    return database


def test_a_read_recomputes_the_partitions_that_were_written(sales: Database) -> None:
    check(sales, "daily", DAILY)
    sales.run("INSERT INTO sales VALUES ('d', 5, 1, DATE'2024-01-02'), ('e', 6, 1, DATE'2024-01-03')")
    check(sales, "daily", DAILY)
    mode, partitions, reason = last_task(sales, "daily")
    assert (mode, partitions) == ("PARTIAL", ["p_20240102_20240103", "p_20240103_20240104"])
    assert reason == f"{sales.name}.sales has changed in 2 partitions"
    sales.run("INSERT INTO sales VALUES ('f', 7, 1, NULL)")
    check(sales, "daily", DAILY)
    assert last_task(sales, "daily")[:2] == ("PARTIAL", ["p_NULL"])


def test_partitions_by_several_columns(database: Database) -> None:
    """Only touched combinations of values are written, and dropped ones go."""
    database.run(
        "CREATE TABLE sales (price INT, region STRING, day DATE) USING parquet PARTITIONED BY (region, day)",
        "INSERT INTO sales VALUES (1, 'eu', DATE'2024-01-01'), (2, 'a/b%', DATE'2024-01-02'), (3, NULL, NULL)",
    )
    query = "SELECT region, day, sum(price) AS total FROM sales GROUP BY region, day"
    monthly = "SELECT region, day, sum(total) AS total FROM by_both GROUP BY region, day"
    database.run(f"CREATE MATERIALIZED VIEW by_both PARTITIONED BY (region, day) AS {query}")
    database.run(f"CREATE MATERIALIZED VIEW above PARTITION BY (region, date_trunc(day, 'month')) AS {monthly}")
    for write, written in [
        ("INSERT INTO sales VALUES (4, 'a/b%', DATE'2024-01-02'), (5, NULL, DATE'2024-01-02')", ["ab", "NULL"]),
        ("ALTER TABLE sales DROP PARTITION (region = 'eu', day = '2024-01-01')", ["eu"]),
    ]:
        database.run(write)
        check(database, "above", monthly)
        check(database, "by_both", query)
        mode, partitions, _ = last_task(database, "by_both")
        day = "20240101_20240102" if written == ["eu"] else "20240102_20240103"
        assert (mode, sorted(partitions)) == ("PARTIAL", sorted(f"p_{region}_{day}" for region in written))
        assert last_task(database, "above")[0] == "PARTIAL"
    assert database.rows("SELECT total FROM by_both WHERE region = 'a/b%' AND day = DATE'2024-01-02'") == [(6,)]
    database.run("REFRESH MATERIALIZED VIEW by_both PARTITIONS (`day=2024-01-02`)")
    assert len(last_task(database, "by_both")[1]) == 2
    # The table has only one of the columns.
    database.run(
        "CREATE TABLE daily (region STRING, price INT, day DATE) USING parquet PARTITIONED BY (day)",
        "INSERT INTO daily VALUES ('eu', 1, DATE'2024-01-01'), ('us', 2, DATE'2024-01-02')",
        "CREATE MATERIALIZED VIEW by_one PARTITIONED BY (region, day) AS SELECT region, day, price FROM daily",
        "INSERT INTO daily VALUES ('cn', 3, DATE'2024-01-02')",
    )
    check(database, "by_one", "SELECT region, day, price FROM daily")
    assert last_task(database, "by_one")[:2] == ("PARTIAL", ["p_20240102_20240103"])


@pytest.mark.thorough
def test_a_write_without_rows_refreshes_nothing(sales: Database) -> None:
    before = sales.version("daily")
    sales.run("INSERT INTO sales SELECT * FROM sales WHERE price > 100", "REFRESH MATERIALIZED VIEW daily AUTO")
    assert last_task(sales, "daily")[0] == "NOT_REFRESH"
    check(sales, "daily", DAILY)
    assert (sales.version("daily"), sales.freshness("daily")) == (before, "FRESH")
    count = "SELECT count(*) FROM tasks(\"type\"=\"mv\") WHERE MvName = 'daily' AND RefreshMode = 'NOT_REFRESH'"
    noted = rows(sales.cursor, count)[0][0]
    sales.run("INSERT INTO sales SELECT * FROM sales WHERE price > 100", "SELECT * FROM daily", "SELECT * FROM daily")
    assert rows(sales.cursor, count)[0][0] == noted + 1
    assert (sales.version("daily"), sales.freshness("daily")) == (before, "FRESH")


@pytest.mark.thorough
def test_the_first_refresh_may_build_some_partitions(sales: Database, direct: Any) -> None:
    """Reads are not served until all partitions are built."""
    sales.run(f"CREATE MATERIALIZED VIEW late BUILD DEFERRED PARTITION BY (day) AS {DAILY}")
    expected = ["p_NULL", "p_20240101_20240102", "p_20240102_20240103"]
    assert [row[1] for row in rows(sales.cursor, "SHOW PARTITIONS late")] == expected
    sales.run("REFRESH MATERIALIZED VIEW late AS PARTITIONS (p_20240101_20240102)")
    assert last_task(sales, "late")[:2] == ("PARTIAL", ["p_20240101_20240102"])
    assert sales.freshness("late") == "STALE"
    assert [tuple(row)[1:] for row in rows(direct, f"SELECT * FROM {sales.name}.late")] == [(1, 1)]
    assert [row[1] for row in rows(sales.cursor, "SHOW PARTITIONS late")] == ["p_20240101_20240102"]
    sales.run("REFRESH MATERIALIZED VIEW late PARTITIONS (p_NULL)")
    assert last_task(sales, "late")[:2] == ("PARTIAL", ["p_NULL"])
    sales.run("ALTER MATERIALIZED VIEW late SET ('when_stale' = 'FAIL')")
    with pytest.raises(OperationalError, match="late has been built in part only"):
        sales.rows("SELECT * FROM late")
    sales.run("ALTER MATERIALIZED VIEW late SET ('when_stale' = 'SERVE')")
    check(sales, "late", DAILY)
    assert sales.freshness("late") == "FRESH"


@pytest.mark.thorough
def test_partitions_are_listed_before_the_first_build(database: Database) -> None:
    """partition_date_format and partition_sync_limit apply."""
    database.run(
        "CREATE TABLE t (a INT, d STRING) USING parquet PARTITIONED BY (d)",
        "INSERT INTO t SELECT 1, date_format(current_date(), 'yyyyMMdd')",
        "INSERT INTO t VALUES (2, '20200131'), (3, '20200201')",
        "CREATE MATERIALIZED VIEW m BUILD DEFERRED PARTITION BY (date_trunc(d, 'month')) "
        "PROPERTIES ('partition_date_format' = '%Y%m%d') AS SELECT a, d FROM t",
        "CREATE MATERIALIZED VIEW newest BUILD DEFERRED PARTITION BY (date_trunc(d, 'month')) PROPERTIES "
        "('partition_date_format' = '%Y%m%d', 'partition_sync_limit' = '2', 'partition_sync_time_unit' = 'YEAR') "
        "AS SELECT a, d FROM t",
    )
    before = {view: [row[1] for row in rows(database.cursor, f"SHOW PARTITIONS {view}")] for view in ("m", "newest")}
    assert before["m"][:2] == ["p_20200101_20200201", "p_20200201_20200301"]
    assert before["newest"] == before["m"][2:]
    assert len(before["newest"]) == 1
    for view in ("m", "newest"):
        database.run(f"REFRESH MATERIALIZED VIEW {view}")
        assert [row[1] for row in rows(database.cursor, f"SHOW PARTITIONS {view}")] == before[view]


@pytest.mark.thorough
def test_partitions_are_dropped_with_those_of_the_base_table(sales: Database) -> None:
    sales.run("ALTER TABLE sales DROP PARTITION (day = DATE'2024-01-01')")
    check(sales, "daily", DAILY)
    assert last_task(sales, "daily")[:2] == ("PARTIAL", ["p_20240101_20240102"])
    assert [row[1] for row in rows(sales.cursor, "SHOW PARTITIONS daily")] == ["p_NULL", "p_20240102_20240103"]
    sales.run("TRUNCATE TABLE sales")
    check(sales, "daily", DAILY)
    sales.run(ROWS)
    check(sales, "daily", DAILY)


def test_the_view_has_the_definitions_columns_in_their_order(sales: Database) -> None:
    described = [row[:2] for row in rows(sales.cursor, "DESCRIBE daily")]
    assert described == [("day", "date"), ("n", "bigint"), ("total", "bigint")]
    assert sales.rows("SELECT n FROM daily WHERE day = DATE'2024-01-02'") == [(1,)]
    plan = rows(sales.cursor, "EXPLAIN FORMATTED SELECT n FROM daily WHERE day = DATE'2024-01-02'")[0][0]
    assert "InMemoryFileIndex [file" in plan or "InMemoryFileIndex(1 paths)" in plan, plan


def test_show_partitions_reports_which_are_in_sync(sales: Database) -> None:
    sales.run("ALTER MATERIALIZED VIEW daily SET ('when_stale' = 'SERVE')")
    sales.run("INSERT INTO sales VALUES ('d', 5, 1, DATE'2024-01-02'), ('e', 6, 1, DATE'2024-01-03')")
    shown = {row[1]: (row[7], row[8], row[9]) for row in rows(sales.cursor, "SHOW PARTITIONS daily")}
    assert shown == {
        "p_NULL": (True, "[]", 1),
        "p_20240101_20240102": (True, "[]", 1),
        "p_20240102_20240103": (False, f"[{sales.name}.sales]", 1),
    }
    sales.run("REFRESH MATERIALIZED VIEW daily PARTITIONS (p_20240103_20240104)")
    assert last_task(sales, "daily")[:2] == ("PARTIAL", ["p_20240103_20240104"])
    versions = {row[1]: (row[7], row[2]) for row in rows(sales.cursor, "SHOW PARTITIONS daily")}
    assert versions["p_20240103_20240104"] == (True, 2)
    assert versions["p_20240102_20240103"] == (False, 1)
    assert sales.freshness("daily") == "STALE"
    with pytest.raises(OperationalError, match="partition not exist: p_nope"):
        sales.run("REFRESH MATERIALIZED VIEW daily PARTITIONS (p_nope)")
    sales.run("REFRESH MATERIALIZED VIEW daily AUTO")
    assert last_task(sales, "daily")[:2] == ("PARTIAL", ["p_20240102_20240103"])
    assert sales.freshness("daily") == "FRESH"


def test_a_refresh_of_one_partition_leaves_the_others_stale(sales: Database) -> None:
    """They keep their stale_since, and the next read refreshes them although an observation has just been made."""
    sales.run("INSERT INTO sales VALUES ('d', 5, 1, DATE'2024-01-02'), ('e', 6, 1, DATE'2024-01-03')")
    ((_, since),) = known_freshness(sales)
    sales.run("REFRESH MATERIALIZED VIEW daily PARTITIONS (p_20240103_20240104)")
    assert last_task(sales, "daily")[:2] == ("PARTIAL", ["p_20240103_20240104"])
    assert known_freshness(sales) == [("STALE", since)]
    check(sales, "daily", DAILY)
    assert known_freshness(sales) == [("FRESH", None)]
    assert last_task(sales, "daily")[:2] == ("PARTIAL", ["p_20240102_20240103"])


@pytest.mark.thorough
def test_an_observation_for_one_view_counts_for_all(sales: Database, engine: Engine) -> None:
    """It shows the other views what was written directly on Spark."""
    seldom = f"CREATE MATERIALIZED VIEW seldom PARTITION BY (day) PROPERTIES ('probe_interval' = '100000') AS {DAILY}"
    often = "CREATE MATERIALIZED VIEW often PROPERTIES ('probe_interval' = '0') AS SELECT count(*) AS n FROM sales"
    sales.run(seldom, often)
    check(sales, "seldom", DAILY)
    with pyhive(engine.host, engine.port) as elsewhere:
        rows(elsewhere, f"INSERT INTO {sales.name}.sales VALUES ('d', 5, 1, DATE'2024-01-02')")
    check(sales, "often", "SELECT count(*) FROM sales")
    check(sales, "seldom", DAILY)


@pytest.mark.thorough
def test_a_change_of_another_base_table_makes_every_partition_stale(sales: Database) -> None:
    query = "SELECT day, item, name FROM sales LEFT JOIN shops ON shop = id"
    sales.run(
        "CREATE TABLE shops (id INT, name STRING) USING parquet",
        "INSERT INTO shops VALUES (1, 'one'), (2, 'two')",
        f"CREATE MATERIALIZED VIEW named PARTITION BY (day) AS {query}",
        "INSERT INTO shops VALUES (3, 'three')",
    )
    check(sales, "named", query)
    assert last_task(sales, "named")[0] == "COMPLETE"
    sales.run(
        "ALTER MATERIALIZED VIEW named SET ('when_stale' = 'SERVE')",
        "INSERT INTO shops VALUES (1, 'uno')",
        "REFRESH MATERIALIZED VIEW named PARTITIONS (p_20240101_20240102)",
    )
    unsynced = {row[1]: row[8] for row in rows(sales.cursor, "SHOW PARTITIONS named")}
    assert unsynced == {
        "p_NULL": f"[{sales.name}.shops]",
        "p_20240101_20240102": "[]",
        "p_20240102_20240103": f"[{sales.name}.shops]",
    }
    sales.run("INSERT INTO sales VALUES ('e', 5, 1, DATE'2024-01-03')", "REFRESH MATERIALIZED VIEW named AUTO")
    all_but = ["p_NULL", "p_20240102_20240103", "p_20240103_20240104"]
    assert last_task(sales, "named")[:2] == ("PARTIAL", all_but)
    versions = {row[1]: row[2] for row in rows(sales.cursor, "SHOW PARTITIONS named")}
    assert versions["p_20240101_20240102"] < versions["p_NULL"] == versions["p_20240102_20240103"]
    check(sales, "named", query)
    sales.run(
        f"ALTER MATERIALIZED VIEW named SET ('excluded_trigger_tables' = '{sales.name}.shops')",
        "ALTER MATERIALIZED VIEW named SET ('when_stale' = 'REFRESH')",
        "INSERT INTO shops VALUES (2, 'dos')",
    )
    assert sales.freshness("named") == "FRESH"
    sales.run("INSERT INTO sales VALUES ('z', 9, 2, DATE'2024-01-02')")
    assert len(sales.rows("SELECT * FROM named WHERE name = 'dos'")) == 2
    assert last_task(sales, "named")[:2] == ("PARTIAL", ["p_20240102_20240103"])


@pytest.mark.thorough
def test_refresh_partition_num_splits_a_refresh(sales: Database) -> None:
    sales.run("ALTER MATERIALIZED VIEW daily SET ('refresh_partition_num' = '2')")
    sales.run(
        "INSERT INTO sales VALUES ('d', 1, 1, DATE'2024-02-01'), ('e', 1, 1, DATE'2024-02-02'), ('f', 1, 1, NULL)"
    )
    plan = [row[0] for row in rows(sales.cursor, "EXPLAIN REFRESH MATERIALIZED VIEW daily AUTO")]
    assert sum("part " in line for line in plan) == 2, plan
    check(sales, "daily", DAILY)
    assert len(last_task(sales, "daily")[1]) == 3
    sales.run("REFRESH MATERIALIZED VIEW daily COMPLETE")
    check(sales, "daily", DAILY)


ROLLED_UP = [
    ("DATE", "DATE'{}'", "month", {"p_20240101_20240201", "p_20240201_20240301"}),
    ("TIMESTAMP", "TIMESTAMP'{} 10:30:00'", "year", {"p_20240101_20250101"}),
    (
        "TIMESTAMP",
        "TIMESTAMP'{} 10:30:00'",
        "hour",
        {"p_20240115100000_20240115110000", "p_20240220100000_20240220110000"},
    ),
    ("STRING", "'{}'", "quarter", {"p_20240101_20240401"}),
    ("STRING", "replace('{}', '-', '/')", "week", {"p_20240115_20240122", "p_20240219_20240226"}),
]
UNITS = [unit for _, _, unit, _ in ROLLED_UP]


@pytest.mark.parametrize(("kind", "value", "unit", "names"), sampled(ROLLED_UP, {"month"}, UNITS))
def test_partitions_are_rolled_up(database: Database, kind: str, value: str, unit: str, names: set[str]) -> None:
    slashes = ", 'partition_date_format' = '%Y/%m/%d'" if "/" in value else ""
    database.run(
        f"CREATE TABLE t (a INT, p {kind}) USING parquet PARTITIONED BY (p)",
        f"INSERT INTO t VALUES (1, {value.format('2024-01-15')}), (2, {value.format('2024-02-20')})",
        f"CREATE MATERIALIZED VIEW m PARTITION BY (date_trunc(p, '{unit}')) PROPERTIES ('x' = '1'{slashes}) "
        "AS SELECT p AS p, a FROM t".replace("'x' = '1', ", "").replace(" PROPERTIES ('x' = '1')", ""),
    )
    assert {row[1] for row in rows(database.cursor, "SHOW PARTITIONS m")} == names
    database.run(f"INSERT INTO t VALUES (3, {value.format('2024-02-20')})")
    check(database, "m", "SELECT p, a FROM t")
    mode, partitions, _ = last_task(database, "m")
    assert mode == "PARTIAL"
    assert len(partitions) == 1
    assert set(partitions) <= names
    database.run("INSERT INTO t VALUES (4, NULL)")
    check(database, "m", "SELECT p, a FROM t")
    assert last_task(database, "m")[1] == ["p_NULL"]


@pytest.mark.thorough
def test_a_view_may_follow_any_of_several_partition_columns(database: Database) -> None:
    database.run(
        "CREATE TABLE t (a INT, year INT, region STRING) USING orc PARTITIONED BY (year, region)",
        "INSERT INTO t VALUES (1, 2020, 'bj'), (2, 2020, 'sh'), (3, 2021, 'bj')",
        "CREATE MATERIALIZED VIEW by_year PARTITION BY (year) AS SELECT a, year, region FROM t",
        "CREATE MATERIALIZED VIEW by_region PARTITION BY (r) AS SELECT region AS r, count(*) AS n FROM t GROUP BY 1",
        "INSERT INTO t VALUES (4, 2021, 'bj')",
    )
    assert {row[1] for row in rows(database.cursor, "SHOW PARTITIONS by_year")} == {"p_2020", "p_2021"}
    assert {row[1] for row in rows(database.cursor, "SHOW PARTITIONS by_region")} == {"p_bj", "p_sh"}
    check(database, "by_year", "SELECT a, year, region FROM t")
    check(database, "by_region", "SELECT region, count(*) FROM t GROUP BY 1")
    assert last_task(database, "by_year")[:2] == ("PARTIAL", ["p_2021"])
    assert last_task(database, "by_region")[:2] == ("PARTIAL", ["p_bj"])


ODD = ["a b", "x/y", "50%", "it's", 'say "hi"', "ü", "a=b", "{}", "c:d", "back\\slash", "[a]", "", "NULL", "${x}"]


@pytest.mark.thorough
def test_unusual_partition_values_are_followed(database: Database) -> None:
    quoted = list(map(safe_literal, ODD))
    listed = ", ".join(f"({number}, {value})" for number, value in enumerate(quoted))
    query = "SELECT _p, count(*) AS n FROM t GROUP BY _p"
    database.run(
        "CREATE TABLE t (a INT, _p STRING) USING parquet PARTITIONED BY (_p)",
        f"INSERT INTO t VALUES {listed}",
        f"CREATE MATERIALIZED VIEW m PARTITION BY (_p) AS {query}",
    )
    check(database, "m", query)
    for value in quoted:
        database.run(f"INSERT INTO t VALUES (100, {value})")
        check(database, "m", query)
        mode, partitions, _ = last_task(database, "m")
        assert (mode, len(partitions)) == ("PARTIAL", 1), value


@pytest.mark.parametrize("day", sampled(["to_date(dt)", "date_trunc('MONTH', dt)"], {"to_date(dt)"}))
def test_texts_that_are_not_dates_are_in_the_null_partition(database: Database, day: str) -> None:
    """Without ANSI mode they become NULL; with it the definition would fail."""
    query = f"SELECT {day} AS d, count(*) AS n FROM t GROUP BY {day}"
    database.run(
        "SET spark.sql.ansi.enabled=false",
        "CREATE TABLE t (a INT, dt STRING) USING parquet PARTITIONED BY (dt)",
        "INSERT INTO t VALUES (1, '2024-01-31'), (2, '2024-02-01')",
        f"CREATE MATERIALIZED VIEW m PARTITION BY (d) AS {query}",
        "INSERT INTO t VALUES (3, 'unknown'), (4, '2024-01-31')",
    )
    check(database, "m", query)
    mode, partitions, _ = last_task(database, "m")
    assert (mode, len(partitions)) == ("PARTIAL", 2)


@pytest.mark.thorough
def test_partition_sync_limit_keeps_only_the_last_days(database: Database) -> None:
    query = "SELECT d, count(*) AS n FROM t GROUP BY d"
    database.run(
        "CREATE TABLE t (a INT, d DATE) USING parquet PARTITIONED BY (d)",
        "INSERT INTO t VALUES (1, current_date()), (2, date_sub(current_date(), 1)), (3, date_sub(current_date(), 5)), "
        "(4, NULL)",
        "CREATE MATERIALIZED VIEW m PARTITION BY (d) PROPERTIES ('partition_sync_limit' = '2', "
        f"'partition_sync_time_unit' = 'DAY') AS {query}",
    )
    last = f"{query} HAVING d >= date_sub(current_date(), 1)"
    check(database, "m", last)
    database.run("INSERT INTO t VALUES (5, date_sub(current_date(), 5))")
    check(database, "m", last)
    assert last_task(database, "m")[0] == "NOT_REFRESH"
    database.run("INSERT INTO t VALUES (5, date_sub(current_date(), 1))")
    check(database, "m", last)
    database.run("ALTER MATERIALIZED VIEW m SET ('partition_sync_limit' = '1')", "REFRESH MATERIALIZED VIEW m AUTO")
    database.run("INSERT INTO t VALUES (6, current_date())")
    check(database, "m", f"{query} HAVING d >= current_date()")
    assert len(rows(database.cursor, "SHOW PARTITIONS m")) == 1
    # Partitions excluded so far are built, although their base partitions have not changed.
    database.run("ALTER MATERIALIZED VIEW m UNSET ('partition_sync_limit')")
    check(database, "m", query)
    assert last_task(database, "m")[0] == "COMPLETE"


@pytest.mark.thorough
def test_partition_sync_limit_may_be_unset_during_a_refresh(database: Database) -> None:
    """The partitions that the refresh excluded do not count as fresh."""
    database.run(
        "CREATE TABLE t (a INT, d DATE) USING parquet PARTITIONED BY (d)",
        "CREATE TABLE n USING parquet AS SELECT id FROM range(4000)",
        "INSERT INTO t VALUES (1, current_date()), (3, date_sub(current_date(), 5))",
        "CREATE MATERIALIZED VIEW m PARTITION BY (d) PROPERTIES ('partition_sync_limit' = '2') AS "
        "SELECT t.d, sum(t.a) AS s, max(hash(x.id, y.id, t.a)) AS h FROM t CROSS JOIN n x CROSS JOIN n y GROUP BY t.d",
        "INSERT INTO t SELECT id, current_date() FROM range(4)",
    )
    writing = (
        f'SELECT NeedRefreshPartitions FROM tasks("type"="mv") WHERE MvDatabaseName = \'{database.name}\' '
        "AND Status = 'RUNNING' AND NeedRefreshPartitions LIKE '[%'"
    )
    with unclosed(database.gateway, database.name) as reader, ThreadPoolExecutor(1) as pool:
        reading = pool.submit(rows, reader, "SELECT count(*) FROM m")
        wait_until(lambda: bool(database.rows(writing)), PATIENCE, "a refresh that knows what it writes")
        database.run("ALTER MATERIALIZED VIEW m UNSET ('partition_sync_limit')")
        assert not reading.done()
        assert reading.exception(PATIENCE) is None
    assert database.rows("SELECT count(*) FROM m") == [(2,)]


@pytest.mark.parametrize(
    ("unit", "kind"),
    sampled([("MONTH", "DATE"), ("YEAR", "TIMESTAMP"), ("YEAR", "STRING")], {"days"}, ["days", "times", "texts"]),
)
def test_partition_sync_limit_counts_calendar_months_and_years(database: Database, unit: str, kind: str) -> None:
    months = {"MONTH": 1, "YEAR": 12}[unit]
    query = "SELECT d, count(*) AS n FROM t GROUP BY d"
    begins = f"add_months(date_trunc('{unit}', current_date()), -{months})"
    database.run(
        f"CREATE TABLE t (a INT, d {kind}) USING parquet PARTITIONED BY (d)",
        f"INSERT INTO t SELECT 1, CAST(CAST(day AS DATE) AS {kind}) FROM VALUES (current_date()), ({begins}), "
        f"(date_sub({begins}, 1)), (add_months({begins}, -24)) AS v(day)",
        "CREATE MATERIALIZED VIEW m PARTITION BY (d) PROPERTIES ('partition_sync_limit' = '2', "
        f"'partition_sync_time_unit' = '{unit}') AS {query}",
    )
    check(database, "m", f"{query} HAVING CAST(d AS DATE) >= {begins}")
    database.run(f"INSERT INTO t SELECT 2, CAST(CAST(date_sub({begins}, 1) AS DATE) AS {kind})")
    check(database, "m", f"{query} HAVING CAST(d AS DATE) >= {begins}")
    assert last_task(database, "m")[0] == "NOT_REFRESH"


EXCLUDED = ["shops", "{db}.shops", "spark_catalog.{db}.shops", "other, `{db}`.`SHOPS` ", "sales"]


def test_writes_to_an_excluded_table_are_noticed_once_it_counts_again(database: Database) -> None:
    query = "SELECT (SELECT count(*) FROM t) + (SELECT count(*) FROM u) AS n"
    database.run(
        "CREATE TABLE t (a INT) USING parquet",
        "CREATE TABLE u (a INT) USING parquet",
        f"CREATE MATERIALIZED VIEW m PROPERTIES ('probe_interval' = '100000') AS {query}",
        "SELECT * FROM m",
        "ALTER MATERIALIZED VIEW m SET ('excluded_trigger_tables' = 'u')",
        "INSERT INTO u VALUES (1)",
    )
    assert database.rows("SELECT * FROM m") == [(0,)]
    database.run("ALTER MATERIALIZED VIEW m UNSET ('excluded_trigger_tables')")
    assert [freshness for freshness, _ in known_freshness(database)] == ["UNKNOWN"]
    assert database.rows("SELECT * FROM m") == [(1,)]


@pytest.mark.thorough
@pytest.mark.parametrize("named", EXCLUDED)
def test_excluded_trigger_tables_accept_names_as_in_doris(database: Database, named: str) -> None:
    names = named.format(db=database.name)
    database.run(
        "CREATE TABLE shops (id INT) USING parquet",
        "CREATE TABLE sold (id INT) USING parquet",
        f"CREATE MATERIALIZED VIEW m PROPERTIES ('excluded_trigger_tables' = '{names}') "
        "AS SELECT count(*) AS n FROM (SELECT id FROM shops UNION ALL SELECT id FROM sold)",
        "INSERT INTO shops VALUES (1)",
    )
    counts = "sales" in named
    assert (database.freshness("m"), database.rows("SELECT n FROM m")) == (
        ("STALE", [(1,)]) if counts else ("FRESH", [(0,)])
    )
    database.run("INSERT INTO sold VALUES (1)")
    assert database.rows("SELECT n FROM m") == [(2,)]


@pytest.mark.thorough
def test_each_level_of_a_diamond_is_refreshed_once(sales: Database) -> None:
    """Two views read one view, and a fourth reads both: it never joins an old version with a new one."""
    sales.run(
        "CREATE MATERIALIZED VIEW many PARTITION BY (day) AS SELECT day, n FROM daily",
        "CREATE MATERIALIZED VIEW much PARTITION BY (day) AS SELECT day, total FROM daily",
        "CREATE MATERIALIZED VIEW both_of PARTITION BY (day) AS "
        "SELECT many.day, n, total FROM many JOIN much ON many.day <=> much.day",
    )
    views = ("daily", "many", "much", "both_of")

    def tasks() -> dict[str, int]:
        found = rows(
            sales.cursor,
            'SELECT MvName, count(*) FROM tasks("type"="mv") '
            f"WHERE MvDatabaseName = '{sales.name}' AND RefreshMode <> 'NOT_REFRESH' GROUP BY MvName",
        )
        return {name: int(number) for name, number in found}

    for price in (5, 6):
        before = tasks()
        sales.run(f"INSERT INTO sales VALUES ('d', {price}, 1, DATE'2024-01-02')")
        check(sales, "both_of", DAILY)
        assert {view: tasks()[view] - before.get(view, 0) for view in views} == dict.fromkeys(views, 1)
        assert last_task(sales, "many")[:2] == last_task(sales, "much")[:2] == ("PARTIAL", ["p_20240102_20240103"])
        check(sales, "many", f"SELECT day, n FROM ({DAILY}) x")


@pytest.mark.thorough
def test_views_over_views_follow_partitions(sales: Database) -> None:
    monthly = "SELECT date_trunc('month', day) AS month, sum(n) AS n FROM daily GROUP BY 1"
    sales.run(
        "INSERT INTO sales VALUES ('m', 1, 1, DATE'2024-03-05')",
        "CREATE MATERIALIZED VIEW copied PARTITION BY (d) AS SELECT day AS d, n, total FROM daily WHERE n > 0",
        f"CREATE MATERIALIZED VIEW monthly PARTITION BY (date_trunc(month, 'month')) AS {monthly}",
        "CREATE MATERIALIZED VIEW top PARTITION BY (date_trunc(d, 'year')) AS SELECT c.d, c.total FROM copied c",
    )
    sales.run("INSERT INTO sales VALUES ('n', 8, 1, DATE'2024-03-05'), ('o', 8, 1, DATE'2025-01-01')")
    base = monthly.replace("daily", f"({DAILY}) x")
    check(sales, "monthly", base)
    check(sales, "top", f"SELECT day, total FROM ({DAILY}) x")
    assert last_task(sales, "daily")[1] == ["p_20240305_20240306", "p_20250101_20250102"]
    assert last_task(sales, "copied")[1] == ["p_20240305_20240306", "p_20250101_20250102"]
    assert last_task(sales, "monthly")[1] == ["p_20240301_20240401", "p_20250101_20250201"]
    assert last_task(sales, "top")[1] == ["p_20240101_20250101", "p_20250101_20260101"]


def test_a_view_cannot_follow_one_with_another_time_zone(database: Database) -> None:
    """Their days differ."""
    database.run(
        "CREATE TABLE events (id INT, at TIMESTAMP) USING parquet PARTITIONED BY (at)",
        "SET spark.sql.session.timeZone=Asia/Tokyo",
        "CREATE MATERIALIZED VIEW days PARTITION BY (date_trunc(at, 'day')) AS SELECT id, at FROM events",
        "INSERT INTO events VALUES (1, TIMESTAMP'2024-01-01 23:30:00'), (2, TIMESTAMP'2024-01-02 00:30:00')",
        "SET spark.sql.session.timeZone=Europe/Berlin",
    )
    above = "CREATE MATERIALIZED VIEW above PARTITION BY (date_trunc(at, 'month')) AS SELECT id, at FROM days"
    with pytest.raises(OperationalError, match="time zone Asia/Tokyo"):
        database.run(above)
    database.run("SET spark.sql.session.timeZone=Asia/Tokyo", above)
    check(database, "days", "SELECT id, at FROM events")
    check(database, "above", "SELECT id, at FROM events")
    assert last_task(database, "days")[1] == ["p_20240101_20240102", "p_20240102_20240103"]


REFUSED = [
    ("(d)", "SELECT item AS d FROM sales", "partition column"),
    ("(day)", "SELECT day, sum(price) OVER () AS s FROM sales", "window"),
    ("(day)", "SELECT day, item FROM sales LIMIT 5", "LIMIT"),
    ("(day)", "SELECT s.day, t.id FROM shops t LEFT JOIN sales s ON s.shop = t.id", "outer join"),
    ("(day)", "SELECT a.day, b.item FROM sales a JOIN sales b ON a.shop = b.shop", "more than once"),
    ("(date_trunc(m, 'day'))", "SELECT date_trunc('month', day) AS m FROM sales", "unit"),
    ("(day)", "SELECT day, count(*) AS n FROM sales GROUP BY ROLLUP (day)", "several grouping sets"),
    ("(code)", "SELECT code, id FROM codes", "CHAR type"),
]


@pytest.mark.parametrize(
    ("clause", "query", "reason"), sampled(REFUSED, {"window", "CHAR type"}, [reason for _, _, reason in REFUSED])
)
def test_a_definition_that_cannot_follow_partitions_is_refused_with_a_reason(
    shared: Database, clause: str, query: str, reason: str
) -> None:
    shared.run(
        SALES.replace("TABLE", "TABLE IF NOT EXISTS"),
        "CREATE TABLE IF NOT EXISTS shops (id INT) USING parquet",
        "CREATE TABLE IF NOT EXISTS codes (id INT, code CHAR(3)) USING parquet PARTITIONED BY (code)",
    )
    with pytest.raises(OperationalError) as raised:
        shared.run(f"CREATE MATERIALIZED VIEW refused PARTITION BY {clause} AS {query}")
    status: Any = raised.value.args[0].status
    assert status.sqlState == "42P16"
    assert reason.lower() in status.errorMessage.lower()


def test_partitioned_by_is_accepted_as_a_layout_without_following(shared: Database) -> None:
    shared.run(
        SALES.replace("TABLE", "TABLE IF NOT EXISTS"),
        "CREATE MATERIALIZED VIEW laid_out PARTITIONED BY (day) AS SELECT day, item FROM sales LIMIT 5",
        "DROP MATERIALIZED VIEW laid_out",
    )


@pytest.mark.thorough
def test_a_view_can_follow_a_table_that_was_recreated_with_partitions(database: Database) -> None:
    """The refusal advises this; the observation of the old table is discarded."""
    create = "CREATE MATERIALIZED VIEW m PARTITION BY (day) AS SELECT day, sum(a) AS s FROM t GROUP BY day"
    database.run("CREATE TABLE t (a INT, day STRING, region STRING) USING parquet")
    with pytest.raises(OperationalError, match="has no partition columns"):
        database.run(create)
    partitioned = "CREATE TABLE t (a INT, day STRING, region STRING) USING parquet PARTITIONED BY (region)"
    database.run("DROP TABLE t", partitioned)
    with pytest.raises(OperationalError, match="day"):
        database.run(create)
    database.run(
        "DROP TABLE t", partitioned.replace("(region)", "(day)"), "INSERT INTO t VALUES (1, 'eu', 'x')", create
    )
    database.run("INSERT INTO t VALUES (2, 'us', 'y')")
    check(database, "m", "SELECT day, sum(a) AS s FROM t GROUP BY day")
    assert last_task(database, "m")[0] == "PARTIAL"


@pytest.mark.thorough
def test_replaced_partitions_are_dropped_and_the_others_survive_a_restart(
    engine: Engine, database: Database, start_gateway: Any
) -> None:
    eager: Gateway = start_gateway(**{"versions.retention": 0, "storage.database": f"s_{database.name}"})
    with pyhive(eager.host, eager.port, database=database.name) as cursor:
        own = Database(database.name, eager, cursor)
        own.run(SALES, ROWS, f"CREATE MATERIALIZED VIEW daily PARTITION BY (day) AS {DAILY}")
        for number in range(3):
            own.run(f"INSERT INTO sales VALUES ('d', {number}, 1, DATE'2024-01-02')")
            check(own, "daily", DAILY)
        versions = {row[1]: row[2] for row in rows(cursor, "SHOW PARTITIONS daily")}
        assert versions == {"p_NULL": 1, "p_20240101_20240102": 1, "p_20240102_20240103": 4}
    eager.kill()
    again: Gateway = start_gateway(**{"versions.retention": 0, "storage.database": f"s_{database.name}"})
    with pyhive(again.host, again.port, database=database.name) as cursor:
        own = Database(database.name, again, cursor)
        assert own.freshness("daily") == "FRESH"
        check(own, "daily", DAILY)
        own.run("INSERT INTO sales VALUES ('e', 1, 1, DATE'2024-01-01')")
        check(own, "daily", DAILY)
        assert last_task(own, "daily")[:2] == ("PARTIAL", ["p_20240101_20240102"])
        own.run("DROP MATERIALIZED VIEW daily")
