"""Listings of files that are wanted at the same time."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest
from fake_spark import Answer

from gateway.errors import StatementFailed, UpstreamLost
from gateway.mv.formats import listings
from gateway.mv.formats.listings import FEW_FILES, Listings

LOCATION = re.compile(r"binaryFile\.`(.*?)`")


class Disk:
    """Its own sessions."""

    def __init__(self) -> None:
        self.listings = Listings(cast(Any, self), 60.0)
        self.texts: list[str] = []
        self.failing: dict[str, Exception] = {}
        self.answering = asyncio.Event()
        self.answering.set()
        self.reached, self.cancelled = asyncio.Event(), asyncio.Event()

    @contextlib.asynccontextmanager
    async def session(self) -> AsyncIterator[Disk]:
        yield self

    async def run(self, sql: str) -> Answer:
        if not (places := LOCATION.findall(sql)):
            return Answer([])
        self.texts.append(sql)
        self.reached.set()
        try:
            await self.answering.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        for place in places:
            if place in self.failing:
                raise self.failing[place]
        return Answer([(f"{place}/day=1", hash(place), 1, 10) for place in places])

    async def list(self, *locations: str, expected: int | None = 1) -> list[str]:
        return [part.directory for part in await self.listings.files(locations, expected)]


async def test_what_is_wanted_at_the_same_time_is_one_statement() -> None:
    disk = Disk()
    found = list(await asyncio.gather(disk.list("file:/a"), disk.list("file:/b", "file:/c"), disk.list("file:/a")))
    assert found == [["file:/a/day=1"], ["file:/b/day=1", "file:/c/day=1"], ["file:/a/day=1"]]
    assert len(disk.texts) == 1
    assert "COALESCE(1)" in disk.texts[0]
    await disk.list("file:/a")
    assert len(disk.texts) == 2


@pytest.mark.parametrize(
    ("locations", "expected"),
    [
        (("file:/a/b",), 1),
        (("file:/b",), FEW_FILES),
        (("file:/b",), None),
        (tuple(f"file:/b/{number}" for number in range(listings.LOCATIONS_TOGETHER)), 1),
    ],
    ids=["files that would be listed twice", "too many files", "unknown", "too many locations"],
)
async def test_some_listings_are_statements_of_their_own(locations: tuple[str, ...], expected: int | None) -> None:
    disk = Disk()
    found = await asyncio.gather(disk.list("file:/a"), disk.list(*locations, expected=expected))
    assert [len(each) for each in found] == [1, len(locations)]
    assert len(disk.texts) == 2
    found = await asyncio.gather(disk.list(*locations, expected=expected), disk.list("file:/a"))
    assert [len(each) for each in found] == [len(locations), 1]
    assert len(disk.texts) == 4


async def test_what_cannot_be_listed_fails_alone() -> None:
    disk = Disk()
    disk.failing["file:/b"] = StatementFailed("No FileSystem for scheme", "58030")
    first, second = await asyncio.gather(disk.list("file:/a"), disk.list("file:/b"), return_exceptions=True)
    assert first == ["file:/a/day=1"]
    assert str(second).startswith("The files at file:/b cannot be listed.")
    disk.failing["file:/b"] = StatementFailed("no such path", listings.PATH_NOT_FOUND)
    assert list(await asyncio.gather(disk.list("file:/a"), disk.list("file:/b"))) == [["file:/a/day=1"], []]
    disk.failing["file:/b"] = UpstreamLost("gone")
    lost = await asyncio.gather(disk.list("file:/a"), disk.list("file:/b"), return_exceptions=True)
    assert [type(each) for each in lost] == [UpstreamLost, UpstreamLost]


async def test_a_listing_goes_on_for_those_who_still_wait() -> None:
    disk = Disk()
    disk.answering.clear()
    first, second = (asyncio.ensure_future(disk.list(place)) for place in ("file:/a", "file:/b"))
    await asyncio.wait_for(disk.reached.wait(), 10)
    first.cancel()
    await asyncio.wait([first])
    assert not disk.cancelled.is_set()
    second.cancel()
    await asyncio.wait([second])
    await asyncio.wait_for(disk.cancelled.wait(), 10)
    # One that has not begun yet is given up, and no later one waits for it.
    third = asyncio.ensure_future(disk.list("file:/a"))
    await asyncio.sleep(0)
    third.cancel()
    disk.answering.set()
    assert await asyncio.wait_for(disk.list("file:/b"), 10) == ["file:/b/day=1"]
    assert len(disk.texts) == 2
