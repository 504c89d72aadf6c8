"""Locks of names: they exist while they are held or awaited, whether a view has the name or not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from sql.names import TableName


class NameLocks:
    """Serializes CREATE, DROP and ALTER of one name."""

    def __init__(self) -> None:
        self._locks: dict[TableName, tuple[asyncio.Lock, int]] = {}
        """Each with the number of tasks that hold or await it."""

    @asynccontextmanager
    async def of(self, *names: TableName) -> AsyncIterator[None]:
        """Locks names, always in the same order, so that callers do not deadlock."""
        async with AsyncExitStack() as stack:
            for name in sorted(set(names)):
                await stack.enter_async_context(self._of(name))
            yield

    @asynccontextmanager
    async def _of(self, name: TableName) -> AsyncIterator[None]:
        lock, users = self._locks.get(name, (asyncio.Lock(), 0))
        self._locks[name] = lock, users + 1
        try:
            async with lock:
                yield
        finally:
            lock, users = self._locks[name]
            if users == 1:
                del self._locks[name]
            else:
                self._locks[name] = lock, users - 1
