"""Begins and ends refresh tasks in the views' histories, and sees that the catalog keeps them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from gateway import loops
from gateway.errors import FreshgateError
from gateway.mv.catalog.fence import Fence
from gateway.mv.catalog.index import Catalog
from gateway.mv.freshness.entry import Entry
from gateway.mv.model.view import NEVER_BUILT, Cause, RefreshMode, Task, TaskStatus
from gateway.mv.ports import Metastore, Sessions
from gateway.mv.refresh.proposal import asked_for
from sql.texts import maintenance

log = logging.getLogger(__name__)

ERROR_CHARACTERS_MAX = 2_000
"""Of an error that a task keeps: Spark's messages can hold whole plans."""
SAVING_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Ending:
    """A task that has written a version, and the properties that store it, with all that was not stored before."""

    number: int
    task: Task | None
    """None: so many later ones have pushed it out."""
    properties: Mapping[str, str]


class TaskLog:
    """What happens to tasks. A task is named by its view's entry and its number in the view's history."""

    def __init__(
        self,
        catalog: Catalog,
        fence: Fence,
        metastore: Metastore,
        looks: Sessions,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._catalog = catalog
        self._fence = fence
        self._metastore = metastore
        self._looks = looks
        self._counting = asyncio.Semaphore(1)
        self._now_ms = now_ms
        self._last_id = 0
        self._saving = loops.Errands("the storing of a task")

    def begin(self, entry: Entry, cause: Cause) -> tuple[int, Task]:
        """A task that waits for its turn, and its number."""
        staleness = self._catalog.staleness(entry.view.id)
        reason = asked_for(cause) or (staleness.reason if staleness else f"asked for ({cause.trigger.lower()})")
        task = Task(self._new_id(), cause, reason, self._now_ms())
        return entry.history.begin(task), task

    def _new_id(self) -> int:
        """Microseconds since the epoch: unique, growing, and it tells when."""
        self._last_id = max(self._last_id + 1, self._now_ms() * 1_000)
        return self._last_id

    def start(self, entry: Entry, number: int) -> None:
        """It is the task's turn."""
        task = entry.history.task(number)
        if task is not None and task.status is TaskStatus.PENDING:
            entry.history.amend(number, replace(task, status=TaskStatus.RUNNING, started_at=self._now_ms()))

    def amend(self, entry: Entry, number: int, task: Task) -> None:
        """More is known of a running task."""
        entry.history.amend(number, task)

    def wrote(self, entry: Entry, number: int, partitions: int) -> None:
        """So many more of its partitions are written."""
        task = entry.history.task(number)
        if task is not None and partitions:
            entry.history.amend(number, replace(task, completed=task.completed + partitions))

    def written(self, entry: Entry, number: int, version: int) -> Ending:
        """The task has written a version, which is about to be published: how it is to be stored before that. Who asks
        sees it running until `succeed`, so that nobody finds it ended and then reads what was there before."""
        task = entry.history.task(number)
        if task is not None:
            task = replace(task, status=TaskStatus.SUCCESS, finished_at=self._now_ms(), version=version)
        return Ending(number, task, entry.history.unsaved_with(number, task))

    def succeed(self, entry: Entry, ending: Ending) -> None:
        """The version is published; the ending is stored."""
        if ending.task is not None:
            entry.history.end(ending.number, ending.task)
        entry.history.saved(ending.properties)

    def unchanged(self, entry: Entry, number: int) -> None:
        """There was nothing to do."""
        task = entry.history.task(number)
        if task is not None:
            done = replace(
                task,
                status=TaskStatus.SUCCESS,
                mode=RefreshMode.NOT_REFRESH,
                started_at=task.started_at or self._now_ms(),
                finished_at=self._now_ms(),
                reason="nothing that it shows has changed",
            ).writing([], 0)
            entry.history.end(number, done)

    def fail(self, entry: Entry, number: int, status: TaskStatus, error: str) -> None:
        """FAILED or CANCELED."""
        task = entry.history.task(number)
        if task is not None:
            done = replace(task, status=status, finished_at=self._now_ms(), error=error[:ERROR_CHARACTERS_MAX])
            # It may have failed between storing its version and showing it.
            entry.history.end(number, replace(done, version=NEVER_BUILT))
            self._saving.begin(self._save(entry))

    def count(self, entry: Entry, number: int, version: int) -> None:
        """Has Spark count what the task wrote. Nobody waits for it; the catalog has it with its next change."""
        self._saving.begin(self._count(entry, number, version))

    async def _count(self, entry: Entry, number: int, version: int) -> None:
        try:
            async with self._counting, self._looks.session() as session:
                counted = await session.run(maintenance.count_version(entry.view.storage, version))
        except FreshgateError as error:
            log.info("the rows of %s's version %d are not counted: %s", entry.view.name, version, error)
            return
        task, count = entry.history.task(number), int(counted.rows[0][0])
        if task is not None and (count or version in entry.view.current.manifest.versions):
            # A version without rows that is not shown any more may have been dropped before they were counted.
            entry.history.end(number, replace(task, rows=count))

    async def _save(self, entry: Entry) -> None:
        """Stores what became of failed tasks; where that fails, it goes with the next change."""
        if not entry.history.unsaved or not entry.recorded:
            return
        try:
            async with entry.lock:
                await self._fence.check()
                tasks = entry.history.unsaved_with()
                if tasks and self._catalog.find(entry.view.id) is entry:
                    await self._metastore.run(maintenance.set_properties(entry.view.storage, tasks))
                    entry.history.saved(tasks)
        except FreshgateError as error:
            log.info("the tasks of %s are not stored yet: %s", entry.view.name, error)

    async def stop(self) -> None:
        """What became of failed tasks is worth a moment."""
        await self._saving.finish(SAVING_SECONDS)
