"""Records Spark's plans of the pairs in tests/plan_pairs.py, and what it answers to `TextPlans`, so that the tests of
the checker need no Spark.

.venv/bin/python tests/record_plans.py
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import re
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from plan_pairs import PAIRS, TABLES, UNSTORABLE, VIEWS, Pair
from planning import Planner, planner
from processes import Engine

from gateway.mv.ports import PlanUnavailable
from gateway.spark.client import ServerSession
from gateway.spark.plan_texts import TextPlans
from gateway.spark.row_list import RowList

RECORDED = Path(__file__).with_name("recorded_plans.json.gz")
RECORDED_ANSWERS = Path(__file__).with_name("recorded_answers.json.gz")
DATABASE = "recorded"


def recorded() -> dict[str, str]:
    """The plans by their texts. A text of a pair with settings follows `Pair.what`."""
    plans: dict[str, str] = json.loads(gzip.decompress(RECORDED.read_bytes()))
    return plans


def recorded_answers() -> dict[str, dict[str, list[Any]]]:
    """The rows that statements return, by their texts: in sessions of pairs with settings, by `Pair.what`, and in one
    session for all others: ""."""
    answers: dict[str, dict[str, list[Any]]] = json.loads(gzip.decompress(RECORDED_ANSWERS.read_bytes()))
    return answers


def key(pair: Pair, text: str) -> str:
    text = " ".join(text.split())
    return f"{pair.what}: {text}" if pair.settings else text


def shortened(plan: str) -> str:
    """Without what differs from one recording to the next."""
    plan = re.sub(r"(?<=\d )[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "-", plan)
    plan = re.sub(r"Some\(file:[^\"]*/", "Some(file:/warehouse/", plan)
    plan = re.sub(r"\{path=file:[^\"}]*/", "{path=file:/warehouse/", plan)
    return re.sub(r"(?<=`\"\},\{\"kind\":\"String\",\"text\":\")\d{13}", "1700000000000", plan)


@contextlib.asynccontextmanager
async def database(planner: Planner) -> AsyncIterator[None]:
    """Creates the tables and views in a database of their own."""
    for statement in (f"CREATE DATABASE {DATABASE}", f"USE {DATABASE}", "SET TIME ZONE 'UTC'", *TABLES):
        await planner.session.run(statement)
    for name, query in VIEWS.items():
        await planner.session.run(f"CREATE VIEW {name} AS {query}")
    try:
        yield
    finally:
        await planner.session.run(f"DROP DATABASE {DATABASE} CASCADE")


async def plans_of(planner: Planner) -> dict[str, str]:
    """Plans all texts in the `database`."""
    found = {}
    for query in VIEWS.values():
        found[" ".join(query.split())] = shortened(await planner.written(query))
    for text in UNSTORABLE:
        found[text] = shortened(await planner.written(text))
    for pair in PAIRS:
        for setting, value in pair.settings:
            await planner.session.run(f"SET {setting}={value}")
        for text in (pair.query, pair.rewritten):
            found[key(pair, text)] = shortened(await planner.written(text))
        for setting, _ in pair.settings:
            await planner.session.run(f"RESET {setting}")
        if pair.settings:
            await planner.session.run("SET TIME ZONE 'UTC'")
    return found


class _Recording:
    """A session that notes what Spark answers. Implements `mv.ports.SqlSession`."""

    def __init__(self, session: ServerSession) -> None:
        self._session = session
        self.answers: dict[str, list[Any]] = {}

    async def run(self, sql: str, *, on_start: Callable[[str], None] | None = None) -> RowList:
        found = await self._session.run(sql)
        self.answers[sql] = [[_shown(value) for value in row] for row in found.rows]
        return found

    def spoil(self) -> None:
        self._session.spoil()


def _shown(value: object) -> object:
    """Without physical plans, which are not read, and what differs from one recording to the next."""
    if not isinstance(value, str):
        return value
    value = re.sub(r"(?<=== Physical Plan ==)\n.*", "", value, flags=re.DOTALL)
    value = re.sub(r"file:[^\"]*/", "file:/warehouse/", value)
    return re.sub(r"(?<=\"created_time\":\")[^\"]*", "2026-01-01T00:00:00Z", value)


async def answers_of(engine: Engine) -> dict[str, dict[str, list[Any]]]:
    """What Spark answers to `TextPlans` for all texts in the `database`."""
    texts = {"": [*VIEWS.values(), *UNSTORABLE]}
    for pair in PAIRS:
        texts.setdefault(pair.what if pair.settings else "", []).extend((pair.query, pair.rewritten))
    settings = {pair.what: pair.settings for pair in PAIRS if pair.settings}
    found = {}
    for what, queries in texts.items():
        async with planner(engine) as working:
            session = _Recording(working.session)
            for statement in (f"USE {DATABASE}", "SET TIME ZONE 'UTC'"):
                await working.session.run(statement)
            for name, value in settings.get(what, ()):
                await working.session.run(f"SET {name}={value}")
            plans = TextPlans()
            async with plans.of(session) as explained:
                for text in queries:
                    with contextlib.suppress(PlanUnavailable):
                        await plans.optimized(explained, " ".join(text.split()))
            found[what] = session.answers
    return found


async def _main() -> None:
    engine = Engine(Path(tempfile.mkdtemp()))
    try:
        async with planner(engine) as working, database(working):
            plans, answers = await plans_of(working), await answers_of(engine)
    finally:
        engine.stop()
    for path, content in ((RECORDED, plans), (RECORDED_ANSWERS, answers)):
        written = json.dumps(content, indent=0, sort_keys=True).encode("ascii")
        path.write_bytes(gzip.compress(written, mtime=0))
        print(f"{path.name}: {len(written):,} bytes, compressed {path.stat().st_size:,}")


if __name__ == "__main__":
    asyncio.run(_main())
