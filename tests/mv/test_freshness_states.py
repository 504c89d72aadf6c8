"""The table of transitions in docs/concepts/freshness.md, row by row, against the catalog and the inspector."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from fakes import FakeStorages
from views import SALES, SHOPS, given, view_of

from gateway.errors import StatementFailed
from gateway.mv.catalog import naming
from gateway.mv.catalog.index import Catalog
from gateway.mv.catalog.loading import Loading
from gateway.mv.freshness.entry import Entry
from gateway.mv.freshness.ledger import TablesWritten
from gateway.mv.model import properties as stored
from gateway.mv.model.contents import NEVER_BUILT, Contents
from gateway.mv.model.snapshot import Observed, Snapshot, Unobserved
from gateway.mv.model.view import Freshness, MaterializedView, Version, base_key
from gateway.mv.observation.inspection import Inspector, snapshot_of
from gateway.mv.observation.look import Look
from gateway.mv.observation.relations import Sources
from gateway.mv.ports import Relation, RelationKind
from sql.names import TableName
from sql.texts.public_view import shown_rows
from sql.texts.storage_layout import UNPARTITIONED, Shown

PAGE = (Path(__file__).parents[2] / "docs" / "concepts" / "freshness.md").read_text(encoding="utf-8")
NOBODY = cast(Any, None)
GRACE_SECONDS = 60
BELOW = "d__below__1"
VIEW = "d__v__1"


def view(view_id: str, table: TableName, below: MaterializedView | None = None) -> MaterializedView:
    """Built once, from the tables in their first state."""
    seen = {base_key(table): Snapshot("id", "1")} | ({below.id: snapshot_of(below)} if below else {})
    storage = TableName("s", view_id)
    return replace(
        view_of(
            Version.whole(1, 0, 0, {below.id: 1} if below else {}, contents=Contents(None, ((NEVER_BUILT, seen),)))
        ),
        id=view_id,
        name=TableName("d", view_id.split("__")[1]),
        query=f"SELECT * FROM {table.quoted}",
        storage=storage,
        definition=naming.definition_of(storage),
        tables=frozenset({table}),
        views=frozenset({below.id} if below else ()),
        view_names={below.id: below.name} if below else {},
        layout=UNPARTITIONED,
        followed=None,
        properties={"grace_period": "0"},
    )


class ViewAboveView:
    """d.v reads d.sales and d.below, which reads d.shops. Stands for the metastore, the observer, the relations and the
    fence as well."""

    reviewed = True
    """No view is known by a draft only."""

    def __init__(self) -> None:
        self.now_ms = 1_000
        self.lost: str | None = None
        self.seen: dict[TableName, Observed] = {table: Snapshot("id", "1") for table in (SALES, SHOPS)}
        self.below = view(BELOW, SHOPS)
        self.view = view(VIEW, SALES, self.below)
        self.catalog = self._catalog()
        self.catalog.show(self.catalog.reserve(self.below))

    def _catalog(self) -> Catalog:
        return Catalog("s", cast(Any, self), lambda: self.now_ms)

    @property
    def entry(self) -> Entry:
        return self.catalog.entry(VIEW)

    # --- what the catalog and the inspector ask ------------------------------------------------------

    async def tables(self, _: str) -> frozenset[str]:
        return frozenset({VIEW, BELOW})

    async def properties(self, table: TableName) -> Mapping[str, str]:
        each = self.view if table == self.view.storage else self.below
        return {**stored.write_view(each), **stored.write_published(), **stored.write_version(each.current, 9)}

    async def relation(self, name: TableName) -> Relation:
        each = self.view if name == self.view.name else self.below
        return Relation(name, RelationKind.VIEW, shown_rows(each.storage, each.columns, Shown.only(1), each.layout))

    def due(self, tables: Iterable[TableName], not_before: float) -> bool:
        return False

    async def observe(self, tables: Iterable[TableName], not_before: float) -> dict[TableName, Look]:
        return {table: Look(self.seen[table], not_before) for table in tables}

    async def sources_of(self, reads: object) -> Sources:
        if "sales" in repr(reads):
            return Sources(frozenset({SALES}), frozenset({BELOW}))
        return Sources(frozenset({SHOPS}))

    async def run(self, _: str) -> Any:
        raise StatementFailed("Spark describes tables only one by one.")

    # --- what happens --------------------------------------------------------------------------------

    async def create(self) -> None:
        self.catalog.show(self.catalog.reserve(self.view))

    async def create_deferred(self) -> None:
        self.view = replace(self.view, current=Version.whole(NEVER_BUILT, 0, 0, {}))
        await self.create()

    async def start(self) -> None:
        self.catalog = self._catalog()
        await Loading(self.catalog, cast(Any, self), 1).load()

    async def begin_write(self, table: TableName = SALES) -> None:
        self.write = TablesWritten(frozenset({"insert"}), frozenset({table}))
        self.catalog.writes.begin(self.write)
        self.catalog.writes.send(self.write)

    async def write_to(self, table: TableName = SALES) -> None:
        await self.begin_write(table)
        self.catalog.writes.end(self.write)

    async def write_within_grace(self) -> None:
        given(self.entry, properties={"grace_period": str(GRACE_SECONDS)})
        await self.write_to()

    async def end_grace(self) -> None:
        self.now_ms += GRACE_SECONDS * 1000

    async def check(self) -> None:
        this, storages = cast(Any, self), cast(Any, FakeStorages())
        inspector = Inspector(self.catalog, this, this, this, storages, 0)
        await inspector.check([VIEW])

    async def observe_a_change(self) -> None:
        self.seen[SALES] = Snapshot("id", "2")
        await self.check()

    async def fail_to_observe(self) -> None:
        self.seen[SALES] = Unobserved("the metastore is away")
        await self.check()

    async def write_below(self) -> None:
        await self.write_to(SHOPS)

    async def lose_sight_below(self) -> None:
        self.seen[SHOPS] = Unobserved("the metastore is away")
        await self.check()

    async def refresh(self, entry: Entry | None = None, contains: int | None = None) -> None:
        entry = entry or self.entry
        version = replace(entry.view.current, number=2, views={BELOW: 1} if entry.view.id == VIEW else {})
        async with entry.lock:
            entry.publish(version, 9, contains=entry.ledger.events if contains is None else contains)

    async def refresh_below(self) -> None:
        await self.refresh(self.catalog.entry(BELOW))

    async def write_during_refresh(self) -> None:
        began = self.entry.ledger.events
        await self.write_to()
        await self.refresh(contains=began)

    async def alter(self) -> None:
        entry = self.entry
        async with entry.lock:
            after = replace(entry.view, properties={"excluded_trigger_tables": "d.none"})
            entry.alter(after, rewritten=False, watches_others=True)

    async def doubt(self) -> None:
        self.entry.doubt()

    async def lose_the_fence(self) -> None:
        self.lost = "another gateway"


Event = Callable[[ViewAboveView], Awaitable[None]]

EVENTS: dict[str, Event] = {
    "`CREATE` builds the view": ViewAboveView.create,
    "`CREATE` with `BUILD DEFERRED`": ViewAboveView.create_deferred,
    "the gateway starts": ViewAboveView.start,
    "a write to a base table begins": ViewAboveView.begin_write,
    "a write to a base table ends": ViewAboveView.write_to,
    "a write to a base table ends, and the view has a grace period": ViewAboveView.write_within_grace,
    "the grace period ends": ViewAboveView.end_grace,
    "an observation shows a change": ViewAboveView.observe_a_change,
    "an observation shows no change": ViewAboveView.check,
    "an observation fails": ViewAboveView.fail_to_observe,
    "a view below becomes `STALE`": ViewAboveView.write_below,
    "a view below becomes `UNKNOWN`": ViewAboveView.lose_sight_below,
    "a view below is refreshed": ViewAboveView.refresh_below,
    "a refresh is published": ViewAboveView.refresh,
    "a refresh is published, and a write has ended since it began": ViewAboveView.write_during_refresh,
    "`ALTER` sets `excluded_trigger_tables`": ViewAboveView.alter,
    "the outcome of a statement that changes the public view is unknown": ViewAboveView.doubt,
    "another gateway takes over": ViewAboveView.lose_the_fence,
}

WAYS: dict[str, tuple[Event, ...]] = {
    "no view": (),
    "`FRESH`": (ViewAboveView.create,),
    "`FRESH_WITHIN_GRACE`": (ViewAboveView.create, ViewAboveView.write_within_grace),
    "`STALE`": (ViewAboveView.create, ViewAboveView.write_to),
    "`STALE` because of a noted write": (ViewAboveView.create, ViewAboveView.write_to),
    "`STALE` because of an observation": (ViewAboveView.create, ViewAboveView.observe_a_change),
    "`UNKNOWN`": (ViewAboveView.start,),
}
"""What leads to each state, from a catalog without the view."""

ROWS = re.findall(r"^\| (.+) \| (.+) \| `(\w+)` \|$", PAGE.partition("| from | event | to |")[2], re.MULTILINE)


@pytest.mark.parametrize(("before", "event", "after"), ROWS)
def test_a_row_of_the_table(before: str, event: str, after: str) -> None:
    states = [state for state in WAYS if state != "no view"] if before == "any" else before.split(", ")

    async def check(state: str) -> None:
        above = ViewAboveView()
        for step in WAYS[state]:
            await step(above)
        if state != "no view":
            assert state.startswith(f"`{above.catalog.freshness(VIEW).value}`")
        await EVENTS[event](above)
        assert above.catalog.freshness(VIEW) is Freshness(after)

    for state in states:
        asyncio.run(check(state))


def test_the_table_has_every_event_and_reaches_every_state() -> None:
    assert {event for _, event, _ in ROWS} == EVENTS.keys()
    # Nothing that happens to base tables damages stored rows.
    assert {after for _, _, after in ROWS} == {state.value for state in Freshness} - {Freshness.DAMAGED.value}
