"""ALTER MATERIALIZED VIEW: settings, owner, comment, and the names under which views are read.

What readers see changes with one metastore call, or not at all. A new name takes several calls; the intention is
stored first (`properties.write_move`), so that `Catalog` brings to its end what was cut off between them.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace

from gateway.errors import DefinitionRefused, FreshgateError, NoSuchView, StatementFailed, UpstreamLost
from gateway.mv.catalog import naming
from gateway.mv.catalog.fence import Fence
from gateway.mv.catalog.index import Catalog
from gateway.mv.catalog.settlement import Settlement
from gateway.mv.concurrency import unbroken
from gateway.mv.freshness.entry import Entry
from gateway.mv.jobs.jobs import Jobs
from gateway.mv.model import properties as stored
from gateway.mv.model.layout import storage_layout
from gateway.mv.model.view import Contents, Leftover, MaterializedView
from gateway.mv.observation.relations import Relations
from gateway.mv.ports import Metastore, SqlSession
from gateway.mv.refresh.tasks import Tasks
from gateway.mv.statements.creation import Caller, Creation, log_change
from gateway.mv.statements.rights import Rights
from gateway.mv.versions.janitor import Janitor
from gateway.mv.versions.readers import Readers
from sql.definition.following import CannotFollow
from sql.grammar.cursor import NOT_SUPPORTED
from sql.names import Namespace, TableName
from sql.statement import (
    AlterMaterializedView,
    Change,
    DropSchedule,
    Refreshing,
    Rename,
    ReplaceWith,
    SetComment,
    SetOwner,
    SetProperties,
    SetRefreshing,
    Trigger,
    UnsetProperties,
)
from sql.texts import maintenance

log = logging.getLogger(__name__)


class Alteration:
    """Changes views that exist."""

    def __init__(
        self,
        catalog: Catalog,
        settlement: Settlement,
        relations: Relations,
        metastore: Metastore,
        creation: Creation,
        tasks: Tasks,
        jobs: Jobs,
        janitor: Janitor,
        readers: Readers,
        rights: Rights,
        fence: Fence,
    ) -> None:
        self._catalog = catalog
        self._settlement = settlement
        self._relations = relations
        self._metastore = metastore
        self._creation = creation
        self._tasks = tasks
        self._jobs = jobs
        self._janitor = janitor
        self._readers = readers
        self._rights = rights
        self._fence = fence

    async def alter(self, statement: AlterMaterializedView, caller: Caller) -> None:
        """Raises NoSuchView, NotAllowed without the right, and what the change itself refuses."""
        name, began = TableName.resolve(statement.name, caller.namespace), time.monotonic()
        other = _other_name(statement.change, name)
        async with self._catalog.name_locks(name, *([other] if other else [])):
            await self._fence.check()
            view = await self._settlement.certain(name)
            if view is None:
                error = await self._creation.names.no_such_view(name, "ALTER")
                if statement.if_exists and error.sqlstate == NoSuchView.sqlstate:
                    return
                raise error
            self._rights.check(caller.user, view, "alter it")
            entry = self._catalog.entry(view.id)
            match statement.change:
                case Rename() if other is not None:
                    await self._rename(entry, other, caller)
                case ReplaceWith(swap=swap) if other is not None:
                    await self._replace_with(entry, other, swap, caller)
                case change:
                    await unbroken(self._set(entry, change, caller.session))
        log_change("Altered", name, caller, began)

    # --- settings ----------------------------------------------------------------------------------

    async def _set(self, entry: Entry, change: Change, session: SqlSession) -> None:
        async with entry.lock:
            await self._fence.check_lately()
            before = entry.view
            after = changed(before, change)
            if before.clauses.refreshing != after.clauses.refreshing:
                self._jobs.check(after.name, after.clauses.refreshing)
                after = self._jobs.changed(after)
            _check_partitioning(before, after)
            # First what Spark may refuse: a property that it keeps for itself, or for want of rights.
            if (before.properties, before.comment) != (after.properties, after.comment):
                await self._show_properties(before.properties, after, session)
            if before.owner != after.owner:
                await self._name_owner(after)
            properties = {**stored.write_settings(after), **stored.write_job(after)}
            rewritten = after.layout.partitioned and after.deciding != before.deciding
            if rewritten:
                # What the old limit kept out was never written, and under other settings rows may lie in other
                # partitions: nothing of the version counts as seen.
                after = replace(after, current=replace(after.current, contents=Contents()))
                properties |= stored.write_version(after.current, after.versions_reserved)
            try:
                await self._metastore.run(maintenance.set_properties(after.storage, properties))
            except FreshgateError as error:
                # Perhaps it is stored all the same, and the next start would find it.
                self._settlement.store(entry, error)
                raise
            watches_others = _watched(before) != _watched(after)
            # A refresh under way may have found meanwhile that the definition reads more, or that nothing has changed.
            entry.alter(after, rewritten=rewritten, watches_others=watches_others)
            if watches_others:
                # Of a table that did not matter before no write was noted.
                self._catalog.news.touched.tell(entry.view.triggers - before.triggers)
        if before.clauses.refreshing != after.clauses.refreshing:
            self._jobs.served(after.id)

    async def _name_owner(self, view: MaterializedView) -> None:
        """On the definition, which counts once the storage is gone."""
        owner = stored.write_owner(view.owner)
        try:
            await self._metastore.run(maintenance.set_definition_properties(view.definition, owner))
        except StatementFailed as error:
            log.warning("the definition of %s has the owner of before: %s", view.name, error)

    async def _show_properties(self, before: Mapping[str, str], view: MaterializedView, session: SqlSession) -> None:
        """Comment and properties stand on the public view as well, for those who ask Spark."""
        gone = before.keys() - view.properties.keys()
        if gone:
            await session.run(maintenance.unset_view_properties(view.name, sorted(gone)))
        await session.run(maintenance.set_view_properties(view.name, view.properties, view.comment))

    # --- names -------------------------------------------------------------------------------------

    async def _rename(self, entry: Entry, target: TableName, caller: Caller) -> None:
        view = entry.view
        if target == view.name:
            raise DefinitionRefused(f"The materialized view is called {target} already. Give it another name.", "42P07")
        if target.database != view.name.database:
            raise DefinitionRefused(
                f"The materialized view {view.name} cannot move to the database {target.database}: Spark renames views "
                f"within their database. Create it there anew (SHOW CREATE MATERIALIZED VIEW {view.name}).",
                sqlstate=NOT_SUPPORTED,
            )
        await self._creation.names.check_is_free(target)

        async def rename() -> None:
            await caller.session.run(maintenance.rename_view(view.name, target))

        await unbroken(self._move({target: entry}, rename, [entry]))

    async def _replace_with(self, entry: Entry, other_name: TableName, swap: bool, caller: Caller) -> None:
        other_view = await self._settlement.certain(other_name)
        if other_view is None:
            raise await self._creation.names.no_such_view(other_name)
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
        self._janitor.retire(entry.view.id, Leftover(entry.view.storage, entry.view.definition))

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
            await self._show_properties(before.properties, view, session)
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
                self._relations.forget_sources()
            await self._store_names(names)

    async def _all_unmoved(self, entries: Iterable[Entry], error: FreshgateError) -> bool:
        for view in [entry.view for entry in entries]:
            if not await naming.unmoved(self._metastore, view, view.current.number, error):
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


def _watched(view: MaterializedView) -> tuple[object, str | None]:
    """What decides which changes of what the view reads matter."""
    return view.deciding if view.layout.partitioned else None, view.properties.get("excluded_trigger_tables")


def _check_partitioning(before: MaterializedView, after: MaterializedView) -> None:
    """What CREATE has decided of the storage's partitions stays."""
    partitioning = after.clauses.partitioning
    if partitioning is None or not after.layout.partitioned:
        return
    try:
        layout = storage_layout(partitioning, after.layout.kind, after.properties)
    except (CannotFollow, ValueError) as error:
        raise DefinitionRefused(
            f"The materialized view {before.name} does not take these properties: {error}.", sqlstate="22023"
        ) from error
    if after.layout.key not in {layout.key, maintenance.MARKED}:
        raise DefinitionRefused(
            f"The partitions of materialized view {before.name} are named by its partition_date_format. Create the "
            f"view anew with CREATE OR REPLACE to change it.",
            sqlstate="55000",
        )


