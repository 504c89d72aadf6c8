"""The options of the tests' JVMs and Sparks."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from tiers import EVERYTHING

ROOT = Path(__file__).parent.parent
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
OF_JAVA = "FRESHGATE_TEST_JAVA"
"""The environment variable with the options of every JVM that tests start. Benchmarks run without it."""
FOR_TESTS = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"
"""The tests' JVMs run for minutes. In that time the second JIT compiler costs more CPU time than it saves, nearly half
of all CPU time. Without it, Java reserves a small code cache, whose cleaning would cost as much."""
DERBY = "-Dderby.system.durability=test"
"""Derby does not sync its files to disk. Killing it loses nothing, because no test ends the operating system."""
_SERVERS = f"{DERBY} -Djdk.lang.Process.launchMechanism=VFORK -Xmn384m -XX:MetaspaceSize=256m"
"""VFORK, because Spark starts a program for each file whose mode it sets. A large young generation from the start makes
garbage collections rarer."""
_SPARK = {
    # By default Spark keeps 100 generated classes and compiles most of them again and again.
    "spark.sql.codegen.cache.maxEntries": "2000",
    "spark.sql.shuffle.partitions": "2",
    # Each of the server's threads creates a client of the metastore, with its own connection. Until it has as many
    # threads as it may have, by default 100, the server starts one for each statement.
    "spark.hadoop.hive.server2.async.exec.threads": "24",
    "spark.hadoop.hive.server2.async.exec.keepalive.time": "3600s",
    # The metastore in Spark reads each table anew for every statement, a third of a test's CPU time. Derby admits one
    # process only, so nothing changes behind this cache.
    "spark.hadoop.datanucleus.cache.level2": "true",
    "spark.hadoop.datanucleus.cache.level2.type": "soft",
    # The history of Spark's UI takes memory.
    "spark.ui.retainedJobs": "100",
    "spark.ui.retainedStages": "100",
    "spark.sql.ui.retainedExecutions": "50",
    # A driver that cancels waits for its pending status call, which Spark holds for this time.
    "spark.hadoop.hive.server2.long.polling.timeout": "500ms",
}

_FILES = "QuickFiles"
"""The class of their file system: QuickFiles.java."""
_INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""Spark interprets expressions. For a few rows it would spend a tenth of a test's CPU time on compiling them."""


def java_options() -> str:
    return os.environ.get(OF_JAVA, "")


def spark_java_options(*, archived: bool = True) -> str:
    """The Java options of a Spark; `archived`: including the class archive, with which this checkout's Spark starts
    faster, if that exists."""
    options, archive = java_options(), class_archive()
    if not options:
        return ""
    known = archived and archive.exists()
    return " ".join([options, _SERVERS, *([f"-XX:SharedArchiveFile={archive}"] if known else [])])


def spark_options(*, archived: bool = True) -> dict[str, str]:
    """Spark's settings for tests, which run many small queries; JAVA_OPTIONS is one of them, and those of `class_path`
    and `spark_java_options`."""
    options = spark_java_options(archived=archived)
    if not options:
        return {}
    files = {"spark.hadoop.fs.file.impl": _FILES, **class_path()} if archived and files_archive().exists() else {}
    return {JAVA_OPTIONS: options, **_SPARK, **files, **({} if EVERYTHING else _INTERPRETED)}


def class_path(*archives: Path) -> dict[str, str]:
    """The setting that adds these archives to what `spark_options` has for the class path of a Spark."""
    own = [files_archive()] if java_options() and files_archive().exists() else []
    return {"spark.driver.extraClassPath": ":".join(map(str, (*own, *archives)))}


def class_archive() -> Path:
    """The path to which tests/class_archive.py writes the archive for this checkout's Spark."""
    return _archive("spark", ".jsa")


def files_archive() -> Path:
    """The path to which tests/class_archive.py writes QuickFiles."""
    return _archive("files", ".jar")


def _archive(name: str, suffix: str) -> Path:
    key = hashlib.sha256()
    for part in ("requirements.lock", "tests/class_archive.py", "tests/jvm.py", f"tests/{_FILES}.java"):
        key.update((ROOT / part).read_bytes())
    return ROOT / ".cache" / "java" / f"{name}-{key.hexdigest()[:16]}{suffix}"
