"""The gateway's own statements, each by one function."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from dataclasses import replace

from gateway.errors import FreshgateError, NoSuchView
from gateway.mv.catalog.index import Catalog
from gateway.mv.jobs.jobs import Jobs, still_refreshed_though_paused
from gateway.mv.model.partitions import Called, Partition, of_key, partition
from gateway.mv.model.view import Cause, Freshness, MaterializedView, TriggerMode
from gateway.mv.observation.inspection import Inspector
from gateway.mv.observation.schemas import Schemas, sql_type
from gateway.mv.ports import Metastore, SqlSession
from gateway.mv.refresh.executor import Executor
from gateway.mv.refresh.progress import Report
from gateway.mv.refresh.proposal import Proposal, Proposer, Standing, view_bases
from gateway.mv.refresh.tasks import Tasks
from gateway.mv.statements.alteration import Alteration
from gateway.mv.statements.creation import Caller, Creation
from gateway.mv.statements.rights import Rights
from gateway.mv.versions.kept import Versions
from gateway.service.answers import info
from gateway.service.clients.session import Session
from gateway.service.operations.operation import NO_ROWS, Result
from gateway.wire.rowset import Column, Type
from sql.grammar import view_properties
from sql.grammar.cursor import NOT_SUPPORTED, WRONG_VALUE
from sql.names import SESSION_CATALOG, TableName
from sql.statement import (
    AlterMaterializedView,
    Analyze,
    CancelTask,
    Clauses,
    Command,
    CreateMaterializedView,
    Describe,
    DropMaterializedView,
    Explain,
    Method,
    Partitioning,
    Parts,
    PauseJob,
    RefreshMaterializedView,
    ShowCreate,
    ShowMaterializedViews,
    ShowPartitions,
    ShowProperties,
    ShowVersions,
)
from sql.texts import create_text, maintenance

LOOKED_AT_MAX = 20
"""Views of a database whose base tables SHOW MATERIALIZED VIEWS looks at where that is due. Of more views it says what
the last looks have shown: nobody would wait for hundreds of listings."""


class Commands:
    """Runs commands for sessions."""

    def __init__(
        self,
        catalog: Catalog,
        schemas: Schemas,
        metastore: Metastore,
        creation: Creation,
        alteration: Alteration,
        executor: Executor,
        tasks: Tasks,
        jobs: Jobs,
        inspector: Inspector,
        proposer: Proposer,
        versions: Versions,
        rights: Rights,
    ) -> None:
        self._catalog = catalog
        self._schemas = schemas
        self._metastore = metastore
        self._creation = creation
        self._alteration = alteration
        self._executor = executor
        self._tasks = tasks
        self._jobs = jobs
        self._inspector = inspector
        self._proposer = proposer
        self._versions = versions
        self._rights = rights

    async def run(self, command: Command, session: Session, report: Report) -> Result:
        """Raises FreshgateError; `report` takes lines for the operation's log."""
        match command:
            case CreateMaterializedView():
                await self._creation.create(command, await _caller(session), report)
                return NO_ROWS
            case DropMaterializedView():
                await self._creation.drop(command, await _caller(session), report)
                return NO_ROWS
            case AlterMaterializedView():
                await self._alteration.alter(command, await _caller(session))
                return NO_ROWS
            case RefreshMaterializedView():
                return await self._refresh(command, session, report)
            case PauseJob(name, paused):
                view = await self._view(name, session)
                self._rights.check(session.user, view, "pause its job" if paused else "resume its job")
                await self._jobs.pause(self._catalog.entry(view.id), paused=paused)
                if paused:
                    self._tasks.forget_automatic(view.id)
                    if (line := still_refreshed_though_paused(view)) is not None:
                        report(line)
                return NO_ROWS
            case CancelTask(name, task):
                view = await self._view(name, session)
                self._rights.check(session.user, view, "cancel its tasks")
                await self._tasks.cancel(view.id, task, session.user)
                return NO_ROWS
            case ShowMaterializedViews():
                return await self._show(command, session, report)
            case ShowCreate(name):
                view = await self._view(name, session, "SHOW CREATE")
                frozen = await self._schemas.has_new_columns(view)
                return await asyncio.to_thread(info.show_create, command, view, frozen=frozen)
            case Describe():
                return await self._describe(command, session)
            case ShowPartitions(name):
                view = await self._view(name, session)
                await self._inspector.check([view.id])
                return info.show_partitions(self._catalog, view, await self._standings(view))
            case ShowProperties(name, key):
                return info.show_properties(await self._view(name, session), key)
            case ShowVersions(name):
                return await self._show_versions(await self._view(name, session))
            case Analyze(name, rest):
                view = await self._view(name, session, "ANALYZE")
                self._rights.check(session.user, view, "analyze it")
                await self._metastore.run(maintenance.analyze(view.storage, rest))
                return NO_ROWS
            case Explain(CreateMaterializedView() as statement):
                return await self._explain_create(statement, session)
            case Explain(RefreshMaterializedView() as statement):
                return await self._explain_refresh(statement, await self._view(statement.name, session, "REFRESH"))
        raise FreshgateError(f"The gateway does not run {type(command).__name__}.", sqlstate=NOT_SUPPORTED)

    async def databases(self, text: str, session: Session, _: Report) -> Result:
        """SHOW DATABASES as Spark answers it, without the storage database."""
        answer = await (await session.sql()).run(text)
        rows = [row for row in answer.rows if row[0] != self._catalog.storage_database]
        return Result(tuple(Column(name) for name in answer.columns), rows)

    async def _view(self, parts: Parts, session: Session, verb: str = "") -> MaterializedView:
        """The view that a name means in a session. Raises NoSuchView; `verb` is `Names.no_such_view`'s."""
        name = TableName.resolve(parts, await session.resolve_namespace())
        view = self._catalog.named(name)
        if view is None:
            raise await self._creation.names.no_such_view(name, verb)
        return view

    async def _show(self, command: ShowMaterializedViews, session: Session, report: Report) -> Result:
        namespace = await session.resolve_namespace()
        if command.database is None and namespace.catalog != SESSION_CATALOG:
            report(
                f"Warning: no materialized view can be in {namespace.catalog}.{namespace.database}, the current "
                f"database; SHOW MATERIALIZED VIEWS IN {SESSION_CATALOG}.<database> lists those of a database"
            )
            return info.listed(())
        database = (command.database or namespace.database).lower()
        listed = [view.id for view in self._catalog.views() if view.name.database == database]
        if len(listed) <= LOOKED_AT_MAX:
            await self._inspector.check(listed)
        result = info.show(self._catalog, database, command.pattern)
        if not result.rows and not await self._creation.names.has_database(database):
            raise NoSuchView(f"There is no database {database}. SHOW DATABASES lists those there are.", "42704")
        return result

    async def _show_versions(self, view: MaterializedView) -> Result:
        kept = self._versions.kept(view)
        writing = self._catalog.entry(view.id).writing
        return info.show_versions(kept, await self._versions.measure(view, kept), writing)

    async def _describe(self, command: Describe, session: Session) -> Result:
        view = await self._view(command.name, session, "DESCRIBE")
        columns = (await (await session.sql()).run(maintenance.describe(view.name))).rows
        if not command.extended:
            return info.describe(columns)
        await self._inspector.check([view.id])
        states = await self._schemas.states([view])
        return info.describe_extended(self._catalog, view, states[view.id], columns)

    # --- refreshing --------------------------------------------------------------------------------

    async def _refresh(self, command: RefreshMaterializedView, session: Session, report: Report) -> Result:
        view = await self._view(command.name, session, "REFRESH")
        self._rights.check(session.user, view, "refresh it")
        if command.partitions:
            await self._check_partitions(view, command.partitions)
        cause = _cause(command, session.user)
        if not command.with_data:
            await self._tasks.stop(view.id)
            await self._executor.empty(view.id, cause)
            return NO_ROWS
        if not command.wait:
            return Result((Column("TaskId", Type.BIGINT),), [(await self._tasks.begin(view.id, cause),)])
        await self._tasks.refresh(view.id, cause, report)
        return NO_ROWS

    async def _check_partitions(self, view: MaterializedView, names: Iterable[str]) -> None:
        if view.layout.partitioned:
            async with self._proposer.session_for(view) as session:
                missing = await self._proposer.missing(view, names, session)
        else:
            column = view.clauses.partitioning.column if view.clauses.partitioning else ""
            called = Called(await self._partitions(view), column)
            missing = [name for name in names if not called[name]]
        if missing:
            raise NoSuchView(
                f"partition not exist: {', '.join(missing)} of materialized view {view.name}. "
                f"SHOW PARTITIONS FROM {view.name} lists those there are.",
                sqlstate="42704",
            )

    async def _standings(self, view: MaterializedView) -> list[Standing]:
        """The view's partitions. Where they follow no base table's, each is as fresh as the view."""
        if view.layout.partitioned:
            async with self._proposer.session_for(view) as session:
                if view.built:
                    return await self._proposer.standings(view, session)
                expected, unsynced = await self._proposer.expected(view, session), view_bases(view)
            return [Standing(of_key(view, key), view.current.number, unsynced) for key in expected]
        fresh = self._catalog.freshness(view.id) is Freshness.FRESH
        unsynced = frozenset() if fresh else view_bases(view)
        return [Standing(each, view.current.number, unsynced) for each in await self._partitions(view)]

    async def _partitions(self, view: MaterializedView) -> list[Partition]:
        """Of a view that follows no base table's partitions. Without a column it has one, named like itself, as in
        Doris."""
        partitioning = view.clauses.partitioning
        if partitioning is None:
            counted = f"SELECT count(*) FROM {view.name.quoted}" if view.built else "SELECT 0"
            rows = (await self._metastore.run(counted)).rows
            return [Partition(view.name.table, "", int(rows[0][0]))]
        source = view.storage if view.built else view.definition
        version = view.current.number if view.built else None
        written = await self._date_format(view, partitioning)
        found = await self._metastore.run(maintenance.partition_values(source, partitioning, version, written))
        return [
            partition(partitioning, value, kind, int(rows) if view.built else 0) for value, kind, rows in found.rows
        ]

    async def _date_format(self, view: MaterializedView, partitioning: Partitioning) -> str | None:
        """The pattern in which a column of texts writes the times whose units are the view's partitions."""
        relation = await self._metastore.relation(view.definition) if partitioning.unit else None
        kinds = {column.lower(): sql_type(kind) for column, kind in relation.columns} if relation else {}
        if kinds.get(partitioning.column.lower()) != "string":
            return None
        try:
            return view_properties.date_format(view.properties)
        except ValueError as error:
            raise FreshgateError(f"The properties of materialized view {view.name}: {error}.", WRONG_VALUE) from error

    # --- explaining --------------------------------------------------------------------------------

    async def _explain_refresh(self, statement: RefreshMaterializedView, view: MaterializedView) -> Result:
        cause = replace(_cause(statement, ""), not_before=time.monotonic())
        await self._inspector.check([view.id], cause.not_before)
        bases = [
            entry.view.name
            for base in sorted(view.views)
            if (entry := self._catalog.find(base)) and self._catalog.is_stale(base)
        ]
        async with self._proposer.session_for(view) as session:
            proposal = await self._proposer.propose(view, view, cause, self._executor.expected_version(view), session)
            if proposal.plan is None and bases:
                proposal = await self._after_bases(view, cause, session)
            present = await self._proposer.present(view)
        changes = await self._schemas.changes(view)
        steps = await asyncio.to_thread(info.steps_of, proposal.plan, present)
        return info.explain_refresh(self._catalog, proposal, steps, map(str, bases), changes)

    async def _after_bases(self, view: MaterializedView, cause: Cause, session: SqlSession) -> Proposal:
        """What a refresh would do once the stale views below are refreshed. What that changes is not known before."""
        whole = replace(cause, complete=True, partitions=())
        number = self._executor.expected_version(view)
        proposal = await self._proposer.propose(view, view, whole, number, session)
        staleness = self._catalog.staleness(view.id)
        reason = staleness.reason if staleness else ""
        if view.followed is None:
            return replace(proposal, plan=proposal.plan and replace(proposal.plan, reason=reason))
        reason += "; only the partitions that its refresh changes are written"
        # Which ones they are nobody knows yet.
        return replace(proposal, plan=proposal.plan and replace(proposal.plan, reason=reason, written=frozenset()))

    async def _explain_create(self, statement: CreateMaterializedView, session: Session) -> Result:
        caller = await _caller(session)
        name = TableName.resolve(statement.name, caller.namespace)
        checked = replace(statement, if_not_exists=False)
        sources, plan = await self._creation.check(checked, name, caller)
        clauses, properties = statement.clauses, dict(statement.properties)
        reads = [
            *map(str, sorted(sources.tables)),
            *(str(self._catalog.entry(view).view.name) for view in sources.views),
        ]
        trigger = clauses.refreshing.trigger
        facts = {
            "reads": ", ".join(reads),
            "refresh": create_text.refresh_info(clauses),
            "partitions": _partitions_said(clauses),
            "when stale": view_properties.when_stale(properties, trigger).value,
            "grace period": f"{view_properties.grace_seconds(properties):g} seconds",
            "stored as": clauses.file_format or "parquet",
            "built": "by the first refresh" if clauses.deferred else "at once",
        }
        return info.explain_create(name, facts, plan)


def _cause(statement: RefreshMaterializedView, user: str) -> Cause:
    complete = statement.method is not Method.AUTO
    return Cause(TriggerMode.MANUAL, user, partitions=statement.partitions, complete=complete)


def _partitions_said(clauses: Clauses) -> str:
    partitioning = clauses.partitioning
    if partitioning is None:
        return "none of its own: a refresh recomputes everything"
    if partitioning.follows:
        return f"by {partitioning.column}: CREATE checks whose partitions they follow, and a refresh recomputes those"
    return f"by {partitioning.column}, where they can follow a base table's"


async def _caller(session: Session) -> Caller:
    return Caller(await session.sql(), session.user, await session.resolve_namespace())
