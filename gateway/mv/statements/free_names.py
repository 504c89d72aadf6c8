"""Checks whether a view may have a name, and explains what else has that name."""

from __future__ import annotations

import re

from gateway.access_list import Principal
from gateway.errors import DefinitionRefused, NameTaken, NoSuchView
from gateway.mv.catalog import naming
from gateway.mv.catalog.index import Catalog
from gateway.mv.catalog.settlement import Settlement
from gateway.mv.model.damage import damaged
from gateway.mv.model.locations import Locations
from gateway.mv.ports import Metastore, RelationKind
from gateway.mv.statements.rights import Rights
from sql.names import SESSION_CATALOG, TableName
from sql.statement import CreateMaterializedView


class Names:
    """Looks names up in the catalog and the metastore."""

    def __init__(self, catalog: Catalog, metastore: Metastore) -> None:
        self._catalog = catalog
        self._metastore = metastore

    async def check_is_free(self, name: TableName) -> None:
        """Checks that a view can be created under this name or renamed to it. Raises DefinitionRefused, NameTaken."""
        if name.catalog != SESSION_CATALOG:
            raise DefinitionRefused(
                f"The materialized view {name} cannot be in the catalog {name.catalog}: materialized views are always "
                f"in Spark's own catalog. Write {SESSION_CATALOG}.<database>.{name.table}.",
                sqlstate="0A000",
            )
        if name.database == self._catalog.storage_database:
            raise DefinitionRefused(
                f"The database {name.database} holds the rows of materialized views. Create {name.table} in another "
                f"database."
            )
        if re.fullmatch(r"\w+", name.table, re.ASCII) is None:
            raise DefinitionRefused(
                f"{name.table} cannot be the name of a materialized view: Spark's metastore accepts only ASCII "
                f"letters, digits and _. Choose another name.",
                sqlstate="42602",
            )
        relation = await self._metastore.relation(name)
        if relation is not None:
            if self._catalog.named(name) is not None:
                raise NameTaken(f"The materialized view {name} already exists. Drop it first, or choose another name.")
            kind = "table" if relation.kind is RelationKind.TABLE else "view"
            raise NameTaken(f"{name} already exists and is a {kind}, not a materialized view. Choose another name.")
        if name.database not in await self._metastore.databases():
            raise DefinitionRefused(
                f"The materialized view {name} cannot be created: there is no database {name.database}. "
                f"Run CREATE DATABASE {name.database} first.",
                sqlstate="42704",
            )

    async def no_such_view(self, name: TableName, verb: str = "") -> NoSuchView:
        """The error for a name that is not a materialized view; it says what the name is instead. `verb`: the first
        words of the statement, which may have a counterpart for that object."""
        if name.catalog != SESSION_CATALOG:
            return NoSuchView(
                f"There is no materialized view {name}: they are in Spark's own catalog, not in {name.catalog}. "
                f"Write {SESSION_CATALOG}.<database>.{name.table}."
            )
        if name in self._catalog.damaged:
            return damaged(self._catalog.damaged[name])
        listed = f"SHOW MATERIALIZED VIEWS IN {name.database}"
        relation = await self._metastore.relation(name)
        if relation is None:
            return NoSuchView(f"There is no materialized view {name}. See {listed}.")
        kind = "TABLE" if relation.kind is RelationKind.TABLE else "VIEW"
        advice = _twin(verb, kind, name) or f"{listed} lists the materialized views."
        return NoSuchView(f"{name} is not a materialized view but a {kind}. {advice}", sqlstate="42809")

    async def has_database(self, name: str) -> bool:
        return name in await self._metastore.databases()

    async def shows(self, name: TableName, storage: TableName) -> bool:
        """Whether the public view of this name shows the storage table."""
        return await naming.published(self._metastore, name, storage) is not None


class Clearance:
    """Checks whether a view may be created under a name."""

    def __init__(
        self, catalog: Catalog, settlement: Settlement, names: Names, rights: Rights, locations: Locations
    ) -> None:
        self._catalog = catalog
        self._settlement = settlement
        self._names = names
        self._rights = rights
        self._locations = locations

    async def check(self, statement: CreateMaterializedView, name: TableName, who: Principal) -> bool:
        """False if IF NOT EXISTS finds the view. Raises NameTaken, DefinitionRefused, NotAllowed, and what the
        metastore raises."""
        existing = await self._settlement.certain(name)
        if existing is not None:
            if statement.or_replace:
                self._rights.check(who, existing, "replace it")
            if statement.if_not_exists or statement.or_replace:
                return statement.or_replace
            raise NameTaken(
                f"The materialized view {name} already exists. Drop it first, or use OR REPLACE or IF NOT EXISTS."
            )
        damage = self._catalog.damaged.get(name) if statement.or_replace else None
        # The name of a damaged view may belong to something else by now.
        if damage is None or not await self._names.shows(name, damage.storage):
            await self._names.check_is_free(name)
        return True

    async def check_location(self, statement: CreateMaterializedView, name: TableName) -> None:
        """Raises DefinitionRefused or NotAllowed for a LOCATION that is not allowed."""
        if (location := statement.clauses.location) is not None:
            storages = {view.id for view in self._catalog.views()} | self._catalog.building
            storages |= {damage.storage.table for damage in self._catalog.damaged.values()}
            await self._locations.check(name, location, storages)


def _twin(verb: str, kind: str, name: TableName) -> str:
    """The counterpart of a statement for materialized views; empty if there is none."""
    match verb:
        case "REFRESH" if kind == "TABLE":
            return f"REFRESH applies only to materialized views; REFRESH TABLE {name} renews Spark's caches of it."
        case "REFRESH":
            return "REFRESH applies only to materialized views; a view always shows the current rows of its tables."
        case "DROP" | "ALTER":
            return f"Use {verb} {kind} {name}."
        case "SHOW CREATE" | "DESCRIBE" | "ANALYZE":
            return f"Use {verb} TABLE {name}."
    return ""
