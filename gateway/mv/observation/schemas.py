"""The schemas of base tables, and changes of them that may invalidate a definition."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

from gateway.errors import FreshgateError, StatementFailed
from gateway.mv.catalog.index import Catalog
from gateway.mv.model.view import MaterializedView, Schema, State
from gateway.mv.observation.look import Look
from gateway.mv.observation.relations import LISTED_SECONDS
from gateway.mv.ports import Metastore, RelationKind, Rows
from sql.mentioned import Mentioned
from sql.names import TableName
from sql.texts import maintenance

log = logging.getLogger(__name__)

KNOWN_MAX = 10_000
"""Tables whose schemas are remembered. Those that were not asked for the longest time are forgotten first."""
Columns = Sequence[tuple[str, str]]
"""Names, and types in Spark's JSON."""
_TEXTS = frozenset({"string", "char", "varchar"})


class Schemas:
    """Schemas of tables, cached for `interval` seconds or until a statement through the gateway changes them."""

    def __init__(self, catalog: Catalog, metastore: Metastore, interval_seconds: float = LISTED_SECONDS) -> None:
        self._catalog = catalog
        self._metastore = metastore
        self._interval = interval_seconds
        self._known: OrderedDict[TableName, tuple[float, Schema | None]] = OrderedDict()
        self._forgotten = 0
        """Increases whenever an answer that is under way may be outdated."""

    def forget(self, tables: Iterable[TableName]) -> None:
        """Forgets the schemas of these tables, because their columns may have changed."""
        self._forgotten += 1
        for table in tables:
            self._known.pop(table, None)

    def forget_all(self) -> None:
        """Forgets all schemas."""
        self._forgotten += 1
        self._known.clear()

    def forget_named(self, named: Mentioned) -> None:
        """Forgets the schemas of all tables that a statement may name, because it may change their columns."""
        self._forgotten += 1
        for table in [table for table in self._known if named.includes(table)]:
            del self._known[table]

    def differs(self, table: TableName, schema: Schema) -> bool:
        """Whether the table is known to have another schema than this one, or not to exist."""
        known = self._known.get(table)
        return known is not None and known[1] != schema

    def outdated(self, table: TableName) -> bool:
        """Whether the table would have to be described again."""
        known = self._known.get(table)
        return known is None or known[0] <= time.monotonic() - self._interval

    async def of(self, tables: Iterable[TableName]) -> dict[TableName, Schema | None]:
        """The schemas of the tables; None for a table that does not exist. Tables that cannot be described are left
        out."""
        found: dict[TableName, Schema | None] = {}

        async def ask(table: TableName) -> None:
            try:
                found[table] = await self._schema(table)
            except StatementFailed as error:
                # A table of another catalog may never be describable; its changes are not noticed here.
                log.info("%s cannot be described: %s", table, error)

        await asyncio.gather(*map(ask, tables))
        return found

    async def _schema(self, table: TableName) -> Schema | None:
        asked_at, asked_after = time.monotonic(), self._forgotten
        known = self._known.get(table)
        if known is not None and known[0] > asked_at - self._interval:
            self._known.move_to_end(table)
            return known[1]
        relation = await self._metastore.relation(table)
        schema = None
        if relation is not None:
            schema = Schema(relation.created, relation.columns, relation.kind is not RelationKind.TABLE)
        if known is not None and known[1] == schema:
            schema = known[1]  # Many proofs keep it.
        if asked_after == self._forgotten:
            self._known[table] = asked_at, schema
            self._known.move_to_end(table)
            if len(self._known) > KNOWN_MAX:
                self._known.popitem(last=False)
        return schema

    async def states(self, views: Iterable[MaterializedView]) -> dict[str, tuple[State, str]]:
        """The state of each view by id, and what has changed (Doris' SchemaChangeDetail)."""
        listed = list(views)
        today = await self._today(listed)
        found: dict[str, str] = {}
        return {view.id: self._state(view, today, found) for view in listed}

    async def _today(self, views: Iterable[MaterializedView]) -> dict[TableName, Schema | None]:
        """The schemas of what the views, and the views below them, read."""
        every = {below for view in views for below in self._catalog.reads(view.id)}
        entries = [entry for view_id in every if (entry := self._catalog.find(view_id)) is not None]
        return await self.of({table for entry in entries for table in entry.view.schemas})

    async def has_new_columns(self, view: MaterializedView) -> bool:
        """Whether a base table has columns that the last refresh did not see: `SELECT *` would include them today."""
        today = await self.of(view.schemas)
        return any(
            len(found.columns) > len(schema.columns)
            for table, schema in view.schemas.items()
            if (found := today.get(table)) is not None
        )

    async def changes(self, view: MaterializedView) -> str:
        """What has changed in the base tables since the last refresh; empty if nothing has. Never raises."""
        try:
            return self._changes(view, await self._today([view]), {})
        except FreshgateError:
            return ""

    def _state(
        self, view: MaterializedView, today: Mapping[TableName, Schema | None], found: dict[str, str]
    ) -> tuple[State, str]:
        if not view.built:
            return State.INIT, ""
        if (entry := self._catalog.find(view.id)) is not None and entry.changed_rows:
            return State.DAMAGED, entry.changed_rows
        if view.misread:
            return State.INIT, view.misread
        changes = self._changes(view, today, found)
        return (State.SCHEMA_CHANGE, changes) if changes else (State.NORMAL, "")

    def _changes(self, view: MaterializedView, today: Mapping[TableName, Schema | None], found: dict[str, str]) -> str:
        """`found` caches the changes of views by id."""
        if view.id in found:
            return found[view.id]
        found[view.id] = ""  # Ends the recursion. A view that reads itself cannot be refreshed.
        changes = [
            change
            for table, schema in sorted(view.schemas.items(), key=lambda item: item[0])
            if table in today
            for change in differences(table, schema, today[table])
        ]
        for base in sorted(view.views):
            known, entry = view.base_name(base), self._catalog.find(base)
            if entry is None:
                name = view.view_names.get(base)
                how = "replaced" if name is not None and self._catalog.named(name) else "dropped"
                changes.append(f"the materialized view {known} was {how}")
            elif known != str(entry.view.name):
                changes.append(f"the materialized view {known} was renamed to {entry.view.name}")
            elif entry.view.built and self._changes(entry.view, today, found):
                changes.append(f"the materialized view {known} is in {State.SCHEMA_CHANGE.value}")
        found[view.id] = "; ".join(changes)
        return found[view.id]


