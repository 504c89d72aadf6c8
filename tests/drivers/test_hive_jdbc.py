"""Tests the versions of Hive's JDBC driver that tools use."""

from __future__ import annotations

from typing import Any

import jpype
import pytest
from byte_chain import Chain, assert_same_bytes
from drivers.contents import (
    COLUMNS,
    DATABASE,
    ERRORS,
    EVERY_TYPE,
    NO_ROWS,
    NOTHING,
    PAGED,
    PAGES,
    SLEEPS,
    TEXTS,
    Reference,
    Server,
    lives,
)
from drivers.hive_jdbc import OF_SUITE, VERSIONS, cancelled, connected, everything, failure, outcome, texts
from tiers import sampled

INTERVALS = "org.apache.hadoop.hive.common.type.HiveInterval"
VALUES_BY_CLASS = [
    (
        "java.lang.Integer 1",
        "java.lang.Boolean True",
        "java.lang.Byte 1",
        "java.lang.Short -2",
        "java.lang.Integer 3",
        "java.lang.Long 4",
        "java.lang.Double 1.5",
        "java.lang.Double -2.5",
        "java.math.BigDecimal 12345678901234567890.123456789012345678",
        "text",
        "ab",
        "ab   ",
        "byte[] 41ff",
        "java.sql.Date 2020-02-29",
        "java.sql.Timestamp 2020-01-31 12:34:56.789012",
        "java.sql.Timestamp 2021-07-01 00:00:00.0",
        f"{INTERVALS}YearMonth 1-2",
        f"{INTERVALS}DayTime 3 04:05:06.700000000",
        "[1,null]",
        '{"k":1}',
        '{"a":1,"b":"x"}',
    ),
    (
        "java.lang.Integer 2",
        "java.lang.Boolean False",
        "java.lang.Byte -128",
        "java.lang.Short 32767",
        "java.lang.Integer -2147483648",
        "java.lang.Long 9223372036854775807",
        "java.lang.Double nan",
        "java.lang.Double -inf",
        "java.math.BigDecimal -1E-18",
        "ü 😀\ttab",
        "é",
        "     ",
        "byte[] ",
        "java.sql.Date 0001-01-01",
        "java.sql.Timestamp 1969-12-31 23:59:59.0",
        "java.sql.Timestamp 9999-12-31 23:59:59.999999",
        f"{INTERVALS}YearMonth -1-2",
        f"{INTERVALS}DayTime -0 00:00:00.000001000",
        "[]",
        "{}",
        '{"a":null,"b":""}',
    ),
    ("java.lang.Integer 3", *[None] * len(COLUMNS)),
    ("java.lang.Integer 4", *("" if name == "words" else None for name in COLUMNS)),
]
MIXED_PARAMETERS = (
    "java.lang.Integer 42",
    "java.lang.Long 1099511627776",
    "java.math.BigDecimal 0.5",
    "java.lang.Boolean True",
    "java.math.BigDecimal 12.50",
    "java.sql.Date 2020-02-29",
    "java.sql.Timestamp 2020-01-31 12:34:56.789",
    None,
    "?",
)


@pytest.fixture(params=sampled(VERSIONS, OF_SUITE))
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def identity(server: Server, version: str) -> tuple[str, ...]:
    with connected(version, server.url) as connection:
        metadata = connection.getMetaData()
        return (
            str(metadata.getDriverVersion()),
            str(metadata.getDatabaseProductName()),
            str(metadata.getDatabaseProductVersion()),
            str(connection.getSchema()),
            str(connection.isValid(5)),
        )


def test_identity_is_that_of_spark(server: Server, reference: Reference, version: str) -> None:
    driver, product, _, schema, valid = reference.answer(server, identity, version)
    assert (driver, product, schema, valid) == (version, "Spark SQL", DATABASE, "True")


def types(server: Server, version: str) -> list[Any]:
    with connected(version, server.url) as connection, connection.createStatement() as statement:
        return [
            everything(statement.executeQuery(EVERY_TYPE)),
            texts(statement.executeQuery(EVERY_TYPE)),
            everything(statement.executeQuery(NO_ROWS)),
            everything(statement.executeQuery(NOTHING)),
        ]


def test_every_type_is_read(server: Server, reference: Reference, version: str) -> None:
    (columns, values), as_texts, (_, none), (_, nothing) = reference.answer(server, types, version)
    assert nothing == [("java.lang.Long 0", None), ("java.lang.Long 1", None)]
    assert [column[0] for column in columns] == ["id", *COLUMNS]
    assert none == []
    assert values == VALUES_BY_CLASS
    assert as_texts[1][5:8] == ("9223372036854775807", "NaN", "-Infinity")
    assert as_texts[2] == ("3", *[None] * len(COLUMNS))


