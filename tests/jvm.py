"""With which options the tests' Java runs."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

ROOT = Path(__file__).parent.parent
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
OF_JAVA = "FRESHGATE_TEST_JAVA"
"""The variable that has options for all Java that tests start; benchmarks run without it."""
FOR_TESTS = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"
"""A JVM of the tests works for minutes: its second compiler takes more processor time than it saves, nearly half of
all. Without that one Java reserves little room for code, and spends as much on making room."""
DERBY = "-Dderby.system.durability=test"
"""Derby leaves writing to disk to the system, whose end no test brings about: a kill loses nothing."""
_SERVERS = f"{DERBY} -Djdk.lang.Process.launchMechanism=VFORK -Xmn384m -XX:MetaspaceSize=256m"
"""Spark runs a program for each file whose mode it sets; and collects garbage less often where young objects have room
from the start."""
_SPARK = {
    # Spark keeps 100 of the classes that it makes of queries, and makes most of them again and again.
    "spark.sql.codegen.cache.maxEntries": "2000",
    "spark.sql.shuffle.partitions": "2",
    # What its UI could show.
    "spark.ui.retainedJobs": "100",
    "spark.ui.retainedStages": "100",
    "spark.sql.ui.retainedExecutions": "50",
    # A driver that cancels waits for its status call to end, which is held for so long.
    "spark.hadoop.hive.server2.long.polling.timeout": "500ms",
}


def java_options() -> str:
    return os.environ.get(OF_JAVA, "")


def spark_java_options() -> str:
    """Those of a Spark, which starts faster with the archive of its classes, where that was written."""
    options, archive = java_options(), class_archive()
    if not options:
        return ""
    return " ".join([options, _SERVERS, *([f"-XX:SharedArchiveFile={archive}"] if archive.exists() else [])])


def spark_options() -> dict[str, str]:
    """Spark's settings beside those of its Java, JAVA_OPTIONS among them: a test asks little, and a lot of times."""
    options = spark_java_options()
    return {JAVA_OPTIONS: options, **_SPARK} if options else {}


def class_archive() -> Path:
    """Where tests/class_archive.py writes the archive of this checkout's Spark."""
    key = hashlib.sha256()
    for part in ("requirements.lock", "tests/class_archive.py", "tests/jvm.py"):
        key.update((ROOT / part).read_bytes())
    return ROOT / ".cache" / "java" / f"spark-{key.hexdigest()[:16]}.jsa"
