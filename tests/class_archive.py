"""A program that writes a class archive, with which the tests' Sparks start in two thirds of the time.

Java dumps the classes that a first Spark has loaded (application class-data sharing, JEP 350). It ignores an archive
that does not match its version and class path, and starts without one.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import psutil
from clients import pyhive, rows
from java_sources import compile_java
from jvm import FOR_TESTS, JAVA_OPTIONS, class_archive, files_archive
from processes import Engine, Gateway

END_SECONDS = 300.0
"""The limit for Java's exit, at which it writes the archive."""

STATEMENTS = (
    "CREATE TABLE t (a INT, s STRING, d DATE) USING parquet PARTITIONED BY (d)",
    "INSERT INTO t VALUES (1, 'x', DATE '2026-01-01'), (2, 'y', DATE '2026-01-02')",
    "CREATE MATERIALIZED VIEW m PARTITION BY (d) AS SELECT d, count(*) AS n, sum(a) AS a FROM t GROUP BY d",
    "SELECT * FROM m",
    "INSERT INTO t VALUES (3, 'z', DATE '2026-01-02')",
    "SELECT m.d, m.n, t.s FROM m JOIN t ON m.d = t.d ORDER BY t.s LIMIT 1",
    "REFRESH MATERIALIZED VIEW m COMPLETE",
    "SHOW MATERIALIZED VIEWS",
    "DESCRIBE EXTENDED m",
    "DROP MATERIALIZED VIEW m",
    "DROP TABLE t",
)


def main() -> None:
    wanted = class_archive()
    if wanted.exists():
        return
    shutil.rmtree(wanted.parent, ignore_errors=True)
    wanted.parent.mkdir(parents=True)
    print("test: writing the archive of Spark's classes", flush=True)
    compile_java("QuickFiles", files_archive())
    with tempfile.TemporaryDirectory() as directory:
        made = Path(directory) / wanted.name
        _record(Path(directory), made)
        shutil.move(made, wanted)


def _record(directory: Path, made: Path) -> None:
    java = f"{FOR_TESTS} -XX:ArchiveClassesAtExit={made}"
    options: dict[str, Any] = {JAVA_OPTIONS: java}
    engine = Engine(directory / "engine", spark=options)
    (jvm,) = psutil.Process(engine.program.process.pid).children()
    gateway = Gateway(directory / "gateway.log", upstream=f"{engine.host}:{engine.port}")
    with pyhive(gateway.host, gateway.port) as cursor:
        for statement in STATEMENTS:
            rows(cursor, statement)
    gateway.stop()
    jvm.terminate()
    psutil.wait_procs([jvm], END_SECONDS)
    engine.kill()


if __name__ == "__main__":
    main()
