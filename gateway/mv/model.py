"""What a materialized view is, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, StrEnum

from sql import view_properties
from sql.names import Namespace, TableName
from sql.statement import Clauses, Column, Method, WhenStale

NEVER_BUILT = 0
"""The version that a view shows before its first refresh: no row has it."""


class Freshness(Enum):
    """How the current version stands to the base tables."""

    FRESH = "FRESH"
    FRESH_WITHIN_GRACE = "FRESH_WITHIN_GRACE"
    STALE = "STALE"
    UNKNOWN = "UNKNOWN"
    """The connection broke while a version was published: the metastore will be asked which one is current."""


class State(Enum):
    """Doris' words: INIT was never built, SCHEMA_CHANGE reads base tables that are not what they were."""

    INIT = "INIT"
    NORMAL = "NORMAL"
    SCHEMA_CHANGE = "SCHEMA_CHANGE"


@dataclass(frozen=True, slots=True)
class Staleness:
    """Why a version is stale, and since when (milliseconds since the epoch) it may be."""

    since: int
    reason: str


@dataclass(frozen=True, slots=True)
class Schema:
    """A base table as a refresh saw it: when it was created, and name and type (Spark's JSON) of each column."""

    created: str
    columns: tuple[tuple[str, str], ...]
    is_view: bool = False


@dataclass(frozen=True, slots=True)
class Watermark:
    """What a version contains for sure.

    `events` is the number of the last noted write of which everything was visible when the refresh began to read.
    `views` maps each materialized view that the definition reads (its id) to the version that was current then.
    """

    events: int
    views: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Version:
    """One published, immutable content. Times are milliseconds since the epoch."""

    number: int
    started_at: int
    published_at: int
    watermark: Watermark
    method: str = Method.COMPLETE.value


class TaskStatus(StrEnum):
    RUNNING = "RUNNING"
    SUCCESS = "SUCCESS"
    FAILED = "FAILED"
    CANCELED = "CANCELED"


class RefreshMode(StrEnum):
    """What a task recomputed."""

    COMPLETE = "COMPLETE"
    NOT_REFRESH = "NOT_REFRESH"
    """Nothing: the view was fresh."""


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a refresh runs: MANUAL (a statement) or SYSTEM (a read), by whom, and what it was asked to do."""

    trigger: str
    user: str
    task_id: int | None = None
    """Of a task that was announced before it begins."""
    partitions: tuple[str, ...] = ()
    complete: bool = False
    """Recompute everything, stale or not."""


@dataclass(frozen=True, slots=True)
class Task:
    """One run of a view's refresh. Times are milliseconds since the epoch, 0 where there is none yet."""

    id: int
    cause: Cause
    reason: str
    created_at: int
    status: TaskStatus = TaskStatus.RUNNING
    mode: RefreshMode = RefreshMode.COMPLETE
    finished_at: int = 0
    version: int = NEVER_BUILT
    error: str = ""


@dataclass(frozen=True, slots=True)
class MaterializedView:
    """One materialized view as the catalog holds it.

    `tables` are the base tables, found through views: the names whose writes make the view stale. It includes the
    Spark views on the way (a view that is replaced changes the content as well). `views` are the materialized views
    that the definition reads, by id.
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
    view_names: Mapping[str, TableName]
    """The names of `views`, by id, as the last successful refresh knew them."""
    properties: Mapping[str, str]
    comment: str | None
    current: Version
    mark: int
    """Number of the last noted write that the catalog has stored."""
    versions_reserved: int
    """No version with this number or a greater one was ever begun."""

    def published(self, version: Version, mark: int, reserved: int) -> MaterializedView:
        return replace(self, current=version, mark=mark, versions_reserved=reserved)

    @property
    def built(self) -> bool:
        """Whether it has rows that a refresh wrote, be they none."""
        return self.current.number != NEVER_BUILT

    def base_name(self, view_id: str) -> str:
        """The name under which the definition reads another view, also after that was dropped or renamed."""
        return str(self.view_names.get(view_id, view_id))

    @property
    def when_stale(self) -> WhenStale:
        return view_properties.when_stale(self.properties, self.clauses.refreshing.trigger)

    @property
    def grace_ms(self) -> int:
        """Milliseconds of staleness that are tolerated."""
        return int(view_properties.grace_seconds(self.properties) * 1000)
