"""Tests the proofs with random queries, rewritings and wrong rewritings, and their rows.

`FRESHGATE_PAIRS=100000 scripts/test tests/spark/test_random_proofs.py` tests so many pairs instead of the few of the
suite; another `FRESHGATE_SEED` chooses other ones.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from itertools import islice

from planning import Planner, planner, renumbered
from processes import Engine
from random_pairs import TABLES, Trial, View, careless_trial, random_trial, random_view, rows
from tiers import EVERYTHING

from gateway.mv.ports import PlanUnavailable
from gateway.spark.plan_texts import TextPlans
from gateway.spark.row_list import RowList
from sql.proof.checker import NotProved, Proved, can_be_stored, prove
from sql.proof.plan import Plan

PAIRS = int(os.environ.get("FRESHGATE_PAIRS", "300" if EVERYTHING else "40"))
SEED = int(os.environ.get("FRESHGATE_SEED", "1"))
TRIALS_OF_A_VIEW = 8
PAIR_SECONDS = 10.0
PROVED_LEAST = 0.95
PROVED_BY_TEXT_LEAST = 0.5


def test_what_is_proved_is_equal_and_nothing_wrong_is_proved(engine: Engine) -> None:
    async def check() -> None:
        async with asyncio.timeout(60 + PAIRS * PAIR_SECONDS), planner(engine) as working:
            counts = await Proving(working).run()
        print(f"seed {SEED}: {dict(counts)}")
        assert counts["proved"] >= PROVED_LEAST * counts["right"]

    asyncio.run(check())


def test_texts_of_plans_are_read_as_the_exact_plans(engine: Engine) -> None:
    """All texts are tried, right and wrong ones. Not all are read, so fewer pairs are proved."""

    async def check() -> None:
        pairs = max(PAIRS // 3, 20)
        async with asyncio.timeout(60 + pairs * PAIR_SECONDS), planner(engine) as working, planner(engine) as other:
            await other.session.run("SET TIME ZONE 'UTC'")
            texts = TextPlans()
            async with texts.of(other.session) as name:

                async def plan(text: str) -> Plan:
                    exact = await working.plan(text)
                    if not namespace:
                        namespace.append(await other.session.run("USE random_pairs"))
                    read = await texts.optimized(name, text)
                    assert renumbered(read) == renumbered(exact), text
                    return read

                namespace: list[RowList] = []
                counts = await Proving(working, plan, pairs).run()
        print(f"seed {SEED}: {dict(counts)}")
        assert counts["proved"] >= PROVED_BY_TEXT_LEAST * counts["right"]

    asyncio.run(check())


class Proving:
    def __init__(
        self, working: Planner, plan: Callable[[str], Awaitable[Plan]] | None = None, pairs: int = PAIRS
    ) -> None:
        self._working = working
        self._plan = plan or working.plan
        self._pairs = pairs
        self._random = random.Random(SEED)
        self._counts: Counter[str] = Counter()

    async def run(self) -> Counter[str]:
        execute = self._working.session.run
        await execute("CREATE DATABASE random_pairs")
        try:
            for statement in ("USE random_pairs", "SET TIME ZONE 'UTC'", *TABLES.values()):
                await execute(statement)
            while self._counts["pairs"] < self._pairs:
                await self._view(random_view(self._random))
        finally:
            await execute("DROP DATABASE random_pairs CASCADE")
        return self._counts

    async def _view(self, view: View) -> None:
        """Tests some queries with a view's definition `defined`, and its stored rows `stored`."""
        execute = self._working.session.run
        for table, values in rows(self._random).items():
            await execute(f"INSERT OVERWRITE {table} VALUES {', '.join(values)}")
        await execute(f"CREATE OR REPLACE VIEW defined AS {view.sql}")
        await execute("DROP TABLE IF EXISTS stored")
        await execute("CREATE TABLE stored USING parquet AS SELECT * FROM defined")
        assert can_be_stored(await self._working.plan("SELECT * FROM defined")) == Proved()
        for trial in islice(self._trials(view), TRIALS_OF_A_VIEW):
            await self._trial(view, trial)

    def _trials(self, view: View) -> Iterator[Trial]:
        yield careless_trial(self._random, view)
        while True:
            yield random_trial(self._random, view)

    async def _trial(self, view: View, trial: Trial) -> None:
        try:
            query = await self._plan(trial.query)
        except PlanUnavailable as error:
            print(f"no plan: {error}\n  {trial.query}")
            self._counts["right"] += bool(trial.right)
            self._counts["pairs"] += 1
            return
        for wrong in trial.wrong:
            self._counts["pairs"] += 1
            self._counts[f"wrong: {wrong.what}"] += 1
            try:
                plan = await self._plan(wrong.sql.format(view="defined"))
            except PlanUnavailable:
                self._counts["refused by Spark"] += 1
                continue
            assert prove(query, plan) != Proved(), f"{wrong.what}:\n{trial.query}\n{wrong.sql}\n{view.sql}"
        if not trial.right:
            return
        self._counts["pairs"] += 1
        self._counts["right"] += 1
        try:
            result = prove(query, await self._plan(trial.right.format(view="defined")))
        except PlanUnavailable as error:
            result = NotProved(str(error))
        if result != Proved():
            print(f"not proved: {result}\n  {trial.query}\n  {trial.right}\n  {view.sql}")
            return
        self._counts["proved"] += 1
        left, right = trial.query, trial.right.format(view="stored")
        differing = f"({left} EXCEPT ALL {right}) UNION ALL ({right} EXCEPT ALL {left})"
        assert (await self._working.session.run(differing)).rows == [], f"{left}\n{right}\n{view.sql}"
