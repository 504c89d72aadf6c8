"""Whether the definition of a view has the same rows for a reader as for whoever refreshes it.

Spark tells nobody the rights of its users. It shows them in its plans: an extension that filters rows or masks columns
by user does so where it plans. So the definition is planned in a session of the reader, and in one of the account that
refreshes. If both plans are the same, the stored rows are those that the reader would be shown.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from gateway.errors import FreshgateError
from gateway.mv.model.view import MaterializedView, Schema
from gateway.mv.ports import Plans, PlanUnavailable, SqlSession
from gateway.mv.refresh.surroundings import Surroundings
from gateway.mv.rewriting.refreshers_plans import RefreshersPlans, all_of, equal
from sql.mentioned import Mentioned
from sql.names import TableName

log = logging.getLogger(__name__)

RIGHTS_DIFFER = (
    "rights differ: Spark plans the view's definition otherwise for this user than for the account that refreshes the "
    "view, as a filter of rows or a mask of columns does"
)
KEPT_MAX = 20_000
"""Views times users. Each takes some 300 bytes."""
PLAN_SECONDS = 60.0
"""How long a read waits for the plans. Then the definition runs, which needs none."""

UNKNOWN_SECONDS = 30.0
"""How long it is believed that there are no plans to compare."""

OpenReader = Callable[[], AbstractAsyncContextManager[SqlSession]]
"""Opens a session of the reader that serves for nothing else."""


@dataclass(frozen=True, slots=True)
class _KnownRights:
    at: float
    reason: str
    """Why the rows differ; empty if they are the same."""
    tables: frozenset[TableName]
    """What the view reads."""
    schemas: Mapping[TableName, Schema]
    """The base tables, as the view's last refresh saw them."""


class ReadersRights:
    """What is known of each view and reader, for `seconds` after it was asked."""

    def __init__(
        self,
        plans: Plans,
        refreshers: RefreshersPlans,
        surroundings: Surroundings,
        seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._plans = plans
        self._refreshers = refreshers
        self._surroundings = surroundings
        self._seconds = seconds
        self._clock = clock
        self._kept: OrderedDict[tuple[str, str], _KnownRights] = OrderedDict()
        """By the view's id and the user; the one used last is the last one."""
        self._asking: dict[tuple[str, str, int], asyncio.Task[str]] = {}
        self._forgotten = 0
        """Increases whenever a plan that is being made may be outdated."""

    def known(self, view: MaterializedView, user: str) -> str | None:
        """Why the definition has other rows for the user than those that are stored; empty if it has the same; None if
        that must be asked."""
        key = view.id, user
        found = self._kept.get(key)
        if found is None or self._clock() - found.at > self._seconds or found.schemas != view.schemas:
            return None
        self._kept.move_to_end(key)
        return found.reason

    async def difference(self, view: MaterializedView, user: str, reader: OpenReader) -> str:
        """The same, asked if need be: once for all who wait. Never raises FreshgateError: rows that cannot be compared
        may differ."""
        if (known := self.known(view, user)) is not None:
            return known
        key = view.id, user, self._forgotten
        if (task := self._asking.get(key)) is None:
            task = asyncio.ensure_future(self._ask(view, user, reader))
            self._asking[key] = task
            task.add_done_callback(lambda _: self._asking.pop(key, None))
        # No client that leaves may cancel it for the others.
        return await asyncio.shield(task)

    async def _ask(self, view: MaterializedView, user: str, reader: OpenReader) -> str:
        began, asked_after = self._clock(), self._forgotten
        at = began
        try:
            async with asyncio.timeout(PLAN_SECONDS):
                reason = await self._compared(view, reader)
        except (PlanUnavailable, FreshgateError, TimeoutError) as error:
            reason = f"Spark gives no plans to compare: {str(error) or 'no answer in time'}"
            log.info("the rights of %s to %s are not known: %s", user, view.name, reason)
            if not isinstance(error, PlanUnavailable):
                return reason
            at -= max(self._seconds - UNKNOWN_SECONDS, 0.0)
        log.debug("the rights of %s to %s took %.3f s: %s", user, view.name, self._clock() - began, reason or "equal")
        if asked_after == self._forgotten:
            self._keep((view.id, user), _KnownRights(at, reason, view.tables, view.schemas))
        return reason

    async def _compared(self, view: MaterializedView, reader: OpenReader) -> str:
        text = all_of(view.definition.quoted)
        async with reader() as session, self._surroundings.computing(view, session), self._plans.of(session) as name:
            read = await self._plans.optimized(name, text)
        refreshed = await self._refreshers.of(view)
        return "" if await asyncio.to_thread(equal, read, refreshed.plan) else RIGHTS_DIFFER

    def _keep(self, key: tuple[str, str], found: _KnownRights) -> None:
        self._kept.pop(key, None)
        self._kept[key] = found
        if len(self._kept) > KEPT_MAX:
            self._kept.popitem(last=False)

    def forget(self, named: Mentioned) -> None:
        """A statement may have changed what these names mean, or, if it may name anything, rights."""
        self._forgotten += 1
        for key in [key for key, kept in self._kept.items() if any(map(named.includes, kept.tables))]:
            del self._kept[key]
