"""Faults that the gateway once had, put back by a few lines each: the histories must find every one of them.

Each is named by what it does, with the commit that mended it. What is put back is the reason in today's code, not the
code of that day.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, cast

from gateway.errors import FreshgateError, UpstreamLost
from gateway.mv.catalog import naming
from gateway.mv.catalog.fence import Fence
from gateway.mv.catalog.index import Catalog
from gateway.mv.catalog.settlement import Settlement
from gateway.mv.freshness.entry import Entry
from gateway.mv.freshness.ledger import Ledger, Write
from gateway.mv.model.view import Leftover, MaterializedView
from gateway.mv.observation.inspection import Inspector
from gateway.mv.refresh.habits import Habits
from gateway.mv.refresh.progress import Report
from gateway.mv.subscribers import Subscribers
from gateway.mv.versions.version_numbers import VersionNumbers
from gateway.service.routing.reads import Reading, Reads


@dataclass(frozen=True, slots=True)
class Bug:
    """`commit` is the one that mended it."""

    commit: str
    put_back: Callable[[], None]


BUGS: dict[str, Bug] = {}


def put_back(name: str) -> None:
    """In this process, for good."""
    BUGS[name].put_back()


def _bug(name: str, commit: str) -> Callable[[Callable[[], None]], Callable[[], None]]:
    def keep(put_back: Callable[[], None]) -> Callable[[], None]:
        BUGS[name] = Bug(commit, put_back)
        return put_back

    return keep


def _instead(place: object, name: str, other: object) -> None:
    assert hasattr(place, name), f"{place} has no {name} any more"
    setattr(place, name, other)


@_bug("a look serves the version that is published meanwhile", "b3dc98e")
def _one_round_of_looks() -> None:
    """A read that looks while a refresh is published took that version for fresh, which had looked long before."""

    async def check(self: Any, view_ids: Iterable[str], not_before: float | None = None) -> list[str]:
        now = self._clock()
        entries = self._below(view_ids)
        oldest = [min(now, self._oldest(entry.view) if not_before is None else not_before) for entry in entries]
        cleared = await asyncio.gather(*map(self._check, entries, oldest))
        return sorted(entry.view.id for entry, clear in zip(entries, cleared, strict=True) if clear)

    _instead(Inspector, "check", check)


@_bug("an error says that a switch had no effect", "d9077a0")
def _errors_are_believed() -> None:
    async def unmoved(_: object, view: MaterializedView, version: int | None, error: FreshgateError) -> bool:
        return not isinstance(error, UpstreamLost)

    _instead(naming, "unmoved", unmoved)


@_bug("a cancelled write is over", "8df9030")
def _no_late_commits() -> None:
    """A mark was lost: Spark may still commit what it was told to cancel."""

    def suspect_write(self: Catalog, write: Write) -> Write:
        self.end_write(write)
        return write

    _instead(Catalog, "suspect_write", suspect_write)


@_bug("a write that nobody polls has not ended", "a3358cc")
def _unpolled_writes_are_open() -> None:
    _instead(Reads, "_unseen_writes", lambda *_: {})


@_bug("rows that went beside a refresh were never there", "7cc24ef")
def _looks_are_believed() -> None:
    _instead(Ledger, "removed_since", lambda *_: False)


@_bug("a look of another view's reader shows this one nothing", "7cc24ef")
def _looks_of_others() -> None:
    _instead(Inspector, "_is_unseen", lambda *_: False)


@_bug("named partitions make all of a view fresh", "7cc24ef")
def _partly_is_wholly() -> None:
    publish = Entry.publish

    def published(self: Entry, version: Any, reserved: int, *, contains: int | None, **rest: Any) -> None:
        publish(self, version, reserved, contains=self.ledger.events if contains is None else contains, **rest)

    _instead(Entry, "publish", published)


@_bug("a version that a lost switch replaced has no readers", "d0127ad")
def _unheard_versions_are_nobodys() -> None:
    """Whoever learned of it first had it dropped under those who read it."""
    tell = Subscribers.tell

    def told(self: Any, *what: Any, **named: Any) -> None:
        if len(what) == 3 and isinstance(what[1], Leftover):
            what = (*what[:2], None)
        tell(self, *what, **named)

    _instead(Subscribers, "tell", told)


@_bug("INSERTs share a directory", "6b234be")
def _not_staged() -> None:
    """A cancelled INSERT took rows of the next one's."""
    cast(Any, Habits).stages_writes = property(lambda _: False, lambda *_: None)


@_bug("a version's number is used again after a crash", "0799b3d")
def _numbers_are_not_reserved() -> None:
    def expected(self: Any, view: MaterializedView) -> int:
        following: int = self._next.get(view.id, 0)
        return max(following, view.current.number + 1)

    _instead(VersionNumbers, "expected", expected)


@_bug("two gateways publish", "dadbff6")
def _no_fence() -> None:
    async def nothing(*_: object) -> None: ...

    for name in ("check", "check_lately"):
        _instead(Fence, name, nothing)
    _instead(Settlement, "check_unmoved", nothing)


@_bug("a read is sent to what its name has come to mean", "312b924")
def _names_are_looked_up_once() -> None:
    async def prepare(self: Any, reading: Reading, report: Report) -> None:
        reading = await self.exactly(reading)
        await self._gatekeeper.confirm(reading.read.sure)
        await self._see_writes(reading.unpinned)
        await self._stale_reads.look(reading.unpinned)
        await self._make_fresh(reading, self._wanted(reading), report)
        self.depart(reading)

    _instead(Reads, "prepare", prepare)


@_bug("a view that is being replaced is taken out", "40ae48b")
def _successors_are_overlooked() -> None:
    unshown = cast(Any, Settlement)._unshown

    async def taken_out(self: Any, entry: Entry, properties: Any, successor: Entry | None) -> FreshgateError:
        found: FreshgateError = await unshown(self, entry, properties, None)
        return found

    _instead(Settlement, "_unshown", taken_out)


@_bug("what a name shows after a broken connection stays so", "d0127ad")
def _nothing_comes_late() -> None:
    async def not_early(*_: object) -> float:
        return 0.0

    _instead(Settlement, "_seconds_early", not_early)
