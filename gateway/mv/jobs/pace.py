"""When a view with a TARGET LAG, or with AT MOST EVERY, is refreshed, and when its base tables are looked at.

Times are milliseconds; moments are since the epoch.

Tests: `test_pace`.
"""

from __future__ import annotations

from dataclasses import dataclass

from gateway.mv.model.history import History
from gateway.mv.model.view import MaterializedView, TaskStatus

SLACK_MS = 5_000
"""How much earlier than needed a refresh begins at the least: it waits for a session, and the clock is read late."""
LONGEST_SLACK_MS = 60_000
LOOK_AGAIN_MS = 10_000
"""No shorter pause between two looks: each has Spark list files."""
LONGEST_LOOK_MS = 3_600_000
PAUSE_MS = 10_000
"""Between the starts of two refreshes at the least, also of a view whose refreshes take longer than its lag."""
RETRY_MS = 60_000
LONGEST_RETRY_MS = 3_600_000
SAMPLES = 8
"""How many of the last refreshes tell how long the next one takes."""


@dataclass(frozen=True, slots=True)
class Pace:
    """What the clauses of a view ask for."""

    lag: int
    """How old its rows may be; 0: it is refreshed as soon as possible (ON COMMIT)."""
    floor: int
    """Between the starts of two refreshes at the least."""

    @classmethod
    def of(cls, view: MaterializedView) -> Pace:
        refreshing = view.clauses.refreshing
        return cls(1000 * (refreshing.lag or 0), 1000 * (refreshing.at_most or 0))

    def lead(self, expected: int) -> int:
        """How long before its rows are too old a refresh begins that takes about as long as expected."""
        slack = min(max(SLACK_MS, self.lag // 10), LONGEST_SLACK_MS)
        return min(self.lag, expected + expected // 4 + slack)

    def look_every(self, expected: int) -> int:
        """How often the tables are looked at. What a look finds may have been made just after the look before, so
        there must be time left for a refresh. A third of that time, because a look may fail, and because a refresh
        after a write through the gateway begins early enough for what was written otherwise since the last look."""
        return min(max((self.lag - self.lead(expected)) // 3, LOOK_AGAIN_MS), LONGEST_LOOK_MS)

    def retry(self) -> int:
        """How long after a failure a refresh is tried again."""
        return min(max(self.lag // 2, RETRY_MS), LONGEST_RETRY_MS)


@dataclass(frozen=True, slots=True)
class Outlook:
    """What is known of a view now."""

    missed: int | None
    """When the first change was made that its version misses; None if it misses none, as far as is known."""
    observed: int
    """Until when no change was made to anything that it reads, by the last look and what passed through the
    gateway."""
    began: int
    """When its last refresh began, or was tried."""
    failed: int
    """When its last refresh failed; 0 if it did not."""
    expected: int
    """How long the next refresh takes, with those of the views below."""


@dataclass(frozen=True, slots=True)
class NextTimes:
    """When to refresh, and when to look. None: not before something is known to have changed."""

    refresh: int | None = None
    look: int | None = None


def plan(pace: Pace, outlook: Outlook, look_every: int) -> NextTimes:
    """The plan for a view. `look_every`: between looks; 0: changes that bypass the gateway are not looked for.

    A view that misses nothing is never refreshed. One that does is refreshed as late as its lag allows, so that one
    refresh contains as many changes as possible.
    """
    if outlook.missed is None:
        return NextTimes(look=outlook.observed + look_every if look_every else None)
    missed = min(outlook.missed, outlook.observed) if look_every else outlook.missed
    due = missed + pace.lag - pace.lead(outlook.expected)
    after_failure = outlook.failed + pace.retry() if outlook.failed else 0
    return NextTimes(max(due, outlook.began + max(pace.floor, PAUSE_MS), after_failure))


def expected_ms(view: MaterializedView, history: History) -> int:
    """How long a refresh of the view takes, by the last ones that published something: longer than three of four."""
    done = [task for _, task in history.tasks if task.status is TaskStatus.SUCCESS and task.version]
    took = sorted(task.finished_at - task.created_at for task in done[-SAMPLES:])
    if not took:
        return max(0, view.current.published_at - view.current.started_at)
    return max(0, took[min(len(took) - 1, 3 * len(took) // 4)])


def attempted(view: MaterializedView, history: History) -> tuple[int, int]:
    """When the last refresh began that did something, or was to; and when it failed, 0 if it did not."""
    for _, task in reversed(history.tasks):
        if task.status is TaskStatus.FAILED or task.version:
            failed = task.finished_at if task.status is TaskStatus.FAILED else 0
            return max(task.started_at or task.created_at, view.current.started_at), failed
    return view.current.started_at, 0
