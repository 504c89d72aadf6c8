"""Records Spark's plans and answers of the queries in tests/memory_corpus.py, so that the tests of the translation need
no Spark.

.venv/bin/python tests/record_memory.py
"""

from __future__ import annotations

import asyncio
import gzip
import json
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

import memory_dashboards
from memory_corpus import BASE, COLUMNS, DATABASE, QUERIES, REFUSED, SEVERAL, TABLE, rows_as_sql
from planning import Planner, planner
from processes import Engine
from record_plans import shortened

from gateway.mv.ports import PlanUnavailable
from gateway.mv.rewriting.proving import filled
from sql.memory.shape_query import varied
from sql.rewriting.shape import shape_of

RECORDED = Path(__file__).with_name("recorded_memory.json.gz")


@dataclass(frozen=True, slots=True)
class RecordedQuery:
    """What Spark says of a query."""

    plan: str
    unfolded: str
    """The plan in which nothing was computed from literals."""
    varied: str | None
    """The same of the query with other literals, if it has any."""
    rows: list[list[Any]]


def recorded_queries() -> dict[str, RecordedQuery]:
    """What was recorded, by the queries' texts; that of the table's rows is `SELECT *`."""
    found = json.loads(gzip.decompress(RECORDED.read_bytes()))
    return {query: RecordedQuery(**each) for query, each in found.items()}


async def recorded_of(planner: Planner, query: str, *, runs: bool = True) -> RecordedQuery:
    shape = shape_of(query)
    plan = shortened(await planner.written(query))
    unfolded = shortened(await planner.written(query, unfolded=True))
    try:
        text = filled(shape, varied(shape))
        other = shortened(await planner.written(text, unfolded=True)) if shape.literals else None
    except PlanUnavailable:
        other = None
    rows = (await planner.session.run(query)).rows if runs else []
    return RecordedQuery(plan, unfolded, other, [list(row) for row in rows])


async def recorded_dashboards(planner: Planner) -> dict[str, RecordedQuery]:
    """What Spark says of the texts of BI tools, and the rows of what they read."""
    for statement in (
        f"CREATE DATABASE {memory_dashboards.DATABASE}",
        f"USE {memory_dashboards.DATABASE}",
        *memory_dashboards.statements(),
    ):
        await planner.session.run(statement)
    tables = [f"SELECT * FROM {memory_dashboards.DATABASE}.{table}" for table in memory_dashboards.COLUMNS]
    return {query: await recorded_of(planner, query) for query in (*tables, *memory_dashboards.QUERIES)}


async def prepare(planner: Planner) -> None:
    """Creates the tables in a database of its own, the base table without rows."""
    columns = ", ".join(f"{name} {type_text}" for name, type_text in COLUMNS.items())
    for statement in (
        f"CREATE DATABASE {DATABASE}",
        f"USE {DATABASE}",
        "SET TIME ZONE 'UTC'",
        *(f"CREATE TABLE {table} ({columns}) USING PARQUET" for table in (TABLE, BASE)),
        f"INSERT INTO {TABLE} {rows_as_sql()}",
    ):
        await planner.session.run(statement)


async def _main() -> None:
    engine = Engine(Path(tempfile.mkdtemp()))
    try:
        async with planner(engine) as working:
            await prepare(working)
            found = {query: await recorded_of(working, query) for query in (f"SELECT * FROM {TABLE}", *QUERIES)}
            found |= {query: await recorded_of(working, query, runs=False) for query in (*REFUSED, *SEVERAL)}
            found |= await recorded_dashboards(working)
    finally:
        engine.stop()
    content = {query: {name: getattr(each, name) for name in each.__slots__} for query, each in found.items()}
    written = json.dumps(content, indent=0, sort_keys=True).encode("ascii")
    RECORDED.write_bytes(gzip.compress(written, mtime=0))
    print(f"{RECORDED.name}: {len(written):,} bytes, compressed {RECORDED.stat().st_size:,}")


if __name__ == "__main__":
    asyncio.run(_main())
