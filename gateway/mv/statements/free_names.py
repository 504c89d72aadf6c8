"""What stands under a name: whether a view could have it, and what is said if it is no materialized view."""

from __future__ import annotations

import re

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
    """Asks catalog and metastore."""

    def __init__(self, catalog: Catalog, metastore: Metastore) -> None:
        self._catalog = catalog
        self._metastore = metastore

    async def check_is_free(self, name: TableName) -> None:
        """Whether a view could be created under this name, or be given it. Raises DefinitionRefused, NameTaken."""
        if name.catalog != SESSION_CATALOG:
            raise DefinitionRefused(
                f"The materialized view {name} cannot be in the catalog {name.catalog}: materialized views live in "
                f"Spark's own catalog, whatever they read. Write {SESSION_CATALOG}.<database>.{name.table}.",
                sqlstate="0A000",
            )
        if name.database == self._catalog.storage_database:
            raise DefinitionRefused(
                f"The database {name.database} holds the rows of materialized views. Create {name.table} elsewhere."
            )
        if re.fullmatch(r"\w+", name.table, re.ASCII) is None:
            raise DefinitionRefused(
                f"{name.table} cannot be the name of a materialized view: Spark's metastore takes letters of the "
                f"English alphabet, digits and _. Choose another name.",
                sqlstate="42602",
            )
        relation = await self._metastore.relation(name)
        if relation is not None:
            if self._catalog.named(name) is not None:
                raise NameTaken(f"The materialized view {name} exists already. Drop it first, or choose another name.")
            kind = "table" if relation.kind is RelationKind.TABLE else "view"
            raise NameTaken(f"{name} exists already and is a {kind}, not a materialized view. Choose another name.")
        if name.database not in await self._metastore.databases():
            raise DefinitionRefused(
                f"The materialized view {name} cannot be created: there is no database {name.database}. "
                f"Run CREATE DATABASE {name.database} first.",
                sqlstate="42704",
            )

    async def no_such_view(self, name: TableName, verb: str = "") -> NoSuchView:
        """The error that says what stands in the place of a materialized view, or that nothing does. `verb`: the first
        words of the statement that names it, which may have a twin for what stands there."""
        if name.catalog != SESSION_CATALOG:
            return NoSuchView(
                f"There is no materialized view {name}: they live in Spark's own catalog, not in {name.catalog}. "
                f"Write {SESSION_CATALOG}.<database>.{name.table}."
            )
        if name in self._catalog.damaged:
            return damaged(self._catalog.damaged[name])
        listed = f"SHOW MATERIALIZED VIEWS IN {name.database}"
        relation = await self._metastore.relation(name)
        if relation is None:
            return NoSuchView(f"There is no materialized view {name}. See {listed}.")
        kind = "TABLE" if relation.kind is RelationKind.TABLE else "VIEW"
        advice = _twin(verb, kind, name) or f"{listed} lists those there are."
        return NoSuchView(f"{name} is not a materialized view but a {kind}. {advice}", sqlstate="42809")

    async def has_database(self, name: str) -> bool:
        return name in await self._metastore.databases()

    async def shows(self, name: TableName, storage: TableName) -> bool:
        """Whether the public view of a name shows a storage table."""
        return await naming.published(self._metastore, name, storage) is not None


class Clearance:
    """Whether a view may be created under a name, where somebody wants it."""

    def __init__(
        self, catalog: Catalog, settlement: Settlement, names: Names, rights: Rights, locations: Locations
    ) -> None:
        self._catalog = catalog
        self._settlement = settlement
        self._names = names
        self._rights = rights
        self._locations = locations

    async def check(self, statement: CreateMaterializedView, name: TableName, user: str) -> bool:
        """False if IF NOT EXISTS finds the view. Raises NameTaken, DefinitionRefused, NotAllowed, and what the
        metastore raises."""
        existing = await self._settlement.certain(name)
        if existing is not None:
            if statement.or_replace:
                self._rights.check(user, existing, "replace it")
            if statement.if_not_exists or statement.or_replace:
                return statement.or_replace
            raise NameTaken(
                f"The materialized view {name} exists already. Drop it first, or use OR REPLACE or IF NOT EXISTS."
            )
        damage = self._catalog.damaged.get(name) if statement.or_replace else None
        # By now the name of a damaged view may be that of something else.
        if damage is None or not await self._names.shows(name, damage.storage):
            await self._names.check_is_free(name)
        return True

    async def check_location(self, statement: CreateMaterializedView, name: TableName) -> None:
        """Raises DefinitionRefused for a directory that no view may have."""
        if (location := statement.clauses.location) is not None:
            storages = {view.id for view in self._catalog.views()} | self._catalog.building
            storages |= {damage.storage.table for damage in self._catalog.damaged.values()}
            await self._locations.check(name, location, storages)


def _twin(verb: str, kind: str, name: TableName) -> str:
    """What to say instead of a statement for materialized views; empty where there is nothing like it."""
    match verb:
        case "REFRESH" if kind == "TABLE":
            return f"Only a materialized view is refreshed; REFRESH TABLE {name} makes Spark look at its files anew."
        case "REFRESH":
            return "Only a materialized view is refreshed; a view shows what its tables hold."
        case "DROP" | "ALTER":
            return f"Use {verb} {kind} {name}."
        case "SHOW CREATE" | "DESCRIBE" | "ANALYZE":
            return f"Use {verb} TABLE {name}."
    return ""
