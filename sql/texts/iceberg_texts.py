"""Generates the statements that read the metadata of an Iceberg table, and the queries for added and removed rows.

Tests: `test_added_rows`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from sql.names import TableName, quote
from sql.texts.additions import REMOVED, rows_at, select
from sql.texts.literals import safe_literal
from sql.texts.observation import VERSION_CLAUSE, identifier_of, plain_path

_REF_BELOW = re.compile(r"(?:branch|tag)_(.+)", re.DOTALL)
_SNAPSHOT_BELOW = re.compile(r"snapshot_id_\d+")


def selected(name: TableName) -> tuple[str, bool]:
    """The branch or tag of an Iceberg table that a name reads (empty if it reads none), and whether the name selects
    one immutable snapshot."""
    version = name.aspect.removeprefix(VERSION_CLAUSE) if name.aspect.startswith(VERSION_CLAUSE) else ""
    if version.isascii() and version.isdigit():
        return version, True
    if " WITH (" in version.upper():
        return "", False
    if version or name.aspect:
        return version, False
    if below := _REF_BELOW.fullmatch(name.table):
        return below[1], False
    return "", _SNAPSHOT_BELOW.fullmatch(name.table) is not None


NO_SNAPSHOT = "none"
"""Iceberg's current-snapshot-id of a table without snapshots."""


def snapshot(table: TableName) -> str:
    return f"SHOW TBLPROPERTIES {table.quoted} ('current-snapshot-id')"


def ref(table: TableName, name: str) -> str:
    """The snapshot of a branch or tag; no row if it does not exist."""
    return f"SELECT snapshot_id FROM {metadata_table(table, 'refs')} WHERE name = {safe_literal(name)}"


def metadata_files(table: TableName) -> str:
    """The metadata files in order, the current one last."""
    return f"SELECT file FROM {metadata_table(table, 'metadata_log_entries')}"


def ids(metadata_file: str) -> str:
    """The ids of the table, of its schema and of its partition spec. Raises ValueError if the path cannot be quoted."""
    keys = ("table-uuid", "current-schema-id", "default-spec-id")
    ids = ", ".join(f"get_json_object(value, '$.{key}')" for key in keys)
    return f"SELECT {ids} FROM text.{identifier_of(plain_path(metadata_file))}"


def history(table: TableName) -> str:
    return f"SELECT snapshot_id, parent_id, operation FROM {metadata_table(table, 'snapshots')}"


def files(table: TableName, snapshot: str, partition_columns: int) -> str:
    """For each partition: its values as text, a hash of its data and delete files, their number, and the latest
    partition spec that they were written with.

    Values are selected by position, because partition fields keep their names when columns are renamed.
    """
    values = [f"value{number}" for number in range(partition_columns)]
    texts = ", ".join(f"CAST({value} AS STRING)" for value in values)
    return (
        f"SELECT {texts}, bit_xor(xxhash64(file_path, content, content_offset, size, rows)), count(*), max(spec) "
        "FROM (SELECT spec_id, file_path, content, content_offset, file_size_in_bytes, record_count, partition.* "
        f"FROM {metadata_table(table, 'files')} VERSION AS OF {int(snapshot)}) "
        f"AS file(spec, file_path, content, content_offset, size, rows, {', '.join(values)}) "
        f"GROUP BY {', '.join(values)}"
    )


