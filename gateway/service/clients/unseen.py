"""Statements at Spark whose end nobody has seen, though others must know of it: they write, or change what names mean.

A client need not ask for the status of what it has begun. Spark holds the question whether a statement has ended until
it has, for some seconds at most; so of a question that it holds it is known that the statement runs, and who must know
more than once leaves one open (`Unseen._ask`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager

from gateway.errors import FreshgateError
from gateway.service.clients.side_connections import SideConnection
from gateway.service.operations import ends
from gateway.service.operations.operation import End, ForwardedOperation
from gateway.wire import request
from gateway.wire.frame import WireError
from sql.words import Words

WAIT_SECONDS = 1.0
"""Since a statement was sent, for its end before the session's next one is looked at: USE and CREATE TEMPORARY VIEW
take milliseconds. For an answer of Spark's, too."""
HELD_SECONDS = 0.2
"""A question that has not been answered for so long is held by Spark: the statement runs."""
PAUSE_SECONDS = 0.5
"""Between two questions, where Spark does not hold them."""
IDLE_SECONDS = 30.0
"""A question is not asked again that nobody has wanted answered for so long."""


class Unseen:
    """One such statement. `spare` lends a connection to Spark of which its session makes no use."""

    def __init__(
        self,
        spare: Callable[[], AbstractAsyncContextManager[SideConnection]],
        *,
        moves: bool = False,
        words: Words = frozenset(),
    ) -> None:
        self._spare = spare
        self.moves = moves
        """It may change the current database, or catalog."""
        self.words = words
        """Its identifiers."""
        self.over = False
        self._began = time.monotonic()
        self._operation: ForwardedOperation | None = None
        self._open: dict[object, float] = {}
        """Questions that Spark has not answered, by who asks, and since when."""
        self._answered_since = 0.0
        """When the last question was asked that Spark has answered."""
        self._news: asyncio.Event | None = None
        self._asking: asyncio.Task[None] | None = None
        self._wanted = self._failed = 0.0
        """When somebody last wanted to know, and when a question last came to no answer."""

    # --- what is heard of it -----------------------------------------------------------------------

    def started(self, operation: ForwardedOperation) -> None:
        """Spark has begun it; what is asked about the operation is told here."""
        self._operation = operation
        operation.unseen = self
        self._tell()

    def asked(self, who: object) -> None:
        """Spark is asked whether it has ended."""
        self._open[who] = time.monotonic()
        self._tell()

    def answered(self, who: object) -> None:
        """Spark has answered, or the answer will never come."""
        self._answered_since = max(self._answered_since, self._open.pop(who, 0.0))
        self._tell()

    def end(self, _: End) -> None:
        """Its end is known, or will never be."""
        self.over = True
        if self._asking is not None and self._asking is not asyncio.current_task():
            self._asking.cancel()
        self._tell()

    def _tell(self) -> None:
        news, self._news = self._news, None
        if news is not None:
            news.set()

    # --- asking ------------------------------------------------------------------------------------

    @property
    def known(self) -> bool:
        """What has become of it by now is known: it has ended, runs, or the reply to it, which tells more, is due."""
        return self.over or self._operation is None or self._held_since() + HELD_SECONDS <= time.monotonic()

    def _held_since(self) -> float:
        return min(self._open.values(), default=float("inf"))

    async def look(self) -> bool:
        """Finds out whether it has ended. False where Spark does not say."""
        came = self._wanted = time.monotonic()
        self._tell()
        while not self.known and max(self._answered_since, self._failed) < came:
            left = min(self._held_since() + HELD_SECONDS, came + WAIT_SECONDS) - time.monotonic()
            if left <= 0:
                break
            self._ask()
            await self._wait(left)
        return self.known or self._answered_since >= came

    async def settle(self) -> None:
        """Waits for its end until WAIT_SECONDS after it was sent; later it is only looked whether that has come."""
        await self.look()
        while not self.over and (left := self._began + WAIT_SECONDS - time.monotonic()) > 0:
            self._ask()
            await self._wait(left)

    async def _wait(self, seconds: float) -> None:
        if self._news is None:
            self._news = asyncio.Event()
        news = self._news
        try:
            async with asyncio.timeout(seconds):
                await news.wait()
        except TimeoutError:
            return

    def _ask(self) -> None:
        """Leaves a question open, unless one is, or Spark could not be asked just now."""
        is_asked = bool(self._open) or self._asking is not None or self._failed >= self._wanted
        if self._operation is not None and not is_asked:
            self._asking = asyncio.get_running_loop().create_task(self._keep_asking(self._operation))

    async def _keep_asking(self, operation: ForwardedOperation) -> None:
        try:
            async with self._spare() as side:
                # A Spark that does not answer this is not one that holds the question.
                await side.forward(request.unknown())
                await self._ask_over(side, operation)
        except (FreshgateError, WireError):
            return
        finally:
            self._asking, self._failed = None, time.monotonic()
            self.answered(self)

    async def _ask_over(self, side: SideConnection, operation: ForwardedOperation) -> None:
        question = request.operation_status(operation.handle)
        while not operation.ended and time.monotonic() - self._wanted < IDLE_SECONDS:
            asked = time.monotonic()
            self.asked(self)
            answer = await side.forward(question)
            if operation.ended:
                return
            if ends.status_seen(operation, answer) is None:
                # Spark does not know it any more.
                operation.end(End.UNKNOWN)
            self.answered(self)
            if time.monotonic() - asked < HELD_SECONDS and not operation.ended:
                await self._wait_until_wanted()

    async def _wait_until_wanted(self) -> None:
        """A server that does not hold questions is asked again when somebody wants to know, or after a while."""
        before = self._wanted
        deadline = time.monotonic() + PAUSE_SECONDS
        while self._wanted == before and (left := deadline - time.monotonic()) > 0:
            await self._wait(left)


async def settle(statements: Iterable[Unseen]) -> None:
    """All of them, at one time."""
    await asyncio.gather(*(each.settle() for each in statements))
