"""The values that describe a materialized view, its versions and its refresh tasks.

Tests: `test_freshness_states`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, StrEnum
from typing import Any

from gateway.mv.model.contents import NEVER_BUILT, Contents
from gateway.mv.model.marks import Fold
from sql.definition import immutable
from sql.grammar import view_properties
from sql.names import Namespace, TableName
from sql.statement import CreateClauses, Grantee, ListedColumn, Method, Partitioning, Security, Trigger, WhenStale
from sql.texts import public_view
from sql.texts.open_rows import OpenRows
from sql.texts.storage_layout import PartitionKey, Shown, StorageLayout

PARTITIONS_NAMED_MAX = 200
"""How many partitions a task names at most."""


class Freshness(Enum):
    """How the current version relates to the base tables."""

    FRESH = "FRESH"
    FRESH_WITHIN_GRACE = "FRESH_WITHIN_GRACE"
    STALE = "STALE"
    UNKNOWN = "UNKNOWN"
    """The base tables cannot be observed, or were not observed since the gateway started or the view was altered; or
    the outcome of publishing a version is unknown until the metastore has been asked."""
    DAMAGED = "DAMAGED"
    """Its stored rows were changed outside the gateway."""


class State(Enum):
    """Doris' words, and DAMAGED. INIT: never built. SCHEMA_CHANGE: the schema of a base table has changed."""

    INIT = "INIT"
    NORMAL = "NORMAL"
    SCHEMA_CHANGE = "SCHEMA_CHANGE"
    DAMAGED = "DAMAGED"
    """Its stored rows were changed outside the gateway."""


@dataclass(frozen=True, slots=True)
class WrittenBy:
    """A statement that has written to tables."""

    user: str
    text: str
    """Its first characters, as the client sent them."""


@dataclass(frozen=True, slots=True)
class Staleness:
    """Why a version is or may be stale, and since when (milliseconds since the epoch; 0 if that is unknown)."""

    since: int
    reason: str
    noticed: int = 0
    """When a look at base tables found the change, which was made between `since` and then; 0 if the gateway knows of
    it otherwise."""
    writer: WrittenBy | None = None
    """Who wrote, if a statement through the gateway did."""


@dataclass(frozen=True, slots=True)
class Schema:
    """A base table as a refresh saw it: when it was created, and the name and type (Spark's JSON) of each column."""

    created: str
    columns: tuple[tuple[str, str], ...]
    is_view: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The columns' names."""
        return tuple(name for name, _ in self.columns)


@dataclass(frozen=True, slots=True)
class Manifest:
    """Which version wrote each partition of the content: `default`, unless `exceptions` names another.

    The exception NEVER_BUILT means that the partition is not shown. A view without partitions of its own has no
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
        """The manifest after `version` has rewritten these partitions."""
        return Manifest(self.default, {**self.exceptions, **dict.fromkeys(keys, version)})

    def shown(self, shown: Shown, present: Iterable[tuple[int, PartitionKey]]) -> Shown:
        """`shown` without those `present` partitions of the storage table that the manifest does not contain."""
        hidden: dict[int, set[PartitionKey]] = {}
        for version, key in present:
            if self.writer(key) != version and shown.has(version):
                hidden.setdefault(version, set()).add(key)
        return replace(shown, hidden={version: frozenset(keys) for version, keys in hidden.items()})


@dataclass(frozen=True, slots=True)
class Version:
    """One published, immutable content of a view. Times are milliseconds since the epoch."""

    number: int
    started_at: int
    published_at: int
    views: Mapping[str, int]
    """The versions of other materialized views that it has read, by view id."""
    method: str = Method.COMPLETE.value
    manifest: Manifest = field(default=Manifest(NEVER_BUILT))
    shown: Shown = field(default=Shown.only(NEVER_BUILT))
    """What the public view shows: the manifest, without partitions that are gone from the storage."""
    contents: Contents = field(default=Contents())
    previous: int = NEVER_BUILT
    """The version that it replaced."""
    read_as: str = ""
    """The user in whose name Spark read the rows; empty: the gateway's account."""
    narrowed: bool = False
    """Whether Spark planned the definition otherwise for that user than for the gateway's account."""
    files: Fold | None = None
    """The files of all rows that it shows, when it was published; None if an earlier release published it."""
    computed_at: int = 0
    """When the last refresh began that has made the whole view up to date: which rows are immutable is decided as of
    then. Later refreshes have copied rows, or have written single partitions."""

    @property
    def stored_bytes(self) -> int:
        """The bytes of the files that it shows; 0 if that is unknown."""
        return self.files.sum if self.files is not None else 0

    @property
    def partitions(self) -> int:
        """How many partitions it describes: its own and those of base tables, as far as either must be named."""
        keyed = self.contents.keyed
        snapshots = (self.contents.followed, keyed.snapshot if keyed is not None else None)
        hidden = sum(map(len, self.shown.hidden.values()))
        return len(self.manifest.exceptions) + hidden + sum(len(each.partitions) for each in snapshots if each)

    @property
    def complete(self) -> bool:
        """Whether all existing partitions were written. A first refresh of single partitions omits the others."""
        return NEVER_BUILT not in {self.number, self.manifest.default}

    @classmethod
    def whole(cls, number: int, started_at: int, published_at: int, views: Mapping[str, int], **rest: Any) -> Version:
        """A version that wrote everything it shows, or shows nothing."""
        parts = {"manifest": Manifest(number), "shown": Shown.only(number), "computed_at": started_at, **rest}
        return cls(number, started_at, published_at, views, **parts)


