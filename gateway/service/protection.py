"""What statements for Spark must not do: change materialized views, or what they are stored in."""

from __future__ import annotations

from collections.abc import Iterable

from gateway.errors import NotAllowed
from gateway.mv.catalog import Catalog
from gateway.mv.directories import Directories, Directory, Reach
from gateway.mv.model import MaterializedView
from sql import hidden
from sql.names import SESSION_CATALOG, Namespace, TableName
from sql.paths import Paths
from sql.statement import Forwarded, Parts
from sql.words import Words

DATABASE_WORDS = frozenset({"database", "schema", "namespace"})
CHANGING_WORDS = frozenset({"drop", "alter"})


class Protection:
    """Refuses, by name and with the statement to use instead. Every method raises NotAllowed, or does nothing."""

    def __init__(self, catalog: Catalog, directories: Directories) -> None:
        self._catalog = catalog
        self._directories = directories

    def check(self, statement: Forwarded, names: Iterable[Parts], namespace: Namespace) -> None:
        """`names` are the statement's `writes`, those left out that mean something of the session."""
        storage = self._catalog.storage_database
        if statement.alters_database and statement.alters_database[-1].lower() == storage:
            raise _storage_stays(storage)
        if statement.drops_database:
            for parts in names:
                if _in_session_catalog(parts, namespace):
                    self._check_database(parts[-1].lower())
            return
        for target in (TableName.resolve(parts, namespace) for parts in names):
            # A script may be in another database by the time it comes to a bare name.
            inside = target.database == storage or (statement.changes_namespace and self._catalog.stores(target.table))
            if inside and (statement.exact or target.table != storage):
                raise _write_to_storage(target)
            # A text that could not be parsed may only read the view; Spark itself refuses to write rows to one.
            if statement.exact and not statement.temporary and self._catalog.named(target) is not None:
                raise _write_to_view(target, statement)

    def check_anywhere(self, statement: Forwarded, names: Iterable[Parts]) -> None:
        """A statement whose names nobody can resolve: the session may be in another database by now."""
        if statement.temporary or not statement.exact or statement.drops_database:
            return
        for parts in names:
            view = self._last_parts_of(parts)
            if view is not None:
                raise NotAllowed(
                    f"{'.'.join(parts)} may be the materialized view {view.name}: a statement that may change this "
                    f"session's database has not ended. Wait for its end, or write the full name, "
                    f"{SESSION_CATALOG}.database.{parts[-1]}."
                )
            if len(parts) < 3 and self._catalog.stores(parts[-1].lower()):
                raise _write_to_storage(TableName(self._catalog.storage_database, parts[-1].lower()))

    def check_within(
        self, statement: Forwarded, found: hidden.Changes, namespace: Namespace, words: Words, *, adrift: bool
    ) -> None:
        """Statements within the statement: to Spark a materialized view is a view that it may drop or replace. `words`
        are those of the text; `adrift`: nobody knows in which database the session is."""
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
            view = self._catalog.named(name)
            if view is None and (statement.changes_namespace or adrift):
                view = self._last_parts_of(parts)
            if view is not None:
                raise NotAllowed(
                    f"{view.name} is a materialized view; a script or EXECUTE IMMEDIATE cannot drop, alter or "
                    f"replace it. Use DROP or ALTER MATERIALIZED VIEW {view.name} as a statement of its own."
                )
        for parts in found.databases:
            self._check_database(parts[-1].lower())
        storage = self._catalog.storage_database
        if storage in words and not (words.isdisjoint(DATABASE_WORDS) or words.isdisjoint(CHANGING_WORDS)):
            raise _storage_stays(storage)

    def check_paths(self, paths: Paths, names: Iterable[Parts]) -> None:
        """What a statement writes to by path. `names`: its tables, of which some are paths: delta.`/lake/sales`."""
        if not paths.told:
            raise NotAllowed(
                "The statement writes to a path that is put together when it runs; it could be that of the rows of "
                "materialized views. Write the path out."
            )
        directories = self._directories.all()
        by_name = {parts[-1] for parts in names if "/" in parts[-1]}
        for path in sorted({*paths.clauses, *by_name}):
            for directory in directories:
                if (reach := directory.reached_by(path)) is not None:
                    raise _path_refused(path, directory, reach)
        for path in sorted(paths.loose):
            for directory in directories:
                if directory.reached_by(path) is Reach.WITHIN:
                    raise _path_refused(path, directory, Reach.WITHIN)

    def _last_parts_of(self, parts: Parts) -> MaterializedView | None:
        """The view that a name of one or two parts means in some database or catalog."""
        folded = tuple(part.lower() for part in parts)
        if len(folded) > 2 or folded[-1] not in self._catalog.view_words:
            return None
        return next((view for view in self._catalog.views() if folded in view.name.ends), None)

    def _check_database(self, database: str) -> None:
        if database == self._catalog.storage_database:
            raise NotAllowed(f"The database {database} holds the rows of materialized views. Drop the views instead.")
        views = [str(view.name) for view in self._catalog.views() if view.name.database == database]
        if views:
            raise NotAllowed(
                f"The database {database} has materialized views: {', '.join(views[:5])}. "
                f"Run DROP MATERIALIZED VIEW for each first."
            )


def _in_session_catalog(database: Parts, namespace: Namespace) -> bool:
    """Whether a database is one of Spark's own catalog; those of others may be nested."""
    catalog = namespace.catalog if len(database) == 1 else database[-2]
    return catalog.lower() == SESSION_CATALOG


def _storage_stays(storage: str) -> NotAllowed:
    return NotAllowed(f"The database {storage} holds the rows of materialized views. It stays as it is.")


def _write_to_storage(table: TableName) -> NotAllowed:
    return NotAllowed(
        f"{table} holds rows of a materialized view; only a refresh changes it. "
        f"Change the view's base tables, or use REFRESH or DROP MATERIALIZED VIEW."
    )


def _path_refused(path: str, directory: Directory, reach: Reach) -> NotAllowed:
    holds = "lies in" if reach is Reach.WITHIN else "may hold, or lead to,"
    return NotAllowed(
        f"The path {path[:200]} {holds} {directory.location}, where rows of materialized views are stored; only "
        f"refreshes write there. Use another path, with all its directories written out."
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
