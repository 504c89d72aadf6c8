"""Tests that every kind of statement that reads a stale materialized view refreshes it first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jpype
import pytest
from byte_chain import chain
from clients import Jdbc, pyhive, rows
from databases import NAP, Database
from processes import Engine, wait_until
from raw_session import RawSession, decoded, texts
from tiers import sampled

from gateway.service.answers.catalog_tables import MATERIALIZED_VIEWS
from gateway.wire import message


@pytest.fixture(scope="module")
def view(shared: Database) -> Database:
    """A materialized view `m` over `t`, and views over it through which reads can go."""
    shared.run(
        "CREATE TABLE t (a INT) USING parquet",
        "CREATE TABLE other (a INT) USING parquet",
        "INSERT INTO other VALUES (1)",
        "CREATE MATERIALIZED VIEW m AS SELECT count(*) AS n FROM t",
        "CREATE MATERIALIZED VIEW above AS SELECT n + 1 AS n FROM m",
        "CREATE VIEW plain AS SELECT n FROM m",
        "CREATE VIEW deep AS SELECT n FROM plain",
        "CREATE TEMPORARY VIEW temporary AS SELECT n FROM deep",
        "CREATE VIEW over_t AS SELECT a FROM t",
        "CREATE MATERIALIZED VIEW through_view AS SELECT count(*) AS n FROM over_t",
    )
    return shared


READS = [
    "SELECT n FROM m",
    "select N from M",
    "SELECT m.n FROM {db}.m",
    "SELECT `n` FROM `{db}`.`m`",
    "SELECT n FROM spark_catalog.{db}.m",
    "/* a comment -- with */ SELECT n -- FROM x\nFROM /* m */ m",
    "SELECT x.n FROM other JOIN m x ON true",
    "SELECT n FROM other, m",
    "SELECT (SELECT n FROM m)",
    "SELECT n FROM (SELECT * FROM m) q",
    "WITH q AS (SELECT n FROM m) SELECT n FROM q",
    "WITH m AS (SELECT n FROM m) SELECT n FROM m",
    "SELECT max(n) FROM (SELECT n FROM m UNION ALL SELECT n FROM m)",
    "SELECT n FROM m INTERSECT SELECT n FROM m",
    "FROM m SELECT n",
    "TABLE m",
    "SELECT n FROM m WHERE n IN (SELECT n FROM m)",
    "SELECT n FROM m LATERAL VIEW explode(array(1)) AS e",
    "FROM m |> SELECT n",
    "SELECT n - 1 FROM above",
    "SELECT n FROM plain",
    "SELECT n FROM deep",
    "SELECT n FROM temporary",
    "SELECT n FROM through_view",
    "EXECUTE IMMEDIATE 'SELECT n FROM m'",
    "SELECT n FROM m TABLESAMPLE (100 PERCENT)",
    "SELECT n FROM m LIMIT 10",
    "SELECT * FROM (VALUES (1)) AS v(x), LATERAL (SELECT n FROM m) AS l(n) ORDER BY 1 -- lateral",
]


@pytest.mark.parametrize("sql", sampled(READS, {READS[0], *READS[3::6]}))
def test_a_read_is_fresh(view: Database, sql: str) -> None:
    view.run("INSERT INTO t VALUES (1)")
    expected = view.rows("SELECT count(*) FROM t")[0][0]
    assert rows(view.cursor, sql.format(db=view.name))[0][-1] == expected


@pytest.mark.thorough
def test_rows_copied_from_a_view_are_fresh(view: Database) -> None:
    for statement in (
        "CREATE TABLE made USING parquet AS SELECT n FROM m",
        "INSERT OVERWRITE made SELECT n FROM m",
        "INSERT OVERWRITE made TABLE m",
    ):
        view.run("INSERT INTO t VALUES (1)", statement)
        assert view.rows("SELECT n FROM made") == view.rows("SELECT count(*) FROM t")


@pytest.mark.parametrize(
    "sql",
    [
        "EXPLAIN SELECT n FROM m",
        "DESCRIBE m",
        "DESCRIBE QUERY SELECT n FROM m",
        "SHOW COLUMNS IN m",
        "SELECT n FROM m WHERE 1=0",
        "SELECT n FROM m LIMIT 0",
        "CREATE OR REPLACE TEMPORARY VIEW unread AS SELECT n FROM m",
    ],
)
def test_a_statement_that_reads_no_rows_refreshes_nothing(view: Database, sql: str) -> None:
    view.run("INSERT INTO t VALUES (1)")
    before = view.version("m")
    view.run(sql)
    assert view.version("m") == before
    assert view.freshness("m") == "STALE"


def test_a_fresh_view_is_not_refreshed(view: Database) -> None:
    view.run("SELECT n FROM above")
    before = view.version("m"), view.version("above")
    view.run("SELECT n FROM above", "SELECT n FROM m", "INSERT INTO other VALUES (1)", "SELECT n FROM m")
    assert (view.version("m"), view.version("above")) == before


@pytest.mark.thorough
def test_a_view_created_directly_on_spark_is_resolved(view: Database, start_gateway: Any) -> None:
    """It is created after the gateway has listed the database's views; the list is read again when it is old."""
    gateway = start_gateway(constants={"gateway.assembly.views.Relations.interval_seconds": 0})
    with pyhive(gateway.host, gateway.port) as cursor:
        rows(cursor, f"USE {view.name}")
        rows(cursor, "CREATE MATERIALIZED VIEW known AS SELECT count(*) AS n FROM t")
        view.run("CREATE OR REPLACE VIEW elsewhere AS SELECT n FROM known")
        rows(cursor, "INSERT INTO t VALUES (1)")
        assert rows(cursor, "SELECT n FROM elsewhere") == rows(cursor, "SELECT count(*) FROM t")
        rows(cursor, "DROP MATERIALIZED VIEW known")


