"""Measures dashboards over views in memory: answered by the engine beside the gateway, against the same at Spark.

All sessions are those of one gateway with an embedded Spark. No result is given again: each answer is computed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from clients import log_of, pyhive, rows
from processes import Gateway, wait_until

from benchmarks import dashboards, tpch
from benchmarks.figures import Figure, Turns, in_turn, timed
from benchmarks.stand import DRIVER_MEMORY, Stand

RATIO = 0.05
"""Target of a dashboard, against its base tables."""
LOAD_SECONDS = 2.0
SAME = 1.05
RUNS = 9
ROWS = 1_000_000
LOADED_SECONDS = 120.0
BESIDE = 8
"""Sessions that read while something else is timed."""
QUERIES = (
    "SELECT year(l_shipdate) AS {2}y, sum(revenue) AS r FROM {0}.daily_lines WHERE lines > {1} GROUP BY 1 ORDER BY 1",
    "SELECT l_shipmode, sum(lines) AS {2}n FROM {0}.daily_lines WHERE quantity > {1} GROUP BY 1 ORDER BY 2 DESC",
    "SELECT trunc(o_orderdate, 'MM') AS {2}m, sum(orders) AS n FROM {0}.segment_days WHERE total > {1} GROUP BY 1",
    "SELECT n_name, sum(revenue) AS {2}r FROM {0}.nation_days WHERE revenue > {1} GROUP BY 1 ORDER BY 2 DESC LIMIT 10",
)
"""Of a database, with a number, and with the beginning of a column's name."""
OFF = "SET freshgate.memory = off"


def figures(stand: Stand) -> Iterator[Figure]:
    """Ends the bench if a query is not answered from memory, or with other rows."""
    with served(stand, "from-memory") as gateway:
        with pyhive(gateway.host, gateway.port) as base, pyhive(gateway.host, gateway.port) as view:
            rows(base, "SET freshgate.rewrite = off")
            for name, query in dashboards.DASHBOARDS.items():
                yield from _dashboard(stand, base, view, name, query)
        yield from _beside(stand, gateway)
        yield _after_a_refresh(stand, gateway)
        yield from _loads(stand, gateway)


@contextmanager
def served(stand: Stand, name: str, **more: Any) -> Iterator[Gateway]:
    """A gateway of its own with the views of the dashboards in memory. `more`: further settings."""
    settings: dict[str, Any] = {
        "engine.spark.driver.memory": DRIVER_MEMORY,
        "result_cache.bytes": 0,
        "memory.view_bytes": 1 << 28,
        **more,
    }
    gateway = Gateway(stand.directory / f"{name}.log", data_dir=stand.directory / name, settings=settings)
    try:
        with pyhive(gateway.host, gateway.port) as cursor:
            tpch.load(lambda sql: rows(cursor, sql), stand.scale, stand.directory / f"{name}-tpch")
            for view, query in dashboards.VIEWS.items():
                created = f"CREATE MATERIALIZED VIEW {tpch.DATABASE}.{view} ENABLE QUERY REWRITE IN MEMORY"
                rows(cursor, f"{created} AS {query}")
                _wait_for_rows(cursor, view)
        yield gateway
    finally:
        gateway.stop()


def _dashboard(stand: Stand, base: Any, view: Any, name: str, query: str) -> Iterator[Figure]:
    if not is_answered(view, query):
        print(f"bench: {name} is not answered from memory: {rows(view, f'EXPLAIN REWRITE {query}')}")
        return
    if sorted(map(str, rows(base, query))) != sorted(map(str, rows(view, query))):
        raise SystemExit(f"bench: {name} has other rows from memory.")
    turns = in_turn(lambda: rows(base, query), lambda: rows(view, query), stand.runs(RUNS))
    yield turns.ratio("dashboards from memory", f"{name}, TPC-H scale {stand.scale:g}", RATIO)


def is_answered(cursor: Any, query: str) -> bool:
    """Whether a query is answered from memory, once it was learned."""
    try:
        wait_until(lambda: _from_memory(cursor, query), dashboards.PROOF_SECONDS, "an answer from memory")
    except AssertionError:
        return False
    return True


def _from_memory(cursor: Any, query: str) -> bool:
    return any("Answered from rows in memory" in line for line in log_of(cursor, query))


def _wait_for_rows(cursor: Any, name: str) -> None:
    def is_loaded() -> bool:
        ((*found,),) = rows(cursor, f"SHOW MATERIALIZED VIEWS IN {tpch.DATABASE} LIKE '{name}'")
        return "LOADED" in found

    wait_until(is_loaded, LOADED_SECONDS, f"the rows of {name} in memory")


