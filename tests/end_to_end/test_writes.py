"""Tests that every change of what a materialized view reads makes it stale, and that the next read is correct."""

from __future__ import annotations

from pathlib import Path

import pytest
from clients import Jdbc, pyhive, rows
from databases import Database
from processes import wait_until
from pyhive import hive
from pyhive.exc import OperationalError
from raw_session import RawSession, texts
from TCLIService import ttypes
from tiers import sampled

from gateway.service.clients.pending_statement import LATE_SECONDS

QUERY = "SELECT count(*) AS n, sum(a) AS s FROM t"


@pytest.fixture(scope="module")
def view(shared: Database) -> Database:
    shared.run(
        "CREATE TABLE t (a INT, p STRING) USING parquet PARTITIONED BY (p)",
        "INSERT INTO t VALUES (1, 'x'), (2, 'y')",
        "CREATE TABLE source (a INT, p STRING) USING parquet",
        "INSERT INTO source VALUES (5, 'z')",
        "CREATE TABLE bystander (a INT) USING parquet",
        # With this probe interval only noted writes make the view stale.
        f"CREATE MATERIALIZED VIEW m PROPERTIES ('probe_interval' = '100000') AS {QUERY}",
        "SET hidden=t",
        "DECLARE OR REPLACE VARIABLE composed STRING DEFAULT char(116)",
    )
    return shared


WRITES = [
    "INSERT INTO t VALUES (3, 'x')",
    "INSERT INTO TABLE {db}.t SELECT * FROM source",
    "insert into `t` (p, a) values ('q', 9)",
    "INSERT OVERWRITE t PARTITION (p = 'x') SELECT 7",
    "INSERT OVERWRITE TABLE t VALUES (1, 'x'), (2, 'y'), (4, 'w')",
    "WITH q AS (SELECT 6 AS a, 'v' AS p) INSERT INTO t SELECT * FROM q",
    "FROM source INSERT INTO t SELECT a, p INSERT INTO bystander SELECT a",
    "ALTER TABLE t DROP PARTITION (p = 'y')",
    "TRUNCATE TABLE t PARTITION (p = 'x')",
    "EXECUTE IMMEDIATE 'INSERT INTO t VALUES (11, ''e'')'",
    "BEGIN INSERT INTO t VALUES (12, 'f'); END",
    "TRUNCATE TABLE t",
    "INSERT INTO t TABLE source",
    "INSERT INTO IDENTIFIER('t' || '') VALUES (13, 'g')",
    "INSERT INTO ${{hidden}} VALUES (14, 'h')",
    "EXECUTE IMMEDIATE \"INSERT INTO IDENTIFIER(:target) VALUES (15, 'i')\" USING composed AS target",
    r"""EXECUTE IMMEDIATE "INSERT INTO \u0074 VALUES (16, 'j')" """,
    "-- a comment; with a semicolon\nINSERT /* m */ INTO t VALUES (1, 'x')",
]


@pytest.mark.parametrize("sql", sampled(WRITES, {WRITES[0], WRITES[3], WRITES[15]}))
def test_a_write_is_noticed(view: Database, sql: str) -> None:
    view.run("SELECT * FROM m")
    assert view.freshness("m") == "FRESH"
    view.run(sql.format(db=view.name))
    assert view.freshness("m") == "STALE"
    assert view.rows("SELECT n, s FROM m") == view.rows(QUERY)


@pytest.mark.parametrize(
    "sql",
    sampled(
        [
            "BEGIN USE {db}; INSERT INTO t VALUES (17, 'k'); END",
            "BEGIN EXECUTE IMMEDIATE 'USE {db}'; TRUNCATE TABLE t; END",
            "BEGIN SET CATALOG spark_catalog; USE {db}; INSERT INTO `T` VALUES (18, 'l'); END",
        ],
        {"use"},
        ["use", "use by EXECUTE IMMEDIATE", "catalog and use"],
    ),
)
def test_a_write_in_a_database_that_a_script_uses_is_noticed(view: Database, sql: str) -> None:
    view.run("SELECT * FROM m")
    assert view.freshness("m") == "FRESH"
    with pyhive(view.gateway.host, view.gateway.port) as cursor:
        rows(cursor, sql.format(db=view.name))
    assert view.freshness("m") == "STALE"
    assert view.rows("SELECT n, s FROM m") == view.rows(QUERY)


