"""The Spark that answers: an embedded one, kept alive in a child process, or an existing Thrift server.

Both have the same methods: `start` once, then `address` whenever a connection is opened. The address changes when the
embedded engine had to be started again, so nobody keeps it. `of_statement` tells how far Spark is with a statement.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import gateway
from gateway import loops
from gateway.config import Address, Settings
from gateway.errors import FreshgateError, UpstreamLost
from gateway.mv.ports import JobProgress
from gateway.spark.ui import SparkUi

log = logging.getLogger(__name__)

LOOPBACK = "127.0.0.1"
JAVA_LEAST = 17
STOP_SECONDS = 20.0
BACK_OFF_SECONDS = (0.0, 1.0, 2.0, 5.0, 10.0, 30.0)
PROGRESS_SECONDS = 2.0
"""For an answer about a running statement; it is asked for again a second later."""
UNREAD_BYTES_MAX = 65536
"""Of requests that an engine which hangs has not read yet."""
STEADY_SECONDS = 60.0  # an engine that ran this long counts as healthy: the next restart is at once again


class EngineFailed(FreshgateError):
    """The engine cannot be started. Says why and what to do."""

    sqlstate = "08001"


class ExternalEngine:
    """A Spark Thrift server that somebody else runs. `ui` is the URL of its Spark's UI; empty: none is asked."""

    def __init__(self, address: Address, ui: str = "") -> None:
        self._address = address
        self._ui = SparkUi(ui, PROGRESS_SECONDS) if ui else None

    async def start(self) -> Address:
        """Nothing is started, and a server that is down now may be up when a client comes: it is only logged."""
        try:
            _, writer = await asyncio.open_connection(self._address.host, self._address.port)
        except OSError as error:
            log.warning("Spark at %s does not answer yet: %s", self._address, error)
        else:
            writer.close()
        return self._address

    async def address(self) -> Address:
        return self._address

    async def of_statement(self, statement: str) -> JobProgress | None:
        """Implements `mv.ports.StageProgress`."""
        return await self._ui.of_statement(statement) if self._ui is not None else None

    def cancel_statement(self, statement: str) -> None:
        """There is no way to its jobs but CancelOperation."""

    def leave(self) -> None:
        """Nobody waits for this one."""

    @property
    def pid(self) -> int | None:
        """None: the process is somebody else's."""
        return None

    def give_up(self, reason: str) -> None:
        """Who runs it starts it again."""

    async def stop(self) -> None:
        """Nothing to stop."""


