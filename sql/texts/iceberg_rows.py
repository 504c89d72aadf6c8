"""Rows of a view in an Iceberg table.

Tests: `test_open_rows`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from sql.names import TableName, quote
from sql.texts.literals import safe_literal, string_token
from sql.texts.open_rows import ROWS_SUFFIX, STATIC, TAG, Before, Commit, Expiry, OpenRows, Past

STATE, STORAGE_TABLE = "refresh-state", "storage-table"
"""What the draft calls the property of snapshots with the states of base tables, and that of the view."""
PROPERTY = "spark.sql.iceberg.snapshot-property."
"""Settings that begin with this are noted in the snapshots that the session makes."""
CENTURY_MS = 100 * 365 * 86_400_000
# Only the gateway may expire a snapshot: the one that readers see need not be the last. The file format is named
# because a catalog may have another default.
_PROPERTIES: Mapping[str, str] = {
    "format-version": "2",
    "write.format.default": "parquet",
    "history.expire.max-snapshot-age-ms": str(CENTURY_MS),
    "write.metadata.delete-after-commit.enabled": "true",
}


@dataclass(frozen=True, slots=True)
class IcebergRows(OpenRows):
    """`described`: it has what the draft of Iceberg's specification of materialized views asks for."""

    format: ClassVar[str] = "iceberg"

    def _properties(self, columns: Sequence[str]) -> Mapping[str, str]:
        return _PROPERTIES

    def drop(self) -> str:
        # Some catalogs keep the files otherwise.
        return f"DROP TABLE IF EXISTS {self.table.quoted} PURGE"

    @classmethod
    def asked(cls, catalog: str) -> str:
        return f"spark.sql.catalog.{catalog}.cache-enabled"

    @classmethod
    def unfit(cls, catalog: str, value: str) -> str:
        if value.lower() == "false":
            return ""
        return (
            f"sessions of Spark keep tables of the catalog {catalog} for a while, and would not find the rows of a new "
            f"version. Set {cls.asked(catalog)} = false in Spark's configuration."
        )

    # --- the draft's view ------------------------------------------------------------------------------

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

    # --- commits ---------------------------------------------------------------------------------------

    def settings(self, version: int, before: Before, state: str = "") -> dict[str, str]:
        """`state`: as `refresh_state`. Iceberg itself counts the files."""
        return {**STATIC, PROPERTY + TAG: str(version), **({PROPERTY + STATE: state} if state else {})}

    def _below(self, name: str) -> str:
        return f"{self.table.quoted}.{quote(name)}"

    def commits(self) -> str:
        number = ", ".join(
            f"CAST(summary[{safe_literal(key)}] AS BIGINT)"
            for key in (TAG, "added-records", "total-data-files", "total-files-size")
        )
        return (
            f"SELECT snapshot_id, parent_id, operation, {number}, "
            f"snapshot_id = (SELECT max(snapshot_id) FROM {self._below('refs')} WHERE name = 'main') "
            f"FROM {self._below('snapshots')}"
        )

    def read(self, columns: Sequence[str], rows: Iterable[tuple[Any, ...]]) -> dict[str, Commit]:
        found = {}
        for snapshot, parent, operation, version, *counts, current in rows:
            rewrites = operation == "replace"
            added, files, size = (int(each or 0) for each in counts)
            found[str(snapshot)] = Commit(
                str(snapshot),
                "" if parent is None else str(parent),
                rewrites,
                None if version is None or rewrites else int(version),
                added,
                files,
                size,
                bool(current),
                str(snapshot),
            )
        return found

    def expiry(self, found: Mapping[str, Commit], gone: Sequence[str], needed: Set[str], past: Past) -> Expiry:
        listed = ", ".join(f"{int(each)}L" for each in gone)
        return Expiry(f"{self._call('expire_snapshots')}, snapshot_ids => array({listed}))" if gone else "")

    def roll_back(self, snapshot: str) -> str:
        return f"{self._call('rollback_to_snapshot')}, snapshot_id => {int(snapshot)}L)"

    def _call(self, procedure: str) -> str:
        named = f"{quote(self.table.database)}.{quote(self.table.table)}"
        return f"CALL {quote(self.table.catalog)}.system.{procedure}(table => {safe_literal(named)}"

    # --- sizes -----------------------------------------------------------------------------------------

    def sizes(self, versions: Iterable[tuple[int, str]]) -> str:
        return " UNION ALL ".join(
            f"SELECT CAST({number} AS BIGINT) AS version, {_TOTALS} FROM {self._below('snapshots')} "
            f"WHERE {f'snapshot_id = {int(snapshot)}' if snapshot else 'false'}"
            for number, snapshot in versions
        )

    def bytes(self, snapshots: Iterable[str]) -> str:
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
