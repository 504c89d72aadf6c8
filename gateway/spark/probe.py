"""Whether Spark answers: the smallest statement, with an end even where Spark hangs."""

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

INTERVAL_SECONDS = 5.0
"""Between two logins that Spark has answered, and after one that it has not."""
LOGIN_SECONDS = 10.0
"""For a login. One takes hundredths of a second, also where all of Spark's cores and threads are busy."""
FAILED_LOGINS_MIN = 3
"""In a row, before Spark counts as one that will not answer any more: it may be collecting garbage."""


async def ask(pool: SessionPool, seconds: float) -> None:
    """Raises FreshgateError, or TimeoutError, where Spark does not answer within so many seconds."""
    async with asyncio.timeout(seconds), pool.session() as session:
        answer = asyncio.create_task(session.run("SELECT 1"))
        try:
            await asyncio.wait([answer])
        finally:
            if not answer.done():
                # Telling a server that hangs to cancel would take as long again.
                session.spoil()
                # The broken connection's error is nobody's: the time-out has said it, and asyncio need not.
                await asyncio.gather(answer, return_exceptions=True)
        try:
            await answer
        except StatementFailed:
            # A session may be beyond help while Spark is well: the next look gets a new one.
            session.spoil()
            raise


async def log_in(endpoint: Callable[[], Awaitable[Endpoint]], user: str, password: str) -> None:
    """A client's whole way in: connects, logs in, opens a session and has it run the smallest statement.

    Spark runs it in the connection's own thread: the threads for asynchronous ones may all be taken by long statements.
    Raises UpstreamLost where Spark does not answer; returns where it does, be it by an error.
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
    """A Spark that can be started again."""

    @property
    def pid(self) -> int | None:
        """Of the process that serves; None while there is none."""

    def give_up(self, reason: str) -> None:
        """Ends that process, so that another one is started."""


class Watch:
    """Has a Spark started again that lets nobody log in for `seconds`, though its process lives."""

    def __init__(
        self,
        log_in: Callable[[], Awaitable[None]],
        engine: Restarts,
        seconds: float,
        clock: Callable[[], float],
    ) -> None:
        self._log_in = log_in
        self._engine = engine
        self._seconds = seconds
        self._clock = clock
        self._watched: int | None = None
        """The process that the failures are of."""
        self._failures = 0
        self._silent_since = 0.0
        self.loop = loops.Loop("watch of Spark", self.look, every=INTERVAL_SECONDS)

    async def look(self) -> None:
        """Tries one login. What a process that is gone by then did not answer counts against no other."""
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
        log.warning("Spark lets nobody log in since %.0f s: %s", silent, problem)
        if self._failures >= FAILED_LOGINS_MIN and silent >= self._seconds:
            self._failures = 0
            self._engine.give_up(f"it let nobody log in for {silent:.0f} seconds")
