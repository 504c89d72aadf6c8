"""A partly stale view with its stale partitions computed anew equals its definition: in SQLite, which has the operators
of these texts, for random tables, partitions and writes."""

from __future__ import annotations

import random
import sqlite3
from collections import Counter

import pytest

from sql.names import Namespace, TableName
from sql.rewriting.candidate import RewritableView
from sql.rewriting.matching import Proposal, propose
from sql.rewriting.shape import shape_of
from sql.rewriting.template import Template
from sql.texts.mixture import mixture
from sql.texts.storage_layout import MARKED, PartitionKey, StorageLayout

VIEW, DEFINITION, BASE = TableName("main", "v"), TableName("main", "v__definition"), TableName("main", "t")
COLUMNS = ("p", "g", "sx", "n", "lo")
QUERY = "SELECT p, g, sum(x) AS sx, count(*) AS n, min(x) AS lo FROM t GROUP BY p, g"
LAYOUTS = {
    "int": StorageLayout("p", "int", "{}", holds_column=True),
    "string": StorageLayout("p", "string", "{}", holds_column=True),
    "marked": StorageLayout("p", "string", MARKED),
    "unit": StorageLayout("p", "string", "substr({}, 1, 1)"),
}
VALUES: dict[str, list[object]] = {
    "int": [-3, 0, 7, 20240101, None],
    "string": ["a", "it's", "-0", "NULL", "ü", None],
    "marked": ["", "a", "a ", "a_", None],
    "unit": ["a1", "a2", "b1", "c", None],
}
QUERIES = [
    "SELECT g, sum(x) AS s, count(*) AS c FROM t GROUP BY g",
    "SELECT p, min(x) AS m FROM t GROUP BY p",
    "SELECT count(*) AS c FROM t",
    "SELECT sum(x) AS s FROM t WHERE p IS NULL",
    "SELECT sum(x) AS s, count(*) AS c FROM t WHERE g = 'h' AND p IS NOT NULL",
    "SELECT DISTINCT p FROM t",
    "SELECT g, p, sum(x) AS s FROM t GROUP BY g, p HAVING sum(x) > 3",
]


def local(text: str) -> str:
    """The text for SQLite."""
    return text.replace("`spark_catalog`.", "").replace("right(", "last_of(").replace("AS STRING)", "AS TEXT)")


def key_of(layout: StorageLayout, value: object) -> PartitionKey:
    """As Spark computes it, in Python."""
    if value is None:
        return None
    text = str(value)
    if layout.key == MARKED:
        return text + "_" if not text or text[-1] in " _" else text
    return text if layout.holds_column else text[:1]


def template(query: str) -> Template:
    view = RewritableView(
        VIEW, COLUMNS, ("int", "string", "bigint", "bigint", "int"), QUERY, Namespace("main"), {BASE: ("p", "g", "x")}
    )
    (found,) = propose(query, Namespace("main"), [view], {BASE: ("p", "g", "x")}.get)
    assert isinstance(found, Proposal), (query, found)
    return found.template


class Tables:
    """A base table, the definition, and the view's rows as they were last refreshed."""

    def __init__(self, kind: str, seed: random.Random) -> None:
        self.layout, self.values, self.seed = LAYOUTS[kind], VALUES[kind], seed
        self.database = sqlite3.connect(":memory:")
        self.database.create_function("last_of", 2, lambda text, count: None if text is None else text[-count:])
        self.database.create_function("concat", 2, lambda one, other: None if one is None else one + other)
        self.database.execute(f"CREATE TABLE t (p {'INT' if kind == 'int' else 'TEXT'}, g TEXT, x INT)")
        self.database.execute(f"CREATE VIEW v__definition AS {QUERY}")
        for _ in range(40):
            self.insert(seed.choice(self.values))
        self.database.execute("CREATE TABLE v AS SELECT * FROM v__definition")

    def insert(self, value: object) -> None:
        row = (value, self.seed.choice(["g", "h", None]), self.seed.choice([1, 2, 5, None]))
        self.database.execute("INSERT INTO t VALUES (?, ?, ?)", row)

    def write(self) -> frozenset[PartitionKey]:
        """Changes, adds and removes some partitions; returns their keys."""
        written = self.seed.sample(self.values, self.seed.randint(1, 2))
        for value in written:
            if self.seed.random() < 0.5:
                self.database.execute("DELETE FROM t WHERE p IS ?", (value,))
            for _ in range(self.seed.randint(0, 3)):
                self.insert(value)
        return frozenset(key_of(self.layout, value) for value in written)

    def rows(self, text: str) -> Counter[tuple[object, ...]]:
        return Counter(self.database.execute(local(text)).fetchall())

    def over(self, stale: frozenset[PartitionKey]) -> str:
        return mixture(VIEW, DEFINITION, COLUMNS, self.layout, stale)


@pytest.mark.parametrize("kind", LAYOUTS)
@pytest.mark.parametrize("seed", range(25))
def test_answers_equal_those_of_the_base_table(kind: str, seed: int) -> None:
    tables = Tables(kind, random.Random(seed))
    stale = tables.write()
    for query in QUERIES:
        text = template(query).over(tables.over(stale)).fill(shape_of(query).literals)
        assert tables.rows(text) == tables.rows(query), text


@pytest.mark.parametrize("kind", LAYOUTS)
@pytest.mark.parametrize("stale", [frozenset({None}), frozenset({"a", "0"}), frozenset({"a", "0", None})])
def test_each_row_comes_from_one_side(kind: str, stale: frozenset[PartitionKey]) -> None:
    """Also those without a value: `NOT IN` would lose them on both sides."""
    tables = Tables(kind, random.Random(1))
    assert tables.rows(f"SELECT * FROM {tables.over(stale)}") == tables.rows(
        "SELECT p, g, sx, n, lo FROM v__definition"
    )


def test_groups_of_both_sides_are_merged() -> None:
    """A group has rows in fresh and in stale partitions."""
    tables = Tables("int", random.Random(2))
    tables.insert(7)
    query = "SELECT g, count(*) AS c FROM t GROUP BY g"
    text = template(query).over(tables.over(frozenset({"7"}))).fill(())
    assert tables.rows(text) == tables.rows(query)
    assert sum(tables.rows(text).values()) == 3


def test_the_text() -> None:
    layout = StorageLayout("day", "date", "{}", holds_column=True)
    assert mixture(VIEW, DEFINITION, ("day", "n"), layout, frozenset({"2024-01-02", None})) == (
        "(SELECT `day`, `n` FROM `spark_catalog`.`main`.`v` "
        "WHERE NOT coalesce(`day` IN (CAST('2024-01-02' AS date)) OR `day` IS NULL, false) "
        "UNION ALL SELECT `day`, `n` FROM `spark_catalog`.`main`.`v__definition` "
        "WHERE (`day` IN (CAST('2024-01-02' AS date)) OR `day` IS NULL))"
    )
