"""A base table of very many partitions, a view that follows them, and all that is done with such a view."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable

from fake_spark import Answer, named
from warehouse import House, Rows, Warehouse
from world.storage import shown

from gateway.mv.model.view import MaterializedView
from gateway.service.answers.info import PARTITION_COLUMNS
from sql.names import Namespace, TableName

BASE = "s.t"
ROOT = f"file:/w/{BASE}"
CREATE = f"CREATE MATERIALIZED VIEW s.m PARTITION BY (day) AS SELECT a, day FROM {BASE}"
SOME = 150
"""Partitions that a refresh can name."""
_IN_SYNC = [column.name for column in PARTITION_COLUMNS].index("SyncWithBaseTables")
_NAME = r"`([^`]+)`\.`([^`]+)`\.`([^`]+)`"
_TEXT = re.compile(r"'([^']*)'")
_PARTITION = re.compile(r"PARTITION \(freshgate_version = (\d+)(?:, `freshgate_partition` = '([^']*)')?\)")


class PartitionedWarehouse(Warehouse):
    """s.t is partitioned by `day`, and so are the views."""

    def __init__(self, partitions: int) -> None:
        super().__init__()
        self.table(BASE)
        self.days = {f"d{number:06}": 0 for number in range(partitions)}
        """A number for the files of each, which grows with each write."""
        self.stored: dict[TableName, dict[tuple[int, str], None]] = {}

    def write_days(self, count: int) -> None:
        """The first partitions, past the gateway."""
        for day in list(self.days)[:count]:
            self.days[day] += 1

    async def carry_out(self, sql: str, namespace: Namespace) -> Answer:
        # Spark works beside the gateway's event loop, too.
        return await asyncio.to_thread(self.answer, sql, namespace)

    def answer(self, sql: str, namespace: Namespace) -> Answer:
        for pattern, work in _STATEMENTS:
            if found := re.fullmatch(pattern, sql, re.DOTALL):
                return Answer(work(self, found) or [])
        answer = super().answer(sql, namespace)
        if sql.startswith("DESCRIBE TABLE EXTENDED"):
            said = json.loads(answer.rows[0][0])
            said["columns"] = [{"name": "a", "type": {"name": "bigint"}}, {"name": "day", "type": {"name": "string"}}]
            if said.get("location") == ROOT:
                said |= {"partition_columns": ["day"], "partition_provider": "Catalog"}
            return Answer([(json.dumps(said),)])
        return answer

    def partitions(self, found: re.Match[str]) -> dict[tuple[int, str], None]:
        """The partitions of the storage table that a statement names."""
        return self.stored.setdefault(TableName(found[2], found[3], found[1]), {})


def _list(warehouse: PartitionedWarehouse, found: re.Match[str]) -> Rows:
    if TableName(found[2], found[3], found[1]) == named(BASE):
        return [(f"day={day}",) for day in warehouse.days]
    return [(f"freshgate_version={version}/freshgate_partition={day}",) for version, day in warehouse.partitions(found)]


def _paths(warehouse: PartitionedWarehouse, _: re.Match[str]) -> Rows:
    paths = ", ".join(f"{ROOT}/day={day}" for day in warehouse.days)
    return [(f"Location: InMemoryFileIndex({len(warehouse.days)} paths)[{paths}], PartitionFilters: []",)]


def _storage_paths(warehouse: PartitionedWarehouse, found: re.Match[str]) -> Rows:
    public = shown(found[1])
    assert public is not None
    stored = warehouse.stored.get(TableName(found[3], found[4], found[2]), {})
    paths = [_storage_path(found[4], *place) for place in stored if public.has(place)]
    return [(f"Location: InMemoryFileIndex({len(paths)} paths)[{', '.join(paths)}], PartitionFilters: []",)]


def _storage_path(table: str, version: int, day: str) -> str:
    return f"file:/s/{table}/freshgate_version={version}/freshgate_partition={day}"


def _files(warehouse: PartitionedWarehouse, found: re.Match[str]) -> Rows:
    """The files of versions, and of the base table: one statement lists several directories."""
    listed = _LISTED.findall(found[0])
    stored = [
        (_storage_path(table, version, day), "1", 1, 1)
        for table, number in listed
        for version, day in warehouse.stored.get(TableName("freshgate_storage", table), {})
        if not number or version == int(number)
    ]
    days = warehouse.days if f"`{ROOT}`" in found[0] else {}
    return stored + [(f"{ROOT}/day={day}", str(number), 1, 1) for day, number in days.items()]


_LISTED = re.compile(r"binaryFile\.`file:/s/(\w+)(?:/freshgate_version=(\d+))?`")


def _folds(warehouse: PartitionedWarehouse, _: re.Match[str]) -> Rows:
    """All files are old."""
    return [(f"{ROOT}/day={day}", None, hash((day, number)), 1, 1, 0) for day, number in warehouse.days.items()]


def _keys(_: PartitionedWarehouse, found: re.Match[str]) -> Rows:
    return [(place, day, True) for place, day in enumerate(_TEXT.findall(found[1]))]


def _insert(warehouse: PartitionedWarehouse, found: re.Match[str]) -> None:
    _, chosen, days = found[5].partition("WHERE (`day` IN (")
    written = _TEXT.findall(days) if chosen else warehouse.days
    warehouse.partitions(found).update(dict.fromkeys((int(found[4]), day) for day in written))


def _counted(warehouse: PartitionedWarehouse, _: re.Match[str]) -> Rows:
    return [(day, 1) for day in warehouse.days]


def _drop(warehouse: PartitionedWarehouse, found: re.Match[str]) -> None:
    stored = warehouse.partitions(found)
    for version, day in _PARTITION.findall(found[4]):
        for each in [(int(version), day)] if day else [each for each in stored if each[0] == int(version)]:
            stored.pop(each, None)


_STATEMENTS: list[tuple[str, Callable[[PartitionedWarehouse, re.Match[str]], Rows]]] = [
    (rf"SHOW PARTITIONS {_NAME}", _list),
    (rf"EXPLAIN (SELECT 1 FROM {_NAME} WHERE freshgate_version .*)", _storage_paths),
    (r"EXPLAIN SELECT 1 FROM .*", _paths),
    (r"SELECT left\(path.*binaryFile\..*", _files),
    (rf"SELECT directory, file.*binaryFile\.`{ROOT}`.*", _folds),
    (r"SELECT place, CAST.* FROM VALUES (.*) AS partitions\(place, value0\)\)", _keys),
    (rf"INSERT OVERWRITE {_NAME} PARTITION \(freshgate_version = (\d+), `freshgate_partition`\) (.*)", _insert),
    (r"SELECT CAST\(`freshgate_partition` AS STRING\) AS key, .*", _counted),
    (rf"ALTER TABLE {_NAME} DROP IF EXISTS (.*)", _drop),
    (r"DESCRIBE QUERY .*", lambda *_: [("a", "bigint", None), ("day", "string", None)]),
    (rf"DESCRIBE TABLE {_NAME}", lambda *_: [("a", "bigint", None), ("day", "string", None)]),
]


# --- the life of a view ----------------------------------------------------------------------------------------


async def life(partitions: int) -> AsyncIterator[str]:
    """Does all that is done with a view of so many partitions; what has been done last, each time."""
    warehouse = await asyncio.to_thread(PartitionedWarehouse, partitions)
    house = _gateway(warehouse)
    await house.run(CREATE)
    yield "CREATE"
    warehouse.write_days(SOME)
    assert await _unsynced(house) == SOME
    yield "SHOW PARTITIONS"
    await house.run("REFRESH MATERIALIZED VIEW s.m AUTO")
    assert len(_view(house).current.manifest.exceptions) == SOME
    yield f"REFRESH of {SOME} partitions"
    await _drop_replaced(house)
    assert len(warehouse.stored[_view(house).storage]) == partitions
    yield f"dropping {SOME} replaced partitions"

    house = _gateway(warehouse)
    await house.views.fence.take()
    await house.views.loading.load()
    house.views.inspector.seed()
    yield "loading"
    assert await _unsynced(house) == 0
    yield "the first look"
    await house.run("REFRESH MATERIALIZED VIEW s.m AUTO")
    yield "REFRESH of none"
    warehouse.write_days(1)
    await house.run("REFRESH MATERIALIZED VIEW s.m PARTITIONS (p_d000000)")
    yield "REFRESH of a named one"

    await asyncio.to_thread(warehouse.write_days, partitions)
    await house.run("EXPLAIN REFRESH MATERIALIZED VIEW s.m AUTO")
    yield "EXPLAIN REFRESH of all"
    await house.run("REFRESH MATERIALIZED VIEW s.m AUTO")
    yield "REFRESH of all"
    await _drop_replaced(house)
    assert len(warehouse.stored[_view(house).storage]) == partitions
    yield "dropping a replaced version"
    await house.run("ALTER MATERIALIZED VIEW s.m SET ('session.spark.sql.ansi.enabled' = 'false')")
    yield "ALTER"


def _gateway(warehouse: PartitionedWarehouse) -> House:
    """It looks at each read."""
    house = House(warehouse)
    house.views.inspector._probe_seconds = 0.0
    return house


def _view(house: House) -> MaterializedView:
    return house.entry("s.m").view


async def _unsynced(house: House) -> int:
    rows = await house.run("SHOW PARTITIONS s.m")
    return await asyncio.to_thread(sum, (not row[_IN_SYNC] for row in rows))


async def _drop_replaced(house: House) -> None:
    janitor = house.versions.janitor
    for each in janitor._all():
        each.not_before = 0.0
    await janitor.sweep()
