"""Spark's answers to many queries at once: starting a query takes Spark longer than running it on a few rows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from planning import Planner

from gateway.errors import StatementFailed
from gateway.wire.columnar import Value

QUICK = (
    "SET spark.sql.adaptive.enabled = false",
    "SET spark.sql.shuffle.partitions = 1",
    "SET spark.sql.codegen.wholeStage = false",
    "SET spark.sql.codegen.factoryMode = NO_CODEGEN",
)
"""Settings under which Spark answers queries on a few rows sooner: compiling them takes longer than running them."""
USUAL = tuple("RESET " + each.split()[1] for each in QUICK)
_INTEGERS = frozenset({"tinyint", "smallint", "int", "bigint"})


@dataclass(frozen=True, slots=True)
class Asked:
    """A query with the names and types of its columns."""

    text: str
    columns: tuple[tuple[str, str], ...]


async def answers(planner: Planner, queries: Sequence[Asked]) -> list[list[list[Value]] | None]:
    """The rows of each query, in its order; None for one that fails."""
    if not queries:
        return []
    try:
        return await _answers(planner, queries)
    except StatementFailed:
        if len(queries) == 1:
            return [None]
    half = len(queries) // 2
    return [*await answers(planner, queries[:half]), *await answers(planner, queries[half:])]


async def _answers(planner: Planner, queries: Sequence[Asked]) -> list[list[list[Value]] | None]:
    branches = []
    for number, query in enumerate(queries):
        texts = ", ".join(f"CAST(`{name}` AS STRING)" for name, _ in query.columns)
        branches.append(f"SELECT {number} AS q, to_json(array({texts})) AS v FROM ({query.text})")
    rows = (await planner.session.run(" UNION ALL ".join(branches))).rows
    found: list[list[list[Value]] | None] = [[] for _ in queries]
    for number, texts in rows:
        answer = found[number]
        assert answer is not None
        types = (kind for _, kind in queries[number].columns)
        answer.append([_value(text, kind) for text, kind in zip(json.loads(texts), types, strict=True)])
    return found


def _value(text: str | None, kind: str) -> Value:
    """A value that Spark has cast to a string, as the Thrift server shows it."""
    if text is None:
        return None
    if kind == "boolean":
        return text == "true"
    if kind in _INTEGERS:
        return int(text)
    if kind == "double":
        return float(text)
    return f"{Decimal(text):f}" if kind.startswith("decimal") else text
