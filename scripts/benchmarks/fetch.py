"""Measures large results: the speed of rows, and the gateway's memory meanwhile."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import jpype
from clients import Jdbc, pyhive

from benchmarks.figures import Figure, Turns, in_turn
from benchmarks.stand import Peak, Stand

LIMIT = 1.05
RUNS_JDBC = 3
RUNS_PYHIVE = 5
PAGE_ROWS = 10_000
MEBIBYTE = 1 << 20
GROWTH_LIMIT_MIB = 8.0
"""The buffers of two connections and allocator overhead; a hundredth of this test's result would exceed it."""

ROW = "id, id * 0.5D AS half, date_add(DATE '2013-01-01', CAST(id % 365 AS INT)) AS day, concat('row ', id) AS label"
WIDE_ROW = f"{ROW}, repeat(md5(CAST(id AS STRING)), 3) AS filler"

LOOP = """
long rows = 0;
while (result.next()) {
    for (int column = 1; column <= columns; column++) result.getObject(column);
    rows++;
}
return rows;
"""
"""Runs inside the JVM: a loop in Python would add microseconds to each of the driver's calls, on both sides, and so
hide part of the gateway's cost. Spark ships the compiler (Janino)."""


def through_jdbc(stand: Stand) -> Iterator[Figure]:
    """The Hive JDBC driver that Spark ships asks the server once per row whether the statement has ended."""
    query = f"SELECT {ROW} FROM range({stand.rows})"
    with stand.jdbc() as connections:
        direct, through = (_by_jdbc(connection, query, stand.rows) for connection in connections)
        yield from _fetched(stand, direct, through, RUNS_JDBC, "JDBC")


def through_pyhive(stand: Stand) -> Iterator[Figure]:
    query = f"SELECT {ROW} FROM range({stand.rows})"
    with (
        pyhive(stand.engine.host, stand.engine.port) as near,
        pyhive(stand.gateway.host, stand.gateway.port) as far,
    ):
        direct, through = (_by_pyhive(cursor, query, stand.rows) for cursor in (near, far))
        yield from _fetched(stand, direct, through, RUNS_PYHIVE, "PyHive")


def memory(stand: Stand) -> Iterator[Figure]:
    """The gateway's memory while a result of more than 100 MB passes."""
    stand.query(f"SELECT {WIDE_ROW} FROM range({PAGE_ROWS * 2})")
    with pyhive(stand.gateway.host, stand.gateway.port) as cursor:
        fetch = _by_pyhive(cursor, f"SELECT {WIDE_ROW} FROM range({stand.rows})", stand.rows)
        before = stand.resident()
        with Peak(stand.resident) as peak:
            fetch()
    after = stand.resident()
    subject = f"memory while {stand.rows:,} rows of 130 bytes pass"
    yield Figure(
        "memory",
        f"{subject}, peak above start",
        (peak.bytes - before) / MEBIBYTE,
        "MiB",
        GROWTH_LIMIT_MIB,
        gateway=f"{before / MEBIBYTE:.1f} MiB before, {peak.bytes / MEBIBYTE:.1f} peak, {after / MEBIBYTE:.1f} after",
    )


def _fetched(
    stand: Stand, direct: Callable[[], object], through: Callable[[], object], runs: int, client: str
) -> Iterator[Figure]:
    used: list[float] = []

    def watched() -> None:
        began = stand.processor_seconds()
        through()
        used.append((stand.processor_seconds() - began) / stand.rows)

    turns: Turns = in_turn(direct, watched, stand.runs(runs))
    yield turns.ratio("fetch", f"{stand.rows:,} rows, {client}", LIMIT, "s")
    used.sort()
    median = used[len(used) // 2]
    yield Figure("fetch", f"gateway's processor time per row, {client}", median * 1e6, "us", runs=len(used))


def _by_jdbc(connection: Jdbc, query: str, expected: int) -> Callable[[], object]:
    def fetch() -> None:
        result = connection.statement.executeQuery(query)
        columns = result.getMetaData().getColumnCount()
        found = loop().evaluate([result, jpype.JInt(columns)])
        result.close()
        _check(int(found.longValue()), expected)

    return fetch


def _by_pyhive(cursor: Any, query: str, expected: int) -> Callable[[], object]:
    def fetch() -> None:
        cursor.execute(query)
        found = 0
        while page := cursor.fetchmany(PAGE_ROWS):
            found += len(page)
        _check(found, expected)

    return fetch


def _check(found: int, expected: int) -> None:
    if found != expected:
        raise SystemExit(f"bench: expected {expected} rows, got {found}.")


@functools.cache
def loop() -> Any:
    """The compiled loop: `evaluate([result set, number of columns])` returns the number of rows as a java.lang.Long."""
    evaluator = jpype.JClass("org.codehaus.janino.ScriptEvaluator")()
    evaluator.setReturnType(jpype.JClass("java.lang.Long").TYPE)
    names = jpype.JString[:](["result", "columns"])
    types = jpype.JClass("java.lang.Class")[:]([jpype.JClass("java.sql.ResultSet").class_, jpype.JInt.class_])
    evaluator.setParameters(names, types)
    evaluator.setThrownExceptions([jpype.JClass("java.sql.SQLException").class_])
    evaluator.cook(LOOP)
    return evaluator
