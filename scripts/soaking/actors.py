"""The actors of a run, each in a thread of its own with its own random numbers."""

from __future__ import annotations

import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from itertools import cycle

from clients import Jdbc, rows
from processes import wait_until
from pyhive.exc import OperationalError

from soaking.journal import PARTS, Bounds, Content, Journal, fault
from soaking.stage import CONTENT, DATABASE, Stage

VIEWS = {"near": ("near_whole", "near_parts", "near_above"), "far": ("far_whole", "far_parts")}
COLUMNS = "part, n, last, total"
CHANGING = "a name that changes"
NO_SUCH_TABLE = "42P01"
LATE_SECONDS = 60.0
"""How long a write that was cut off may still take effect."""
PATIENCE_SECONDS = 5.0
"""Longest pause between the killer's checks of what the others have done."""


class Actor(ABC):
    """Acts repeatedly until the stage ends."""

    name = ""
    pause_seconds = 0.5
    """Longest pause between two turns."""

    def __init__(self, stage: Stage, seed: int) -> None:
        self.stage = stage
        self.random = random.Random(seed)

    def run(self) -> None:
        while not self.stage.stop.is_set():
            if not self.stage.serving.wait(0.1):
                continue
            began = time.monotonic()
            try:
                self.act()
            except Exception as error:
                self._failed(error, began)
            self.stage.stop.wait(self.random.random() * self.pause_seconds)

    def _failed(self, error: Exception, began: float) -> None:
        if self.stage.is_shadowed(began):
            self.stage.counts[f"{self.name} lost to a kill"] += 1
        else:
            self.stage.counts[f"{self.name} failed"] += 1
            self.stage.report(f"{self.name}: {error}")

    @abstractmethod
    def act(self) -> None:
        """Acts once, on a connection of its own."""


class Writer(Actor):
    """Writes one transaction after the other, through the gateway or directly at Spark."""

    pause_seconds = 6.0

    def __init__(self, stage: Stage, seed: int, table: str, journal: Journal) -> None:
        super().__init__(stage, seed)
        self.name = f"write to {table}"
        self._table = table
        self._journal = journal

    def act(self) -> None:
        number, life = self._journal.begin(), self.stage.spark_lives
        # A transaction during which Spark was killed may be partly written: the rest is written.
        there = f"(SELECT part FROM {self._table} WHERE tx = {number})"
        missing = f"SELECT /*+ COALESCE(1) */ {number}, id FROM range({PARTS}) WHERE id NOT IN {there}"
        try:
            with self.stage.connected(direct=self._table == "far") as cursor:
                rows(cursor, f"INSERT INTO {self._table} {missing}")
        except Exception:
            # It may have been written, or be written later; the next number waits for that.
            if not self._is_done(number, life):
                raise
        self._journal.end(number)
        self.stage.counts[self.name] += 1

    def _is_done(self, number: int, life: int) -> bool:
        with self.stage.connected(direct=True) as direct:

            def written() -> bool:
                query = f"SELECT count(*) FROM {self._table} WHERE tx = {number}"
                return rows(direct, query) == [(PARTS,)]

            with suppress(AssertionError):
                wait_until(lambda: written() or self.stage.spark_lives > life, LATE_SECONDS)
            return written()


class Reader(Actor):
    """Reads a view, and compares its rows with what was written."""

    def __init__(self, stage: Stage, seed: int, journals: dict[str, Journal], through: str) -> None:
        super().__init__(stage, seed)
        self.name = f"read by {through}"
        self._journals = journals
        self._through = through

    def act(self) -> None:
        if self._through == CHANGING:
            self._by_changing_name()
            return
        table = self.random.choice(sorted(VIEWS))
        view = self.random.choice(VIEWS[table])
        journal = self._journals[table]
        direct = self._through == "Spark itself"
        with ExitStack() as stack:
            read = self._client(stack)
            least = 0 if direct else journal.ended
            if self._through == "a transaction":
                self._twice(read, view, journal, least)
            else:
                self.check(view, read(f"SELECT {COLUMNS} FROM {view}"), Bounds(least, journal.begun))

    def _client(self, stack: ExitStack) -> Callable[[str], Content]:
        if self._through == "JDBC":
            gateway = self.stage.gateway
            jdbc = stack.enter_context(Jdbc(f"jdbc:hive2://{gateway.host}:{gateway.port}/{DATABASE}"))
            return lambda sql: sorted(jdbc.query(sql)[1])
        cursor = stack.enter_context(self.stage.connected(direct=self._through == "Spark itself"))
        return lambda sql: sorted(rows(cursor, sql))

    def _twice(self, read: Callable[[str], Content], view: str, journal: Journal, least: int) -> None:
        read("BEGIN")
        first = read(f"SELECT {COLUMNS} FROM {view}")
        self.check(view, first, Bounds(least, journal.begun))
        self.stage.stop.wait(self.random.random())
        if read(f"SELECT {COLUMNS} FROM {view}") != first:
            self.stage.report(f"{self.name} of {view}: it changed within the transaction")
        read("COMMIT")

    def _by_changing_name(self) -> None:
        """Reads a view that is renamed, replaced, swapped and dropped meanwhile: it may be gone, but never wrong."""
        journal = self._journals["near"]
        with self.stage.connected() as cursor:
            names = [row[1] for row in rows(cursor, "SHOW MATERIALIZED VIEWS LIKE 'extra*'")]
            if not names:
                return
            view, least = self.random.choice(names), journal.ended
            try:
                content = sorted(rows(cursor, f"SELECT {COLUMNS} FROM {view}"))
            except OperationalError as error:
                if error.args[0].status.sqlState != NO_SUCH_TABLE:
                    raise
                self.stage.counts[f"{self.name}, gone"] += 1
                return
            self.check(view, content, Bounds(least, journal.begun))

    def check(self, view: str, content: Content, bounds: Bounds) -> None:
        wrong = fault(content, bounds)
        if wrong is not None:
            self.stage.report(f"{self.name} of {view}: {wrong}: {content}")
        self.stage.counts[self.name] += 1


