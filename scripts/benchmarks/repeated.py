"""Measures repeated reads of dashboards over materialized views: answered from the gateway's memory, against the same
reads of the same views directly at Spark, where they are plain views."""

from __future__ import annotations

import re
import threading
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import count
from typing import Any

from clients import Jdbc, pyhive, rows
from processes import Engine, Gateway, free_port

from benchmarks import dashboards
from benchmarks.contention import SESSIONS, percentile
from benchmarks.figures import Figure, in_turn, shown, timed
from benchmarks.stand import Stand

RATIO = 0.05
RUNS = 30
ROUNDS = 2
DATABASE = "bench_dashboard"
QUERIES = (
    "SELECT year(l_shipdate) AS y, sum(revenue) AS r FROM {0}.daily_lines GROUP BY 1 ORDER BY 1",
    "SELECT l_shipmode, sum(lines) AS n FROM {0}.daily_lines GROUP BY 1 ORDER BY 2 DESC",
    "SELECT l_returnflag, l_linestatus, sum(price) AS p FROM {0}.daily_lines GROUP BY 1, 2",
    "SELECT trunc(l_shipdate, 'MM') AS m, sum(quantity) AS q FROM {0}.daily_lines GROUP BY 1 ORDER BY 1",
    "SELECT c_mktsegment, sum(orders) AS n, sum(total) AS t FROM {0}.segment_days GROUP BY 1",
    "SELECT trunc(o_orderdate, 'MM') AS m, o_orderpriority, sum(orders) AS n FROM {0}.segment_days GROUP BY 1, 2",
    "SELECT n_name, sum(revenue) AS r FROM {0}.nation_days GROUP BY 1 ORDER BY 2 DESC LIMIT 10",
    "SELECT r_name, year(o_orderdate) AS y, sum(revenue) AS r FROM {0}.nation_days GROUP BY 1, 2",
)
"""One dashboard: what it shows is read once for each person who opens it."""


def figures(stand: Stand) -> Iterator[Figure]:
    """Ends the bench if an answer is another one than Spark's."""
    stand.load_tables()
    metrics = free_port()
    settings: dict[str, Any] = {"storage.database": "bench_kept_storage", "metrics.port": metrics}
    gateway = Gateway(
        stand.directory / "kept.log", upstream=f"{stand.engine.host}:{stand.engine.port}", settings=settings
    )
    try:
        with pyhive(gateway.host, gateway.port) as through:
            rows(through, f"CREATE DATABASE {DATABASE}")
            for name, query in dashboards.VIEWS.items():
                rows(through, f"CREATE MATERIALIZED VIEW {DATABASE}.{name} AS {query}")
            queries = [query.format(DATABASE) for query in QUERIES]
            yield _through_pyhive(stand, through, queries)
            yield _through_jdbc(stand, gateway, queries)
            yield _first_reads(stand, through)
        before = _counts(metrics)
        yield from _many(stand, gateway, queries)
        yield from _kept(before, _counts(metrics))
    finally:
        gateway.stop()


def _through_pyhive(stand: Stand, through: Any, queries: Sequence[str]) -> Figure:
    for query in queries:
        if sorted(map(str, stand.query(query, direct=True))) != sorted(map(str, rows(through, query))):
            raise SystemExit(f"bench: the gateway gives other rows for {query}")
    turns = in_turn(
        lambda: [stand.query(query, direct=True) for query in queries],
        lambda: [rows(through, query) for query in queries],
        stand.runs(RUNS),
    )
    return turns.ratio("repeated dashboard", f"{len(queries)} queries, PyHive", RATIO)


def _through_jdbc(stand: Stand, gateway: Gateway, queries: Sequence[str]) -> Figure:
    with Jdbc(stand.engine.url) as direct, Jdbc(gateway.url) as through:
        turns = in_turn(
            lambda: [direct.query(query) for query in queries],
            lambda: [through.query(query) for query in queries],
            stand.runs(RUNS),
        )
    return turns.ratio("repeated dashboard", f"{len(queries)} queries, JDBC", RATIO)


def _first_reads(stand: Stand, through: Any) -> Figure:
    """What it costs that the gateway reads a result before its client does, where it is never read again."""
    number, (near, far) = count(), (stand.direct, through)
    query = f"SELECT c_mktsegment, sum(orders) AS n FROM {DATABASE}.segment_days WHERE orders <> -{{}} GROUP BY 1"
    turns = in_turn(
        lambda: rows(near, query.format(next(number))),
        lambda: rows(far, query.format(next(number))),
        stand.runs(RUNS),
        warm_up=3,
    )
    return turns.ratio("first read of a query", "never read again, PyHive", None)


def _many(stand: Stand, gateway: Gateway, queries: Sequence[str]) -> Iterator[Figure]:
    """All sessions open the dashboard at once, alternately directly and through the gateway."""
    taken: dict[str, list[float]] = {"direct": [], "gateway": []}
    with ExitStack() as stack:
        ways: Mapping[str, Engine | Gateway] = {"direct": stand.engine, "gateway": gateway}
        sessions = {
            way: [stack.enter_context(pyhive(server.host, server.port)) for _ in range(SESSIONS)]
            for way, server in ways.items()
        }
        for number in range(stand.runs(ROUNDS)):
            for way in sorted(sessions, reverse=number % 2 == 1):
                taken[way] += _opened(sessions[way], queries)
    for name, percent in (("p50", 50), ("p99", 99)):
        near, far = percentile(taken["direct"], percent), percentile(taken["gateway"], percent)
        yield Figure(
            f"{SESSIONS} sessions open a dashboard",
            f"{name} of one of {len(queries)} queries",
            far / near,
            "ratio",
            None,
            shown(near, "ms"),
            shown(far, "ms"),
            len(taken["direct"]),
        )


def _opened(cursors: Sequence[Any], queries: Sequence[str]) -> list[float]:
    """The seconds of each query of all sessions."""
    barrier = threading.Barrier(len(cursors))

    def work(cursor: Any) -> list[float]:
        barrier.wait()
        return [timed(lambda query=query: rows(cursor, query)) for query in queries]  # type: ignore[misc]

    with ThreadPoolExecutor(len(cursors)) as pool:
        return [seconds for found in pool.map(work, cursors) for seconds in found]


def _counts(port: int) -> dict[str, float]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        text = answer.read().decode()
    return {name: float(value) for name, value in re.findall(r"^freshgate_result_cache_(\w+) (\S+)$", text, re.M)}


def _kept(before: Mapping[str, float], after: Mapping[str, float]) -> Iterator[Figure]:
    from_memory, computed = (
        sum(after[name] - before[name] for name in names)
        for names in (("hits_total", "shared_total"), ("misses_total",))
    )
    yield Figure("answers from memory", "hit rate of these sessions", from_memory / (from_memory + computed), "")
    yield Figure("answers from memory", f"{after['entries']:.0f} results", after["bytes"] / 1024, "KiB")
