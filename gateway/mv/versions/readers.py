"""Which versions may be read by open statements and transactions; and reads that wait for a name change.

This is only in memory: after a restart, nobody reads through this gateway. Reads that go directly to Spark are not
visible here; the retention time protects them.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Set
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from itertools import count

from gateway.mv.subscribers import Subscribers

PLANNING_SECONDS = 5.0
"""A read that has been running for this long is assumed to have been planned by Spark."""

VersionKey = tuple[str, int]
"""A view's id and a version number."""


@dataclass(slots=True, eq=False)
class Read:
    """An open statement, or a transaction's hold on a version. Moments are increasing numbers."""

    began: int
    at: float
    """When it began, by the monotonic clock."""
    views: frozenset[str]
    """Views that it reads in the version that is current when Spark plans it."""
    versions: frozenset[VersionKey] = frozenset()
    """Versions that it names explicitly."""
    planned: int | None = None
    """When Spark was known to have planned it: it does not see later versions. None if that is not known yet."""

    @property
    def concerned(self) -> Set[str]:
        """The views that it may read."""
        return self.views | {view_id for view_id, _ in self.versions} if self.versions else self.views

    def may_read(self, view_id: str, number: int, published: int, retired: int | None) -> bool:
        """Whether it may read a version that was current from `published` to `retired` (None: it still is)."""
        if (view_id, number) in self.versions:
            return True
        if view_id not in self.views or (retired is not None and self.began > retired):
            return False
        return self.planned is None or self.planned > published


class Readers:
    """All open reads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._moments = count(1)
        self._reads: dict[int, Read] = {}
        self._reads_of: dict[str, dict[int, Read]] = {}
        """The reads by view, because queries always concern one view."""
        self._held = Counter[str]()
        self._news = asyncio.Event()
        self.released: Subscribers[[Set[str]]] = Subscribers()
        """Versions of these views may no longer be read by some read."""

    def now(self) -> int:
        """A moment later than all earlier ones."""
        return next(self._moments)

    def begin(self, views: Iterable[str] = (), versions: Iterable[VersionKey] = ()) -> Read:
        """Registers a read. The caller must release it."""
        read = Read(self.now(), self._clock(), frozenset(views), frozenset(versions))
        self._reads[read.began] = read
        for view_id in read.concerned:
            self._reads_of.setdefault(view_id, {})[read.began] = read
        return read

    @contextmanager
    def reading(self, versions: Iterable[VersionKey]) -> Iterator[None]:
        """Keeps versions from being dropped."""
        read = self.begin(versions=versions)
        try:
            yield
        finally:
            self.release(read)

    def planned(self, read: Read) -> None:
        """Records that Spark has planned the read, because it has ended; its rows may still be fetched."""
        if read.planned is None:
            read.planned = self.now()
            self.released.tell(read.concerned)
            self._tell()

    def release(self, read: Read) -> None:
        if self._reads.pop(read.began, None):
            self._forget(read)
            self.released.tell(read.concerned)
            self._tell()

    def _forget(self, read: Read) -> None:
        for view_id in read.concerned:
            reads = self._reads_of[view_id]
            del reads[read.began]
            if not reads:
                del self._reads_of[view_id]

    # --- waiting -----------------------------------------------------------------------------------

    def is_held(self, views: Iterable[str]) -> bool:
        """Whether the name of one of these views is about to change its meaning."""
        return any(self._held[view_id] for view_id in views)

    async def admission(self, views: Iterable[str]) -> None:
        """Returns when no name of these views is about to change its meaning."""
        wanted = list(views)
        while self.is_held(wanted):
            await self._news.wait()

    @asynccontextmanager
    async def held(self, views: Iterable[str]) -> AsyncIterator[None]:
        """Holds back new reads of these views while their names change their meaning. Begins when earlier reads have
        been planned by Spark, or have had PLANNING_SECONDS for that: a read was promised that the view of this name is
        fresh, which must hold for the view that it reads."""
        ids = list(views)
        self._held.update(ids)
        try:
            await self._until_planned(frozenset(ids))
            yield
        finally:
            self._held.subtract(ids)
            self._held = +self._held
            self._tell()

    async def _until_planned(self, ids: frozenset[str]) -> None:
        while (left := self._planning_seconds(ids)) > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._news.wait()

    def _planning_seconds(self, ids: frozenset[str]) -> float:
        """The seconds for which Spark may still be planning a read of these views; 0 or less if it is not."""
        since = [read.at for read in self._reads.values() if read.planned is None and not ids.isdisjoint(read.views)]
        return max(since) + PLANNING_SECONDS - self._clock() if since else 0.0

    def _tell(self) -> None:
        """Wakes up those who wait for a change."""
        self._news.set()
        self._news = asyncio.Event()

    # --- asking ------------------------------------------------------------------------------------

    def count(self, view_id: str, number: int, published: int, retired: int | None) -> int:
        """How many reads may read the version."""
        reads = self._reads_of.get(view_id, {}).values()
        return sum(read.may_read(view_id, number, published, retired) for read in reads)

    def any_of(self, view_id: str, before: int) -> bool:
        """Whether any read that began before this moment may read any version of the view."""
        return any(
            (view_id in read.views and read.began < before) or any(view_id == of for of, _ in read.versions)
            for read in self._reads_of.get(view_id, {}).values()
        )
