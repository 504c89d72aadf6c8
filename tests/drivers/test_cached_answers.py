"""Answers from memory are the answers of Spark: in each driver, over each transport, byte by byte."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
from clients import beeline, impyla, pyhive, rows
from drivers.contents import COLUMNS, DATABASE, Server
from drivers.hive_jdbc import OF_SUITE, VERSIONS, connected, everything
from http_caller import Caller
from processes import Engine
from raw_session import FIRST, NEXT, PRIOR, RawSession, decoded
from seen_gateway import Seen, start
from TCLIService import ttypes
from tiers import EVERYTHING, sampled

from gateway.wire import message

KINDS = [name for name in COLUMNS if "INTERVAL" not in COLUMNS[name]]
EVERY_TYPE = f"SELECT id, {', '.join(KINDS)} FROM {DATABASE}.every_type"
ALL = "SELECT * FROM kept.every ORDER BY id"
PAGES = "SELECT n, words, IF(n % 3 = 0, NULL, n / 7) AS share, hex(n % 5) AS few FROM kept.many WHERE n < 60 ORDER BY n"
LONG = "SELECT n, words FROM kept.many ORDER BY n"
V10 = 9


@pytest.fixture(scope="module")
def kept(engine: Engine, direct: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    """A gateway of its own, because its metrics count; with a view of each type, and a view with some pages."""
    upstream = f"{engine.host}:{engine.port}"
    settings: dict[str, Any] = {"storage.database": "kept_storage", "listen.http_port": 0}
    seen = start(tmp_path_factory.mktemp("kept"), upstream, settings=settings)
    with pyhive(seen.gateway.host, seen.gateway.port) as cursor:
        rows(cursor, "CREATE DATABASE kept")
        rows(cursor, f"CREATE MATERIALIZED VIEW kept.every AS {EVERY_TYPE}")
        rows(
            cursor,
            "CREATE TABLE kept.numbers USING parquet AS SELECT id AS n, CAST(id AS STRING) AS words FROM range(2500)",
        )
        rows(cursor, "CREATE MATERIALIZED VIEW kept.many AS SELECT n, words FROM kept.numbers")
        yield seen
        for view in ("every", "many"):
            rows(cursor, f"DROP MATERIALIZED VIEW kept.{view}")
        rows(cursor, "DROP DATABASE kept CASCADE")
    seen.gateway.stop()


class OverHttp(RawSession):
    """A session over HTTP."""

    def __init__(self, seen: Seen, protocol: int) -> None:
        self.caller = Caller(seen.gateway.http_port, "tester")
        self.handle = self.open(protocol)

    def exchange(self, message: bytes) -> bytes:
        status, body = self.caller.post(message)
        assert status == 200, body
        return body

    def close(self) -> None:
        self.call("CloseSession", ttypes.TCloseSessionReq(self.handle))
        self.caller.connection.close()


def alike(reply: bytes, operation: Any) -> bytes:
    """The reply without the operation's handle."""
    identifier = operation.operationId
    return reply.replace(identifier.guid, b"GUID").replace(identifier.secret, b"SECRET")


def exchange(session: RawSession, sql: str, page: int, *, run_async: bool) -> list[bytes]:
    """All replies about a query whose client reads everything, without the handle."""
    started = session.list("ExecuteStatement", sql, {}, run_async, None)
    operation = decoded(started).operationHandle
    while run_async and session.wait(operation) != 2:
        pass
    replies = [started, session.call("GetOperationStatus", ttypes.TGetOperationStatusReq(operation, True))]
    replies.append(session.metadata(operation))
    while True:
        replies.append(session.fetch(operation, page))
        if (
            len(replies) > 4
            and decoded(replies[-1]).results.startRowOffset == decoded(replies[-2]).results.startRowOffset
        ):
            break
    for name in ("Cancel", "Close"):
        request = getattr(ttypes, f"T{name}OperationReq")(operation)
        replies.append(session.call(f"{name}Operation", request))
    return [alike(reply, operation) for reply in replies]


@pytest.mark.parametrize("transport", ["sasl", "http"])
@pytest.mark.parametrize("run_async", [True, False])
@pytest.mark.parametrize("query", [ALL, PAGES, LONG, "SELECT n FROM kept.many WHERE n < 0"])
def test_the_first_answer_and_its_replay_are_sparks(
    kept: Seen, engine: Engine, transport: str, run_async: bool, query: str
) -> None:
    with RawSession(engine, V10) as spark:
        expected = {page: exchange(spark, query, page, run_async=run_async) for page in (7, 1000, 10_000)}
    session = RawSession(kept.gateway, V10) if transport == "sasl" else OverHttp(kept, V10)
    with session:
        rows_of_another = exchange(session, f"{query} -- {transport} {run_async}", 1000, run_async=run_async)
        assert rows_of_another[2:] == expected[1000][2:]
        hits = kept.metric("result_cache_hits_total")
        for page, replies in expected.items():
            assert exchange(session, f"{query} -- {transport} {run_async}", page, run_async=run_async) == replies
        assert kept.metric("result_cache_hits_total") == hits + 3


# --- a client that does anything ---------------------------------------------------------------------------


