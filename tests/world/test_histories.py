"""Histories of the simulated world: none may violate an invariant. docs/internals/simulation.md describes them."""

from __future__ import annotations

import re
import secrets
import subprocess
import sys

from world.runner import ROOT, environment

SECONDS = 40
"""Processor time for histories that nobody has played before."""
DEADLINE_SECONDS = 900.0


def world(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "world", *map(str, arguments)]
    return subprocess.run(
        command, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=DEADLINE_SECONDS, check=False
    )


def test_no_history_violates_an_invariant() -> None:
    """Other histories in each run. The story of one that goes wrong is in the output, with its seed."""
    run = world("--first", secrets.randbelow(1 << 40), "--histories", 1_000_000, "--seconds", SECONDS)
    assert run.returncode == 0, run.stdout + run.stderr
    played = re.search(r"world: (\d+) histories, 0 wrong", run.stdout)
    assert played is not None, run.stdout
    assert int(played[1]) > 100


def test_the_same_seed_is_the_same_history() -> None:
    first, second = (world("--first", 7, "--histories", 1, "--tell") for _ in range(2))
    assert first.returncode == 0, first.stdout + first.stderr
    assert "serves" in first.stdout
    assert _without_durations(first.stdout) == _without_durations(second.stdout)


def _without_durations(text: str) -> str:
    return re.sub(r"process \d+|[\d.]+ ms each", "", text)
