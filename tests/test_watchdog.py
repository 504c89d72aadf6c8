"""Tests that signals end a process whose event loop is blocked, or whose threads do not end."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest
from processes import environment

PROGRAM = """
import asyncio, os, re, sys, threading, time
import uvloop
from gateway import watchdog

watchdog.REACTION_SECONDS = watchdog.LEAVING_SECONDS = {seconds}

async def serve():
    stopping = asyncio.Event()
    dog = watchdog.Watchdog(stopping.set)
    dog.start()
    loop = asyncio.get_running_loop()
    {before}
    print("ready", flush=True)
    {work}
    await stopping.wait()
    print("stopping", flush=True)
    stopping.clear()
    {then}
    dog.leave()

{run}(serve())
print("ended", flush=True)
"""
SOON = 20
RUNNERS = pytest.mark.parametrize("run", ["uvloop.run", "asyncio.run"])
IN_PYTHON = "while True: pass"
ASLEEP = "time.sleep(1_000)"
IN_C = "re.match('(a*)*b', 'a' * 60)"
"""Holds the interpreter's lock, so that no thread runs."""
TERM, INT = signal.SIGTERM, signal.SIGINT


class Program:
    def __init__(self, run: str, work: str, then: str = "pass", before: str = "pass", seconds: float = 0.2) -> None:
        text = PROGRAM.format(run=run, work=work, then=then, before=before, seconds=seconds)
        self.process = subprocess.Popen(
            [sys.executable, "-c", text],
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.says("ready")

    def says(self, word: str) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline().strip() == word

    def ends(self) -> tuple[int, str]:
        try:
            _, errors = self.process.communicate(timeout=SOON)
        finally:
            self.process.kill()
            self.process.wait()
        return self.process.returncode, errors


@RUNNERS
@pytest.mark.parametrize("number", [TERM, INT])
@pytest.mark.parametrize("work", [IN_PYTHON, ASLEEP])
def test_a_blocked_loop(run: str, work: str, number: signal.Signals) -> None:
    program = Program(run, work)
    program.process.send_signal(number)
    code, errors = program.ends()
    assert code == 1
    assert f"did not react to {number.name} within 0.2 seconds" in errors
    assert "in serve" in errors


@RUNNERS
def test_a_second_signal_ends_what_no_thread_can(run: str) -> None:
    program = Program(run, IN_C)
    program.process.send_signal(TERM)
    with pytest.raises(subprocess.TimeoutExpired):
        program.process.wait(0.3)
    program.process.send_signal(TERM)
    assert program.ends()[0] == -TERM


@RUNNERS
def test_a_loop_that_reacts(run: str) -> None:
    """Each signal reaches the loop, also those after the first."""
    program = Program(run, "pass", then="await stopping.wait(); await asyncio.sleep(0.5)")
    program.process.send_signal(TERM)
    program.says("stopping")
    program.process.send_signal(TERM)
    program.says("ended")
    assert program.ends() == (0, "")


@RUNNERS
def test_a_loop_that_is_blocked_while_it_stops(run: str) -> None:
    program = Program(run, "pass", then=IN_PYTHON)
    program.process.send_signal(TERM)
    program.says("stopping")
    program.process.send_signal(TERM)
    assert program.ends()[0] == 1


@RUNNERS
def test_other_signals_reach_the_loop(run: str) -> None:
    program = Program(run, "pass", before="loop.add_signal_handler(1, lambda: print('hangup', flush=True))")
    program.process.send_signal(signal.SIGHUP)
    program.says("hangup")
    program.process.send_signal(TERM)
    program.says("stopping")
    program.says("ended")
    assert program.ends() == (0, "")


@RUNNERS
@pytest.mark.parametrize(
    "threads",
    [
        "threading.Thread(target=time.sleep, args=(1_000,)).start()",
        "asyncio.ensure_future(asyncio.to_thread(time.sleep, 1_000)); await asyncio.sleep(0)",
    ],
)
def test_a_thread_that_does_not_end(run: str, threads: str) -> None:
    program = Program(run, threads)
    program.process.send_signal(TERM)
    program.says("stopping")
    code, errors = program.ends()
    assert code == 1
    assert "did not end within 0.2 seconds after everything was stopped" in errors
