"""Refuses statements for Spark that would change materialized views or their storage.

Tests: `test_gatekeeper`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from gateway.errors import NotAllowed
from gateway.loops import Turn, in_thread
from gateway.mv.catalog.directories import Directories, Directory, Reach
from gateway.mv.catalog.index import Catalog
from gateway.service.routing.facts import Facts
from sql.names import SESSION_CATALOG, Namespace, Parts, TableName
from sql.reading.effects import TARGETED, UNCHANGING
from sql.reading.paths import Paths
from sql.statement import Forwarded


@dataclass(frozen=True, slots=True)
class _Views:
    """An index of the views' names, because a statement may name thousands."""

    revision: int
    by_end: Mapping[Parts, TableName]
    by_database: Mapping[str, Sequence[TableName]]

    @classmethod
    def of(cls, catalog: Catalog) -> Self:
        by_end: dict[Parts, TableName] = {}
        by_database: dict[str, list[TableName]] = {}
        for view in catalog.views():
            by_database.setdefault(view.name.database, []).append(view.name)
            for end in view.name.ends:
                by_end.setdefault(end, view.name)
        return cls(catalog.revision, by_end, by_database)


class Protection:
    """Every check raises NotAllowed, with the statement to use instead, or does nothing."""

    def __init__(self, catalog: Catalog, directories: Directories) -> None:
        self._catalog = catalog
        self._directories = directories
        self._known = _Views.of(catalog)

    async def check(self, facts: Facts) -> None:
        """Checks that the statement, as far as it is understood, changes no materialized view and no storage."""
        self._check_names(facts)
        if self._catalog.idle or not facts.writes:
            return
        if not facts.statement.exact:
            await self._check_within(facts)
        await self._check_paths(facts.known.paths, facts.changed)

    async def check_location(self, location: str) -> None:
        """Checks the location of a materialized view that is to be created. Several views may have one location: each
        stores its files in a directory of its own below it."""
        await self._check_paths(Paths(loose={location}), ())

    def _check_names(self, facts: Facts) -> None:
        statement, namespace, names = facts.statement, facts.namespace, facts.changed
        if facts.writes:
            self._check_storage(facts)
        if statement.drops_database:
            for parts in names:
                if _in_session_catalog(parts, namespace):
                    self._check_database(parts[-1].lower())
            return
        # If it could not be parsed, it may just read the view. Spark itself refuses to write rows to a view.
        if not statement.exact or statement.temporary:
            return
        for parts in names:
            if facts.adrift:
                self._check_anywhere(parts)
            elif self._catalog.named(target := TableName.resolve(parts, namespace)) is not None:
                raise _write_to_view(target, statement)

    def _check_storage(self, facts: Facts) -> None:
        """Only statements pass of which it is certain that they change nothing in the storage database."""
        statement, look, storage = facts.statement, facts.look, self._catalog.storage_database
        namespace, adrift = facts.namespace, facts.adrift
        if look.keyword in UNCHANGING and (statement.exact or look.keyword != "explain"):
            return
        if not statement.exact or look.keyword not in TARGETED:
            # When a script gets to an unqualified name, another database may be current.
            moves = adrift or (not statement.exact and statement.changes_namespace)
            if storage in look.words or namespace.database == storage or (moves and self._catalog.stores(look.words)):
                raise _not_sure(storage)
            return
        if statement.alters_database and statement.alters_database[-1].lower() == storage:
            raise _storage_stays(storage)
        if statement.drops_database:
            return
        made = statement.creates_view if statement.temporary else None
        function = statement.changes_function
        for parts in (*facts.changed, *((function,) if function else ())):
            target = TableName.resolve(parts, namespace)
            anywhere = adrift and len(parts) < 3 and self._catalog.stores(frozenset({target.table}))
            if parts != made and (target.database == storage or anywhere):
                raise _write_to_storage(TableName(storage, target.table))

    def _check_anywhere(self, parts: Parts) -> None:
        """Checks a name that cannot be resolved, because another database may be current in its session."""
        if (view := self._last_parts_of(parts)) is not None:
            raise NotAllowed(
                f"{'.'.join(parts)} may be the materialized view {view}: a statement that may change this "
                f"session's database has not ended. Wait for its end, or write the full name, "
                f"{SESSION_CATALOG}.database.{parts[-1]}."
            )

    async def _check_within(self, facts: Facts) -> None:
        """Checks statements within the statement; to Spark, a materialized view is a view that it may drop or
        replace."""
        found = facts.known.changes
        if not found.told:
            raise NotAllowed(
                "The statement drops, alters or replaces a view whose name is built at run time; it could be a "
                "materialized view. Write the name out."
            )
        if not found.told_databases:
            holding = sorted(self._views().by_database)
            raise NotAllowed(
                "The statement drops a database whose name is built at run time; it could be one that contains "
                f"materialized views, such as {', '.join(holding[:5])}. Write the name out."
            )
        turn = Turn()
        for parts in found.views:
            await turn.pause()
            name = TableName.resolve(parts, facts.namespace)
            view = name if self._catalog.named(name) is not None else None
            if view is None and (facts.statement.changes_namespace or facts.adrift):
                view = self._last_parts_of(parts)
            if view is not None:
                raise NotAllowed(
                    f"{view} is a materialized view; a script or EXECUTE IMMEDIATE cannot drop, alter or "
                    f"replace it. Use DROP or ALTER MATERIALIZED VIEW {view} as a statement of its own."
                )
        for parts in found.databases:
            await turn.pause()
            self._check_database(parts[-1].lower())

    async def _check_paths(self, paths: Paths, names: Iterable[Parts]) -> None:
        """Checks the paths that a statement writes to. `names`: its tables, which may be paths: delta.`/lake/sales`."""
        if not paths.told:
            raise NotAllowed(
                "The statement writes to a path that is built at run time; it could be that of the rows of "
                "materialized views. Write the path out."
            )
        by_name = {parts[-1] for parts in names if "/" in parts[-1]}
        turn = Turn()
        for path in sorted({*paths.clauses, *by_name}):
            for directory, reach in await in_thread(len(path), self._directories.reached_by, path):
                raise _path_refused(path, directory, reach)
            await turn.pause()
        for path in sorted(paths.loose):
            for directory, reach in await in_thread(len(path), self._directories.reached_by, path):
                if reach is Reach.WITHIN:
                    raise _path_refused(path, directory, reach)
            await turn.pause()

    def _last_parts_of(self, parts: Parts) -> TableName | None:
        """A view that a name of one or two parts means in some database or catalog; None if there is none."""
        folded = tuple(part.lower() for part in parts)
        if len(folded) > 2 or folded[-1] not in self._catalog.view_words:
            return None
        return self._views().by_end.get(folded)

    def _check_database(self, database: str) -> None:
        if database == self._catalog.storage_database:
            raise NotAllowed(f"The database {database} holds the rows of materialized views. Drop the views instead.")
        if views := self._views().by_database.get(database):
            raise NotAllowed(
                f"The database {database} has materialized views: {', '.join(map(str, views[:5]))}. "
                f"Run DROP MATERIALIZED VIEW for each first."
            )

    def _views(self) -> _Views:
        if self._known.revision != self._catalog.revision:
            self._known = _Views.of(self._catalog)
        return self._known


