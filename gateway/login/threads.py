"""Threads for checks that block. Each method has its own, so that one that does not answer holds no others.

Tests: `test_several_methods`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from functools import partial
from threading import Thread
from typing import TypeVar

from gateway.login.verifier import Unavailable

Found = TypeVar("Found")

CHECKED_TOGETHER = 8
"""Checks of a method at the same time. An argon2 hash takes 64 MiB of memory, a directory one connection."""
WAITING_MAX = 64
"""Checks that wait per thread; further ones are refused for now. A hash takes a twentieth of a second."""
ANSWER_SECONDS = 25.0
"""How long a method may take. A client has 30 seconds for its login."""


class LoginThreads:
    """At most `count` threads. They do not keep the gateway from ending."""

    def __init__(self, count: int = CHECKED_TOGETHER, answer_seconds: float = ANSWER_SECONDS) -> None:
        self._free = asyncio.Semaphore(count)
        self._running_max = (1 + WAITING_MAX) * count
        self._answer_seconds = answer_seconds
        self._running = 0

    async def run(self, check: Callable[[], Found]) -> Found:
        """What `check` returns or raises. Raises Unavailable if too many wait, or it takes too long; then its thread
        stays busy until it returns."""
        if self._running >= self._running_max:
            raise Unavailable(f"{self._running} logins are already being checked or waiting")
        found: asyncio.Future[Found] = asyncio.get_running_loop().create_future()
        self._running += 1
        try:
            async with asyncio.timeout(self._answer_seconds) as deadline:
                await self._free.acquire()
                self._start(check, found)
                return await found
        except TimeoutError:
            if not deadline.expired():
                raise
            raise Unavailable(f"no answer within {self._answer_seconds:g} seconds") from None
        finally:
            self._running -= 1

    def _start(self, check: Callable[[], Found], found: asyncio.Future[Found]) -> None:
        loop = asyncio.get_running_loop()

        def work() -> None:
            try:
                result = check()
            except BaseException as error:  # Whatever it is, the login that waits gets it.
                tell(partial(found.set_exception, error))
            else:
                tell(partial(found.set_result, result))

        def tell(outcome: Callable[[], None]) -> None:
            # The loop may have ended meanwhile.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(self._ended, found, outcome)

        try:
            Thread(target=work, name="login", daemon=True).start()
        except BaseException:  # Whatever it is, nothing runs, so the place is free again.
            self._free.release()
            raise

    def _ended(self, found: asyncio.Future[Found], outcome: Callable[[], None]) -> None:
        self._free.release()
        if not found.done():  # Otherwise nobody waits for it any more.
            outcome()
