"""Work that goes on when the client that it was begun for has gone."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from gateway import loops

T = TypeVar("T")


class Background:
    """Keeps hold of tasks until they are done: the loop itself holds them only weakly."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def keep(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Begins the work."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        loops.heard(task, "what went on for a client that has gone")
        return task

    async def finish(self, seconds: float) -> None:
        """Waits for what is under way, so long at most."""
        if self._tasks:
            await asyncio.wait(list(self._tasks), timeout=seconds)
