"""Tests the gateway by a run of scripts/soak that takes a minute, or longer on a slow machine."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
from processes import ROOT

SECONDS_MAX = 1800.0
EACH = 2


@pytest.mark.thorough
@pytest.mark.usefixtures("spark_server")
def test_concurrent_reads_writes_and_kills_give_correct_rows() -> None:
    """Reads fail only because of kills. The run lasts until each actor has acted, also on a slow machine."""
    paths = os.pathsep.join(str(ROOT / each) for each in (".", "scripts", "tests"))
    command = [sys.executable, "-m", "soaking", "1", "--each", str(EACH)]
    environment = {**os.environ, "PYTHONPATH": paths}
    run = subprocess.run(
        command, capture_output=True, text=True, timeout=SECONDS_MAX, check=False, env=environment, cwd=ROOT
    )
    assert run.returncode == 0, run.stdout + run.stderr
    counts = {name: int(count) for count, name in re.findall(r"^soak: +(\d+) (.+)$", run.stdout, re.MULTILINE)}
    for way in ("PyHive", "JDBC", "Spark itself", "a transaction", "a name that changes"):
        assert counts[f"read by {way}"] >= EACH, run.stdout
    for killed in ("the gateway", "Spark"):
        assert counts[f"kill of {killed}"] >= EACH // 2, run.stdout
