"""Tests that a start completes RENAME and REPLACE WITH that were interrupted between two metastore calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from clients import pyhive, rows
from databases import Database
from processes import wait_until

from gateway.mv.model import properties
from sql.names import TableName
from sql.texts import maintenance, public_view
from sql.texts.storage_layout import Shown

NUMBERS, TEXTS = [(1,), (2,)], [("x",), ("y",)]
Content = list[tuple[Any, ...]]


class Interrupted:
    """Two views, `one…` of numbers and `two…` of texts, and the steps that move them, run directly on Spark."""

    def __init__(self, database: str, number: int, storages: dict[str, TableName], direct: Any) -> None:
        self._database = database
        self._number = number
        self._storages = storages
        self._direct = direct

    def name(self, view: str) -> TableName:
        return TableName(self._database, f"{view}{self._number}")

    def storage(self, view: str) -> TableName:
        return self._storages[self.name(view).table]

    def run(self, sql: str) -> None:
        rows(self._direct, sql)

    def announce(self, view: str, target: str) -> None:
        self.run(maintenance.set_properties(self.storage(view), properties.write_move(self.name(target), 1)))

    def show(self, target: str, view: str) -> None:
        column = {"one": "a", "two": "b"}[view]
        self.run(public_view.publish(self.name(target), self.storage(view), (column,), Shown.only(1)))

    def rename(self, view: str, target: str) -> None:
        self.run(maintenance.rename_view(self.name(view), self.name(target)))

    def drop(self, view: str) -> None:
        self.run(maintenance.drop_view(self.name(view)))

    def store_name(self, view: str, target: str) -> None:
        self.run(maintenance.set_properties(self.storage(view), properties.write_name(self.name(target))))

    def unpublish(self, view: str) -> None:
        self.run(maintenance.unset_properties(self.storage(view), properties.published_keys()))


Step = Callable[[Interrupted], None]
RENAME: tuple[Step, ...] = (
    lambda move: move.announce("one", "new"),
    lambda move: move.rename("one", "new"),
    lambda move: move.store_name("one", "new"),
)
SWAP: tuple[Step, ...] = (
    lambda move: move.announce("one", "two"),
    lambda move: move.announce("two", "one"),
    lambda move: move.show("one", "two"),
    lambda move: move.show("two", "one"),
    lambda move: move.store_name("one", "two"),
    lambda move: move.store_name("two", "one"),
)
REPLACE: tuple[Step, ...] = (
    lambda move: move.announce("two", "one"),
    lambda move: move.show("one", "two"),
    lambda move: move.drop("two"),
    lambda move: move.unpublish("one"),
    lambda move: move.store_name("two", "one"),
)


MOVES = [
    (RENAME, 2, {"new": NUMBERS, "two": TEXTS}),
    (SWAP, 3, {"one": TEXTS, "two": NUMBERS}),
    (REPLACE, 2, {"one": TEXTS}),
]


@pytest.mark.thorough
@pytest.mark.parametrize(("steps", "commits_with", "expected"), MOVES, ids=["rename", "swap", "replace"])
def test_an_interrupted_move_is_completed_or_undone(
    database: Database,
    start_gateway: Any,
    direct: Any,
    steps: tuple[Step, ...],
    commits_with: int,
    expected: dict[str, Content],
) -> None:
    """The move is interrupted after every number of steps. Readers see the change from step `commits_with` on."""
    database.run("CREATE TABLE t (a INT, b STRING) USING parquet", "INSERT INTO t VALUES (1, 'x'), (2, 'y')")
    points = range(1, len(steps) + 1)
    first = start_gateway()
    with pyhive(first.host, first.port, database=database.name) as cursor:
        for number in points:
            rows(cursor, f"CREATE MATERIALIZED VIEW one{number} AS SELECT a FROM t")
            rows(cursor, f"CREATE MATERIALIZED VIEW two{number} AS SELECT b FROM t")
        select = "SELECT name, storage_table FROM freshgate.materialized_views WHERE database_name = "
        found = rows(cursor, f"{select} '{database.name}'")
    assert first.stop() == 0
    storages = {name: TableName(*storage.split(".")) for name, storage in found}
    views: dict[str, Content] = {}
    for done in points:
        move = Interrupted(database.name, done, storages, direct)
        for step in steps[:done]:
            step(move)
        shown: dict[str, Content] = expected if done >= commits_with else {"one": NUMBERS, "two": TEXTS}
        views |= {f"{view}{done}": content for view, content in shown.items()}

    again = start_gateway(**{"versions.retention": 0})
    with pyhive(again.host, again.port, database=database.name) as cursor:
        assert {row[1] for row in rows(cursor, "SHOW MATERIALIZED VIEWS")} == set(views)
        assert {row[1] for row in rows(cursor, "SHOW VIEWS")} == set(views)
        for view, content in views.items():
            assert sorted(rows(cursor, f"SELECT * FROM {view}")) == content, view
        rows(cursor, "INSERT INTO t VALUES (3, 'z')")
        for view, content in views.items():
            more = sorted([*content, (3,) if content is NUMBERS else ("z",)])
            assert sorted(rows(cursor, f"SELECT * FROM {view}")) == more, view

        def kept() -> list[str]:
            listed = rows(direct, f"SHOW TABLES IN {again.storage} LIKE '{database.name}__*'")
            return [row[1] for row in listed if not row[1].endswith("__definition")]

        wait_until(lambda: len(kept()) == len(views), what="leftovers to be dropped")
        for view in views:
            rows(cursor, f"DROP MATERIALIZED VIEW {view}")
    assert again.stop() == 0
