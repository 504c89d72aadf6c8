"""A real ZooKeeper for tests: that of Spark's archives, with its own directory, on the loopback interface."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

from clients import SPARK_HOME
from kazoo.client import KazooClient
from processes import free_port, wait_until

NEEDED = ("zookeeper-*", "slf4j-api-*", "netty-*", "metrics-core-*", "snappy-java-*", "commons-io-*")
OPTIONS = ("-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dzookeeper.admin.enableServer=false")
LOCAL = "127.0.0.1"


class ZooKeeperServer:
    """A server that can be killed and started again with what it knew."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self.port = free_port()
        (folder / "zoo.cfg").write_text(
            f"dataDir={folder}\nclientPort={self.port}\nclientPortAddress={LOCAL}\ntickTime=2000\n", encoding="utf-8"
        )
        self.start()

    @property
    def address(self) -> str:
        return f"{LOCAL}:{self.port}"

    def start(self) -> None:
        java = os.path.join(os.environ["JAVA_HOME"], "bin", "java") if "JAVA_HOME" in os.environ else "java"
        archives = [str(path) for name in NEEDED for path in (SPARK_HOME / "jars").glob(f"{name}.jar")]
        main = "org.apache.zookeeper.server.ZooKeeperServerMain"
        command = [java, *OPTIONS, "-cp", os.pathsep.join(archives), main, str(self._folder / "zoo.cfg")]
        with open(self._folder / "output", "ab") as output:
            self._process = subprocess.Popen(command, stdout=output, stderr=output)
        wait_until(self._serves, what="ZooKeeper")

    def stop(self, sent: int = signal.SIGKILL) -> None:
        if self._process is not None:
            self._process.send_signal(sent)
            self._process.wait()

    def _serves(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self._folder / "output").read_text(encoding="utf-8")
        with contextlib.suppress(OSError), socket.create_connection((LOCAL, self.port), 1) as probe:
            probe.sendall(b"srvr")
            return b"Mode: standalone" in probe.recv(1000)
        return False

    @contextlib.contextmanager
    def client(self) -> Iterator[KazooClient]:
        """What an operator uses."""
        client = KazooClient(self.address)
        client.start()
        try:
            yield client
        finally:
            client.stop()
            client.close()
