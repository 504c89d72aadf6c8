"""Plays histories: `python -m world --histories 1000`, in the `environment`.

In a process of its own, because it replaces the clocks of the gateway's modules. With a fixed hash seed, because the
order of sets is a part of each history.
"""

from __future__ import annotations

import argparse
import gc
import logging
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from world import assembly, bugs, edges, story
from world.edges import Edges
from world.shapes import Shape

ROOT = Path(__file__).parents[2]
COLLECTED_EVERY = 50
"""Histories. Never within one: the finalizers of an earlier history must not run in it."""


def environment() -> dict[str, str]:
    """The environment of a process that plays histories."""
    return {**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])}


def play(histories: int, seed: int, processes: int) -> int:
    """Plays histories in several processes, from a seed on. Returns 1 if one went wrong."""
    print(f"world: seed {seed}, {histories:,} histories by {processes} processes", flush=True)
    share = -(-histories // processes)
    starts = range(seed, seed + histories, share)
    commands = [
        [sys.executable, "-m", "world", f"--first={start}", f"--histories={min(share, seed + histories - start)}"]
        for start in starts
    ]
    running = [subprocess.Popen(command, cwd=ROOT, env=environment()) for command in commands]
    return max(process.wait() for process in running)


def main(arguments: Sequence[str] | None = None) -> int:
    """1 if a history has gone wrong; with --bugs, if a bug was not found."""
    options = _parser().parse_args(arguments)
    if os.environ.get("PYTHONHASHSEED") != "0":
        sys.exit("Set PYTHONHASHSEED=0: the order of sets is a part of each history.")
    logging.disable(logging.CRITICAL)
    assembly.install()
    clocks = edges.install()
    worlds = story.worlds(clocks)
    gc.freeze()
    gc.disable()
    # What a history leaves behind complains when it is collected.
    sys.unraisablehook = lambda _: None
    if not options.bugs:
        return _find(options, worlds, clocks)
    names = sorted(bugs.BUGS) if options.bugs == ["all"] else options.bugs
    found = [_finds(name, options, worlds, clocks) for name in names]
    return 0 if all(found) else 1


def _finds(bug: str, options: argparse.Namespace, worlds: list[Shape], clocks: Edges) -> bool:
    """Puts a bug back, in a process of its own, and plays."""
    print(f"world: {bug} ({bugs.BUGS[bug].commit})", flush=True)
    if (child := os.fork()) == 0:
        bugs.BUGS[bug].put_back()
        options.theme = options.theme or bugs.BUGS[bug].theme
        os._exit(_find(options, worlds, clocks))
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) == 1


def _find(options: argparse.Namespace, worlds: list[Shape], clocks: Edges) -> int:
    """Plays until a history goes wrong, and tells the shortest one that goes wrong alike. Returns 1 if one did."""
    began, wrong, played = time.process_time(), 0, 0
    for seed in range(options.first, options.first + options.histories):
        if options.seconds and time.process_time() - began > options.seconds:
            break
        history = story.history(seed, worlds, options.theme)
        if options.tell:
            print(story.told(history, clocks), flush=True)
        outcome = history.play(clocks)
        played += 1
        if played % COLLECTED_EVERY == 0:
            gc.collect()
        if outcome.wrong is not None:
            wrong += 1
            print(f"world: seed {seed}: {outcome.wrong}", flush=True)
            if not options.long:
                print(story.told(story.shortest(history, clocks), clocks), flush=True)
            if wrong >= options.wrong:
                break
    seconds = time.process_time() - began
    print(f"world: {played} histories, {wrong} wrong, {1000 * seconds / max(1, played):.1f} ms each", flush=True)
    return 1 if wrong else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m world", description=__doc__)
    parser.add_argument("--histories", type=int, default=1000, metavar="N", help="how many; default 1000")
    parser.add_argument("--first", type=int, default=0, metavar="SEED", help="seed of the first one; the others follow")
    parser.add_argument("--seconds", type=float, default=0.0, help="of processor time, after which no other begins")
    parser.add_argument("--wrong", type=int, default=1, metavar="N", help="stop after so many that go wrong; default 1")
    parser.add_argument("--theme", choices=sorted(story.THEMES), default="", help="of all histories; default any")
    parser.add_argument("--tell", action="store_true", help="tell every history")
    parser.add_argument("--long", action="store_true", help="do not shorten and tell what goes wrong")
    parser.add_argument(
        "--bugs", nargs="+", choices=["all", *sorted(bugs.BUGS)], metavar="NAME", help="put earlier bugs back, in turn"
    )
    return parser
