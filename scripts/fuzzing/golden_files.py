"""`scripts/fuzz --golden`: runs the SQL files of Spark's own tests directly and through a gateway."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from golden import Golden, Report, files
from jvm import FOR_TESTS, OF_JAVA
from processes import Engine, Gateway

SPARK: dict[str, Any] = {
    # Each query runs two or three times on few rows: interpreting it is faster than compiling it.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Fewer tasks, and a stable order of rows.
    "spark.sql.leafNodeDefaultParallelism": "1",
    "spark.sql.shuffle.partitions": "1",
}


def play(patterns: Sequence[str]) -> int:
    """Runs the files that `golden.files` chooses; prints the counts of each and of all. Returns 1 if an answer
    differs."""
    os.environ.setdefault(OF_JAVA, FOR_TESTS)
    began, total = time.monotonic(), Report()
    try:
        with tempfile.TemporaryDirectory(prefix="freshgate-golden-") as home, contextlib.ExitStack() as stack:
            engine = Engine(Path(home) / "engine", spark=SPARK)
            stack.callback(engine.stop)
            gateway = Gateway(Path(home) / "gateway.log", upstream=f"{engine.host}:{engine.port}")
            stack.callback(gateway.stop)
            run(Golden(engine, gateway, Path(home)), files(patterns), total)
    finally:  # An interrupt may come as any exception, because it breaks a connection in the middle of a reply.
        for name, count in sorted(total.counts.items()):
            print(f"fuzz: {count:7,d} {name}")
        print(f"fuzz: {len(total.differences)} differences, {time.monotonic() - began:.0f} seconds", flush=True)
    return 1 if total.differences else 0


def run(golden: Golden, chosen: Sequence[str], total: Report) -> None:
    """Adds each file's report to `total` once the file is done."""
    with golden.prepared(chosen):
        for place, file in enumerate(chosen, 1):
            report = golden.run(file)
            for difference in report.differences:
                print(f"fuzz: FOUND: {difference}", flush=True)
            print(f"fuzz: {place}/{len(chosen)} {file}: {report}", flush=True)
            total.include(report)
