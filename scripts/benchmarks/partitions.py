"""Measures partitions: refreshing one of many, observing base tables, and reading while many replaced partitions still
exist."""

from __future__ import annotations

import shutil
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from clients import pyhive
from processes import wait_until

from benchmarks import tpch
from benchmarks.figures import Figure, shown, timed
from benchmarks.stand import Stand

DATABASE = "bench_partitions"
ONE_OF_MANY_LIMIT = 0.05
PARTITIONS = 200
ROWS_EACH = 50_000
REFRESH_RUNS = 9
FILES, FILE_PARTITIONS = 20_000, 500
LOOK_RUNS = 20
HIDDEN = 1_000
HIDDEN_RUNS = 20
COMPACTION_SECONDS = 600.0
NEVER, ALWAYS = 1_000_000, 0
"""Values of probe_interval, in seconds."""


def one_of_many(stand: Stand) -> Iterator[Figure]:
    """A refresh after a write to 1 partition of 200, against a refresh of everything.

    The fixed cost that neither can avoid (Spark's statements, whatever they write) is that of the same refresh of a
    view of one row. It is subtracted before the ratio is compared with its limit, and shown too.
    """
    _database(stand)
    rows_of_all = f"SELECT id DIV {ROWS_EACH} AS day, id % 1000 AS item, id AS amount FROM range"
    _days(stand, "many", f"{rows_of_all}({PARTITIONS * ROWS_EACH})")
    _days(stand, "one", f"{rows_of_all}(1)")
    partial = _after_write(stand, "many", "AUTO")
    complete = _after_write(stand, "many", "COMPLETE")
    fixed = _after_write(stand, "one", "AUTO")
    taken: dict[Callable[[], float], list[float]] = {partial: [], complete: [], fixed: []}
    runs = stand.runs(REFRESH_RUNS)
    for number in range(-1, runs):
        for way, seconds in taken.items():
            spent = way()
            if number >= 0:
                seconds.append(spent)
    some, everything, least = (statistics.median(taken[way]) for way in (partial, complete, fixed))
    yield Figure(
        "partition refresh",
        f"1 of {PARTITIONS} partitions against all, less the fixed price of {shown(least, 'ms')}",
        max(0.0, some - least) / everything,
        "ratio",
        ONE_OF_MANY_LIMIT,
        f"{shown(everything, 'ms')} (all)",
        f"{shown(some, 'ms')} (one)",
        runs,
    )


def _after_write(stand: Stand, name: str, method: str) -> Callable[[], float]:
    """Writes to one partition of a table, then refreshes the view; returns the seconds of the refresh."""

    def work() -> float:
        stand.query(f"INSERT INTO {DATABASE}.{name} VALUES (1, 1, 0)")
        return timed(lambda: stand.query(f"REFRESH MATERIALIZED VIEW {DATABASE}.{name}_totals {method}"))

    return work


def looks(stand: Stand) -> Iterator[Figure]:
    """A read of an unchanged view that first observes its base tables, against the same read without an observation."""
    stand.views()
    yield _observation_cost(stand, f"{tpch.DATABASE}.pricing", f"lineitem, {_files_of(stand, 'lineitem')} files")
    _database(stand)
    _many_files(stand)
    yield _observation_cost(stand, f"{DATABASE}.files_totals", f"{FILES:,} files in {FILE_PARTITIONS} partitions")


def _observation_cost(stand: Stand, view: str, subject: str) -> Figure:
    taken: dict[int, list[float]] = {NEVER: [], ALWAYS: []}
    runs = stand.runs(LOOK_RUNS)
    for number in range(-2, runs):
        for interval, seconds in taken.items():
            stand.query(f"ALTER MATERIALIZED VIEW {view} SET ('probe_interval' = '{interval}')")
            spent = timed(lambda: stand.query(f"SELECT count(*) FROM {view}"))
            if number >= 0:
                seconds.append(spent)
    plain, looked = statistics.median(taken[NEVER]), statistics.median(taken[ALWAYS])
    return Figure(
        "look at base tables",
        subject,
        (looked - plain) * 1e3,
        "ms more",
        None,
        f"{shown(plain, 'ms')} (no look)",
        shown(looked, "ms"),
        runs,
    )


