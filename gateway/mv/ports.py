"""The protocols through which the layer of materialized views uses the outside world.

`gateway.spark` implements them for a real Spark Thrift Server; tests may implement them for faults that a real server
cannot be made to show.

Tests: `test_simulated_spark`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol, TypeVar

from sql.memory.columns import ColumnFacts, MemoryColumn
from sql.names import Namespace, TableName
from sql.proof.plan import Plan


class Rows(Protocol):
    """A small result, completely in memory: the column names, and a tuple for each row."""

    @property
    def columns(self) -> tuple[str, ...]: ...

    @property
    def rows(self) -> list[tuple[Any, ...]]: ...


R = TypeVar("R")
Before = Callable[[], Awaitable[None]]
"""What is awaited at the last moment before a statement is sent. If it raises, the statement is not sent."""
Send = Callable[[str, Before | None], Awaitable[R]]
"""Sends a statement, and returns its result. Raises what `SqlSession.run` raises."""


class Outlet(Protocol):
    """What every statement of the gateway's own leaves through, in whichever session it runs."""

    async def run(self, sql: str, send: Send[R]) -> R:
        """Sends a statement, or another one that does the same, or raises what forbids it."""
        ...


class SqlSession(Protocol):
    """One session at Spark."""

    async def run(self, sql: str, *, on_start: Callable[[str], None] | None = None) -> Rows:
        """Runs a statement to its end. Cancelling the call cancels the statement at Spark.

        `on_start` receives the statement's id at Spark, for `StageProgress`, once it has started. Raises
        StatementFailed with Spark's own message and SQLSTATE, or UpstreamLost.
        """
        ...

    def spoil(self) -> None:
        """Marks the session as changed, so that it is not lent again."""
        ...


class RowPages(Protocol):
    """A session at Spark whose results may be larger than memory."""

    def pages(self, sql: str, rows: int) -> AsyncGenerator[bytes, None]:
        """Runs a query, and yields the pages of its result as Spark has sent them: FetchResults replies with at most
        `rows` rows. The next one is fetched when the previous one has been taken.

        Closing the iterator early cancels the query. Raises what `SqlSession.run` raises.
        """
        ...


class ServiceSessions(Protocol):
    """Lends sessions of the gateway's service user."""

    def session(self, *, fresh: bool = False) -> AbstractAsyncContextManager[SqlSession]:
        """`fresh`: a session of its own, used only once, because a Spark session keeps functions as first called."""
        ...


class OwnerRefused(Exception):
    """Spark opens no session for the owner of a view."""

    def __init__(self, owner: str, reason: str) -> None:
        super().__init__(f"Spark opens no session for {owner}: {reason}")
        self.owner = owner
        self.reason = reason
        """Spark's message."""


class OwnerSessions(Protocol):
    """Lends sessions of the owners of views."""

    def session(self, owner: str, *, fresh: bool = False) -> AbstractAsyncContextManager[SqlSession]:
        """`fresh`: as in `ServiceSessions.session`. Entering raises OwnerRefused."""
        ...


@dataclass(frozen=True, slots=True)
class JobProgress:
    """The progress of one statement, over all of its jobs known so far. Later jobs add stages.

    Stages that Spark skips, because an earlier job has left their result, are not counted.
    """

    stages: int
    stages_done: int
    tasks: int
    tasks_done: int
    tasks_running: int
    tasks_failed: int
    """Failed attempts. Spark repeats a failed task before it gives up the statement."""


class StageProgress(Protocol):
    """Reports the progress of running statements."""

    async def of_statement(self, statement: str) -> JobProgress | None:
        """The progress of a statement, by the id from `SqlSession.run`; None if nothing is known. Never raises, and
        answers within a few seconds."""
        ...


class PlanUnavailable(Exception):
    """There is no plan. The message says why, for people."""


class Plans(Protocol):
    """Plans queries without executing them."""

    @property
    def in_place(self) -> bool:
        """Whether planning leaves a session as it was. Otherwise it needs a session that serves for nothing else."""
        ...

    @property
    def checks_rights(self) -> bool:
        """Whether a query that Spark refuses to the session's user has no plan. Spark's EXPLAIN shows anybody a plan
        if a plugin checks rights only when queries run."""
        ...

    def of(self, session: SqlSession) -> AbstractAsyncContextManager[bytes]:
        """The name of a session for `optimized`. Entering it may change the session's settings, and raises what Spark
        raises."""
        ...

    async def optimized(self, session: bytes, text: str) -> Plan:
        """Spark's optimized plan of a query in the session of this name, as its user. Raises PlanUnavailable, and
        UpstreamLost if the session has ended: that says nothing of the query."""
        ...

    async def unfolded(self, session: bytes, text: str) -> Plan:
        """As `optimized`: the plan that Spark makes without looking at the values of literals, so that it holds for
        others in their places."""
        ...

    async def analyzed(self, session: bytes, text: str) -> Plan:
        """As `optimized`: Spark's plan before that, or the optimized one where Spark shows only that exactly. It tells
        what the query's columns are computed from, and proves nothing."""
        ...


WHOLE_TEXTS = {
    "spark.sql.debug.maxToStringFields": "1000000",
    "spark.sql.maxPlanStringLength": "8000000",
    "spark.sql.redaction.string.regex": "(?!)",
}
"""Settings of Spark with which EXPLAIN leaves nothing out, and replaces nothing."""
UNKNOWN_SETTINGS = {"freshgate.unknown": "true"}
"""Of a view of which Spark does not tell with which settings it was created, and these may matter."""


class RelationKind(Enum):
    TABLE = "TABLE"
    VIEW = "VIEW"
    TEMPORARY_VIEW = "TEMPORARY VIEW"