def test_an_asynchronous_read_waits_for_the_refresh(view: Database) -> None:
    """JDBC polls: it must see RUNNING until the refreshed rows are available, and then the right columns."""
    with Jdbc(f"jdbc:hive2://{view.gateway.host}:{view.gateway.port}/{view.name}") as jdbc:
        view.run("INSERT INTO t VALUES (1)")
        names, found = jdbc.query("SELECT n, 'x' AS label FROM m")
    assert names == ["n", "label"]
    assert found == [(view.rows("SELECT count(*) FROM t")[0][0], "x")]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT table_name FROM INFORMATION_SCHEMA.MATERIALIZED_VIEWS WHERE table_schema = '{db}' AND table_name = 'm'",
        "SELECT m.table_name FROM `project.{db}`.INFORMATION_SCHEMA.MATERIALIZED_VIEWS m WHERE m.table_name = 'm'",
        "SELECT MATERIALIZED_VIEWS.table_name FROM {db}.information_schema.materialized_views WHERE table_name = 'm'",
        "SELECT v.table_name FROM `{db}`.INFORMATION_SCHEMA.MATERIALIZED_VIEWS AS v "
        "JOIN (SELECT 'm' AS table_name) w ON v.table_name = w.table_name",
        "WITH i AS (SELECT * FROM {db}.INFORMATION_SCHEMA.MATERIALIZED_VIEWS) "
        "SELECT table_name FROM i WHERE table_name = 'm'",
    ],
)
def test_information_schema_can_be_queried_like_a_table(view: Database, sql: str) -> None:
    assert view.rows(sql.format(db=view.name)) == [("m",)]


def test_information_schema_has_bigquerys_columns(view: Database) -> None:
    view.run(f"SELECT * FROM {view.name}.INFORMATION_SCHEMA.MATERIALIZED_VIEWS")
    assert [column[0] for column in view.cursor.description] == [
        "table_catalog",
        "table_schema",
        "table_name",
        "last_refresh_time",
        "refresh_watermark",
        "enable_refresh",
        "refresh_interval_minutes",
        "last_modified_time",
        "is_stale",
    ]


