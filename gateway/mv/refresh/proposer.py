"""Proposes a refresh: what has changed, which of the view's partitions are affected, and so what must be written.

Tests: `test_proposal`.
"""

from __future__ import annotations

import operator
import time
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import islice
from typing import Any, TypeVar

from gateway.errors import RefreshFailed
from gateway.loops import in_thread
from gateway.mv import many
from gateway.mv.freshness.drift import PARTLY_BUILT, Drift, reason, selection
from gateway.mv.model.layout import taken_for_one
from gateway.mv.model.partitions import Called, Partition, StoredPartitions
from gateway.mv.model.snapshot import PartitionValues, Snapshot
from gateway.mv.model.view import REPLACED, Cause, FollowedTable, MaterializedView, base_key
from gateway.mv.observation.inspection import Inspection, Inspector
from gateway.mv.ports import Metastore, ServiceSessions, SqlSession
from gateway.mv.refresh.habits import Habits
from gateway.mv.refresh.planner import (
    Inherited,
    Recomputed,
    RefreshPlan,
    plan_publish,
    plan_refresh,
    window,
    window_of_column,
    window_of_key,
)
from gateway.mv.refresh.proposal import Keys, RefreshProposal, StandingPartition
from gateway.mv.refresh.routes import Extent, Route, Routes, extent_of
from gateway.mv.refresh.surroundings import Surroundings
from gateway.mv.versions.rows import open_partitions, stored_partitions
from sql.grammar import view_properties
from sql.statement import Method
from sql.texts import maintenance
from sql.texts.storage_layout import ALL, PartitionKey, Selection, Shown

T = TypeVar("T")

NAMED_MIN = 200
"""From this many named partitions on, the length of the public view's text is checked."""
NOTHING = Selection(all_but=False)
LOOKS_MAX = 3
"""How often base tables are observed in search of one state of all of them."""
KEYS_TOGETHER = 2_000
"""How many values one query maps to keys."""


