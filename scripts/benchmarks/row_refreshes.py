"""Measures refreshes by rows, in turn with complete ones, over an engine with Delta Lake."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import psutil
from clients import pyhive, rows
from lake import lake_archives, lake_settings
from processes import STORAGE, Engine, Gateway, wait_until

from benchmarks.figures import Figure, in_turn, shown, timed
from benchmarks.stand import Stand

DATABASE = "bench_rows"
ROWS_FACTOR = 40
"""Of the rows of a large result: 40 million by default."""
GROUPS = 100_000
RUNS = 5
IDLE_SECONDS = 0.5
MEMORY = "6g"
"""Delta writes whole files anew for an UPDATE."""
FEW = 4_000
"""A small change: what remains is the fixed price."""


@dataclass(frozen=True)
class Case:
    """A view, and how its base table changes."""

    name: str
    definition: str
    target: float
    """For a refresh by rows as a part of a complete one's time."""
    percent: Callable[[int, int], str]
    """Changes 1 % of so many rows; the turn is the second argument."""
    changed: str = "1 % of new rows"
    provider: str = "parquet"


def _insert(count: int) -> str:
    return (
        f"INSERT INTO {DATABASE}.facts SELECT CAST(hash(id, 1) % {GROUPS} AS INT), CAST(id % 100 AS INT), id % 1000, "
        f"CAST(id % 100000 AS DECIMAL(12,2)) / 100 FROM range({count})"
    )


