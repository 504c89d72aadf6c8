"""Tests that times in other time zones than UTC are Spark's in answers from memory, where clocks are changed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from batched_answers import QUICK
from engine_answers import SOURCES, engine_with
from memory_corpus import COLUMNS, DATABASE, TABLE
from planning import OneSession, Planner, planner
from processes import Engine
from record_memory import prepare
from spark.test_rows_in_memory import differences, spark_pages

from gateway.memory.page_encoding import PageFormat
from gateway.mv.refresh.habits import Habits
from gateway.service.memory.zones import Zones
from sql.memory.columns import MemoryColumn
from sql.memory.shape_query import ShapeQuery, shape_query
from sql.memory.zone_rules import ZoneRules
from sql.rewriting.shape import shape_of

ZONES = {
    "America/Sao_Paulo": (2017, 2019),
    "Australia/Lord_Howe": (2022, 2024),
    "Pacific/Apia": (2010, 2012),
}
MORE = {
    **{"Europe/Berlin": (1979, 1981), "Asia/Kolkata": (1941, 1946)},
    **{"America/Toronto": (1917, 1921), "America/Havana": (2011, 2013), "Atlantic/Azores": (2023, 2025)},
    **{"Africa/Casablanca": (2022, 2025), "Europe/Amsterdam": (1935, 1941), "Asia/Gaza": (2037, 2046)},
    **{"Africa/Monrovia": (1971, 1973), "Antarctica/Troll": (2022, 2024)},
    **{"+02:00": (2023, 2024), "-3:30": (2023, 2024), "GMT+14": (2023, 2024), "PST": (2023, 2025)},
    **{"Europe/London": (1847, 1849), "Asia/Manila": (1843, 1845), "America/Juneau": (1866, 1868)},
}
"""Each with years in which its clocks are changed, as they are nowhere else."""
NEAR = (0, 1, 599, 600, 1799, 1800, 3599, 3600, 3601, 5400, 7199, 7200, 43_200, 82_800, 86_399, 86_400)
"""Seconds before and after a change."""
ZONE_SECONDS = 30.0
UNITS = "second", "minute", "hour", "day", "week", "month", "quarter", "year"
VALUES = (
    *("ts", "hour(ts)", "minute(ts)", "second(ts)", "year(ts)", "quarter(ts)", "month(ts)", "day(ts)", "dayofyear(ts)"),
    *("weekofyear(ts)", "dayofweek(ts)", "weekday(ts)", "CAST(ts AS DATE)", "CAST(ts AS STRING)", "CAST(tn AS STRING)"),
    *("CAST(ts AS TIMESTAMP_NTZ)", "CAST(tn AS TIMESTAMP)", "CAST(day AS TIMESTAMP)", "CAST(tn AS DATE)", "tn"),
    *(f"date_trunc('{unit}', ts)" for unit in UNITS),
    *(f"CAST(date_trunc('{unit}', ts) AS STRING)" for unit in UNITS),
    *("date_format(ts, 'yyyy-MM-dd HH:mm:ss')", "date_format(ts, 'EEE d MMM, h a')", "from_unixtime(orders)"),
    *("unix_timestamp(ts)", "unix_timestamp(day)", "unix_timestamp(date_trunc('hour', ts))", "to_date(ts)"),
    *("CAST(concat(day, ' 00:00:00') AS TIMESTAMP)", "CAST(date_trunc('month', day) AS DATE)", "last_day(ts)"),
    *("unix_timestamp(date_trunc('day', ts))", "unix_timestamp(CAST(tn AS TIMESTAMP))", "hour(CAST(day AS TIMESTAMP))"),
)
KEYS = ("date_trunc('day', ts)", "date_trunc('hour', ts)", "CAST(ts AS DATE)", "hour(ts)", "date_format(ts, 'yyyy-MM')")


@pytest.mark.parametrize("zones", [ZONES, pytest.param(MORE, marks=pytest.mark.thorough)], ids=["some", "more"])
def test_times_are_sparks_where_clocks_are_changed(engine: Engine, zones: dict[str, tuple[int, int]]) -> None:
    async def compare() -> None:
        limit = asyncio.timeout(60 + len(zones) * ZONE_SECONDS)
        async with limit, planner(engine) as asked, planner(engine) as working:
            await prepare(working)
            for statement in QUICK:
                await working.session.run(statement)
            try:
                for name, years in zones.items():
                    rules = await Zones(OneSession(asked.session), Habits()).rules(name)
                    assert rules.is_known, name
                    await check(working, rules, years)
            finally:
                await working.session.run(f"DROP DATABASE {DATABASE} CASCADE")

    asyncio.run(compare())


async def check(working: Planner, rules: ZoneRules, years: tuple[int, int]) -> None:
    times = tuple((year - 1970) * 31_556_952 for year in years)
    await working.session.run("SET TIME ZONE 'UTC'")
    await fill(working, rules.within(*times))
    rows = (await working.session.run(f"SELECT * FROM {TABLE}")).rows
    await working.session.run(f"SET TIME ZONE '{rules.name}'")
    listed = ", ".join(f"{each} AS c{number}" for number, each in enumerate(VALUES))
    keys, places = ", ".join(KEYS), ", ".join(str(number + 1) for number in range(len(KEYS)))
    queries = [
        f"SELECT ts AS t, tn AS n, {listed} FROM {TABLE} ORDER BY t, n",
        f"SELECT {keys}, count(*), min(ts), max(hour(ts)) FROM {TABLE} GROUP BY {places} ORDER BY {places}",
    ]
    with engine_with(rows) as connection:
        for query in queries:
            known = await learned(working, query, rules, (times[0], times[1]))
            types = [MemoryColumn(each.name, each.type) for each in known.query.output]
            found = connection.execute(known.text(shape_of(query).literals, lambda _: "rows")).fetchall()
            ours = [PageFormat([each.type for each in types]).page(0, found)]
            sparks = await spark_pages(working.session, query, len(found) + 1)
            assert differences(ours, sparks, types) == [], rules.name
            assert ours == sparks, rules.name


async def learned(working: Planner, query: str, zone: ZoneRules, times: tuple[int, int]) -> ShapeQuery:
    plan = await working.plan(query)
    return shape_query((plan, plan), shape_of(query), SOURCES, zone, times)


async def fill(working: Planner, near: ZoneRules) -> None:
    """Rows beside the changes of the clocks, by the clocks, too."""
    values = ", ".join(f"({instant}L, {local}L)" for instant, local in moments(near))
    made = {
        "day": "date_from_unix_date(CAST(floor(l / 86400) AS INT))",
        "orders": "u",
        "ts": "timestamp_micros(u * 1000000 + 120)",
        "tn": "CAST(timestamp_micros(l * 1000000 + 5000) AS TIMESTAMP_NTZ)",
    }
    items = ", ".join(made.get(name, f"CAST(NULL AS {kind})") for name, kind in COLUMNS.items())
    await working.session.run(f"INSERT OVERWRITE {TABLE} SELECT {items} FROM VALUES {values} AS v(u, l)")


def moments(near: ZoneRules) -> Iterator[tuple[int, int]]:
    changes = list(near.changes) or [(near.by_instant.starts[0] + 9 * 86_400, 0, 0)]
    for start, before, after in changes:
        for seconds in sorted({*NEAR, *(-each for each in NEAR), before - after, after - before}):
            yield start + seconds, start + max(before, after) + seconds
            yield start + seconds, start + min(before, after) + seconds