class Proposer:
    """Asks Spark only for the view's own partitions, and for the keys of a base table's partitions."""

    def __init__(
        self,
        metastore: Metastore,
        sessions: ServiceSessions,
        inspector: Inspector,
        habits: Habits,
        surroundings: Surroundings,
        routes: Routes,
        view_characters_max: int,
    ) -> None:
        self._metastore = metastore
        self._sessions = sessions
        self._inspector = inspector
        self._habits = habits
        self._surroundings = surroundings
        self._routes = routes
        self._view_characters_max = view_characters_max

    async def propose(
        self,
        view: MaterializedView,
        before: MaterializedView,
        cause: Cause,
        version: int,
        session: SqlSession,
        *,
        plainly: bool = False,
        whole: bool = False,
    ) -> RefreshProposal:
        """`view` has what the definition reads now, `before` what it read at its last refresh. `plainly`: Spark reads
        the definition view, so that whatever its tables are then is right, and no refresh by rows can follow. `whole`:
        if anything has changed, everything has. Raises what Spark raises, and RefreshFailed if the cause allows only a
        refresh by rows."""
        inspection = await self._inspector.inspect(view, cause.not_before)
        for _ in range(LOOKS_MAX):
            proposal = await self._propose(
                view, before, cause, version, session, inspection, plainly=plainly, whole=whole
            )
            if not proposal.compares:
                return proposal
            again = await self.look_anew(view)
            if await in_thread(again.partitions, operator.eq, again.observed, inspection.observed):
                return proposal
            inspection = again
        if view.method_for(cause) is Method.INCREMENTAL:
            raise RefreshFailed(
                f"The base tables of the materialized view {view.name} change faster than they can be observed. "
                f"Refresh it again.",
                sqlstate="40001",
            )
        return await self._propose(view, before, cause, version, session, inspection, plainly=True)

    async def _propose(
        self,
        view: MaterializedView,
        before: MaterializedView,
        cause: Cause,
        version: int,
        session: SqlSession,
        inspection: Inspection,
        *,
        plainly: bool,
        whole: bool = False,
    ) -> RefreshProposal:
        view = replace(view, followed=await self._inspector.followed(view, before, inspection))
        size = inspection.partitions + view.current.partitions
        seen = await inspection.drift(view)
        found = _found(view, before, replace(cause, complete=True, partitions=()) if whole else cause, seen)
        if whole and seen.none and not cause.demand:
            found = seen
        single = bool(cause.partitions) and view.followed is not None and not found.unobserved
        # If nothing was written yet, nothing can have changed: single partitions can be written next to none or some.
        single = single and not (_moved(view, before) if not view.complete else found.wholly)
        if found.none and not cause.mends:
            if cause.compacts:
                return RefreshProposal(view, self._copied(view, version), inspection)
            if not single:
                return RefreshProposal(view, None, inspection)
        await in_thread(size, _check_told_apart, view, inspection)
        keys = await self._keys(view, _wanted(view, found, inspection), session)
        left = await self._left(view, session)
        named = await self._called(view, inspection, cause.partitions, session) if single else None
        shown = await self.shown(view, session) if view.layout.partitioned else frozenset[PartitionKey]()
        past = await self._past(view, shown.union(keys.of.values()), session)
        if past:
            keys = Keys({values: key for values, key in keys.of.items() if key not in past})
        extent = await in_thread(size, extent_of, view, found, keys.of, named, shown, past)
        chosen = extent.chosen
        if not chosen.all_but and not chosen.keys and not left:
            return RefreshProposal(view, None, inspection, keys, single)
        route = Route()
        if not plainly and (chosen.all_but or chosen.keys):
            route = await self._routes.choose(view, cause, found, inspection, session, extent)
        if route.no_rows:
            if not left:
                return RefreshProposal(view, None, inspection, no_rows=True)
            chosen = NOTHING
        known = _to_come(chosen, keys, shown) - left
        plan = await in_thread(
            len(chosen.keys) + len(known),
            plan_refresh,
            view,
            version,
            _why(view, cause, found),
            self._habits,
            renewed=inspection.renewed(seen.tables),
            chosen=chosen,
            known=known,
            left=left,
            kept=extent.kept,
            source=route.source,
        )
        plan = replace(plan, route=route.why)
        if not await self._is_short(plan):
            why = f"{plan.reason}; too many partitions to name them in a view"
            source = await self._whole(view, inspection, session, plainly=plainly)
            plan = plan_refresh(view, version, why, self._habits, renewed=plan.renewed, source=source)
        return RefreshProposal(view, plan, inspection, keys, single and not plan.chosen.everything, route.no_rows)

    async def _whole(
        self, view: MaterializedView, inspection: Inspection, session: SqlSession, *, plainly: bool
    ) -> Recomputed:
        return Recomputed() if plainly else await self._routes.recomputed(view, inspection, session, Extent())

    def _copied(self, view: MaterializedView, version: int) -> RefreshPlan | None:
        """None if the current version no longer has the rows of several."""
        if view.current.shown.versions == 1 or view.layout.partitioned:
            return None
        route, why = self._routes.copied(view), "its rows are in many versions"
        return replace(plan_refresh(view, version, why, self._habits, source=route.source), route=route.why)

    async def _is_short(self, plan: RefreshPlan) -> bool:
        """Whether the metastore accepts a public view that names so many replaced partitions."""
        hidden = sum(map(len, plan.view.current.shown.hidden.values()))
        few = not plan.chosen.all_but and len(plan.chosen.keys) + hidden < NAMED_MIN
        if plan.chosen.everything or few or plan.view.layout.open is not None:
            return True
        present = await self.present(plan.view)
        return await in_thread(len(present), _published_characters, plan, present) <= self._view_characters_max

    @asynccontextmanager
    async def session_for(self, view: MaterializedView) -> AsyncIterator[SqlSession]:
        """A session in which the view's partitions have the keys that refreshes give them."""
        async with self._sessions.session() as session, self._surroundings.computing(view, session):
            yield session

    async def look_anew(self, view: MaterializedView) -> Inspection:
        """Observes everything that the view reads, without using earlier observations."""
        return await self._inspector.inspect(view, float("inf"))

    async def first(
        self, view: MaterializedView, inspection: Inspection, session: SqlSession, *, plainly: bool = False
    ) -> RefreshPlan:
        """The plan for the first version of a new view. `plainly`: as in `propose`. Raises what Spark raises."""
        number = view.current.number
        renewed = inspection.renewed(view_bases(view))
        source = await self._whole(view, inspection, session, plainly=plainly)
        return plan_refresh(view, number, "first build", self._habits, renewed=renewed, source=source)

    def inherited(self, view: MaterializedView, inspection: Inspection, source: Inherited) -> RefreshPlan:
        """The plan for the first version of a new view, from the rows of the one that it replaces."""
        route = f"from the stored rows of version {source.version} of the replaced view{source.beside}"
        number = view.current.number
        renewed = inspection.renewed(view_bases(view)) if source.adds_rest else []
        return replace(plan_refresh(view, number, REPLACED, self._habits, renewed=renewed, source=source), route=route)

    # --- partitions of the view --------------------------------------------------------------------

    async def standings(self, view: MaterializedView, session: SqlSession) -> list[StandingPartition]:
        """The partitions that the view shows, and what each misses. Raises what Spark raises."""
        inspection = await self._inspector.inspect(view, float("-inf"))
        found = await inspection.drift(view)
        keys = await self._keys(view, found.partitions, session)
        counted = maintenance.partition_rows(view.storage, view.current.shown, view.layout)
        rows = (await session.run(counted)).rows
        return await in_thread(len(rows) + len(keys.of), _standings, view, found, frozenset(keys.of.values()), rows)

    async def outdated(
        self, view: MaterializedView, found: Drift, session: SqlSession
    ) -> tuple[Selection, frozenset[PartitionKey]]:
        """The partitions that a refresh would write if the base tables differ so, and those that the view shows. Raises
        what Spark raises."""
        keys = await self._keys(view, found.partitions, session)
        left_out = not found.partitions <= keys.of.keys()
        chosen = ALL if left_out else await in_thread(len(keys.of), selection, view, found, keys.of)
        return chosen, await self.shown(view, session)

    async def missing(self, view: MaterializedView, names: Iterable[str], session: SqlSession) -> list[str]:
        """The names that belong to no partition of the view, nor to one that a refresh would create now."""
        inspection = await self._inspector.inspect(view, time.monotonic())
        names = list(names)
        known = await self._known_by(view, inspection, names, session)
        called = await in_thread(len(known), Called, known.values(), view.partitioning.columns)
        return [name for name in names if not called[name]]

    async def _called(
        self, view: MaterializedView, inspection: Inspection, names: Iterable[str], session: SqlSession
    ) -> frozenset[PartitionKey]:
        named = frozenset(names)
        known = await self._known_by(view, inspection, named, session)
        return await in_thread(len(known), _meant, known, named, view.partitioning.columns)

    async def expected(self, view: MaterializedView, session: SqlSession) -> list[PartitionKey]:
        """The partitions that a first refresh would write; runs the definition."""
        question = maintenance.definition_keys(view.definition, view.layout, window(view))
        return [key for (key,) in (await session.run(question)).rows]

    async def _known_by(
        self, view: MaterializedView, inspection: Inspection, names: Iterable[str], session: SqlSession
    ) -> dict[PartitionKey, Partition]:
        """As `_known`. For a view that is not built, also runs the definition if a name is not found otherwise."""
        known = await self._known(view, inspection, session)
        if view.complete:
            return known
        called = await in_thread(len(known), Called, known.values(), view.partitioning.columns)
        if all(called[name] for name in names):
            return known
        # Not every table shows all its partitions at the first observation.
        expected = await self.expected(view, session)
        return await in_thread(len(known) + len(expected), lambda: known | _described(view, expected))

    async def _known(
        self, view: MaterializedView, inspection: Inspection, session: SqlSession
    ) -> dict[PartitionKey, Partition]:
        """The partitions that the view shows, and those that the followed table leads to now."""
        shown = await self.shown(view, session)
        leading = await self._keys(view, _all_of(view, inspection), session)
        return await in_thread(len(shown) + len(leading.of), lambda: _described(view, shown.union(leading.of.values())))

    async def present(self, view: MaterializedView) -> list[tuple[int, PartitionKey]]:
        """The versions and partitions with rows in the storage table; none if it has no partitions or no rows."""
        if view.layout.open is not None or not view.layout.partitioned:
            return []
        return await stored_partitions(self._metastore, view.storage)

    async def shown(self, view: MaterializedView, session: SqlSession) -> frozenset[PartitionKey]:
        """The partitions that the current version shows."""
        if view.layout.open is not None:
            return await open_partitions(session, view)
        present = await self.present(view)
        return await in_thread(len(present), _shown_of, view.current.shown, present)

    async def _keys(self, view: MaterializedView, partitions: Collection[PartitionValues], session: SqlSession) -> Keys:
        if view.followed is None:
            return Keys()
        followed = view.followed
        by_value = await in_thread(len(partitions), _by_value, partitions, followed)
        columns = [(part.kind, part.expression) for part in followed.parts]
        found: dict[PartitionValues, PartitionKey] = {}
        for some in _together(by_value):
            question = maintenance.partition_keys(some, columns, view.layout, window_of_column(view))
            for place, key, within in (await session.run(question)).rows:
                if within:
                    found.update(dict.fromkeys(by_value[some[place]], key))
        return Keys(found)

    async def _past(
        self, view: MaterializedView, keys: frozenset[PartitionKey], session: SqlSession
    ) -> frozenset[PartitionKey]:
        """Those of the partitions all of whose rows are immutable, as far as their keys tell."""
        if not view.by_partitions:
            return frozenset()
        past: set[PartitionKey] = set()
        for some in _together(await in_thread(len(keys), many.in_order, keys, lambda key: key or "")):
            answer = await session.run(maintenance.keys_meeting(some, view.layout, view.past))
            past.update(row[0] for row in answer.rows)
        return frozenset(past)

    async def _left(self, view: MaterializedView, session: SqlSession) -> frozenset[PartitionKey]:
        """The shown partitions that are now outside partition_sync_limit."""
        condition = window_of_key(view)
        if not condition:
            return frozenset()
        shown = await self.shown(view, session)
        ordered = await in_thread(len(shown), many.in_order, shown, lambda key: key or "")
        left: set[PartitionKey] = set()
        for some in _together(ordered):
            answer = await session.run(maintenance.keys_without(some, condition))
            left.update(row[0] for row in answer.rows)
        return frozenset(left)