@dataclass(frozen=True, slots=True)
class FollowedTable:
    """The base table whose partitions a view's partitions follow."""

    base: str
    """Its `base_key`."""
    column: str
    """Its partition column."""
    place: int
    """The position of the column among the table's partition columns, from 0."""
    kind: str
    """The type of the column, as SQL."""
    expression: str
    """The view's column as SQL; {} stands for the table's column."""
    further: tuple[FollowedTable, ...] = ()
    """The same of the view's other partition columns, which follow columns of the same table."""

    @property
    def parts(self) -> tuple[FollowedTable, ...]:
        """One for each of the view's partition columns."""
        return (self, *self.further)

    @property
    def columns(self) -> str:
        """The table's columns, for users."""
        return ", ".join(part.column for part in self.parts)

    def values(self, partition: Sequence[str | None]) -> tuple[str | None, ...]:
        """Those of a partition of the table on which the view's partition depends."""
        return tuple(partition[part.place] for part in self.parts)


def base_key(base: TableName | str) -> str:
    """The stored name of a base table, or of a materialized view given by its id. `Contents` uses it."""
    return base if isinstance(base, str) else f"{base.short} {base.aspect}".rstrip()


def name_of_id(view_id: str) -> TableName:
    """The name that a view was created with, derived from its id: for errors about a view that no longer exists."""
    database, _, rest = view_id.partition("__")
    return TableName(database, rest.rpartition("__")[0] or view_id)


@dataclass(frozen=True, slots=True)
class Leftover:
    """What a crash or a failed statement left in the storage database, and versions that are no longer current."""

    storage: TableName
    definition: TableName
    whole: bool = True
    """Everything is left over, table and definition; otherwise only the partitions that no reader needs."""
    versions: tuple[Version, ...] = ()
    """Versions before the current one that still exist, oldest first."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What the readers and the running refresh of a view need of its storage."""

    shown: Shown
    begun: frozenset[int]
    """Versions that are being written or may still be published."""
    reserved: int
    """Versions from this number on belong to another gateway, or have not begun yet."""
    open: OpenRows | None = None
    """The table with the rows, if the storage table has none."""
    columns: int = 0
    """How many partition columns the view has."""

    def needs(self, version: int, key: PartitionKey) -> bool:
        return version >= self.reserved or version in self.begun or self.shown.shows(version, key)


class TaskStatus(StrEnum):
    PENDING = "PENDING"
    """It waits for another task of the view or for a session."""
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
    INCREMENTAL = "INCREMENTAL"
    """Only the changed rows."""
    PARTIAL = "PARTIAL"
    """Some partitions."""
    NOT_REFRESH = "NOT_REFRESH"
    """Nothing: the view was fresh, or the noted writes had changed nothing."""


class TriggerMode(StrEnum):
    """What started a task: Doris' words, and READ."""

    MANUAL = "MANUAL"
    """A statement."""
    SYSTEM = "SYSTEM"
    """The view's schedule."""
    COMMIT = "COMMIT"
    """A change of a table that an ON COMMIT view reads."""
    READ = "READ"
    """A query of a stale view, or of a view above it."""


