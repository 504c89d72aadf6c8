"""Tests the life cycle of a materialized view through each client."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from clients import Jdbc, beeline, pyhive, rows
from databases import Database
from processes import Gateway
from pyhive.exc import OperationalError
from tiers import sampled

Client = Callable[..., list[list[list[str]]]]
"""Runs statements in one session; returns the rows of each as texts."""


def _through_beeline(gateway: Gateway, *statements: str) -> list[list[list[str]]]:
    # A marker separates the answers; tsv2 prints a line of column names before the rows.
    marked = [part for statement in statements for part in (statement, "SELECT '--end--' AS mark")]
    output = beeline(f"jdbc:hive2://{gateway.host}:{gateway.port}/default", *marked).stdout
    answers = output.replace("\r", "").split("mark\n--end--\n")
    return [_lines(answer)[1:] for answer in answers[: len(statements)]]


def _lines(answer: str) -> list[list[str]]:
    """Returns the lines of an answer without beeline's prompts."""
    return [line.split("\t") for line in answer.splitlines() if line.strip(" .>")]


def _through_jdbc(gateway: Gateway, *statements: str) -> list[list[list[str]]]:
    with Jdbc(f"jdbc:hive2://{gateway.host}:{gateway.port}/default") as jdbc:
        return [_texts(jdbc.query(statement)[1]) for statement in statements]


def _through_pyhive(gateway: Gateway, *statements: str) -> list[list[list[str]]]:
    with pyhive(gateway.host, gateway.port) as cursor:
        return [_texts(rows(cursor, statement)) for statement in statements]


def _through_pyhive_nosasl(gateway: Gateway, *statements: str) -> list[list[list[str]]]:
    with pyhive(gateway.host, gateway.port, auth="NOSASL") as cursor:
        return [_texts(rows(cursor, statement)) for statement in statements]


def _texts(found: list[tuple[object, ...]]) -> list[list[str]]:
    return [["NULL" if value is None else str(value) for value in row] for row in found]


CLIENTS = {
    "beeline": _through_beeline,
    "jdbc": _through_jdbc,
    "pyhive": _through_pyhive,
    "pyhive without SASL": _through_pyhive_nosasl,
}


@pytest.mark.parametrize("client", sampled(list(CLIENTS.values()), {"beeline"}, list(CLIENTS)))
def test_the_life_cycle_of_a_view_runs_in_each_client(database: Database, client: Client) -> None:
    orders, totals = f"{database.name}.orders", f"{database.name}.daily_totals"
    answers = client(
        database.gateway,
        f"CREATE TABLE {orders} (day STRING, amount DECIMAL(10,2)) USING parquet",
        f"INSERT INTO {orders} VALUES ('mon', 10), ('mon', 5), ('tue', 1)",
        f"CREATE MATERIALIZED VIEW {totals} COMMENT 'per day' AS "
        f"SELECT day, sum(amount) AS total, count(*) AS n FROM {orders} GROUP BY day",
        f"SELECT day, total, n FROM {totals} ORDER BY day",
        f"SHOW MATERIALIZED VIEWS IN {database.name}",
        f"INSERT INTO {orders} VALUES ('tue', 41.5)",
        f"SELECT table_name, is_stale FROM {database.name}.INFORMATION_SCHEMA.MATERIALIZED_VIEWS",
        f"SELECT day, total, n FROM {totals} ORDER BY day",
        f"SELECT is_stale FROM {database.name}.INFORMATION_SCHEMA.MATERIALIZED_VIEWS",
        f"REFRESH MATERIALIZED VIEW {totals}",
        f"CALL BQ.REFRESH_MATERIALIZED_VIEW('project.{totals}')",
        f"SHOW MATERIALIZED VIEWS IN {database.name} LIKE 'daily*'",
        f"DROP MATERIALIZED VIEW {totals}",
        f"SHOW MATERIALIZED VIEWS IN {database.name}",
    )
    assert answers[3] == [["mon", "15.00", "2"], ["tue", "1.00", "1"]]
    assert answers[4][0][:4] == [database.name, "daily_totals", "FRESH", "1"]
    assert answers[4][0][7] == "per day"
    assert [[name, stale.lower()] for name, stale in answers[6]] == [["daily_totals", "true"]]
    assert answers[7] == [["mon", "15.00", "2"], ["tue", "42.50", "2"]]
    assert answers[8][0][0].lower() == "false"
    assert answers[11][0][2:4] == ["FRESH", "4"]
    assert answers[13] == []


