"""The gateway's own connections to Spark with clients' logins, which are reused.

Opening a connection takes Spark milliseconds, and a client that closes a session usually opens another one soon.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from math import inf
from weakref import WeakKeyDictionary

from gateway import loops
from gateway.service.clients.side_connections import SideConnection, SideConnector
from gateway.wire.sasl import Login

KEPT_SECONDS = 10.0
KEPT_MAX = 32
"""Each kept connection holds one of Spark's 500 threads."""
KEPT_MAX_PER_LOGIN = 8
SPARE_MAX = 32
"""Most connections in use for requests that Spark may hold for seconds; further requests wait."""
CLOSE_SECONDS = 5.0
"""Time for closing the kept connections when the gateway stops."""


class Sides:
    """Opens connections, and keeps returned ones for clients with the same login.

    `trusted_seconds`: how long a connection is reused after Spark checked its password. 0: never.
    """

    def __init__(self, upstream: SideConnector, trusted_seconds: float) -> None:
        self._upstream = upstream
        self._trusted_seconds = trusted_seconds
        self._made: WeakKeyDictionary[SideConnection, float] = WeakKeyDictionary()
        self._kept: dict[SideConnection, tuple[Login, asyncio.TimerHandle]] = {}
        self._of_login: Counter[Login] = Counter()
        self._closings = loops.BackgroundTasks("closing a connection to Spark")
        self._closed = False
        self._spare = asyncio.Semaphore(SPARE_MAX)

    @asynccontextmanager
    async def spare(self, login: Login, at: str | None = None) -> AsyncIterator[SideConnection]:
        """Lends a connection for a request that Spark may hold for seconds. Raises what `connect` raises."""
        async with self._spare:
            side = await self.connect(login, at=at)
            try:
                yield side
            finally:
                await self.give_back(login, side)

    async def connect(self, login: Login, *, ask: bool = False, at: str | None = None) -> SideConnection:
        """Like `SideConnector.connect`. `ask`: over a new connection, so that Spark checks the password."""
        if not ask and (kept := self._take(login, at)) is not None:
            return kept
        asked = asyncio.get_running_loop().time()
        side = await self._upstream.connect(login, ask=ask, at=at)
        self._made[side] = asked
        return side

    def _take(self, login: Login, at: str | None) -> SideConnection | None:
        """The newest kept connection, so that the older ones expire."""
        kept = [side for side, (known, _) in reversed(self._kept.items()) if known == login and at in (None, side.at)]
        for side in kept:
            self._remove(side)
            if side.alive:
                return side
            self._close(side)
        return None

    async def give_back(self, login: Login, side: SideConnection) -> None:
        """Takes back a connection that is no longer needed, and on which nothing depends at Spark."""
        full = len(self._kept) >= KEPT_MAX or self._of_login[login] >= KEPT_MAX_PER_LOGIN
        loop = asyncio.get_running_loop()
        seconds = min(KEPT_SECONDS, self._made.get(side, -inf) + self._trusted_seconds - loop.time())
        if self._closed or full or side.busy or not side.alive or seconds <= 0:
            await side.close()
            return
        self._kept[side] = login, loop.call_later(seconds, self._expire, side)
        self._of_login[login] += 1

    def _remove(self, side: SideConnection) -> None:
        login, timer = self._kept.pop(side)
        timer.cancel()
        self._of_login[login] -= 1
        if not self._of_login[login]:
            del self._of_login[login]

    def _expire(self, side: SideConnection) -> None:
        self._remove(side)
        self._close(side)

    def _close(self, side: SideConnection) -> None:
        self._closings.begin(side.close())

    async def close(self) -> None:
        """Closes the kept connections. Connections that are returned later are closed at once."""
        self._closed = True
        for side in list(self._kept):
            self._expire(side)
        await self._closings.finish(CLOSE_SECONDS)
