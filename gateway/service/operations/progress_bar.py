"""The progress bar that beeline draws while a statement waits for refreshes.

beeline formats a table of nine columns with fixed widths (16, 10, 13, 5, 9, 7, 7, 6 and 6 characters), and throws an
error for a row with fewer columns. A longer value shifts those to its right.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from gateway.mv.refresh.progress import Progress
from gateway.wire.reply import ProgressUpdate

HEADERS = ("VIEW", "METHOD", "STATUS", "STAGE", "PARTITION", "TASKS", "DONE", "ACTIVE", "FAILED")
NAME_CHARACTERS_MAX = 15
"""One less than the width of its column, because the next column follows without a space."""


def progress_update(
    refreshes: Sequence[Progress],
    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
) -> ProgressUpdate:
    """A row for each refresh, in the order of their start; without refreshes, a bar at 0 %."""
    count = len(refreshes)
    done = sum(progress.worked is True for progress in refreshes)
    elapsed = max((progress.elapsed_seconds for progress in refreshes), default=0.0)
    return ProgressUpdate(
        headers=HEADERS,
        rows=tuple(_row(progress) for progress in refreshes),
        fraction=sum(progress.fraction() for progress in refreshes) / count if count else 0.0,
        footer=f"VIEWS: {done}/{count}",
        started_ms=now_ms() - round(elapsed * 1000),
    )


def _row(progress: Progress) -> tuple[str, ...]:
    jobs = progress.jobs
    stage = f"{progress.stage}/{jobs.stages}" if jobs is not None else "-"
    tasks = (jobs.tasks, jobs.tasks_done, jobs.tasks_running, jobs.tasks_failed) if jobs is not None else ()
    return (
        _name(progress),
        progress.method or "-",
        progress.phase,
        stage,
        f"{progress.partitions_done}/{progress.partitions}" if progress.partitions else "-",
        *(("-",) * 4 if jobs is None else map(str, tasks)),
    )


def _name(progress: Progress) -> str:
    """The view's name, shortened if necessary; the log contains the full name."""
    for name in (str(progress.view), progress.view.table):
        if len(name) <= NAME_CHARACTERS_MAX:
            return name
    return progress.view.table[: NAME_CHARACTERS_MAX - 2] + ".."