_FIELD = re.compile(r"(\w+)\((?:(\d+), )?(.+)\)", re.DOTALL)
_UNITS = {"hours": "HOUR", "days": "DAY", "months": "MONTH", "years": "YEAR"}
EPOCH = datetime(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class PartitionField:
    """What a table is partitioned by."""

    column: str
    unit: str = ""
    """HOUR, DAY, MONTH or YEAR: whole such units of UTC."""
    function: str = ""
    """Another transform, such as `bucket(4)`."""

    def text(self, value: str | None, kind: str) -> str | None:
        """The value of a partition as text of the column's SQL type: the begin of its unit. Raises ValueError or
        OverflowError if it is outside the years 1 to 9999."""
        if value is None or not self.unit:
            return value
        if self.unit == "DAY":
            begin = datetime.fromisoformat(value)
        elif self.unit == "HOUR":
            begin = EPOCH + timedelta(hours=int(value))
        else:
            months = int(value) * (12 if self.unit == "YEAR" else 1)
            begin = datetime(1970 + months // 12, months % 12 + 1, 1)
        if kind == "date":
            return str(begin.date())
        return f"{begin}{'' if kind == 'timestamp_ntz' else 'Z'}"


def partition_field(text: str) -> PartitionField:
    """As Spark describes it: `c`, `hours(ts)`, `bucket(4, c)`."""
    found = _FIELD.fullmatch(text)
    if found is None:
        return PartitionField(_unquoted(text))
    name, width, column = found[1].lower(), found[2], _unquoted(found[3])
    if name in _UNITS:
        return PartitionField(column, _UNITS[name])
    return PartitionField(column, function=f"{name}({width or ''})")


def _unquoted(name: str) -> str:
    return name[1:-1].replace("``", "`") if name.startswith("`") and name.endswith("`") else name


def metadata_table(table: TableName, name: str) -> str:
    return f"{table.quoted}.{name}"


def unreplaced(history: Iterable[tuple[str, str | None, str]], snapshot: str) -> str:
    """The snapshot that has the same rows as `snapshot`, skipping snapshots (`replace`) that only rewrote files."""
    known = {str(found): (parent, operation) for found, parent, operation in history}
    seen = {snapshot}
    while snapshot in known and known[snapshot][1] == "replace" and known[snapshot][0] is not None:
        snapshot = str(known[snapshot][0])
        if snapshot in seen:
            break
        seen.add(snapshot)
    return snapshot


# --- changes ---------------------------------------------------------------------------------------------


def appended(table: TableName, columns: Iterable[str], first: str, last: str) -> str:
    """The rows that were appended after the snapshot `first` up to `last`. It ignores deleted rows without a word."""
    return (
        f"{select(columns)} FROM {table.quoted} "
        f"WITH ('start-snapshot-id' = '{int(first)}', 'end-snapshot-id' = '{int(last)}')"
    )


def chain(table: TableName) -> str:
    """The snapshots: id, id of the parent, operation, and the number of delete files that each one has."""
    return (
        "SELECT snapshot_id, parent_id, operation, CAST(summary['total-delete-files'] AS BIGINT) "
        f"FROM {metadata_table(table, 'snapshots')}"
    )


def changelog(table: TableName, columns: Iterable[str], first: str, last: str, kind: str) -> str:
    """The rows of data files that snapshots after `first` up to `last` have added (INSERT) or removed (DELETE), apart
    from those of compactions. Fails if one of these snapshots has delete files."""
    return f"{select(columns)} FROM {_changes(table, first, last)} WHERE {_KIND} = {safe_literal(kind[0])}"


def whole_changelog(table: TableName, columns: Iterable[str], first: str, last: str) -> str:
    """The rows of both kinds, with a column that tells which were removed."""
    return f"{select(columns)}, {_KIND} = 'D' AS {quote(REMOVED)} FROM {_changes(table, first, last)}"


def _changes(table: TableName, first: str, last: str) -> str:
    return (
        f"{metadata_table(table, 'changes')} "
        f"WITH ('start-snapshot-id' = '{int(first)}', 'end-snapshot-id' = '{int(last)}')"
    )


# Iceberg takes a plain comparison with the kind for one with a column of the table, and fails.
_KIND = "substr(_change_type, 1, 1)"


def differing_files(table: TableName, first: str, last: str, rows: int) -> str:
    """At most `rows` rows of the files that only one of two snapshots has: whether it is the later one, the kind of the
    file (0: data, 1: deleted positions, 2: deleted values), its path, its bytes."""
    sides = (
        f"SELECT {number} AS side, content, file_path, coalesce(content_offset, 0) AS place, "
        f"file_size_in_bytes AS size FROM {metadata_table(table, 'files')} VERSION AS OF {int(snapshot)}"
        for number, snapshot in enumerate((first, last))
    )
    return (
        f"SELECT max(side) = 1, content, file_path, max(size) FROM ({' UNION ALL '.join(sides)}) "
        f"GROUP BY content, file_path, place HAVING count(DISTINCT side) = 1 ORDER BY content DESC LIMIT {rows}"
    )


def rows_of_files(table: TableName, columns: Iterable[str], snapshot: str, paths: Iterable[str]) -> str:
    """The rows that a snapshot has of these data files. Spark opens all files of the snapshot."""
    listed = ", ".join(map(safe_literal, paths))
    return f"{rows_at(table, columns, snapshot)} WHERE `_file` IN ({listed})"


def rows_deleted_elsewhere(
    table: TableName, columns: Iterable[str], snapshot: str, other: str, without: Iterable[str]
) -> str:
    """The rows of a snapshot whose positions delete files of another snapshot name; not those of the data files
    `without`, which the other one does not have."""
    named = list(columns)
    listed = ", ".join(map(safe_literal, without))
    others = f" WHERE `_file` NOT IN ({listed})" if listed else ""
    rows = rows_at(table, [*named, "_file", "_pos"], snapshot)
    deleted = f"SELECT file_path, pos FROM {metadata_table(table, 'position_deletes')} VERSION AS OF {int(other)}"
    return (
        f"{select(named)} FROM ({rows}{others}) AS `freshgate_old` "
        f"LEFT SEMI JOIN ({deleted}) AS `freshgate_gone`(`file`, `place`) "
        "ON `freshgate_old`.`_file` = `freshgate_gone`.`file` AND `freshgate_old`.`_pos` = `freshgate_gone`.`place`"
    )


def schema_ids(metadata_file: str, snapshot: str) -> str:
    """The ids of the table's schema and of the snapshot's, with which a query of the snapshot reads it. NULL: it is
    read with the table's. Raises ValueError if the path cannot be quoted."""
    types = "STRUCT<snapshots: ARRAY<STRUCT<`snapshot-id`: BIGINT, `schema-id`: INT>>>"
    return (
        "SELECT CAST(get_json_object(value, '$.current-schema-id') AS INT), "
        f"filter(from_json(value, '{types}').snapshots, s -> s.`snapshot-id` = {int(snapshot)})[0].`schema-id` "
        f"FROM text.{identifier_of(plain_path(metadata_file))}"
    )


def size(table: TableName) -> str:
    return f"SELECT sum(file_size_in_bytes) FROM {metadata_table(table, 'files')}"
