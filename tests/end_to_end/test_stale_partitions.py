"""Queries on base tables that are answered from views with a few stale partitions: on real Spark, with an embedded
engine."""

from __future__ import annotations

import itertools
import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from clients import pyhive, rows
from seen_gateway import Seen
from tiers import EVERYTHING

TABLE = (
    "CREATE TABLE {name} (item STRING, qty INT, price DECIMAL(10,2), {column} {kind}) "
    "USING parquet PARTITIONED BY ({column})"
)
FILL = (
    "INSERT INTO {name} SELECT concat('i', id % 4), CAST(id % 13 AS INT), CAST(id AS DECIMAL(10,2)) / 3, "
    "{value} FROM range(300)"
)
MEASURES = "count(*) AS orders, sum(qty) AS qty, sum(price) AS price, min(price) AS cheapest"
VIEWS = [
    "CREATE MATERIALIZED VIEW daily PARTITION BY (day) ENABLE QUERY REWRITE AS "
    f"SELECT day, item, {MEASURES} FROM sales GROUP BY day, item",
    "CREATE MATERIALIZED VIEW coded PARTITION BY (code) ENABLE QUERY REWRITE AS "
    f"SELECT code, item, {MEASURES} FROM coded_sales GROUP BY code, item",
    "CREATE MATERIALIZED VIEW monthly PARTITION BY (date_trunc('month', at)) ENABLE QUERY REWRITE AS "
    f"SELECT at, item, {MEASURES} FROM timed_sales GROUP BY at, item",
    "CREATE MATERIALIZED VIEW named PARTITION BY (day) ENABLE QUERY REWRITE AS "
    "SELECT day, name, count(*) AS orders FROM joined_sales JOIN items ON joined_sales.item = items.item "
    "GROUP BY day, name",
]
QUERIES = [
    "SELECT item, sum(qty) AS s, count(*) AS c FROM {table} GROUP BY item ORDER BY item",
    "SELECT count(*) AS c, min(price) AS p FROM {table}",
    "SELECT {column}, sum(qty) AS s, min(price) AS p FROM {table} GROUP BY {column} ORDER BY {column}",
    "SELECT sum(qty) AS s FROM {table} WHERE {column} IS NULL",
    "SELECT count(*) AS c FROM {table} WHERE {column} > {value} AND item <> 'i0'",
    "SELECT DISTINCT {column} FROM {table} ORDER BY 1",
]
_numbers = itertools.count(1)


@dataclass
class House:
    """A gateway with an audit log, and base tables with views."""

    seen: Seen
    cursor: Any

    def run(self, text: str) -> list[tuple[Any, ...]]:
        return rows(self.cursor, text)

    def views_of(self, text: str) -> tuple[list[tuple[Any, ...]], list[str]]:
        """The rows of a query, and the materialized views that it read, according to the audit."""
        mark = f"/* partly {next(_numbers)} */"
        found = self.run(f"{mark} {text}")
        return found, self.seen.line_of(mark).get("views", [])

    def check(self, text: str, view: str) -> None:
        """The view answers the query, with the rows that the base tables have."""
        found, views = self.views_of(text)
        assert views == ([f"ps.{view}"] if view else []), self.run(f"EXPLAIN REWRITE {text}")
        self.run("SET freshgate.rewrite = off")
        assert found == self.run(text), text
        self.run("RESET freshgate.rewrite")


@pytest.fixture(scope="module")
def house(rewriting: Seen) -> Iterator[House]:
    gateway = rewriting.gateway
    with pyhive(gateway.host, gateway.port, user="ada", database="default") as cursor:
        made = House(rewriting, cursor)
        made.run("CREATE DATABASE ps")
        made.run("USE ps")
        day = "CASE WHEN id % 10 > 0 THEN date_add(DATE'2024-01-28', CAST(id % 10 AS INT)) END"
        for name, column, kind, value in [
            ("sales", "day", "DATE", day),
            ("coded_sales", "code", "STRING", "CASE WHEN id % 9 > 0 THEN concat('it''s ', id % 9) END"),
            ("timed_sales", "at", "DATE", "CASE WHEN id % 10 > 0 THEN add_months(DATE'2024-01-15', id % 10) END"),
            ("joined_sales", "day", "DATE", day),
        ]:
            made.run(TABLE.format(name=name, column=column, kind=kind))
            made.run(FILL.format(name=name, value=value.replace("id % 10)", "CAST(id % 10 AS INT))")))
        made.run("CREATE TABLE items (item STRING, name STRING) USING parquet")
        made.run("INSERT INTO items VALUES ('i0', 'a'), ('i1', 'b'), ('i2', 'b'), ('i3', 'c')")
        for view in VIEWS:
            made.run(view)
        yield made


def queries(table: str, column: str, value: str) -> list[str]:
    return [query.format(table=table, column=column, value=value) for query in QUERIES]


def some(queries: list[str]) -> list[str]:
    return queries if EVERYTHING else queries[::2]


BY_DAY = queries("sales", "day", "DATE'2024-02-01'")


