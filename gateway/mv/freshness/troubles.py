"""What is wrong with views, in the words and in the order of every surface that tells it: freshgate.attention, the
page, and `freshgate status`.

Tests: `test_troubles`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gateway.mv.freshness.entry import Entry
from gateway.mv.freshness.promises import is_late
from gateway.mv.model.damage import Damage
from gateway.mv.model.history import History
from gateway.mv.model.view import MaterializedView, Staleness, Task, TaskStatus
from sql.names import TableName

DAMAGED, FAILING, LATE, UNKNOWN, PAUSED, SLOW = "DAMAGED", "FAILING", "LATE", "UNKNOWN", "PAUSED", "SLOW"
KINDS = (DAMAGED, FAILING, LATE, UNKNOWN, PAUSED, SLOW)
"""What can be wrong, the worst first."""
SLOW_TIMES, SLOW_MS, SLOW_FROM = 3, 60_000, 3
"""A refresh is slow once it has run so many times as long as usual, and for so much longer. What is usual is known from
so many refreshes on."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something that an operator should know. `since`: milliseconds since the epoch; 0 if unknown."""

    kind: str
    """One of KINDS."""
    since: int
    what: str
    advice: str
    error: str = ""
    """What Spark said. It may quote the definition, so only those who may see that see it."""


Troubled = tuple[TableName, Trouble]


def in_order(found: Iterable[Troubled]) -> list[Troubled]:
    """The worst first, and the oldest first among equals."""
    return sorted(found, key=lambda each: (*severity(each[1]), each[0].database, each[0].table))


def severity(trouble: Trouble) -> tuple[int, int]:
    """What to sort by, for this order."""
    return KINDS.index(trouble.kind), trouble.since


def troubles_of(entry: Entry, staleness: Staleness | None, now: int) -> Iterator[Trouble]:
    """What is wrong with a view. `staleness`: what its own refreshes would end (`Inquiry.awaited`). `now`: milliseconds
    since the epoch."""
    view, streak = entry.view, entry.history.streak
    if entry.damage and not entry.unexamined:
        advice = "Nobody reads these rows. REFRESH MATERIALIZED VIEW writes them anew."
        yield Trouble(DAMAGED, 0, entry.damage, advice)
    if streak:
        what = "the last refresh has failed" if len(streak) == 1 else f"{len(streak)} refreshes in a row have failed"
        yield Trouble(FAILING, streak[-1].finished_at, what, _way_out(view, streak[0]), streak[0].error)
    if staleness is not None and is_late(view, staleness, now):
        advice = "Look at its tasks, and at the queue of refreshes."
        yield Trouble(LATE, staleness.since, staleness.reason, advice)
    if entry.doubtful or entry.unexamined:
        advice = "The next read looks again. If it stays, look whether Spark and the storage answer."
        yield Trouble(UNKNOWN, 0, entry.damage or "it is unknown what the view shows", advice)
    if view.paused:
        advice = f"RESUME MATERIALIZED VIEW JOB ON {view.name} lets them run."
        why = f", because {view.paused_because}" if view.paused_because else ""
        advice = way_out_of_pause(view) if why else advice
        yield Trouble(PAUSED, view.job_since, f"its refreshes are paused{why}", advice)
    yield from _slow(view.name, entry.history, now)


def trouble_of_damaged(damage: Damage) -> Trouble:
    """Says what is wrong with a view that cannot be loaded."""
    return Trouble(DAMAGED, 0, damage.problem, damage.advice)


def way_out_of_pause(view: MaterializedView) -> str:
    """What to do about a job that was paused because of failures."""
    return (
        f"Mend the cause, then run RESUME MATERIALIZED VIEW JOB ON {view.name}, or REFRESH MATERIALIZED VIEW "
        f"{view.name}, which resumes it if it succeeds."
    )


def _slow(name: TableName, history: History, now: int) -> Iterator[Trouble]:
    for task in history.unended:
        if task.status is not TaskStatus.RUNNING or not task.started_at:
            continue
        usual = history.usual_ms(task.mode, SLOW_FROM)
        runs = now - task.started_at
        if usual is not None and runs > max(SLOW_TIMES * usual, usual + SLOW_MS):
            what = f"its refresh has run for {seconds(runs)}; usually it takes {seconds(usual)}"
            advice = f"Look at what else Spark does. CANCEL MATERIALIZED VIEW TASK {task.id} ON {name} stops it."
            yield Trouble(SLOW, task.started_at, what, advice)


def seconds(milliseconds: float) -> str:
    """Writes a duration, to the minute from two minutes on, so that the text of what goes on changes rarely."""
    whole = round(milliseconds / 1000)
    return f"{whole} seconds" if whole < 120 else f"{whole // 60} minutes"


def _way_out(view: MaterializedView, last: Task) -> str:
    refresh = f"Then REFRESH MATERIALIZED VIEW {view.name}."
    if "not found" in last.error.lower() or "cannot be resolved" in last.error.lower():
        return f"Mend what the definition reads, or CREATE OR REPLACE the view. {refresh}"
    return f"Mend the cause. {refresh}"