def test_load_data_is_noticed(database: Database, tmp_path: Path) -> None:
    (tmp_path / "rows.txt").write_text("1\n2\n")
    database.run(
        "CREATE TABLE t (a INT) USING hive",
        "CREATE MATERIALIZED VIEW m AS SELECT count(*) AS n FROM t",
        f"LOAD DATA LOCAL INPATH '{tmp_path / 'rows.txt'}' INTO TABLE t",
    )
    assert database.rows("SELECT n FROM m") == [(2,)]


def test_added_and_repaired_partitions_are_noticed(database: Database, tmp_path: Path) -> None:
    """ADD PARTITION adds a directory with files; MSCK REPAIR adds one that another program created."""
    location = tmp_path / "t"
    database.run(
        f"CREATE TABLE t (a INT, p INT) USING csv PARTITIONED BY (p) LOCATION '{location}'",
        "CREATE MATERIALIZED VIEW m AS SELECT count(*) AS n FROM t",
    )
    (location / "p=1").mkdir(parents=True)
    (location / "p=1" / "a.csv").write_text("7\n8\n")
    database.run("ALTER TABLE t ADD PARTITION (p = 1)")
    assert database.rows("SELECT n FROM m") == [(2,)]
    (location / "p=2").mkdir()
    (location / "p=2" / "a.csv").write_text("9\n")
    database.run("MSCK REPAIR TABLE t")
    assert database.rows("SELECT n FROM m") == [(3,)]


@pytest.mark.thorough
def test_a_replaced_table_is_noticed(database: Database) -> None:
    database.run(
        "CREATE TABLE t (a INT) USING parquet",
        "INSERT INTO t VALUES (1)",
        "CREATE MATERIALIZED VIEW m AS SELECT a FROM t",
        "DROP TABLE t",
        "CREATE TABLE t USING parquet AS SELECT 5 AS a UNION ALL SELECT 6",
    )
    assert database.rows("SELECT a FROM m") == [(5,), (6,)]
    database.run("ALTER TABLE t RENAME TO old", "CREATE TABLE t (a INT) USING parquet")
    assert database.rows("SELECT a FROM m") == []


@pytest.mark.thorough
def test_a_replaced_spark_view_is_noticed(database: Database) -> None:
    database.run(
        "CREATE TABLE t (a INT) USING parquet",
        "CREATE TABLE u (a INT) USING parquet",
        "INSERT INTO u VALUES (1)",
        "CREATE VIEW v AS SELECT a FROM t",
        "CREATE MATERIALIZED VIEW m AS SELECT a FROM v",
        "CREATE OR REPLACE VIEW v AS SELECT a FROM u",
    )
    assert database.rows("SELECT a FROM m") == [(1,)]
    database.run("INSERT INTO u VALUES (2)")
    assert database.rows("SELECT a FROM m") == [(1,), (2,)]
    database.run("ALTER VIEW v AS SELECT a + 10 AS a FROM u")
    assert database.rows("SELECT a FROM m") == [(11,), (12,)]


@pytest.mark.thorough
def test_a_view_keeps_its_rows_if_its_base_table_is_dropped(database: Database) -> None:
    database.run(
        "CREATE TABLE t (a INT) USING parquet",
        "INSERT INTO t VALUES (1)",
        "CREATE MATERIALIZED VIEW m AS SELECT a FROM t",
        "DROP TABLE t",
    )
    assert database.rows("SELECT a FROM m") == [(1,)]
    with pytest.raises(Exception, match=r"TABLE_OR_VIEW_NOT_FOUND.*42P01"):
        database.run("REFRESH MATERIALIZED VIEW m")


