"""How much one statement of the janitor drops: everybody's statements wait while Spark drops partitions. And when it
drops something, and about what it asks for that: it may be woken by the end of every statement.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gateway.errors import StatementFailed
from gateway.mv.catalog.fence import Fence
from gateway.mv.model.view import Kept, Leftover, Version
from gateway.mv.ports import Metastore
from gateway.mv.versions.janitor import Janitor
from gateway.mv.versions.readers import Read, Readers
from gateway.mv.versions.removal import DROPPED_TOGETHER, Removal
from sql.names import TableName
from sql.texts.storage_layout import Shown

STORAGE = TableName("storage", "v")
CURRENT = 100
PARTS = Leftover(STORAGE, STORAGE, whole=False)
OLD = Version.whole(1, 0, 0, {})
Stored = list[tuple[int, str]]


class StoredPartitions:
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

    async def relation(self, _: TableName) -> None:
        """Nobody reads the storage by a name."""

    async def run(self, sql: str) -> StoredPartitions:
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


def janitor_of(spark: StoredPartitions, shown: Shown, readers: Readers, retention_seconds: float = 0.0) -> Janitor:
    async def verify(_: str) -> None:
        pass

    kept = Kept(shown, frozenset(), CURRENT + 1)
    catalog = SimpleNamespace(kept=lambda _: kept, lock_of=lambda _: asyncio.Lock())
    nobody = SimpleNamespace(verify_id=verify)
    removal = Removal(
        cast(Any, catalog), cast(Any, nobody), cast(Any, nobody), cast(Metastore, spark), cast(Any, spark)
    )
    janitor = Janitor(removal, readers, cast(Fence, spark), retention_seconds)
    readers.released.add(janitor.released)
    return janitor


def swept(stored: Stored, shown: Shown) -> StoredPartitions:
    """What is left when everything that `shown` does not show was dropped."""
    spark = StoredPartitions(stored)

    async def sweep() -> None:
        janitor = janitor_of(spark, shown, Readers())
        janitor.retire("v", PARTS)
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


async def turns() -> None:
    """Turns of the event loop, with which everything that need not wait is done."""
    for _ in range(20):
        await asyncio.sleep(0)


def on_janitor(
    story: Callable[[Janitor, Readers, StoredPartitions], Awaitable[None]], retention_seconds: float
) -> None:
    """Of d.v version 1 and the current one are stored."""

    async def run() -> None:
        readers, spark = Readers(), StoredPartitions([(1, "p0"), (CURRENT, "p0")])
        janitor = janitor_of(spark, Shown.only(CURRENT), readers, retention_seconds)
        janitor.loop.start()
        try:
            async with asyncio.timeout(20):
                await story(janitor, readers, spark)
        finally:
            await janitor.loop.stop()

    asyncio.run(run())


def test_nothing_is_kept_of_a_view_that_was_dropped() -> None:
    async def story(janitor: Janitor, readers: Readers, _: StoredPartitions) -> None:
        for number in range(50):
            janitor.retire(f"v{number}", PARTS, OLD)
            janitor.retire(f"v{number}", Leftover(STORAGE, STORAGE))
            # Each of the two is dropped by some statements.
            await turns()
            await turns()
        assert janitor.waiting == 0
        assert janitor._since == {}

    on_janitor(story, retention_seconds=0.0)


@pytest.mark.parametrize("pinned", [False, True])
def test_a_version_goes_with_its_last_reader(pinned: bool) -> None:
    async def story(janitor: Janitor, readers: Readers, spark: StoredPartitions) -> None:
        first, last = (
            readers.begin(versions=[("v", 1)] if pinned else (), views=() if pinned else ["v"]) for _ in range(2)
        )
        janitor.retire("v", PARTS, OLD)
        await turns()
        readers.release(first)
        # One that began later does not read it, and one of another view neither.
        later, other = readers.begin(["v"]), readers.begin(["other"])
        readers.release(other)
        await turns()
        assert spark.dropped == []
        assert janitor.is_waiting("v")
        readers.release(last)
        await turns()
        assert spark.stored == [(CURRENT, "p0")]
        assert not janitor.is_waiting("v")
        readers.release(later)

    on_janitor(story, retention_seconds=0.0)


def test_a_version_that_nobody_reads_goes_when_its_time_is_over() -> None:
    """Though its last reader has gone before that."""

    async def story(janitor: Janitor, readers: Readers, spark: StoredPartitions) -> None:
        read = readers.begin(["v"])
        janitor.retire("v", PARTS, OLD)
        await turns()
        readers.release(read)
        if janitor.waiting:
            await janitor.wait_for_drop(20)
        assert spark.stored == [(CURRENT, "p0")]

    on_janitor(story, retention_seconds=0.2)


def test_the_end_of_a_read_is_looked_at_where_something_may_be_due(monkeypatch: pytest.MonkeyPatch) -> None:
    sweeps, asked = Counter[str](), Counter[str]()
    sweep, may_read = Janitor.sweep, Read.may_read

    async def counted_sweep(janitor: Janitor) -> None:
        sweeps["all"] += 1
        await sweep(janitor)

    def counted(read: Read, view_id: str, number: int, published: int, retired: int | None) -> bool:
        asked[view_id] += 1
        return may_read(read, view_id, number, published, retired)

    monkeypatch.setattr(Janitor, "sweep", counted_sweep)
    monkeypatch.setattr(Read, "may_read", counted)

    async def kept_for_its_time(janitor: Janitor, readers: Readers, _: StoredPartitions) -> None:
        reads = [readers.begin([f"v{number}"]) for number in range(50)]
        for number in range(0, 50, 2):
            janitor.retire(f"v{number}", PARTS, OLD)
        await turns()
        sweeps.clear()
        for read in reads:
            readers.planned(read)
            readers.release(read)
            await turns()
        assert (sweeps.total(), asked.total()) == (0, 0)

    on_janitor(kept_for_its_time, retention_seconds=3600.0)

    async def held(janitor: Janitor, readers: Readers, spark: StoredPartitions) -> None:
        others = [readers.begin([f"v{number}"]) for number in range(50)]
        read = readers.begin(["v"])
        janitor.retire("v", PARTS, OLD)
        await turns()
        sweeps.clear()
        for other in others:
            readers.release(other)
            await turns()
        assert (sweeps.total(), set(asked)) == (0, {"v"})
        # By one sweep, and by the pause after it.
        assert asked["v"] <= 2
        readers.release(read)
        await turns()
        assert spark.stored == [(CURRENT, "p0")]

    on_janitor(held, retention_seconds=0.0)


@pytest.mark.parametrize("ended", [False, True], ids=["DROP is running", "DROP has ended"])
def test_a_drop_of_the_view_beside_the_janitor_is_no_problem(ended: bool, caplog: pytest.LogCaptureFixture) -> None:
    """A pass over the storage table fails when DROP removes the table under it."""

    class Dropped(StoredPartitions):
        """The table disappears between two statements of the janitor."""

        def __init__(self) -> None:
            super().__init__([(1, "p0"), (CURRENT, "p0")])
            self.exists = True
            self.partitions_asked, self.table_gone, self.drop_may_end = (asyncio.Event() for _ in range(3))

        async def tables(self, _: str) -> frozenset[str]:
            return frozenset({STORAGE.table} if self.exists else ())

        async def run(self, sql: str) -> StoredPartitions:
            if sql.startswith("SHOW PARTITIONS"):
                self.partitions_asked.set()
                await self.table_gone.wait()
                raise StatementFailed(f"[TABLE_OR_VIEW_NOT_FOUND] {STORAGE}", "42P01")
            if sql.startswith("DROP TABLE"):
                self.exists = not ended
                self.table_gone.set()
                await self.drop_may_end.wait()
            return self

    async def story() -> None:
        spark = Dropped()
        janitor = janitor_of(spark, Shown.only(CURRENT), Readers())
        janitor.retire("v", PARTS, OLD)
        sweep = asyncio.create_task(janitor.sweep())
        await spark.partitions_asked.wait()
        drop = asyncio.create_task(janitor.drop_now("v", Leftover(STORAGE, STORAGE)))
        if ended:
            spark.drop_may_end.set()
            await drop
        await sweep
        spark.drop_may_end.set()
        await drop

    asyncio.run(asyncio.wait_for(story(), 10))
    assert caplog.records == []


def test_a_drop_that_fails_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    class Failing(StoredPartitions):
        async def run(self, sql: str) -> StoredPartitions:
            raise StatementFailed("no room", "58030")

    async def story() -> None:
        janitor = janitor_of(Failing([]), Shown.only(CURRENT), Readers())
        janitor.retire("v", PARTS, OLD)
        await janitor.sweep()
        assert janitor.waiting == 1

    asyncio.run(story())
    assert [each.levelname for each in caplog.records] == ["WARNING"]


def test_what_clients_of_another_gateway_may_read_is_kept() -> None:
    async def story(janitor: Janitor, readers: Readers, spark: StoredPartitions) -> None:
        janitor.hold(0.3)
        janitor.retire("v", PARTS, OLD)
        await janitor.drop_now("w", PARTS)
        await janitor.sweep()
        assert spark.dropped == []
        assert janitor.waiting == 2
        await janitor.wait_for_drop(20)
        assert janitor.waiting < 2

    on_janitor(story, retention_seconds=0.0)


@pytest.mark.parametrize("versions", [(), (OLD,)])
def test_what_was_found_beside_the_current_version_goes(versions: tuple[Version, ...]) -> None:
    """A view that was described after it was served may have left versions, or only partitions."""
    current = Version.whole(CURRENT, 1, 1, {})
    spark = StoredPartitions([(1, "a"), (CURRENT, "a")])
    janitor = janitor_of(spark, current.shown, Readers())
    janitor.retire_found(Leftover(STORAGE, STORAGE, whole=False, versions=versions), current)
    asyncio.run(janitor.sweep())
    assert spark.stored == [(CURRENT, "a")]
