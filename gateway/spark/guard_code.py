"""Compiles the guard (`StorageGuard.java`) with the compiler that Spark brings.

Run as `python -m gateway.spark.guard_code FILE`, it writes the classes to a jar, for a Spark that the gateway does not
start.
"""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

from py4j.java_gateway import JavaGateway, JavaObject
from pyspark.java_gateway import launch_gateway

from gateway.spark.storage_guard import EXTENSION

SOURCE = Path(__file__).with_name("StorageGuard.java")
JAVA_RELEASE = 8
"""The oldest Java that a supported Spark runs on."""
_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The time of the files in the jar, so that the same source gives the same jar."""


def install(gateway: JavaGateway, session: JavaObject) -> None:
    """Gives all sessions that share the extensions of this one the guard. None of them may have run a statement. Raises
    Py4JError if Spark's classes differ."""
    packages = gateway.jvm
    guard = _compiled(gateway).getClassLoader().loadClass(EXTENSION)
    made = guard.getConstructor(gateway.new_array(packages.java.lang.Class, 0))
    made.newInstance(gateway.new_array(packages.java.lang.Object, 0)).apply(session.extensions())


def write_jar(gateway: JavaGateway, path: Path) -> None:
    """Writes a jar with the guard. Raises OSError, and Py4JError if Spark's classes differ."""
    classes = dict(_compiled(gateway).getBytecodes())
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo("META-INF/MANIFEST.MF", _EPOCH), "Manifest-Version: 1.0\r\n\r\n")
        for name in sorted(classes):
            archive.writestr(zipfile.ZipInfo(f"{name.replace('.', '/')}.class", _EPOCH), bytes(classes[name]))


def _compiled(gateway: JavaGateway) -> JavaObject:
    compiler = gateway.jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setSourceVersion(JAVA_RELEASE)
    compiler.setTargetVersion(JAVA_RELEASE)
    compiler.cook(SOURCE.read_text(encoding="utf-8"))
    return compiler


if __name__ == "__main__":
    running = launch_gateway()
    try:
        write_jar(running, Path(sys.argv[1]))
    finally:
        running.shutdown()
