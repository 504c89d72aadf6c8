"""Records what Spark explains of the definitions in tests/increment_faults.py, so that the tests of how an analysis
agrees with Spark's plans need no Spark.

.venv/bin/python tests/record_explanations.py
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from increment_faults import texts
from outlines import VIEWS
from planning import Planner, planner
from processes import Engine

from gateway.errors import StatementFailed
from gateway.mv.formats.known_formats import EXPLAINED_WHOLE
from sql.texts.maintenance import explained_plans

RECORDED = Path(__file__).with_name("recorded_explanations.json.gz")
DATABASES = ("shop", "other")
TABLES = (
    """CREATE TABLE shop.t (a INT, b STRING, v BIGINT, w DECIMAL(12,2), f DOUBLE, ts TIMESTAMP, arr ARRAY<INT>,
       m MAP<STRING, INT>, s STRUCT<x: INT>) USING parquet""",
    "CREATE TABLE shop.u (a INT, c STRING) USING parquet",
    "CREATE TABLE shop.us (`user` STRING, b STRING) USING parquet",
    "CREATE TABLE shop.small (k INT) USING parquet",
)


def recorded() -> dict[str, str]:
    """What EXPLAIN EXTENDED prints, by the texts, without the plans that nothing reads."""
    found: dict[str, str] = json.loads(gzip.decompress(RECORDED.read_bytes()))
    return {text: f"== Parsed Logical Plan ==\n\n{each}\n== Physical Plan ==\n" for text, each in found.items()}


@contextlib.asynccontextmanager
async def increments_database(working: Planner) -> AsyncIterator[None]:
    """Creates the tables and views of the definitions."""
    for database in DATABASES:
        await working.session.run(f"CREATE DATABASE {database}")
    try:
        for statement in TABLES:
            await working.session.run(statement)
        for name, view in VIEWS.items():
            await working.session.run(f"USE {view.namespace.database}")
            with contextlib.suppress(StatementFailed):  # Spark does not accept some.
                text = view.text.partition(";")[0]
                await working.session.run(f"CREATE VIEW {name.quoted} ({', '.join(view.columns)}) AS {text}")
        for setting, value in EXPLAINED_WHOLE.items():
            await working.session.run(f"SET `{setting}`={value}")
        await working.session.run("USE shop")
        yield
    finally:
        for database in DATABASES:
            await working.session.run(f"DROP DATABASE {database} CASCADE")


async def explain(working: Planner, text: str) -> str:
    try:
        return str((await working.session.run(explained_plans(text.rstrip(";")))).rows[0][0])
    except StatementFailed as error:
        return str(error)


def _shortened(text: str) -> str:
    return text[max(text.find("== Analyzed"), 0) :].partition("\n== Physical Plan ==")[0]


async def _main() -> None:
    engine = Engine(Path(tempfile.mkdtemp()))
    try:
        async with planner(engine) as working, increments_database(working):
            found = {text: _shortened(await explain(working, text)) for text in sorted(set(texts()))}
    finally:
        engine.stop()
    written = json.dumps(found, indent=0, sort_keys=True).encode("ascii")
    RECORDED.write_bytes(gzip.compress(written, mtime=0))
    print(f"{RECORDED.name}: {len(written):,} bytes, compressed {RECORDED.stat().st_size:,}")


if __name__ == "__main__":
    asyncio.run(_main())
