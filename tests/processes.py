"""Programs that tests start and stop: the embedded engine alone, and whole gateways."""

from __future__ import annotations

import json
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from jvm import JAVA_OPTIONS, spark_java_options, spark_options

ROOT = Path(__file__).parent.parent
START_SECONDS = 120.0
STOP_SECONDS = 40.0
READY = "freshgate: listening on jdbc:hive2://"


_spark_allowed = threading.Event()


def allow_spark() -> None:
    """Of the fixture `spark_server`: by it the tests that need a Spark are told from the others."""
    _spark_allowed.set()


def _need_spark() -> None:
    tested = "PYTEST_CURRENT_TEST" in os.environ
    assert _spark_allowed.is_set() or not tested, "a test that starts a Spark asks for the fixture `spark_server`"


def wait_until(condition: Callable[[], object], seconds: float = 30.0, what: str = "the condition") -> None:
    """Waits for a condition, looking often; fails the test when it does not come. One that asks Spark is looked at less
    often, so that the question does not take the time of what is waited for."""
    deadline = time.monotonic() + seconds
    pause = threading.Event()
    while True:
        began = time.monotonic()
        if condition():
            return
        ended = time.monotonic()
        if ended > deadline:
            raise AssertionError(f"waited {seconds:g} s for {what}")
        pause.wait(max(0.02, ended - began))


def free_port() -> int:
    """A port that was free a moment ago, for what cannot choose one itself."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def environment() -> dict[str, str]:
    """The tests' environment, with this checkout importable in the children."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def descendants(pid: int) -> list[psutil.Process]:
    """All processes below one, living now."""
    return psutil.Process(pid).children(recursive=True)


def none_alive(processes: Iterable[psutil.Process]) -> bool:
    return not any(process.is_running() and process.status() != psutil.STATUS_ZOMBIE for process in processes)


