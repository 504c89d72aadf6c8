"""Rows of a view in a table of Iceberg or Delta that other engines read: each version is one commit of it.

The storage table in spark_catalog has the view's properties and no rows then.
Tests: `test_open_rows`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from sql.names import TableName, quote
from sql.texts.literals import safe_literal, string_token

ICEBERG = "iceberg"
FORMATS = (ICEBERG,)
ROWS_SUFFIX = "__rows"
"""What follows a view's id in the name of its table of rows."""
TAG = "freshgate-version"
"""What a commit says of itself: the version of the view whose rows it has written."""
STATE, STORAGE_TABLE = "refresh-state", "storage-table"
"""What the draft calls the property of snapshots with the states of base tables, and that of the view."""
PROPERTY = "spark.sql.iceberg.snapshot-property."
"""Settings that begin with this are noted in the snapshots that the session makes."""
CENTURY_MS = 100 * 365 * 86_400_000
_PROPERTIES: Mapping[str, Mapping[str, str]] = {
    # Only the gateway may expire a snapshot: the one that readers see need not be the last. The file format is named
    # because a catalog may have another default.
    ICEBERG: {
        "format-version": "2",
        "write.format.default": "parquet",
        "history.expire.max-snapshot-age-ms": str(CENTURY_MS),
        "write.metadata.delete-after-commit.enabled": "true",
    }
}
STATIC: Mapping[str, str] = {"spark.sql.sources.partitionOverwriteMode": "static"}
"""In dynamic mode, an overwrite without rows replaces nothing."""


@dataclass(frozen=True, slots=True)
class OpenRows:
    """The table that holds a view's rows."""

    format: str
    table: TableName
    described: bool = False
    """Whether it has what the draft of Iceberg's specification of materialized views asks for: a view beside the table,
    and the states of the base tables in the summaries of snapshots."""

    def at(self, snapshot: str) -> str:
        """The rows as a commit left them, for FROM. Without a snapshot, a view that has never been built: no rows."""
        return f"{self.table.quoted} VERSION AS OF {int(snapshot)}" if snapshot else self.table.quoted

    def create(self, definition: TableName, comment: str | None) -> str:
        """Creates the table, without rows."""
        listed = ", ".join(f"{string_token(key)} = {string_token(value)}" for key, value in self._properties)
        said = "" if comment is None else f" COMMENT {string_token(comment)}"
        return (
            f"CREATE TABLE IF NOT EXISTS {self.table.quoted} USING {self.format}{said} TBLPROPERTIES ({listed}) "
            f"AS SELECT * FROM {definition.quoted} LIMIT 0"
        )

    @property
    def _properties(self) -> Iterable[tuple[str, str]]:
        return _PROPERTIES[self.format].items()

    def create_database(self) -> str:
        return f"CREATE DATABASE IF NOT EXISTS {quote(self.table.catalog)}.{quote(self.table.database)}"

    @property
    def view(self) -> TableName:
        """Where the definition is, as a view of the catalog."""
        return replace(self.table, table=self.table.table.removesuffix(ROWS_SUFFIX))

    def create_view(self, query: str, columns: Iterable[str]) -> str:
        """Creates the view, for a session in which the query means what it does for the materialized view."""
        named = string_token(f"{self.table.database}.{self.table.table}")
        return (
            f"CREATE OR REPLACE VIEW {self.view.quoted} ({', '.join(map(quote, columns))}) "
            f"TBLPROPERTIES ('{STORAGE_TABLE}' = {named}) AS {query}"
        )

    def drop_view(self) -> str:
        return f"DROP VIEW IF EXISTS {self.view.quoted}"

    def drop(self) -> str:
        """Drops the table with its files, which some catalogs keep otherwise."""
        return f"DROP TABLE IF EXISTS {self.table.quoted} PURGE"

    def settings(self, version: int, state: str = "") -> dict[str, str]:
        """The settings of a session that writes a version. `state`: as `refresh_state`; empty if it is not known."""
        return {**STATIC, PROPERTY + TAG: str(version), **({PROPERTY + STATE: state} if state else {})}

    def insert(self, columns: Iterable[str], relation: str, order: str, *, appends: bool) -> str:
        """Writes rows of a relation: instead of all that are there, or in addition to them."""
        listed = ", ".join(map(quote, columns))
        verb = "INSERT INTO" if appends else "INSERT OVERWRITE"
        return f"{verb} {self.table.quoted} ({listed}) SELECT {listed} FROM {relation}{order}"

    # --- commits ---------------------------------------------------------------------------------------

    def _below(self, name: str) -> str:
        return f"{self.table.quoted}.{quote(name)}"

    def commits(self) -> str:
        """Rows as `read_commits` reads them, in any order."""
        number = ", ".join(
            f"CAST(summary[{safe_literal(key)}] AS BIGINT)"
            for key in (TAG, "added-records", "total-records", "total-data-files", "total-files-size")
        )
        return (
            f"SELECT snapshot_id, parent_id, operation, {number}, "
            f"snapshot_id = (SELECT max(snapshot_id) FROM {self._below('refs')} WHERE name = 'main') "
            f"FROM {self._below('snapshots')}"
        )

    def expire(self, snapshots: Iterable[str]) -> str:
        """Removes at least one commit, with the files that only it has."""
        listed = ", ".join(f"{int(each)}L" for each in snapshots)
        return f"{self._call('expire_snapshots')}, snapshot_ids => array({listed}))"

    def roll_back(self, snapshot: str) -> str:
        """Makes an earlier commit the current one again."""
        return f"{self._call('rollback_to_snapshot')}, snapshot_id => {int(snapshot)}L)"

    def _call(self, procedure: str) -> str:
        named = f"{quote(self.table.database)}.{quote(self.table.table)}"
        return f"CALL {quote(self.table.catalog)}.system.{procedure}(table => {safe_literal(named)}"

    # --- sizes -----------------------------------------------------------------------------------------

    def measure(self, storage: TableName) -> str:
        """Rows of (storage, version, rows, bytes) of each version that is kept."""
        return (
            f"SELECT {safe_literal(storage.table)} AS storage, CAST(summary['{TAG}'] AS BIGINT) AS version, "
            f"{_TOTALS} FROM {self._below('snapshots')} WHERE summary['{TAG}'] IS NOT NULL"
        )

    def measure_one(self, number: int, snapshot: str) -> str:
        """A row of (version, rows, bytes)."""
        found = f"WHERE snapshot_id = {int(snapshot)}" if snapshot else "WHERE false"
        return f"SELECT {number} AS version, {_TOTALS} FROM {self._below('snapshots')} {found}"

    def bytes(self) -> str:
        """One row: the bytes of all files that a kept commit has."""
        return (
            "SELECT sum(bytes) FROM (SELECT file_path, max(file_size_in_bytes) AS bytes "
            f"FROM {self._below('all_data_files')} GROUP BY 1)"
        )


