"""Loads one version of a view, or a base table, into the engine: a query of Spark for its rows.

Tests: `test_residency`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, suppress
from dataclasses import dataclass, field
from typing import Protocol, Self

from gateway.mv.freshness.entry import Entry
from gateway.mv.memory.version_changes import version_changes
from gateway.mv.model.view import MaterializedView, Version, base_key
from gateway.mv.observation.inspection import Inspection
from gateway.mv.observation.look import Look
from gateway.mv.observation.storage_looks import StorageLooks
from gateway.mv.ports import KeptRows, LoadedTable, MemoryUnavailable, RowEngine, RowPages, SqlSession
from gateway.mv.versions.readers import Readers
from gateway.tally import LONG_SECONDS, Histogram
from sql.memory import row_lines
from sql.memory.columns import ColumnFacts, MemoryColumn
from sql.names import TableName, quote
from sql.texts import maintenance, public_view

PAGE_ROWS = 20_000
LOAD_OUTCOMES = ("loaded", "changed", "not_held", "failed", "cancelled")
REPLACED, LOST = "replaced", "lost"
UNKNOWN_TEXT = "text"
"""The reason of MemoryUnavailable for strings that Spark does not tell exactly."""


class StartedEngine(RowEngine, Protocol):
    """An engine in a process of its own."""

    async def start(self) -> None:
        """Starts it, once. Raises MemoryUnavailable: then it was not started."""
        ...

    async def stop(self) -> None:
        """Ends it, and everything in its memory."""
        ...


class LoadSession(SqlSession, RowPages, Protocol):
    """A session for short statements, and for rows."""


class LoadSessions(Protocol):
    """Lends sessions of the gateway's service user."""

    def session(self) -> AbstractAsyncContextManager[LoadSession]: ...


class NotHeld(Exception):
    """The rows of this version cannot be in memory, however often it is tried. The message says why, for people."""


@dataclass(slots=True)
class MemoryCounts:
    """Counts since the start."""

    loads: Counter[str] = field(default_factory=Counter)
    """By LOAD_OUTCOMES."""
    load_seconds: Histogram = field(default_factory=lambda: Histogram(LONG_SECONDS))
    """Of those with rows."""
    drops: Counter[str] = field(default_factory=Counter)
    """By `residency.EVICTION_REASONS`."""


@dataclass(frozen=True, slots=True)
class ResidentTable:
    """The rows of one version of a view, or of one state of a base table, in memory."""

    table: str
    """Its name in the engine."""
    columns: tuple[MemoryColumn, ...]
    facts: Mapping[str, ColumnFacts]
    """By the names of all columns."""
    rows: int
    bytes: int

    @classmethod
    def of(cls, table: str, loaded: LoadedTable) -> Self:
        return cls(table, loaded.columns, loaded.facts, loaded.rows, loaded.bytes)


@dataclass(frozen=True, slots=True)
class EarlierTable:
    """An earlier version of a view in memory."""

    table: str
    version: Version
    columns: tuple[MemoryColumn, ...]


@dataclass(frozen=True, slots=True)
class LoadedVersion:
    """The rows of a version in memory."""

    table: LoadedTable
    whole: bool
    """Whether all of them were read from Spark; otherwise only those that an earlier version in memory did not have."""


@dataclass(frozen=True, slots=True)
class LoadLimits:
    bytes: int
    """Of one view."""
    rows: int


def table_of(view: MaterializedView) -> str:
    """The name in the engine: no two versions of views ever share one."""
    return f"{view.id}__{view.current.number}"


def columns_of(view: MaterializedView, described: Iterable[Sequence[str]]) -> list[MemoryColumn]:
    """The view's columns with their types, from the description of its storage table."""
    types = {name.lower(): kind for name, kind, *_ in reversed(list(described))}
    names = {column: view.layout.held.get(column.lower(), column) for column in view.columns}
    return [MemoryColumn(column, types[name.lower()]) for column, name in names.items()]