def _many_files(stand: Stand) -> None:
    """Creates a table of many small files, and a view that reads few of them (an observation lists them all)."""
    pattern, directory = stand.directory / "pattern", stand.directory / "files"
    stand.query(
        f"CREATE TABLE {DATABASE}.pattern (amount BIGINT) USING parquet LOCATION '{pattern.as_uri()}'", direct=True
    )
    stand.query(f"INSERT INTO {DATABASE}.pattern SELECT /*+ COALESCE(1) */ id FROM range(10)", direct=True)
    (file,) = pattern.glob("*.parquet")
    for number in range(FILE_PARTITIONS):
        (folder := directory / f"day={number}").mkdir(parents=True)
        for copy in range(FILES // FILE_PARTITIONS):
            shutil.copyfile(file, folder / f"{copy}.parquet")
    stand.query(
        f"CREATE TABLE {DATABASE}.files (amount BIGINT, day INT) USING parquet PARTITIONED BY (day) "
        f"LOCATION '{directory.as_uri()}'",
        direct=True,
    )
    stand.query(f"MSCK REPAIR TABLE {DATABASE}.files", direct=True)
    stand.query(
        f"CREATE MATERIALIZED VIEW {DATABASE}.files_totals PARTITION BY (day) AS "
        f"SELECT day, sum(amount) AS amount FROM {DATABASE}.files WHERE day < 5 GROUP BY day"
    )


def _files_of(stand: Stand, table: str) -> int:
    location = stand.query(f"SELECT count(DISTINCT _metadata.file_path) FROM {tpch.DATABASE}.{table}", direct=True)
    return int(location[0][0])


def hidden_partitions(stand: Stand) -> Iterator[Figure]:
    """Reads of a view with 1,000 partitions replaced while an older read is open, so that both contents of each exist,
    against reads after the old ones were dropped and the public view was shortened."""
    _database(stand)
    _days(stand, "hidden", f"SELECT id AS day, 1 AS item, id AS amount FROM range({HIDDEN + 1})")
    view = f"{DATABASE}.hidden_totals"
    queries = {"all rows": f"SELECT sum(amount) FROM {view}", "one day": f"SELECT * FROM {view} WHERE day = 7"}
    before: dict[str, list[float]] = {}
    with _open_read(stand, f"SELECT * FROM {view}"):
        stand.query(
            f"INSERT INTO {DATABASE}.hidden SELECT item, amount, day FROM {DATABASE}.hidden WHERE day < {HIDDEN}"
        )
        stand.query(f"REFRESH MATERIALIZED VIEW {view} AUTO")
        if "CASE" not in _text(stand, view):
            raise SystemExit(f"bench: {view} hides no partition.")
        for name, query in queries.items():
            before[name] = _times(stand, query)
    began = time.perf_counter()
    wait_until(lambda: "CASE" not in _text(stand, view), COMPACTION_SECONDS, f"{view} to be compacted")
    cleaned = time.perf_counter() - began
    for name, query in queries.items():
        late, early = statistics.median(before[name]), statistics.median(_times(stand, query))
        yield Figure(
            f"{HIDDEN:,} hidden partitions",
            f"{name}; compacted after {shown(cleaned, 's')}",
            late / early,
            "ratio",
            None,
            f"{shown(early, 'ms')} (compacted)",
            f"{shown(late, 'ms')} (before)",
            len(before[name]),
        )


@contextmanager
def _open_read(stand: Stand, query: str) -> Iterator[None]:
    """Keeps an operation open that reads the current version."""
    with ExitStack() as stack:
        cursor = stack.enter_context(pyhive(stand.gateway.host, stand.gateway.port))
        cursor.execute(query)
        yield


def _times(stand: Stand, query: str) -> list[float]:
    stand.query(query)
    return [timed(lambda: stand.query(query)) for _ in range(stand.runs(HIDDEN_RUNS))]


def _text(stand: Stand, view: str) -> str:
    return str(stand.query(f"SHOW CREATE TABLE {view}", direct=True)[0][0])


def _database(stand: Stand) -> None:
    stand.query(f"CREATE DATABASE IF NOT EXISTS {DATABASE}", direct=True)


def _days(stand: Stand, name: str, query: str) -> None:
    """Creates a table partitioned by day, and a view with the same partitions."""
    table = f"{DATABASE}.{name}"
    stand.query(
        f"CREATE TABLE {table} USING parquet PARTITIONED BY (day) AS "
        f"SELECT item, amount, int(day) AS day FROM ({query})",
        direct=True,
    )
    stand.query(
        f"CREATE MATERIALIZED VIEW {table}_totals PARTITION BY (day) AS "
        f"SELECT day, item, sum(amount) AS amount FROM {table} GROUP BY day, item"
    )