# --- functions over all partitions: these run in a thread, beside the event loop ---------------------------------


def _described(view: MaterializedView, keys: Iterable[PartitionKey]) -> dict[PartitionKey, Partition]:
    stored = StoredPartitions(view)
    return {key: stored.of(key) for key in keys}


def _meant(
    known: Mapping[PartitionKey, Partition], names: Iterable[str], columns: Iterable[str]
) -> frozenset[PartitionKey]:
    """The keys of the partitions with these names."""
    called = Called(known.values(), columns)
    found = {each for name in names for each in called[name]}
    return frozenset(key for key, each in known.items() if each in found)


def _by_value(
    partitions: Iterable[PartitionValues], followed: FollowedTable
) -> dict[PartitionValues, list[PartitionValues]]:
    """Groups partitions by their values in the followed columns."""
    found: dict[PartitionValues, list[PartitionValues]] = {}
    for values in partitions:
        found.setdefault(followed.values(values), []).append(values)
    return found


def _shown_of(shown: Shown, present: Iterable[tuple[int, PartitionKey]]) -> frozenset[PartitionKey]:
    return frozenset(key for version, key in present if shown.shows(version, key))


def _to_come(chosen: Selection, keys: Keys, shown: frozenset[PartitionKey]) -> frozenset[PartitionKey]:
    """The partitions that the view will have. If all but some are written, includes those whose keys were not
    asked for."""
    leading = frozenset(keys.of.values())
    return leading | shown if chosen.all_but and not chosen.everything else leading