def schemas_seen(looks: Mapping[TableName, Look]) -> dict[TableName, Schema]:
    """The schemas of tables that exist and can be described, from observations. A path has no schema, and an earlier
    version of a table may have another one than today's."""
    return {
        table: Schema(look.relation.created, look.relation.columns, look.is_view)
        for table, look in looks.items()
        if look.relation is not None and not table.path and not table.aspect
    }


async def has_char(run: Callable[[str], Awaitable[Rows]], table: TableName, columns: Columns) -> bool:
    """Whether a column is of the type CHAR: Spark pads what a statement compares it with, as long as it is a column of
    the table. DESCRIBE tells this only of some tables, and AS JSON of none."""
    texts = [name for name, kind in columns if json.loads(kind).get("name") in _TEXTS]
    if not texts:
        return False
    return any(maintenance.PADS in str(row[0]) for row in (await run(maintenance.explained_padding(table, texts))).rows)


def differences(table: TableName, before: Schema, now: Schema | None) -> list[str]:
    """The changes because of which a definition that read the table may fail or mean something else. New columns are
    not among them."""
    kind = "view" if before.is_view else "table"
    if now is None:
        return [f"the {kind} {table} was dropped or renamed"]
    if not before.is_view and before.created != now.created:
        return [f"the table {table} was replaced by another table of that name"]
    types = {name.lower(): kind for name, kind in now.columns}
    changes = []
    for name, type_json in before.columns:
        today = types.get(name.lower())
        if today is None:
            changes.append(f"the column {name} of {table} was dropped or renamed")
        elif today != type_json:
            changes.append(
                f"the column {name} of {table} changed its type from {_type_name(type_json)} to {_type_name(today)}"
            )
    return changes


def _type_name(type_json: str) -> str:
    """The plain name of a simple type; otherwise Spark's JSON of it."""
    kind = json.loads(type_json)
    if kind.get("name") == "decimal":
        return f"decimal({kind.get('precision')},{kind.get('scale')})"
    simple = set(kind) <= {"name", "length", "collation"}
    return str(kind["name"]) if simple and "name" in kind else type_json
