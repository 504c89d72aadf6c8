"""A net: what statements put together is told or refused. The fake Spark evaluates as `composing` models it."""

from __future__ import annotations

import os
from itertools import islice
from typing import Any

import composing
import pytest
from composed_targets import COMMANDS, READS, UNREAD_COMMANDS, Attempt, Attempts, literal
from fake_spark import Answer
from fakes import Client, Site

from gateway.errors import StatementFailed

NUMBER = int(os.environ.get("FRESHGATE_ATTEMPTS", "300"))
SEED = int(os.environ.get("FRESHGATE_SEED", "1"))
SEEDS = range(SEED, SEED + 4)
REFUSED = "42809"


class Stage:
    """ada's view s.mv over s.t. All attempts run in sessions of their own, with the variables of the attempt."""

    def __init__(self) -> None:
        self.site = Site()
        self.attempt = Attempt("")
        self.error: object = None
        answers = self.site.spark.answers
        answers.say(r"^SELECT \(", self._evaluated)
        answers.say(r"^SET `", self._setting)

    async def open(self) -> None:
        for table in ("s.t", "s.x", "s.other"):
            self.site.table(table)
        self.view = await self.site.view("s.mv", "SELECT count(*) n FROM s.t")

    def _evaluated(self, text: str) -> Answer:
        try:
            return Answer([composing.values(text, self.attempt.variables)])
        except composing.Unknown as unknown:
            raise StatementFailed(f"Unknown: {unknown}", sqlstate="42703") from unknown

    def _setting(self, text: str) -> Answer:
        name = text[5:-1]
        return Answer([(name, self.attempt.settings.get(name, "<undefined>"))])

    async def run(self, attempt: Attempt) -> tuple[Any, list[str]]:
        """The SQLSTATE, and what was sent to Spark."""
        self.attempt = attempt
        client: Client = await self.site.client("mallory", {"use:database": attempt.namespace or "default"})
        before = len(self.site.spark.texts)
        done = await client.execute(attempt.text)
        await client.leave()
        self.error = done.error
        return done.sqlstate, self.site.spark.texts[before:]


@pytest.mark.parametrize("seed", SEEDS)
async def test_nothing_reaches_the_storage_database(seed: int) -> None:
    stage = Stage()
    await stage.open()
    commands = [*COMMANDS, *UNREAD_COMMANDS]
    for attempt in islice(Attempts(seed, "storage", stage.view.storage.table, commands), NUMBER):
        state, sent = await stage.run(attempt)
        assert (state, sent) == (REFUSED, []), attempt


@pytest.mark.parametrize("seed", SEEDS)
async def test_other_tables_are_reached(seed: int) -> None:
    stage = Stage()
    await stage.open()
    for attempt in islice(Attempts(seed, "s", "other"), NUMBER):
        state, sent = await stage.run(attempt)
        assert len(sent) == (state is None), attempt
        if attempt.told:
            assert state is None, (attempt, stage.error)
        else:
            assert state in (None, REFUSED), attempt


async def test_what_cannot_be_told_is_left_to_sparks_guard() -> None:
    stage = Stage()
    await stage.open()
    stage.site.router._gatekeeper._guarded = lambda: True
    text = "BEGIN FOR r AS SELECT 's.x' AS x DO EXECUTE IMMEDIATE 'DROP TABLE ' || r.x; END FOR; END"
    assert await stage.run(Attempt(text)) == (None, [text])
    told = Attempt("DROP TABLE IDENTIFIER('storage.' || 'x')")
    assert await stage.run(told) == (REFUSED, [])


@pytest.mark.parametrize("text", READS)
async def test_what_only_reads_or_names_its_targets_runs(text: str) -> None:
    stage = Stage()
    await stage.open()
    for name in ("'s.' || 'x'", f"{literal('s')} || '.x'", "v"):
        attempt = Attempt(text.format(name, "s.x"), variables={"v": "s.x"})
        state, sent = await stage.run(attempt)
        assert state is None, attempt
        assert len(sent) == 1, attempt
