"""Which views with stale partitions answer queries on base tables."""

from __future__ import annotations

from typing import Any

import pytest
from fake_spark import Answer
from partitioned_warehouse import PartitionedWarehouse
from views import given
from warehouse import House, WarehouseSession

from gateway.mv.freshness.drift import Drift
from gateway.mv.freshness.ledger import TablesWritten
from gateway.mv.refresh.habits import Habits
from gateway.mv.rewriting.partly_stale import STALE_MAX, TOO_MANY, WRITTEN, Mixture, PartlyStale
from sql.names import Namespace, TableName
from sql.texts.storage_layout import StorageLayout

DAYS = 30
BASE = TableName("s", "t")


class Warehouse(PartitionedWarehouse):
    """Records the texts."""

    def answer(self, sql: str, namespace: Namespace) -> Answer:
        self.texts.append(sql)
        return super().answer(sql, namespace)


class Place:
    """A gateway with the view s.m, whose partitions follow those of s.t."""

    def __init__(self, days: int = DAYS, *, enabled: bool = True) -> None:
        self.warehouse = Warehouse(days)
        self.house = House(self.warehouse)
        self.house.views.inspector._probe_seconds = 0.0
        views, refreshes, habits = self.house.views, self.house.refreshes, Habits()
        self.partly = PartlyStale(
            views.catalog,
            views.inspector,
            views.schemas,
            refreshes.proposer,
            refreshes.planning.surroundings,
            habits,
            enabled=enabled,
        )

    @classmethod
    async def built(cls, days: int = DAYS, *, enabled: bool = True) -> Place:
        place = cls(days, enabled=enabled)
        await place.house.run("CREATE MATERIALIZED VIEW s.m PARTITION BY (day) AS SELECT a, day FROM s.t")
        return place

    @property
    def entry(self) -> Any:
        return self.house.entry("s.m")

    def begin(self, words: str = "insert into s t") -> TablesWritten:
        write = TablesWritten(frozenset(words.split()), frozenset({BASE}))
        self.house.catalog.writes.begin(write)
        self.house.catalog.writes.send(write)
        return write

    def asked(self) -> list[str]:
        """What Spark was asked to find the stale partitions, besides observations."""
        texts, storage = self.warehouse.texts, self.entry.view.storage.quoted
        return [text for text in texts if "partitions(value)" in text or text == f"SHOW PARTITIONS {storage}"]

    async def found(self) -> Mixture | str:
        await self.house.views.inspector.check([self.entry.view.id])
        return await self.partly.of(self.entry.view.id)

    async def mixture(self) -> Mixture:
        found = await self.found()
        assert isinstance(found, Mixture), found
        return found


async def test_the_stale_partitions_are_computed_anew() -> None:
    place = await Place.built()
    place.warehouse.write_days(2)
    found = await place.mixture()
    assert found.reason == "2 of 30 partitions are stale and are computed anew"
    view = place.entry.view
    assert found.relation == (
        f"(SELECT `a`, `day` FROM {view.name.quoted} "
        "WHERE NOT coalesce(`day` IN ('d000000', 'd000001'), false) "
        f"UNION ALL SELECT `a`, `day` FROM {view.definition.quoted} WHERE (`day` IN ('d000000', 'd000001')))"
    )


async def test_partitions_that_appeared_or_vanished() -> None:
    place = await Place.built()
    place.warehouse.days["new"] = 0
    del place.warehouse.days["d000007"]
    found = await place.mixture()
    assert found.relation.count("'d000007', 'new'") == 2
    assert found.reason == "2 of 31 partitions are stale and are computed anew"


async def test_one_partition() -> None:
    place = await Place.built()
    place.warehouse.write_days(1)
    assert (await place.mixture()).reason == "1 of 30 partitions is stale and is computed anew"


async def test_spark_is_asked_once_for_each_change() -> None:
    place = await Place.built()
    place.warehouse.write_days(1)
    first = await place.mixture()
    assert place.asked()
    place.warehouse.texts.clear()
    assert (await place.mixture()).relation == first.relation
    assert not place.asked()
    place.warehouse.write_days(2)
    assert (await place.mixture()).stale == 2
    assert place.asked()


async def test_nothing_is_written() -> None:
    place = await Place.built()
    place.warehouse.write_days(2)
    place.warehouse.texts.clear()
    await place.mixture()
    assert place.warehouse.texts
    assert not [text for text in place.warehouse.texts if text.split()[0] in {"INSERT", "ALTER", "CREATE"}]