def move(session: RawSession, operation: Any, choice: random.Random) -> tuple[Any, ...]:
    """A random request about an operation, and what the reply says."""
    name = choice.choices(["fetch", "status", "metadata", "cancel", "close"], [20, 4, 3, 1, 1])[0]
    if name == "fetch":
        orientation = choice.choice([NEXT, NEXT, NEXT, PRIOR, FIRST, 2, 3, 5])
        size = choice.choice([0, 1, 2, 3, 5, 7, 20, 60, 100, 1000, -1, -5, 2**31, 2**32 + 2])
        reply = session.fetch(operation, size, orientation)
    elif name == "status":
        request = ttypes.TGetOperationStatusReq(operation, choice.random() < 0.5)
        reply = session.call("GetOperationStatus", request)
    elif name == "metadata":
        reply = session.metadata(operation)
    else:
        request = getattr(ttypes, f"T{name.capitalize()}OperationReq")(operation)
        reply = session.call(f"{name.capitalize()}Operation", request)
    status = message.reply_status(reply)
    if status.code == 0:
        return name, reply
    invalid = (status.message or "").startswith("Invalid OperationHandle")
    return name, status.code, "invalid" if invalid else (status.sqlstate, status.message)


def moves(session: RawSession, sql: str, seed: int) -> list[tuple[Any, ...]]:
    choice = random.Random(seed)
    operation = session.execute(sql, run_async=choice.random() < 0.5)
    session.wait(operation)
    return [move(session, operation, choice) for _ in range(choice.randrange(1, 25))]


@pytest.mark.parametrize("transport", ["sasl", "http"])
def test_a_client_that_does_anything_sees_what_spark_would_do(kept: Seen, engine: Engine, transport: str) -> None:
    session = RawSession(kept.gateway, V10) if transport == "sasl" else OverHttp(kept, V10)
    with session, RawSession(engine, V10) as spark:
        exchange(session, PAGES, 11, run_async=True)
        hits = kept.metric("result_cache_hits_total")
        seeds = range(400 if EVERYTHING else 60)
        for seed in seeds:
            assert moves(session, PAGES, seed) == moves(spark, PAGES, seed), seed
        assert kept.metric("result_cache_hits_total") == hits + len(seeds)


def test_half_read_results_are_not_given_to_others(kept: Seen, engine: Engine) -> None:
    """The first clients read, move and close as they like; then one reads everything."""
    with RawSession(kept.gateway, V10) as session, RawSession(engine, V10) as spark:
        expected = exchange(spark, PAGES, 9, run_async=True)
        for seed in range(100, 130):
            sql = f"{PAGES} -- {seed}"
            moves(session, sql, seed)
            assert exchange(session, sql, 9, run_async=True) == expected, seed
            assert exchange(session, sql, 9, run_async=True) == expected, seed


# --- drivers -------------------------------------------------------------------------------------------------


def hits_of(kept: Seen) -> float:
    return kept.metric("result_cache_hits_total")


@pytest.mark.parametrize("version", sampled(VERSIONS, OF_SUITE))
@pytest.mark.parametrize("over", ["", "http"])
def test_hive_jdbc_reads_the_same(kept: Seen, version: str, over: str) -> None:
    gateway = kept.gateway
    url = f"jdbc:hive2://{gateway.http_address}".replace("/;", "/default;") if over else gateway.url
    with connected(version, url) as connection:
        for query in (ALL, LONG):
            found = []
            for size in (1000, 1000, 300):
                with connection.createStatement() as statement:
                    statement.setFetchSize(size)
                    found.append(everything(statement.executeQuery(f"{query} -- {version} {over}")))
            assert found[0] == found[1] == found[2]
            assert len(found[0][1]) == (2500 if query == LONG else 4)
    hits = hits_of(kept)
    with connected(version, url) as connection, connection.createStatement() as statement:
        assert everything(statement.executeQuery(f"{ALL} -- {version} {over}"))[1]
    assert hits_of(kept) == hits + 1


def test_pyhive_and_impyla_read_the_same(kept: Seen) -> None:
    gateway = kept.gateway
    over_http = {"scheme": "http", "auth": "BASIC", "password": "x"}
    for sql in (ALL, LONG):
        found = []
        for _ in range(2):
            with pyhive(gateway.host, gateway.port) as cursor:
                found.append(repr((rows(cursor, sql), cursor.description)))
            with pyhive("127.0.0.1", gateway.http_port, "tester", **over_http) as cursor:
                found.append(repr((rows(cursor, sql), cursor.description)))
        assert found[1:] == found[:-1]
    hits = hits_of(kept)
    for _ in range(2):
        with impyla(gateway.port, "tester") as cursor:
            cursor.execute(LONG)
            assert len(cursor.fetchall()) == 2500
    assert hits_of(kept) > hits


def test_beeline_says_that_an_answer_came_from_memory(kept: Seen) -> None:
    first, second = (beeline(kept.gateway.url, f"{ALL} LIMIT 99") for _ in range(2))
    assert first.stdout == second.stdout
    assert "Answered from memory" in second.stderr
    assert "Answered from memory" not in first.stderr
    assert [line["taken_for"] for line in kept.lines() if "LIMIT 99" in line.get("text", "")] == ["read", "cached"]


def test_a_write_ends_the_answers(kept: Seen) -> None:
    sql = "SELECT count(*) FROM kept.many"
    with pyhive(kept.gateway.host, kept.gateway.port) as cursor:
        assert [rows(cursor, sql) for _ in range(2)] == [[(2500,)], [(2500,)]]
        rows(cursor, "INSERT INTO kept.numbers VALUES (2500, 'x')")
        assert [rows(cursor, sql) for _ in range(2)] == [[(2501,)], [(2501,)]]
