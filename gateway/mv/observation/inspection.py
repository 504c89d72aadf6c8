"""Compares views with the current state of their base tables, and records the result in the catalog."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from gateway.errors import FreshgateError, NoSuchView
from gateway.loops import in_thread
from gateway.mv.catalog.index import Catalog
from gateway.mv.catalog.settlement import Settlement
from gateway.mv.concurrency import gathered
from gateway.mv.formats.known_formats import format_of
from gateway.mv.freshness.drift import Drift, drift
from gateway.mv.freshness.entry import Entry
from gateway.mv.model.damage import changed_version
from gateway.mv.model.snapshot import GONE, MISSING, Observed, PartitionValues, Snapshot, Unobserved
from gateway.mv.model.spark_types import sql_type
from gateway.mv.model.view import FollowedTable, MaterializedView, Version, base_key
from gateway.mv.observation.look import Look
from gateway.mv.observation.observer import Observer
from gateway.mv.observation.relations import Relations, definition_reads
from gateway.mv.observation.storage_looks import StorageLooks
from gateway.mv.ports import Relation
from sql.definition.bases import Bases, bases, of_expression
from sql.definition.following import CannotFollow, Source, follow
from sql.grammar import view_properties
from sql.names import SESSION_CATALOG, TableName
from sql.statement import Partitioning
from sql.texts.iceberg_texts import PartitionField, partition_field
from sql.texts.observation import plain_path
from sql.texts.storage_layout import MARKED, PLACE, divided

log = logging.getLogger(__name__)

SETTLED_TOGETHER = 20
"""How many views of a draft one statement has looked at by themselves at a time."""


@dataclass(frozen=True, slots=True)
class Inspection:
    """The current state of all base tables of a view."""

    observed: Mapping[str, Observed]
    """By `base_key`, without the tables in excluded_trigger_tables."""
    looks: Mapping[TableName, Look]

    @property
    def partitions(self) -> int:
        """How many partitions the tables have."""
        return sum(len(look.partitions) for look in self.observed.values() if isinstance(look, Snapshot))

    async def drift(self, view: MaterializedView) -> Drift:
        """How the base tables differ from what the view's current version contains."""
        return await in_thread(self.partitions + view.current.partitions, drift, view, self.observed)

    @property
    def began(self) -> dict[TableName, float]:
        """When each observation began, by the observer's clock."""
        return {table: look.began for table, look in self.looks.items()}

    @property
    def cached(self) -> list[TableName]:
        """Tables whose metadata each Spark session caches: refreshing the cache of a view that reads them does not
        reach them."""
        found = (look for look in self.looks.values() if look.relation and _is_cached(look.relation))
        return sorted({look.root or look.relation.name for look in found if look.relation})

    def renewed(self, changed: Container[str]) -> list[TableName]:
        """Tables, and paths of their files, for which Spark must refresh its caches before a refresh reads them: the
        `cached` ones and those of `changed` (`base_key`s). Spark does not notice changes that bypassed it, and may hold
        the old rows in memory, through CACHE TABLE, for every session. Whether a change bypassed Spark is unknown."""
        read = [
            (look.root or look.relation.name, look.relation)
            for table, look in self.looks.items()
            if look.relation and not look.is_view and base_key(table) in changed
        ]
        # For a table without partitions, Spark fills its cache of rows again from the files that it knew; for a path it
        # lists them again (CacheManager.recacheByPath).
        paths = {
            TableName(relation.provider, plain_path(relation.location))
            for _, relation in read
            if relation.location and not _is_cached(relation)
        }
        return [*sorted({*self.cached, *(name for name, _ in read)}), *sorted(paths)]

    def values_of(self, followed: FollowedTable) -> list[str | None]:
        """The values of the partitions of the followed table in one followed column, as far as they are known."""
        look = self.observed.get(followed.base)
        return [values[followed.place] for values in look.partitions] if isinstance(look, Snapshot) else []

    @property
    def snapshots(self) -> dict[str, Snapshot]:
        return {base: look for base, look in self.observed.items() if isinstance(look, Snapshot) and look != MISSING}

    def until(self, after: Inspection | None) -> dict[str, Snapshot]:
        """What rows contain that were read since this inspection, and before `after`; None: nothing was written then
        to what it shows."""
        if after is None:
            return self.snapshots
        later = after.snapshots
        return {base: look.until(later.get(base)) for base, look in self.snapshots.items()}


