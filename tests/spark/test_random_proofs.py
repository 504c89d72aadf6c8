"""Tests the proofs with random queries, rewritings and wrong rewritings, and their rows.

`FRESHGATE_PAIRS=100000 scripts/test tests/spark/test_random_proofs.py` tests so many pairs; another `FRESHGATE_SEED`
chooses other ones.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter
from collections.abc import Iterator
from itertools import islice

from planning import Planner, planner
from processes import Engine
from random_pairs import TABLES, Trial, View, careless_trial, random_trial, random_view, rows

from gateway.mv.ports import PlanUnavailable
from sql.proof.checker import Proved, can_be_stored, prove

PAIRS = int(os.environ.get("FRESHGATE_PAIRS", "300"))
SEED = int(os.environ.get("FRESHGATE_SEED", "1"))
TRIALS_OF_A_VIEW = 8
PAIR_SECONDS = 10.0
PROVED_LEAST = 0.95


def test_what_is_proved_is_equal_and_nothing_wrong_is_proved(engine: Engine) -> None:
    async def check() -> None:
        async with asyncio.timeout(60 + PAIRS * PAIR_SECONDS), planner(engine) as working:
            counts = await Proving(working).run()
        print(f"seed {SEED}: {dict(counts)}")
        assert counts["proved"] >= PROVED_LEAST * counts["right"]

    asyncio.run(check())


class Proving:
    def __init__(self, working: Planner) -> None:
        self._working = working
        self._random = random.Random(SEED)
        self._counts: Counter[str] = Counter()

    async def run(self) -> Counter[str]:
        execute = self._working.session.run
        await execute("CREATE DATABASE random_pairs")
        try:
            for statement in ("USE random_pairs", "SET TIME ZONE 'UTC'", *TABLES.values()):
                await execute(statement)
            while self._counts["pairs"] < PAIRS:
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
        query = await self._working.plan(trial.query)
        for wrong in trial.wrong:
            self._counts["pairs"] += 1
            self._counts[f"wrong: {wrong.what}"] += 1
            try:
                plan = await self._working.plan(wrong.sql.format(view="defined"))
            except PlanUnavailable:
                self._counts["refused by Spark"] += 1
                continue
            assert prove(query, plan) != Proved(), f"{wrong.what}:\n{trial.query}\n{wrong.sql}\n{view.sql}"
        if not trial.right:
            return
        self._counts["pairs"] += 1
        self._counts["right"] += 1
        result = prove(query, await self._working.plan(trial.right.format(view="defined")))
        if result != Proved():
            print(f"not proved: {result}\n  {trial.query}\n  {trial.right}\n  {view.sql}")
            return
        self._counts["proved"] += 1
        left, right = trial.query, trial.right.format(view="stored")
        differing = f"({left} EXCEPT ALL {right}) UNION ALL ({right} EXCEPT ALL {left})"
        assert (await self._working.session.run(differing)).rows == [], f"{left}\n{right}\n{view.sql}"
