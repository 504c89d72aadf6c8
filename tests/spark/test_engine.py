"""Tests that the embedded engine's process never outlives its parent and restarts when it dies."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import re
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from clients import pyhive, rows
from jvm import JAVA_OPTIONS, spark_java_options, spark_options
from processes import Engine, Program, descendants, none_alive, wait_until
from tiers import EVERYTHING

from gateway import settings_file
from gateway.config import Address, Settings
from gateway.errors import UpstreamLost
from gateway.spark.client import Connection
from gateway.spark.engine import EmbeddedEngine, EngineFailed, ExternalEngine, find_java, storage_notes
from gateway.spark.host import HostOptions, spark_settings
from gateway.wire.endpoint import Endpoint

PARENT = """
import asyncio, sys
from gateway import settings_file
from gateway.spark.engine import EmbeddedEngine

async def main():
    engine = EmbeddedEngine(settings_file.load(None, ["data_dir=" + sys.argv[1]]))
    print((await engine.start()).port, flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


async def one(address: Address) -> object:
    """Returns Spark's answer to SELECT 1 at the address."""
    connection = await Connection.open(Endpoint(address.host, address.port), "tester")
    try:
        session = await connection.open_session()
        return (await session.run("SELECT 1")).rows[0][0]
    finally:
        await connection.close()


def family(engine: EmbeddedEngine) -> list[psutil.Process]:
    assert engine.pid is not None
    return [psutil.Process(engine.pid), *descendants(engine.pid)]


def settings(data_dir: Path) -> Settings:
    java = f"engine.{JAVA_OPTIONS}={spark_java_options()}"
    return settings_file.load(None, [f"data_dir={data_dir}", "engine.spark.driver.memory=1g", java])


@pytest.mark.thorough
@pytest.mark.usefixtures("spark_server")
def test_an_engine_starts_restarts_and_stops(tmp_path: Path) -> None:
    """The path contains a space; after a kill the engine has a new address; stopping leaves no process."""

    async def check() -> None:
        engine = EmbeddedEngine(settings(tmp_path / "data dir"))
        first = await engine.start()
        try:
            assert first == await engine.address()
            assert await one(first) == 1
            before = family(engine)
            (java,) = [process for process in before if process.name() == "java"]
            child = engine.pid
            java.kill()
            await asyncio.to_thread(wait_until, lambda: none_alive(before), what="the child to follow its JVM")
            await asyncio.to_thread(wait_until, lambda: engine.pid not in {child, None}, what="another child")
            again = await engine.address()
            assert await one(again) == 1
            after = family(engine)
        finally:
            await engine.stop()
        assert none_alive(before)
        assert none_alive(after)
        assert (tmp_path / "data dir" / "metastore").is_dir()

    asyncio.run(check())


def is_free(path: Path) -> bool:
    with path.open("r+") as lock, contextlib.suppress(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


@pytest.mark.usefixtures("spark_server")
def test_an_engine_dies_with_its_parent_and_frees_the_directory(tmp_path: Path) -> None:
    """The path contains a space; stopping leaves no process."""
    data_dir = tmp_path / "data dir"
    parent = Program([sys.executable, "-c", PARENT, str(data_dir)], stderr=tmp_path / "parent.log")
    assert parent.line().strip().isdigit(), (tmp_path / "parent.log").read_text(encoding="utf-8")
    below = descendants(parent.process.pid)
    assert "java" in {process.name() for process in below}
    parent.stop(signal.SIGKILL)
    if not EVERYTHING:
        # tests/end_to_end/test_faults.py starts a Spark where another one was killed.
        wait_until(lambda: none_alive(below), what="the child and its JVM to follow their parent")
        # Nobody waits for orphans in some containers. There, a process can count as ended before all its threads have.
        wait_until(lambda: is_free(data_dir / "lock"), what="the lock to be free")
        return
    # The next engine starts although the old JVM may still be shutting down.
    again = Engine(data_dir)
    assert asyncio.run(one(Address(again.host, again.port))) == 1
    assert none_alive(below)
    below = descendants(again.program.process.pid)
    again.stop()
    wait_until(lambda: none_alive(below), what="the JVM to end")


def test_a_second_gateway_in_one_directory_is_refused(engine: Engine) -> None:
    async def check() -> None:
        second = EmbeddedEngine(settings(engine.data_dir))
        with pytest.raises(EngineFailed, match=r"in use by another gateway \(process \d+\).*--data-dir"):
            await second.start()
        assert second.pid is None

    # This process owns the shared engine's lock and would own the second one's too, so the lock gets another owner.
    (engine.data_dir / "lock").write_text(str(os.getppid()), encoding="ascii")
    asyncio.run(check())


def test_the_engine_listens_on_loopback_only(engine: Engine) -> None:
    (java,) = [process for process in descendants(engine.program.process.pid) if process.name() == "java"]
    listening = {
        connection.laddr.ip
        for connection in java.net_connections(kind="tcp")
        if connection.status == psutil.CONN_LISTEN
    }
    assert listening <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}


def test_a_setting_says_how_many_statements_run_at_once(engine: Engine) -> None:
    """The tests' Sparks have it."""
    name = "hive.server2.async.exec.threads"
    given = spark_options()[f"spark.hadoop.{name}"]
    with pyhive(engine.host, engine.port) as cursor:
        assert rows(cursor, f"SELECT java_method('java.lang.System', 'getProperty', '{name}')") == [(given,)]


@pytest.mark.thorough
@pytest.mark.usefixtures("spark_server")
def test_a_wrong_spark_setting_is_explained(tmp_path: Path) -> None:
    async def check() -> None:
        engine = EmbeddedEngine(settings_file.load(None, [f"data_dir={tmp_path}", "engine.spark.master=nonsense"]))
        with pytest.raises(EngineFailed, match="Master must either be"):
            await engine.start()
        assert engine.pid is None

    before = set(descendants(os.getpid()))
    asyncio.run(check())
    assert none_alive(set(descendants(os.getpid())) - before)


def test_a_missing_or_old_java_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(EngineFailed, match="No Java found in JAVA_HOME"):
        find_java()
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n", encoding="utf-8")
    java.chmod(0o755)
    with pytest.raises(EngineFailed, match="older than Java 17"):
        find_java()
    java.write_text("#!/bin/sh\necho 'openjdk version \"21\"' >&2\n", encoding="utf-8")
    assert find_java() == java
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EngineFailed, match="No Java found in PATH"):
        find_java()