async def _show(session: SqlSession, name: TableName, view: MaterializedView) -> None:
    """Lets a name show another view's current version."""
    await session.run(maintenance.publish(name, view.storage, view.columns, view.current.shown, view.layout))


def _other_name(change: Change, name: TableName) -> TableName | None:
    """The second name that a change is about; one without a database is in the view's."""
    match change:
        case Rename(parts) | ReplaceWith(parts):
            return TableName.resolve(parts, Namespace(name.database, name.catalog))
    return None


def changed(view: MaterializedView, change: Change) -> MaterializedView:
    """The view with other settings. Raises DefinitionRefused where a property that is to go is not there."""
    match change:
        case SetProperties(pairs):
            return replace(view, properties={**view.properties, **dict(pairs)})
        case UnsetProperties(keys, if_exists):
            missing = [key for key in keys if key not in view.properties]
            if missing and not if_exists:
                raise DefinitionRefused(
                    f"The materialized view {view.name} has no property {', '.join(missing)}. "
                    f"SHOW TBLPROPERTIES {view.name} lists them; IF EXISTS passes over missing ones.",
                    sqlstate="42K0J",
                )
            return replace(view, properties={key: view.properties[key] for key in view.properties if key not in keys})
        case SetRefreshing(said):
            before = view.clauses.refreshing
            trigger = said.trigger or before.trigger
            schedule = said.schedule if said.trigger else before.schedule
            refreshing = Refreshing(
                said.method or before.method, trigger, schedule if trigger is Trigger.SCHEDULE else None
            )
            return replace(view, clauses=replace(view.clauses, refreshing=refreshing))
        case DropSchedule():
            method = view.clauses.refreshing.method
            return replace(view, clauses=replace(view.clauses, refreshing=Refreshing(method)))
        case SetOwner(owner):
            return replace(view, owner=owner)
        case SetComment(comment):
            return replace(view, comment=comment)
    raise ValueError(f"{change} changes names")
