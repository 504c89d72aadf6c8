"""The last refresh tasks of one view, and which of them are not stored in the catalog yet."""

from __future__ import annotations

import itertools
import logging
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from gateway.mv.model import properties as stored
from gateway.mv.model.view import RefreshMode, Task, TaskStatus

log = logging.getLogger(__name__)


@dataclass(slots=True)
class History:
    """The last tasks with their numbers within the view, oldest first."""

    tasks: deque[tuple[int, Task]] = field(default_factory=lambda: deque(maxlen=stored.TASKS_MAX))
    unsaved: dict[int, Task] = field(default_factory=dict)
    """Finished tasks that are only in memory. The next change of the view's properties stores them."""
    excused: set[int] = field(default_factory=set)
    """The ids of tasks that have failed before Spark was reached. Only in memory."""

    @classmethod
    def of_stored(cls, properties: Mapping[str, str], current: int) -> History:
        """The stored tasks. If they are damaged, the history is empty, so that the view is served all the same.

        A task is stored just before its version is published. A task whose version is greater than the current one was
        interrupted.
        """
        try:
            tasks = [(number, _settled(task, current)) for number, task in stored.read_tasks(properties)]
            return cls(deque(tasks, maxlen=stored.TASKS_MAX))
        except (stored.UnreadableProperties, ValueError, KeyError, TypeError) as error:
            log.warning("the stored refresh tasks of a view cannot be read and are ignored: %s", error)
            return cls()

    def recall(self, stored_before: History) -> None:
        """Takes over the stored tasks, unless there are others already."""
        if not self.tasks:
            self.tasks.extend(stored_before.tasks)

    @property
    def last(self) -> Task | None:
        """The last finished task."""
        return next((task for _, task in reversed(self.tasks) if task.status.ended), None)

    @property
    def last_refresh(self) -> Task | None:
        """The last task that published a version."""
        return next((task for _, task in reversed(self.tasks) if task.version), None)

    @property
    def streak(self) -> list[Task]:
        """The failed tasks since the last one that succeeded, the last one first. Cancelled ones do not count."""
        tasks = (task for _, task in reversed(self.tasks))
        counted = (task for task in tasks if task.status in (TaskStatus.SUCCESS, TaskStatus.FAILED))
        return list(itertools.takewhile(lambda task: task.status is TaskStatus.FAILED, counted))

    def of_method(self, mode: RefreshMode) -> list[Task]:
        """The tasks that published a version in this way, oldest first."""
        return [
            task
            for _, task in self.tasks
            if task.mode is mode and task.status is TaskStatus.SUCCESS and task.version and task.started_at
        ]

    def usual_ms(self, mode: RefreshMode, at_least: int = 1) -> int | None:
        """How long a refresh of this kind runs: the median, once so many have succeeded."""
        tasks = (task for task in self.of_method(mode) if not task.of_replaced)
        found = sorted(task.finished_at - task.started_at for task in tasks)
        return found[len(found) // 2] if len(found) >= max(1, at_least) else None

    @property
    def unended(self) -> list[Task]:
        """The pending and running tasks."""
        return [task for _, task in self.tasks if not task.status.ended]

    def task(self, number: int) -> Task | None:
        """The task with this number; None if it is no longer kept."""
        return next((task for known, task in reversed(self.tasks) if known == number), None)

    def begin(self, task: Task) -> int:
        """Adds a task and returns its number."""
        number = self.tasks[-1][0] + 1 if self.tasks else 1
        self.tasks.append((number, task))
        return number

    def excuse(self, number: int) -> None:
        """Records that a task fails because Spark was not reached."""
        if (task := self.task(number)) is not None and not task.started_at:
            self.excused = {task.id, *(each.id for _, each in self.tasks if each.id in self.excused)}

    def amend(self, number: int, task: Task) -> None:
        """Replaces the record of a task."""
        for place, (known, _) in enumerate(self.tasks):
            if known == number:
                self.tasks[place] = number, task

    def end(self, number: int, task: Task) -> None:
        """Records that the task has ended as `task` says."""
        self.amend(number, task)
        last = self.tasks[-1][0] if self.tasks else number
        if number > last - stored.TASKS_MAX:
            self.unsaved[number] = task
        # Later tasks have taken their places.
        for old in [each for each in self.unsaved if each <= last - stored.TASKS_MAX]:
            del self.unsaved[old]

    def unsaved_with(self, number: int = 0, task: Task | None = None) -> dict[str, str]:
        """The properties that store the unsaved tasks and, if given, a task in its final state. `saved` confirms that
        they were stored."""
        return stored.write_tasks([*self.unsaved.items(), *([(number, task)] if task is not None else [])])

    def saved(self, properties: Mapping[str, str]) -> None:
        """Removes the tasks that these properties have stored from `unsaved`."""
        for number, task in list(self.unsaved.items()):
            if stored.write_tasks([(number, task)]).items() <= properties.items():
                del self.unsaved[number]


def _settled(task: Task, current: int) -> Task:
    if not task.status.ended:
        return replace(task, status=TaskStatus.FAILED, error="the gateway stopped before the task ended")
    if task.status is not TaskStatus.SUCCESS or task.version <= current:
        return task
    return replace(task, status=TaskStatus.FAILED, version=0, error="the gateway stopped before it was published")