def test_a_failed_refresh_gives_the_reason_and_is_repeated(database: Database) -> None:
    database.run(
        "CREATE TABLE t (a STRING) USING parquet",
        "INSERT INTO t VALUES ('1')",
        "CREATE MATERIALIZED VIEW m AS SELECT CAST(a AS INT) AS a FROM t",
        "INSERT INTO t VALUES ('x')",
    )
    for _ in range(2):
        with pytest.raises(
            Exception, match=r"materialized view .*\.m failed; version 1 stays(.|\n)*CAST_INVALID_INPUT"
        ):
            database.run("SELECT a FROM m")
    assert database.version("m") == 1
    database.run("INSERT OVERWRITE t VALUES ('3')")
    assert database.rows("SELECT a FROM m") == [(3,)]


@pytest.mark.thorough
def test_an_asynchronous_write_is_noticed_when_it_has_ended(view: Database) -> None:
    with Jdbc(f"jdbc:hive2://{view.gateway.host}:{view.gateway.port}/{view.name}") as jdbc:
        for _ in range(3):
            jdbc.execute("INSERT INTO t VALUES (21, 'j')")
            assert view.rows("SELECT n, s FROM m") == view.rows(QUERY)


def test_reads_are_correct_after_a_failed_write(view: Database) -> None:
    with pytest.raises(Exception, match="nothing_there"):
        view.run("INSERT INTO t SELECT a, p FROM nothing_there")
    assert view.rows("SELECT n, s FROM m") == view.rows(QUERY)


def test_a_write_of_a_lost_client_is_noticed(view: Database) -> None:
    """The client disconnects without closing anything; its statement may have committed."""
    connection = hive.connect(view.gateway.host, view.gateway.port, username="tester", database=view.name)
    connection.cursor().execute("INSERT INTO t VALUES (31, 'k')", async_=True)
    connection._transport.close()
    assert view.rows("SELECT n, s FROM m") == view.rows(QUERY)


@pytest.mark.thorough
def test_a_synchronous_write_that_outlives_its_connection_is_noticed(view: Database) -> None:
    """The thread that has read it runs it to the end, longer than a cancelled statement may still commit."""
    view.run("SELECT * FROM m")
    sleep = f"reflect('java.lang.Thread', 'sleep', {(LATE_SECONDS + 10) * 1000:.0f}L)"
    before = view.rows(QUERY)
    with RawSession(view.gateway) as writer:
        insert = f"INSERT INTO {view.name}.t SELECT 41, concat('k', coalesce({sleep}, ''))"
        writer.send("ExecuteStatement", ttypes.TExecuteStatementReq(writer.handle, insert, {}, False))
        (location,) = (value for name, value, _ in view.rows("DESCRIBE EXTENDED t") if name == "Location")
        directory = Path(location.removeprefix("file:"))
        wait_until((directory / "_temporary").exists, 30)
    assert view.rows("SELECT n, s FROM m") == before
    wait_until(lambda: view.rows(QUERY) != before, LATE_SECONDS + 60)
    wait_until(lambda: view.freshness("m") == "STALE", 2 * LATE_SECONDS)
    assert view.rows("SELECT n, s FROM m") == view.rows(QUERY)


PROTECTED = [
    "INSERT INTO m VALUES (1, 2)",
    "INSERT OVERWRITE {db}.m VALUES (1, 2)",
    "DELETE FROM m",
    "UPDATE m SET n = 1",
    "MERGE INTO m USING source ON m.n = source.a WHEN MATCHED THEN DELETE",
    "TRUNCATE TABLE m",
    "ALTER VIEW m AS SELECT 1 AS n, 2 AS s",
    "ALTER TABLE m ADD COLUMN x INT",
    "CREATE OR REPLACE VIEW m AS SELECT 1 AS n",
    "DROP TABLE m",
    "DROP DATABASE {db} CASCADE",
    "FROM source INSERT INTO m SELECT a, a",
    "DROP DATABASE freshgate_storage CASCADE",
    "ALTER DATABASE freshgate_storage SET DBPROPERTIES ('freshgate.gateway' = 'x')",
    "ALTER SCHEMA `freshgate_storage` SET LOCATION '/tmp'",
    "ALTER SCHEMA IDENTIFIER('freshgate_storage') SET LOCATION '/tmp'",
]