def _published_characters(plan: RefreshPlan, present: Iterable[tuple[int, PartitionKey]]) -> int:
    """The length of the statement that publishes the plan."""
    both = [*present, *((plan.version, key) for key in plan.chosen.keys)]
    return len(plan_publish(plan.view, plan.shown(both)).sql)


def _standings(
    view: MaterializedView, found: Drift, touched: frozenset[PartitionKey], rows: Iterable[tuple[Any, ...]]
) -> list[StandingPartition]:
    standings, stored = [], StoredPartitions(view)
    for key, count in rows:
        writer = view.current.manifest.writer(key)
        standings.append(
            StandingPartition(stored.of(key, int(count)), writer, _unsynced(found, key in touched, writer))
        )
    return standings


def _unsynced(found: Drift, touched: bool, writer: int) -> frozenset[str]:
    """The tables whose changes a partition misses, by `base_key`."""
    if found.unobserved:
        return frozenset(found.unobserved) | found.tables
    followed = frozenset({found.followed}) if touched else frozenset[str]()
    return followed | found.wholly | found.behind_of(writer)


def _found(view: MaterializedView, before: MaterializedView, cause: Cause, found: Drift) -> Drift:
    """The drift; everything counts as changed if the definition means something else or all was asked for."""
    complete = cause.complete and (not cause.partitions or view.followed is None)
    if not _moved(view, before) and not complete and view.complete:
        return found
    return Drift(wholly=found.tables or view_bases(view), unobserved=found.unobserved, followed=found.followed)


