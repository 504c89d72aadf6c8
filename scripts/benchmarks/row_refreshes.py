"""Measures refreshes by rows, in turn with complete ones, in a gateway with an embedded Spark."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import psutil
from clients import pyhive, rows
from processes import Gateway, wait_until

from benchmarks.figures import Figure, in_turn, shown, timed
from benchmarks.stand import DRIVER_MEMORY, Stand

DATABASE = "bench_rows"
ROWS_FACTOR = 40
"""Of the rows of a large result: 40 million by default."""
GROUPS = 100_000
RUNS = 5
IDLE_SECONDS = 0.5
FEW = 4_000
"""A small change: what remains is the fixed price."""


@dataclass(frozen=True)
class Case:
    """A view, and the target for a refresh after 1 % of new rows as a part of a complete one's time."""

    name: str
    definition: str
    target: float


CASES = (
    Case(
        "groups",
        f"SELECT k, count(*) AS n, sum(v) AS s, avg(v) AS a, min(w) AS low, max(w) AS high FROM {DATABASE}.facts "
        "GROUP BY k",
        0.15,
    ),
    Case(
        "filter and join",
        f"SELECT f.k, d.name, f.v FROM {DATABASE}.facts f JOIN {DATABASE}.kinds d ON f.kind = d.kind WHERE f.v % 4 = 0",
        0.10,
    ),
)


@dataclass(frozen=True)
class Cost:
    """Of one statement, in seconds."""

    seconds: float
    processor: float
    """Of Spark."""


@dataclass(frozen=True)
class Engine:
    """A gateway's embedded Spark."""

    cursor: Any
    process: psutil.Process

    def cost(self, statement: str) -> Cost:
        """Runs a statement once nothing is left to do for earlier ones."""
        wait_until(self._is_idle, what="Spark to be idle")
        before = self._processor_seconds()
        seconds = timed(lambda: rows(self.cursor, statement))
        return Cost(seconds, self._processor_seconds() - before)

    def _is_idle(self) -> bool:
        before = self._processor_seconds()
        time.sleep(IDLE_SECONDS)
        return self._processor_seconds() - before < IDLE_SECONDS / 4

    def _processor_seconds(self) -> float:
        times = self.process.cpu_times()
        return float(times.user + times.system)


def figures(stand: Stand) -> Iterator[Figure]:
    log = stand.directory / "increments.log"
    settings: dict[str, Any] = {
        "data_dir": stand.directory / "increments",
        "engine.driver_memory": DRIVER_MEMORY,
        "result_cache.bytes": 0,
    }
    gateway = Gateway(log, **settings)
    count = ROWS_FACTOR * stand.rows
    try:
        with pyhive(gateway.host, gateway.port) as cursor:
            _load(cursor, count)
            engine = Engine(cursor, _spark_of(gateway))
            for case in CASES:
                yield from _case(engine, case, count, stand.runs(RUNS))
    finally:
        gateway.stop()


def _spark_of(gateway: Gateway) -> psutil.Process:
    children = psutil.Process(gateway.pid).children(recursive=True)
    return next(child for child in children if child.name() == "java")


def _load(cursor: Any, count: int) -> None:
    rows(cursor, f"CREATE DATABASE {DATABASE}")
    rows(cursor, f"CREATE TABLE {DATABASE}.facts (k INT, kind INT, v BIGINT, w DECIMAL(12,2)) USING parquet")
    rows(cursor, f"CREATE TABLE {DATABASE}.kinds (kind INT, name STRING) USING parquet")
    rows(cursor, f"INSERT INTO {DATABASE}.kinds SELECT CAST(id AS INT), concat('kind ', id) FROM range(100)")
    rows(cursor, _insert(count))


def _insert(count: int) -> str:
    return (
        f"INSERT INTO {DATABASE}.facts SELECT CAST(hash(id, 1) % {GROUPS} AS INT), CAST(id % 100 AS INT), id % 1000, "
        f"CAST(id % 100000 AS DECIMAL(12,2)) / 100 FROM range({count})"
    )


def _case(engine: Engine, case: Case, count: int, runs: int) -> Iterator[Figure]:
    """Each turn adds rows once and refreshes three views of one definition, in another order each time."""
    cursor, view = engine.cursor, f"{DATABASE}.{case.name.replace(' ', '_')}"
    ways = {
        "rows": (view, "INCREMENTAL"),
        "states": (f"{view}_states", "COMPLETE"),
        "complete": (f"{view}_complete", "COMPLETE"),
    }
    for way, (name, _) in ways.items():
        policy = "COMPLETE" if way == "complete" else "INCREMENTAL FALLBACK"
        rows(cursor, f"CREATE MATERIALIZED VIEW {name} REFRESH {policy} AS {case.definition}")
    percent: dict[str, list[Cost]] = {way: [] for way in ways}
    for turn in range(runs):
        rows(cursor, _insert(count // 100))
        order = list(ways)[turn % len(ways) :] + list(ways)[: turn % len(ways)]
        for way in order:
            name, method = ways[way]
            percent[way].append(engine.cost(f"REFRESH MATERIALIZED VIEW {name} {method}"))
    few = []
    for _ in range(runs):
        rows(cursor, _insert(FEW))
        few.append(engine.cost(f"REFRESH MATERIALIZED VIEW {view} INCREMENTAL"))
    one = f"{case.name}: 1 % of new rows"
    yield from _figures(f"{one}, by rows", percent["rows"], percent["complete"], case.target)
    yield from _figures(f"{case.name}: {FEW:,} new rows, by rows", few, percent["complete"], None)
    yield from _figures(f"{one}, complete with states for later ones", percent["states"], percent["complete"], 1.1)
    yield _read(cursor, case.name, view, f"{view}_complete", runs)


def _read(cursor: Any, name: str, view: str, plain: str, runs: int) -> Figure:
    """A read of all rows: a view without groups shows those of several refreshes together."""
    for each in (f"{view} INCREMENTAL", f"{plain} COMPLETE"):
        rows(cursor, f"REFRESH MATERIALIZED VIEW {each}")
    queries = [f"SELECT count(*), sum(hash(*)) FROM {each}" for each in (plain, view)]
    if rows(cursor, queries[0]) != rows(cursor, queries[1]):
        raise SystemExit(f"bench: {view} and {plain} have other rows.")
    turns = in_turn(lambda: rows(cursor, queries[0]), lambda: rows(cursor, queries[1]), 2 * runs)
    return turns.ratio("refresh by rows", f"{name}: read of all rows after {runs} refreshes by rows", 1.1)


def _figures(what: str, costs: list[Cost], whole: list[Cost], target: float | None) -> Iterator[Figure]:
    for unit, limit in (("seconds", target), ("processor", None)):
        cost, full = (statistics.median(getattr(each, unit) for each in every) for every in (costs, whole))
        label = what if unit == "seconds" else f"{what}, Spark's processor time"
        direct = f"{shown(full, 'ms')} (complete)"
        yield Figure("refresh by rows", label, cost / full, "ratio", limit, direct, shown(cost, "ms"), len(costs))
