"""What a materialized view is, as values."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, StrEnum
from typing import Any

from gateway.mv.model.snapshot import Snapshot
from sql.grammar import view_properties
from sql.names import Namespace, TableName
from sql.statement import Clauses, Column, Method, WhenStale
from sql.texts.maintenance import PartitionKey, Shown, StorageLayout

NEVER_BUILT = 0
"""The version that a view shows before its first refresh: no row has it."""
PARTITIONS_NAMED_MAX = 200
"""Partitions that a task names."""


class Freshness(Enum):
    """How the current version stands to the base tables."""

    FRESH = "FRESH"
    FRESH_WITHIN_GRACE = "FRESH_WITHIN_GRACE"
    STALE = "STALE"
    UNKNOWN = "UNKNOWN"
    """Its base tables cannot be looked at, or were not since the start or an ALTER; or the connection broke while a
    version was published, and the metastore will be asked which one is current."""


class State(Enum):
    """Doris' words: INIT was never built, SCHEMA_CHANGE reads base tables that are not what they were."""

    INIT = "INIT"
    NORMAL = "NORMAL"
    SCHEMA_CHANGE = "SCHEMA_CHANGE"


@dataclass(frozen=True, slots=True)
class Staleness:
    """Why a version is stale, or may be, and since when (milliseconds since the epoch); 0 where nobody knows."""

    since: int
    reason: str


@dataclass(frozen=True, slots=True)
class Schema:
    """A base table as a refresh saw it: when it was created, and name and type (Spark's JSON) of each column."""

    created: str
    columns: tuple[tuple[str, str], ...]
    is_view: bool = False


@dataclass(frozen=True, slots=True)
class Manifest:
    """Which version wrote each partition of the content: `default`, unless `exceptions` names another.

    NEVER_BUILT as an exception: the partition is not shown at all. A view without partitions of its own has no
    exceptions.
    """

    default: int
    exceptions: Mapping[PartitionKey, int] = field(default_factory=dict)

    def writer(self, key: PartitionKey) -> int:
        return self.exceptions.get(key, self.default)

    @property
    def versions(self) -> frozenset[int]:
        return frozenset({self.default, *self.exceptions.values()})

    def rewritten(self, version: int, keys: Iterable[PartitionKey]) -> Manifest:
        """After `version` wrote these partitions anew."""
        return Manifest(self.default, {**self.exceptions, **dict.fromkeys(keys, version)})

    def shown(self, shown: Shown, present: Iterable[tuple[int, PartitionKey]]) -> Shown:
        """`shown` without what the manifest leaves out of the storage's partitions that are `present`."""
        hidden: dict[int, set[PartitionKey]] = {}
        for version, key in present:
            if self.writer(key) != version and shown.has(version):
                hidden.setdefault(version, set()).add(key)
        return replace(shown, hidden={version: frozenset(keys) for version, keys in hidden.items()})


@dataclass(frozen=True, slots=True)
class Contents:
    """What base tables looked like to those who wrote a version's partitions. Names are `base_key`s.

    `followed` is the table whose partitions the view follows: each partition as it was when what follows from it was
    written. `others` holds the states of all other tables, for each version from which on they were such.
    """

    followed: Snapshot | None = None
    others: tuple[tuple[int, Mapping[str, Snapshot]], ...] = ()

    def doubtful(self, version: int) -> Contents:
        """What was written may be none of what the looks showed: nothing that a later look shows is to equal it."""

        def never(snapshot: Snapshot) -> Snapshot:
            return replace(snapshot, identity=f"{snapshot.identity}~{version}")

        *layers, (since, states) = self.others or ((NEVER_BUILT, {}),)
        doubted = {base: never(state) for base, state in states.items()}
        return Contents(self.followed and never(self.followed), (*layers, (since, doubted)))

    def others_of(self, version: int) -> Mapping[str, Snapshot]:
        """The other tables as the writer of a version saw them."""
        place = bisect_right(self.others, version, key=lambda entry: entry[0])
        return self.others[place - 1][1] if place else {}


