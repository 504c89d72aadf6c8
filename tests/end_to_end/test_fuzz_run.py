"""Tests the gateway by a short run of scripts/fuzz, with a small server in Spark's place."""

from __future__ import annotations

import os
import re
import subprocess
import sys

from processes import ROOT

SECONDS_MAX = 300.0
SEED = 20_261_121
"""Makes the malformed sessions reproducible, except for their timing."""


def test_malformed_sessions_do_not_affect_others() -> None:
    """No crash, hang, leak, or answer to the wrong client; every kind of malformed session runs."""
    paths = os.pathsep.join(str(ROOT / each) for each in (".", "scripts", "tests"))
    command = [sys.executable, "-m", "fuzzing", "0.1", "--churn", "300", "--idle", "60", "--seed", str(SEED)]
    run = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
        env={**os.environ, "PYTHONPATH": paths},
        cwd=ROOT,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    counts = {name: int(count) for count, name in re.findall(r"^fuzz: +(\d+) (.+)$", run.stdout, re.MULTILINE)}
    assert counts["right answer"] > 0, run.stdout
    assert counts["right answer over HTTP"] > 0, run.stdout
    assert counts["connection that came and went"] == 300
    assert counts["HTTP connection that came and went"] == 300
    assert counts["idle sessions over binary"] == counts["idle sessions over http"] == 60
    assert counts["scrape"] > 0, run.stdout
    assert counts["misled session: dialogue"] > 0, run.stdout
    assert counts["misled HTTP session: dialogue"] > 0, run.stdout
    assert counts["wrong replies of Spark"] > 0, run.stdout
    assert counts["ways back at Spark"] > 0, run.stdout
    for way in ("replay", "wrong head", "all at once", "greet", "half"):
        assert counts[f"wrong request to the monitor: {way}"] > 0, run.stdout
    for way in ("replay", "dialogue", "all at once", "greet", "long statement", "read nothing"):
        assert counts[f"wrong session: {way}"] > 0, run.stdout
    for way in (
        "replay",
        "dialogue",
        "wrong head",
        "wrong chunks",
        "all at once",
        "hide",
        "share",
        "greet",
        "long",
        "slow",
        "read nothing",
    ):
        assert counts[f"wrong HTTP session: {way}"] > 0, run.stdout
