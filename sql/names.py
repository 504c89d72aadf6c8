"""Names of what a definition reads: tables as Spark's Hive metastore sees them, paths, versions of tables, functions.

The metastore folds names to lower case, so a name is compared folded; how the user spelled it stays in the
statement's text, which is never printed anew. Paths are not folded.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache

SESSION_CATALOG = "spark_catalog"
FUNCTION = "FUNCTION"
"""The aspect of a name that is a function's."""
PATH_FORMATS = frozenset({"parquet", "orc", "csv", "json", "text", "avro", "xml", "binaryfile", "delta"})
"""Formats whose names stand before a path, as in parquet.`/data/x`."""
_METASTORE_NAME = re.compile(r"\w+", re.ASCII)
"""What Spark's own catalog takes as a table's name."""
_BELOW_TABLE = re.compile(
    r"(?:branch|tag)_.+|snapshot_id_\d+|at_timestamp_\d+|refs|history|snapshots|metadata_log_entries|entries|partitions"
    r"|files|data_files|delete_files|position_deletes|manifests"
    r"|all_(?:files|data_files|delete_files|manifests|entries)|changes",
    re.DOTALL,
)
"""Names below those of Iceberg's tables: branches, tags, snapshots, metadata tables."""


def quote(identifier: str) -> str:
    """One identifier in Spark's back quotes."""
    return "`" + identifier.replace("`", "``") + "`"


def quoted_database(database: str) -> str:
    """A database of Spark's own catalog as SQL, in every session."""
    return f"{quote(SESSION_CATALOG)}.{quote(database)}"


@dataclass(frozen=True, slots=True, order=True)
class Namespace:
    """What an unqualified name of a session resolves against."""

    database: str = "default"
    catalog: str = SESSION_CATALOG


@dataclass(frozen=True, slots=True, order=True)
class TableName:
    """A table's full name, every part folded to lower case; or a path, as the table of a database called like its
    format (parquet.`/data/x`), which keeps its case."""

    database: str
    table: str
    catalog: str = SESSION_CATALOG
    aspect: str = ""
    """What of the table is read where that is not the table as it is today: the clause behind its name (VERSION AS OF,
    WITH). FUNCTION: the name is a function's."""

    @classmethod
    def resolve(cls, parts: tuple[str, ...], namespace: Namespace) -> TableName:
        """The name that 1 to 3 parts mean in `namespace`; more parts are nested namespaces of another catalog.

        A two-part name is `database.table` of the current catalog. Spark would read it as `catalog.table` where a
        catalog of that name is registered; such a table is nobody's base table under either reading.
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
        """The path that the name stands for; empty for a table's name."""
        is_path = self.catalog == SESSION_CATALOG and not _METASTORE_NAME.fullmatch(self.table)
        return self.table if is_path and not self.is_function else ""

    @property
    def is_function(self) -> bool:
        return self.aspect == FUNCTION

    @property
    def whole(self) -> TableName:
        """The table as it is today."""
        return replace(self, aspect="") if self.aspect else self

    @property
    def above(self) -> TableName | None:
        """The table below which the name stands, if it does: orders of `db.orders.files`, or of `db.orders.branch_b`.
        (Iceberg takes a table of the whole name before that.)"""
        if not _BELOW_TABLE.fullmatch(self.table):
            return None
        parts = [*self.database.split("."), self.table]
        if self.catalog != SESSION_CATALOG:
            parts.insert(0, self.catalog)
        return TableName.resolve(tuple(parts[:-1]), Namespace()) if len(parts) > 2 else None

    @property
    def stems(self) -> tuple[tuple[str, str], ...]:
        """Database and name, without catalog, of the tables whose change may change what the name shows."""
        return _stems(self.catalog, self.database, self.table)

    @property
    def ends(self) -> tuple[tuple[str, ...], ...]:
        """The names of one and two parts that mean it in some database or catalog."""
        return (self.table,), (self.database, self.table)

    @property
    def quoted(self) -> str:
        """The name as SQL, in every session: a name without its catalog is one of the session's current catalog. A path
        has none."""
        return self._within if self.path else f"{quote(self.catalog)}.{self._within}"

    @property
    def short(self) -> str:
        """The name as SQL where the current catalog is Spark's own, as records and SHOW CREATE have it."""
        return self._within if self.catalog == SESSION_CATALOG else self.quoted

    @property
    def _within(self) -> str:
        """Without the catalog. Other catalogs' databases may be nested."""
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
    # Of all base tables whenever one of the views comes or goes.
    own = (database.rpartition(".")[2], table)
    above = TableName(database, table, catalog).above
    return (own,) if above is None else (own, *above.stems)


def _names_path(format_name: str, name: str, catalog: str) -> bool:
    """Whether a name of two parts names files. (In other catalogs tables may have any name.)"""
    return not _METASTORE_NAME.fullmatch(name) and (
        catalog.lower() == SESSION_CATALOG or format_name.lower() in PATH_FORMATS
    )
