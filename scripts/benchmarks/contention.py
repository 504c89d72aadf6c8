"""Measures latency under load: fresh reads beside a refresh, and many concurrent sessions."""

from __future__ import annotations

import statistics
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any

from clients import pyhive, rows
from processes import Engine, Gateway

from benchmarks import tpch
from benchmarks.figures import Figure, shown, timed
from benchmarks.stand import Stand

READ_RUNS = 200
SESSIONS = 50
QUERIES_EACH = 10
ROUNDS = 3
SMALL = "SELECT count(*) FROM range(10)"
REFRESHED = f"{tpch.DATABASE}.wide"


def reads_beside_a_refresh(stand: Stand) -> Iterator[Figure]:
    """Reads of a fresh view while it is refreshed repeatedly, against the same reads while nothing else runs."""
    stand.views()
    query = f"SELECT count(*) FROM {REFRESHED}"
    runs = stand.runs(READ_RUNS)
    alone = _latencies(lambda: stand.query(query), runs)
    with _refreshing(stand) as count:
        beside = _latencies(lambda: stand.query(query), runs)
    if count() < 2:
        raise SystemExit("bench: no refresh ran beside the reads.")
    for name, percent in (("p50", 50), ("p99", 99)):
        before, after = percentile(alone, percent), percentile(beside, percent)
        yield Figure(
            "fresh reads beside a refresh",
            f"{name}; {count()} refreshes of the same view",
            after / before,
            "ratio",
            None,
            f"{shown(before, 'ms')} (none runs)",
            shown(after, "ms"),
            runs,
        )


@contextmanager
def _refreshing(stand: Stand) -> Iterator[Callable[[], int]]:
    """Refreshes the view until the block ends; yields a function that returns how often."""
    stop = threading.Event()
    done: list[int] = []

    def work() -> None:
        with pyhive(stand.gateway.host, stand.gateway.port) as cursor:
            while not stop.is_set():
                rows(cursor, f"REFRESH MATERIALIZED VIEW {REFRESHED}")
                done.append(1)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield lambda: len(done)
    finally:
        stop.set()
        thread.join()


def many_sessions(stand: Stand) -> Iterator[Figure]:
    """50 sessions run short queries concurrently, alternately direct and through the gateway."""
    taken: dict[str, list[float]] = {"direct": [], "gateway": []}
    with ExitStack() as stack:
        sessions = {
            "direct": [_connect(stack, stand.engine) for _ in range(SESSIONS)],
            "gateway": [_connect(stack, stand.gateway) for _ in range(SESSIONS)],
        }
        for number in range(stand.runs(ROUNDS) + 1):
            for way in sorted(sessions, reverse=number % 2 == 1):
                latencies = _at_once(sessions[way])
                if number:
                    taken[way] += latencies
    for name, percent in (("p50", 50), ("p99", 99)):
        near, far = percentile(taken["direct"], percent), percentile(taken["gateway"], percent)
        yield Figure(
            f"{SESSIONS} sessions at once",
            f"{name} of a short query",
            far / near,
            "ratio",
            None,
            shown(near, "ms"),
            shown(far, "ms"),
            len(taken["direct"]),
        )


def _connect(stack: ExitStack, server: Engine | Gateway) -> Any:
    return stack.enter_context(pyhive(server.host, server.port))


def _at_once(cursors: list[Any]) -> list[float]:
    """The seconds of each query of all sessions."""
    barrier = threading.Barrier(len(cursors))

    def work(cursor: Any) -> list[float]:
        barrier.wait()
        return [timed(lambda: rows(cursor, SMALL)) for _ in range(QUERIES_EACH)]

    with ThreadPoolExecutor(len(cursors)) as pool:
        return [seconds for found in pool.map(work, cursors) for seconds in found]


def _latencies(work: Callable[[], object], runs: int) -> list[float]:
    for _ in range(5):
        work()
    return [timed(work) for _ in range(runs)]


def percentile(seconds: list[float], percent: int) -> float:
    return statistics.quantiles(seconds, n=100, method="inclusive")[percent - 1]
