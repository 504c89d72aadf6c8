"""The refresh tasks of one view: the last ones, and which of them the catalog has not stored yet."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from gateway.mv.model import properties as stored
from gateway.mv.model.view import Task, TaskStatus

log = logging.getLogger(__name__)


@dataclass(slots=True)
class History:
    """Tasks by their number within the view, oldest first."""

    tasks: deque[tuple[int, Task]] = field(default_factory=lambda: deque(maxlen=stored.TASKS_MAX))
    unsaved: dict[int, Task] = field(default_factory=dict)
    """Finished tasks that are in memory only; they go into the catalog with the next change of its properties."""

    @classmethod
    def of_stored(cls, properties: Mapping[str, str], current: int) -> History:
        """What the catalog holds. Damaged tasks are left out: they must not keep the view from being served.

        A task is stored just before its version is published: one of a version beyond the current one was cut off.
        """
        try:
            tasks = [(number, _settled(task, current)) for number, task in stored.read_tasks(properties)]
            return cls(deque(tasks, maxlen=stored.TASKS_MAX))
        except (stored.UnreadableProperties, ValueError, KeyError, TypeError) as error:
            log.warning("the stored tasks of a view cannot be read and are left out: %s", error)
            return cls()

    @property
    def last(self) -> Task | None:
        """The last finished task."""
        return next((task for _, task in reversed(self.tasks) if task.status.ended), None)

    @property
    def last_refresh(self) -> Task | None:
        """The last task that published a version."""
        return next((task for _, task in reversed(self.tasks) if task.version), None)

    @property
    def unended(self) -> list[Task]:
        """The tasks that run, or wait."""
        return [task for _, task in self.tasks if not task.status.ended]

    def task(self, number: int) -> Task | None:
        """None for one that so many later ones have pushed out."""
        return next((task for known, task in reversed(self.tasks) if known == number), None)

    def begin(self, task: Task) -> int:
        """Adds a task; returns its number."""
        number = self.tasks[-1][0] + 1 if self.tasks else 1
        self.tasks.append((number, task))
        return number

    def amend(self, number: int, task: Task) -> None:
        """More is known of a task."""
        for place, (known, _) in enumerate(self.tasks):
            if known == number:
                self.tasks[place] = number, task

    def end(self, number: int, task: Task) -> None:
        """The task has ended as `task` says."""
        self.amend(number, task)
        last = self.tasks[-1][0] if self.tasks else number
        if number > last - stored.TASKS_MAX:
            self.unsaved[number] = task
        # Their places are later tasks' by now.
        for old in [each for each in self.unsaved if each <= last - stored.TASKS_MAX]:
            del self.unsaved[old]

    def unsaved_with(self, number: int = 0, task: Task | None = None) -> dict[str, str]:
        """The properties that store what is in memory only, and a task as it will have ended; `saved` says that they
        were."""
        return stored.write_tasks([*self.unsaved.items(), *([(number, task)] if task is not None else [])])

    def saved(self, properties: Mapping[str, str]) -> None:
        """These properties of `unsaved_with` are stored."""
        for number, task in list(self.unsaved.items()):
            if stored.write_tasks([(number, task)]).items() <= properties.items():
                del self.unsaved[number]


def _settled(task: Task, current: int) -> Task:
    if not task.status.ended:
        return replace(task, status=TaskStatus.FAILED, error="the gateway ended before it did")
    if task.status is not TaskStatus.SUCCESS or task.version <= current:
        return task
    return replace(task, status=TaskStatus.FAILED, version=0, error="the gateway ended before it was published")
