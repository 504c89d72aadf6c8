"""How many queries of three benchmarks are answered from a few views, as a user meets it: `freshgate serve` with an
embedded Spark, tables and views created by SQL, and each query sent by a driver.

A query counts if `EXPLAIN REWRITE` has a chosen view, the catalog counts an answer from a view when the query runs, and
the rows are those of a session without rewriting.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clients import pyhive, rows
from processes import Gateway
from pyhive import hive

from benchmarks.figures import Figure
from benchmarks.rate_queries import NAMES, Benchmark, benchmarks
from benchmarks.rate_views import VIEWS

GOALS = {"ssb": 13, "tpch": 14, "tpcds": 52}
SETTINGS: dict[str, Any] = {
    "rewrite.wait": 60,
    "rewrite.canary": 0,
    "result_cache.bytes": 0,
    "engine.spark.sql.shuffle.partitions": 2,
}
HITS = "SELECT coalesce(sum(hits), 0) FROM freshgate.rewrites"
TRIES = 4
"""How often a busy gateway is asked, which answers after half a minute at the latest."""
_ERROR = re.compile(r"\[([A-Z_.]+)\]")
DIGITS = 9
"""Of floating-point numbers, which differ in their last digits between two runs of the same query, too."""


@dataclass(slots=True)
class Outcome:
    """What became of a query: why no view answers it, or which one does."""

    view: str = ""
    reason: str = "no view takes part that reads one of its tables"
    proposed: bool = False


def figures() -> Iterator[Figure]:
    """Raises FileNotFoundError without the archive of Spark's tests."""
    found = list(benchmarks())
    with tempfile.TemporaryDirectory(prefix="freshgate-bench-") as directory:
        gateway = Gateway(Path(directory) / "gateway.log", data_dir=Path(directory) / "data", settings=SETTINGS)
        try:
            for benchmark in found:
                outcomes = measured(gateway, benchmark)
                answered = sum(bool(each.view) for each in outcomes.values())
                proposed = sum(each.proposed for each in outcomes.values())
                subject = (
                    f"{NAMES[benchmark.name]}: answered of {len(outcomes)}, {proposed} proposed, "
                    f"{len(VIEWS[benchmark.name])} views"
                )
                yield Figure("rewrite-rates", subject, answered, "queries", at_least=GOALS[benchmark.name])
                _explain(benchmark, outcomes)
        finally:
            gateway.stop()


def measured(gateway: Gateway, benchmark: Benchmark) -> dict[str, Outcome]:
    """The outcome of each query of the benchmark, of which tables and views are created."""
    with pyhive(gateway.host, gateway.port) as client, pyhive(gateway.host, gateway.port) as plain:
        rows(client, f"CREATE DATABASE {benchmark.name}")
        rows(plain, "SET freshgate.rewrite = off")
        for cursor in (client, plain):
            rows(cursor, f"USE {benchmark.name}")
        for statement in benchmark.statements():
            rows(client, statement)
        for name, query in VIEWS[benchmark.name].items():
            rows(client, f"CREATE MATERIALIZED VIEW {name}_v ENABLE QUERY REWRITE AS {query}")
        outcomes: dict[str, Outcome] = {}
        for name, query in benchmark.queries.items():
            outcomes[name] = _outcome(client, plain, query)
            _print(f"{benchmark.name} {name}: {outcomes[name].view or outcomes[name].reason}")
        return outcomes


def _outcome(client: Any, plain: Any, query: str) -> Outcome:
    """Raises AssertionError if an answer from a view has other rows."""
    outcome = Outcome()
    for view, verdict, reason, text in _explained(client, query):
        outcome.proposed |= text is not None
        if verdict == "CHOSEN":
            return _answered(client, plain, query, view)
        if view is not None and (verdict == "NOT PROVED" or "the query does not" not in reason):
            outcome.reason = f"{verdict}, {view.rpartition('.')[2]}: {reason}"
            if verdict != "REJECTED":
                break
    return outcome


def _explained(client: Any, query: str) -> list[tuple[Any, ...]]:
    """What each view is to the query, once that is known."""
    for _ in range(TRIES):
        found = rows(client, f"EXPLAIN REWRITE {query}")
        if all(verdict != "CONSIDERING" for _, verdict, *_ in found):
            break
    return found


def _answered(client: Any, plain: Any, query: str, view: str) -> Outcome:
    expected = _answer(plain, query)
    before = rows(client, HITS)
    answer = _answer(client, query)
    if answer != expected:
        raise AssertionError(f"{view} gives other rows: {query}")
    # A query that fails on these rows fails on the view and unchanged.
    if not isinstance(answer, str) and rows(client, HITS) == before:
        return Outcome(reason=f"CHOSEN, {view}, but its rows are not from the view", proposed=True)
    return Outcome(view, "", proposed=True)


def _answer(cursor: Any, query: str) -> list[str] | str:
    """The rows, in any order; or Spark's name for the error, such as DIVIDE_BY_ZERO."""
    try:
        return sorted(map(_shown, rows(cursor, query)))
    except hive.OperationalError as error:
        found = _ERROR.search(str(error))
        return found[1] if found else str(error)


def _shown(row: tuple[Any, ...]) -> str:
    return str([f"{value:.{DIGITS}g}" if isinstance(value, float) else value for value in row])


def _explain(benchmark: Benchmark, outcomes: dict[str, Outcome]) -> None:
    answered = [name for name, each in outcomes.items() if each.view]
    _print(f"{benchmark.name}: answered {' '.join(answered)}")
    reasons: dict[str, list[str]] = {}
    for name, each in outcomes.items():
        if not each.view:
            reasons.setdefault(each.reason, []).append(name)
    for reason, names in sorted(reasons.items(), key=lambda item: -len(item[1])):
        _print(f"  {' '.join(names)}: {reason}")


def _print(line: str) -> None:
    """At once, because a run takes long and may be stopped."""
    print(f"bench:   {line}", file=sys.stderr, flush=True)
