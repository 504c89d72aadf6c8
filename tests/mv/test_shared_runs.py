"""Runs that many callers share."""

from __future__ import annotations

import asyncio

import pytest

from gateway.mv.concurrency import SharedRuns


class SlowWork:
    """Runs wait until a test lets them end."""

    def __init__(self) -> None:
        self.begun = list[str]()
        self.may_end = asyncio.Semaphore(0)

    async def run(self, key: str) -> None:
        self.begun.append(key)
        await self.may_end.acquire()


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_who_calls_while_one_runs_shares_the_next() -> None:
    work = SlowWork()
    shared = SharedRuns(work.run)
    first = asyncio.create_task(shared.run("a"))
    await settled()
    others = [asyncio.create_task(shared.run("a")) for _ in range(50)]
    await settled()
    assert work.begun == ["a"]
    work.may_end.release()
    await first
    await settled()
    assert work.begun == ["a", "a"]
    assert not any(other.done() for other in others), "The first run may have seen what is older than their calls."
    work.may_end.release()
    await asyncio.gather(*others)
    assert work.begun == ["a", "a"]


async def test_keys_do_not_wait_for_each_other() -> None:
    work = SlowWork()
    shared = SharedRuns(work.run)
    tasks = [asyncio.create_task(shared.run(key)) for key in "ab"]
    await settled()
    assert work.begun == ["a", "b"]
    work.may_end.release()
    work.may_end.release()
    await asyncio.gather(*tasks)


async def test_a_cancelled_run_serves_nobody() -> None:
    work = SlowWork()
    shared = SharedRuns(work.run)
    first = asyncio.create_task(shared.run("a"))
    await settled()
    other = asyncio.create_task(shared.run("a"))
    await settled()
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    await settled()
    assert work.begun == ["a", "a"]
    work.may_end.release()
    await other
