"""How much one statement of the janitor drops: everybody's statements wait while Spark drops partitions."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import cast

import pytest

from gateway.mv.fence import Fence
from gateway.mv.janitor import DROPPED_TOGETHER, Janitor
from gateway.mv.model import Kept, Leftover
from gateway.mv.ports import Metastore
from gateway.mv.readers import Readers
from sql.maintenance import Shown
from sql.names import TableName

STORAGE = TableName("storage", "v")
CURRENT = 100
Stored = list[tuple[int, str]]


class Spark:
    """A storage table that knows its partitions, and notes how many each statement drops."""

    def __init__(self, stored: Stored) -> None:
        self.stored = stored
        self.dropped: list[int] = []
        self.rows: list[tuple[str]] = []

    async def tables(self, _: str) -> frozenset[str]:
        return frozenset({STORAGE.table})

    async def properties(self, _: TableName) -> Mapping[str, str]:
        return {}

    async def check(self) -> None:
        """As a fence that is held."""

    async def run(self, sql: str) -> Spark:
        if sql.startswith("SHOW PARTITIONS"):
            self.rows = [(f"freshgate_version={version}/freshgate_partition={key}",) for version, key in self.stored]
            return self
        specs = re.findall(r"PARTITION \(freshgate_version = (\d+)(?:, `freshgate_partition` = '(\w+)')?\)", sql)
        gone = {
            (version, key)
            for version, key in self.stored
            for of, one in specs
            if version == int(of) and one in {"", key}
        }
        self.stored = [each for each in self.stored if each not in gone]
        self.dropped.append(len(gone))
        return self


def swept(stored: Stored, shown: Shown) -> Spark:
    """What is left when everything that `shown` does not show was dropped."""
    spark = Spark(stored)

    @asynccontextmanager
    async def lock(_: str) -> AsyncIterator[None]:
        yield

    async def verify(_: str) -> None:
        pass

    async def sweep() -> None:
        kept = Kept(shown, frozenset(), CURRENT + 1)
        janitor = Janitor(cast(Metastore, spark), lock, lambda _: kept, verify, Readers(), cast(Fence, spark), 0.0)
        janitor.retire("v", Leftover(STORAGE, STORAGE, whole=False))
        await janitor.sweep()
        assert janitor.waiting == 0

    asyncio.run(sweep())
    return spark


@pytest.mark.parametrize("sizes", [[1] * 7, [1] * 50, [400], [3, 200, 1, 20, 19, 2]])
def test_few_at_a_time(sizes: list[int]) -> None:
    old = [(number, f"p{key}") for number, size in enumerate(sizes, 1) for key in range(size)]
    spark = swept([*old, (CURRENT, "p0")], Shown.only(CURRENT))
    assert spark.stored == [(CURRENT, "p0")]
    assert max(spark.dropped) <= DROPPED_TOGETHER
    # None of them is for little.
    assert len(spark.dropped) <= 2 * -(-len(old) // DROPPED_TOGETHER)


def test_what_is_shown_stays() -> None:
    old = [(1, f"p{key}") for key in range(50)]
    spark = swept([*old, (CURRENT, "p0")], Shown(CURRENT, ((1, 1), (CURRENT, CURRENT)), {1: frozenset({"p0", "p7"})}))
    assert spark.stored == [*(each for each in old if each[1] not in {"p0", "p7"}), (CURRENT, "p0")]
    assert spark.dropped == [2]
