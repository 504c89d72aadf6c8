"""ALTER MATERIALIZED VIEW: properties, owner, comment, job, and the names of views; GRANT and REVOKE.

Tests: `test_concurrent_changes`.
"""

from __future__ import annotations

import logging
import time
from dataclasses import replace

from gateway.errors import DefinitionRefused, FreshgateError, NoSuchView, StatementFailed
from gateway.mv.catalog.fence import Fence
from gateway.mv.catalog.index import Catalog
from gateway.mv.catalog.settlement import Settlement
from gateway.mv.concurrency import unbroken
from gateway.mv.freshness.entry import Entry
from gateway.mv.freshness.news import Life
from gateway.mv.jobs.jobs import RefreshJobs
from gateway.mv.model import properties as stored
from gateway.mv.model.contents import Contents
from gateway.mv.model.layout import storage_layout
from gateway.mv.model.view import MaterializedView
from gateway.mv.ports import Metastore, SqlSession
from gateway.mv.statements import admission
from gateway.mv.statements.drafting import check_past
from gateway.mv.statements.free_names import Names
from gateway.mv.statements.renaming import Renaming, show_properties
from gateway.mv.statements.rights import Caller, Rights, log_change
from sql.definition.following import CannotFollow
from sql.grammar import view_properties
from sql.names import Namespace, TableName
from sql.statement import (
    AlterMaterializedView,
    Change,
    DropSchedule,
    Grantee,
    Refreshing,
    Rename,
    ReplaceWith,
    Security,
    SetComment,
    SetImmutable,
    SetOwner,
    SetProperties,
    SetRefreshers,
    SetRefreshing,
    SetSecurity,
    SwapMaterializedViews,
    UnsetProperties,
)
from sql.texts import maintenance
from sql.texts.storage_layout import MARKED

log = logging.getLogger(__name__)

REFRESHERS_MAX = 200
"""Users and groups with the right to refresh a view. They are a property of its storage table."""


class Alteration:
    """Alters existing views."""

    def __init__(
        self,
        catalog: Catalog,
        settlement: Settlement,
        fence: Fence,
        names: Names,
        rights: Rights,
        settings: ViewSettings,
        renaming: Renaming,
    ) -> None:
        self._catalog = catalog
        self._settlement = settlement
        self._fence = fence
        self._names = names
        self._rights = rights
        self._settings = settings
        self._renaming = renaming

    async def alter(self, statement: AlterMaterializedView, caller: Caller) -> None:
        """Executes ALTER. Raises NoSuchView, NotAllowed if the caller lacks the right, and what the change raises."""
        name, began = TableName.resolve(statement.name, caller.namespace), time.monotonic()
        other = _other_name(statement.change, name)
        async with self._catalog.name_locks.of(name, *([other] if other else [])):
            await self._fence.check()
            view = await self._settlement.certain(name)
            if view is None:
                error = await self._names.no_such_view(name, _verb(statement.change))
                if statement.if_exists and error.sqlstate == NoSuchView.sqlstate:
                    return
                raise error
            self._rights.check(caller.who, view, _ACTIONS.get(_verb(statement.change), "alter it"))
            if isinstance(statement.change, SetOwner):
                self._rights.check_gift(caller.who, view)
            entry = self._catalog.entry(view.id)
            match statement.change:
                case Rename() if other is not None:
                    await self._renaming.rename(entry, other, caller)
                case ReplaceWith(swap=swap) if other is not None:
                    await self._renaming.replace_with(entry, other, swap, caller)
                case change:
                    await unbroken(self._settings.set(entry, change, caller.session))
        log_change("Altered", name, caller, began)

    async def swap(self, statement: SwapMaterializedViews, caller: Caller) -> None:
        """Executes ALTER MATERIALIZED VIEWS SWAP. Raises what `alter` raises."""
        began = time.monotonic()
        names = [TableName.resolve(each, caller.namespace) for each in statement.names]
        if len(set(names)) < len(names):
            raise DefinitionRefused("A materialized view is named twice. Name each view once.", sqlstate="42712")
        async with self._catalog.name_locks.of(*names):
            await self._fence.check()
            for name in names:
                view = await self._settlement.certain(name)
                if view is None:
                    raise await self._names.no_such_view(name, "ALTER")
                self._rights.check(caller.who, view, "swap it")
            entries = [self._catalog.entry(view.id) for name in names if (view := self._catalog.named(name))]
            await self._renaming.swap(list(zip(entries[::2], entries[1::2], strict=True)), caller)
        for name in names:
            log_change("Altered", name, caller, began)


