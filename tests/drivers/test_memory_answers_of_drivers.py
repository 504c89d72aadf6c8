"""Answers from rows in memory are the answers of Spark: in each driver, over each transport, byte by byte."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from clients import beeline, impyla, pyhive, rows
from drivers.contents import COLUMNS, DATABASE, Server
from drivers.hive_jdbc import OF_SUITE, VERSIONS, connected, everything, texts
from drivers.test_cached_answers import V10, OverHttp, alike, exchange, moves
from processes import Engine, wait_until
from raw_session import RawSession, decoded
from seen_gateway import Seen, start
from TCLIService import ttypes
from tiers import EVERYTHING, sampled

KINDS = ("yes", "tiny", "small", "whole", "big", "wide", "exact", "words", "short_words", "day", "wall_clock")
"""The columns of `every_type` that are in memory and can be shown in a session of any time zone."""
ALL = f"SELECT id, {', '.join(KINDS)} FROM {{database}}.typed WHERE id < {{id}} ORDER BY id"
MANY = (
    "SELECT n, words, CAST(n AS DECIMAL(12,3)) AS exact, n * 0.125D AS part FROM {database}.many "
    "WHERE n < {id} ORDER BY n"
)
GROUPS = (
    "SELECT n % 7 AS k, count(*) AS number, sum(n) AS total, avg(n) AS mean, max(words) AS most FROM {database}.many "
    "WHERE n < {id} GROUP BY n % 7 ORDER BY k"
)
QUERIES = {"types": (ALL, 4), "many": (MANY, 2_400), "groups": (GROUPS, 1_234), "none": (MANY, -1)}
VIEWS = {
    "typed": f"SELECT id, {', '.join(KINDS)} FROM {DATABASE}.every_type",
    "many": "SELECT n, words FROM held.numbers",
}


def said(name: str, literal: int | None = None) -> str:
    query, usual = QUERIES[name]
    return query.format(database="held", id=usual if literal is None else literal)


@pytest.fixture(scope="module")
def held(engine: Engine, direct: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    """A gateway of its own that keeps no results, with views in memory, of whose queries the shapes are learned."""
    upstream = f"{engine.host}:{engine.port}"
    settings: dict[str, Any] = {"storage.database": "held_storage", "listen.http_port": 0, "result_cache.bytes": 0}
    seen = start(tmp_path_factory.mktemp("held"), upstream, settings=settings)
    with pyhive(seen.gateway.host, seen.gateway.port) as cursor:
        rows(cursor, "CREATE DATABASE held")
        rows(cursor, "CREATE TABLE held.numbers AS SELECT id AS n, CAST(id AS STRING) AS words FROM range(2500)")
        for name, query in VIEWS.items():
            rows(cursor, f"CREATE MATERIALIZED VIEW held.{name} IN MEMORY AS {query}")
        state = "SELECT memory FROM freshgate.materialized_views WHERE database_name = 'held'"
        wait_until(lambda: rows(cursor, state) == [("LOADED",)] * len(VIEWS), 120, "the views to be in memory")
        yield seen
        for name in VIEWS:
            rows(cursor, f"DROP MATERIALIZED VIEW held.{name}")
        rows(cursor, "DROP DATABASE held CASCADE")
    seen.gateway.stop()
    assert not [line for line in seen.lines() if line["event"] == "memory_difference"]


def answers(held: Seen) -> float:
    return held.metric("memory_answers_total")


def answered(held: Seen, read: Callable[[], object]) -> bool:
    """Whether a read is answered from memory."""
    before = answers(held)
    read()
    return answers(held) > before


def learn(held: Seen, session: RawSession, name: str, literal: int | None = None) -> None:
    """Waits until the engine answers queries of this shape in sessions like this one. A literal with other digits has
    another shape."""

    text = said(name, literal)
    wait_until(
        lambda: answered(held, lambda: exchange(session, text, 1000, run_async=True)), 120, f"{name} to be learned"
    )


def opened(held: Seen, transport: str) -> RawSession:
    return RawSession(held.gateway, V10) if transport == "sasl" else OverHttp(held, V10)


@pytest.mark.parametrize(
    ("transport", "name"),
    # Rows in memory become the same replies over each transport.
    sampled(
        [*itertools.product(("sasl", "http"), QUERIES)],
        {*(f"{name}-sasl" for name in QUERIES), "types-http"},
        [f"{name}-{transport}" for transport, name in itertools.product(("sasl", "http"), QUERIES)],
    ),
)
def test_all_replies_are_sparks(held: Seen, engine: Engine, transport: str, name: str) -> None:
    sizes = (1, 7, 1000, 10_000) if name != "many" else (97, 1000, 10_000)
    with RawSession(engine, V10) as spark, opened(held, transport) as session:
        learn(held, session, name)
        before = answers(held)
        for run_async in (True, False):
            for page in sizes:
                found = exchange(session, said(name), page, run_async=run_async)
                assert found == exchange(spark, said(name), page, run_async=run_async), (run_async, page)
        assert answers(held) == before + 2 * len(sizes)


@pytest.mark.parametrize("transport", ["sasl", "http"])
def test_a_client_that_does_anything_sees_what_spark_would_do(held: Seen, engine: Engine, transport: str) -> None:
    with opened(held, transport) as session, RawSession(engine, V10) as spark:
        learn(held, session, "many", 20)
        before, seeds = answers(held), range(300 if EVERYTHING else 25)
        for seed in seeds:
            text = said("many", 20 + seed)
            assert moves(session, text, seed) == moves(spark, text, seed), seed
        assert answers(held) == before + len(seeds)


def test_several_operations_of_a_session_at_once(held: Seen, engine: Engine) -> None:
    """Their pages are fetched in turn."""
    choice = random.Random(5)
    with RawSession(held.gateway, V10) as session, RawSession(engine, V10) as spark:
        learn(held, session, "many", 100)
        before, literals = answers(held), range(100, 112)
        running = [session.execute(said("many", literal), run_async=True) for literal in literals]
        pages: dict[int, list[bytes]] = {literal: [] for literal in literals}
        for literal, operation in zip(literals, running, strict=True):
            session.wait(operation)
            pages[literal].append(alike(session.metadata(operation), operation))
        while open_ones := [place for place, literal in enumerate(literals) if len(pages[literal]) < 6]:
            place = choice.choice(open_ones)
            pages[literals[place]].append(session.fetch(running[place], 25))
        assert answers(held) == before + len(literals)
        for literal in literals:
            operation = spark.execute(said("many", literal), run_async=True)
            spark.wait(operation)
            expected = [alike(spark.metadata(operation), operation)]
            expected += [spark.fetch(operation, 25) for _ in range(5)]
            assert pages[literal] == expected
            assert sum(len(decoded(page).results.columns[0].i64Val.values) for page in expected[1:]) == literal


def _read(statement: Any, text: str) -> object:
    return everything(statement.executeQuery(text))


@pytest.mark.parametrize("version", sampled(VERSIONS, OF_SUITE))
@pytest.mark.parametrize("over", ["", pytest.param("http", marks=pytest.mark.thorough)])
def test_hive_jdbc_reads_the_same(held: Seen, engine: Engine, version: str, over: str) -> None:
    gateway = held.gateway
    url = f"jdbc:hive2://{gateway.http_address}".replace("/;", "/default;") if over else gateway.url
    with connected(version, url) as connection, connected(version, engine.url) as spark:
        for name in QUERIES:
            for size in (1000, 3):
                found = []
                for each in (spark, connection):
                    with each.createStatement() as statement:
                        statement.setFetchSize(size)
                        if each is connection:
                            read = partial(_read, statement, said(name))
                            wait_until(lambda: answered(held, read), 120, f"{name} to be learned")  # noqa: B023
                            before = answers(held)
                        found.append(
                            (everything(statement.executeQuery(said(name))), texts(statement.executeQuery(said(name))))
                        )
                assert found[0] == found[1]
                assert answers(held) == before + 2


def test_pyhive_impyla_and_beeline_read_the_same(held: Seen, engine: Engine) -> None:
    gateway, over_http = held.gateway, {"scheme": "http", "auth": "BASIC", "password": "x"}
    impyla_over_http: dict[str, Any] = {"use_http_transport": True, "http_path": "cliservice"}
    for name in QUERIES:
        text = said(name)
        with pyhive(engine.host, engine.port) as cursor:
            expected = repr((rows(cursor, text), cursor.description))
        for options in ({}, over_http):
            port = gateway.http_port if options else gateway.port
            with pyhive(gateway.host, port, "tester", **options) as cursor:
                wait_until(lambda: answered(held, lambda: rows(cursor, text)), 120, f"{name} to be learned")  # noqa: B023
                before = answers(held)
                assert repr((rows(cursor, text), cursor.description)) == expected
                assert answers(held) == before + 1
        with impyla(engine.port, "tester") as cursor:
            cursor.execute(text)
            expected = repr(cursor.fetchall())
        for chosen in ({}, impyla_over_http):
            with impyla(gateway.http_port if chosen else gateway.port, "tester", **chosen) as cursor:
                for _ in range(2):
                    cursor.execute(text)
                    assert repr(cursor.fetchall()) == expected
    direct, through = (beeline(url, said("types"), said("groups")) for url in (engine.url, gateway.url))
    assert through.stdout == direct.stdout
    assert "yes" in direct.stdout


def test_the_columns_are_those_of_every_type() -> None:
    """Each type that Spark can return is either tested here, or is not in memory, or not shown in every time zone."""
    others = {"narrow", "padded", "octets", "instant", "months", "seconds", "list", "named", "both"}
    assert set(KINDS) | others == set(COLUMNS)


def test_cancelling_leaves_an_answer_readable_as_at_spark(held: Seen, engine: Engine) -> None:
    with RawSession(held.gateway, V10) as session, RawSession(engine, V10) as spark:
        learn(held, session, "many", 50)
        replies = []
        for each in (session, spark):
            operation = each.execute(said("many", 50), run_async=True)
            each.wait(operation)
            each.call("CancelOperation", ttypes.TCancelOperationReq(operation))
            state = decoded(each.call("GetOperationStatus", ttypes.TGetOperationStatusReq(operation)))
            replies.append((state.operationState, each.fetch(operation, 100)))
        assert replies[0] == replies[1]
