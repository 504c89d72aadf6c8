"""Measures the rewriting of queries: what it costs those that are not rewritten, and to propose. Needs no server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import permutations

from benchmarks.classification import RUNS, seconds_each
from benchmarks.figures import UNITS, Figure
from sql.names import Namespace, TableName
from sql.rewriting.candidate import RewritableView
from sql.rewriting.matching import Proposal, propose
from sql.rewriting.shape import shape_of
from sql.understood import Understood

VIEWS = 100
FOREIGN_US, SHAPE_US, PROPOSED_MS = 1, 60, 2
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
    for subject, work, times, unit, limit in cases:
        yield Figure("rewriting", subject, seconds_each(work, times) * UNITS[unit], unit, limit, runs=RUNS)


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
