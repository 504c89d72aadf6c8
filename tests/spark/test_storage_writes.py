"""Tests that two concurrent INSERTs into one storage table, as after a kill or a cancel, do not affect each other."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from clients import pyhive, rows
from processes import Engine, FixedEndpoint, wait_until
from pyhive import hive
from TCLIService.ttypes import TOperationState

from gateway.mv.refresh.habits import COMMIT_PROTOCOL, INCREMENTAL_COLLECT, SPARKS_OWN, Habits
from gateway.spark.client import SessionPool
from gateway.wire.endpoint import Endpoint
from sql.names import TableName
from sql.texts import maintenance
from sql.texts.storage_layout import UNPARTITIONED, StorageLayout

TASKS = 2
COLUMNS = ["id", "part", "waited"]
BY_PART = StorageLayout("part", "bigint", holds_column=False)
"""Omits the view's own column from the layout, so that the rows stay the same."""


@dataclass
class Latch:
    """Blocks the last task of an INSERT until a property of Spark's JVM is set."""

    cursor: Any
    name: str = field(default_factory=lambda: f"freshgate.test.{uuid.uuid4().hex}")

    @property
    def waits(self) -> str:
        """Returns SQL whose evaluation ends when the latch opens, or after two minutes."""
        # `reflect` returns the text "null" for a method that returns null or nothing.
        opened = f"reflect('java.lang.System', 'getProperty', '{self.name}') = 'open'"
        pause = "reflect('java.lang.Thread', 'sleep', 50L)"
        return f"aggregate(sequence(1, 2400), '', (a, x) -> if(a = 'open' OR {opened}, 'open', {pause}))"

    def open(self) -> None:
        rows(self.cursor, f"SELECT reflect('java.lang.System', 'setProperty', '{self.name}', 'open')")


@dataclass
class Storage:
    """A storage table, and definitions of two rows each, whose second row waits for a latch."""

    cursor: Any
    table: TableName
    layout: StorageLayout
    place: Path

    def definition(self, number: int, latch: Latch) -> TableName:
        name = TableName(self.table.database, f"d{number}")
        rows(
            self.cursor,
            f"CREATE VIEW {name.quoted} AS SELECT id, id % 2 AS part, "
            f"CASE WHEN id = {TASKS - 1} THEN {latch.waits} END AS waited FROM range(0, {TASKS}, 1, {TASKS})",
        )
        return name

    def insert(self, version: int, definition: TableName, *, staged: bool = True) -> str:
        text = maintenance.insert_version(self.table, definition, version, None, COLUMNS, self.layout, staged=staged)
        # The hint would shuffle the rows; each task is to write the row it reads.
        return text.replace("/*+ REBALANCE(`freshgate_partition`) */ ", "")

    def versions(self) -> list[tuple[int, int]]:
        return sorted(rows(self.cursor, f"SELECT freshgate_version, id FROM {self.table.quoted}"))

    def tasks_done(self) -> int:
        """Returns the number of committed tasks of unfinished INSERTs."""
        # Spark removes directories meanwhile: os.walk skips them, rglob would fail.
        names = {name for _, folders, _ in os.walk(self.place) for name in folders}
        return sum(name.startswith("task_") for name in names)


@pytest.fixture(params=[UNPARTITIONED, BY_PART], ids=["whole", "partitioned"])
def storage(engine: Engine, request: pytest.FixtureRequest) -> Iterator[Storage]:
    layout: StorageLayout = request.param
    name = f"writes_{uuid.uuid4().hex[:8]}"
    with pyhive(engine.host, engine.port) as cursor:
        rows(cursor, f"CREATE DATABASE {name}")
        table, shape = TableName(name, "s"), TableName(name, "shape")
        rows(cursor, f"CREATE VIEW {shape.quoted} AS SELECT id, id % 2 AS part, '' AS waited FROM range(1)")
        rows(cursor, maintenance.create_storage(table, shape, {"k": "v"}, columns=COLUMNS, layout=layout))
        (location,) = (row[1] for row in rows(cursor, f"DESCRIBE EXTENDED {table.quoted}") if row[0] == "Location")
        yield Storage(cursor, table, layout, Path(location.removeprefix("file:")))
        rows(cursor, f"DROP DATABASE {name} CASCADE")


