"""What statements for Spark must not do: change materialized views, or what they are stored in."""

from __future__ import annotations

from gateway.errors import NotAllowed
from gateway.mv.catalog import Catalog
from sql import hidden
from sql.names import Namespace, TableName
from sql.statement import Forwarded


class Protection:
    """Refuses, by name and with the statement to use instead. Every method raises NotAllowed, or does nothing."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def check(self, statement: Forwarded, targets: list[TableName]) -> None:
        """`targets` are the statement's `writes`, those left out that mean something of the session."""
        storage = self._catalog.storage_database
        if statement.alters_database and statement.alters_database[-1].lower() == storage:
            raise NotAllowed(f"The database {storage} holds the rows of materialized views. It stays as it is.")
        if statement.drops_database:
            for target in targets:
                self._check_database(target.table)
            return
        for target in targets:
            # A script may be in another database by the time it comes to a bare name.
            inside = target.database == storage or (statement.changes_namespace and self._catalog.stores(target.table))
            if inside and (statement.exact or target.table != storage):
                raise NotAllowed(
                    f"{target} holds rows of a materialized view; only a refresh changes it. "
                    f"Change the view's base tables, or use REFRESH or DROP MATERIALIZED VIEW."
                )
            # A text that could not be parsed may only read the view; Spark itself refuses to write rows to one.
            if statement.exact and not statement.temporary and self._catalog.named(target) is not None:
                raise _write_to_view(target, statement)

    def check_within(self, statement: Forwarded, found: hidden.Changes, namespace: Namespace) -> None:
        """Statements within the statement: to Spark a materialized view is a view that it may drop or replace."""
        if not found.told:
            raise NotAllowed(
                "The statement drops, alters or replaces a view whose name is put together when it runs; it could be a "
                "materialized view. Write the name out."
            )
        if not found.told_databases:
            holding = sorted({view.name.database for view in self._catalog.views()})
            raise NotAllowed(
                "The statement drops a database whose name is put together when it runs; it could be one that holds "
                f"materialized views, such as {', '.join(holding[:5])}. Write the name out."
            )
        for parts in found.views:
            name = TableName.resolve(parts, namespace)
            elsewhere = statement.changes_namespace and len(parts) == 1
            for view in self._catalog.views():
                if view.name == name or (elsewhere and view.name.table == name.table):
                    raise NotAllowed(
                        f"{view.name} is a materialized view; a script or EXECUTE IMMEDIATE cannot drop, alter or "
                        f"replace it. Use DROP or ALTER MATERIALIZED VIEW {view.name} as a statement of its own."
                    )
        for parts in found.databases:
            self._check_database(parts[-1].lower())

    def _check_database(self, database: str) -> None:
        if database == self._catalog.storage_database:
            raise NotAllowed(f"The database {database} holds the rows of materialized views. Drop the views instead.")
        views = [str(view.name) for view in self._catalog.views() if view.name.database == database]
        if views:
            raise NotAllowed(
                f"The database {database} has materialized views: {', '.join(views[:5])}. "
                f"Run DROP MATERIALIZED VIEW for each first."
            )


def _write_to_view(view: TableName, statement: Forwarded) -> NotAllowed:
    if statement.drops is not None:
        return NotAllowed(f"{view} is a materialized view. Use DROP MATERIALIZED VIEW {view}.")
    if statement.creates_view is not None:
        return NotAllowed(
            f"{view} is a materialized view and cannot be replaced by a view. "
            f"Use CREATE OR REPLACE MATERIALIZED VIEW, or drop it first."
        )
    return NotAllowed(
        f"{view} is a materialized view; it is immutable and refreshes from its base tables. "
        f"Change those, or run REFRESH MATERIALIZED VIEW {view}."
    )
