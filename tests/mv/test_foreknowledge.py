"""What is believed of views that were read while another gateway led and could change them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from mv.test_loading import DEADLINE_SECONDS, Warehouse, reviewed

from gateway.mv.catalog.draft_file import DraftFile
from gateway.mv.catalog.fence import Fence
from gateway.mv.catalog.foreknowledge import judge
from gateway.mv.catalog.index import Catalog
from gateway.mv.catalog.loading import Loading
from gateway.mv.catalog.settlement import Settlement
from gateway.mv.model import properties as stored
from gateway.mv.model.view import MaterializedView
from gateway.mv.observation.inspection import Inspector
from gateway.mv.observation.relations import Relations
from gateway.mv.ports import Metastore
from sql.names import TableName


def named(text: str) -> TableName:
    database, _, table = text.partition(".")
    return TableName(database, table)


A, B, C = map(named, ("d.a", "d.b", "d.c"))


def test_what_is_still_there_is_kept() -> None:
    found = judge({"a": A, "b": B}, {"d": {"a", "b", "plain"}}, {"a", "b", "other"}, {"d": {"a", "b", "plain"}})
    assert found.kept == {"a", "b"}
    assert (*found.gone, *found.unsure, *found.appeared) == ()


def test_a_view_without_storage_is_gone_and_one_without_its_name_is_read_anew() -> None:
    found = judge({"a": A, "b": B}, {"d": {"a", "b"}}, {"b"}, {"d": {"a", "c"}})
    assert (found.gone, found.unsure, found.kept, found.appeared) == tuple(map(frozenset, ({"a"}, {"b"}, (), {C})))


def test_a_database_that_cannot_be_listed_says_nothing() -> None:
    found = judge({"a": A}, {"d": {"a"}}, {"a"}, {})
    assert found.unsure == {"a"}
    # A list from before is missing: each name of now may be new.
    assert judge({"a": A}, {}, {"a"}, {"d": {"a", "b"}}).appeared == {A, B}


Change = Callable[[Warehouse, dict[str, MaterializedView]], None]


def nothing(_: Warehouse, __: dict[str, MaterializedView]) -> None: ...


def create(warehouse: Warehouse, _: dict[str, MaterializedView]) -> None:
    warehouse.build("new")


def drop(warehouse: Warehouse, views: dict[str, MaterializedView]) -> None:
    view = views["a"]
    for table in (view.storage, view.definition):
        del warehouse.stored[table]
    del warehouse.shown[view.name]


def rename(warehouse: Warehouse, views: dict[str, MaterializedView], table: str = "z", view: str = "a") -> None:
    moved = views[view]
    warehouse.shown[TableName("d", table)] = warehouse.shown.pop(moved.name)
    warehouse.stored[moved.storage] |= stored.write_name(TableName("d", table))


def rename_in_a_chain(warehouse: Warehouse, views: dict[str, MaterializedView]) -> None:
    """So that the earlier name of one is still that of a view."""
    rename(warehouse, views, "z", "a")
    rename(warehouse, views, "a", "b")


@pytest.mark.parametrize("kept", [False, True], ids=["of a door", "of an earlier gateway"])
@pytest.mark.parametrize("change", [nothing, create, drop, rename, rename_in_a_chain])
def test_a_draft_that_is_believed_is_as_a_start(change: Change, kept: bool, tmp_path: Path) -> None:
    async def run() -> None:
        warehouse = Warehouse()
        views = {name: warehouse.build(name) for name in ("a", "b", "c")}
        catalog = Catalog("s", cast(Fence, None))
        loading = Loading(catalog, cast(Metastore, warehouse), 4)
        await loading.draft()
        if kept:
            file = DraftFile(tmp_path, "s")
            await file.write(await loading.sketch())
            catalog = Catalog("s", cast(Fence, None))
            loading = Loading(catalog, cast(Metastore, warehouse), 4)
            draft = await file.read()
            assert draft is not None
            await loading.recall(draft)
        assert warehouse.ran == []
        assert loading.drafted
        change(warehouse, views)
        before = warehouse.described
        doubted, _ = await loading.believe()
        fresh = Catalog("s", cast(Fence, None))
        described = warehouse.described - before
        await Loading(fresh, cast(Metastore, warehouse), 4).load()
        assert [view.name for view in catalog.views()] == [view.name for view in fresh.views()]
        assert {each.view.id for each in doubted} <= {view.id for view in catalog.views()}
        if change is nothing:
            assert len(doubted) == 3
            assert described == 0
        async with asyncio.timeout(DEADLINE_SECONDS):
            await reviewed(catalog, warehouse, doubted)
        assert catalog.views() == fresh.views()

    asyncio.run(run())


def drafted(warehouse: Warehouse, catalog: Catalog) -> Settlement:
    """Marks all views of the catalog as known by a draft, without describing them in the background."""

    async def restore(*_: object) -> bool:
        return False

    settlement = Settlement(catalog, cast(Metastore, warehouse), cast(Fence, warehouse), restore)
    entries = list(catalog.entries())
    for entry in entries:
        entry.distrust()
    catalog.drafts = {entry.view.id: entry for entry in entries}
    return settlement


def test_a_read_waits_until_more_than_a_draft_is_known_of_what_it_reads() -> None:
    async def run() -> None:
        warehouse = Warehouse()
        below = warehouse.build("below")
        above = warehouse.build("above")
        warehouse.stored[above.storage] |= stored.write_bases(replace(above, views=frozenset({below.id})))
        catalog = Catalog("s", cast(Fence, None))
        await Loading(catalog, cast(Metastore, warehouse), 4).load()
        settlement = drafted(warehouse, catalog)
        altered = replace(below, properties={"when_stale": "SERVE"})
        warehouse.stored[below.storage] |= stored.write_settings(altered)
        warehouse.asked.clear()
        inspector = Inspector(catalog, cast(Any, None), cast(Any, None), settlement, cast(Any, None), 0)
        assert inspector.is_drafted([above.id])
        await inspector.read_drafted([above.id])
        assert not inspector.is_drafted([above.id, below.id])
        assert catalog.entry(below.id).view.properties == altered.properties
        assert {above.storage, below.storage} <= set(warehouse.asked)
        # Nothing is asked twice.
        warehouse.asked.clear()
        await inspector.read_drafted([above.id])
        assert warehouse.asked == []

    asyncio.run(run())


def test_a_spark_view_that_shows_a_drafted_view_counts_as_that_view() -> None:
    """It was renamed since, and another view has the name that the draft says."""

    async def run() -> None:
        warehouse = Warehouse()
        view = warehouse.build("a")
        catalog = Catalog("s", cast(Fence, None))
        await Loading(catalog, cast(Metastore, warehouse), 4).load()
        warehouse.show(view, TableName("d", "z"))
        relations = Relations(catalog, cast(Metastore, warehouse))
        await relations.learn("d", frozenset())
        assert (await relations.sources(TableName("d", "z"))).views == frozenset()
        drafted(warehouse, catalog)
        relations.forget_sources()
        assert (await relations.sources(TableName("d", "z"))).views == {view.id}

    asyncio.run(run())
