"""Rows of a view in a table that other engines read: each version is one commit of it.

The storage table in spark_catalog has the view's properties and no rows then. A class for each format says what differs
(`iceberg_rows`, `delta_rows`).
Tests: `test_open_rows`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, ClassVar

from sql.names import TableName, quote
from sql.texts.literals import string_token

ROWS_SUFFIX = "__rows"
"""What follows a view's id in the name of its table of rows."""
TAG = "freshgate-version"
"""What a commit says of itself: the version of the view whose rows it has written."""
STATIC: Mapping[str, str] = {"spark.sql.sources.partitionOverwriteMode": "static"}
"""In dynamic mode, an overwrite without rows replaces nothing."""


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit of a table of rows."""

    snapshot: str
    """What VERSION AS OF takes."""
    parent: str
    """The commit whose rows it has changed, or has with other files. Empty: it is the first one."""
    rewrites: bool
    """It has the rows of its parent, perhaps in other files, as a compaction leaves."""
    version: int | None
    """The version whose rows it has written; None if another writer has made it."""
    added: int
    files: int
    bytes: int
    current: bool
    """What readers that name no commit see."""
    identity: str
    """What no commit of another table of this name has."""
    keeps: bool = False
    """It has exactly the files of its parent."""
    removes: bool = True
    """Files have perhaps left the table with it."""
    at: int = 0
    """When it was made, in milliseconds since the epoch; 0: the format need not tell."""


@dataclass(frozen=True, slots=True)
class Before:
    """The files of the rows to which a commit adds."""

    files: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class Expiry:
    """What removes commits that nobody needs, as far as it may be done now."""

    statement: str = ""
    """Empty: there is nothing to do."""
    until: int = 0
    """Files are removed that nobody has needed since then (milliseconds since the epoch); 0: the commits are named."""
    again_seconds: float = 0.0
    """When more may be removed; 0: nothing is left."""


@dataclass(frozen=True, slots=True)
class Past:
    """What decides how old commits must be that go. Times are milliseconds since the epoch."""

    now: int
    done: int = 0
    """The `until` of the last expiry."""
    idle: bool = True
    """Whether no refresh writes rows."""


@dataclass(frozen=True, slots=True)
class OpenRows(ABC):
    """The table that holds a view's rows."""

    format: ClassVar[str]
    """The word after USING."""
    upkeep: ClassVar[Mapping[str, str]] = {}
    """The settings of a session that lists, expires and rolls back commits."""

    overtaken: ClassVar[str] = ""
    """The SQLSTATE of a statement whose commit another writer's has made impossible; empty: the format needs none."""

    table: TableName
    described: bool = False
    """Whether it tells other engines of the view, as a draft of the format says."""

    def at(self, snapshot: str) -> str:
        """The rows as a commit left them, for FROM. Without a snapshot, a view that has never been built: no rows."""
        return f"{self.table.quoted} VERSION AS OF {int(snapshot)}" if snapshot else self.table.quoted

    # --- the table -------------------------------------------------------------------------------------

    def create(self, definition: TableName, columns: Sequence[str], by: Sequence[str], comment: str | None) -> str:
        """Creates the table, without rows, and with partitions `by` some columns."""
        properties = self._properties(columns).items()
        # Not every format can divide a table by all of its columns.
        divided = f" PARTITIONED BY ({', '.join(map(quote, by))})" if by and len(by) < len(columns) else ""
        listed = ", ".join(f"{string_token(key)} = {string_token(value)}" for key, value in properties)
        said = "" if comment is None else f" COMMENT {string_token(comment)}"
        return (
            f"CREATE TABLE IF NOT EXISTS {self.table.quoted} USING {self.format}{divided}{said} "
            f"TBLPROPERTIES ({listed}) AS SELECT * FROM {definition.quoted} LIMIT 0"
        )

    @abstractmethod
    def _properties(self, columns: Sequence[str]) -> Mapping[str, str]:
        """The properties of a table with these columns: nobody but the gateway may remove a commit."""

    def create_database(self) -> str:
        return f"CREATE DATABASE IF NOT EXISTS {quote(self.table.catalog)}.{quote(self.table.database)}"

    @abstractmethod
    def drop(self) -> str:
        """Drops the table with its files."""

    @classmethod
    @abstractmethod
    def asked(cls, catalog: str) -> str:
        """The setting of Spark that tells whether a catalog can have such tables."""

    @classmethod
    @abstractmethod
    def unfit(cls, catalog: str, value: str) -> str:
        """Why the catalog cannot have them, by that setting's value, and what to do; empty if it can."""

    # --- writing ---------------------------------------------------------------------------------------

    @abstractmethod
    def settings(self, version: int, before: Before, state: str = "") -> dict[str, str]:
        """The settings of a session that writes a version, in addition to rows that have been there `before`. `state`:
        of the base tables, for others to read; empty if it is not known."""

    def insert(self, columns: Iterable[str], rows: str, *, appends: bool) -> str:
        """Writes the rows of a query: instead of all that are there, or in addition to them."""
        verb = "INSERT INTO" if appends else "INSERT OVERWRITE"
        return f"{verb} {self.table.quoted} ({', '.join(map(quote, columns))}) {rows}"

    # --- commits ---------------------------------------------------------------------------------------

    @abstractmethod
    def commits(self) -> str:
        """Lists commits: all, or the latest."""

    def further(self, found: Mapping[str, Commit], needed: Set[str]) -> str:
        """Lists commits as far back as all that are `needed`; empty if all that there are have been found."""
        return ""

    @abstractmethod
    def read(self, columns: Sequence[str], rows: Iterable[tuple[Any, ...]]) -> dict[str, Commit]:
        """The answer to `commits` or `further`, by snapshot."""

    @abstractmethod
    def expiry(self, found: Mapping[str, Commit], gone: Sequence[str], needed: Set[str], past: Past) -> Expiry:
        """What removes the commits that are `gone`, and keeps those that are `needed`."""

    @abstractmethod
    def roll_back(self, snapshot: str) -> str:
        """Makes what readers see those rows again that an earlier commit had."""

    # --- sizes -----------------------------------------------------------------------------------------

    @abstractmethod
    def sizes(self, versions: Iterable[tuple[int, str]]) -> str:
        """Rows of (version, rows, bytes): what each of these versions shows, of which the snapshot is given."""

    @abstractmethod
    def bytes(self, snapshots: Iterable[str]) -> str:
        """One row: the bytes of all files that these commits have, or the current one."""


def written_last(commits: Mapping[str, Commit]) -> Commit | None:
    """The commit that has written the current rows; None if there is none."""
    last = next((each for each in commits.values() if each.current), None)
    while last is not None and last.rewrites:
        last = commits.get(last.parent)
    return last
