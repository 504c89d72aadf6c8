"""Tests SQLAlchemy with the dialect `freshgate`, with Spark's Thrift server and with the gateway."""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import sqlalchemy as sa
from clients import pyhive, rows
from drivers.contents import (
    COLUMNS,
    DATABASE,
    DIVIDES,
    ERRORS,
    SLEEPS,
    TEXTS,
    UNKNOWN_TABLE,
    USER,
    Reference,
    Server,
    lives,
)
from sqlalchemy.dialects import registry

from gateway.sqlalchemy import column_types
from gateway.sqlalchemy.driver import Refused

registry.register("freshgate", "gateway.sqlalchemy.dialect", "FreshgateDialect")

ODD = "odd name: 100%"
REFLECTED = {
    **COLUMNS,
    "whole": "INTEGER",
    "exact": "DECIMAL(38, 18)",
    "list": "ARRAY<INTEGER>",
    "named": "MAP<STRING, INTEGER>",
    "both": "STRUCT<`a`: INTEGER, `b`: STRING>",
}
"""The names of the reflected types of `every_type`."""
MOMENT = datetime.datetime(1969, 12, 31, 23, 59, 59, 999999)
LITERALS: dict[str, list[Any]] = {
    "BOOLEAN": [True, False],
    "TINYINT": [-128, 127],
    "BIGINT": [(1 << 63) - 1, -5],
    "DOUBLE": [0.1, 1e300, -math.inf, 5e-324],
    "DECIMAL(38, 18)": [decimal.Decimal("12345678901234567890.123456789012345678"), decimal.Decimal("-1E-18")],
    "STRING": [*TEXTS, "${system:user.name}", "\\", "\\%_", "a\r\n\t\0z", "%(x)s %% %s", "\\u0041\\101"],
    "BINARY": [b"", b"\x00\xff'\\"],
    "DATE": [datetime.date(1, 1, 1), datetime.date(9999, 12, 31)],
    "TIMESTAMP": [MOMENT, datetime.datetime(2020, 2, 29, 1, 2, 3)],
    "TIMESTAMP_NTZ": [datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31, 23, 59, 59, 999999)],
    "INTERVAL DAY TO SECOND": [datetime.timedelta(days=-1, microseconds=1), datetime.timedelta(days=100_000_000)],
}
"""Values that a parameter, a literal and a result must leave as they are, by the name of their type."""


def engine_of(server: Server, database: str = DATABASE) -> sa.Engine:
    return sa.create_engine(f"freshgate://{USER}@{server.host}:{server.port}/{database}")


@pytest.fixture
def connection(server: Server) -> Iterator[sa.Connection]:
    yield from connected(server)


def connected(server: Server, database: str = DATABASE) -> Iterator[sa.Connection]:
    engine = engine_of(server, database)
    with engine.connect() as running:
        yield running
    engine.dispose()


@pytest.fixture(scope="module")
def odd_names(direct: Server) -> Iterator[str]:
    """A database whose names need quotes, with a partitioned table and a view."""
    with pyhive(direct.host, direct.port) as cursor:
        for statement in (
            "CREATE DATABASE odd",
            f"CREATE TABLE odd.`select` (`{ODD}` INT COMMENT 'it''s', `p q` DATE, "
            "deep STRUCT<`x y`: ARRAY<MAP<STRING, DECIMAL(5,2)>>, z: VARIANT>, words STRING COLLATE UTF8_LCASE, "
            f"many STRUCT<{', '.join(f'f{number}: INT' for number in range(30))}>) "
            "USING parquet PARTITIONED BY (`p q`) COMMENT 'a ''comment'' 100%'",
            "INSERT INTO odd.`select` VALUES (1, NULL, NULL, NULL, DATE'2020-01-01'), (2, NULL, NULL, NULL, NULL)",
            f"CREATE VIEW odd.v COMMENT 'of a view' AS SELECT `{ODD}` AS n FROM odd.`select`",
        ):
            rows(cursor, statement)
        yield "odd"
        rows(cursor, "DROP DATABASE odd CASCADE")


