"""Drives one session of the real beeline through its standard input.

At a terminal, beeline prints a prompt, the statement and its result. The prompts are removed here, because the demo
prints the statements itself; the rest is passed on unchanged.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gateway import spark_home

PROMPT = re.compile(r"^(?:0: jdbc:hive2://\S+ |(?:\. ?)+> )+")
SECONDS = re.compile(r"^(?:\d+ rows?|No rows) (?:selected|affected) \((\d+(?:\.\d+)?) seconds\)$", re.MULTILINE)
NO_RESULT = re.compile(r"^\+-+\+\n\| Result +\|\n\+-+\+\n\+-+\+\n", re.MULTILINE)
"""Spark's answer to a statement without rows: an empty table with one column."""
WITHOUT_BAR = "hive.server2.in.place.progress=false"
"""Beeline draws the bar with control characters, even into a pipe."""
END_MARK = "end-of-answer-{}"
ANSWER_SECONDS = 300.0
STOP_SECONDS = 10.0


class BeelineFailed(Exception):
    """Beeline could not be started or connected, or has ended. The message contains its output."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What beeline printed for one statement."""

    text: str

    @property
    def seconds(self) -> float:
        """The time that beeline measured; 0 for a failed statement, which beeline does not time."""
        found = SECONDS.search(self.text)
        return float(found.group(1)) if found else 0.0

    @property
    def table(self) -> str:
        """The rows, printed as a table."""
        return "\n".join(line for line in self.text.splitlines() if line[:1] in {"|", "+"})


class Beeline:
    """A connected beeline."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._sent = 0

    def run(self, sql: str) -> Reply:
        """Runs one statement to its end; an error is part of the reply.

        Raises BeelineFailed if beeline has ended, or does not answer within ANSWER_SECONDS.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._sent += 1
        mark = END_MARK.format(self._sent)
        try:
            self._process.stdin.write(f"{sql};\n!sh echo {mark}\n" if sql else f"!sh echo {mark}\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise BeelineFailed("Beeline has ended. Run the demo again.") from None
        lines: list[str] = []
        watch = threading.Timer(ANSWER_SECONDS, self._process.kill)
        watch.daemon = True
        watch.start()
        try:
            for line in self._process.stdout:
                line = PROMPT.sub("", line.rstrip("\n"))
                if line == mark:
                    return Reply(NO_RESULT.sub("", "\n".join(lines) + "\n").strip("\n"))
                lines.append(line)
        finally:
            watch.cancel()
        raise BeelineFailed("Beeline has ended. It printed:\n" + "\n".join(lines))


@contextlib.contextmanager
def connected_beeline(directory: Path, url: str, user: str) -> Iterator[Beeline]:
    """Starts beeline with `directory` as its home, where it keeps its history, and connects it. Raises SparkMissing."""
    spark = spark_home.find()
    home = directory / "beeline"
    home.mkdir()
    environment = {
        **os.environ,
        "SPARK_HOME": str(spark),
        # Without a terminal, beeline does not echo its input.
        "SPARK_BEELINE_OPTS": f'-Duser.home="{home}" -Djava.io.tmpdir="{home}" -Djline.terminal=none',
    }
    process = subprocess.Popen(
        [
            str(spark / "bin" / "beeline"),
            "-u",
            f"{url}?{WITHOUT_BAR}",
            "-n",
            user,
            "--maxWidth=200",
            "--maxColumnWidth=60",
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        errors="replace",
        cwd=home,
        env=environment,
        start_new_session=True,
    )
    try:
        beeline = Beeline(process)
        greeting = beeline.run("")
        if "Connected to:" not in greeting.text:
            raise BeelineFailed(f"Beeline could not connect to {url}. It printed:\n{greeting.text}")
        yield beeline
    finally:
        _stop(process)


def _stop(process: subprocess.Popen[str]) -> None:
    """Closes beeline's input, which ends it unless a statement hangs."""
    with contextlib.suppress(BrokenPipeError):
        if process.stdin is not None:
            process.stdin.close()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout is not None:
        process.stdout.close()
