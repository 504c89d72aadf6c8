"""Pauses the job of a view whose refreshes have failed several times in a row, and resumes it when one succeeds.

Tests: `test_failure_pauses`.
"""

from __future__ import annotations

import logging

from gateway import loops
from gateway.errors import FreshgateError
from gateway.mv.freshness.entry import Entry
from gateway.mv.freshness.troubles import way_out_of_pause
from gateway.mv.jobs.jobs import RefreshJobs
from gateway.mv.model.history import History
from gateway.mv.model.view import Task, TaskStatus, TriggerMode
from gateway.mv.refresh.tasks import AUTOMATIC, Tasks
from gateway.mv.subscribers import Subscribers

log = logging.getLogger(__name__)

STOPPING_SECONDS = 5.0


def failures(history: History, since: int) -> int:
    """How many refreshes of the job have failed in a row that were requested after `since` (milliseconds since the
    epoch). Those do not count that reads or statements have started, nor those for which Spark was not reached: they
    say nothing about the view."""
    return sum(
        task.cause.trigger in AUTOMATIC and task.created_at > since and task.id not in history.excused
        for task in history.streak
    )


def mends(task: Task) -> bool:
    """Whether this task shows that refreshes of the view succeed again: a statement has asked for it, or it has
    published a version."""
    return task.status is TaskStatus.SUCCESS and (task.cause.trigger is TriggerMode.MANUAL or bool(task.version))


class FailurePauses:
    """`after`: how many failures in a row pause a job; 0: none does."""

    def __init__(self, jobs: RefreshJobs, tasks: Tasks, after: int) -> None:
        self._jobs = jobs
        self._tasks = tasks
        self._after = after
        self._storing = loops.BackgroundTasks("the pause of a job after failures")
        self.paused: Subscribers[[Entry]] = Subscribers()
        """Views whose jobs were paused."""

    def ended(self, entry: Entry, number: int) -> None:
        """A task of a view has ended, as its history says."""
        task, view = entry.history.task(number), entry.view
        if task is None:
            return
        if view.paused_because and mends(task):
            self._storing.begin(self._resume(entry))
        elif self._is_too_much(entry, task):
            self._storing.begin(self._pause(entry))

    def _is_too_much(self, entry: Entry, task: Task) -> bool:
        view = entry.view
        if not self._after or view.paused or task.status is not TaskStatus.FAILED:
            return False
        return task.cause.trigger in AUTOMATIC and failures(entry.history, view.job_since) >= self._after

    async def _pause(self, entry: Entry) -> None:
        failed = failures(entry.history, entry.view.job_since)
        if entry.view.paused or failed < self._after:
            return
        because = f"{failed} refreshes in a row have failed" if failed > 1 else "a refresh has failed"
        await self._jobs.pause(entry, paused=True, because=because)
        self._tasks.forget_automatic(entry.view.id)
        log.warning("The job of %s is paused, because %s. %s", entry.view.name, because, way_out_of_pause(entry.view))
        self.paused.tell(entry)

    async def _resume(self, entry: Entry) -> None:
        if not entry.view.paused_because:
            return
        try:
            await self._jobs.pause(entry, paused=False)
        except FreshgateError as error:
            log.warning("the job of %s is still paused: %s", entry.view.name, error)
        else:
            log.info("The job of %s goes on, because a refresh has succeeded", entry.view.name)

    async def stop(self) -> None:
        """Gives pending stores a moment to finish."""
        await self._storing.finish(STOPPING_SECONDS)
