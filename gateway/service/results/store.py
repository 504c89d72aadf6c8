"""The recorded results of all users, and the reads that are under way.

Tests: `test_results`.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
import weakref
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from gateway.service.results.recorded import Recorded

Record = Callable[[bool], Awaitable[tuple[Recorded | None, Any]]]
"""Runs a statement, and returns its result if it is to be recorded and can be; otherwise what its caller reads."""

TOO_LARGE_MAX = 4_096
"""Results that are remembered as too large."""
EXPIRIES_MIN = 1_000
"""Up to how many notes of a result's age are kept although most of them are about results that were dropped."""
TICK_SECONDS = 1.0
"""How long a result may stay after its time; no read gets it."""
ENTRY_BYTES_MAX = 8 << 20
"""Of one result that is kept. Up to this size a result is read before its client gets the first row."""
ENTRY_BYTES = 1_500
"""What an entry takes beside its replies: its key, and the objects around them."""


class Left(Enum):
    """The end of a read whose client no longer wants it."""

    LEFT = "left"


LEFT = Left.LEFT
Flight = asyncio.Future[Recorded | Left | None]
"""A read under way: its result, if it has one that may be shared."""


@dataclass(slots=True)
class ResultCounts:
    """Counts since the start."""

    hits: int = 0
    shared: int = 0
    """Reads that have waited for an equal one."""
    misses: int = 0
    evictions: int = 0
    """Results that had to make room for others."""


@dataclass(frozen=True, slots=True)
class Found:
    """A result, and where it comes from."""

    recorded: Recorded
    seconds: float = 0.0
    """Its age."""
    known: bool = False
    """Whether it was in memory."""
    shared: bool = False
    """Whether an equal read has recorded it meanwhile."""


@dataclass(frozen=True, slots=True)
class _Entry:
    recorded: Recorded
    views: frozenset[str]
    at: float

    @property
    def bytes(self) -> int:
        return self.recorded.bytes + ENTRY_BYTES


