"""Tests that random queries have Spark's answer from the engine.

`FRESHGATE_QUERIES=10000 scripts/test tests/spark/test_memory_queries.py` tests so many queries instead of the few of
the suite; another `FRESHGATE_SEED` chooses other ones.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter

import duckdb
import pytest
from engine_answers import SOURCES, answer, engine_with, plain
from memory_corpus import DATABASE, TABLE
from planning import Planner, planner
from processes import Engine
from random_memory import Maker
from record_memory import prepare
from tiers import EVERYTHING

from gateway.errors import StatementFailed
from gateway.mv.ports import PlanUnavailable
from gateway.service.memory.comparing import difference
from sql.memory.engine_texts import NotListed
from sql.memory.translation import translated

QUERIES = int(os.environ.get("FRESHGATE_QUERIES", "1000" if EVERYTHING else "60"))
SEED = int(os.environ.get("FRESHGATE_SEED", "1"))
QUERY_SECONDS = 10.0
ANSWERED_LEAST = 0.6


def test_random_queries_have_sparks_answers(engine: Engine) -> None:
    async def check() -> None:
        async with asyncio.timeout(60 + QUERIES * QUERY_SECONDS), planner(engine) as working:
            await prepare(working)
            try:
                counts = await answered(working)
            finally:
                await working.session.run(f"DROP DATABASE {DATABASE} CASCADE")
        print(f"seed {SEED}: {dict(counts)}")
        assert counts["equal"] >= ANSWERED_LEAST * QUERIES

    asyncio.run(check())


async def answered(working: Planner) -> Counter[str]:
    counts = Counter[str]()
    rows = (await working.session.run(f"SELECT * FROM {TABLE}")).rows
    with engine_with(rows) as connection:
        for number in range(QUERIES):
            query = Maker(SEED * 1_000_003 + number).query()
            counts[await outcome(working, connection, query)] += 1
    return counts


async def outcome(working: Planner, connection: duckdb.DuckDBPyConnection, query: str) -> str:
    """What becomes of a query: `equal`, or why Spark answers it. Fails if the engine's answer is not Spark's."""
    try:
        found = translated(await working.plan(query), SOURCES)
        rows = answer(connection, found, plain(found))
    except (NotListed, PlanUnavailable):
        return "not listed"
    except duckdb.Error:
        return "failed"
    try:
        wanted = (await working.session.run(query)).rows
    except StatementFailed:
        # Which rows Spark computes first, and so whether it fails, is open.
        return "failed at Spark"
    if (problem := difference(found, rows, wanted)) is not None:
        pytest.fail(f"{problem}: {query}")
    return "equal"