def test_the_catalog_table_has_the_declared_columns_and_types(view: Database) -> None:
    described = rows(view.cursor, "DESCRIBE QUERY SELECT * FROM freshgate.materialized_views")
    assert [row[:2] for row in described] == [(name, kind.lower()) for name, kind in MATERIALIZED_VIEWS]


@pytest.mark.thorough
def test_a_lower_view_that_was_dropped_and_recreated_is_read_anew(database: Database) -> None:
    database.run(
        "CREATE TABLE t (a INT) USING parquet",
        "INSERT INTO t VALUES (1)",
        "CREATE MATERIALIZED VIEW below AS SELECT a FROM t",
        "CREATE MATERIALIZED VIEW top AS SELECT a FROM below",
        "CREATE TEMPORARY VIEW seen AS SELECT a FROM below",
        "DROP MATERIALIZED VIEW below",
    )
    assert database.rows("SELECT a FROM top") == [(1,)]
    assert database.freshness("top") == "STALE"
    database.run("CREATE MATERIALIZED VIEW below AS SELECT a + 100 AS a FROM t")
    assert database.rows("SELECT a FROM top") == [(101,)]
    database.run("INSERT INTO t VALUES (2)")
    assert database.rows("SELECT a FROM top") == [(101,), (102,)]
    assert database.rows("SELECT a FROM seen") == [(101,), (102,)]


@pytest.mark.thorough
def test_a_replaced_spark_view_is_resolved_to_the_view_it_now_reads(database: Database) -> None:
    database.run(
        "CREATE TABLE t (a INT) USING parquet",
        "CREATE TABLE u (a INT) USING parquet",
        "CREATE MATERIALIZED VIEW one AS SELECT count(*) AS n FROM t",
        "CREATE MATERIALIZED VIEW two AS SELECT count(*) + 10 AS n FROM u",
        "CREATE VIEW between AS SELECT n FROM one",
        "CREATE MATERIALIZED VIEW top AS SELECT n FROM between",
        "INSERT INTO u VALUES (1)",
        "CREATE OR REPLACE VIEW between AS SELECT n FROM two",
    )
    assert database.rows("SELECT n FROM top") == [(11,)]


COMPUTED = [
    "SELECT n FROM ${which}",
    "SELECT n FROM IDENTIFIER(lower('M'))",
    "EXECUTE IMMEDIATE concat('SELECT n ', 'FROM m')",
    "EXECUTE IMMEDIATE 'SELECT n FROM IDENTIFIER(:name)' USING composed AS name",
    r"EXECUTE IMMEDIATE 'SELECT n FROM \u006d'",
]


@pytest.mark.parametrize("sql", sampled(COMPUTED, {COMPUTED[3]}))
def test_a_view_is_fresh_if_its_name_is_computed_at_run_time(view: Database, sql: str) -> None:
    variable = "DECLARE OR REPLACE VARIABLE composed STRING DEFAULT char(109)"
    view.run("SET which=m", variable, "INSERT INTO t VALUES (1)")
    assert rows(view.cursor, sql)[0] == view.rows("SELECT count(*) FROM t")[0]


OPAQUE = [
    "EXECUTE IMMEDIATE 'CREATE OR REPLACE TEMP VIEW made_{name} AS SELECT n FROM m'",
    "EXECUTE IMMEDIATE 'CREATE OR REPLACE TEMP VIEW made_' || '{name} AS SELECT n FROM m'",
    "BEGIN CREATE OR REPLACE TEMPORARY VIEW made_{name} AS SELECT n FROM m; END",
    "CREATE OR REPLACE TEMP VIEW IDENTIFIER('made_' || '{name}') AS SELECT n FROM m",
    "CREATE OR REPLACE TEMP VIEW made_{name} AS SELECT n FROM ${{which}}",
    "BEGIN USE {db}; CREATE OR REPLACE TEMP VIEW made_{name} AS SELECT n FROM m; USE default; END",
]