@dataclass(frozen=True, slots=True)
class Relation:
    """What the metastore says about a table or view."""

    name: TableName
    kind: RelationKind
    view_text: str = ""
    namespace: Namespace = field(default_factory=Namespace)
    """Where the view's text resolves unqualified names."""
    columns: tuple[tuple[str, str], ...] = ()
    """The name and type (Spark's JSON) of each column."""
    created: str = ""
    """When it was created, as Spark prints it, or the table's own id (Delta): another value means another table, even
    under the same name. Empty if Spark tells neither (Iceberg)."""
    provider: str = ""
    """The storage format in lower case: parquet, hive, delta, iceberg, jdbc, …"""
    location: str = ""
    partition_columns: tuple[str, ...] = ()
    """The columns whose values determine the partition; empty if the table is partitioned by anything else."""
    transforms: tuple[str, ...] = ()
    """Iceberg's transforms by which the table is partitioned, such as `bucket(4, c)`. Then `partition_columns` are not
    known."""
    partitions_listed: bool = False
    """Whether the metastore lists the partitions, so that other directories do not count."""
    reading: str = ""
    """A fingerprint of everything except the columns that affects how the files are read."""
    converted: str = ""
    """For a Hive table that Spark, if its settings allow that, reads as files of a format of its own: parquet or orc.
    Empty if properties of the table change how they are read."""
    watermark: str = ""
    """For a table whose format tells nothing of its changes: the table property `freshgate.watermark`."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """For a view: Spark's settings in the session that created it, or UNKNOWN_SETTINGS."""
    outputs: tuple[str, ...] = ()
    """For a view: the names that its columns have in its query, where Spark finds them by these."""
    collation: str = ""
    """For a view: the collation of the strings in its text."""


@dataclass(frozen=True, slots=True)
class Function:
    """What the metastore says about a user-defined function."""

    described: str
    """Its complete description: another text means another function."""
    body: str = ""
    """For a SQL function, what it returns: a query or an expression. Empty for a function implemented by a class."""
    is_query: bool = False
    namespace: Namespace = field(default_factory=Namespace)
    """Where the body resolves unqualified names."""


class Metastore(Protocol):
    """Reads and changes Spark's metastore. Every method may raise StatementFailed or UpstreamLost."""

    async def relation(self, name: TableName, *, identify: bool = True) -> Relation | None:
        """The table or view with this name; None if there is none. `identify`: asks for the id of a Delta table, which
        takes a statement of its own; otherwise `created` is empty."""
        ...

    async def databases(self) -> frozenset[str]: ...

    async def tables(self, database: str) -> frozenset[str]:
        """The tables and views of the database; empty if there is no such database."""
        ...

    async def views(self, database: str, pattern: str = "*") -> frozenset[str]:
        """The Spark views of the database whose names match the pattern, in which `*` is any text, without temporary
        ones; empty if there is no such database."""
        ...

    async def function(self, name: TableName) -> Function | None:
        """The user-defined function with this name; None if there is none."""
        ...

    async def functions(self, database: str) -> frozenset[str]:
        """The user-defined functions of the database; empty if there is no such database."""
        ...

    async def properties(self, table: TableName) -> Mapping[str, str]: ...

    async def run(self, sql: str) -> Rows:
        """Runs one statement in a service session."""
        ...


class MemoryUnavailable(Exception):
    """A query has no answer from memory, for whatever reason: Spark can answer it."""

    def __init__(self, reason: str, detail: str = "") -> None:
        """`reason`: one of few words, for counters: busy, time, rows, bytes, memory, lost, failed, ... `detail`: what
        the engine said."""
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason
        self.detail = detail


@dataclass(frozen=True, slots=True)
class LoadedTable:
    """A table in memory."""

    columns: tuple[MemoryColumn, ...]
    rows: int
    bytes: int
    """How much memory it takes, about."""
    facts: Mapping[str, ColumnFacts]
    """By the names of all columns."""


@dataclass(frozen=True, slots=True)
class MemoryAnswer:
    """The rows of an answer from memory."""

    pages: tuple[bytes, ...]
    """FetchResults replies with exactly the bytes of Spark's, except for the number of the call; at least one, which
    may have no rows."""
    rows: int


@dataclass(frozen=True, slots=True)
class KeptRows:
    """The rows of a table in memory with which another one begins."""

    table: str
    without: str = ""
    """The condition on rows that are left out, in the engine's SQL, never NULL; empty if none are."""


class RowEngine(Protocol):
    """Keeps tables in memory, and answers queries of them. Every method raises MemoryUnavailable."""

    async def load(
        self,
        table: str,
        columns: Sequence[MemoryColumn],
        parts: AsyncGenerator[bytes, None],
        *,
        kept: KeptRows | None = None,
    ) -> LoadedTable:
        """Replaces a table by rows of another one, if `kept` names them, and those of `parts`. Readers see all of the
        rows or none.

        `parts` are the pages of the text that `sql.memory.row_lines` makes for these columns (RowPages). What the table
        was before stays if this raises, also what `parts` raises.
        """
        ...

    async def drop(self, table: str) -> None:
        """Does nothing if there is no such table."""
        ...

    async def run(
        self, text: str, columns: Sequence[MemoryColumn], rows_max: int, bytes_max: int, seconds: float
    ) -> MemoryAnswer:
        """Answers a query in the engine's SQL. `columns` have the types that Spark would give its columns; a float, or
        another type than `sql.memory.engine_types` has, is refused. Timestamps are printed as in a session whose time
        zone is UTC. `seconds` include the time that the query waits."""
        ...