class ViewSettings:
    """Changes everything of a view except its names: properties, comment, owner and job."""

    def __init__(
        self,
        catalog: Catalog,
        settlement: Settlement,
        metastore: Metastore,
        fence: Fence,
        jobs: RefreshJobs,
        *,
        runs_as_owner: bool = False,
    ) -> None:
        """`runs_as_owner`: as for `Drafting`."""
        self._runs_as_owner = runs_as_owner
        self._catalog = catalog
        self._settlement = settlement
        self._metastore = metastore
        self._fence = fence
        self._jobs = jobs

    async def set(self, entry: Entry, change: Change, session: SqlSession) -> None:
        """Applies the change. Raises DefinitionRefused, and what Spark raises."""
        async with entry.lock:
            await self._fence.check_lately()
            before = entry.view
            after = changed(before, change, runs_as_owner=self._runs_as_owner)
            if before.clauses.refreshing != after.clauses.refreshing:
                self._jobs.check(after.name, after.clauses.refreshing)
                after = self._jobs.changed(after)
            _check_partitioning(before, after)
            admission.check_immutable(after)
            if after.clauses.immutable not in (None, before.clauses.immutable):
                await check_past(after, session)
            # First what Spark may refuse: because of a reserved property, or for lack of rights.
            if (before.properties, before.comment) != (after.properties, after.comment):
                await show_properties(before.properties, after, session)
            if before.owner != after.owner:
                await self._name_owner(after)
            properties = {**stored.write_settings(after), **stored.write_job(after)}
            rewritten = after.layout.partitioned and after.deciding != before.deciding
            rewritten = rewritten or after.clauses.immutable != before.clauses.immutable
            if rewritten:
                # Partitions outside the old limit were never written, under other settings rows may belong to other
                # partitions, and immutable rows may be old: nothing of the version counts as observed.
                after = replace(after, current=replace(after.current, contents=Contents()))
                properties |= await stored.version_written(after.current, after.versions_reserved)
            try:
                await self._metastore.run(maintenance.set_properties(after.storage, properties))
            except FreshgateError as error:
                # It may be stored all the same, and the next start would find it.
                self._settlement.store(entry, error)
                raise
            watches_others = _watched(before) != _watched(after)
            # A refresh under way may have found that the definition reads more, or that nothing has changed.
            entry.alter(after, rewritten=rewritten, watches_others=watches_others)
            if watches_others:
                # Writes to tables that did not matter before were not noted.
                self._catalog.news.touched.tell(entry.view.triggers - before.triggers)
        self._catalog.news.lives.tell(Life.ALTERED, entry.view, entry.view.name)
        if before.clauses.refreshing != after.clauses.refreshing:
            self._jobs.served(after.id)
        if isinstance(change, SetProperties) and view_properties.rewrite_enabled(dict(change.properties)):
            self._catalog.news.vouched.tell(after.id)

    async def _name_owner(self, view: MaterializedView) -> None:
        """Stores the owner on the definition as well, where it is used if the storage table is lost."""
        owner = stored.write_owner(view.owner)
        try:
            await self._metastore.run(maintenance.set_definition_properties(view.definition, owner))
        except StatementFailed as error:
            log.warning("the definition of %s still has the previous owner: %s", view.name, error)


_ACTIONS = {"GRANT": "grant the right to refresh it", "REVOKE": "revoke the right to refresh it"}


def _verb(change: Change) -> str:
    """The first word of the statement."""
    return ("GRANT" if change.granted else "REVOKE") if isinstance(change, SetRefreshers) else "ALTER"


