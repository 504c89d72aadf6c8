"""Determines when a statement whose end was not seen can no longer take effect.

If the connection breaks, Spark cancels an asynchronous statement; one that was about to commit does so within seconds.
A synchronous one runs on to its end, however long that takes, in the thread that has read it. Only then does that
thread notice that its connection is gone, and end the session (`deleteContext` in Hive's ThriftBinaryCLIService).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from gateway.errors import FreshgateError
from gateway.loops import Errands
from gateway.service.clients.session import Session
from gateway.wire import request
from gateway.wire.frame import WireError
from gateway.wire.message import STATUS_ERROR, Handle, reply_status

LATE_SECONDS = 30.0
"""How long a cancelled statement may still commit. Spark has been observed to take two seconds."""
PAUSE_SECONDS = 5.0
UNTIED_SECONDS = 3600.0
"""How long a synchronous statement is expected to run if its session outlives its connection, as over HTTP: nothing
tells when it has ended."""

Late = Callable[[Callable[[], None]], None]
"""Calls back when a statement can no longer take effect."""


def soon(callback: Callable[[], None]) -> None:
    """A `Late` for asynchronous statements."""
    asyncio.get_running_loop().call_later(LATE_SECONDS, callback)


def of_synchronous(session: Session, waiting: Errands) -> Late:
    """A `Late` for a synchronous statement that is about to be sent in the session. `waiting` runs what waits."""
    handle = session.upstream_handle

    def late(callback: Callable[[], None]) -> None:
        waiting.begin(_outlived(session, handle)).add_done_callback(lambda _: soon(callback))

    return late


async def _outlived(session: Session, handle: Handle) -> None:
    """Returns once Spark does not know the session any more, which it ends after the statement."""
    now = asyncio.get_running_loop().time
    until = float("inf") if session.tied else now() + UNTIED_SECONDS
    while now() < until and await _is_known(session, handle):  # noqa: ASYNC110 - Spark tells nobody
        await asyncio.sleep(PAUSE_SECONDS)


async def _is_known(session: Session, handle: Handle) -> bool:
    """Whether Spark may still know a session: also while Spark does not answer."""
    try:
        async with session.spare() as side:
            return reply_status(await side.forward(request.server_name(handle))).code != STATUS_ERROR
    except (FreshgateError, WireError):
        return True
