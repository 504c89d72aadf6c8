"""Measures classification: what the gateway does with a statement before it forwards it. Needs no server."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator

from benchmarks.figures import UNITS, Figure
from sql.names import Namespace, TableName
from sql.understood import Understood

NAMES = 1000
RUNS = 15
LONG_CHARACTERS = 5000
PASSING_US, PARSED_MS = 100, 2
"""Targets."""
SHORT = "SELECT carrier, count(*) FROM flights WHERE day = 3 AND origin = 'JFK' GROUP BY carrier ORDER BY 2 DESC"


def figures() -> Iterator[Figure]:
    """Times for a catalog of 1,000 names: skipping statements that mention none of them, and parsing those that do."""
    names = frozenset(f"view_{number}" for number in range(NAMES))
    unrelated, mentioning = _long("events"), _long("view_7")

    def passes_by(text: str) -> Callable[[], object]:
        return lambda: Understood(text).look.words.isdisjoint(names)

    def parsed() -> object:
        known = Understood(mentioning)
        if known.look.words.isdisjoint(names):
            raise SystemExit("bench: the long query mentions no view.")
        statement = known.sparks
        if not statement.exact:
            raise SystemExit("bench: the long query is not understood.")
        namespace = Namespace()
        return [TableName.resolve(reference.parts, namespace).table in names for reference in statement.reads]

    cases: tuple[tuple[str, Callable[[], object], int, str, float], ...] = (
        (f"{len(SHORT)} characters that mention none of {NAMES:,} names", passes_by(SHORT), 2000, "us", PASSING_US),
        (f"{len(unrelated):,} characters that mention none of them", passes_by(unrelated), 200, "us", PASSING_US),
        (f"{len(mentioning):,} characters that mention one, classified", parsed, 20, "ms", PARSED_MS),
    )
    for subject, work, times, unit, limit in cases:
        seconds = seconds_each(work, times)
        yield Figure("classification", subject, seconds * UNITS[unit], unit, limit, runs=RUNS)


def seconds_each(work: Callable[[], object], times: int) -> float:
    """The median of several rounds of `times` calls, in processor time, which other programs do not affect."""

    def round_() -> float:
        began = time.process_time()
        for _ in range(times):
            work()
        return (time.process_time() - began) / times

    round_()
    return statistics.median(round_() for _ in range(RUNS))


def _long(table: str) -> str:
    """A query of about 5 kB, as BI tools generate them."""
    columns: list[str] = []
    while len(", ".join(columns)) < LONG_CHARACTERS - 200:
        number = len(columns)
        case = f"CASE WHEN t.`kind` = 'k{number}' AND t.amount > {number}.5 THEN t.amount * 2 ELSE 0 END"
        columns.append(f"sum({case}) AS `c{number}`")
    return f"SELECT t.day, {', '.join(columns)} FROM {table} AS t JOIN days AS d ON t.day = d.day GROUP BY t.day"
