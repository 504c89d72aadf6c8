"""How many queries of three benchmarks are proved to be answered from a few views. Starts an embedded engine.

The queries and the tables' columns come from Spark's own tests. The tables stay empty: a proof reads no rows.
"""

from __future__ import annotations

import asyncio
import re
import struct
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from jars import jar
from planning import Planner, planner
from processes import Engine

from benchmarks.figures import Figure
from benchmarks.rate_views import VIEWS
from gateway.mv.ports import Plans, PlanUnavailable
from gateway.mv.rewriting.proving import difference
from gateway.spark.plans import EnginePlans
from sql.definition.bases import bases
from sql.names import Namespace, TableName
from sql.proof.plan import Plan
from sql.rewriting.candidate import RewritableView
from sql.rewriting.matching import Miss, propose
from sql.rewriting.shape import shape_of

TESTS = "spark-sql_2.13"
NAMES = {"ssb": "Star Schema Benchmark", "tpch": "TPC-H", "tpcds": "TPC-DS"}
GOALS = {"ssb": 12, "tpch": 8, "tpcds": 25}
_CLASSES = {"ssb": "SSBQuerySuite", "tpch": "TPCHBase", "tpcds": "TPCDSSchema"}
"""Classes of Spark's tests with the columns of each benchmark's tables."""
_TABLE = re.compile(r"CREATE TABLE `(\w+)`\s*\(([^;]*)\)\s*USING", re.IGNORECASE)
_TEXT = re.compile(r"(?:VAR)?CHAR\(\d+\)", re.IGNORECASE)
_COLUMN = re.compile(r"`(\w+)`")


@dataclass(frozen=True, slots=True)
class Benchmark:
    name: str
    tables: dict[str, str]
    """The columns of each, as SQL."""
    queries: dict[str, str]


@dataclass(slots=True)
class Outcome:
    """What is known of a query: why no view answers it, and the text that does."""

    proposed: bool = False
    rewritten: str = ""
    reason: str = "no view was compared"


def figures() -> Iterator[Figure]:
    """Raises FileNotFoundError without the archive of Spark's tests."""
    with zipfile.ZipFile(jar(TESTS)) as archive:
        benchmarks = [_read(archive, name) for name in NAMES]
    for benchmark, outcomes in zip(benchmarks, asyncio.run(_all_outcomes(benchmarks)), strict=True):
        proved = sum(bool(each.rewritten) for each in outcomes.values())
        proposed = sum(each.proposed for each in outcomes.values())
        count, views = len(outcomes), len(VIEWS[benchmark.name])
        subject = f"{NAMES[benchmark.name]}: proved of {count}, {proposed} proposed, {views} views"
        yield Figure("rewrite-rates", subject, proved, "queries", at_least=GOALS[benchmark.name])
        _explain(benchmark, outcomes)


def _explain(benchmark: Benchmark, outcomes: dict[str, Outcome]) -> None:
    served = [name for name, each in outcomes.items() if each.rewritten]
    print(f"bench:   {benchmark.name}: proved {' '.join(served)}", file=sys.stderr)
    reasons: dict[str, list[str]] = {}
    for name, each in outcomes.items():
        if not each.rewritten:
            reasons.setdefault(("not proved: " if each.proposed else "") + each.reason, []).append(name)
    for reason, names in sorted(reasons.items(), key=lambda item: -len(item[1])):
        print(f"bench:     {' '.join(names)}: {reason}", file=sys.stderr, flush=True)


# --- from Spark's tests --------------------------------------------------------------------------------


def _read(archive: zipfile.ZipFile, name: str) -> Benchmark:
    texts = _texts(archive.read(f"org/apache/spark/sql/{_CLASSES[name]}.class"))
    written = {found[1]: found[2] for text in texts if (found := _TABLE.search(_stripped(text)))}
    files = [each for each in archive.namelist() if re.fullmatch(rf"{name}/[\w.]+\.sql", each)]
    queries = {Path(each).stem: archive.read(each).decode().strip().rstrip(";") for each in sorted(files, key=_number)}
    return Benchmark(name, written or dict(_named(texts)), {each: _bare(text) for each, text in queries.items()})


def _named(texts: list[str]) -> Iterator[tuple[str, str]]:
    """The tables of a map from names to columns: each name comes before its columns."""
    previous = ""
    for text in texts:
        if text.lstrip().startswith("|`"):
            yield previous, _stripped(text)
        elif re.fullmatch("[a-z_]+", text):
            previous = text


