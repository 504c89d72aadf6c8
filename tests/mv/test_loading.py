"""Loading the catalog: views described together turn out as they do when the metastore is asked for each."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest
from described import described_row
from fake_spark import Answer
from views import view_of

from gateway.errors import StatementFailed, UpstreamLost
from gateway.mv.catalog import loading, naming
from gateway.mv.catalog.described import TOGETHER
from gateway.mv.catalog.fence import Fence
from gateway.mv.catalog.index import Catalog
from gateway.mv.catalog.loading import Loading
from gateway.mv.catalog.settlement import Settlement
from gateway.mv.freshness.entry import Entry
from gateway.mv.model import properties as stored
from gateway.mv.model.damage import Damage
from gateway.mv.model.view import Leftover, MaterializedView, Version
from gateway.mv.ports import Metastore, Relation, RelationKind
from sql.names import TableName
from sql.texts.public_view import shown_rows
from sql.texts.storage_layout import UNPARTITIONED, Shown

DEADLINE_SECONDS = 20.0
DESCRIBE = re.compile(r"SHOW TABLE EXTENDED IN `spark_catalog`\.`(\w+)` LIKE '(.*)'")


@dataclass
class Warehouse:
    """A metastore. `asked` are the questions about single tables; `refuses` says which descriptions of many fail."""

    stored: dict[TableName, dict[str, str]] = field(default_factory=dict)
    shown: dict[TableName, str] = field(default_factory=dict)
    comments: dict[TableName, str] = field(default_factory=dict)
    asked: list[TableName] = field(default_factory=list)
    described: int = 0
    ran: list[str] = field(default_factory=list)
    refuses: Callable[[str, list[str]], Exception | None] = lambda _, names: None

    def build(self, table: str) -> MaterializedView:
        storage = TableName("s", f"d__{table}__1")
        view = replace(
            view_of(Version.whole(1, 1, 1, {})),
            id=storage.table,
            name=TableName("d", table),
            storage=storage,
            definition=naming.definition_of(storage),
            layout=UNPARTITIONED,
            followed=None,
        )
        self.stored[storage] = {**stored.write_view(view), **stored.write_published()}
        self.stored[view.definition] = {}
        self.show(view, view.name)
        return view

    def show(self, view: MaterializedView, name: TableName, version: int = 1) -> None:
        self.shown[name] = shown_rows(view.storage, view.columns, Shown.only(version), UNPARTITIONED)

    # --- ports.Metastore -----------------------------------------------------------------------------

    async def relation(self, name: TableName) -> Relation | None:
        self.asked.append(name)
        if name in self.shown:
            return Relation(name, RelationKind.VIEW, self.shown[name])
        return Relation(name, RelationKind.TABLE) if name in self.stored else None

    async def properties(self, table: TableName) -> Mapping[str, str]:
        self.asked.append(table)
        return dict(self.stored[table])

    async def check(self) -> None:
        """As a fence that is held."""

    async def databases(self) -> frozenset[str]:
        return frozenset({"d", "s"})

    async def functions(self, _: str) -> frozenset[str]:
        return frozenset()

    async def tables(self, database: str) -> frozenset[str]:
        return frozenset(table.table for table in self.stored if table.database == database)

    async def views(self, database: str) -> frozenset[str]:
        return frozenset(view.table for view in self.shown if view.database == database)

    async def run(self, sql: str) -> Answer:
        if (found := DESCRIBE.fullmatch(sql)) is None:
            self.ran.append(sql)
            return Answer()
        self.described += 1
        names = found[2].split("|")
        await asyncio.sleep(0)
        if (error := self.refuses(found[1], names)) is not None:
            raise error
        return Answer([row for name in names if (row := self._row(TableName(found[1], name))) is not None])

    def _row(self, name: TableName) -> tuple[Any, ...] | None:
        if name not in self.stored and name not in self.shown:
            return None
        comment = self.comments.get(name, "")
        return described_row(
            name.database, name.table, self.stored.get(name, {}), self.shown.get(name, ""), comment=comment
        )


@dataclass(frozen=True)
class Loaded:
    """What a catalog has after it was loaded."""

    views: tuple[MaterializedView, ...]
    damaged: frozenset[Damage]
    leftovers: frozenset[tuple[TableName, bool, tuple[int, ...]]]
    ran: tuple[str, ...]


async def reviewed(catalog: Catalog, warehouse: Warehouse, drafted: Sequence[Entry]) -> list[Leftover]:
    """Describes the views of a draft. Returns what is found to drop."""

    async def restore(*_: object) -> bool:
        return False

    leftovers: list[Leftover] = []
    catalog.news.replaced.add(lambda leftover, _: leftovers.append(leftover))
    catalog.news.leftover.add(lambda _, leftover, version: leftovers.append(leftover))
    settlement = Settlement(catalog, cast(Metastore, warehouse), cast(Fence, warehouse), restore)
    settlement.review(drafted)
    assert all(entry.drafted and entry.doubtful for entry in drafted)
    while not settlement.reviewed:  # noqa: ASYNC110 (each step of the review is a turn of the event loop)
        await asyncio.sleep(0)
    return leftovers


def load(warehouse: Warehouse) -> Loaded:
    warehouse.ran.clear()
    warehouse.asked.clear()

    async def loaded() -> tuple[Catalog, list[Leftover]]:
        catalog = Catalog("s", cast(Fence, warehouse))
        async with asyncio.timeout(DEADLINE_SECONDS):
            drafted, leftovers = await Loading(catalog, cast(Metastore, warehouse), 4).load()
            return catalog, leftovers + await reviewed(catalog, warehouse, drafted)

    catalog, leftovers = asyncio.run(loaded())
    return Loaded(
        tuple(catalog.views()),
        frozenset(catalog.damaged.values()),
        frozenset((each.storage, each.whole, tuple(version.number for version in each.versions)) for each in leftovers),
        tuple(sorted(warehouse.ran)),
    )


def refused(_: str, names: list[str]) -> Exception:
    return StatementFailed(f"Spark does not describe {len(names)} tables together.")


def of_every_kind() -> Warehouse:
    """Views as they should be, and each kind of a storage table that is not quite so."""
    warehouse = Warehouse()
    for name in ("plain", "commented", "refreshed"):
        warehouse.build(name)
    warehouse.comments[TableName("s", "d__commented__1")] = "c\nTable Properties: [freshgate.format=1]"
    warehouse.comments[TableName("d", "commented")] = "c\nView Text: SELECT 1"
    refreshed = TableName("s", "d__refreshed__1")
    second = replace(Version.whole(2, 5, 5, {}), previous=1)
    warehouse.stored[refreshed] |= stored.write_version(second, 9)
    warehouse.show(replace(view_of(second), storage=refreshed), TableName("d", "refreshed"), 2)
    gone, hidden, foreign = (warehouse.build(name) for name in ("gone", "hidden", "foreign"))
    del warehouse.shown[gone.name]
    warehouse.shown[hidden.name] = "SELECT 1 AS n"
    warehouse.stored[foreign.storage] = {"p": "a, freshgate.format=2"}
    created = warehouse.build("created")
    del warehouse.stored[created.storage]["freshgate.published"]
    unfinished = warehouse.build("unfinished")
    del warehouse.shown[unfinished.name], warehouse.stored[unfinished.storage]["freshgate.published"]
    damaged, later, unknown, alone = (warehouse.build(name) for name in ("damaged", "later", "unknown", "alone"))
    warehouse.stored[damaged.storage]["freshgate.columns"] = "x7"
    warehouse.stored[later.storage]["freshgate.format"] = "99"
    warehouse.show(unknown, unknown.name, 7)
    del warehouse.stored[alone.storage]
    moved = warehouse.build("moved")
    warehouse.stored[moved.storage] |= stored.write_move(TableName("d", "there"), 1)
    warehouse.shown[TableName("d", "there")] = warehouse.shown.pop(moved.name)
    return warehouse


def test_the_catalog_is_the_same_whether_views_are_described_together_or_not() -> None:
    together, single = of_every_kind(), of_every_kind()
    single.refuses = refused
    found = load(together)
    assert found == load(single)
    assert {view.name.table for view in found.views} == {"plain", "commented", "refreshed", "created", "there"}
    assert {damage.name.table for damage in found.damaged} == {"gone", "hidden", "damaged", "later", "unknown", "alone"}


def test_the_catalog_is_the_same_whether_views_are_described_before_they_are_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at_once, later = of_every_kind(), of_every_kind()
    expected = load(at_once)
    monkeypatch.setattr(loading, "OUTLINED_FROM", 1)
    found = load(later)
    assert found == expected
    assert later.described > at_once.described
    # Both have the name of one: only the text of the public view says whose it is.
    twins = of_every_kind()
    for table in list(twins.stored):
        if table.table.startswith("d__plain__1"):
            other = TableName("s", table.table.replace("__1", "__0"))
            twins.stored[other] = dict(twins.stored[table])
    monkeypatch.setattr(loading, "OUTLINED_FROM", 1)
    assert load(twins).views == expected.views


def test_views_as_they_should_be_are_not_asked_for_one_by_one() -> None:
    warehouse, views = Warehouse(), 2 * TOGETHER + 1
    for number in range(views):
        warehouse.build(f"v{number}")
    assert len(load(warehouse).views) == views
    assert warehouse.asked == []
    assert warehouse.described == 2 * 3


def test_only_tables_that_cannot_be_described_together_are_asked_for_one_by_one() -> None:
    """One of them was dropped since the tables were listed."""
    warehouse = Warehouse()
    for number in range(2 * TOGETHER):
        warehouse.build(f"v{number:03}")
    warehouse.refuses = lambda _, names: refused("", names) if "d__v000__1" in names else None
    assert len(load(warehouse).views) == 2 * TOGETHER
    assert len(warehouse.asked) == 2 * TOGETHER


@pytest.mark.parametrize("database", ["s", "d"])
def test_a_lost_spark_ends_the_start(database: str) -> None:
    warehouse = Warehouse()
    warehouse.build("v")
    warehouse.refuses = lambda asked, _: UpstreamLost("Spark has gone.") if asked == database else None
    with pytest.raises(UpstreamLost):
        load(warehouse)


def test_a_reload_is_as_a_start() -> None:
    """Another gateway has refreshed, renamed, dropped, created, damaged and repaired views meanwhile."""

    async def story() -> None:
        before, after = Warehouse(), Warehouse()
        for name in ("same", "refreshed", "gone", "renamed"):
            before.build(name)
        for name in ("same", "refreshed", "new"):
            after.build(name)
        second = replace(Version.whole(2, 5, 5, {}), previous=1)
        refreshed, renamed = TableName("s", "d__refreshed__1"), TableName("s", "d__renamed__1")
        after.stored[refreshed] |= stored.write_version(second, 9)
        after.show(replace(view_of(second), storage=refreshed), TableName("d", "refreshed"), 2)
        moved = after.build("renamed")
        after.stored[renamed] |= stored.write_view(replace(moved, name=TableName("d", "moved")))
        after.show(moved, TableName("d", "moved"))
        catalog = Catalog("s", cast(Fence, before))
        reading = Loading(catalog, cast(Metastore, before), 4)
        await reading.load()
        catalog.add_damage(Damage(TableName("d", "new"), TableName("s", "d__new__1"), None, "it was damaged"))
        assert {view.name.table for view in catalog.views()} == {"same", "refreshed", "gone", "renamed"}
        reading._metastore = cast(Metastore, after)
        leftovers = await reading.reload()
        fresh = Catalog("s", cast(Fence, after))
        _, expected = await Loading(fresh, cast(Metastore, after), 4).load()
        assert catalog.views() == fresh.views()
        assert [view.name.table for view in catalog.views()] == ["moved", "new", "refreshed", "same"]
        assert leftovers == expected
        assert catalog.damaged == fresh.damaged == {}
        assert catalog.named(TableName("d", "renamed")) is None

    asyncio.run(story())