def pages(server: Server, version: str) -> list[Any]:
    found = []
    with connected(version, server.url) as connection, connection.createStatement() as statement:
        for size in (1000, 7):
            statement.setFetchSize(size)
            statement.setMaxRows(0 if size == 1000 else 50)
            result = statement.executeQuery(PAGES)
            rows = []
            while result.next():
                rows.append((int(result.getLong(1)), str(result.getString(2))))
            found.append(rows)
            result.close()
    return found


def test_all_pages_are_read(server: Server, reference: Reference, version: str) -> None:
    assert reference.answer(server, pages, version) == [PAGED, PAGED[:50]]


def metadata_calls(server: Server, version: str) -> dict[str, Any]:
    with connected(version, server.url) as connection:
        metadata = connection.getMetaData()
        every = f"{DATABASE}%"
        return {
            "catalogs": outcome(metadata.getCatalogs),
            "schemas": outcome(metadata.getSchemas, None, every),
            "tables": outcome(metadata.getTables, None, DATABASE, "%", None),
            "tables by pattern": outcome(metadata.getTables, None, every, "orders\\_vie_", None),
            "only tables": outcome(metadata.getTables, None, DATABASE, "%", ["TABLE"]),
            "only views": outcome(metadata.getTables, None, DATABASE, "%", ["VIEW"]),
            "columns": outcome(metadata.getColumns, None, DATABASE, "every_type", "%"),
            "columns by pattern": outcome(metadata.getColumns, None, DATABASE, "%", "a%"),
            "types": outcome(metadata.getTypeInfo),
            "functions": outcome(metadata.getFunctions, None, DATABASE, "abs"),
            "primary keys": outcome(metadata.getPrimaryKeys, None, DATABASE, "orders"),
            "imported keys": outcome(metadata.getImportedKeys, None, DATABASE, "orders"),
            "cross reference": outcome(
                metadata.getCrossReference, None, DATABASE, "orders", None, DATABASE, "every_type"
            ),
            "procedures": outcome(metadata.getProcedures, None, None, "%"),
            "indexes": outcome(metadata.getIndexInfo, None, DATABASE, "orders", False, False),
        }


def test_metadata_is_that_of_spark(server: Server, reference: Reference, version: str) -> None:
    answers = reference.answer(server, metadata_calls, version)
    assert sorted(row[2:4] for row in answers["tables"][1]) == [
        ("every_type", "TABLE"),
        ("orders", "TABLE"),
        ("orders_view", "VIEW"),
    ]
    assert [row[2] for row in answers["tables by pattern"][1]] == ["orders_view"]
    assert [row[3] for row in answers["columns"][1]] == ["id", *COLUMNS]
    assert sorted(row[2:4] for row in answers["columns by pattern"][1]) == [("orders", "a b"), ("orders_view", "a b")]
    assert answers["primary keys"][1] == []
    assert len(answers["types"][1]) > 10
    assert "abs" in {row[2] for row in answers["functions"][1]}


def parameters(server: Server, version: str) -> list[Any]:
    java = jpype.java
    found: list[Any] = []
    with connected(version, server.url) as connection:
        with connection.prepareStatement("SELECT ? AS w, length(?) AS n") as statement:
            for words in TEXTS:
                statement.setString(1, words)
                statement.setString(2, words)
                found.append(outcome(statement.executeQuery))
        with connection.prepareStatement(
            "SELECT ? + 1 AS i, ? AS l, ? AS d, ? AS b, ? AS dec, CAST(? AS DATE) AS day, CAST(? AS TIMESTAMP) AS at, "
            "? AS nothing, '?' AS mark"
        ) as statement:
            statement.setInt(1, 41)
            statement.setLong(2, 1 << 40)
            statement.setDouble(3, 0.5)
            statement.setBoolean(4, True)
            statement.setBigDecimal(5, java.math.BigDecimal("12.50"))
            statement.setDate(6, java.sql.Date.valueOf("2020-02-29"))
            statement.setTimestamp(7, java.sql.Timestamp.valueOf("2020-01-31 12:34:56.789"))
            statement.setNull(8, java.sql.Types.VARCHAR)
            found.append(outcome(statement.executeQuery))
        with connection.prepareStatement(
            f"SELECT id FROM {DATABASE}.every_type WHERE whole = ? AND words = ?"
        ) as statement:
            statement.setInt(1, 3)
            statement.setString(2, "text")
            found.append(outcome(statement.executeQuery))
    return found


def test_prepared_statements_bind_parameters(server: Server, reference: Reference, version: str) -> None:
    *words, mixed, filtered = reference.answer(server, parameters, version)
    assert [rows for _, rows in words] == [[(each, f"java.lang.Integer {len(each)}")] for each in TEXTS]
    assert mixed[1] == [MIXED_PARAMETERS]
    assert filtered[1] == [("java.lang.Integer 1",)]


def errors(server: Server, version: str) -> list[Any]:
    with connected(version, server.url) as connection, connection.createStatement() as statement:
        return [outcome(statement.executeQuery, sql) for sql in ERRORS]


