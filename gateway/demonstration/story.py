"""The demo's steps, and how each answer is checked.

Tests: `test_demo_story`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gateway.demonstration.beeline import Reply
from gateway.demonstration.flights import DATABASE
from gateway.demonstration.warehouse import Warehouse

Check = Callable[[Warehouse, Sequence[Reply]], None]
"""Gets the replies of the step's runs; raises WrongAnswer."""

STORM_FLIGHTS = 968
"""Flights of 30 December 2013, which the storm repeats."""

ROUTES = """\
SELECT f.origin, a.name AS destination, count(*) AS flights,
       count(DISTINCT f.tailnum) AS planes,
       percentile(f.arr_delay, 0.5) AS median_delay,
       round(percentile(f.arr_delay, 0.9), 1) AS delay_of_worst_tenth
FROM nyc.flights f
JOIN nyc.airports a ON a.faa = f.dest
GROUP BY f.origin, a.name"""

DAILY = """\
SELECT make_date(f.year, f.month, f.day) AS day, a.name AS airline,
       count(*) AS flights, count(f.dep_delay) AS departed,
       sum(f.dep_delay) AS minutes_late, count_if(f.dep_delay > 60) AS over_an_hour_late
FROM nyc.flights f
JOIN nyc.airlines a ON a.carrier = f.carrier
GROUP BY make_date(f.year, f.month, f.day), a.name"""

MONTHLY = """\
SELECT trunc(day, 'MM') AS month, sum(flights) AS flights,
       sum(flights) - sum(departed) AS cancelled,
       round(sum(minutes_late) / sum(departed), 1) AS mean_delay
FROM nyc.daily_delays
GROUP BY trunc(day, 'MM')"""

WEATHER = """\
SELECT CASE WHEN w.visib < 1 THEN '1 fog or snow' WHEN w.precip > 0 THEN '2 rain' ELSE '3 dry' END AS sky,
       CASE WHEN w.wind_speed >= 20 THEN 'strong' ELSE 'weak' END AS wind,
       count(*) AS flights, round(avg(f.dep_delay), 1) AS mean_delay
FROM nyc.flights f
JOIN nyc.weather w ON w.origin = f.origin AND w.time_hour = f.time_hour
GROUP BY 1, 2"""

DEFINITIONS = {"route_delays": ROUTES, "daily_delays": DAILY, "monthly_delays": MONTHLY, "weather_delays": WEATHER}

STORM = """\
INSERT INTO nyc.flights
SELECT 2014, 1, 2, dep_time, sched_dep_time, dep_delay + 180, arr_time, sched_arr_time, arr_delay + 180,
       carrier, flight, tailnum, origin, dest, air_time, distance, hour, minute, time_hour + INTERVAL 3 DAYS
FROM nyc.flights WHERE year = 2013 AND month = 12 AND day = 30"""

SNOW = """\
INSERT INTO nyc.weather
SELECT origin, 2014, 1, 2, hour, temp, dewp, humid, wind_dir, 35.0, 50.0, 0.1, pressure, 0.25,
       time_hour + INTERVAL 3 DAYS
FROM nyc.weather WHERE year = 2013 AND month = 12 AND day = 30"""

ASK_ROUTES = """\
SELECT *
FROM {}
ORDER BY delay_of_worst_tenth DESC, destination, origin LIMIT 5"""

ASK_AIRLINES = """\
SELECT a.name AS airline, count(*) AS flights, sum(f.dep_delay) AS minutes_late
FROM nyc.flights f
JOIN nyc.airlines a ON a.carrier = f.carrier
WHERE make_date(f.year, f.month, f.day) >= DATE '2013-07-01'
GROUP BY a.name
ORDER BY minutes_late DESC, airline LIMIT 5"""

ASK_MONTHS = "SELECT * FROM nyc.monthly_delays ORDER BY month DESC LIMIT 3"
ASK_WEATHER = "SELECT * FROM nyc.weather_delays ORDER BY sky, wind"
SHOW = f"SHOW MATERIALIZED VIEWS IN {DATABASE}"


@dataclass(frozen=True, slots=True)
class StoryStep:
    """One statement of the demo."""

    sql: str
    heading: str = ""
    """Empty if the step continues the previous one."""
    text: str = ""
    label: str = ""
    """The label of its line in the summary; empty for none."""
    runs: int = 1
    """How often the step is run; the first result and all times are shown."""
    check: Check | None = None


def _has_no_error(replies: Sequence[Reply]) -> bool:
    return not any("Error:" in reply.text for reply in replies)


def succeeds(warehouse: Warehouse, replies: Sequence[Reply]) -> None:
    """Checks a step that must not fail."""
    warehouse.expect("No error", _has_no_error(replies), True)