def test_a_dropped_view_leaves_nothing_behind(database: Database) -> None:
    database.run(
        "CREATE TABLE t (a INT) USING parquet",
        "CREATE MATERIALIZED VIEW m AS SELECT a FROM t",
        "DROP MATERIALIZED VIEW m",
    )
    assert database.rows("SHOW TABLES IN freshgate_storage LIKE '" + database.name + "*'") == []
    assert [row[1] for row in database.rows(f"SHOW TABLES IN {database.name}")] == ["t"]


def test_views_can_be_created_with_columns_replaced_and_dropped_if_they_exist(database: Database) -> None:
    database.run("CREATE TABLE t (a INT, b STRING) USING parquet", "INSERT INTO t VALUES (1, 'x'), (2, NULL)")
    database.run("CREATE MATERIALIZED VIEW m (k COMMENT 'the key', v) AS SELECT a, b FROM t")
    assert database.rows("SELECT k, v FROM m") == [(1, "x"), (2, None)]
    described = {row[0]: row[2] for row in rows(database.cursor, "DESCRIBE m")}
    assert described == {"k": "the key", "v": None}
    database.run("CREATE MATERIALIZED VIEW IF NOT EXISTS m AS SELECT 5 AS five FROM t")
    assert database.rows("SELECT k FROM m") == [(1,), (2,)]
    database.run(
        "CREATE OR REPLACE MATERIALIZED VIEW m COMMENT 'two numbers' TBLPROPERTIES ('team' = 'sales') "
        "AS SELECT count(*), max(a) + 1 FROM t"
    )
    assert dict(database.rows("SHOW TBLPROPERTIES m"))["team"] == "sales"
    assert ("Comment", "two numbers", "") in database.rows("DESCRIBE EXTENDED m")
    assert database.rows("SELECT * FROM m") == [(2, 3)]
    database.run("INSERT INTO t VALUES (9, 'z')")
    assert database.rows("SELECT * FROM m") == [(3, 10)]
    database.run("DROP MATERIALIZED VIEW IF EXISTS m", "DROP MATERIALIZED VIEW IF EXISTS m")


def test_a_definition_keeps_the_settings_it_was_created_with(database: Database) -> None:
    """ANSI mode, time zone and current database at creation apply to later refreshes, whichever session causes them."""
    database.run(
        "CREATE TABLE t (s STRING) USING parquet",
        "INSERT INTO t VALUES ('x')",
        "SET spark.sql.ansi.enabled=false",
        "SET spark.sql.session.timeZone=Asia/Tokyo",
        "CREATE MATERIALIZED VIEW m AS "
        "SELECT CAST(s AS INT) AS i, CAST(timestamp'2020-01-01 00:00:00 UTC' AS STRING) AS at FROM t",
    )
    with pyhive(database.gateway.host, database.gateway.port) as other:
        rows(other, f"INSERT INTO {database.name}.t VALUES ('7')")
        found = rows(other, f"SELECT * FROM {database.name}.m")
    assert sorted(found, key=repr) == [(7, "2020-01-01 09:00:00"), (None, "2020-01-01 09:00:00")]


def test_variables_in_a_definition_have_their_values_at_creation(database: Database) -> None:
    """Spark substitutes ${name} before it parses, so a variable may contain the base table's name."""
    database.run(
        "CREATE TABLE t (a INT) USING parquet",
        "SET base=t",
        "CREATE MATERIALIZED VIEW m AS SELECT a FROM ${base}",
        "SET base=other",
        "INSERT INTO t VALUES (1)",
    )
    assert database.rows("SELECT a FROM m") == [(1,)]


