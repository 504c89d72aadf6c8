"""What a statement's text can be: a value per kind. `classify` makes them, `service.routing.route` acts on them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from sql.words import Words

Parts = tuple[str, ...]
"""A name as it stands in the text, one string per dotted part, back quotes removed, case kept."""
Pairs = tuple[tuple[str, str], ...]
"""Properties in the order of the text, each key once."""


@dataclass(frozen=True, slots=True)
class Reference:
    """One mention of a relation in a text.

    `start` and `end` are character offsets of the whole dotted name (back quotes included), end exclusive, so that the
    mention can be spliced. `aliased` tells whether an alias follows, so that a spliced subquery knows whether to
    bring one. What stands in a string, in a text that is not exactly understood, has no place: both are 0.
    """

    parts: Parts
    start: int
    end: int
    aliased: bool = False
    perhaps: bool = False
    """A CTE has this name but for its case: with spark.sql.caseSensitive that is another name."""


# --- the clauses of a materialized view ------------------------------------------------------------------


class Method(StrEnum):
    """How a refresh computes: AUTO picks (Oracle's FORCE), COMPLETE recomputes everything (FULL, REBUILD)."""

    AUTO = "AUTO"
    COMPLETE = "COMPLETE"


class Trigger(StrEnum):
    """What starts a refresh. MANUAL is Oracle's ON DEMAND, COMMIT Databricks' TRIGGER ON UPDATE."""

    MANUAL = "MANUAL"
    SCHEDULE = "SCHEDULE"
    COMMIT = "COMMIT"


class WhenStale(StrEnum):
    """What a read of a stale view does: refresh it first, serve it as it is, run the definition instead, or fail."""

    REFRESH = "REFRESH"
    SERVE = "SERVE"
    INLINE = "INLINE"
    FAIL = "FAIL"


@dataclass(frozen=True, slots=True)
class Schedule:
    """Either `every` units, the first at `starts` (local time, `yyyy-MM-dd HH:mm:ss`), or by `cron` in a time zone."""

    every: int | None = None
    unit: str | None = None
    """SECOND, MINUTE, HOUR, DAY or WEEK."""
    starts: str | None = None
    cron: str | None = None
    """Quartz' six or seven fields, seconds first, or Unix' five."""
    time_zone: str | None = None


@dataclass(frozen=True, slots=True)
class Partitioning:
    """By a column of the view, or by date_trunc(column, unit); the unit in capitals."""

    column: str
    unit: str | None = None
    follows: bool = False
    """Doris' PARTITION BY (…): the partitions must follow those of a base table. Other systems' clauses only say how
    rows are laid out."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """Doris' DISTRIBUTED BY, and Spark's CLUSTERED BY … INTO n BUCKETS, which is HASH with a number."""

    columns: tuple[str, ...] = ()
    """Empty for RANDOM."""
    buckets: int | None = None
    """None: AUTO, or not given."""
    sorted_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Clustering:
    """Hive's CLUSTERED ON, or DISTRIBUTED ON … SORTED ON, and Databricks' CLUSTER BY: the order of rows in files."""

    distributed: tuple[str, ...]
    sorted_by: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Refreshing:
    """Method and trigger as they were said; None where nothing was."""

    method: Method | None = None
    trigger: Trigger | None = None
    schedule: Schedule | None = None
    """With the trigger SCHEDULE, and only then."""


@dataclass(frozen=True, slots=True)
class Clauses:
    """What CREATE says beyond names, columns, comment, properties and query.

    GRACE PERIOD, WHEN STALE and ENABLE | DISABLE REWRITE are properties: grace_period, when_stale, use_for_rewrite.
    """

    deferred: bool = False
    """BUILD DEFERRED, WITH NO DATA."""
    refreshing: Refreshing = field(default=Refreshing())
    partitioning: Partitioning | None = None
    distribution: Distribution | None = None
    clustering: Clustering | None = None
    file_format: str | None = None
    """parquet or orc; None: the default, parquet."""
    location: str | None = None
    keys: tuple[str, ...] = ()
    """Doris' [DUPLICATE] KEY: kept, without a meaning in Spark."""
    duplicate: bool = False


# --- statements that the gateway executes itself ---------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the column list: its name and, where given, its comment."""

    name: str
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class CreateMaterializedView:
    name: Parts
    query: str
    """The definition's text, as it stands after AS, without a trailing semicolon or WITH [NO] DATA."""
    columns: tuple[Column, ...] = ()
    comment: str | None = None
    properties: Pairs = ()
    or_replace: bool = False
    if_not_exists: bool = False
    clauses: Clauses = field(default=Clauses())


@dataclass(frozen=True, slots=True)
class DropMaterializedView:
    name: Parts
    if_exists: bool = False
    restrict: bool = False
    """RESTRICT: not while another materialized view reads it."""


@dataclass(frozen=True, slots=True)
class RefreshMaterializedView:
    """REFRESH MATERIALIZED VIEW, Hive's ALTER … REBUILD, and BigQuery's CALL BQ.REFRESH_MATERIALIZED_VIEW.

    Without a method, or with COMPLETE, the view is recomputed, stale or not; AUTO recomputes only what is stale.
    """

    name: Parts
    method: Method | None = None
    partitions: tuple[str, ...] = ()
    """Names as SHOW PARTITIONS gives them, or `column=value`."""
    with_data: bool = True
    """False: PostgreSQL's WITH NO DATA; the view is emptied and must be refreshed before it can be read."""
    wait: bool = True
    """False: ASYNC."""


# What ALTER MATERIALIZED VIEW can change.


@dataclass(frozen=True, slots=True)
class Rename:
    name: Parts
    """One part: in the same database."""


@dataclass(frozen=True, slots=True)
class SetProperties:
    properties: Pairs


@dataclass(frozen=True, slots=True)
class UnsetProperties:
    keys: tuple[str, ...]
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class SetRefreshing:
    """Replaces what is given: a method alone leaves the trigger, a trigger alone the method."""

    refreshing: Refreshing


@dataclass(frozen=True, slots=True)
class DropSchedule:
    """Databricks' DROP SCHEDULE: as if no trigger had ever been given."""


@dataclass(frozen=True, slots=True)
class ReplaceWith:
    """`swap`: the two views exchange their names; otherwise the other one takes this one's, and this one is dropped."""

    name: Parts
    swap: bool = True


@dataclass(frozen=True, slots=True)
class SetOwner:
    owner: str


@dataclass(frozen=True, slots=True)
class SetComment:
    comment: str | None


Change = Rename | SetProperties | UnsetProperties | SetRefreshing | DropSchedule | ReplaceWith | SetOwner | SetComment


@dataclass(frozen=True, slots=True)
class AlterMaterializedView:
    """ALTER MATERIALIZED VIEW, and COMMENT ON MATERIALIZED VIEW."""

    name: Parts
    change: Change
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class ShowMaterializedViews:
    database: str | None = None
    pattern: str | None = None
    """As in Spark's SHOW TABLES: `*`, and also `%`, is any text, `|` separates alternatives, case does not count."""


@dataclass(frozen=True, slots=True)
class ShowCreate:
    name: Parts
    kind: str = "MATERIALIZED VIEW"
    """MATERIALIZED VIEW, VIEW or TABLE: decides the columns of the answer."""


@dataclass(frozen=True, slots=True)
class Describe:
    """DESCRIBE [EXTENDED | FORMATTED] [MATERIALIZED VIEW]."""

    name: Parts
    extended: bool = False


@dataclass(frozen=True, slots=True)
class ShowPartitions:
    name: Parts


@dataclass(frozen=True, slots=True)
class ShowProperties:
    """SHOW TBLPROPERTIES; `key` limits it to one."""

    name: Parts
    key: str | None = None


@dataclass(frozen=True, slots=True)
class Analyze:
    """ANALYZE TABLE name … of a view: `rest` is what follows the name."""

    name: Parts
    rest: str


@dataclass(frozen=True, slots=True)
class ShowVersions:
    """SHOW MATERIALIZED VIEW VERSIONS: those that are kept of one view."""

    name: Parts


@dataclass(frozen=True, slots=True)
class PauseJob:
    """PAUSE | RESUME MATERIALIZED VIEW JOB ON name: whether the view's schedule, or its base tables, refresh it."""

    name: Parts
    paused: bool


@dataclass(frozen=True, slots=True)
class CancelTask:
    """CANCEL MATERIALIZED VIEW TASK id ON name."""

    name: Parts
    task: int


@dataclass(frozen=True, slots=True)
class BeginTransaction:
    """START TRANSACTION, BEGIN: reads of a materialized view see one version of it until the end."""

    snapshot: bool = False
    """WITH CONSISTENT SNAPSHOT: the one that is current now, not the one at the view's first use."""


@dataclass(frozen=True, slots=True)
class EndTransaction:
    """COMMIT, or ROLLBACK, which differs in nothing: Spark's writes are done when their statement ends."""

    commit: bool
    chain: bool = False
    """AND CHAIN: another one begins at once."""


@dataclass(frozen=True, slots=True)
class Explain:
    """EXPLAIN CREATE | REFRESH MATERIALIZED VIEW: what the statement would do, and why."""

    statement: CreateMaterializedView | RefreshMaterializedView


Command = (
    CreateMaterializedView
    | DropMaterializedView
    | RefreshMaterializedView
    | AlterMaterializedView
    | ShowMaterializedViews
    | ShowCreate
    | Describe
    | ShowPartitions
    | ShowProperties
    | Analyze
    | ShowVersions
    | PauseJob
    | CancelTask
    | BeginTransaction
    | EndTransaction
    | Explain
)
NamedCommand = (
    DropMaterializedView | AlterMaterializedView | ShowCreate | Describe | ShowPartitions | ShowProperties | Analyze
)
"""What `parser.parse_about` makes of statements of Spark's own: commands of ours where the name is one of our views."""

# --- statements that go to Spark -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Forwarded:
    """A statement for Spark, with what the gateway must know about it.

    `exact` is False where the text could not be parsed: then `reads` and `writes` hold every dotted identifier chain
    of the text (strings looked into for EXECUTE IMMEDIATE), and `reason` says why.
    """

    reads: tuple[Reference, ...] = ()
    """Relations whose rows the statement reads; names bound by a CTE of the statement left out."""
    writes: tuple[Parts, ...] = ()
    """Relations whose rows, columns or existence the statement may change. DROP, ALTER, MSCK, LOAD count as writes."""
    creates_view: Parts | None = None
    """CREATE or ALTER VIEW: the view's name; `reads` then holds what its text reads (and none of it is refreshed)."""
    temporary: bool = False
    """The view or function that is created lives in the session."""
    shared: bool = False
    """GLOBAL: the temporary view is one of all sessions."""
    drops: Parts | None = None
    """DROP TABLE | VIEW | DATABASE: the name (also in `writes`)."""
    alters_database: Parts | None = None
    """ALTER DATABASE: the name."""
    drops_database: bool = False
    """`drops` names a database, and with it, every table in it."""
    creates_function: bool = False
    """`creates_view` names a SQL function: found in the `calls`, not the `reads`, of the statements that use it."""
    calls: tuple[Parts, ...] = ()
    """Names that stand before a bracket, built-in functions among them: a SQL function may hold a query."""
    keeps_rows: bool = False
    """The writes leave rows and present columns as they are: ALTER TABLE … ADD COLUMN."""
    changes_function: Parts | None = None
    """CREATE or DROP FUNCTION: the name, where the function is not the session's own."""
    writes_files: bool = False
    """INSERT OVERWRITE DIRECTORY, LOAD DATA INPATH, a table that is filled at a LOCATION: the files may be those of any
    table."""
    touches_rows: bool = True
    """False where no row is read or changed: EXPLAIN, DESCRIBE, SHOW, and schema probes (WHERE 1=0, LIMIT 0)."""
    changes_namespace: bool = False
    """USE, SET CATALOG, or a text that may contain them: the session's current database must be asked for again."""
    exact: bool = True
    everything: bool = False
    """Not exact, and of so many names that it counts as reading every relation and writing every table."""
    reason: str = ""


Statement = Command | Forwarded


@dataclass(frozen=True, slots=True)
class Glance:
    """What one cheap look at a text shows, before anything is parsed."""

    keyword: str
    """The first word, folded to lower case; comments and brackets before it skipped."""
    words: Words = field(default=frozenset())
    """Every identifier of the text, folded; of back-quoted ones the inside, also split at its dots."""
    maybe_command: bool = False
    """The text may be a statement of the gateway's own (a superset test: False is certain)."""
