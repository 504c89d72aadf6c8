"""Measures the rewriting of queries: what it costs those that are not rewritten, and to propose. Needs no server."""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import permutations

from fakes import Site
from views import given

from benchmarks.classification import RUNS, seconds_each
from benchmarks.figures import UNITS, Figure
from gateway.service.routing.ways import Hit
from sql.names import Namespace, TableName
from sql.rewriting.candidate import RewritableView
from sql.rewriting.matching import Proposal, propose
from sql.rewriting.shape import shape_of
from sql.understood import Understood

VIEWS = 100
KNOWN_TIMES = 500
FOREIGN_US, SHAPE_US, KNOWN_US, PROPOSED_MS = 1, 60, 100, 2
"""Targets."""
CHARACTERS = 900
COLUMNS = (
    *("l_shipdate", "l_returnflag", "l_linestatus", "l_shipmode", "l_partkey", "l_suppkey", "l_commitdate"),
    *("l_receiptdate", "l_quantity", "l_discount", "l_extendedprice"),
)
LINEITEM = TableName("tpch", "lineitem")
QUERY = """SELECT date_trunc('month', l_shipdate) AS __timestamp, l_returnflag, SUM(l_extendedprice) AS revenue
FROM tpch.lineitem WHERE l_shipdate >= CAST('1994-01-01' AS DATE) AND l_shipdate < CAST('1995-01-01' AS DATE)
AND l_linestatus IN ('F', 'O') GROUP BY date_trunc('month', l_shipdate), l_returnflag
ORDER BY revenue DESC LIMIT 50000"""


def figures() -> Iterator[Figure]:
    """Times with 100 views over one table, of which one fits."""
    views = [*_views(), _view("fitting", "l_shipdate, l_returnflag, l_linestatus")]
    names = frozenset(table.table for view in views for table in view.bases)
    foreign = Understood("SELECT carrier, count(*) FROM flights WHERE day = 3 GROUP BY carrier").look.words
    shape, long = shape_of(QUERY), _long()

    def proposed() -> object:
        found = propose(shape, Namespace(), views, {LINEITEM: COLUMNS}.get)
        if sum(isinstance(each, Proposal) for each in found) != 1:
            raise SystemExit("bench: one view must fit.")
        return found

    cases: tuple[tuple[str, Callable[[], object], int, str, float], ...] = (
        ("a statement over other tables", lambda: foreign.isdisjoint(names), 20_000, "us", FOREIGN_US),
        (f"the shape of {len(long)} characters", lambda: shape_of(long), 500, "us", SHAPE_US),
        (f"proposing, with {len(views)} views over the table", proposed, 20, "ms", PROPOSED_MS),
    )
    yield Figure(
        "rewriting",
        f"a known shape of {len(long)} characters, answered",
        asyncio.run(_known(long)) * UNITS["us"],
        "us",
        KNOWN_US,
        runs=RUNS,
    )
    for subject, work, times, unit, limit in cases:
        yield Figure("rewriting", subject, seconds_each(work, times) * UNITS[unit], unit, limit, runs=RUNS)


async def _known(text: str) -> float:
    """The seconds of processor time until the view's text stands in for a query's whose shape is known."""
    site = Site()
    site.table(str(LINEITEM), columns=tuple((name, '"string"') for name in COLUMNS))
    fitting = _view("fitting", "l_shipdate, l_returnflag, l_linestatus, l_shipmode")
    view = await site.view(str(fitting.name), fitting.query, properties={"use_for_rewrite": "true"})
    given(site.entry(str(view.name)), columns=fitting.columns)
    shown = tuple(zip(fitting.columns, map(_json, fitting.types), strict=True))
    site.metastore.add(replace(site.metastore.relations[view.name], columns=shown))
    session = (await site.client()).session
    words, namespace = Understood(text).look.words, Namespace()

    async def found() -> None:
        if not isinstance(await site.rewrites.find(session, namespace, words, text), Hit):
            raise SystemExit("bench: the view must answer the query.")

    await found()
    rounds: list[float] = []
    for _ in range(RUNS):
        began = time.process_time()
        for _ in range(KNOWN_TIMES):
            await found()
        rounds.append((time.process_time() - began) / KNOWN_TIMES)
    return statistics.median(rounds)


def _json(written: str) -> str:
    return json.dumps({"name": written.lower()})


def _views() -> Iterator[RewritableView]:
    pairs = list(permutations(COLUMNS, 2))[: VIEWS - 1]
    return (_view(f"view_{number}", ", ".join(pair)) for number, pair in enumerate(pairs))


def _view(name: str, keys: str) -> RewritableView:
    columns = (*keys.split(", "), "revenue", "n")
    query = f"SELECT {keys}, sum(l_extendedprice) AS revenue, count(*) AS n FROM tpch.lineitem GROUP BY {keys}"
    types = ("STRING",) * (len(columns) - 2) + ("DECIMAL(25,2)", "BIGINT")
    return RewritableView(TableName("tpch", name), columns, types, query, Namespace(), {LINEITEM: COLUMNS})


def _long() -> str:
    """A query of about 900 characters."""
    conditions: list[str] = []
    while len(QUERY) + len("".join(conditions)) < CHARACTERS - 40:
        conditions.append(f" AND lineitem.l_shipmode <> 'mode {len(conditions)}'")
    return QUERY.replace(" GROUP BY", f"{''.join(conditions)} GROUP BY", 1)
