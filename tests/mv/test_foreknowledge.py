"""What is believed of views that were read while another gateway led and could change them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest
from test_loading import DEADLINE_SECONDS, Warehouse, reviewed

from gateway.mv.catalog.draft_file import DraftFile
from gateway.mv.catalog.fence import Fence
from gateway.mv.catalog.foreknowledge import judge
from gateway.mv.catalog.index import Catalog
from gateway.mv.catalog.loading import Loading
from gateway.mv.model import properties as stored
from gateway.mv.model.view import MaterializedView
from gateway.mv.ports import Metastore
from sql.names import TableName


def named(text: str) -> TableName:
    database, _, table = text.partition(".")
    return TableName(database, table)


A, B, C = map(named, ("d.a", "d.b", "d.c"))


def test_what_is_still_there_is_kept() -> None:
    found = judge({"a": A, "b": B}, {"d": {"a", "b", "plain"}}, {"a", "b", "other"}, {"d": {"a", "b", "plain"}})
    assert found.kept == {"a", "b"}
    assert (found.gone, found.unsure, found.appeared) == (set(), set(), set())


def test_a_view_without_storage_is_gone_and_one_without_its_name_is_read_anew() -> None:
    found = judge({"a": A, "b": B}, {"d": {"a", "b"}}, {"b"}, {"d": {"a", "c"}})
    assert (found.gone, found.unsure, found.kept, found.appeared) == ({"a"}, {"b"}, set(), {C})


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
