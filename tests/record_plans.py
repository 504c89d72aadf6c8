"""Records Spark's plans of the pairs in tests/plan_pairs.py, so that the tests of the checker need no Spark.

.venv/bin/python tests/record_plans.py
"""

from __future__ import annotations

import asyncio
import gzip
import json
import re
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from plan_pairs import PAIRS, TABLES, UNSTORABLE, VIEWS, Pair
from planning import Planner, planner
from processes import Engine

RECORDED = Path(__file__).with_name("recorded_plans.json.gz")
DATABASE = "recorded"


def recorded() -> dict[str, str]:
    """The plans by their texts. A text of a pair with settings follows `Pair.what`."""
    plans: dict[str, str] = json.loads(gzip.decompress(RECORDED.read_bytes()))
    return plans


def key(pair: Pair, text: str) -> str:
    text = " ".join(text.split())
    return f"{pair.what}: {text}" if pair.settings else text


def _shortened(plan: str) -> str:
    """Without what differs from one recording to the next."""
    plan = re.sub(r"(?<=\d )[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "-", plan)
    plan = re.sub(r"Some\(file:[^\"]*/", "Some(file:/warehouse/", plan)
    return re.sub(r"(?<=`\"\},\{\"kind\":\"String\",\"text\":\")\d{13}", "1700000000000", plan)


async def plans_of(planner: Planner) -> dict[str, str]:
    """Creates the tables and views in a database of their own, and plans all texts."""
    found = {}
    for statement in (f"CREATE DATABASE {DATABASE}", f"USE {DATABASE}", "SET TIME ZONE 'UTC'", *TABLES):
        await planner.session.run(statement)
    for name, query in VIEWS.items():
        await planner.session.run(f"CREATE VIEW {name} AS {query}")
        found[" ".join(query.split())] = _shortened(await planner.written(query))
    for text in UNSTORABLE:
        found[text] = _shortened(await planner.written(text))
    for pair in PAIRS:
        for setting, value in pair.settings:
            await planner.session.run(f"SET {setting}={value}")
        for text in (pair.query, pair.rewritten):
            found[key(pair, text)] = _shortened(await planner.written(text))
        for setting, _ in pair.settings:
            await planner.session.run(f"RESET {setting}")
        if pair.settings:
            await planner.session.run("SET TIME ZONE 'UTC'")
    await planner.session.run(f"DROP DATABASE {DATABASE} CASCADE")
    return found


async def _main() -> None:
    engine = Engine(Path(tempfile.mkdtemp()))
    try:
        async with planner(engine) as working:
            plans = await plans_of(working)
    finally:
        engine.stop()
    written = json.dumps(plans, indent=0, sort_keys=True).encode("ascii")
    RECORDED.write_bytes(gzip.compress(written, mtime=0))
    print(f"{len(plans)} plans, {len(written):,} bytes, compressed {RECORDED.stat().st_size:,}")


if __name__ == "__main__":
    asyncio.run(_main())
