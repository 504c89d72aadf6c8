"""In what a view's refresh runs: the session's settings and the pool of Spark's scheduler."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from gateway.errors import FreshgateError
from gateway.mv.model import MaterializedView
from gateway.mv.ports import SqlSession
from sql import view_properties
from sql.names import quote

log = logging.getLogger(__name__)

TIME_ZONE = "spark.sql.session.timeZone"
SET_BACK_SECONDS = 10.0
POOL = "spark.sql.thriftserver.scheduler.pool"


@asynccontextmanager
async def in_time_zone(session: SqlSession, time_zone: str) -> AsyncIterator[None]:
    """In that time zone, where one is given: what partition a moment lies in depends on it."""
    async with with_settings(session, {TIME_ZONE: time_zone} if time_zone else {}):
        yield


@asynccontextmanager
async def with_settings(
    session: SqlSession, settings: Mapping[str, str], defaults: Mapping[str, str] | None = None
) -> AsyncIterator[None]:
    """Sets the session's settings, and afterwards sets them back: to `defaults`, or to what Spark starts with.

    Raises what Spark raises for a value that it does not take.
    """
    done: list[str] = []
    try:
        for name, value in settings.items():
            done.append(name)
            await session.run(f"SET {quote(name)}={quote(value)}")
        yield
    finally:
        if done:
            await _set_back(session, done, defaults or {})


async def _set_back(session: SqlSession, names: Sequence[str], defaults: Mapping[str, str]) -> None:
    """A session with one view's settings must never serve another one: where this is not done it is given up."""
    done = False
    try:
        async with asyncio.timeout(SET_BACK_SECONDS):
            for name in names:
                before = defaults.get(name)
                await session.run(f"RESET {quote(name)}" if before is None else f"SET {quote(name)}={quote(before)}")
        done = True
    except (FreshgateError, TimeoutError) as error:
        log.warning("a session's settings cannot be set back, so it is given up: %s", error)
    finally:
        if not done:
            session.spoil()


class Surroundings:
    """The settings of refreshes."""

    def __init__(self, pool: str) -> None:
        self._pool = pool
        """Of Spark's FAIR scheduler, for views that name none: refreshes share it, beside the clients' queries."""

    @asynccontextmanager
    async def of(self, view: MaterializedView, session: SqlSession) -> AsyncIterator[None]:
        """The view's own: its time zone, workload_group as the pool, and what its `session.` properties set."""
        settings = dict(view_properties.session_settings(view.properties))
        if (pool := view.properties.get("workload_group")) is not None:
            settings[POOL] = pool
        if view.layout.time_zone:
            settings[TIME_ZONE] = view.layout.time_zone
        async with with_settings(session, settings, {POOL: self._pool}):
            yield
