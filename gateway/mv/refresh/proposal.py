"""Proposes a refresh: what differs today, which of the view's partitions that touches, and so what must be written."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import islice

from gateway.errors import RefreshFailed
from gateway.mv.freshness.drift import PARTLY_BUILT, Drift, drift, next_contents, reason, selection
from gateway.mv.model.layout import taken_for_one
from gateway.mv.model.partitions import Called, Partition, of_key
from gateway.mv.model.snapshot import PartitionValues, Snapshot
from gateway.mv.model.view import Cause, Contents, MaterializedView, base_key
from gateway.mv.observation.inspection import Inspection, Inspector
from gateway.mv.ports import Metastore, Sessions, SqlSession
from gateway.mv.refresh.habits import Habits
from gateway.mv.refresh.planner import (
    RefreshPlan,
    in_order,
    plan_publish,
    plan_refresh,
    window,
    window_of_column,
    window_of_key,
)
from gateway.mv.refresh.surroundings import Surroundings
from gateway.mv.versions.rows import stored_partitions
from sql.grammar import view_properties
from sql.texts import maintenance
from sql.texts.maintenance import PartitionKey, Selection

NAMED_MIN = 200
"""Partitions that a public view names, from which on it is worth to look how long its text becomes."""
KEYS_TOGETHER = 2_000
"""Values in one question for their keys."""


@dataclass(frozen=True, slots=True)
class Keys:
    """The view's partitions that partitions of the followed table lead to. Those that partition_sync_limit keeps out
    are left out."""

    of: Mapping[PartitionValues, PartitionKey] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Standing:
    """A partition of a view, the version that wrote it, and the tables with which it is not in sync."""

    partition: Partition
    version: int
    unsynced: frozenset[str]


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a refresh would do."""

    view: MaterializedView
    """With what it reads, and follows, today."""
    plan: RefreshPlan | None
    """None: nothing that the view shows has changed."""
    inspection: Inspection
    keys: Keys = field(default=Keys())
    partly: bool = False
    """Only partitions that were named are looked after: of the others nothing new is known."""

    def contents(self, version: int) -> Contents:
        """What the base tables look like to the version that the plan writes; to the current one where it writes
        nothing."""
        chosen = self.plan.chosen if self.plan else Selection(all_but=False)
        return next_contents(self.view, version, chosen, self.inspection.snapshots, self.keys.of)

    @property
    def partitions(self) -> tuple[str, ...]:
        """The names of the partitions that are recomputed, in order, as far as they are known; empty where all are at
        once."""
        written = self.plan.written if self.plan else ()
        return tuple(of_key(self.view, key).name for key in sorted(written, key=in_order))