class Refresher(Actor):
    name = "refresh"
    pause_seconds = 6.0

    def act(self) -> None:
        view = self.random.choice([view for views in VIEWS.values() for view in views])
        method = self.random.choice(["AUTO", "COMPLETE"])
        with self.stage.connected() as cursor:
            rows(cursor, f"REFRESH MATERIALIZED VIEW {view} {method}")
        self.stage.counts[self.name] += 1


class Changer(Actor):
    """Alters views that are read, and creates, renames, swaps and drops others."""

    name = "DDL"
    pause_seconds = 6.0

    def act(self) -> None:
        with self.stage.connected() as cursor:
            present = {row[1] for row in rows(cursor, "SHOW MATERIALIZED VIEWS LIKE 'extra*'")}
            for statement in self._statements(present):
                rows(cursor, statement)
                self.stage.counts[self.name] += 1

    def _statements(self, present: set[str]) -> list[str]:
        number = self.random.randrange(1_000_000)
        if len(present) < 2:
            return [f"CREATE MATERIALIZED VIEW extra{number} AS {CONTENT.format('near')}"]
        one, two = self.random.sample(sorted(present), 2)
        read = self.random.choice([view for views in VIEWS.values() for view in views])
        return [
            self.random.choice(
                [
                    f"ALTER MATERIALIZED VIEW {one} RENAME TO extra{number}",
                    f"ALTER MATERIALIZED VIEW {one} REPLACE WITH MATERIALIZED VIEW {two}",
                    f"CREATE OR REPLACE MATERIALIZED VIEW {one} AS {CONTENT.format('near')}",
                    f"DROP MATERIALIZED VIEW {one}",
                    f"ALTER MATERIALIZED VIEW {read} COMMENT 'number {number}'",
                ]
            )
        ]


class Killer(Actor):
    """Kills the gateway and Spark in turn, each time once every other actor has acted, however slow it is."""

    name = "kill"

    def __init__(self, stage: Stage, seed: int, seconds: float, others: Sequence[Actor]) -> None:
        super().__init__(stage, seed)
        self._seconds = seconds
        self._others = others
        self._kills = cycle([("kill of the gateway", stage.kill_gateway), ("kill of Spark", stage.kill_spark)])

    def act(self) -> None:
        before = [self.stage.counts[other.name] for other in self._others]
        pause = self._seconds * (0.5 + self.random.random())
        while not self.stage.stop.wait(pause):
            # At a random moment after the condition is met.
            pause = self.random.random() * PATIENCE_SECONDS
            if all(self.stage.counts[other.name] > count for other, count in zip(self._others, before, strict=True)):
                name, kill = next(self._kills)
                kill()
                self.stage.counts[name] += 1
                self.stage.counts[self.name] += 1
                return


def cast(stage: Stage, kill_seconds: float) -> list[Actor]:
    """All actors, each with a seed derived from the stage's."""
    journals = {table: Journal() for table in VIEWS}
    seeds = iter([stage.random.randrange(1 << 30) for _ in range(20)])
    others = [
        *(Writer(stage, next(seeds), table, journal) for table, journal in journals.items()),
        *(
            Reader(stage, next(seeds), journals, way)
            for way in ("PyHive", "JDBC", "Spark itself", "a transaction", CHANGING)
        ),
        Refresher(stage, next(seeds)),
        Changer(stage, next(seeds)),
    ]
    return [*others, Killer(stage, next(seeds), kill_seconds, others)]
