"""REFRESH, PAUSE, RESUME, CANCEL and ANALYZE of materialized views.

Tests: `test_refreshed_sets`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from gateway.access_list import Principal
from gateway.errors import NotAllowed, RefreshFailed
from gateway.mv.catalog.index import Catalog
from gateway.mv.jobs.jobs import RefreshJobs, still_refreshed_though_paused
from gateway.mv.model.view import Cause, MaterializedView, TriggerMode
from gateway.mv.ports import Metastore
from gateway.mv.refresh.progress import Report
from gateway.mv.refresh.publication import Publication
from gateway.mv.refresh.refreshed_sets import RefreshedSets
from gateway.mv.refresh.tasks import Tasks
from gateway.mv.statements.rights import Rights
from gateway.service.answers import granted, info
from gateway.service.answers.view_partitions import ViewPartitions
from gateway.service.operations.operation import NO_ROWS, Result
from gateway.wire.rowset import ResultColumn, Type
from sql.statement import (
    Analyze,
    CancelTask,
    Method,
    PauseJob,
    RefreshMaterializedView,
    RefreshMaterializedViews,
    ShowGrants,
)
from sql.texts import maintenance


class Upkeep:
    """Runs the statements that only a view's owner may run, and REFRESH. All methods raise NotAllowed for users without
    the right."""

    def __init__(
        self,
        catalog: Catalog,
        metastore: Metastore,
        tasks: Tasks,
        jobs: RefreshJobs,
        publication: Publication,
        partitions: ViewPartitions,
        rights: Rights,
        sets: RefreshedSets,
    ) -> None:
        self._catalog = catalog
        self._metastore = metastore
        self._tasks = tasks
        self._jobs = jobs
        self._publication = publication
        self._partitions = partitions
        self._rights = rights
        self._sets = sets

    async def refresh(
        self,
        command: RefreshMaterializedView,
        view: MaterializedView,
        who: Principal,
        report: Report,
        parent: str = "",
    ) -> Result:
        """`parent`: as `Cause.parent`."""
        if command.with_data:
            self._rights.check_refresh(who, view)
        else:
            self._rights.check(who, view, "empty it")
        check_method(command, view)
        if command.partitions:
            await self._partitions.check(view, command.partitions)
        cause = replace(manual(command, who.name), parent=parent)
        if not command.with_data:
            await self._tasks.stop(view.id)
            await self._publication.empty(view.id, cause)
            return NO_ROWS
        if not command.wait:
            return Result((ResultColumn("TaskId", Type.BIGINT),), [(await self._tasks.begin(view.id, cause),)])
        await self._tasks.refresh(view.id, cause, report)
        return NO_ROWS

    async def refresh_set(
        self,
        command: RefreshMaterializedViews,
        views: Iterable[MaterializedView],
        who: Principal,
        report: Report,
        parent: str = "",
    ) -> Result:
        """A row for each view, in the order in which they were refreshed. Views of a database that the user may not
        refresh are left out."""
        asked = list(views)
        if command.database is not None:
            allowed = [view for view in asked if self._rights.may_refresh(who, view)]
            if len(allowed) < len(asked):
                report(f"{len(asked) - len(allowed)} views that {who} may not refresh are left out")
            asked = allowed
        for view in asked:
            self._rights.check_refresh(who, view)
        one = RefreshMaterializedView((), command.method)
        cause = replace(manual(one, who.name), parent=parent)
        return info.refreshed_set(await self._sets.refresh(asked, cause, report))

    async def pause(self, command: PauseJob, view: MaterializedView, who: Principal, report: Report) -> None:
        paused = command.paused
        self._rights.check(who, view, "pause its job" if paused else "resume its job")
        await self._jobs.pause(self._catalog.entry(view.id), paused=paused)
        if paused:
            self._tasks.forget_automatic(view.id)
            if (line := still_refreshed_though_paused(view)) is not None:
                report(line)

    async def cancel(self, command: CancelTask, view: MaterializedView, who: Principal) -> None:
        if not self._is_own(command.task, view, who.name):
            self._rights.check(who, view, "cancel its tasks")
        await self._tasks.cancel(view.id, command.task, who.name)

    def _is_own(self, task_id: int, view: MaterializedView, user: str) -> bool:
        """Whether a REFRESH of the user's has begun the task, which may have ended."""
        causes = (task.cause for _, task in self._catalog.entry(view.id).history.tasks if task.id == task_id)
        return any(cause.trigger is TriggerMode.MANUAL and cause.user == user for cause in causes)

    def grants(self, command: ShowGrants, view: MaterializedView, who: Principal) -> Result:
        """SHOW GRANTS: who may do what with the view. Everybody may ask."""
        return granted.shown(command, view, who, self._rights)

    async def analyze(self, command: Analyze, view: MaterializedView, who: Principal) -> None:
        self._rights.check(who, view, "analyze it")
        if view.layout.open is not None:
            raise NotAllowed(
                f"The rows of materialized view {view.name} are in the table {view.rows_table}, which keeps statistics "
                f"of its own. ANALYZE does not apply to it.",
                sqlstate="0A000",
            )
        await self._metastore.run(maintenance.analyze(view.storage, command.rest))


def check_method(statement: RefreshMaterializedView, view: MaterializedView) -> None:
    """Raises RefreshFailed if the view was created with a method that rules out the statement's."""
    if statement.method is Method.INCREMENTAL and view.clauses.refreshing.method is Method.COMPLETE:
        raise RefreshFailed(
            f"The materialized view {view.name} has REFRESH COMPLETE, so no refresh of it is incremental. ALTER "
            f"MATERIALIZED VIEW {view.name.short} REFRESH AUTO allows it.",
            sqlstate="0A000",
        )


def manual(statement: RefreshMaterializedView, user: str) -> Cause:
    """The cause of the task that a REFRESH starts."""
    complete = statement.method in {None, Method.COMPLETE}
    return Cause(TriggerMode.MANUAL, user, partitions=statement.partitions, complete=complete, method=statement.method)
