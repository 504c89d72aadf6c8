"""How a view's storage is partitioned, as CREATE decides it once and for all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sql.definition.following import CannotFollow
from sql.grammar import view_properties
from sql.statement import Partitioning
from sql.texts.maintenance import MARKED, StorageLayout
from sql.texts.rewrite import safe_literal

HELD = frozenset({"tinyint", "smallint", "int", "bigint", "boolean", "date", "string"})
"""Types of which Spark reads back from a partition's directory just what it wrote there."""
MOMENTS = frozenset({"date", "timestamp", "timestamp_ntz"})


def marked(layout: StorageLayout, values: Iterable[str | None]) -> StorageLayout:
    """The layout for a view whose partitions have these values. An empty text is NULL to Spark's partitions, and Hive's
    metastore takes `a` and `a ` for one: where there are such texts a sign behind them keeps them apart."""
    if not layout.holds_column or layout.kind != "string" or not any(map(_is_confused, values)):
        return layout
    return StorageLayout(layout.column, layout.kind, MARKED, time_zone=layout.time_zone)


def _is_confused(value: str | None) -> bool:
    return value is not None and (not value or value.endswith(" "))


def taken_for_one(values: Iterable[str | None]) -> tuple[str, str] | None:
    """Two texts that Hive's metastore does not tell apart."""
    seen: dict[str, str] = {}
    for value in filter(None, values):
        other = seen.setdefault(value.rstrip(" "), value)
        if other != value:
            return min(other, value), max(other, value)
    return None


def storage_layout(partitioning: Partitioning, kind: str, properties: Mapping[str, str]) -> StorageLayout:
    """`kind` is the column's type as SQL. Raises CannotFollow, and ValueError for a partition_date_format."""
    if kind.startswith("char"):
        raise CannotFollow(
            "values of the type char are padded, so that they are not those of the base table's partitions"
        )
    kind = "string" if kind.startswith("varchar") else kind
    if view_properties.partition_window(properties) is not None and kind not in {*MOMENTS, "string"}:
        raise CannotFollow(f"partition_sync_limit counts days, months or years, and the column's type is {kind}")
    pattern = safe_literal(view_properties.date_format(properties))
    if partitioning.unit is None:
        if kind in HELD:
            return StorageLayout(partitioning.column, kind, "{}", holds_column=True)
        return StorageLayout(partitioning.column, kind, "CAST({} AS STRING)")
    moment = f"try_to_timestamp({{}}, {pattern})" if kind == "string" else "{}"
    written = "yyyy-MM-dd HH:mm:ss" if partitioning.unit == "HOUR" else "yyyy-MM-dd"
    return StorageLayout(
        partitioning.column, kind, f"date_format(date_trunc('{partitioning.unit}', {moment}), '{written}')"
    )
