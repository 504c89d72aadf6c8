"""The servers of a small cluster, all on the loopback interface: PostgreSQL, HDFS, and Spark's standalone master with
workers."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path

import jpype
import psutil
from clients import SPARK_HOME
from jars import jar
from jvm import java_options
from metastore import Database
from processes import START_SECONDS, STOP_SECONDS, Program, free_port, wait_until

LOOPBACK = "127.0.0.1"
HIVE = "hive"
"""The name, password and database of the metastore in PostgreSQL."""


# --- PostgreSQL ----------------------------------------------------------------------------------------


def postgres_programs() -> Path | None:
    """The directory of PostgreSQL's server programs; None if there is none."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3].split(".")[0]))
    return found[-1].parent if found else None


@contextlib.contextmanager
def running_postgres() -> Iterator[Database]:
    """A new PostgreSQL. It refuses to run as root, so root runs it as `nobody`."""
    programs = postgres_programs()
    assert programs is not None
    # Not pytest's directory, which only this user may enter.
    home = Path(tempfile.mkdtemp(prefix="postgres-"))
    as_other: list[str] = []
    if os.geteuid() == 0:
        shutil.chown(home, "nobody")
        as_other = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", "--"]
    password, data, port = home / "password", home / "data", free_port()
    password.write_text(HIVE, encoding="utf-8")
    password.chmod(0o644)
    initial = [f"--pgdata={data}", f"--username={HIVE}", f"--pwfile={password}", "--auth=password"]
    settings = {"listen_addresses": LOOPBACK, "port": str(port), "unix_socket_directories": "", "fsync": "off"}
    serve = [str(programs / "postgres"), "-D", str(data)]
    for name, value in settings.items():
        serve += ["-c", f"{name}={value}"]
    server: subprocess.Popen[bytes] | None = None
    try:
        make = [*as_other, str(programs / "initdb"), "--no-sync", "--encoding=UTF8", "--locale=C", *initial]
        subprocess.run(make, check=True, capture_output=True, cwd=home)
        with open(home / "postgres.log", "wb") as log:
            server = subprocess.Popen([*as_other, *serve], cwd=home, stdout=log, stderr=log)
        ask = [str(programs / "pg_isready"), "-q", "-h", LOOPBACK, "-p", str(port)]
        wait_until(lambda: subprocess.run(ask, check=False).returncode == 0, START_SECONDS, "PostgreSQL")
        url = f"jdbc:postgresql://{LOOPBACK}:{port}/postgres"
        yield Database(url, "org.postgresql.Driver", jar("postgresql"), HIVE, HIVE)
    finally:
        if server is not None:
            server.terminate()
            server.wait(STOP_SECONDS)
        shutil.rmtree(home)


# --- HDFS ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Hdfs:
    """A running HDFS. Its files can be changed past Spark."""

    url: str
    """`hdfs://127.0.0.1:PORT`, without a path."""
    _requests: Connection

    def files(self, directory: str) -> list[str]:
        """The paths of the data files below a directory, without the scheme, sorted."""
        return self._ask("files", directory)

    def copy(self, source: str, target: str) -> None:
        """Copies a file within this HDFS."""
        self._ask("copy", source, target)

    def allow(self, directory: str, mode: int) -> None:
        """Sets the mode of a directory within this HDFS."""
        self._ask("allow", directory, oct(mode))

    def _ask(self, *request: str) -> list[str]:
        self._requests.send(request)
        assert self._requests.poll(STOP_SECONDS), f"HDFS does not answer {request}"
        answer: list[str] = self._requests.recv()
        return answer


