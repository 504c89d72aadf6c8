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


def java_options() -> str:
    return os.environ.get(OF_JAVA, "")


def spark_java_options() -> str:
    """Those of a Spark, which starts faster with the archive of its classes, where that was written."""
    options, archive = java_options(), class_archive()
    return f"{options} -XX:SharedArchiveFile={archive}" if options and archive.exists() else options


def class_archive() -> Path:
    """Where tests/class_archive.py writes the archive of this checkout's Spark."""
    key = hashlib.sha256()
    for part in ("requirements.lock", "tests/class_archive.py", "tests/jvm.py"):
        key.update((ROOT / part).read_bytes())
    return ROOT / ".cache" / "java" / f"spark-{key.hexdigest()[:16]}.jsa"
