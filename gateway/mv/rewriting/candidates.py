"""The views that take part in rewriting, with what comparing their definitions with queries needs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from gateway.loops import Turn
from gateway.mv.catalog.index import Catalog
from gateway.mv.model.spark_types import sql_type
from gateway.mv.model.view import MaterializedView, Schema
from gateway.mv.observation.schemas import Schemas
from gateway.mv.rewriting.observed_keys import VersionKeys
from sql.definition.bases import bases
from sql.grammar import view_properties
from sql.names import TableName
from sql.rewriting.candidate import RewritableView
from sql.table_keys import NOTHING_KNOWN, TableKeys
from sql.words import Words

READ_AT_ONCE = 20
"""Definitions that are read while one statement waits; one takes a millisecond at most."""


@dataclass(frozen=True, slots=True)
class Participant:
    """A view that takes part, with what may change about it. Its definition never changes."""

    name: TableName
    properties: Mapping[str, str]
    schemas: Mapping[TableName, Schema]
    """The base tables, as the last refresh saw them. A refresh may see other columns, or other tables of the same
    names: a statement that bypassed the gateway may have changed them."""
    refreshed_as: str = ""
    """The user whose rows are stored: it is proved that the reader is shown the same."""

    @classmethod
    def of(cls, view: MaterializedView) -> Participant:
        return cls(view.name, view.properties, view.schemas, view.refreshed_as)

    def is_still(self, view: MaterializedView) -> bool:
        return self == self.of(view)


class ViewKeys(Protocol):
    """See ObservedKeys."""

    async def observe(self, view: MaterializedView) -> None: ...

    def known(self, view: MaterializedView) -> VersionKeys: ...


class NoKeys:
    """Implements ViewKeys: nothing holds."""

    async def observe(self, view: MaterializedView) -> None:
        return

    def known(self, view: MaterializedView) -> VersionKeys:
        return VersionKeys(view.current.number, NOTHING_KNOWN)


NOTHING = NoKeys()
Participants = Mapping[str, Participant]
"""By the views' ids."""


