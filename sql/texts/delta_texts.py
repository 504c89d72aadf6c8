"""Generates the statements that read the log of a Delta table, and the queries for rows that were added or removed.

Tests: `test_observation_texts`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence

from sql.names import TableName, quote
from sql.texts.additions import REMOVED, is_simple, rows_at, select
from sql.texts.literals import safe_literal
from sql.texts.observation import Values, identifier_of, plain_path

COMMITS_SHOWN = 8
"""How many of the latest commits of a Delta table a look at it sees."""
COMMITS_MAX = 1000
"""The maximum number of commits that one observation reads."""
HARMLESS_OPERATIONS = frozenset({"SET TBLPROPERTIES", "UNSET TBLPROPERTIES"})
"""Delta's operations whose commits write new metadata with the same columns."""
_ACTIONS = (
    "add STRUCT<partitionValues: MAP<STRING, STRING>, dataChange: BOOLEAN>, "
    "remove STRUCT<partitionValues: MAP<STRING, STRING>, dataChange: BOOLEAN, extendedFileMetadata: BOOLEAN>, "
    "metaData STRUCT<id: STRING>, commitInfo STRUCT<operation: STRING>"
)
_DESCRIPTIONS = (
    "metaData STRUCT<id: STRING>, protocol STRUCT<minReaderVersion: INT>, "
    "commitInfo STRUCT<operation: STRING, operationParameters: STRUCT<version: STRING>>"
)


def detail(table: TableName) -> str:
    return f"DESCRIBE DETAIL {table.quoted}"


def history(table: TableName) -> str:
    """The latest commits, newest first. Few, because Spark opens the file of each."""
    return f"DESCRIBE HISTORY {table.quoted} LIMIT {COMMITS_SHOWN}"


def commits(location: str, first: int, last: int) -> str:
    """Rows of what the commits from `first` to `last` did: kind, detail, last version, all versions (empty for `data`),
    number of commits.

    The kinds are `data`, with a partition's values as pairs of name and text (NULL: unknown); `schema`; `operation`,
    with its name; `other`; and NULL, with the number of all commits found.
    """
    file = (
        "coalesce(action.add, named_struct("
        "'partitionValues', IF(action.remove.extendedFileMetadata, action.remove.partitionValues, NULL), "
        "'dataChange', action.remove.dataChange))"
    )
    changes = "(action.add IS NOT NULL OR action.remove IS NOT NULL) AND coalesce(file.dataChange, true)"
    pairs = "transform(map_entries(file.partitionValues), entry -> array(entry.key, entry.value))"
    return (
        "SELECT kind, detail, max(version), to_json(sort_array(collect_set(IF(kind = 'data', NULL, version)))), "
        "count(DISTINCT version) FROM (SELECT version, "
        f"CASE WHEN {changes} THEN 'data' WHEN action.metaData IS NOT NULL THEN 'schema' "
        "WHEN action.commitInfo IS NOT NULL THEN 'operation' ELSE 'other' END AS kind, "
        f"CASE WHEN {changes} THEN to_json(array_sort({pairs})) ELSE action.commitInfo.operation END AS detail "
        f"FROM (SELECT version, action, {file} AS file FROM ({_delta_lines(location, first, last, _ACTIONS)}))) "
        "GROUP BY GROUPING SETS ((kind, detail), ())"
    )


def descriptions(location: str, first: int, last: int) -> str:
    """One row for each commit from `first` to `last`: whether it set the table's columns or properties, its operation,
    and the version that it went back to, if it is a RESTORE to one (and not to a time)."""
    return (
        "SELECT bool_or(action.metaData IS NOT NULL OR action.protocol IS NOT NULL), max(action.commitInfo.operation), "
        "max(action.commitInfo.operationParameters.version) "
        f"FROM ({_delta_lines(location, first, last, _DESCRIPTIONS)}) GROUP BY version"
    )