@pytest.mark.parametrize("sql", sampled(PROTECTED, {PROTECTED[0], PROTECTED[-1]}))
def test_a_view_cannot_be_written(view: Database, sql: str) -> None:
    with pytest.raises(Exception, match="42809"):
        view.run(sql.format(db=view.name))
    assert view.rows("SELECT n, s FROM m") == view.rows(QUERY)


def test_names_in_double_quotes_are_noticed_and_protected(view: Database) -> None:
    setting = "spark.sql.ansi.doubleQuotedIdentifiers"
    view.run("SELECT * FROM m", f"SET {setting}=true")
    try:
        assert view.freshness("m") == "FRESH"
        view.run(f'TRUNCATE TABLE {view.name}."t"', "USE default")
        assert view.rows(f'SELECT n FROM {view.name}."m"') == [(0,)]
        with pytest.raises(Exception, match="42809"):
            view.run(f'ALTER VIEW {view.name}."m" AS SELECT 1 AS n, 2 AS s')
    finally:
        view.run(f"USE {view.name}", f"RESET {setting}")
    view.run("INSERT INTO t VALUES (1, 'x')")
    assert view.rows("SELECT n, s FROM m") == view.rows(QUERY)


def test_the_storage_cannot_be_written(view: Database) -> None:
    (storage,) = [
        row[1]
        for row in view.rows("SHOW TABLES IN freshgate_storage")
        if row[1].startswith(f"{view.name}__m__") and not row[1].endswith("definition")
    ]
    for sql in (
        "INSERT INTO freshgate_storage.{} VALUES (1, 2, 1)",
        "DROP TABLE freshgate_storage.{}",
        "TRUNCATE TABLE freshgate_storage.{}",
        "BEGIN USE freshgate_storage; TRUNCATE TABLE {}; END",
        "BEGIN USE freshgate_storage; DROP VIEW {}__definition; END",
    ):
        with pytest.raises(Exception, match="42809"):
            view.run(sql.format(storage))
    view.run("USE freshgate_storage")
    with pytest.raises(Exception, match="42809"):
        view.run(f"INSERT INTO {storage} VALUES (1, 2, 1)")
    view.run(f"USE {view.name}")


def test_a_write_is_noticed_by_a_fetch_of_its_rows(view: Database) -> None:
    """The client never polls the status; a successful fetch shows that the write has succeeded."""
    connection = hive.connect(view.gateway.host, view.gateway.port, username="tester", database=view.name)
    cursor = connection.cursor()
    view.run("SELECT * FROM m")
    cursor.execute("INSERT INTO t VALUES (41, 'l')", async_=True)

    def fetched() -> bool:
        try:
            cursor._fetch_more()
        except OperationalError as error:
            assert "Expected state FINISHED" in str(error)  # noqa: PT017
            return False
        return True

    wait_until(fetched, what="the rows of the INSERT")
    assert view.rows("SELECT n, s FROM m") == view.rows(QUERY)
    connection.close()


def test_files_written_into_a_base_table_are_noticed(database: Database) -> None:
    database.run(
        "CREATE TABLE t (a INT) USING parquet",
        "INSERT INTO t VALUES (1), (2)",
        "CREATE MATERIALIZED VIEW m AS SELECT a FROM t",
    )
    location = next(row[1] for row in database.rows("DESCRIBE EXTENDED t") if row[0] == "Location")
    database.run(f"INSERT OVERWRITE DIRECTORY '{location}' USING parquet SELECT 7 AS a")
    assert database.rows("SELECT a FROM m") == [(7,)]


