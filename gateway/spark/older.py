"""Runs the gateway's statements, which are those of Spark 4, at a Spark 3.5, which lacks two of their forms.

`DESCRIBE … AS JSON` becomes plain DESCRIBE, whose rows are put into the same JSON. A relation with options,
`FROM text.`path` WITH ('pathGlobFilter' = '…')`, becomes a temporary view, made anew for each statement, because a view
lists its files once. Only the gateway's own statements come here; Spark 3.5 has no valid text that looks like them.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from gateway.errors import StatementFailed, UpstreamLost
from gateway.mv.model.properties import CREATOR_SETTINGS, UnreadableProperties, read_creator_settings
from gateway.mv.ports import UNKNOWN_SETTINGS
from gateway.spark.printed_description import Description, read_description, type_of
from gateway.spark.row_list import RowList
from sql.grammar.cursor import NOT_SUPPORTED
from sql.lexed import Cursor, Lexed
from sql.releases import Dialect
from sql.texts.literals import string_token
from sql.texts.storage_layout import VERSION_COLUMN

Run = Callable[[str], Awaitable[RowList]]

_DESCRIBE, _AS_JSON = "DESCRIBE TABLE EXTENDED ", " AS JSON"
_FORMATS = frozenset({"binaryFile", "text", "parquet"})
_STATISTICS = re.compile(r"(\d+) bytes(?:, (\d+) rows)?")
_numbers = itertools.count()
FILES = "freshgate_files_"
"""Prefix of the temporary views, which exist while a statement runs."""


def _encoded(path: str) -> str:
    """An expression for `_metadata.file_path`, which temporary views do not have: Java's encoding of a path in a URI.
    It fails for control characters and for blanks beyond ASCII, so that no file is looked for under a wrong name.
    CHAR(92) is a backslash, whatever the session takes a backslash in a literal for."""
    shown = path
    for character in '% "#<>?[]^`{|}':
        shown = f"replace({shown}, '{character}', '%{ord(character):02X}')"
    shown = f"replace({shown}, char(92), '%5C')"
    odd = f"replace({path}, ' ', '') RLIKE concat('[', char(92), 'p{{Z}}', char(92), 'p{{Cc}}]')"
    return f"IF({odd}, raise_error(concat('The path of the file ', {path}, ' has unusual characters')), {shown})"


_HIDDEN = {
    "substr(_metadata.file_name, 1, 20)": "substr(substring_index(input_file_name(), '/', -1), 1, 20)",
    "THEN _metadata.file_path END": f"THEN {_encoded('path')} END",
}
"""What stands for the hidden columns of files in the statements that list files and read Delta's log."""


@dataclass(frozen=True, slots=True)
class OnFiles:
    """A statement on temporary views, with the statements that make and drop these."""

    makes: tuple[str, ...]
    text: str
    drops: tuple[str, ...]


async def run(dialect: Dialect, sql: str, plainly: Run) -> RowList:
    """Runs a statement of the gateway's. `plainly` runs one that this Spark understands. Raises what Spark raises."""
    if not dialect.describes_as_json and sql.startswith(_DESCRIBE) and sql.endswith(_AS_JSON):
        return await _describe(sql.removesuffix(_AS_JSON), plainly)
    if not dialect.takes_options and (found := on_files(sql)) is not None:
        return await _run_on_files(found, plainly)
    return await plainly(sql)


async def _run_on_files(found: OnFiles, plainly: Run) -> RowList:
    made = list[str]()
    try:
        for text, drop in zip(found.makes, found.drops, strict=True):
            made.append(drop)
            try:
                await plainly(text)
            except StatementFailed:
                made.pop()
                raise
        return await plainly(found.text)
    finally:
        # What they have listed takes memory. One that Spark did not make is not dropped: DROP VIEW would find a view of
        # that name in the current database.
        for drop in made:
            with contextlib.suppress(StatementFailed, UpstreamLost):
                await plainly(drop)


def on_files(sql: str) -> OnFiles | None:
    """The statement with views in place of its relations with options; None if it has none. No two statements have the
    same views, because a session may run them at the same time."""
    if " WITH ('" not in sql:
        return None
    makes, drops, kept = list[str](), list[str](), list[str]()
    lexed, done = Lexed(sql), 0
    for place, (kind, word, start, *_) in enumerate(lexed.tokens):
        if kind != "word" or word not in _FORMATS:
            continue
        cursor = Cursor(lexed, place)
        if (relation := _relation_with_options(cursor)) is None:
            continue
        view = f"{FILES}{next(_numbers)}"
        drops.append(f"DROP VIEW IF EXISTS {view}")
        makes.append(f"CREATE OR REPLACE TEMPORARY VIEW {view} {relation}")
        kept += sql[done:start], view
        done = lexed.pieces[cursor.place - 1].end
    text = "".join([*kept, sql[done:]])
    for hidden, shown in _HIDDEN.items():
        text = text.replace(hidden, shown)
    return OnFiles(tuple(makes), text, tuple(drops)) if makes else None