def _delta_lines(location: str, first: int, last: int, actions: str) -> str:
    """The lines of these commits, as structures of this type."""
    names = ",".join(f"{version:020}" for version in range(first, last + 1))
    source = f"text.{identifier_of(plain_path(location) + '/_delta_log')} WITH ('pathGlobFilter' = '{{{names}}}.json')"
    return (
        "SELECT CAST(substr(_metadata.file_name, 1, 20) AS BIGINT) AS version, "
        f"from_json(value, '{actions}') AS action FROM {source}"
    )


def values_of(pairs: str | None, columns: Sequence[str]) -> Values | None:
    """A partition's values in a commit; None if they cannot be determined.

    For a removed file, Delta leaves out values that are NULL. Under column mapping the names differ from the columns',
    so the values are known only if there is a single column.
    """
    if pairs is None:
        return None
    found: Mapping[str, str | None] = {name.lower(): value or None for name, value in json.loads(pairs)}
    if len(columns) == 1 and len(found) == 1:
        return tuple(found.values())
    if found.keys() <= {column.lower() for column in columns}:
        return tuple(found.get(column.lower()) for column in columns)
    return None


# --- changes ---------------------------------------------------------------------------------------------

_FILE_ACTIONS = (
    "add STRUCT<path: STRING, size: BIGINT, dataChange: BOOLEAN, partitionValues: MAP<STRING, STRING>, "
    "deletionVector: STRUCT<storageType: STRING>>, "
    "remove STRUCT<path: STRING, dataChange: BOOLEAN, partitionValues: MAP<STRING, STRING>, size: BIGINT, "
    "deletionVector: STRUCT<storageType: STRING>>, "
    "cdc STRUCT<path: STRING>, metaData STRUCT<id: STRING>, protocol STRUCT<minReaderVersion: INT>"
)
_UNIQUE_NAME = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
VALUES_MAX = 200
"""How many values of a partition column a filter names."""


def actions(location: str, first: int, last: int, rows: int) -> str:
    """What the commits from `first` to `last` did: one row for each file whose rows were added or removed, or that no
    longer belongs to the table; and one for all commits. At most `rows`, first those with changed rows.

    The columns: whether the row is that for all commits; their number; whether they set columns or properties; the
    file's path (percent-encoded); the versions that added it with new rows, removed its rows, removed it, and have it
    in the change data feed; its bytes; whether it has been added or removed with some of its rows deleted; its
    partition's values as JSON; whether as many commits added its rows as removed them; the first versions that added it
    with new rows, removed its rows, and added it. A commit that only moves rows, such as OPTIMIZE, says so
    (`dataChange`).
    """
    names = ",".join(f"{version:020}" for version in range(first, last + 1))
    source = f"text.{identifier_of(plain_path(location) + '/_delta_log')} WITH ('pathGlobFilter' = '{{{names}}}.json')"
    return (
        "SELECT grouping(path) = 1, count(DISTINCT version), "
        "coalesce(bool_or(action.metaData IS NOT NULL OR action.protocol IS NOT NULL), false), path, "
        "max(added) AS came, max(removed) AS went, max(IF(action.remove IS NOT NULL, version, NULL)), "
        "max(IF(action.cdc IS NOT NULL, version, NULL)) AS feeds, max(coalesce(action.add.size, action.remove.size)), "
        "bool_or(action.add.deletionVector IS NOT NULL OR action.remove.deletionVector IS NOT NULL), "
        "max(to_json(coalesce(action.add.partitionValues, action.remove.partitionValues))), "
        "count(added) = count(removed), min(added), min(removed), min(IF(action.add IS NOT NULL, version, NULL)) "
        "FROM (SELECT *, coalesce(action.add.path, action.remove.path, action.cdc.path) AS path, "
        "IF(coalesce(action.add.dataChange, action.add IS NOT NULL), version, NULL) AS added, "
        "IF(coalesce(action.remove.dataChange, action.remove IS NOT NULL), version, NULL) AS removed "
        "FROM (SELECT CAST(substr(_metadata.file_name, 1, 20) AS BIGINT) AS version, "
        f"from_json(value, '{_FILE_ACTIONS}') AS action FROM {source})) GROUP BY GROUPING SETS ((path), ()) "
        "HAVING grouping(path) = 1 OR path IS NOT NULL AND "
        "(came IS NOT NULL OR bool_or(action.remove IS NOT NULL OR action.cdc IS NOT NULL)) "
        f"ORDER BY 1 DESC, coalesce(came, went, feeds) IS NULL LIMIT {rows}"
    )


