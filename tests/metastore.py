"""Hive's metastore as a service that several Spark applications share, as in most warehouses."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
from collections.abc import Iterator
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from pathlib import Path

import jpype
from clients import SPARK_HOME
from jvm import DERBY, java_options
from processes import START_SECONDS


def _serve(home: Path, started: Connection) -> None:
    """Runs Hive's metastore from the archives that PySpark ships, in its own process, and sends its port.

    Hive's main class is not used, because it would listen on all interfaces.
    """
    os.chdir(home)
    jpype.startJVM(
        *java_options().split(),
        DERBY,
        "-Xmx512m",
        f"-Dderby.system.home={home}",
        classpath=[str(SPARK_HOME / "jars" / "*")],
        convertStrings=True,
    )
    settings = jpype.JClass("org.apache.hadoop.hive.conf.HiveConf")()
    for key, value in {
        "javax.jdo.option.ConnectionURL": "jdbc:derby:;databaseName=metastore;create=true",
        "datanucleus.schema.autoCreateAll": "true",
        "datanucleus.connectionPoolingType": "NONE",
        "hive.metastore.schema.verification": "false",
        "hive.metastore.warehouse.dir": (home / "warehouse").as_uri(),
    }.items():
        settings.set(key, value)
    hive, thrift = "org.apache.hadoop.hive.metastore", "org.apache.thrift"
    handler = jpype.JClass(f"{hive}.HiveMetaStore").newRetryingHMSHandler("metastore", settings, False)
    address = jpype.JClass("java.net.InetSocketAddress")("127.0.0.1", 0)
    listening = jpype.JClass(f"{thrift}.transport.TServerSocket")(address)
    arguments = jpype.JClass(f"{thrift}.server.TThreadPoolServer$Args")(listening)
    arguments.processor(jpype.JClass(f"{hive}.TSetIpAddressProcessor")(handler))
    started.send(int(listening.getServerSocket().getLocalPort()))
    jpype.JClass(f"{thrift}.server.TThreadPoolServer")(arguments).serve()


@contextlib.contextmanager
def running_metastore(home: Path) -> Iterator[tuple[SpawnProcess, int]]:
    """The process and the port that it listens on."""
    context = multiprocessing.get_context("spawn")
    receiving, sending = context.Pipe(duplex=False)
    process = context.Process(target=_serve, args=(home, sending), daemon=True)
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
