"""The SQL of Spark's own tests, with Spark's answers and plans: files in the archive of Spark's tests."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from functools import cache

from jars import jar

INPUTS, RESULTS, PLANS = "sql-tests/inputs/", "sql-tests/results/", "sql-tests/analyzer-results/"
BENCHMARKS = {
    "tpcds/": 103,
    "tpcds-v2.7.0/": 32,
    "tpcds-modifiedQueries/": 21,
    "tpch/": 22,
    "ssb/": 13,
}
"""Folders with their numbers of queries. TPC-DS has 103 instead of 99, because four have two parts."""
TPCDS = frozenset(
    {
        "call_center",
        "catalog_page",
        "catalog_returns",
        "catalog_sales",
        "customer",
        "customer_address",
        "customer_demographics",
        "date_dim",
        "household_demographics",
        "income_band",
        "inventory",
        "item",
        "promotion",
        "reason",
        "ship_mode",
        "store",
        "store_returns",
        "store_sales",
        "time_dim",
        "warehouse",
        "web_page",
        "web_returns",
        "web_sales",
        "web_site",
    }
)
TPCH = frozenset(["customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier"])
SSB = frozenset(["customer", "date", "lineorder", "part", "supplier"])
QUERIES = frozenset({"select", "with", "from", "values", "table"})


@cache
def texts() -> dict[str, str]:
    """Every .sql file, and every golden file with Spark's answers, by path in the archive."""
    with zipfile.ZipFile(jar("spark-sql_2.13")) as archive:
        wanted = [name for name in archive.namelist() if name.endswith((".sql", ".sql.out"))]
        return {name: archive.read(name).decode() for name in wanted}


def statements(text: str) -> list[str]:
    """The statements of a file, split as in Spark's test suite.

    Comment lines are removed first, and again after the split, which may create new ones. Any semicolon without a
    backslash before it ends a statement. The text between two delimiter lines is one statement with all its semicolons.
    """
    found: list[str] = []
    lines: list[str] = []

    def end() -> None:
        for piece in re.split(r"(?<=[^\\]);", "\n".join(lines)):
            kept = (line for line in piece.strip().split("\n") if not line.startswith("--"))
            if statement := "\n".join(kept).strip():
                found.append(statement)
        lines.clear()

    for line in text.split("\n"):
        if line.strip().startswith("--QUERY-DELIMITER-START"):
            end()
        elif line.strip().startswith("--QUERY-DELIMITER-END"):
            found.append("\n".join(lines).strip().rstrip(";").strip())
            lines.clear()
        elif not line.strip().startswith("--"):
            lines.append(line)
    end()
    return found


def answered(path: str) -> list[tuple[str, str]]:
    """The (statement, Spark's answer) pairs of a golden file."""
    sections = re.split(r"^-- !query\n", texts()[path], flags=re.MULTILINE)[1:]
    pairs = (re.split(r"^-- !query [a-z]+\n", section, maxsplit=1, flags=re.MULTILINE) for section in sections)
    return [(statement.strip(), answer) for statement, answer in pairs]


def files(*folders: str) -> list[str]:
    return sorted(name for name in texts() if name.startswith(folders) and name.endswith(".sql"))


def corpus() -> Iterator[tuple[str, str]]:
    """Each statement with its file."""
    for path in files(INPUTS, *BENCHMARKS):
        for statement in statements(texts()[path]):
            yield path, statement
