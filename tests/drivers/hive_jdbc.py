"""Several versions of Hive's JDBC driver in one JVM: each has a class loader that sees none of the others.

2.3.10 is Spark's own, with all of Spark's archives. The newer ones are standalone archives, which need nothing else.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import jpype
from clients import DRIVER, SPARK_HOME, start_jvm
from contents import USER, first_line
from jars import jar
from processes import wait_until

VERSIONS = ("2.3.10", "3.1.3", "4.0.1")
OF_SUITE = {"2.3.10", "4.0.1"}
"""Spark's own, and the newest; the one between them is thorough."""
SPARK_JARS = SPARK_HOME / "jars"


def archives(version: str) -> list[Path]:
    """The class path of a version of the driver."""
    return sorted(SPARK_JARS.glob("*.jar")) if version == VERSIONS[0] else [jar("hive-jdbc", version)]


@cache
def _loader(version: str) -> Any:
    start_jvm()
    java = jpype.java
    urls = [java.io.File(str(path)).toURI().toURL() for path in archives(version)]
    return java.net.URLClassLoader(jpype.JArray(java.net.URL)(urls), java.lang.ClassLoader.getPlatformClassLoader())


@contextlib.contextmanager
def _classes_of(version: str) -> Iterator[Any]:
    """The driver's classes become those that Hadoop looks up by name in this thread."""
    loader = _loader(version)
    thread = jpype.java.lang.Thread.currentThread()
    before = thread.getContextClassLoader()
    thread.setContextClassLoader(loader)
    try:
        yield loader
    finally:
        thread.setContextClassLoader(before)


@contextlib.contextmanager
def connected(version: str, url: str, user: str = USER, **properties: str) -> Iterator[Any]:
    """A java.sql.Connection of that version of the driver."""
    with _classes_of(version) as loader:
        given = jpype.java.util.Properties()
        for name, value in {"user": user, "password": "anonymous", **properties}.items():
            given.setProperty(name, value)
        connection = jpype.JClass(loader.loadClass(DRIVER))().connect(url, given)
        try:
            yield connection
        finally:
            connection.close()


def everything(result: Any) -> tuple[list[tuple[str, ...]], list[tuple[str | None, ...]]]:
    """Columns (label, type's name, class, precision, scale, nullability) and rows, values as texts with their class."""
    metadata = result.getMetaData()
    numbers = range(1, metadata.getColumnCount() + 1)
    columns = [
        (
            str(metadata.getColumnLabel(number)),
            str(metadata.getColumnTypeName(number)),
            _or_error(metadata.getColumnClassName, number),
            _or_error(metadata.getPrecision, number),
            _or_error(metadata.getScale, number),
            str(metadata.isNullable(number)),
        )
        for number in numbers
    ]
    rows = []
    while result.next():
        rows.append(tuple(text(result.getObject(number)) for number in numbers))
    result.close()
    return columns, rows


def texts(result: Any) -> list[tuple[str | None, ...]]:
    """The rows of a result as getString gives them."""
    numbers = range(1, result.getMetaData().getColumnCount() + 1)
    rows = []
    while result.next():
        rows.append(tuple(result.getString(number) for number in numbers))
    result.close()
    return rows


def text(value: Any) -> str | None:
    """A Java value as text, with its class where that is not String."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, jpype.JArray):
        return f"byte[] {bytes(value).hex()}"
    return f"{type(value).__name__} {value}"


def failure(error: Any) -> tuple[str, str | None, int, str]:
    """Class, SQLSTATE, error code, and first line of an SQLException."""
    return type(error).__name__, error.getSQLState(), int(error.getErrorCode()), first_line(error.getMessage())


def outcome(call: Callable[..., Any], *arguments: Any) -> Any:
    """What a call that answers with a result set comes to: everything in it, or the failure."""
    try:
        return everything(call(*arguments))
    except jpype.java.sql.SQLException as error:
        return failure(error)


def cancelled(statement: Any, sql: str) -> Any:
    """What becomes of a query that another thread cancels once it runs."""

    def cancel() -> None:
        # What this call gives is there when the server has told the operation's handle.
        wait_until(lambda: statement.getYarnATSGuid() is not None, what="the statement to run")
        statement.cancel()

    other = threading.Thread(target=cancel)
    other.start()
    ended = outcome(statement.executeQuery, sql)
    other.join()
    return ended


def _or_error(call: Callable[..., Any], *arguments: Any) -> str:
    try:
        return str(call(*arguments))
    except jpype.java.sql.SQLException as error:
        return first_line(error.getMessage())