class Candidates:
    """The built views that take part. The catalog's revision changes with whatever a statement changes about them; the
    definition of a view never changes."""

    def __init__(self, catalog: Catalog, schemas: Schemas, keys: ViewKeys = NOTHING) -> None:
        self._catalog = catalog
        self._schemas = schemas
        self._keys = keys
        self._revision = -1
        """The catalog's, when the views were taken over."""
        self._named: dict[str, tuple[TableName, ...]] = {}
        """By their ids, the tables and views that the definitions name; a query must name them, too."""
        self._naming: dict[TableName, list[str]] = {}
        """By such a table, the ids of the views."""
        self._unread: list[MaterializedView] = []
        """Views whose definitions are not read yet."""
        self._words = frozenset[str]()

    def keys(self, view: MaterializedView) -> VersionKeys:
        """What holds of the rows of the view's base tables in the state that it shows."""
        return self._keys.known(view)

    @property
    def words(self) -> frozenset[str]:
        """The names of the tables that their definitions name. A text with none of these concerns none of them."""
        self._advance()
        return self._words

    async def sharing(self, named: Collection[TableName]) -> list[tuple[MaterializedView, list[TableName]]]:
        """The views whose definitions name one of these tables, or such a view, each with what it names besides."""
        views = sorted(await self._of(named), key=lambda view: view.name)
        known = {*named, *(view.name for view in views)}
        return [(view, [table for table in self._named[view.id] if table not in known]) for view in views]

    async def participants(self, sources: Collection[TableName]) -> Participants:
        """The views whose definitions name one of these relations: no others can answer a query that reads these. And
        the materialized views among them."""
        views = await self._of(sources)
        views += [view for name in sources if (view := self._catalog.named(name)) is not None]
        return {view.id: Participant.of(view) for view in views}

    async def fitting(self, words: Words) -> list[RewritableView]:
        """The views of which a text mentions every table, or some of those that keys join, and the views of these;
        `words` are those of the text. Raises FreshgateError if Spark cannot describe them."""
        await self._read_all()
        mentioned = [(view, named) for each, named in self._named.items() if (view := self._fits(each, named, words))]
        mentioned += self._above(mentioned)
        for view, _ in mentioned:
            await self._keys.observe(view)
        known = {view.name for view, _ in mentioned}
        found = [(view, named) for view, named in mentioned if self._has_all(view, named, words, known)]
        described = await self.schemas({view.name for view, _ in found}.union(*(named for _, named in found)))
        return [
            _rewritable(view, named, described, self._keys.known(view).keys)
            for view, named in found
            if view.name in described
        ]

    async def schemas(self, tables: Iterable[TableName]) -> dict[TableName, Schema]:
        """The schemas of those of the tables and views that exist and can be described. Raises FreshgateError."""
        return {table: schema for table, schema in (await self._schemas.of(tables)).items() if schema is not None}

    def changed(self, schemas: Mapping[TableName, Schema]) -> bool:
        """Whether one of the tables is known to have another schema by now."""
        return any(self._schemas.differs(table, schema) for table, schema in schemas.items())

    def outdated(self, schemas: Mapping[TableName, Schema]) -> bool:
        """Whether one of the tables was described too long ago."""
        return any(map(self._schemas.outdated, schemas))

    async def _of(self, named: Iterable[TableName]) -> list[MaterializedView]:
        """The views whose definitions name one of these relations, and the views of these."""
        await self._read_all()
        found: dict[str, MaterializedView] = {}
        waiting = list(named)
        for table in waiting:
            for each in self._naming.get(table, ()):
                if each not in found and (entry := self._catalog.find(each)) is not None:
                    found[each] = entry.view
                    waiting.append(entry.view.name)
        return list(found.values())

    async def _read_all(self) -> None:
        turn = Turn()
        self._advance()
        while self._unread:
            await turn.pause()
            self._advance()

    def _advance(self) -> None:
        """Takes over what the catalog holds now, and reads some definitions: a gateway that starts with thousands of
        views must not stop for them."""
        if self._revision != self._catalog.revision:
            self._revision = self._catalog.revision
            views = [view for view in self._catalog.views() if view_properties.rewrite_enabled(view.properties)]
            self._named = {view.id: self._named[view.id] for view in views if view.id in self._named}
            self._unread = [view for view in views if view.id not in self._named]
            self._index()
        if self._unread:
            for view in self._unread[-READ_AT_ONCE:]:
                self._named[view.id] = bases(view.query, view.namespace).relations
            del self._unread[-READ_AT_ONCE:]
            self._index()

    def _index(self) -> None:
        self._naming = {}
        for view_id, named in self._named.items():
            for table in named:
                self._naming.setdefault(table, []).append(view_id)
        self._words = frozenset(table.table for table in self._naming)

    def _fits(self, view_id: str, named: tuple[TableName, ...], words: Words) -> MaterializedView | None:
        if not any(table.table in words for table in named):
            return None
        entry = self._catalog.find(view_id)
        return None if entry is None else entry.view

    def _above(
        self, below: Sequence[tuple[MaterializedView, tuple[TableName, ...]]]
    ) -> list[tuple[MaterializedView, tuple[TableName, ...]]]:
        """The views of these views, with what they name, that the text does not mention."""
        seen, waiting = {view.id for view, _ in below}, [view.name for view, _ in below]
        found: list[tuple[MaterializedView, tuple[TableName, ...]]] = []
        for name in waiting:
            for each in self._naming.get(name, ()):
                if each not in seen and (entry := self._catalog.find(each)) is not None:
                    seen.add(each)
                    found.append((entry.view, self._named[each]))
                    waiting.append(entry.view.name)
        return found

    def _has_all(
        self, view: MaterializedView, named: tuple[TableName, ...], words: Words, known: Collection[TableName]
    ) -> bool:
        """Whether the text mentions each relation that the view names, or it is one of the views that are known."""
        return bool(self._keys.known(view).keys) or all(table.table in words or table in known for table in named)


def _rewritable(
    view: MaterializedView,
    named: tuple[TableName, ...],
    described: Mapping[TableName, Schema],
    keys: Mapping[TableName, TableKeys],
) -> RewritableView:
    columns = described[view.name].columns
    return RewritableView(
        name=view.name,
        columns=tuple(name for name, _ in columns),
        types=tuple(sql_type(kind) for _, kind in columns),
        query=view.query,
        namespace=view.namespace,
        bases={table: described[table].names for table in named if table in described},
        keys=keys,
    )
