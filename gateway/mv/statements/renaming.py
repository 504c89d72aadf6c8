"""Gives views other names: RENAME TO, and REPLACE WITH.

What readers see changes with one metastore call, or not at all. A new name takes several calls; the intention is
stored first (`properties.write_move`), so that `Settlement` completes what was cut off between them.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace

from gateway.errors import DefinitionRefused, FreshgateError, StatementFailed, UpstreamLost
from gateway.mv.catalog import naming
from gateway.mv.catalog.fence import Fence
from gateway.mv.catalog.index import Catalog
from gateway.mv.catalog.settlement import Settlement
from gateway.mv.concurrency import unbroken
from gateway.mv.freshness.entry import Entry
from gateway.mv.model import properties as stored
from gateway.mv.model.view import Leftover, MaterializedView
from gateway.mv.ports import Metastore, SqlSession
from gateway.mv.refresh.tasks import Tasks
from gateway.mv.statements.free_names import Names
from gateway.mv.statements.rights import Caller, Rights
from gateway.mv.versions.readers import Readers
from sql.grammar.cursor import NOT_SUPPORTED
from sql.names import TableName
from sql.texts import maintenance

log = logging.getLogger(__name__)


class Renaming:
    """Under the locks of the names."""

    def __init__(
        self,
        catalog: Catalog,
        settlement: Settlement,
        metastore: Metastore,
        fence: Fence,
        readers: Readers,
        tasks: Tasks,
        names: Names,
        rights: Rights,
    ) -> None:
        self._catalog = catalog
        self._settlement = settlement
        self._metastore = metastore
        self._fence = fence
        self._readers = readers
        self._tasks = tasks
        self._names = names
        self._rights = rights

    async def rename(self, entry: Entry, target: TableName, caller: Caller) -> None:
        view = entry.view
        if target == view.name:
            raise DefinitionRefused(f"The materialized view is called {target} already. Give it another name.", "42P07")
        if target.database != view.name.database:
            raise DefinitionRefused(
                f"The materialized view {view.name} cannot move to the database {target.database}: Spark renames views "
                f"within their database. Create it there anew (SHOW CREATE MATERIALIZED VIEW {view.name}).",
                sqlstate=NOT_SUPPORTED,
            )
        await self._names.check_is_free(target)

        async def rename() -> None:
            await caller.session.run(maintenance.rename_view(view.name, target))

        await unbroken(self._move({target: entry}, rename, [entry]))

    async def replace_with(self, entry: Entry, other_name: TableName, swap: bool, caller: Caller) -> None:
        other_view = await self._settlement.certain(other_name)
        if other_view is None:
            raise await self._names.no_such_view(other_name)
        if other_view.id == entry.view.id:
            raise DefinitionRefused(f"The materialized view {other_name} cannot replace itself. Name another one.")
        self._rights.check(caller.user, other_view, "put it in another one's place")
        other = self._catalog.entry(other_view.id)
        for upper, lower in ((entry, other), (other, entry)):
            if lower.view.id in self._catalog.reads(upper.view.id):
                raise DefinitionRefused(
                    f"{upper.view.name} reads {lower.view.name}, so it would read itself under that name. "
                    f"Replace it by a view that does not.",
                    sqlstate="42P19",
                )
        await unbroken(self._swap(entry, other, caller) if swap else self._take_place(entry, other, caller))

    async def _swap(self, entry: Entry, other: Entry, caller: Caller) -> None:
        name, other_name = entry.view.name, other.view.name

        async def switch() -> None:
            await _show(caller.session, name, other.view)
            await self._or_back(_show(caller.session, other_name, entry.view), caller.session, name, entry.view)
            await self._dress(replace(other.view, name=name), entry.view, caller.session)
            await self._dress(replace(entry.view, name=other_name), other.view, caller.session)

        await self._move({other_name: entry, name: other}, switch, [entry, other])

    async def _take_place(self, entry: Entry, other: Entry, caller: Caller) -> None:
        name, old_name = entry.view.name, other.view.name

        async def switch() -> None:
            await _show(caller.session, name, other.view)
            dropping = caller.session.run(maintenance.drop_view(old_name))
            await self._or_back(dropping, caller.session, name, entry.view)
            await self._dress(replace(other.view, name=name), entry.view, caller.session)
            try:
                # A storage that nobody shows is now a leftover, not a view that somebody damaged.
                await self._metastore.run(maintenance.unset_properties(entry.view.storage, stored.published_keys()))
            except StatementFailed as error:
                log.warning("the storage of %s, which was replaced, is not marked so: %s", name, error)
            self._catalog.remove(entry)

        await self._move({name: other}, switch, [other, entry])
        await self._tasks.stop(entry.view.id)
        leftover = Leftover(entry.view.storage, entry.view.definition)
        self._catalog.news.leftover.tell(entry.view.id, leftover, None)

    async def _or_back(
        self, step: Awaitable[object], session: SqlSession, name: TableName, before: MaterializedView
    ) -> None:
        """The second step of two; where Spark refuses it the first is taken back."""
        try:
            await step
        except UpstreamLost:
            raise
        except FreshgateError:
            await _show(session, name, before)
            raise

    async def _dress(self, view: MaterializedView, before: MaterializedView, session: SqlSession) -> None:
        """Gives a public view that shows other rows now their comment and properties, too."""
        try:
            await show_properties(before.properties, view, session)
        except StatementFailed as error:
            log.warning("%s has the comment and properties of before: %s", view.name, error)

    async def _move(
        self, names: Mapping[TableName, Entry], switch: Callable[[], Awaitable[None]], entries: list[Entry]
    ) -> None:
        """Gives views other names: the intention is stored, `switch` changes the views, then the names are stored."""
        async with AsyncExitStack() as stack:
            for entry in sorted(entries, key=lambda each: each.view.id):
                await stack.enter_async_context(entry.lock)
                self._settlement.refuse_doubtful(entry)
            await self._fence.check_lately()
            try:
                for name, entry in names.items():
                    move = stored.write_move(name, entry.view.current.number)
                    await self._metastore.run(maintenance.set_properties(entry.view.storage, move))
            except FreshgateError as error:
                if naming.is_untold(error):
                    # Spark may store it yet, after anything that is said now.
                    self._settlement.doubt(*names.values(), error=error)
                else:
                    await self._forget_move(names)
                raise
            async with self._readers.held([entry.view.id for entry in entries]):
                try:
                    await self._fence.check_lately()
                    await switch()
                except FreshgateError as error:
                    if await self._all_unmoved(entries, error):
                        await self._forget_move(names)
                    else:
                        # Only the metastore knows how far it came.
                        self._settlement.doubt(*entries, error=error)
                    raise
                self._catalog.rename(names)
            await self._store_names(names)

    async def _all_unmoved(self, entries: Iterable[Entry], error: FreshgateError) -> bool:
        for view in [entry.view for entry in entries]:
            if not await self._settlement.unmoved(view, view.current.number, error):
                return False
        return True

    async def _store_names(self, names: Mapping[TableName, Entry]) -> None:
        """After the switch readers see the new names. What cannot be stored now is stored as soon as Spark answers."""
        try:
            for name, entry in names.items():
                await self._metastore.run(maintenance.set_properties(entry.view.storage, stored.write_name(name)))
        except FreshgateError as error:
            log.warning("%s has its new name, which is not stored yet: %s", " and ".join(map(str, names)), error)
            self._settlement.doubt(*names.values())
        else:
            await self._forget_move(names)

    async def _forget_move(self, names: Mapping[TableName, Entry]) -> None:
        """An intention that stayed would one day be taken for one that was cut off."""
        try:
            for entry in names.values():
                await self._metastore.run(maintenance.unset_properties(entry.view.storage, stored.moving_keys()))
        except FreshgateError as error:
            log.warning("an intention to rename %s is not forgotten yet: %s", " and ".join(map(str, names)), error)
            self._settlement.doubt(*names.values())


async def _show(session: SqlSession, name: TableName, view: MaterializedView) -> None:
    """Lets a name show another view's current version."""
    await session.run(naming.publish(name, view, view.current.shown))


async def show_properties(before: Mapping[str, str], view: MaterializedView, session: SqlSession) -> None:
    """Comment and properties stand on the public view as well, for those who ask Spark."""
    gone = before.keys() - view.properties.keys()
    if gone:
        await session.run(maintenance.unset_view_properties(view.name, sorted(gone)))
    await session.run(maintenance.set_view_properties(view.name, view.properties, view.comment))
