"""The table formats that are known."""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from typing import Any

from gateway.mv.formats.delta import DeltaTables
from gateway.mv.formats.files import FileTables
from gateway.mv.formats.hive import HiveTables
from gateway.mv.formats.iceberg import IcebergTables
from gateway.mv.formats.table_format import TableFormat, Tools
from gateway.mv.formats.watermark import OtherTables
from gateway.mv.ports import WHOLE_TEXTS, Relation, RelationKind
from sql.names import TableName

FORMATS: tuple[type[TableFormat], ...] = (FileTables, HiveTables, DeltaTables, IcebergTables, OtherTables)
"""A table is of the first that reads it; the last one reads every table."""
EXPLAINED_WHOLE = {**WHOLE_TEXTS, **{name: value for each in FORMATS for name, value in each.from_metadata.items()}}
"""With these settings of Spark, EXPLAIN leaves nothing out, nor an aggregate that a format takes from its metadata."""


def format_of(relation: Relation) -> type[TableFormat] | None:
    """The format of a table; None for a view."""
    if relation.kind is not RelationKind.TABLE:
        return None
    return next((each for each in FORMATS if each.reads(relation)), None)


class Formats:
    """An instance of each format."""

    def __init__(self, tools: Tools) -> None:
        self._each = {each: each(tools) for each in FORMATS}
        self.memories: Sequence[MutableMapping[TableName, Any]] = (
            *(tools.last, tools.sizes),
            *(part for each in self._each.values() for part in each.memories),
        )
        """What is remembered of tables."""

    def forget(self, table: TableName) -> None:
        for memory in self.memories:
            memory.pop(table, None)

    def of(self, relation: Relation) -> TableFormat | None:
        """As `format_of`."""
        found = format_of(relation)
        return None if found is None else self._each[found]
