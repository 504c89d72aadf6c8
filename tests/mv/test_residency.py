"""Tests which views' rows are in memory, in front of an engine and a Spark that are fakes."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from fakes import FakeFence
from hypothesis import given, settings
from hypothesis import strategies as st
from row_engine import FakeRowEngine
from views import given as given_view
from views import view_of

from gateway.assembly import in_memory
from gateway.config import Settings
from gateway.errors import StatementFailed
from gateway.mv.catalog.fence import Fence
from gateway.mv.catalog.index import Catalog
from gateway.mv.freshness.entry import Entry
from gateway.mv.memory import residency as worker
from gateway.mv.memory.residency import Residency, reads_lately
from gateway.mv.memory.table_loads import LoadLimits, TableLoads, columns_of
from gateway.mv.model.history import History
from gateway.mv.model.marks import Fold
from gateway.mv.model.read_counts import DAY_MS, How, ReadCounts
from gateway.mv.model.residence import Held, Residence, Wish
from gateway.mv.model.view import Version
from gateway.mv.observation.storage_looks import StorageLooks
from gateway.mv.ports import MemoryUnavailable
from gateway.mv.versions.readers import Readers
from sql.memory.columns import MemoryColumn
from sql.names import TableName
from sql.statement import CreateClauses, Security
from sql.texts.storage_layout import Shown, StorageLayout

ROOM, LIMITS = 10_000, LoadLimits(bytes=5_000, rows=450)
ASKED, REFUSED = {"in_memory": "true"}, {"in_memory": "false"}


@dataclass
class StoredRows:
    """Spark's sessions: each view has so many rows in each version. Loads wait at the gate while it is closed."""

    rows: dict[tuple[str, int], int]
    gate: asyncio.Event
    failure: StatementFailed | None = None
    types: tuple[tuple[str, str, None], ...] = (("day", "string", None), ("n", "bigint", None))
    under_way: int = 0
    most: int = 0
    texts: list[str] | None = None

    @asynccontextmanager
    async def session(self) -> AsyncIterator[StoredRows]:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            yield self
        finally:
            self.under_way -= 1

    async def run(self, sql: str, **_: Any) -> Any:
        if self.failure is not None:
            raise self.failure
        if sql.startswith("DESCRIBE"):
            return SimpleNamespace(rows=self.types)
        return SimpleNamespace(rows=[(None, self._rows(sql), 0)])

    async def pages(self, sql: str, _: int) -> AsyncGenerator[bytes, None]:
        rows = self._rows(sql)
        await self.gate.wait()
        yield str(rows // 2).encode()
        yield str(rows - rows // 2).encode()

    def _rows(self, sql: str) -> int:
        found = re.search(r"`s`\.`(\w+)` WHERE freshgate_version <?= (\d+)(?:.* AND NOT \(.*\b(\d+)\))?", sql)
        assert found is not None, sql
        return self.rows[found[1], int(found[2])] - (self.rows[found[1], int(found[3])] if found[3] else 0)


class Storages:
    """Looks at stored rows: the damaged views are found."""

    def __init__(self) -> None:
        self.damaged: set[str] = set()
        self.looks: list[str] = []

    def now(self) -> float:
        return 0.0

    async def look(self, entry: Entry, _: float) -> None:
        self.looks.append(entry.view.id)
        if entry.view.id in self.damaged:
            entry.examine(entry.view.current.number, "its rows were changed", 0.0)


class HeldViews:
    """Views that may be held in memory, of a gateway."""

    def __init__(self, *, reads_per_day: int = 0) -> None:
        self.now = 1_000.0
        self.fence, self.engine, self.storages = FakeFence(), FakeRowEngine(), Storages()
        self.catalog = Catalog("s", cast(Fence, self.fence), self.now_ms)
        gate = asyncio.Event()
        gate.set()
        self.spark = StoredRows({}, gate)
        self.readers = Readers()
        loads = TableLoads(self.engine, cast(Any, self.spark), self.readers, cast(StorageLooks, self.storages), LIMITS)
        self.residency = Residency(
            self.catalog, cast(Fence, self.fence), loads, ROOM, reads_per_day, lambda: self.now, self.now_ms
        )
        news = self.catalog.news
        news.published.add(self.residency.published)
        news.altered.add(self.residency.changed)
        news.moved.add(self.residency.moved)
        news.stale.add(self.residency.stale)

    def now_ms(self) -> int:
        return int(self.now * 1000)

    def version(self, view_id: str, number: int, rows: int, **fields: Any) -> Version:
        self.spark.rows[view_id, number] = rows
        # The engine's estimate of a version that it has not seen is exact.
        size = rows * FakeRowEngine.ROW_BYTES / worker.BYTES_PER_STORED_BYTE
        return Version.whole(number, 0, 0, {}, files=Fold(0, 1, int(size)), **fields)

    def add(self, view_id: str, rows: int = 100, **fields: Any) -> None:
        layout = StorageLayout()
        name, storage = TableName("d", view_id), TableName("s", view_id)
        usual = {"id": view_id, "name": name, "storage": storage, "layout": layout, "followed": None}
        # An id is never used again; here, its version numbers are not.
        number = max((version for of, version in self.spark.rows if of == view_id), default=0) + 1
        view = replace(view_of(self.version(view_id, number, rows)), **{**usual, "properties": ASKED, **fields})
        self.catalog.add(view, History())
        self.catalog.entry(view_id).examine(number, "", 0.0)

    async def publish(self, view_id: str, rows: int, **fields: Any) -> None:
        entry = self.catalog.entry(view_id)
        number = entry.view.current.number + 1
        async with entry.lock:
            entry.publish(self.version(view_id, number, rows, **fields), number + 1, contains=0)
        self.catalog.news.published.tell(view_id)

    def alter(self, view_id: str, **fields: Any) -> None:
        given_view(self.catalog.entry(view_id), **fields)

    async def settled(self, seconds: float = 0.0) -> None:
        """Everything that can happen within so many seconds has happened."""
        for _ in range(3):
            self.now += seconds / 3
            self.residency.changed("")
            for _ in range(60):
                await asyncio.sleep(0)

    def rows(self, view_id: str) -> int | None:
        """The rows of the current version, if they are in memory."""
        found = self.residency.resident(view_id, self.catalog.current(view_id))
        return None if found is None else found.rows

    def told(self, view_id: str) -> Residence | None:
        return self.catalog.residences.of(self.catalog.entry(view_id).view)

    def check(self) -> None:
        """What holds at any time."""
        held = {each.held.table: each.held for each in self.residency._places.values() if each.held is not None}
        assert sum(each.bytes for each in held.values()) <= ROOM
        assert self.spark.most <= worker.LOADS_MAX
        for view_id, place in self.residency._places.items():
            if place.held is not None:
                assert place.version is not None
                assert place.held.rows == self.spark.rows[view_id, place.version.number]
                assert place.held.table == f"{view_id}__{place.version.number}"
        assert self.residency.tables == len(held)


def play(story: Coroutine[Any, Any, None]) -> None:
    async def in_time() -> None:
        async with asyncio.timeout(20):
            await story

    asyncio.run(in_time())


@asynccontextmanager
async def begun(**options: Any) -> AsyncIterator[HeldViews]:
    made = HeldViews(**options)
    made.residency.start()
    try:
        yield made
        made.check()
    finally:
        await made.residency.stop()
    assert made.engine.tables == {}
    assert made.spark.under_way == 0


async def test_a_view_that_asks_for_it_is_loaded_and_no_other() -> None:
    async with begun() as made:
        made.add("a")
        made.add("b", properties={})
        made.add("c", properties=REFUSED)
        made.add("d", clauses=CreateClauses(security=Security.INVOKER))
        await made.settled()
        assert [made.rows(each) for each in "abcd"] == [100, None, None, None]
        assert made.told("a") == Residence(Held.LOADED, Wish.VIEW, "", 1, 100, 1_000, made.now_ms())
        assert [made.told(each) for each in "bc"] == [None, None]
        assert made.told("d") is not None
        found = made.residency.resident("a", 1)
        assert found is not None
        assert found.columns == (MemoryColumn("day", "string"), MemoryColumn("n", "bigint"))
        assert made.storages.looks == ["a"]


async def test_a_new_version_takes_the_place_of_the_one_before() -> None:
    async with begun() as made:
        made.add("a")
        await made.settled()
        made.spark.gate.clear()
        await made.publish("a", 7)
        await made.settled(60)
        # The rows of version 1 are still there, but answer nothing.
        assert (made.rows("a"), made.residency.resident("a", 1) is not None) == (None, True)
        told = made.told("a")
        assert told is not None
        assert told.held is Held.LOADING
        made.spark.gate.set()
        await made.settled()
        assert (made.rows("a"), made.residency.resident("a", 1)) == (7, None)
        assert made.engine.tables.keys() == {"a__2"}


async def test_of_a_version_that_adds_rows_only_these_are_loaded() -> None:
    async with begun() as made:
        made.add("a")
        await made.settled()
        for number in (2, 3):
            await made.publish("a", 100 + number, shown=Shown(number, ((1, number),)))
            await made.settled(60)
            assert made.rows("a") == 100 + number
        assert made.engine.added == [100, 2, 1]
        assert made.residency.counts.loads == {"loaded": 1, "changed": 2}
        await made.publish("a", 50)
        await made.settled(60)
        assert (made.rows("a"), made.engine.added[-1]) == (50, 50)


async def test_rows_that_do_not_add_up_are_loaded_anew() -> None:
    async with begun() as made:
        made.add("a")
        await made.settled()
        made.engine.left_out = 1
        await made.publish("a", 110, shown=Shown(2, ((1, 2),)))
        await made.settled(60)
        assert (made.rows("a"), made.engine.added) == (110, [100, 10, 110])


async def test_a_load_ends_when_the_view_has_another_version() -> None:
    async with begun() as made:
        made.spark.gate.clear()
        made.add("a")
        await made.settled()
        await made.publish("a", 7)
        await made.settled(0.0)
        made.spark.gate.set()
        await made.settled(60)
        assert made.rows("a") == 7
        assert made.residency.counts.loads == {"cancelled": 1, "loaded": 1}


async def test_a_view_that_is_refreshed_all_the_time_is_not_loaded_all_the_time() -> None:
    async with begun() as made:
        made.add("a")
        await made.settled()
        made.spark.gate.clear()
        await made.publish("a", 8)
        await made.settled(3 * worker.FIRST_ANSWERS_SECONDS)
        made.now += 10
        made.spark.gate.set()
        await made.settled()
        for rows in range(20):
            await made.publish("a", rows)
            await made.settled(1)
        assert made.residency.counts.loads["loaded"] == 2
        await made.settled(10 * worker.REST)
        assert made.rows("a") == 19


async def test_a_further_version_is_loaded_after_the_first_answers_of_it() -> None:
    async with begun() as made:
        made.add("a")
        await made.settled()
        made.now += 1_000
        await made.publish("a", 8)
        await made.settled(worker.FIRST_ANSWERS_SECONDS / 2)
        assert made.residency.counts.loads["loaded"] == 1
        await made.settled(worker.FIRST_ANSWERS_SECONDS)
        assert made.rows("a") == 8


async def test_unset_drops_the_rows_at_once() -> None:
    async with begun() as made:
        made.add("a")
        made.add("b")
        await made.settled()
        made.alter("a", properties={})
        made.alter("b", clauses=CreateClauses(security=Security.INVOKER))
        await made.settled()
        assert made.engine.tables == {}
        assert made.residency.counts.drops == {"unwanted": 1, "barred": 1}
        assert made.told("a") is None


async def test_a_dropped_view_leaves_memory() -> None:
    async with begun() as made:
        made.add("a")
        made.add("b")
        await made.settled()
        made.spark.gate.clear()
        await made.publish("b", 8)
        await made.settled(60)
        for view_id in "ab":
            made.catalog.remove(made.catalog.entry(view_id))
        await made.settled()
        assert made.engine.tables == {}
        assert made.residency.bytes == 0


async def test_what_is_too_large_is_not_loaded_until_there_is_a_smaller_version() -> None:
    async with begun() as made:
        made.add("rows", 451)
        made.add("files", 100)
        made.alter("files", current=Version.whole(1, 0, 0, {}, files=Fold(0, 1, 5_001)))
        await made.settled(100)
        assert made.told("rows") == Residence(
            Held.NOT_LOADED, Wish.VIEW, "it has 451 rows, and memory.view_rows is 450"
        )
        told = made.told("files")
        assert told is not None
        assert told.why == "it takes 5001 bytes in its files, and memory.view_bytes is 5000"
        assert made.residency.counts.loads == {"not_held": 2}
        await made.publish("rows", 450)
        await made.settled()
        assert made.rows("rows") == 450


async def test_a_view_that_turns_out_larger_in_memory_is_dropped_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeRowEngine, "ROW_BYTES", 100)
    async with begun() as made:
        made.add("a", 51)
        await made.settled(10)
        told = made.told("a")
        assert told is not None
        assert told.why == "it takes 5100 bytes in memory, and memory.view_bytes is 5000"
        assert made.engine.tables == {}


async def test_a_view_without_a_column_of_a_known_type_is_told_of() -> None:
    async with begun() as made:
        made.spark.types = (("day", "binary", None), ("n", "char(3)", None))
        made.add("a")
        await made.settled(100)
        told = made.told("a")
        assert told is not None
        assert told == Residence(Held.NOT_LOADED, Wish.VIEW, "no column of it has a type that the engine has, too")


async def test_a_failed_load_is_tried_again_later_and_later() -> None:
    async with begun() as made:
        made.spark.failure = StatementFailed("Spark is busy", "58030")
        made.add("a")
        await made.settled()
        for _ in range(100):
            await made.settled(30)
        failed = made.residency.counts.loads["failed"]
        assert 8 <= failed <= 15
        told = made.told("a")
        assert told is not None
        assert (told.held, "Spark is busy" in told.why) == (Held.WAITING, True)
        made.spark.failure = None
        await made.settled(2 * worker.RETRY_SECONDS_MAX)
        assert made.rows("a") == 100


async def test_an_engine_without_memory_is_asked_for_less() -> None:
    async with begun() as made:
        made.engine.refuses = MemoryUnavailable("memory", "out of memory")
        made.add("a")
        await made.settled()
        assert made.residency.counts.loads == {"failed": 1}
        made.engine.refuses = None
        await made.settled(20)
        assert made.rows("a") == 100


async def test_after_the_engine_has_ended_everything_is_loaded_again() -> None:
    async with begun() as made:
        made.add("a")
        made.add("b")
        await made.settled()
        made.engine.tables.clear()
        made.residency.lost()
        assert made.rows("a") is None
        told = made.told("b")
        assert told is not None
        assert told.held is Held.WAITING
        await made.settled(20)
        assert [made.rows(each) for each in "ab"] == [100, 100]


async def test_a_gateway_that_no_longer_leads_holds_nothing() -> None:
    async with begun() as made:
        made.add("a")
        await made.settled()
        made.fence.lost = "another gateway leads"
        await made.settled()
        assert (made.rows("a"), made.engine.tables) == (None, {})
        told = made.told("a")
        assert told == Residence(Held.NOT_LOADED, Wish.VIEW, "another gateway leads")
        assert made.residency._pause() > 0, "it is not to turn without a pause meanwhile"
        made.fence.lost = None
        await made.settled(60)
        assert made.rows("a") == 100


async def test_damaged_rows_leave_memory_and_are_not_loaded() -> None:
    async with begun() as made:
        made.add("a")
        await made.settled()
        made.storages.damaged.add("b")
        made.add("b")
        made.catalog.entry("a").examine(1, "its rows were changed", 1.0)
        made.catalog.news.stale.tell(["a"], "its stored rows were changed")
        await made.settled()
        assert made.engine.tables == {}
        for view_id in "ab":
            told = made.told(view_id)
            assert told is not None
            assert told.why == "its rows were changed"


async def test_a_view_that_was_read_longest_ago_makes_room() -> None:
    async with begun() as made:
        for view_id in "abc":
            made.add(view_id, 400)
            await made.settled(1)
        assert [made.rows(each) for each in "abc"] == [400, 400, None]
        made.now += 3_600
        made.residency.used("a")
        made.catalog.entry("c").reads.count(How.NAMED, "ada", made.now_ms(), 0)
        await made.settled()
        assert [made.rows(each) for each in "abc"] == [400, None, 400]
        assert made.residency.counts.drops == {"room": 1}
        told = made.told("b")
        assert told is not None
        assert told.why == "memory.bytes leaves no room for it"


async def test_a_view_that_is_read_often_is_loaded_without_asking() -> None:
    async with begun(reads_per_day=10) as made:
        made.add("a", properties={})
        made.add("b", properties=REFUSED)
        for number in range(10):
            assert made.told("a") is None, number
            for view_id in "ab":
                made.catalog.entry(view_id).reads.count(How.NAMED, "ada", made.now_ms(), 0)
            await made.settled(worker.SURVEY_SECONDS)
        assert (made.rows("a"), made.rows("b")) == (100, None)
        told = made.told("a")
        assert told is not None
        assert told.asked is Wish.READS
        made.now += 2 * DAY_MS / 1000
        await made.settled(worker.SURVEY_SECONDS)
        assert (made.rows("a"), made.told("a")) == (None, None)


@pytest.mark.parametrize(
    ("size", "installed", "off"),
    [
        (0, True, "memory.bytes is 0"),
        (1 << 24, False, "it needs more packages: install freshgate[memory]"),
        (1 << 24, True, "no view was looked at yet"),
    ],
)
def test_why_no_view_is_held_is_told(size: int, installed: bool, off: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_memory, "find_spec", lambda _: object() if installed else None)
    usual, made = Settings(), HeldViews()
    made.add("a")
    here = {"catalog": made.catalog, "fence": made.fence, "storages": made.storages}
    parts = SimpleNamespace(**here, observer=None, inspector=None)
    versions = SimpleNamespace(readers=made.readers)
    chosen = replace(usual, memory=replace(usual.memory, bytes=size))
    spark = SimpleNamespace(loads=made.spark)
    found = in_memory.memory_of(chosen, cast(Any, spark), cast(Any, parts), cast(Any, versions))
    assert (found is not None) == (bool(size) and installed)
    assert made.told("a") == Residence(Held.NOT_LOADED, Wish.VIEW, off)


def test_reads_of_yesterday_count_less_and_less() -> None:
    reads = ReadCounts(days={9: 100, 10: 3})
    assert reads_lately(reads, 10 * DAY_MS) == 103
    assert reads_lately(reads, 10 * DAY_MS + DAY_MS // 4) == 78
    assert reads_lately(reads, 11 * DAY_MS + DAY_MS // 2) == 1.5
    assert reads_lately(reads, 12 * DAY_MS) == 0


def test_the_types_are_those_of_the_storage_table() -> None:
    view = replace(view_of(Version.whole(1, 0, 0, {})), columns=("Day", "n"))
    described: list[tuple[Any, ...]] = [
        *(("n", "char(3)", None), ("freshgate_version", "bigint", None), ("freshgate_partition", "date", None)),
        *(("# Partition Information", "", ""), ("# col_name", "data_type", "comment")),
        *(("freshgate_version", "bigint", None), ("freshgate_partition", "date", None)),
    ]
    assert columns_of(view, described) == [MemoryColumn("Day", "date"), MemoryColumn("n", "char(3)")]


# --- histories -------------------------------------------------------------------------------------------

IDS = "abcde"
steps = st.one_of(
    st.tuples(st.just("add"), st.sampled_from(IDS), st.integers(0, 460)),
    st.tuples(st.just("publish"), st.sampled_from(IDS), st.integers(0, 460)),
    st.tuples(st.just("remove"), st.sampled_from(IDS), st.just(0)),
    st.tuples(st.just("alter"), st.sampled_from(IDS), st.integers(0, 2)),
    st.tuples(st.just("read"), st.sampled_from(IDS), st.integers(0, 2_000)),
    st.tuples(st.just("damage"), st.sampled_from(IDS), st.just(0)),
    st.tuples(st.sampled_from(["lose", "hold", "fail", "wait", "lead"]), st.just(""), st.integers(0, 100)),
)


@settings(max_examples=150)
@given(st.lists(steps, max_size=25))
def test_in_any_history_only_right_rows_are_in_memory(history: list[tuple[str, str, int]]) -> None:
    async def story() -> None:
        async with begun() as made:
            for what, view_id, number in history:
                await _happens(made, what, view_id, number)
                for _ in range(number % 9):
                    await asyncio.sleep(0)
                made.check()
            made.spark.gate.set()
            made.spark.failure, made.fence.lost = None, None
            for _ in range(12):
                await made.settled(worker.RETRY_SECONDS_MAX)
            made.check()
            _check_complete(made)

    play(story())


async def _happens(made: HeldViews, what: str, view_id: str, number: int) -> None:
    entry = made.catalog.find(view_id)
    match what:
        case "add" if entry is None:
            made.add(view_id, number)
        case "publish" if entry is not None:
            await made.publish(view_id, number)
        case "remove" if entry is not None:
            made.catalog.remove(entry)
        case "alter" if entry is not None:
            made.alter(view_id, properties=[ASKED, REFUSED, {}][number])
        case "read" if entry is not None:
            made.now += number
            made.residency.used(view_id)
        case "damage" if entry is not None:
            entry.examine(entry.view.current.number, "its rows were changed", made.now)
            made.catalog.news.stale.tell([view_id], "")
        case "lose":
            made.engine.tables.clear()
            made.residency.lost()
        case "hold":
            made.spark.gate.clear() if number % 2 else made.spark.gate.set()
        case "fail":
            made.spark.failure = StatementFailed("no", "58030") if number % 2 else None
        case "wait":
            await made.settled(number)
        case "lead":
            made.fence.lost = "lost" if number % 2 else None


def _check_complete(made: HeldViews) -> None:
    """What is in memory is what the engine has, and every view is there that can be."""
    held = {each.held.table for each in made.residency._places.values() if each.held is not None}
    assert held == made.engine.tables.keys()
    taken = made.residency.bytes
    for entry in made.catalog.entries():
        view = entry.view
        rows = made.spark.rows[view.id, view.current.number]
        may = view.properties == ASKED and not entry.damage and rows <= LIMITS.rows
        if not may:
            assert made.rows(view.id) is None
        elif made.rows(view.id) is None:
            assert taken + rows * FakeRowEngine.ROW_BYTES > ROOM, view.id