class Proposer:
    """Asks Spark for no more than the view's own partitions, and what partitions of a base table lead to."""

    def __init__(
        self,
        metastore: Metastore,
        sessions: Sessions,
        inspector: Inspector,
        habits: Habits,
        surroundings: Surroundings,
        view_characters_max: int,
    ) -> None:
        self._metastore = metastore
        self._sessions = sessions
        self._inspector = inspector
        self._habits = habits
        self._surroundings = surroundings
        self._view_characters_max = view_characters_max

    async def propose(
        self, view: MaterializedView, before: MaterializedView, cause: Cause, version: int, session: SqlSession
    ) -> Proposal:
        """`view` has what the definition reads today, `before` what it read when it was refreshed last. Raises what
        Spark raises."""
        inspection = await self._inspector.inspect(view, cause.not_before)
        view = replace(view, followed=self._inspector.followed(view, before, inspection))
        seen = drift(view, inspection.observed)
        found = _found(view, before, cause, seen)
        single = bool(cause.partitions) and view.followed is not None and not found.unobserved
        # What was never written cannot have changed: single partitions are written beside none, or some.
        single = single and not (_moved(view, before) if not view.complete else found.wholly)
        if found.none and not single:
            return Proposal(view, None, inspection)
        _check_told_apart(view, inspection)
        keys = await self._keys(view, _wanted(view, found, inspection), session)
        left = await self._left(view, session)
        if single:
            named = await self._called(view, inspection, cause.partitions, session)
            chosen = Selection(named, all_but=False)
        else:
            chosen = selection(view, found, keys.of)
        if not chosen.all_but and not chosen.keys and not left:
            return Proposal(view, None, inspection, keys, single)
        plan = plan_refresh(
            view,
            version,
            _why(view, cause, found),
            self._habits,
            renewed=inspection.renewed(seen.tables),
            chosen=chosen,
            known=await self._to_come(view, chosen, keys) - left,
            left=left,
        )
        plan = await self._short_enough(plan)
        return Proposal(view, plan, inspection, keys, single and not plan.chosen.everything)

    async def _short_enough(self, plan: RefreshPlan) -> RefreshPlan:
        """The plan; or one that recomputes everything, where the metastore would not take a public view that names so
        many replaced partitions."""
        hidden = sum(map(len, plan.view.current.shown.hidden.values()))
        if plan.chosen.everything or (not plan.chosen.all_but and len(plan.chosen.keys) + hidden < NAMED_MIN):
            return plan
        present = [*await self.present(plan.view), *((plan.version, key) for key in plan.chosen.keys)]
        if len(plan_publish(plan.view, plan.shown(present)).sql) <= self._view_characters_max:
            return plan
        said = f"{plan.reason}; too many partitions to name them in a view"
        return plan_refresh(plan.view, plan.version, said, self._habits, renewed=plan.renewed)

    @asynccontextmanager
    async def session_for(self, view: MaterializedView) -> AsyncIterator[SqlSession]:
        """A session in which the view's partitions have the keys that refreshes give them."""
        async with self._sessions.session() as session, self._surroundings.computing(view, session):
            yield session

    async def look_anew(self, view: MaterializedView) -> Inspection:
        """Looks at all that the view reads; no earlier look counts."""
        return await self._inspector.inspect(view, float("inf"))

    def first(self, view: MaterializedView, inspection: Inspection) -> RefreshPlan:
        """The plan of a view that has no rows yet."""
        number = view.current.number
        renewed = inspection.renewed(view_bases(view))
        return plan_refresh(view, number, "first build", self._habits, renewed=renewed)

    # --- partitions of the view --------------------------------------------------------------------

    async def standings(self, view: MaterializedView, session: SqlSession) -> list[Standing]:
        """The partitions that the view shows, and how each stands to the base tables. Raises what Spark raises."""
        inspection = await self._inspector.inspect(view, float("-inf"))
        found = drift(view, inspection.observed)
        keys = await self._keys(view, found.partitions, session)
        counted = maintenance.partition_rows(view.storage, view.current.shown, view.layout)
        touched = frozenset(keys.of.values())
        return [
            Standing(of_key(view, key, int(rows)), writer, _unsynced(found, key in touched, writer))
            for key, rows in (await session.run(counted)).rows
            for writer in (view.current.manifest.writer(key),)
        ]

    async def missing(self, view: MaterializedView, names: Iterable[str], session: SqlSession) -> list[str]:
        """Those of the names that no partition of the view has, nor one that a refresh would make now."""
        inspection = await self._inspector.inspect(view, time.monotonic())
        names = list(names)
        called = Called((await self._known_by(view, inspection, names, session)).values(), view.layout.column)
        return [name for name in names if not called[name]]

    async def _called(
        self, view: MaterializedView, inspection: Inspection, names: Iterable[str], session: SqlSession
    ) -> frozenset[PartitionKey]:
        named = frozenset(names)
        known = await self._known_by(view, inspection, named, session)
        called = Called(known.values(), view.layout.column)
        meant = {each for name in named for each in called[name]}
        return frozenset(key for key, each in known.items() if each in meant)

    async def expected(self, view: MaterializedView, session: SqlSession) -> list[PartitionKey]:
        """The partitions that a first refresh would write: the definition is run for that."""
        question = maintenance.definition_keys(view.definition, view.layout, window(view))
        return [key for (key,) in (await session.run(question)).rows]

    async def _known_by(
        self, view: MaterializedView, inspection: Inspection, names: Iterable[str], session: SqlSession
    ) -> dict[PartitionKey, Partition]:
        """As `_known`; of a view that was not built, all that there would be where a name is not found otherwise."""
        known = await self._known(view, inspection, session)
        called = Called(known.values(), view.layout.column)
        if view.complete or all(called[name] for name in names):
            return known
        # Not every table tells all its partitions at the first look.
        return known | {key: of_key(view, key) for key in await self.expected(view, session)}

    async def _known(
        self, view: MaterializedView, inspection: Inspection, session: SqlSession
    ) -> dict[PartitionKey, Partition]:
        """Partitions that the view shows, and those that the followed table leads to today."""
        shown = await self.shown(view)
        leading = await self._keys(view, _all_of(view, inspection), session)
        return {key: of_key(view, key) for key in shown | set(leading.of.values())}

    async def present(self, view: MaterializedView) -> list[tuple[int, PartitionKey]]:
        """The versions and partitions of which the storage has rows, where partitions matter."""
        return await stored_partitions(self._metastore, view.storage) if view.layout.partitioned else []

    async def shown(self, view: MaterializedView) -> frozenset[PartitionKey]:
        """The partitions that the current version shows."""
        current = view.current.shown
        return frozenset(key for version, key in await self.present(view) if current.shows(version, key))

    async def _keys(self, view: MaterializedView, partitions: Iterable[PartitionValues], session: SqlSession) -> Keys:
        if view.followed is None:
            return Keys()
        followed = view.followed
        by_value: dict[str | None, list[PartitionValues]] = {}
        for values in partitions:
            by_value.setdefault(values[followed.place], []).append(values)
        found: dict[PartitionValues, PartitionKey] = {}
        for some in _together(by_value):
            question = maintenance.partition_keys(
                some, followed.kind, followed.expression, view.layout, window_of_column(view)
            )
            for value, key, within in (await session.run(question)).rows:
                if within:
                    found.update(dict.fromkeys(by_value[value], key))
        return Keys(found)

    async def _to_come(self, view: MaterializedView, chosen: Selection, keys: Keys) -> frozenset[PartitionKey]:
        """Where all but some partitions are written, those that nobody asked Spark about count, too."""
        leading = frozenset(keys.of.values())
        return leading | await self.shown(view) if chosen.all_but and not chosen.everything else leading

    async def _left(self, view: MaterializedView, session: SqlSession) -> frozenset[PartitionKey]:
        """Shown partitions that partition_sync_limit keeps out by now."""
        condition = window_of_key(view)
        if not condition:
            return frozenset()
        shown = sorted(await self.shown(view), key=lambda key: key or "")
        left: set[PartitionKey] = set()
        for some in _together(shown):
            answer = await session.run(maintenance.keys_without(some, condition))
            left.update(row[0] for row in answer.rows)
        return frozenset(left)


