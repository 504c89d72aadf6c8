"""The command line of scripts/soak."""

from __future__ import annotations

import argparse
import secrets
import signal
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

from clients import start_jvm

from soaking.actors import cast
from soaking.stage import Stage


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the seed first and the counts last. Returns 1 if a read was wrong, or failed without a kill."""
    options = _parser().parse_args(arguments)
    seed = options.seed if options.seed is not None else secrets.randbelow(1 << 30)
    start_jvm()
    print(f"soak: seed {seed}, {options.minutes:g} minutes", flush=True)
    # Without this, SIGTERM would leave Spark and the gateway running.
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    with tempfile.TemporaryDirectory(prefix="freshgate-soak-") as directory:
        stage = Stage(Path(directory), seed)
        try:
            _play(stage, options)
        finally:
            stage.stop.set()
            stage.close()
    for name, count in sorted(stage.counts.items()):
        print(f"soak: {count:8d} {name}")
    for wrong in stage.faults[:20]:
        print(f"soak: WRONG: {wrong}")
    print(f"soak: {len(stage.faults)} faults")
    return 1 if stage.faults else 0


def _play(stage: Stage, options: argparse.Namespace) -> None:
    actors = cast(stage, options.kill)
    threads = [threading.Thread(target=actor.run, name=actor.name) for actor in actors]
    for thread in threads:
        thread.start()
    stage.stop.wait(options.minutes * 60)
    # On a slow machine the time may be too short to show anything.
    while any(stage.counts[actor.name] < options.each for actor in actors) and not stage.stop.wait(1):
        pass
    stage.stop.set()
    for thread in threads:
        thread.join()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="scripts/soak",
        description="Runs everything at once, with kill -9 of the gateway and of Spark; each read is checked.",
    )
    parser.add_argument("minutes", type=float, nargs="?", default=10.0, help="duration in minutes; default 10")
    parser.add_argument(
        "--seed", type=int, help="seed of the random numbers; it is printed, so that a run can be repeated"
    )
    parser.add_argument("--each", type=int, default=0, metavar="N", help="continue until each actor has acted N times")
    parser.add_argument(
        "--kill",
        type=float,
        default=40.0,
        metavar="SECONDS",
        help="approximate time between kills, or until each actor has acted; default 40",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
