"""Sessions of the owners of views: opened by the gateway's account, which names the owner as its proxy user."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from gateway.errors import StatementFailed
from gateway.mv.ports import OwnerRefused
from gateway.spark.client import ServerSession, SessionPool

PROXY_USER_KEY = "hive.server2.proxy.user"
IDLE_SECONDS = 60.0
"""How long a session of an owner is kept for the next refresh."""


@dataclass(slots=True)
class _Owner:
    pool: SessionPool
    lent: int = 0
    closing: asyncio.TimerHandle | None = None


class OwnerPools:
    """Implements `mv.ports.OwnerSessions`: at most `size` sessions are lent at a time, of all owners together. Idle
    ones are closed after a time, and before if those of other owners take their places.

    Tests: `test_owners`.
    """

    def __init__(self, pool_of: Callable[[str], SessionPool], size: int, idle_seconds: float = IDLE_SECONDS) -> None:
        self._pool_of = pool_of
        self._size = size
        self._idle_seconds = idle_seconds
        self._places = asyncio.Semaphore(size)
        self._owners: dict[str, _Owner] = {}
        """The one used last is the last one."""
        self._endings: set[asyncio.Task[None]] = set()

    @contextlib.asynccontextmanager
    async def session(self, owner: str, *, fresh: bool = False) -> AsyncIterator[ServerSession]:
        """Lends a session of the owner; waits while all are lent. Raises OwnerRefused, UpstreamLost."""
        async with self._places, contextlib.AsyncExitStack() as ends:
            known = self._take(owner)
            ends.callback(self._give_back, owner, known)
            try:
                session = await ends.enter_async_context(known.pool.session(fresh=fresh))
            except StatementFailed as error:
                raise OwnerRefused(owner, str(error)) from error
            yield session

    def _take(self, owner: str) -> _Owner:
        known = self._owners.pop(owner, None) or _Owner(self._pool_of(owner))
        self._owners[owner] = known
        known.lent += 1
        if known.closing is not None:
            known.closing.cancel()
            known.closing = None
        idle = [each for each, other in self._owners.items() if not other.lent]
        for other in idle[: max(len(self._owners) - self._size, 0)]:
            self._end(other)
        return known

    def _give_back(self, owner: str, known: _Owner) -> None:
        known.lent -= 1
        if not known.lent and self._owners.get(owner) is known:
            known.closing = asyncio.get_running_loop().call_later(self._idle_seconds, self._end, owner)

    def _end(self, owner: str) -> None:
        """Closes the idle sessions of an owner."""
        known = self._owners.pop(owner)
        if known.closing is not None:
            known.closing.cancel()
        ending = asyncio.ensure_future(known.pool.close())
        self._endings.add(ending)
        ending.add_done_callback(self._endings.discard)

    async def close(self) -> None:
        """Closes all idle sessions; lent ones are closed when they are returned."""
        for owner in list(self._owners):
            self._end(owner)
        await asyncio.gather(*self._endings)

    def cut_off(self) -> None:
        """Cuts off the connections of all sessions, including the lent ones."""
        for known in self._owners.values():
            known.pool.cut_off()
