"""Reads of a view of which only some partitions were built."""

from __future__ import annotations

from dataclasses import replace

from fakes import World
from views import given

from gateway.mv.model.view import Manifest

READ = "SELECT n FROM s.mv"


async def test_it_is_not_served_as_it_is() -> None:
    world = World()
    world.table("s.t")
    await world.view("s.mv", "SELECT count(*) n FROM s.t")
    await world.view("s.served", "SELECT 1 n FROM s.t", when_stale="SERVE", grace_period="3600")
    await world.view("s.strict", "SELECT 1 n FROM s.t", when_stale="FAIL", grace_period="3600")
    bob = await world.client("bob")
    for name in ("s.mv", "s.served", "s.strict"):
        entry = world.entry(name)
        given(entry, current=replace(entry.view.current, manifest=Manifest(0, {"a": 1})))
    await bob.execute(READ)
    assert world.refreshed == ["s.mv"]
    await bob.execute("SELECT n FROM s.served")
    assert world.refreshed == ["s.served"]
    refused = await bob.execute("SELECT n FROM s.strict")
    assert refused.sqlstate == "55000"
    assert "s.strict has been built in part only" in str(refused.error)
    entry = world.entry("s.strict")
    given(entry, current=replace(entry.view.current, manifest=Manifest(1)))
    await bob.execute("SELECT n FROM s.strict")
    assert world.spark.texts[-1] == "SELECT n FROM s.strict"
