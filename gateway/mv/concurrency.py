"""Running coroutines to their end although the caller is cancelled, or beside other work."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import TypeVar

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
