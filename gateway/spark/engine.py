"""The Spark in use: an embedded one, kept alive in a child process, or an existing Thrift server.

Both have the same methods: `start` once, then `address` for each new connection. The address changes when the embedded
engine is restarted, so callers must not keep it. `of_statement` reports the progress of a statement.
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
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gateway import children, loops, spark_home
from gateway.config import Address, Settings
from gateway.errors import FreshgateError, UpstreamLost
from gateway.mv.ports import JobProgress
from gateway.spark import data_directory
from gateway.spark.storage_guard import StorageGuard, random_secret
from gateway.spark.ui import SparkUi

log = logging.getLogger(__name__)

LOOPBACK = "127.0.0.1"
JAVA_LEAST = 17
START_SECONDS = 120.0
"""How long Spark may take to start, or to start again."""
QUEUED_SECONDS = 1_800.0
"""The same with a cluster, which may queue the application."""
STOP_SECONDS = 20.0
BACK_OFF_SECONDS = (0.0, 1.0, 2.0, 5.0, 10.0, 30.0)
WAITING_SECONDS = 10.0
"""Interval of the lines in the log that Spark is still starting."""
PROGRESS_SECONDS = 2.0
"""How long to wait for the progress of a running statement; it is asked for again a second later."""
UNREAD_BYTES_MAX = 65536
"""Most bytes of requests that the engine has not yet read; more means that it hangs."""
ANSWER_BYTES_MAX = 16 * 1024 * 1024
"""The longest answer: a query's plan, as far as `PlanWriter.java` writes it."""
STEADY_SECONDS = 60.0  # An engine that ran this long counts as healthy: its next restart is immediate again.


class EngineFailed(FreshgateError):
    """The engine cannot be started. The message says why and what to do."""

    sqlstate = "08001"


class ExternalEngine:
    """A Spark Thrift server that others run, or several over one metastore. `uis` are the URLs of their Spark UIs."""

    def __init__(self, addresses: Sequence[Address], uis: Sequence[str] = ()) -> None:
        self.addresses = tuple(addresses)
        self._uis = [SparkUi(ui, PROGRESS_SECONDS) for ui in uis]

    async def start(self) -> Address:
        """Starts nothing. A server that is down now may be up when a client comes, so that is only logged."""
        for address in self.addresses:
            try:
                _, writer = await asyncio.open_connection(address.host, address.port)
            except OSError as error:
                log.warning("Spark at %s does not answer yet: %s", address, error)
            else:
                writer.close()
        return self.addresses[0]

    async def address(self) -> Address:
        """Returns that of the first server."""
        return self.addresses[0]

    async def of_statement(self, statement: str) -> JobProgress | None:
        """Implements `mv.ports.StageProgress`. Only the server that runs the statement knows of it."""
        answers = await asyncio.gather(*(ui.of_statement(statement) for ui in self._uis))
        return next((answer for answer in answers if answer is not None), None)

    def cancel_statement(self, statement: str) -> None:
        """Does nothing: CancelOperation is the only way to its jobs."""

    def leave(self) -> None:
        """Does nothing: nobody waits for this engine."""

    async def stop(self) -> None:
        """Does nothing."""