def _all_of(*checks: Check) -> Check:
    def check(warehouse: Warehouse, replies: Sequence[Reply]) -> None:
        for one in checks:
            one(warehouse, replies)

    return check


def _refused(sqlstate: str) -> Check:
    def check(warehouse: Warehouse, replies: Sequence[Reply]) -> None:
        text = replies[0].text
        warehouse.expect(f"An error with SQLSTATE {sqlstate} in {text!r}", f"state={sqlstate}" in text, True)

    return check


def _fresh(*fresh: str, of: Sequence[str] = tuple(DEFINITIONS)) -> Check:
    """Checks that exactly these views are fresh. Asking does not refresh, so this is the state after the step."""

    def check(warehouse: Warehouse, replies: Sequence[Reply]) -> None:
        succeeds(warehouse, replies)
        wanted = {view: "FRESH" if view in fresh else "STALE" for view in sorted(of)}
        warehouse.expect("Freshness", dict(sorted(warehouse.freshness(DATABASE).items())), wanted)

    return check


def _same_as_base(*views: str) -> Check:
    """Checks that the views' rows equal those of their definitions on the base tables, with views in a definition
    replaced by their own."""

    def check(warehouse: Warehouse, replies: Sequence[Reply]) -> None:
        succeeds(warehouse, replies)
        for view in views:
            query = DEFINITIONS[view].replace("nyc.daily_delays", f"({DAILY})")
            warehouse.expect_same_rows(f"{DATABASE}.{view}", query)

    return check


def _shows_storm(warehouse: Warehouse, replies: Sequence[Reply]) -> None:
    """Checks beeline's output itself, not what a second read would return."""
    for reply in replies:
        cells = [cell.strip() for line in reply.table.splitlines() for cell in line.split("|")]
        warehouse.expect("The storm's month in the answer", cells.count("2014-01-01"), 1)
        warehouse.expect("The storm's flights in the answer", str(STORM_FLIGHTS) in cells, True)


def _nothing_left(warehouse: Warehouse, replies: Sequence[Reply]) -> None:
    succeeds(warehouse, replies)
    warehouse.expect("Materialized views", warehouse.freshness(DATABASE), {})
    # The gateway's epoch stays there.
    stored = f"SHOW TABLES IN freshgate_storage LIKE '{DATABASE}__*'"
    warehouse.expect_soon("Remains in storage", lambda: warehouse.rows(stored), [])


def _create(view: str) -> str:
    return f"CREATE MATERIALIZED VIEW {DATABASE}.{view} AS\n{DEFINITIONS[view]}"


def questions() -> list[StoryStep]:
    """Runs the same query on base tables and on a materialized view; then creates the other views."""
    asked_of_base: list[str] = []

    def remember(warehouse: Warehouse, replies: Sequence[Reply]) -> None:
        succeeds(warehouse, replies)
        asked_of_base.append(replies[0].table)

    def same_answer(warehouse: Warehouse, replies: Sequence[Reply]) -> None:
        succeeds(warehouse, replies)
        for reply in replies:
            warehouse.expect("The view's answer", reply.table, asked_of_base[0])

    return [
        StoryStep(
            ASK_ROUTES.format("(\n" + ROUTES + "\n)"),
            "A query that a dashboard runs again and again",
            "Which routes out of New York arrive latest? The query runs on the base tables, three times.",
            "the query on the base tables",
            runs=3,
            check=remember,
        ),
        StoryStep(
            _create("route_delays"),
            "Make its inner query a materialized view",
            "Spark computes it once and stores the rows.",
            "CREATE MATERIALIZED VIEW route_delays",
            check=_all_of(_fresh("route_delays", of=["route_delays"]), _same_as_base("route_delays")),
        ),
        StoryStep(
            ASK_ROUTES.format("nyc.route_delays"),
            "Query the view",
            "The answer must be the same, cell by cell.",
            "the query on the materialized view",
            runs=3,
            check=same_answer,
        ),
        StoryStep(
            _create("daily_delays"),
            "More views: each day and airline, ...",
            label="CREATE MATERIALIZED VIEW daily_delays",
            check=_same_as_base("daily_delays"),
        ),
        StoryStep(
            _create("monthly_delays"),
            "... a view on that view, ...",
            label="CREATE MATERIALIZED VIEW monthly_delays",
            check=_same_as_base("monthly_delays"),
        ),
        StoryStep(
            _create("weather_delays"),
            "... and the weather against the delays",
            label="CREATE MATERIALIZED VIEW weather_delays",
            check=_same_as_base("weather_delays"),
        ),
        StoryStep(ASK_WEATHER, "What the weather does", check=succeeds),
        StoryStep(SHOW, "All of them are fresh", check=_fresh(*DEFINITIONS)),
    ]