def _serve_hdfs(home: Path, requests: Connection) -> None:
    """Runs a name node and a data node in this process, sends their URL, and then serves `Hdfs`."""
    os.chdir(home)
    archives = [str(jar("hadoop-client-minicluster")), str(SPARK_HOME / "jars" / "*")]
    jpype.startJVM(*java_options().split(), "-Xmx384m", classpath=archives, convertStrings=True)
    path = jpype.JClass("org.apache.hadoop.fs.Path")
    settings = jpype.JClass("org.apache.hadoop.hdfs.HdfsConfiguration")()
    settings.set("hdfs.minidfs.basedir", str(home))
    cluster = jpype.JClass("org.apache.hadoop.hdfs.MiniDFSCluster$Builder")(settings).numDataNodes(1).build()
    cluster.waitActive()
    system = cluster.getFileSystem()
    requests.send(f"hdfs://{LOOPBACK}:{cluster.getNameNodePort()}")
    while True:
        match requests.recv():
            case ("files", directory):
                found, listed = [], system.listFiles(path(directory), True)
                while listed.hasNext():
                    each = listed.next().getPath()
                    if not str(each.getName()).startswith(("_", ".")):
                        found.append(str(each.toUri().getPath()))
                requests.send(sorted(found))
            case ("allow", directory, mode):
                permission = jpype.JClass("org.apache.hadoop.fs.permission.FsPermission")
                system.mkdirs(path(directory))
                system.setPermission(path(directory), permission(jpype.JShort(int(mode, 8))))
                requests.send([])
            case ("copy", source, target):
                utilities = jpype.JClass("org.apache.hadoop.fs.FileUtil")
                assert utilities.copy(system, path(source), system, path(target), False, settings)
                requests.send([])


@contextlib.contextmanager
def running_hdfs(home: Path) -> Iterator[Hdfs]:
    """HDFS in a process of its own."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_serve_hdfs, args=(home, there), daemon=True)
    process.start()
    there.close()
    try:
        assert here.poll(START_SECONDS), "HDFS did not start"
        yield Hdfs(here.recv(), here)
    finally:
        process.kill()
        process.join()
        here.close()


# --- Spark's standalone cluster ------------------------------------------------------------------------


@dataclass
class Standalone:
    """Spark's own master, and workers with one core each."""

    home: Path
    master: str = ""
    """The master's URL."""
    _programs: list[Program] = field(default_factory=list)

    def start(self, workers: int = 2) -> None:
        port, web = free_port(), free_port()
        self.master = f"spark://{LOOPBACK}:{port}"
        self._run("master.Master", "--port", str(port), "--webui-port", str(web))
        wait_until(lambda: _listens(port), START_SECONDS, "Spark's master")
        for number in range(workers):
            folder = self.home / f"worker-{number}"
            options = ["-c", "1", "-m", "1g", "-d", str(folder), "--webui-port", str(free_port())]
            self._run("worker.Worker", *options, self.master)

    def _run(self, name: str, *options: str) -> None:
        command = [str(SPARK_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", "--host", LOOPBACK]
        # Workers start executors, for which they must know Scala's version.
        variables = {
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_SCALA_VERSION": "2.13",
            "SPARK_LOCAL_IP": LOOPBACK,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": java_options(),
        }
        log = self.home / f"{name}-{len(self._programs)}.log"
        self._programs.append(Program([*command, *options], stderr=log, variables=variables))

    def kill_worker(self, executor: str) -> None:
        """Kills the worker that runs the executor with this number, and the executor, as if the machine were lost."""
        for program in self._programs[1:]:
            children = psutil.Process(program.process.pid).children(recursive=True)
            if any(_is_executor(child, executor) for child in children):
                program.stop(9)
                for child in children:
                    with contextlib.suppress(psutil.NoSuchProcess):
                        child.kill()
                self._programs.remove(program)
                return
        raise LookupError(f"no worker runs the executor {executor}")

    def stop(self) -> None:
        """Workers end their executors."""
        for program in reversed(self._programs):
            program.stop()


def _is_executor(process: psutil.Process, number: str) -> bool:
    try:
        command = process.cmdline()
    except psutil.NoSuchProcess:
        # A worker may not have waited yet for an executor that has ended.
        return False
    return "--executor-id" in command and command[command.index("--executor-id") + 1] == number


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((LOOPBACK, port)) == 0
