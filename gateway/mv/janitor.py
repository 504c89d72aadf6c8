"""Drops what nobody reads any more: versions that were replaced, and what failed or crashed statements left.

A version may go when no read that began before it was replaced is open, and the retention time is over: reads straight
on Spark are invisible here, the retention is their time.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from itertools import count

from gateway.errors import FreshgateError
from gateway.mv import properties as stored
from gateway.mv.catalog import Kept, Leftover
from gateway.mv.partitions import stored_partition
from gateway.mv.ports import Metastore
from sql import maintenance
from sql.maintenance import PartitionKey, Shown
from sql.names import TableName

log = logging.getLogger(__name__)

RETRY_SECONDS = 30.0
"""After a failed drop: Spark may be starting anew."""
COMPACTED_FROM = 100
"""Partitions that a public view names to leave them out, when it is worth a statement to shorten it."""
DROPPED_TOGETHER = 500
"""Partitions in one statement."""
LATE_SECONDS = 600.0
"""After a start: a refresh of the killed gateway before it may still run at Spark and write its rows late."""


@dataclass(frozen=True, slots=True, eq=False)
class Read:
    """An open operation that reads views; released with `Janitor.release`."""

    sequence: int
    views: frozenset[str]


@dataclass(slots=True, eq=False)
class _Retired:
    view_id: str
    leftover: Leftover
    sequence: int
    not_before: float
    shown: Shown | None = None
    """What earlier reads may still read of a version that was replaced."""


class Janitor:
    """Open reads, and what waits for them to be dropped."""

    def __init__(
        self,
        metastore: Metastore,
        lock_of: Callable[[str], AbstractAsyncContextManager[object]],
        kept: Callable[[str], Kept | None],
        retention_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._metastore = metastore
        self._lock_of = lock_of
        self._kept = kept
        self._retention = retention_seconds
        self.compact: Callable[[str], Awaitable[None]] = _nothing
        """Called for a view of which much was dropped that its readers had to leave out."""
        self._clock = clock
        self._sequence = count(1)
        self._reads: dict[int, Read] = {}
        self._retired: list[_Retired] = []
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def begin_read(self, views: Iterable[str]) -> Read:
        read = Read(next(self._sequence), frozenset(views))
        self._reads[read.sequence] = read
        return read

    def release(self, read: Read) -> None:
        if self._reads.pop(read.sequence, None) and self._retired:
            self._wake.set()

    def retire(
        self, view_id: str, leftover: Leftover, shown: Shown | None = None, *, later_seconds: float = 0.0
    ) -> None:
        """From now on no read begins to use this, or what a version has `shown`."""
        due = self._clock() + self._retention + later_seconds
        self._retired.append(_Retired(view_id, leftover, next(self._sequence), due, shown))
        self._wake.set()

    async def drop_now(self, view_id: str, leftover: Leftover) -> None:
        """Drops it at once where no open read uses it and Spark answers, otherwise as soon as that is so."""
        retired = _Retired(view_id, leftover, next(self._sequence), self._clock())
        if not self._held(retired):
            try:
                await self._drop(retired)
                return
            except FreshgateError as error:
                log.warning("could not drop %s, will try again: %s", leftover.storage, error)
        self._retired.append(retired)
        self._wake.set()

    def start(self) -> None:
        self._task = asyncio.create_task(self._loop(), name="janitor")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _loop(self) -> None:
        while True:
            self._wake.clear()
            await self.sweep()
            try:
                await asyncio.wait_for(self._wake.wait(), self._pause())
            except TimeoutError:
                continue

    def _pause(self) -> float | None:
        """Seconds until something may be due; None: only a release or a new entry can change anything."""
        waiting = [retired.not_before for retired in self._retired if not self._held(retired)]
        return max(0.05, min(waiting) - self._clock()) if waiting else None

    def _held(self, retired: _Retired) -> bool:
        return any(read.sequence < retired.sequence and retired.view_id in read.views for read in self._reads.values())

    async def sweep(self) -> None:
        """Drops everything that is due now."""
        now = self._clock()
        for retired in [each for each in self._retired if each.not_before <= now and not self._held(each)]:
            try:
                await self._drop(retired)
            except FreshgateError as error:
                log.warning("could not drop %s, will try again: %s", retired.leftover.storage, error)
                retired.not_before = self._clock() + RETRY_SECONDS
            else:
                self._retired.remove(retired)

    async def _drop(self, retired: _Retired) -> None:
        """Drops what nobody needs, or the whole storage. Dropping twice is harmless."""
        leftover = retired.leftover
        if leftover.whole:
            await self._metastore.run(maintenance.drop_view(leftover.definition))
            await self._metastore.run(maintenance.drop_table(leftover.storage))
            return
        if leftover.storage.table not in await self._metastore.tables(leftover.storage.database):
            return
        present = await stored_partitions(self._metastore, leftover.storage)
        kept = self._kept(retired.view_id)
        if kept is None:
            return
        # Whatever nobody knows goes as well: a refresh whose gateway was killed may end at Spark long after.
        waiting = [each.shown for each in self._retired if each is not retired and each.view_id == retired.view_id]
        unneeded = [
            partition
            for partition in present
            if not kept.needs(*partition) and not any(shown.shows(*partition) for shown in waiting if shown)
        ]
        for drop in _drops(leftover.storage, unneeded, {version for version, _ in set(present) - set(unneeded)}):
            await self._metastore.run(drop)
        if sum(map(len, kept.shown.hidden.values())) >= COMPACTED_FROM:
            await self.compact(retired.view_id)
        async with self._lock_of(retired.view_id):
            found = await self._metastore.properties(leftover.storage)
            gone = stored.versions(found) - {kept.shown.number, kept.writing}
            keys = [key for number in gone for key in stored.version_keys(found, number)]
            now = self._kept(retired.view_id)
            if keys and now and (now.shown.number, now.writing) == (kept.shown.number, kept.writing):
                await self._metastore.run(maintenance.unset_properties(leftover.storage, keys))


def _drops(storage: TableName, unneeded: list[tuple[int, PartitionKey]], needed: set[int]) -> Iterator[str]:
    """Statements that drop partitions; a version of which nothing is needed goes as one."""
    whole = sorted({version for version, _ in unneeded} - needed)
    if whole:
        yield maintenance.drop_versions(storage, whole)
    single = [partition for partition in unneeded if partition[0] in needed]
    for start in range(0, len(single), DROPPED_TOGETHER):
        yield maintenance.drop_partitions(storage, single[start : start + DROPPED_TOGETHER])


async def _nothing(_: str) -> None:
    pass


async def stored_partitions(metastore: Metastore, storage: TableName) -> list[tuple[int, PartitionKey]]:
    """The versions and partitions of which the storage table has rows."""
    return [stored_partition(row[0]) for row in (await metastore.run(maintenance.show_partitions(storage))).rows]
