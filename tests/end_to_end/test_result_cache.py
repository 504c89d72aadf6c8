"""Reads that are answered from memory, on real Spark: the same bytes however they are fetched, and no stale row."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from clients import Jdbc, impyla, log_of, pyhive, rows
from databases import Database, make_database
from processes import Engine, Gateway, wait_until
from TCLIService import ttypes

FETCHES = ((7, 0), (5, 0), (1_000, 0), (1_000, 0), (4, 4), (3, 1), (0, 4), (2, 0), (9, 2))
"""Rows, and the orientation: next, first (4), prior (1), and one that Spark refuses."""


@pytest.fixture(scope="module")
def gateway(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    log = tmp_path_factory.mktemp("cached") / "gateway.log"
    settings: dict[str, Any] = {"listen.http_port": 0}
    running = Gateway(log, upstream=f"{engine.host}:{engine.port}", settings=settings)
    yield running
    running.stop()


@pytest.fixture
def database(gateway: Gateway) -> Iterator[Database]:
    yield from make_database(gateway, "cached")


@pytest.fixture
def view(database: Database) -> Database:
    database.run(
        "CREATE TABLE t USING parquet AS SELECT id, IF(id % 3 = 0, NULL, concat('n', id)) AS name, id / 7.0D AS x, "
        "CAST(id AS DECIMAL(10,2)) AS d, id % 2 = 0 AS even, DATE'2026-01-01' + CAST(id AS INT) AS day, "
        "array(id, id + 1) AS both, CAST(concat('b', id) AS BINARY) AS b, "
        "timestamp_seconds(1696084200 + 900 * id) AS at FROM range(40)",
        "CREATE MATERIALIZED VIEW v AS SELECT * FROM t",
    )
    return database


def raw(cursor: Any, sql: str) -> list[Any]:
    """What a client gets for a statement, handles and times aside."""
    cursor.execute(sql)
    client, handle = cursor._connection.client, cursor._operationHandle
    told: list[Any] = [client.GetResultSetMetadata(ttypes.TGetResultSetMetadataReq(handle))]
    for number, orientation in FETCHES:
        told.append(client.FetchResults(ttypes.TFetchResultsReq(handle, orientation, number)))
    status = client.GetOperationStatus(ttypes.TGetOperationStatusReq(handle))
    told.append((status.operationState, status.hasResultSet, status.errorMessage))
    cursor.close()
    return [repr(each).partition("infoMessages")[0] if "statusCode=3" in repr(each) else each for each in told]


def test_the_same_bytes_as_sparks(view: Database, engine: Engine) -> None:
    query = f"SELECT * FROM {view.name}.v WHERE id < 30 ORDER BY id"
    with pyhive(engine.host, engine.port) as cursor:
        direct = raw(cursor, query)
    with pyhive(view.gateway.host, view.gateway.port) as cursor:
        first = raw(cursor, query)
        again = raw(cursor, query)
        assert any(line.startswith("Answered from memory") for line in log_of(cursor, query))
    assert first == direct
    assert again == direct


def test_by_jdbc_and_over_http(view: Database) -> None:
    columns = "id, name, x, d, even, day, CAST(both AS STRING) AS both"
    query, gateway = f"SELECT {columns} FROM {view.name}.v ORDER BY id", view.gateway
    urls = (
        f"jdbc:hive2://{gateway.host}:{gateway.port}/default",
        f"jdbc:hive2://{gateway.host}:{gateway.http_port}/default;transportMode=http;httpPath=cliservice",
    )
    answers = []
    for url in urls:
        with Jdbc(url) as connection:
            answers += [connection.query(query) for _ in range(2)]
    assert len(answers[0][1]) == 40
    assert all(answer == answers[0] for answer in answers)
    with impyla(gateway.http_port, use_http_transport=True, http_path="cliservice") as cursor:
        found = []
        for _ in range(2):
            cursor.execute(query)
            found.append(cursor.fetchall())
    assert len(found[0]) == 40
    assert found[0] == found[1]


def from_rows(cursor: Any, sql: str) -> bool:
    """Whether the rows of views in memory answer a query."""
    return any("Answered from rows in memory" in line for line in log_of(cursor, sql))


def test_the_same_bytes_from_rows_in_memory(view: Database, engine: Engine) -> None:
    """However they are fetched, for other literals than those of the query that was learned, and for the rows of each
    version only, in a time zone whose clocks are changed meanwhile."""
    columns = "id, name, x, d, even, day, at"
    query = f"SELECT {columns} FROM {view.name}.small WHERE id < {{}} ORDER BY id"
    groups = f"SELECT even, count(*) AS n, max(day) FROM {view.name}.small WHERE id > {{}} GROUP BY even ORDER BY 1"
    hours = f"SELECT date_trunc('HOUR', at), max(hour(at)) FROM {view.name}.small WHERE id < {{}} GROUP BY 1 ORDER BY 1"
    zone = "SET TIME ZONE 'Australia/Lord_Howe'"
    view.run(zone, f"CREATE MATERIALIZED VIEW small IN MEMORY AS SELECT {columns} FROM t")
    state = f"SELECT memory FROM freshgate.materialized_views WHERE database_name = '{view.name}' AND name = 'small'"
    wait_until(lambda: view.rows(state) == [("LOADED",)], 60, "the rows to be in memory")
    host, port = view.gateway.host, view.gateway.port
    number = itertools.count(40)
    with pyhive(host, port) as cursor, pyhive(engine.host, engine.port) as direct:
        rows(cursor, "SET freshgate.result_cache = off")
        for each in (cursor, direct):
            rows(each, zone)
        for text in (query, groups, hours):
            wait_until(lambda: from_rows(cursor, text.format(next(number))), 60, "the shape to be learned")  # noqa: B023
            for literal in (10, 27, 33):
                assert from_rows(cursor, text.format(literal))
                assert raw(cursor, text.format(literal)) == raw(direct, text.format(literal))
        rows(cursor, "SET freshgate.memory = off")
        assert not from_rows(cursor, query.format(15))
        rows(cursor, "SET freshgate.memory = on")
        view.run("INSERT INTO t (id, name) VALUES (-1, 'new')")
        assert rows(cursor, query.format(10)) == rows(direct, query.format(10))
        assert len(rows(cursor, query.format(10))) == 11


def test_what_ends_an_answer(view: Database) -> None:
    query = f"SELECT count(*), sum(id), max(name) FROM {view.name}.v"
    cursor = view.cursor
    for write in ("INSERT INTO t (id, name) VALUES (100, 'zz')", "TRUNCATE TABLE t"):
        rows(cursor, query)
        assert rows(cursor, query) == rows(cursor, query)
        view.run(write)
        with pyhive(view.gateway.host, view.gateway.port) as other:
            rows(other, "SET freshgate.result_cache = off")
            assert rows(cursor, query) == rows(other, query) == rows(other, query.replace(".v", ".t"))
    view.run("DROP MATERIALIZED VIEW v", "CREATE MATERIALIZED VIEW v AS SELECT id + 1 AS id, name FROM t")
    assert rows(cursor, query) == rows(cursor, query.replace("id", "id + 1").replace(".v", ".t"))


def test_what_is_not_answered_from_memory(view: Database) -> None:
    with pyhive(view.gateway.host, view.gateway.port) as cursor:

        def known(sql: str) -> bool:
            for _ in range(2):
                said = log_of(cursor, sql)
            return any(line.startswith("Answered from memory") for line in said)

        v = f"{view.name}.v"
        assert known(f"SELECT max(id) FROM {v}")
        for changing in ("rand()", "current_timestamp()", "now()", "uuid()", "current_user()", "user", "current_date"):
            assert not known(f"SELECT max(id), {changing} FROM {v}"), changing
        assert not known(f"SELECT max(v.id) FROM {v} JOIN {view.name}.t ON v.id = t.id")
        assert not known("SELECT 1")
        assert not known(f"SELECT min(id), CAST(concat('to', 'day') AS DATE) FROM {v}")
        # Another setting may mean another answer; the same one again does not.
        assert known(f"SELECT min(id) FROM {v}")
        rows(cursor, "SET spark.sql.session.timeZone = Asia/Tokyo")
        log_of(cursor, f"SELECT min(id) FROM {v}")
        assert known(f"SELECT min(id) FROM {v}")
        rows(cursor, "SET freshgate.result_cache = off")
        assert not known(f"SELECT min(id) FROM {v}")
        rows(cursor, "SET freshgate.result_cache = on")
        assert known(f"SELECT max(day) FROM {v}")
        rows(cursor, "DECLARE VARIABLE own DOUBLE DEFAULT rand()")
        assert not known(f"SELECT max(day), own FROM {v}")
        rows(cursor, f"USE {view.name}")
        rows(cursor, "CREATE TEMPORARY VIEW v AS SELECT -1 AS id")
        assert rows(cursor, "SELECT min(id) FROM v") == [(-1,)]
        assert not known("SELECT min(id) FROM v")


def test_users_do_not_share(view: Database) -> None:
    query = f"SELECT sum(id) FROM {view.name}.v"
    for user in ("ada", "bob"):
        with pyhive(view.gateway.host, view.gateway.port, user=user) as cursor:
            assert not any(line.startswith("Answered from memory") for line in log_of(cursor, query))
            assert any(line.startswith("Answered from memory") for line in log_of(cursor, query))


def test_equal_reads_at_once_run_once(view: Database, engine: Engine) -> None:
    sql = f"SELECT count(*) FROM {view.name}.v a, {view.name}.v b, {view.name}.v c"
    barrier, answers = threading.Barrier(6), list[Any]()

    def read() -> None:
        with pyhive(view.gateway.host, view.gateway.port) as cursor:
            barrier.wait()
            answers.append((rows(cursor, sql), [str(line) for line in cursor.fetch_logs()]))

    threads = [threading.Thread(target=read) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {str(found) for found, _ in answers} == {"[(64000,)]"}
    assert sum(any(line.startswith("Answered from memory") for line in said) for _, said in answers) == 5
