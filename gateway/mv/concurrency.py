"""Running coroutines to their end although the caller is cancelled, beside other work, or once for many callers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")
K = TypeVar("K")


async def unbroken(work: Coroutine[None, None, None]) -> None:
    """Runs a few short metastore calls to their end, even if the waiting client has gone or cancels."""
    task = asyncio.ensure_future(work)
    stopped: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            # A client that cancels may then disconnect, which cancels again.
            stopped = error
    if stopped is not None:
        if not task.cancelled():
            task.exception()  # Marks the exception as retrieved.
        raise stopped
    await task


async def gathered(works: Iterable[Coroutine[None, None, T]]) -> list[T]:
    """Runs these concurrently and returns their results in order. If one fails, cancels the others."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def both(first: Coroutine[None, None, K], second: Coroutine[None, None, T]) -> tuple[K, T]:
    """As `gathered`, for two."""
    one, other = asyncio.ensure_future(first), asyncio.ensure_future(second)
    try:
        return await asyncio.gather(one, other)
    finally:
        one.cancel()
        other.cancel()
        await asyncio.gather(one, other, return_exceptions=True)


async def together(keys: Iterable[K], work: Callable[[K], Coroutine[None, None, T]]) -> dict[K, T]:
    """As `gathered`, for the work of each key."""
    listed = list(keys)
    return dict(zip(listed, await gathered(map(work, listed)), strict=True))


@asynccontextmanager
async def beside(work: Coroutine[None, None, None]) -> AsyncIterator[None]:
    """Runs `work` concurrently with the body, and waits for it at the end. If the body fails, cancels it."""
    task = asyncio.create_task(work)
    try:
        yield
        await task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


class SharedRuns(Generic[K]):
    """Runs the same work for many callers: a run serves all who called before it began. Who calls while one runs waits
    for the next, because the one that runs may have seen what is older than the call."""

    def __init__(self, work: Callable[[K], Coroutine[None, None, None]]) -> None:
        """`work` does not raise: each of its callers would run it again."""
        self._work = work
        self._lines: dict[K, _Line] = {}

    async def run(self, key: K) -> None:
        """Returns when the work for this key has been done by a run that began after this call."""
        line = self._lines.setdefault(key, _Line())
        line.waiting += 1
        called = line.started
        try:
            async with line.turn:
                if line.done <= called:
                    line.started = number = line.started + 1
                    await self._work(key)
                    line.done = number
        finally:
            line.waiting -= 1
            if not line.waiting:
                del self._lines[key]


@dataclass(slots=True)
class _Line:
    """The callers for one key. Runs are numbered from 1."""

    waiting: int = 0
    started: int = 0
    """The last run that has begun."""
    done: int = 0
    """The last run that has ended, and was not cancelled."""
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
