"""How a view's storage table is partitioned. CREATE decides it; it never changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from sql.definition.following import CannotFollow
from sql.grammar import view_properties
from sql.names import SESSION_CATALOG, quote
from sql.statement import Partitioning
from sql.texts.literals import safe_literal
from sql.texts.storage_layout import MARKED, PLACE, StorageLayout

HELD = frozenset({"tinyint", "smallint", "int", "bigint", "boolean", "date", "string"})
"""Types whose values Spark reads back from a partition's directory exactly as it wrote them."""
MOMENTS = frozenset({"date", "timestamp", "timestamp_ntz"})


def marked(layout: StorageLayout, values: Iterable[str | None]) -> StorageLayout:
    """The layout for a view whose partitions have these values.

    Spark stores an empty text as the partition NULL, and Hive's metastore treats `a` and `a ` as equal. If such texts
    occur, a mark is appended to each value to keep them apart.
    """
    if not layout.holds_column or layout.kind != "string" or not any(map(_is_confused, values)):
        return layout
    return replace(layout, key=MARKED, holds_column=False)


def _is_confused(value: str | None) -> bool:
    return value is not None and (not value or value.endswith(" "))


def taken_for_one(values: Iterable[str | None]) -> tuple[str, str] | None:
    """Two texts that Hive's metastore treats as equal; None if there are none."""
    seen: dict[str, str] = {}
    for value in filter(None, values):
        other = seen.setdefault(value.rstrip(" "), value)
        if other != value:
            return min(other, value), max(other, value)
    return None


def combined(parts: Sequence[StorageLayout]) -> StorageLayout:
    """The layout by several columns."""
    return replace(parts[0], further=tuple(parts[1:]))


def storage_layout(
    partitioning: Partitioning, kind: str, properties: Mapping[str, str], catalog: str = SESSION_CATALOG
) -> StorageLayout:
    """The storage layout for one partition column of the type `kind` (as SQL). `catalog` has Iceberg's functions.

    Raises CannotFollow, and ValueError for an invalid partition_date_format.
    """
    if kind.startswith("char"):
        raise CannotFollow("values of the type char are padded and differ from those of the base table's partitions")
    kind = "string" if kind.startswith("varchar") else kind
    if partitioning.transform:
        function = f"{quote(catalog)}.system.{partitioning.transformed(PLACE)}"
        kind = "int" if partitioning.transform.startswith("bucket") else kind
        key = MARKED if kind == "string" else "CAST({} AS STRING)"
        return StorageLayout(partitioning.column, kind, key, function=function)
    if view_properties.partition_window(properties) is not None and kind not in {*MOMENTS, "string"}:
        raise CannotFollow(f"partition_sync_limit needs a date, timestamp or string, but the column's type is {kind}")
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
