"""Collects what happens to views, describes it, and has it sent.

Tests: `test_lineage_reports`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from gateway.errors import FreshgateError
from gateway.lineage.described_views import Describing
from gateway.lineage.sender import WAITING_MAX, Sender
from gateway.lineage.told import DescribedView, LifeTold, RunState, RunTold, state_of
from gateway.loops import Loop
from gateway.mv.freshness.entry import Entry
from gateway.mv.freshness.news import Life
from gateway.mv.model.view import MaterializedView, RefreshMode, Task, TaskStatus, TriggerMode
from sql.names import TableName

log = logging.getLogger(__name__)

ASKING_SECONDS = 60.0
"""How long Spark may take to describe a view. After that, what is known already is told."""
LEAVING_SECONDS = 2.0
"""How long a stop describes what was not told yet."""
WISHED = frozenset({TriggerMode.MANUAL, TriggerMode.SYSTEM})
"""Of these tasks it is told, too, that there was nothing to do: users look for them."""


class EventWriter(Protocol):
    def written(self, told: RunTold | LifeTold, described: DescribedView) -> bytes:
        """Raises ValueError if too little is known."""
        ...


class Reports:
    """Runs from `start` to `stop`. Whatever is told to it returns at once."""

    def __init__(
        self,
        describing: Describing,
        writer: EventWriter,
        sender: Sender,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        waiting_max: int = WAITING_MAX,
    ) -> None:
        self._describing = describing
        self._writer = writer
        self.sender = sender
        self._now_ms = now_ms
        self._told: asyncio.Queue[RunTold | LifeTold] = asyncio.Queue(waiting_max)
        self._interrupted: RunTold | LifeTold | None = None
        self._begun: set[tuple[str, int]] = set()
        """Tasks of which it was told that they have begun, by view id and number."""
        self._uncounted: dict[tuple[str, int], RunTold] = {}
        """Tasks that have succeeded and whose rows are being counted."""
        self._loop = Loop("lineage", self._turn)

    def start(self) -> None:
        self.sender.start()
        self._loop.start()

    async def stop(self) -> None:
        """Tells what is left, as far as it is known without Spark, and sends for a moment."""
        await self._loop.stop()
        for uncounted in self._uncounted.values():
            self._put(uncounted)
        self._uncounted.clear()
        try:
            async with asyncio.timeout(LEAVING_SECONDS):
                while self._interrupted is not None or not self._told.empty():
                    told, self._interrupted = self._interrupted or self._told.get_nowait(), None
                    await self._write(told, self._describing.known(told))
        except TimeoutError:
            self.sender.counts["dropped"] += self._told.qsize() + 1
        await self.sender.stop()

    async def all_told(self) -> None:
        """Returns when everything that has happened until then was handed to the sender."""
        await self._told.join()

    # --- what happens ------------------------------------------------------------------------------

    def task_writes(self, entry: Entry, number: int) -> None:
        """A task begins to write rows, perhaps once more."""
        key, task = (entry.view.id, number), entry.history.task(number)
        if task is not None and key not in self._begun:
            self._begun.add(key)
            self._put(RunTold(RunState.START, entry.view, task, creates=not entry.visible))

    def task_ended(self, entry: Entry, number: int) -> None:
        """A task has ended, as its view's history says."""
        key, task = (entry.view.id, number), entry.history.task(number)
        begun = key in self._begun
        self._begun.discard(key)
        if task is None or not (begun or _is_told(task)):
            return
        told = RunTold(state_of(task.status), entry.view, task, creates=not entry.visible)
        if not begun:
            self._put(replace(told, state=RunState.START))
        if task.version:
            self._uncounted[key] = told
        else:
            self._put(told)

    def task_counted(self, entry: Entry, number: int) -> None:
        """What a task has written is shown to readers, and its rows were counted, or cannot be."""
        told = self._uncounted.pop((entry.view.id, number), None)
        if told is not None:
            self._put(replace(told, view=entry.view, task=entry.history.task(number) or told.task))

    def lives(self, life: Life, view: MaterializedView, before: TableName) -> None:
        """Something else has happened to a view. `before`: its name before that."""
        if life is Life.ABANDONED:
            self._give_up(view)
        elif life is not Life.CREATED or not view.built:  # The run that builds a view tells of it.
            self._put(LifeTold(life, view, before, self._now_ms()))

    def _give_up(self, view: MaterializedView) -> None:
        """A CREATE that had built its view has failed to publish it."""
        for key in [key for key in self._uncounted if key[0] == view.id]:
            told = self._uncounted.pop(key)
            error = f"The materialized view {view.name} was not created."
            task = replace(told.task, status=TaskStatus.FAILED, error=error, version=0)
            self._put(replace(told, state=RunState.FAIL, task=task))

    def _put(self, told: RunTold | LifeTold) -> None:
        try:
            self._told.put_nowait(told)
        except asyncio.QueueFull:
            self.sender.counts["dropped"] += 1

    # --- telling -----------------------------------------------------------------------------------

    async def _turn(self) -> None:
        told = self._interrupted = await self._told.get()
        described = self._describing.known(told)
        try:
            async with asyncio.timeout(ASKING_SECONDS):
                described = await self._describing.of(told)
        except (FreshgateError, TimeoutError, ValueError) as error:
            log.info("the lineage of %s is told incompletely: %s", told.view.name, error or "Spark takes too long")
        await self._write(told, described)
        self._interrupted = None
        self._told.task_done()

    async def _write(self, told: RunTold | LifeTold, described: DescribedView) -> None:
        try:
            self.sender.send(await asyncio.to_thread(self._writer.written, told, described))
        except ValueError as error:
            self.sender.counts["dropped"] += 1
            log.info("the lineage of %s is not told: %s", told.view.name, error)
        except Exception:  # A bug must not end what tells of the other views.
            self.sender.counts["dropped"] += 1
            log.exception("the lineage of %s is not told", told.view.name)


def _is_told(task: Task) -> bool:
    """Whether a task is told that has not written anything: one that has failed, or was looked for."""
    if task.status is TaskStatus.SUCCESS:
        # Emptying a view writes nothing either.
        return task.mode is not RefreshMode.NOT_REFRESH or task.cause.trigger in WISHED
    return task.status is TaskStatus.FAILED or bool(task.started_at)
