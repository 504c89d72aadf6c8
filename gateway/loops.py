"""Runs background work that survives errors, and splits up or moves to a thread work that would block the event
loop."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

from gateway.errors import FreshgateError

log = logging.getLogger(__name__)

T = TypeVar("T")
P = ParamSpec("P")

BACK_OFF_SECONDS = (1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
"""Pauses after the first failed turn, the second in a row, and so on."""
OVER = True
"""A turn returns this to end the loop."""
AT_ONCE = 2_000
"""Items processed in one turn: partitions, or characters of a text. They take a few milliseconds."""
TURN_SECONDS = 0.01
"""How long work may hold the event loop before it lets others run."""


class Turn:
    """Long work on the event loop: call `pause` between its parts."""

    def __init__(self, seconds: float | None = None) -> None:
        """`seconds`: how long the work may hold the event loop; TURN_SECONDS if None."""
        self._seconds = seconds
        self._began = time.monotonic()

    async def pause(self) -> bool:
        """Returns at once, or, if the work has used its time, after the event loop has run other work. Returns whether
        it has."""
        if time.monotonic() - self._began <= (TURN_SECONDS if self._seconds is None else self._seconds):
            return False
        await asyncio.sleep(0)
        self._began = time.monotonic()
        return True


class Turnstile:
    """Lets several pass one after the other, each in a turn of the event loop of its own: those that wait for the same
    thing would otherwise all go on in one turn."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    async def enter(self) -> None:
        """Returns in a turn in which nobody else passes: the caller may work for some milliseconds."""
        async with self._lock:
            await asyncio.sleep(0)


async def in_thread(size: int, function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """Calls `function(*arguments, **named)`, in a thread if it processes more than AT_ONCE items.

    The function must release the interpreter lock now and then. One call that sorts, compares or parses a hundred
    thousand items does not.
    """
    if size <= AT_ONCE:
        return function(*arguments, **named)
    return await asyncio.to_thread(function, *arguments, **named)


class BackOff:
    """Pauses between attempts at the same work: `first` seconds after the first attempt, then twice as long each time,
    up to `most`."""

    def __init__(self, problem: str, first: float, most: float) -> None:
        """`problem`: what an error means, for the log."""
        self._problem = problem
        self._first = first
        self._most = most
        self.reset()

    def reset(self) -> None:
        """Records that an attempt has succeeded."""
        self._seconds, self._last_message = self._first, ""

    def note(self, error: Exception) -> None:
        """Logs the error of an attempt: a FreshgateError only if its message differs from the last one, any other error
        with its traceback."""
        if not isinstance(error, FreshgateError):
            log.error("%s", self._problem, exc_info=error)
        elif self._last_message != str(error):
            self._last_message = str(error)
            log.warning("%s: %s", self._problem, error)

    async def pause(self) -> None:
        """Waits until the next attempt is due."""
        seconds, self._seconds = self._seconds, min(2 * self._seconds, self._most)
        await asyncio.sleep(seconds)


def keep(name: str, turn: Callable[[], Awaitable[bool | None]]) -> asyncio.Task[None]:
    """Repeats `turn`, which waits by itself, in a task until it returns OVER or the task is cancelled.

    A turn that raises is logged with its traceback, and runs again after a pause.
    """
    return asyncio.get_running_loop().create_task(_again(name, turn), name=name)


async def _again(name: str, turn: Callable[[], Awaitable[bool | None]]) -> None:
    failures = 0
    while True:
        try:
            if await turn():
                return
            failures = 0
        except Exception:  # Whatever failed, the background work must go on.
            pause = BACK_OFF_SECONDS[min(failures, len(BACK_OFF_SECONDS) - 1)]
            failures += 1
            log.exception("%s failed (%d in a row); trying again in %g s", name, failures, pause)
            await asyncio.sleep(pause)


class Loop:
    """Repeats a turn in the background from `start` to `stop`, as `keep` does."""

    def __init__(self, name: str, turn: Callable[[], Awaitable[bool | None]], every: float = 0.0) -> None:
        """`every`: seconds to wait after each turn."""
        self._name = name
        self._turn = turn
        self._every = every
        self._task: asyncio.Task[None] | None = None

    @property
    def running(self) -> bool:
        return self._task is not None and not self._task.done()

    def start(self) -> None:
        """Starts the loop, within the event loop. Does nothing if it is already running."""
        if not self.running:
            self._task = keep(self._name, self._turn_and_wait)

    def cancel(self) -> None:
        """Stops the loop without waiting for its end."""
        if self._task is not None:
            self._task.cancel()

    async def stop(self) -> None:
        """Cancels the current turn, and waits for its end."""
        self.cancel()
        if self._task is not None:
            await asyncio.wait([self._task])
            self._task = None

    async def _turn_and_wait(self) -> bool | None:
        over = await self._turn()
        if not over:
            await asyncio.sleep(self._every)
        return over


class BackgroundTasks:
    """Runs tasks that nobody waits for, and references them, because the event loop itself holds tasks only weakly."""

    def __init__(self, what: str) -> None:
        """`what`: their description, for the log of errors."""
        self._what = what
        self._tasks: set[asyncio.Task[Any]] = set()

    def begin(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        heard(task, self._what)
        return task

    @property
    def running(self) -> int:
        """How many tasks run."""
        return len(self._tasks)

    async def finish(self, seconds: float) -> None:
        """Waits for running tasks, at most `seconds`."""
        if self._tasks:
            await asyncio.wait(list(self._tasks), timeout=seconds)


def heard(task: asyncio.Future[Any], what: str) -> None:
    """Logs the error of a task that nobody waits for when the task ends, not when it is garbage-collected."""

    def ended(done: asyncio.Future[Any]) -> None:
        if done.cancelled() or (error := done.exception()) is None:
            return
        if isinstance(error, FreshgateError):
            log.info("%s: %s", what, error)
        else:
            log.error("%s failed", what, exc_info=error)

    task.add_done_callback(ended)
