"""Measures changed definitions: rows that come from the stored ones, in turn with a rebuild."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from benchmarks.figures import Figure, in_turn
from benchmarks.stand import Stand

DATABASE = "bench_changes"
ROWS_FACTOR = 10
"""Of the rows of a large result: 10 million by default."""
RUNS = 5
OPTIONS = "REFRESH INCREMENTAL FALLBACK"
"""With the states that refreshes by rows store, and stored rows wherever they can be used."""


@dataclass(frozen=True)
class Change:
    """A definition, and the one that replaces it. `{}` is the base table."""

    name: str
    old: str
    new: str


GROUPS = "SELECT day, shop, sum(x) AS s, avg(w) AS a FROM {} GROUP BY day, shop"
SINCE = "SELECT day, shop, sum(x) AS s, avg(w) AS a FROM {{}} WHERE day >= DATE'{}' GROUP BY day, shop"
ROWS = "SELECT id, day, shop, x FROM {{}} WHERE day >= DATE'{}'"
CHANGES = (
    Change("renamed columns", GROUPS, "SELECT day AS d, shop, sum(x) AS total FROM {} GROUP BY day, shop"),
    Change("a column more, groups", GROUPS, GROUPS.replace("avg(w) AS a", "avg(w) AS a, count(*) AS n")),
    Change("fewer keys", GROUPS, "SELECT day, sum(x) AS s, avg(w) AS a FROM {} GROUP BY day"),
    Change("a narrower filter, rows", ROWS.format("2024-01-11"), ROWS.format("2024-03-21")),
    Change("a wider filter, rows: 10 days more", ROWS.format("2024-01-11"), ROWS.format("2024-01-01")),
    Change("a narrower filter, groups", SINCE.format("2024-01-11"), SINCE.format("2024-03-21")),
    Change("a wider filter, groups: 10 days more", SINCE.format("2024-01-11"), SINCE.format("2024-01-01")),
)


def figures(stand: Stand) -> Iterator[Figure]:
    table, view = f"{DATABASE}.facts", f"{DATABASE}.v"
    stand.query(f"CREATE DATABASE {DATABASE}")
    stand.query(
        f"CREATE TABLE {table} USING parquet AS SELECT id, date_add(DATE'2024-01-01', CAST(id DIV "
        f"{ROWS_FACTOR * stand.rows // 100} AS INT)) AS day, CAST(hash(id) % 1000 AS INT) AS shop, id % 1000 AS x, "
        f"CAST(id % 100000 AS DECIMAL(12,2)) / 100 AS w FROM range({ROWS_FACTOR * stand.rows})"
    )

    def replaced(definition: str, how: str = "") -> None:
        stand.query(f"CREATE OR REPLACE MATERIALIZED VIEW {view} {how} {OPTIONS} AS {definition.format(table)}")

    for change in CHANGES:
        turns = in_turn(
            partial(replaced, change.new, "BUILD COMPLETE"),
            partial(replaced, change.new),
            stand.runs(RUNS),
            before=partial(replaced, change.old, "BUILD COMPLETE"),
        )
        ((count,),) = stand.query(f"SELECT count(*) FROM {view}")
        yield turns.ratio("changed definition", f"{change.name}; {count:,} rows written; against a rebuild", None)