def looks(server: Server) -> list[Any]:
    """What SQLAlchemy finds and reads in the drivers' database."""
    engine = engine_of(server)
    try:
        with engine.connect() as connection:
            inspector = sa.inspect(connection)
            table = sa.Table("every_type", sa.MetaData(), autoload_with=connection)
            return [
                DATABASE in inspector.get_schema_names(),
                [inspector.has_schema(name) for name in (DATABASE, "no_such_database")],
                [inspector.has_table(name) for name in ("every_type", "orders_view", "no_such_table")],
                [inspector.has_table("orders", schema=name) for name in (DATABASE, "no_such_database")],
                [(column.name, str(column.type), column.comment) for column in table.columns],
                table.comment,
                [tuple(_comparable(value) for value in row) for row in connection.execute(_first_rows(table))],
                [_state(connection, sql) for sql in ERRORS],
            ]
    finally:
        engine.dispose()


def _first_rows(table: sa.Table) -> sa.Select[Any]:
    return sa.select(table).order_by(table.c.id).limit(2).offset(0)


def _comparable(value: object) -> object:
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


def _state(connection: sa.Connection, sql: str) -> str | None:
    with pytest.raises(sa.exc.DBAPIError) as caught:
        connection.execute(sa.text(sql)).all()
    assert isinstance(caught.value.orig, Refused)
    assert "\n\tat " not in str(caught.value)
    return caught.value.orig.sqlstate


def test_every_type_is_reflected_and_read(server: Server, reference: Reference) -> None:
    schema, schemas, tables, qualified, columns, comment, found, states = reference.answer(server, looks)
    assert (schema, schemas, tables, qualified) == (True, [True, False], [True, True, False], [True, False])
    assert comment == "one column of each type"
    assert columns[0] == ("id", "INTEGER", "the row")
    assert [name for name, _, _ in columns[1:]] == list(COLUMNS)
    assert [kind for _, kind, _ in columns[1:]] == list(REFLECTED.values())
    assert found == [
        (
            *(1, True, 1, -2, 3, 4, 1.5, -2.5, decimal.Decimal("12345678901234567890.123456789012345678")),
            *("text", "ab", "ab   ", b"A\xff", datetime.date(2020, 2, 29)),
            *(datetime.datetime(2020, 1, 31, 12, 34, 56, 789012), datetime.datetime(2021, 7, 1)),
            *("1-2", datetime.timedelta(days=3, hours=4, minutes=5, seconds=6.7)),
            *("[1,null]", '{"k":1}', '{"a":1,"b":"x"}'),
        ),
        (
            *(2, False, -128, 32767, -(1 << 31), (1 << 63) - 1, "NaN", -math.inf, decimal.Decimal("-1E-18")),
            *("ü 😀\ttab", "é", "     ", b"", datetime.date(1, 1, 1)),
            *(datetime.datetime(1969, 12, 31, 23, 59, 59), datetime.datetime(9999, 12, 31, 23, 59, 59, 999999)),
            *("-1-2", datetime.timedelta(microseconds=-1), "[]", "{}", '{"a":null,"b":""}'),
        ),
    ]
    assert states == list(ERRORS.values())


def test_results_of_a_text_have_the_types_of_python(connection: sa.Connection) -> None:
    text = sa.text(
        "SELECT DATE'2020-02-29', TIMESTAMP'2020-02-29 01:02:03', TIMESTAMP_NTZ'2020-02-29 01:02:03.4', 1.5, "
        "INTERVAL '1' HOUR, DATE'10000-01-01', TIMESTAMP'-0001-01-01 00:00:00', CAST(NULL AS DATE), :words"
    )
    assert connection.execute(text, {"words": "100%"}).one() == (
        *(datetime.date(2020, 2, 29), datetime.datetime(2020, 2, 29, 1, 2, 3)),
        *(datetime.datetime(2020, 2, 29, 1, 2, 3, 400000), decimal.Decimal("1.5"), datetime.timedelta(hours=1)),
        *("+10000-01-01", "-0001-01-01 00:00:00", None, "100%"),
    )


