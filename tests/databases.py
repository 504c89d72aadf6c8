"""Databases for single tests, each with a PyHive cursor through the gateway."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from clients import pyhive, rows
from processes import Gateway

REFLECT = "org.apache.hadoop.hive.ql.udf.generic.GenericUDFReflect"
"""A Hive function that Spark ships."""
NAP = f"CREATE FUNCTION IF NOT EXISTS nap AS '{REFLECT}'"
"""Creates `nap('java.lang.Thread', 'sleep', bigint(a))`, which makes a definition sleep `a` milliseconds for each row.
(Spark's own `reflect` is refused in definitions.)"""

_numbers = itertools.count(1)


@dataclass(frozen=True)
class Database:
    """A database, and a cursor whose current database it is."""

    name: str
    gateway: Gateway
    cursor: Any

    def run(self, *statements: str) -> None:
        for statement in statements:
            rows(self.cursor, statement)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows, sorted, because Spark's order may vary."""
        return sorted(rows(self.cursor, sql), key=repr)

    def version(self, view: str) -> int:
        """The current version of a materialized view of this database."""
        for row in rows(self.cursor, f"SHOW MATERIALIZED VIEWS IN {self.name} LIKE '{view}'"):
            return int(row[3])
        raise AssertionError(f"no materialized view {view}")

    def freshness(self, view: str) -> str:
        for row in rows(self.cursor, f"SHOW MATERIALIZED VIEWS IN {self.name} LIKE '{view}'"):
            return str(row[2])
        raise AssertionError(f"no materialized view {view}")

    def drop(self) -> None:
        for row in rows(self.cursor, f"SHOW MATERIALIZED VIEWS IN {self.name}"):
            self.run(f"DROP MATERIALIZED VIEW {self.name}.{row[1]}")
        self.run("USE default", f"DROP DATABASE {self.name} CASCADE")


def make_database(gateway: Gateway, prefix: str = "t", *, dropped: bool = True) -> Iterator[Database]:
    """`dropped`: afterwards, with its views. Only those of a gateway that ends then may stay."""
    name = f"{prefix}{next(_numbers)}"
    with pyhive(gateway.host, gateway.port) as cursor:
        database = Database(name, gateway, cursor)
        database.run(f"CREATE DATABASE {name}", f"USE {name}")
        yield database
        if dropped:
            database.drop()