HDFS = "hdfs://name/warehouse"
STORAGES = [
    ("local[*]", "file:/data/warehouse", True, [(logging.INFO, "is a Derby database in /data")]),
    ("local[2]", "file:/data/warehouse", False, []),
    ("yarn", HDFS, False, []),
    ("yarn", HDFS, True, [(logging.WARNING, "is a Derby database in /data")]),
    ("spark://one:7077", "file:/data/w", False, [(logging.WARNING, "lie in file:/data/w, but .* spark://one:7077")]),
    ("k8s://one", "/data/w", False, [(logging.WARNING, "Set engine.spark.sql.warehouse.dir")]),
]


@pytest.mark.parametrize(("master", "warehouse", "derby", "expected"), STORAGES)
def test_storage_that_suits_one_machine_only_is_logged(
    master: str, warehouse: str, derby: bool, expected: list[tuple[int, str]]
) -> None:
    notes = storage_notes(master, warehouse, derby, Path("/data"))
    assert [level for level, _ in notes] == [level for level, _ in expected]
    for (_, text), (_, part) in zip(notes, expected, strict=True):
        assert re.search(part, text)


@pytest.mark.parametrize(
    ("jars", "expected"),
    [
        ("/a.jar,file:/b.jar, file:///c.jar", ["/a.jar", "/b.jar", "/c.jar"]),
        ("local:/a.jar,local:///b.jar,c.jar", ["/a.jar", "/b.jar", "c.jar"]),
        ("hdfs://name/a.jar,s3a://bucket/b.jar,https://host:80/c.jar", []),
    ],
)
def test_the_class_path_has_the_local_jars(jars: str, expected: list[str]) -> None:
    """A colon separates entries of a class path, so a URL in it would become two."""
    settings = spark_settings(HostOptions(Path("/data"), 1, {"spark.master": "yarn", "spark.jars": jars}))
    assert settings.get("spark.driver.extraClassPath", "").split(":") == (expected or [""])
    assert settings["spark.jars"] == jars


def test_waiting_for_the_engines_address_ends_when_the_gateway_stops(tmp_path: Path) -> None:
    async def check() -> None:
        engine = EmbeddedEngine(settings(tmp_path))
        waiting = [asyncio.create_task(engine.address()) for _ in range(2)]
        await asyncio.wait(waiting, timeout=0)
        assert not any(each.done() for each in waiting)
        engine.leave()
        async with asyncio.timeout(30):
            for address in (*waiting, engine.address()):
                with pytest.raises(UpstreamLost, match="is being stopped"):
                    await address
            await engine.stop()

    asyncio.run(check())


def test_an_external_engine_has_the_configured_address() -> None:
    async def check() -> None:
        engine = ExternalEngine([Address("127.0.0.1", 1)])
        assert await engine.start() == Address("127.0.0.1", 1) == await engine.address()
        with pytest.raises(UpstreamLost):
            await one(await engine.address())
        await engine.stop()

    asyncio.run(check())


def test_many_sessions_can_close_at_once(engine: Engine) -> None:
    """Unpatched, Spark would leave some of them waiting forever (see `host.let_sessions_close`)."""

    def visit(_: int) -> list[tuple[int]]:
        with pyhive(engine.host, engine.port) as cursor:
            return rows(cursor, "SELECT 1")

    with ThreadPoolExecutor(50) as pool:
        assert list(pool.map(visit, range(50), timeout=120)) == [[(1,)]] * 50


@pytest.mark.thorough
@pytest.mark.usefixtures("spark_server")
def test_versions_are_found_without_direct_sql(tmp_path: Path) -> None:
    """An interrupted statement can disable it for a metastore thread; views filter partitions by a number."""
    engine = Engine(tmp_path, spark={"spark.hadoop.hive.metastore.try.direct.sql": "false"})
    try:
        with pyhive(engine.host, engine.port) as cursor:
            rows(cursor, "CREATE TABLE t USING parquet PARTITIONED BY (v) AS SELECT 7 AS a, CAST(1 AS BIGINT) AS v")
            assert rows(cursor, "SELECT a FROM t WHERE v = 1") == [(7,)]
            assert rows(cursor, "SELECT a FROM t WHERE v IN (2, 3)") == []
    finally:
        engine.stop()
