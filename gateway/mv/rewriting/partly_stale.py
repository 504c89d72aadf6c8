"""Views whose rows answer queries on base tables together with rows that are computed while a query runs.

A view may have a part of the rows that a query asks for. A changed base table whose partitions a view follows makes
only some of the view's partitions stale. The other rows are computed anew while a query runs; nothing is stored, and no
refresh is caused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from gateway.errors import FreshgateError
from gateway.mv.catalog.index import Catalog
from gateway.mv.freshness.drift import Drift
from gateway.mv.freshness.entry import Entry
from gateway.mv.model.layout import HELD, MOMENTS
from gateway.mv.model.view import Freshness, MaterializedView
from gateway.mv.observation.inspection import Inspector
from gateway.mv.observation.schemas import Schemas
from gateway.mv.ports import SqlSession
from gateway.mv.refresh.habits import TIME_ZONE, Habits
from gateway.mv.refresh.proposer import Proposer
from gateway.mv.refresh.surroundings import Surroundings
from sql.grammar import view_properties
from sql.rewriting.template import Template
from sql.texts.maintenance import refresh_listing
from sql.texts.mixture import mixture
from sql.texts.storage_layout import PartitionKey, Selection

STALE_MAX = 100
"""Most partitions that are computed anew. The text names each of them."""
BASE_PARTITIONS_MAX = 2_000
"""Most changed partitions of the base table that are mapped to the view's."""
WRITTEN = "its base tables are being written, or are not known to be as they were observed"
TOO_MANY = "too many of its partitions are stale"
_REST = "rows that the view does not have are read from base tables"
_EXACT = re.compile(rf"(?:{'|'.join(sorted(HELD | MOMENTS))}|decimal\(\d+,\s*\d+\))")
"""Types of which equal values are identical."""


@dataclass(frozen=True, slots=True)
class Mixture:
    """A partly stale view, with its stale partitions computed anew; or a fresh one, beside rows of base tables."""

    view_id: str
    relation: str
    """It in the place of the view's name, as SQL."""
    stale: int
    partitions: int
    drift: Drift | None
    events: int
    """The last event in the view's ledger when it was found."""

    def over(self, template: Template) -> Template:
        """A text over the view, over this instead."""
        return template.over(self.relation)

    @property
    def source(self) -> str:
        """What is read besides the view, for the audit."""
        return "stale partitions of the view are computed anew from base tables" if self.stale else _REST

    @property
    def reason(self) -> str:
        if not self.stale:
            return _REST
        if self.stale == 1:
            return f"1 of {self.partitions} partitions is stale and is computed anew"
        return f"{self.stale} of {self.partitions} partitions are stale and are computed anew"


@dataclass(frozen=True, slots=True)
class _Outdated:
    """What is stale of one version. `drift` is what it was worked out from."""

    version: int
    drift: Drift
    stale: Selection
    shown: frozenset[PartitionKey]


