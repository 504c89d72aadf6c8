"""scripts/fuzz --golden: the SQL of Spark's own tests, directly and through a gateway."""

from __future__ import annotations

import contextlib
import fnmatch
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from golden import Golden, Report, files
from processes import Engine, Gateway


def play(patterns: Sequence[str]) -> int:
    """Runs the files whose names fit a pattern; prints the counts last. 1 where an answer differs."""
    began, report = time.monotonic(), Report()
    chosen = [file for file in files() if any(fnmatch.fnmatch(file, pattern) for pattern in patterns or ["*"])]
    with tempfile.TemporaryDirectory(prefix="freshgate-golden-") as home, contextlib.ExitStack() as stack:
        engine = Engine(Path(home) / "engine")
        stack.callback(engine.stop)
        gateway = Gateway(Path(home) / "gateway.log", upstream=f"{engine.host}:{engine.port}")
        stack.callback(gateway.stop)
        try:
            _all(Golden(engine, gateway, Path(home)), chosen, report)
        except KeyboardInterrupt:
            print("fuzz: interrupted")
    for name, count in sorted(report.counts.items()):
        print(f"fuzz: {count:7,d} {name}")
    print(f"fuzz: {len(report.differences)} differences, {time.monotonic() - began:.0f} seconds")
    return 1 if report.differences else 0


def _all(golden: Golden, chosen: list[str], report: Report) -> None:
    golden.prepare(chosen)
    for place, file in enumerate(chosen, 1):
        known = len(report.differences)
        golden.run(file, report)
        for difference in report.differences[known:]:
            print(f"fuzz: FOUND: {difference}", flush=True)
        print(f"fuzz: {place}/{len(chosen)} {file}: {report.counts['statements']:,} statements so far", flush=True)