_TOTALS = (
    "CAST(summary['total-records'] AS BIGINT) AS n, CAST(coalesce(summary['total-files-size'], '0') AS BIGINT) AS bytes"
)


@dataclass(frozen=True, slots=True)
class SourceState:
    """The state of an Iceberg table that a refresh reads, or an earlier one."""

    table: TableName
    uuid: str
    snapshot: int


def refresh_state(sources: Iterable[SourceState], started_ms: int) -> str:
    """The record of the draft, as JSON. The view has one version while its rows have this table."""
    states = [
        {
            "type": "table",
            "catalog": each.table.catalog,
            "namespace": each.table.database.split("."),
            "name": each.table.table,
            "uuid": each.uuid,
            "snapshot-id": each.snapshot,
        }
        for each in sources
    ]
    record = {"view-version-id": 1, "source-states": states, "refresh-start-timestamp-ms": started_ms}
    return json.dumps(record, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit of a table of rows."""

    snapshot: str
    parent: str
    """Empty: it is the first one."""
    rewrites: bool
    """It has other files with the rows of its parent, as a compaction leaves."""
    version: int | None
    """The version whose rows it has written; None if another writer has made it."""
    added: int
    rows: int
    files: int
    bytes: int
    current: bool
    """What readers that name no commit see."""


def read_commits(rows: Iterable[tuple[object, ...]]) -> dict[str, Commit]:
    """The answer to `OpenRows.commits`, by snapshot."""
    found = {}
    for snapshot, parent, operation, version, *counts, current in rows:
        rewrites = operation == "replace"
        added, total, files, size = (int(str(each or 0)) for each in counts)
        found[str(snapshot)] = Commit(
            str(snapshot),
            "" if parent is None else str(parent),
            rewrites,
            None if version is None or rewrites else int(str(version)),
            added,
            total,
            files,
            size,
            bool(current),
        )
    return found


def written_last(commits: Mapping[str, Commit]) -> Commit | None:
    """The commit that has written the current rows; None if there is none."""
    last = next((each for each in commits.values() if each.current), None)
    while last is not None and last.rewrites:
        last = commits.get(last.parent)
    return last
