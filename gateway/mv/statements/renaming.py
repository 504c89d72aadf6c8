"""Renames views: RENAME TO and REPLACE WITH.

What readers see changes with one metastore call, or not at all. A rename takes several calls. The intention is stored
first (`properties.write_move`), so that `Settlement` can complete an interrupted rename.

Tests: `test_concurrent_changes`.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
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

PAIR = 2
"""Names that change together, and are settled by what they show themselves."""


class Renaming:
    """Renames views. The caller holds the locks of the names."""

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
            raise DefinitionRefused(f"The materialized view is already named {target}. Choose another name.", "42P07")
        if target.database != view.name.database:
            raise DefinitionRefused(
                f"The materialized view {view.name} cannot move to the database {target.database}: Spark renames views "
                f"only within a database. Create it there (SHOW CREATE MATERIALIZED VIEW {view.name} shows the text).",
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
        self._rights.check(caller.who, other_view, "replace another view with it")
        other = self._catalog.entry(other_view.id)
        for upper, lower in ((entry, other), (other, entry)):
            if self._reads(upper.view, lower.view):
                raise DefinitionRefused(
                    f"{upper.view.name} reads {lower.view.name}, so it would read itself under that name. "
                    f"Replace it with a view that does not.",
                    sqlstate="42P19",
                )
        await unbroken(self._swap([(entry, other)], caller) if swap else self._take_place(entry, other, caller))

    async def swap(self, pairs: Sequence[tuple[Entry, Entry]], caller: Caller) -> None:
        """Lets the views of each pair exchange their names, all of them or none. Reads see all old or all new ones."""
        views = [entry.view for pair in pairs for entry in pair]
        for upper in views:
            for lower in views:
                if upper.id != lower.id and self._reads(upper, lower):
                    raise DefinitionRefused(
                        f"{upper.name} reads {lower.name}, and its definition would mean another view under that name. "
                        f"Swap views that do not read each other.",
                        sqlstate="42P19",
                    )
        await unbroken(self._swap(pairs, caller))

    def _reads(self, upper: MaterializedView, lower: MaterializedView) -> bool:
        """Whether one view reads another one, directly or through others. A view that was replaced since has another
        id, but the same name."""
        below = self._catalog.reads(upper.id)
        entries = (self._catalog.find(each) for each in below)
        return lower.id in below or any(lower.name in each.view.view_names.values() for each in entries if each)

    async def _swap(self, pairs: Sequence[tuple[Entry, Entry]], caller: Caller) -> None:
        names: dict[TableName, Entry] = {}
        for one, other in pairs:
            names |= {one.view.name: other, other.view.name: one}
        before = {entry.view.name: entry.view for entry in names.values()}

        async def switch() -> None:
            done: list[TableName] = []
            try:
                for name, entry in names.items():
                    await _show(caller.session, name, entry.view)
                    done.append(name)
            except UpstreamLost:
                raise
            except FreshgateError:
                for name in reversed(done):
                    await _show(caller.session, name, before[name])
                raise
            for name, entry in names.items():
                await self._show_settings(replace(entry.view, name=name), before[name], caller.session)

        await self._move(names, switch, list(names.values()))

    async def _take_place(self, entry: Entry, other: Entry, caller: Caller) -> None:
        name, old_name = entry.view.name, other.view.name

        async def switch() -> None:
            await _show(caller.session, name, other.view)
            dropping = caller.session.run(maintenance.drop_view(old_name))
            await self._or_back(dropping, caller.session, name, entry.view)
            await self._show_settings(replace(other.view, name=name), entry.view, caller.session)
            try:
                # The old storage table is a leftover now, not damage.
                await self._metastore.run(maintenance.unset_properties(entry.view.storage, stored.published_keys()))
            except StatementFailed as error:
                log.warning("the old storage table of %s could not be marked as replaced: %s", name, error)
            self._catalog.remove(entry)

        await self._move({name: other}, switch, [other, entry])
        await self._tasks.stop(entry.view.id)
        leftover = Leftover(entry.view.storage, entry.view.definition)
        self._catalog.news.leftover.tell(entry.view.id, leftover, None)

    async def _or_back(
        self, step: Awaitable[object], session: SqlSession, name: TableName, before: MaterializedView
    ) -> None:
        """Runs the second of two steps; if Spark refuses it, undoes the first one."""
        try:
            await step
        except UpstreamLost:
            raise
        except FreshgateError:
            await _show(session, name, before)
            raise

    async def _show_settings(self, view: MaterializedView, before: MaterializedView, session: SqlSession) -> None:
        """Sets the comment and properties of a public view that now shows another view's rows."""
        try:
            await show_properties(before.properties, view, session)
        except StatementFailed as error:
            log.warning("%s still has its previous comment and properties: %s", view.name, error)

    async def _move(
        self, names: Mapping[TableName, Entry], switch: Callable[[], Awaitable[None]], entries: list[Entry]
    ) -> None:
        """Renames views: stores the intention, changes the public views with `switch`, then stores the names."""
        async with AsyncExitStack() as stack:
            for entry in sorted(entries, key=lambda each: each.view.id):
                await stack.enter_async_context(entry.lock)
                self._settlement.refuse_doubtful(entry)
            await self._fence.check_lately()
            try:
                # What the first step of `_swap` changes: once it is done, all of the names are changed.
                begins, entry = next(iter(names.items()))
                first = (begins, entry.view.storage) if len(names) > PAIR else None
                for name, entry in names.items():
                    move = stored.write_move(name, entry.view.current.number, first)
                    await self._metastore.run(maintenance.set_properties(entry.view.storage, move))
            except FreshgateError as error:
                if naming.is_unknown(error):
                    # Spark may still store it, after any later statement.
                    self._settlement.doubt(*names.values(), error=error)
                else:
                    await self._forget_move(names)
                raise
            async with self._readers.held([entry.view.id for entry in entries]):
                try:
                    await self._fence.check_lately()
                    self._catalog.expect(names)
                    await switch()
                except FreshgateError as error:
                    if await self._all_unmoved(entries, error):
                        for entry in entries:
                            self._catalog.settle_names(entry)
                        await self._forget_move(names)
                    else:
                        # Only the metastore knows how far it got.
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
        """Stores the new names, which readers see since the switch. If this fails, it is repeated when Spark
        answers."""
        try:
            for name, entry in names.items():
                await self._metastore.run(maintenance.set_properties(entry.view.storage, stored.write_name(name)))
        except FreshgateError as error:
            log.warning("the new name of %s is not stored yet: %s", " and ".join(map(str, names)), error)
            self._settlement.doubt(*names.values())
        else:
            await self._forget_move(names)

    async def _forget_move(self, names: Mapping[TableName, Entry]) -> None:
        """Removes the intention, which would otherwise look like an interrupted rename later."""
        try:
            for entry in names.values():
                await self._metastore.run(maintenance.unset_properties(entry.view.storage, stored.moving_keys()))
        except FreshgateError as error:
            log.warning("the intention to rename %s is not removed yet: %s", " and ".join(map(str, names)), error)
            self._settlement.doubt(*names.values())


async def _show(session: SqlSession, name: TableName, view: MaterializedView) -> None:
    """Makes a name show the current version of a view."""
    await session.run(naming.publish(name, view, view.current.shown))


async def show_properties(before: Mapping[str, str], view: MaterializedView, session: SqlSession) -> None:
    """Copies comment and properties to the public view, where Spark shows them."""
    gone = before.keys() - view.properties.keys()
    if gone:
        await session.run(maintenance.unset_view_properties(view.name, sorted(gone)))
    await session.run(maintenance.set_view_properties(view.name, view.properties, view.comment))
