"""Rows that tell about materialized views: SHOW MATERIALIZED VIEWS and INFORMATION_SCHEMA.MATERIALIZED_VIEWS."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime

from gateway.mv.catalog import Catalog
from gateway.mv.model import Freshness, MaterializedView
from gateway.service.operation import Result
from gateway.wire.rowset import Column, Type
from sql.names import TableName

SHOW_COLUMNS = (
    Column("database", comment="Database of the materialized view"),
    Column("name", comment="Name of the materialized view"),
    Column("freshness", comment="FRESH, or STALE when a base table changed after the last refresh"),
    Column("version", Type.BIGINT, "Number of the current version"),
    Column("last_refresh_time", Type.TIMESTAMP, "When the current version was published, UTC"),
    Column("refresh_method", comment="How the current version was computed"),
    Column("owner", comment="Who created it"),
    Column("base_tables", comment="What it reads"),
    Column("comment", comment="Its comment"),
)

INFORMATION_SCHEMA_COLUMNS = (
    ("table_catalog", "STRING"),
    ("table_schema", "STRING"),
    ("table_name", "STRING"),
    ("last_refresh_time", "TIMESTAMP"),
    ("refresh_watermark", "TIMESTAMP"),
    ("enable_refresh", "BOOLEAN"),
    ("refresh_interval_minutes", "BIGINT"),
    ("last_modified_time", "TIMESTAMP"),
    ("is_stale", "BOOLEAN"),
)
"""BigQuery's view, with bqemulator's is_stale. refresh_watermark is when the last refresh began to read: every write
that had ended before is contained."""

REFRESH_INTERVAL_MINUTES = 30
"""BigQuery's default. A read refreshes a stale view at once, so no interval is waited for."""


def show(catalog: Catalog, database: str | None, pattern: str | None) -> Result:
    """SHOW MATERIALIZED VIEWS; `database` None means every database."""
    matches = _matcher(pattern)
    rows = [
        _show_row(catalog, view)
        for view in catalog.views()
        if database in {None, view.name.database} and matches(view.name.table)
    ]
    return Result(SHOW_COLUMNS, rows)


def _show_row(catalog: Catalog, view: MaterializedView) -> tuple[str | int | datetime | None, ...]:
    return (
        view.name.database,
        view.name.table,
        freshness(catalog, view).value,
        view.current.number,
        _time(view.current.published_at),
        view.current.method,
        view.owner,
        ", ".join(_base_names(catalog, view)),
        view.comment,
    )


def freshness(catalog: Catalog, view: MaterializedView) -> Freshness:
    return Freshness.STALE if catalog.is_stale(view.id) else Freshness.FRESH


def information_schema(catalog: Catalog, database: str | None) -> list[tuple[str | int | bool | None, ...]]:
    """Rows of INFORMATION_SCHEMA.MATERIALIZED_VIEWS, times as ISO texts in UTC."""
    return [
        (
            view.name.catalog,
            view.name.database,
            view.name.table,
            _time(view.current.published_at).isoformat(sep=" "),
            _time(view.current.started_at).isoformat(sep=" "),
            True,
            REFRESH_INTERVAL_MINUTES,
            _time(view.current.published_at).isoformat(sep=" "),
            catalog.is_stale(view.id),
        )
        for view in catalog.views()
        if database in {None, view.name.database}
    ]


def _base_names(catalog: Catalog, view: MaterializedView) -> Iterable[str]:
    names: set[TableName] = set(view.tables)
    names.update(entry.view.name for base in view.views if (entry := catalog.find(base)))
    return map(str, sorted(names))


def _time(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).replace(tzinfo=None)


def _matcher(pattern: str | None) -> Callable[[str], object]:
    """Spark's pattern of SHOW TABLES: `*` is any text, `|` separates alternatives, case does not count."""
    if pattern is None:
        return re.compile(".*", re.DOTALL).fullmatch
    alternatives = (".*".join(map(re.escape, part.strip().split("*"))) for part in pattern.split("|"))
    return re.compile("(?:" + "|".join(alternatives) + ")", re.IGNORECASE | re.DOTALL).fullmatch
