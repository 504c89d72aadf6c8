"""What the gateway asks of a table format. No other module of the gateway knows one format from another.

A format begins with `reads` and `look`; what it does not say otherwise is what is true of a table of which nothing else
is known. CONTRIBUTING has the recipe.

Tests: `test_formats`.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from gateway.mv import many
from gateway.mv.formats.listings import Listings
from gateway.mv.model.marks import Mark
from gateway.mv.model.snapshot import Observed, PartitionValues, Snapshot, fingerprint
from gateway.mv.ports import Relation, RelationKind, SqlSession
from sql.increments.reasons import NotIncremental, Reason
from sql.names import TableName
from sql.releases import NEWEST, Dialect

FILES_MAX = 2_000
"""How many new files one refresh names in a statement."""
LISTED_MAX = 20_000
"""How many files one listing names, or one reading of a log. If more are young, a mark folds all."""
LONG_NAMES = ("org.apache.spark.sql.", "com.databricks.spark.")
"""Old prefixes of the names of formats."""


@dataclass(frozen=True, slots=True)
class Change:
    """What happened to a table since a mark, as queries with all columns of the table in its order."""

    mark: Mark
    """The state after it."""
    added: str | None = None
    """Exactly the added rows; None: there are none."""
    removed: str | None = None
    before: str = ""
    """The rows at the earlier mark; empty if they cannot be read."""
    bytes: int = 0
    """Of the added files; 0 if unknown."""
    signed: str = ""
    """Added and removed rows in one query, with the column `additions.REMOVED`; empty if that would read no less."""


@dataclass(frozen=True, slots=True)
class Tools:
    """What formats work with."""

    listings: Listings
    last: dict[TableName, Snapshot] = field(default_factory=dict)
    """Observations from which the next ones continue."""
    sizes: dict[TableName, int] = field(default_factory=dict)
    """The bytes of tables, as the last observations found them."""


@dataclass(frozen=True, slots=True)
class Moment:
    """When something is asked, and of which release of Spark."""

    ms: int
    """Milliseconds since the epoch."""
    dialect: Dialect = NEWEST


class TableFormat(ABC):
    """How tables of one format are recognised and observed, and how rows that were added to them are found.

    An instance remembers what it has seen of tables. Methods that ask Spark raise what Spark raises, TimeoutError if a
    look takes too long, and ValueError if an answer cannot be read.
    """

    title: ClassVar[str]
    """A table of this format, as errors call it: "a Delta table"."""
    cheap: ClassVar[bool] = False
    """Whether a look reads a few lines of a log, however many files the table has."""
    held_in_memory: ClassVar[bool] = False
    """Whether rows of a table can be in memory: a look shows every write, and Spark's plans name the table."""
    cached: ClassVar[bool] = False
    """Whether each Spark session keeps the table as it first found it until it is told to refresh it. Otherwise, its
    rows may be kept by the path of its files."""
    has_parts: ClassVar[bool] = False
    """Whether names below a table's name, as in `db.orders.branch_b`, are parts of the table."""
    has_history: ClassVar[bool] = False
    """Whether earlier states can be read (`VERSION AS OF`), which stay what they were."""
    paths: ClassVar[frozenset[str]] = frozenset()
    """The words before a path that make it a table's name, as in parquet.`/data/x`. `sql.names` reads such names."""
    shown_in_plans: ClassVar[bool] = False
    """Whether the text of Spark's plan for a query shows all that is read of the table."""
    from_metadata: ClassVar[Mapping[str, str]] = {}
    """Settings of Spark with which the plan of an aggregate is shown even where the format would answer it from its
    metadata."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self.memories: Sequence[MutableMapping[TableName, Any]] = ()
        """What is remembered, by table, beside the tools."""

    # --- recognition -------------------------------------------------------------------------------

    @classmethod
    @abstractmethod
    def reads(cls, relation: Relation) -> bool:
        """Whether a table is of this format. `relation` is not a view."""

    @classmethod
    async def complete(
        cls, session: SqlSession, relation: Relation, again: Callable[[], Awaitable[Relation]], *, identify: bool
    ) -> Relation:
        """Adds what Spark's description of a table lacks. `again` describes it once more. `identify`: as in
        `Metastore.relation`."""
        return relation

    @classmethod
    def follows(cls, kind: str) -> bool:
        """Whether the text of a value of a partition column of this SQL type is known, so that partitions of a view can
        follow it."""
        return True

    # --- looks -------------------------------------------------------------------------------------

    def expected(self, relation: Relation) -> Relation | None:
        """What a table will probably be described as, if it was last described as `relation`, and `look` may begin
        before it is known; None if `look` needs the description."""
        return None

    @abstractmethod
    async def look(self, table: TableName, relation: Relation, root: Relation | None) -> Observed:
        """The state of a table. `root`: the table if the name is that of a part of it."""

    def identified(self, table: TableName, relation: Relation) -> Relation:
        """The relation after a look, with what the look has seen of it."""
        return relation

    # --- changes -----------------------------------------------------------------------------------

    def check(self, relation: Relation) -> None:
        """Raises NotIncremental if changes of a table can never be found."""
        raise _unfindable(relation)

    def hindrance(self, relation: Relation, is_on: Callable[[str], bool]) -> NotIncremental | None:
        """Why changes cannot be found with the settings of the gateway's own sessions; None if they can."""
        return None

    async def mark(self, relation: Relation, snapshot: Snapshot, now: Moment) -> Mark:
        """The state of a table: now, or at the look, if it has a history. `check` has passed, as for what follows.
        May raise NotIncremental."""
        raise _unfindable(relation)

    async def since(self, relation: Relation, snapshot: Snapshot, mark: Mark, now: Moment) -> Change:
        """What happened to a table since a mark of the same identity. May raise NotIncremental."""
        raise _unfindable(relation)

    def rows(self, relation: Relation, mark: Mark) -> str:
        """The query for the rows of a table at its present mark, with all its columns. Rows that appear while it runs
        are not read; `holding` tells whether it was so."""
        raise _unfindable(relation)

    async def holding(self, relation: Relation, mark: Mark) -> bool:
        """Whether `rows`, and a query of files by name, have read what the mark contains: nothing has vanished, and
        nothing has appeared that they would read."""
        # A version stays what it was, and a query of one fails if its files are gone.
        return self.has_history

    async def size(self, relation: Relation) -> int | None:
        """About how many bytes a table has that no look has measured; None if that is unknown."""
        return None


def _unfindable(relation: Relation) -> NotIncremental:
    return NotIncremental(Reason.PROVIDER, f"changes of {relation.name} cannot be found ({relation.provider})")


def provider_of(relation: Relation) -> str:
    """The short name of the table's format."""
    provider = relation.provider
    for prefix in LONG_NAMES:
        provider = provider.removeprefix(prefix)
    return provider


def is_table(relation: Relation) -> bool:
    return relation.kind is RelationKind.TABLE


def columns_of(relation: Relation) -> list[str]:
    return [name for name, _ in relation.columns]


def of_partitions(identity: str, partitions: Mapping[PartitionValues, str], position: str = "") -> Snapshot:
    """The snapshot of a table of which all partitions are known."""
    states = (json.dumps([values, state]) for values, state in partitions.items())
    return Snapshot(identity, fingerprint(*many.in_order(states, str)), "", partitions, position)


def refuse_metadata_column(relation: Relation) -> None:
    """Raises NotIncremental for a column that hides the name of a row's file."""
    if any(name.lower() == "_metadata" for name, _ in relation.columns):
        raise NotIncremental(Reason.PROVIDER, f"{relation.name} has a column _metadata")
