"""One running or waiting task, and those who wait for it."""

from __future__ import annotations

import asyncio
from contextvars import Context, copy_context
from dataclasses import dataclass, field

from gateway.mv.freshness.entry import Entry
from gateway.mv.model.view import Cause
from gateway.mv.observation.inspection import Situation
from gateway.mv.refresh.progress import Progress, Report


@dataclass(slots=True, eq=False)
class Run:
    """A task in a view's queue, and a Report to all who wait for it. Create it within the event loop."""

    entry: Entry
    number: int
    """Its number in the view's history."""
    id: int
    cause: Cause
    kept: bool = False
    """Whether it continues even if nobody waits: a schedule, a change, or REFRESH … ASYNC started it."""
    sequence: int | None = None
    """Its position in the order of all starts of runs and arrivals of readers; None until it starts."""
    reports: list[Report] = field(default_factory=list)
    """One for each caller that waits."""
    progress: Progress = field(init=False)
    """The progress of the current attempt."""
    stopping: bool = False
    """Whether it was told to stop. A second time would interrupt its cleanup."""
    stopped_by: str | None = None
    """Who cancelled it with CANCEL."""
    looked: bool = False
    """Whether it has recorded the changes so far: later changes need another task."""
    situation: Situation | None = None
    """What a task that was started by a change found when it began."""
    limit: asyncio.Timeout | None = None
    """The time limit, which counts from the start of its work at Spark."""
    limit_seconds: float = 0
    work: asyncio.Task[None] | None = None
    context: Context = field(default_factory=copy_context)
    """The context of the caller, so that log lines name the caller's operation."""
    done: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    """Its outcome; cancelled if it was stopped."""

    def __post_init__(self) -> None:
        # Otherwise asyncio reports errors that nobody retrieves.
        self.done.add_done_callback(lambda done: done.cancelled() or done.exception())
        self.progress = Progress(self.entry.view.name)

    def began_after(self, arrived: int) -> bool:
        """Whether it begins after `arrived`, and so sees everything that had happened by then."""
        return self.sequence is None or self.sequence > arrived

    def join(self, report: Report) -> None:
        """Adds a caller that waits."""
        self.reports.append(report)
        report.watch(self.progress)

    def leave(self, report: Report) -> None:
        self.reports.remove(report)

    def begin_work(self) -> None:
        """Records that it has a session at Spark and is about to observe."""
        self.looked = True
        if self.limit is not None and self.limit.when() is None and self.limit_seconds:
            self.limit.reschedule(asyncio.get_running_loop().time() + self.limit_seconds)

    def begin_again(self) -> None:
        """Begins another attempt."""
        self.progress = Progress(self.entry.view.name)
        self.watch(self.progress)

    def __call__(self, line: str, /) -> None:
        """Reports a line to all who wait."""
        for report in self.reports:
            report(line)

    def watch(self, progress: Progress) -> None:
        """Shows the progress of this task, or of one below, to all who wait."""
        for report in self.reports:
            report.watch(progress)
