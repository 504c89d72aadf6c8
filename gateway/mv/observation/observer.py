"""Observes base tables, remembers the last observation of each, and shares observations among callers.

How depends on the format of a table (`formats`). All looks are statements in service sessions.

Tests: `test_observation`, `test_looks`.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import (
    Awaitable,
    Callable,
    Iterable,
    Mapping,
)
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Final

from gateway.errors import FreshgateError, UpstreamLost
from gateway.mv.formats.known_formats import Formats, format_of
from gateway.mv.formats.listings import LOOK_SECONDS, Listings
from gateway.mv.formats.table_format import Tools
from gateway.mv.model.snapshot import GONE, Observed, Snapshot, Unobserved, fingerprint
from gateway.mv.observation.look import Look
from gateway.mv.ports import Function, Metastore, Relation, RelationKind, ServiceSessions, SqlSession
from gateway.mv.subscribers import Subscribers
from sql.names import FUNCTION, TableName


@dataclass(frozen=True, slots=True)
class _Observed:
    """An observation, and the number of the last touch of any table before it began."""

    look: Look
    touch: int

    def serves(self, not_before: float, touch: int) -> bool:
        return self.look.began >= not_before and self.touch >= touch


class Observer:
    """Observes base tables. Concurrent callers share observations, and the last one of each table is remembered.

    The sessions have the settings that make listings cheap (`LISTING_SETTINGS`).
    """

    def __init__(
        self,
        metastore: Metastore,
        sessions: ServiceSessions,
        look_seconds: float = LOOK_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._metastore = metastore
        self._clock = clock
        self._tools = Tools(Listings(sessions, look_seconds))
        self.formats: Final = Formats(self._tools)
        self._known: dict[TableName, _Observed] = {}
        self._running: dict[TableName, asyncio.Task[_Observed]] = {}
        self._touches = 0
        self._touched: dict[TableName, int] = {}
        self.looked: Subscribers[[TableName]] = Subscribers()
        """An observation of this table has ended."""

    async def observe(self, tables: Iterable[TableName], not_before: float) -> dict[TableName, Look]:
        """An observation of each table that began at or after `not_before` and after the table's last touch. A table
        that cannot be observed is Unobserved; never raises FreshgateError."""
        names = list(dict.fromkeys(tables))
        looks = await asyncio.gather(*(self._shared(name, not_before) for name in names))
        return dict(zip(names, looks, strict=True))

    def due(self, tables: Iterable[TableName], not_before: float) -> bool:
        """Whether `observe` would have to ask Spark."""
        return any(self._remembered(table, not_before, self._touched.get(table, 0)) is None for table in tables)

    def last(self, table: TableName, not_before: float = float("-inf")) -> Look | None:
        """The last observation, if it began then or later, and no statement may have changed the table since."""
        return self._remembered(table, not_before, self._touched.get(table, 0))

    def is_newer(self, tables: Iterable[TableName], compared: Mapping[TableName, float]) -> bool:
        """Whether another observation of one of the tables is known than the one that began as `compared` says."""
        return any(
            (known := self._known.get(table)) is not None and known.look.began != compared.get(table)
            for table in tables
        )

    def touch(self, tables: Iterable[TableName]) -> None:
        """Invalidates earlier observations of these tables, because a statement may have changed them. Most tables that
        are written have none."""
        for table in tables:
            # For a function, a touch may be the only sign that it was replaced.
            if table in self._known or table in self._running or table.is_function:
                self._touches += 1
                self._touched[table] = self._touches

    def seed(self, table: TableName, snapshot: Snapshot) -> None:
        """Adds a stored earlier observation, from which the next one continues. Of several, the best is kept: one that
        has the states of partitions, then the latest."""
        known = self._tools.last.get(table)
        if known is None or _rank(snapshot) > _rank(known):
            self._tools.last[table] = snapshot

    @property
    def listings(self) -> Listings:
        """Lists files, also for looks at other things than base tables."""
        return self._tools.listings

    def session(self) -> AbstractAsyncContextManager[SqlSession]:
        """A session for looks, as `Listings.session`."""
        return self.listings.session()

    def size(self, table: TableName) -> int | None:
        """The bytes of the table's files at the last observation; None if they were not listed."""
        return self._tools.sizes.get(table)

    def relation(self, table: TableName) -> Relation | None:
        """The table as the last observation found it; None if there is none, or no table."""
        known = self._known.get(table)
        return known.look.relation if known is not None else None

    def forget(self, tables: Iterable[TableName]) -> None:
        """Forgets tables that no view reads any longer. A table that is being observed is kept; `looked` tells when
        that has ended."""
        for table in frozenset(tables) - self._running.keys():
            self._known.pop(table, None)
            self._touched.pop(table, None)
            self.formats.forget(table)

    async def _described(self, table: TableName) -> tuple[Relation | None, Relation | None, Awaitable[Observed]]:
        """As `_relations`, with the state. If the format allows it, a look begins while Spark describes the table:
        mostly it is what it was at the last look."""
        known = self._known.get(table)
        before = known.look.relation if known is not None else None
        format_ = self.formats.of(before) if before is not None else None
        expected = format_.expected(before) if format_ is not None and before is not None else None
        if expected is None:
            relation, root = await self._relations(table)
            return relation, root, self._observed(table, relation, root)
        listing = asyncio.ensure_future(self._observed(table, expected, None))
        try:
            relation, root = await self._relations(table, identify=bool(expected.created))
        except BaseException:  # Also on cancellation: nobody waits for the listing any more.
            await _stopped(listing)
            raise
        if relation == expected:
            return relation, root, listing
        await _stopped(listing)
        return relation, root, self._observed(table, relation, root)

    async def _relations(self, table: TableName, *, identify: bool = True) -> tuple[Relation | None, Relation | None]:
        """The relation of this name; and, if it is that of a part of another table, that table.
        `identify`: as in `Metastore.relation`."""
        if table.path:
            return Relation(table, RelationKind.TABLE, provider=table.database, location=table.path), None
        relation = await self._metastore.relation(table.whole, identify=identify)
        found = None if relation is None else format_of(relation)
        if found is None or not found.has_parts or (above := table.above) is None:
            return relation, None
        root = await self._metastore.relation(above)
        return relation, root if root is not None and format_of(root) is found else None

    async def _observed(self, table: TableName, relation: Relation | None, root: Relation | None) -> Observed:
        if relation is None:
            return GONE
        if relation.kind is RelationKind.VIEW:
            return _view(relation)
        found = self.formats.of(relation)
        if found is None:
            return Unobserved(f"{table}: temporary views cannot be observed")
        return await found.look(table, relation, root)

    def _function(self, name: TableName, function: Function | None, touch: int) -> Observed:
        """Only the class name of a function that is implemented by a class is visible. So a statement that has
        recreated it, perhaps with another archive, counts as a change."""
        if function is None:
            return GONE
        anew = self._touched.get(name, 0) if not function.body else 0
        return Snapshot(FUNCTION, fingerprint(function.described) + (f"+{min(anew, touch)}" if anew else ""))

    def _remembered(self, table: TableName, not_before: float, touch: int) -> Look | None:
        known = self._known.get(table)
        return known.look if known is not None and known.serves(not_before, touch) else None

    async def _shared(self, table: TableName, not_before: float) -> Look:
        # Callers cannot ask for a future observation, and do not wait for later touches.
        not_before, touch = min(not_before, self._clock()), self._touched.get(table, 0)
        while True:
            look = self._remembered(table, not_before, touch)
            if look is not None:
                return look
            task = self._running.get(table)
            if task is None:
                task = self._running[table] = asyncio.create_task(self._look(table))
            # A cancelled caller does not cancel the shared observation.
            known = await asyncio.shield(task)
            if known.serves(not_before, touch):
                return known.look

    async def _look(self, table: TableName) -> _Observed:
        # The last touch of any table, not of this one: this table's may have been forgotten since.
        began, touch = self._clock(), self._touches
        relation: Relation | None = None
        root: Relation | None = None
        function: Function | None = None
        observed: Observed
        remember = True
        try:
            if table.is_function:
                function = await self._metastore.function(table)
                observed = self._function(table, function, touch)
            else:
                relation, root, state = await self._described(table)
                observed = await state
                if relation is not None and (found := self.formats.of(relation)) is not None:
                    relation = found.identified(table, relation)
        except UpstreamLost as error:
            # Spark will soon be back; the next caller tries again.
            observed, remember = Unobserved(str(error)), False
        except (FreshgateError, ValueError) as error:
            observed = Unobserved(str(error))
        except TimeoutError:
            observed = Unobserved(f"{table}: observing it took longer than {self.listings.look_seconds:g} seconds")
        finally:
            del self._running[table]
        is_view = relation is not None and relation.kind is not RelationKind.TABLE
        known = _Observed(Look(observed, began, is_view, relation, function, root.name if root else None), touch)
        if remember:
            self._known[table] = known
        else:
            self._known.pop(table, None)
        self.looked.tell(table)
        return known


def _rank(snapshot: Snapshot) -> tuple[bool, int, bool]:
    position = int(snapshot.position) if snapshot.position.isdigit() else -1
    return bool(snapshot.default), position, bool(snapshot.partitions)


async def _stopped(task: asyncio.Future[Observed]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def _view(relation: Relation) -> Snapshot:
    """The snapshot of a view's own definition. Its tables are observed separately."""
    namespace = relation.namespace
    columns = json.dumps(relation.columns)
    state = fingerprint(relation.view_text, namespace.catalog, namespace.database, columns, relation.reading)
    return Snapshot("view", state)
