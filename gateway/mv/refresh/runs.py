"""One task on its way, and those who wait for it."""

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
    """A task of a view's queue, and a Report to all who wait for it. Make one within the event loop."""

    entry: Entry
    number: int
    """In the view's history."""
    id: int
    cause: Cause
    kept: bool = False
    """It goes on though nobody waits: a schedule, a change, or REFRESH … ASYNC asked for it."""
    sequence: int | None = None
    """When it began, among all runs and all who wait; None before."""
    reports: list[Report] = field(default_factory=list)
    """One for each who waits."""
    progress: Progress = field(init=False)
    """Of the try that runs."""
    stopping: bool = False
    """It was told to stop, once: a second time would cut off what it does about the first."""
    stopped_by: str | None = None
    """Who said CANCEL."""
    looked: bool = False
    """It has noted what has changed by now: what changes later is another task's."""
    situation: Situation | None = None
    """What a task that a change has started found when it began."""
    limit: asyncio.Timeout | None = None
    """The time limit, which counts from when it is the task's turn at Spark."""
    limit_seconds: float = 0
    work: asyncio.Task[None] | None = None
    context: Context = field(default_factory=copy_context)
    """Of who asked for it: what it logs is about that."""
    done: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    """Its outcome; cancelled where it was stopped."""

    def __post_init__(self) -> None:
        # Else asyncio would complain of an error of which nobody wanted to hear.
        self.done.add_done_callback(lambda done: done.cancelled() or done.exception())
        self.progress = Progress(self.entry.view.name)

    def began_after(self, arrived: int) -> bool:
        """Whether it began, or will begin, later than `arrived`: then it sees what was there then."""
        return self.sequence is None or self.sequence > arrived

    def join(self, report: Report) -> None:
        """One more waits."""
        self.reports.append(report)
        report.watch(self.progress)

    def leave(self, report: Report) -> None:
        self.reports.remove(report)

    def begin_work(self) -> None:
        """It has a session at Spark, and notes what is there."""
        self.looked = True
        if self.limit is not None and self.limit.when() is None and self.limit_seconds:
            self.limit.reschedule(asyncio.get_running_loop().time() + self.limit_seconds)

    def begin_again(self) -> None:
        """The next try."""
        self.progress = Progress(self.entry.view.name)
        self.watch(self.progress)

    def __call__(self, line: str, /) -> None:
        """To all who wait."""
        for report in self.reports:
            report(line)

    def watch(self, progress: Progress) -> None:
        """Shows them a refresh: this task's own, or one below."""
        for report in self.reports:
            report.watch(progress)
