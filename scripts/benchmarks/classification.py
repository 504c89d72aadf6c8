"""Looking at statements: what the gateway thinks before it forwards. Needs no server."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator

from benchmarks.figures import Figure, timed
from sql.classify import classify, glance
from sql.names import Namespace, TableName
from sql.statement import Forwarded

NAMES = 1000
RUNS = 15
LONG_CHARACTERS = 5000
SHORT = "SELECT carrier, count(*) FROM flights WHERE day = 3 AND origin = 'JFK' GROUP BY carrier ORDER BY 2 DESC"


def figures() -> Iterator[Figure]:
    """Times for a catalog of 1,000 names. No target is set; they explain the latency figures."""
    names = frozenset(f"view_{number}" for number in range(NAMES))
    unrelated, mentioning = _long("events"), _long("view_7")

    def passes_by(text: str) -> Callable[[], object]:
        return lambda: glance(text).words.isdisjoint(names)

    def parsed() -> object:
        statement = classify(mentioning)
        if not isinstance(statement, Forwarded) or not statement.exact:
            raise SystemExit("bench: the long query is not understood.")
        namespace = Namespace()
        return [TableName.resolve(reference.parts, namespace).table in names for reference in statement.reads]

    cases: tuple[tuple[str, Callable[[], object], int, str], ...] = (
        (f"{len(SHORT)} characters that mention none of {NAMES:,} names", passes_by(SHORT), 2000, "us"),
        (f"{len(unrelated):,} characters that mention none of {NAMES:,} names", passes_by(unrelated), 200, "us"),
        (f"{len(mentioning):,} characters that mention one, parsed", parsed, 20, "ms"),
    )
    for subject, work, times, unit in cases:
        seconds = _seconds_each(work, times)
        yield Figure("classification", subject, seconds * (1e6 if unit == "us" else 1e3), unit, runs=RUNS)


def _seconds_each(work: Callable[[], object], times: int) -> float:
    """The median of several rounds of `times` calls each."""

    def repeated() -> None:
        for _ in range(times):
            work()

    repeated()
    return statistics.median(timed(repeated) for _ in range(RUNS)) / times


def _long(table: str) -> str:
    """A query of about 5 kB, as BI tools generate them."""
    columns: list[str] = []
    while len(", ".join(columns)) < LONG_CHARACTERS - 200:
        number = len(columns)
        case = f"CASE WHEN t.`kind` = 'k{number}' AND t.amount > {number}.5 THEN t.amount * 2 ELSE 0 END"
        columns.append(f"sum({case}) AS `c{number}`")
    return f"SELECT t.day, {', '.join(columns)} FROM {table} AS t JOIN days AS d ON t.day = d.day GROUP BY t.day"
