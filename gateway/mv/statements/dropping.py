"""DROP MATERIALIZED VIEW, and the removal of views whose creation failed."""

from __future__ import annotations

import contextlib
import time

from gateway.errors import FreshgateError, NoSuchView, NotAllowed, StatementFailed
from gateway.mv.catalog import naming
from gateway.mv.catalog.fence import Fence
from gateway.mv.catalog.index import Catalog
from gateway.mv.catalog.naming import definition_of
from gateway.mv.catalog.settlement import Settlement
from gateway.mv.concurrency import unbroken
from gateway.mv.freshness.entry import Entry
from gateway.mv.model import properties as stored
from gateway.mv.model.damage import damaged
from gateway.mv.model.view import Leftover
from gateway.mv.ports import Metastore, SqlSession
from gateway.mv.refresh.progress import Report
from gateway.mv.refresh.tasks import Tasks
from gateway.mv.statements.free_names import Names
from gateway.mv.statements.rights import Caller, Rights, log_change
from gateway.mv.versions.janitor import Janitor
from sql.names import TableName
from sql.statement import DropMaterializedView
from sql.texts import maintenance


class Dropping:
    """Removes views from the catalog, and has their storage dropped."""

    def __init__(
        self,
        catalog: Catalog,
        settlement: Settlement,
        metastore: Metastore,
        fence: Fence,
        names: Names,
        rights: Rights,
        tasks: Tasks,
        janitor: Janitor,
    ) -> None:
        self._catalog = catalog
        self._settlement = settlement
        self._metastore = metastore
        self._fence = fence
        self._names = names
        self._rights = rights
        self._tasks = tasks
        self._janitor = janitor

    async def drop(self, statement: DropMaterializedView, caller: Caller, report: Report) -> None:
        """Drops the public view in the caller's session, so that Spark checks the caller's rights; then the rest."""
        name, began = TableName.resolve(statement.name, caller.namespace), time.monotonic()
        async with self._catalog.name_locks.of(name):
            await self._fence.check()
            view = await self._settlement.certain(name)
            if view is None and name in self._catalog.damaged:
                await unbroken(self.drop_damaged(name, caller))
                log_change("Dropped what was left of", name, caller, began)
                return
            if view is None:
                error = await self._names.no_such_view(name, "DROP")
                if statement.if_exists and error.sqlstate == NoSuchView.sqlstate:
                    return
                raise error
            self._rights.check(caller.who, view, "drop it")
            above = ", ".join(str(each.name) for each in self._catalog.views() if view.id in each.views)
            if above and statement.restrict:
                raise NotAllowed(f"The materialized view {name} is read by {above}. Drop that first.", "2BP01")
            if above:
                report(f"Warning: {above} cannot be refreshed without {name}")
            await self._tasks.stop(view.id)
            await unbroken(self._drop(self._catalog.entry(view.id), caller.session))
        log_change("Dropped", name, caller, began)

    async def _drop(self, entry: Entry, session: SqlSession) -> None:
        view = entry.view
        async with entry.lock:
            self._settlement.refuse_doubtful(entry)
            await self._fence.check_lately()
            try:
                await self._mark_dropped(view.storage)
                await session.run(maintenance.drop_view(view.name))
            except FreshgateError as error:
                if await self._settlement.unmoved(view, view.current.number, error):
                    await naming.mark_published(self._metastore, view.storage)
                    raise
                if not await self._settlement.unmoved(view, None, error):
                    self._settlement.doubt(entry, error=error)
                    raise
            self._catalog.remove(entry)
        await self._janitor.drop_now(view.id, Leftover(view.storage, view.definition))

    async def _mark_dropped(self, storage: TableName) -> None:
        """Makes the storage table a leftover as soon as no view shows it, not damage. It may be missing."""
        try:
            await self._metastore.run(maintenance.unset_properties(storage, stored.published_keys()))
        except StatementFailed:
            if await self._metastore.relation(storage) is not None:
                raise

    async def drop_damaged(self, name: TableName, caller: Caller) -> None:
        """Drops the remaining parts of a damaged view."""
        damage = self._catalog.damaged[name]
        if not damage.droppable:
            raise damaged(damage)
        self._rights.check_owner(caller.who, damage.owner, name, "drop it")
        if await self._names.shows(name, damage.storage):
            await caller.session.run(maintenance.drop_view(name))
        with contextlib.suppress(StatementFailed):  # The storage table may be missing or unreadable.
            await self._metastore.run(maintenance.unset_properties(damage.storage, stored.published_keys()))
        self._catalog.forget_damage(name)
        await self._janitor.drop_now(damage.storage.table, Leftover(damage.storage, definition_of(damage.storage)))

    async def abandon(self, storage: TableName, entry: Entry | None, *, late: bool = False) -> None:
        """Drops the objects of a view that was not published. `late`: Spark may still be running a statement for
        it."""
        if entry is not None:
            self._catalog.remove(entry)
        leftover = Leftover(storage, definition_of(storage))
        await self._janitor.drop_now(storage.table, leftover)
        if late:
            self._janitor.retire(storage.table, leftover, later_seconds=naming.LATE_SECONDS)