def _number(path: str) -> tuple[float, str]:
    found = re.search(r"\d+(?:\.\d+)?", Path(path).stem)
    return (float(found[0]) if found else 0.0, path)


def _stripped(text: str) -> str:
    return re.sub(r"^\s*\|", "", text, flags=re.MULTILINE)


def _bare(query: str) -> str:
    return "\n".join(line for line in query.splitlines() if not line.startswith("--"))


def _texts(compiled: bytes) -> list[str]:
    """The texts among the constants of a class, in their order."""
    (count,) = struct.unpack(">H", compiled[8:10])
    found, place, number = [], 10, 1
    while number < count:
        kind = compiled[place]
        if kind == 1:
            (length,) = struct.unpack(">H", compiled[place + 1 : place + 3])
            found.append(compiled[place + 3 : place + 3 + length].decode("utf-8", "replace"))
            place += 3 + length
        else:
            place += _SIZES[kind]
            number += kind in (5, 6)
        number += 1
    return found


_SIZES = {**dict.fromkeys((7, 8, 16, 19, 20), 3), **dict.fromkeys((3, 4, 9, 10, 11, 12, 17, 18), 5), 5: 9, 6: 9, 15: 4}
"""Bytes of each kind of constant."""


# --- at Spark ------------------------------------------------------------------------------------------


class _KnownPlans:
    """Plans each text once: a query is compared with several views. Implements `gateway.mv.ports.Plans`."""

    in_place = True

    def __init__(self, working: Planner) -> None:
        self._plans = EnginePlans(working.asking)
        self._known: dict[str, Plan] = {}
        self.of = self._plans.of

    async def optimized(self, session: bytes, text: str) -> Plan:
        if text not in self._known:
            self._known[text] = await self._plans.optimized(session, text)
        return self._known[text]


async def _all_outcomes(benchmarks: list[Benchmark]) -> list[dict[str, Outcome]]:
    with tempfile.TemporaryDirectory(prefix="freshgate-bench-") as directory:
        engine = Engine(Path(directory) / "engine")
        try:
            async with planner(engine) as working:
                return [await _outcomes(working, each) for each in benchmarks]
        finally:
            engine.stop()


async def _outcomes(working: Planner, benchmark: Benchmark) -> dict[str, Outcome]:
    run, namespace = working.session.run, Namespace(benchmark.name)
    await run(f"CREATE DATABASE {benchmark.name}")
    await run(f"USE {benchmark.name}")
    columns: dict[TableName, tuple[str, ...]] = {}
    for table, text in benchmark.tables.items():
        # Spark pads values of CHAR where it reads a table; what a view stores is a plain string. So none is proved.
        await run(f"CREATE TABLE {table} ({_TEXT.sub('STRING', text)}) USING parquet")
        columns[TableName(benchmark.name, table)] = tuple(_COLUMN.findall(text))
    views = []
    for name, query in VIEWS[benchmark.name].items():
        await run(f"CREATE VIEW {name}_v AS {query}")
        described = (await run(f"DESCRIBE {name}_v")).rows
        names, types = zip(*((str(row[0]), str(row[1])) for row in described), strict=True)
        tables = bases(query, namespace).relations
        view = TableName(benchmark.name, f"{name}_v")
        views.append(RewritableView(view, names, types, query, namespace, {each: columns[each] for each in tables}))
    plans, found = _KnownPlans(working), {}
    for name, query in benchmark.queries.items():
        found[name] = await _outcome(working, plans, query, namespace, views, columns)
    return found


async def _outcome(
    working: Planner,
    plans: Plans,
    query: str,
    namespace: Namespace,
    views: list[RewritableView],
    columns: dict[TableName, tuple[str, ...]],
) -> Outcome:
    outcome, shape = Outcome(), shape_of(query)
    for view, proposal in zip(views, propose(shape, namespace, views, columns.get), strict=True):
        if isinstance(proposal, Miss):
            if not outcome.proposed and "the query does not" not in proposal.reason:
                outcome.reason = proposal.reason
            continue
        try:
            reason = await difference(plans, working.session.handle.guid, shape, proposal, view.name.quoted)
        except PlanUnavailable as error:
            reason = str(error).splitlines()[0]
        if reason is None:
            return Outcome(True, proposal.template.fill(shape.literals))
        outcome.proposed, outcome.reason = True, f"{view.name.table}: {reason}"
    return outcome
