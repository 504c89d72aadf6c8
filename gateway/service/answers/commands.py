"""Dispatches the gateway's own statements to the parts that run them.

Tests: `test_refreshed_sets`, `test_swaps`.
"""

from __future__ import annotations

from gateway.errors import DefinitionRefused, FreshgateError, SyntaxRefused
from gateway.mv.catalog.index import Catalog
from gateway.mv.model.view import MaterializedView
from gateway.mv.refresh.progress import Report
from gateway.mv.statements.alteration import Alteration
from gateway.mv.statements.creation import Creation
from gateway.mv.statements.dropping import Dropping
from gateway.mv.statements.free_names import Names
from gateway.mv.statements.rights import Caller
from gateway.service.answers import info
from gateway.service.answers.explaining import Explaining
from gateway.service.answers.shows import Shows
from gateway.service.answers.upkeep import Upkeep
from gateway.service.clients.session import Session
from gateway.service.clients.visibility import check_described
from gateway.service.operations.operation import NO_ROWS, Result
from gateway.wire.rowset import ResultColumn
from sql.grammar.cursor import NOT_SUPPORTED
from sql.names import Parts, TableName
from sql.statement import (
    AlterMaterializedView,
    Analyze,
    CancelTask,
    Command,
    CreateMaterializedView,
    Describe,
    DropMaterializedView,
    Explain,
    PauseJob,
    RefreshMaterializedView,
    RefreshMaterializedViews,
    RefreshPath,
    ShowCreate,
    ShowGateways,
    ShowGrants,
    ShowMaterializedViews,
    ShowPartitions,
    ShowProperties,
    ShowVersions,
    SwapMaterializedViews,
)


class Commands:
    """Runs the gateway's own statements for sessions."""

    def __init__(
        self,
        catalog: Catalog,
        names: Names,
        creation: Creation,
        dropping: Dropping,
        alteration: Alteration,
        upkeep: Upkeep,
        shows: Shows,
        explaining: Explaining,
    ) -> None:
        self._catalog = catalog
        self._names = names
        self._creation = creation
        self._dropping = dropping
        self._alteration = alteration
        self.upkeep = upkeep
        self._shows = shows
        self._explaining = explaining

    async def run(self, command: Command, session: Session, report: Report) -> Result:  # noqa: C901 (a case for each)
        """Runs a command. `report` receives lines for the operation's log. Raises FreshgateError."""
        match command:
            case CreateMaterializedView():
                await self._creation.create(command, await _caller(session), report)
            case DropMaterializedView():
                await self._dropping.drop(command, await _caller(session), report)
            case AlterMaterializedView():
                await self._alteration.alter(command, await _caller(session))
            case SwapMaterializedViews():
                await self._alteration.swap(command, await _caller(session))
            case RefreshMaterializedView(name):
                view = await self._view(name, session, "REFRESH")
                return await self.upkeep.refresh(command, view, session.who, report, session.settings.lineage_parent)
            case RefreshMaterializedViews():
                views, parent = await self._set(command, session), session.settings.lineage_parent
                return await self.upkeep.refresh_set(command, views, session.who, report, parent)
            case PauseJob(name):
                await self.upkeep.pause(command, await self._view(name, session), session.who, report)
            case CancelTask(name):
                await self.upkeep.cancel(command, await self._view(name, session), session.who)
            case Analyze(name):
                await self.upkeep.analyze(command, await self._view(name, session, "ANALYZE"), session.who)
            case ShowMaterializedViews():
                return await self._shows.views(command, session, report)
            case ShowGateways(pattern):
                return self._shows.gateways(pattern)
            case ShowCreate(name):
                return await self._shows.create(command, await self._described(name, session, "SHOW CREATE"))
            case Describe(name):
                return await self._shows.describe(command, await self._view(name, session, "DESCRIBE"), session)
            case ShowPartitions(name):
                return await self._shows.partitions(await self._described(name, session))
            case ShowProperties(name, key):
                return info.show_properties(await self._described(name, session), key)
            case ShowGrants(name):
                return self.upkeep.grants(command, await self._described(name, session, "SHOW GRANTS"), session.who)
            case ShowVersions(name):
                return await self._shows.versions(await self._described(name, session))
            case Explain(CreateMaterializedView() as statement):
                return await self._explaining.create(statement, await _caller(session))
            case Explain(RefreshMaterializedView() as statement):
                view = await self._described(statement.name, session, "REFRESH")
                return await self._explaining.refresh(statement, view)
            case RefreshPath(name):
                raise _taken_for_path(".".join(name))
            case _:
                raise FreshgateError(f"The gateway does not run {type(command).__name__}.", sqlstate=NOT_SUPPORTED)
        return NO_ROWS

    async def databases(self, text: str, session: Session) -> Result:
        """Spark's answer to SHOW DATABASES, without the storage database."""
        answer = await (await session.sql()).run(text)
        rows = [row for row in answer.rows if row[0] != self._catalog.storage_database]
        return Result(tuple(ResultColumn(name) for name in answer.columns), rows)

    async def _set(self, command: RefreshMaterializedViews, session: Session) -> list[MaterializedView]:
        """The views that a statement about several means. Raises NoSuchView."""
        if command.database is None:
            return [await self._view(name, session, "REFRESH") for name in command.names]
        database = command.database.lower()
        if not await self._names.has_database(database):
            raise DefinitionRefused(f"There is no database {database}. SHOW DATABASES lists them.", sqlstate="42704")
        return [view for view in self._catalog.views() if view.name.database == database]

    async def _view(self, parts: Parts, session: Session, verb: str = "") -> MaterializedView:
        """The view that a name means in a session. Raises NoSuchView. `verb`: as for `Names.no_such_view`."""
        name = TableName.resolve(parts, await session.resolve_namespace())
        if (known := self._catalog.named(name)) is not None:
            await self._shows.read_drafted(known)
        view = self._catalog.named(name)
        if view is None:
            raise await self._names.no_such_view(name, verb)
        return view

    async def _described(self, parts: Parts, session: Session, verb: str = "") -> MaterializedView:
        """The same. Raises what Spark says if a plugin does not let the user describe the view."""
        view = await self._view(parts, session, verb)
        await check_described(view, session)
        return view


def _taken_for_path(name: str) -> SyntaxRefused:
    return SyntaxRefused(
        f"{name} is a materialized view, which REFRESH {name} would leave as it is: Spark takes what follows REFRESH "
        f"for a path. Use REFRESH MATERIALIZED VIEW {name}."
    )


async def _caller(session: Session) -> Caller:
    parent = session.settings.lineage_parent
    return Caller(await session.sql(), session.who, await session.resolve_namespace(), parent)