@pytest.mark.parametrize("statement", sampled(OPAQUE, {OPAQUE[-1]}))
def test_a_temporary_view_created_by_an_opaque_statement_is_fresh(view: Database, statement: str) -> None:
    gateway = view.gateway
    inside = "default" if "USE" in statement else view.name
    with pyhive(gateway.host, gateway.port, database=inside) as cursor:
        rows(cursor, "SET which=m")
        rows(cursor, statement.format(name="x", db=view.name))
        view.run("INSERT INTO t VALUES (1)")
        assert rows(cursor, "SELECT n FROM made_x") == view.rows("SELECT count(*) FROM t")


@pytest.mark.thorough
def test_a_temporary_view_altered_to_read_a_materialized_view_is_fresh(view: Database) -> None:
    view.run("CREATE TEMP VIEW altered AS SELECT a AS n FROM other", "ALTER VIEW altered AS SELECT n FROM m")
    view.run("INSERT INTO t VALUES (1)")
    assert view.rows("SELECT n FROM altered") == view.rows("SELECT count(*) FROM t")


def test_a_global_temporary_view_created_by_a_script_is_fresh(view: Database) -> None:
    gateway = view.gateway
    name = f"global_temp.of_{view.name}"
    view.run(f"BEGIN CREATE GLOBAL TEMP VIEW {name.partition('.')[2]} AS SELECT n FROM {view.name}.m; END")
    view.run("INSERT INTO t VALUES (1)")
    with pyhive(gateway.host, gateway.port) as cursor:
        assert rows(cursor, f"SELECT n FROM {name}") == view.rows("SELECT count(*) FROM t")
    view.run(f"DROP VIEW {name}")


@pytest.mark.parametrize("relation", sampled(["m", "plain"], {"plain"}))
def test_a_script_that_changes_the_database_reads_fresh_rows(view: Database, relation: str) -> None:
    with pyhive(view.gateway.host, view.gateway.port) as cursor:
        view.run("INSERT INTO t VALUES (1)")
        found = rows(cursor, f"BEGIN USE {view.name}; SELECT n FROM {relation}; END")
        assert found == view.rows("SELECT count(*) FROM t")


@pytest.mark.thorough
def test_a_statement_of_150_kb_reads_fresh_rows(view: Database) -> None:
    """Such a text is not parsed, and its many names must not be looked up one by one."""
    numbers = ", ".join(f"{number}.5" for number in range(15_000))
    view.run("INSERT INTO t VALUES (1)")
    found = rows(view.cursor, f"SELECT n FROM m WHERE n NOT IN ({numbers})")
    assert found == view.rows("SELECT count(*) FROM t")


def test_the_time_limit_of_a_statement_includes_its_refresh(database: Database) -> None:
    slow = "SELECT max(s) AS slept FROM (SELECT nap('java.lang.Thread', 'sleep', bigint(a)) AS s FROM t)"
    database.run(
        NAP,
        "CREATE TABLE t (a INT) USING parquet",
        f"CREATE MATERIALIZED VIEW m AS {slow}",
        "INSERT INTO t VALUES (20000)",
    )
    with Jdbc(f"jdbc:hive2://{database.gateway.host}:{database.gateway.port}/{database.name}") as jdbc:
        jdbc.statement.setQueryTimeout(1)
        with pytest.raises(jpype.JClass("java.sql.SQLException")):
            jdbc.query("SELECT slept FROM m")
    database.run("INSERT OVERWRITE t VALUES (1)")
    assert len(database.rows("SELECT slept FROM m")) == 1