def storm() -> list[StoryStep]:
    """Changes base tables; reads stay correct."""
    return [
        StoryStep(
            STORM,
            "A storm",
            "2 January 2014: the flights of 30 December again, each three hours later. It is an ordinary INSERT.",
            "INSERT of the storm's flights",
            check=succeeds,
        ),
        StoryStep(SNOW, text="And the snow that came with it.", label="INSERT of the storm's weather", check=succeeds),
        StoryStep(
            SHOW,
            "Freshgate has noticed the writes",
            "Every view is stale. Nothing has been recomputed yet.",
            check=_fresh(),
        ),
        StoryStep(
            ASK_MONTHS,
            "Read a stale view",
            "It is refreshed first, with the view below it: daily_delays, then monthly_delays. Then Spark answers.",
            "read of the stale view monthly_delays (two refreshes)",
            check=_all_of(succeeds, _shows_storm, _fresh("daily_delays", "monthly_delays")),
        ),
        StoryStep(
            ASK_MONTHS,
            "Read it again",
            "Nothing has changed since then, so nothing is recomputed.",
            "the same read again",
            runs=3,
            check=_all_of(succeeds, _shows_storm, _same_as_base("daily_delays", "monthly_delays")),
        ),
        StoryStep(
            "SELECT table_name, is_stale, last_refresh_time\n"
            "FROM nyc.INFORMATION_SCHEMA.MATERIALIZED_VIEWS\nORDER BY is_stale DESC, table_name",
            "What is stale?",
            "The views that nobody has read since the storm. To Spark this is a table: filter, join or sort it.",
            check=_fresh("daily_delays", "monthly_delays"),
        ),
        StoryStep(
            "REFRESH MATERIALIZED VIEW nyc.route_delays",
            "Refresh before anybody reads",
            "For example at the end of a nightly load.",
            "REFRESH MATERIALIZED VIEW route_delays",
            check=_all_of(_fresh("daily_delays", "monthly_delays", "route_delays"), _same_as_base("route_delays")),
        ),
        StoryStep(
            ASK_WEATHER,
            "A read refreshes the last stale view",
            label="read of the stale view weather_delays",
            check=_all_of(_fresh(*DEFINITIONS), _same_as_base("weather_delays")),
        ),
    ]


def dashboards() -> list[StoryStep]:
    """Answers a query on base tables from a view that it does not name."""

    def is_chosen(warehouse: Warehouse, replies: Sequence[Reply]) -> None:
        succeeds(warehouse, replies)
        warehouse.expect("CHOSEN in the answer", "CHOSEN" in replies[0].table, True)

    asked_of_base: list[str] = []

    def same_answer(warehouse: Warehouse, replies: Sequence[Reply]) -> None:
        succeeds(warehouse, replies)
        asked_of_base.append(replies[0].table)
        for reply in replies:
            warehouse.expect("The same answer as before", reply.table, asked_of_base[0])

    return [
        StoryStep(
            ASK_AIRLINES,
            "A dashboard that names no view",
            "Which airlines are latest since July? The query runs on the base tables, three times.",
            "the dashboard's query on the base tables",
            runs=3,
            check=same_answer,
        ),
        StoryStep(
            "ALTER MATERIALIZED VIEW nyc.daily_delays ENABLE QUERY REWRITE",
            "Let a view answer such queries",
            "Only views with ENABLE QUERY REWRITE do, and only if it is proved that the rows are the same.",
            check=succeeds,
        ),
        StoryStep(
            f"EXPLAIN REWRITE {ASK_AIRLINES}",
            text="Freshgate rewrites the query, and compares Spark's plans of both.",
            check=is_chosen,
        ),
        StoryStep(
            ASK_AIRLINES,
            "The same query again",
            "It is answered from daily_delays, with the same rows.",
            "the dashboard's query, answered from daily_delays",
            runs=3,
            check=same_answer,
        ),
    ]


def refusals() -> list[StoryStep]:
    """Shows statements that are refused, because only a refresh may write a materialized view."""
    return [
        StoryStep(
            "DELETE FROM nyc.daily_delays WHERE day = DATE '2014-01-02'",
            "Nobody may write to a materialized view",
            check=_refused("42809"),
        ),
        StoryStep("DROP TABLE nyc.daily_delays", check=_refused("42809")),
    ]


def end() -> list[StoryStep]:
    """Drops all views."""
    views = ["monthly_delays", "daily_delays", "route_delays", "weather_delays"]
    return [
        *(
            StoryStep(f"DROP MATERIALIZED VIEW {DATABASE}.{view}", "" if number else "The end", check=succeeds)
            for number, view in enumerate(views)
        ),
        StoryStep(SHOW, check=_nothing_left),
    ]