@dataclass
class Program:
    """A child process whose standard output is read line by line, with a deadline."""

    command: list[str]
    stdin: int = subprocess.DEVNULL
    stderr: Path | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    """In its environment, beside the tests' own."""
    process: subprocess.Popen[str] = field(init=False)
    _lines: queue.Queue[str] = field(init=False, default_factory=queue.Queue)

    def __post_init__(self) -> None:
        with open(self.stderr or os.devnull, "w", encoding="utf-8") as errors:
            self.process = subprocess.Popen(
                self.command,
                stdin=self.stdin,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env={**environment(), **self.variables},
                cwd=ROOT,
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put("")

    def line(self, seconds: float = START_SECONDS) -> str:
        """The next line; "" when the output has ended. Fails the test when neither comes."""
        try:
            return self._lines.get(timeout=seconds)
        except queue.Empty:
            raise AssertionError(f"{self.command} printed nothing for {seconds:g} s") from None

    def stop(self, sent: int = signal.SIGTERM) -> int:
        """Sends a signal, waits for the end, and returns the exit code. Does nothing to a process that has ended."""
        if self.process.poll() is None:
            self.process.send_signal(sent)
        try:
            code = self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        finally:
            if self.process.stdin is not None:
                self.process.stdin.close()
        self._reader.join()
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code

    def end(self) -> None:
        """Closes standard input, which ends the program by itself."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(STOP_SECONDS)
        self.stop()


class Engine:
    """The embedded engine alone, as the gateway starts it."""

    host = "127.0.0.1"

    def __init__(
        self, data_dir: Path, *, obeys_modes: bool = False, archives: Sequence[Path] = (), **spark: str
    ) -> None:
        """`obeys_modes`: files that their modes close to their owner are closed to it, though root starts it.

        `archives` are Java's, on the class path behind Spark's own: before them they would rule out the archive of
        classes.
        """
        _need_spark()
        data_dir.mkdir(parents=True, exist_ok=True)
        self.data_dir = data_dir
        command = [sys.executable, "-m", "gateway.spark.host"]
        if obeys_modes and os.geteuid() == 0:
            without = "-dac_override,-dac_read_search"
            command = ["setpriv", f"--bounding-set={without}", f"--inh-caps={without}", "--", *command]
        class_path = {"SPARK_DIST_CLASSPATH": ":".join(map(str, archives))} if archives else {}
        self.program = Program(command, subprocess.PIPE, data_dir / "host.stderr", class_path)
        options = {
            "data_dir": str(data_dir),
            "master": "local[*]",
            "driver_memory": "1536m",
            "parent": os.getpid(),
            "spark": {**spark_options(), **spark},
        }
        stdin = self.program.process.stdin
        assert stdin is not None
        stdin.write(json.dumps(options) + "\n")
        stdin.flush()
        self.report: dict[str, object] = json.loads(self.program.line() or "{}")

    @property
    def port(self) -> int:
        port = self.report.get("port")
        assert isinstance(port, int), self.report
        return port

    @property
    def url(self) -> str:
        return f"jdbc:hive2://{self.host}:{self.port}/default"

    def stop(self) -> None:
        self.program.end()

    def kill(self) -> None:
        """Ends it as a crash would."""
        self.program.stop(signal.SIGKILL)


class ThriftServers:
    """One Spark with a Thrift server for each way in; `ports` are by `sasl`, `nosasl`, `http`, `https`, `tls`, and
    `forgetful`: with SASL, ending sessions that idle for a second; `http_strict`: asking for passwords at `ldap`, where
    that is given: a directory's URL, and the pattern of its users' names."""

    host = "127.0.0.1"

    def __init__(self, directory: Path, key_store: Path, ldap: tuple[str, str] | None = None, **spark: str) -> None:
        _need_spark()
        errors = directory / "servers.stderr"
        script = ROOT / "tests" / "thrift_servers.py"
        files = [str(script), str(directory / "data"), str(key_store)]
        command = [sys.executable, *files, json.dumps(spark), *(ldap or ())]
        self.program = Program(command, subprocess.PIPE, errors)
        line = self.program.line()
        assert line.startswith("{"), errors.read_text(encoding="utf-8")[-3000:]
        self.ports: dict[str, int] = json.loads(line)

    def stop(self) -> None:
        self.program.end()


class Gateway:
    """A `freshgate serve` on a free port. Settings are those of `--set`; `clock` is a file that says the time."""

    def __init__(
        self,
        log: Path,
        *,
        upstream: str | None = None,
        data_dir: Path | None = None,
        clock: Path | None = None,
        **settings: object,
    ) -> None:
        self.log = log
        self.storage = str(settings.get("storage.database", "freshgate_storage"))
        """The database of its storage tables."""
        program = ["-m", "gateway"] if clock is None else [str(ROOT / "tests" / "clocked_gateway.py"), str(clock)]
        command = [sys.executable, *program, "serve", "--port", "0"]
        if upstream is not None:
            command += ["--upstream", upstream]
        if data_dir is not None:
            _need_spark()
            command += ["--data-dir", str(data_dir)]
            command += ["--set", f"engine.{JAVA_OPTIONS}={spark_java_options()}"]
        for name, value in settings.items():
            command += ["--set", f"{name}={value}"]
        self.program = Program(command, stderr=log)
        line = self.program.line()
        if not line.startswith(READY):
            code = self.program.stop()
            raise AssertionError(f"the gateway did not start ({code}): {log.read_text(encoding='utf-8')}")
        self.address = line.removeprefix(READY).strip()
        """Behind `jdbc:hive2://`, with what drivers must be told."""
        self.host, _, port = self.address.partition("/")[0].rpartition(":")
        self.port = int(port)
        self.http_address = self.program.line().removeprefix(READY).strip() if "listen.http_port" in settings else ""

    @property
    def pid(self) -> int:
        return self.program.process.pid

    @property
    def http_port(self) -> int:
        return int(self.http_address.partition("/")[0].rpartition(":")[2])

    @property
    def url(self) -> str:
        return f"jdbc:hive2://{self.host}:{self.port}/default"

    def stop(self) -> int:
        """Ends it as an operator would. Returns the exit code."""
        return self.program.stop()

    def kill(self) -> None:
        """Ends it as a crash would."""
        self.program.stop(signal.SIGKILL)