@pytest.mark.parametrize("name", LITERALS)
def test_values_arrive_as_they_are(connection: sa.Connection, name: str) -> None:
    """As a parameter, as a literal in the statement, and in comparisons with a column of the type."""
    kind = column_types.parsed(name)
    given = LITERALS[name]
    selected = sa.select(*[sa.cast(sa.literal(value, kind), kind).label(f"c{n}") for n, value in enumerate(given)])
    assert list(connection.execute(selected).one()) == given
    written = str(selected.compile(connection, compile_kwargs={"literal_binds": True})).replace("%%", "%")
    assert list(connection.exec_driver_sql(written).one()) == given
    inner = selected.subquery()
    equal = sa.select(*[column == value for column, value in zip(inner.columns, given, strict=True)])
    assert list(connection.execute(equal).one()) == [True] * len(given)


def test_spark_has_the_reflected_types(connection: sa.Connection, odd_names: str) -> None:
    """The name that SQLAlchemy prints for a type is Spark's name of the same type."""
    kinds = {column.name: column.type for column in _reflected(connection, odd_names, "select").columns}
    del kinds["many"]
    chosen = ", ".join(f"CAST(NULL AS {kind}) AS c{number}" for number, kind in enumerate(kinds.values()))
    connection.exec_driver_sql(f"CREATE OR REPLACE TEMPORARY VIEW typed AS SELECT {chosen}")
    again = [str(column["type"]) for column in sa.inspect(connection).get_columns("typed")]
    assert again == [str(kind) for kind in kinds.values()]
    assert again[1:3] == ["STRUCT<`x y`: ARRAY<MAP<STRING, DECIMAL(5, 2)>>, `z`: VARIANT>", "STRING COLLATE UTF8_LCASE"]


def runner(connection: sa.Connection) -> Callable[[str], list[tuple[Any, ...]]]:
    """Runs a text, and returns its rows as tuples."""

    def run(sql: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in connection.execute(sa.text(sql)).all()]

    return run


def _reflected(connection: sa.Connection, schema: str, name: str) -> sa.Table:
    return sa.Table(name, sa.MetaData(), schema=schema, autoload_with=connection)


def test_odd_names_are_reflected_and_read(connection: sa.Connection, odd_names: str) -> None:
    inspector = sa.inspect(connection)
    assert inspector.get_table_names(odd_names) == ["select"]
    assert inspector.get_view_names(odd_names) == ["v"]
    table = _reflected(connection, odd_names, "select")
    assert [column.name for column in table.columns] == [ODD, "deep", "words", "many", "p q"]
    assert (table.columns[0].comment, table.comment) == ("it's", "a 'comment' 100%")
    many = table.c.many.type
    assert isinstance(many, column_types.STRUCT)
    assert (len(many.fields), many.is_shortened) == (25, True)
    assert connection.execute(sa.select(table.c[ODD], table.c["p q"]).where(table.c[ODD] == 1)).tuples().all() == [
        (1, datetime.date(2020, 1, 1))
    ]
    assert inspector.get_view_definition("v", schema=odd_names).startswith("CREATE VIEW odd.v")
    assert inspector.get_table_comment("v", schema=odd_names) == {"text": "of a view"}


def test_temporary_views_are_listed_apart(connection: sa.Connection) -> None:
    connection.exec_driver_sql("CREATE TEMPORARY VIEW passing AS SELECT 1 AS x")
    inspector = sa.inspect(connection)
    assert inspector.get_temp_view_names() == ["passing"]
    assert set(inspector.get_table_names()) >= {"every_type", "orders"}
    assert inspector.get_view_names() == ["orders_view"]
    assert not {"passing", "orders_view"} & set(inspector.get_table_names())
    assert inspector.get_materialized_view_names() == []


