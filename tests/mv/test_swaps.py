"""ALTER MATERIALIZED VIEWS SWAP: the views of several pairs exchange their names at one moment."""

from __future__ import annotations

import asyncio

import pytest
from fake_spark import named
from warehouse import House, Warehouse

from gateway.errors import DefinitionRefused, FreshgateError, NoSuchView, NotAllowed, StatementFailed, UpstreamLost
from gateway.mv.catalog import naming
from gateway.mv.model import properties as stored
from sql.names import Namespace

SWAP = "ALTER MATERIALIZED VIEWS SWAP (a WITH a2, s.b WITH b2)"
NAMES = ("a", "a2", "b", "b2")
PAIRED = {"a": "a2", "a2": "a", "b": "b2", "b2": "b"}


async def staged() -> House:
    warehouse = Warehouse()
    warehouse.table("s.t")
    house = House(warehouse)
    for name in NAMES:
        await house.run(f"CREATE MATERIALIZED VIEW s.{name} AS SELECT a FROM s.t")
    return house


def shown(house: House) -> dict[str, str]:
    """The view's id that each name shows, by the metastore."""
    return {name: house.warehouse.shown(f"s.{name}").split("`")[7] for name in NAMES}


def known(house: House) -> dict[str, str]:
    """The same by the catalog."""
    return {name: house.entry(f"s.{name}").view.id for name in NAMES}


def intended(house: House) -> bool:
    """Whether a storage table still has an intention."""
    return any(
        stored.read_move(house.warehouse.things[house.entry(f"s.{name}").view.storage].properties) for name in NAMES
    )


async def test_all_names_are_exchanged() -> None:
    house = await staged()
    before = shown(house)
    await house.run(SWAP, namespace=Namespace("s"))
    assert shown(house) == known(house) == {name: before[PAIRED[name]] for name in NAMES}
    assert not intended(house)
    await house.run(SWAP, namespace=Namespace("s"))
    assert shown(house) == known(house) == before


async def test_reads_wait_until_all_names_are_exchanged() -> None:
    house = await staged()
    hold = house.warehouse.hold(r"^ALTER VIEW .*`b` AS")
    swapping = asyncio.create_task(house.run(SWAP, namespace=Namespace("s")))
    await hold.reached.wait()
    assert house.versions.readers.is_held([house.entry("s.a").view.id])
    assert house.versions.readers.is_held([house.entry("s.b2").view.id])
    hold.go.set()
    await swapping
    assert not house.versions.readers.is_held(known(house).values())


@pytest.mark.parametrize("name", NAMES)
async def test_if_spark_refuses_one_none_is_exchanged(name: str) -> None:
    house = await staged()
    before = shown(house)
    house.warehouse.failing[rf"^ALTER VIEW .*`{name}` AS"] = StatementFailed("no", "42000")
    with pytest.raises(StatementFailed):
        await house.run(SWAP, namespace=Namespace("s"))
    assert shown(house) == known(house) == before
    assert not intended(house)


@pytest.mark.parametrize("interrupted", NAMES)
async def test_what_is_interrupted_is_completed_or_undone_as_a_whole(interrupted: str) -> None:
    """As at a start: by what the metastore says alone."""
    house = await staged()
    before = shown(house)
    house.warehouse.failing[rf"^ALTER VIEW .*`{interrupted}` AS"] = UpstreamLost("gone")
    with pytest.raises(FreshgateError):
        await house.run(SWAP, namespace=Namespace("s"))
    metastore = house.views.settlement._metastore
    storages = {view_id: house.catalog.entry(view_id).view.storage for view_id in before.values()}
    for storage in reversed(storages.values()):
        await naming.settled(metastore, house.warehouse.things[storage].properties, storage)
    after = shown(house)
    assert after == (before if interrupted == "a" else {name: before[PAIRED[name]] for name in NAMES})
    found = {
        view_id: stored.read_name(house.warehouse.things[storage].properties) for view_id, storage in storages.items()
    }
    assert found == {view_id: named(f"s.{name}") for name, view_id in after.items()}


@pytest.mark.parametrize(
    ("statement", "error", "message"),
    [
        ("a WITH a2, b WITH a", DefinitionRefused, "named twice"),
        ("a WITH c", DefinitionRefused, "c reads s.a"),
        ("a WITH nothing", NoSuchView, "s.nothing"),
    ],
)
async def test_what_cannot_be_exchanged_is_refused(statement: str, error: type[Exception], message: str) -> None:
    house = await staged()
    await house.run("CREATE MATERIALIZED VIEW s.c AS SELECT a FROM s.a")
    before = shown(house)
    with pytest.raises(error, match=message):
        await house.run(f"ALTER MATERIALIZED VIEWS SWAP ({statement})", namespace=Namespace("s"))
    assert shown(house) == before


async def test_a_view_that_was_replaced_since_is_read_by_its_name() -> None:
    house = await staged()
    await house.run("CREATE MATERIALIZED VIEW s.c AS SELECT a FROM s.a")
    await house.run("CREATE OR REPLACE MATERIALIZED VIEW s.a AS SELECT a FROM s.t WHERE a > 1")
    with pytest.raises(DefinitionRefused, match=r"c reads s\.a"):
        await house.run("ALTER MATERIALIZED VIEWS SWAP (s.a WITH s.c)")


async def test_only_an_owner_may_exchange_names() -> None:
    house = await staged()
    with pytest.raises(NotAllowed):
        await house.run(SWAP, user="bob", namespace=Namespace("s"))
