"""Work on the event loop: in the background, where an error of one turn is told and never the end of the work; and in
pieces, or beside it in a thread, where it would hold everybody up."""

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
"""After the first turn that fails, the second in a row, and so on."""
OVER = True
"""What the last turn returns."""
AT_ONCE = 2_000
"""Things to go through in one turn: partitions, or characters of a text. It takes a few milliseconds."""
TURN_SECONDS = 0.01
"""After so long work on the event loop lets the others go on."""


class Turn:
    """Of work on the event loop that takes long in all: `pause` between its parts."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    async def pause(self) -> None:
        """Returns at once, or, where the work has had its time, when everybody else was served."""
        if time.monotonic() - self._began > TURN_SECONDS:
            await asyncio.sleep(0)
            self._began = time.monotonic()


async def aside(size: int, function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """`function(*arguments, **named)`: of more than AT_ONCE things, in a thread. It must give the interpreter's lock
    away now and then: one call that sorts, compares or parses a hundred thousand things does not."""
    if size <= AT_ONCE:
        return function(*arguments, **named)
    return await asyncio.to_thread(function, *arguments, **named)


class BackOff:
    """Pauses between attempts at the same work: the first takes `first` seconds, each later one twice as long as the
    one before, up to `most`."""

    def __init__(self, problem: str, first: float, most: float) -> None:
        """`problem`: what an error means, for the log."""
        self._problem = problem
        self._first = first
        self._most = most
        self.reset()

    def reset(self) -> None:
        """An attempt has succeeded."""
        self._seconds, self._said = self._first, ""

    def note(self, error: Exception) -> None:
        """Logs an error that has ended an attempt: a FreshgateError if the last one said something else, any other
        error with its traceback."""
        if not isinstance(error, FreshgateError):
            log.error("%s", self._problem, exc_info=error)
        elif self._said != str(error):
            self._said = str(error)
            log.warning("%s: %s", self._problem, error)

    async def pause(self) -> None:
        """Waits before the next attempt."""
        seconds, self._seconds = self._seconds, min(2 * self._seconds, self._most)
        await asyncio.sleep(seconds)


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


class Loop:
    """A turn that is repeated in the background between `start` and `stop`, as `keep` does it."""

    def __init__(self, name: str, turn: Callable[[], Awaitable[bool | None]], every: float = 0.0) -> None:
        """`every`: how many seconds to wait after each turn."""
        self._name = name
        self._turn = turn
        self._every = every
        self._task: asyncio.Task[None] | None = None

    @property
    def running(self) -> bool:
        return self._task is not None and not self._task.done()

    def start(self) -> None:
        """From within the event loop. Does nothing if it is running."""
        if not self.running:
            self._task = keep(self._name, self._turn_and_wait)

    def cancel(self) -> None:
        """Stops without waiting for the end."""
        if self._task is not None:
            self._task.cancel()

    async def stop(self) -> None:
        """Cuts off the turn that is under way, and waits for its end."""
        self.cancel()
        if self._task is not None:
            await asyncio.wait([self._task])
            self._task = None

    async def _turn_and_wait(self) -> bool | None:
        over = await self._turn()
        if not over:
            await asyncio.sleep(self._every)
        return over


class Errands:
    """Work in tasks of its own that nobody waits for. The event loop itself holds tasks only weakly."""

    def __init__(self, what: str) -> None:
        """`what` they are, for the log of errors."""
        self._what = what
        self._tasks: set[asyncio.Task[Any]] = set()

    def begin(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        heard(task, self._what)
        return task

    async def finish(self, seconds: float) -> None:
        """Waits for what is under way, at most so long."""
        if self._tasks:
            await asyncio.wait(list(self._tasks), timeout=seconds)


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
