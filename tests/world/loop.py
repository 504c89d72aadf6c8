"""An event loop without a clock, sockets or threads: the scheduler moves the time, and a step is one callback.

asyncio's own tasks and futures run on it unchanged. Callbacks keep their order, as asyncio promises; what comes between
two of them from outside is for the scheduler to choose.
"""

from __future__ import annotations

import asyncio
import heapq
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from itertools import count
from typing import Any, cast

Callback = Callable[..., object]
WHO: ContextVar[str] = ContextVar("who", default="")
"""The process whose callback it is: one that is paused runs none."""

RATES = (1.0, 0.9, 1.1)
"""The rates of the clocks of several gateways."""


class Handle:
    """A callback that waits, as asyncio's Handle and TimerHandle."""

    __slots__ = ("_args", "_callback", "_context", "_when", "is_cancelled")

    def __init__(self, callback: Callback, args: tuple[Any, ...], context: Context | None, when: float) -> None:
        self._callback = callback
        self._args = args
        self._context = copy_context() if context is None else context
        self._when = when
        self.is_cancelled = False

    @property
    def who(self) -> str:
        return self._context.get(WHO, "")

    def run(self) -> None:
        if not self.is_cancelled:
            self._context.run(self._callback, *self._args)

    def cancel(self) -> None:
        self.is_cancelled = True

    def cancelled(self) -> bool:
        return self.is_cancelled

    def when(self) -> float:
        return self._when


class Loop(cast(Any, asyncio.AbstractEventLoop)):  # type: ignore[misc]
    """Runs nothing by itself: `step` runs the next callback that is ready, `pass_time` makes timers ready."""

    def __init__(self, now: float) -> None:
        self._began = self._now = now
        self._rates: dict[str, float] = {}
        """Of the clocks of processes, where they do not run as the world's."""
        self._ready: deque[Handle] = deque()
        self._timers: list[tuple[float, int, Handle]] = []
        self._numbers = count()
        self._held: dict[str, list[Handle]] = {}
        """The callbacks of processes that are paused."""
        self.complaints: list[dict[str, Any]] = []
        """What asyncio has to say of tasks whose errors nobody takes."""
        self.closed = False

    # --- for the scheduler -------------------------------------------------------------------------

    @property
    def ready(self) -> int:
        """Callbacks that wait for nothing."""
        return len(self._ready)

    def step(self) -> None:
        """Runs the callback that has been ready for longest, unless its process is paused."""
        handle = self._ready.popleft()
        if self._held and (held := self._held.get(handle.who)) is not None:
            held.append(handle)
        else:
            handle.run()

    @property
    def now(self) -> float:
        """The world's time."""
        return self._now

    def set_rate(self, who: str, rate: float) -> None:
        """The clock of a process runs so much faster than the world's. (Both showed the same in the beginning.)"""
        self._rates[who] = rate

    def wake(self, when: float) -> None:
        """Something happens at this moment of the world's time."""
        handle = Handle(lambda: None, (), Context(), when)
        heapq.heappush(self._timers, (when, next(self._numbers), handle))

    def pause(self, who: str) -> None:
        """As SIGSTOP: the process runs nothing, and its clocks go on."""
        self._held.setdefault(who, [])

    def resume(self, who: str) -> None:
        self._ready.extend(self._held.pop(who, ()))

    def next_timer(self) -> float | None:
        """When the next timer is due."""
        timers = self._timers
        while timers and timers[0][2].is_cancelled:
            heapq.heappop(timers)
        return timers[0][0] if timers else None

    def pass_time(self, until: float) -> None:
        """The time becomes `until`; what was due by then is ready, in its order."""
        self._now = max(self._now, until)
        timers = self._timers
        while timers and timers[0][0] <= self._now:
            _, _, handle = heapq.heappop(timers)
            if not handle.is_cancelled:
                self._ready.append(handle)

    @contextmanager
    def running(self) -> Iterator[None]:
        """While it lasts, it is the loop of this thread."""
        events._set_running_loop(self)
        try:
            yield
        finally:
            events._set_running_loop(None)

    # --- for asyncio -------------------------------------------------------------------------------

    def time(self) -> float:
        """What the clock of the process shows that asks."""
        return self._began + (self._now - self._began) * self._rate

    @property
    def _rate(self) -> float:
        return self._rates.get(WHO.get(), 1.0) if self._rates else 1.0

    def call_soon(self, callback: Callback, *args: Any, context: Context | None = None) -> Any:
        handle = Handle(callback, args, context, self._now)
        self._ready.append(handle)
        return handle

    def call_soon_threadsafe(self, callback: Callback, *args: Any, context: Context | None = None) -> Any:
        return self.call_soon(callback, *args, context=context)

    def call_later(self, delay: float, callback: Callback, *args: Any, context: Context | None = None) -> Any:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(self, when: float, callback: Callback, *args: Any, context: Context | None = None) -> Any:
        handle = Handle(callback, args, context, when)
        due = self._began + (when - self._began) / self._rate
        heapq.heappush(self._timers, (due, next(self._numbers), handle))
        return handle

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(
        self, coro: Coroutine[Any, Any, Any], *, name: str | None = None, context: Context | None = None
    ) -> asyncio.Task[Any]:
        return asyncio.Task(coro, loop=self, name=name, context=context)

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        """There are no threads: it is done at once."""
        done = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:
            done.set_exception(error)
        return done

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if not self.closed:
            self.complaints.append(context)

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return events._get_running_loop() is self

    def is_closed(self) -> bool:
        return self.closed
