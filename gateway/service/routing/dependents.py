"""Tells who drops or alters a table which materialized views read it, in the log of the operation."""

from __future__ import annotations

from collections.abc import Iterable

from gateway.mv.catalog.index import Catalog
from sql.names import TableName
from sql.statement import Glance

NAMED_MAX = 20
_OF_COLUMNS = frozenset({"rename", "column", "columns", "change", "replace"})
"""Words of an ALTER after which a definition may fail, or mean something else."""


def warning(catalog: Catalog, look: Glance, targets: Iterable[TableName]) -> str:
    """Names the views that read what the statement drops or alters; empty if there are none."""
    if look.keyword != "drop" and not (look.keyword == "alter" and look.words & _OF_COLUMNS):
        return ""
    said = []
    for table in targets:
        if views := [str(entry.view.name) for entry in catalog.dependents([table]) if entry.visible]:
            more = f" and {len(views) - NAMED_MAX} more" if len(views) > NAMED_MAX else ""
            said.append(f"{table} is read by {', '.join(views[:NAMED_MAX])}{more}")
    return f"Warning: materialized views depend on it: {'; '.join(said)}" if said else ""
