"""The environment of a view's refresh: the settings of its session and the pool of Spark's scheduler."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import asynccontextmanager

from gateway.errors import OwnerLost
from gateway.mv.model.view import MaterializedView
from gateway.mv.ports import UNKNOWN_SETTINGS, Metastore, OwnerRefused, OwnerSessions, Rows, ServiceSessions, SqlSession
from gateway.mv.refresh.habits import COMMIT_PROTOCOL, SPARKS_OWN, TIME_ZONE, Habits
from gateway.mv.temporary_settings import with_settings
from sql.grammar import view_properties
from sql.names import TableName, quote
from sql.spark_settings import has_meaning, is_harmless

log = logging.getLogger(__name__)

POOL = "spark.sql.thriftserver.scheduler.pool"


def meaning(settings: Mapping[str, str]) -> dict[str, str]:
    """Those of a creator's settings that a refresh has.

    Spark analyzes a view's query with all settings that it keeps with the view. What readers of files and functions do
    at run time depends on the session: its time zone applies to the times in CSV, JSON and the names of partitions.
    """
    return {name: value for name, value in settings.items() if has_meaning(name)}


class Surroundings:
    """Applies the settings for refreshes to sessions."""

    def __init__(self, pool: str, habits: Habits, metastore: Metastore) -> None:
        self._pool = pool
        """The pool of Spark's FAIR scheduler for views that name none: refreshes share it, apart from clients."""
        self._habits = habits
        self._metastore = metastore
        self._found: dict[TableName, Mapping[str, str]] = {}
        """The settings of views that have none stored, by their definitions."""

    @asynccontextmanager
    async def of(self, view: MaterializedView, session: SqlSession) -> AsyncIterator[None]:
        """Applies the view's settings: its creator's, workload_group as the pool, its `session.` properties, and what
        writing to its LOCATION needs."""
        settings = await self._settings(view)
        if (pool := view.properties.get("workload_group")) is not None:
            settings[POOL] = pool
        if view.clauses.location is not None and not self._habits.stages_writes:
            # Commit protocols for object stores write only below the table's own directory, where LOCATION is not.
            settings[COMMIT_PROTOCOL] = SPARKS_OWN
        async with with_settings(session, settings, {POOL: self._pool}):
            yield

    @asynccontextmanager
    async def computing(self, view: MaterializedView, session: SqlSession) -> AsyncIterator[None]:
        """As `of`, without a pool: for computations outside a refresh that must give the same results."""
        async with with_settings(session, await self._settings(view)):
            yield

    async def _settings(self, view: MaterializedView) -> dict[str, str]:
        """The settings that differ from those of a service session."""
        wanted = {**await self.created(view), **view_properties.session_settings(view.properties)}
        if view.layout.time_zone:
            wanted[TIME_ZONE] = view.layout.time_zone
        return {name: value for name, value in wanted.items() if not self._habits.is_so(name, value)}

    async def kept(self, view: MaterializedView) -> Mapping[str, str]:
        """The settings of the creator's session that Spark keeps with the definition. Raises what the metastore
        raises."""
        if view.settings is not None:
            return view.settings
        if view.definition not in self._found:
            relation = await self._metastore.relation(view.definition)
            if relation is None:
                return {}
            self._found[view.definition] = relation.settings
        return self._found[view.definition]

    async def created(self, view: MaterializedView) -> Mapping[str, str]:
        """Those of them that its refreshes have. Raises what the metastore raises."""
        return meaning(await self.kept(view))

    async def reads_alike(self, view: MaterializedView, session: SqlSession) -> bool:
        """Whether the view's definition would read the same in this client session as in a refresh. Raises what Spark
        raises."""
        return await self.difference(view, session) is None

    async def difference(self, view: MaterializedView, session: SqlSession, but: Collection[str] = ()) -> str | None:
        """A setting by which the view's definition may have other rows in this client session than in a refresh, or
        was analyzed otherwise than a query of this session; none of `but`. Raises what Spark raises."""
        if await self.kept(view) == UNKNOWN_SETTINGS:
            return "Spark does not tell with which settings the view was created"
        own = view_properties.session_settings(view.properties)
        return await self._difference(session, await self.kept(view), own, but)

    async def difference_of_service(self, session: SqlSession) -> str | None:
        """A setting by which a base table may have other rows in this client session than in one of the gateway's own.
        Raises what Spark raises."""
        return await self._difference(session, {}, {}, ())

    async def _difference(
        self, session: SqlSession, kept: Mapping[str, str], own: Mapping[str, str], but: Collection[str]
    ) -> str | None:
        there = {str(name): str(value) for name, value, *_ in (await session.run("SET")).rows}
        here = {**self._habits.settings, **meaning(kept), **own}
        for name in sorted({*there, *here, *kept}):
            if is_harmless(name) or name in but:
                continue
            # Settings that were never set have values as well.
            found = there[name] if name in there else await _value(session.run, name)
            wanted = here[name] if name in here else await self._initial(name)
            if not _same(found, wanted):
                return f"{name} is {found} in this session, and {wanted} where the view is computed"
            if name not in own and not _same(created := kept.get(name, wanted), wanted):
                return f"{name} is {found} in this session, and was {created} where the view was created"
        return None

    async def _initial(self, name: str) -> str:
        """What a setting is in a service session that has not set it. Raises what Spark raises."""
        return self._habits.defaults.get(name) or await _value(self._metastore.run, name)