@contextlib.contextmanager
def refreshing(engine: Engine) -> Iterator[Any]:
    """A cursor of a session configured like those of refreshes."""
    connection = hive.connect(engine.host, engine.port, username="tester", configuration=dict(maintenance.STAGED))
    with contextlib.closing(connection), contextlib.closing(connection.cursor()) as cursor:
        yield cursor


def test_an_insert_that_ends_keeps_the_files_of_another(engine: Engine, storage: Storage) -> None:
    """The second INSERT begins and ends after the first has committed a task."""
    latch, opened = Latch(storage.cursor), Latch(storage.cursor)
    opened.open()
    first = storage.insert(1, storage.definition(1, latch))
    second = storage.insert(2, storage.definition(2, opened))
    with refreshing(engine) as cursor:
        writing = threading.Thread(target=rows, args=(cursor, first))
        writing.start()
        try:
            wait_until(lambda: storage.tasks_done() == TASKS - 1, what="the first task of the first INSERT")
            with refreshing(engine) as other:
                rows(other, second)
        finally:
            latch.open()
            writing.join()
    assert storage.versions() == [(1, 0), (1, 1), (2, 0), (2, 1)]


def test_an_insert_that_is_cancelled_keeps_the_files_of_another(engine: Engine, storage: Storage) -> None:
    """The first INSERT is cancelled, like that of a killed gateway, after the second has committed a task."""
    never, latch = Latch(storage.cursor), Latch(storage.cursor)
    first = storage.insert(1, storage.definition(1, never))
    second = storage.insert(2, storage.definition(2, latch))
    with refreshing(engine) as cursor, refreshing(engine) as other:
        cursor.execute(first, async_=True)
        wait_until(lambda: storage.tasks_done() == TASKS - 1, what="the first task of the first INSERT")
        writing = threading.Thread(target=rows, args=(other, second))
        writing.start()
        try:
            wait_until(lambda: storage.tasks_done() == 2 * (TASKS - 1), what="the first task of the second INSERT")
            cursor.cancel()
            wait_until(lambda: cursor.poll().operationState == TOperationState.CANCELED_STATE, what="the cancel")
            wait_until(lambda: storage.tasks_done() <= TASKS - 1, what="Spark to remove what the first has left")
        finally:
            latch.open()
            never.open()
            writing.join()
    assert storage.versions() == [(2, 0), (2, 1)]


@pytest.mark.parametrize("staged", [True, False])
def test_a_new_version_keeps_the_older_ones(storage: Storage, staged: bool) -> None:
    """The session lacks the setting: the table's own property keeps the other versions."""
    opened = Latch(storage.cursor)
    opened.open()
    definition = storage.definition(1, opened)
    for version in (1, 2):
        rows(storage.cursor, storage.insert(version, definition, staged=staged))
    assert storage.versions() == [(1, 0), (1, 1), (2, 0), (2, 1)]


@pytest.mark.parametrize(
    ("protocol", "staged"),
    [(SPARKS_OWN, True), ("org.apache.spark.internal.io.HadoopMapReduceCommitProtocol", False)],
)
def test_writes_are_staged_only_with_sparks_own_commit_protocol(engine: Engine, protocol: str, staged: bool) -> None:
    """Commit protocols for object stores refuse an overwrite of partitions."""
    habits = habits_of(engine, {COMMIT_PROTOCOL: protocol})
    assert habits.stages_writes is staged
    assert not habits.caches_listings


@pytest.mark.parametrize(("in_parts", "whole"), [("false", True), ("true", False)])
def test_incremental_collection_is_recognized(engine: Engine, in_parts: str, whole: bool) -> None:
    assert habits_of(engine, {INCREMENTAL_COLLECT: in_parts}).collects_whole is whole


def habits_of(engine: Engine, configuration: dict[str, str]) -> Habits:
    """Returns the habits of a Spark with this configuration."""

    async def ask() -> Habits:
        pool = SessionPool(FixedEndpoint(Endpoint(engine.host, engine.port)), "tester", 1, configuration)
        habits = Habits()
        try:
            await habits.ask(pool)
        finally:
            await pool.close()
        return habits

    return asyncio.run(ask())
