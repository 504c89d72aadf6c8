"""Reads of views whose stored rows were changed outside the gateway."""

from __future__ import annotations

import pytest
from fakes import Site

from gateway.monitoring import view_metrics
from gateway.mv.model.damage import changed_version
from gateway.mv.model.view import Freshness, MaterializedView, Version

CAUSE = "its stored rows were changed outside the gateway: version 1 was published with 1 file"


async def damaged(when_stale: str) -> Site:
    site = Site()
    site.table("s.t")
    await site.view("s.mv", "SELECT 1 n FROM s.t", properties={"when_stale": when_stale, "grace_period": "3600"})
    assert site.entry("s.mv").examine(1, CAUSE, 1.0)
    return site


@pytest.mark.parametrize("when_stale", ["SERVE", "FAIL"])
async def test_a_view_that_reads_do_not_refresh_is_not_read(when_stale: str) -> None:
    site = await damaged(when_stale)
    client = await site.client()
    read = await client.execute("SELECT * FROM s.mv")
    assert read.sqlstate == "58030"
    assert CAUSE in str(read.error)
    assert "Run REFRESH MATERIALIZED VIEW" in str(read.error)
    assert not site.refreshed


async def test_any_other_view_is_refreshed_first_whatever_its_grace_period() -> None:
    site = await damaged("REFRESH")
    client = await site.client()
    await client.execute("SELECT * FROM s.mv")
    assert site.refreshed == ["s.mv"]


async def test_rows_that_are_right_again_are_read() -> None:
    site = await damaged("SERVE")
    assert site.catalog.freshness(site.entry("s.mv").view.id) is Freshness.DAMAGED
    (sample,) = view_metrics.damaged(site.catalog).samples
    assert (sample.labels, sample.value) == ({"database": "s", "view": "mv"}, 1)
    assert not site.entry("s.mv").examine(1, "", 2.0)
    client = await site.client()
    await client.execute("SELECT * FROM s.mv")
    assert "SELECT * FROM s.mv" in site.spark.texts


async def test_a_transaction_is_told_if_the_rows_that_it_sees_were_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site()
    site.table("s.t")
    await site.view("s.mv", "SELECT 1 n FROM s.t")
    client = await site.client()
    await client.execute("BEGIN")
    await client.execute("SELECT * FROM s.mv")
    assert "freshgate_version = 1" in site.spark.texts[-1]

    async def check(view: MaterializedView, version: Version) -> None:
        raise changed_version(view.name, version.number)

    monkeypatch.setattr(site.inspector, "version_due", lambda *_: True)
    monkeypatch.setattr(site.inspector, "check_version", check)
    read = await client.execute("SELECT * FROM s.mv")
    assert read.sqlstate == "58030"
    assert "Version 1 of the materialized view s.mv is damaged" in str(read.error)