class PartlyStale:
    """Finds which partitions are stale, and makes a relation of it."""

    def __init__(
        self,
        catalog: Catalog,
        inspector: Inspector,
        schemas: Schemas,
        proposer: Proposer,
        surroundings: Surroundings,
        habits: Habits,
        *,
        enabled: bool,
    ) -> None:
        self._catalog = catalog
        self._inspector = inspector
        self._schemas = schemas
        self._proposer = proposer
        self._surroundings = surroundings
        self._habits = habits
        self._enabled = enabled
        self._known: dict[str, _Outdated] = {}

    async def of(self, view_id: str) -> Mixture | str:
        """The view, which a read would find stale and whose base tables were observed as for such a read; or why it
        cannot be used. Never raises."""
        entry = self._catalog.find(view_id)
        if not self._enabled or entry is None:
            return "the view is not fresh"
        try:
            return await self._of(entry)
        except FreshgateError as error:
            return f"which partitions are stale is unknown: {error}"

    def with_rest(self, view_id: str) -> Mixture | str:
        """The view, of which a text also reads base tables: it must be fresh, whatever a query may do without them; or
        why it cannot be used."""
        entry = self._catalog.find(view_id)
        if not self._enabled or entry is None:
            return "the view has only a part of the rows, and rewrite.partly_stale is off"
        if entry.ledger.open or entry.damage or self._catalog.freshness(view_id) is not Freshness.FRESH:
            return WRITTEN
        return Mixture(view_id, entry.view.name.quoted, 0, 0, entry.drift, entry.ledger.events)

    async def _of(self, entry: Entry) -> Mixture | str:
        view = entry.view
        if reason := _unsuitable(view) or await self._reads_otherwise(view):
            return reason
        view, drift, events = entry.view, entry.observed_drift, entry.ledger.events
        if entry.damage:
            return f"the view is damaged: {entry.damage}"
        if drift is None or entry.ledger.open or self._catalog.freshness(view.id) is Freshness.UNKNOWN:
            return WRITTEN
        if drift.wholly or drift.behind or drift.unobserved or drift.unknown or not drift.partitions:
            return "what has changed is not known by partitions"
        if len(drift.partitions) > BASE_PARTITIONS_MAX:
            return TOO_MANY
        found = await self._outdated(view, drift)
        stale = found.stale.keys
        partitions = len(found.shown | stale)
        if found.stale.all_but or len(stale) > STALE_MAX or 2 * len(stale) > partitions:
            return TOO_MANY
        relation = mixture(view.name, view.definition, view.columns, view.layout, stale)
        mixed = Mixture(view.id, relation, len(stale), partitions, drift, events)
        if entry.view.current is not view.current or not self.holds(mixed):
            return WRITTEN
        return mixed

    async def _reads_otherwise(self, view: MaterializedView) -> str:
        """Why the definition might mean other rows now than when the view was refreshed; empty if it does not."""
        if changes := await self._schemas.changes(view):
            return f"its base tables have changed: {changes}"
        settings = {**await self._surroundings.created(view), **view_properties.session_settings(view.properties)}
        zone = settings.get(TIME_ZONE, self._habits.settings.get(TIME_ZONE))
        if view.layout.time_zone not in {"", zone}:
            return "its partitions are those of another time zone"
        return ""

    async def _outdated(self, view: MaterializedView, drift: Drift) -> _Outdated:
        known = self._known.get(view.id)
        if known is None or known.version != view.current.number or known.drift != drift:
            async with self._proposer.session_for(view) as session:
                stale, shown = await self._proposer.outdated(view, drift, session)
            known = _Outdated(view.current.number, drift, stale, shown)
            self._known = {each: found for each, found in self._known.items() if self._catalog.find(each) is not None}
            self._known[view.id] = known
        return known

    def holds(self, mixed: Mixture) -> bool:
        """Whether no write to the base tables has begun or ended since, as far as is known: otherwise the rows of the
        definition may show a write of which the view's rows show nothing."""
        entry = self._catalog.find(mixed.view_id)
        if entry is None or entry.damage:
            return False
        return entry.ledger.events == mixed.events and entry.drift in (None, mixed.drift)

    async def prepare(self, mixed: Mixture, session: SqlSession) -> None:
        """Makes Spark read the base tables as they are now in this session, in which the text will run: Spark may have
        cached old listings of their files. Raises FreshgateError."""
        view = self._catalog.entry(mixed.view_id).view
        listings = [view.definition] if self._habits.caches_listings else []
        for name in (*listings, *await self._inspector.cached(view)):
            await session.run(refresh_listing(name))


def _unsuitable(view: MaterializedView) -> str:
    """Why no state of the base tables makes the view partly stale; empty if one does."""
    if not view.complete or not view.layout.partitioned or view.followed is None:
        return "the view is not fresh, and its partitions do not follow those of a base table"
    if view.views:
        return "the view is not fresh, and it reads other materialized views"
    if view_properties.partition_window(view.properties) is not None or view.triggers != view.tables:
        return "the view is not fresh, and by its properties it does not hold or notice everything"
    if any(part.function for part in view.layout.parts):
        return "the view is not fresh, and it is partitioned by a transform"
    if strange := next((part.kind for part in view.layout.parts if _EXACT.fullmatch(part.kind) is None), ""):
        return f"the view is not fresh, and it is partitioned by a column of the type {strange}"
    return ""
