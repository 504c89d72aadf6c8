"""Generates the statements that find the rows which were added to a table, and the queries that read them.

Tests: `test_added_rows`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence

from sql.names import TableName, quote
from sql.texts.observation import identifier_of, metadata_table, plain_path
from sql.texts.rewrite import safe_literal


def list_young_files(location: str, bound: int, rows: int, *, few: bool = False) -> str:
    """At most `rows` rows of (directory, path, XOR of hashes, number, bytes, latest time) of the files below a
    location: one for each file that was modified after `bound` (milliseconds since the epoch), and one with the path
    NULL for all others of a directory. Opens no file. `few`: as for `observation.list_files`."""
    together = "/*+ COALESCE(1) */ " if few else ""
    return (
        "SELECT directory, file, bit_xor(hash), count(*), sum(length), max(modified) FROM ("
        f"SELECT {together}left(path, length(path) - length(substring_index(path, '/', -1)) - 1) AS directory, "
        f"CASE WHEN unix_millis(modificationTime) > {bound} THEN _metadata.file_path END AS file, "
        "xxhash64(path, modificationTime, length) AS hash, length, unix_millis(modificationTime) AS modified "
        f"FROM binaryFile.{identifier_of(location)} WITH ('recursiveFileLookup' = 'true')) GROUP BY directory, file "
        f"LIMIT {rows}"
    )


def all_rows(table: TableName, columns: Iterable[str]) -> str:
    return f"{_select(columns)} FROM {table.quoted}"


def rows_of_files(table: TableName, columns: Iterable[str], paths: Iterable[str]) -> str:
    """The rows of these files of a table. Spark opens no other file."""
    listed = ", ".join(map(safe_literal, paths))
    return f"{all_rows(table, columns)} WHERE _metadata.file_path IN ({listed})"


def rows_until(table: TableName, columns: Iterable[str], until: int, without: Iterable[str] = ()) -> str:
    """The rows of the files that were modified until then (milliseconds since the epoch), except for these files. Spark
    opens no other file."""
    listed = ", ".join(map(safe_literal, without))
    others = f" AND _metadata.file_path NOT IN ({listed})" if listed else ""
    return (
        f"{all_rows(table, columns)} WHERE _metadata.file_modification_time <= timestamp_millis({int(until)}){others}"
    )


def rows_at(table: TableName, columns: Iterable[str], version: str) -> str:
    """The rows of a Delta or Iceberg table at a version."""
    return f"{all_rows(table, columns)} VERSION AS OF {int(version)}"


# --- Hive ------------------------------------------------------------------------------------------------

_SPECIAL = re.compile(r"[\\*?\[\]{},\n\r]")
"""Characters that mean something in a path with wildcards."""


def converted_files(
    kind: str, pattern: str, columns: Mapping[str, str | None], files: Mapping[str, Sequence[str | None]]
) -> str:
    """The rows of files of a Hive table, read as Parquet or ORC. The schema is that of the files. `columns`: the type,
    as SQL, of each partition column; None for the others. `files`: the values of the partition columns, in their order,
    by the path as `_metadata.file_path` has it. They are below `pattern`, and all have a name that `is_plain`."""
    source = _source(kind, pattern, files)
    by = {name: type_ for name, type_ in columns.items() if type_ is not None}
    if not by:
        return f"{_select(columns)} FROM {source} WHERE _metadata.file_path IN ({', '.join(map(safe_literal, files))})"
    data = ", ".join(["_metadata.file_path AS freshgate_file", *(quote(name) for name in columns if name not in by)])
    rows = ", ".join(f"({', '.join(_file(path, values, by.values()))})" for path, values in files.items())
    return (
        f"{_select(columns)} FROM (SELECT {data} FROM {source}) JOIN (VALUES {rows}) "
        f"AS freshgate_files(freshgate_file, {', '.join(map(quote, by))}) USING (freshgate_file)"
    )


def columns_of_files(kind: str, pattern: str, files: Iterable[str]) -> str:
    """All columns of these files, which are as for `converted_files`."""
    return f"SELECT * FROM {_source(kind, pattern, files)}"


def _source(kind: str, pattern: str, files: Iterable[str]) -> str:
    names = sorted({path.rpartition("/")[2] for path in files})
    listed = safe_literal("{" + ",".join(names) + "}")
    options = f"'pathGlobFilter' = {listed}, 'recursiveFileLookup' = 'true', 'mergeSchema' = 'true'"
    return f"{kind}.{identifier_of(pattern, pattern=True)} WITH ({options})"


def _file(path: str, values: Sequence[str | None], types: Iterable[str]) -> list[str]:
    return [safe_literal(path), *map(_cast, values, types)]


def _cast(value: str | None, type_: str) -> str:
    return f"CAST({'NULL' if value is None else safe_literal(value)} AS {type_})"


def pattern_of(root: str, directories: Iterable[str]) -> str:
    """A path with wildcards for these directories below a root, which are plain paths."""
    inner = {directory[len(root) + 1 :] for directory in directories}
    if "" in inner:
        return _literally(root)
    return f"{_literally(root)}/{{{','.join(map(_literally, sorted(inner)))}}}"


def _literally(path: str) -> str:
    return _SPECIAL.sub(r"\\\g<0>", path)


# --- Delta -----------------------------------------------------------------------------------------------

_ACTIONS = (
    "add STRUCT<path: STRING, size: BIGINT, dataChange: BOOLEAN, partitionValues: MAP<STRING, STRING>, "
    "deletionVector: STRUCT<storageType: STRING>>, "
    "remove STRUCT<path: STRING, dataChange: BOOLEAN, deletionVector: STRUCT<storageType: STRING>>, "
    "cdc STRUCT<path: STRING>, metaData STRUCT<id: STRING>, protocol STRUCT<minReaderVersion: INT>"
)
_SIMPLE_TYPES = frozenset(
    {"string", "date", "tinyint", "byte", "smallint", "short", "int", "integer", "bigint", "long"}
)
"""Types whose values Delta's log has as the text that Spark casts them to, whatever the session's time zone."""
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.=-]+")
"""A name without characters that mean something in a glob pattern."""
_UNIQUE_NAME = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
VALUES_MAX = 200
"""How many values of a partition column a filter names."""


def delta_actions(location: str, first: int, last: int, rows: int) -> str:
    """What the commits from `first` to `last` did: one row for each file whose rows were added or removed, or that no
    longer belongs to the table; and one for all commits. At most `rows`, first those with changed rows.

    The columns: whether the row is that for all commits; their number; whether they set columns or properties; the
    file's path (percent-encoded); the versions that added it with new rows, removed its rows, removed it, and have it
    in the change data feed; its bytes; whether it has been added or removed with some of its rows deleted; its
    partition's values as JSON; whether as many commits added its rows as removed them. A commit that only moves rows,
    such as OPTIMIZE, says so (`dataChange`).
    """
    names = ",".join(f"{version:020}" for version in range(first, last + 1))
    source = f"text.{identifier_of(plain_path(location) + '/_delta_log')} WITH ('pathGlobFilter' = '{{{names}}}.json')"
    return (
        "SELECT grouping(path) = 1, count(DISTINCT version), "
        "coalesce(bool_or(action.metaData IS NOT NULL OR action.protocol IS NOT NULL), false), path, "
        "max(added) AS came, max(removed) AS went, max(IF(action.remove IS NOT NULL, version, NULL)), "
        "max(IF(action.cdc IS NOT NULL, version, NULL)) AS feeds, max(action.add.size), "
        "bool_or(action.add.deletionVector IS NOT NULL OR action.remove.deletionVector IS NOT NULL), "
        "max(to_json(action.add.partitionValues)), count(added) = count(removed) "
        "FROM (SELECT *, coalesce(action.add.path, action.remove.path, action.cdc.path) AS path, "
        "IF(coalesce(action.add.dataChange, action.add IS NOT NULL), version, NULL) AS added, "
        "IF(coalesce(action.remove.dataChange, action.remove IS NOT NULL), version, NULL) AS removed "
        "FROM (SELECT CAST(substr(_metadata.file_name, 1, 20) AS BIGINT) AS version, "
        f"from_json(value, '{_ACTIONS}') AS action FROM {source})) GROUP BY GROUPING SETS ((path), ()) "
        "HAVING grouping(path) = 1 OR path IS NOT NULL AND "
        "(came IS NOT NULL OR bool_or(action.remove IS NOT NULL OR action.cdc IS NOT NULL)) "
        f"ORDER BY 1 DESC, coalesce(came, went, feeds) IS NULL LIMIT {rows}"
    )


def delta_present(location: str, paths: Iterable[str], table: TableName | None, version: str) -> str:
    """Fails if one of these files, or this version of the table, is gone."""
    root = plain_path(location)
    files = (f"SELECT 1 FROM binaryFile.{identifier_of(path if ':/' in path else f'{root}/{path}')}" for path in paths)
    at = [f"SELECT 1 FROM {table.quoted} VERSION AS OF {int(version)} WHERE false"] if table is not None else []
    return f"SELECT count(*) FROM ({' UNION ALL '.join([*at, *files])})"


def table_property(table: TableName, name: str) -> str:
    return f"SHOW TBLPROPERTIES {table.quoted} ({safe_literal(name)})"


def delta_files(location: str, columns: Iterable[str], names: Sequence[str]) -> str:
    """The rows of Parquet files of a Delta table that has neither partitions nor mapped columns. Other files of the
    directory are not opened. The schema is that of all the files."""
    options = f"'pathGlobFilter' = {safe_literal('{' + ','.join(names) + '}')}, 'mergeSchema' = 'true'"
    return f"{_select(columns)} FROM parquet.{identifier_of(plain_path(location))} WITH ({options})"


def is_plain(path: str) -> bool:
    """Whether `delta_files` finds a file by this path relative to the table's location."""
    return _PLAIN_NAME.fullmatch(path) is not None