class EmbeddedEngine:
    """A child process that hosts Spark (`gateway.spark.host`), started again when it dies."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._data_dir = Path(settings.data_dir).absolute()
        self._child: asyncio.subprocess.Process | None = None
        self._address: Address | None = None
        self._running = asyncio.Event()
        self._leaving = False
        self._supervisor = loops.Loop("supervision of Spark", self._supervise)
        self._started, self._failures = 0.0, 0
        """When the child was started, and how many starts in a row came to nothing, or to no more than a minute."""
        self._last_error = ""
        self._requests = itertools.count(1)
        self._asked: dict[int, asyncio.Future[JobProgress | None]] = {}
        """Requests to the child that are not answered yet, by their ids."""
        self._reader: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        """Process id of the child that serves; None while one is starting."""
        return self._child.pid if self._child and self._address else None

    def give_up(self, reason: str) -> None:
        """Kills the child, which does not serve though it lives; another one is started in its place."""
        if (child := self._child) is not None and self._supervisor.running:
            log.error("Spark is killed: %s. Its log is %s.", reason, self._data_dir / "engine.log")
            _kill_group(child.pid)

    async def start(self) -> Address:
        """Starts Spark and returns its address. Raises EngineFailed; then nothing is left running."""
        find_java()
        try:
            self._data_dir.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise EngineFailed(
                f"Cannot make the data directory {self._data_dir}: {error.strerror}. Choose another with --data-dir."
            ) from error
        address = await self._launch()
        self._started, self._failures = time.monotonic(), 0
        self._supervisor.start()
        return address

    async def address(self) -> Address:
        """Where Spark listens now. Waits for a restart under way, at most `engine.start_timeout` seconds.

        Raises UpstreamLost when Spark is not up by then, or `leave` was called.
        """
        if self._address is None and not self._leaving:
            try:
                await asyncio.wait_for(self._running.wait(), self._settings.engine.start_timeout)
            except TimeoutError:
                reason = self._last_error or "it is still starting"
                raise UpstreamLost(f"Spark is not running: {reason} Try again later.") from None
        if self._address is None:
            if self._leaving:
                raise UpstreamLost("Spark is not running, and the gateway is being stopped.")
            raise UpstreamLost("Spark has just ended. Try again.")
        return self._address

    def leave(self) -> None:
        """The gateway ends: who waits for a Spark that is starting, or would, is told at once that there is none."""
        self._leaving = True
        self._running.set()

    async def of_statement(self, statement: str) -> JobProgress | None:
        """Implements `mv.ports.StageProgress`: the child is asked, which hosts Spark."""
        child = self._child
        # Before the first line the child is still starting, and its output is not ours to read.
        if child is None or child.stdin is None or self._reader is None or self._reader.done():
            return None
        if child.stdin.is_closing() or child.stdin.transport.get_write_buffer_size() > UNREAD_BYTES_MAX:
            return None
        number = next(self._requests)
        answer: asyncio.Future[JobProgress | None] = asyncio.get_running_loop().create_future()
        self._asked[number] = answer
        try:
            child.stdin.write(json.dumps({"id": number, "group": statement}).encode("utf-8") + b"\n")
            async with asyncio.timeout(PROGRESS_SECONDS):
                return await answer
        except (OSError, TimeoutError):
            return None
        finally:
            del self._asked[number]

    def cancel_statement(self, statement: str) -> None:
        """Has the statement's jobs ended, those that it is about to submit as well."""
        child = self._child
        if child is None or child.stdin is None or self._reader is None or child.stdin.is_closing():
            return
        if child.stdin.transport.get_write_buffer_size() <= UNREAD_BYTES_MAX:
            child.stdin.write(json.dumps({"id": 0, "group": statement, "cancel": True}).encode("utf-8") + b"\n")

    async def _read_answers(self, output: asyncio.StreamReader) -> None:
        """Hands the child's answers to those who asked, until it ends; then nobody waits any longer."""
        try:
            while line := await output.readline():
                number, progress = _answer_of(line)
                if (asked := self._asked.get(number)) is not None and not asked.done():
                    asked.set_result(progress)
        except (OSError, ValueError) as error:
            log.warning("the engine's answers cannot be read any more, so no progress is shown: %s", error)
        finally:
            for asked in self._asked.values():
                if not asked.done():
                    asked.set_result(None)

    async def stop(self) -> None:
        """Ends the child and the JVM below it."""
        await self._supervisor.stop()
        await self._end_child()

    async def _supervise(self) -> None:
        """One turn: waits for the child's end, where there is one, and starts another."""
        if self._child is not None:
            code = await self._child.wait()
            self._last_error = f"the engine ended with code {code}; see {self._data_dir / 'engine.log'}."
            log.error("Spark is gone: %s Starting it again.", self._last_error)
            await self._end_child()
            self._failures = 0 if time.monotonic() - self._started > STEADY_SECONDS else self._failures
        await asyncio.sleep(BACK_OFF_SECONDS[min(self._failures, len(BACK_OFF_SECONDS) - 1)])
        self._failures += 1
        self._started = time.monotonic()
        try:
            address = await self._launch()
        except EngineFailed as error:
            self._last_error = str(error)
            log.error("Spark did not start again: %s", error)
        except Exception as error:  # no memory or no file left for a process, say: nothing else would start it
            self._last_error = f"its process could not be started: {error}"
            log.exception("Spark did not start again")
        else:
            log.info("Spark runs again at %s", address)

    async def _launch(self) -> Address:
        began = time.monotonic()
        try:
            self._child = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "gateway.spark.host"),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=self._environment(),
                # A Ctrl-C in the terminal is for the gateway alone, which then ends the child in order.
                start_new_session=True,
            )
            port = await asyncio.wait_for(self._port(self._child), self._settings.engine.start_timeout)
        except TimeoutError:
            await self._end_child()
            raise EngineFailed(
                f"Spark was not up after {self._settings.engine.start_timeout:g} seconds; see "
                f"{self._data_dir / 'engine.log'}, or raise engine.start_timeout."
            ) from None
        except BaseException:
            # Cancellation too must leave no child behind.
            await self._end_child()
            raise
        if self._child.stdout is not None:
            self._reader = asyncio.create_task(self._read_answers(self._child.stdout), name="progress")
        self._address = Address(LOOPBACK, port)
        self._running.set()
        log.info("Spark is up at %s after %.1f s", self._address, time.monotonic() - began)
        return self._address

    def _environment(self) -> dict[str, str]:
        # The child must find this very package, also when it runs from a checkout that is not installed.
        root = str(Path(gateway.__file__).parent.parent)
        paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
        return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}

    async def _port(self, child: asyncio.subprocess.Process) -> int:
        if child.stdin is None or child.stdout is None:
            raise EngineFailed("The engine's process has no pipes.")
        engine = self._settings.engine
        options = {
            "data_dir": str(self._data_dir),
            "master": engine.master,
            "driver_memory": engine.driver_memory,
            "parent": os.getpid(),
            "spark": dict(engine.spark),
        }
        with contextlib.suppress(ConnectionError):
            child.stdin.write(json.dumps(options).encode("utf-8") + b"\n")
            await child.stdin.drain()
        line = await child.stdout.readline()
        if not line:
            code = await child.wait()
            raise EngineFailed(
                f"The engine ended with code {code} while starting; see engine.out and engine.log in {self._data_dir}."
            )
        report = json.loads(line)
        if "error" in report:
            raise EngineFailed(f"Spark did not start: {report['error']}")
        return int(report["port"])

    async def _end_child(self) -> None:
        """Closes the child's standard input, its sign to end, and kills what is left after STOP_SECONDS."""
        child, self._child, self._address = self._child, None, None
        self._running.clear()
        if self._reader is not None:
            self._reader.cancel()
            self._reader = None
        if child is None:
            return
        if child.stdin is not None:
            child.stdin.close()
        try:
            await asyncio.wait_for(child.wait(), STOP_SECONDS)
        except TimeoutError:
            log.warning("Spark did not end by itself; it was killed.")
        finally:
            # The whole group: a JVM that outlived the child, and everything when we are cancelled while we wait.
            _kill_group(child.pid)


def _answer_of(line: bytes) -> tuple[int, JobProgress | None]:
    """Raises ValueError for what is no answer of the child's."""
    try:
        answer = json.loads(line)
        progress = answer["progress"]
        return int(answer["id"]), JobProgress(**progress) if progress is not None else None
    except (KeyError, TypeError) as error:
        raise ValueError(f"it said {line!r}") from error


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def find_java() -> Path:
    """The java that Spark will run. Raises EngineFailed when there is none, or it is too old."""
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    advice = f"Install Java {JAVA_LEAST} or newer (Debian: openjdk-17-jre-headless) and set JAVA_HOME or PATH."
    if found is None or not Path(found).exists():
        where = f"in JAVA_HOME ({home})" if home else "in PATH"
        raise EngineFailed(f"No Java found {where}. {advice}")
    try:
        shown = subprocess.run([found, "-version"], capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise EngineFailed(f"{found} does not run: {error}. {advice}") from error
    version = re.search(r'version "(\d+)', shown.stderr)
    if version is None or int(version.group(1)) < JAVA_LEAST:
        raise EngineFailed(f"{found} is older than Java {JAVA_LEAST}. {advice}")
    return Path(found)