def _unsynced(found: Drift, touched: bool, writer: int) -> frozenset[str]:
    """The tables whose changes a partition misses, by `base_key`."""
    if found.unobserved:
        return frozenset(found.unobserved) | found.tables
    followed = frozenset({found.followed}) if touched else frozenset[str]()
    return followed | found.wholly | found.behind_of(writer)


def _found(view: MaterializedView, before: MaterializedView, cause: Cause, found: Drift) -> Drift:
    """The difference; all of it where the definition means something else, or everything was asked for."""
    complete = cause.complete and (not cause.partitions or view.followed is None)
    if not _moved(view, before) and not complete and view.complete:
        return found
    return Drift(wholly=found.tables or view_bases(view), unobserved=found.unobserved, followed=found.followed)


def _moved(view: MaterializedView, before: MaterializedView) -> bool:
    """Whether the definition reads something else than when the view was refreshed last."""
    if (view.tables, view.views, view.followed) != (before.tables, before.views, before.followed):
        return True
    # Two views below may have exchanged their names.
    return any(view.view_names.get(base, name) != name for base, name in before.view_names.items())


def view_bases(view: MaterializedView) -> frozenset[str]:
    return frozenset(map(base_key, view.tables)) | view.views


def _wanted(view: MaterializedView, found: Drift, inspection: Inspection) -> Iterable[PartitionValues]:
    """The partitions of the followed table whose keys matter: the changed ones, or all where a complete refresh is cut
    into parts."""
    if view_properties.partitions_together(view.properties) is not None:
        return {*_all_of(view, inspection), *found.partitions}
    return found.partitions


def _all_of(view: MaterializedView, inspection: Inspection) -> Iterable[PartitionValues]:
    look = inspection.observed.get(view.followed.base) if view.followed else None
    return look.partitions if isinstance(look, Snapshot) else ()


def _check_told_apart(view: MaterializedView, inspection: Inspection) -> None:
    """Raises RefreshFailed where the metastore would not take the view's partitions."""
    layout, followed = view.layout, view.followed
    if followed is None or not layout.holds_column or layout.kind != "string":
        return
    if (found := taken_for_one(inspection.values_of(followed))) is not None:
        one, other = found
        raise RefreshFailed(
            f"The partition column {layout.column} of materialized view {view.name} holds '{one}' and '{other}', which "
            f"Hive's metastore takes for one partition. Create the view anew with CREATE OR REPLACE, which then stores "
            f"them in another way.",
            sqlstate="22023",
        )


def _why(view: MaterializedView, cause: Cause, found: Drift) -> str:
    if said := asked_for(cause):
        return said
    if not view.complete:
        return PARTLY_BUILT if view.built else "it was not built yet"
    return reason(view, found)


def asked_for(cause: Cause) -> str:
    """Why something is recomputed, where that was asked for; empty otherwise."""
    if cause.partitions:
        return "partitions were asked for"
    return "everything was asked for" if cause.complete else ""


def _together(keys: Iterable[PartitionKey]) -> Iterator[list[PartitionKey]]:
    rest = iter(keys)
    while some := list(islice(rest, KEYS_TOGETHER)):
        yield some
