"""Tests PyHive, also with SQLAlchemy, and impyla."""

from __future__ import annotations

import contextlib
import datetime
import decimal
import math
import threading
from collections.abc import Iterator
from typing import Any

import impala.dbapi
import pyhive.exc
import pytest
import sqlalchemy
from byte_chain import Chain, assert_same_bytes
from clients import pyhive as pyhive_cursor
from clients import rows
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
    UNKNOWN_TABLE,
    USER,
    WITHOUT_INTERVALS,
    Reference,
    Server,
    first_line,
    lives,
)
from processes import wait_until
from TCLIService import ttypes

ONE = "SELECT 1 AS one"


@contextlib.contextmanager
def with_pyhive(server: Server) -> Iterator[Any]:
    with pyhive_cursor(server.host, server.port, USER, database=DATABASE) as cursor:
        yield cursor


@contextlib.contextmanager
def with_impyla(server: Server) -> Iterator[Any]:
    connection = impala.dbapi.connect(
        host=server.host, port=server.port, auth_mechanism="PLAIN", user=USER, password="anonymous", database=DATABASE
    )
    with contextlib.closing(connection), contextlib.closing(connection.cursor()) as cursor:
        yield cursor


Driver = Any
DRIVERS = [with_pyhive, with_impyla]


@pytest.fixture(params=DRIVERS, ids=["pyhive", "impyla"])
def driver(request: pytest.FixtureRequest) -> Driver:
    return request.param


def answer(cursor: Any, sql: str, parameters: Any = None) -> Any:
    """The description and rows of a statement, with NaN as a string, which equals itself; or its failure."""
    try:
        cursor.execute(sql, parameters) if parameters is not None else cursor.execute(sql)
        return cursor.description, [tuple(_comparable(value) for value in row) for row in cursor.fetchall()]
    except Exception as error:
        return failure(error)


def _comparable(value: object) -> object:
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


def failure(error: BaseException) -> tuple[str, str | None, str]:
    """The class of an error, its SQLSTATE if the driver has it, and its first line."""
    response = error.args[0] if error.args else None
    status = getattr(response, "status", response)
    message = getattr(status, "errorMessage", None) or str(error)
    return type(error).__name__, getattr(status, "sqlState", None), first_line(message)


def types(server: Server, driver: Driver) -> list[Any]:
    with driver(server) as cursor:
        return [answer(cursor, sql) for sql in (WITHOUT_INTERVALS, NO_ROWS, EVERY_TYPE, NOTHING)]


def test_every_type_is_read_in_python(server: Server, reference: Reference, driver: Driver) -> None:
    (description, values), none, every, (_, nothing) = reference.answer(server, types, driver)
    assert nothing == [(0, None), (1, None)]
    names = [name for name in COLUMNS if "INTERVAL" not in COLUMNS[name]]
    assert [column[0].rpartition(".")[2] for column in description] == ["id", *names]
    is_pyhive = driver is with_pyhive

    def day(*numbers: int) -> object:
        return datetime.date(*numbers).isoformat() if is_pyhive else datetime.date(*numbers)

    def a_list(text: str) -> object:
        return text if is_pyhive else text.encode()

    assert values == [
        (
            *(1, True, 1, -2, 3, 4, 1.5, -2.5, decimal.Decimal("12345678901234567890.123456789012345678")),
            *("text", "ab", "ab   ", b"A\xff", day(2020, 2, 29)),
            *(datetime.datetime(2020, 1, 31, 12, 34, 56, 789012), datetime.datetime(2021, 7, 1)),
            *(a_list("[1,null]"), '{"k":1}', '{"a":1,"b":"x"}'),
        ),
        (
            *(2, False, -128, 32767, -(1 << 31), (1 << 63) - 1, "NaN", -math.inf, decimal.Decimal("-1E-18")),
            *("ü 😀\ttab", "é", "     ", b"", day(1, 1, 1)),
            *(datetime.datetime(1969, 12, 31, 23, 59, 59), datetime.datetime(9999, 12, 31, 23, 59, 59, 999999)),
            *(a_list("[]"), "{}", '{"a":null,"b":""}'),
        ),
        (3, *[None] * len(names)),
        (4, *("" if name == "words" else None for name in names)),
    ]
    if is_pyhive:
        assert none[1] == []
        assert [row[16:18] for row in every[1][:2]] == [
            ("1-2", "3 04:05:06.700000000"),
            ("-1-2", "-0 00:00:00.000001000"),
        ]
    else:
        # impyla does not support intervals.
        assert none == every == ("KeyError", None, "20")


