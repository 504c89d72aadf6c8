"""One task on its way, and those who wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from gateway.mv.catalog import Entry
from gateway.mv.model import Cause

Report = Callable[[str], None]
"""Takes one line for the log of the operation that waits."""


@dataclass(slots=True, eq=False)
class Run:
    """A task of a view's queue. Make one within the event loop."""

    entry: Entry
    number: int
    """In the view's history."""
    id: int
    cause: Cause
    kept: bool = False
    """It goes on though nobody waits: a schedule, a change, or REFRESH … ASYNC asked for it."""
    sequence: int | None = None
    """When it began, among all runs and all who wait; None before."""
    waiters: int = 0
    reports: list[Report] = field(default_factory=list)
    stopped_by: str = ""
    """Who said CANCEL."""
    work: asyncio.Task[None] | None = None
    done: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    """Its outcome; cancelled where it was stopped."""

    def __post_init__(self) -> None:
        # Else asyncio would complain of an error of which nobody wanted to hear.
        self.done.add_done_callback(lambda done: done.cancelled() or done.exception())

    def began_after(self, arrived: int) -> bool:
        """Whether it began, or will begin, later than `arrived`: then it sees what was there then."""
        return self.sequence is None or self.sequence > arrived

    def tell(self, line: str) -> None:
        """To all who wait."""
        for report in self.reports:
            report(line)
