"""The worlds in which histories begin: base tables with a row or two, and the views that were created over them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from world.assembly import Tuning
from world.storage import Metastore
from world.tables import Table


@dataclass(frozen=True, slots=True)
class Plan:
    """What a world is made of: tables by name, their format and partition column, and CREATE statements."""

    name: str
    tables: Mapping[str, str]
    creates: tuple[str, ...]
    moves: bool = False
    """Its views may get other names, be replaced and dropped."""
    calm: float = 45.0
    """Seconds after the last action until every read sees everything: what was lost may be late for half a minute, and
    a look may be as old."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A world ready to begin. `served` are the storages of views whose reads never wait."""

    plan: Plan
    metastore: Metastore
    tuning: Tuning
    caches: bool = False
    served: frozenset[str] = frozenset()


PLANS = (
    Plan("one table", {"s.t": "parquet"}, ("CREATE MATERIALIZED VIEW s.v AS SELECT k FROM s.t",)),
    Plan("one table of Delta's", {"s.t": "delta"}, ("CREATE MATERIALIZED VIEW s.v AS SELECT k FROM s.t",)),
    Plan(
        "partitions",
        {"s.p": "parquet by d"},
        ("CREATE MATERIALIZED VIEW s.v PARTITION BY (d) AS SELECT d, k FROM s.p",),
    ),
    Plan(
        "partitions beside a table",
        {"s.p": "parquet by d", "s.t": "parquet"},
        ("CREATE MATERIALIZED VIEW s.v PARTITION BY (d) AS SELECT p.d, p.k + t.k AS k FROM s.p JOIN s.t ON p.k = t.k",),
    ),
    Plan("values of partitions", {"s.p": "parquet by d"}, ("CREATE MATERIALIZED VIEW s.v AS SELECT d, k FROM s.p",)),
    Plan(
        "a view on a view",
        {"s.t": "parquet", "s.u": "parquet"},
        (
            "CREATE MATERIALIZED VIEW s.v AS SELECT k FROM s.t",
            "CREATE MATERIALIZED VIEW s.w AS SELECT k FROM s.v UNION ALL SELECT k FROM s.u",
        ),
    ),
    Plan(
        "two views of one table",
        {"s.t": "parquet"},
        ("CREATE MATERIALIZED VIEW s.v AS SELECT k FROM s.t", "CREATE MATERIALIZED VIEW s.w AS SELECT k FROM s.t"),
    ),
    Plan(
        "two views",
        {"s.t": "parquet", "s.u": "parquet"},
        (
            "CREATE MATERIALIZED VIEW s.v AS SELECT k FROM s.t",
            "CREATE MATERIALIZED VIEW s.w AS SELECT k FROM s.u",
        ),
        moves=True,
    ),
    Plan(
        "a view on commit",
        {"s.t": "parquet"},
        ("CREATE MATERIALIZED VIEW s.v REFRESH ON COMMIT AS SELECT k FROM s.t",),
    ),
    Plan(
        "a view with a lag",
        {"s.t": "parquet"},
        (
            "CREATE MATERIALIZED VIEW s.v TARGET LAG DOWNSTREAM AS SELECT k FROM s.t",
            "CREATE MATERIALIZED VIEW s.w TARGET LAG '1 minute' AS SELECT k FROM s.v",
        ),
        # A refresh that has just failed is tried again after a minute.
        calm=150.0,
    ),
)


def base_tables(plan: Plan, metastore: Metastore) -> None:
    """Adds them, with a row in each, or in each of two partitions."""
    for number, (name, kind) in enumerate(plan.tables.items()):
        table = Table(name, kind.split()[0], " by " in kind)
        metastore.add_table(table)
        for place, partition in enumerate(("a", "b") if table.partitioned else (None,)):
            table.insert(partition, 10 * number + place + 1, 0.0, "before")


def views(plan: Plan) -> list[str]:
    """The names of its views."""
    return [create.split(" ")[3] for create in plan.creates]
