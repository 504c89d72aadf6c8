"""The kinds of statements, a class for each. `classify` creates them, `service.routing.route` acts on them.

Tests: `test_lineage`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum

from sql.names import Parts
from sql.words import Words

Pairs = tuple[tuple[str, str], ...]
"""Properties in the order of the text, each key once."""


@dataclass(frozen=True, slots=True)
class Reference:
    """One mention of a relation in a text.

    `start` and `end` are the character offsets of the whole dotted name with its backquotes; `end` is exclusive.
    `aliased` tells whether an alias follows, so that a subquery can be spliced in with or without one. In a text that
    is not exact, a name found in a string has no position: both are 0.
    """

    parts: Parts
    start: int
    end: int
    aliased: bool = False
    perhaps: bool = False
    """A CTE has this name in another case. It is the same name unless spark.sql.caseSensitive is set."""

    def __reduce__(self) -> tuple[type[Reference], tuple[Parts, int, int, bool, bool]]:
        # The default reads the fields from the class for each object: a long text may have tens of thousands.
        return Reference, (self.parts, self.start, self.end, self.aliased, self.perhaps)


# --- the clauses of a materialized view ------------------------------------------------------------------


class Method(StrEnum):
    """The method of a refresh, as a statement writes it after REFRESH."""

    AUTO = "AUTO"
    """The cheapest one (Oracle's FORCE)."""
    COMPLETE = "COMPLETE"
    """Recomputes everything (FULL, REBUILD)."""
    INCREMENTAL = "INCREMENTAL"
    """Computes only the changed rows, or fails and says why that is impossible (Oracle's FAST, Databricks' POLICY
    INCREMENTAL STRICT)."""
    INCREMENTAL_FALLBACK = "INCREMENTAL FALLBACK"
    """Computes only the changed rows if possible, otherwise refreshes as AUTO does (Databricks' POLICY INCREMENTAL)."""


class Trigger(StrEnum):
    """What starts a refresh. MANUAL is Oracle's ON DEMAND, COMMIT Databricks' TRIGGER ON UPDATE, LAG Snowflake's
    TARGET_LAG."""

    MANUAL = "MANUAL"
    SCHEDULE = "SCHEDULE"
    COMMIT = "COMMIT"
    LAG = "LAG"


class WhenStale(StrEnum):
    """What a read of a stale view does: refresh it first, read it as it is, read the definition instead, or fail."""

    REFRESH = "REFRESH"
    SERVE = "SERVE"
    INLINE = "INLINE"
    FAIL = "FAIL"


class Security(StrEnum):
    """The rights that decide which rows of a view a reader is shown, as in Presto and Trino."""

    DEFINER = "DEFINER"
    """Every reader of the view is shown the rows that its refresh was shown."""
    INVOKER = "INVOKER"
    """Each reader is shown the rows that the definition has for that user."""


class Consistency(StrEnum):
    """How fresh a view must be to answer a query that does not name it."""

    CHECKED = "CHECKED"
    """Fresh, by an observation of the base tables that is as recent as for reads of the view."""
    STRICT = "STRICT"
    """Fresh, by an observation that began after the query came."""
    LOOSE = "LOOSE"
    """Fresh, or within its grace period."""
    OFF = "OFF"
    """However old."""


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
    """Partitions by a column of the view, or by date_trunc(column, unit); the unit is in upper case."""

    column: str
    unit: str | None = None
    follows: bool = False
    """Doris' PARTITION BY (…): the partitions must follow those of a base table. Other databases' clauses only specify
    the layout."""
    further: tuple[Partitioning, ...] = ()
    """The other columns."""
    transform: str = ""
    """Another of Iceberg's transforms of the column, such as `bucket(16)`."""

    @property
    def parts(self) -> tuple[Partitioning, ...]:
        """One for each column."""
        return (self, *self.further)

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(part.column for part in self.parts)

    def over(self, columns: Iterable[str]) -> Partitioning | None:
        """The same by only these of its columns; None if there are none."""
        wanted = {column.lower() for column in columns}
        found = [replace(part, further=()) for part in self.parts if part.column.lower() in wanted]
        return replace(found[0], follows=self.follows, further=tuple(found[1:])) if found else None

    def __str__(self) -> str:
        """As SQL without quotes."""
        return ", ".join(
            f"date_trunc({part.column}, '{part.unit}')" if part.unit else part.transformed(part.column)
            for part in self.parts
        )

    def transformed(self, column: str) -> str:
        """As SQL, without the unit: `bucket(16, column)`."""
        return f"{self.transform[:-1]}, {column})" if self.transform else column


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
    """Method and trigger; None: not given."""

    method: Method | None = None
    trigger: Trigger | None = None
    schedule: Schedule | None = None
    """Given if and only if the trigger is SCHEDULE."""
    lag: int | None = None
    """How many seconds old rows may be. Given only if the trigger is LAG; None then: DOWNSTREAM."""
    at_most: int | None = None
    """Seconds between the starts of two refreshes, at the least. Given only if the trigger is COMMIT, or LAG with
    `lag`."""

    @property
    def follows(self) -> bool:
        """Whether the view is refreshed when one above it needs it, because nothing else refreshes it by itself."""
        return self.trigger is None or (self.trigger is Trigger.LAG and self.lag is None)

    def with_trigger_of(self, other: Refreshing) -> Refreshing:
        """This method with the trigger of the other one, if it has one, and its method, if it has one."""
        method = other.method or self.method
        return replace(other if other.trigger is not None else self, method=method)


@dataclass(frozen=True, slots=True)
class CreateClauses:
    """The clauses of CREATE other than columns, comment, properties and query.

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
    """Doris' [DUPLICATE] KEY: stored, without effect in Spark."""
    duplicate: bool = False
    security: Security | None = None
    """None: never said; the rows are those that the gateway's account was shown, for every reader."""
    immutable: str | None = None
    """IMMUTABLE WHERE: the condition of the rows that no refresh computes again."""


# --- statements that the gateway executes itself ---------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ListedColumn:
    """A column of the column list, with its comment if given."""

    name: str
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class CreateMaterializedView:
    name: Parts
    query: str
    """The text of the definition after AS, without a final semicolon or WITH [NO] DATA."""
    columns: tuple[ListedColumn, ...] = ()
    comment: str | None = None
    properties: Pairs = ()
    or_replace: bool = False
    if_not_exists: bool = False
    clauses: CreateClauses = field(default=CreateClauses())
    anew: bool = False
    """BUILD COMPLETE: the rows are computed from the base tables, also if the view replaces one that has them."""


@dataclass(frozen=True, slots=True)
class DropMaterializedView:
    name: Parts
    if_exists: bool = False
    restrict: bool = False
    """RESTRICT: refused while another materialized view reads it."""


@dataclass(frozen=True, slots=True)
class RefreshMaterializedView:
    """REFRESH MATERIALIZED VIEW, Hive's ALTER … REBUILD, and BigQuery's CALL BQ.REFRESH_MATERIALIZED_VIEW.

    Without a method, or with COMPLETE, the view is recomputed whether stale or not; the others do only what is needed.
    """

    name: Parts
    method: Method | None = None
    partitions: tuple[str, ...] = ()
    """Names as shown by SHOW PARTITIONS, or `column=value`."""
    with_data: bool = True
    """False: PostgreSQL's WITH NO DATA; the view is emptied and must be refreshed before it can be read."""
    wait: bool = True
    """False: ASYNC."""


@dataclass(frozen=True, slots=True)
class RefreshMaterializedViews:
    """REFRESH MATERIALIZED VIEWS: all of a database, or those that are named."""

    database: str | None = None
    names: tuple[Parts, ...] = ()
    method: Method | None = None
    """As in RefreshMaterializedView."""


@dataclass(frozen=True, slots=True)
class SwapMaterializedViews:
    """ALTER MATERIALIZED VIEWS SWAP: the views of each pair exchange their names, all at one moment."""

    pairs: tuple[tuple[Parts, Parts], ...]

    @property
    def names(self) -> tuple[Parts, ...]:
        return tuple(name for pair in self.pairs for name in pair)


# Changes by ALTER MATERIALIZED VIEW.


@dataclass(frozen=True, slots=True)
class Rename:
    name: Parts
    """A name of one part is one in the same database."""


@dataclass(frozen=True, slots=True)
class SetProperties:
    properties: Pairs


@dataclass(frozen=True, slots=True)
class UnsetProperties:
    keys: tuple[str, ...]
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class SetRefreshing:
    """Replaces what is given: a method alone keeps the trigger, a trigger alone keeps the method."""

    refreshing: Refreshing


@dataclass(frozen=True, slots=True)
class DropSchedule:
    """Databricks' DROP SCHEDULE: as if no trigger had ever been given."""


@dataclass(frozen=True, slots=True)
class SetImmutable:
    """SET IMMUTABLE WHERE, or without a condition UNSET IMMUTABLE and DROP IMMUTABLE."""

    condition: str | None


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


@dataclass(frozen=True, slots=True)
class SetSecurity:
    security: Security


class GranteeKind(StrEnum):
    """Whom a right is granted to. A role is a group: logins bring no other names of several users."""

    USER = "USER"
    GROUP = "GROUP"
    PUBLIC = "PUBLIC"
    """Everybody."""


@dataclass(frozen=True, slots=True, order=True)
class Grantee:
    kind: GranteeKind
    name: str = ""
    """As logins bring it, in their case. Empty for PUBLIC."""

    def __str__(self) -> str:
        return f"{self.kind} {self.name}".rstrip()


@dataclass(frozen=True, slots=True)
class SetRefreshers:
    """GRANT REFRESH, or REVOKE: who may refresh the view besides its owner."""

    grantees: tuple[Grantee, ...]
    granted: bool = True


Change = (
    Rename
    | SetProperties
    | UnsetProperties
    | SetRefreshing
    | DropSchedule
    | SetImmutable
    | ReplaceWith
    | SetOwner
    | SetComment
    | SetSecurity
    | SetRefreshers
)


@dataclass(frozen=True, slots=True)
class AlterMaterializedView:
    """ALTER MATERIALIZED VIEW, COMMENT ON MATERIALIZED VIEW, and GRANT and REVOKE of REFRESH."""

    name: Parts
    change: Change
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class ShowMaterializedViews:
    database: str | None = None
    pattern: str | None = None
    """As in Spark's SHOW TABLES: `*` and `%` match any text, `|` separates alternatives, case is ignored."""


@dataclass(frozen=True, slots=True)
class ShowGateways:
    pattern: str | None = None
    """Of addresses, as in `ShowMaterializedViews`."""


@dataclass(frozen=True, slots=True)
class RefreshPath:
    """REFRESH and a name, which Spark takes for a path."""

    name: Parts


@dataclass(frozen=True, slots=True)
class ShowCreate:
    name: Parts
    kind: str = "MATERIALIZED VIEW"
    """MATERIALIZED VIEW, VIEW or TABLE; determines the columns of the result."""


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
    """ANALYZE TABLE name … for a view; `rest` is what follows the name."""

    name: Parts
    rest: str


@dataclass(frozen=True, slots=True)
class ShowVersions:
    """SHOW MATERIALIZED VIEW VERSIONS: the kept versions of one view."""

    name: Parts


@dataclass(frozen=True, slots=True)
class ShowGrants:
    """SHOW GRANTS ON a view, and Hive's SHOW GRANT."""

    name: Parts
    grantee: Grantee | None = None
    """Only what concerns this one."""
    hive: bool = False
    """SHOW GRANT: the result has Hive's columns, otherwise Databricks'."""


@dataclass(frozen=True, slots=True)
class PauseJob:
    """PAUSE | RESUME MATERIALIZED VIEW JOB ON name: stops or resumes refreshes by a schedule or by changes."""

    name: Parts
    paused: bool


@dataclass(frozen=True, slots=True)
class CancelTask:
    """CANCEL MATERIALIZED VIEW TASK id ON name."""

    name: Parts
    task: int


@dataclass(frozen=True, slots=True)
class BeginTransaction:
    """START TRANSACTION, BEGIN: until its end, all reads of a materialized view see the same version."""

    snapshot: bool = False
    """WITH CONSISTENT SNAPSHOT: the version at the start of the transaction, not at the view's first use."""


@dataclass(frozen=True, slots=True)
class EndTransaction:
    """COMMIT or ROLLBACK. Both have the same effect, because Spark commits each write with its statement."""

    commit: bool
    chain: bool = False
    """AND CHAIN: another transaction begins immediately."""


@dataclass(frozen=True, slots=True)
class Explain:
    """EXPLAIN CREATE | REFRESH MATERIALIZED VIEW: what the statement would do, and why."""

    statement: CreateMaterializedView | RefreshMaterializedView


@dataclass(frozen=True, slots=True)
class ExplainRewrite:
    """EXPLAIN REWRITE query: which materialized views could answer the query, and why others cannot."""

    query: str
    """As written, without final semicolons."""


Command = (
    CreateMaterializedView
    | DropMaterializedView
    | RefreshMaterializedView
    | RefreshMaterializedViews
    | SwapMaterializedViews
    | AlterMaterializedView
    | ShowMaterializedViews
    | ShowGateways
    | ShowCreate
    | Describe
    | ShowPartitions
    | ShowProperties
    | Analyze
    | ShowVersions
    | ShowGrants
    | PauseJob
    | CancelTask
    | BeginTransaction
    | EndTransaction
    | Explain
    | ExplainRewrite
    | RefreshPath
)
NamedCommand = (
    DropMaterializedView
    | AlterMaterializedView
    | ShowCreate
    | Describe
    | ShowPartitions
    | ShowProperties
    | ShowGrants
    | Analyze
    | RefreshPath
)
"""The commands that `parser.parse_about` returns for Spark's own statements about a materialized view."""

# --- statements that are forwarded to Spark --------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Forwarded:
    """A statement for Spark, with what the gateway must know about it.

    `exact` is False if the text could not be parsed. Then `reads` and `writes` contain every dotted name in the text
    (for EXECUTE IMMEDIATE also those in strings), and `reason` says why.
    """

    reads: tuple[Reference, ...] = ()
    """Relations whose rows the statement reads, without the names of its CTEs."""
    writes: tuple[Parts, ...] = ()
    """Relations whose rows, columns or existence the statement may change. DROP, ALTER, MSCK, LOAD count as writes."""
    creates_view: Parts | None = None
    """CREATE or ALTER VIEW: the view's name. `reads` then has what its text reads; none of that is refreshed."""
    temporary: bool = False
    """The created view or function belongs to the session."""
    shared: bool = False
    """GLOBAL: the temporary view is visible in all sessions."""
    drops: Parts | None = None
    """DROP TABLE | VIEW | DATABASE: the name (also in `writes`)."""
    alters_database: Parts | None = None
    """CREATE DATABASE, ALTER DATABASE, COMMENT ON DATABASE: the name."""
    drops_database: bool = False
    """`drops` is a database, which is dropped with every table in it."""
    creates_function: bool = False
    """`creates_view` is a SQL function: statements that use it have it in `calls`, not in `reads`."""
    calls: tuple[Parts, ...] = ()
    """Names before a parenthesis, including built-in functions; a SQL function may contain a query."""
    keeps_rows: bool = False
    """The writes keep rows and existing columns: ALTER TABLE … ADD COLUMN."""
    changes_function: Parts | None = None
    """CREATE or DROP FUNCTION: the name, unless the function belongs to the session."""
    writes_files: bool = False
    """INSERT OVERWRITE DIRECTORY, LOAD DATA INPATH, or a table filled at a LOCATION: the files may belong to any
    table."""
    touches_rows: bool = True
    """False if no row is read or changed: EXPLAIN, DESCRIBE, SHOW, and schema probes (WHERE 1=0, LIMIT 0)."""
    changes_namespace: bool = False
    """USE, SET CATALOG, or a text that may contain them: the session's current database must be queried again."""
    exact: bool = True
    everything: bool = False
    """Not exact, with so many names that it counts as reading every relation and writing every table."""
    reason: str = ""


Statement = Command | Forwarded


@dataclass(frozen=True, slots=True)
class Glance:
    """The result of a cheap scan of a text, before anything is parsed."""

    keyword: str
    """The first word in lower case, after comments and parentheses."""
    words: Words = field(default=frozenset())
    """Every identifier of the text in lower case; backquoted ones also split at their dots."""
    maybe_command: bool = False
    """The text may be one of the gateway's own statements; False is certain."""
