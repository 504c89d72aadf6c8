"""The picture of the catalog that all browsers share."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from page_site import PageSite

from gateway.page import survey
from gateway.page.survey import PICTURE_SECONDS, Surveyor

VIEWERS = 20


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


async def stage(clock: Clock, views: int = 3) -> tuple[PageSite, Surveyor]:
    page = PageSite()
    page.site.table("s.sales")
    for number in range(views):
        await page.site.view(f"s.v{number}", "SELECT n FROM s.sales")
    jobs: Any = page.jobs
    return page, Surveyor(page.site.catalog, jobs, clock=clock)


async def test_a_picture_is_made_at_most_once_a_second() -> None:
    clock = Clock()
    page, surveyor = await stage(clock)
    first = await surveyor.survey()
    page.site.write("s.sales")
    assert await surveyor.survey() is first
    clock.now = PICTURE_SECONDS
    again = await surveyor.survey()
    assert (first.counts, again.counts) == ({"FRESH": 3}, {"STALE": 3})


async def test_all_who_ask_meanwhile_wait_for_the_same_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(survey, "PIECE_SECONDS", -1.0)
    _, surveyor = await stage(Clock(), 10)
    gone = asyncio.create_task(surveyor.survey())
    await asyncio.sleep(0)
    found = [asyncio.create_task(surveyor.survey()) for _ in range(VIEWERS)]
    await asyncio.sleep(0)
    gone.cancel()
    first, *others = await asyncio.gather(*found)
    assert len(first.views) == 10
    assert all(each is first for each in others)


async def test_each_page_is_made_in_a_turn_of_its_own() -> None:
    _, surveyor = await stage(Clock())
    turns, made = 0, list[int]()

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def look() -> None:
        await surveyor.survey()
        made.append(turns)

    counting = asyncio.create_task(count())
    await asyncio.gather(*(look() for _ in range(VIEWERS)))
    counting.cancel()
    assert len(set(made)) == VIEWERS


async def test_views_that_change_while_the_picture_is_made_do_not_disturb_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(survey, "PIECE_SECONDS", -1.0)
    page, surveyor = await stage(Clock(), 5)
    making = asyncio.create_task(surveyor.survey())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    page.site.write("s.sales")
    found = await making
    assert [str(view.name) for view in found.views] == [f"s.v{number}" for number in range(5)]
    assert found.views[-1].freshness == "STALE"