def _in_session_catalog(database: Parts, namespace: Namespace) -> bool:
    """Whether a database belongs to Spark's own catalog; databases of other catalogs may be nested."""
    catalog = namespace.catalog if len(database) == 1 else database[-2]
    return catalog.lower() == SESSION_CATALOG


def _not_sure(storage: str) -> NotAllowed:
    return NotAllowed(
        f"The statement mentions the database {storage}, or runs in it, and may change it. This database holds the rows"
        f" of materialized views. Run the statement in another database, as a statement of its own that names what it "
        f"changes."
    )


def _storage_stays(storage: str) -> NotAllowed:
    return NotAllowed(f"The database {storage} holds the rows of materialized views and cannot be changed.")


def _write_to_storage(table: TableName) -> NotAllowed:
    return NotAllowed(
        f"{table} holds rows of a materialized view and is changed only by refreshes. "
        f"Change the view's base tables, or use REFRESH or DROP MATERIALIZED VIEW."
    )


def _path_refused(path: str, directory: Directory, reach: Reach) -> NotAllowed:
    relation = "lies in" if reach is Reach.WITHIN else "may contain or lead to"
    return NotAllowed(
        f"The path {path[:200]} {relation} {directory.location}, where rows of materialized views are stored; only "
        f"refreshes may write there. Use another path, and write all its directories out."
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
        f"Change these tables, or run REFRESH MATERIALIZED VIEW {view}."
    )
