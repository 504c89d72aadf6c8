"""Measures many sessions that ask views in memory different things at once, against the same queries at Spark.

All sessions are those of one gateway with an embedded Spark, and no result is given again: each answer is computed.
The clients are processes of their own, because fifty sessions of one Python process would wait for each other.
"""

from __future__ import annotations

import gc
import multiprocessing
import re
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from multiprocessing.connection import Connection
from typing import Any, Self

from clients import pyhive, rows
from processes import Gateway, free_port

from benchmarks import tpch
from benchmarks.contention import SESSIONS, percentile
from benchmarks.figures import Figure, shown
from benchmarks.from_memory import OFF, QUERIES, is_answered, served
from benchmarks.stand import Stand

RATIO = 0.1
"""Target of the 99th percentile, once the shapes of the queries are known."""
PROCESSES = 4
ROUNDS = 6
"""How often each way opens the dashboard, alternately; the first time of each is not counted."""
NEW_ROUNDS = 3
"""Dashboards with new shapes."""

Latencies = list[float]


class Crowd:
    """Sessions in several processes. A context manager."""

    def __init__(self, gateway: Gateway, *first: str) -> None:
        """`first`: statements that each session runs before all others."""
        self._stack = ExitStack()
        context = multiprocessing.get_context("spawn")
        self._processes: list[tuple[Connection, range]] = []
        for number in range(PROCESSES):
            numbers = range(number, SESSIONS, PROCESSES)
            ours, theirs = context.Pipe()
            process = context.Process(target=_work, args=(theirs, gateway.host, gateway.port, len(numbers), first))
            process.start()
            theirs.close()
            self._stack.callback(process.join)
            self._stack.callback(ours.close)
            self._processes.append((ours, numbers))
        for connection, _ in self._processes:
            connection.recv()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def opens(self, texts: Sequence[Sequence[str]]) -> Latencies:
        """The seconds of each query, if the n-th session asks the n-th texts one after the other."""
        at = time.time() + 0.2
        for connection, numbers in self._processes:
            connection.send((at, [texts[number] for number in numbers]))
        return [seconds for connection, _ in self._processes for seconds in connection.recv()]


def _work(connection: Connection, host: str, port: int, sessions: int, first: Sequence[str]) -> None:
    """One process of a crowd, until its connection is closed."""
    with ExitStack() as stack, ThreadPoolExecutor(sessions) as pool:
        cursors = [stack.enter_context(pyhive(host, port)) for _ in range(sessions)]
        for cursor in cursors:
            for statement in first:
                rows(cursor, statement)
        connection.send(None)
        while True:
            try:
                at, texts = connection.recv()
            except EOFError:
                return
            gc.collect()
            gc.disable()
            time.sleep(max(at - time.time(), 0.0))
            connection.send([each for found in pool.map(_asked, cursors, texts) for each in found])
            gc.enable()


def _asked(cursor: Any, texts: Sequence[str]) -> Latencies:
    taken = list[float]()
    for text in texts:
        began = time.perf_counter()
        rows(cursor, text)
        taken.append(time.perf_counter() - began)
    return taken


def figures(stand: Stand) -> Iterator[Figure]:
    """Ends the bench if a query is not answered from memory."""
    metrics = free_port()
    with (
        served(stand, "crowd", **{"metrics.port": metrics}) as gateway,
        Crowd(gateway, OFF) as at_spark,
        Crowd(gateway) as in_memory,
    ):
        ways = {False: at_spark, True: in_memory}
        yield from _known(stand, gateway, ways, partial(_answers, metrics))
        yield from _new(stand, ways)


def _known(
    stand: Stand, gateway: Gateway, ways: Mapping[bool, Crowd], answers: Callable[[], float]
) -> Iterator[Figure]:
    """All sessions open a dashboard at once, each with filters of its own, whose shapes are known."""
    with pyhive(gateway.host, gateway.port) as cursor:
        for text in _dashboard(0):
            if not is_answered(cursor, text):
                raise SystemExit(f"bench: not answered from memory: {text}")
    taken: dict[bool, Latencies] = {False: [], True: []}
    before, rounds = answers(), stand.runs(ROUNDS)
    for number in range(rounds + 1):
        for memory in (True, False) if number % 2 else (False, True):
            latencies = ways[memory].opens([_dashboard(number * SESSIONS + session) for session in range(SESSIONS)])
            if number:
                taken[memory] += latencies
    answered = (answers() - before) / (SESSIONS * len(QUERIES) * (rounds + 1))
    yield from _compared(taken, "ask different things", RATIO)
    yield Figure(f"{SESSIONS} sessions ask different things", "answered from memory", answered, "", at_least=0.99)


def _new(stand: Stand, ways: Mapping[bool, Crowd]) -> Iterator[Figure]:
    """The same, with shapes that are new to the gateway: Spark answers until it has planned them."""
    taken: dict[bool, Latencies] = {False: [], True: []}
    for number in range(stand.runs(NEW_ROUNDS)):
        for memory in (True, False) if number % 2 else (False, True):
            texts = [_dashboard(session, f"of_{number}_") for session in range(SESSIONS)]
            taken[memory] += ways[memory].opens(texts)
    yield from _compared(taken, "ask things of new shapes", None)


def _dashboard(number: int, named: str = "") -> list[str]:
    """Queries that no other number below 9000 has, of the same shapes; `named` makes their shapes others."""
    return [query.format(tpch.DATABASE, 1000 + number, named) for query in QUERIES]


def _compared(taken: Mapping[bool, Latencies], what: str, limit: float | None) -> Iterator[Figure]:
    for name, percent in (("p50", 50), ("p99", 99)):
        near, far = percentile(taken[False], percent), percentile(taken[True], percent)
        yield Figure(
            f"{SESSIONS} sessions {what}",
            f"{name} of one of {len(QUERIES)} queries, of the same views at Spark",
            far / near,
            "ratio",
            limit if percent == 99 else None,
            shown(near, "ms"),
            shown(far, "ms"),
            len(taken[True]),
        )


def _answers(port: int) -> float:
    """The answers from memory since the gateway's start."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        found = re.search(r"^freshgate_memory_answers_total (\S+)$", answer.read().decode(), re.M)
    assert found is not None
    return float(found[1])
