"""Pairs in the manner of other projects' tests of rewriting: what is proved has the same rows, on random rows.

`FRESHGATE_SEED` chooses other rows.
"""

from __future__ import annotations

import asyncio
import os
import random

import pytest
from pair_corpora import CORPORA, Corpus, Outcome, corpus, create, described, outcomes, random_rows, told
from planning import Planner, planner
from processes import Engine
from record_pairs import RecordingPlans

from sql.rewriting.shape import shape_of

pytestmark = pytest.mark.thorough
SEED = int(os.environ.get("FRESHGATE_SEED", "1"))
FILLINGS = 2


@pytest.mark.parametrize("name", CORPORA)
def test_what_is_proved_has_the_same_rows(engine: Engine, name: str) -> None:
    async def in_session() -> None:
        async with asyncio.timeout(1_800), planner(engine) as working:
            await check(working, name)

    asyncio.run(in_session())


async def check(working: Planner, name: str) -> None:
    its = corpus(name)
    await create(its, working.session.run)
    try:
        columns = await described(its, working.session.run)
        found = await outcomes(its, columns, RecordingPlans({}, working.written))
        print(*told(its, found), sep="\n")
        chance = random.Random(SEED)
        for _ in range(FILLINGS):
            await _fill(working, its, chance)
            differing = [line for each in found for line in await _differences(working, each)]
            assert not differing, "\n".join(differing)
    finally:
        await working.session.run(f"DROP DATABASE {its.database} CASCADE")


async def _fill(working: Planner, its: Corpus, chance: random.Random) -> None:
    """Random rows in the tables, and the views' rows in tables of their own."""
    for table, rows in random_rows(its, chance).items():
        values = ", ".join(f"({', '.join(row)})" for row in rows)
        await working.session.run(f"INSERT OVERWRITE {table} VALUES {values}")
    for name in its.views:
        await working.session.run(f"DROP TABLE IF EXISTS stored_{name}")
        await working.session.run(f"CREATE TABLE stored_{name} USING parquet AS SELECT * FROM {name}")


async def _differences(working: Planner, outcome: Outcome) -> list[str]:
    found = []
    for proposal in outcome.proposals:
        left = outcome.question.text
        right = proposal.template.over(*(f"stored_{view.table}" for view in proposal.views)).fill(
            shape_of(left).literals
        )
        # Spark itself returns rows for the union of both differences where these have windows.
        for one, other in ((left, right), (right, left)):
            if rows := (await working.session.run(f"({one}) EXCEPT ALL ({other})")).rows:
                found.append(f"{one}\n  {other}\n  {rows[:3]}")
    return found
