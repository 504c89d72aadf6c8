"""Tests of how Spark is asked for the rules of time zones."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from fake_spark import Answer

from gateway.errors import StatementFailed
from gateway.mv.ports import SqlSession
from gateway.mv.refresh.habits import Habits
from gateway.service.memory.zones import Zones
from sql.memory.zone_questions import EARLY, LAST, LATE, USUAL
from sql.memory.zone_rules import UTC_RULES

CHANGE = 1_000_000_000


class SparkWithZones:
    """A Spark whose zones go from no offset to an hour, once. Implements `ServiceSessions` and `SqlSession`."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.later = 3600
        """The offset of local times after the change."""
        self.fails = False

    @asynccontextmanager
    async def session(self, *, fresh: bool = False) -> AsyncIterator[SqlSession]:
        yield self

    async def run(self, sql: str, *, on_start: object = None) -> Answer:
        self.asked.append(sql)
        await asyncio.sleep(0)
        if self.fails:
            raise StatementFailed("out of memory")
        if "AS grid" in sql:
            offsets = (EARLY, 0, 0), (USUAL, 0, 0), (LATE, 3600, 3600), (LAST, 3600, 3600)
            rows = [(number, grid.low, *found) for number, (grid, *found) in enumerate(offsets)]
            return Answer([*rows, (1, CHANGE - 7_000, 0, 3600)])
        if "explode" in sql:
            at = CHANGE - 1 if f"({CHANGE - 40}L)" in sql else CHANGE - 40
            return Answer([(at, 0, 3600)])
        values = sql.partition("VALUES ")[2].partition(" AS t")[0].split(", ")
        times = [int(each.strip("(L)")) for each in values]
        return Answer([(each, 0 if each < CHANGE + 3600 else self.later) for each in times])

    def spoil(self) -> None: ...


async def test_a_zone_is_asked_for_once_until_spark_is_started_again() -> None:
    spark, habits = SparkWithZones(), Habits()
    zones = Zones(spark, habits)
    found = await asyncio.gather(*(zones.rules("Some/Zone") for _ in range(3)))
    assert {id(each) for each in found} == {id(found[0])}
    assert list(found[0].changes) == [(CHANGE, 0, 3600)]
    assert len(spark.asked) == 4
    habits._application = "another"
    assert list((await zones.rules("Some/Zone")).changes) == [(CHANGE, 0, 3600)]
    assert len(spark.asked) == 8


async def test_utc_is_known_and_odd_names_are_not_asked_for() -> None:
    spark = SparkWithZones()
    zones = Zones(spark, Habits())
    assert await zones.rules("Etc/UTC") is UTC_RULES
    assert not (await zones.rules("x') --")).is_known
    assert spark.asked == []


async def test_a_zone_with_other_local_times_than_expected_is_not_used() -> None:
    spark = SparkWithZones()
    spark.later = 1800
    assert not (await Zones(spark, Habits()).rules("Some/Zone")).is_known


async def test_a_failure_is_not_kept() -> None:
    spark = SparkWithZones()
    spark.fails = True
    zones = Zones(spark, Habits())
    with pytest.raises(StatementFailed):
        await zones.rules("Some/Zone")
    spark.fails = False
    assert (await zones.rules("Some/Zone")).is_known
