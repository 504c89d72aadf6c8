"""A program that runs Python programs in forks of itself, which need not import the gateway's modules again.

Each request is a JSON object with the program as after `python`, its environment variables and directory, with the
file descriptors of its standard input, output and error, and of a socket: this gets a line with the process id, and
another one with the exit code. The program ends when nobody can make requests any more.
"""

from __future__ import annotations

import array
import json
import os
import runpy
import select
import signal
import socket
import sys
from types import FrameType

import gateway.__main__  # noqa: F401

REQUEST_BYTES_MAX = 1 << 20
DESCRIPTORS = 4


def _serve(requests: socket.socket) -> dict[str, list[str]]:
    """Returns only in a fork: the program that it is to run."""
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(woken, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, _nothing)
    running: dict[int, socket.socket] = {}
    while True:
        ready, _, _ = select.select([requests.fileno(), woken], [], [])
        if woken in ready:
            os.read(woken, 4096)
            _report(running)
        if requests.fileno() not in ready:
            continue
        message, descriptors = _receive(requests)
        if not message:
            sys.exit()
        *streams, told = descriptors
        if (child := os.fork()) == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for held in (requests, *running.values()):
                held.close()
            for number, used in enumerate(streams):
                os.dup2(used, number)
            for used in (woken, wake, *streams, told):
                os.close(used)
            _reopen()
            asked: dict[str, list[str]] = message
            return asked
        running[child] = socket.socket(fileno=told)
        running[child].sendall(f"{child}\n".encode())
        for used in streams:
            os.close(used)


def _reopen() -> None:
    """Python's streams remember of what kind their files were."""
    encoding = sys.stdout.encoding
    sys.stdin = os.fdopen(0, encoding=encoding, closefd=False)
    sys.stdout = os.fdopen(1, "w", encoding=encoding, closefd=False)
    sys.stderr = os.fdopen(2, "w", encoding=encoding, errors="backslashreplace", buffering=1, closefd=False)


def _nothing(number: int, frame: FrameType | None) -> None:
    """Handles SIGCHLD: without a handler, nothing would be written to the wakeup descriptor."""


def _receive(requests: socket.socket) -> tuple[dict[str, list[str]], list[int]]:
    """A request, or an empty one at the end."""
    numbers = array.array("i")
    data, ancillary, _, _ = requests.recvmsg(
        REQUEST_BYTES_MAX, socket.CMSG_SPACE(DESCRIPTORS * numbers.itemsize), socket.MSG_CMSG_CLOEXEC
    )
    for _, _, found in ancillary:
        numbers.frombytes(found)
    return (json.loads(data) if data else {}), list(numbers)


def _report(running: dict[int, socket.socket]) -> None:
    """Tells the exit codes of the forks that have ended."""
    for child in tuple(running):
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            told = running.pop(child)
            with told:
                told.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())


def _run(program: list[str]) -> None:
    """Runs it as Python would."""
    # Otherwise runpy warns that it is imported already.
    del sys.modules["gateway.__main__"]
    if program[0] == "-m":
        sys.argv = program[1:]
        sys.path[0] = os.getcwd()
        runpy.run_module(program[1], run_name="__main__", alter_sys=True)
        return
    sys.argv = program
    sys.path[0] = os.path.dirname(program[0])
    runpy.run_path(program[0], run_name="__main__")


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as _requests:
        _asked = _serve(_requests)
    (_directory,) = _asked["directory"]
    os.chdir(_directory)
    os.environ.clear()
    for _entry in _asked["environment"]:
        _name, _, os.environ[_name] = _entry.partition("=")
    _run(_asked["program"])
