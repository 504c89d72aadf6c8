"""What is said of a view while a refresh of it is published: it follows from looks that are as young as was asked."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from typing import Any, cast

import pytest
from fakes import FakeStorages
from views import SALES, SHOPS, view_of

from gateway.mv.catalog.index import Catalog
from gateway.mv.formats.iceberg import ICEBERG
from gateway.mv.freshness.drift import same
from gateway.mv.freshness.entry import Entry
from gateway.mv.model.contents import NEVER_BUILT, Contents
from gateway.mv.model.snapshot import MISSING, Observed, PartitionValues, Snapshot, Unobserved
from gateway.mv.model.view import Version, base_key
from gateway.mv.observation.inspection import Inspection, Inspector
from gateway.mv.observation.look import Look
from gateway.mv.observation.relations import Sources
from gateway.mv.ports import Relation, RelationKind
from sql.names import TableName
from sql.texts import maintenance
from sql.texts.literals import safe_literal

NOBODY = cast(Any, None)
OTHER = "other"
TICKS = 20
"""Turns of the event loop, with which a comparison that waits for nothing is over."""


class TwoReaders:
    """d.v reads d.sales, d.other reads d.shops; looks at a table wait until it is shown."""

    def __init__(self) -> None:
        self.now = 0.0
        self.states = {SALES: "1", SHOPS: "1"}
        self.asked = {table: asyncio.Event() for table in self.states}
        self.shown = {table: asyncio.Event() for table in self.states}
        self._known: dict[TableName, Look] = {}
        self.catalog = Catalog("s", NOBODY)
        any_view = replace(view_of(version(1, SALES)), followed=None)
        for view_id, table in (("v", SALES), (OTHER, SHOPS)):
            view = replace(
                any_view,
                id=view_id,
                name=TableName("d", view_id),
                query=f"SELECT * FROM {table.quoted}",
                tables=frozenset({table}),
                current=version(1, table),
            )
            self.catalog.show(self.catalog.reserve(view))
        this, storages = cast(Any, self), cast(Any, FakeStorages())
        self.inspector = Inspector(self.catalog, this, this, this, storages, 0, clock=lambda: self.now)

    # --- the observer, the relations, and Spark ------------------------------------------------------

    reviewed = True
    """Nothing is only drafted."""

    async def look(self, entry: Entry) -> None:
        """Nobody is asked which version is shown."""

    def due(self, tables: Iterable[TableName], not_before: float) -> bool:
        return True

    async def observe(self, tables: Iterable[TableName], not_before: float) -> dict[TableName, Look]:
        for table in tables:
            if table not in self._known or self._known[table].began < not_before:
                began = self.now
                self.asked[table].set()
                await self.shown[table].wait()
                self._known[table] = Look(Snapshot("id", self.states[table]), began)
        return {table: self._known[table] for table in tables}

    async def sources_of(self, reads: object) -> Sources:
        return Sources(frozenset({SHOPS if "shops" in repr(reads) else SALES}))

    # --- what happens --------------------------------------------------------------------------------

    async def publish(self, number: int, looked_at: float, *, contains: int = 0) -> None:
        """A refresh of d.v that looked before d.sales changed, and began after the event `contains`."""
        async with self.entry.lock:
            self.entry.publish(version(number, SALES), 99, contains=contains, compared={SALES: looked_at})

    @property
    def entry(self) -> Entry:
        return self.catalog.entry("v")


def version(number: int, table: TableName) -> Version:
    contents = Contents(None, ((NEVER_BUILT, {base_key(table): Snapshot("id", "1")}),))
    return Version.whole(number, 0, 0, {}, contents=contents)


def check_during(act: Callable[[TwoReaders, asyncio.Task[list[str]]], Awaitable[None]]) -> None:
    """d.v must be found stale by a check from moment 10 on, in which a look shows that d.sales has changed."""

    async def story() -> None:
        two = TwoReaders()
        two.now, two.states[SALES] = 10.0, "2"
        checking = asyncio.create_task(two.inspector.check(["v", OTHER]))
        asked = asyncio.gather(two.asked[SALES].wait(), two.asked[SHOPS].wait())
        await asyncio.wait(list[asyncio.Future[Any]]([checking, asked]), return_when=asyncio.FIRST_COMPLETED)
        assert asked.done(), await checking
        await act(two, checking)
        await checking
        assert two.entry.view.current.number == 2
        assert two.entry.drift is not None
        assert two.entry.drift.tables == {base_key(SALES)}

    asyncio.run(story())


def test_a_version_that_is_published_during_a_look_may_be_older_than_it() -> None:
    async def act(two: TwoReaders, checking: asyncio.Task[list[str]]) -> None:
        await two.publish(2, looked_at=5.0)
        for event in two.shown.values():
            event.set()

    check_during(act)


def test_a_version_that_is_published_after_its_view_was_compared_may_be_older_than_that() -> None:
    """The other view's look lasts longer."""

    async def act(two: TwoReaders, checking: asyncio.Task[list[str]]) -> None:
        two.shown[SALES].set()
        for _ in range(TICKS):
            await asyncio.sleep(0)
        assert two.entry.drift is not None
        await two.publish(2, looked_at=5.0)
        two.shown[SHOPS].set()

    check_during(act)


