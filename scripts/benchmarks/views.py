"""Measures materialized views: reading a fresh one, refreshing one, and many readers of a stale one."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

from clients import pyhive, rows
from processes import STORAGE

from benchmarks import tpch
from benchmarks.figures import Figure, Work, in_turn, shown
from benchmarks.stand import Stand

READ_LIMIT = 1.05
READ_RUNS = 60
REFRESH_LIMIT = 1.10
COPY_LIMIT = 1.3
REFRESH_RUNS = 9
WARM_UP = 2
READERS = 100
READERS_RUNS = 3
CHAIN = (
    "SELECT l_orderkey, l_suppkey, l_shipmode, sum(l_quantity) AS q, sum(l_extendedprice) AS price "
    f"FROM {tpch.DATABASE}.lineitem GROUP BY ALL",
    f"SELECT l_suppkey, l_shipmode, sum(q) AS q, sum(price) AS price FROM {tpch.DATABASE}.chain_1 GROUP BY ALL",
    f"SELECT l_shipmode, sum(q) AS q, max(price) AS price FROM {tpch.DATABASE}.chain_2 GROUP BY ALL",
)
CHAIN_SECONDS = 0.5
COPY = "bench_copy"
PEER = "bench_peer"
BY_HAND = "bench_by_hand"


def fresh_reads(stand: Stand) -> Iterator[Figure]:
    """Reads of a fresh view through the gateway, against direct reads of a plain Spark view of the same rows."""
    stand.views()
    queries = {
        "pricing": "SELECT * FROM {}",
        "order_revenue": "SELECT * FROM {} ORDER BY revenue DESC LIMIT 10",
        "wide": "SELECT l_shipmode, count(*), sum(l_extendedprice) FROM {} GROUP BY l_shipmode",
    }
    near, far = stand.cursors()
    for name, query in queries.items():
        view, peer = f"{tpch.DATABASE}.{name}", f"{tpch.DATABASE}.{PEER}"
        stand.query(f"CREATE OR REPLACE VIEW {peer} AS {_stored(stand, view)[1:-1]}", direct=True)
        direct, through = (_reader(cursor, query.format(text)) for cursor, text in ((near, peer), (far, view)))
        runs = stand.runs(READ_RUNS)
        yield in_turn(direct, through, runs, warm_up=min(5, runs)).ratio("fresh read", name, READ_LIMIT)


def _stored(stand: Stand, view: str) -> str:
    """A subquery that reads the view's content from its storage table."""
    id_begins = view.replace(".", "__") + "__"
    tables = [row[1] for row in stand.query(f"SHOW TABLES IN {STORAGE}", direct=True)]
    (table,) = (name for name in tables if name.startswith(id_begins) and not name.endswith("__definition"))
    columns = [row[0] for row in stand.query(f"DESCRIBE {view}", direct=True)]
    return f"(SELECT {', '.join(columns)} FROM {STORAGE}.{table} WHERE freshgate_version = {stand.version(view)})"


def _reader(cursor: Any, query: str) -> Any:
    return lambda: rows(cursor, query)


def refreshes(stand: Stand) -> Iterator[Figure]:
    """REFRESH through the gateway, against its own indispensable statements by hand over one session, and against
    CREATE TABLE ... AS with the same query."""
    for view in stand.views():
        name = view.rpartition(".")[2]
        by_hand = _ByHand(stand, view)
        yield _refresh(stand, view, by_hand.run, by_hand.before, f"{name}, by hand", REFRESH_LIMIT)
        by_hand.drop()
        copied = f"{tpch.DATABASE}.{COPY}"
        near, _ = stand.cursors()
        copy = _reader(near, f"CREATE TABLE {copied} USING parquet AS {tpch.QUERIES[name]}")
        drop = _reader(near, f"DROP TABLE IF EXISTS {copied}")
        yield _refresh(stand, view, copy, drop, f"{name}, CTAS", COPY_LIMIT)
        drop()


def chains(stand: Stand) -> Iterator[Figure]:
    """A refresh of a view on a view on a view, after a write to the base table, against the three INSERTs by hand."""
    stand.load_tables()
    names = [f"{tpch.DATABASE}.chain_{number}" for number in (1, 2, 3)]
    for name, query in zip(names, CHAIN, strict=True):
        stand.query(f"CREATE MATERIALIZED VIEW {name} REFRESH COMPLETE AS {query}")
    by_hand = [_ByHand(stand, name) for name in names]
    near, far = stand.cursors()

    def before() -> None:
        table = f"{tpch.DATABASE}.lineitem"
        rows(near, f"INSERT INTO {table} SELECT * FROM {table} LIMIT 1")
        for each in by_hand:
            each.before()

    def inserts() -> None:
        for each in by_hand:
            each.insert()

    first, runs = [stand.version(name) for name in names], stand.runs(REFRESH_RUNS)
    turns = in_turn(
        inserts, _reader(far, f"REFRESH MATERIALIZED VIEW {names[-1]}"), runs, before=before, warm_up=WARM_UP
    )
    if [stand.version(name) - version for name, version in zip(names, first, strict=True)] != [runs + WARM_UP] * 3:
        raise SystemExit("bench: a refresh of the chain did not refresh each of its views once.")
    for each in by_hand:
        each.drop()
    direct, through = (statistics.median(each) for each in (turns.direct, turns.gateway))
    what = f"beyond the three INSERTs of a chain, TPC-H scale {stand.scale:g}"
    yield Figure("refresh", what, through - direct, "s", CHAIN_SECONDS, shown(direct, "ms"), shown(through, "ms"), runs)


