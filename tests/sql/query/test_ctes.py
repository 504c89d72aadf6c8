"""Which CTE a name means, by the constants in the queries of CTEs."""

from __future__ import annotations

import pytest
from sqlglot import exp

from sql.lexed import Lexed
from sql.query.ctes import Ctes
from sql.reading.lineage import query_tree


@pytest.mark.parametrize(
    ("query", "meant"),
    [
        ("WITH t AS (SELECT 1) SELECT * FROM t", ["1"]),
        ("WITH t AS (SELECT 1) SELECT * FROM T", ["1"]),
        ("WITH t AS (SELECT 1) SELECT * FROM db.t", [None]),
        ("WITH t AS (SELECT 1 FROM t) SELECT * FROM t", [None, "1"]),
        ("WITH RECURSIVE t AS (SELECT 1 FROM t) SELECT * FROM t", ["1", "1"]),
        ("WITH a AS (SELECT 1 FROM b), b AS (SELECT 2 FROM a) SELECT * FROM b", [None, "1", "2"]),
        ("WITH t AS (SELECT 1) SELECT * FROM (WITH t AS (SELECT 2) SELECT * FROM t) x, t", ["2", "1"]),
        ("WITH t AS (WITH u AS (SELECT 1) SELECT 2 FROM u) SELECT * FROM t, u", ["1", "2", None]),
        ("SELECT * FROM t WHERE a IN (WITH t AS (SELECT 1) SELECT * FROM t)", [None, "1"]),
        ("WITH t AS (SELECT 1) SELECT * FROM t UNION ALL SELECT * FROM t", ["1", "1"]),
        ("WITH t AS (SELECT 1) SELECT (SELECT max(a) FROM t) FROM u", ["1", None]),
    ],
)
def test_the_cte_that_a_name_means(query: str, meant: list[str | None]) -> None:
    tree = query_tree(Lexed(query))
    ctes = Ctes()
    tables = sorted(tree.find_all(exp.Table), key=lambda table: table.parts[0].meta["start"])
    found = [None if (cte := ctes.meant(table)) is None else cte.this.expressions[0].name for table in tables]
    assert found == meant


def test_those_that_are_hidden_follow() -> None:
    tree = query_tree(Lexed("WITH t AS (SELECT 1) SELECT * FROM (WITH t AS (SELECT 2) SELECT a FROM t) x"))
    (table,) = tree.find_all(exp.Table)
    assert [cte.this.expressions[0].name for cte in Ctes().visible("T", table)] == ["2", "1"]


def test_names_can_be_told_apart_by_case() -> None:
    tree = query_tree(Lexed("WITH T AS (SELECT 1) SELECT * FROM t"))
    (table,) = tree.find_all(exp.Table)
    assert Ctes().meant(table, str) is None
    assert Ctes().meant(table) is not None