async def _value(run: Callable[[str], Awaitable[Rows]], name: str) -> str:
    """What a setting is where this runs; a text of Spark's if it is nothing. Raises what Spark raises."""
    return str((await run(f"SET {quote(name)}")).rows[0][1])


def _same(one: str, other: str) -> bool:
    return one == other or (one.lower() == other.lower() and one.lower() in {"true", "false"})


class RefreshSessions:
    """Provides the sessions in which refreshes run, each with the settings of its view."""

    def __init__(self, sessions: ServiceSessions, owners: OwnerSessions, surroundings: Surroundings) -> None:
        self._sessions = sessions
        self._owners = owners
        self._surroundings = surroundings

    @asynccontextmanager
    async def of(self, view: MaterializedView, *, fresh: bool = False) -> AsyncIterator[SqlSession]:
        """A session of the gateway's account. `fresh`: as in `ServiceSessions.session`. Raises what Spark raises."""
        async with self._sessions.session(fresh=fresh) as session, self._surroundings.of(view, session):
            yield session

    @asynccontextmanager
    async def reading(
        self, view: MaterializedView, session: SqlSession | None = None, *, fresh: bool = False
    ) -> AsyncIterator[SqlSession]:
        """A session of the user in whose name the view's rows are read. `session`: one of `of`, which serves if that is
        the gateway's account. Raises OwnerLost, and what Spark raises."""
        if not view.refreshed_as:
            if session is not None:
                yield session
                return
            async with self.of(view, fresh=fresh) as own:
                yield own
            return
        try:
            async with (
                self._owners.session(view.refreshed_as, fresh=fresh) as own,
                self._surroundings.of(view, own),
            ):
                yield own
        except OwnerRefused as error:
            raise owner_lost(view, error) from error


def owner_lost(view: MaterializedView, error: OwnerRefused) -> OwnerLost:
    """The error of a refresh in the name of an owner whom Spark does not know any more."""
    kept = f"Version {view.current.number} stays published" if view.built and not view.misread else "It has no rows"
    return OwnerLost(
        f"The materialized view {view.name} cannot be refreshed as its owner {error.owner}, for whom Spark opens no "
        f"session. {kept}. If {error.owner} has left, an administrator can give the view to another user: ALTER "
        f"MATERIALIZED VIEW {view.name} OWNER TO user.",
        cause=error.reason,
    )