def _refresh(stand: Stand, view: str, direct: Work, before: Work, said: str, limit: float) -> Figure:
    _, far = stand.cursors()
    through = _reader(far, f"REFRESH MATERIALIZED VIEW {view}")
    first, runs = stand.version(view), stand.runs(REFRESH_RUNS)
    turns = in_turn(direct, through, runs, before=before, warm_up=WARM_UP)
    made = stand.version(view) - first
    if made != runs + WARM_UP:
        raise SystemExit(f"bench: {runs + WARM_UP} refreshes of {view} made {made} versions.")
    return turns.ratio("refresh", f"{said}, TPC-H scale {stand.scale:g}", limit)


class _ByHand:
    """What anybody would have to run for a new version: INSERT, the properties, and the switch."""

    def __init__(self, stand: Stand, view: str) -> None:
        self._cursor, _ = stand.cursors()
        self._version = 0
        begins, name = view.replace(".", "__") + "__", view.rpartition(".")[2]
        self._table, self._view = f"{STORAGE}.{BY_HAND}_{name}", f"{tpch.DATABASE}.{BY_HAND}_{name}"
        found = [str(row[1]) for row in rows(self._cursor, f"SHOW VIEWS IN {STORAGE}")]
        (self._definition,) = (f"{STORAGE}.{each}" for each in found if each.startswith(begins))
        self.drop()
        rows(
            self._cursor,
            f"CREATE TABLE {self._table} USING parquet OPTIONS ('partitionOverwriteMode' = 'dynamic') "
            f"PARTITIONED BY (version) AS SELECT *, 0L AS version FROM {self._definition} LIMIT 0",
        )
        rows(self._cursor, f"CREATE VIEW {self._view} AS SELECT * FROM {self._table} WHERE version = 0")

    def before(self) -> None:
        self._version += 1

    def insert(self) -> None:
        query = f"SELECT *, {self._version}L FROM {self._definition}"
        rows(self._cursor, f"INSERT OVERWRITE {self._table} PARTITION (version) {query}")

    def run(self) -> None:
        self.insert()
        number, properties = self._version, ", ".join(f"'bench.{each}' = '{'x' * 200}'" for each in range(5))
        for statement in (
            f"ALTER TABLE {self._table} SET TBLPROPERTIES ({properties})",
            f"ALTER VIEW {self._view} AS SELECT * FROM {self._table} WHERE version = {number}",
        ):
            rows(self._cursor, statement)

    def drop(self) -> None:
        rows(self._cursor, f"DROP VIEW IF EXISTS {self._view}")
        rows(self._cursor, f"DROP TABLE IF EXISTS {self._table}")


def stale_readers(stand: Stand) -> Iterator[Figure]:
    """Many clients read one stale view at the same time: the number of versions made, and the wait of the last client.

    The time of as many direct clients that read the same version from its storage table is shown too, because Spark
    itself plans so many queries one after the other.
    """
    stand.views()
    view = f"{tpch.DATABASE}.pricing"
    made: list[int] = []
    waited: list[float] = []
    direct: list[float] = []
    with ExitStack() as stack:
        near, far = (
            [stack.enter_context(pyhive(server.host, server.port)) for _ in range(READERS)]
            for server in (stand.engine, stand.gateway)
        )
        for _ in range(stand.runs(READERS_RUNS)):
            stand.query(f"INSERT INTO {tpch.DATABASE}.lineitem SELECT * FROM {tpch.DATABASE}.lineitem LIMIT 1")
            before = stand.version(view)
            waited.append(_read_at_once(far, f"SELECT sum(items) FROM {view}"))
            made.append(stand.version(view) - before)
            direct.append(_read_at_once(near, f"SELECT sum(items) FROM {_stored(stand, view)}"))
    yield Figure(
        "stale readers",
        f"recomputes for {READERS} readers at once",
        max(made),
        "",
        1,
        direct=f"{shown(max(direct), 's')} (fresh)",
        gateway=f"{shown(max(waited), 's')} to the last answer",
        runs=len(made),
    )


def _read_at_once(cursors: list[Any], query: str) -> float:
    """The seconds until the last reader has its answer. All answers must be equal."""
    barrier = threading.Barrier(len(cursors))

    def read(cursor: Any) -> tuple[Any, float]:
        barrier.wait()
        (row,) = rows(cursor, query)
        return row, time.perf_counter()

    began = time.perf_counter()
    with ThreadPoolExecutor(len(cursors)) as pool:
        answers = list(pool.map(read, cursors))
    if len({row for row, _ in answers}) != 1:
        raise SystemExit("bench: readers of one view got different answers.")
    return max(ended for _, ended in answers) - began
