"""The gateway's own statements, each by one function."""

from __future__ import annotations

from gateway.errors import NoSuchView
from gateway.mv.catalog import Catalog
from gateway.mv.creation import Creation, Creator
from gateway.mv.executor import Executor, Report
from gateway.service import info
from gateway.service.operation import NO_ROWS, Result
from gateway.service.session import Session
from sql.names import Namespace, TableName
from sql.statement import (
    Command,
    CreateMaterializedView,
    DropMaterializedView,
    RefreshMaterializedView,
    ShowMaterializedViews,
)


class Commands:
    """Runs commands for sessions."""

    def __init__(self, catalog: Catalog, creation: Creation, executor: Executor) -> None:
        self._catalog = catalog
        self._creation = creation
        self._executor = executor

    async def run(self, command: Command, session: Session, report: Report) -> Result:
        """Raises FreshgateError; `report` takes lines for the operation's log."""
        match command:
            case CreateMaterializedView():
                creator = Creator(await session.sql(), session.user, await session.resolve_namespace())
                await self._creation.create(command, creator, report)
                return NO_ROWS
            case DropMaterializedView():
                name = TableName.resolve(command.name, await session.resolve_namespace())
                await self._creation.drop(name, if_exists=command.if_exists, session=await session.sql())
                return NO_ROWS
            case RefreshMaterializedView():
                name = TableName.resolve(command.name, await session.resolve_namespace())
                view = self._catalog.named(name)
                if view is None:
                    raise await self._creation.no_such_view(name)
                await self._executor.refresh(view.id, report)
                return NO_ROWS
            case ShowMaterializedViews():
                return await self._show(command, await session.resolve_namespace())

    async def _show(self, command: ShowMaterializedViews, namespace: Namespace) -> Result:
        database = (command.database or namespace.database).lower()
        result = info.show(self._catalog, database, command.pattern)
        if not result.rows and not await self._creation.has_database(database):
            raise NoSuchView(f"There is no database {database}. SHOW DATABASES lists those there are.", "42704")
        return result
