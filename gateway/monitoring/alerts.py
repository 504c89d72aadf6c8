"""What operators are told at once: refreshes of a view begin to fail, or work again, or are paused after failures; a
view is staler than its clauses promise, or no longer; a view has given other rows than its base tables.

Tests: `test_alerts`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from gateway.loops import Loop, Turn
from gateway.mv.catalog.index import Catalog
from gateway.mv.freshness.entry import Entry
from gateway.mv.freshness.promises import is_late
from gateway.mv.freshness.troubles import way_out_of_pause
from gateway.mv.model.view import TaskStatus
from gateway.mv.subscribers import Subscribers
from sql.names import TableName
from sql.redaction import redact

log = logging.getLogger(__name__)

LOOK_SECONDS = 10.0
"""Between looks for views that are late."""
ERROR_CHARACTERS_MAX = 500


class AlertKind(StrEnum):
    FAILING = "view_failing"
    """A refresh has failed, and the one before it had not."""
    RECOVERED = "view_recovered"
    LATE = "view_late"
    ON_TIME = "view_on_time"
    PAUSED = "view_paused"
    """Its job was paused because of failures."""
    DIFFERED = "rewrite_differed"
    DIFFERED_IN_MEMORY = "memory_differed"


@dataclass(frozen=True, slots=True)
class Alert:
    """Times are milliseconds since the epoch."""

    kind: AlertKind
    view: TableName
    at: int
    since: int
    """When what ends now has begun; for a late view, since when it is stale. Otherwise `at`."""
    text: str


class Alerts:
    """Tells each alert once. What was wrong when this gateway began to lead was told by the one before, if there was
    one."""

    def __init__(self, catalog: Catalog, now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000) -> None:
        self.told: Subscribers[[Alert]] = Subscribers()
        self.counts: Counter[AlertKind] = Counter()
        self.loop = Loop("looks for views that are late", self._look_again)
        self._catalog = catalog
        self._now_ms = now_ms
        self._failing: dict[str, int] = {}
        """The views whose last refresh has failed, by id, and since when."""
        self._late: dict[str, int] = {}
        self._began = False

    def task_ended(self, entry: Entry, number: int) -> None:
        """A task of a view has ended, as its history says."""
        task, view = entry.history.task(number), entry.view
        if task is None:
            return
        if task.status is TaskStatus.FAILED and view.id not in self._failing:
            self._failing[view.id] = task.finished_at
            error = redact(task.error, cut=True)[:ERROR_CHARACTERS_MAX]
            self._tell(AlertKind.FAILING, view.name, task.finished_at, f"A refresh of {view.name} has failed: {error}")
        elif task.status is TaskStatus.SUCCESS and (since := self._failing.pop(view.id, None)) is not None:
            self._tell(AlertKind.RECOVERED, view.name, since, f"A refresh of {view.name} has succeeded again.")

    def paused(self, entry: Entry) -> None:
        """The job of a view was paused because its refreshes fail."""
        view = entry.view
        text = f"The job of {view.name} is paused, because {view.paused_because}. {way_out_of_pause(view)}"
        self._tell(AlertKind.PAUSED, view.name, view.job_since, text)

    def differed(self, views: Sequence[TableName], what: str) -> None:
        """An answer from views was compared with that of the client's own text."""
        for view in views:
            text = f"{view} has given other rows than its base tables: {what}"
            self._tell(AlertKind.DIFFERED, view, self._now_ms(), text)

    def differed_in_memory(self, views: Sequence[TableName], what: str) -> None:
        """An answer from the rows of views in memory was compared with Spark's."""
        for view in views:
            text = f"An answer from the rows of {view} in memory was not Spark's: {what}"
            self._tell(AlertKind.DIFFERED_IN_MEMORY, view, self._now_ms(), text)

    async def _look_again(self) -> None:
        await self.look()
        await asyncio.sleep(LOOK_SECONDS)

    async def look(self) -> None:
        """Looks which views are late. Lets other work run in between."""
        turn, first, self._began = Turn(), not self._began, True
        for entry in list(self._catalog.entries()):
            if entry.visible:
                self._check(entry, first=first)
            await turn.pause()
        for known in (self._late, self._failing):
            for gone in [view_id for view_id in known if self._catalog.find(view_id) is None]:
                del known[gone]

    def _check(self, entry: Entry, *, first: bool) -> None:
        view, now = entry.view, self._now_ms()
        if first and (streak := entry.history.streak):
            self._failing.setdefault(view.id, streak[-1].finished_at)
        staleness = self._catalog.inquiry().awaited(view)
        late = is_late(view, staleness, now)
        if late and view.id not in self._late:
            assert staleness is not None
            self._late[view.id] = staleness.since
            if not first:
                text = f"{view.name} is staler than it promises: {staleness.reason}"
                self._tell(AlertKind.LATE, view.name, staleness.since, text)
        elif not late and (since := self._late.pop(view.id, None)) is not None:
            self._tell(AlertKind.ON_TIME, view.name, since, f"{view.name} is as fresh as it promises again.")

    def _tell(self, kind: AlertKind, view: TableName, since: int, text: str) -> None:
        self.counts[kind] += 1
        level = logging.INFO if kind in (AlertKind.RECOVERED, AlertKind.ON_TIME) else logging.WARNING
        log.log(level, "%s: %s", kind.value, text)
        self.told.tell(Alert(kind, view, self._now_ms(), since, text))