def _relation_with_options(cursor: Cursor) -> str | None:
    """Consumes a relation with options, if that comes next. Returns the clauses of a view over the same files."""
    relation = cursor.name()
    if relation is None or len(relation) != 2 or not cursor.accept("WITH", "("):
        return None
    file_format, path = relation
    options = [f"path {string_token(path)}"]
    while True:
        key = cursor.string()
        value = cursor.take() if cursor.accept("=") else None
        if key is None or value is None or value.kind != "string":
            return None
        options.append(f"{key} {value.text}")
        if not cursor.accept(","):
            break
    return f"USING {file_format} OPTIONS ({', '.join(options)})" if cursor.accept(")") else None


# --- DESCRIBE --------------------------------------------------------------------------------------------


async def _describe(sql: str, plainly: Run) -> RowList:
    """The answer to the same statement AS JSON, as far as the gateway reads it. Raises StatementFailed with
    NOT_SUPPORTED for a table of another catalog, as Spark 4 does."""
    found = read_description((await plainly(sql)).rows)
    name = sql.removeprefix(_DESCRIBE)
    if found.detail is not None and "Database" not in found.detail:
        raise StatementFailed(f"{name} is a table of another catalog.", NOT_SUPPORTED)
    known = _known(found)
    properties = (found.detail or {}).get("Table Properties", "")
    # Spark prints properties as one text, in which one cannot be told from the next.
    if known.get("provider") == "hive" or CREATOR_SETTINGS in properties:
        rows = (await plainly(f"SHOW TBLPROPERTIES {name}")).rows
        known["table_properties"] = stored = {str(key): str(value) for key, value, *_ in rows}
        if CREATOR_SETTINGS in stored:
            known[_CREATION] = _settings(stored)
    return RowList(("json_metadata",), [(json.dumps(known),)])


def _known(found: Description) -> dict[str, Any]:
    columns = [{"name": name, "type": type_of(kind)} for name, kind in found.columns]
    if found.detail is None:
        return {"type": "VIEW", "catalog_name": "system", "columns": columns}
    known: dict[str, Any] = {"columns": columns, "partition_columns": found.partitioned_by}
    known |= {key: found.detail[title] for key, title in _TITLES.items() if title in found.detail}
    # Settings do not matter for what the gateway shows of a storage table.
    if known.get("type") == "VIEW" and VERSION_COLUMN not in known.get("view_text", ""):
        known[_CREATION] = UNKNOWN_SETTINGS
    if "created_time" in known:
        known["created_time"] = _instant(known["created_time"])
    if statistics := _STATISTICS.match(found.detail.get("Statistics", "")):
        known["statistics"] = {"size_in_bytes": int(statistics[1])}
        known["statistics"] |= {"num_rows": int(statistics[2])} if statistics[2] else {}
    return known


def _instant(printed: str) -> str:
    """A time as AS JSON has it, so that an upgrade of Spark makes no other table of it. As printed unless it is in UTC:
    other zones have no unique abbreviations."""
    day, zone, year = printed[:-9], printed[-8:-5], printed[-4:]
    if zone not in {"UTC", "GMT"}:
        return printed
    try:
        return datetime.strptime(f"{day} {year}", "%a %b %d %H:%M:%S %Y").strftime("%Y-%m-%dT%H:%M:%SZ")
    except ValueError:
        return printed


_CREATION = "view_creation_spark_configuration"
_TITLES = {
    "type": "Type",
    "created_time": "Created Time",
    "provider": "Provider",
    "location": "Location",
    "partition_provider": "Partition Provider",
    "serde_library": "Serde Library",
    "input_format": "InputFormat",
    "storage_properties": "Storage Properties",
    "view_text": "View Text",
    "view_catalog_and_namespace": "View Catalog and Namespace",
}
"""The keys of AS JSON that the gateway reads, and the titles of plain DESCRIBE."""


def _settings(stored: dict[str, str]) -> dict[str, str]:
    try:
        return dict(read_creator_settings(stored))
    except UnreadableProperties as error:
        raise StatementFailed(str(error), error.sqlstate) from error
