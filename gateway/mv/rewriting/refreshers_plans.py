"""How Spark plans the definitions of views for whoever refreshes them: the stored rows are what that account may read.

An extension of Spark may filter rows or mask columns by user, also below views. Then a reader's definition has other
rows than the stored ones, although reader and definition are planned alike.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

from gateway.mv.model.view import MaterializedView
from gateway.mv.ports import Plans, Sessions
from gateway.mv.refresh.surroundings import Surroundings
from sql.proof.plan import Plan

KEPT_SECONDS = 60.0
"""How long a plan is used: for the shapes of a dashboard that come together."""
KEPT_MAX = 200


class RefreshersPlans:
    """Plans in sessions of the account that refreshes."""

    def __init__(
        self,
        plans: Plans,
        sessions: Sessions,
        surroundings: Surroundings,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._plans = plans
        self._sessions = sessions
        self._surroundings = surroundings
        self._clock = clock
        self._kept: OrderedDict[tuple[str, str], tuple[float, Plan]] = OrderedDict()
        """By the view's id and the text; the oldest first."""

    async def of(self, view: MaterializedView) -> Plan:
        """The plan of the definition, as a refresh reads it. Raises PlanUnavailable, and what Spark raises."""
        text = all_of(view.definition.quoted)
        key, now = (view.id, text), self._clock()
        if (known := self._kept.get(key)) is not None and now - known[0] < KEPT_SECONDS:
            return known[1]
        # A session that makes texts is changed by that.
        async with (
            self._sessions.session(fresh=not self._plans.in_place) as session,
            self._surroundings.computing(view, session),
            self._plans.of(session) as name,
        ):
            plan = await self._plans.optimized(name, text)
        self._kept.pop(key, None)
        self._kept[key] = now, plan
        if len(self._kept) > KEPT_MAX:
            self._kept.popitem(last=False)
        return plan

    def forget(self) -> None:
        """Rights may have changed."""
        self._kept.clear()


def all_of(definition: str) -> str:
    """A query of a view's definition, which is given as a relation."""
    return f"SELECT * FROM {definition}"
