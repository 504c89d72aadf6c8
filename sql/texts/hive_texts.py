"""Generates the queries for the rows of files of a Hive table, read as Parquet or ORC."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from sql.names import quote
from sql.texts.additions import select
from sql.texts.literals import safe_literal
from sql.texts.observation import identifier_of

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
        return f"{select(columns)} FROM {source} WHERE _metadata.file_path IN ({', '.join(map(safe_literal, files))})"
    data = ", ".join(["_metadata.file_path AS freshgate_file", *(quote(name) for name in columns if name not in by)])
    rows = ", ".join(f"({', '.join(_file(path, values, by.values()))})" for path, values in files.items())
    return (
        f"{select(columns)} FROM (SELECT {data} FROM {source}) JOIN (VALUES {rows}) "
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
