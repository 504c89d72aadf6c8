"""TPC-H: its data as tables, and definitions of materialized views over them.

The program `tpchgen-cli` generates the data. The queries follow the benchmark's queries 1, 3 and 5, without their ORDER
BY and without filters that leave almost nothing; `wide` writes a fifth of `lineitem` with all its columns.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

DATABASE = "tpch"
TABLES = ("region", "nation", "supplier", "customer", "part", "partsupp", "orders", "lineitem")

QUERIES = {
    "pricing": """
        SELECT l_returnflag, l_linestatus, sum(l_quantity) AS quantity, sum(l_extendedprice) AS price,
               sum(l_extendedprice * (1 - l_discount)) AS discounted,
               sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)) AS charged,
               avg(l_quantity) AS average_quantity, avg(l_discount) AS average_discount, count(*) AS items
        FROM tpch.lineitem WHERE l_shipdate <= DATE '1998-09-02'
        GROUP BY l_returnflag, l_linestatus""",
    "order_revenue": """
        SELECT l_orderkey, o_orderdate, o_shippriority, sum(l_extendedprice * (1 - l_discount)) AS revenue
        FROM tpch.customer JOIN tpch.orders ON c_custkey = o_custkey JOIN tpch.lineitem ON l_orderkey = o_orderkey
        WHERE c_mktsegment = 'BUILDING' AND o_orderdate < DATE '1995-03-15' AND l_shipdate > DATE '1995-03-15'
        GROUP BY l_orderkey, o_orderdate, o_shippriority""",
    "nation_revenue": """
        SELECT n_name, year(o_orderdate) AS ordered, sum(l_extendedprice * (1 - l_discount)) AS revenue
        FROM tpch.customer JOIN tpch.orders ON c_custkey = o_custkey JOIN tpch.lineitem ON l_orderkey = o_orderkey
        JOIN tpch.supplier ON l_suppkey = s_suppkey AND c_nationkey = s_nationkey
        JOIN tpch.nation ON s_nationkey = n_nationkey JOIN tpch.region ON n_regionkey = r_regionkey
        GROUP BY n_name, year(o_orderdate)""",
    "wide": """
        SELECT l.*, o_orderdate, o_orderpriority, p_name, p_brand
        FROM tpch.lineitem AS l JOIN tpch.orders ON l_orderkey = o_orderkey JOIN tpch.part ON l_partkey = p_partkey
        WHERE p_size <= 10""",
}


def load(run: Callable[[str], object], scale: float, directory: Path) -> None:
    """Generates the data at `scale` (1 is a gigabyte) and creates the tables. `run` executes one statement."""
    directory.mkdir(parents=True)
    program = shutil.which("tpchgen-cli", path=Path(sys.executable).parent) or shutil.which("tpchgen-cli")
    if program is None:
        raise SystemExit("bench: tpchgen-cli is not installed; run scripts/bench, which installs it.")
    command = [program, "parquet", "--scale-factor", str(scale), "--output-dir", str(directory), "--quiet"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    run(f"CREATE DATABASE {DATABASE}")
    for table in TABLES:
        file = directory / f"{table}.parquet"
        run(f"CREATE TABLE {DATABASE}.{table} USING parquet AS SELECT * FROM parquet.`{file}`")
        file.unlink()
