"""Tests the SQL of Spark's own tests, and TPC-DS, TPC-H and SSB queries: none is taken for a statement of the gateway.

The texts are in the archive of Spark's tests. Three sources must agree on what a statement reads: the skimmer
(`sql.reading.skim`), sqlglot's tree, and the plans of Spark's analyzer, which are in that archive, too.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable

import pytest
from spark_corpus import (
    BENCHMARKS,
    INPUTS,
    PLANS,
    QUERIES,
    RESULTS,
    SSB,
    TPCDS,
    TPCH,
    answered,
    corpus,
    files,
    statements,
    texts,
)

from sql.classify import classify, glance
from sql.grammar.parser import parse_about
from sql.lexed import Lexed
from sql.reading.lineage import parsed_closely
from sql.reading.skim import skim
from sql.statement import Forwarded


def forwarded(text: str) -> Forwarded:
    found = classify(Lexed(text))
    assert isinstance(found, Forwarded), f"taken for ours: {text}"
    return found


def names(found: Forwarded) -> set[str]:
    """The last parts of the names that are read or written, in lower case."""
    return {parts[-1].lower() for parts in (*(read.parts for read in found.reads), *found.writes)}


def test_files_are_split_as_in_sparks_suite() -> None:
    compared = 0
    for path in files(INPUTS):
        golden = path.replace(INPUTS, RESULTS) + ".out"
        if golden not in texts():
            continue
        imported = re.findall(r"^--IMPORT (\S+)", texts()[path], flags=re.MULTILINE)
        expected = [statement for other in (*imported, "") for statement in _of(path, other)]
        assert [statement for statement, _ in answered(golden)] == expected
        compared += 1
    assert compared > 300


def _of(path: str, imported: str) -> list[str]:
    return statements(texts()[INPUTS + imported if imported else path])


def test_sparks_statements_are_forwarded(record_property: Callable[[str, object], None]) -> None:
    counts: Counter[str] = Counter()
    for _, statement in corpus():
        found = forwarded(statement)
        counts["statements"] += 1
        counts["exact"] += found.exact
    for what, number in counts.items():
        record_property(what, number)
    print(f"\n{counts['statements']:,} statements of Spark's tests, {counts['exact']:,} understood exactly")
    assert counts["statements"] > 15_000
    assert counts["exact"] > 0.96 * counts["statements"]


def test_statements_that_may_be_about_a_view_never_fail() -> None:
    """Some are commands of the gateway if the name is a materialized view's: DROP VIEW, DESCRIBE."""
    asked = Counter(type(parse_about(Lexed(statement))).__name__ for _, statement in corpus())
    assert asked["NoneType"] > 15_000 - 1_000
    assert asked["DropMaterializedView"] > 100


@pytest.mark.parametrize(
    ("folder", "tables"),
    [
        ("tpcds/", TPCDS),
        ("tpcds-v2.7.0/", TPCDS),
        ("tpcds-modifiedQueries/", TPCDS),
        ("tpch/", TPCH),
        ("ssb/", SSB),
    ],
)
def test_benchmark_queries_read_their_tables(folder: str, tables: frozenset[str]) -> None:
    queries = [statement for path in files(folder) for statement in statements(texts()[path])]
    assert len(queries) == BENCHMARKS[folder]
    for query in queries:
        found = forwarded(query)
        assert found.exact
        assert found.touches_rows
        assert not found.writes
        read = {reference.parts for reference in found.reads}
        assert read
        assert read <= {(table,) for table in tables}
        behind = re.findall(r"\b(?:from|join)\s+(\w+)", query.lower())
        assert read >= {(word,) for word in behind if word in tables}


def test_skimming_and_sqlglot_agree() -> None:
    """For every query that both understand, they find the same names, positions and aliases."""
    counts: Counter[str] = Counter()
    for path, statement in corpus():
        if glance(Lexed(statement)).keyword not in QUERIES:
            continue
        quick, close = skim(Lexed(statement)), parsed_closely(Lexed(statement))
        counts["queries"] += 1
        counts["skimmed"] += quick is not None
        if quick is not None and close.exact:
            counts["both"] += 1
            assert (quick.reads, quick.writes, quick.touches_rows) == (close.reads, close.writes, True), (
                path,
                statement,
            )
    assert counts["skimmed"] > 0.94 * counts["queries"]
    assert counts["both"] > 0.96 * counts["skimmed"]


def test_no_relation_in_sparks_plans_is_missed() -> None:
    """Every relation at the leaves of the analyzer's plan must be among the names that are read or written."""
    compared = 0
    for path in sorted(name for name in texts() if name.startswith(PLANS)):
        functions: set[str] = set()
        for statement, plan in answered(path):
            found = forwarded(statement)
            if found.creates_function and found.creates_view:
                functions.add(found.creates_view[-1].lower())
            # The plan of a statement that calls a SQL function shows what the function reads.
            calls = {parts[-1].lower() for parts in found.calls}
            if found.exact and found.touches_rows and functions.isdisjoint(calls):
                relations = planned(plan)
                compared += len(relations)
                assert relations <= names(found), (path, statement)
    assert compared > 5_000


_LEAF = re.compile(r"^([ :+|-]*)(View|Relation|HiveTableRelation) [(\[]?([^,\[\]]+)", re.MULTILINE)


def planned(plan: str) -> set[str]:
    """The last parts of the tables and views in a printed plan, in lower case, without what is below views."""
    found: set[str] = set()
    below: int | None = None
    for line in plan.splitlines():
        depth = len(line) - len(line.lstrip(" :+|-"))
        if below is not None and depth > below:
            continue
        below = None
        if leaf := _LEAF.match(line):
            found.add(re.split(r"\.(?=\w+$|`[^`]+`$)", leaf.group(3).strip())[-1].strip("`").lower())
            if leaf.group(2) == "View":
                below = depth
    return found