@pytest.mark.parametrize("run_async", sampled([False, True], {"asynchronous"}, ["synchronous", "asynchronous"]))
def test_spark_gets_the_time_limit_minus_the_refresh(
    engine: Engine, database: Database, tmp_path: Path, run_async: bool
) -> None:
    sql = "SELECT slept FROM slow"
    slow = "SELECT max(s) AS slept FROM (SELECT nap('java.lang.Thread', 'sleep', bigint(n) * 500) AS s FROM t)"
    with chain(engine, database.name, tmp_path / "gateway.log") as recorded, RawSession(recorded) as session:
        for setup in (f"USE {database.name}", NAP, f"CREATE MATERIALIZED VIEW slow AS {slow}"):
            session.execute(setup)
        session.execute("INSERT INTO t VALUES (5)")
        operation = session.execute(sql, run_async=run_async, limit_seconds=60)
        session.wait(operation)
        session.execute("DROP MATERIALIZED VIEW slow")
        sent = [
            message.statement(each) for each in recorded.to_spark() if message.peek(each).name == "ExecuteStatement"
        ]
        (limit,) = [call.query_timeout_seconds for call in sent if call.statement == sql]
    assert 1 <= limit <= 58


def test_a_client_that_never_polls_gets_a_long_page(view: Database) -> None:
    """The gateway buffers nothing: it asks for the statement's outcome before the page."""
    view.rows("SELECT n FROM m")  # so that the view is fresh and the read need not wait
    query = f"SELECT repeat('x', 10000000) FROM {view.name}.m LATERAL VIEW explode(array(1, 2, 3)) AS e"
    with RawSession(view.gateway) as client:
        operation = client.execute(query, run_async=True)
        pages: list[bytes] = []

        def fetched() -> bool:
            pages.append(client.fetch(operation))
            return bool(decoded(pages[-1]).status.statusCode == 0)

        wait_until(fetched, what="the rows")
        assert [len(text) for (text,) in texts(pages[-1])] == [10_000_000] * 3


@pytest.mark.thorough
def test_a_global_temporary_view_is_fresh_in_every_session(view: Database, direct: Any) -> None:
    """This includes one created directly on Spark and one that was renamed."""
    view.run("CREATE GLOBAL TEMPORARY VIEW everywhere AS SELECT n FROM m")
    rows(direct, f"CREATE GLOBAL TEMPORARY VIEW elsewhere AS SELECT n FROM {view.name}.m")
    with pyhive(view.gateway.host, view.gateway.port) as other:
        for name in ("everywhere", "elsewhere", "renamed"):
            if name == "renamed":
                view.run("ALTER VIEW global_temp.everywhere RENAME TO global_temp.renamed")
            view.run("INSERT INTO t VALUES (40)")
            assert rows(other, f"SELECT n FROM global_temp.{name}") == view.rows("SELECT count(*) FROM t")
    view.run("DROP VIEW global_temp.renamed", "DROP VIEW global_temp.elsewhere")


@pytest.mark.thorough
def test_statements_that_may_read_any_view_do_not_build_broken_or_manual_views(database: Database) -> None:
    """One view was never built and cannot be, and one is built only on request."""
    database.run(
        "CREATE TABLE gone (a INT) USING parquet",
        "CREATE TABLE t USING parquet AS SELECT 7 AS a",
        "CREATE MATERIALIZED VIEW broken BUILD DEFERRED AS SELECT a FROM gone",
        "CREATE MATERIALIZED VIEW manual BUILD DEFERRED REFRESH COMPLETE ON MANUAL AS SELECT a FROM t",
        "CREATE MATERIALIZED VIEW m AS SELECT a FROM t",
        "DROP TABLE gone",
        "INSERT INTO t VALUES (8)",
    )
    with pyhive(database.gateway.host, database.gateway.port) as other:
        rows(other, "CREATE TEMPORARY VIEW IDENTIFIER('t' || 'w') AS SELECT 1 a")
        assert rows(other, f"SELECT max(a) FROM {database.name}.t") == [(8,)]
        assert rows(other, "SELECT * FROM tw") == [(1,)]
        assert rows(other, "EXECUTE IMMEDIATE 'SELECT ' || '42'") == [(42,)]
        assert database.freshness("m") == "STALE"
        assert rows(other, f"SELECT max(a) FROM IDENTIFIER('{database.name}' || '.m')") == [(8,)]
        rows(other, f"CREATE TEMPORARY VIEW IDENTIFIER('o' || 'n') AS SELECT a FROM {database.name}.m")
        database.run("INSERT INTO t VALUES (9)")
        assert rows(other, "SELECT max(a) FROM on") == [(9,)]
        rows(other, f"EXECUTE IMMEDIATE 'INSERT INTO {database.name}.t VALUES ' || '(10)'")
        assert rows(other, f"SELECT count(*) FROM {database.name}.t") == [(4,)], "it ran once"
    assert database.version("broken") == database.version("manual") == 0


