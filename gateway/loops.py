"""Work that goes on in the background: an error of one turn is told, and never the end of the work."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from gateway.errors import FreshgateError

log = logging.getLogger(__name__)

BACK_OFF_SECONDS = (1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
"""After the first turn that fails, the second in a row, and so on."""
OVER = True
"""What the last turn returns."""


def keep(name: str, turn: Callable[[], Awaitable[bool | None]]) -> asyncio.Task[None]:
    """Does `turn` again and again in a task of its own, which waits within its turns, until one returns OVER or the
    task is cancelled. A turn that raises is logged with its traceback, and comes again after a pause."""
    return asyncio.get_running_loop().create_task(_again(name, turn), name=name)


async def _again(name: str, turn: Callable[[], Awaitable[bool | None]]) -> None:
    failures = 0
    while True:
        try:
            if await turn():
                return
            failures = 0
        except Exception:  # whatever it is: what is to happen later must happen all the same
            pause = BACK_OFF_SECONDS[min(failures, len(BACK_OFF_SECONDS) - 1)]
            failures += 1
            log.exception("%s: a turn failed (%d in a row); the next one comes in %g s", name, failures, pause)
            await asyncio.sleep(pause)


def heard(task: asyncio.Future[Any], what: str) -> None:
    """Nobody waits for the task: an error that ends it is logged when it does, and not when memory is collected."""

    def ended(done: asyncio.Future[Any]) -> None:
        if done.cancelled() or (error := done.exception()) is None:
            return
        if isinstance(error, FreshgateError):
            log.info("%s: %s", what, error)
        else:
            log.error("%s failed", what, exc_info=error)

    task.add_done_callback(ended)
