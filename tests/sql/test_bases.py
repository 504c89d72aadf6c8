"""Tests which names a definition's text reads: tables, paths, versions of tables, and functions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sql.definition.bases import bases, of_expression
from sql.names import FUNCTION, Namespace, TableName

HERE = Namespace("d")


def path(format_name: str, where: str) -> TableName:
    return TableName(format_name, where)


def of_iceberg(aspect: str = "", *below: str) -> TableName:
    parts = ("lake", "i", "t", *below)
    return TableName(".".join(parts[1:-1]), parts[-1], "lake", aspect)


RELATIONS = [
    ("SELECT * FROM parquet.`/Data/X`", path("parquet", "/Data/X")),
    ("SELECT * FROM DELTA.`/Data/X` AS x", path("delta", "/Data/X")),
    ("SELECT * FROM csv.`dbfs:/Data/*.csv`", path("csv", "dbfs:/Data/*.csv")),
    ("SELECT * FROM json.`One.json`", path("json", "One.json")),
    ("SELECT * FROM text.`/x/{a,b}`", path("text", "/x/{a,b}")),
    ("SELECT * FROM text.Lines", TableName("text", "lines")),
    ("SELECT * FROM lake.i.t", of_iceberg()),
    ("SELECT * FROM lake.i.t VERSION AS OF 'B'", of_iceberg("VERSION AS OF B")),
    ("SELECT * FROM lake.i.t FOR SYSTEM_VERSION AS OF 7 x", of_iceberg("VERSION AS OF 7")),
    ("SELECT * FROM lake.i.t /* ' */ -- x\n VERSION AS OF 'b'", of_iceberg("VERSION AS OF b")),
    ("SELECT * FROM lake.i.t TIMESTAMP AS OF '2024-01-01'", of_iceberg("TIMESTAMP AS OF '2024-01-01'")),
    ("SELECT * FROM lake.i.t WITH ('branch' = 'b') WHERE a IN (1)", of_iceberg("WITH ('branch' = 'b')")),
    ("SELECT * FROM lake.i.t VERSION AS OF 7 WITH (a = (1)) x", of_iceberg("VERSION AS OF 7 WITH (a = (1))")),
    ("SELECT * FROM lake.i.t.branch_b1", of_iceberg("", "branch_b1")),
]


@pytest.mark.parametrize(("query", "name"), RELATIONS, ids=[query for query, _ in RELATIONS])
def test_paths_and_table_versions_are_found(query: str, name: TableName) -> None:
    found = bases(query, HERE)
    assert (found.relations, found.exact) == ((name,), True)


def test_a_table_and_its_version_are_two_bases() -> None:
    found = bases("SELECT * FROM t JOIN t VERSION AS OF 3 AS old USING (a)", HERE)
    assert found.relations == (TableName("d", "t"), TableName("d", "t", aspect="VERSION AS OF 3"))


def test_a_path_is_not_qualified_by_the_current_catalog() -> None:
    there = Namespace("i", "lake")
    assert bases("SELECT * FROM parquet.`/X`", there).relations == (path("parquet", "/X"),)
    assert bases("SELECT * FROM i.`my-table`", there).relations == (TableName("i", "my-table", "lake"),)


FUNCTIONS = [
    ("SELECT abs(a), count(*), sum(a) OVER (ORDER BY a) FROM t WHERE a IN (1) AND EXISTS (SELECT 1)", ""),
    ("SELECT F(a) FROM t", "d.f"),
    ("SELECT s.abs(a) FROM t", "s.abs"),
    ("SELECT * FROM spark_catalog.S.listed(1) AS x", "s.listed"),
    ("SELECT `sum`(a), `my f`(a) FROM t", "d.my f"),
    ("SELECT IDENTIFIER('s.f')(1) FROM t", "s.f"),
    ("SELECT a FROM t ORDER BY f /* ( */ (a)", "d.f"),
]


@pytest.mark.parametrize(("query", "names"), FUNCTIONS, ids=[query for query, _ in FUNCTIONS])
def test_called_functions_are_found(query: str, names: str) -> None:
    found = {f"{each.database}.{each.table}" for each in bases(query, HERE).functions}
    # In a text that is not understood, any word may be a function.
    assert found >= set(filter(None, [names]))
    assert not bases(query, HERE).exact or found == set(filter(None, [names]))


def test_the_body_of_a_function_is_read_as_an_expression() -> None:
    found = of_expression("(SELECT max(a) FROM t) + s.f(x)", HERE)
    assert found.relations == (TableName("d", "t"),)
    assert found.functions == (TableName("s", "f", aspect=FUNCTION),)


def test_a_branch_belongs_to_its_iceberg_table() -> None:
    branch = of_iceberg("", "branch_b")
    assert branch.above == of_iceberg()
    assert set(branch.stems) == {("t", "branch_b"), ("i", "t")}
    assert branch.quoted == "`lake`.`i`.`t`.`branch_b`"
    assert TableName("d", "files").above is None
    assert TableName("t", "files", "d").above == TableName("d", "t")
    assert TableName("d", "orders", "lake").above is None


@given(st.text(), st.sampled_from(["", "VERSION AS OF 3", FUNCTION]))
def test_any_text_gives_consistent_names(text: str, aspect: str) -> None:
    """This includes texts that Spark would refuse."""
    for name in (*bases(f"SELECT * FROM {text}", HERE).relations, *of_expression(text, HERE).functions):
        assert name.whole.aspect == ""
        assert not (name.path and name.is_function)
        assert name.stems[0][1] == name.table