@pytest.mark.thorough
def test_unusual_names_and_texts_are_kept(database: Database) -> None:
    database.run(
        "CREATE TABLE `select` (`a b` INT, `c``d` STRING, `é` STRING) USING parquet",
        "INSERT INTO `select` VALUES (1, 'it''s', '${x}'), (2, 'b\\\\s', 'ü')",
        "CREATE MATERIALIZED VIEW `order` COMMENT 'it\\'s ${odd}' AS "
        "SELECT `a b`, `c``d`, `é`, '${no:such}' AS `$` FROM `select`",
    )
    expected = database.rows("SELECT `a b`, `c``d`, `é`, '${no:such}' FROM `select`")
    assert database.rows("SELECT * FROM `order`") == expected
    database.run("INSERT INTO `select` VALUES (3, NULL, '')")
    assert len(database.rows(f"SELECT * FROM `{database.name}`.`order`")) == 3


def test_types_and_names_of_columns_are_kept(database: Database) -> None:
    database.run(
        "CREATE TABLE t (id INT, v VARCHAR(5), c CHAR(3), s STRUCT<f: INT COMMENT 'inner', `a b`: STRING>, "
        "m MAP<STRING, ARRAY<DECIMAL(9,4)>>, b BINARY, n TIMESTAMP_NTZ) USING parquet",
        "INSERT INTO t VALUES (1, 'v', 'c', named_struct('f', 2, 'a b', 'x'), map('k', array(1.5)), X'00', NULL)",
    )
    columns = "id AS `#id`, v, c, s, m, b, n, INTERVAL '1' DAY AS i, named_struct('x y', 1) AS o"
    database.run(
        f"CREATE MATERIALIZED VIEW m AS SELECT {columns} FROM t", f"CREATE VIEW plain AS SELECT {columns} FROM t"
    )
    assert rows(database.cursor, "DESCRIBE m") == rows(database.cursor, "DESCRIBE plain")
    assert rows(database.cursor, "SELECT * FROM m") == rows(database.cursor, "SELECT * FROM plain")


def test_replacing_a_view_replaces_its_properties(database: Database) -> None:
    database.run(
        "CREATE TABLE t (a INT) USING parquet",
        "CREATE MATERIALIZED VIEW m TBLPROPERTIES ('p' = '1', 'q' = '2') AS SELECT a FROM t",
        "CREATE OR REPLACE MATERIALIZED VIEW m TBLPROPERTIES ('p' = '9') AS SELECT a FROM t",
    )
    shown = dict(database.rows("SHOW TBLPROPERTIES m"))
    assert shown["p"] == "9"
    assert "q" not in shown


CHANGED = {
    "SELECT n AS count, item AS thing, item AS again FROM (SELECT item, count(*) AS n FROM t GROUP BY item)": True,
    "SELECT item, total, upper(item) AS u FROM (SELECT item, sum(x) AS total FROM t GROUP BY item)": True,
    "SELECT item, sum(x) AS total, count(*) AS n, count(x) AS c FROM t GROUP BY item": True,
    "SELECT item, sum(x) AS total, count(*) AS n FROM t WHERE item > 'i1' GROUP BY item": True,
    "SELECT sum(x) AS total FROM t": True,
    "SELECT item, sum(x) AS total, max(x) AS m FROM t GROUP BY item": False,
}
"""Definitions, and whether the rows of another one answer them."""
STORED = "Its rows are computed from the stored rows of version"


def test_changed_definitions_have_the_rows_that_they_would_have_anew(database: Database) -> None:
    database.run("CREATE TABLE t (item STRING, x INT) USING parquet")
    database.run("INSERT INTO t VALUES ('i1', 1), ('i1', NULL), ('i2', 2), ('i3', 30), (NULL, 5)")
    grouped = "SELECT item, sum(x) AS total, count(*) AS n FROM t GROUP BY item"
    for query, inherits in CHANGED.items():
        # The states of refreshes by rows are stored, too.
        database.run(f"CREATE OR REPLACE MATERIALIZED VIEW m BUILD COMPLETE REFRESH INCREMENTAL FALLBACK AS {grouped}")
        database.run(f"CREATE OR REPLACE MATERIALIZED VIEW m REFRESH INCREMENTAL FALLBACK AS {query}")
        log = database.cursor.fetch_logs()
        assert any(line.startswith(STORED) for line in log) == inherits, (query, log)
        assert sorted(database.rows("SELECT * FROM m"), key=str) == sorted(database.rows(query), key=str)
    # It goes on from there by rows, also if the base table gave rows that the view did not have.
    later = "SELECT item, sum(x) AS total, avg(x) AS mean FROM t WHERE x > {} GROUP BY item"
    changes = {grouped: "SELECT count(*) AS n, item FROM t GROUP BY item", later.format(6): later.format(2)}
    for new, (query, wider) in enumerate(changes.items(), 10):
        database.run(f"CREATE OR REPLACE MATERIALIZED VIEW m BUILD COMPLETE REFRESH INCREMENTAL FALLBACK AS {query}")
        database.run(f"CREATE OR REPLACE MATERIALIZED VIEW m REFRESH INCREMENTAL AS {wider}")
        assert any(line.startswith(STORED) for line in database.cursor.fetch_logs()), wider
        database.run(f"INSERT INTO t VALUES ('i2', 7), ('i{new}', 9)", "REFRESH MATERIALIZED VIEW m INCREMENTAL")
        assert sorted(database.rows("SELECT * FROM m"), key=str) == sorted(database.rows(wider), key=str)