CASES = (
    Case(
        "groups",
        f"SELECT k, count(*) AS n, sum(v) AS s, avg(v) AS a, min(w) AS low, max(w) AS high FROM {DATABASE}.facts "
        "GROUP BY k",
        0.15,
        lambda count, _: _insert(count // 100),
    ),
    Case(
        "filter and join",
        f"SELECT f.k, d.name, f.v FROM {DATABASE}.facts f JOIN {DATABASE}.kinds d ON f.kind = d.kind WHERE f.v % 4 = 0",
        0.10,
        lambda count, _: _insert(count // 100),
    ),
    Case(
        "groups of a Delta table",
        f"SELECT k, count(*) AS n, sum(v) AS s, avg(v) AS a, sum(w) AS t FROM {DATABASE}.facts GROUP BY k",
        0.3,
        lambda _, turn: f"UPDATE {DATABASE}.facts SET v = v + 1, w = w / 2 WHERE kind = {turn % 100}",
        "1 % of updated rows",
        "delta",
    ),
)


@dataclass(frozen=True)
class Cost:
    """What one statement took, in seconds."""

    seconds: float
    processor: float
    """Of Spark."""


@dataclass(frozen=True)
class Place:
    """An engine behind a gateway."""

    engine: Engine
    cursor: Any

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
        host = psutil.Process(self.engine.program.process.pid)
        times = [each.cpu_times() for each in (host, *host.children(recursive=True))]
        return float(sum(each.user + each.system for each in times))

    def stored_bytes(self, view: str) -> int:
        """The size of the last version's files."""
        storage = self.engine.data_dir / "warehouse" / f"{STORAGE}.db"
        (table,) = storage.glob(f"{view.lower().replace('.', '__')}__????????")
        last = max(table.glob("freshgate_version=*"), key=lambda each: int(each.name.partition("=")[2]))
        return sum(each.stat().st_size for each in last.rglob("*.parquet"))


def figures(stand: Stand) -> Iterator[Figure]:
    home, count = stand.directory / "increments", ROWS_FACTOR * stand.rows
    spark: dict[str, Any] = {"spark.driver.memory": MEMORY, **lake_settings(home / "lake")}
    engine = Engine(home / "engine", archives=lake_archives(), spark=spark)
    try:
        settings: dict[str, Any] = {"result_cache.bytes": 0, "storage.database": STORAGE}
        gateway = Gateway(
            stand.directory / "increments.log", upstream=f"{engine.host}:{engine.port}", settings=settings
        )
        try:
            with pyhive(gateway.host, gateway.port) as cursor:
                for case in CASES:
                    _load(cursor, case.provider, count)
                    yield from _case(Place(engine, cursor), case, count, stand.runs(RUNS))
        finally:
            gateway.stop()
    finally:
        engine.stop()


def _load(cursor: Any, provider: str, count: int) -> None:
    """Each case begins with as many rows."""
    more = " TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')" if provider == "delta" else ""
    for statement in (
        f"DROP DATABASE IF EXISTS {DATABASE} CASCADE",
        f"CREATE DATABASE {DATABASE}",
        f"CREATE TABLE {DATABASE}.facts (k INT, kind INT, v BIGINT, w DECIMAL(12,2)) USING {provider}{more}",
        f"CREATE TABLE {DATABASE}.kinds (kind INT, name STRING) USING parquet",
        f"INSERT INTO {DATABASE}.kinds SELECT CAST(id AS INT), concat('kind ', id) FROM range(100)",
        _insert(count),
    ):
        rows(cursor, statement)


def _case(place: Place, case: Case, count: int, runs: int) -> Iterator[Figure]:
    """Each turn changes rows once and refreshes three views of one definition, in another order each time."""
    cursor, view = place.cursor, f"{DATABASE}.{case.name.replace(' ', '_')}"
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
        rows(cursor, case.percent(count, turn))
        order = list(ways)[turn % len(ways) :] + list(ways)[: turn % len(ways)]
        for way in order:
            name, method = ways[way]
            percent[way].append(place.cost(f"REFRESH MATERIALIZED VIEW {name} {method}"))
    few = []
    for _ in range(runs):
        rows(cursor, _insert(FEW))
        few.append(place.cost(f"REFRESH MATERIALIZED VIEW {view} INCREMENTAL"))
    one = f"{case.name}: {case.changed}"
    yield from _figures(f"{one}, by rows", percent["rows"], percent["complete"], case.target)
    yield from _figures(f"{case.name}: {FEW:,} new rows, by rows", few, percent["complete"], None)
    yield from _figures(f"{one}, complete with states for later ones", percent["states"], percent["complete"], 1.1)
    yield _storage(place, case.name, view)
    yield _read(cursor, case.name, view, runs)
    for name, _ in ways.values():
        rows(cursor, f"DROP MATERIALIZED VIEW {name}")


def _storage(place: Place, name: str, view: str) -> Figure:
    plain, states = (place.stored_bytes(f"{view}_{way}") for way in ("complete", "states"))
    direct, gateway = (f"{each / 2**20:.1f} MiB" for each in (plain, states))
    return Figure("refresh by rows", f"{name}: storage with states", states / plain, "ratio", 2.0, direct, gateway, 1)


def _read(cursor: Any, name: str, view: str, runs: int) -> Figure:
    """A read of all rows: a view without groups shows those of several refreshes together."""
    plain = f"{view}_complete"
    for each in (f"{view} INCREMENTAL", f"{plain} COMPLETE"):
        rows(cursor, f"REFRESH MATERIALIZED VIEW {each}")
    queries = [f"SELECT count(*), sum(hash(*)) FROM {each}" for each in (plain, view)]
    if rows(cursor, queries[0]) != rows(cursor, queries[1]):
        raise SystemExit(f"bench: {view} and {plain} have other rows.")
    turns = in_turn(lambda: rows(cursor, queries[0]), lambda: rows(cursor, queries[1]), 2 * runs)
    return turns.ratio("refresh by rows", f"{name}: read of all rows after {2 * runs} refreshes by rows", 1.1)


def _figures(what: str, costs: list[Cost], whole: list[Cost], target: float | None) -> Iterator[Figure]:
    for unit, limit in (("seconds", target), ("processor", None)):
        cost, full = (statistics.median(getattr(each, unit) for each in every) for every in (costs, whole))
        label = what if unit == "seconds" else f"{what}, Spark's processor time"
        direct = f"{shown(full, 'ms')} (complete)"
        yield Figure("refresh by rows", label, cost / full, "ratio", limit, direct, shown(cost, "ms"), len(costs))