_BY_ROWS = frozenset({Method.INCREMENTAL, Method.INCREMENTAL_FALLBACK})


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a refresh runs, who asked for it, and what it must do."""

    trigger: TriggerMode
    user: str
    partitions: tuple[str, ...] = ()
    complete: bool = False
    """Recompute everything, whether stale or not."""
    not_before: float = float("-inf")
    """Observations of the base tables count only if they began at or after this monotonic time."""
    method: Method | None = None
    """What a REFRESH statement asks for; None: the view's own method."""
    compacts: bool = False
    """If nothing has changed, copy the rows of many versions into one."""
    mends: str = ""
    """What has damaged the stored rows, none of which may be used. Not stored."""
    parent: str = ""
    """The run of a client's that it belongs to (`freshgate.lineage.parent`). Not stored."""
    due: int = 0
    """When a schedule wanted it, in milliseconds since the epoch; 0: no schedule did. Not stored."""
    reaches: int = 0
    """Of a refresh for a lag: views below with lags of their own are refreshed first only if they miss changes from
    before this time (milliseconds since the epoch). Not stored."""

    @property
    def demand(self) -> str:
        """Why something is recomputed if it was asked for explicitly, or must be; empty otherwise."""
        if self.mends:
            return self.mends
        if self.partitions:
            return "partitions were asked for"
        return "everything was asked for" if self.complete else ""

    def covers(self, other: Cause) -> bool:
        """Whether a refresh for this cause also does what `other` asks for.

        One that must be incremental may fail where any other one succeeds, so it suffices only for its like; and only
        its like does what a statement with INCREMENTAL asks for.
        """
        if self.method is not other.method and (self.method is Method.INCREMENTAL or other.method in _BY_ROWS):
            return False
        if other.complete and not other.partitions:
            return self.complete and not self.partitions
        if other.partitions:
            return set(other.partitions) <= set(self.partitions) or (self.complete and not self.partitions)
        return not self.partitions


REPLACED = "the definition was replaced"
"""The reason of a task that computes a new view's rows from those of the view that it replaces."""


@dataclass(frozen=True, slots=True)
class Task:
    """One run of a view's refresh. Times are milliseconds since the epoch, 0 if not reached yet."""

    id: int
    cause: Cause
    reason: str
    created_at: int
    status: TaskStatus = TaskStatus.PENDING
    mode: RefreshMode = RefreshMode.COMPLETE
    started_at: int = 0
    """When it stopped waiting."""
    finished_at: int = 0
    version: int = NEVER_BUILT
    error: str = ""
    partitions: tuple[str, ...] = ()
    """Names of the partitions to recompute, in the order in which they are written; at most the first
    PARTITIONS_NAMED_MAX."""
    needed: int = 0
    """How many partitions are to be recomputed in all."""
    completed: int = 0
    """How many of them were written. If the task failed, none of them is used."""
    rows: int | None = None
    """How many rows it wrote; None if that is unknown."""
    route: str = ""
    """Why it was computed by rows or not, with the estimates. Empty if that was not a question."""

    @property
    def of_replaced(self) -> bool:
        """Whether its rows come from the view that a new one has replaced: its time tells nothing about others."""
        return self.reason == REPLACED

    def writing(self, first: Sequence[str], needed: int) -> Task:
        """The task, once the number of partitions and the names of the first ones are known. The names are limited
        because the catalog keeps a hundred tasks of each view."""
        return replace(self, partitions=tuple(first[:PARTITIONS_NAMED_MAX]), needed=needed)


