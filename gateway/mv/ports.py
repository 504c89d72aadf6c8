"""What the layer of materialized views needs from the outside, as small protocols.

`gateway.spark` implements them over a real Spark Thrift Server; tests may implement them for faults that a real one
cannot be made to show.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol

from sql.names import Namespace, TableName


class Rows(Protocol):
    """A small result, whole in memory: names of the columns and a tuple for each row."""

    @property
    def columns(self) -> tuple[str, ...]: ...

    @property
    def rows(self) -> list[tuple[Any, ...]]: ...


class SqlSession(Protocol):
    """One session at Spark."""

    async def run(self, sql: str, *, on_start: Callable[[str], None] | None = None) -> Rows:
        """Runs one statement to its end. Cancelling the call cancels the statement at Spark.

        `on_start` gets the statement's id at Spark once it has started: `StageProgress` knows it by that. Raises
        StatementFailed with Spark's own message and SQLSTATE, or UpstreamLost.
        """
        ...

    def spoil(self) -> None:
        """It is not what it was when it was lent, and must not be lent again."""
        ...


class Sessions(Protocol):
    """Lends sessions of the gateway's own service user."""

    def session(self, *, fresh: bool = False) -> AbstractAsyncContextManager[SqlSession]:
        """`fresh`: nobody has used it, nor will: a session of Spark's keeps each function as it first called it."""
        ...


@dataclass(frozen=True, slots=True)
class JobProgress:
    """How far Spark is with one statement, over all of its jobs that are known so far. Later ones add stages.

    What Spark skips, because an earlier job has left its result, counts nowhere.
    """

    stages: int
    stages_done: int
    tasks: int
    tasks_done: int
    tasks_running: int
    tasks_failed: int
    """Attempts that failed; Spark tries a task again before it gives the statement up."""


class StageProgress(Protocol):
    """Tells how far a running statement is."""

    async def of_statement(self, statement: str) -> JobProgress | None:
        """`statement` is the id that `SqlSession.run` has told. None where nothing is known of it. Never raises, and
        answers within some seconds."""
        ...


class RelationKind(Enum):
    TABLE = "TABLE"
    VIEW = "VIEW"
    TEMPORARY_VIEW = "TEMPORARY VIEW"


@dataclass(frozen=True, slots=True)
class Relation:
    """What the metastore says of a table or view."""

    name: TableName
    kind: RelationKind
    view_text: str = ""
    namespace: Namespace = field(default_factory=Namespace)
    """Against what the view's text resolves unqualified names."""
    columns: tuple[tuple[str, str], ...] = ()
    """Name of each column and its type as Spark's JSON."""
    created: str = ""
    """When it was created, as Spark prints it, or the table's own id (Delta): another one means another table, same
    name or not. Empty where neither is told (Iceberg)."""
    provider: str = ""
    """What the rows are stored as, in lower case: parquet, hive, delta, iceberg, jdbc, …"""
    location: str = ""
    partition_columns: tuple[str, ...] = ()
    """Those whose values tell the partition; none where a table is partitioned by anything else."""
    partitions_listed: bool = False
    """The metastore has a list of the partitions, and directories beside them do not count."""
    reading: str = ""
    """A fingerprint of what, beside the columns, decides which rows the files are read as."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Of a view: Spark's settings in the session that has made it."""


@dataclass(frozen=True, slots=True)
class Function:
    """What the metastore says of a function that was created."""

    described: str
    """All of it: another text means another function."""
    body: str = ""
    """Of a SQL function what it returns: a query, or an expression. Empty for one of a class."""
    is_query: bool = False
    namespace: Namespace = field(default_factory=Namespace)
    """Against what the body resolves unqualified names."""


class Metastore(Protocol):
    """Reading and changing Spark's metastore. Every method may raise StatementFailed or UpstreamLost."""

    async def relation(self, name: TableName) -> Relation | None:
        """The table or view of that name, None where there is none."""
        ...

    async def databases(self) -> frozenset[str]: ...

    async def tables(self, database: str) -> frozenset[str]:
        """Tables and views of the database; empty where there is no such database."""
        ...

    async def views(self, database: str) -> frozenset[str]:
        """Spark views of the database, temporary ones left out; empty where there is no such database."""
        ...

    async def function(self, name: TableName) -> Function | None:
        """The function that was created under that name, None where there is none."""
        ...

    async def functions(self, database: str) -> frozenset[str]:
        """The functions that were created in the database; empty where there is no such database."""
        ...

    async def properties(self, table: TableName) -> Mapping[str, str]: ...

    async def run(self, sql: str) -> Rows:
        """One statement in a service session."""
        ...