@pytest.mark.thorough
def test_files_are_read_with_the_creators_settings(database: Database, tmp_path: Path) -> None:
    """Times in files are in the creator's time zone, whoever refreshes or reads the view."""
    (tmp_path / "csv").mkdir()
    (tmp_path / "json").mkdir()
    (tmp_path / "csv" / "a.csv").write_text("2024-01-01 00:00:00\n")
    (tmp_path / "json" / "a.json").write_text('{"t": "2024-01-01 00:00:00"}\n')
    rows(database.cursor, "SET spark.sql.session.timeZone=Asia/Tokyo")
    database.run(
        f"CREATE TABLE c (t TIMESTAMP) USING csv LOCATION '{tmp_path / 'csv'}'",
        f"CREATE TABLE j (t TIMESTAMP) USING json LOCATION '{tmp_path / 'json'}'",
        "CREATE TABLE p (a INT, h TIMESTAMP) USING parquet PARTITIONED BY (h)",
        "INSERT INTO p VALUES (1, TIMESTAMP'2024-01-01 00:30:00')",
    )
    query = (
        "SELECT 'c' AS f, unix_seconds(t) AS s FROM c UNION ALL SELECT 'j', unix_seconds(t) FROM j "
        "UNION ALL SELECT 'p', unix_seconds(h) FROM p"
    )
    expected = database.rows(query)
    midnight = 1_704_034_800  # in Tokyo
    assert expected == [("c", midnight), ("j", midnight), ("p", midnight + 1800)]
    database.run(
        f"CREATE MATERIALIZED VIEW served AS {query}",
        f"CREATE MATERIALIZED VIEW inlined WHEN STALE INLINE AS {query}",
        "CREATE MATERIALIZED VIEW by_time PARTITION BY (h) AS SELECT h, unix_seconds(h) AS s FROM p",
        "CREATE MATERIALIZED VIEW later BUILD DEFERRED AS " + query,
    )
    with pyhive(database.gateway.host, database.gateway.port, database=database.name) as new_york:
        rows(new_york, "SET spark.sql.session.timeZone=America/New_York")
        for a in (2, 3):
            for view in ("served", "inlined", "later"):
                assert sorted(rows(new_york, f"SELECT DISTINCT f, s FROM {view}")) == expected, view
            assert rows(new_york, "SELECT DISTINCT s FROM by_time") == [(midnight + 1800,)]
            database.run(f"INSERT INTO p VALUES ({a}, TIMESTAMP'2024-01-01 00:30:00')")
        rows(new_york, "REFRESH MATERIALIZED VIEW served")
        assert sorted(rows(new_york, "SELECT DISTINCT f, s FROM served")) == expected
        assert [row[1] for row in rows(new_york, "SHOW PARTITIONS by_time")] == ["p_20240101003000"]
    # In a session with the creator's settings the view is inlined.
    database.run("INSERT INTO p VALUES (4, TIMESTAMP'2024-01-01 00:30:00')")
    version = database.version("inlined")
    assert sorted(set(database.rows("SELECT f, s FROM inlined"))) == expected
    assert database.version("inlined") == version
