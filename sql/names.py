"""Names of tables in Spark's Hive metastore and other catalogs, of paths, table versions and functions.

The metastore folds names to lower case, so names are compared in lower case. The user's spelling remains in the
statement's text, which is never regenerated. Paths keep their case.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache

Parts = tuple[str, ...]
"""A name as written in the text: one string per dotted part, without backquotes, case preserved."""
SESSION_CATALOG = "spark_catalog"
FUNCTION = "FUNCTION"
"""The aspect of a function's name."""
PATH_FORMATS = frozenset({"parquet", "orc", "csv", "json", "text", "avro", "xml", "binaryfile", "delta"})
"""Formats that may qualify a path, as in parquet.`/data/x`."""
_METASTORE_NAME = re.compile(r"\w+", re.ASCII)
"""The valid table names of spark_catalog."""
_BELOW_TABLE = re.compile(
    r"(?:branch|tag)_.+|snapshot_id_\d+|at_timestamp_\d+|refs|history|snapshots|metadata_log_entries|entries|partitions"
    r"|files|data_files|delete_files|position_deletes|manifests"
    r"|all_(?:files|data_files|delete_files|manifests|entries)|changes",
    re.DOTALL,
)
"""Names that may follow the name of an Iceberg table: branches, tags, snapshots, metadata tables."""


def quote(identifier: str) -> str:
    """One identifier in Spark's backquotes."""
    return "`" + identifier.replace("`", "``") + "`"


def quoted_database(database: str) -> str:
    """A database of spark_catalog as SQL, valid in every session."""
    return f"{quote(SESSION_CATALOG)}.{quote(database)}"


@dataclass(frozen=True, slots=True, order=True)
class Namespace:
    """The current database and catalog, in which unqualified names are resolved."""

    database: str = "default"
    catalog: str = SESSION_CATALOG


@dataclass(frozen=True, slots=True, order=True)
class TableName:
    """The full name of a table or function, every part in lower case. A path (parquet.`/data/x`) is a table of a
    database with the format's name, and keeps its case."""

    database: str
    table: str
    catalog: str = SESSION_CATALOG
    aspect: str = ""
    """The clause after the name (VERSION AS OF, WITH) if not the current state of the table is read; FUNCTION if the
    name is a function's."""

    @classmethod
    def resolve(cls, parts: tuple[str, ...], namespace: Namespace) -> TableName:
        """The name that 1 to 3 parts mean in `namespace`; more parts are nested namespaces of another catalog.

        A two-part name is `database.table` of the current catalog. Spark reads it as `catalog.table` if a catalog of
        that name is registered; either way no view has such a base table.
        """
        if len(parts) == 2 and _names_path(*parts, namespace.catalog):
            return cls(parts[0].lower(), parts[1])
        folded = tuple(part.lower() for part in parts)
        match folded:
            case (table,):
                return cls(namespace.database.lower(), table, namespace.catalog.lower())
            case (database, table):
                return cls(database, table, namespace.catalog.lower())
            case (catalog, *middle, table):
                return cls(".".join(middle), table, catalog)
        raise ValueError("a name has at least one part")

    @property
    def path(self) -> str:
        """The path that the name denotes; empty for a table's name."""
        is_path = self.catalog == SESSION_CATALOG and not _METASTORE_NAME.fullmatch(self.table)
        return self.table if is_path and not self.is_function else ""

    @property
    def is_function(self) -> bool:
        return self.aspect == FUNCTION

    @property
    def whole(self) -> TableName:
        """The name of the table itself, without an aspect."""
        return replace(self, aspect="") if self.aspect else self

    @property
    def above(self) -> TableName | None:
        """The Iceberg table if the name denotes a part of one, such as `db.orders.files` or `db.orders.branch_b` of
        db.orders. (Iceberg prefers a table with the whole name.)"""
        if not _BELOW_TABLE.fullmatch(self.table):
            return None
        parts = [*self.database.split("."), self.table]
        if self.catalog != SESSION_CATALOG:
            parts.insert(0, self.catalog)
        return TableName.resolve(tuple(parts[:-1]), Namespace()) if len(parts) > 2 else None

    @property
    def stems(self) -> tuple[tuple[str, str], ...]:
        """The database and name, without catalog, of each table whose change may affect this one."""
        return _stems(self.catalog, self.database, self.table)

    @property
    def ends(self) -> tuple[tuple[str, ...], ...]:
        """The names of one and two parts that may mean it, depending on the current database and catalog."""
        return (self.table,), (self.database, self.table)

    @property
    def quoted(self) -> str:
        """The name as SQL, valid in every session: it includes the catalog, because otherwise the session's current
        catalog would apply. Paths have no catalog."""
        return self._within if self.path else f"{quote(self.catalog)}.{self._within}"

    @property
    def short(self) -> str:
        """The name as SQL, valid if the current catalog is spark_catalog. Stored records and SHOW CREATE use it."""
        return self._within if self.catalog == SESSION_CATALOG else self.quoted

    @property
    def _within(self) -> str:
        """The quoted name without the catalog. In other catalogs, databases may be nested."""
        levels = [self.database] if self.catalog == SESSION_CATALOG else self.database.split(".")
        return ".".join(quote(part) for part in (*filter(None, levels), self.table))

    def __str__(self) -> str:
        short = f"{self.database}.{self.table}"
        full = short if self.catalog == SESSION_CATALOG else f"{self.catalog}.{short}"
        if self.is_function:
            return f"the function {full}"
        return f"{full} {self.aspect}" if self.aspect else full


@lru_cache(maxsize=65_536)
def _stems(catalog: str, database: str, table: str) -> tuple[tuple[str, str], ...]:
    # Cached because it is computed for all base tables whenever a view is created or dropped.
    own = (database.rpartition(".")[2], table)
    above = TableName(database, table, catalog).above
    return (own,) if above is None else (own, *above.stems)


def _names_path(format_name: str, name: str, catalog: str) -> bool:
    """Whether a name of two parts denotes files. (In other catalogs, tables may have any name.)"""
    return not _METASTORE_NAME.fullmatch(name) and (
        catalog.lower() == SESSION_CATALOG or format_name.lower() in PATH_FORMATS
    )
