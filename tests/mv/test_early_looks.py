"""Tests when observations of views in memory are renewed before reads would have to wait for that."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from typing import cast

import pytest
from fakes import FakeFence
from views import view_of

from gateway.mv.catalog.fence import Fence
from gateway.mv.catalog.index import Catalog
from gateway.mv.freshness.ledger import TablesWritten
from gateway.mv.memory.early_looks import EARLY, SECONDS_MIN, EarlyLooks
from gateway.mv.model.history import History
from gateway.mv.model.view import MaterializedView, Version
from gateway.mv.observation.inspection import Inspector
from sql.names import TableName

T = TableName("s", "t")


class Looked:
    """An inspector by whose clock the tables of the view v were observed at moment 0. A look lasts until `shown`."""

    def __init__(self, seconds: float = 30.0) -> None:
        self.seconds = seconds
        self.now, self.observed = 0.0, 0.0
        self.looks = 0
        self.shown = asyncio.Event()
        self.leads = True
        self.catalog = Catalog("storage", cast(Fence, FakeFence()))
        self.catalog.add(replace(view_of(Version.whole(1, 0, 0, {})), id="v", tables=frozenset({T})), History())
        self.early = EarlyLooks(self.catalog, cast(Inspector, self), lambda: self.leads)

    def probe_seconds(self, _: MaterializedView) -> float:
        return self.seconds

    def due(self, view_ids: Iterable[str], share: float) -> bool:
        assert list(view_ids) == ["v"]
        return self.now - self.observed > share * self.seconds

    async def check(self, view_ids: Iterable[str], *, share: float) -> None:
        assert (list(view_ids), share) == (["v"], EARLY)
        self.looks, began = self.looks + 1, self.now
        await self.shown.wait()
        self.observed = began

    async def read_at(self, now: float, times: int = 1) -> int:
        """Returns how many looks have begun."""
        self.now = now
        for _ in range(times):
            self.early.read("v")
        for _ in range(3):
            await asyncio.sleep(0)
        return self.looks


async def test_reads_have_an_observation_renewed_once_before_it_ends() -> None:
    looked = Looked()
    assert await looked.read_at(19.0) == 0
    assert await looked.read_at(21.0, times=50) == 1
    assert await looked.read_at(25.0) == 1, "It is under way."
    looked.shown.set()
    assert await looked.read_at(26.0) == 1
    assert await looked.read_at(40.0) == 1, "The observation began at 21."
    assert await looked.read_at(42.0) == 2


@pytest.mark.parametrize("seconds", [0.0, SECONDS_MIN / 2])
async def test_observations_that_are_hardly_valid_are_not_renewed(seconds: float) -> None:
    assert await Looked(seconds).read_at(100.0) == 0


async def test_nothing_is_looked_at_for_a_view_that_is_stale_or_has_gone_or_without_leading() -> None:
    looked = Looked()
    looked.leads = False
    assert await looked.read_at(25.0) == 0
    looked.leads = True
    write = TablesWritten(frozenset({"t"}), frozenset({T}))
    looked.catalog.writes.begin(write)
    looked.catalog.writes.send(write)
    looked.catalog.writes.end(write)
    assert await looked.read_at(25.0) == 0, "Its next read looks, and refreshes it."
    looked.catalog.remove(looked.catalog.entry("v"))
    assert await looked.read_at(25.0) == 0