def test_tables_are_created_filled_and_dropped(connection: sa.Connection) -> None:
    table = sa.Table(
        "created",
        sa.MetaData(schema=DATABASE),
        sa.Column("id", sa.BigInteger, primary_key=True, comment="it's"),
        sa.Column("words", sa.String(20)),
        sa.Column("at", sa.DateTime),
        sa.Column("took", sa.Interval),
        comment="of 100%",
    )
    table.metadata.create_all(connection)
    try:
        given = [{"id": n, "words": TEXTS[n], "at": MOMENT, "took": datetime.timedelta(n)} for n in range(3)]
        connection.execute(sa.insert(table).values(given))
        connection.execute(sa.insert(table), [{"id": n} for n in range(3, 2003)])
        query = sa.select(table).order_by(table.c.id)
        assert [row._asdict() for row in connection.execute(query.limit(3))] == given
        assert [row.id for row in connection.execute(query.offset(2000))] == [2000, 2001, 2002]
        assert [row.id for row in connection.execute(query.limit(2).offset(7))] == [7, 8]
        assert connection.execute(sa.select(table.c.id).where(table.c.id.in_([]))).all() == []
        again = sa.Table("created", sa.MetaData(), schema=DATABASE, autoload_with=connection)
        assert [(column.name, str(column.type), column.comment) for column in again.columns] == [
            ("id", "BIGINT", "it's"),
            ("words", "VARCHAR(20)", None),
            ("at", "TIMESTAMP", None),
            ("took", "INTERVAL DAY TO SECOND", None),
        ]
        assert again.comment == "of 100%"
    finally:
        table.metadata.drop_all(connection)
    assert not sa.inspect(connection).has_table("created", schema=DATABASE)


