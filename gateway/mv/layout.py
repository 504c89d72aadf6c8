"""How a view's storage is partitioned, as CREATE decides it once and for all."""

from __future__ import annotations

from collections.abc import Mapping

from sql import view_properties
from sql.following import CannotFollow
from sql.maintenance import StorageLayout
from sql.rewrite import safe_literal
from sql.statement import Partitioning

HELD = frozenset({"tinyint", "smallint", "int", "bigint", "boolean", "date", "string"})
"""Types of which Spark reads back from a partition's directory just what it wrote there."""
MOMENTS = frozenset({"date", "timestamp", "timestamp_ntz"})


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
