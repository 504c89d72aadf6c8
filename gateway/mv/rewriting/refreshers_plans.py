"""How Spark plans the definitions of views for whoever refreshes them, and whether columns are stored as they are.

The stored rows are what that account may read. An extension of Spark may filter rows or mask columns by user, also
below views. Then a reader's definition has other rows than the stored ones, although query and definition are planned
alike.

Spark pads a text that is compared with a CHAR, but none that is compared with a STRING. So a view whose storage has
STRING for CHAR, as other table formats do, has other rows than its definition where a query compares.

Tests: `test_proving`, `test_owners`.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from gateway.mv.model.view import MaterializedView, Schema
from gateway.mv.ports import OwnerRefused, OwnerSessions, Plans, PlanUnavailable, ServiceSessions, SqlSession
from gateway.mv.refresh.surroundings import Surroundings, owner_lost
from sql.mentioned import Mentioned
from sql.names import TableName
from sql.proof.alike import alike
from sql.proof.checker import NotProved, prove
from sql.proof.plan import Plan

log = logging.getLogger(__name__)

KEPT_SECONDS = 60.0
"""How long a plan is used: for the shapes of a dashboard that come together."""
KEPT_MAX = 200


_CHAR = re.compile(r"\bchar\(\d+\)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Refreshed:
    """The definition of a view, as its refreshes read and store it."""

    plan: Plan
    unlike: str
    """Why the stored columns are others than the definition's; empty if they are the same."""


@dataclass(frozen=True, slots=True)
class _Kept:
    at: float
    found: Refreshed
    tables: frozenset[TableName]
    """What the view reads."""
    schemas: Mapping[TableName, Schema]
    """The base tables, as the view's last refresh saw them."""


class RefreshersPlans:
    """Plans in sessions of the user in whose name each view is refreshed."""

    def __init__(
        self,
        plans: Plans,
        sessions: ServiceSessions,
        owners: OwnerSessions,
        surroundings: Surroundings,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._plans = plans
        self._sessions = sessions
        self._owners = owners
        self._surroundings = surroundings
        self._clock = clock
        self._kept: OrderedDict[tuple[str, str], _Kept] = OrderedDict()
        """By the view's id, which is that of its definition, and the user; the oldest first."""
        self._forgotten = 0
        """Increases whenever a plan that is being made may be outdated."""

    async def narrowed(self, view: MaterializedView) -> bool:
        """Whether the definition has, or may have, other rows for the user in whose name the view is refreshed than for
        the gateway's account. Raises what Spark raises."""
        if not view.refreshed_as:
            return False
        try:
            # A new view does not exist under its name yet, and its columns are those of its definition.
            own, of_account = [
                await self._made(each, compared=False) for each in (view, replace(view, refreshed_as=""))
            ]
        except PlanUnavailable as error:
            log.info("%s: plans cannot be compared, so that it is recomputed: %s", view.name, error)
            return True
        return not await asyncio.to_thread(equal, own.plan, of_account.plan)

    async def of(self, view: MaterializedView) -> Refreshed:
        """Raises PlanUnavailable, and what Spark raises."""
        key, now, asked_after = (view.id, view.refreshed_as), self._clock(), self._forgotten
        known = self._kept.get(key)
        if known is not None and now - known.at < KEPT_SECONDS and known.schemas == view.schemas:
            return known.found
        found = await self._made(view)
        self._kept.pop(key, None)
        if asked_after != self._forgotten:
            return found
        self._kept[key] = _Kept(now, found, view.tables, view.schemas)
        if len(self._kept) > KEPT_MAX:
            self._kept.popitem(last=False)
        return found

    async def _made(self, view: MaterializedView, *, compared: bool = True) -> Refreshed:
        """`compared`: whether the stored columns are compared with the definition's."""
        async with self.planning(view) as (session, name):
            unlike = await _unlike(session, view) if compared else ""
            return Refreshed(await self._plans.optimized(name, all_of(view.definition.quoted)), unlike)

    async def analyzed(self, view: MaterializedView) -> Plan:
        """The definition, as `Plans.analyzed`. Raises PlanUnavailable, and what Spark raises."""
        async with self.planning(view) as (_, name):
            return await self._plans.analyzed(name, all_of(view.definition.quoted))

    @asynccontextmanager
    async def planning(self, view: MaterializedView) -> AsyncIterator[tuple[SqlSession, bytes]]:
        """A session, and its name for plans."""
        # A session that makes texts is changed by that.
        async with (
            self._session(view) as session,
            self._surroundings.computing(view, session),
            self._plans.of(session) as name,
        ):
            yield session, name

    @asynccontextmanager
    async def _session(self, view: MaterializedView) -> AsyncIterator[SqlSession]:
        fresh = not self._plans.in_place
        try:
            async with (
                self._owners.session(view.refreshed_as, fresh=fresh)
                if view.refreshed_as
                else self._sessions.session(fresh=fresh)
            ) as session:
                yield session
        except OwnerRefused as error:
            raise owner_lost(view, error) from error

    def forget(self, named: Mentioned) -> None:
        """A statement may have changed what these names mean, or, if it may name anything, rights."""
        self._forgotten += 1
        for key in [key for key, kept in self._kept.items() if any(map(named.includes, kept.tables))]:
            del self._kept[key]


def all_of(definition: str) -> str:
    """A query of a view's definition, which is given as a relation."""
    return f"SELECT * FROM {definition}"


async def _unlike(session: SqlSession, view: MaterializedView) -> str:
    """Whether the view's columns are CHAR where the definition's are. Raises what Spark raises."""
    wanted, found = [await _columns(session, name.quoted) for name in (view.definition, view.name)]
    if len(wanted) != len(found):
        return "the view has other columns than its definition"
    for (name, kind), (_, stored) in zip(wanted, found, strict=True):
        if (_CHAR.search(kind) or _CHAR.search(stored)) and kind != stored:
            return f"the view stores the {kind} of the column {name} as {stored}"
    return ""


async def _columns(session: SqlSession, name: str) -> list[tuple[str, str]]:
    """Names and types of a view's columns. (In JSON, Spark describes CHAR as a string.)"""
    return [(str(column), str(kind)) for column, kind, *_ in (await session.run(f"DESCRIBE {name}")).rows]


def equal(one: Plan, other: Plan) -> bool:
    """Whether two plans of a definition have the same rows."""
    return alike(one, other) or not isinstance(prove(one, other), NotProved)
