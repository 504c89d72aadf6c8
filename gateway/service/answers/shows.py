"""SHOW and DESCRIBE of materialized views."""

from __future__ import annotations

import asyncio

from gateway.errors import NoSuchView
from gateway.loops import in_thread
from gateway.mv.catalog.index import Catalog
from gateway.mv.model.view import MaterializedView
from gateway.mv.observation.inspection import Inspector
from gateway.mv.observation.schemas import Schemas
from gateway.mv.refresh.progress import Report
from gateway.mv.statements.free_names import Names
from gateway.mv.statements.rights import Rights
from gateway.mv.versions.kept import VersionLookup
from gateway.service.answers import info
from gateway.service.answers.members import Members
from gateway.service.answers.view_partitions import ViewPartitions
from gateway.service.clients.session import Session
from gateway.service.operations.operation import Result
from sql.names import SESSION_CATALOG
from sql.statement import Describe, ShowCreate, ShowMaterializedViews
from sql.texts import maintenance

OBSERVED_MAX = 20
"""Up to this many views in a database, SHOW MATERIALIZED VIEWS observes their base tables if that is due. For more, it
shows the results of the last observations, because hundreds of listings would take too long."""


class Shows:
    """Answers SHOW and DESCRIBE. Methods whose answer depends on the base tables observe them first."""

    def __init__(
        self,
        catalog: Catalog,
        inspector: Inspector,
        schemas: Schemas,
        versions: VersionLookup,
        partitions: ViewPartitions,
        names: Names,
        members: Members,
        rights: Rights,
    ) -> None:
        self._catalog = catalog
        self._inspector = inspector
        self._schemas = schemas
        self._versions = versions
        self._partitions = partitions
        self._names = names
        self._members = members
        self._rights = rights

    async def read_drafted(self, view: MaterializedView) -> None:
        """Returns when more than a draft is known of the view. Raises what the metastore raises."""
        await self._inspector.read_drafted([view.id])

    async def views(self, command: ShowMaterializedViews, session: Session, report: Report) -> Result:
        namespace = await session.resolve_namespace()
        if command.database is None and namespace.catalog != SESSION_CATALOG:
            report(
                f"Warning: no materialized view can be in {namespace.catalog}.{namespace.database}, the current "
                f"database; SHOW MATERIALIZED VIEWS IN {SESSION_CATALOG}.<database> lists the views of a database"
            )
            return info.listed(())
        database = (command.database or namespace.database).lower()
        listed = [view.id for view in self._catalog.views() if view.name.database == database]
        if len(listed) <= OBSERVED_MAX:
            await self._inspector.check(listed)
        result = info.show(self._catalog, database, command.pattern)
        if not result.rows and not await self._names.has_database(database):
            raise NoSuchView(f"There is no database {database}. SHOW DATABASES lists the databases.", "42704")
        return result

    def gateways(self, pattern: str | None) -> Result:
        return self._members.show(pattern)

    async def versions(self, view: MaterializedView) -> Result:
        kept = self._versions.kept(view)
        writing = self._catalog.entry(view.id).writing
        return info.show_versions(kept, await self._versions.measure(view, kept), writing)

    async def describe(self, command: Describe, view: MaterializedView, session: Session) -> Result:
        columns = (await (await session.sql()).run(maintenance.describe(view.name))).rows
        if not command.extended:
            return info.describe(columns)
        await self._inspector.check([view.id])
        states = await self._schemas.states([view])
        told = self._rights.may_refresh(session.who, view)
        return info.describe_extended(self._catalog, view, states[view.id], columns, told=told)

    async def create(self, command: ShowCreate, view: MaterializedView) -> Result:
        frozen = await self._schemas.has_new_columns(view)
        return await asyncio.to_thread(info.show_create, command, view, frozen=frozen)

    async def partitions(self, view: MaterializedView) -> Result:
        await self._inspector.check([view.id])
        standings = await self._partitions.standings(view)
        tasks = list(self._catalog.entry(view.id).history.tasks)
        return await in_thread(len(standings), info.show_partitions, tasks, view, standings)
