"""HAProxy as a relay in front of a port, which neither reads nor changes the bytes."""

from __future__ import annotations

import contextlib
import shutil
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

from processes import Program, free_port, wait_until

CONFIGURATION = """
global
    maxconn 1000
defaults
    mode tcp
    timeout connect 10s
    timeout client 1h
    timeout server 1h
listen spark
    bind 127.0.0.1:{port}
    server spark 127.0.0.1:{upstream}
"""


def found() -> str | None:
    """The program's path, if it is installed."""
    return shutil.which("haproxy", path="/usr/local/sbin:/usr/sbin:/usr/bin")


@contextlib.contextmanager
def haproxy(directory: Path, upstream: int) -> Iterator[int]:
    """Runs HAProxy in front of the port `upstream`; yields its port on 127.0.0.1."""
    program = found()
    if program is None:
        raise SystemExit("bench: this measure needs HAProxy; run apt-get install haproxy.")
    port = free_port()
    conf = directory / "haproxy.cfg"
    conf.write_text(CONFIGURATION.format(port=port, upstream=upstream), encoding="utf-8")
    running = Program([program, "-db", "-f", str(conf)], stderr=directory / "haproxy.stderr")
    try:
        wait_until(lambda: _accepts(port), what="HAProxy")
        yield port
    finally:
        running.stop(signal.SIGTERM)  # A benchmark started in the background ignores SIGINT.


def _accepts(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
