"""How long a view may be stale by what its clauses promise."""

from __future__ import annotations

from gateway.mv.model.view import MaterializedView, Staleness
from sql.grammar import intervals
from sql.statement import Trigger

LATE_MS = 300_000
"""No promise is shorter: a refresh itself takes time."""


def promised_ms(view: MaterializedView) -> int:
    """0 if the clauses promise nothing, or a user has paused the job. A cron schedule promises nothing here, because
    its intervals differ."""
    refreshing = view.clauses.refreshing
    if view.paused and not view.paused_because:
        return 0
    floor = 1000 * (refreshing.at_most or 0)
    if refreshing.trigger is Trigger.COMMIT:
        return max(LATE_MS + floor, view.grace_ms)
    if refreshing.trigger is Trigger.LAG and refreshing.lag is not None:
        # The time that a refresh takes is part of a lag.
        return max(1000 * refreshing.lag, floor, view.grace_ms)
    schedule = refreshing.schedule
    if refreshing.trigger is Trigger.SCHEDULE and schedule is not None and schedule.every and schedule.unit:
        return max(LATE_MS, view.grace_ms, 2 * 1000 * schedule.every * intervals.SECONDS[schedule.unit])
    return 0


def is_late(view: MaterializedView, staleness: Staleness | None, now: int) -> bool:
    """Whether the view has been stale for longer than it promises. Not if it is unknown since when. `staleness`: what
    its own refreshes would end (`Inquiry.awaited`)."""
    promised = promised_ms(view)
    return bool(promised) and staleness is not None and 0 < staleness.since < now - promised
