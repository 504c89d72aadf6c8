"""Runs `freshgate demo`: the steps of the story, with their answers checked.

Tests: `test_demo_interrupt`, `test_demo_story`.
"""

from __future__ import annotations

import os
import signal
import statistics
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from pyhive.exc import Error as PyHiveError

from gateway import spark_home
from gateway.demonstration import story
from gateway.demonstration.beeline import Beeline, BeelineFailed, connected_beeline
from gateway.demonstration.flights import DATABASE, installed, load
from gateway.demonstration.served import GatewayFailed, running_gateway
from gateway.demonstration.story import StoryStep
from gateway.demonstration.warehouse import Warehouse, WrongAnswer, connected_warehouse
from gateway.errors import FreshgateError

USER = "demo"
WIDTH = 100
EXIT_FAILED = 1
FAILURES = (WrongAnswer, GatewayFailed, BeelineFailed, FreshgateError, PyHiveError, OSError)
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

INTRODUCTION = """\
Freshgate: materialized views for Spark SQL
===========================================
336,776 flights left New York in 2013. This demo starts a gateway with an embedded Spark, loads the
flights, and queries them with beeline, Hive's own command line. The output of beeline is shown
unchanged, with the times that beeline measures. Each answer is checked against the base tables.
"""

KEPT = """\
The gateway keeps running, with the tables and the materialized views. Connect to it:

  JDBC URL   {url}{database}
  beeline    {program} beeline -u {url}{database} -n {user}
  DBeaver    1. Database > New Database Connection > Apache Hive (or Apache Spark). Next.
             2. Connect by: Host, with Host 127.0.0.1, Port {port}, Database/Schema {database};
                or Connect by: URL, with the JDBC URL above. Username {user}, no password. Finish.
                DBeaver offers to download the driver the first time.
             3. The materialized views are listed among the views of {database}. Read one, change
                {database}.flights in an SQL editor, read it again.

Ctrl-C stops the gateway and deletes its data.
"""


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """`keep`: until Ctrl-C. `port`: 0 is a free one. `data`: the directory of the flights' CSV files; None: the
    installed ones."""

    keep: bool = False
    port: int = 0
    data: Path | None = None


def run(options: DemoOptions) -> int:
    """Runs the demo. The exit code is 0 only if every answer was right."""
    end = _End()
    for number in SIGNALS:
        signal.signal(number, end)
    try:
        with tempfile.TemporaryDirectory(prefix="freshgate-demo-") as directory:
            _run(options, Path(directory), time.monotonic())
    except BaseException as error:
        # A signal in the middle of a reply breaks the connection, and closing that fails in any way.
        if end.received:
            return 128 + end.received
        if not isinstance(error, FAILURES):
            raise
        print(f"\ndemo: {error}", file=sys.stderr)
        return EXIT_FAILED
    return 0


class _End:
    """Handles signals: exits through every `with` block, which stops what was started. A second Ctrl-C must not leave a
    Spark behind."""

    def __init__(self) -> None:
        self.received = 0

    def __call__(self, number: int, _: FrameType | None) -> None:
        for each in SIGNALS:
            signal.signal(each, signal.SIG_IGN)
        self.received = number
        # Not printed, because the signal may have interrupted a print.
        os.write(sys.stdout.fileno(), b"\nStopping the gateway and Spark.\n")
        sys.exit(128 + number)


def _run(options: DemoOptions, directory: Path, began: float) -> None:
    flights = options.data or installed()
    spark_home.find()
    _say(INTRODUCTION)
    started = time.monotonic()
    with running_gateway(directory, options.port) as gateway:
        _say(f"The gateway and its Spark are up after {time.monotonic() - started:.1f} s: {gateway.url}")
        lines = told(gateway.url, gateway.port, flights, directory, ended=not options.keep)
        _summary(lines, time.monotonic() - began)
        if options.keep:
            program = Path(sys.executable).with_name("freshgate")
            _say(KEPT.format(program=program, url=gateway.url, port=gateway.port, database=DATABASE, user=USER))
            gateway.wait()


def told(url: str, port: int, flights: Path, directory: Path, *, ended: bool) -> list[tuple[str, list[float]]]:
    """Tells the story at a gateway that runs: loads the flights, and runs and checks each step; if `ended`, the views
    are dropped. Returns the summary's lines. Raises one of FAILURES."""
    with connected_warehouse(port, USER) as warehouse:
        _load(warehouse, flights, directory)
        with connected_beeline(directory, url, USER) as beeline:
            steps = [
                *story.questions(),
                *story.storm(),
                *story.dashboards(),
                *story.refusals(),
                *(story.end() if ended else []),
            ]
            return list(_run_steps(steps, beeline, warehouse))


def _load(warehouse: Warehouse, source: Path, directory: Path) -> None:
    _heading(f"The data: tables in the database {DATABASE}", "CSV files into Parquet tables, through the gateway.")
    for loaded in load(warehouse, source, directory):
        _say(f"  {loaded.table:<10}{loaded.rows:>9,} rows  {loaded.seconds:5.1f} s")


def _run_steps(steps: Iterable[StoryStep], beeline: Beeline, warehouse: Warehouse) -> Iterator[tuple[str, list[float]]]:
    """Runs and shows the steps; yields the summary's lines: a label, and the seconds of each run."""
    for step in steps:
        if step.heading or step.text:
            _heading(step.heading, step.text)
        _say("\n" + textwrap.indent(step.sql + ";", "    ") + "\n")
        first, *others = [beeline.run(step.sql) for _ in range(step.runs)]
        _say(textwrap.indent("\n".join(_folded(first.text)), "  "))
        if others:
            _say("  and again: " + ", ".join(f"{reply.seconds:.3f} s" for reply in others))
        if step.check is not None:
            step.check(warehouse, [first, *others])
        if step.label:
            yield step.label, [reply.seconds for reply in (first, *others)]


def _folded(text: str) -> Iterator[str]:
    """The lines of an answer; messages are wrapped, tables are not."""
    for line in text.splitlines():
        if line[:1] in {"|", "+"}:
            yield line
        else:
            yield from textwrap.wrap(line, WIDTH, subsequent_indent="  ")


def _summary(lines: Iterable[tuple[str, list[float]]], seconds: float) -> None:
    _heading("How long each step took", "In seconds, as measured by beeline; the median of several runs.")
    _say("")
    for label, times in lines:
        runs = f"  ({len(times)} runs)" if len(times) > 1 else ""
        _say(f"  {label:<58}{statistics.median(times):>8.3f} s{runs}")
    _say(f"\nEvery answer was right. The demo took {seconds:.0f} s.\n")


def _heading(heading: str, text: str) -> None:
    if heading:
        _say(f"\n{heading}\n{'-' * len(heading)}")
    if text:
        _say(("" if heading else "\n") + "\n".join(textwrap.wrap(text, WIDTH)))


def _say(text: str) -> None:
    print(text, flush=True)