def present(location: str, paths: Iterable[str], table: TableName | None, version: str) -> str:
    """Fails if one of these files, or this version of the table, is gone."""
    root = plain_path(location)
    files = (f"SELECT 1 FROM binaryFile.{identifier_of(path if ':/' in path else f'{root}/{path}')}" for path in paths)
    at = [f"SELECT 1 FROM {table.quoted} VERSION AS OF {int(version)} WHERE false"] if table is not None else []
    return f"SELECT count(*) FROM ({' UNION ALL '.join([*at, *files])})"


def table_property(table: TableName, name: str) -> str:
    return f"SHOW TBLPROPERTIES {table.quoted} ({safe_literal(name)})"


def files(location: str, columns: Iterable[str], names: Sequence[str]) -> str:
    """The rows of Parquet files of a Delta table that has neither partitions nor mapped columns. Other files of the
    directory are not opened. The schema is that of all the files."""
    options = f"'pathGlobFilter' = {safe_literal('{' + ','.join(names) + '}')}, 'mergeSchema' = 'true'"
    return f"{select(columns)} FROM parquet.{identifier_of(plain_path(location))} WITH ({options})"


def single_files(location: str, columns: Iterable[str], names: Sequence[str]) -> str:
    """As `files`, for few. Fails if one of them is gone, as those may be that the table no longer has."""
    root, items = plain_path(location), select(columns)
    return " UNION ALL ".join(f"{items} FROM parquet.{identifier_of(f'{root}/{name}')}" for name in names)


def is_unique(name: str) -> bool:
    """Whether no other file of the table has this name, even in another directory."""
    return _UNIQUE_NAME.search(name) is not None


def files_at(
    table: TableName, columns: Iterable[str], names: Sequence[str], version: int, partitions: Sequence[str] = ()
) -> str:
    """The rows of files with these names through the table, which reads all files of the partitions that the filters
    `partitions` select."""
    listed = ", ".join(map(safe_literal, names))
    filters = "".join(f" AND {each}" for each in partitions)
    return f"{rows_at(table, columns, str(version))} WHERE _metadata.file_name IN ({listed}){filters}"


def partition_filters(columns: Mapping[str, str], values: Sequence[Mapping[str, str | None] | None]) -> list[str]:
    """Conditions on partition columns that are true for these partitions; none for a column whose values cannot be
    compared safely. `columns`: the type of each partition column, as JSON."""
    found = []
    for column, kind in columns.items():
        if not is_simple(kind) or len(values) == 0:
            continue
        if any(each is None or column not in each for each in values):
            continue
        # Delta stores an empty text as NULL.
        texts = {each[column] or None for each in values if each is not None}
        if len(texts) > VALUES_MAX:
            continue
        listed = ", ".join(safe_literal(text) for text in sorted(filter(None, texts)))
        either = [f"CAST({quote(column)} AS STRING) IN ({listed})"] if listed else []
        found.append(f"({' OR '.join([*either, *([f'{quote(column)} IS NULL'] if None in texts else [])])})")
    return found


def feed(table: TableName, columns: Iterable[str], first: int, last: int, kinds: Iterable[str]) -> str:
    """The rows of the change data feed of the commits from `first` to `last`, with these kinds of changes."""
    listed = ", ".join(map(safe_literal, kinds))
    return (
        f"{select(columns)} FROM table_changes({safe_literal(table.quoted)}, {first}, {last}) "
        f"WHERE _change_type IN ({listed})"
    )


def whole_feed(table: TableName, columns: Iterable[str], first: int, last: int, removes: Iterable[str]) -> str:
    """All rows of the change data feed of these commits, with a column that tells which have one of the kinds
    `removes`."""
    removed = f"_change_type IN ({', '.join(map(safe_literal, removes))})"
    return (
        f"{select(columns)}, {removed} AS {quote(REMOVED)} "
        f"FROM table_changes({safe_literal(table.quoted)}, {first}, {last})"
    )