def test_statements_that_are_never_polled_take_effect(database: Database) -> None:
    """A client runs statements without polling their status: its next statement, and every other session, sees their
    effects."""
    database.run(
        "CREATE TABLE t USING parquet AS SELECT 1 AS a",
        "CREATE MATERIALIZED VIEW m AS SELECT cast(count(*) AS STRING) AS n FROM t",
    )
    with RawSession(database.gateway) as client, RawSession(database.gateway) as other:

        def n(session: RawSession, relation: str) -> str:
            operation = session.execute(f"SELECT n FROM {relation}", run_async=True)
            session.wait(operation)
            return texts(session.fetch(operation))[0][0]

        client.execute(f"USE {database.name}", run_async=True)
        assert n(client, "m") == "1"
        client.execute("INSERT INTO t VALUES (2)", run_async=True)
        wait_until(lambda: _count(database) == 2)
        assert n(other, f"{database.name}.m") == "2"
        client.execute("CREATE TEMPORARY VIEW v AS SELECT n FROM m", run_async=True)
        database.run("INSERT INTO t VALUES (3)")
        assert n(client, "v") == "3"


def _count(database: Database) -> int:
    return int(database.rows("SELECT count(*) FROM t")[0][0])


@pytest.mark.thorough
def test_a_function_that_reads_a_stale_view_refreshes_it(database: Database) -> None:
    database.run(
        "CREATE TABLE t (a INT) USING parquet",
        "CREATE MATERIALIZED VIEW m PROPERTIES ('probe_interval' = '100000') AS SELECT count(*) AS n FROM t",
        "CREATE FUNCTION counted() RETURNS BIGINT RETURN (SELECT n FROM m)",
    )
    assert database.rows("SELECT counted()") == [(0,)]
    database.run("INSERT INTO t VALUES (1)")
    assert database.rows("SELECT counted()") == [(1,)]


@pytest.mark.thorough
def test_changed_functions_make_views_that_call_them_stale(database: Database, direct: hive.Cursor) -> None:
    """A SQL function counts with its body, the tables it reads and the functions it calls; a Java function with its
    class. Changes through the gateway are noted immediately; others are found by the next observation."""
    name, rarely = database.name, "PROPERTIES ('probe_interval' = '100000')"
    database.run(
        "CREATE TABLE t (a INT) USING parquet",
        "CREATE TABLE inner (a INT) USING parquet",
        "INSERT INTO t VALUES (1), (2)",
        "CREATE FUNCTION plus(x INT) RETURNS INT RETURN x + 1",
        f"CREATE FUNCTION top(x INT) RETURNS INT RETURN {name}.plus(x) + (SELECT count(*) FROM inner)",
        "CREATE FUNCTION listed() RETURNS TABLE (a INT) RETURN SELECT a FROM t",
        "CREATE FUNCTION code AS 'org.apache.hadoop.hive.ql.udf.UDFAscii'",
        f"CREATE MATERIALIZED VIEW scalar {rarely} AS SELECT sum(top(a)) AS s FROM t",
        f"CREATE MATERIALIZED VIEW tabular {rarely} AS SELECT count(*) AS n FROM listed()",
        f"CREATE MATERIALIZED VIEW classy {rarely} AS SELECT sum(code(CAST(a AS STRING))) AS s FROM t",
        "CREATE MATERIALIZED VIEW looked PROPERTIES ('probe_interval' = '0') AS SELECT sum(plus(a)) AS s FROM t",
    )

    def seen() -> list[object]:
        found = [database.rows(f"SELECT * FROM {view}")[0][0] for view in ("scalar", "tabular", "classy", "looked")]
        assert {database.freshness(view) for view in ("scalar", "tabular", "classy", "looked")} == {"FRESH"}
        return found

    assert seen() == [5, 2, 99, 5]
    database.run("INSERT INTO inner VALUES (7)", "INSERT INTO t VALUES (3)")
    assert seen() == [12, 3, 150, 9]
    database.run("CREATE OR REPLACE FUNCTION plus(x INT) RETURNS INT RETURN x + 100")
    assert seen() == [309, 3, 150, 306]
    rows(direct, f"CREATE OR REPLACE FUNCTION {name}.plus(x INT) RETURNS INT RETURN x")
    assert database.rows("SELECT * FROM looked") == [(6,)]
    database.run(
        "DROP FUNCTION code", "CREATE FUNCTION code AS 'org.apache.hadoop.hive.ql.udf.generic.GenericUDFLength'"
    )
    assert database.freshness("classy") == "STALE"
    assert database.rows("SELECT * FROM classy") == [(3,)]