def test_several_views_are_refreshed_and_exchanged_together(database: Database) -> None:
    database.run("CREATE TABLE t (a INT) USING parquet", "INSERT INTO t VALUES (1), (2)")
    for name, query in {"one": "sum(a)", "one_next": "max(a)", "two": "count(*)", "two_next": "min(a)"}.items():
        database.run(f"CREATE MATERIALIZED VIEW {name} AS SELECT {query} AS x FROM t")
    database.run("CREATE MATERIALIZED VIEW above AS SELECT x FROM one", "INSERT INTO t VALUES (5)")
    found = rows(database.cursor, f"REFRESH MATERIALIZED VIEWS IN {database.name} AUTO")
    assert [(name, status, states) for _, name, status, *_, states in found][-1] == ("above", "SUCCESS", "")
    assert {status for _, _, status, *_ in found} == {"SUCCESS"}
    database.run("ALTER MATERIALIZED VIEWS SWAP (one WITH one_next, two WITH two_next)")
    assert database.rows("SELECT one.x, two.x, one_next.x, two_next.x FROM one, two, one_next, two_next") == [
        (5, 1, 8, 3)
    ]
    assert database.rows("SELECT x FROM above") == [(5,)]


@pytest.mark.thorough
def test_a_restart_keeps_views_whose_names_spark_would_redact(database: Database, start_gateway: Any) -> None:
    """Spark redacts the values of properties that contain such words."""
    first = start_gateway()
    with pyhive(first.host, first.port, database=database.name) as cursor:
        rows(cursor, "CREATE TABLE token_urls (page_url STRING, secret INT) USING parquet")
        rows(
            cursor,
            "CREATE MATERIALIZED VIEW password_resets COMMENT 'access key' TBLPROPERTIES ('token' = 'url') AS "
            "SELECT page_url, secret FROM token_urls WHERE page_url <> 'password'",
        )
    assert first.stop() == 0
    again = start_gateway()
    with pyhive(again.host, again.port, database=database.name) as cursor:
        for number in (1, 2):
            rows(cursor, f"INSERT INTO token_urls VALUES ('u', {number})")
            assert len(rows(cursor, "SELECT * FROM password_resets")) == number
        rows(cursor, "DROP MATERIALIZED VIEW password_resets")


def test_a_storage_dropped_directly_at_spark_damages_the_view_only(database: Database, direct: Any) -> None:
    database.run("CREATE TABLE t (a INT) USING parquet", "CREATE MATERIALIZED VIEW m AS SELECT a FROM t")
    for name in (row[1] for row in rows(direct, f"SHOW TABLES IN freshgate_storage LIKE '{database.name}__m__*'")):
        rows(direct, f"DROP {'VIEW' if name.endswith('__definition') else 'TABLE'} freshgate_storage.{name}")
    database.run("INSERT INTO t VALUES (1)")
    assert database.rows("SELECT a FROM t") == [(1,)]
    with pytest.raises(OperationalError, match="storage table"):
        database.rows("SELECT a FROM m")
    assert [row[:3] for row in database.rows("SHOW MATERIALIZED VIEWS")] == [(database.name, "m", "DAMAGED")]