@dataclass(frozen=True, slots=True)
class Version:
    """One published, immutable content. Times are milliseconds since the epoch."""

    number: int
    started_at: int
    published_at: int
    views: Mapping[str, int]
    """The versions of other materialized views that it has read, by the views' ids."""
    method: str = Method.COMPLETE.value
    manifest: Manifest = field(default=Manifest(NEVER_BUILT))
    shown: Shown = field(default=Shown.only(NEVER_BUILT))
    """What the public view shows; the manifest, but for partitions that are gone from the storage."""
    contents: Contents = field(default=Contents())
    previous: int = NEVER_BUILT
    """The version whose place it took."""

    @property
    def partitions(self) -> int:
        """How many partitions it tells of, its own and those of the table that it follows, as far as either needs
        mention."""
        followed = self.contents.followed
        hidden = sum(map(len, self.shown.hidden.values()))
        return len(self.manifest.exceptions) + hidden + (len(followed.partitions) if followed is not None else 0)

    @property
    def complete(self) -> bool:
        """Whether all partitions were written that there are; a first refresh of single ones leaves out the others."""
        return NEVER_BUILT not in {self.number, self.manifest.default}

    @classmethod
    def whole(cls, number: int, started_at: int, published_at: int, views: Mapping[str, int], **rest: Any) -> Version:
        """A version that wrote all that it shows, or has nothing to show."""
        parts = {"manifest": Manifest(number), "shown": Shown.only(number), **rest}
        return cls(number, started_at, published_at, views, **parts)


@dataclass(frozen=True, slots=True)
class Followed:
    """The base table whose partitions a view's partitions follow."""

    base: str
    """Its `base_key`."""
    column: str
    """Its partition column."""
    place: int
    """The column's place among the table's partition columns, from 0."""
    kind: str
    """The column's type, as SQL."""
    expression: str
    """The view's column as SQL of the table's, which stands as {}."""


def base_key(base: TableName | str) -> str:
    """A base table, or a materialized view by its id, as `Contents` names it and as it is stored."""
    return base if isinstance(base, str) else f"{base.short} {base.aspect}".rstrip()


def name_of_id(view_id: str) -> TableName:
    """The name that a view was made with, as far as its id tells: for errors about one that is there no more."""
    database, _, rest = view_id.partition("__")
    return TableName(database, rest.rpartition("__")[0] or view_id)


@dataclass(frozen=True, slots=True)
class Leftover:
    """What a crash or a failed statement left in the storage database, and a view's versions that are not current."""

    storage: TableName
    definition: TableName
    whole: bool = True
    """The table, its definition and everything; otherwise the partitions that no reader needs."""
    versions: tuple[Version, ...] = ()
    """Those that were current before the current one and are still there, oldest first."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What of a view's storage its readers and its running refresh need."""

    shown: Shown
    begun: frozenset[int]
    """Versions that are being written, or may still come to be shown."""
    reserved: int
    """Versions from this on were begun by somebody else, or are yet to be begun."""

    def needs(self, version: int, key: PartitionKey) -> bool:
        return version >= self.reserved or version in self.begun or self.shown.shows(version, key)


class TaskStatus(StrEnum):
    PENDING = "PENDING"
    """It waits for another task of the view, or for a session."""
    RUNNING = "RUNNING"
    SUCCESS = "SUCCESS"
    FAILED = "FAILED"
    CANCELED = "CANCELED"

    @property
    def ended(self) -> bool:
        return self not in {TaskStatus.PENDING, TaskStatus.RUNNING}


class RefreshMode(StrEnum):
    """What a task recomputed."""

    COMPLETE = "COMPLETE"
    PARTIAL = "PARTIAL"
    """Some partitions."""
    NOT_REFRESH = "NOT_REFRESH"
    """Nothing: the view was fresh, or what was noted had changed nothing."""


