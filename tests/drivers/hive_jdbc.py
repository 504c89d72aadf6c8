"""Several versions of Hive's JDBC driver in one JVM, each with a separate class loader.

2.3.10 is Spark's own and needs all of Spark's archives. The newer ones are standalone archives.
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
from drivers.contents import USER, first_line
from jars import jar
from processes import wait_until

VERSIONS = ("2.3.10", "3.1.3", "4.0.1")
OF_SUITE = {"4.0.1"}
"""The newest one. Spark's own version runs in the tests of end_to_end; here it is thorough."""
SPARK_JARS = SPARK_HOME / "jars"


def archives(version: str) -> list[Path]:
    """The class path of a version of the driver."""
    if version == VERSIONS[0]:
        return sorted(SPARK_JARS.glob("*.jar"))
    # For Kerberos, 3.1.3 needs classes of Hadoop that are not in it.
    hadoop = sorted(SPARK_JARS.glob("hadoop-client-*.jar")) if version == "3.1.3" else []
    return [jar("hive-jdbc", version), *hadoop]


@cache
def _loader(version: str) -> Any:
    start_jvm()
    java = jpype.java
    urls = [java.io.File(str(path)).toURI().toURL() for path in archives(version)]
    return java.net.URLClassLoader(jpype.JArray(java.net.URL)(urls), java.lang.ClassLoader.getPlatformClassLoader())


@contextlib.contextmanager
def _classes_of(version: str) -> Iterator[Any]:
    """Makes the driver's classes those that Hadoop finds by name in this thread."""
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
    """A java.sql.Connection of this version of the driver."""
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
    """Columns (label, name of the type, class, precision, scale, nullability), and rows of strings with the class."""
    metadata = result.getMetaData()
    numbers = range(1, metadata.getColumnCount() + 1)
    columns: list[tuple[str, ...]] = [
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
    """The rows of a result, read with getString."""
    numbers = range(1, result.getMetaData().getColumnCount() + 1)
    rows = []
    while result.next():
        rows.append(tuple(result.getString(number) for number in numbers))
    result.close()
    return rows


def text(value: Any) -> str | None:
    """A Java value as a string, with its class unless that is String."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, jpype.JArray):
        return f"byte[] {bytes(value).hex()}"
    return f"{type(value).__name__} {value}"


def failure(error: Any) -> tuple[str, str | None, int, str]:
    """The class, SQLSTATE, error code and first line of an SQLException."""
    return type(error).__name__, error.getSQLState(), int(error.getErrorCode()), first_line(error.getMessage())


def outcome(call: Callable[..., Any], *arguments: Any) -> Any:
    """The outcome of a call that returns a result set: its contents, or the failure."""
    try:
        return everything(call(*arguments))
    except jpype.java.sql.SQLException as error:
        return failure(error)


def cancelled(statement: Any, sql: str) -> Any:
    """The outcome of a query that another thread cancels when it runs."""

    def cancel() -> None:
        # This call returns a value once the driver has the operation's handle.
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
