"""Compiles the guard (`StorageGuard.java`) with the compiler that Spark brings, for `gateway.spark.host`."""

from __future__ import annotations

from pathlib import Path

from py4j.java_gateway import JavaGateway, JavaObject

from gateway.spark.storage_guard import EXTENSION

SOURCE = Path(__file__).with_name("StorageGuard.java")


def install(gateway: JavaGateway, session: JavaObject) -> None:
    """Gives all sessions that share the extensions of this one the guard. None of them may have run a statement. Raises
    Py4JError if Spark's classes differ."""
    packages = gateway.jvm
    compiler = packages.org.codehaus.janino.SimpleCompiler()
    compiler.cook(SOURCE.read_text(encoding="utf-8"))
    guard = compiler.getClassLoader().loadClass(EXTENSION)
    made = guard.getConstructor(gateway.new_array(packages.java.lang.Class, 0))
    made.newInstance(gateway.new_array(packages.java.lang.Object, 0)).apply(session.extensions())
