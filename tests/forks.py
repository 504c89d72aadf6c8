"""Starts Python programs as forks of tests/fork_server.py: a gateway takes a second of CPU time for its imports."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO

SCRIPT = Path(__file__).with_name("fork_server.py")
ROOT = SCRIPT.parent.parent
START_SECONDS = 120.0


class Fork:
    """A running fork. It has those methods of `subprocess.Popen` that tests use."""

    stdin: IO[str] | None = None

    def __init__(
        self, program: Sequence[str], errors: IO[str], environment: Mapping[str, str], directory: Path, typed: str = ""
    ) -> None:
        """`program`: as after `python`. `errors`: for its standard error. `typed`: its standard input."""
        request = {
            "program": list(program),
            "environment": [f"{name}={value}" for name, value in environment.items()],
            "directory": [str(directory)],
        }
        reading, writing = os.pipe()
        self._told, telling = socket.socketpair()
        with contextlib.closing(telling), tempfile.TemporaryFile("w+", encoding="utf-8") as given:
            given.write(typed)
            given.seek(0)
            streams = [given.fileno(), writing, errors.fileno()]
            socket.send_fds(_server().requests, [json.dumps(request).encode()], [*streams, telling.fileno()])
        os.close(writing)
        self.stdout = os.fdopen(reading, encoding="utf-8")
        self.returncode: int | None = None
        self._lines = self._told.makefile("rb")
        if not self._readable(START_SECONDS):
            raise AssertionError("the fork server does not answer")
        self.pid = int(self._lines.readline())

    def _readable(self, seconds: float | None) -> bool:
        # Not select(): a long test has more than a thousand open files.
        found = select.poll()
        found.register(self._told, select.POLLIN)
        return bool(found.poll(None if seconds is None else seconds * 1000))

    def poll(self) -> int | None:
        """The exit code, as in `subprocess`; None while the process runs."""
        if self.returncode is None and self._readable(0):
            self._end()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Waits for the end; returns the exit code. Raises subprocess.TimeoutExpired."""
        if self.returncode is None:
            if not self._readable(timeout):
                raise subprocess.TimeoutExpired(["fork", str(self.pid)], timeout or 0.0)
            self._end()
        assert self.returncode is not None
        return self.returncode

    def _end(self) -> None:
        line = self._lines.readline()
        # The server itself was killed.
        self.returncode = int(line) if line else -signal.SIGKILL
        self._lines.close()
        self._told.close()

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            # It may have ended, and its server not have told so yet.
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def completed(
    program: Sequence[str],
    environment: Mapping[str, str],
    *,
    directory: Path,
    typed: str = "",
    seconds: float = 60,
) -> subprocess.CompletedProcess[str]:
    """Runs a program to its end, as `subprocess.run` does. `program`: as after `python`. `typed`: its standard input.
    Raises subprocess.TimeoutExpired."""
    with tempfile.TemporaryFile("w+", encoding="utf-8") as errors:
        fork = Fork(program, errors, environment, directory, typed)
        watch = threading.Timer(seconds, fork.kill)
        watch.start()
        try:
            with fork.stdout:
                output = fork.stdout.read()
            code = fork.wait(seconds)
        finally:
            watch.cancel()
            watch.join()
        errors.seek(0)
        return subprocess.CompletedProcess(list(program), code, output, errors.read())


class _Server:
    """This process's server, which ends with it."""

    def __init__(self) -> None:
        paths = filter(None, [os.environ.get("PYTHONPATH")])
        self.requests, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with its:
            self.process = subprocess.Popen(
                [sys.executable, str(SCRIPT), str(its.fileno())],
                pass_fds=(its.fileno(),),
                env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *paths])},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                # So that Ctrl-C reaches only those whom the tests stop.
                start_new_session=True,
            )


@cache
def _server() -> _Server:
    return _Server()
