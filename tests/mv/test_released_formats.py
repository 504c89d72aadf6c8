"""What released versions have stored is read: `catalogs` has, by release, the properties of storage tables as Spark
shows them, and the version that each view showed. A release adds a file; none is ever changed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gateway.mv.model import properties as stored
from gateway.mv.model.view import MaterializedView, base_key
from sql.names import TableName
from sql.statement import Method, Trigger

CATALOGS = sorted((Path(__file__).parent / "catalogs").glob("*.json"))


@pytest.fixture(params=CATALOGS, ids=lambda path: path.stem)
def views(request: pytest.FixtureRequest) -> dict[str, MaterializedView]:
    """The views by name."""
    tables: dict[str, dict[str, Any]] = json.loads(request.param.read_text(encoding="utf-8"))
    found = {}
    for table, said in tables.items():
        assert stored.is_ours(said["properties"])
        storage, definition = TableName("freshgate_storage", table), TableName("freshgate_storage", f"{table}__d")
        view = stored.read_view(said["properties"], storage, definition, said["current"])
        found[view.name.table] = view
        assert view.id == table
        assert view.current.number == said["current"]
        assert stored.was_published(said["properties"])
    return found


def test_there_is_a_catalog() -> None:
    assert CATALOGS


def test_names_and_settings(views: dict[str, MaterializedView]) -> None:
    assert views.keys() >= {"above", "daily", "hourly", "later", "monthly", "renamed", "totals", "visitors"}
    assert {view.owner for view in views.values()} == {"ada"}
    assert views["renamed"].comment == "of the day"
    totals = views["totals"]
    assert totals.columns == ("Item Name", "n", "total")
    assert totals.properties["owner.note"] == "ä;x"
    assert totals.clauses.refreshing.method is Method.INCREMENTAL_FALLBACK
    assert views["hourly"].clauses.refreshing.trigger is Trigger.SCHEDULE


def test_what_views_read_and_follow(views: dict[str, MaterializedView]) -> None:
    orders = TableName("shop", "orders")
    assert views["totals"].tables == {orders}
    assert views["hourly"].tables == {orders, TableName("shop", "items"), TableName("shop", "named")}
    assert views["above"].views == {views["totals"].id}
    for name in ("daily", "monthly"):
        followed = views[name].followed
        assert followed is not None
        assert followed.base == base_key(orders)


def test_what_versions_contain(views: dict[str, MaterializedView]) -> None:
    assert not views["later"].built
    for name in ("renamed", "totals", "daily", "visitors", "above"):
        assert views[name].current.contents.basis is not None, name
    basis = views["visitors"].current.contents.basis
    assert basis is not None
    assert basis.keyed is not None
    assert basis.keyed.column == "day"
    assert views["renamed"].current.shown.versions > 1