def test_a_version_whose_refresh_has_looked_later_is_not_looked_at_again() -> None:
    async def story() -> None:
        two = TwoReaders()
        checking = asyncio.create_task(two.inspector.check(["v"]))
        await two.asked[SALES].wait()
        await two.publish(2, looked_at=5.0)
        two.shown[SALES].set()
        await checking
        assert (two.entry.drift, two.entry.compared) == (None, {SALES: 5.0})

    asyncio.run(story())


def _inspected(**observed: Observed) -> Inspection:
    return Inspection(observed, {})


PARTS: dict[PartitionValues, str] = {("a",): "1", ("b",): "2"}
BEFORE = Snapshot("t", "1", partitions=PARTS)


@pytest.mark.parametrize(
    ("before", "after", "doubted"),
    [
        (BEFORE, BEFORE, set()),
        (BEFORE, Snapshot("t", "2", partitions={**PARTS, ("a",): "3"}), {("a",)}),
        (BEFORE, Snapshot("t", "2", partitions={**PARTS, ("c",): "3"}), {("c",)}),
        (BEFORE, Snapshot("t", "2", partitions={("a",): "1"}), {("b",)}),
        (BEFORE, Snapshot("u", "1", partitions=PARTS), None),
        (BEFORE, Unobserved("it has hidden itself"), None),
        (BEFORE, MISSING, None),
        (Snapshot("t", "1"), Snapshot("t", "2"), None),
        (Snapshot("t", "v7", position="7"), Snapshot("t", "v8", position="8"), set()),
    ],
    ids=["same", "changed", "came", "went", "another table", "unobserved", "gone", "without partitions", "with a log"],
)
def test_what_came_beside_a_refresh_may_have_been_read(
    before: Snapshot, after: Observed, doubted: set[PartitionValues] | None
) -> None:
    """If it goes again before the next look, the table is as it was before the refresh, and the version is not."""
    told = _inspected(t=before).until(_inspected(t=after))["t"]
    assert before.changed(told) == doubted
    assert same(told, before) == (doubted == set())


def test_nothing_was_written_beside_a_refresh() -> None:
    assert _inspected(t=BEFORE).until(None) == {"t": BEFORE}


def test_spark_renews_its_caches_of_a_changed_table_and_of_its_files() -> None:
    """REFRESH of the table's name alone makes Spark fill a cache of rows again from the files that it knew."""

    def look(name: TableName, provider: str, location: str) -> Look:
        relation = Relation(name, RelationKind.TABLE, provider=provider, location=location)
        return Look(Snapshot("id", "1"), 0.0, relation=relation)

    ice = TableName("d", "ice", "lake")
    looks = {
        SALES: look(SALES, "parquet", "file:///w/It's/"),
        SHOPS: look(SHOPS, "parquet", "file:/w/shops"),
        ice: look(ice, ICEBERG, "file:/w/ice"),
    }
    renewed = Inspection({}, looks).renewed({base_key(SALES), base_key(ice)})
    statements = [maintenance.refresh_listing(name) for name in renewed]
    assert statements[:2] == [f"REFRESH TABLE {name.quoted}" for name in (ice, SALES)]
    assert [safe_literal("file:/w/It's") in each for each in statements[2:]] == [True]


@pytest.mark.parametrize("listed", [True, False])
def test_a_view_that_counted_as_a_table_reads_what_its_text_says(listed: bool) -> None:
    """Another program had just made it: d.sales was not in the list of Spark views."""

    class Relations(TwoReaders):
        lists: list[bool]

        async def observe(self, tables: Iterable[TableName], not_before: float) -> dict[TableName, Look]:
            view = Relation(SALES, RelationKind.VIEW, f"SELECT * FROM {SHOPS.quoted}")
            return {table: Look(Snapshot("id", "1"), self.now, is_view=True, relation=view) for table in tables}

        def is_listed(self, view: TableName) -> bool:
            return self.lists[-1]

        def forget(self, database: str) -> None:
            assert database == SALES.database
            self.lists = [True]

        async def sources_of(self, reads: object) -> Sources:
            return Sources(frozenset({SALES} if listed or self.lists == [False] else {SALES, SHOPS}))

    two = Relations()
    two.lists = [listed]
    asyncio.run(two.inspector.check(["v"]))
    drift = two.entry.drift
    assert (drift is not None and base_key(SHOPS) in drift.tables) is not listed
