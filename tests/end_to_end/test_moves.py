"""RENAME and REPLACE WITH that were cut off between two metastore calls: the next start brings them to an end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from clients import pyhive, rows
from databases import Database
from processes import wait_until

from gateway.mv import properties
from sql import maintenance
from sql.names import TableName

COLUMNS = {"one": ("a",), "two": ("b",)}
NUMBERS, TEXTS = [(1,), (2,)], [("x",), ("y",)]


class Cut:
    """Two views, `one` of numbers and `two` of texts, and the steps of what moves them, straight on Spark."""

    def __init__(self, database: Database, storages: dict[str, TableName], direct: Any) -> None:
        self._database = database.name
        self._storages = storages
        self._direct = direct

    def name(self, view: str) -> TableName:
        return TableName(self._database, view)

    def mean_to_move(self, view: str, target: str) -> None:
        move = properties.write_move(self.name(target), 1)
        rows(self._direct, maintenance.set_properties(self._storages[view], move))

    def show(self, target: str, view: str) -> None:
        rows(self._direct, maintenance.publish(self.name(target), self._storages[view], COLUMNS[view], 1))

    def rename(self, view: str, target: str) -> None:
        rows(self._direct, maintenance.rename_view(self.name(view), self.name(target)))

    def drop(self, view: str) -> None:
        rows(self._direct, maintenance.drop_view(self.name(view)))

    def store_name(self, view: str, target: str) -> None:
        rows(self._direct, maintenance.set_properties(self._storages[view], properties.write_name(self.name(target))))

    def unpublish(self, view: str) -> None:
        rows(self._direct, maintenance.unset_properties(self._storages[view], properties.published_keys()))


Step = Callable[[Cut], None]
RENAME: tuple[Step, ...] = (
    lambda cut: cut.mean_to_move("one", "new"),
    lambda cut: cut.rename("one", "new"),
    lambda cut: cut.store_name("one", "new"),
)
SWAP: tuple[Step, ...] = (
    lambda cut: cut.mean_to_move("one", "two"),
    lambda cut: cut.mean_to_move("two", "one"),
    lambda cut: cut.show("one", "two"),
    lambda cut: cut.show("two", "one"),
    lambda cut: cut.store_name("one", "two"),
    lambda cut: cut.store_name("two", "one"),
)
TAKE_PLACE: tuple[Step, ...] = (
    lambda cut: cut.mean_to_move("two", "one"),
    lambda cut: cut.show("one", "two"),
    lambda cut: cut.drop("two"),
    lambda cut: cut.unpublish("one"),
    lambda cut: cut.store_name("two", "one"),
)
BEFORE = {"one": NUMBERS, "two": TEXTS}
CASES = [
    *((RENAME, done, BEFORE if done < 2 else {"new": NUMBERS, "two": TEXTS}) for done in range(1, 4)),
    *((SWAP, done, BEFORE if done < 3 else {"one": TEXTS, "two": NUMBERS}) for done in range(1, 7)),
    *((TAKE_PLACE, done, BEFORE if done < 2 else {"one": TEXTS}) for done in range(1, 6)),
]


@pytest.mark.parametrize(("steps", "done", "expected"), CASES)
def test_what_was_cut_off_is_brought_to_an_end(
    database: Database,
    start_gateway: Any,
    direct: Any,
    steps: tuple[Step, ...],
    done: int,
    expected: dict[str, list[tuple[Any, ...]]],
) -> None:
    database.run("CREATE TABLE t (a INT, b STRING) USING parquet", "INSERT INTO t VALUES (1, 'x'), (2, 'y')")
    first = start_gateway()
    with pyhive(first.host, first.port, database=database.name) as cursor:
        rows(cursor, "CREATE MATERIALIZED VIEW one AS SELECT a FROM t")
        rows(cursor, "CREATE MATERIALIZED VIEW two AS SELECT b FROM t")
        found = rows(
            cursor,
            f"SELECT name, storage_table FROM freshgate.materialized_views WHERE database_name = '{database.name}'",
        )
    assert first.stop() == 0
    cut = Cut(database, {name: TableName(*storage.split(".")) for name, storage in found}, direct)
    for step in steps[:done]:
        step(cut)

    again = start_gateway(**{"versions.retention": 0})
    with pyhive(again.host, again.port, database=database.name) as cursor:
        assert {row[1] for row in rows(cursor, "SHOW MATERIALIZED VIEWS")} == set(expected)
        assert {row[1] for row in rows(cursor, "SHOW VIEWS")} == set(expected)
        for view, content in expected.items():
            assert sorted(rows(cursor, f"SELECT * FROM {view}")) == content
        rows(cursor, "INSERT INTO t VALUES (3, 'z')")
        for view, content in expected.items():
            more = sorted([*content, (3,) if content is NUMBERS else ("z",)])
            assert sorted(rows(cursor, f"SELECT * FROM {view}")) == more

        def storages() -> list[str]:
            listed = rows(direct, f"SHOW TABLES IN freshgate_storage LIKE '{database.name}__*'")
            return [row[1] for row in listed if not row[1].endswith("__definition")]

        wait_until(lambda: len(storages()) == len(expected), what="leftovers to be dropped")
        for view in expected:
            rows(cursor, f"DROP MATERIALIZED VIEW {view}")
    assert again.stop() == 0
