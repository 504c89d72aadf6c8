"""Tests that the process keeps freed memory for pieces of rows, and that the garbage collector skips old objects."""

from __future__ import annotations

import subprocess
import sys

from processes import ROOT, environment

PIECES = """
import resource, sys
from gateway.proxy import heap

if sys.argv[1] == "keep":
    heap.keep_freed()

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def pieces(count):
    parts = [b"x" * 64_000] * 3
    for _ in range(count):
        joined = b"".join(parts)
        assert len(b"".join((b"2ee00", joined, b"end"))) > len(joined)

pieces(20)
before = faults()
pieces(200)
print(faults() - before)
"""


def faults(mode: str) -> int:
    """The number of page faults for 200 pieces, each copied twice."""
    ran = subprocess.run(
        [sys.executable, "-c", PIECES, mode], capture_output=True, text=True, check=True, env=environment(), cwd=ROOT
    )
    return int(ran.stdout)


def test_pieces_reuse_the_same_memory() -> None:
    kept, given_back = faults("keep"), faults("as it is")
    assert kept < 50, f"{given_back} without"


SETTLED = """
import gc
import gateway.server
from gateway.proxy import heap

heap.settle()
later = [[] for _ in range(100)]
print(len(gc.get_objects()), gc.get_freeze_count())
"""


def test_the_garbage_collector_skips_objects_from_the_start() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", SETTLED], capture_output=True, text=True, check=True, env=environment(), cwd=ROOT
    )
    walked, frozen = map(int, ran.stdout.split())
    assert 100 <= walked < 1_000
    assert frozen > 50_000
