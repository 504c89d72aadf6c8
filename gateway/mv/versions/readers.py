"""Who may read which version: open statements, and what transactions hold on to; and who waits to read.

In memory only: after a restart nobody reads through this gateway. Reads straight on Spark are invisible here; the
retention time is theirs.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Set
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from itertools import count

from gateway.mv.subscribers import Subscribers

PLANNING_SECONDS = 5.0
"""Of a read that has not ended for so long it is taken that Spark has planned it."""

VersionKey = tuple[str, int]
"""A view's id and the number of one of its versions."""


@dataclass(slots=True, eq=False)
class Read:
    """An open statement, or a transaction's hold on a version. Moments are numbers that grow."""

    began: int
    at: float
    """When, by the monotonic clock."""
    views: frozenset[str]
    """Views of which it reads the version that is current when Spark plans it."""
    versions: frozenset[VersionKey] = frozenset()
    """Versions that it names itself."""
    planned: int | None = None
    """When Spark was known to have planned it: what is published later it does not see."""

    @property
    def concerned(self) -> Set[str]:
        """The views of which it may read something."""
        return self.views | {view_id for view_id, _ in self.versions} if self.versions else self.views

    def may_read(self, view_id: str, number: int, published: int, retired: int | None) -> bool:
        """Whether it reads a version of a view that was current from `published` to `retired` (None: it still is)."""
        if (view_id, number) in self.versions:
            return True
        if view_id not in self.views or (retired is not None and self.began > retired):
            return False
        return self.planned is None or self.planned > published


class Readers:
    """Every open read."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._moments = count(1)
        self._reads: dict[int, Read] = {}
        self._reads_of: dict[str, dict[int, Read]] = {}
        """By the views that they concern: what is asked is asked of one view."""
        self._held = Counter[str]()
        self._news = asyncio.Event()
        self.released: Subscribers[[Set[str]]] = Subscribers()
        """Versions of these views may not be read any more that were read before."""

    def now(self) -> int:
        """A moment later than all before."""
        return next(self._moments)

    def begin(self, views: Iterable[str] = (), versions: Iterable[VersionKey] = ()) -> Read:
        """Must be released."""
        read = Read(self.now(), self._clock(), frozenset(views), frozenset(versions))
        self._reads[read.began] = read
        for view_id in read.concerned:
            self._reads_of.setdefault(view_id, {})[read.began] = read
        return read

    def planned(self, read: Read) -> None:
        """Spark has planned it, for it has ended; its rows may still be fetched."""
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
        """Whether the name of one of the views is about to mean another."""
        return any(self._held[view_id] for view_id in views)

    async def admission(self, views: Iterable[str]) -> None:
        """Returns when no name of these views is about to mean another."""
        wanted = list(views)
        while self.is_held(wanted):
            await self._news.wait()

    @asynccontextmanager
    async def held(self, views: Iterable[str]) -> AsyncIterator[None]:
        """While names of these views come to mean others no read of them is let go; those that were let go before it
        have been planned by Spark, or have had PLANNING_SECONDS for that. What a read was promised, that the view is
        fresh, is true of what its name meant."""
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
        """How long Spark may yet be planning a read of these views; 0 or less: none."""
        since = [read.at for read in self._reads.values() if read.planned is None and not ids.isdisjoint(read.views)]
        return max(since) + PLANNING_SECONDS - self._clock() if since else 0.0

    def _tell(self) -> None:
        """Something has changed that somebody may wait for."""
        self._news.set()
        self._news = asyncio.Event()

    # --- asking ------------------------------------------------------------------------------------

    def count(self, view_id: str, number: int, published: int, retired: int | None) -> int:
        """How many may read a version of a view."""
        reads = self._reads_of.get(view_id, {}).values()
        return sum(read.may_read(view_id, number, published, retired) for read in reads)

    def any_of(self, view_id: str, before: int) -> bool:
        """Whether anything that began before a moment may read any version of a view."""
        return any(
            (view_id in read.views and read.began < before) or any(view_id == of for of, _ in read.versions)
            for read in self._reads_of.get(view_id, {}).values()
        )
