"""Materialized views as values for tests without Spark."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gateway.mv.freshness.entry import Entry
from gateway.mv.model.view import FollowedTable, MaterializedView, Version, base_key
from sql.names import Namespace, TableName
from sql.statement import CreateClauses
from sql.texts.storage_layout import StorageLayout

SALES, SHOPS = TableName("d", "sales"), TableName("d", "shops")


def view_of(version: Version) -> MaterializedView:
    """The view d.v, which reads d.sales and d.shops. Its partitions follow those of d.sales by `day`."""
    return MaterializedView(
        id="v",
        name=TableName("d", "v"),
        storage=TableName("s", "v"),
        definition=TableName("s", "v__definition"),
        query="",
        namespace=Namespace(),
        columns=("day", "n"),
        listed=(),
        clauses=CreateClauses(),
        owner="me",
        created_at=0,
        tables=frozenset({SALES, SHOPS}),
        schemas={},
        views=frozenset(),
        layout=StorageLayout("day", "string", "{}", holds_column=True),
        followed=FollowedTable(base_key(SALES), "day", 0, "string", "{}"),
        view_names={},
        properties={},
        comment=None,
        current=version,
        versions_reserved=0,
    )


def given(entry: Entry, **fields: Any) -> None:
    """The entry's view has these fields, by whatever statement."""
    before = entry.view
    entry._view = replace(before, **fields)
    entry._tell(before)
