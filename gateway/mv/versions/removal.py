"""Drops rows that are not needed: a few partitions in each statement, or a whole storage table.

Tests: `test_janitor`.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

from gateway.loops import in_thread
from gateway.mv.catalog import naming
from gateway.mv.catalog.index import Catalog
from gateway.mv.catalog.settlement import Settlement
from gateway.mv.formats import open_tables
from gateway.mv.model import properties as stored
from gateway.mv.model.view import Kept, Leftover, Version
from gateway.mv.ports import Metastore, ServiceSessions
from gateway.mv.temporary_settings import with_settings
from gateway.mv.versions.compaction import Compaction
from gateway.mv.versions.rows import stored_partitions
from sql.names import TableName
from sql.texts import maintenance
from sql.texts.open_rows import OpenRows
from sql.texts.storage_layout import PartitionKey

log = logging.getLogger(__name__)

COMPACTED_FROM = 100
"""How many excluded partitions a public view names before it is worth a statement to shorten it."""
DROPPED_TOGETHER = 20
"""How many partitions one statement drops. Spark drops them one by one while it holds the lock of its metastore client,
and all other statements wait for that: hundreds of partitions would take seconds."""


class Removal:
    """Dropping something twice is harmless. All methods raise what the metastore raises."""

    def __init__(
        self,
        catalog: Catalog,
        settlement: Settlement,
        compaction: Compaction,
        metastore: Metastore,
        sessions: ServiceSessions,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._catalog = catalog
        self._settlement = settlement
        self._compaction = compaction
        self._metastore = metastore
        self._sessions = sessions
        self._now_ms = now_ms
        self._expired: dict[str, int] = {}
        """By view id: the `until` of the last expiry of its commits."""

    async def drop_whole(self, leftover: Leftover) -> bool:
        """Drops a storage table and its definition. If a view shows the table, keeps it and returns False."""
        properties = await self._properties(leftover.storage)
        if await self._is_shown(leftover.storage, properties):
            log.warning("%s is kept because a view shows it", leftover.storage)
            return False
        await self._metastore.run(maintenance.drop_view(leftover.definition))
        # Before the storage table, which tells of them.
        if (rows := stored.open_rows(properties)) is not None:
            await open_tables.forget(self._metastore.run, rows)
            self._expired.pop(leftover.storage.table, None)
        await self._metastore.run(maintenance.drop_table(leftover.storage))
        return True

    async def drop_unneeded(self, view_id: str, storage: TableName, waiting: Callable[[], list[Version]]) -> float:
        """Drops the rows and properties of versions that neither the view needs nor the versions that are `waiting`:
        replaced versions that can still be read. Returns in how many seconds more can be dropped; 0: nothing is left.
        """
        if await self.is_gone(storage):
            return 0.0
        # A killed gateway may have published at the last moment: what the view shows is decisive.
        await self._settlement.verify_id(view_id)
        present = await stored_partitions(self._metastore, storage)
        kept = self._catalog.kept(view_id)
        if kept is None:
            return 0.0
        # Unknown versions are dropped as well: a refresh of a killed gateway may end at Spark long after it.
        readable = waiting()
        again = 0.0 if kept.open is None else await self._expire(view_id, kept.open, readable)
        for drop in await in_thread(len(present), _drops_of_unneeded, storage, present, kept, readable):
            await self._metastore.run(drop)
        if sum(map(len, kept.shown.hidden.values())) >= COMPACTED_FROM:
            await self._compaction.compact(view_id)
        async with self._catalog.lock_of(view_id):
            found = await self._metastore.properties(storage)
            needed = {kept.shown.number, *kept.begun, *(version.number for version in readable)}
            gone = {number for number in stored.versions(found) - needed if number < kept.reserved}
            keys = [key for number in gone for key in stored.version_keys(found, number)]
            now = self._catalog.kept(view_id)
            if keys and now and (now.shown.number, now.begun) == (kept.shown.number, kept.begun):
                await self._metastore.run(maintenance.unset_properties(storage, keys))
        return again

    async def _expire(self, view_id: str, rows: OpenRows, readable: list[Version]) -> float:
        """Expires the commits that nobody needs. Before, if other readers see a version that was never published, they
        are shown the published one again. Returns in how many seconds more may go; 0: nothing is left."""
        async with (
            self._catalog.lock_of(view_id),
            self._sessions.session() as session,
            with_settings(session, rows.upkeep),
        ):
            # A refresh that begins waits for the lock before it writes.
            if (kept := self._catalog.kept(view_id)) is None:
                return 0.0
            needed = open_tables.needed(kept, readable)
            found = await open_tables.commits(session.run, rows, needed)
            if open_tables.left_behind(found, kept):
                log.info("%s shows the published version %d again", rows.table, kept.shown.number)
                await session.run(rows.roll_back(kept.shown.snapshot))
                found = await open_tables.commits(session.run, rows, needed)
            expiry = open_tables.expiry(rows, found, kept, readable, self._now_ms(), self._expired.get(view_id, 0))
            if expiry.statement:
                await session.run(expiry.statement)
                self._expired[view_id] = expiry.until
            return expiry.again_seconds

    async def is_gone(self, storage: TableName) -> bool:
        """Whether the storage table no longer exists."""
        return storage.table not in await self._metastore.tables(storage.database)

    async def _properties(self, storage: TableName) -> Mapping[str, str]:
        """What the storage table says; nothing if it does not exist, or is not ours."""
        if await self._metastore.relation(storage) is None:
            return {}
        found = await self._metastore.properties(storage)
        return found if stored.is_ours(found) else {}

    async def _is_shown(self, storage: TableName, found: Mapping[str, str]) -> bool:
        """Whether a view shows the table: it was published late, or never dropped. A survey will find it."""
        if not found:
            return False
        try:
            move = stored.read_move(found)
            names = [stored.read_name(found), *([move[0]] if move else ())]
        except (stored.UnreadableProperties, ValueError):
            return False
        for name in names:
            if await naming.published(self._metastore, name, storage) is not None:
                return True
        return False


def _drops_of_unneeded(
    storage: TableName, present: Iterable[tuple[int, PartitionKey]], kept: Kept, readable: Iterable[Version]
) -> list[str]:
    unneeded, needed = list[tuple[int, PartitionKey]](), set[int]()
    for partition in present:
        if kept.needs(*partition) or any(version.shown.shows(*partition) for version in readable):
            needed.add(partition[0])
        else:
            unneeded.append(partition)
    return list(_drops(storage, unneeded, needed, kept.columns))


def _drops(
    storage: TableName, unneeded: list[tuple[int, PartitionKey]], needed: set[int], columns: int
) -> Iterator[str]:
    """Statements that drop a few partitions each. Small versions that are not needed at all are dropped as a whole."""
    sizes = Counter(version for version, _ in unneeded)
    whole = sorted(version for version, size in sizes.items() if version not in needed and size <= DROPPED_TOGETHER)
    together: list[int] = []
    for version in whole:
        if sum(sizes[each] for each in together) + sizes[version] > DROPPED_TOGETHER:
            yield maintenance.drop_versions(storage, together)
            together = []
        together.append(version)
    if together:
        yield maintenance.drop_versions(storage, together)
    single = [partition for partition in unneeded if partition[0] not in whole]
    for start in range(0, len(single), DROPPED_TOGETHER):
        yield maintenance.drop_partitions(storage, single[start : start + DROPPED_TOGETHER], columns)