def pages(server: Server, driver: Driver) -> list[Any]:
    with driver(server) as cursor:
        cursor.arraysize = 300
        cursor.execute(PAGES)
        first = cursor.fetchmany(10)
        return [tuple(row) for row in [*first, *cursor.fetchall()]]


def test_all_pages_are_read_in_python(server: Server, reference: Reference, driver: Driver) -> None:
    assert reference.answer(server, pages, driver) == PAGED


def parameters(server: Server, driver: Driver) -> list[Any]:
    with driver(server) as cursor:
        words = [answer(cursor, "SELECT %(w)s AS w", {"w": each})[1] for each in TEXTS]
        mixed = answer(
            cursor,
            "SELECT %(i)s + 1, %(f)s, %(nothing)s, CAST(%(day)s AS DATE), %(yes)s, '%%' AS mark",
            {"i": 41, "f": 0.5, "nothing": None, "day": "2020-02-29", "yes": True},
        )
        return [words, mixed[1]]


def test_parameters_are_escaped(server: Server, reference: Reference, driver: Driver) -> None:
    words, mixed = reference.answer(server, parameters, driver)
    assert words == [[(each,)] for each in TEXTS]
    (row,) = mixed
    assert row[0] == 42
    assert (float(row[1]), row[2], str(row[3]), bool(row[4])) == (0.5, None, "2020-02-29", True)


def errors(server: Server, driver: Driver) -> list[Any]:
    with driver(server) as cursor:
        return [answer(cursor, sql) for sql in ERRORS] + [answer(cursor, ONE)]


def test_errors_in_python_are_those_of_spark(server: Server, reference: Reference, driver: Driver) -> None:
    *failures, following = reference.answer(server, errors, driver)
    assert following[1] == [(1,)]
    assert "TABLE_OR_VIEW_NOT_FOUND" in failures[0][2]
    if driver is with_pyhive:  # impyla does not expose the SQLSTATE
        assert [state for _, state, _ in failures] == list(ERRORS.values())


def cancelled_in_pyhive(server: Server) -> list[Any]:
    with with_pyhive(server) as cursor:
        cursor.execute(SLEEPS, async_=True)
        other = threading.Thread(target=cursor.cancel)
        other.start()
        other.join()
        wait_until(lambda: cursor.poll().operationState != ttypes.TOperationState.RUNNING_STATE, what="the end")
        return [cursor.poll().operationState, answer(cursor, ONE)]


def cancelled_in_impyla(server: Server) -> list[Any]:
    with with_impyla(server) as cursor:
        cursor.execute_async(SLEEPS)
        other = threading.Thread(target=cursor.cancel_operation, kwargs={"reset_state": False})
        other.start()
        other.join()
        wait_until(lambda: not cursor.is_executing(), what="the end")
        return [cursor.status(), answer(cursor, ONE)]


def test_another_thread_cancels_in_python(server: Server, reference: Reference) -> None:
    state, following = reference.answer(server, cancelled_in_pyhive)
    assert (state, following[1]) == (ttypes.TOperationState.CANCELED_STATE, [(1,)])
    status, following = reference.answer(server, cancelled_in_impyla)
    assert (status, following[1]) == ("CANCELED_STATE", [(1,)])


