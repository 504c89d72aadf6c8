"""A lock that those who wait for it take in turns: first the users, then the sessions of each."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

Who = tuple[str, str]
"""A user and a session."""


class FairTurns:
    """Whoever waits with many pieces of work delays another one by a single piece."""

    def __init__(self) -> None:
        self._busy = False
        self._waiting: dict[str, dict[str, deque[asyncio.Future[None]]]] = {}
        """By user and session, those whose turn comes next first."""

    @property
    def busy(self) -> bool:
        return self._busy

    @asynccontextmanager
    async def of(self, who: Who) -> AsyncIterator[None]:
        """Waits for a turn, and ends it."""
        if self._busy:
            await self._wait(who)
        self._busy = True
        try:
            yield
        finally:
            self._pass_on()

    async def _wait(self, who: Who) -> None:
        user, session = who
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(user, {}).setdefault(session, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                self._pass_on()
            raise

    def _pass_on(self) -> None:
        """Gives the turn to the next one. It stays busy, so that no text that arrives meanwhile takes the turn."""
        while self._waiting:
            user = next(iter(self._waiting))
            sessions = self._waiting.pop(user)
            session = next(iter(sessions))
            turns = sessions.pop(session)
            turn = turns.popleft()
            if turns:
                sessions[session] = turns
            if sessions:
                self._waiting[user] = sessions
            if not turn.done():
                turn.set_result(None)
                return
        self._busy = False