Situation = Mapping[str, tuple[object, ...]]
"""What a refresh of a view would find, by the ids of the view and of those below it. Only for comparison."""


class Inspector:
    """Observes the base tables of views when an observation is due."""

    def __init__(
        self,
        catalog: Catalog,
        relations: Relations,
        observer: Observer,
        settlement: Settlement,
        storages: StorageLooks,
        probe_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._catalog = catalog
        self._relations = relations
        self._observer = observer
        self._settlement = settlement
        self._storages = storages
        self._probe_seconds = probe_seconds
        self._clock = clock
        self._unread: set[TableName] = set()
        """Observed tables that no view of the catalog reads."""
        self._creating: dict[str, frozenset[TableName]] = {}
        """What the views that CREATE is building read, by view id: the catalog may not contain them yet."""

    def is_drafted(self, view_ids: Iterable[str]) -> bool:
        """Whether only a draft is known of one of the views, or of those below them."""
        return bool(self._drafted(view_ids))

    async def read_drafted(self, view_ids: Iterable[str]) -> None:
        """Returns when more than a draft is known of the views, and of those below them. Raises what the metastore
        raises."""
        asked = frozenset(view_ids)
        # What one of them was found to read may be known by a draft, too.
        while drafted := self._drafted(asked):
            await gathered(self._settle(entry) for entry in drafted[:SETTLED_TOGETHER])

    def _drafted(self, view_ids: Iterable[str]) -> list[Entry]:
        if self._settlement.reviewed:
            return []
        return [entry for entry in self._below(view_ids) if entry.drafted]

    async def _settle(self, entry: Entry) -> None:
        with contextlib.suppress(NoSuchView):  # It is not in the catalog any more.
            await self._settlement.settle(entry)

    def due(self, view_ids: Iterable[str], share: float = 1.0) -> bool:
        """Whether `check` would have to ask Spark. `share`: as there."""
        return any(
            entry.ledger.stale
            or self._is_unobserved(entry)
            or self._observer.due(entry.view.tables, self._oldest(entry.view, share))
            or self._storages.due(entry, self._oldest(entry.view, share))
            for entry in self._below(view_ids)
            if entry.view.built
        )

    def storage_due(self, view_ids: Iterable[str]) -> bool:
        """Whether `check_storage` would have to ask Spark."""
        found = (entry for view_id in view_ids if (entry := self._catalog.find(view_id)) is not None)
        return any(self._storages.due(entry, self._oldest(entry.view)) for entry in found)

    async def check_storage(self, view_ids: Iterable[str]) -> None:
        """Determines whether the stored rows of the views are still those that were published: nothing else is looked
        at, and no view below. Never raises."""
        found = [entry for view_id in view_ids if (entry := self._catalog.find(view_id)) is not None]
        due = [entry for entry in found if self._storages.due(entry, self._oldest(entry.view))]
        verified = (self._settlement.look(entry) for entry in due)
        await asyncio.gather(*verified, *(self._storages.look(entry, self._oldest(entry.view)) for entry in due))

    def version_due(self, view: MaterializedView, version: Version) -> bool:
        """Whether `check_version` would have to ask Spark, or would raise."""
        return not self._storages.is_sound_lately(view, version, self._oldest(view))

    async def check_version(self, view: MaterializedView, version: Version) -> None:
        """Returns if the stored rows of a version that is kept are those that were published, or nothing tells that
        they are not. Raises NotFresh, and what Spark raises."""
        if not await self._storages.is_sound(view, version, self._oldest(view)):
            raise changed_version(view.name, version.number)

    def _is_unobserved(self, entry: Entry) -> bool:
        """Whether there are newer observations of the tables than the version was compared with. They may come from
        reads of another view; and a refresh of single partitions leaves the others as they are."""
        return entry.compared is None or self._observer.is_newer(entry.view.tables, entry.compared)

    async def check(self, view_ids: Iterable[str], not_before: float | None = None, *, share: float = 1.0) -> list[str]:
        """Determines whether the views, and those below them, are fresh. Observations may be as old as this share of
        each view's probe_interval, or must have begun at or after `not_before`. Never raises: a view whose tables
        cannot be observed is not fresh.

        Returns the ids of views that were stale only because of noted writes that had changed nothing.
        """
        with contextlib.suppress(FreshgateError):  # A view of which only a draft is known is not fresh.
            await self.read_drafted(view_ids)
        now, unchanged = self._clock(), set[str]()
        asked = [
            (entry, min(now, self._oldest(entry.view, share) if not_before is None else not_before))
            for entry in self._below(view_ids)
        ]
        while asked:
            cleared = await asyncio.gather(*(self._check(entry, oldest) for entry, oldest in asked))
            unchanged.update(entry.view.id for (entry, _), clear in zip(asked, cleared, strict=True) if clear)
            # A refresh published meanwhile may be based on observations that are too old.
            asked = [(entry, oldest) for entry, oldest in asked if not _is_compared(entry, oldest)]
        return sorted(unchanged)

    def seed(self) -> None:
        """Passes the snapshots that the catalog has stored to the observer, after a start."""
        for view in self._catalog.views():
            contents = view.current.contents
            tables = {base_key(table): table for table in view.tables}
            for _, states in contents.others:
                for base in states.keys() & tables.keys():
                    self._observer.seed(tables[base], states[base])
            keyed = contents.keyed
            if keyed is not None and keyed.snapshot.position and keyed.base in tables:
                self._observer.seed(tables[keyed.base], keyed.snapshot)
            if contents.followed and contents.followed.position and view.followed and view.followed.base in tables:
                self._observer.seed(tables[view.followed.base], contents.followed)

    async def cached(self, view: MaterializedView) -> list[TableName]:
        """The tables whose caches a session must refresh before it runs the view's definition."""
        return (await self.inspect(view, float("-inf"))).cached

    async def inspect(self, view: MaterializedView, not_before: float) -> Inspection:
        """Observes everything that a view reads. Observations may be as old as `not_before`."""
        if view.id in self._catalog.building:
            self._creating[view.id] = view.tables
        looks = await self._observer.observe(view.tables, not_before)
        observed: dict[str, Observed] = {base_key(table): looks[table].observed for table in view.triggers}
        texts = _texts(view, looks.values())
        if any(text.composed for text in texts):
            observed["what it names"] = Unobserved("a name in it is computed when the definition runs")
        if any(look == GONE for look in observed.values()):
            guessed = set(map(base_key, _guessed(texts)))
            observed |= {base: MISSING for base, look in observed.items() if look == GONE and base not in guessed}
        found = {base: entry.view for base in view.views if (entry := self._catalog.find(base)) is not None}
        for base, below in found.items():
            if not view.excludes(below.name):
                observed[base] = await in_thread(below.current.partitions, snapshot_of, below)
        return Inspection(observed, looks)

    async def situation(self, view_id: str) -> Situation | None:
        """What a refresh that begins now would find: the writes that have ended, the last observed state of the tables,
        and the settings of the views. None if a table cannot be observed."""
        found = {}
        for entry in self._below([view_id]):
            view = entry.view
            inspection = await self.inspect(view, float("-inf"))
            if any(isinstance(look, Unobserved) or look == MISSING for look in inspection.observed.values()):
                return None
            settings = view.job_since, view.clauses, view.properties
            found[view.id] = entry.ledger.ended, *settings, inspection.observed
        return found

    async def followed(
        self, view: MaterializedView, before: MaterializedView, inspection: Inspection
    ) -> FollowedTable | None:
        """What the view's partitions can follow now; None if they can no longer follow any. `before` is the view at its
        last refresh.

        CREATE decided this. It is decided again if the definition may mean something else: it reads other tables, or a
        Spark view on the way or the followed table was replaced.
        """
        blind = any(isinstance(look, Unobserved) for look in inspection.observed.values())
        if not view.layout.partitioned or blind:
            # If tables cannot be observed, everything is rewritten.
            return view.followed
        found = await inspection.drift(view)
        replaced = any(look.is_view and base_key(table) in found.tables for table, look in inspection.looks.items())
        same_sources = (view.tables, view.views) == (before.tables, before.views)
        if view.followed and same_sources and not replaced and not found.wholly:
            return view.followed
        partitioning = view.partitioning if view.layout.partitioned else None
        try:
            following = await in_thread(len(view.query), self.following, view, partitioning, inspection.looks)
        except CannotFollow:
            return None
        texts = [view.query, *(look.relation.view_text for look in inspection.looks.values() if look.relation)]
        if following != view.followed and any("*" in text for text in texts):
            # A star stands for the columns at creation; those of today may be others.
            return None
        return following

    def following(
        self, view: MaterializedView, partitioning: Partitioning | None, looks: Mapping[TableName, Look]
    ) -> FollowedTable:
        """What a view's partitions can follow: columns of one table. Raises CannotFollow with the reason."""
        if partitioning is None:
            raise CannotFollow("it has no partitions of its own")
        first, *further = (self._following(view, part, looks) for part in partitioning.parts)
        if other := next((each for each in further if each.base != first.base), None):
            raise CannotFollow(f"its columns follow those of several tables, {first.base} and {other.base}")
        return replace(first, further=tuple(further))

    def followable(
        self, view: MaterializedView, partitioning: Partitioning, looks: Mapping[TableName, Look]
    ) -> Partitioning:
        """The most of a new view's partition columns that follow those of one table. Raises CannotFollow with the
        reason if none does, or if not all do and the clause demands it."""
        columns, reasons = dict[str, list[str]](), list[CannotFollow]()
        for part in partitioning.parts:
            try:
                columns.setdefault(self._following(view, part, looks).base, []).append(part.column)
            except CannotFollow as reason:
                reasons.append(reason)
        if reasons and (partitioning.follows or not columns):
            raise reasons[0]
        sizes = {base: len(named) for base, named in columns.items()}
        most = columns[max(sizes, key=lambda base: sizes[base])]
        return partitioning if partitioning.follows else partitioning.over(most) or partitioning

    def _following(
        self, view: MaterializedView, partitioning: Partitioning, looks: Mapping[TableName, Look]
    ) -> FollowedTable:
        transform = partitioning.transform
        sources = {
            table: source
            for table, look in looks.items()
            if not table.aspect and (source := _source(look, transform)) is not None
        }
        # A clause after the table's name selects something else than the table's partitions.
        for table, look in looks.items():
            if table.aspect and look.relation and table.whole not in sources:
                sources[table.whole] = Source(tuple(name for name, _ in look.relation.columns))
        for base in view.views:
            entry = self._catalog.find(base)
            if entry is not None:
                sources[entry.view.name] = Source(entry.view.columns) if transform else _source_of_view(entry.view)
        place = [column.lower() for column in view.columns].index(partitioning.column.lower())
        found = follow(view.query, view.namespace, place, partitioning.unit, sources)
        below = self._catalog.named(found.table)
        if below is not None:
            if below.layout.time_zone not in {"", view.layout.time_zone}:
                raise CannotFollow(
                    f"the partitions of {below.name} are in the time zone {below.layout.time_zone}, and this view's "
                    f"are in {view.layout.time_zone or 'none'}"
                )
            names = [part.column for part in below.layout.parts]
            place = names.index(found.column)
            return FollowedTable(below.id, found.column, place, below.layout.parts[place].kind, found.expression)
        kind = _kinds(looks[found.table]).get(found.column.lower(), "string")
        relation = looks[found.table].relation
        fields = _fields(relation)
        columns = [field.column.lower() if field.function == transform else "" for field in fields]
        if transform:
            if found.expression != PLACE:
                raise CannotFollow(
                    f"{found.table} is partitioned by {partitioning}, which is another value of its column"
                )
            kind = next(part.kind for part in view.layout.parts if part.column == partitioning.column)
        unit = sources[found.table].units.get(found.column)
        if unit and any(part.kind == "string" for part in view.layout.parts if part.column == partitioning.column):
            raise CannotFollow(f"{found.table} is partitioned by whole {unit}s, of which the view has texts")
        if unit and "timestamp" in kind and view.layout.time_zone not in UTC:
            raise CannotFollow(
                f"{found.table} is partitioned by whole {unit}s of UTC, but the view's time zone is "
                f"{view.layout.time_zone or 'unknown'}"
            )
        format_ = None if relation is None else format_of(relation)
        if format_ is not None and not unit and not transform and not format_.follows(kind):
            raise CannotFollow(f"the partition column {found.column} of {format_.title} is of the type {kind}")
        if kind in {"float", "double"}:
            raise CannotFollow(
                f"the partition column {found.column} is of the type {kind}, which has two different zeros, 0 and -0"
            )
        return FollowedTable(
            base_key(found.table), found.column, columns.index(found.column.lower()), kind, found.expression
        )

    # --- one view ----------------------------------------------------------------------------------

    def _below(self, view_ids: Iterable[str]) -> list[Entry]:
        ids = {below for view_id in view_ids for below in self._catalog.reads(view_id)}
        return [entry for view_id in sorted(ids) if (entry := self._catalog.find(view_id))]

    def probe_seconds(self, view: MaterializedView) -> float:
        """How long an observation of the view's tables is valid."""
        seconds = view_properties.probe_seconds(view.properties)
        return self._probe_seconds if seconds is None else seconds

    def _oldest(self, view: MaterializedView, share: float = 1.0) -> float:
        """When an observation of the view's tables must have begun to be recent enough."""
        return self._clock() - share * self.probe_seconds(view)

    async def _check(self, entry: Entry, oldest: float) -> bool:
        view = entry.view
        if not view.built or entry.doubtful:
            return False
        contains, now, clock = entry.ledger.events, time.time_ns() // 1_000_000, self._clock()
        looks = self._observer.due(view.tables, oldest) or self._storages.due(entry, oldest)
        inspection, _, _ = await asyncio.gather(
            self.inspect(view, oldest), self._verify(entry, looks), self._storages.look(entry, oldest)
        )
        found = await inspection.drift(view)
        self._forget_views(inspection, found)
        moved, blind = await self._moved(view)
        if entry.view.current is not view.current or entry.doubtful:
            # A refresh was published meanwhile, so the comparison was with another version.
            return False
        if moved or blind:
            found = Drift(wholly=found.tables | moved, unobserved={**found.unobserved, **blind})
        # Shared observations may have begun earlier; a change since then would have gone unseen.
        age = max([0.0, *(clock - began for began in inspection.began.values())])
        return entry.compare(found, contains, inspection.began, now - int(age * 1000))

    async def _verify(self, entry: Entry, looks: bool) -> None:
        """Checks the view itself whenever its base tables or its rows are looked at: another gateway or a user may have
        changed it."""
        if looks:
            await self._settlement.look(entry)

    async def _moved(self, view: MaterializedView) -> tuple[frozenset[str], dict[str, str]]:
        """What the definition reads now but did not at the last refresh, or vice versa, because names can change their
        meaning; and why that cannot be determined, if so."""
        try:
            sources = await self._relations.sources_of(await definition_reads(view.query, view.namespace))
        except FreshgateError as error:
            return frozenset(), {"what the definition names": str(error)}
        # Two views may have swapped their names.
        names = self._catalog.names_of(sources.views)
        renamed = {base for base, name in names.items() if view.view_names.get(base, name) != name}
        return frozenset(map(base_key, sources.tables ^ view.tables)) | (sources.views ^ view.views) | renamed, {}

    def forget_unread(self, table: TableName) -> None:
        """Forgets tables that no view reads: an observation may end after the last view was dropped, and CREATE may
        fail after it has observed. While a CREATE is running, the tables that it reads are kept."""
        self._unread = {each for each in {*self._unread, table} if not self._catalog.is_read(each)}
        building = self._catalog.building
        self._creating = {view_id: tables for view_id, tables in self._creating.items() if view_id in building}
        gone = self._unread.difference(*self._creating.values())
        self._unread -= gone
        self._observer.forget(gone)

    def _forget_views(self, inspection: Inspection, found: Drift) -> None:
        """Forgets Spark views and functions that were replaced outside the gateway: they may read other tables. So does
        a view that is not in the list of views, and therefore counts as a table."""
        for table, look in inspection.looks.items():
            unlisted = look.is_view and table.catalog == SESSION_CATALOG and not self._relations.is_listed(table.whole)
            if unlisted or ((look.is_view or table.is_function) and base_key(table) in found.tables):
                self._relations.forget(table.database)


def _is_compared(entry: Entry, oldest: float) -> bool:
    """Whether the current version was compared with observations that began at or after `oldest`, or cannot be."""
    view, compared = entry.view, entry.compared
    if not view.built or entry.doubtful:
        return True
    return compared is not None and all(compared.get(table, float("-inf")) >= oldest for table in view.tables)


def snapshot_of(view: MaterializedView) -> Snapshot:
    """The snapshot of a materialized view as a base table: a partition's state is the version that wrote it."""
    manifest = view.current.manifest
    count = len(view.layout.parts)
    partitions: dict[PartitionValues, str] = {
        divided(key, count): str(version) for key, version in manifest.exceptions.items()
    }
    return Snapshot(view.id, str(view.current.number), str(manifest.default), partitions)


def _is_cached(relation: Relation) -> bool:
    found = format_of(relation)
    return found is not None and found.cached


def _texts(view: MaterializedView, looks: Iterable[Look]) -> list[Bases]:
    """The names in the definition, and in the Spark views and functions on the way."""
    texts = [bases(view.query, view.namespace)]
    for look in looks:
        if look.relation and look.is_view:
            texts.append(bases(look.relation.view_text, look.relation.namespace))
        elif look.function and look.function.body:
            read = bases if look.function.is_query else of_expression
            texts.append(read(look.function.body, look.function.namespace))
    return texts


def _guessed(texts: Sequence[Bases]) -> set[TableName]:
    """Names that occur only in texts that are not understood: they may be any words and need not exist."""
    guessed = {name for text in texts if not text.exact for name in text.relations}
    return guessed.difference(*(text.relations for text in texts if text.exact))


UTC = frozenset({"UTC", "Etc/UTC", "Z", "GMT", "Etc/GMT", "+00:00", "Zulu", "UCT", "Universal"})
"""Time zones in which hours and days are those of UTC."""


def _fields(relation: Relation | None) -> list[PartitionField]:
    """What a table is partitioned by, in order."""
    if relation is None:
        return []
    return [*map(PartitionField, relation.partition_columns)] or [*map(partition_field, relation.transforms)]


def _source(look: Look, transform: str) -> Source | None:
    relation = look.relation
    if relation is None:
        return None
    columns = tuple(name for name, _ in relation.columns)
    if look.is_view:
        return Source(columns, view_text=relation.view_text, namespace=relation.namespace)
    fields = {field.column: field for field in reversed(_fields(relation)) if field.function == transform}
    # Whole days of a date are the dates.
    kinds = _kinds(look)
    units = {
        column: field.unit
        for column, field in fields.items()
        if field.unit and (field.unit, kinds.get(column.lower())) != ("DAY", "date")
    }
    return Source(columns, () if look.root else tuple(fields), units)


def _source_of_view(view: MaterializedView) -> Source:
    if not view.layout.partitioned or view.followed is None:
        return Source(view.columns)
    # Keys that are dates, or have a mark appended, are texts of another form than the column's values.
    parts = [
        (part.column, by.unit)
        for part, by in zip(view.layout.parts, view.partitioning.parts, strict=True)
        if part.kind != "string" or not (by.unit or part.key == MARKED)
    ]
    return Source(view.columns, tuple(column for column, _ in parts), {column: unit for column, unit in parts if unit})


def _kinds(look: Look) -> dict[str, str]:
    """The SQL types of a table's columns, by lower-case name."""
    columns = look.relation.columns if look.relation else ()
    return {name.lower(): sql_type(type_json) for name, type_json in columns}
