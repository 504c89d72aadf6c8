"""Real clients for the tests: PyHive, beeline, and the Hive JDBC driver that Spark ships, through JPype."""

from __future__ import annotations

import contextlib
import gc
import os
import subprocess
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import impala.dbapi
import jpype
import pyspark
from exact_floats import exact
from impala.error import HiveServer2Error
from jvm import java_options
from pyhive import hive
from pyhive.exc import OperationalError

SPARK_HOME = Path(pyspark.__file__).parent
DRIVER = "org.apache.hive.jdbc.HiveDriver"
BEELINE_SECONDS = 180.0
T = TypeVar("T")
_NO_RESULT = [("Result", "STRING_TYPE", None, None, None, None, True)]


@contextlib.contextmanager
def pyhive(host: str, port: int, user: str = "tester", **options: Any) -> Iterator[Any]:
    """A PyHive cursor. Options are those of `hive.connect`, for example `auth="NOSASL"` or `configuration`."""
    connection = hive.connect(host=host, port=port, username=user, **options)
    with contextlib.closing(connection), contextlib.closing(connection.cursor()) as cursor:
        yield cursor


@contextlib.contextmanager
def impyla(port: int, user: str = "ada", **options: Any) -> Iterator[Any]:
    """An impyla cursor. Options are those of its `connect`, for example `use_ssl=True`."""
    login = {} if "jwt" in options else {"auth_mechanism": "PLAIN", "user": user, "password": "x"}
    connection = impala.dbapi.connect("127.0.0.1", port, **login, **options)
    cursor = connection.cursor()
    try:
        yield cursor
        cursor.close()
    finally:
        connection.close()
        # Over TLS and HTTP, impyla leaves sockets to the garbage collector.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            del connection, cursor
            gc.collect()


@contextlib.contextmanager
def unclosed(server: Any, database: str = "default") -> Iterator[Any]:
    """A PyHive cursor whose close sends no request, because the gateway or engine may be dead."""
    connection = hive.connect(server.host, server.port, username="tester", database=database)
    try:
        yield connection.cursor()
    finally:
        connection._transport.close()


def rows(cursor: Any, sql: str) -> list[tuple[Any, ...]]:
    """Runs a statement on a PyHive cursor and fetches all rows, which are equal if they are shown alike."""
    cursor.execute(sql)
    # For a statement without a result Spark 3.5 has a column, and pages without it, which PyHive cannot read.
    if not cursor.description or cursor.description == _NO_RESULT:
        return []
    return [exact(row) for row in cursor.fetchall()]


def log_of(cursor: Any, sql: str) -> list[str]:
    """What a query's log says."""
    cursor.execute(sql)
    cursor.fetchall()
    return [str(line) for line in cursor.fetch_logs()]


def beeline(url: str, *statements: str, user: str = "tester", check: bool = True) -> subprocess.CompletedProcess[str]:
    """Runs PySpark's beeline, which prints rows as tab-separated lines below a line of column names."""
    command = [str(SPARK_HOME / "bin" / "beeline"), "-u", url, "-n", user, "--outputformat=tsv2"]
    for statement in statements:
        command += ["-e", statement]
    environment = {**os.environ, "SPARK_HOME": str(SPARK_HOME)}
    return subprocess.run(
        command, capture_output=True, text=True, timeout=BEELINE_SECONDS, check=check, env=environment
    )


class Jdbc:
    """One JDBC connection and statement, as BI tools use them."""

    def __init__(self, url: str, user: str = "tester", password: str = "anonymous") -> None:
        start_jvm()
        properties = jpype.java.util.Properties()
        properties.setProperty("user", user)
        properties.setProperty("password", password)
        # DriverManager searches drivers with the caller's class loader, which Python does not have.
        self.connection = jpype.JClass(DRIVER)().connect(url, properties)
        self.statement = self.connection.createStatement()

    def query(self, sql: str) -> tuple[list[str], list[tuple[Any, ...]]]:
        """The column names and rows of a result set. Values are Python objects, decimals are strings."""
        result = self.statement.executeQuery(sql)
        try:
            metadata = result.getMetaData()
            columns = range(1, metadata.getColumnCount() + 1)
            names = [str(metadata.getColumnLabel(index)) for index in columns]
            found = []
            while result.next():
                found.append(tuple(_value(result.getObject(index)) for index in columns))
            return names, found
        finally:
            result.close()

    def execute(self, sql: str) -> bool:
        """Runs any statement; returns whether it has a result set."""
        return bool(self.statement.execute(sql))

    def __enter__(self) -> Jdbc:
        return self

    def __exit__(self, *_: object) -> None:
        self.statement.close()
        self.connection.close()


def start_jvm() -> None:
    """Starts the process's JVM, once. At exit, Java waits for the thread that started it, so programs with several
    threads call this in the main thread. -Xrs leaves signals to Python: otherwise Java would end the process on
    SIGTERM and leave its Spark and gateways running."""
    if not jpype.isJVMStarted():
        jvm = ("-Xmx512m", "-Xrs", *java_options().split())
        jpype.startJVM(*jvm, classpath=[str(SPARK_HOME / "jars" / "*")], convertStrings=True)


def _value(value: Any) -> Any:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, jpype.java.lang.Boolean):
        return bool(value)
    if isinstance(value, jpype.java.lang.Number) and not isinstance(value, jpype.java.math.BigDecimal):
        is_float = isinstance(value, jpype.java.lang.Double | jpype.java.lang.Float)
        return float(value) if is_float else int(value)
    return str(value)


def told_to_repeat(ask: Callable[[], T]) -> T:
    """The answer. A request that may have reached the leader before it died fails once, and says what to do."""
    try:
        return ask()
    except (OperationalError, HiveServer2Error, jpype.JException) as error:
        if "Run the statement again; your session goes on." not in str(error):
            raise
    return ask()