class EmbeddedEngine:
    """A child process that hosts Spark (`gateway.spark.host`), restarted when it dies."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._data_dir = Path(settings.data_dir).absolute()
        local = settings.engine.master.startswith("local")
        self._start_seconds = START_SECONDS if local else QUEUED_SECONDS
        self.guard = StorageGuard(random_secret(), settings.storage.database)
        self._child: asyncio.subprocess.Process | None = None
        self._address: Address | None = None
        self._running = asyncio.Event()
        self._leaving = False
        self._supervisor = loops.Loop("supervision of Spark", self._supervise)
        self._started, self._failures = 0.0, 0
        """When the child was started, and how many starts in a row failed or lasted at most a minute."""
        self._last_error = ""
        self._requests = itertools.count(1)
        self._asked: dict[int, asyncio.Future[dict[str, Any] | None]] = {}
        """Unanswered requests to the child, by their ids."""
        self._reader: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        """Process id of the serving child; None while it is starting."""
        return self._child.pid if self._child and self._address else None

    def give_up(self, reason: str) -> None:
        """Kills the child, which lives but does not serve; another one is started in its place."""
        if (child := self._child) is not None and self._supervisor.running:
            log.error("killing Spark: %s. Its log is %s.", reason, self._data_dir / "engine.log")
            _kill_group(child.pid)

    async def start(self) -> Address:
        """Starts Spark and returns its address. On EngineFailed nothing is left running. Raises SparkMissing."""
        spark_home.find(", or name an existing Spark Thrift Server with --upstream HOST:PORT")
        find_java()
        try:
            data_directory.prepare(self._data_dir)
        except OSError as error:
            raise EngineFailed(
                f"Cannot use the data directory {self._data_dir}: {error.filename}: {error.strerror}. Make the "
                f"directory writable for the account that runs the gateway (uid {os.geteuid()}), or choose another "
                f"with --data-dir."
            ) from error
        log.info("starting Spark, which takes up to half a minute; its log is %s", self._data_dir / "engine.log")
        address = await self._launch()
        self._started, self._failures = time.monotonic(), 0
        self._supervisor.start()
        return address

    async def address(self) -> Address:
        """Returns Spark's current address. Waits for a restart in progress, at most as long as its start may take.

        Raises UpstreamLost if Spark is not up by then, or `leave` was called.
        """
        if self._address is None and not self._leaving:
            try:
                await asyncio.wait_for(self._running.wait(), self._start_seconds)
            except TimeoutError:
                reason = self._last_error or "it is still starting"
                raise UpstreamLost(f"Spark is not running: {reason} Try again later.") from None
        if self._address is None:
            if self._leaving:
                raise UpstreamLost("Spark is not running, and the gateway is being stopped. Connect again later.")
            raise UpstreamLost("Spark has just ended. Try again.")
        return self._address

    def leave(self) -> None:
        """The gateway is stopping: calls that wait for Spark to start, and later ones, fail at once."""
        self._leaving = True
        self._running.set()

    async def of_statement(self, statement: str) -> JobProgress | None:
        """Implements `mv.ports.StageProgress`: asks the child, which hosts Spark."""
        answer = await self.ask({"group": statement}, PROGRESS_SECONDS)
        progress = answer.get("progress") if answer is not None else None
        try:
            return JobProgress(**progress) if progress is not None else None
        except TypeError as error:
            log.warning("unexpected progress %r: %s", progress, error)
            return None

    async def ask(self, request: dict[str, str], seconds: float) -> dict[str, Any] | None:
        """Returns the child's answer to a request (`gateway.spark.host`); None if there is none in time."""
        child = self._child
        # Until the first line the child is starting, and `_port` reads its output.
        if child is None or child.stdin is None or self._reader is None or self._reader.done():
            return None
        if child.stdin.is_closing() or child.stdin.transport.get_write_buffer_size() > UNREAD_BYTES_MAX:
            return None
        number = next(self._requests)
        answer: asyncio.Future[dict[str, Any] | None] = asyncio.get_running_loop().create_future()
        self._asked[number] = answer
        try:
            child.stdin.write(json.dumps({"id": number, **request}).encode("utf-8") + b"\n")
            async with asyncio.timeout(seconds):
                return await answer
        except (OSError, TimeoutError):
            return None
        finally:
            del self._asked[number]

    def cancel_statement(self, statement: str) -> None:
        """Cancels the statement's jobs, including those that it is about to submit."""
        child = self._child
        if child is None or child.stdin is None or self._reader is None or child.stdin.is_closing():
            return
        if child.stdin.transport.get_write_buffer_size() <= UNREAD_BYTES_MAX:
            child.stdin.write(json.dumps({"id": 0, "group": statement, "cancel": True}).encode("utf-8") + b"\n")

    async def _read_answers(self, output: asyncio.StreamReader) -> None:
        """Passes the child's answers to their requests until its output ends; then nobody waits any longer."""
        try:
            while line := await output.readline():
                answer = _answer_of(line)
                if (asked := self._asked.get(answer["id"])) is not None and not asked.done():
                    asked.set_result(answer)
        except (OSError, ValueError) as error:
            log.warning("cannot read the engine's answers any more, so no progress or plan is known: %s", error)
        finally:
            for asked in self._asked.values():
                if not asked.done():
                    asked.set_result(None)

    async def stop(self) -> None:
        """Ends the child and its JVM."""
        await self._supervisor.stop()
        await self._end_child()

    async def _supervise(self) -> None:
        """One turn: waits for the child's end, if there is one, and starts another."""
        if self._child is not None:
            code = await self._child.wait()
            self._last_error = f"the engine ended with code {code}; see {self._data_dir / 'engine.log'}."
            log.error("Spark ended: %s Restarting it.", self._last_error)
            await self._end_child()
            self._failures = 0 if time.monotonic() - self._started > STEADY_SECONDS else self._failures
        await asyncio.sleep(BACK_OFF_SECONDS[min(self._failures, len(BACK_OFF_SECONDS) - 1)])
        self._failures += 1
        self._started = time.monotonic()
        try:
            address = await self._launch()
        except EngineFailed as error:
            self._last_error = str(error)
            log.error("Spark did not restart: %s", error)
        except Exception as error:  # For example, no memory or descriptor for a process: nothing else would try again.
            self._last_error = f"its process could not be started: {error}"
            log.exception("Spark did not restart")
        else:
            log.info("Spark was restarted at %s", address)

    async def _launch(self) -> Address:
        began = time.monotonic()
        waiting = asyncio.create_task(_tell_of_waiting(began), name="waiting for Spark")
        try:
            self._child = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                f"{children.PACKAGE}.spark.host",
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                limit=ANSWER_BYTES_MAX,
                env=children.environment(),
                # Ctrl-C in the terminal must reach only the gateway, which then ends the child in order.
                start_new_session=True,
            )
            port = await asyncio.wait_for(self._port(self._child), self._start_seconds)
        except TimeoutError:
            await self._end_child()
            raise EngineFailed(
                f"Spark was not up after {self._start_seconds:g} seconds; see {self._data_dir / 'engine.log'}."
            ) from None
        except BaseException:
            # A cancellation too must leave no child behind.
            await self._end_child()
            raise
        finally:
            waiting.cancel()
        if self._child.stdout is not None:
            self._reader = asyncio.create_task(self._read_answers(self._child.stdout), name="progress")
        self._address = Address(LOOPBACK, port)
        self._running.set()
        log.info("Spark is up at %s after %.1f s", self._address, time.monotonic() - began)
        return self._address

    async def _port(self, child: asyncio.subprocess.Process) -> int:
        if child.stdin is None or child.stdout is None:
            raise EngineFailed("The engine's process has no pipes. Start the gateway again.")
        engine = self._settings.engine
        options = {
            "data_dir": str(self._data_dir),
            "parent": os.getpid(),
            "spark": dict(engine.spark),
            "guard": dict(self.guard.spark),
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
        for level, text in storage_notes(engine.master, report["warehouse"], report["derby"], self._data_dir):
            log.log(level, "%s", text)
        return int(report["port"])

    async def _end_child(self) -> None:
        """Closes the child's standard input, which tells it to end, and kills what is left after STOP_SECONDS."""
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
            log.warning("Spark did not stop in time and was killed")
        finally:
            # The whole group: a JVM that outlived the child, and everything if this wait is cancelled.
            _kill_group(child.pid)


async def _tell_of_waiting(began: float) -> None:
    """Logs that Spark is still starting, until it is cancelled."""
    while True:
        await asyncio.sleep(WAITING_SECONDS)
        log.info("Spark is still starting, after %.0f s", time.monotonic() - began)


def storage_notes(master: str, warehouse: str, derby: bool, data_dir: Path) -> list[tuple[int, str]]:
    """What the log says about an engine's storage, with levels of `logging`.

    `warehouse` is the URI of the directory of new databases; `derby` says whether the metastore is the embedded one.
    """
    local = master.startswith("local")
    notes = []
    if derby:
        notes.append(
            (
                logging.INFO if local else logging.WARNING,
                f"The metastore is a Derby database in {data_dir}. It is for trying: no other program can use it while "
                "the gateway runs. For shared tables, name a metastore with engine.spark.hadoop.hive.metastore.uris "
                "(docs/how-to/cluster.md).",
            )
        )
    if not local and warehouse.startswith(("file:", "/")):
        notes.append(
            (
                logging.WARNING,
                f"New databases lie in {warehouse}, but the tasks of {master} run on other machines: unless each of "
                "them has this directory mounted, rows are lost. Set engine.spark.sql.warehouse.dir to a shared file "
                "system, such as hdfs://name/warehouse.",
            )
        )
    return notes


def _answer_of(line: bytes) -> dict[str, Any]:
    """Raises ValueError if the line is not an answer."""
    answer = json.loads(line)
    if not isinstance(answer, dict) or not isinstance(answer.get("id"), int):
        raise ValueError(f"unexpected answer {line[:100]!r}")
    return answer


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def find_java() -> Path:
    """Returns the java that Spark will run. Raises EngineFailed if there is none, or it is too old."""
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    advice = f"Install Java {JAVA_LEAST} or newer (Debian: openjdk-17-jre-headless) and set JAVA_HOME or PATH."
    if found is None or not Path(found).exists():
        where = f"in JAVA_HOME ({home})" if home else "in PATH"
        raise EngineFailed(f"No Java found {where}. {advice}")
    try:
        shown = subprocess.run([found, "-version"], capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise EngineFailed(f"{found} cannot be run: {error}. {advice}") from error
    version = re.search(r'version "(\d+)', shown.stderr)
    if version is None or int(version.group(1)) < JAVA_LEAST:
        raise EngineFailed(f"{found} is older than Java {JAVA_LEAST}. {advice}")
    return Path(found)