class TableLoads:
    """Loads views one version at a time, and drops them."""

    def __init__(
        self,
        engine: StartedEngine,
        sessions: LoadSessions,
        readers: Readers,
        storages: StorageLooks,
        limits: LoadLimits,
    ) -> None:
        self._engine = engine
        self._started = False
        self._starting = asyncio.Lock()
        self._sessions = sessions
        self._readers = readers
        self._storages = storages
        self.limits = limits

    async def load(self, entry: Entry, before: EarlierTable | None = None) -> LoadedVersion:
        """Loads the current version; if it shares rows with an earlier one that is in memory, only the others. Raises
        NotHeld, MemoryUnavailable, and what Spark raises. If it raises, the engine has no table of this version."""
        view = entry.view
        self._check_bytes(0 if view.current.files is None else view.current.files.sum, "in its files")
        table = table_of(view)
        await self._start()
        try:
            # The janitor must not drop what is being read.
            with self._readers.reading([(view.id, view.current.number)]):
                async with self._sessions.session() as session:
                    rows, columns = await self._examined(view, session)
                    found = await self._changed(view, session, columns, before)
                    if whole := found is None or found.rows != rows:
                        query = public_view.shown_rows(view.storage, view.columns, view.current.shown, view.layout)
                        found = await self._filled(table, session, columns, query)
            assert found is not None
            self._check_bytes(found.bytes, "in memory")
            await self._check_stored(entry, view)
        except BaseException:  # Also on cancellation, which may come when the engine has the rows.
            with suppress(MemoryUnavailable):
                await self.drop(table)
            raise
        return LoadedVersion(found, whole=whole)

    async def load_base(self, table: str, look: Look, size: int | None) -> ResidentTable:
        """Loads a base table as it is now, under this name. `look`: as it was just observed. `size`: the bytes of its
        files, if known. Raises as `load`."""
        assert look.relation is not None
        name = look.relation.name
        self._check_bytes(size or 0, "in its files")
        await self._start()
        try:
            async with self._sessions.session() as session:
                # Spark may know earlier files, and keep rows of them.
                for each in Inspection({}, {name: look}).renewed({base_key(name)}):
                    await session.run(maintenance.refresh_listing(each))
                self._check_rows(int(str((await session.run(f"SELECT count(*) FROM {name.quoted}")).rows[0][0])))
                types = {column.lower(): kind for column, kind, *_ in reversed(await self._described(name, session))}
                # If it has other columns by now, the next look says so.
                names = [name for name, _ in look.relation.columns if name.lower() in types]
                columns = self._loadable([MemoryColumn(each, types[each.lower()]) for each in names])
                query = f"SELECT {', '.join(quote(each.name) for each in columns)} FROM {name.quoted}"
                found = await self._filled(table, session, columns, query)
            self._check_bytes(found.bytes, "in memory")
        except BaseException:  # Also on cancellation, which may come when the engine has the rows.
            with suppress(MemoryUnavailable):
                await self.drop(table)
            raise
        return ResidentTable.of(table, found)

    async def _start(self) -> None:
        """Starts the engine for the first view: many gateways have none in memory. Raises MemoryUnavailable."""
        async with self._starting:
            if not self._started:
                await self._engine.start()
                self._started = True

    async def stop(self) -> None:
        """Ends the engine, and everything in its memory; the next load starts it again."""
        async with self._starting:
            if self._started:
                self._started = False
                await self._engine.stop()

    async def _changed(
        self,
        view: MaterializedView,
        session: LoadSession,
        columns: Sequence[MemoryColumn],
        before: EarlierTable | None,
    ) -> LoadedTable | None:
        """The table, if it could be made of an earlier one."""
        if before is None or before.columns != tuple(columns):
            return None
        # The partition column decides which rows stay.
        in_memory = {column.name.lower() for column in columns}
        if not all(part.column.lower() in in_memory for part in view.layout.parts):
            return None
        if (changes := version_changes(view, before.version, view.current)) is None:
            return None
        kept = KeptRows(before.table, changes.without)
        return await self._filled(table_of(view), session, columns, changes.added, kept)

    async def _filled(
        self,
        table: str,
        session: LoadSession,
        columns: Sequence[MemoryColumn],
        query: str,
        kept: KeptRows | None = None,
    ) -> LoadedTable:
        text = row_lines.lines_query(columns, f"({query})")
        async with aclosing(session.pages(text, PAGE_ROWS)) as pages:
            try:
                return await self._engine.load(table, columns, pages, kept=kept)
            except MemoryUnavailable as error:
                if error.reason == UNKNOWN_TEXT:
                    raise NotHeld(error.detail) from error
                raise

    async def _examined(self, view: MaterializedView, session: LoadSession) -> tuple[int, Sequence[MemoryColumn]]:
        """The number of rows, and the columns that can be in memory."""
        measured = await session.run(maintenance.measure_shown(view.storage, [view.current.shown], view.layout))
        ((_, found, _),) = measured.rows
        rows = int(found or 0)
        self._check_rows(rows)
        # The storage table has the declared types, such as CHAR, and no other table ever has its name.
        return rows, self._loadable(columns_of(view, await self._described(view.rows_table, session)))

    async def _described(self, table: TableName, session: LoadSession) -> Sequence[Sequence[str]]:
        return (await session.run(maintenance.describe(table))).rows

    def _loadable(self, columns: Sequence[MemoryColumn]) -> Sequence[MemoryColumn]:
        if not (found := row_lines.loadable(columns)):
            raise NotHeld("no column of it has a type that the engine has, too")
        return found

    def _check_rows(self, rows: int) -> None:
        if rows > self.limits.rows:
            raise NotHeld(f"it has {rows} rows, and memory.view_rows is {self.limits.rows}")

    def _check_bytes(self, found: int, where: str) -> None:
        if found > self.limits.bytes:
            raise NotHeld(f"it takes {found} bytes {where}, and memory.view_bytes is {self.limits.bytes}")

    async def _check_stored(self, entry: Entry, view: MaterializedView) -> None:
        """Raises NotHeld if rows may have been loaded that were not published. A look at them that began before would
        not tell, and a later one would not tell if they were as published again."""
        await self._storages.look(entry, self._storages.now())
        if entry.damage and entry.view.current.number == view.current.number:
            raise NotHeld(entry.damage)

    async def drop(self, table: str) -> None:
        """Raises MemoryUnavailable."""
        await self._engine.drop(table)
