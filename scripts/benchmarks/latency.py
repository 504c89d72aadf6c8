"""Measures the latency of short queries that read almost nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from clients import Jdbc, rows

from benchmarks.figures import Figure, in_turn
from benchmarks.stand import Stand

LIMIT = 1.05
RUNS = 200
WARM_UP = 20
TABLE = "bench_small"
QUERIES = {"SELECT 1": "SELECT 1 AS one", "10 rows of a table": f"SELECT * FROM {TABLE} WHERE n < 10"}
LIMITS = {"10 rows of a table": LIMIT}
"""`SELECT 1` has its limit beside HAProxy, in the measure `relay`."""


def without_views(stand: Stand) -> Iterator[Figure]:
    """Short queries without materialized views. Must be measured before any is created."""
    yield from _figures(stand, "no views")


def with_views(stand: Stand) -> Iterator[Figure]:
    """Short queries that mention none of the existing materialized views."""
    count = len(stand.views())
    yield from _figures(stand, f"{count} views")


def _figures(stand: Stand, catalog: str) -> Iterator[Figure]:
    stand.query(f"CREATE TABLE IF NOT EXISTS {TABLE} USING parquet AS SELECT id AS n, id * 2 AS m FROM range(100)")
    runs = stand.runs(RUNS)
    for subject, query in QUERIES.items():
        direct, through = (_by_pyhive(cursor, query) for cursor in stand.cursors())
        turns = in_turn(direct, through, runs, warm_up=min(runs, WARM_UP))
        yield turns.ratio("latency", f"{subject}, PyHive, {catalog}", LIMITS.get(subject))
        with stand.jdbc() as connections:
            direct, through = (_by_jdbc(connection, query) for connection in connections)
            turns = in_turn(direct, through, runs, warm_up=min(runs, WARM_UP))
        yield turns.ratio("latency", f"{subject}, JDBC, {catalog}", LIMITS.get(subject))


def _by_pyhive(cursor: Any, query: str) -> Callable[[], object]:
    return lambda: rows(cursor, query)


def _by_jdbc(connection: Jdbc, query: str) -> Callable[[], object]:
    return lambda: connection.query(query)
