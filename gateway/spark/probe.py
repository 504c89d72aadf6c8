"""Checks whether Spark answers, with the smallest statement and a time limit, because Spark may hang."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Protocol

from gateway import loops
from gateway.errors import StatementFailed, UpstreamLost
from gateway.spark.client import Connection, SessionPool
from gateway.wire.endpoint import Endpoint

log = logging.getLogger(__name__)

SILENT_SECONDS = 60.0
"""A Spark that accepts no login for so long hangs, and does not end by itself. A full garbage collection of a large
heap takes less."""
INTERVAL_SECONDS = 5.0
"""Pause after each login, answered or not."""
LOGIN_SECONDS = 10.0
"""Time limit of a login. It takes hundredths of a second even if all of Spark's cores and threads are busy."""
FAILED_LOGINS_MIN = 3
"""Failed logins in a row before Spark counts as dead: it may be collecting garbage."""


async def ask(pool: SessionPool, seconds: float) -> None:
    """Raises FreshgateError, or TimeoutError, if Spark does not answer within `seconds`."""
    async with asyncio.timeout(seconds), pool.session() as session:
        answer = asyncio.create_task(session.run("SELECT 1"))
        try:
            await asyncio.wait([answer])
        finally:
            if not answer.done():
                # Telling a hanging server to cancel would take as long again.
                session.spoil()
                # Retrieves the error of the broken connection, which the time-out already reports, so that asyncio does
                # not log it.
                await asyncio.gather(answer, return_exceptions=True)
        try:
            await answer
        except StatementFailed:
            # A session may be broken while Spark is well: the next check gets a new one.
            session.spoil()
            raise


async def log_in(endpoint: Callable[[], Awaitable[Endpoint]], user: str, password: str) -> None:
    """Does what a client does: connects, logs in, opens a session and runs the smallest statement.

    Spark runs it in the connection's own thread, because long statements may occupy all threads for asynchronous ones.
    Raises UpstreamLost if Spark does not answer; returns if it does, even with an error.
    """
    with contextlib.suppress(StatementFailed):
        connection = await Connection.open(await endpoint(), user, password)
        try:
            session = await connection.open_session(user=user)
            await session.execute("SELECT 1", run_async=False)
            await session.close()
        finally:
            await connection.close()


class Restarts(Protocol):
    """A Spark that can be restarted."""

    @property
    def pid(self) -> int | None:
        """The id of the serving process; None while there is none."""

    def give_up(self, reason: str) -> None:
        """Ends that process, so that another one is started."""


class LoginWatch:
    """Restarts a Spark that accepts no login for `seconds` although its process lives."""

    def __init__(
        self,
        log_in: Callable[[], Awaitable[None]],
        engine: Restarts,
        seconds: float = SILENT_SECONDS,
        *,
        clock: Callable[[], float],
    ) -> None:
        self._log_in = log_in
        self._engine = engine
        self._seconds = seconds
        self._clock = clock
        self._watched: int | None = None
        """The process that failed to answer."""
        self._failures = 0
        self._silent_since = 0.0
        self.loop = loops.Loop("watch of Spark", self.check, every=INTERVAL_SECONDS)

    async def check(self) -> None:
        """Tries one login. A failure counts only against the process that was running when the login began."""
        process, began = self._engine.pid, self._clock()
        if process is None:
            return
        try:
            async with asyncio.timeout(LOGIN_SECONDS):
                await self._log_in()
        except (UpstreamLost, TimeoutError) as error:
            problem = str(error) or f"no answer to a login within {LOGIN_SECONDS:g} seconds"
        else:
            self._failures = 0
            return
        if process != self._engine.pid:
            return
        if process != self._watched or not self._failures:
            self._watched, self._failures, self._silent_since = process, 0, began
        self._failures += 1
        silent = self._clock() - self._silent_since
        log.warning("Spark has accepted no login for %.0f s: %s", silent, problem)
        if self._failures >= FAILED_LOGINS_MIN and silent >= self._seconds:
            self._failures = 0
            self._engine.give_up(f"it accepted no login for {silent:.0f} seconds")
