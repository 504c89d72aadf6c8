"""Hive's metastore as a service that several Spark applications share, as in most warehouses."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from pathlib import Path

import jpype
from clients import SPARK_HOME
from jvm import DERBY, java_options
from processes import START_SECONDS

EMBEDDED = {"javax.jdo.option.ConnectionURL": "jdbc:derby:;databaseName=metastore;create=true"}


@dataclass(frozen=True)
class Database:
    """Where a metastore stores its tables: a JDBC URL, the driver's class and archive, and a login."""

    url: str
    driver: str
    archive: Path
    user: str
    password: str

    def settings(self) -> dict[str, str]:
        """Hive's settings for this database."""
        names = {"URL": self.url, "DriverName": self.driver, "UserName": self.user, "Password": self.password}
        return {f"javax.jdo.option.Connection{name}": value for name, value in names.items()}


def _create_tables() -> None:
    """Creates all tables of the metastore, as Hive's schematool does before the first start.

    Otherwise DataNucleus creates a table when it is first used, on another connection than the one whose transaction
    has locked the tables that it refers to. In PostgreSQL both then wait forever.
    """
    (archive,) = (SPARK_HOME / "jars").glob("hive-metastore-*.jar")
    classes = jpype.JClass("java.util.HashSet")()
    with zipfile.ZipFile(archive) as read:
        for name in re.findall(r'<class name="(\w+)"', read.read("package.jdo").decode("utf-8")):
            classes.add(f"org.apache.hadoop.hive.metastore.model.{name}")
    connecting = jpype.JClass("org.apache.hadoop.hive.metastore.ObjectStore").class_.getDeclaredMethod("getPMF")
    connecting.setAccessible(True)
    connecting.invoke(None).getNucleusContext().getStoreManager().createSchemaForClasses(classes, None)


def _serve(home: Path, started: Connection, database: Database | None, warehouse: str) -> None:
    """Runs Hive's metastore from the archives that PySpark ships, in its own process, and sends its port.

    Hive's main class is not used, because it would listen on all interfaces.
    """
    os.chdir(home)
    jpype.startJVM(
        *java_options().split(),
        DERBY,
        "-Xmx512m",
        f"-Dderby.system.home={home}",
        classpath=[str(SPARK_HOME / "jars" / "*"), *([] if database is None else [str(database.archive)])],
        convertStrings=True,
    )
    settings = jpype.JClass("org.apache.hadoop.hive.conf.HiveConf")()
    for key, value in {
        **(EMBEDDED if database is None else database.settings()),
        "datanucleus.schema.autoCreateAll": "true",
        "datanucleus.connectionPoolingType": "NONE",
        "hive.metastore.schema.verification": "false",
        "hive.metastore.warehouse.dir": warehouse,
    }.items():
        settings.set(key, value)
    hive, thrift = "org.apache.hadoop.hive.metastore", "org.apache.thrift"
    handler = jpype.JClass(f"{hive}.HiveMetaStore").newRetryingHMSHandler("metastore", settings, False)
    if database is not None:
        _create_tables()
    address = jpype.JClass("java.net.InetSocketAddress")("127.0.0.1", 0)
    listening = jpype.JClass(f"{thrift}.transport.TServerSocket")(address)
    arguments = jpype.JClass(f"{thrift}.server.TThreadPoolServer$Args")(listening)
    arguments.processor(jpype.JClass(f"{hive}.TSetIpAddressProcessor")(handler))
    started.send(int(listening.getServerSocket().getLocalPort()))
    jpype.JClass(f"{thrift}.server.TThreadPoolServer")(arguments).serve()


@contextlib.contextmanager
def running_metastore(
    home: Path, database: Database | None = None, warehouse: str = ""
) -> Iterator[tuple[SpawnProcess, int]]:
    """The process and the port that it listens on. Its database is Derby, and its warehouse a local directory, unless
    others are given."""
    context = multiprocessing.get_context("spawn")
    receiving, sending = context.Pipe(duplex=False)
    place = warehouse or (home / "warehouse").as_uri()
    process = context.Process(target=_serve, args=(home, sending, database, place), daemon=True)
    process.start()
    sending.close()
    try:
        assert receiving.poll(START_SECONDS), "the metastore did not start"
        yield process, receiving.recv()
    finally:
        process.kill()
        process.join()
        receiving.close()


def at_metastore(port: int) -> dict[str, str]:
    """Spark's settings for this metastore."""
    return {"spark.hadoop.hive.metastore.uris": f"thrift://127.0.0.1:{port}"}
