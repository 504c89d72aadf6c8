"""Tests each fault of Spark's server that the gateway heals: at Spark itself, healed, and with its setting off.

A test that fails at Spark itself shows that Spark has fixed the fault.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from clients import Jdbc, beeline
from databases import Database
from processes import Engine, Gateway, Setting, wait_until
from raw_session import (
    COLUMNAR,
    FIRST,
    NEXT,
    ROW_WISE,
    Closed,
    RawConnection,
    RawSession,
    column_names,
    decoded,
    encoded,
    texts,
    without_trace,
)
from TCLIService import ttypes

from gateway import config

UNHEALED = {"healing": "lost_cancels,show_tables"}
HEALED = {"healing": ",".join((*config.HEALED, "early_metadata", "ddl_columns"))}
EXCEPTION = 3
"""The Thrift message type of an exception."""
SLOW = "SELECT id AS a, id + 1 AS b FROM range(2) WHERE java_method('java.lang.Thread', 'sleep', bigint(400)) IS NULL"
FAILING = "SELECT 1 AS a, raise_error(java_method('java.lang.Thread', 'sleep', bigint(400))) AS b"


@pytest.fixture(scope="module")
def unhealed(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway with all healing turned off."""
    yield from _gateway(engine, tmp_path_factory, "storage_unhealed", UNHEALED)


