"""Generates the statements that observe base tables without reading their rows, and parses Spark's answers.

Files are listed with Spark's source `binaryFile`, which has a row per file. It opens no file unless the content is
selected.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence

from sql.names import TableName, quote
from sql.texts.maintenance import DEFAULT_PARTITION
from sql.texts.rewrite import partition_value, safe_literal

Values = tuple[str | None, ...]
"""The values of a partition in the order of the partition columns; None is NULL."""

LISTING_TASKS = "spark.sql.sources.parallelPartitionDiscovery.parallelism"
LISTING_TASKS_MIN, LISTING_TASKS_MAX = 16, 64
"""Fewer tasks would be slow for a table with many more directories than partitions."""
DIRECTORIES_A_TASK = 16
"""A task costs Spark about 5 ms; a directory costs less than 1 ms on a local disk, 50 ms in an object store."""
LISTED_AT_ONCE = 32
"""Spark's driver lists up to this many directories itself; for more it runs a job
(`parallelPartitionDiscovery.threshold`)."""
LISTING_SETTINGS = {
    # The number of tasks determines the cost of a listing. By default Spark has one per directory and one per 32 files.
    LISTING_TASKS: str(LISTING_TASKS_MAX),
    "spark.sql.files.openCostInBytes": "1",
    "spark.sql.files.maxPartitionBytes": str(2**62),
    # EXPLAIN must print the path of every partition.
    "spark.sql.maxMetadataStringLength": str(2**31 - 100),
}
"""The settings of a session that lists files."""

_GLOB = re.compile(r"[{}\[\]*?\\]")
_ESCAPED = re.compile(r"%([0-9A-Fa-f]{2})")
_PATHS = re.compile(r"Location: \w+\((\d+) paths?\)\[")
_BEHIND_PATHS = "], PartitionFilters: "
_NEXT_PATH = re.compile(r", (?=[A-Za-z][A-Za-z0-9+.-]*:/)")
_NO_AUTHORITY = re.compile(r"(?<![A-Za-z0-9+.-])([A-Za-z][A-Za-z0-9+.-]*):///+")


def set_setting(key: str, value: str) -> str:
    return f"SET {key}={value}"


def listing_tasks(directories: int) -> int:
    """The value of LISTING_TASKS for this many directories: a power of two, so that it rarely changes."""
    wanted = max(1, directories // DIRECTORIES_A_TASK)
    return max(LISTING_TASKS_MIN, min(LISTING_TASKS_MAX, 1 << (wanted - 1).bit_length()))


def identifier_of(path: str, *, pattern: bool = False) -> str:
    """A path as the identifier in a query on files. Raises ValueError if Spark would read another path."""
    if "${" in path:
        raise ValueError(f"the path {path} contains ${{, which Spark would substitute as a variable")
    return quote(path if pattern else _GLOB.sub(r"\\\g<0>", path))


def plain_path(path: str) -> str:
    """A path in the form in which Spark prints the paths of files: `file:/a`, not `file:///a/`."""
    return _NO_AUTHORITY.sub(r"\1:/", path).rstrip("/")


def is_within(path: str, directory: str) -> bool:
    """Whether a plain path is the directory or below it."""
    return path == directory or path.startswith(directory + "/")


# --- files ---------------------------------------------------------------------------------------------


def list_files(locations: Sequence[str], *, few: bool = False, patterns: bool = False) -> str:
    """For each directory with files below the locations: a hash of its files, their number and their bytes.

    `patterns`: the locations are glob patterns, as in a query on files. `few`: a single task reads the status of all
    files, because for few files a shuffle would take longer. The hash includes the modification time, because a
    rewritten file may have the same name and size. It uses XOR because a sum may overflow.
    """
    files = " UNION ALL ".join(
        f"SELECT path, modificationTime, length FROM binaryFile.{identifier_of(location, pattern=patterns)} "
        "WITH ('recursiveFileLookup' = 'true')"
        for location in locations
    )
    return (
        "SELECT left(path, length(path) - length(substring_index(path, '/', -1)) - 1) AS directory, "
        "bit_xor(xxhash64(path, modificationTime, length)), count(*), sum(length) "
        f"FROM {f'(SELECT /*+ COALESCE(1) */ * FROM ({files}))' if few else f'({files})'} GROUP BY 1"
    )


def list_partitions(table: TableName) -> str:
    return f"SHOW PARTITIONS {table.quoted}"


def explain_partitions(table: TableName, columns: Sequence[str]) -> str:
    """Prints the path of every partition. The filter matches all partitions, but Spark cannot simplify it away."""
    return f"EXPLAIN SELECT 1 FROM {table.quoted} WHERE coalesce(length(CAST({quote(columns[0])} AS STRING)), 0) > -1"


def describe_partition(table: TableName, columns: Sequence[str], values: Values) -> str:
    pairs = (
        f"{quote(column)} = {'NULL' if value is None else partition_value(value)}"
        for column, value in zip(columns, values, strict=True)
    )
    return f"DESCRIBE TABLE EXTENDED {table.quoted} PARTITION ({', '.join(pairs)}) AS JSON"


def described_location(described: str) -> str:
    location = json.loads(described).get("location", "")
    return plain_path(str(location))


def explained_paths(plan: str) -> list[str] | None:
    """The paths in the output of `explain_partitions`; None if it has none, or if they cannot be told apart."""
    found = _PATHS.search(plan)
    end = plan.rfind(_BEHIND_PATHS)
    if found is None or end < found.end():
        return None
    if found[1] == "0":
        return []
    # Path by path, because a single call for a hundred thousand paths would hold the interpreter's lock too long.
    paths, start = list[str](), found.end()
    for border in _NEXT_PATH.finditer(plan, start, end):
        paths.append(plain_path(plan[start : border.start()]))
        start = border.end()
    paths.append(plain_path(plan[start:end]))
    return paths if len(paths) == int(found[1]) else None


def partition_values(text: str, columns: Sequence[str]) -> Values | None:
    """The values in `a=1/b=x%2Fy`, which is a partition's name and its default directory; None if the text does not
    have this form for these columns."""
    segments = text.split("/")
    if len(segments) != len(columns):
        return None
    values: list[str | None] = []
    for segment, column in zip(segments, columns, strict=True):
        name, equals, value = segment.partition("=")
        if not equals or unescaped(name).lower() != column.lower():
            return None
        values.append(None if value == DEFAULT_PARTITION else unescaped(value))
    return tuple(values)


def unescaped(text: str) -> str:
    """A partition's value without the escapes of directory names (Spark's ExternalCatalogUtils)."""
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text)


# --- Delta -----------------------------------------------------------------------------------------------

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


def delta_detail(table: TableName) -> str:
    return f"DESCRIBE DETAIL {table.quoted}"


def delta_history(table: TableName) -> str:
    """The latest commits, newest first. Few, because Spark opens the file of each."""
    return f"DESCRIBE HISTORY {table.quoted} LIMIT {COMMITS_SHOWN}"


def delta_commits(location: str, first: int, last: int) -> str:
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


def delta_descriptions(location: str, first: int, last: int) -> str:
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


def delta_values(pairs: str | None, columns: Sequence[str]) -> Values | None:
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


# --- Iceberg -----------------------------------------------------------------------------------------------

_REF_BELOW = re.compile(r"(?:branch|tag)_(.+)", re.DOTALL)
_SNAPSHOT_BELOW = re.compile(r"snapshot_id_\d+")
VERSION_CLAUSE = "VERSION AS OF "


def iceberg_selected(name: TableName) -> tuple[str, bool]:
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


def renew(table: TableName) -> str:
    """Makes the session load the table again. It caches a table until 30 seconds after the last use."""
    return f"REFRESH TABLE {table.quoted}"


def iceberg_snapshot(table: TableName) -> str:
    return f"SHOW TBLPROPERTIES {table.quoted} ('current-snapshot-id')"


def iceberg_ref(table: TableName, name: str) -> str:
    """The snapshot of a branch or tag; no row if it does not exist."""
    return f"SELECT snapshot_id FROM {metadata_table(table, 'refs')} WHERE name = {safe_literal(name)}"


def iceberg_metadata_files(table: TableName) -> str:
    """The metadata files in order, the current one last."""
    return f"SELECT file FROM {metadata_table(table, 'metadata_log_entries')}"


def iceberg_ids(metadata_file: str) -> str:
    """The ids of the table, of its schema and of its partition spec. Raises ValueError as `_path` does."""
    keys = ("table-uuid", "current-schema-id", "default-spec-id")
    ids = ", ".join(f"get_json_object(value, '$.{key}')" for key in keys)
    return f"SELECT {ids} FROM text.{identifier_of(plain_path(metadata_file))}"


def iceberg_history(table: TableName) -> str:
    return f"SELECT snapshot_id, parent_id, operation FROM {metadata_table(table, 'snapshots')}"


def iceberg_files(table: TableName, snapshot: str, partition_columns: int) -> str:
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
