"""An Apache Kyuubi on the loopback interface, which starts Sparks of this checkout's release.

The environment variable HOME names its directory: that of a release whose Spark engine is built for Scala 2.13, which
PySpark has.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path

import psutil
from clients import SPARK_HOME
from jvm import spark_options
from metastore import at_metastore
from processes import STOP_SECONDS, descendants, free_port, need_spark, none_alive, wait_until
from spark_releases import OF_SHELLS

HOME = "FRESHGATE_KYUUBI_HOME"
START_SECONDS = 120.0
_ENGINE = "org.apache.kyuubi.engine.spark.SparkSQLEngine"


def home_of_kyuubi() -> Path | None:
    """The KYUUBI_HOME of the tests; None if HOME names none."""
    named = os.environ.get(HOME, "")
    return Path(named) if named else None


class Kyuubi:
    """A server with an embedded ZooKeeper. Its Sparks use the metastore that listens on the port `metastore`, because
    several of them cannot share a Derby. Settings are those of kyuubi-defaults.conf, Spark's too.

    Fails the test if the server does not listen in time."""

    host = "127.0.0.1"

    def __init__(self, home: Path, directory: Path, metastore: int, settings: Mapping[str, str]) -> None:
        need_spark()
        self.directory = directory
        self.port = free_port()
        (directory / "conf").mkdir(parents=True)
        lines = [f"{name} {value}" for name, value in {**self._defaults(metastore), **settings}.items()]
        (directory / "conf" / "kyuubi-defaults.conf").write_text("\n".join(lines), encoding="utf-8")
        places = {"CONF_DIR": "conf", "LOG_DIR": "logs", "PID_DIR": "pid", "WORK_DIR_ROOT": "work"}
        variables = {f"KYUUBI_{name}": str(directory / place) for name, place in places.items()}
        variables |= {"KYUUBI_HOME": str(home), "KYUUBI_SCALA_VERSION": "2.13", "SPARK_HOME": str(SPARK_HOME)}
        inherited = {name: value for name, value in os.environ.items() if name not in OF_SHELLS}
        with (directory / "server.log").open("w", encoding="utf-8") as log:
            self._process = subprocess.Popen(
                [str(home / "bin" / "kyuubi"), "run"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**inherited, **variables},
                cwd=directory,
            )
        try:
            wait_until(self._listens, START_SECONDS, "Kyuubi to listen")
        except BaseException:
            self.stop()
            raise

    def _defaults(self, metastore: int) -> dict[str, str]:
        zookeeper = self.directory / "zookeeper"
        return {
            "kyuubi.frontend.protocols": "THRIFT_BINARY",
            "kyuubi.frontend.bind.host": self.host,
            "kyuubi.frontend.thrift.binary.bind.host": self.host,
            "kyuubi.frontend.thrift.binary.bind.port": str(self.port),
            "kyuubi.frontend.connection.url.use.hostname": "false",
            "kyuubi.zookeeper.embedded.client.port": str(free_port()),
            "kyuubi.zookeeper.embedded.client.port.address": self.host,
            "kyuubi.zookeeper.embedded.client.use.hostname": "false",
            # Until the session of a dead Spark ends, Kyuubi sends new sessions to it.
            "kyuubi.zookeeper.embedded.max.session.timeout": "5000",
            "kyuubi.zookeeper.embedded.directory": str(zookeeper),
            "kyuubi.zookeeper.embedded.data.dir": str(zookeeper / "data"),
            "kyuubi.zookeeper.embedded.data.log.dir": str(zookeeper / "log"),
            "kyuubi.metrics.enabled": "false",
            "kyuubi.engine.doAs.enabled": "false",
            "spark.master": "local[2]",
            "spark.driver.host": self.host,
            "spark.driver.bindAddress": self.host,
            "spark.driver.memory": "1536m",
            "spark.ui.enabled": "false",
            "spark.sql.catalogImplementation": "hive",
            "spark.sql.warehouse.dir": str(self.directory / "warehouse"),
            "spark.local.dir": str(self.directory / "scratch"),
            **{name: value for name, value in spark_options(archived=False).items() if value},
            **at_metastore(metastore),
        }

    def _listens(self) -> bool:
        if self._process.poll() is not None:
            log = (self.directory / "server.log").read_text(encoding="utf-8", errors="replace")
            raise AssertionError(f"Kyuubi ended: {log[-3000:]}")
        with socket.socket() as probe:
            return probe.connect_ex((self.host, self.port)) == 0

    def sparks(self) -> list[psutil.Process]:
        """The Java processes of its Sparks."""
        found = []
        for process in descendants(self._process.pid):
            with contextlib.suppress(psutil.Error):
                if process.name() == "java" and _ENGINE in process.cmdline():
                    found.append(process)
        return found

    def kill_sparks(self) -> None:
        """Kills its Sparks, which simulates a crash."""
        killed = self.sparks()
        assert killed, "Kyuubi has no Spark"
        for process in killed:
            process.send_signal(signal.SIGKILL)
        wait_until(lambda: none_alive(killed), STOP_SECONDS, "the Sparks to end")

    def stop(self) -> None:
        """Ends it and its Sparks, which would outlive it."""
        sparks = descendants(self._process.pid) if self._process.poll() is None else []
        self._process.terminate()
        for process in sparks:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
            wait_until(lambda: none_alive(sparks), STOP_SECONDS, "the Sparks to end")
        finally:
            self._process.kill()
            for process in sparks:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
