"""Tests that invalid statements are refused with a reason, a SQLSTATE and advice, and leave nothing behind."""

from __future__ import annotations

from typing import Any

import jpype
import pytest
from clients import Jdbc, rows
from databases import Database
from pyhive.exc import OperationalError


@pytest.fixture(scope="module")
def objects(shared: Database) -> Database:
    shared.run(
        "CREATE TABLE t (a INT, b STRING) USING parquet",
        "CREATE VIEW v AS SELECT a FROM t",
        "CREATE TEMPORARY VIEW temporary AS SELECT 1 AS a",
        "CREATE MATERIALIZED VIEW m AS SELECT a FROM t",
    )
    return shared


REFUSED = [
    ("CREATE MATERIALIZED VIEW x AS SELECT a FRM t ORDER", "42601", "PARSE_SYNTAX_ERROR"),
    ("CREATE MATERIALIZED VIEW x AS SELECT a FROM missing", "42P01", "missing"),
    ("CREATE MATERIALIZED VIEW x AS SELECT nope FROM t", "42703", "nope"),
    ("CREATE MATERIALIZED VIEW t AS SELECT a FROM t", "42P07", "is a table"),
    ("CREATE MATERIALIZED VIEW v AS SELECT a FROM t", "42P07", "is a view"),
    ("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT a FROM t", "42P07", "is a view"),
    ("CREATE MATERIALIZED VIEW m AS SELECT a FROM t", "42P07", "OR REPLACE"),
    ("CREATE MATERIALIZED VIEW x AS SELECT 1 AS a", "42P16", "CREATE VIEW"),
    ("CREATE MATERIALIZED VIEW x AS SELECT * FROM VALUES (1) AS w(a)", "42P16", "base table"),
    ("CREATE MATERIALIZED VIEW x AS SELECT * FROM range(3)", "42P16", "base table"),
    ("CREATE MATERIALIZED VIEW x AS SELECT a FROM temporary", "42K0F", "temporary"),
    ("CREATE MATERIALIZED VIEW x AS SELECT NULL AS n, a FROM t", "42P16", "CAST(NULL AS STRING) AS n"),
    ("CREATE MATERIALIZED VIEW x AS SELECT array(NULL) AS n, a FROM t", "42P16", "void"),
    (
        "CREATE MATERIALIZED VIEW x AS SELECT CAST(concat(count(*), 'x') AS INT) AS n FROM t",
        "22018",
        "x was not created",
    ),
    (
        "CREATE MATERIALIZED VIEW x TBLPROPERTIES ('session.spark.sql.shuffle.partitions' = 'many') AS SELECT a FROM t",
        "22022",
        "x was not created; nothing has changed. Fix the cause, then run the statement again. Spark said: ",
    ),
    ("CREATE MATERIALIZED VIEW x AS SELECT a, b AS a FROM t", "42711", "already exists"),
    ("CREATE MATERIALIZED VIEW x AS SELECT a, b AS A FROM t", "42711", "already exists"),
    ("CREATE MATERIALIZED VIEW x (c) AS SELECT a, b FROM t", "21S01", "column"),
    ("CREATE MATERIALIZED VIEW x AS SELECT a AS freshgate_version FROM t", "42P16", "another alias"),
    ("CREATE MATERIALIZED VIEW nowhere.x AS SELECT a FROM t", "42704", "CREATE DATABASE nowhere"),
    ("CREATE MATERIALIZED VIEW freshgate_storage.x AS SELECT a FROM t", "42P16", "another database"),
    ("CREATE MATERIALIZED VIEW other_catalog.a.x AS SELECT a FROM t", "0A000", "catalog"),
    ("CREATE OR REPLACE MATERIALIZED VIEW m AS SELECT a FROM m", "42P19", "itself"),
    ("CREATE MATERIALIZED VIEW x AS", "42601", "query"),
    ("CREATE MATERIALIZED VIEW x SELECT a FROM t", "42601", "AS"),
    ("CREATE OR REPLACE MATERIALIZED VIEW IF NOT EXISTS x AS SELECT a FROM t", "42601", "IF NOT EXISTS"),
    ("DROP MATERIALIZED VIEW missing", "42P01", "SHOW MATERIALIZED VIEWS"),
    ("DROP MATERIALIZED VIEW t", "42809", "DROP TABLE"),
    ("DROP MATERIALIZED VIEW v", "42809", "DROP VIEW"),
    ("REFRESH MATERIALIZED VIEW t", "42809", "TABLE"),
    ("REFRESH MATERIALIZED VIEW", "42601", "name"),
    ("SHOW MATERIALIZED VIEWS IN nowhere", "42704", "nowhere"),
    ("CREATE MATERIALIZED VIEW `a.b` AS SELECT a FROM t", "42602", "name"),
    ("CREATE VIEW x AS SELECT * FROM INFORMATION_SCHEMA.MATERIALIZED_VIEWS", "0A000", "permanent"),
    ("CALL BQ.REFRESH_MATERIALIZED_VIEW('missing.m')", "42P01", "missing.m"),
]


@pytest.mark.parametrize(("sql", "sqlstate", "message"), REFUSED)
def test_an_invalid_statement_is_refused(objects: Database, direct: Any, sql: str, sqlstate: str, message: str) -> None:
    with pytest.raises(OperationalError) as refusal:
        objects.run(sql)
    status = refusal.value.args[0].status
    assert status.sqlState == sqlstate, status.errorMessage
    assert message.lower() in status.errorMessage.lower()
    left = {row[1] for row in rows(direct, "SHOW TABLES IN freshgate_storage LIKE 'shared*'") if "__x__" in row[1]}
    assert left == set()
    assert {row[1] for row in rows(direct, f"SHOW TABLES IN {objects.name}")} == {"t", "v", "m"}


def test_jdbc_gets_the_sqlstate(objects: Database) -> None:
    """An asynchronous client learns of a failure from the operation's status."""
    with Jdbc(f"jdbc:hive2://{objects.gateway.host}:{objects.gateway.port}/{objects.name}") as jdbc:
        for sql, sqlstate in (
            ("CREATE MATERIALIZED VIEW x AS SELECT a FROM missing", "42P01"),
            ("CREATE MATERIALIZED VIEW x AS SELECT 1 AS a", "42P16"),
            ("CREATE MATERIALIZED VIEW", "42601"),
            ("INSERT INTO m VALUES (1)", "42809"),
        ):
            with pytest.raises(jpype.JClass("java.sql.SQLException")) as refusal:
                jdbc.execute(sql)
            assert refusal.value.getSQLState() == sqlstate
        assert jdbc.query("SELECT count(*) AS n FROM m") == (["n"], [(0,)])
