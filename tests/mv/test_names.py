"""What is said of names that are no materialized view's, or are one's no more."""

from __future__ import annotations

import pytest
from fakes import World, named
from views import given

from gateway.errors import NoSuchView
from gateway.mv.statements.free_names import Names


async def stage() -> World:
    world = World()
    world.table("s.t")
    world.spark_view("s.v", "SELECT 1")
    await world.view("s.mv", "SELECT count(*) n FROM s.t")
    return world


@pytest.mark.parametrize(
    ("name", "verb", "said"),
    [
        ("s.t", "REFRESH", "but a TABLE. REFRESH applies only to materialized views; REFRESH TABLE s.t renews"),
        ("s.v", "REFRESH", "a VIEW. REFRESH applies only to materialized views; a view always shows the current rows"),
        ("s.t", "DROP", "Use DROP TABLE s.t."),
        ("s.v", "ALTER", "Use ALTER VIEW s.v."),
        ("s.v", "SHOW CREATE", "Use SHOW CREATE TABLE s.v."),
        ("s.t", "", "SHOW MATERIALIZED VIEWS IN s lists the materialized views."),
        ("s.x", "REFRESH", "There is no materialized view s.x. See SHOW MATERIALIZED VIEWS IN s."),
        ("lake.s.t", "DROP", "There is no materialized view lake.s.t: they are in Spark's own catalog, not in lake."),
    ],
)
async def test_a_statement_about_something_else(name: str, verb: str, said: str) -> None:
    world = await stage()
    error = await Names(world.catalog, world.metastore).no_such_view(named(name), verb)
    assert said in str(error)
    assert ("DROP" in str(error)) == ("DROP" in said)


async def test_a_view_that_is_gone_is_named_and_told_from_one_that_was_replaced() -> None:
    world = await stage()
    first = world.entry("s.mv")
    await world.view("s.mv", "SELECT 2 n FROM s.t")
    with pytest.raises(NoSuchView, match=r"^The materialized view s\.mv was replaced in the meantime\."):
        world.catalog.entry(first.view.id)
    second = world.entry("s.mv")
    world.catalog.remove(second)
    for gone in (first, second):
        with pytest.raises(NoSuchView, match=r"^The materialized view s\.mv was dropped in the meantime\.$"):
            world.catalog.entry(gone.view.id)
    with pytest.raises(NoSuchView, match=r"s\.old was dropped") as other:
        world.catalog.entry("s__old__0f1aba1b")
    assert "0f1aba1b" not in str(other.value)


async def test_a_view_above_one_that_was_replaced_says_so() -> None:
    world = await stage()
    upper = await world.view("s.upper", "SELECT n FROM s.mv")
    names = world.catalog.names_of(upper.views)
    entry = world.entry("s.upper")
    given(entry, view_names=names)
    await world.view("s.mv", "SELECT 2 n FROM s.t")
    staleness = world.catalog.staleness(upper.id)
    assert staleness is not None
    assert staleness.reason == "the materialized view s.mv, which it reads, was replaced"
    assert "the materialized view s.mv was replaced" in await world.schemas.changes(world.entry("s.upper").view)
    world.catalog.remove(world.entry("s.mv"))
    staleness = world.catalog.staleness(upper.id)
    assert staleness is not None
    assert staleness.reason == "the materialized view s.mv, which it reads, was dropped"
