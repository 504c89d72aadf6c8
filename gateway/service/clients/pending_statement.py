"""Statements at Spark that write or change what names mean, and whose end is not known.

Clients need not ask for the status of their statements, so the gateway asks. Spark holds a status request until the
statement has ended, at most for a few seconds. While it holds a request, the statement is known to run, so a request is
left open as long as the answer is needed (`PendingStatement._ask`).

The outcome of a statement that was cancelled, or whose connection broke, is unknown. An asynchronous one that was about
to commit does so within seconds. A synchronous one runs on to its end, however long that takes, in the thread that has
read it. Only then does that thread notice that its connection is gone, and end the session (`deleteContext` in Hive's
ThriftBinaryCLIService).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from gateway.errors import FreshgateError
from gateway.service.clients.side_connections import SideConnection
from gateway.service.operations import ends
from gateway.service.operations.operation import End, ForwardedOperation
from gateway.wire import request
from gateway.wire.frame import WireError
from gateway.wire.message import STATUS_ERROR, Handle, reply_status
from sql.words import Words

WAIT_SECONDS = 1.0
"""How long to wait for a statement's end, since it was sent, before the session's next statement is routed: USE and
CREATE TEMPORARY VIEW take milliseconds. Also the longest wait for an answer from Spark."""
HELD_SECONDS = 0.2
"""A request that is unanswered for this long is held by Spark: the statement runs."""
PAUSE_SECONDS = 0.5
"""Pause between two requests if Spark does not hold them."""
IDLE_SECONDS = 30.0
"""Requests are no longer repeated after this time without interest in the answer."""
LATE_SECONDS = 30.0
"""How long a cancelled statement may still commit. Spark has been observed to take two seconds."""
SESSION_PAUSE_SECONDS = 5.0
"""Pause between two questions whether Spark still knows a session."""
UNTIED_SECONDS = 3600.0
"""How long a synchronous statement is expected to run if its session outlives its connection, as over HTTP: nothing
tells when it has ended."""


class SessionAtSpark(Protocol):
    """The session of a statement."""

    tied: bool
    """Whether Spark ends it with the connection on which it was opened."""
    upstream_handle: Handle

    def spare(self) -> AbstractAsyncContextManager[SideConnection]:
        """Lends a connection to Spark that the session does not use."""


class PendingStatement:
    """A statement whose end is not known."""

    def __init__(self, session: SessionAtSpark) -> None:
        self._session = session
        self.moves = False
        """Whether it may change the current database or catalog."""
        self.words: Words = frozenset()
        """Its identifiers."""
        self.used = ""
        """The text, if it begins with USE."""
        self.over = False
        self._began = time.monotonic()
        self._runs_on_in: Handle | None = None
        """The session in which it runs on to its end, if it is synchronous."""
        self._operation: ForwardedOperation | None = None
        self._open: dict[object, float] = {}
        """The start of each request that Spark has not answered, by who sent it."""
        self._answered_since = 0.0
        """The start of the latest request that Spark has answered."""
        self._changed: asyncio.Event | None = None
        self._asking: asyncio.Task[None] | None = None
        self._wanted = self._failed = 0.0
        """When the answer was last wanted, and when the requests last ended."""

    # --- events ------------------------------------------------------------------------------------

    def sent(self, *, synchronous: bool) -> None:
        """Spark gets it now."""
        self._runs_on_in = self._session.upstream_handle if synchronous else None

    def started(self, operation: ForwardedOperation) -> None:
        """Spark has started it. The operation now reports its status requests here."""
        self._operation = operation
        operation.pending = self
        self._notify()

    def asked(self, who: object) -> None:
        """`who` has asked Spark whether the statement has ended."""
        self._open[who] = time.monotonic()
        self._notify()

    def answered(self, who: object) -> None:
        """Spark has answered `who`, or never will."""
        self._answered_since = max(self._answered_since, self._open.pop(who, 0.0))
        self._notify()

    def end(self, _: End) -> None:
        """Its end is known, or will never be known."""
        self.over = True
        if self._asking is not None and self._asking is not asyncio.current_task():
            self._asking.cancel()
        self._notify()

    def _notify(self) -> None:
        changed, self._changed = self._changed, None
        if changed is not None:
            changed.set()

    # --- asking ------------------------------------------------------------------------------------

    @property
    def known(self) -> bool:
        """Whether its present state is known: it has ended, it runs, or Spark has not replied to it yet."""
        return self.over or self._operation is None or self._held_since() + HELD_SECONDS <= time.monotonic()

    def _held_since(self) -> float:
        return min(self._open.values(), default=float("inf"))

    async def look(self) -> bool:
        """Determines whether it has ended. Returns False if Spark does not answer."""
        came = self._wanted = time.monotonic()
        self._notify()
        while not self.known and max(self._answered_since, self._failed) < came:
            left = min(self._held_since() + HELD_SECONDS, came + WAIT_SECONDS) - time.monotonic()
            if left <= 0:
                break
            self._ask()
            await self._wait(left)
        return self.known or self._answered_since >= came

    async def settle(self) -> None:
        """Waits for its end, until WAIT_SECONDS after it was sent; later, only determines whether it has ended."""
        await self.look()
        while not self.over and (left := self._began + WAIT_SECONDS - time.monotonic()) > 0:
            self._ask()
            await self._wait(left)

    async def _wait(self, seconds: float) -> None:
        if self._changed is None:
            self._changed = asyncio.Event()
        changed = self._changed
        try:
            async with asyncio.timeout(seconds):
                await changed.wait()
        except TimeoutError:
            return

    def _ask(self) -> None:
        """Leaves a request open, unless one is open, or a request has just failed."""
        is_asked = bool(self._open) or self._asking is not None or self._failed >= self._wanted
        if self._operation is not None and not is_asked:
            self._asking = asyncio.get_running_loop().create_task(self._keep_asking(self._operation))

    async def _keep_asking(self, operation: ForwardedOperation) -> None:
        try:
            async with self._session.spare() as side:
                # If Spark does not answer this, it does not answer at all, rather than hold the status request.
                await side.forward(request.unknown())
                await self._ask_over(side, operation)
        except (FreshgateError, WireError):
            return
        finally:
            self._asking, self._failed = None, time.monotonic()
            # A request that failed says nothing.
            self._open.pop(self, None)
            self._notify()

    async def _ask_over(self, side: SideConnection, operation: ForwardedOperation) -> None:
        status = request.operation_status(operation.handle)
        while not operation.ended and time.monotonic() - self._wanted < IDLE_SECONDS:
            asked = time.monotonic()
            self.asked(self)
            answer = await side.forward(status)
            if operation.ended:
                return
            if ends.status_seen(operation, answer) is None:
                # Spark no longer knows the operation.
                operation.end(End.UNKNOWN)
            self.answered(self)
            if time.monotonic() - asked < HELD_SECONDS and not operation.ended:
                await self._wait_until_wanted()

    async def _wait_until_wanted(self) -> None:
        """Waits before the next request to a server that does not hold requests, at most until the answer is wanted."""
        before = self._wanted
        deadline = time.monotonic() + PAUSE_SECONDS
        while self._wanted == before and (left := deadline - time.monotonic()) > 0:
            await self._wait(left)

    # --- unknown outcomes --------------------------------------------------------------------------

    async def outlive(self) -> None:
        """Returns when the statement, whose outcome is unknown, can no longer take effect."""
        if self._runs_on_in is not None:
            await self._outlive_session(self._runs_on_in)
        await asyncio.sleep(LATE_SECONDS)

    async def _outlive_session(self, handle: Handle) -> None:
        """Returns once Spark does not know the session any more."""
        until = float("inf") if self._session.tied else time.monotonic() + UNTIED_SECONDS
        while time.monotonic() < until and await self._is_known(handle):  # noqa: ASYNC110 - Spark sends no notice
            await asyncio.sleep(SESSION_PAUSE_SECONDS)

    async def _is_known(self, handle: Handle) -> bool:
        """Whether Spark may still know a session: also while Spark does not answer."""
        try:
            async with self._session.spare() as side:
                return reply_status(await side.forward(request.server_name(handle))).code != STATUS_ERROR
        except (FreshgateError, WireError):
            return True


async def settle(statements: Iterable[PendingStatement]) -> None:
    """Settles all statements concurrently."""
    await asyncio.gather(*(each.settle() for each in statements))
