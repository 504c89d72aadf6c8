"""Records refresh tasks in the views' histories, and has the catalog store them.

Tests: `test_tasks`.
"""

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
from gateway.mv.formats import open_tables
from gateway.mv.freshness.entry import Entry
from gateway.mv.model.contents import NEVER_BUILT
from gateway.mv.model.view import Cause, MaterializedView, RefreshMode, Task, TaskStatus
from gateway.mv.ports import Metastore, ServiceSessions, SqlSession
from gateway.mv.subscribers import Subscribers
from sql.texts import maintenance

log = logging.getLogger(__name__)

ERROR_CHARACTERS_MAX = 2_000
"""How much of an error a task keeps: Spark's messages can contain whole plans."""
SAVING_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class TaskEnding:
    """The end of a task that has written a version, and the properties that store it, all unsaved tasks, and the counts
    of reads."""

    number: int
    task: Task | None
    """None if the task is no longer kept."""
    properties: Mapping[str, str]


class TaskLog:
    """Records what happens to tasks. A task is identified by its view's entry and its number in the view's history."""

    def __init__(
        self,
        catalog: Catalog,
        fence: Fence,
        metastore: Metastore,
        looks: ServiceSessions,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._catalog = catalog
        self._fence = fence
        self._metastore = metastore
        self._looks = looks
        self._counting = asyncio.Semaphore(1)
        self._now_ms = now_ms
        self._last_id = 0
        self._saving = loops.BackgroundTasks("the storing of a task")
        self.writes: Subscribers[[Entry, int]] = Subscribers()
        """Tasks that begin to write rows, by their numbers in their views' histories. One may begin again."""
        self.ended: Subscribers[[Entry, int]] = Subscribers()
        """All tasks that have ended, those of new views, too."""
        self.counted: Subscribers[[Entry, int]] = Subscribers()
        """Tasks that have written a version, which everybody sees now: their rows were counted, or cannot be."""

    def begin(self, entry: Entry, cause: Cause) -> tuple[int, Task]:
        """Adds a pending task; returns its number and the task."""
        staleness = self._catalog.staleness(entry.view.id)
        reason = cause.demand or (staleness.reason if staleness else f"asked for ({cause.trigger.lower()})")
        task = Task(self._new_id(), cause, reason, self._now_ms())
        return entry.history.begin(task), task

    def _new_id(self) -> int:
        """Microseconds since the epoch: unique, increasing, and readable as a time."""
        self._last_id = max(self._last_id + 1, self._now_ms() * 1_000)
        return self._last_id

    def start(self, entry: Entry, number: int) -> None:
        """Records that a pending task starts to run."""
        task = entry.history.task(number)
        if task is not None and task.status is TaskStatus.PENDING:
            entry.history.amend(number, replace(task, status=TaskStatus.RUNNING, started_at=self._now_ms()))

    def write(self, entry: Entry, number: int) -> None:
        """Tells that a task begins to write rows."""
        self.writes.tell(entry, number)

    def amend(self, entry: Entry, number: int, task: Task) -> None:
        """Replaces the record of a running task."""
        entry.history.amend(number, task)

    def wrote(self, entry: Entry, number: int, partitions: int) -> None:
        """Records that this many more of its partitions are written."""
        task = entry.history.task(number)
        if task is not None and partitions:
            entry.history.amend(number, replace(task, completed=task.completed + partitions))

    def written(self, entry: Entry, number: int, version: int) -> TaskEnding:
        """The end of a task whose version is about to be published, to be stored first. The task is shown as running
        until `succeed`, so that nobody sees it ended and then reads the old version."""
        task = entry.history.task(number)
        if task is not None:
            task = replace(task, status=TaskStatus.SUCCESS, finished_at=self._now_ms(), version=version)
        return TaskEnding(number, task, {**entry.history.unsaved_with(number, task), **entry.reads.unsaved()})

    def succeed(self, entry: Entry, ending: TaskEnding) -> None:
        """Records that the version was published and the end of the task stored."""
        if ending.task is not None:
            entry.history.end(ending.number, ending.task)
        entry.history.saved(ending.properties)
        entry.reads.saved(ending.properties)
        self.ended.tell(entry, ending.number)

    def unchanged(self, entry: Entry, number: int) -> None:
        """Records that there was nothing to do."""
        task = entry.history.task(number)
        if task is not None:
            done = replace(
                task,
                status=TaskStatus.SUCCESS,
                mode=RefreshMode.NOT_REFRESH,
                started_at=task.started_at or self._now_ms(),
                finished_at=self._now_ms(),
                reason="nothing that the view shows has changed",
            ).writing([], 0)
            entry.history.end(number, done)
            self.ended.tell(entry, number)

    def fail(self, entry: Entry, number: int, status: TaskStatus, error: str) -> None:
        """Records that the task has failed or was cancelled."""
        task = entry.history.task(number)
        if task is not None:
            done = replace(task, status=status, finished_at=self._now_ms(), error=error[:ERROR_CHARACTERS_MAX])
            # It may have failed after it had stored its version, but before it published it.
            entry.history.end(number, replace(done, version=NEVER_BUILT))
            self._saving.begin(self._save(entry))
            self.ended.tell(entry, number)

    def count(self, entry: Entry, number: int, version: int) -> None:
        """Counts the rows that the task wrote, in the background. The next change of the properties stores the
        number."""
        self._saving.begin(self._count(entry, number, version))

    async def _count(self, entry: Entry, number: int, version: int) -> None:
        try:
            await self._count_rows(entry, number, version)
        finally:
            self.counted.tell(entry, number)

    async def _count_rows(self, entry: Entry, number: int, version: int) -> None:
        try:
            async with self._counting, self._looks.session() as session:
                count = await self._written_rows(entry.view, version, session)
        except FreshgateError as error:
            log.info("the rows of %s, version %d, were not counted: %s", entry.view.name, version, error)
            return
        task = entry.history.task(number)
        if task is not None and (count or version in entry.view.current.manifest.versions):
            # A version without rows that is no longer shown may have been dropped before it was counted.
            entry.history.end(number, replace(task, rows=count))

    async def _written_rows(self, view: MaterializedView, version: int, session: SqlSession) -> int:
        if (rows := view.layout.open) is not None:
            found = open_tables.of_version(await open_tables.commits(session.run, rows), version)
            return found.added if found is not None else 0
        return int((await session.run(maintenance.count_version(view.storage, version))).rows[0][0])

    async def _save(self, entry: Entry) -> None:
        """Stores failed tasks. If that fails, the next change of the properties stores them."""
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
        """Gives pending stores a moment to finish."""
        await self._saving.finish(SAVING_SECONDS)
