"""Statistics of tables in the metastore, as ANALYZE TABLE has left them. Nothing is computed, and no row is read."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field

from gateway.errors import StatementFailed
from gateway.mv.ports import Metastore
from sql.names import TableName, quote


@dataclass(frozen=True, slots=True)
class Statistics:
    """None: not known."""

    rows: int | None = None
    bytes: int | None = None
    distinct: dict[str, int] = field(default_factory=dict)
    """How many values the columns have for which that is known."""


async def statistics_of(metastore: Metastore, table: TableName, columns: Iterable[str]) -> Statistics:
    """What the metastore knows of the table and of these columns. Raises UpstreamLost."""
    try:
        answer = await metastore.run(f"DESCRIBE TABLE EXTENDED {table.quoted} AS JSON")
        known = json.loads(answer.rows[0][0]).get("statistics") or {}
    except StatementFailed:  # Tables of Delta, Iceberg and other catalogs.
        return Statistics()
    rows, size = known.get("num_rows"), known.get("size_in_bytes")
    found = Statistics(None if rows is None else int(rows), None if size is None else int(size))
    if found.rows is not None:
        for column in columns:
            if (count := await _distinct(metastore, table, column)) is not None:
                found.distinct[column] = count
    return found


async def _distinct(metastore: Metastore, table: TableName, column: str) -> int | None:
    try:
        answer = await metastore.run(f"DESCRIBE TABLE EXTENDED {table.quoted} {quote(column)}")
    except StatementFailed:
        return None
    found = next((str(row[1]) for row in answer.rows if row[0] == "distinct_count"), "")
    return int(found) if found.isdecimal() else None
