"""Generates the statements that find the rows which were added to a table, and the queries that read them.

Tests: `test_added_rows`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from sql.names import TableName, quote
from sql.texts.literals import safe_literal
from sql.texts.observation import identifier_of

REMOVED = "freshgate_removed"
"""The column that tells which rows of a change were removed, where a query has added and removed ones."""


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
    return f"{select(columns)} FROM {table.quoted}"


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
    """The rows of a table at an earlier version."""
    return f"{all_rows(table, columns)} VERSION AS OF {int(version)}"


def select(columns: Iterable[str]) -> str:
    return f"SELECT {', '.join(map(quote, columns))}"


_SIMPLE_TYPES = frozenset(
    {"string", "date", "tinyint", "byte", "smallint", "short", "int", "integer", "bigint", "long"}
)
"""Types whose values have the text that Spark casts them to, whatever the session's time zone."""
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.=-]+")
"""A name without characters that mean something in a glob pattern."""


def is_plain(path: str) -> bool:
    """Whether a pattern of this path finds the file itself."""
    return _PLAIN_NAME.fullmatch(path) is not None


def is_simple(type_json: str) -> bool:
    """Whether the text of a value means the same in every session. `type_json`: the type in Spark's JSON."""
    return json.loads(type_json).get("name") in _SIMPLE_TYPES
