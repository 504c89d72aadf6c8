"""Tests which base tables' rows are in memory: in front of an engine, a Spark and an observer that are fakes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from fakes import FakeFence
from row_engine import FakeRowEngine
from views import view_of

from gateway.errors import StatementFailed
from gateway.mv.catalog.fence import Fence
from gateway.mv.catalog.index import Catalog
from gateway.mv.freshness.ledger import TablesWritten
from gateway.mv.memory import base_tables
from gateway.mv.memory.base_tables import RETRY_SECONDS_MAX, UNUSED_MS, BaseTables, TableLimits, unsuitable
from gateway.mv.memory.residency import Residency
from gateway.mv.memory.table_loads import LoadLimits, TableLoads
from gateway.mv.model.history import History
from gateway.mv.model.snapshot import GONE, Observed, Snapshot, Unobserved
from gateway.mv.model.view import Version
from gateway.mv.observation.look import Look
from gateway.mv.observation.observer import Observer
from gateway.mv.observation.storage_looks import StorageLooks
from gateway.mv.ports import Relation, RelationKind
from gateway.mv.versions.readers import Readers
from sql.memory.columns import MemoryColumn
from sql.names import TableName

LIMITS = LoadLimits(bytes=5_000, rows=450)
PROBE = 30.0
C, D = TableName("s", "c"), TableName("s", "d")
COLUMNS = (("id", '"integer"'), ("name", '"string"'))


@dataclass
class Tables:
    """Base tables at Spark: implements the observer, and the sessions of loads."""

    clock: Callable[[], float]
    rows: dict[TableName, int] = field(default_factory=dict)
    states: dict[TableName, Observed] = field(default_factory=dict)
    relations: dict[TableName, Relation] = field(default_factory=dict)
    looks: list[TableName] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    known: dict[TableName, Look] = field(default_factory=dict)
    while_reading: Callable[[], object] = lambda: None
    failure: StatementFailed | None = None
    size_of_files: int = 100

    def put(self, table: TableName, rows: int, **fields: Any) -> None:
        """Anybody writes the table, unseen by the gateway."""
        before = self.states.get(table)
        number = int(before.state) + 1 if isinstance(before, Snapshot) else 1
        self.rows[table], self.states[table] = rows, Snapshot("t", str(number))
        usual = Relation(table, RelationKind.TABLE, columns=COLUMNS, provider="parquet", location="file:/t")
        self.relations[table] = replace(self.relations.get(table, usual), **fields)

    # --- the observer

    async def observe(self, tables: Iterable[TableName], not_before: float) -> dict[TableName, Look]:
        for table in tables:
            if self.last(table, not_before) is None:
                self.looks.append(table)
                self.known[table] = Look(self.states.get(table, GONE), self.clock(), relation=self.relations.get(table))
        return {table: self.known[table] for table in tables}

    def due(self, tables: Iterable[TableName], not_before: float) -> bool:
        return any(self.last(table, not_before) is None for table in tables)

    def last(self, table: TableName, not_before: float = float("-inf")) -> Look | None:
        known = self.known.get(table)
        return known if known is not None and known.began >= not_before else None

    def touch(self, tables: Iterable[TableName]) -> None:
        for table in tables:
            self.known.pop(table, None)

    def size(self, table: TableName) -> int:
        return self.size_of_files

    # --- sessions

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Tables]:
        yield self

    async def run(self, sql: str, **_: Any) -> Any:
        self.texts.append(sql)
        if self.failure is not None:
            raise self.failure
        if sql.startswith("DESCRIBE"):
            described = [("id", "int", None), ("name", "string", None), ("n", "bigint", None)]
            return SimpleNamespace(rows=described[: len(self.relations[C].columns)])
        return SimpleNamespace(rows=[(self.rows.get(C, 0),)])

    async def pages(self, sql: str, _: int) -> AsyncGenerator[bytes, None]:
        yield str(self.rows[C]).encode()
        self.while_reading()


class Held:
    """A gateway that may hold base tables in memory."""

    def __init__(self, *, room: int = 10_000, queries: int = 2, probe_seconds: float = PROBE) -> None:
        self.now = 1_000.0
        self.fence, self.engine = FakeFence(), FakeRowEngine()
        self.catalog = Catalog("storage", cast(Fence, self.fence), self.now_ms)
        self.spark = Tables(lambda: self.now)
        self.catalog.news.touched.add(self.spark.touch)
        loads = TableLoads(self.engine, cast(Any, self.spark), Readers(), cast(StorageLooks, None), LIMITS)
        limits = TableLimits(queries, probe_seconds)
        clocks = (lambda: self.now, self.now_ms)
        self.tables = BaseTables(self.catalog, cast(Observer, self.spark), loads, limits, *clocks)
        self.residency = Residency(self.catalog, cast(Fence, self.fence), loads, room, 0, *clocks, tables=self.tables)

    def now_ms(self) -> int:
        return int(self.now * 1000)

    async def settled(self, seconds: float = 0.0) -> None:
        """Everything that can happen within so many seconds has happened."""
        for _ in range(3):
            self.now += seconds / 3
            self.residency.changed("")
            for _ in range(60):
                await asyncio.sleep(0)

    async def joined(self, times: int = 2, *tables: TableName) -> None:
        for _ in range(times):
            self.residency.joined(tables or (C,))
        await self.settled()

    async def read(self, table: TableName = C) -> int | None:
        """How many rows a read finds in memory."""
        tables = frozenset({table})
        if not self.tables.holds(tables):
            return None
        if self.tables.due(tables):
            await self.tables.look(tables)
        if (version := self.tables.version(table)) is None:
            return None
        table_id, name, number = version
        assert name == str(table)
        found = self.residency.resident(table_id, number)
        assert found is not None
        assert self.residency.table_named(table_id) == table
        self.residency.used(table_id)
        return found.rows


@asynccontextmanager
async def begun(**options: Any) -> AsyncIterator[Held]:
    made = Held(**options)
    made.spark.put(C, 10)
    made.residency.start()
    try:
        yield made
    finally:
        await made.residency.stop()
    assert made.engine.tables == {}
    assert not made.catalog.is_read(C), "It is not watched any more."


async def test_a_table_is_held_once_enough_queries_have_joined_it() -> None:
    async with begun() as made:
        await made.joined(1)
        assert (await made.read(), made.spark.looks) == (None, [])
        await made.joined(1)
        assert await made.read() == 10
        assert made.residency.bytes == 100
        ((_, held),) = made.tables.loaded()
        assert held.columns == (MemoryColumn("id", "int"), MemoryColumn("name", "string"))
        assert made.spark.looks == [C], "Nothing was written between the looks before and after the load."


async def test_what_is_held_is_told() -> None:
    async with begun() as made:
        assert made.tables.residences() == []
        await made.joined()
        await made.read()
        ((name, told, answers),) = [(each.name, each.residence, each.answers) for each in made.tables.residences()]
        assert (name, answers, told.held, told.rows, told.bytes) == (C, 1, "LOADED", 10, 100)
        assert told.since == made.now_ms()
        made.spark.put(C, 451)
        made.now += PROBE + 1
        assert await made.read() is None
        assert [each.residence.held for each in made.tables.residences()] == ["WAITING"]
        await made.settled(60)
        ((told, answers),) = [(each.residence, each.answers) for each in made.tables.residences()]
        assert (told.held, answers) == ("NOT_LOADED", 1)
        assert "memory.view_rows is 450" in told.why


async def test_what_was_written_past_the_gateway_is_seen_within_the_interval_and_loaded() -> None:
    async with begun() as made:
        await made.joined()
        made.spark.put(C, 11)
        assert await made.read() == 10, "The last look is not older than it may be."
        made.now += PROBE + 1
        assert await made.read() is None, "The rows in memory are not those of the table."
        await made.settled(60)
        assert await made.read() == 11
        assert len(made.engine.tables) == 1, "The earlier rows are dropped."


async def test_with_no_interval_every_read_looks() -> None:
    async with begun(probe_seconds=0.0) as made:
        await made.joined()
        for _ in range(3):
            made.now += 0.001
            assert await made.read() == 10
        assert len(made.spark.looks) == 4, "One for the load, and one for each read."
        made.spark.put(C, 11)
        made.now += 0.001
        assert await made.read() is None, "Written past the gateway just now, and seen by the next read."


async def test_a_write_through_the_gateway_is_seen_when_it_has_ended() -> None:
    async with begun() as made:
        await made.joined()
        assert C in made.catalog.changed_with({C})
        assert "c" in made.catalog.table_words
        write = TablesWritten(frozenset({"insert"}), frozenset({C}))
        made.catalog.writes.begin(write)
        made.catalog.writes.send(write)
        made.spark.put(C, 12)
        made.catalog.writes.end(write)
        assert await made.read() is None
        await made.settled(60)
        assert await made.read() == 12


async def test_a_write_that_may_have_ended_unnoticed_is_asked_for() -> None:
    async with begun() as made:
        await made.joined()
        write = TablesWritten(frozenset({"insert"}), frozenset({C}))
        # Nobody can be asked whether it has ended: each read looks.
        made.catalog.writes.begin(write)
        made.catalog.writes.send(write)
        assert await made.read() == 10
        made.spark.put(C, 12)
        assert await made.read() is None


async def test_no_table_is_adopted_while_a_write_that_began_before_may_change_it() -> None:
    async with begun() as made:
        write = TablesWritten(frozenset({"insert", "c"}), None)
        made.catalog.writes.begin(write)
        await made.joined(5)
        assert not made.catalog.is_read(C)
        made.catalog.writes.end(write)
        await made.joined(1)
        assert await made.read() == 10


async def test_rows_that_changed_while_they_were_read_are_not_used() -> None:
    async with begun() as made:
        made.spark.while_reading = lambda: made.spark.put(C, 13)
        made.spark.put(C, 10)
        # The look after the load must not be the one before.
        original = made.spark.observe

        async def observe(tables: Iterable[TableName], not_before: float) -> dict[TableName, Look]:
            made.now += 0.001
            return await original(tables, made.now)

        made.spark.observe = observe  # type: ignore[method-assign]
        await made.joined()
        assert (await made.read(), made.engine.tables) == (None, {})
        made.spark.while_reading = lambda: None
        await made.settled(60)
        assert await made.read() == 13


async def test_a_failed_load_is_tried_again() -> None:
    async with begun() as made:
        made.spark.failure = StatementFailed("no file")
        await made.joined()
        assert await made.read() is None
        assert "in the background" in made.tables.why(C)
        made.spark.failure = None
        await made.settled(60)
        assert await made.read() == 10


async def test_another_table_of_the_same_name_has_another_id() -> None:
    """What was learned of the columns of the first one does not hold."""
    async with begun() as made:
        await made.joined()
        assert await made.read() == 10
        before = made.tables.version(C)
        made.spark.put(C, 3, columns=(*COLUMNS, ("n", '"long"')))
        made.now += PROBE + 1
        assert await made.read() is None
        await made.settled(60)
        assert await made.read() == 3
        after = made.tables.version(C)
        assert before is not None
        assert after is not None
        assert before[0] != after[0]
        assert await made.residency.is_so_now(C, after[2])
        made.spark.put(C, 4)
        made.now += 0.01
        assert not await made.residency.is_so_now(C, after[2])


@pytest.mark.parametrize(
    ("rows", "size", "fields", "why"),
    [
        (10, 6_000, {}, "6000 bytes in its files"),
        (451, 100, {}, "memory.view_rows is 450"),
        (10, 100, {"kind": RelationKind.VIEW}, "not a table"),
        (10, 100, {"provider": "jdbc"}, "its format"),
    ],
)
async def test_what_cannot_be_held_is_told_and_tried_again_later(
    rows: int, size: int, fields: dict[str, Any], why: str
) -> None:
    async with begun() as made:
        made.spark.put(C, rows, **fields)
        made.spark.size_of_files = size
        await made.joined()
        assert await made.read() is None
        assert why in made.tables.why(C)
        made.spark.put(C, 7, kind=RelationKind.TABLE, provider="parquet")
        made.spark.size_of_files = 100
        await made.settled(RETRY_SECONDS_MAX + 1)
        assert await made.read() == 7


async def test_a_table_that_nobody_reads_leaves_memory() -> None:
    async with begun() as made:
        await made.joined()
        await made.settled(UNUSED_MS / 2_000)
        assert await made.read() == 10
        await made.settled(UNUSED_MS / 1_000 + 60)
        await made.settled(1)
        assert await made.read() is None
        assert not made.catalog.is_read(C)


async def test_a_dropped_table_leaves_memory() -> None:
    async with begun() as made:
        await made.joined()
        del made.spark.states[C], made.spark.relations[C]
        made.now += PROBE + 1
        assert await made.read() is None
        await made.settled(60)
        assert made.engine.tables == {}
        assert "not found" in made.tables.why(C)


async def test_rows_stay_if_the_table_could_not_be_looked_at() -> None:
    async with begun() as made:
        await made.joined()
        before, made.spark.states[C] = made.spark.states[C], Unobserved("no answer")
        made.now += PROBE + 1
        assert await made.read() is None
        made.spark.states[C] = before
        made.now += PROBE + 1
        assert await made.read() == 10
        assert sum(made.engine.loads.values()) == 1


async def test_what_cannot_be_held_gives_up_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base_tables, "WANTED_MAX", 1)
    async with begun() as made:
        made.spark.put(D, 3, provider="jdbc")
        await made.joined(2, D)
        assert "its format" in made.tables.why(D)
        await made.joined()
        assert await made.read() == 10
        await made.joined(2, D)
        assert await made.read() == 10, "It is held, and keeps its place."
        assert "once 2 queries" in made.tables.why(D)


async def test_views_of_a_table_that_is_held_come_and_go() -> None:
    async with begun() as made:
        before = replace(view_of(Version.whole(1, 0, 0, {})), id="v", tables=frozenset({C}))
        made.catalog.add(before, History())
        await made.joined()
        made.catalog.remove(made.catalog.entry("v"))
        assert (await made.read(), made.catalog.tables()) == (10, [C])
        made.catalog.add(before, History())
        assert [each.view.id for each in made.catalog.dependents([C])] == ["v"]
        await made.settled(UNUSED_MS / 1_000 + 60)
        await made.settled(1)
        assert await made.read() is None
        assert (made.catalog.is_read(C), made.catalog.tables()) == (True, [C])
        made.catalog.remove(made.catalog.entry("v"))
        assert (made.catalog.is_read(C), made.catalog.tables(), made.catalog.table_words) == (False, [], frozenset())


async def test_without_room_none_is_held() -> None:
    async with begun(room=99) as made:
        await made.joined()
        await made.settled(60)
        assert await made.read() is None


async def test_a_gateway_that_no_longer_leads_holds_none() -> None:
    async with begun() as made:
        await made.joined()
        made.fence.lost = object()  # type: ignore[assignment]
        await made.settled(5)
        assert await made.read() is None
        assert made.engine.tables == {}


async def test_after_the_engine_has_ended_it_is_loaded_again() -> None:
    async with begun() as made:
        await made.joined()
        made.engine.tables.clear()
        made.residency.lost()
        assert await made.read() is None
        await made.settled(60)
        assert await made.read() == 10
        assert made.residency.counts.drops["lost"] == 1


def test_a_part_of_a_table_is_not_held() -> None:
    relation = Relation(C, RelationKind.TABLE, columns=COLUMNS, provider="parquet", location="file:/t")
    snapshot = Snapshot("t", "1")
    assert not unsuitable(C, Look(snapshot, 0.0, relation=relation))
    assert unsuitable(C, Look(snapshot, 0.0, relation=relation, root=D))
    assert unsuitable(replace(C, catalog="lake"), Look(snapshot, 0.0, relation=relation))
