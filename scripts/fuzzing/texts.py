"""`scripts/fuzz --sql`: mutated statements, parsed by Spark's own parser and by the gateway."""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from itertools import count
from multiprocessing.connection import Connection, wait

import jpype
from clients import SPARK_HOME
from oracle.corpus import statements
from oracle.mutation import Texts
from oracle.trial import Found, Outcome, description, run, shorten

PROCESSES = 2
SHOWN_MAX = 40
"""Most misses that are shortened and printed, and most of each kind."""
OF_A_KIND_MAX = 6
_HEAP = "-Xmx1500m"


def amount(text: str) -> tuple[int | None, float | None]:
    """Parses a number of texts, or of seconds (`10m`)."""
    return (None, float(text[:-1]) * 60) if text.endswith("m") else (int(text), None)


def play(text: str, seed: int, first: int, processes: int) -> int:
    """Prints the counts last. Returns 1 if anything was missed."""
    texts, seconds = amount(text)
    processes = 1 if texts is not None and texts < 2_000 else processes
    print(f"fuzz: seed {seed}, {text} of texts by {processes} processes", flush=True)
    began = time.monotonic()
    counts = _gathered(seed, first, texts, seconds, processes)
    for name, number in sorted(counts.items()):
        print(f"fuzz: {number:9,d} {name}")
    missed = sum(number for name, number in counts.items() if name.startswith("MISSED"))
    share = counts["accepted by Spark"] / max(1, counts["texts"])
    print(f"fuzz: {share:.1%} accepted by Spark, {missed} missed, {time.monotonic() - began:.0f} seconds")
    return 1 if missed else 0


def _gathered(seed: int, first: int, texts: int | None, seconds: float | None, processes: int) -> Counter[str]:
    context = multiprocessing.get_context("spawn")
    counts, open_ends = Counter[str](), list[Connection]()
    workers = []
    for place in range(processes):
        receiving, sending = context.Pipe(duplex=False)
        share = None if texts is None else len(range(place, texts, processes))
        worker = context.Process(target=_work, args=(sending, seed, first + place, processes, share, seconds))
        worker.start()
        sending.close()
        workers.append(worker)
        open_ends.append(receiving)
    printed = time.monotonic()
    while open_ends:
        for end in wait(open_ends):
            assert isinstance(end, Connection)
            try:
                kind, value = end.recv()
            except EOFError:
                open_ends.remove(end)
                continue
            if kind == "counts":
                counts += value
            else:
                print(f"fuzz: FOUND: {value}", flush=True)
        if time.monotonic() - printed > 60:
            printed = time.monotonic()
            print(f"fuzz: {counts['texts']:,} texts so far, {counts['accepted by Spark']:,} accepted", flush=True)
    for worker in workers:
        worker.join()
        if worker.exitcode:
            counts[f"MISSED: a process ended with {worker.exitcode}"] += 1
    return counts


def _work(sending: Connection, seed: int, first: int, step: int, texts: int | None, seconds: float | None) -> None:
    # Only Java's C1 compiler: what ANTLR learns matters more than better code. Only the class of an error matters.
    jpype.startJVM(
        *(_HEAP, "-Xrs", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xss16m", "-XX:-StackTraceInThrowable"),
        classpath=[str(SPARK_HOME / "jars" / "*")],
        convertStrings=True,
    )
    os.nice(5)
    end = None if seconds is None else time.monotonic() + seconds
    shown: Counter[str] = Counter()

    def on_batch(outcome: Outcome) -> bool:
        sending.send(("counts", outcome.counts))
        for found in outcome.found:
            _show(found, sending, seed, shown)
        return end is None or time.monotonic() < end

    run(Texts(statements(), seed), _numbers(first, step, texts), on_batch)
    sending.close()
    sys.stdout.flush()
    os._exit(0)  # Otherwise Java would wait for its threads.


def _show(found: Found, sending: Connection, seed: int, shown: Counter[str]) -> None:
    shown[found.kind] += 1
    if shown[found.kind] <= OF_A_KIND_MAX and shown.total() <= SHOWN_MAX:
        shorten(found)
        sending.send(("found", description(found, seed)))


def _numbers(first: int, step: int, texts: int | None) -> Iterator[int]:
    return iter(range(first, first + step * texts, step)) if texts is not None else count(first, step)