async def test_it_is_off_by_default() -> None:
    place = await Place.built(enabled=False)
    place.warehouse.write_days(1)
    assert await place.found() == "the view is not fresh"


@pytest.mark.parametrize(("days", "written"), [(DAYS, 16), (STALE_MAX * 3, STALE_MAX + 1)])
async def test_too_many(days: int, written: int) -> None:
    place = await Place.built(days)
    place.warehouse.write_days(written)
    assert await place.found() == TOO_MANY


async def test_half_of_them() -> None:
    place = await Place.built()
    place.warehouse.write_days(15)
    assert (await place.mixture()).stale == 15


@pytest.mark.parametrize(
    "drift",
    [
        Drift(wholly=frozenset({"s.t"}), followed="s.t"),
        Drift(frozenset({("d000001",)}), behind=((0, frozenset({"s.u"})),), followed="s.t"),
        Drift(frozenset({("d000001",)}), unobserved={"s.u": "it is far away"}, followed="s.t"),
        Drift(frozenset({("d000001",)}), unknown="nobody looked", followed="s.t"),
    ],
)
async def test_what_cannot_be_attributed_to_partitions(drift: Drift) -> None:
    place = await Place.built()
    entry = place.entry
    entry.compare(drift, entry.ledger.events, {BASE: 1.0}, 1)
    assert not isinstance(await place.partly.of(entry.view.id), Mixture)


@pytest.mark.parametrize(
    "fields",
    [
        {"followed": None},
        {"views": frozenset({"another"})},
        {"properties": {"partition_sync_limit": "3"}},
        {"properties": {"excluded_trigger_tables": "t"}},
        {"layout": StorageLayout("day", "string collate UTF8_LCASE", "CAST({} AS STRING)")},
        {"layout": StorageLayout("day", "double", "CAST({} AS STRING)")},
        {"layout": StorageLayout("day", "timestamp", "CAST({} AS STRING)", time_zone="Asia/Tokyo")},
    ],
)
async def test_unsuitable_views(fields: dict[str, Any]) -> None:
    place = await Place.built()
    place.warehouse.write_days(1)
    await place.mixture()
    given(place.entry, **fields)
    assert isinstance(await place.partly.of(place.entry.view.id), str)


# --- writes through the gateway --------------------------------------------------------------------------------


async def test_a_write_under_way_and_one_that_has_ended() -> None:
    """Its rows may be in the stale partitions already, and not in the fresh ones."""
    place = await Place.built()
    write = place.begin()
    place.warehouse.write_days(1)
    assert await place.found() == WRITTEN
    place.house.catalog.writes.end(write)
    assert await place.partly.of(place.entry.view.id) == WRITTEN  # Not observed since.
    assert (await place.mixture()).stale == 1


async def test_an_answer_holds_until_the_next_write_begins() -> None:
    place = await Place.built()
    place.warehouse.write_days(1)
    found = await place.mixture()
    assert place.partly.holds(found)
    write = place.begin()
    assert not place.partly.holds(found)
    place.house.catalog.writes.end(write)
    assert not place.partly.holds(found)
    assert place.partly.holds(await place.mixture())


async def test_an_answer_does_not_hold_if_another_change_is_seen() -> None:
    place = await Place.built()
    place.warehouse.write_days(1)
    found = await place.mixture()
    place.warehouse.write_days(3)
    await place.house.views.inspector.check([place.entry.view.id])
    assert not place.partly.holds(found)


async def test_an_answer_holds_if_the_view_is_refreshed() -> None:
    """The fresh partitions have the same rows in the next version."""
    place = await Place.built()
    place.warehouse.write_days(1)
    found = await place.mixture()
    await place.house.run("REFRESH MATERIALIZED VIEW s.m AUTO")
    assert place.partly.holds(found)
    assert isinstance(await place.found(), str)


async def test_an_answer_does_not_hold_if_the_view_is_replaced() -> None:
    place = await Place.built()
    place.warehouse.write_days(1)
    found = await place.mixture()
    await place.house.run("DROP MATERIALIZED VIEW s.m")
    assert not place.partly.holds(found)


async def test_the_session_reads_the_base_tables_as_they_are() -> None:
    place = await Place.built()
    place.warehouse.write_days(1)
    found = await place.mixture()
    place.warehouse.texts.clear()
    await place.partly.prepare(found, WarehouseSession(place.warehouse, Namespace()))
    assert place.warehouse.texts == [f"REFRESH TABLE {place.entry.view.definition.quoted}"]
