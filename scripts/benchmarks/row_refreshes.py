"""Measures refreshes by rows, in turn with complete ones, in a gateway with an embedded Spark."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from clients import pyhive, rows
from processes import Gateway

from benchmarks.figures import Figure, in_turn, shown, timed
from benchmarks.stand import DRIVER_MEMORY, Stand

DATABASE = "bench_rows"
ROWS_FACTOR = 40
"""Of the rows of a large result: 40 million by default."""
GROUPS = 100_000
RUNS = 5
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
            for case in CASES:
                yield from _case(cursor, case, count, stand.runs(RUNS))
    finally:
        gateway.stop()


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


def _case(cursor: Any, case: Case, count: int, runs: int) -> Iterator[Figure]:
    view = f"{DATABASE}.{case.name.replace(' ', '_')}"
    plain = f"{view}_complete"
    rows(cursor, f"CREATE MATERIALIZED VIEW {view} REFRESH INCREMENTAL FALLBACK AS {case.definition}")
    rows(cursor, f"CREATE MATERIALIZED VIEW {plain} REFRESH COMPLETE AS {case.definition}")
    ways: dict[str, Callable[[], object]] = {
        "rows": lambda: rows(cursor, f"REFRESH MATERIALIZED VIEW {view} INCREMENTAL"),
        "states": lambda: rows(cursor, f"REFRESH MATERIALIZED VIEW {view} COMPLETE"),
        "complete": lambda: rows(cursor, f"REFRESH MATERIALIZED VIEW {plain} COMPLETE"),
    }
    percent = {way: [_after(cursor, count // 100, work) for _ in range(runs)] for way, work in ways.items()}
    few = [_after(cursor, FEW, ways["rows"]) for _ in range(runs)]
    middle = {way: statistics.median(taken) for way, taken in percent.items()}
    whole, least = middle["complete"], statistics.median(few)
    yield _figure(case.name, "1 % of new rows, by rows", middle["rows"], whole, case.target, runs)
    yield _figure(case.name, f"{FEW:,} new rows, by rows", least, whole, None, runs)
    yield _figure(case.name, "complete, with states for later ones", middle["states"], whole, 1.1, runs)
    yield _read(cursor, case.name, view, plain, runs)


def _read(cursor: Any, name: str, view: str, plain: str, runs: int) -> Figure:
    """A read of all rows: a view without groups shows those of several refreshes together."""
    for each in (f"{view} INCREMENTAL", f"{plain} COMPLETE"):
        rows(cursor, f"REFRESH MATERIALIZED VIEW {each}")
    queries = [f"SELECT count(*), sum(hash(*)) FROM {each}" for each in (plain, view)]
    if rows(cursor, queries[0]) != rows(cursor, queries[1]):
        raise SystemExit(f"bench: {view} and {plain} have other rows.")
    turns = in_turn(lambda: rows(cursor, queries[0]), lambda: rows(cursor, queries[1]), 2 * runs)
    return turns.ratio("refresh by rows", f"{name}: read of all rows after {runs} refreshes by rows", 1.1)


def _after(cursor: Any, count: int, work: Callable[[], object]) -> float:
    rows(cursor, _insert(count))
    return timed(work)


def _figure(name: str, what: str, seconds: float, whole: float, target: float | None, runs: int) -> Figure:
    return Figure(
        "refresh by rows",
        f"{name}: {what}",
        seconds / whole,
        "ratio",
        target,
        f"{shown(whole, 'ms')} (complete)",
        shown(seconds, "ms"),
        runs,
    )
