"""The command line of scripts/bench."""

from __future__ import annotations

import argparse
import dataclasses
import importlib.metadata
import json
import os
import platform
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from benchmarks import (
    changed_definitions,
    classification,
    contention,
    crowds,
    dashboards,
    doors,
    fetch,
    from_memory,
    haproxy,
    jobs,
    latency,
    page,
    partitions,
    repeated,
    rewrite_rates,
    rewriting,
    row_refreshes,
    starts,
    transports,
    turns,
    views,
)
from benchmarks.figures import Figure, table
from benchmarks.stand import Stand
from benchmarks.wire import RATE, Wire

Measure = Callable[[Stand], Iterator[Figure]]

MEASURES: Mapping[str, Measure] = {
    "latency-empty": latency.without_views,
    "fetch-jdbc": fetch.through_jdbc,
    "fetch-pyhive": fetch.through_pyhive,
    "memory": fetch.memory,
    "refresh": views.refreshes,
    "chain": views.chains,
    "fresh-read": views.fresh_reads,
    "latency-views": latency.with_views,
    "stale-readers": views.stale_readers,
    "partition-refresh": partitions.one_of_many,
    "looks": partitions.looks,
    "hidden-partitions": partitions.hidden_partitions,
    "reads-beside-refresh": contention.reads_beside_a_refresh,
    "sessions": contention.many_sessions,
    "jobs": jobs.many_jobs,
    "start": starts.starts,
    "drivers": transports.drivers,
    "transports": transports.transports,
    "relay": transports.relay,
    "doors": doors.figures,
    "dashboards": dashboards.figures,
    "incremental": row_refreshes.figures,
    "changed-definitions": changed_definitions.figures,
    "repeated": repeated.figures,
    "from-memory": from_memory.figures,
    "crowd": crowds.figures,
    "page": page.figures,
}
"""Measured in this order: the first measure needs an empty catalog, and the later ones create views."""
ALONE: Mapping[str, Callable[[], Iterator[Figure]]] = {
    "classification": classification.figures,
    "rewriting": rewriting.figures,
    "rewrite-rates": rewrite_rates.figures,
    "turns": turns.figures,
    "page-turns": page.turns,
}
"""Measures that need neither server nor gateway; `rewrite-rates` starts a gateway of its own."""


def main() -> int:
    """Prints the table and writes the JSON file. The exit code does not depend on targets."""
    options = _parser().parse_args()
    if options.table:
        print(table(figure for path in options.table for figure in _read(path)))
        return 0
    # Without this, SIGTERM would leave Spark and the gateway running.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    wire = None if options.wire is None else Wire(options.wire)
    wanted = options.only or _all()
    figures: list[Figure] = []
    try:
        for figure in _measured(options, wanted, wire):
            figures.append(figure)
    finally:
        # A failed measure must not discard earlier ones, which may have taken an hour.
        _publish(options, figures)
    return 0


def _all() -> list[str]:
    """All measures that are possible on this machine."""
    names = [*MEASURES, *ALONE]
    if haproxy.found() is None:
        print("bench: HAProxy is not installed, so the measures 'relay' and 'doors' are skipped", file=sys.stderr)
        names = [name for name in names if name not in ("relay", "doors")]
    return names


def _publish(options: argparse.Namespace, figures: list[Figure]) -> None:
    print(table(figures))
    verdicts = [figure.met for figure in figures]
    print(f"\n{verdicts.count(True)} targets met, {verdicts.count(False)} missed.")
    if options.json is not None:
        options.json.write_text(json.dumps(_report(options, figures), indent=2) + "\n", encoding="utf-8")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="scripts/bench", description="Measures the gateway against a direct connection."
    )
    names = [*MEASURES, *ALONE]
    parser.add_argument(
        "--only",
        action="append",
        choices=names,
        metavar="NAME",
        help=f"only this measure; may be repeated: {', '.join(names)}",
    )
    parser.add_argument(
        "--runs", type=_positive, metavar="N", help="number of pairs of runs; each measure has its own default"
    )
    parser.add_argument("--scale", type=float, default=0.1, help="TPC-H scale factor; default 0.1")
    parser.add_argument(
        "--rows", type=_positive, default=1_000_000, help="number of rows of a large result; default 1000000"
    )
    parser.add_argument(
        "--wire", type=_rate, metavar="RATE", help="limit what servers send to this rate, for example 1gbit; needs root"
    )
    parser.add_argument(
        "--metastore", choices=("embedded", "service"), default="embedded", help="inside Spark, or a separate service"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures to this file")
    parser.add_argument(
        "--table", type=Path, nargs="+", metavar="FILE", help="measure nothing: print one table of such files"
    )
    return parser


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value


def _rate(text: str) -> str:
    if RATE.fullmatch(text) is None:
        raise argparse.ArgumentTypeError("must be a number and kbit, mbit or gbit, such as 1gbit")
    return text


def _measured(options: argparse.Namespace, wanted: list[str], wire: Wire | None) -> Iterator[Figure]:
    with_server = [name for name in MEASURES if name in wanted]
    if with_server:
        with (
            tempfile.TemporaryDirectory(prefix="freshgate-bench-") as directory,
            Stand(
                Path(directory),
                scale=options.scale,
                rows=options.rows,
                runs=options.runs,
                wire=wire,
                service=options.metastore == "service",
            ) as stand,
        ):
            for name in with_server:
                yield from _reported(name, MEASURES[name](stand))
    for name, measure in ALONE.items():
        if name in wanted:
            yield from _reported(name, measure())


def _reported(name: str, figures: Iterator[Figure]) -> Iterator[Figure]:
    """Passes the figures on, and reports progress on standard error, because a run takes long."""
    print(f"bench: {name}", file=sys.stderr, flush=True)
    for figure in figures:
        print(f"bench:   {figure.subject}: {figure.value:.4g} {figure.unit}", file=sys.stderr, flush=True)
        yield figure


def _read(path: Path) -> list[Figure]:
    """The figures that an earlier run wrote."""
    names = {field.name for field in dataclasses.fields(Figure)}
    written = json.loads(path.read_text(encoding="utf-8"))["figures"]
    return [Figure(**{name: value for name, value in each.items() if name in names}) for each in written]


def _report(options: argparse.Namespace, figures: list[Figure]) -> dict[str, object]:
    return {
        "scale": options.scale,
        "rows": options.rows,
        "wire": options.wire,
        "metastore": options.metastore,
        "machine": {
            "system": platform.platform(),
            "processors": os.cpu_count(),
            "python": platform.python_version(),
            "pyspark": importlib.metadata.version("pyspark"),
            "freshgate": importlib.metadata.version("freshgate"),
        },
        "figures": [{**dataclasses.asdict(figure), "met": figure.met} for figure in figures],
    }


if __name__ == "__main__":
    sys.exit(main())