def _watched(view: MaterializedView) -> tuple[object, str | None]:
    """What decides which changes of the tables that the view reads matter."""
    return view.deciding if view.layout.partitioned else None, view.properties.get("excluded_trigger_tables")


def _check_partitioning(before: MaterializedView, after: MaterializedView) -> None:
    """Refuses properties that would change the storage table's partitioning, which CREATE has fixed."""
    if not after.layout.partitioned:
        return
    try:
        if len(after.layout.parts) > 1 and view_properties.partition_window(after.properties) is not None:
            raise CannotFollow("partition_sync_limit applies to views with one partition column")
        pairs = zip(after.partitioning.parts, after.layout.parts, strict=True)
        now = [(part, storage_layout(by, part.kind, after.properties)) for by, part in pairs if not by.transform]
    except (CannotFollow, ValueError) as error:
        raise DefinitionRefused(
            f"The materialized view {before.name} cannot have these properties: {error}.", sqlstate="22023"
        ) from error
    if any(part.key not in {layout.key, MARKED} for part, layout in now):
        raise DefinitionRefused(
            f"The partitions of materialized view {before.name} are named by its partition_date_format. Recreate the "
            f"view with CREATE OR REPLACE to change it.",
            sqlstate="55000",
        )


def _other_name(change: Change, name: TableName) -> TableName | None:
    """The second name in the change, resolved in the database of the view."""
    match change:
        case Rename(parts) | ReplaceWith(parts):
            return TableName.resolve(parts, Namespace(name.database, name.catalog))
    return None


def changed(view: MaterializedView, change: Change, *, runs_as_owner: bool = False) -> MaterializedView:
    """The view with changed settings. `runs_as_owner`: as for `Drafting`. Raises DefinitionRefused if a property to be
    removed does not exist."""
    match change:
        case SetProperties(pairs):
            return replace(view, properties={**view.properties, **dict(pairs)})
        case UnsetProperties(keys, if_exists):
            missing = [key for key in keys if key not in view.properties]
            if missing and not if_exists:
                raise DefinitionRefused(
                    f"The materialized view {view.name} has no property {', '.join(missing)}. "
                    f"SHOW TBLPROPERTIES {view.name} lists them; IF EXISTS skips missing ones.",
                    sqlstate="42K0J",
                )
            return replace(view, properties={key: view.properties[key] for key in view.properties if key not in keys})
        case SetRefreshing(wanted):
            refreshing = view.clauses.refreshing.with_trigger_of(wanted)
            return replace(view, clauses=replace(view.clauses, refreshing=refreshing))
        case DropSchedule():
            method = view.clauses.refreshing.method
            return replace(view, clauses=replace(view.clauses, refreshing=Refreshing(method)))
        case SetImmutable(condition):
            return replace(view, clauses=replace(view.clauses, immutable=condition))
        case SetOwner(owner):
            return replace(view, owner=owner, refreshed_as=owner if view.refreshed_as else "")
        case SetComment(comment):
            return replace(view, comment=comment)
        case SetSecurity(security):
            as_owner = runs_as_owner and security is Security.DEFINER
            clauses = replace(view.clauses, security=security)
            return replace(view, clauses=clauses, refreshed_as=view.owner if as_owner else "")
        case SetRefreshers(grantees, granted):
            return replace(view, refreshers=_refreshers(view, frozenset(grantees), granted=granted))
    raise ValueError(f"{change} changes names")


def _refreshers(view: MaterializedView, grantees: frozenset[Grantee], *, granted: bool) -> frozenset[Grantee]:
    """Who may refresh the view then. To revoke what was not granted changes nothing, as in PostgreSQL."""
    found = view.refreshers | grantees if granted else view.refreshers - grantees
    if granted and len(found) > REFRESHERS_MAX:
        raise DefinitionRefused(
            f"The right to refresh the materialized view {view.name} can be granted to at most {REFRESHERS_MAX} users "
            f"and groups. Grant it to a group, or to PUBLIC.",
            sqlstate="54000",
        )
    return found
