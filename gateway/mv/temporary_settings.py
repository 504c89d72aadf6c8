"""Settings of sessions that are lent for other purposes afterwards."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from gateway.errors import FreshgateError, StatementFailed
from gateway.mv.ports import SqlSession
from sql.names import quote

log = logging.getLogger(__name__)

RESTORE_SECONDS = 10.0


@asynccontextmanager
async def with_settings(
    session: SqlSession,
    settings: Mapping[str, str],
    defaults: Mapping[str, str] | None = None,
    *,
    wished: Mapping[str, str] | None = None,
) -> AsyncIterator[None]:
    """Changes settings of the session and restores them afterwards: to `defaults`, or to Spark's initial values.
    `wished`: those without which the work is only slower, so that a server may refuse to change them.

    Raises what Spark raises for a value that it does not accept.
    """
    done: list[str] = []
    try:
        for name, value in settings.items():
            done.append(name)
            await session.run(f"SET {quote(name)}={quote(value)}")
        for name, value in (wished or {}).items():
            # Also a cancelled statement may have been executed, and its setting must not stay.
            done.append(name)
            try:
                await session.run(f"SET {quote(name)}={quote(value)}")
            except StatementFailed as refusal:
                done.pop()
                log.debug("%s stays as it is: %s", name, refusal)
        yield
    finally:
        if done:
            await _restore(session, done, defaults or {})


async def _restore(session: SqlSession, names: Sequence[str], defaults: Mapping[str, str]) -> None:
    """Restores settings. A session with one view's settings must never serve another one, so it is discarded if this
    fails."""
    done = False
    try:
        async with asyncio.timeout(RESTORE_SECONDS):
            for name in names:
                before = defaults.get(name)
                await session.run(f"RESET {quote(name)}" if before is None else f"SET {quote(name)}={quote(before)}")
        done = True
    except (FreshgateError, TimeoutError) as error:
        log.warning("the settings of a session cannot be restored, so it is discarded: %s", error)
    finally:
        if not done:
            session.spoil()