def test_errors_are_those_of_spark(server: Server, reference: Reference, version: str) -> None:
    failures = reference.answer(server, errors, version)
    assert [state for _, state, _, _ in failures] == list(ERRORS.values())
    assert "TABLE_OR_VIEW_NOT_FOUND" in failures[0][3]


def cancels(server: Server, version: str) -> tuple[Any, Any]:
    """The outcome of a statement that another thread cancels, and of the next one on the same connection."""
    with connected(version, server.url) as connection, connection.createStatement() as statement:
        ended = cancelled(statement, SLEEPS)
        with connection.createStatement() as following:
            return ended, outcome(following.executeQuery, "SELECT 1 AS one")


def test_another_thread_cancels(server: Server, reference: Reference, version: str) -> None:
    ended, following = reference.answer(server, cancels, version)
    assert ended[3].startswith("Query was cancelled")
    assert following[1] == [("java.lang.Integer 1",)]


def timed_out(server: Server, version: str) -> tuple[Any, Any]:
    with connected(version, server.url) as connection, connection.createStatement() as statement:
        statement.setQueryTimeout(1)
        ended = outcome(statement.executeQuery, SLEEPS)
        statement.setQueryTimeout(0)
        return ended, outcome(statement.executeQuery, "SELECT 1 AS one")


def test_a_statement_times_out(server: Server, reference: Reference, version: str) -> None:
    ended, following = reference.answer(server, timed_out, version)
    assert ended[0] == "java.sql.SQLTimeoutException"
    assert following[1] == [("java.lang.Integer 1",)]


def session(server: Server, version: str) -> list[Any]:
    """The state of a session, and that another session does not see it."""
    url = f"{server.url}?spark.sql.shuffle.partitions=7#greeting=hello"
    with connected(version, url) as connection, connection.createStatement() as statement:
        found = [
            outcome(statement.executeQuery, "SET spark.sql.shuffle.partitions"),
            outcome(statement.executeQuery, "SELECT '${greeting}' AS said"),
        ]
        connection.setSchema("default")
        found += [str(connection.getSchema())]
        found += [bool(statement.execute("CREATE TEMPORARY VIEW passing AS SELECT 5 AS n"))]
        found += [int(statement.getUpdateCount())]
        found += [outcome(statement.executeQuery, "SELECT n FROM passing")]
        found += [outcome(statement.executeQuery, "SHOW TABLES IN default LIKE 'passing'")]
    with connected(version, server.url) as connection, connection.createStatement() as statement:
        found += [outcome(statement.executeQuery, "SELECT n FROM passing")]
    return found


def test_a_session_keeps_its_state(server: Server, reference: Reference, version: str) -> None:
    answers = reference.answer(server, session, version)
    assert answers[0][1] == [("spark.sql.shuffle.partitions", "7")]
    assert answers[1][1] == [("hello",)]
    assert answers[2] == "default"
    assert answers[-1][1] == "42P01"


def test_the_life_cycle_of_a_view_runs(through: Server, life_database: str, version: str) -> None:
    with connected(version, through.url) as connection, connection.createStatement() as statement:

        def run(sql: str) -> list[tuple[str | None, ...]]:
            return texts(statement.getResultSet()) if statement.execute(sql) else []

        lives(run, life_database)


def test_a_view_is_listed_and_read_with_parameters(through: Server, life_database: str, version: str) -> None:
    with connected(version, through.url) as connection, connection.createStatement() as statement:
        for sql in (
            f"CREATE TABLE {life_database}.t (a INT) USING parquet",
            f"CREATE MATERIALIZED VIEW {life_database}.m AS SELECT a FROM {life_database}.t",
            f"INSERT INTO {life_database}.t VALUES (1), (2)",
        ):
            statement.execute(sql)
        with connection.prepareStatement(f"SELECT a FROM {life_database}.m WHERE a > ?") as prepared:
            prepared.setInt(1, 1)
            assert texts(prepared.executeQuery()) == [("2",)]
        metadata = connection.getMetaData()
        listed = texts(metadata.getTables(None, life_database, "%", None))
        assert sorted(row[2:4] for row in listed) == [("m", "MATERIALIZED_VIEW"), ("t", "TABLE")]
        assert [row[3] for row in texts(metadata.getColumns(None, life_database, "m", "%"))] == ["a"]
        with pytest.raises(jpype.java.sql.SQLException) as refused:
            statement.execute(f"INSERT INTO {life_database}.m VALUES (3)")
        assert failure(refused.value)[1] == "42809"


@pytest.mark.thorough
def test_hive_jdbc_sees_the_bytes_of_spark(recorded: Chain) -> None:
    server = Server("recorded", recorded.host, recorded.port)
    for version in VERSIONS:
        for look in (identity, types, pages, metadata_calls, parameters, errors, session):
            look(server, version)
        with connected(version, server.url) as connection, connection.createStatement() as statement:
            assert texts(statement.executeQuery(f"SELECT n FROM {recorded.database}.m ORDER BY n")) == [("1",), ("2",)]
    assert assert_same_bytes(recorded)["GetColumns"] == 2 * len(VERSIONS)
