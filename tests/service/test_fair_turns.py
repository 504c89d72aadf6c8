"""Tests that those who wait for long texts to be read take turns."""

from __future__ import annotations

import asyncio

import pytest

from gateway.service.routing.fair_turns import FairTurns, Who


class Work:
    """Pieces of work, which end one after the other."""

    def __init__(self) -> None:
        self.turns = FairTurns()
        self.done: list[Who] = []
        self.tasks: list[asyncio.Task[None]] = []

    async def _piece(self, who: Who) -> None:
        async with self.turns.of(who):
            await asyncio.sleep(0)
            self.done.append(who)

    async def begin(self, *whos: Who) -> None:
        self.tasks += [asyncio.ensure_future(self._piece(who)) for who in whos]
        await asyncio.sleep(0)

    async def end(self) -> list[Who]:
        await asyncio.gather(*self.tasks, return_exceptions=True)
        assert not self.turns.busy
        return self.done


EVE, BOB, ADA = ("eve", "1"), ("bob", "1"), ("ada", "1")


async def test_a_user_with_many_pieces_delays_another_by_one() -> None:
    work = Work()
    await work.begin(*[EVE] * 20, BOB, ADA)
    assert (await work.end())[:4] == [EVE, EVE, BOB, ADA]


async def test_sessions_of_a_user_take_turns() -> None:
    work = Work()
    other = "eve", "2"
    await work.begin(*[EVE] * 5, other, BOB)
    assert await work.end() == [EVE, EVE, BOB, other, EVE, EVE, EVE]


async def test_nobody_overtakes_while_a_turn_is_passed_on() -> None:
    work = Work()
    await work.begin(EVE, BOB)
    while not work.done:  # noqa: ASYNC110
        await asyncio.sleep(0)
    await work.begin(ADA)
    assert await work.end() == [EVE, BOB, ADA]


@pytest.mark.parametrize("place", [0, 1, 2, 3])
@pytest.mark.parametrize("pauses", [0, 1, 2, 3, 4])
async def test_whoever_leaves_takes_no_turn_along(place: int, pauses: int) -> None:
    work = Work()
    await work.begin(EVE, EVE, BOB, ADA)
    for _ in range(pauses):
        await asyncio.sleep(0)
    work.tasks[place].cancel()
    done = await work.end()
    assert len(done) >= 3
