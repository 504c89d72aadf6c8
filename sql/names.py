"""Names of tables as Spark's Hive metastore sees them.

The metastore folds names to lower case, so a name is compared folded; how the user spelled it stays in the
statement's text, which is never printed anew.
"""

from __future__ import annotations

from dataclasses import dataclass

SESSION_CATALOG = "spark_catalog"


def quote(identifier: str) -> str:
    """One identifier in Spark's back quotes."""
    return "`" + identifier.replace("`", "``") + "`"


@dataclass(frozen=True, slots=True, order=True)
class Namespace:
    """What an unqualified name of a session resolves against."""

    database: str = "default"
    catalog: str = SESSION_CATALOG


@dataclass(frozen=True, slots=True, order=True)
class TableName:
    """A table's full name; every part folded to lower case."""

    database: str
    table: str
    catalog: str = SESSION_CATALOG

    @classmethod
    def resolve(cls, parts: tuple[str, ...], namespace: Namespace) -> TableName:
        """The name that 1 to 3 parts mean in `namespace`; more parts are nested namespaces of another catalog.

        A two-part name is `database.table` of the current catalog. Spark would read it as `catalog.table` where a
        catalog of that name is registered; such a table is nobody's base table under either reading.
        """
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
    def ends(self) -> tuple[tuple[str, ...], ...]:
        """The names of one and two parts that mean it in some database or catalog."""
        return (self.table,), (self.database, self.table)

    @property
    def quoted(self) -> str:
        """The name as SQL, the session catalog left out (Hive's functions and old Spark do not know it)."""
        parts = [self.database, self.table]
        if self.catalog != SESSION_CATALOG:
            parts.insert(0, self.catalog)
        return ".".join(quote(part) for part in parts)

    def __str__(self) -> str:
        short = f"{self.database}.{self.table}"
        return short if self.catalog == SESSION_CATALOG else f"{self.catalog}.{short}"
