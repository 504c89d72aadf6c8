"""Tests what signals do to a gateway that waits for Spark: SIGHUP never ends it without a drain."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from processes import environment, wait_until

NOHUP = ["sh", "-c", "trap '' HUP; exec \"$@\"", "sh"]
"""As `nohup`, which also changes standard input."""
COMMAND = [sys.executable, "-m", "gateway", "serve", "--port", "0", "--upstream", "127.0.0.1:1"]
ONE_AT_A_TIME = 30


def wait(process: subprocess.Popen[bytes], log: Path, said: str) -> None:
    def found() -> bool:
        assert process.poll() is None, log.read_text(encoding="utf-8")
        return said in log.read_text(encoding="utf-8")

    wait_until(found, what=said)


@pytest.mark.parametrize(
    ("terminal", "before", "ends"),
    [(False, [], False), (True, [], True), (True, NOHUP, False)],
    ids=["service", "terminal", "nohup"],
)
def test_a_hangup(terminal: bool, before: list[str], ends: bool, tmp_path: Path) -> None:
    log = tmp_path / "log"
    outer, inner = pty.openpty() if terminal else (None, os.open(os.devnull, os.O_RDONLY))
    with log.open("wb") as errors:
        process = subprocess.Popen([*before, *COMMAND], cwd=tmp_path, env=environment(), stdin=inner, stderr=errors)
    try:
        wait(process, log, "waiting for Spark")
        process.send_signal(signal.SIGHUP)
        if not ends:
            if not before:
                wait(process, log, "read the certificates again")
            process.send_signal(signal.SIGTERM)
        assert process.wait(ONE_AT_A_TIME) == 0
        text = log.read_text(encoding="utf-8")
        assert ("read the certificates again" in text) == (not terminal)
        assert "Traceback" not in text
    finally:
        process.kill()
        process.wait()
        for each in (outer, inner):
            if each is not None:
                os.close(each)
