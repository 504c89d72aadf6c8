"""Reads of a view of which only some partitions were built."""

from __future__ import annotations

from dataclasses import replace

from fakes import Site
from views import given

from gateway.mv.model.view import Manifest

READ = "SELECT n FROM s.mv"


async def test_it_is_not_served_as_it_is() -> None:
    site = Site()
    site.table("s.t")
    await site.view("s.mv", "SELECT count(*) n FROM s.t")
    await site.view("s.served", "SELECT 1 n FROM s.t", properties={"when_stale": "SERVE", "grace_period": "3600"})
    await site.view("s.strict", "SELECT 1 n FROM s.t", properties={"when_stale": "FAIL", "grace_period": "3600"})
    bob = await site.client("bob")
    for name in ("s.mv", "s.served", "s.strict"):
        entry = site.entry(name)
        given(entry, current=replace(entry.view.current, manifest=Manifest(0, {"a": 1})))
    await bob.execute(READ)
    assert site.refreshed == ["s.mv"]
    await bob.execute("SELECT n FROM s.served")
    assert site.refreshed == ["s.served"]
    refused = await bob.execute("SELECT n FROM s.strict")
    assert refused.sqlstate == "55000"
    assert "s.strict has been built in part only" in str(refused.error)
    entry = site.entry("s.strict")
    given(entry, current=replace(entry.view.current, manifest=Manifest(1)))
    await bob.execute("SELECT n FROM s.strict")
    assert site.spark.texts[-1] == "SELECT n FROM s.strict"
