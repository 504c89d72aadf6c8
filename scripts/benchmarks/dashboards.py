"""Measures dashboards whose queries name no view: answered from views, against the same queries on the base tables.

Both run through one gateway with an embedded Spark, in turn, in two sessions of which one has rewriting off.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from clients import pyhive, rows
from processes import Gateway

from benchmarks import tpch
from benchmarks.figures import Figure, in_turn
from benchmarks.stand import DRIVER_MEMORY, Stand

RATIO = 0.2
"""Target: a fifth of the time."""
RUNS = 15
PROOF_SECONDS = 60.0
VIEWS = {
    "daily_lines": """
        SELECT l_shipdate, l_returnflag, l_linestatus, l_shipmode, count(*) AS lines, sum(l_quantity) AS quantity,
               sum(l_extendedprice) AS price, sum(l_extendedprice * (1 - l_discount)) AS revenue
        FROM tpch.lineitem GROUP BY l_shipdate, l_returnflag, l_linestatus, l_shipmode""",
    "segment_days": """
        SELECT o_orderdate, c_mktsegment, o_orderpriority, count(*) AS orders, sum(o_totalprice) AS total
        FROM tpch.orders JOIN tpch.customer ON o_custkey = c_custkey
        GROUP BY o_orderdate, c_mktsegment, o_orderpriority""",
    "nation_days": """
        SELECT n_name, r_name, o_orderdate, sum(l_extendedprice * (1 - l_discount)) AS revenue
        FROM tpch.customer JOIN tpch.orders ON c_custkey = o_custkey JOIN tpch.lineitem ON l_orderkey = o_orderkey
        JOIN tpch.supplier ON l_suppkey = s_suppkey AND c_nationkey = s_nationkey
        JOIN tpch.nation ON s_nationkey = n_nationkey JOIN tpch.region ON n_regionkey = r_regionkey
        GROUP BY n_name, r_name, o_orderdate""",
}
DASHBOARDS = {
    "Superset: revenue per month": """
        SELECT date_trunc('month', l_shipdate) AS __timestamp, SUM(l_extendedprice) AS `SUM(l_extendedprice)`
        FROM tpch.lineitem
        WHERE l_shipdate >= CAST('1994-01-01' AS DATE) AND l_shipdate < CAST('1997-01-01' AS DATE)
        GROUP BY date_trunc('month', l_shipdate) ORDER BY `SUM(l_extendedprice)` DESC LIMIT 50000""",
    "Tableau: orders per year and segment": """
        SELECT YEAR(CAST(CONCAT(TO_DATE(`t0`.`o_orderdate`), ' 00:00:00') AS TIMESTAMP)) AS `yr_o_orderdate_ok`,
               `t1`.`c_mktsegment` AS `c_mktsegment`, SUM(`t0`.`o_totalprice`) AS `sum_o_totalprice_ok`
        FROM (SELECT * FROM tpch.orders) `t0` JOIN (SELECT * FROM tpch.customer) `t1`
             ON (`t0`.`o_custkey` = `t1`.`c_custkey`)
        GROUP BY YEAR(CAST(CONCAT(TO_DATE(`t0`.`o_orderdate`), ' 00:00:00') AS TIMESTAMP)), `t1`.`c_mktsegment`""",
    "Power BI: lines per ship mode": """
        SELECT `l_shipmode`, COUNT(1) AS `C1`, SUM(`l_quantity`) AS `C2`
        FROM (SELECT `l_shipmode`, `l_quantity`, `l_returnflag` FROM `tpch`.`lineitem`) AS `OTBL`
        WHERE `l_returnflag` = 'R' GROUP BY `l_shipmode` LIMIT 1001""",
    "Metabase: orders per month and priority": """
        SELECT trunc(CAST(`o_orderdate` AS timestamp), 'MM') AS `o_orderdate`, `o_orderpriority`, count(*) AS `count`
        FROM tpch.orders JOIN tpch.customer ON o_custkey = c_custkey
        GROUP BY trunc(CAST(`o_orderdate` AS timestamp), 'MM'), `o_orderpriority`""",
    "TPC-H 5": """
        SELECT n_name, sum(l_extendedprice * (1 - l_discount)) AS revenue
        FROM tpch.customer, tpch.orders, tpch.lineitem, tpch.supplier, tpch.nation, tpch.region
        WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND l_suppkey = s_suppkey
          AND c_nationkey = s_nationkey AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey
          AND r_name = 'ASIA' AND o_orderdate >= DATE '1994-01-01' AND o_orderdate < DATE '1995-01-01'
        GROUP BY n_name ORDER BY revenue DESC""",
}


def figures(stand: Stand) -> Iterator[Figure]:
    """A dashboard that is not answered from a view ends the measure."""
    log = stand.directory / "rewriting.log"
    settings: dict[str, Any] = {
        "engine.spark.driver.memory": DRIVER_MEMORY,
        "result_cache.bytes": 0,
    }
    gateway = Gateway(log, data_dir=stand.directory / "rewriting", settings=settings)
    try:
        with pyhive(gateway.host, gateway.port) as base, pyhive(gateway.host, gateway.port) as view:
            tpch.load(lambda sql: rows(base, sql), stand.scale, stand.directory / "rewriting-tpch")
            for name, query in VIEWS.items():
                rows(base, f"CREATE MATERIALIZED VIEW {tpch.DATABASE}.{name} ENABLE QUERY REWRITE AS {query}")
            rows(base, "SET freshgate.rewrite = off")
            for name, query in DASHBOARDS.items():
                yield _compared(stand, base, view, name, query)
    finally:
        gateway.stop()


def _compared(stand: Stand, base: Any, view: Any, name: str, query: str) -> Figure:
    _wait_for_proof(view, name, query)
    if sorted(map(str, rows(base, query))) != sorted(map(str, rows(view, query))):
        raise SystemExit(f"bench: {name} has other rows from the view.")
    turns = in_turn(lambda: rows(base, query), lambda: rows(view, query), stand.runs(RUNS), warm_up=3)
    return turns.ratio("dashboards", f"{name}, TPC-H scale {stand.scale:g}", RATIO)


def _wait_for_proof(view: Any, name: str, query: str) -> None:
    rows(view, query)
    until = time.monotonic() + PROOF_SECONDS
    while not any(row[1] == "CHOSEN" for row in rows(view, f"EXPLAIN REWRITE {query}")):
        if time.monotonic() > until:
            raise SystemExit(f"bench: no view answers {name}: {rows(view, f'EXPLAIN REWRITE {query}')}")
