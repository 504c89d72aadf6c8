"""Results in memory: what is kept, for how long, and that equal reads at the same time are recorded once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from gateway.service.results.recorded import Recorded
from gateway.service.results.store import ENTRY_BYTES, Found, ResultStore

VIEWS = frozenset({"v"})


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Reads:
    """Records results of a size, and counts that."""

    def __init__(self, size: int = 1_000) -> None:
        self.size = size
        self.count = 0
        self.go = asyncio.Event()
        self.go.set()

    async def __call__(self, keeps: bool) -> tuple[Recorded | None, str]:
        self.count += 1
        await self.go.wait()
        if not keeps:
            return None, "operation"
        return Recorded(b"", b"", (), self.size), "operation"


def store(entries: int = 3, clock: Clock | None = None) -> ResultStore:
    return ResultStore(entries * (1_000 + ENTRY_BYTES), 1_001, 60.0, clock or Clock())


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0)


async def test_a_result_is_given_again_until_it_is_old() -> None:
    clock, reads = Clock(), Reads()
    results = store(clock=clock)
    for now, count, known in ((0.0, 1, False), (59.0, 1, True), (61.0, 2, False)):
        clock.now = now
        found, _ = await results.get("key", VIEWS, reads)
        assert found is not None
        assert (reads.count, found.known) == (count, known)
    assert (results.counts.hits, results.counts.misses) == (1, 2)


async def test_the_least_recently_used_one_makes_room() -> None:
    results, reads = store(entries=2), Reads()
    for key in ("a", "b", "a", "c", "a"):
        await results.get(key, VIEWS, reads)
    assert reads.count == 3
    assert len(results) == 2
    assert results.counts.evictions == 1
    assert results.bytes == 2 * (1_000 + ENTRY_BYTES)
    results.clear()
    assert (len(results), results.bytes) == (0, 0)


async def test_a_view_ends_its_results() -> None:
    results, reads = store(), Reads()
    await results.get("a", frozenset({"v", "w"}), reads)
    await results.get("b", frozenset({"w"}), reads)
    results.forget("v")
    assert len(results) == 1
    results.forget("w")
    assert (len(results), results.bytes) == (0, 0)


async def test_equal_reads_at_once() -> None:
    results, reads = store(), Reads()
    reads.go.clear()
    first, *others = [asyncio.create_task(results.get("key", VIEWS, reads)) for _ in range(4)]
    await asyncio.sleep(0)
    reads.go.set()
    found, _ = await first
    assert found == Found(found.recorded) if found else False
    assert all(each is not None and each.shared for each, _ in await asyncio.gather(*others))
    assert (reads.count, results.counts.shared) == (1, 3)


@pytest.mark.parametrize("fails", [True, False])
async def test_if_the_first_has_no_result_each_reads_for_itself(fails: bool) -> None:
    results, go, count = store(), asyncio.Event(), 0

    async def read(keeps: bool) -> tuple[Recorded | None, str]:
        nonlocal count
        count += 1
        await go.wait()
        if count == 1 and fails:
            raise ValueError("it fails")
        return None, "operation"

    tasks = [asyncio.create_task(results.get("key", VIEWS, read)) for _ in range(3)]
    await asyncio.sleep(0)
    go.set()
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    assert answers[1:] == [(None, "operation")] * 2
    assert count == 3
    assert len(results) == 0


async def test_if_the_client_of_the_first_leaves_the_next_one_takes_its_place() -> None:
    results, reads = store(), Reads()
    reads.go.clear()
    tasks = [asyncio.create_task(results.get("key", VIEWS, reads)) for _ in range(5)]
    await asyncio.sleep(0)
    for number, gone in enumerate(tasks[:2], start=1):
        await until(lambda count=number: reads.count == count)  # type: ignore[misc]
        gone.cancel()
    # One that waits may leave, too.
    tasks[4].cancel()
    await until(lambda: reads.count == 3)
    reads.go.set()
    answers = [found for found, _ in await asyncio.gather(*tasks[2:4])]
    assert [each is not None and each.shared for each in answers] == [False, True]
    assert (reads.count, results.counts.shared, len(results)) == (3, 1, 1)


async def test_who_waited_for_a_result_that_is_too_large_does_not_record_it() -> None:
    results, go, kept = store(), asyncio.Event(), list[bool]()

    async def read(keeps: bool) -> tuple[Recorded | None, str]:
        kept.append(keeps)
        await go.wait()
        results.too_large("key")
        return None, "operation"

    tasks = [asyncio.create_task(results.get("key", VIEWS, read)) for _ in range(3)]
    await asyncio.sleep(0)
    go.set()
    assert await asyncio.gather(*tasks) == [(None, "operation")] * 3
    assert kept == [True, False, False]


async def test_no_more_is_recorded_at_once_than_may_be_kept() -> None:
    results, reads = ResultStore(10_000, 5_000, 60.0, Clock()), Reads()
    reads.go.clear()
    tasks = [asyncio.create_task(results.get(key, VIEWS, reads)) for key in "abc"]
    await asyncio.sleep(0)
    reads.go.set()
    answers = await asyncio.gather(*tasks)
    assert [found is None for found, _ in answers] == [False, False, True]
    assert (await results.get("c", VIEWS, reads))[0] is not None


async def test_what_clients_still_read_takes_room() -> None:
    results, reads = ResultStore(10_000, 5_000, 60.0, Clock()), Reads(size=4_000)
    found = [await results.get(key, VIEWS, reads) for key in ("a", "b")]
    results.forget("v")
    assert await results.get("c", VIEWS, reads) == (None, "operation")
    del found[0]
    assert (await results.get("c", VIEWS, reads))[0] is not None


async def test_a_large_result_is_not_kept() -> None:
    results, reads = store(entries=1), Reads(size=1_001)
    await results.get("key", VIEWS, reads)
    assert (len(results), results.bytes) == (0, 0)
    results.too_large("key")
    assert results.is_too_large("key")


async def test_nothing_that_was_begun_before_a_clearing_is_kept_or_shared() -> None:
    """A right may have been taken away meanwhile."""
    results, reads = store(), Reads()
    reads.go.clear()
    first, second = [asyncio.create_task(results.get("key", VIEWS, reads)) for _ in range(2)]
    await asyncio.sleep(0)
    results.clear()
    late = asyncio.create_task(results.get("key", VIEWS, reads))
    await asyncio.sleep(0)
    reads.go.set()
    found, other = await first
    assert found is None
    assert isinstance(other, Recorded)
    assert [each for each, _ in await asyncio.gather(second, late)] != [None, None]
    assert reads.count == 3
    assert len(results) == 1


async def test_what_nobody_asks_for_goes_when_it_is_old() -> None:
    clock, reads = Clock(), Reads()
    results = store(entries=2, clock=clock)
    await results.get("old", VIEWS, reads)
    clock.now = 40.0
    await results.get("young", VIEWS, reads)
    clock.now = 50.0
    assert (await results.get("old", VIEWS, reads))[0] is not None
    clock.now = 61.0
    await results.get("new", VIEWS, reads)
    # The young one was used before the old one, which is dead.
    found, _ = await results.get("young", VIEWS, reads)
    assert found is not None
    assert found.known
    assert results.counts.evictions == 0
    clock.now = 200.0
    results.expire()
    assert (len(results), results.bytes) == (0, 0)


async def test_memory_is_given_back_though_no_read_comes() -> None:
    results = ResultStore(100_000, 1_001, 0.0)
    await results.get("key", VIEWS, Reads())
    await until(lambda: len(results) == 0)
    assert results.bytes == 0


async def test_a_result_that_replaces_an_old_one_has_its_own_age() -> None:
    clock, reads = Clock(), Reads()
    results = store(clock=clock)
    await results.get("key", VIEWS, reads)
    results.forget("v")
    clock.now = 30.0
    await results.get("key", VIEWS, reads)
    clock.now = 70.0
    results.expire()
    assert len(results) == 1


async def test_notes_of_ages_do_not_pile_up() -> None:
    results, reads = store(clock=Clock()), Reads()
    for _ in range(3_000):
        await results.get("key", VIEWS, reads)
        results.forget("v")
    await results.get("key", VIEWS, reads)
    assert len(results._ages) <= 1_001


async def test_nothing_is_kept_or_shared_while_rights_change() -> None:
    results, reads = store(), Reads()
    await results.get("key", VIEWS, reads)
    first, second = object(), object()
    results.suspend(first)
    results.suspend(second)
    for count in (2, 3):
        assert (await results.get("key", VIEWS, reads))[0] is None
        assert reads.count == count
    results.resume(first)
    assert (await results.get("key", VIEWS, reads))[0] is None
    reads.go.clear()
    under_way = asyncio.create_task(results.get("key", VIEWS, reads))
    await asyncio.sleep(0)
    results.resume(second)
    reads.go.set()
    assert (await under_way)[0] is None
    results.resume(object())
    assert (await results.get("key", VIEWS, reads))[0] is not None
    assert len(results) == 1
