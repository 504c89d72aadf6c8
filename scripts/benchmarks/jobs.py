"""Measures the cost of many jobs, on schedules and ON COMMIT: at the start, while idle, and for each write."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psutil
from clients import pyhive, rows
from processes import Engine, Gateway, descendants

from benchmarks.figures import Figure, shown, timed
from benchmarks.stand import Stand

VIEWS = 500
TABLES = 50
CREATORS = 8
DATABASE = "jobs_bench"
STORAGE = "jobs_bench_storage"
IDLE_SECONDS = 60.0
REST_SECONDS = 150.0
WRITES = 20
CHANGES = 10
START_SECONDS = {500: 5.0, 5000: 40.0}
"""The goals, by the number of views."""
KIB_OF_A_VIEW = 8.0
BUILT = 5
"""Views per table that are built, for writes to their base tables."""
WRITES_BELOW = 5
WATCH: dict[str, Any] = {"storage.database": STORAGE, "jobs.watch_interval": 3600}


def many_jobs(stand: Stand) -> Iterator[Figure]:
    """500 views, alternately on a schedule and ON COMMIT, over 50 base tables, with a gateway of their own."""
    upstream = f"{stand.engine.host}:{stand.engine.port}"
    views = stand.runs(VIEWS)
    empty = Gateway(stand.directory / "jobs-empty.log", upstream=upstream, settings=WATCH)
    bare = psutil.Process(empty.pid).memory_info().rss
    _create_tables(stand)
    before = _changes(empty)
    _create(empty, views)
    empty.stop()
    began = time.perf_counter()
    gateway = Gateway(stand.directory / "jobs.log", upstream=upstream, settings=WATCH)
    yield Figure("start with jobs", f"{views} views", time.perf_counter() - began, "s", START_SECONDS.get(views))
    try:
        process = psutil.Process(gateway.pid)
        held = process.memory_info().rss
        yield Figure("memory of jobs", f"{views} views", (held - bare) / views / 1024, "KiB a view", KIB_OF_A_VIEW)
        taken = {"direct": before, "gateway": _changes(gateway)}
        yield _compared("CREATE and DROP beside jobs", f"no other views / {views}", taken)
        yield _idle("idle minute with jobs", f"{views} views", [process])
        yield _write(stand.engine, gateway, views)
        for scheduled in (True, False):
            yield _write_below(stand.engine, gateway, scheduled=scheduled)
    finally:
        gateway.stop()
    yield from _looks(stand, views)


def _looks(stand: Stand, views: int) -> Iterator[Figure]:
    """The cost of background observations for the gateway and Spark, compared with an idle Spark. For minutes after any
    work Spark's JVM still compiles it, so an idle minute begins only after that."""
    name, upstream = "idle minute with jobs", f"{stand.engine.host}:{stand.engine.port}"
    spark = [psutil.Process(stand.engine.program.process.pid), *descendants(stand.engine.program.process.pid)]
    _rest()
    yield _idle(name, "no gateway: Spark", spark)
    watch = {**WATCH, "jobs.watch_interval": IDLE_SECONDS}
    watching = Gateway(stand.directory / "jobs-watch.log", upstream=upstream, settings=watch)
    try:
        _rest()
        subject = f"{views} views, {2 * BUILT} of them built over 2 tables, a look each minute"
        yield _idle(name, f"{subject}: the gateway", [psutil.Process(watching.pid)])
        yield _idle(name, f"{subject}: Spark", spark)
    finally:
        watching.stop()


def _create_tables(stand: Stand) -> None:
    stand.query(f"CREATE DATABASE {DATABASE}", direct=True)
    for number in range(TABLES):
        stand.query(f"CREATE TABLE {DATABASE}.t{number} (a INT) USING parquet", direct=True)


def _changes(gateway: Gateway) -> list[float]:
    """Seconds for which another view, of no rows yet, is created and dropped again."""
    create = "CREATE MATERIALIZED VIEW another BUILD DEFERRED AS SELECT a FROM t0"
    with pyhive(gateway.host, gateway.port, database=DATABASE) as cursor:
        return [
            timed(lambda: (rows(cursor, create), rows(cursor, "DROP MATERIALIZED VIEW another")))
            for _ in range(CHANGES)
        ]


def _create(gateway: Gateway, views: int) -> None:
    def create(numbers: Sequence[int]) -> None:
        with pyhive(gateway.host, gateway.port, database=DATABASE) as cursor:
            for number in numbers:
                trigger = "SCHEDULE EVERY 1 DAY" if number % 2 else "COMMIT"
                rows(
                    cursor,
                    f"CREATE MATERIALIZED VIEW v{number} BUILD DEFERRED REFRESH AUTO ON {trigger} "
                    f"AS SELECT count(*) AS n, sum(a) AS s FROM t{number % TABLES} WHERE a > {number}",
                )

    with ThreadPoolExecutor(CREATORS) as pool:
        list(pool.map(create, [range(first, views, CREATORS) for first in range(CREATORS)]))


def _rest() -> None:
    threading.Event().wait(REST_SECONDS)


def _idle(name: str, subject: str, processes: Sequence[psutil.Process]) -> Figure:
    """Processor time while nobody sends anything."""
    before = sum(map(_processor_seconds, processes))
    threading.Event().wait(IDLE_SECONDS)
    used = (sum(map(_processor_seconds, processes)) - before) * 60 / IDLE_SECONDS
    return Figure(name, subject, used * 1000, "ms of processor time")


def _write(engine: Engine, gateway: Gateway, views: int) -> Figure:
    """An INSERT into a table that no view reads, so that no refresh runs beside it, while all these views exist."""
    taken: dict[str, list[float]] = {"direct": [], "gateway": []}
    with pyhive(engine.host, engine.port) as direct, pyhive(gateway.host, gateway.port) as through:
        rows(direct, f"CREATE TABLE {DATABASE}.unread (a INT) USING parquet")
        for _ in range(WRITES):
            for name, cursor in (("direct", direct), ("gateway", through)):
                taken[name].append(_insert(cursor, "unread"))
    return _compared("a write beside jobs", f"{views} views", taken)


def _write_below(engine: Engine, gateway: Gateway, *, scheduled: bool) -> Figure:
    """The first INSERT into a table after the views that read it, all built, were refreshed."""
    table = 1 if scheduled else 0
    taken: dict[str, list[float]] = {"direct": [], "gateway": []}
    with pyhive(engine.host, engine.port) as direct, pyhive(gateway.host, gateway.port, database=DATABASE) as through:
        for _ in range(WRITES_BELOW):
            for name, cursor in (("direct", direct), ("gateway", through)):
                for number in range(table, BUILT * TABLES, TABLES):
                    rows(through, f"REFRESH MATERIALIZED VIEW v{number}")
                taken[name].append(_insert(cursor, f"t{table}"))
    kind = "on a schedule" if scheduled else "ON COMMIT"
    return _compared("a write below jobs", f"{BUILT} built views {kind}, all fresh", taken)


def _compared(name: str, subject: str, taken: dict[str, list[float]]) -> Figure:
    alone, beside = (statistics.median(taken[name]) for name in ("direct", "gateway"))
    runs = len(taken["direct"])
    return Figure(name, subject, beside / alone, "ratio", None, shown(alone, "ms"), shown(beside, "ms"), runs)


def _insert(cursor: Any, table: str) -> float:
    return timed(lambda: rows(cursor, f"INSERT INTO {DATABASE}.{table} VALUES (1)"))


def _processor_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)
