"""Generates the statements that observe base tables without reading their rows, and parses Spark's answers.

Files are listed with Spark's source `binaryFile`, which has a row per file. It opens no file unless the content is
selected.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from sql.names import TableName, quote
from sql.texts.literals import partition_value
from sql.texts.storage_layout import DEFAULT_PARTITION

Values = tuple[str | None, ...]
"""The values of a partition in the order of the partition columns; None is NULL."""

VERSION_CLAUSE = "VERSION AS OF "
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


def renew(table: TableName) -> str:
    """Makes the session load the table again. It caches a table until 30 seconds after the last use."""
    return f"REFRESH TABLE {table.quoted}"


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
