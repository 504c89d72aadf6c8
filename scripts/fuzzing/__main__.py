"""The command line of scripts/fuzz."""

from __future__ import annotations

import argparse
import asyncio
import resource
import secrets
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import uvloop
from clients import start_jvm
from world import runner as histories

from fuzzing import costs_search, golden_files, texts
from fuzzing.phases import Cast, churn, fuzz, idle, record, record_http
from fuzzing.stage import Stage

DESCRIPTORS = 16_000


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the seed first and the counts last. Returns 1 if anything was found."""
    options = _parser().parse_args(arguments)
    seed = options.seed if options.seed is not None else secrets.randbelow(1 << 30)
    if options.sql is not None:
        return texts.play(options.sql, seed, options.first, options.processes)
    if options.world is not None:
        return histories.play(options.world, seed, options.processes)
    if options.costs is not None:
        return costs_search.play(options.costs, seed)
    if options.golden is not None:
        return golden_files.play(options.golden)
    _allow_descriptors()
    if options.jdbc:
        start_jvm()
    print(f"fuzz: seed {seed}, {options.minutes:g} minutes", flush=True)
    # Without this, SIGTERM would leave the gateway running.
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    with tempfile.TemporaryDirectory(prefix="freshgate-fuzz-") as directory:
        stage = Stage(Path(directory), seed, engine=options.engine)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_play(stage, options))
    for name, count in sorted(stage.counts.items()):
        print(f"fuzz: {count:8d} {name}")
    for fault in stage.faults[:20]:
        print(f"fuzz: FOUND: {fault}")
    print(f"fuzz: {len(stage.faults)} findings")
    return 1 if stage.faults else 0


async def _play(stage: Stage, options: argparse.Namespace) -> None:
    began = time.monotonic()
    try:
        await stage.start()
        recorded = await asyncio.to_thread(record, stage, jdbc=options.jdbc)
        recorded_http = await asyncio.to_thread(record_http, stage, jdbc=options.jdbc)
        # First, because later they would reuse freed memory and seem to take none.
        await idle(stage, options.idle)
        await fuzz(stage, options.minutes, Cast(options.attackers, options.honest, recorded, recorded_http))
        await churn(stage, options.churn)
    finally:
        await stage.close()
    print(f"fuzz: {time.monotonic() - began:.0f} seconds")


def _allow_descriptors() -> None:
    """Raises the descriptor limit: each idle session has two connections, with both ends in this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = min(DESCRIPTORS, hard) if hard != resource.RLIM_INFINITY else DESCRIPTORS
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="scripts/fuzz",
        description="Opens idle sessions, then attacks a running gateway beside honest clients whose answers are "
        "checked, then opens and closes connections. Looks for crashes, hangs, cross-talk, growth and leaks.",
    )
    parser.add_argument("minutes", type=float, nargs="?", default=10.0, help="minutes of attacks; default 10")
    parser.add_argument(
        "--seed", type=int, help="seed of the random numbers; it is printed, so that a run can be repeated"
    )
    parser.add_argument(
        "--churn", type=int, default=10_000, metavar="N", help="connections to open and close over each transport"
    )
    parser.add_argument("--idle", type=int, default=1000, metavar="N", help="idle sessions over each transport")
    parser.add_argument(
        "--attackers", type=int, default=8, metavar="N", help="concurrent attackers over each transport"
    )
    parser.add_argument(
        "--honest", type=int, default=3, metavar="N", help="concurrent honest clients over each transport"
    )
    parser.add_argument("--engine", action="store_true", help="use Spark itself instead of a small replacement server")
    parser.add_argument("--jdbc", action="store_true", help="also record a session of the Hive JDBC driver")
    parser.add_argument(
        "--sql",
        metavar="TEXTS|MINUTESm",
        nargs="?",
        const="10m",
        help="instead: mutated statements, parsed by Spark's own parser and by the gateway, which must miss nothing; "
        "this many texts, or for this many minutes (20m)",
    )
    parser.add_argument(
        "--world",
        metavar="N",
        type=int,
        help="instead: this many histories of a simulated Spark, clients and crashes; the seed is the "
        "first one's, the others follow",
    )
    parser.add_argument(
        "--costs",
        metavar="MINUTES",
        type=float,
        nargs="?",
        const=10.0,
        help="instead: a search for texts that take more than linear time to read; default 10 minutes",
    )
    parser.add_argument(
        "--golden",
        metavar="PATTERN",
        nargs="*",
        help="instead: the SQL files of Spark's own tests, directly and through a gateway; all, or those whose names "
        "match, in the order of the patterns, except those that match a pattern after a !",
    )
    parser.add_argument("--first", type=int, default=0, metavar="N", help="with --sql: number of the first text")
    parser.add_argument(
        "--processes", type=int, default=texts.PROCESSES, metavar="N", help="with --sql and --world: how many processes"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