def test_changed_added_and_removed_partitions(house: House) -> None:
    seed = random.Random(3)
    versions = house.run("SHOW MATERIALIZED VIEW VERSIONS daily")
    for query in BY_DAY[:1]:
        house.check(query, "daily")
    for write in (
        "INSERT INTO sales VALUES ('i1', 1000, 1.25, DATE'2024-01-30')",
        "INSERT INTO sales VALUES ('i9', 7, -1, NULL)",
        "ALTER TABLE sales DROP PARTITION (day = '2024-02-02')",
        "INSERT INTO sales VALUES ('new', 5, 5, DATE'2031-05-05')",
        "INSERT OVERWRITE sales PARTITION (day = '2024-01-30') VALUES ('i2', 3, 3)",
    ):
        house.run(write)
        for query in seed.sample(BY_DAY, 2 if EVERYTHING else 1):
            house.check(query, "daily")
    for query in BY_DAY if EVERYTHING else BY_DAY[1::2]:
        house.check(query, "daily")
    assert len(house.run("SHOW MATERIALIZED VIEW VERSIONS daily")) == len(versions) == 1


def test_texts_and_months(house: House) -> None:
    house.run("INSERT INTO coded_sales VALUES ('i1', 1000, 1.25, 'it''s 3'), ('i1', 1, 1, NULL), ('i1', 1, 1, 'x/y=%')")
    for query in some(queries("coded_sales", "code", "'it''s 2'")):
        house.check(query, "coded")
    house.run("INSERT INTO timed_sales VALUES ('i1', 9, 1.25, DATE'2024-05-02'), ('i1', 1, 1, NULL)")
    for query in some(queries("timed_sales", "at", "DATE'2024-03-01'")):
        house.check(query, "monthly")


def test_a_file_that_appears_without_the_gateway(house: House) -> None:
    """The session has read the table before, so Spark may have cached its listing."""
    house.run("REFRESH MATERIALIZED VIEW daily AUTO")
    house.check(BY_DAY[0], "daily")
    (location,) = {row[1] for row in house.run("DESCRIBE TABLE EXTENDED sales") if row[0] == "Location" and row[1]}
    partition = Path(location.removeprefix("file:")) / "day=2024-01-31"
    file = next(partition.glob("part-*"))
    shutil.copy(file, partition / f"part-9{file.name[6:]}")
    # After a write of another partition, the table is observed at once.
    house.run("INSERT INTO sales VALUES ('i1', 3, 1, DATE'2024-01-29')")
    for query in BY_DAY[:3]:
        house.check(query, "daily")


def test_partitions_by_several_columns(house: House) -> None:
    house.run(
        "CREATE TABLE regional (item STRING, qty INT, region STRING, day DATE) USING parquet "
        "PARTITIONED BY (region, day)"
    )
    region = "CASE WHEN id % 3 > 0 THEN concat('r/', id % 3) END"
    house.run(
        f"INSERT INTO regional SELECT concat('i', id % 4), CAST(id AS INT), {region}, "
        "date_add(DATE'2024-01-01', CAST(id % 4 AS INT)) FROM range(120)"
    )
    house.run(
        "CREATE MATERIALIZED VIEW by_both PARTITION BY (region, day) ENABLE QUERY REWRITE AS "
        "SELECT region, day, item, sum(qty) AS qty FROM regional GROUP BY region, day, item"
    )
    query = "SELECT region, day, sum(qty) AS qty FROM regional GROUP BY region, day ORDER BY 1, 2"
    house.run("INSERT INTO regional VALUES ('i9', 7, 'r/1', DATE'2024-01-02'), ('i9', 8, NULL, DATE'2024-01-01')")
    house.check(query, "by_both")
    house.check("SELECT sum(qty) AS qty FROM regional WHERE region = 'r/1'", "by_both")
    assert len(house.run("SHOW MATERIALIZED VIEW VERSIONS by_both")) == 1


def test_what_cannot_be_attributed_to_partitions(house: House) -> None:
    query = (
        "SELECT name, count(*) AS c FROM joined_sales JOIN items ON joined_sales.item = items.item "
        "GROUP BY name ORDER BY name"
    )
    house.check(query, "named")
    house.run("INSERT INTO joined_sales VALUES ('i1', 1, 1, DATE'2024-02-01')")
    house.check(query, "named")
    house.run("INSERT INTO items VALUES ('i1', 'other')")
    house.check(query, "")
    house.run("REFRESH MATERIALIZED VIEW named AUTO")
    house.check(query, "named")
    # More than half of the partitions.
    house.run("INSERT INTO joined_sales SELECT 'i1', 1, 1, day FROM sales WHERE day < DATE'2024-02-09'")
    house.check(query, "")


@pytest.mark.thorough
def test_random_writes(house: House) -> None:
    seed = random.Random(4)
    for _ in range(4):
        house.run("REFRESH MATERIALIZED VIEW daily AUTO")
        for _ in range(seed.randint(1, 2)):
            day = seed.choice(["NULL", *(f"DATE'2024-{seed.randint(1, 2):02}-{seed.randint(27, 29)}'" for _ in "ab")])
            house.run(f"INSERT INTO sales VALUES ('i{seed.randint(0, 5)}', {seed.randint(-5, 5)}, 1, {day})")
        for query in seed.sample(BY_DAY, 2):
            house.check(query, "daily")
