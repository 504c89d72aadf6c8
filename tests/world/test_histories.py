"""Histories of the simulated world: none may violate an invariant. docs/internals/simulation.md describes them."""

from __future__ import annotations

import re
import secrets
import subprocess
import sys

from tiers import EVERYTHING

from world.bugs import BUGS
from world.runner import ROOT, environment

SECONDS = 40 if EVERYTHING else 10
"""Processor time for histories that were not played before."""
DEADLINE_SECONDS = 900.0
HISTORIES_PER_BUG = 10_000 if EVERYTHING else 2_000
FOUND_LATE = {
    "a cancelled write is over",
    "a check of long ago says who leads",
    "a look of another view's reader shows this one nothing",
    "a read is sent to what its name has come to mean",
    "a successor does not wait",
    "a synchronous write ends with its connection",
    "rows that went after a refresh were never there",
    "rows that went beside a refresh were never there",
    "statements are routed by a gateway that does not lead any more",
    "the end of a write is told by a gateway that does not lead any more",
    "what a name shows after a broken connection stays so",
}
"""Only one in hundreds or thousands of histories finds these."""


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


def test_faults_of_earlier_days_are_found() -> None:
    """Each within a bounded number of seeds; a change that makes the simulation blind fails here."""
    assert BUGS.keys() > FOUND_LATE
    bugs = sorted(BUGS if EVERYTHING else BUGS.keys() - FOUND_LATE)
    run = world("--bugs", *bugs, "--histories", HISTORIES_PER_BUG, "--long")
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.count("1 wrong") == len(bugs) >= 7


def test_a_history_that_goes_wrong_becomes_a_short_story() -> None:
    run = world("--bugs", "a write that nobody polls has not ended", "--histories", HISTORIES_PER_BUG)
    assert run.returncode == 0, run.stdout + run.stderr
    clients = re.findall(r"^ *[\d.]+  (?:ada|bob|eve): .*\(at g1", run.stdout, re.MULTILINE)
    assert 2 <= len(clients) <= 4, run.stdout
    assert "is stale" in run.stdout
