"""Prepares a refresh: makes the views below fresh, and records what it must know before it observes base tables."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from gateway.errors import RefreshFailed
from gateway.mv.catalog.confirmation import Confirmation
from gateway.mv.catalog.fence import Fence
from gateway.mv.catalog.index import Catalog
from gateway.mv.catalog.settlement import Settlement
from gateway.mv.freshness.entry import Entry
from gateway.mv.model.view import MaterializedView
from gateway.mv.observation.relations import Relations, definition_reads
from gateway.mv.ports import SqlSession
from gateway.mv.refresh.surroundings import RefreshSessions

MakeFresh = Callable[[Iterable[str]], Awaitable[None]]
"""Makes the views with these ids fresh. Raises what refreshes raise."""


@dataclass(frozen=True, slots=True)
class Start:
    """What was recorded before a refresh observed the base tables: the time, the last event, and the versions of the
    views below."""

    at: int
    contains: int
    views: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Ready:
    """Everything that a refresh needs to observe and read."""

    session: SqlSession
    start: Start
    view: MaterializedView
    """The view, with what its definition reads now."""


class Preparation:
    """Prepares the refreshes of all views."""

    def __init__(
        self,
        catalog: Catalog,
        settlement: Settlement,
        relations: Relations,
        confirmation: Confirmation,
        fence: Fence,
        sessions: RefreshSessions,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._catalog = catalog
        self._settlement = settlement
        self._relations = relations
        self._confirmation = confirmation
        self._fence = fence
        self._sessions = sessions
        self._now_ms = now_ms

    async def certain(self, entry: Entry) -> MaterializedView:
        """The view, once its stored state is certain. Raises what the metastore raises."""
        if entry.doubtful:
            await self._settlement.settle(entry)
        return entry.view

    @asynccontextmanager
    async def ready(self, entry: Entry, before: MaterializedView, make_fresh: MakeFresh) -> AsyncIterator[Ready]:
        """`before` is the view at its last refresh. Raises what refreshes of the views below raise, and Superseded at
        the end if another gateway has taken over."""
        present = await self._with_present_bases(entry, before)
        while True:
            # Without a session, because the refreshes below need sessions as well.
            await make_fresh(present.views)
            await self._confirmation.confirm(present.views)
            # What a client's statement removes while the rows are read makes the version doubtful, unless it had ended
            # before; clients need not ask for its end.
            await self._ask_for_writes(before.id)
            async with self._sessions.reading(before) as session:
                start = self._start_of(entry, present)
                # Both waits may have been long. A later change of a name is an event that `start` does not contain.
                known, present = present, await self._with_present_bases(entry, before)
                if _reads(present) == _reads(known):
                    yield Ready(session, start, present)
                    break
        # The observation has asked the metastore as well.
        self._fence.raise_if_lost()

    async def _ask_for_writes(self, view_id: str) -> None:
        await self._catalog.writes.ask([view_id])

    def _start_of(self, entry: Entry, present: MaterializedView) -> Start:
        versions = {base: self._catalog.current(base) for base in present.views}
        return Start(self._now_ms(), entry.ledger.events, versions)

    async def _with_present_bases(self, entry: Entry, view: MaterializedView) -> MaterializedView:
        """The view, with what its definition reads now: a Spark view on the way may have been replaced.

        Until a version is published, the catalog also keeps what it read before, so a failure loses nothing. The
        catalog learns it before anything is read, so that writes to new base tables are noted from now on.
        """
        sources = await self._relations.sources_of(await definition_reads(view.query, view.namespace))
        for base in sources.views:
            if view.id in self._catalog.reads(base):
                raise RefreshFailed(
                    f"The definition of materialized view {view.name} now reads {view.name} itself, through a view "
                    f"that was replaced. Change that view.",
                    sqlstate="42P19",
                )
        entry.read_more(sources.tables, sources.views)
        names = self._catalog.names_of(sources.views)
        return replace(view, tables=sources.tables, views=sources.views, view_names=names)


def _reads(view: MaterializedView) -> tuple[object, ...]:
    """What its definition reads. The names are included because two views below may have swapped them."""
    return view.tables, view.views, view.view_names
