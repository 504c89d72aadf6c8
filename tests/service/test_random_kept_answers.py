"""Random histories with answers in memory: each answer is the one that Spark gives at that time, whatever clients do in
their own sessions, to the tables, to the views and to rights in between."""

from __future__ import annotations

import random
import re
from collections.abc import Hashable
from typing import Any

import pytest
from fake_spark import SparkOperation, SparkSession
from fakes import Client, Site
from TCLIService import ttypes

STEPS = 150
USERS = ("ada", "bob", "Bob")
READS = ("SELECT n FROM mv", "SELECT n FROM s.mv", "SELECT n FROM r.mv", "SELECT n AS m FROM r.mv")
SETTINGS = [f"SET {name} = {value}" for name in ("a", "b") for value in (1, 2)]
IN_A_SESSION = [
    *SETTINGS,
    "RESET",
    "EXECUTE IMMEDIATE 'SET a = 3'",
    "BEGIN SET b = 3; END",
    "USE s",
    "USE r",
    "CREATE OR REPLACE TEMPORARY VIEW mv AS SELECT -1 AS n",
    "DROP VIEW mv",
]
RIGHTS = ["REVOKE SELECT ON s.mv FROM bob", "DROP ROLE readers", "EXECUTE IMMEDIATE 'DROP ROLE ' || 'readers'"]


class Truth:
    """What Spark knows, and what each read gives there."""

    def __init__(self, site: Site) -> None:
        self.settings: dict[bytes, dict[str, str]] = {}
        self.temporary: set[bytes] = set()
        self.rows = {"s": 0, "r": 0}
        """The number of writes to the table t of each database."""
        self.definitions = {"s": 0, "r": 0}
        self.rights = 0
        self._answers: dict[Hashable, int] = {}
        site.spark.value = lambda operation: self.answer(operation.session, operation.text)
        site.spark.on_finish = self.carry_out

    def carry_out(self, operation: SparkOperation) -> None:
        key, text = operation.session.handle.guid, operation.text
        if text in RIGHTS:
            self.rights += 1
        elif found := re.search(r"SET (\w) = (\d)", text):
            self.settings.setdefault(key, {})[found[1]] = found[2]
        elif text == "RESET":
            self.settings.pop(key, None)
        elif text.startswith("CREATE OR REPLACE TEMPORARY"):
            self.temporary.add(key)
        elif text == "DROP VIEW mv":
            self.temporary.discard(key)
        elif found := re.match(r"INSERT INTO (\w)\.t", text):
            self.rows[found[1]] += 1

    def answer(self, session: SparkSession, text: str) -> int:
        key = session.handle.guid
        named = re.search(r"FROM (?:(\w)\.)?mv", text)
        database = (named[1] if named else None) or session.namespace.database
        if named and not named[1] and key in self.temporary:
            read: Hashable = "temporary"
        else:
            read = database, self.rows.get(database), self.definitions.get(database)
        settings = tuple(sorted(self.settings.get(key, {}).items()))
        return self._answers.setdefault((session.user, self.rights, settings, read), len(self._answers))


async def answered(client: Client, text: str) -> list[int]:
    """The rows of a read."""
    read = await client.execute(text)
    assert read.handle is not None, read.error
    await read.poll()
    identifier = ttypes.THandleIdentifier(read.handle.guid, read.handle.secret)
    handle = ttypes.TOperationHandle(identifier, ttypes.TOperationType.EXECUTE_STATEMENT, True)
    fetched: Any = await client.ask("FetchResults", ttypes.TFetchResultsReq(handle, 0, 100))
    await read.close()
    return list(fetched.results.columns[0].i64Val.values)


class History:
    """One random history."""

    def __init__(self, site: Site, seed: int) -> None:
        self.site = site
        self.truth = Truth(site)
        self.clients: list[Client] = []
        self._choose = random.Random(seed)

    async def step(self) -> None:
        act = self._choose.choices(
            [self.read, self.say, self.overlap, self.write, self.change_rights, self.recreate, self.join],
            [60, 12, 3, 5, 2, 2, 4],
        )[0]
        await act()

    async def join(self) -> None:
        client = await self.site.client(self._choose.choice(USERS), {"use:database": self._choose.choice("sr")})
        self.clients = [*self.clients[-7:], client]

    async def read(self) -> None:
        client, text = self._choose.choice(self.clients), self._choose.choice(READS)
        found = await answered(client, text)
        assert found == [self.truth.answer(client.at_spark, text)], (client.user, text)

    async def say(self) -> None:
        said = await self._choose.choice(self.clients).execute(self._choose.choice(IN_A_SESSION))
        if self._choose.random() < 0.8:
            await said.poll()

    async def overlap(self) -> None:
        """Two settings at once, which Spark runs in another order than they came."""
        client, texts = self._choose.choice(self.clients), self._choose.sample(SETTINGS, 2)
        self.site.spark.holds(*texts)
        both = [await client.execute(text) for text in texts]
        self.site.spark.releases()
        for each in self._choose.sample(both, 2):
            each.at_spark.finish()
        for each in both:
            await each.poll()

    async def write(self) -> None:
        said = await self._choose.choice(self.clients).execute(f"INSERT INTO {self._choose.choice('sr')}.t VALUES (1)")
        if self._choose.random() < 0.8:
            await said.poll()

    async def change_rights(self) -> None:
        """Beside a read of another session, which Spark runs before."""
        text, client = self._choose.choice(RIGHTS), self._choose.choice(self.clients)
        self.site.spark.holds(text)
        change = await self._choose.choice(self.clients).execute(text)
        self.site.spark.releases()
        await answered(client, "SELECT n FROM s.mv")
        change.at_spark.finish()
        await change.poll()

    async def recreate(self) -> None:
        database = self._choose.choice("sr")
        entry = self.site.entry(f"{database}.mv")
        async with entry.lock:
            self.site.catalog.remove(entry)
        self.truth.definitions[database] += 1
        await self.site.view(f"{database}.mv", f"SELECT count(*) AS n FROM {database}.t")


@pytest.mark.parametrize("seed", range(3))
async def test_each_answer_is_sparks(seed: int) -> None:
    site = Site(result_bytes=1 << 24)
    site.habits.collects_whole = True
    for database in "sr":
        site.table(f"{database}.t")
        await site.view(f"{database}.mv", f"SELECT count(*) AS n FROM {database}.t")
    history = History(site, seed)
    for _ in range(3):
        await history.join()
    for _ in range(STEPS):
        await history.step()
    assert site.results.counts.hits > 5, "It would test nothing."
