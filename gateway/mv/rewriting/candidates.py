"""The views that take part in rewriting, with what comparing their definitions with queries needs."""

from __future__ import annotations

import json

from gateway.mv.catalog.index import Catalog
from gateway.mv.model.view import MaterializedView, Schema
from gateway.mv.observation.schemas import Schemas
from sql.definition.bases import bases
from sql.grammar import view_properties
from sql.names import TableName
from sql.rewriting.candidate import RewritableView
from sql.rewriting.view_index import ViewIndex

_SQL_TYPES = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}
"""Types that Spark's JSON calls otherwise than its SQL."""


class Candidates:
    """The built views that take part. What a refresh or a statement changes about them is noticed by the catalog's
    revision."""

    def __init__(self, catalog: Catalog, schemas: Schemas) -> None:
        self._catalog = catalog
        self._schemas = schemas
        self._words: tuple[int, frozenset[str]] = -1, frozenset()
        self._index: tuple[int, ViewIndex] = -1, ViewIndex()
        self._described: dict[TableName, Schema] = {}
        """The views, and the tables that they read, when the index was made."""

    @property
    def words(self) -> frozenset[str]:
        """The names of the tables that their definitions read. A text with none of these concerns none of them."""
        if self._words[0] != self._catalog.revision:
            names = frozenset(table.table for view in self._taking_part() for table in _named_in(view))
            self._words = self._catalog.revision, names
        return self._words[1]

    async def index(self) -> ViewIndex:
        """Raises FreshgateError if Spark cannot describe a view."""
        revision = self._catalog.revision
        if self._index[0] != revision:
            views = self._taking_part()
            described = await self._schemas.of({view.name for view in views}.union(*map(_named_in, views)))
            self._described = {name: schema for name, schema in described.items() if schema is not None}
            self._index = revision, ViewIndex(self._rewritable(view) for view in views if view.name in self._described)
        return self._index[1]

    def columns_of(self, table: TableName) -> tuple[str, ...] | None:
        """The columns of a table that a view reads; None for another one."""
        found = self._described.get(table)
        return None if found is None else tuple(name for name, _ in found.columns)

    def _rewritable(self, view: MaterializedView) -> RewritableView:
        columns = self._described[view.name].columns
        return RewritableView(
            name=view.name,
            columns=tuple(name for name, _ in columns),
            types=tuple(_sql_type(kind) for _, kind in columns),
            query=view.query,
            namespace=view.namespace,
            bases={table: found for table in _named_in(view) if (found := self.columns_of(table)) is not None},
        )

    def _taking_part(self) -> list[MaterializedView]:
        return [view for view in self._catalog.views() if view_properties.rewrite_enabled(view.properties)]


def _named_in(view: MaterializedView) -> tuple[TableName, ...]:
    """The tables and views that the definition names; a query must name them, too."""
    return bases(view.query, view.namespace).relations


def _sql_type(written: str) -> str:
    """The SQL of a type in Spark's JSON; of a nested one only its kind, because nothing is cast to it."""
    kind = json.loads(written)
    return _SQL_TYPES.get(kind, str(kind)) if isinstance(kind, str) else str(kind.get("type", ""))
