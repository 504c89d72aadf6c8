"""Tests how long queries of new shapes wait for others that are at Spark."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from typing import cast

import pytest

from gateway.service.memory.first_queries import AT_SPARK, FirstQueries
from gateway.service.memory.learned_shapes import MemoryKey

KEY, OTHER = (cast(MemoryKey, name) for name in ("key", "other"))


async def waiting(first: FirstQueries, key: MemoryKey = KEY) -> asyncio.Task[bool]:
    task = asyncio.create_task(first.wait(key))
    for _ in range(3):
        await asyncio.sleep(0)
    return task


async def test_the_first_ones_do_not_wait_and_later_ones_wait_for_what_is_learned() -> None:
    first = FirstQueries()
    with ExitStack() as stack:
        for _ in range(AT_SPARK):
            assert not await first.wait(KEY)
            stack.enter_context(first.at_spark(KEY))
        assert not await first.wait(OTHER)
        others = [await waiting(first) for _ in range(3)]
        first.learns(KEY)
        assert not any(each.done() for each in others)
        first.learned(KEY, anything=True)
        assert await asyncio.gather(*others) == [True] * 3
    assert not await first.wait(KEY)


async def test_while_it_is_learned_even_a_second_one_waits() -> None:
    first = FirstQueries()
    with first.at_spark(KEY):
        first.learns(KEY)
        other = await waiting(first)
    await asyncio.sleep(0)
    assert not other.done(), "The query has ended, and its plan has not."
    first.learned(KEY, anything=True)
    assert await other


async def test_if_all_have_failed_nobody_waits_any_more() -> None:
    first = FirstQueries()

    async def fails() -> None:
        with first.at_spark(KEY):
            await asyncio.sleep(0.01)
            raise ConnectionError

    failing = asyncio.gather(*(fails() for _ in range(AT_SPARK)), return_exceptions=True)
    await asyncio.sleep(0)
    other = await waiting(first)
    assert not other.done()
    await failing
    assert await other


async def test_of_what_nothing_is_learned_nobody_waits_again_until_that_may_have_changed() -> None:
    first = FirstQueries()
    with first.at_spark(KEY), first.at_spark(KEY):
        first.learns(KEY)
        first.learned(KEY, anything=False)
    with first.at_spark(KEY), first.at_spark(KEY):
        assert not await first.wait(KEY)
        first.forget()
        other = await waiting(first)
        assert not other.done()
    assert await other


@pytest.mark.parametrize("learns", [False, True])
async def test_nobody_waits_for_long(learns: bool) -> None:
    first = FirstQueries(seconds=0.01)
    with first.at_spark(KEY), first.at_spark(KEY):
        if learns:
            first.learns(KEY)
        assert await first.wait(KEY)


async def test_a_later_crowd_is_not_mixed_with_an_earlier_one() -> None:
    first = FirstQueries()
    with ExitStack() as stack:
        for _ in range(AT_SPARK):
            stack.enter_context(first.at_spark(KEY))
        first.learns(KEY)
        first.learned(KEY, anything=True)
        # What was learned has been forgotten, and those from before are still at Spark.
        with first.at_spark(KEY), first.at_spark(KEY):
            other = await waiting(first)
            stack.close()
            await asyncio.sleep(0)
            assert not other.done()
    assert await other