@pytest.fixture(scope="module")
def healed(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway with all healing turned on."""
    yield from _gateway(engine, tmp_path_factory, "storage_healed", HEALED)


SHORT_PAGES = {"healing": ",".join((*config.HEALED, "long_pages"))}


def pages_of(most: int) -> dict[str, object]:
    """The constants of a gateway whose pages have at most so many bytes."""
    return {"gateway.service.answers.healing.PAGE_BYTES": most}


def _gateway(
    engine: Engine,
    directories: pytest.TempPathFactory,
    storage: str,
    settings: Mapping[str, Setting],
    constants: Mapping[str, object] | None = None,
) -> Iterator[Gateway]:
    log = directories.mktemp("gateway") / "gateway.log"
    upstream, settings = f"{engine.host}:{engine.port}", {"storage.database": storage, **settings}
    running = Gateway(log, upstream=upstream, constants=constants, settings=settings)
    yield running
    running.stop()


@pytest.fixture(scope="module")
def table(shared: Database) -> tuple[str, str]:
    """A database and a table in it."""
    shared.run("CREATE TABLE t (a INT, b STRING) USING parquet")
    return shared.name, "t"


# --- GetInfo ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wanted", [0, 29, 47, 10005])
def test_spark_closes_the_connection_for_most_types_of_info(engine: Engine, unhealed: Gateway, wanted: int) -> None:
    with RawSession(engine) as session, pytest.raises(Closed):
        session.list("GetInfo", wanted)
    # Through a gateway the client keeps its connection and gets an error about the lost session.
    with RawSession(unhealed) as session:
        status = decoded(session.list("GetInfo", wanted)).status
        assert (status.statusCode, status.sqlState) == (3, "08S01")


def test_spark_closes_the_connection_after_an_unknown_type_of_info(engine: Engine) -> None:
    """It first sends a Thrift exception without a reason."""
    with RawSession(engine) as session:
        assert session.list("GetInfo", 77777)[3] == EXCEPTION
        with pytest.raises(Closed):
            session.list("GetInfo", 17)


def test_every_type_of_info_is_answered(gateway: Gateway) -> None:
    with RawSession(gateway) as session:
        found = {
            wanted: decoded(session.list("GetInfo", wanted)) for wanted in [*range(130), *range(10000, 10010), 77777]
        }
        assert {answer.status.statusCode for answer in found.values()} == {0}
        values = {wanted: answer.infoValue for wanted, answer in found.items()}
        assert values[29].stringValue == "`"
        assert values[30].smallIntValue == 128
        assert values[47].stringValue == "tester"
        assert values[115].integerBitmask == 127
        assert values[3].lenValue == 0
        # The session still works.
        assert texts(session.fetch(session.execute("SELECT 'still here' AS a"))) == [("still here",)]


@pytest.mark.parametrize("wanted", [13, 17, 18, 10006])
def test_types_of_info_that_spark_answers_are_forwarded(
    engine: Engine, gateway: Gateway, unhealed: Gateway, wanted: int
) -> None:
    answers = set()
    for server in (engine, gateway, unhealed):
        with RawSession(server) as session:
            answers.add(session.list("GetInfo", wanted))
    assert len(answers) == 1


# --- keys ------------------------------------------------------------------------------------------------

KEY_CALLS: list[tuple[str, list[str | None]]] = [
    ("GetPrimaryKeys", [None, None, "t"]),
    ("GetPrimaryKeys", ["", None, None]),
    ("GetCrossReference", [None, None, "t", None, None, "t"]),
    ("GetCrossReference", [None, "default", "t", None, None, "t"]),
]


@pytest.mark.parametrize(("name", "arguments"), KEY_CALLS)
def test_spark_fails_on_key_calls_without_a_schema(
    engine: Engine, unhealed: Gateway, name: str, arguments: list[str | None]
) -> None:
    answers = []
    for server in (engine, unhealed):
        with RawSession(server) as session:
            answers.append(session.list(name, *arguments))
    assert "NullPointerException" in decoded(answers[0]).status.errorMessage
    assert without_trace(answers[0]) == without_trace(answers[1])


@pytest.mark.parametrize(("name", "arguments"), KEY_CALLS)
def test_key_calls_without_a_schema_use_the_current_one(
    gateway: Gateway, name: str, arguments: list[str | None]
) -> None:
    with RawSession(gateway) as session:
        begun = decoded(session.list(name, *arguments))
        assert begun.status.statusCode == 0, begun.status
        page = decoded(session.fetch(begun.operationHandle))
        assert page.status.statusCode == 0
        assert len(page.results.columns) > 5
        assert {len(column.stringVal.values) for column in page.results.columns if column.stringVal} == {0}


def test_beeline_lists_primary_keys_without_an_error(engine: Engine, gateway: Gateway) -> None:
    direct = beeline(engine.url, "!primarykeys t", check=False)
    healed = beeline(gateway.url, "!primarykeys t", check=False)
    assert "NullPointerException" in direct.stderr
    assert "Error" not in healed.stderr
    assert "PK_NAME" in healed.stdout or "pk_name" in healed.stdout.lower()


# --- patterns --------------------------------------------------------------------------------------------

STARS: list[tuple[str, list[Any]]] = [
    ("GetSchemas", [None, "*"]),
    ("GetSchemas", [None, "%*"]),
    ("GetSchemas", [None, "**"]),
    ("GetSchemas", [None, "*ed%"]),
    ("GetTables", [None, "*", "*", None]),
    ("GetTables", [None, "*", "t", ["VIEW"]]),
    ("GetColumns", [None, "*", "t", "%"]),
    ("GetColumns", [None, "%", "t", "*"]),
    ("GetColumns", [None, "*", "*", "*b"]),
]


@pytest.mark.parametrize(("name", "arguments"), STARS)
def test_spark_fails_on_patterns_with_a_leading_star(
    engine: Engine, unhealed: Gateway, name: str, arguments: list[Any]
) -> None:
    answers = []
    for server in (engine, unhealed):
        with RawSession(server) as session:
            answers.append(session.list(name, *arguments))
    assert "Dangling meta character '*'" in decoded(answers[0]).status.errorMessage
    assert without_trace(answers[0]) == without_trace(answers[1])


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize(("name", "arguments"), STARS)
def test_a_leading_star_matches_any_text(gateway: Gateway, name: str, arguments: list[Any]) -> None:
    percents = [each.replace("*", "%") if isinstance(each, str) else each for each in arguments]
    with RawSession(gateway) as session:
        found = []
        for patterns in (arguments, percents):
            begun = decoded(session.list(name, *patterns))
            assert begun.status.statusCode == 0, begun.status
            found.append(texts(session.fetch(begun.operationHandle, 100_000)))
    assert found[0] == found[1]
    if arguments[-1] != ["VIEW"]:
        assert found[0]


def test_stars_that_spark_accepts_are_forwarded(engine: Engine, gateway: Gateway, table: tuple[str, str]) -> None:
    """A star matches any text in names of schemas, tables and functions; for columns it is a regular expression."""
    database, _ = table
    calls: list[tuple[str, list[Any]]] = [
        ("GetSchemas", [None, f"{database[:3]}*"]),
        ("GetSchemas", [None, "def.*t"]),
        ("GetTables", [None, database, "*", ["TABLE"]]),
        ("GetColumns", [None, database, "t*", "ax*"]),
        ("GetFunctions", [None, "default", "*bs"]),
    ]
    for name, arguments in calls:
        found = []
        for server in (engine, gateway):
            with RawSession(server) as session:
                begun = decoded(session.list(name, *arguments))
                assert begun.status.statusCode == 0, begun.status
                found.append(texts(session.fetch(begun.operationHandle, 100_000)))
        assert found[0] == found[1], name
        assert found[0], name


# --- sessions --------------------------------------------------------------------------------------------


def _is_open(watcher: RawConnection, handle: Any) -> bool:
    answer = watcher.ask("ExecuteStatement", ttypes.TExecuteStatementReq(handle, "SELECT 1", {}, False))
    return bool(answer.status.statusCode == 0)


def test_spark_closes_a_lost_clients_newest_session_only(engine: Engine, unhealed: Gateway) -> None:
    """Handles work over any connection; so the test can see which sessions remain at Spark."""
    for server in (engine, unhealed):
        with RawConnection(engine.host, engine.port) as watcher:
            lost = RawSession(server)
            second = lost.open()
            assert _is_open(watcher, lost.handle)
            assert _is_open(watcher, second)
            lost.close()
            wait_until(lambda: not _is_open(watcher, second), what="the newest session to be closed")  # noqa: B023
            assert _is_open(watcher, lost.handle)
            watcher.ask("CloseSession", ttypes.TCloseSessionReq(lost.handle))


def test_a_leaked_session_can_still_be_used(engine: Engine, unhealed: Gateway) -> None:
    for server in (engine, unhealed):
        lost = RawSession(server)
        lost.open()
        lost.close()
        with RawConnection(server.host, server.port) as other:
            assert _is_open(other, lost.handle)
            assert other.ask("CloseSession", ttypes.TCloseSessionReq(lost.handle)).status.statusCode == 0
            assert not _is_open(other, lost.handle)


def test_every_session_of_a_lost_client_is_closed(engine: Engine, gateway: Gateway) -> None:
    with RawConnection(engine.host, engine.port) as watcher:
        lost = RawSession(gateway)
        handles = [lost.handle, lost.open(), lost.open()]
        assert all(_is_open(watcher, handle) for handle in handles)
        lost.close()
        wait_until(lambda: not any(_is_open(watcher, handle) for handle in handles), what="the sessions to be closed")


def test_all_sessions_of_a_connection_that_spark_broke_are_closed(engine: Engine, gateway: Gateway) -> None:
    """Spark itself closes only the newest session and keeps the other one, which the client has lost."""
    broken = encoded("GetSchemas", ttypes.TGetSchemasReq())
    with RawConnection(engine.host, engine.port) as watcher, RawSession(gateway) as session:
        second = session.open()
        assert _is_open(watcher, session.handle)
        # Spark stops reading in the middle of this call and closes the connection at the next one.
        session.exchange(broken)
        assert decoded(session.list("GetInfo", 17)).status.sqlState == "08S01"
        wait_until(lambda: not _is_open(watcher, session.handle), what="the older session to be closed")
        assert not _is_open(watcher, second)


# --- rows without columns --------------------------------------------------------------------------------

WITHOUT_RESULT = [
    "CREATE TEMPORARY VIEW empty_columns AS SELECT 1 AS n",
    "INSERT INTO {table} VALUES (1, 'x')",
    "WITH q AS (SELECT 2 AS a, 'y' AS b) INSERT INTO {table} SELECT * FROM q",
    "FROM empty_columns INSERT INTO {table} SELECT n, 'z'",
    "USE default",
    "-- a comment\nDROP VIEW empty_columns",
]


@pytest.mark.parametrize("protocol", [COLUMNAR, ROW_WISE])
def test_results_of_statements_without_rows_have_a_column(
    engine: Engine, gateway: Gateway, healed: Gateway, table: tuple[str, str], protocol: int
) -> None:
    sessions = [RawSession(server, protocol) for server in (engine, gateway, healed)]
    for statement in WITHOUT_RESULT:
        pages = []
        for session in sessions:
            operation = session.execute(statement.format(table=".".join(table)))
            assert column_names(session.metadata(operation)) == ["Result"]
            pages.append([session.fetch(operation, 100, orientation) for orientation in (0, FIRST, 0)])
        direct, plain, fixed = pages
        # This healing is off by default, and row-wise results need none.
        assert direct == plain
        assert (direct == fixed) is (protocol == ROW_WISE)
        for page in map(decoded, direct):
            assert not page.results.columns
            assert page.results.rows == []
        if protocol == COLUMNAR:
            for page in map(decoded, fixed):
                (column,) = page.results.columns
                assert (column.stringVal.values, page.status.statusCode, page.hasMoreRows) == ([], 0, False)
    for session in sessions:
        session.close()


def test_results_with_rows_are_forwarded_unchanged(engine: Engine, healed: Gateway, table: tuple[str, str]) -> None:
    statements = [
        "SELECT 'insert' AS a, 2 AS b WHERE false",
        "WITH q AS (SELECT 'insert into x' AS a) SELECT * FROM q",
        "SET spark.sql.shuffle.partitions=3",
        "DESCRIBE {table}",
        "SHOW FUNCTIONS LIKE 'abs'",
        "SELECT repeat('x', 1000) AS wide FROM range(40000)",
    ]
    for statement in statements:
        answers = []
        for server in (engine, healed):
            with RawSession(server) as session:
                operation = session.execute(statement.format(table=".".join(table)))
                answers.append((session.metadata(operation), session.fetch(operation, 100_000)))
        assert answers[0] == answers[1], statement


def test_jdbc_reads_the_result_of_a_statement_without_rows(healed: Gateway) -> None:
    with Jdbc(healed.url) as jdbc:
        names, found = jdbc.query("CREATE TEMPORARY VIEW read_by_jdbc AS SELECT 1 AS n")
        assert (names, found) == (["Result"], [])


# --- early requests for the schema -----------------------------------------------------------------------


def test_spark_returns_a_wrong_schema_if_it_is_requested_early(engine: Engine, gateway: Gateway) -> None:
    for server in (engine, gateway):
        with RawSession(server) as session:
            # "Early" is before Spark has analysed the statement, which a busy machine may miss.
            operations = (session.execute(SLOW, run_async=True) for _ in range(50))
            operation = next(each for each in operations if column_names(session.metadata(each)) == ["Result"])
            assert session.wait(operation) == 2
            assert column_names(session.metadata(operation)) == ["Result"]
            assert len(decoded(session.fetch(operation)).results.columns) == 2


def test_a_schema_that_is_requested_early_is_correct(healed: Gateway) -> None:
    with RawSession(healed) as session:
        operation = session.execute(SLOW, run_async=True)
        assert column_names(session.metadata(operation)) == ["a", "b"]
        assert session.wait(operation) == 2
        assert column_names(session.metadata(operation)) == ["a", "b"]
        # A statement that has ended is not waited for.
        assert column_names(session.metadata(session.execute("SELECT 1 AS c"))) == ["c"]
        listed = decoded(session.list("GetSchemas", None, "%")).operationHandle
        assert column_names(session.metadata(listed)) == ["TABLE_SCHEM", "TABLE_CATALOG"]


def test_the_schema_of_a_failed_statement_is_sparks(engine: Engine, healed: Gateway) -> None:
    answers = []
    for server in (engine, healed):
        with RawSession(server) as session:
            operation = session.execute(FAILING, run_async=True)
            if server is engine:
                assert session.wait(operation) == 5
            answers.append(session.metadata(operation))
            assert session.wait(operation) == 5
    assert answers[0] == answers[1]


def test_waiting_for_a_schema_ends_when_the_statement_is_closed(healed: Gateway) -> None:
    with RawSession(healed) as session, RawConnection(healed.host, healed.port) as other:
        operation = session.execute(SLOW.replace("400", "20000"), run_async=True)
        message = ttypes.TGetResultSetMetadataReq(operation)
        session.send("GetResultSetMetadata", message)
        # Meanwhile another connection can use the same operation.
        assert other.ask("GetOperationStatus", ttypes.TGetOperationStatusReq(operation)).operationState in (0, 1, 7)
        assert other.ask("CloseOperation", ttypes.TCloseOperationReq(operation)).status.statusCode == 0
        assert "Invalid OperationHandle" in decoded(session.receive()).status.errorMessage


# --- long pages ------------------------------------------------------------------------------------------

PAGE_BYTES = 100_000
WIDE = "SELECT CAST(id AS STRING) AS n, repeat('x', 400 + int(id * 7919 % 5000)) AS wide FROM range(300)"


@pytest.fixture(scope="module")
def bounded(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway with a small limit on the size of pages."""
    yield from _gateway(engine, tmp_path_factory, "storage_bounded", SHORT_PAGES, pages_of(PAGE_BYTES))


@pytest.mark.parametrize("incremental", ["false", "true"])
def test_pages_are_not_longer_than_the_limit(engine: Engine, bounded: Gateway, incremental: str) -> None:
    wholes = []
    for server in (engine, bounded):
        with RawSession(server) as session:
            session.execute(f"SET spark.sql.thriftServer.incrementalCollect={incremental}")
            operation = session.execute(WIDE)
            found: list[tuple[str, ...]] = []
            lengths = []
            for orientation in (FIRST, *([NEXT] * 300)):
                page = session.fetch(operation, 200, orientation)
                assert decoded(page).results.startRowOffset == len(found)
                if not texts(page):
                    break
                found += texts(page)
                lengths.append(len(page))
            # Then from the beginning.
            again = texts(session.fetch(operation, 200, FIRST))
            assert again == found[: len(again)]
            assert (max(lengths) > PAGE_BYTES) is (server is engine)
            wholes.append(found)
    assert wholes[0] == wholes[1]
    assert len(wholes[0]) == 300


def test_a_row_larger_than_the_limit_is_sent_alone(engine: Engine, bounded: Gateway) -> None:
    sql = "SELECT CAST(id AS STRING) AS n, repeat('x', if(id = 3, 300000, 10)) AS wide FROM range(6)"
    with RawSession(engine) as direct, RawSession(bounded) as session:
        expected = texts(direct.fetch(direct.execute(sql)))
        operation = session.execute(sql)
        pages = []
        while page := texts(session.fetch(operation)):
            pages.append(page)
    assert [row for page in pages for row in page] == expected
    assert [expected[3]] in pages


def test_pages_within_the_limit_are_forwarded_unchanged(engine: Engine, bounded: Gateway) -> None:
    with RawSession(engine) as direct, RawSession(bounded) as session:
        operations = [(direct, direct.execute(WIDE)), (session, session.execute(WIDE))]
        for orientation, rows_max in ((NEXT, 10), (NEXT, 5), (1, 5), (FIRST, 3), (NEXT, 0)):
            first, second = (each.fetch(operation, rows_max, orientation) for each, operation in operations)
            assert first == second


def test_jdbc_reads_results_larger_than_its_message_limit(engine: Engine, start_gateway: Any) -> None:
    """The limit of the driver that Spark ships is 100 MiB."""
    sql = "SELECT id, repeat('x', 1000000) AS wide FROM range(110)"
    # After this error the driver cannot even close its statement.
    with pytest.raises(Exception, match="MaxMessageSize reached"):
        _lengths(engine.url, sql)
    gateway: Gateway = start_gateway(constants=pages_of(20 << 20), **SHORT_PAGES)
    assert _lengths(gateway.url, sql) == [(number, 1_000_000) for number in range(110)]


def _lengths(url: str, sql: str) -> list[tuple[int, int]]:
    """Returns each row's id and text length. The texts are not kept, because the tests' JVM should not hold them."""
    found = []
    with Jdbc(url) as jdbc:
        result = jdbc.statement.executeQuery(sql)
        while result.next():
            found.append((int(result.getLong(1)), len(str(result.getString(2)))))
        result.close()
    return found
