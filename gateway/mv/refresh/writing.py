"""Writes the rows of a version."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass

from gateway.errors import StatementFailed
from gateway.mv.formats import open_tables
from gateway.mv.freshness.entry import Entry
from gateway.mv.model.view import MaterializedView
from gateway.mv.ports import SqlSession
from gateway.mv.refresh.lost_storage import LostStorage
from gateway.mv.refresh.planner import RefreshPlan, Step
from gateway.mv.refresh.progress import Progress
from gateway.mv.refresh.runs import Run
from gateway.mv.refresh.surroundings import RefreshSessions
from gateway.mv.refresh.task_log import TaskLog
from gateway.mv.temporary_settings import with_settings
from gateway.mv.versions.kept import VersionLookup
from gateway.mv.versions.version_numbers import VersionNumbers
from sql.texts import maintenance

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RefreshRoom:
    """The sessions of a refresh."""

    session: SqlSession
    """It publishes."""
    reader: SqlSession
    """It reads and writes rows, in the name of the user whose rights decide which."""


class Writer:
    """Takes a new version number, and runs the statements of a plan."""

    def __init__(
        self,
        sessions: RefreshSessions,
        versions: VersionLookup,
        numbers: VersionNumbers,
        task_log: TaskLog,
        lost_storage: LostStorage,
    ) -> None:
        self.lost_storage = lost_storage
        self._sessions = sessions
        self._versions = versions
        self.numbers = numbers
        self._log = task_log

    @asynccontextmanager
    async def room(self, before: MaterializedView, view: MaterializedView) -> AsyncIterator[RefreshRoom]:
        """Sessions in which one more version of `before` may be written, reading what `view` reads. Raises
        RefreshFailed if too many versions are kept, and OwnerLost."""
        # Wait without a session: what is waited for, and refreshes of other views, may need one.
        await self._versions.make_room(before)
        fresh = view.calls_functions
        async with (
            self._sessions.of(before, fresh=fresh) as session,
            self._sessions.reading(before, session, fresh=fresh) as reader,
        ):
            yield RefreshRoom(session, reader)

    def begin(self, entry: Entry) -> None:
        """Marks the rows of the next version as being written."""
        entry.begin_writing(self.numbers.take(entry.view))

    async def write(self, run: Run, plan: RefreshPlan, room: RefreshRoom) -> None:
        """Writes the plan's version. Raises what Spark raises, and RefreshFailed if the versions take too much room."""
        await self.numbers.reserve(run.entry, plan.version, room.session)
        async for step in _steps(plan, run.progress, room.reader):
            self._log.wrote(run.entry, run.number, step.partitions)
        await self._versions.check_size(run.entry.view)

    def first_room(self, view: MaterializedView) -> AbstractAsyncContextManager[SqlSession]:
        """A session for the first version of a new view."""
        return self._sessions.reading(view, fresh=view.calls_functions)

    async def write_first(self, plan: RefreshPlan, progress: Progress, session: SqlSession) -> None:
        """Writes the first version of a new view. Raises what Spark raises."""
        self.numbers.begin(plan.view)
        async for step in _steps(plan, progress, session):
            log.debug("%s: %s is done", plan.view.name, step.purpose)


async def _steps(plan: RefreshPlan, progress: Progress, session: SqlSession) -> AsyncIterator[Step]:
    """Runs the plan's statements, and yields each when it is done. Raises what Spark raises."""
    progress.plan(plan.method, plan.reason, partitions=len(plan.written), inserts=plan.inserts)
    rows = plan.view.layout.open
    settings = {}
    if rows is not None:
        known = rows.described and await open_tables.refresh_state(session.run, plan.view, time.time_ns() // 1_000_000)
        settings = rows.settings(plan.version, open_tables.before(plan.view, appends=plan.appends), known or "")
    async with with_settings(session, settings, maintenance.STAGED, wished=plan.wished):
        async for step in _run(plan, progress, session):
            yield step


async def _run(plan: RefreshPlan, progress: Progress, session: SqlSession) -> AsyncIterator[Step]:
    for step in plan.write:
        log.debug("%s: %s", plan.view.name, step.purpose)
        if not step.inserts:
            await session.run(step.sql)
        else:
            progress.begin_insert(step.partitions)
            await _insert(plan, step.sql, progress, session)
            progress.end_insert()
        yield step


async def _insert(plan: RefreshPlan, sql: str, progress: Progress, session: SqlSession) -> None:
    """Runs it, and once more if another writer of a table for other engines came first: nothing is committed then."""
    rows = plan.view.layout.open
    try:
        await session.run(sql, on_start=progress.started)
    except StatementFailed as error:
        if rows is None or error.sqlstate != rows.overtaken:
            raise
        log.info(
            "%s: another writer has changed %s meanwhile, so its rows are written again", plan.view.name, rows.table
        )
        await session.run(sql, on_start=progress.started)
