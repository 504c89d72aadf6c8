"""In what a view's refresh runs: the session's settings and the pool of Spark's scheduler."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from gateway.mv.model import MaterializedView
from gateway.mv.ports import SqlSession
from sql import view_properties
from sql.names import quote

TIME_ZONE = "spark.sql.session.timeZone"
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
        for name in done:
            before = (defaults or {}).get(name)
            await session.run(f"RESET {quote(name)}" if before is None else f"SET {quote(name)}={quote(before)}")


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
