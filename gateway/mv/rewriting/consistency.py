"""Whether a view may answer a query now that does not name it, and why not.

A rewriting never causes a refresh: a view that may not answer is left alone, and the query is forwarded unchanged.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from gateway.errors import FreshgateError
from gateway.mv.catalog.index import Catalog
from gateway.mv.formats.known_formats import format_of
from gateway.mv.freshness.entry import Entry
from gateway.mv.model.view import Freshness, MaterializedView, State, Version
from gateway.mv.observation.inspection import Inspector
from gateway.mv.observation.schemas import Schemas
from gateway.mv.rewriting.quarantine import Quarantine
from sql.grammar import view_properties
from sql.names import TableName
from sql.statement import Consistency

STALE = "the view is not fresh"
PAST = "its immutable rows may differ from what its definition gives today; only rewrite_consistency OFF allows that"
_ENOUGH = {
    Consistency.CHECKED: {Freshness.FRESH},
    Consistency.STRICT: {Freshness.FRESH},
    Consistency.LOOSE: {Freshness.FRESH, Freshness.FRESH_WITHIN_GRACE},
    Consistency.OFF: {Freshness.FRESH, Freshness.FRESH_WITHIN_GRACE, Freshness.STALE},
}


class Standing:
    """Decides by the property `rewrite_consistency` of each view."""

    def __init__(
        self,
        catalog: Catalog,
        inspector: Inspector,
        schemas: Schemas,
        quarantine: Quarantine,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`clock`: the observer's."""
        self._catalog = catalog
        self._inspector = inspector
        self._schemas = schemas
        self._quarantine = quarantine
        self._clock = clock
        self._cheap: dict[str, tuple[Version, bool]] = {}
        """For the versions of views whether a look at all of their base tables is cheap."""

    async def objection(self, view_id: str, name: TableName) -> str | None:
        """Why the view with this id and name may not answer now; None if it may."""
        came, entry = self._clock(), self._catalog.find(view_id)
        if entry is None or entry.view.name != name:
            return "the view was dropped, replaced or renamed"
        if (reason := self._quarantine.reason(view_id)) is not None:
            return reason
        if not entry.view.complete:
            return "the view is not completely built"
        try:
            return await self._objection(entry, came)
        except FreshgateError as error:
            return f"it is not known whether the view is fresh: {error}"

    def is_quarantined(self, view_id: str) -> bool:
        return self._quarantine.reason(view_id) is not None

    def holds(self, view_id: str) -> bool:
        """Whether the view to which there was no objection may still answer: statements may have ended since."""
        entry = self._catalog.find(view_id)
        if entry is None or self._quarantine.reason(view_id) is not None:
            return False
        level = view_properties.consistency(entry.view.properties) or Consistency.CHECKED
        if entry.damage or not entry.view.complete or not _answers(entry.view, level):
            return False
        return self._catalog.freshness(view_id) in _ENOUGH[level]

    async def level(self, view: MaterializedView) -> Consistency:
        """The property, else strict if a look at the base tables is cheap, else checked."""
        given = view_properties.consistency(view.properties)
        if given is not None:
            return given
        return Consistency.STRICT if await self._is_cheap(view) else Consistency.CHECKED

    async def _objection(self, entry: Entry, came: float) -> str | None:
        view_id, level = entry.view.id, await self.level(entry.view)
        await self._catalog.writes.ask([view_id])
        if not _answers(entry.view, level):
            return PAST
        looked = await self._look(view_id, level, came)
        if entry.damage:
            return f"the view is damaged: {entry.damage}"
        freshness = self._catalog.freshness(view_id)
        if freshness is Freshness.UNKNOWN:
            return "it is not known whether the view is fresh"
        if freshness not in _ENOUGH[level]:
            return STALE
        if looked or freshness is not Freshness.FRESH:
            state, changes = (await self._schemas.states([entry.view]))[view_id]
            if state is not State.NORMAL:
                return f"the base tables have other columns: {changes}"
        return None

    async def _look(self, view_id: str, level: Consistency, came: float) -> bool:
        """Observes the base tables as far as the level demands it. Returns whether it did."""
        if level is Consistency.STRICT:
            await self._inspector.check([view_id], not_before=came)
            return True
        demanded = level is not Consistency.OFF or self._catalog.freshness(view_id) is Freshness.UNKNOWN
        if not demanded:
            await self._inspector.check_storage([view_id])
        if not demanded or not self._inspector.due([view_id]):
            return False
        await self._inspector.check([view_id])
        return True

    async def _is_cheap(self, view: MaterializedView) -> bool:
        known = self._cheap.get(view.id)
        if known is not None and known[0] is view.current:
            return known[1]
        looks = (await self._inspector.inspect(view, float("-inf"))).looks.values()
        tables = [look.relation for look in looks if look.relation is not None and not look.is_view]
        cheap = bool(tables) and all((found := format_of(table)) is not None and found.cheap for table in tables)
        self._cheap = {each: kept for each, kept in self._cheap.items() if self._catalog.find(each) is not None}
        self._cheap[view.id] = view.current, cheap
        return cheap


def _answers(view: MaterializedView, level: Consistency) -> bool:
    """Whether the rows of the view are those of its definition, apart from changes since, or need not be."""
    return view.clauses.immutable is None or level is Consistency.OFF
