"""Proofs over Delta and Iceberg tables: the newest version of a whole table is understood, and nothing else."""

from __future__ import annotations

import asyncio

from lake import ICEBERG
from planning import Planner, planner
from processes import Engine

from sql.proof.checker import NotProved, Proved, can_be_stored, prove

DEADLINE_SECONDS = 300.0
DATABASE = "lake_plans"
DEFINITION = "SELECT g, d, sum(x) AS sx, count(*) AS c, min(k) AS mk FROM {t} GROUP BY g, d"
PAIRS = {
    "SELECT g, sum(x) s FROM {t} WHERE d > DATE'2024-01-01' GROUP BY g": "SELECT g, sum(sx) s FROM {v} "
    "WHERE d > DATE'2024-01-01' GROUP BY g",
    # Both formats can answer these from metadata.
    "SELECT count(*) c FROM {t}": "SELECT coalesce(sum(c), 0) c FROM {v}",
    "SELECT min(k) m FROM {t} WHERE d = DATE'2024-01-01'": "SELECT min(mk) m FROM {v} WHERE d = DATE'2024-01-01'",
}
OTHER_ROWS = (
    "SELECT g, sum(x) s FROM {t} WHERE d > DATE'2024-01-02' GROUP BY g",
    "SELECT g, sum(x) s FROM {t} WHERE d > DATE'2024-01-01' AND k IS NOT NULL GROUP BY g",
    "SELECT g, sum(x) s FROM {other} WHERE d > DATE'2024-01-01' GROUP BY g",
)
"""Queries that differ from the first one."""
NOT_UNDERSTOOD = {
    "iceberg": (
        "{t} VERSION AS OF {version}",
        "{t} TIMESTAMP AS OF '2099-01-01'",
        "{t} FOR SYSTEM_VERSION AS OF 'marked'",
        "{t}.snapshots",
        "{t}.files",
        "{t}.branch_main",
        "{t}.tag_marked",
        "{t} WITH ('split-size' = '5')",
        "(SELECT g, _file FROM {t})",
    ),
    "delta": (
        "{t} VERSION AS OF {version}",
        "{t} TIMESTAMP AS OF '{time}'",
        "table_changes('{t}', 1)",
        "delta.`{location}`",
        "(SELECT g, _metadata.file_path FROM {t})",
    ),
}


def test_the_newest_versions_of_lake_tables_are_understood(lake_engine: Engine) -> None:
    async def check() -> None:
        async with asyncio.timeout(DEADLINE_SECONDS), planner(lake_engine) as working:
            for statement in (f"CREATE DATABASE {DATABASE}", f"CREATE DATABASE {ICEBERG}.{DATABASE}"):
                await working.session.run(statement)
            for provider, catalog in (("iceberg", f"{ICEBERG}."), ("delta", "")):
                await _check_tables(working, provider, f"{catalog}{DATABASE}")

    asyncio.run(check())


async def _check_tables(working: Planner, provider: str, database: str) -> None:
    t, other, v = f"{database}.t", f"{database}.other", f"{DATABASE}.{provider}_view"
    run = working.session.run
    for name in (t, other):
        await run(f"CREATE TABLE {name} (g STRING, k INT, d DATE, x INT) USING {provider} PARTITIONED BY (d)")
        await run(f"INSERT INTO {name} VALUES ('a', 1, DATE'2024-01-01', 5), ('b', 2, DATE'2024-01-02', 7)")
    await run(f"CREATE VIEW {v} AS {DEFINITION.format(t=t)}")
    places = {"t": t, "other": other, "v": v, "version": "1", "time": "", "location": ""}
    assert can_be_stored(await working.plan(DEFINITION.format(t=t))) == Proved()
    plans = [
        [await working.plan(text.format_map(places)) for text in (query, rewritten)]
        for query, rewritten in PAIRS.items()
    ]
    for query, rewritten in plans:
        assert prove(query, rewritten) == Proved()
    for text in OTHER_ROWS:
        assert isinstance(prove(await working.plan(text.format_map(places)), plans[0][1]), NotProved), text
    if provider == "iceberg":
        await run(f"ALTER TABLE {t} CREATE TAG marked")
        places["version"] = str((await run(f"SELECT snapshot_id FROM {t}.snapshots")).rows[0][0])
    else:
        await run(f"ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
        await run(f"INSERT INTO {t} VALUES ('c', 3, DATE'2024-01-03', 9)")
        places["time"] = str((await run(f"DESCRIBE HISTORY {t} LIMIT 1")).rows[0][1])
        places["location"] = str((await run(f"DESCRIBE DETAIL {t}")).rows[0][4])
    for relation in NOT_UNDERSTOOD[provider]:
        text = f"SELECT * FROM {relation.format_map(places)}"
        assert isinstance(can_be_stored(await working.plan(text)), NotProved), text
    # The same name, but another table.
    await run(f"DROP TABLE {t}")
    await run(f"CREATE TABLE {t} (g STRING, k INT, d DATE, x INT) USING {provider}")
    again = await working.plan(next(iter(PAIRS)).format_map(places))
    assert isinstance(prove(again, plans[0][1]), NotProved)
