"""The public view, which users read: its text shows the rows of one version, and so says which one is current.

Tests: `test_maintenance`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from sql.names import SESSION_CATALOG, TableName, quote
from sql.texts.literals import comment_clause, property_list
from sql.texts.storage_layout import (
    SHOWN_COLUMN,
    UNPARTITIONED,
    VERSION_COLUMN,
    Shown,
    StorageLayout,
    shown_condition,
)


def create_public_view(
    view: TableName,
    storage: TableName,
    columns: Sequence[str],
    shown: Shown,
    comment: str | None = None,
    properties: Mapping[str, str] | None = None,
    layout: StorageLayout = UNPARTITIONED,
) -> str:
    """The view that users read, over the rows that a version shows. Column comments come from the storage table."""
    listed = f" TBLPROPERTIES ({property_list(properties)})" if properties else ""
    return (
        f"CREATE VIEW {view.quoted}{comment_clause(comment)}{listed} AS {shown_rows(storage, columns, shown, layout)}"
    )


def publish(
    view: TableName, storage: TableName, columns: Sequence[str], shown: Shown, layout: StorageLayout = UNPARTITIONED
) -> str:
    """The statement that switches readers to `shown` atomically. (CREATE OR REPLACE VIEW would drop the properties.)"""
    return f"ALTER VIEW {view.quoted} AS {shown_rows(storage, columns, shown, layout)}"


def shown_rows(storage: TableName, columns: Sequence[str], shown: Shown, layout: StorageLayout) -> str:
    """The query for the rows that a version shows."""
    if layout.open is not None:
        # The text must tell whose rows, and of which version they are: see `read_published`.
        # Spark keeps comments in the texts of views if something follows.
        said = f"/* {storage.quoted} WHERE {VERSION_COLUMN} = {shown.number} */"
        some = "true" if shown.snapshot else "false"
        return f"SELECT {layout.shown(columns)} FROM {layout.open.at(shown.snapshot)} {said} WHERE {some}"
    return f"SELECT {layout.shown(columns)} FROM {storage.quoted} WHERE {shown_condition(shown, layout)}"


def rows_beyond(storage: TableName, columns: Sequence[str], shown: Shown, other: Shown, layout: StorageLayout) -> str:
    """The query for the rows that `shown` shows and `other` does not: of the versions and partitions in one of them.
    If each version is a whole commit, all rows of the one."""
    if layout.open is not None:
        return shown_rows(storage, columns, shown, layout)
    return f"{shown_rows(storage, columns, shown, layout)} AND NOT ({shown_condition(other, layout)})"


def stored_rows(storage: TableName, columns: Sequence[str], shown: Shown, layout: StorageLayout = UNPARTITIONED) -> str:
    """The query for the rows of a version, also those that HAVING excludes. `columns`: the view's, and hidden ones."""
    return shown_rows(storage, columns, replace(shown, flagged=False), layout)


_NAME = r"`(?:[^`]|``)*`"
_SHOWN = re.compile(
    rf"SELECT {_NAME}(?: AS {_NAME})?(?:, {_NAME}(?: AS {_NAME})?)* FROM (?:({_NAME})\.)?({_NAME})\.({_NAME}) "
    rf"WHERE {VERSION_COLUMN} (?:= (\d+)|<= (\d+) AND \({VERSION_COLUMN} BETWEEN [^()]+\)"
    rf"(?: AND CASE {VERSION_COLUMN} .* END)?)(?: AND (?:{SHOWN_COLUMN}|coalesce\({SHOWN_COLUMN}, true\)))?",
    re.DOTALL,
)
_VERSIONS = re.compile(r" VERSION AS OF | /\* | WHERE ")
_OPEN = re.compile(
    rf"SELECT {_NAME}(?:, {_NAME})* FROM {_NAME}(?:\.{_NAME})+(?: VERSION AS OF \d+)? "
    rf"/\* (?:({_NAME})\.)?({_NAME})\.({_NAME}) WHERE {VERSION_COLUMN} = (\d+) \*/ WHERE (?:true|false)",
    re.DOTALL,
)


def read_published(view_text: str) -> tuple[TableName, int] | None:
    """The storage table and version that a public view's text shows; None if `publish` did not write the text."""
    text = view_text.strip()
    if (found := _SHOWN.fullmatch(text)) is not None:
        *names, only, last = found.groups()
    elif (found := _OPEN.fullmatch(text)) is not None:
        *names, only = found.groups()
        last = only
    else:
        return None
    parts = tuple(name[1:-1].replace("``", "`").lower() for name in names if name is not None)
    storage = TableName(parts[-2], parts[-1], parts[0]) if len(parts) == 3 else TableName(parts[0], parts[1])
    return storage, int(only or last)


def shows(view_text: str, expected: str) -> bool:
    """Whether a public view has the text that `shown_rows` returned. Earlier releases omitted the catalog."""
    return _without_catalog(view_text.strip()) == _without_catalog(expected)


def selects_alike(view_text: str, expected: str) -> bool:
    """Whether two texts of public views differ only in the condition on versions."""
    return shows(_before_versions(view_text), _before_versions(expected))


def _before_versions(view_text: str) -> str:
    return _VERSIONS.split(view_text, maxsplit=1)[0]


def _without_catalog(text: str) -> str:
    return text.replace(f"{quote(SESSION_CATALOG)}.", "")


def is_spark_property(key: str) -> bool:
    """Whether Spark or Hive's metastore sets this property of a view."""
    return _OF_SPARK.fullmatch(key) is not None


_OF_SPARK = re.compile(
    r"comment|transient_lastDdlTime|last_modified_\w+|bucketing_version|numFiles|numRows|rawDataSize|totalSize"
    r"|COLUMN_STATS_ACCURATE|(spark|view)\..*",
    re.IGNORECASE,
)