@dataclass(frozen=True, slots=True)
class MaterializedView:
    """One materialized view as the catalog holds it.

    `tables` are the names whose writes make the view stale: the base tables, found through views, and the Spark views
    and functions on the way (replacing one changes the content as well). `views` are the ids of the materialized views
    that the definition reads.
    """

    id: str
    name: TableName
    storage: TableName
    definition: TableName
    query: str
    namespace: Namespace
    """Where the unqualified names of the query were resolved at creation."""
    columns: tuple[str, ...]
    listed: tuple[ListedColumn, ...]
    """The column list of CREATE; empty if there was none."""
    clauses: CreateClauses
    owner: str
    created_at: int
    tables: frozenset[TableName]
    schemas: Mapping[TableName, Schema]
    """The schemas of the base tables at the last successful refresh, without tables that could not be described."""
    views: frozenset[str]
    layout: StorageLayout
    """The partition columns of the storage table, and how they derive from the view's own."""
    followed: FollowedTable | None
    """None if the view has no partitions of its own, or if its definition does not let them follow a base table's."""
    view_names: Mapping[str, TableName]
    """The names of `views`, by id, at the last successful refresh."""
    properties: Mapping[str, str]
    comment: str | None
    current: Version
    versions_reserved: int
    """No version with this or a greater number was ever begun."""
    paused: bool = False
    """Whether its job is paused: neither the schedule nor changed base tables refresh the view."""
    job_since: int = 0
    """When the job last changed, in milliseconds since the epoch. Runs missed before are not made up for."""
    paused_because: str = ""
    """Why the gateway has paused the job by itself; empty if a user has, or nobody."""
    refreshers: frozenset[Grantee] = frozenset()
    """Who may refresh it besides its owner, by GRANT."""
    settings: Mapping[str, str] | None = None
    """The settings of the creator's session that Spark keeps with the definition. None if an earlier release created
    the view; then only Spark's definition has them."""
    refreshed_as: str = ""
    """The user in whose name refreshes read rows: the owner, or nobody if they read as the gateway's account."""

    @property
    def misread(self) -> str:
        """Why nobody may be shown the stored rows: they were read with another user's rights. Empty if they may be."""
        if not self.built or self.current.read_as == self.refreshed_as:
            return ""
        before, now = (each or "the gateway's account" for each in (self.current.read_as, self.refreshed_as))
        return f"its rows were read as {before}, and its refreshes read as {now} since it was altered"

    def published(self, version: Version, reserved: int) -> MaterializedView:
        return replace(self, current=version, versions_reserved=reserved)

    def reading(self, other: MaterializedView) -> MaterializedView:
        """This view, with everything that a refresh found for `other`: what it reads and follows."""
        return replace(
            self,
            tables=other.tables,
            views=other.views,
            followed=other.followed,
            schemas=other.schemas,
            view_names=other.view_names,
        )

    @property
    def published_text(self) -> str:
        """The text with which the public view was published."""
        return public_view.shown_rows(self.storage, self.columns, self.current.shown, self.layout)

    @property
    def rows_table(self) -> TableName:
        """The table with the rows: the storage table, or that of open rows."""
        return self.storage if self.layout.open is None else self.layout.open.table

    @property
    def built(self) -> bool:
        """Whether a refresh has built it, even if the result has no rows."""
        return self.current.number != NEVER_BUILT

    @property
    def complete(self) -> bool:
        """Whether it contains the complete result of its definition at some time. Only then may it be read."""
        return self.current.complete

    def base_name(self, view_id: str) -> str:
        """The name under which the definition reads another view, even after that view was dropped or renamed."""
        return str(self.view_names.get(view_id) or name_of_id(view_id))

    def method_for(self, cause: Cause) -> Method:
        """The method of a refresh for this cause: what a statement asks for, otherwise the view's own.

        COMPLETE rules out a refresh by rows, but no refresh of single partitions. A view that was created with it is
        never refreshed by rows, nor is one of which everything was asked for.
        """
        own = self.clauses.refreshing.method or Method.AUTO
        return Method.COMPLETE if cause.complete or own is Method.COMPLETE else cause.method or own

    @property
    def security(self) -> Security:
        """The rights that decide which rows a reader is shown."""
        return self.clauses.security or Security.DEFINER

    @property
    def calls_functions(self) -> bool:
        """Whether it calls user-defined functions, which may be replaced."""
        return any(table.is_function for table in self.tables)

    @property
    def keeps_lag(self) -> bool:
        """Whether its rows may be of a certain age, and it is refreshed for that."""
        return self.clauses.refreshing.trigger is Trigger.LAG and self.clauses.refreshing.lag is not None

    @property
    def is_paced(self) -> bool:
        """Whether it is refreshed some time after a change: for its lag, or not before AT MOST EVERY allows it."""
        return self.keeps_lag or self.clauses.refreshing.at_most is not None

    @property
    def triggers(self) -> frozenset[TableName]:
        """The base tables whose changes make the view stale: all but excluded_trigger_tables."""
        return frozenset(table for table in self.tables if not self.excludes(table))

    def excludes(self, table: TableName) -> bool:
        return view_properties.is_excluded(self.properties, table)

    @property
    def deciding(self) -> tuple[object, ...]:
        """What decides which rows a refresh writes, and into which partitions."""
        own = view_properties.partition_window(self.properties), view_properties.session_settings(self.properties)
        return *own, self.clauses.immutable

    @property
    def past(self) -> str:
        """The condition of the rows that a refresh copies from the current version; empty if it copies none."""
        condition = self.clauses.immutable
        return immutable.at(condition, self.current.computed_at) if condition is not None and self.complete else ""

    @property
    def by_partitions(self) -> bool:
        """Whether each of its partitions is immutable as a whole, or not at all, as its key tells; and so stays where
        it is."""
        named = immutable.columns(self.clauses.immutable or "") if self.past else frozenset[str]()
        return bool(named) and named <= self.layout.held.keys()

    @property
    def partitioning(self) -> Partitioning:
        """Its clause, reduced to the columns of the layout, of which there must be one."""
        found = self.clauses.partitioning and self.clauses.partitioning.over(each.column for each in self.layout.parts)
        return found or Partitioning(self.layout.column)

    @property
    def when_stale(self) -> WhenStale:
        return view_properties.when_stale(self.properties, self.clauses.refreshing.trigger)

    @property
    def grace_ms(self) -> int:
        """The tolerated staleness in milliseconds."""
        return int(view_properties.grace_seconds(self.properties) * 1000)
