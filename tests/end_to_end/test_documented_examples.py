"""Tests that examples from other systems' documentation work unchanged, on tables created in Spark's syntax."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from clients import pyhive, rows
from processes import Gateway
from pyhive.exc import OperationalError

Cursor = Any
ROOT = Path(__file__).parent.parent.parent


@contextmanager
def in_database(gateway: Gateway, name: str) -> Iterator[Cursor]:
    """A cursor in a new database with the documentation's name; the database is dropped afterwards."""
    with pyhive(gateway.host, gateway.port) as cursor:
        rows(cursor, f"CREATE DATABASE {name}")
        rows(cursor, f"USE {name}")
        yield cursor
        for row in rows(cursor, f"SHOW MATERIALIZED VIEWS IN {name}"):
            rows(cursor, f"DROP MATERIALIZED VIEW {name}.{row[1]}")
        rows(cursor, f"DROP DATABASE {name} CASCADE")


def partitions(cursor: Cursor, view: str) -> list[str]:
    return [row[1] for row in rows(cursor, f"SHOW PARTITIONS FROM {view}")]


def test_sql_by_example_runs_from_top_to_bottom(gateway: Gateway) -> None:
    page = (ROOT / "docs" / "sql-by-example.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```sql\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    statements = [text.strip() for block in blocks for text in block.split(";\n") if text.strip()]
    with pyhive(gateway.host, gateway.port) as cursor:
        found = {text: rows(cursor, text) for text in statements}
        assert not rows(cursor, "SHOW DATABASES LIKE 'cafe'")
    (read,) = {text for text in statements if text.startswith("SELECT * FROM cafe.daily_sales")}
    assert [(row[1], str(row[3])) for row in found[read]] == [("coffee", "3.20"), ("tea", "2.80"), ("coffee", "5.30")]
    (rewritten,) = (answer for text, answer in found.items() if text.startswith("EXPLAIN REWRITE"))
    assert "CHOSEN" in str(rewritten)


@pytest.mark.thorough
def test_bigquerys_daily_totals_example_works(gateway: Gateway) -> None:
    with in_database(gateway, "sales") as cursor:
        rows(cursor, "CREATE TABLE orders (placed_at TIMESTAMP, amount DECIMAL(10,2)) USING parquet")
        rows(cursor, "INSERT INTO orders VALUES (TIMESTAMP'2024-01-01 10:00:00', 10), (TIMESTAMP'2024-01-02', 1)")
        rows(
            cursor,
            "CREATE MATERIALIZED VIEW sales.daily_totals AS\n"
            "SELECT DATE(placed_at) AS day, SUM(amount) AS total\nFROM sales.orders\nGROUP BY day;",
        )
        read = "SELECT day, total FROM sales.daily_totals ORDER BY day;"
        assert [str(row[1]) for row in rows(cursor, read)] == ["10.00", "1.00"]
        rows(cursor, "INSERT INTO sales.orders VALUES (TIMESTAMP'2024-01-02 11:00:00', 4)")
        assert [str(row[1]) for row in rows(cursor, read)] == ["10.00", "5.00"]
        rows(cursor, "REFRESH MATERIALIZED VIEW sales.daily_totals;")
        rows(cursor, "CALL BQ.REFRESH_MATERIALIZED_VIEW('project.sales.daily_totals');")
        with pytest.raises(OperationalError, match="immutable"):
            rows(cursor, "INSERT INTO sales.daily_totals VALUES (DATE'2024-01-01', 1)")
        shown = rows(
            cursor,
            "SELECT table_name, last_refresh_time, refresh_watermark, is_stale\n"
            "FROM `my_project`.sales.INFORMATION_SCHEMA.MATERIALIZED_VIEWS;",
        )
        assert (shown[0][0], shown[0][3]) == ("daily_totals", False)
        rows(cursor, "DROP MATERIALIZED VIEW sales.daily_totals;")


ORDERS = (
    "CREATE TABLE IF NOT EXISTS orders (o_orderkey INT, o_custkey INT, o_orderstatus CHAR(2), "
    "o_totalprice DECIMAL(15,2), o_orderdate DATE, o_orderpriority CHAR(15), o_clerk CHAR(15), o_shippriority INT, "
    "o_comment VARCHAR(79)) USING parquet PARTITIONED BY (o_orderdate)"
)
LINEITEM = (
    "CREATE TABLE IF NOT EXISTS lineitem (l_orderkey INT, l_partkey INT, l_suppkey INT, l_linenumber INT, "
    "l_quantity DECIMAL(15,2), l_shipdate DATE) USING parquet PARTITIONED BY (l_shipdate)"
)


@pytest.mark.thorough
def test_doris_example_of_orders_and_lineitem_works(gateway: Gateway) -> None:
    with in_database(gateway, "tpch") as cursor:
        rows(cursor, "use tpch;")
        rows(cursor, ORDERS)
        rows(cursor, LINEITEM)
        rows(
            cursor,
            "insert into orders (o_orderkey, o_custkey, o_totalprice, o_orderdate) values "
            "(1, 1, 99.5, DATE'2023-10-17'), (2, 2, 109.2, DATE'2023-10-18'), (3, 3, 99.5, DATE'2023-10-19')",
        )
        rows(
            cursor,
            "insert into lineitem (l_orderkey, l_partkey, l_suppkey, l_linenumber, l_quantity, l_shipdate) values "
            "(1, 2, 3, 4, 5.5, DATE'2023-10-17'), (2, 2, 3, 4, 5.5, DATE'2023-10-18'), "
            "(3, 2, 3, 6, 7.5, DATE'2023-10-19')",
        )
        rows(
            cursor,
            """CREATE MATERIALIZED VIEW mv1
            BUILD DEFERRED REFRESH AUTO ON MANUAL
            partition by(l_shipdate)
            DISTRIBUTED BY RANDOM BUCKETS 2
            PROPERTIES ('replication_num' = '1')
            AS
            select l_shipdate, o_orderdate, l_partkey, l_suppkey, sum(o_totalprice) as sum_total
            from lineitem
            left join orders on lineitem.l_orderkey = orders.o_orderkey and l_shipdate = o_orderdate
            group by
            l_shipdate,
            o_orderdate,
            l_partkey,
            l_suppkey;""",
        )
        (info,) = rows(cursor, 'select * from mv_infos("database"="tpch") where Name="mv1"')
        assert info[3:7] == ("INIT", "", "INIT", "BUILD DEFERRED REFRESH AUTO ON MANUAL")
        assert partitions(cursor, "mv1;")[0] == "p_20231017_20231018"
        rows(cursor, "REFRESH MATERIALIZED VIEW mv1 partitions(p_20231017_20231018);")
        assert len(rows(cursor, "SELECT * FROM mv1")) == 3
        assert rows(cursor, 'select Name from jobs("type"="mv") where MvDatabaseName = \'tpch\' order by CreateTime')
        assert rows(cursor, 'select * from tasks("type"="mv");')
        rows(cursor, 'ALTER MATERIALIZED VIEW mv1 set("grace_period"="3333");')
        rows(cursor, "DROP MATERIALIZED VIEW mv1;")


@pytest.mark.thorough
def test_doris_partition_examples_work(gateway: Gateway) -> None:
    with in_database(gateway, "doris_partitions") as cursor:
        rows(cursor, "CREATE TABLE t1 (user_id BIGINT, num INT, o_date DATE) USING parquet PARTITIONED BY (o_date)")
        rows(cursor, "CREATE TABLE t2 (user_id BIGINT, age SMALLINT) USING parquet PARTITIONED BY (age)")
        rows(
            cursor, "INSERT INTO t1 VALUES (1, 1, DATE'2017-01-01'), (1, 1, DATE'2017-01-02'), (1, 1, DATE'2017-02-01')"
        )
        rows(cursor, "INSERT INTO t2 VALUES (1, 1), (1, 2)")
        for view, column in (("mv1", "order_date"), ("mv2", "age")):
            rows(
                cursor,
                f"""CREATE MATERIALIZED VIEW {view}
                BUILD DEFERRED REFRESH AUTO ON MANUAL
                partition by(`{column}`)
                DISTRIBUTED BY RANDOM BUCKETS 2
                PROPERTIES (
                'replication_num' = '1'
                )
                AS
                SELECT t1.o_date as order_date, t1.user_id as user_id, t1.num, t2.age
                FROM t1 join t2 on t1.user_id=t2.user_id;""",
            )
        names = ["p_20170101_20170102", "p_20170102_20170103", "p_20170201_20170202"]
        assert partitions(cursor, "mv1") == names
        assert partitions(cursor, "mv2") == ["p_1", "p_2"]
        rows(cursor, "REFRESH MATERIALIZED VIEW mv1 AUTO;")
        rows(cursor, "REFRESH MATERIALIZED VIEW mv1 COMPLETE;")
        assert partitions(cursor, "mv1") == names


@pytest.mark.thorough
def test_doris_examples_with_hive_tables_work(gateway: Gateway) -> None:
    with in_database(gateway, "doris_hive") as cursor:
        rows(
            cursor,
            """CREATE TABLE hive1 (
            `k1` int)
            PARTITIONED BY (
            `year` int,
            `region` string)
            STORED AS ORC;""",
        )
        rows(
            cursor,
            """alter table hive1 add if not exists
            partition(year=2020,region="bj")
            partition(year=2020,region="sh")
            partition(year=2021,region="bj")
            partition(year=2021,region="sh")""",
        )
        for year in (2020, 2021):
            for region in ("bj", "sh"):
                rows(cursor, f"INSERT INTO hive1 PARTITION (year={year}, region='{region}') VALUES (1)")
        for view, column, expected in (
            ("mv_hive", "year", ["p_2020", "p_2021"]),
            ("mv_hive2", "region", ["p_bj", "p_sh"]),
        ):
            rows(
                cursor,
                f"""CREATE MATERIALIZED VIEW {view}
                BUILD DEFERRED REFRESH AUTO ON MANUAL
                partition by(`{column}`)
                DISTRIBUTED BY RANDOM BUCKETS 2
                PROPERTIES ('replication_num' = '1')
                AS
                SELECT k1,year,region FROM hive1;""",
            )
            rows(cursor, f"REFRESH MATERIALIZED VIEW {view} AUTO")
            assert partitions(cursor, view) == expected


@pytest.mark.thorough
def test_doris_examples_of_roll_ups_limits_and_schedules_work(gateway: Gateway) -> None:
    with in_database(gateway, "doris_rollup") as cursor:
        rows(cursor, "CREATE TABLE t1 (`k1` INT, `k2` DATE) USING parquet PARTITIONED BY (k2)")
        rows(cursor, "INSERT INTO t1 VALUES (1, DATE'2020-01-01'), (2, DATE'2020-01-02'), (3, DATE'2020-02-01')")
        for unit, expected in (
            ("month", ["p_20200101_20200201", "p_20200201_20200301"]),
            ("year", ["p_20200101_20210101"]),
        ):
            rows(
                cursor,
                f"""CREATE MATERIALIZED VIEW mv_{unit}
                BUILD DEFERRED REFRESH AUTO ON MANUAL
                partition by (date_trunc(`k2`,'{unit}'))
                DISTRIBUTED BY RANDOM BUCKETS 2
                PROPERTIES (
                'replication_num' = '1'
                )
                AS
                SELECT * FROM t1;""",
            )
            rows(cursor, f"REFRESH MATERIALIZED VIEW mv_{unit} COMPLETE;")
            assert partitions(cursor, f"mv_{unit}") == expected
        rows(
            cursor,
            """CREATE MATERIALIZED VIEW mv1
            BUILD DEFERRED REFRESH AUTO ON MANUAL
            partition by(`k2`)
            DISTRIBUTED BY RANDOM BUCKETS 2
            PROPERTIES (
            'replication_num' = '1',
            'partition_sync_limit'='1',
            'partition_sync_time_unit'='DAY'
            )
            AS
            SELECT * FROM t1;""",
        )
        for number, refresh in enumerate(
            (
                "REFRESH COMPLETE ON SCHEDULE EVERY 10 hour",
                "REFRESH AUTO ON SCHEDULE EVERY 10 hour",
                "REFRESH ON COMMIT",
            )
        ):
            rows(cursor, f"CREATE MATERIALIZED VIEW s{number}\n{refresh}\npartition by(`k2`)\nAS\nselect * from t1;")
        strategies = rows(
            cursor,
            "SELECT MvName, ExecuteType, RecurringStrategy FROM jobs('type'='mv') "
            "WHERE MvDatabaseName = 'doris_rollup' AND MvName LIKE 's%' ORDER BY MvName",
        )
        assert [row[:2] for row in strategies] == [("s0", "RECURRING"), ("s1", "RECURRING"), ("s2", "MANUAL")]
        assert strategies[0][2].startswith("EVERY 10 HOUR")
        assert strategies[2][2] == "MANUAL TRIGGER"


def test_statements_as_proposed_for_mariadb_work(gateway: Gateway) -> None:
    """The feature request asks that DROP VIEW drops table and definition, and SHOW CREATE VIEW shows the definition."""
    with in_database(gateway, "mariadb_views") as cursor:
        rows(cursor, "CREATE TABLE t (a INT) USING parquet")
        rows(cursor, "CREATE MATERIALIZED VIEW view_name AS SELECT a FROM t")
        ((text,),) = rows(cursor, "SHOW CREATE VIEW view_name")
        assert " ".join(text.split()).endswith("AS SELECT a FROM `mariadb_views`.t")
        rows(cursor, "REFRESH MATERIALIZED VIEW view_name")
        rows(cursor, "DROP VIEW view_name")
        assert [row[1] for row in rows(cursor, "SHOW TABLES")] == ["t"]


def test_postgres_statements_work(gateway: Gateway) -> None:
    with in_database(gateway, "postgres_views") as cursor:
        rows(cursor, "CREATE TABLE t (a INT) USING parquet")
        rows(cursor, "CREATE MATERIALIZED VIEW mv (x) WITH (fillfactor=70) AS SELECT a FROM t WITH NO DATA")
        rows(cursor, "REFRESH MATERIALIZED VIEW CONCURRENTLY mv WITH DATA")
        assert rows(cursor, "SELECT x FROM mv") == []
        rows(cursor, "ALTER MATERIALIZED VIEW mv RENAME TO renamed")
        rows(cursor, "COMMENT ON MATERIALIZED VIEW renamed IS 'it'")
        rows(cursor, "DROP MATERIALIZED VIEW IF EXISTS renamed")


def test_hive_statements_work(gateway: Gateway) -> None:
    with in_database(gateway, "hive_views") as cursor:
        rows(cursor, "CREATE TABLE emps (deptno INT, name STRING) USING parquet")
        rows(
            cursor,
            "CREATE MATERIALIZED VIEW IF NOT EXISTS hive_views.mv DISABLE REWRITE COMMENT 'c' PARTITIONED ON (deptno) "
            "CLUSTERED ON (name) STORED AS ORC TBLPROPERTIES ('rewriting.time.window' = '10min') "
            "AS SELECT name, deptno FROM emps",
        )
        rows(cursor, "ALTER MATERIALIZED VIEW hive_views.mv REBUILD")
        rows(cursor, "ALTER MATERIALIZED VIEW mv ENABLE REWRITE")
        (shown,) = rows(cursor, "SHOW MATERIALIZED VIEWS IN hive_views 'm*'")
        assert shown[6] == "Refresh on read (Valid until source tables modified)"
        columns = "rewriting_enabled, incremental_rebuild"
        listed = f"SELECT {columns} FROM freshgate.materialized_views WHERE database_name = 'hive_views'"
        assert rows(cursor, f"{listed} AND name = 'mv'") == [(True, "Not available")]
        assert rows(cursor, "DESCRIBE FORMATTED mv")


@pytest.mark.thorough
def test_statements_of_trino_databricks_oracle_and_bigquery_work(gateway: Gateway) -> None:
    with in_database(gateway, "other_views") as cursor:
        rows(cursor, "CREATE TABLE t (a INT, d DATE) USING parquet")
        rows(cursor, "INSERT INTO t VALUES (1, DATE'2024-01-01')")
        for sql in (
            "CREATE OR REPLACE MATERIALIZED VIEW trino GRACE PERIOD INTERVAL '10' MINUTE WHEN STALE INLINE COMMENT 'c' "
            "WITH (format = 'ORC') AS SELECT a FROM t",
            "CREATE OR REPLACE MATERIALIZED VIEW databricks (a COMMENT 'x') PARTITIONED BY (a) COMMENT 'c' "
            "TBLPROPERTIES ('k' = 'v') SCHEDULE CRON '0 0 * * * ?' AT TIME ZONE 'America/Los_Angeles' "
            "AS SELECT a FROM t",
            "CREATE MATERIALIZED VIEW every_hour SCHEDULE EVERY 1 HOUR AS SELECT a FROM t",
            "CREATE MATERIALIZED VIEW oracle BUILD IMMEDIATE REFRESH FORCE ON DEMAND ENABLE QUERY REWRITE "
            "AS SELECT a FROM t",
            "CREATE MATERIALIZED VIEW bigquery PARTITION BY DATE(d) CLUSTER BY a OPTIONS (enable_refresh = true, "
            'refresh_interval_minutes = 60, max_staleness = INTERVAL "4" HOUR) AS SELECT a, d FROM t',
            "REFRESH MATERIALIZED VIEW databricks FULL ASYNC",
            "ALTER MATERIALIZED VIEW databricks DROP SCHEDULE",
            "ALTER MATERIALIZED VIEW databricks ADD SCHEDULE EVERY 2 DAYS",
        ):
            rows(cursor, sql)
        for view in ("trino", "databricks", "every_hour", "oracle", "bigquery"):
            assert rows(cursor, f"SELECT a FROM {view}") == [(1,)]
            ((_, text),) = rows(cursor, f"SHOW CREATE MATERIALIZED VIEW {view}")
            rows(cursor, f"DROP MATERIALIZED VIEW {view}")
            rows(cursor, text)
            assert rows(cursor, f"SHOW CREATE MATERIALIZED VIEW {view}") == [(view, text)]


def test_the_quick_start_gives_what_it_shows(gateway: Gateway) -> None:
    page = (ROOT / "docs" / "quickstart.md").read_text(encoding="utf-8")
    create, change, schedule = (
        [statement.strip() for statement in block.split(";") if statement.strip()]
        for block in re.findall(r"^```sql\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    )
    shown = [
        (day.strip(), int(total)) for day, total in re.findall(r"^ +\| (\d{4}-\S+) +\| (\d+) ", page, re.MULTILINE)
    ]
    with pyhive(gateway.host, gateway.port) as cursor:
        try:
            answers = [rows(cursor, statement) for statement in create]
            assert [(str(day), total) for day, total in answers[-1]] == shown
            _, views, read = (rows(cursor, statement) for statement in change)
            assert views[0][2] == "STALE"
            assert [total for _, total in read] == [8, 10]
            rows(cursor, *schedule)
        finally:
            rows(cursor, "DROP MATERIALIZED VIEW IF EXISTS shop.daily_sales")
            rows(cursor, "DROP DATABASE IF EXISTS shop CASCADE")