class TriggerMode(StrEnum):
    """What started a task: Doris' words, and READ."""

    MANUAL = "MANUAL"
    """A statement."""
    SYSTEM = "SYSTEM"
    """The view's schedule."""
    COMMIT = "COMMIT"
    """A change of what an ON COMMIT view reads."""
    READ = "READ"
    """A query of a stale view, or of one above it."""


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a refresh runs, by whom, and what it was asked to do."""

    trigger: TriggerMode
    user: str
    partitions: tuple[str, ...] = ()
    complete: bool = False
    """Recompute everything, stale or not."""
    not_before: float = float("-inf")
    """When a look at the base tables must have begun (the monotonic clock's time) to count."""

    def covers(self, other: Cause) -> bool:
        """Whether a refresh for this cause does what the other one asks for."""
        if other.complete and not other.partitions:
            return self.complete and not self.partitions
        if other.partitions:
            return set(other.partitions) <= set(self.partitions) or (self.complete and not self.partitions)
        return not self.partitions


@dataclass(frozen=True, slots=True)
class Task:
    """One run of a view's refresh. Times are milliseconds since the epoch, 0 where there is none yet."""

    id: int
    cause: Cause
    reason: str
    created_at: int
    status: TaskStatus = TaskStatus.PENDING
    mode: RefreshMode = RefreshMode.COMPLETE
    started_at: int = 0
    """When it was its turn."""
    finished_at: int = 0
    version: int = NEVER_BUILT
    error: str = ""
    partitions: tuple[str, ...] = ()
    """Names of those that were to be recomputed, as far as they were known, in the order in which they are; of very
    many the first ones."""
    needed: int = 0
    """How many they were in all."""
    completed: int = 0
    """How many of them were written. Those of a task that failed are nobody's."""
    rows: int | None = None
    """How many rows it wrote; None where that is not known (yet)."""

    def writing(self, first: Sequence[str], needed: int) -> Task:
        """The task, once it is known how many partitions it needs, and the names of the first ones: the catalog keeps a
        hundred tasks of each view."""
        return replace(self, partitions=tuple(first[:PARTITIONS_NAMED_MAX]), needed=needed)


@dataclass(frozen=True, slots=True)
class MaterializedView:
    """One materialized view as the catalog holds it.

    `tables` are the base tables, found through views: the names whose writes make the view stale. It includes the
    Spark views and the functions on the way (one that is replaced changes the content as well). `views` are the
    materialized views that the definition reads, by id.
    """

    id: str
    name: TableName
    storage: TableName
    definition: TableName
    query: str
    namespace: Namespace
    """Against what the query's unqualified names were resolved at creation."""
    columns: tuple[str, ...]
    listed: tuple[Column, ...]
    """The column list of CREATE; empty where there was none."""
    clauses: Clauses
    owner: str
    created_at: int
    tables: frozenset[TableName]
    schemas: Mapping[TableName, Schema]
    """Of the base tables, as the last successful refresh saw them; a table that could not be described is left out."""
    views: frozenset[str]
    layout: StorageLayout
    """The storage table's columns, and how its partitions follow the view's own."""
    followed: Followed | None
    """None where the view has no partitions of its own, or the definition does not let them follow any."""
    view_names: Mapping[str, TableName]
    """The names of `views`, by id, as the last successful refresh knew them."""
    properties: Mapping[str, str]
    comment: str | None
    current: Version
    versions_reserved: int
    """No version with this number or a greater one was ever begun."""
    paused: bool = False
    """Its job is: neither schedule nor base tables refresh it."""
    job_since: int = 0
    """When the job was changed last, in milliseconds since the epoch: what was missed before is not made up for."""
    settings: Mapping[str, str] | None = None
    """What of the creator's session decides how tables are read (`surroundings.reading`). None: an earlier release did
    not store it; Spark knows it of the definition."""

    def published(self, version: Version, reserved: int) -> MaterializedView:
        return replace(self, current=version, versions_reserved=reserved)

    def reading(self, other: MaterializedView) -> MaterializedView:
        """This view, reading and following what `other` does."""
        return replace(
            self,
            tables=other.tables,
            views=other.views,
            followed=other.followed,
            schemas=other.schemas,
            view_names=other.view_names,
        )

    @property
    def built(self) -> bool:
        """Whether it has rows that a refresh wrote, be they none."""
        return self.current.number != NEVER_BUILT

    @property
    def complete(self) -> bool:
        """Whether it holds all that its definition yielded at some moment: only then it may be read as it is."""
        return self.current.complete

    def base_name(self, view_id: str) -> str:
        """The name under which the definition reads another view, also after that was dropped or renamed."""
        return str(self.view_names.get(view_id) or name_of_id(view_id))

    @property
    def calls_functions(self) -> bool:
        """Whether it calls functions that were created, and may be created anew."""
        return any(table.is_function for table in self.tables)

    @property
    def triggers(self) -> frozenset[TableName]:
        """The base tables whose changes make the view stale: those that excluded_trigger_tables does not name."""
        return frozenset(table for table in self.tables if not self.excludes(table))

    def excludes(self, table: TableName) -> bool:
        return view_properties.is_excluded(self.properties, table)

    @property
    def deciding(self) -> tuple[object, ...]:
        """What the properties say of which rows a refresh writes, and into which partitions."""
        return view_properties.partition_window(self.properties), view_properties.session_settings(self.properties)

    @property
    def when_stale(self) -> WhenStale:
        return view_properties.when_stale(self.properties, self.clauses.refreshing.trigger)

    @property
    def grace_ms(self) -> int:
        """Milliseconds of staleness that are tolerated."""
        return int(view_properties.grace_seconds(self.properties) * 1000)
