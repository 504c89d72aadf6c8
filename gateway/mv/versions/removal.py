"""Drops rows that nobody needs: a few partitions per statement, or a whole storage table."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from gateway.loops import aside
from gateway.mv.catalog import naming
from gateway.mv.catalog.index import Catalog
from gateway.mv.catalog.settlement import Settlement
from gateway.mv.model import properties as stored
from gateway.mv.model.view import Kept, Leftover, Version
from gateway.mv.ports import Metastore
from gateway.mv.versions.compaction import Compaction
from gateway.mv.versions.rows import stored_partitions
from sql.names import TableName
from sql.texts import maintenance
from sql.texts.maintenance import PartitionKey

log = logging.getLogger(__name__)

COMPACTED_FROM = 100
"""Partitions that a public view names to leave them out, when it is worth a statement to shorten it."""
DROPPED_TOGETHER = 20
"""Partitions in one statement. Spark drops one after the other behind the lock of its metastore client, and everybody
else's statements wait for that: some hundreds of partitions would be seconds."""


class Removal:
    """To drop something twice is harmless. All methods raise what the metastore raises."""

    def __init__(self, catalog: Catalog, settlement: Settlement, compaction: Compaction, metastore: Metastore) -> None:
        self._catalog = catalog
        self._settlement = settlement
        self._compaction = compaction
        self._metastore = metastore

    async def drop_whole(self, leftover: Leftover) -> bool:
        """Drops a storage table and its definition. Returns False if a view shows the table, which is kept then."""
        if await self._is_shown(leftover.storage):
            log.warning("%s is kept: a view shows it", leftover.storage)
            return False
        await self._metastore.run(maintenance.drop_view(leftover.definition))
        await self._metastore.run(maintenance.drop_table(leftover.storage))
        return True

    async def drop_unneeded(self, view_id: str, storage: TableName, waiting: Callable[[], list[Version]]) -> None:
        """Drops the rows and the properties of versions that neither the view needs nor those that are `waiting`: the
        replaced versions that can still be read."""
        if storage.table not in await self._metastore.tables(storage.database):
            return
        # A gateway that was killed may have published at the last moment: what the view shows decides.
        await self._settlement.verify_id(view_id)
        present = await stored_partitions(self._metastore, storage)
        kept = self._catalog.kept(view_id)
        if kept is None:
            return
        # Whatever nobody knows goes as well: a refresh whose gateway was killed may end at Spark long after.
        readable = waiting()
        for drop in await aside(len(present), _drops_of_unneeded, storage, present, kept, readable):
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

    async def _is_shown(self, storage: TableName) -> bool:
        """Whether people read it under a name: one that came to be late, or was never dropped. A survey finds it."""
        if await self._metastore.relation(storage) is None:
            return False
        found = await self._metastore.properties(storage)
        if not stored.is_ours(found):
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
    return list(_drops(storage, unneeded, needed))


def _drops(storage: TableName, unneeded: list[tuple[int, PartitionKey]], needed: set[int]) -> Iterator[str]:
    """Statements that drop partitions, each a few; a small version of which nothing is needed goes as one."""
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
        yield maintenance.drop_partitions(storage, single[start : start + DROPPED_TOGETHER])
