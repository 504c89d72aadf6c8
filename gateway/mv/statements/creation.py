"""CREATE MATERIALIZED VIEW: creates the three objects of a view in an order in which a crash leaves no half view.

The definition and the public view are created in the creator's own session, so that Spark checks the creator's rights
and keeps the session's settings (ANSI mode, time zone, current database). The public view comes last: before that, the
view does not exist for anyone, and its objects in the storage database are leftovers that the next start drops.
"""

from __future__ import annotations

import secrets
import time

from gateway.errors import FreshgateError, StatementFailed
from gateway.mv.catalog import naming
from gateway.mv.catalog.index import Catalog
from gateway.mv.catalog.naming import definition_of
from gateway.mv.concurrency import unbroken
from gateway.mv.freshness.entry import Entry
from gateway.mv.observation.relations import Sources
from gateway.mv.refresh.diagnosis import in_words_of
from gateway.mv.refresh.progress import Report
from gateway.mv.statements.building import Building
from gateway.mv.statements.drafting import Definitions, Drafting
from gateway.mv.statements.dropping import Dropping
from gateway.mv.statements.free_names import Clearance
from gateway.mv.statements.introduction import Introduction
from gateway.mv.statements.rights import Caller, log_change
from sql.names import TableName
from sql.statement import CreateMaterializedView


class Creation:
    """Creates materialized views."""

    def __init__(
        self,
        catalog: Catalog,
        clearance: Clearance,
        definitions: Definitions,
        drafting: Drafting,
        building: Building,
        introduction: Introduction,
        dropping: Dropping,
    ) -> None:
        self._catalog = catalog
        self._clearance = clearance
        self._definitions = definitions
        self._drafting = drafting
        self._building = building
        self._introduction = introduction
        self._dropping = dropping

    async def create(self, statement: CreateMaterializedView, caller: Caller, report: Report) -> None:
        """Builds the view and publishes its first version.

        Raises NameTaken, DefinitionRefused, StatementFailed with Spark's reason; nothing is left behind then.
        """
        name, began = TableName.resolve(statement.name, caller.namespace), time.monotonic()
        async with self._catalog.name_locks.of(name):
            if not await self._clearance.check(statement, name, caller.who):
                return
            await self._clearance.check_location(statement, name)
            storage = TableName(self._catalog.storage_database, _new_id(name))
            self._catalog.building.add(storage.table)
            try:
                await self._build(statement, storage, caller, report)
            finally:
                self._catalog.building.discard(storage.table)
        log_change("Created", name, caller, began)

    async def _build(
        self, statement: CreateMaterializedView, storage: TableName, caller: Caller, report: Report
    ) -> None:
        name = TableName.resolve(statement.name, caller.namespace)
        entry = None
        try:
            await self._definitions.store(statement, name, storage, caller)
            try:
                entry = self._catalog.reserve(await self._drafting.describe(statement, name, storage, caller))
                await self._building.build(entry, caller, report, anew=statement.anew)
            except StatementFailed as error:
                raise _not_built(name, definition_of(storage), error) from error
        except BaseException as error:
            # A cancelled CREATE leaves nothing behind either.
            if entry is not None:
                self._building.fail(entry, error)
            late = not isinstance(error, FreshgateError) or naming.is_unknown(error)
            await self._dropping.abandon(storage, entry, late=late)
            raise
        await unbroken(self._publish(entry, caller))

    async def _publish(self, entry: Entry, caller: Caller) -> None:
        await self._introduction.publish(entry, caller)
        self._building.count(entry)

    async def check(self, statement: CreateMaterializedView, name: TableName, caller: Caller) -> tuple[Sources, str]:
        """What the definition would read if the view were created now, and Spark's plan of it.

        Raises what `create` refuses, as far as that is known without creating anything.
        """
        await self._clearance.check(statement, name, caller.who)
        await self._clearance.check_location(statement, name)
        return await self._drafting.foresee(statement, name, caller)


def _not_built(name: TableName, definition: TableName, error: StatementFailed) -> StatementFailed:
    return StatementFailed(
        f"The materialized view {name} was not created; nothing has changed. Fix the cause, then run the statement "
        f"again.",
        sqlstate=error.sqlstate,
        cause=in_words_of(name, definition, str(error)),
    )


def _new_id(name: TableName) -> str:
    """The storage table's name: a readable part, and eight random digits so that names are never reused."""
    plain = "".join(c if c.isascii() and c.isalnum() else "_" for c in f"{name.database}__{name.table}")
    return f"{plain[:100]}__{secrets.token_hex(4)}"
