"""Thrift servers of other releases of Spark than the one in the lock, each started from a PySpark package as
docs/how-to/thrift-server.md says.

`scripts/setup --spark-versions` installs the packages below .cache/spark. The environment variable HOMES can name other
directories: `3.5=/opt/spark-3.5,4.0=/opt/spark-4.0`.
"""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from clients import SPARK_HOME
from jvm import JAVA_OPTIONS, spark_options
from processes import ROOT, STOP_SECONDS, free_port, need_spark, wait_until

HOMES = "FRESHGATE_SPARK_HOMES"
DIRECTORY = ROOT / ".cache" / "spark"
RELEASES = ("3.5", "4.0", "4.1", "4.2", "4.3")
LOCKED = "4.1"
"""The release in the lock, which is always installed."""
CHOSEN = "FRESHGATE_SPARK_RELEASE"
"""The environment variable with the release that `engine` and `lake_engine` are in this run, if it is another than
that of the lock."""
CLASS = "org.apache.spark.sql.hive.thriftserver.HiveThriftServer2"
START_SECONDS = 180.0
OF_SHELLS = frozenset({"SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS", "HIVE_SERVER2_THRIFT_PORT"})
"""Environment variables that would choose another Spark."""


def home_of(release: str) -> Path | None:
    """The SPARK_HOME of a release; None if it is not installed."""
    if release == LOCKED:
        return SPARK_HOME
    named = dict(pair.split("=", 1) for pair in os.environ.get(HOMES, "").split(",") if pair)
    if release in named:
        return Path(named[release])
    home = DIRECTORY / release / "pyspark"
    return home if home.is_dir() else None


def chosen_home() -> Path | None:
    """The SPARK_HOME of the release that CHOSEN names; None if it names none. Fails if it is not installed."""
    release = os.environ.get(CHOSEN, "")
    if not release:
        return None
    home = home_of(release)
    assert home is not None, f"Spark {release} is not installed: run scripts/setup --spark-versions"
    return home


class ReleaseServer:
    """A Thrift server of a release. `archives` are Java archives for the class path."""

    host = "127.0.0.1"
    impersonates = False
    """Whether statements run as the account that has the name of the session's user."""

    def __init__(
        self,
        home: Path,
        directory: Path,
        archives: Sequence[Path] = (),
        spark: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        need_spark()
        directory.mkdir(parents=True, exist_ok=True)
        self.data_dir = directory
        self.port = free_port()
        self._log = directory / "server.log"
        settings = {
            "spark.master": "local[*]",
            "spark.driver.memory": "1536m",
            "spark.ui.enabled": "false",
            "spark.sql.warehouse.dir": str(directory / "warehouse"),
            "spark.local.dir": str(directory / "scratch"),
            **spark_options(archived=False),
            **spark,
        }
        derby = f"-Dderby.system.home={directory / 'metastore'}"
        settings[JAVA_OPTIONS] = f"{settings.get(JAVA_OPTIONS, '')} {derby}".strip()
        if archives:
            settings["spark.driver.extraClassPath"] = ":".join(map(str, archives))
        command = [str(home / "bin" / "spark-submit"), "--class", CLASS]
        for name, value in settings.items():
            command += ["--conf", f"{name}={value}"]
        command += ["spark-internal", "--hiveconf", f"hive.server2.thrift.port={self.port}"]
        command += ["--hiveconf", f"hive.server2.thrift.bind.host={self.host}"]
        command += ["--hiveconf", f"hive.server2.enable.doAs={str(self.impersonates).lower()}"]
        variables = {name: value for name, value in os.environ.items() if name not in OF_SHELLS}
        with self._log.open("w", encoding="utf-8") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=variables, cwd=directory
            )
        try:
            wait_until(self._listens, START_SECONDS, "the Thrift server to listen")
        except BaseException:
            self.stop()
            raise

    @property
    def url(self) -> str:
        return f"jdbc:hive2://{self.host}:{self.port}/default"

    def _listens(self) -> bool:
        if self._process.poll() is not None:
            raise AssertionError(f"Spark ended: {self._log.read_text(encoding='utf-8', errors='replace')[-3000:]}")
        with socket.socket() as probe:
            return probe.connect_ex((self.host, self.port)) == 0

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class ImpersonatingServer(ReleaseServer):
    """Plugins that ask for the account learn who the user is."""

    impersonates = True
