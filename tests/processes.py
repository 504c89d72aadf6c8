"""Processes that tests start and stop: the embedded engine alone, Thrift servers, and whole gateways."""

from __future__ import annotations

import itertools
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
from types import MappingProxyType
from typing import TypeAlias

import psutil
from forks import Fork
from jvm import spark_options

from gateway.spark.client import EndpointSource
from gateway.wire.endpoint import Endpoint

ROOT = Path(__file__).parent.parent
START_SECONDS = 120.0
STOP_SECONDS = 40.0
READY = "freshgate: listening on jdbc:hive2://"
STORAGE = "freshgate_storage"
"""The default of `storage.database`."""


_spark_allowed = threading.Event()
_gateways = itertools.count()


def allow_spark() -> None:
    """Called by the fixture `spark_server`, which marks the tests that need a Spark."""
    _spark_allowed.set()


def need_spark() -> None:
    """Fails a test that does not request the fixture `spark_server`."""
    tested = "PYTEST_CURRENT_TEST" in os.environ
    assert _spark_allowed.is_set() or not tested, "a test that starts a Spark must use the fixture `spark_server`"


def wait_until(condition: Callable[[], object], seconds: float = 30.0, what: str = "the condition") -> None:
    """Polls a condition; fails the test if it does not become true in time. A slow condition, such as a query to Spark,
    is polled less often, so that polling does not slow down what is waited for."""
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
    """A port that was free a moment ago, for programs that cannot choose one themselves."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def environment() -> dict[str, str]:
    """The tests' environment variables, with which child processes can import this checkout."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def descendants(pid: int) -> list[psutil.Process]:
    """All live descendants of a process."""
    return list(psutil.Process(pid).children(recursive=True))


def none_alive(processes: Iterable[psutil.Process]) -> bool:
    return not any(process.is_running() and process.status() != psutil.STATUS_ZOMBIE for process in processes)


@dataclass
class FixedEndpoint(EndpointSource):
    """A source of endpoints, as `spark.client.SessionPool` needs one, whose answer the test sets."""

    current: Endpoint

    async def endpoint(self) -> Endpoint:
        return self.current


@dataclass
class Program:
    """A child process whose standard output is read line by line, with a deadline."""

    command: list[str]
    stdin: int = subprocess.DEVNULL
    stderr: Path | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    """Further environment variables."""
    forked: bool = False
    """The command is a Python program that imports the gateway; it is run as a fork that has done this, without an
    input."""
    process: subprocess.Popen[str] | Fork = field(init=False)
    _lines: queue.Queue[str] = field(init=False, default_factory=queue.Queue)

    def __post_init__(self) -> None:
        variables = {**environment(), **self.variables}
        with open(self.stderr or os.devnull, "w", encoding="utf-8") as errors:
            self.process = (
                Fork(self.command[1:], errors, variables, ROOT)
                if self.forked
                else subprocess.Popen(
                    self.command,
                    stdin=self.stdin,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    text=True,
                    env=variables,
                    cwd=ROOT,
                )
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put("")

    def line(self, seconds: float = START_SECONDS) -> str:
        """The next line; "" at the end of the output. Fails the test if neither comes in time."""
        try:
            return self._lines.get(timeout=seconds)
        except queue.Empty:
            raise AssertionError(f"{self.command} printed nothing for {seconds:g} s") from None

    def stop(self, sent: int = signal.SIGTERM) -> int:
        """Sends a signal unless the process has ended, waits for its end, and returns the exit code."""
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
        """Closes standard input, at which the program ends by itself."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(STOP_SECONDS)
        self.stop()


class Engine:
    """The embedded engine alone, started as the gateway starts it."""

    host = "127.0.0.1"

    def __init__(
        self,
        data_dir: Path,
        *,
        obeys_modes: bool = False,
        archives: Sequence[Path] = (),
        spark: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """`obeys_modes`: file modes apply to the engine even if root starts it.

        `archives` are Java archives for the class path. They follow Spark's own, because otherwise Java would ignore
        the class archive.
        """
        need_spark()
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
            "parent": os.getpid(),
            "spark": {"spark.driver.memory": "1536m", **spark_options(), **spark},
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
        """Kills it, which simulates a crash."""
        self.program.stop(signal.SIGKILL)


class ThriftServers:
    """One Spark with several Thrift servers. The keys of `ports` are `sasl`, `nosasl`, `http`, `https`, `tls`, and
    `forgetful` (SASL, closes sessions that are idle for a second). `ldap` is the URL of a directory and the pattern of
    its users' names; with it there is `http_strict`, which checks passwords."""

    host = "127.0.0.1"

    def __init__(self, directory: Path, key_store: Path, ldap: tuple[str, str] | None = None, **spark: str) -> None:
        need_spark()
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


Setting: TypeAlias = str | int | float | Path
"""A value that a setting can have on the command line: mypy finds parameters of `Gateway` among settings."""


class Gateway:
    """A `freshgate serve` on a free port. Settings are those of `--set`; `clock` is the file of `clocked_gateway`.
    `script`: another program of the tests that runs a gateway. `constants`: for `tuned_gateway`.

    In front of an engine it has a storage database of its own unless the settings name one: of several gateways on one
    storage database, only the one started last may change views, and the engine's other tests need theirs."""

    def __init__(
        self,
        log: Path,
        *,
        upstream: str | None = None,
        data_dir: Path | None = None,
        clock: Path | None = None,
        script: str = "",
        take_over: bool = False,
        constants: Mapping[str, object] | None = None,
        settings: Mapping[str, Setting] = MappingProxyType({}),
    ) -> None:
        self.log = log
        if upstream is not None:
            apart = {"storage.database": f"storage_of_gateway_{next(_gateways)}", "data_dir": f"{log}.data"}
            settings = {**apart, **settings}
        self.storage = str(settings.get("storage.database", STORAGE))
        """The storage database."""
        program = ["-m", "gateway"] if clock is None else [str(ROOT / "tests" / "clocked_gateway.py"), str(clock)]
        program = [str(ROOT / "tests" / script)] if script else program
        if constants:
            program = [str(ROOT / "tests" / "tuned_gateway.py"), json.dumps(constants), *program]
        command = [sys.executable, *program, "serve", "--port", "0"]
        if upstream is not None:
            command += ["--upstream", upstream]
        if data_dir is not None:
            need_spark()
            command += ["--data-dir", str(data_dir)]
            settings = {**{f"engine.{name}": value for name, value in spark_options().items()}, **settings}
        for name, value in settings.items():
            command += ["--set", f"{name}={value}"]
        if take_over:
            command.append("--take-over")
        self.program = Program(command, stderr=log, forked=True)
        line = self.program.line()
        if not line.startswith(READY):
            code = self.program.stop()
            raise AssertionError(f"the gateway did not start ({code}): {log.read_text(encoding='utf-8')}")
        self.address = line.removeprefix(READY).strip()
        """The address after `jdbc:hive2://`, with the parameters that drivers need."""
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
        """Stops it with SIGTERM, as an operator would. Returns the exit code."""
        return self.program.stop()

    def kill(self) -> None:
        """Kills it, which simulates a crash."""
        self.program.stop(signal.SIGKILL)
