"""The views that take part in rewriting, with what comparing their definitions with queries needs."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from gateway.loops import Turn
from gateway.mv.catalog.index import Catalog
from gateway.mv.model.view import MaterializedView, Schema
from gateway.mv.observation.schemas import Schemas, sql_type
from sql.definition.bases import bases
from sql.grammar import view_properties
from sql.names import TableName
from sql.rewriting.candidate import RewritableView
from sql.words import Words

READ_AT_ONCE = 20
"""Definitions that are read while one statement waits; one takes a millisecond at most."""


class Candidates:
    """The built views that take part. The catalog's revision changes with whatever a statement changes about them; the
    definition of a view never changes."""

    def __init__(self, catalog: Catalog, schemas: Schemas) -> None:
        self._catalog = catalog
        self._schemas = schemas
        self._revision = -1
        """The catalog's, when the views were taken over."""
        self._named: dict[str, tuple[TableName, ...]] = {}
        """By their ids, the tables and views that the definitions name; a query must name them, too."""
        self._unread: list[MaterializedView] = []
        """Views whose definitions are not read yet."""
        self._words = frozenset[str]()
        self._described: dict[TableName, Schema] = {}
        """Views, and the tables that they name, when a query was compared with them."""

    @property
    def words(self) -> frozenset[str]:
        """The names of the tables that their definitions name. A text with none of these concerns none of them."""
        self._advance()
        return self._words

    async def sharing(self, named: Collection[TableName]) -> list[tuple[MaterializedView, list[TableName]]]:
        """The views whose definitions name one of these tables, each with those that it names besides."""
        await self._read_all()
        found = [
            (entry.view, [table for table in tables if table not in named])
            for each, tables in self._named.items()
            if any(table in named for table in tables) and (entry := self._catalog.find(each)) is not None
        ]
        return sorted(found, key=lambda each: each[0].name)

    async def fitting(self, words: Words) -> list[RewritableView]:
        """The views of which a text mentions every table; `words` are those of the text. Raises FreshgateError if Spark
        cannot describe them."""
        await self._read_all()
        found = [(view, named) for each, named in self._named.items() if (view := self._fits(each, named, words))]
        names = {view.name for view, _ in found}.union(*(named for _, named in found))
        described = {name: schema for name, schema in (await self._schemas.of(names)).items() if schema is not None}
        self._described |= described
        return [_rewritable(view, named, described) for view, named in found if view.name in described]

    def columns_of(self, table: TableName) -> tuple[str, ...] | None:
        """The columns of a table that a view names; None for another one."""
        found = self._described.get(table)
        return None if found is None else _names(found)

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
            self._described = {}
            self._note_words()
        if self._unread:
            for view in self._unread[-READ_AT_ONCE:]:
                self._named[view.id] = bases(view.query, view.namespace).relations
            del self._unread[-READ_AT_ONCE:]
            self._note_words()

    def _note_words(self) -> None:
        self._words = frozenset(table.table for named in self._named.values() for table in named)

    def _fits(self, view_id: str, named: tuple[TableName, ...], words: Words) -> MaterializedView | None:
        if not named or not all(table.table in words for table in named):
            return None
        entry = self._catalog.find(view_id)
        return None if entry is None else entry.view


def _rewritable(
    view: MaterializedView, named: tuple[TableName, ...], described: Mapping[TableName, Schema]
) -> RewritableView:
    columns = described[view.name].columns
    return RewritableView(
        name=view.name,
        columns=tuple(name for name, _ in columns),
        types=tuple(sql_type(kind) for _, kind in columns),
        query=view.query,
        namespace=view.namespace,
        bases={table: _names(described[table]) for table in named if table in described},
    )


def _names(schema: Schema) -> tuple[str, ...]:
    return tuple(name for name, _ in schema.columns)
