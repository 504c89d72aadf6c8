"""The demo's gateway: a separate process with the embedded Spark and a temporary directory."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from gateway import children

READY = "freshgate: listening on jdbc:hive2://"
START_SECONDS = 180.0
STOP_SECONDS = 40.0
LOG_LINES_SHOWN = 20


class GatewayFailed(Exception):
    """The gateway did not start, or ended too early. The message ends with the last lines of its log."""


class ServedGateway:
    """A running `freshgate serve`."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path, port: int) -> None:
        self.process = process
        self.log = log
        self.port = port

    @property
    def url(self) -> str:
        return f"jdbc:hive2://127.0.0.1:{self.port}/"

    def wait(self) -> None:
        """Blocks while the gateway runs; raises GatewayFailed when it ends."""
        code = self.process.wait()
        raise GatewayFailed(f"The gateway ended with code {code}.{_tail(self.log)}")


@contextlib.contextmanager
def running_gateway(directory: Path, port: int) -> Iterator[ServedGateway]:
    """Starts the gateway, whose files are all below `directory`, and stops it and everything that it started."""
    log = directory / "gateway.log"
    options = ("--port", str(port), "--data-dir", str(directory / "data"))
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", children.PACKAGE, "serve", *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            cwd=directory,
            env=children.environment(),
            # Ctrl-C must reach only the demo, which then stops the gateway in order.
            start_new_session=True,
        )
    try:
        yield ServedGateway(process, log, _port(process, log))
    finally:
        _stop(process)


def _port(process: subprocess.Popen[bytes], log: Path) -> int:
    line = _first_line(process)
    if not line.startswith(READY):
        raise GatewayFailed(f"The gateway did not start.{_tail(log)}")
    return int(line.rpartition(":")[2])


def _first_line(process: subprocess.Popen[bytes]) -> str:
    """The first line of standard output; "" if the process ends or prints nothing within START_SECONDS."""
    assert process.stdout is not None
    deadline = time.monotonic() + START_SECONDS
    read = b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while not read.endswith(b"\n") and selector.select(max(0.0, deadline - time.monotonic())):
            piece = os.read(process.stdout.fileno(), 4096)
            if not piece:
                break
            read += piece
    return read.decode("utf-8", errors="replace").strip()


def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    if process.stdout is not None:
        process.stdout.close()


def _tail(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-LOG_LINES_SHOWN:]
    return "".join(f"\n  {line}" for line in (["Its log ends with:", *lines] if lines else []))