def impyla_metadata(server: Server) -> list[Any]:
    with with_impyla(server) as cursor:
        found: list[Any] = [
            cursor.database_exists(DATABASE),
            cursor.database_exists("no_such_database"),
            cursor.table_exists("orders", DATABASE),
            cursor.table_exists("no_such_table", DATABASE),
            cursor.get_table_schema("every_type", DATABASE),
        ]
        cursor.get_tables(DATABASE)
        found.append((cursor.description, cursor.fetchall()))
        cursor.get_functions(DATABASE)
        return [*found, cursor.description, len(cursor.fetchall()) > 100]


def test_impyla_lists_metadata(server: Server, reference: Reference) -> None:
    yes, no, there, missing, columns, (_, tables), _, functions = reference.answer(server, impyla_metadata)
    assert (yes, no, there, missing, functions) == (True, False, True, False, True)
    assert [name for name, _ in columns] == ["id", *COLUMNS]
    assert sorted(row[2] for row in tables) == ["every_type", "orders", "orders_view"]


def pyhive_logs(server: Server) -> list[Any]:
    """The logs and rows that PyHive returns for a short statement."""
    with with_pyhive(server) as cursor:
        cursor.execute(ONE, async_=True)
        wait_until(lambda: cursor.poll().operationState == ttypes.TOperationState.FINISHED_STATE, what="the end")
        return [cursor.fetch_logs(), cursor.fetchall()]


def test_pyhive_reads_logs(server: Server, reference: Reference) -> None:
    assert reference.answer(server, pyhive_logs) == [[], [(1,)]]


@pytest.mark.parametrize("driver", DRIVERS, ids=["pyhive", "impyla"])
def test_the_life_cycle_of_a_view_runs_in_python(through: Server, life_database: str, driver: Driver) -> None:
    with driver(through) as cursor:

        def run(sql: str) -> list[tuple[Any, ...]]:
            cursor.execute(sql)
            # For other statements, Spark announces a column but sends none, at which impyla fails.
            return cursor.fetchall() if sql.startswith(("SELECT", "SHOW")) else []

        lives(run, life_database)
        with pytest.raises((pyhive.exc.Error, impala.dbapi.Error), match="no materialized view"):
            cursor.execute(f"REFRESH MATERIALIZED VIEW {life_database}.totals")


def sqlalchemy_looks(server: Server) -> list[Any]:
    engine = sqlalchemy.create_engine(f"hive://{USER}@{server.host}:{server.port}/{DATABASE}")
    try:
        with engine.connect() as connection:
            inspector = sqlalchemy.inspect(connection)
            # The dialect lacks types for intervals and TIMESTAMP_NTZ.
            with pytest.warns(sqlalchemy.exc.SAWarning):
                table = sqlalchemy.Table("every_type", sqlalchemy.MetaData(), autoload_with=connection)
            chosen = sqlalchemy.select(table.c.id, table.c.words, table.c.exact, table.c.day)
            found: list[Any] = [
                DATABASE in inspector.get_schema_names(),
                inspector.has_table("every_type"),
                [(column.name, str(column.type)) for column in table.columns],
                connection.execute(chosen.where(table.c.words == "text")).all(),
                connection.execute(chosen.order_by(table.c.id).limit(2)).all(),
                connection.execute(sqlalchemy.text("SELECT :w AS w"), {"w": TEXTS[0]}).scalar_one(),
                connection.execute(sqlalchemy.select(sqlalchemy.func.count()).select_from(table)).scalar_one(),
            ]
            for refused in (
                lambda: connection.execute(sqlalchemy.text(UNKNOWN_TABLE)),
                # The dialect does not recognize the message of current Spark versions about a missing table.
                lambda: inspector.has_table("no_such_table"),
            ):
                with pytest.raises(sqlalchemy.exc.DBAPIError) as caught:
                    refused()
                assert caught.value.orig is not None
                found.append(failure(caught.value.orig))
            return [_plain(value) for value in found]
    finally:
        engine.dispose()