def is_simple(type_json: str) -> bool:
    """Whether the text of a value means the same in every session. `type_json`: the type in Spark's JSON."""
    return json.loads(type_json).get("name") in _SIMPLE_TYPES


def is_unique(name: str) -> bool:
    """Whether no other file of the table has this name, even in another directory."""
    return _UNIQUE_NAME.search(name) is not None


def delta_files_at(
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


def delta_feed(table: TableName, columns: Iterable[str], first: int, last: int, kinds: Iterable[str]) -> str:
    """The rows of the change data feed of the commits from `first` to `last`, with these kinds of changes."""
    listed = ", ".join(map(safe_literal, kinds))
    return (
        f"{_select(columns)} FROM table_changes({safe_literal(table.quoted)}, {first}, {last}) "
        f"WHERE _change_type IN ({listed})"
    )


# --- Iceberg ---------------------------------------------------------------------------------------------


def iceberg_appended(table: TableName, columns: Iterable[str], first: str, last: str) -> str:
    """The rows that were appended after the snapshot `first` up to `last`. It ignores deleted rows without a word."""
    return (
        f"{_select(columns)} FROM {table.quoted} "
        f"WITH ('start-snapshot-id' = '{int(first)}', 'end-snapshot-id' = '{int(last)}')"
    )


def iceberg_schema_ids(metadata_file: str, snapshot: str) -> str:
    """The ids of the table's schema and of the snapshot's, with which a query of the snapshot reads it. NULL: it is
    read with the table's. Raises ValueError if the path cannot be quoted."""
    types = "STRUCT<snapshots: ARRAY<STRUCT<`snapshot-id`: BIGINT, `schema-id`: INT>>>"
    return (
        "SELECT CAST(get_json_object(value, '$.current-schema-id') AS INT), "
        f"filter(from_json(value, '{types}').snapshots, s -> s.`snapshot-id` = {int(snapshot)})[0].`schema-id` "
        f"FROM text.{identifier_of(plain_path(metadata_file))}"
    )


def iceberg_bytes(table: TableName) -> str:
    return f"SELECT sum(file_size_in_bytes) FROM {metadata_table(table, 'files')}"


def _select(columns: Iterable[str]) -> str:
    return f"SELECT {', '.join(map(quote, columns))}"
