"""Whether the definition of a view has the same rows for a reader as for whoever refreshes it.

Spark tells nobody the rights of its users. It shows them in its plans: an extension that filters rows or masks columns
by user does so where it plans. So the definition is planned in a session of the reader, and in one of the account that
refreshes. If both plans are the same, the stored rows are those that the reader would be shown. Other extensions check
rights only when a query runs, so Spark must also let the reader run the definition.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from gateway.errors import FreshgateError
from gateway.mv.model.view import MaterializedView
from gateway.mv.ports import Plans, PlanUnavailable
from gateway.mv.refresh.surroundings import Surroundings
from gateway.mv.rewriting.known_rights import KnownRights
from gateway.mv.rewriting.permission import REFUSED_SECONDS, Forbidden, OpenReader, Permission
from gateway.mv.rewriting.refreshers_plans import RefreshersPlans, all_of, equal
from sql.mentioned import Mentioned

log = logging.getLogger(__name__)

RIGHTS_DIFFER = (
    "rights differ: Spark plans the view's definition otherwise for this user than for the account that refreshes the "
    "view, as a filter of rows or a mask of columns does"
)
RIGHTS_REFUSED = "rights differ: Spark does not let this user run the view's definition"
PLAN_SECONDS = 60.0
"""How long a read waits for the plans. Then the definition runs, which needs none."""

UNKNOWN_SECONDS = 30.0
"""How long it is believed that there are no plans to compare."""


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
        self._known = KnownRights(seconds, clock)
        self._permission = Permission(seconds, clock)
        self._asking: dict[tuple[str, str, int], asyncio.Task[str]] = {}

    def known(self, view: MaterializedView, user: str) -> str | None:
        """Why the definition has other rows for the user than those that are stored; empty if it has the same; None if
        that must be asked."""
        return self._known.of(view, user)

    async def refusal(self, view: MaterializedView, user: str, reader: OpenReader) -> Forbidden | None:
        """Why Spark does not let the user run the definition; None if it does. Raises what Spark raises."""
        if self._plans.checks_rights:
            return None
        return await self._permission.refusal(view, user, reader)

    async def difference(self, view: MaterializedView, user: str, reader: OpenReader) -> str:
        """The same as `known`, asked if need be: once for all who wait; Forbidden if Spark does not let the user run
        the definition. Never raises FreshgateError: rows that cannot be compared may differ."""
        if (known := self.known(view, user)) is not None:
            return known
        key = view.id, user, self._known.forgotten
        if (task := self._asking.get(key)) is None:
            task = asyncio.ensure_future(self._ask(view, user, reader))
            self._asking[key] = task
            task.add_done_callback(lambda _: self._asking.pop(key, None))
        # No client that leaves may cancel it for the others.
        return await asyncio.shield(task)

    async def _ask(self, view: MaterializedView, user: str, reader: OpenReader) -> str:
        began, asked_after, seconds = self._clock(), self._known.forgotten, self._seconds
        try:
            async with asyncio.timeout(PLAN_SECONDS):
                reason = await self.refusal(view, user, reader) or await self._compared(view, reader)
        except (PlanUnavailable, FreshgateError, TimeoutError) as error:
            reason = f"Spark gives no plans to compare: {str(error) or 'no answer in time'}"
            log.info("the rights of %s to %s are not known: %s", user, view.name, reason)
            if not isinstance(error, PlanUnavailable):
                return reason
            seconds = UNKNOWN_SECONDS
        if isinstance(reason, Forbidden):
            seconds = REFUSED_SECONDS
        log.debug("the rights of %s to %s took %.3f s: %s", user, view.name, self._clock() - began, reason or "equal")
        self._known.keep(view, user, reason, asked_at=began, asked_after=asked_after, seconds=seconds)
        return reason

    async def _compared(self, view: MaterializedView, reader: OpenReader) -> str:
        text = all_of(view.definition.quoted)
        async with reader() as session, self._surroundings.computing(view, session), self._plans.of(session) as name:
            read = await self._plans.optimized(name, text)
        refreshed = await self._refreshers.of(view)
        return "" if await asyncio.to_thread(equal, read, refreshed.plan) else RIGHTS_DIFFER

    def forget(self, named: Mentioned) -> None:
        """A statement may have changed what these names mean, or, if it may name anything, rights."""
        self._known.forget(named)
        self._permission.forget(named)
