"""What the name of a relation means: a materialized view, a Spark view with what it reads, or a table.

Spark views are found by listing the views of the databases that statements mention, one metastore call for each
database, and by reading the text of each view that a statement mentions. Both are cached for `interval` seconds; a
change that passes through the gateway invalidates them at once. SQL functions are handled in the same way, because
their bodies may read tables as well.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Set
from dataclasses import dataclass, field, replace
from functools import partial

from gateway.loops import in_thread
from gateway.mv.catalog import naming
from gateway.mv.catalog.index import Catalog
from gateway.mv.ports import Metastore, RelationKind
from sql.definition.bases import Bases, bases, of_expression
from sql.definition.functions import READERS
from sql.names import FUNCTION, SESSION_CATALOG, Namespace, TableName
from sql.texts import public_view
from sql.words import Words

LISTED_SECONDS = 30.0
"""How long a list of a database's Spark views is used. Views created through the gateway are known at once; this limits
the delay for those created elsewhere."""


@dataclass(frozen=True, slots=True)
class Sources:
    """The sources that reading a relation reads in the end.

    `tables` are tables, paths, and the Spark views and functions on the way; `views` are ids of materialized views.
    """

    tables: frozenset[TableName] = frozenset()
    views: frozenset[str] = frozenset()

    def __or__(self, other: Sources) -> Sources:
        return Sources(self.tables | other.tables, self.views | other.views)


@dataclass(slots=True)
class _Database:
    views: frozenset[str]
    listed_at: float
    functions: frozenset[str] = frozenset()
    sources: dict[TableName, Sources] = field(default_factory=dict)
    """What the texts of views and functions that were asked for read."""


class Relations:
    """Maps names to sources, and caches what is known about Spark views for this."""

    def __init__(
        self,
        catalog: Catalog,
        metastore: Metastore,
        interval_seconds: float = LISTED_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._catalog = catalog
        self._metastore = metastore
        self._interval = interval_seconds
        self._clock = clock
        self._databases: dict[str, _Database] = {}
        self._listings: dict[str, asyncio.Task[None]] = {}
        self._names: frozenset[str] = frozenset()
        self._names_at = float("-inf")
        self._forgotten = 0
        """Increases whenever a running listing may miss something."""
        self._moved = 0
        """Increases whenever a name that is being resolved may change its meaning."""
        self.view_words: frozenset[str] = frozenset()
        """The names, without databases, of the Spark views and functions in the known databases."""

    def known(self, current: str, words: Words) -> bool:
        """Whether the current database and each database in `words` were listed recently."""
        oldest = self._clock() - self._interval
        if self._names_at < oldest:
            return False
        for name in (current, *(words & self._names)):
            database = self._databases.get(name)
            if name and (database is None or database.listed_at < oldest):
                return False
        return True

    async def learn(self, current: str, words: Words) -> None:
        """Lists what is unknown or outdated, so that `known` is true unless something was forgotten meanwhile.

        Concurrent callers share the calls.
        """
        if self._names_at < self._clock() - self._interval:
            await self._shared("", self._list_databases)
        oldest = self._clock() - self._interval
        for name in (current, *(words & self._names)):
            database = self._databases.get(name)
            if name and (database is None or database.listed_at < oldest):
                await self._shared(name, partial(self._list_views, name))

    def forget(self, database: str) -> None:
        """Invalidates a database in which a view may have changed, or the database itself. Its names are kept for
        statements that have already asked for them, and listed again for later ones."""
        self._forgotten += 1
        if (known := self._databases.get(database)) is not None:
            known.listed_at = float("-inf")
        self._listings.clear()
        self._names_at = float("-inf")
        self.forget_sources()

    def forget_lists(self) -> None:
        """Has each database listed again when it is mentioned next: a definition is kept with what it reads, so what
        another program has just created must be known."""
        for known in self._databases.values():
            known.listed_at = float("-inf")
        self._forgotten += 1
        self._listings.clear()
        self._names_at = float("-inf")
        self.forget_sources()

    def is_listed(self, view: TableName) -> bool:
        """Whether this was a Spark view when the views of its database were listed."""
        known = self._databases.get(view.database)
        return known is not None and view.table in known.views

    def forget_sources(self, _: Iterable[TableName] = ()) -> None:
        """Forgets what names mean, after a materialized view or a Spark view was created or dropped."""
        self._moved += 1
        for known in self._databases.values():
            known.sources.clear()

    async def sources(self, name: TableName) -> Sources:
        """The sources of `name`. A name that does not exist counts as a table."""
        return await self._sources(name, frozenset())

    def called(self, names: Set[tuple[str, ...]]) -> Iterator[TableName]:
        """The known Spark views and functions, in any database, that these names of one or two parts may mean."""
        words = {parts[-1] for parts in names}
        for name, database in self._databases.items():
            found = [TableName(name, view) for view in database.views & words]
            found += (TableName(name, called, aspect=FUNCTION) for called in database.functions & words)
            yield from (each for each in found if not names.isdisjoint(each.ends))

    async def sources_of(self, names: Iterable[TableName]) -> Sources:
        tables: set[TableName] = set()
        views: set[str] = set()
        for name in names:
            found = await self.sources(name)
            tables |= found.tables
            views |= found.views
        return Sources(frozenset(tables), frozenset(views))

    async def shows(self, name: TableName, storage: TableName) -> bool:
        """Whether the public view of a name shows a storage table."""
        return await naming.published(self._metastore, name, storage) is not None

    async def texts(self, names: Iterable[TableName]) -> list[str]:
        """The texts of those of the names that are Spark views."""
        views = [name for name in names if name.catalog == SESSION_CATALOG and name.table in self.view_words]
        found = [await self._metastore.relation(name) for name in views]
        return [each.view_text for each in found if each is not None and each.kind is RelationKind.VIEW]

    async def _sources(self, name: TableName, above: frozenset[TableName]) -> Sources:
        if name in above or name.path:
            return Sources(frozenset({name}))
        if name.is_function:
            return await self._sources_of_function(name, above)
        whole = name.whole
        view = self._catalog.named(whole)
        if view is not None:
            return Sources(views=frozenset({view.id}))
        if name.catalog != SESSION_CATALOG:
            return Sources(frozenset({name}))
        database = await self._database(name.database)
        if database is None or name.table not in database.views:
            return Sources(frozenset({name}))
        return await self._remembered(database, whole, partial(self._read_view, whole, above | {whole}))

    async def _sources_of_function(self, name: TableName, above: frozenset[TableName]) -> Sources:
        """The sources of a function that a text may call, including itself; none if there is no such function."""
        if name.table in READERS:
            return Sources(frozenset({name}))
        if name.catalog != SESSION_CATALOG:
            # Spark's own functions, and those of a table catalog (lake.system.bucket).
            return Sources() if "system" in (name.catalog, name.database) else Sources(frozenset({name}))
        database = await self._database(name.database)
        if database is None or name.table not in database.functions:
            return Sources()
        return await self._remembered(database, name, partial(self._read_function, name, above | {name}))

    async def _database(self, name: str) -> _Database | None:
        """None if there is no such database: not every dotted pair of words names a table."""
        await self.learn("", frozenset())
        await self.learn(name if name in self._names else "", frozenset())
        return self._databases.get(name)

    async def _remembered(
        self, database: _Database, name: TableName, read: Callable[[], Coroutine[None, None, Sources]]
    ) -> Sources:
        known = database.sources.get(name)
        if known is None:
            asked_after = self._moved
            known = await read()
            if asked_after == self._moved:
                database.sources[name] = known
        return known

    async def _read_view(self, name: TableName, above: frozenset[TableName]) -> Sources:
        relation = await self._metastore.relation(name)
        found = Sources(frozenset({name}))
        if relation is None or relation.kind is not RelationKind.VIEW:
            return found
        shown = public_view.read_published(relation.view_text)
        if shown is not None and (entry := self._catalog.find(shown[0].table)) is not None and entry.drafted:
            # It may be the view's name: the one that the draft says may be an earlier one.
            return found | Sources(views=frozenset({entry.view.id}))
        text = await in_thread(len(relation.view_text), bases, relation.view_text, relation.namespace)
        return found | await self._sources_of_text(text, above)

    async def _read_function(self, name: TableName, above: frozenset[TableName]) -> Sources:
        function = await self._metastore.function(name)
        found = Sources(frozenset({name}))
        if function is None or not function.body:
            return found
        read = bases if function.is_query else of_expression
        body = await in_thread(len(function.body), read, function.body, function.namespace)
        # Spark resolves a function without a database in the database of the caller.
        elsewhere = {
            replace(called, database=database)
            for called in body.functions
            if called.database == function.namespace.database
            for database, known in self._databases.items()
            if called.table in known.functions
        }
        found |= await self._sources_of_text(body, above)
        for called in elsewhere - above:
            found |= await self._sources(called, above)
        return found

    async def _sources_of_text(self, text: Bases, above: frozenset[TableName]) -> Sources:
        found = Sources()
        for name in (*text.relations, *text.functions):
            found |= await self._sources(name, above)
        return found

    async def _shared(self, key: str, work: Callable[[], Coroutine[None, None, None]]) -> None:
        """Runs one listing for all concurrent callers."""
        task = self._listings.get(key)
        if task is None:
            task = asyncio.ensure_future(work())
            self._listings[key] = task
            task.add_done_callback(partial(self._listed, key))
        await asyncio.shield(task)

    def _listed(self, key: str, task: asyncio.Future[None]) -> None:
        if self._listings.get(key) is task:
            del self._listings[key]
        if not task.cancelled():
            task.exception()  # Marks it as retrieved: every caller may have been cancelled.

    async def _list_databases(self) -> None:
        asked_at, asked_after = self._clock(), self._forgotten
        names = await self._metastore.databases()
        if asked_after == self._forgotten:
            self._names, self._names_at = names, asked_at
        else:
            # Good enough for the callers that have waited for it; the next one asks again.
            self._names |= names

    async def _list_views(self, database: str) -> None:
        asked_at, asked_after = self._clock(), self._forgotten
        views, functions = await asyncio.gather(self._metastore.views(database), self._metastore.functions(database))
        if asked_after == self._forgotten:
            self._databases[database] = _Database(views, asked_at, functions)
        else:
            # As in `_list_databases`. A listing that began later may have ended earlier.
            known = self._databases.setdefault(database, _Database(frozenset(), float("-inf")))
            known.views |= views
            known.functions |= functions
        self._reindex()

    def _reindex(self) -> None:
        found = self._databases.values()
        self.view_words = frozenset(name for database in found for name in database.views | database.functions)


async def definition_reads(query: str, namespace: Namespace) -> tuple[TableName, ...]:
    """The relations that a definition names, and the functions that it may call."""
    found = await in_thread(len(query), bases, query, namespace)
    return (*found.relations, *found.functions)