def _questions(session: int) -> Iterator[str]:
    """What a session asks: nobody else asks the same. All numbers have as many digits, and so one shape."""
    for number, query in enumerate(QUERIES):
        yield query.format(tpch.DATABASE, 1000 + session * len(QUERIES) + number, "")


def _beside(stand: Stand, gateway: Gateway) -> Iterator[Figure]:
    """Statements of Spark while other sessions read views: from memory, against the same reads at Spark."""
    asked = {
        "SELECT 1": "SELECT 1",
        "a fresh read": f"SELECT count(*) FROM {tpch.DATABASE}.segment_days WHERE orders > 0",
    }
    for name, query in asked.items():
        taken = {memory: list[float]() for memory in (False, True)}
        for memory in (False, True, True, False):
            with pyhive(gateway.host, gateway.port) as cursor, _readers(gateway, memory=memory):
                rows(cursor, OFF)
                taken[memory] += [timed(lambda: rows(cursor, query)) for _ in range(stand.runs(RUNS))]  # noqa: B023
        turns = Turns(taken[False], taken[True])
        yield turns.ratio("beside readers", f"{name}, beside {BESIDE} sessions that read views in memory", SAME)


@contextmanager
def _readers(gateway: Gateway, *, memory: bool) -> Iterator[None]:
    """Sessions that read views, one dashboard after the other with a pause as people make."""
    stop = threading.Event()

    def work(number: int) -> None:
        with pyhive(gateway.host, gateway.port) as cursor:
            if not memory:
                rows(cursor, OFF)
            while not stop.is_set():
                for query in _questions(number):
                    rows(cursor, query)
                stop.wait(1.0)

    with ThreadPoolExecutor(BESIDE) as pool:
        working = [pool.submit(work, number) for number in range(BESIDE)]
        try:
            yield
        finally:
            stop.set()
    for each in working:
        each.result()


def _after_a_refresh(stand: Stand, gateway: Gateway) -> Figure:
    """The first answer after a refresh, which is Spark's: for a view that is being loaded, and for one that is not."""
    name = f"{tpch.DATABASE}.daily_lines"
    query = next(_questions(0))
    with pyhive(gateway.host, gateway.port) as cursor:

        def first() -> float:
            rows(cursor, f"REFRESH MATERIALIZED VIEW {name} COMPLETE")
            return timed(lambda: rows(cursor, query))

        taken = {memory: list[float]() for memory in (False, True)}
        for number in range(stand.runs(RUNS) * 2):
            memory = number % 4 in (1, 2)
            rows(cursor, f"ALTER MATERIALIZED VIEW {name} SET {'IN' if memory else 'NOT IN'} MEMORY")
            if memory:
                _wait_for_rows(cursor, "daily_lines")
            taken[memory].append(first())
    return Turns(taken[False], taken[True]).ratio("first answer after a refresh", "of a view in memory, by Spark", SAME)


def _loads(stand: Stand, gateway: Gateway) -> Iterator[Figure]:
    """The seconds from the ALTER until the rows are in memory."""
    name = "a_million"
    columns = (
        "id, CAST(id % 1000 AS INT) AS n, CAST(id AS DECIMAL(12,2)) / 4 AS amount, concat('shop ', id % 500) AS shop"
    )
    with pyhive(gateway.host, gateway.port) as cursor:
        rows(cursor, f"CREATE TABLE {tpch.DATABASE}.sold AS SELECT {columns}, current_date() AS day FROM range({ROWS})")
        rows(cursor, f"CREATE MATERIALIZED VIEW {tpch.DATABASE}.{name} AS SELECT * FROM {tpch.DATABASE}.sold")
        taken = list[float]()
        for _ in range(stand.runs(RUNS)):
            rows(cursor, f"ALTER MATERIALIZED VIEW {tpch.DATABASE}.{name} SET IN MEMORY")
            began = time.monotonic()
            _wait_for_rows(cursor, name)
            taken.append(time.monotonic() - began)
            rows(cursor, f"ALTER MATERIALIZED VIEW {tpch.DATABASE}.{name} UNSET IN MEMORY")
    median = sorted(taken)[len(taken) // 2]
    yield Figure("load", f"{ROWS:,} rows of five columns", median, "s", LOAD_SECONDS, runs=len(taken))
