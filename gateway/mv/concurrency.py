"""Two pieces of work at a time, of which neither is left alone when the other fails or is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager


async def unbroken(work: Coroutine[None, None, None]) -> None:
    """Does work of a few short metastore calls to its end, even where the waiting client has gone or cancels."""
    task = asyncio.ensure_future(work)
    stopped: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            # Who cancels once may leave afterwards, which cancels again.
            stopped = error
    if stopped is not None:
        if not task.cancelled():
            task.exception()  # marks it as seen
        raise stopped
    await task


@asynccontextmanager
async def beside(work: Coroutine[None, None, None]) -> AsyncIterator[None]:
    """Does `work` while the body runs, and has it done when the body's end is reached. The body's failure stops it."""
    task = asyncio.create_task(work)
    try:
        yield
        await task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
