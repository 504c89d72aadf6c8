"""Whether a view can be refreshed by rows, as SHOW MATERIALIZED VIEWS and freshgate.materialized_views show it."""

from __future__ import annotations

from enum import StrEnum

from gateway.mv.model.view import MaterializedView


class Rebuild(StrEnum):
    """Hive's words, as far as they apply."""

    INSERTS_ONLY = "Available for insert operations only"
    PARTITIONS_ONLY = "Available for changed partitions only"
    """The rows with the values that these lead to are recomputed."""
    NOT_AVAILABLE = "Not available"


def incremental_rebuild(view: MaterializedView) -> str:
    """Whether the next refresh of the view can compute only the changed rows: its definition has such a form, and the
    current version tells what it contains. (Removed rows of Delta tables are subtracted where the aggregates allow.)"""
    basis = view.current.contents.basis
    if basis is None:
        return Rebuild.NOT_AVAILABLE.value
    return (Rebuild.INSERTS_ONLY if basis.marks else Rebuild.PARTITIONS_ONLY).value