def _moved(view: MaterializedView, before: MaterializedView) -> bool:
    """Whether the definition reads something else than at the last refresh."""
    if (view.tables, view.views, view.followed) != (before.tables, before.views, before.followed):
        return True
    # Two views below may have swapped their names.
    return any(view.view_names.get(base, name) != name for base, name in before.view_names.items())


def view_bases(view: MaterializedView) -> frozenset[str]:
    return frozenset(map(base_key, view.tables)) | view.views


def _wanted(view: MaterializedView, found: Drift, inspection: Inspection) -> Collection[PartitionValues]:
    """The partitions of the followed table whose keys are needed: the changed ones, or all if a complete refresh is
    divided into parts."""
    if view_properties.partitions_together(view.properties) is not None:
        return {*_all_of(view, inspection), *found.partitions}
    return found.partitions


def _all_of(view: MaterializedView, inspection: Inspection) -> Collection[PartitionValues]:
    look = inspection.observed.get(view.followed.base) if view.followed else None
    return look.partitions if isinstance(look, Snapshot) else ()


def _check_told_apart(view: MaterializedView, inspection: Inspection) -> None:
    """Raises RefreshFailed if the metastore cannot distinguish the view's partitions."""
    for layout, followed in zip(view.layout.parts, view.followed.parts if view.followed else (), strict=False):
        if not layout.holds_column or layout.kind != "string":
            continue
        if (found := taken_for_one(inspection.values_of(followed))) is None:
            continue
        one, other = found
        raise RefreshFailed(
            f"The partition column {layout.column} of materialized view {view.name} contains '{one}' and '{other}', "
            f"which Hive's metastore treats as one partition. Recreate the view with CREATE OR REPLACE, which then "
            f"stores them in another way.",
            sqlstate="22023",
        )


def _why(view: MaterializedView, cause: Cause, found: Drift) -> str:
    if cause.demand:
        return cause.demand
    if not view.complete:
        return PARTLY_BUILT if view.built else "it has not been built yet"
    return reason(view, found)


def _together(things: Iterable[T]) -> Iterator[list[T]]:
    rest = iter(things)
    while some := list(islice(rest, KEYS_TOGETHER)):
        yield some