class ResultStore:
    """Bounded in bytes and in age. Results go when they are too old, whether or not they are asked for;
    if room is needed before, the least recently used one goes first."""

    def __init__(
        self,
        bytes_max: int,
        entry_bytes_max: int,
        seconds: float,
        clock: Callable[[], float] = time.monotonic,
        *,
        shared: bool = False,
    ) -> None:
        """`bytes_max` 0: nothing is kept. Results that are being recorded, and dropped ones that clients still read,
        may take as much again: beyond that, results are not recorded. `shared`: whether all users see the same rows.
        """
        self.counts = ResultCounts()
        self.entry_bytes_max = min(entry_bytes_max, bytes_max)
        self.shared = shared
        self.bytes = 0
        """Of all results that are kept."""
        self._alive = 0
        """Bytes of all results that exist, without what an entry takes beside them."""
        self._cleared = 0
        """How often all results were dropped."""
        self._suspended: set[object] = set()
        """Changes under way after which any result may be another one."""
        self._recording = 0
        """How many results are being recorded."""
        self._bytes_max = bytes_max
        self._seconds = seconds
        self._clock = clock
        self._entries: OrderedDict[Hashable, _Entry] = OrderedDict()
        self._views: dict[str, set[Hashable]] = {}
        """The keys by the ids of the views that were read."""
        self._ages: list[tuple[float, int, Hashable]] = []
        """A heap: from when results are, which need not be there any more, with a number that makes each differ."""
        self._numbers = itertools.count()
        self._timer: asyncio.TimerHandle | None = None
        self._flights: dict[Hashable, Flight] = {}
        self._too_large: OrderedDict[Hashable, None] = OrderedDict()

    @property
    def active(self) -> bool:
        return self._bytes_max > 0

    def __len__(self) -> int:
        return len(self._entries)

    def is_too_large(self, key: Hashable) -> bool:
        """Whether a result with this key was larger than one may be."""
        return key in self._too_large

    async def get(self, key: Hashable, views: frozenset[str], record: Record) -> tuple[Found | None, Any]:
        """The result with this key; or the second part of what `record` returns, if it has no result to keep. Equal
        reads at the same time are recorded once: the others wait. If the client of the first one leaves or cancels it,
        the next one takes its place, and the others wait for that. If it gets no result for another reason, each
        records for itself."""
        while True:
            if (found := self._find(key)) is not None:
                self.counts.hits += 1
                return found, None
            if (flight := self._flights.get(key)) is None:
                break
            recorded = await asyncio.shield(flight)
            if isinstance(recorded, Recorded):
                self.counts.shared += 1
                return Found(recorded, shared=True), None
            if recorded is None:
                break
        self.counts.misses += 1
        if not self._has_room or self.is_too_large(key):
            return None, (await record(False))[1]
        return await self._record(key, views, record)

    @property
    def _has_room(self) -> bool:
        """Whether one more result may be recorded."""
        unkept = self._alive - (self.bytes - ENTRY_BYTES * len(self._entries))
        return unkept + (self._recording + 1) * self.entry_bytes_max <= self._bytes_max

    async def _record(self, key: Hashable, views: frozenset[str], record: Record) -> tuple[Found | None, Any]:
        flight: Flight = asyncio.get_running_loop().create_future()
        first = self._flights.setdefault(key, flight) is flight
        began, recorded, cleared, left = self._clock(), None, self._cleared, False
        self._recording += 1
        try:
            recorded, other = await record(True)
            if recorded is not None and self._is_doubtful(cleared):
                # It may show what its user may no longer see.
                return None, recorded
            if recorded is not None:
                self._alive += recorded.bytes
                weakref.finalize(recorded, self._ended, recorded.bytes).atexit = False
                self._keep(key, _Entry(recorded, views, began))
            return (None if recorded is None else Found(recorded)), other
        except asyncio.CancelledError:
            left = True
            raise
        finally:
            self._recording -= 1
            if first and self._flights.get(key) is flight:
                del self._flights[key]
            flight.set_result(LEFT if left else None if self._is_doubtful(cleared) else recorded)

    def _is_doubtful(self, cleared: int) -> bool:
        """Whether what was begun after so many clearings may show what its user may no longer see."""
        return self._cleared != cleared or bool(self._suspended)

    def _ended(self, size: int) -> None:
        self._alive -= size

    def _find(self, key: Hashable) -> Found | None:
        entry = self._entries.get(key)
        if entry is None:
            return None
        age = self._clock() - entry.at
        if age > self._seconds:
            self._drop(key)
            return None
        self._entries.move_to_end(key)
        return Found(entry.recorded, age, known=True)

    def _keep(self, key: Hashable, entry: _Entry) -> None:
        if entry.bytes > self._bytes_max:
            return
        self._drop(key)
        self.expire()
        while self.bytes + entry.bytes > self._bytes_max:
            self._drop(next(iter(self._entries)))
            self.counts.evictions += 1
        self._entries[key] = entry
        self.bytes += entry.bytes
        for view in entry.views:
            self._views.setdefault(view, set()).add(key)
        self._note_age(key, entry.at)

    def _note_age(self, key: Hashable, at: float) -> None:
        if len(self._ages) >= max(EXPIRIES_MIN, 2 * len(self._entries)):
            self._ages = [(entry.at, next(self._numbers), key) for key, entry in self._entries.items()]
            heapq.heapify(self._ages)
        else:
            heapq.heappush(self._ages, (at, next(self._numbers), key))
        self._wake()

    def _wake(self) -> None:
        """Has the oldest result dropped in time."""
        if self._timer is None and self._ages:
            wait = max(self._ages[0][0] + self._seconds - self._clock(), 0.0) + TICK_SECONDS
            self._timer = asyncio.get_running_loop().call_later(wait, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self.expire()
        self._wake()

    def expire(self) -> None:
        """Drops the results that are too old to be given again."""
        now = self._clock()
        while self._ages and now - self._ages[0][0] > self._seconds:
            at, _, key = heapq.heappop(self._ages)
            if (entry := self._entries.get(key)) is not None and entry.at == at:
                self._drop(key)

    def _drop(self, key: Hashable) -> None:
        entry = self._entries.pop(key, None)
        if entry is None:
            return
        self.bytes -= entry.bytes
        for view in entry.views:
            self._views[view].discard(key)
            if not self._views[view]:
                del self._views[view]

    def too_large(self, key: Hashable) -> None:
        """Remembers that the result with this key is larger than one may be."""
        self._too_large[key] = None
        while len(self._too_large) > TOO_LARGE_MAX:
            self._too_large.popitem(last=False)

    def forget(self, view: str) -> None:
        """Drops the results that were read from a view: it has another version, or no longer exists."""
        for key in list(self._views.get(view, ())):
            self._drop(key)

    def suspend(self, change: object) -> None:
        """Drops all results, and keeps and shares none before `resume`: rights are being changed."""
        self._suspended.add(change)
        self.clear()

    def resume(self, change: object) -> None:
        """The change has ended, or has not begun at all."""
        if change in self._suspended:
            self._suspended.remove(change)
            self.clear()

    def clear(self) -> None:
        """Drops all results, also those that are being recorded."""
        self._cleared += 1
        self._flights.clear()
        for key in list(self._entries):
            self._drop(key)
        self._ages.clear()