def _plain(value: Any) -> Any:
    """SQLAlchemy's rows as tuples."""
    return [tuple(row) for row in value] if isinstance(value, list) else value


def test_sqlalchemy_reads_and_reflects(server: Server, reference: Reference) -> None:
    schema, there, columns, filtered, first, words, count, unknown, missing = reference.answer(server, sqlalchemy_looks)
    assert (schema, there, words, count) == (True, True, TEXTS[0], 4)
    assert [name for name, _ in columns] == ["id", *COLUMNS]
    expected = (1, "text", decimal.Decimal("12345678901234567890.123456789012345678"), datetime.date(2020, 2, 29))
    assert (filtered, first[0], len(first)) == ([expected], expected, 2)
    assert (unknown[1], missing[1]) == ("42P01", "42P01")


def test_sqlalchemy_lists_names(server: Server) -> None:
    """SQLAlchemy's dialect reads the names from the first column, which is the database in Spark; impyla reads them
    from the second one."""
    engine = sqlalchemy.create_engine(f"hive://{USER}@{server.host}:{server.port}/{DATABASE}")
    try:
        with engine.connect() as connection:
            inspector = sqlalchemy.inspect(connection)
            listed = [inspector.get_table_names(DATABASE), inspector.get_view_names(DATABASE)]
            shown = connection.execute(sqlalchemy.text("SHOW TABLES")).mappings().all()
    finally:
        engine.dispose()
    names = {row["tableName"] for row in shown}
    assert "every_type" in names
    assert {row["namespace"] for row in shown} == {DATABASE}
    assert {row["isTemporary"] for row in shown} == {False}
    expected = {DATABASE} if server.name == "direct" else names
    assert [set(each) for each in listed] == [expected] * 2
    with with_impyla(server) as cursor:
        cursor.execute(f"SHOW TABLES IN `{DATABASE}`")
        assert {row[1] for row in cursor.fetchall()} == names


def test_superset_lists_views(server: Server) -> None:
    """Its engine spec for Hive sends this text through PyHive and reads the first column."""
    with with_pyhive(server) as cursor:
        cursor.execute(f"SHOW VIEWS IN `{DATABASE}`")
        listed = cursor.fetchall()
        columns = [column[0] for column in cursor.description]
    direct = server.name == "direct"
    assert columns == [*(("namespace", "viewName") if direct else ("viewName", "namespace")), "isTemporary"]
    assert {row[0] for row in listed} == {DATABASE if direct else "orders_view"}
    assert {row[2] for row in listed} == {False}


@pytest.mark.thorough
def test_the_life_cycle_of_a_view_runs_in_sqlalchemy(through: Server, life_database: str) -> None:
    engine = sqlalchemy.create_engine(f"hive://{USER}@{through.host}:{through.port}/{life_database}")
    try:
        with engine.connect() as connection:

            def run(sql: str) -> list[tuple[Any, ...]]:
                result = connection.execute(sqlalchemy.text(sql))
                return [tuple(row) for row in result.all()] if result.returns_rows else []

            lives(run, life_database)
    finally:
        engine.dispose()


@pytest.mark.thorough
def test_python_drivers_see_the_bytes_of_spark(recorded: Chain) -> None:
    server = Server("recorded", recorded.host, recorded.port)
    for driver in DRIVERS:
        for look in (types, pages, parameters, errors):
            look(server, driver)
        with driver(server) as cursor:
            assert rows(cursor, f"SELECT n FROM {recorded.database}.m ORDER BY n") == [(1,), (2,)]
    impyla_metadata(server)
    sqlalchemy_looks(server)
    seen = assert_same_bytes(recorded)
    assert seen["CloseImpalaOperation"] > 0
    assert seen["GetTables"] > 0