def test_expressions_mean_the_same_in_spark(connection: sa.Connection) -> None:
    numbers = sa.values(sa.column("n", sa.Integer), sa.column("words", sa.String), name="numbers").data(
        [(7, "Abc"), (-7, "x/y%")]
    )
    n, words = numbers.c.n, numbers.c.words
    query = sa.select(
        *(n / 2, n // 2, n % 2, words + "!", words.ilike("a%"), words.regexp_match("^A"), n.is_distinct_from(None)),
        *(words.contains("/y%", autoescape=True), words.regexp_replace("[a-c]+", "z"), sa.func.char_length(words)),
    ).order_by(n.desc())
    assert connection.execute(query).tuples().all() == [
        (3.5, 3, 1, "Abc!", True, True, True, False, "Az", 3),
        (-3.5, -4, -1, "x/y%!", False, False, True, True, "x/y%", 4),
    ]
    month = sa.func.date_trunc("month", sa.literal(datetime.datetime(2020, 2, 29, 1)))
    year = sa.extract("year", sa.literal(datetime.date(2020, 2, 29)))
    assert connection.execute(sa.select(month, year)).one() == (datetime.datetime(2020, 2, 1), 2020)


def test_a_statement_is_waited_for_and_cancelled(connection: sa.Connection) -> None:
    cursor: Any = connection.connection.cursor()
    seen: list[Any] = []
    cursor.execute("SELECT 1", async_=True)
    cursor.wait(seen.append)
    assert cursor.fetchall() == [(1,)]
    cursor.execute(SLEEPS, async_=True)
    with pytest.raises(Refused):
        cursor.wait(lambda status: cursor.cancel())
    cursor.execute(DIVIDES, async_=True)
    with pytest.raises(Refused, match="DIVIDE_BY_ZERO") as caught:
        cursor.wait(seen.append)
    assert caught.value.sqlstate == ERRORS[DIVIDES]
    cursor.close()


def test_a_lost_session_is_replaced(server: Server) -> None:
    engine = sa.create_engine(f"freshgate://{USER}@{server.host}:{server.port}/{DATABASE}", pool_pre_ping=True)
    try:
        with engine.connect() as connection:
            connection.connection.dbapi_connection._transport.close()  # type: ignore[union-attr]
        with engine.connect() as connection:
            assert connection.execute(sa.text("SELECT current_database()")).scalar_one() == DATABASE
    finally:
        engine.dispose()


def test_pandas_reads_queries_and_tables(connection: sa.Connection) -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is none of the project's packages")
    frame = pandas.read_sql(
        "SELECT id, words, day, exact FROM every_type WHERE words LIKE 't%'", connection, coerce_float=False
    )
    assert frame.values.tolist() == [
        [1, "text", datetime.date(2020, 2, 29), decimal.Decimal("12345678901234567890.123456789012345678")]
    ]
    whole = pandas.read_sql_table("every_type", connection, columns=["id", "instant"])
    assert sorted(whole["id"]) == [1, 2, 3, 4]
    assert str(whole["instant"].dtype).startswith("datetime64")


def test_a_materialized_view_is_one(through: Server, life_database: str) -> None:
    for connection in connected(through, life_database):
        run = runner(connection)
        run("CREATE TABLE base (day DATE, amount DECIMAL(9,2) COMMENT 'in euros') USING parquet")
        run("INSERT INTO base VALUES (DATE'2020-01-01', 1), (DATE'2020-01-02', 2)")
        run("CREATE VIEW plain AS SELECT day FROM base")
        run("CREATE MATERIALIZED VIEW sums COMMENT 'fresh' AS SELECT day, sum(amount) AS total FROM base GROUP BY day")
        inspector = sa.inspect(connection)
        for schema in (None, life_database):
            assert inspector.get_table_names(schema) == ["base"]
            assert inspector.get_view_names(schema) == ["plain"]
            assert inspector.get_materialized_view_names(schema) == ["sums"]
        assert inspector.has_table("sums")
        assert inspector.get_view_definition("sums").startswith("CREATE MATERIALIZED VIEW")
        sums = sa.Table("sums", sa.MetaData(), autoload_with=connection)
        assert [(column.name, str(column.type)) for column in sums.columns] == [
            ("day", "DATE"),
            ("total", "DECIMAL(19, 2)"),
        ]
        assert sums.comment == "fresh"
        everything = sa.MetaData()
        everything.reflect(connection, views=True)
        assert set(everything.tables) == {"base", "plain", "sums"}
        query = sa.select(sums).where(sums.c.day == datetime.date(2020, 1, 2))
        assert connection.execute(query).tuples().all() == [(datetime.date(2020, 1, 2), decimal.Decimal(2))]
        base = everything.tables["base"]
        connection.execute(sa.insert(base).values(day=datetime.date(2020, 1, 2), amount=decimal.Decimal("0.25")))
        dialect: Any = connection.dialect
        state = dialect.get_materialized_view_state(connection, "sums")
        assert (state["name"], state["freshness"]) == ("sums", "STALE")
        assert dialect.get_materialized_view_state(connection, "base") == {}
        assert connection.execute(query).tuples().all() == [(datetime.date(2020, 1, 2), decimal.Decimal("2.25"))]


def test_the_life_cycle_of_a_view_runs_with_the_dialect(through: Server, life_database: str) -> None:
    for connection in connected(through, life_database):
        lives(runner(connection), life_database)


def test_an_error_ends_no_connection(connection: sa.Connection) -> None:
    with pytest.raises(sa.exc.DBAPIError, match="TABLE_OR_VIEW_NOT_FOUND"):
        connection.execute(sa.text(UNKNOWN_TABLE))
    assert connection.execute(sa.text("SELECT 1")).scalar_one() == 1
