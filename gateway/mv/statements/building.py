"""Builds a new view: its storage table, and the rows of its first version.

Tests: `test_inheritance`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from gateway.errors import FreshgateError, RefreshFailed, StatementFailed
from gateway.mv.catalog.index import Catalog
from gateway.mv.formats import open_tables
from gateway.mv.freshness.drift import next_contents
from gateway.mv.freshness.entry import Entry
from gateway.mv.model import properties as stored
from gateway.mv.model.view import Cause, MaterializedView, TaskStatus, TriggerMode, Version
from gateway.mv.observation.inspection import Inspection
from gateway.mv.observation.schemas import schemas_seen
from gateway.mv.observation.storage_looks import StorageLooks
from gateway.mv.ports import Metastore, SqlSession
from gateway.mv.refresh.executor import Executor
from gateway.mv.refresh.habits import Habits
from gateway.mv.refresh.planner import Inherited, RefreshPlan
from gateway.mv.refresh.progress import Progress, Report
from gateway.mv.refresh.task_log import TaskLog
from gateway.mv.refresh.tasks import Tasks
from gateway.mv.rewriting.inheritance import Inheritance, NotInherited
from gateway.mv.statements.drafting import Drafting
from gateway.mv.statements.rights import Caller
from sql.statement import Method
from sql.texts import maintenance
from sql.texts.storage_layout import ALL

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Begun:
    """The first build of a view, when it begins."""

    number: int
    """Of the task."""
    started_at: int
    """Milliseconds since the epoch."""
    contains: int
    """The writes that were noted before."""
    views: Mapping[str, int]
    """The versions of the views that it reads, by view id."""


@dataclass(frozen=True, slots=True)
class _Written:
    """The first version, written and not published yet."""

    version: Version
    inspection: Inspection
    """The base tables just before."""
    examined: float
    """When the look at its files began, as `Entry.publish`."""


class Building:
    """Builds views. The first build is the first task of a view."""

    def __init__(
        self,
        catalog: Catalog,
        drafting: Drafting,
        metastore: Metastore,
        tasks: Tasks,
        executor: Executor,
        task_log: TaskLog,
        storages: StorageLooks,
        habits: Habits,
        inheritance: Inheritance,
    ) -> None:
        self._catalog = catalog
        self._drafting = drafting
        self._metastore = metastore
        self._tasks = tasks
        self._executor = executor
        self._log = task_log
        self._storages = storages
        self._habits = habits
        self._inheritance = inheritance

    async def build(self, entry: Entry, caller: Caller, report: Report, *, anew: bool = False) -> None:
        """Creates the storage table of a reserved view, and writes its first version. `anew`: computes all rows from
        the base tables. Raises what Spark raises."""
        cause = Cause(TriggerMode.MANUAL, caller.user, complete=True, parent=caller.parent)
        if entry.view.built:
            await self._tasks.make_bases_fresh(entry.view.views, cause, report)
        view = entry.view
        await self._refresh_replaced(view, caller, report, anew=anew)
        await self._catalog.writes.ask([view.id])
        contains, started_at = entry.ledger.events, _now_ms()
        await self._drafting.check_same_sources(view)
        await self._create_storage(view, caller.session)
        if not view.built:
            entry.record()
            report(f"The first refresh will build materialized view {view.name}")
            return
        # Before the first line, at which beeline begins to draw: otherwise its bar would be empty.
        progress = Progress(view.name)
        report.watch(progress)
        report(f"Building materialized view {view.name}")
        number, _ = self._log.begin(entry, cause)
        self._log.start(entry, number)
        self._log.write(entry, number)
        begun = _Begun(number, started_at, contains, {base: self._catalog.current(base) for base in view.views})
        first = await self._write(entry, begun, progress, report, anew=anew)
        await self._publish(entry, begun, first, report)

    async def _create_storage(self, view: MaterializedView, session: SqlSession) -> None:
        await self._metastore.run(
            maintenance.create_storage(
                view.storage,
                view.definition,
                stored.write_view(view),
                view.comment,
                view.clauses,
                view.columns,
                view.layout,
                staged=self._habits.stages_writes,
            )
        )
        if (rows := view.layout.open) is not None:
            await open_tables.create(self._metastore.run, view, rows)
            await open_tables.describe(session.run, rows, view.query, view.columns)

    async def _write(self, entry: Entry, begun: _Begun, progress: Progress, report: Report, *, anew: bool) -> _Written:
        """Writes the rows of the first version."""
        view = entry.view
        disturbed = partial(entry.ledger.written_since, begun.contains)
        old = None if anew else self._catalog.named(view.name)
        inherit = partial(self._inherited, view, old, report, time.monotonic())
        with self._inheritance.keeping(old):
            inspection, plan, read, narrowed = await self._executor.first_write(
                view, progress, report, disturbed, inherit, begun.views
            )
        self._record(entry, begun.number, plan)
        contents = next_contents(view, 1, ALL, inspection.until(read.after), {}, read.basis)
        if entry.ledger.removed_since(begun.contains):
            contents = contents.doubtful(1)
        examined, shown = self._storages.now(), plan.shown(())
        files = await self._storages.mark(entry, shown)
        version = Version.whole(
            1,
            begun.started_at,
            _now_ms(),
            begun.views,
            contents=contents,
            shown=shown,
            files=files,
            read_as=view.refreshed_as,
            narrowed=narrowed,
        )
        return _Written(version, inspection, examined)

    async def _publish(self, entry: Entry, begun: _Begun, first: _Written, report: Report) -> None:
        view, version, inspection = entry.view, first.version, first.inspection
        async with entry.lock:
            names, seen = self._catalog.names_of(view.views), schemas_seen(inspection.looks)
            entry.publish(
                version,
                view.versions_reserved,
                contains=begun.contains,
                reads=replace(entry.view, schemas=seen, view_names=names),
                compared=inspection.began,
                examined=first.examined,
            )
            report(f"Built materialized view {view.name} in {(_now_ms() - begun.started_at) / 1000:.2f} s")
            ending = self._log.written(entry, begun.number, version.number)
            properties = {**await stored.view_written(entry.view), **ending.properties}
            await self._metastore.run(maintenance.set_properties(view.storage, properties))
            self._log.succeed(entry, ending)
            entry.record()

    async def _refresh_replaced(self, view: MaterializedView, caller: Caller, report: Report, *, anew: bool) -> None:
        """Refreshes a stale view that is to be replaced if that can be done by rows, and the new rows come from it."""
        old = self._catalog.named(view.name)
        if old is None or anew or not view.built or not old.complete:
            return
        try:
            if await self._inheritance.wants_fresh(view, old):
                by_rows = Cause(TriggerMode.MANUAL, caller.user, method=Method.INCREMENTAL, parent=caller.parent)
                await self._tasks.refresh(old.id, by_rows, report)
        except (RefreshFailed, StatementFailed) as error:
            log.info("%s is replaced as it is: %s", old.name, error)

    async def _inherited(
        self,
        view: MaterializedView,
        old: MaterializedView | None,
        report: Report,
        began: float,
        inspection: Inspection,
        session: SqlSession,
    ) -> Inherited | None:
        """How the view gets its rows from the one that it replaces; None if they are computed from the base tables."""
        if old is None:
            return None
        try:
            found = await self._inheritance.rows(view, old, inspection, session, began)
        except (NotInherited, StatementFailed) as reason:
            report(f"Its rows are computed from the base tables, because {reason}")
            return None
        report(f"Its rows are computed from the stored rows of version {found.version}{found.beside}")
        return found

    def _record(self, entry: Entry, number: int, plan: RefreshPlan) -> None:
        """Records how the rows were written, if they are not plainly those of a first build."""
        if plan.route and (task := entry.history.task(number)) is not None:
            self._log.amend(entry, number, replace(task, mode=plan.mode, reason=plan.reason, route=plan.route))

    def fail(self, entry: Entry, error: BaseException) -> None:
        """Records that CREATE has failed or was cancelled."""
        status = TaskStatus.FAILED if isinstance(error, FreshgateError) else TaskStatus.CANCELED
        for number in [number for number, task in entry.history.tasks if not task.status.ended]:
            self._log.fail(entry, number, status, str(error) or "CREATE was cancelled")

    def count(self, entry: Entry) -> None:
        """Counts the rows of the first version in the background, once it is published."""
        if entry.view.built:
            self._log.count(entry, 1, entry.view.current.number)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
