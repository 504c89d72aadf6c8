"""An interrupted demo ends with a short line and the signal's exit code, whatever the interrupt has broken."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest
from processes import ROOT

RUN = """
import contextlib, signal, sys

from gateway.demonstration import command

class Broken:
    def close(self):
        b"\\xe6".decode()

def run(*_):
    with contextlib.closing(Broken()):
        signal.raise_signal(int(sys.argv[-1]))

command._run = run
sys.exit(command.run(command.DemoOptions()))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_in_the_middle_of_a_reply_ends_the_demo(number: signal.Signals) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", RUN, str(int(number))],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (128 + number, "\nStopping the gateway and Spark.\n", "")
