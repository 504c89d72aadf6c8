"""Faults that the gateway once had, put back by a few lines each: the histories must find every one of them.

Each is named by what it does, with the commit that mended it. What is put back is the reason in today's code, not the
code of that day.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gateway import server
from gateway.errors import FreshgateError, UpstreamLost
from gateway.mv.catalog import fence, naming
from gateway.mv.catalog.fence import Fence
from gateway.mv.catalog.fenced import Fenced
from gateway.mv.catalog.settlement import Settlement
from gateway.mv.freshness.entry import Entry
from gateway.mv.freshness.ledger import Ledger
from gateway.mv.freshness.pending import PendingWrites
from gateway.mv.model.marks import Fold
from gateway.mv.model.view import MaterializedView
from gateway.mv.observation.inspection import Inspection, Inspector
from gateway.mv.observation.storage_looks import StorageLooks
from gateway.mv.ports import Send as Sending
from gateway.mv.refresh.preparation import Preparation
from gateway.mv.refresh.progress import Report
from gateway.mv.versions.version_numbers import VersionNumbers
from gateway.service.clients.pending_statement import PendingStatement
from gateway.service.routing.reads import Reads
from gateway.service.routing.ways import RefreshFirst, Send
from sql.texts.storage_layout import Shown
from world.client import Client


@dataclass(frozen=True, slots=True)
class Bug:
    """`commit` is the one that mended it, `theme` that of the histories that find it."""

    commit: str
    theme: str
    put_back: Callable[[], None]


BUGS: dict[str, Bug] = {}


def _bug(name: str, commit: str, theme: str) -> Callable[[Callable[[], None]], Callable[[], None]]:
    def keep(put_back: Callable[[], None]) -> Callable[[], None]:
        BUGS[name] = Bug(commit, theme, put_back)
        return put_back

    return keep


def _instead(place: object, name: str, other: object) -> None:
    assert hasattr(place, name), f"{place} has no {name} any more"
    setattr(place, name, other)


@_bug("an error says that a switch had no effect", "d9077a0", "switches")
def _errors_are_believed() -> None:
    async def unmoved(_: object, view: MaterializedView, version: int | None, error: FreshgateError) -> bool:
        return not isinstance(error, UpstreamLost)

    _instead(naming, "unmoved", unmoved)


@_bug("a cancelled write is over", "8df9030", "cancels")
def _no_late_commits() -> None:
    """A mark was lost: Spark may still commit what it was told to cancel."""

    _instead(PendingWrites, "lose", PendingWrites.end)


@_bug("a synchronous write ends with its connection", "ed8926d", "synchronous")
def _threads_hear_of_their_connection() -> None:
    async def at_once(*_: object) -> None: ...

    _instead(PendingStatement, "_outlive_session", at_once)


@_bug("a write that nobody polls has not ended", "a3358cc", "unpolled")
def _unpolled_writes_are_open() -> None:
    _instead(Reads, "_may_miss_writes", lambda *_: False)


@_bug("rows that went beside a refresh were never there", "7cc24ef", "empty tables")
def _looks_are_believed() -> None:
    _instead(Ledger, "removed_since", lambda *_: False)


@_bug("a look of another view's reader shows this one nothing", "7cc24ef", "looks")
def _looks_of_others() -> None:
    _instead(Inspector, "_is_unobserved", lambda *_: False)


@_bug("named partitions make all of a view fresh", "7cc24ef", "parts")
def _partly_is_wholly() -> None:
    publish = Entry.publish

    def published(self: Entry, version: Any, reserved: int, *, contains: int | None, **rest: Any) -> None:
        publish(self, version, reserved, contains=self.ledger.events if contains is None else contains, **rest)

    _instead(Entry, "publish", published)


@_bug("a version's number is used again after a crash", "0799b3d", "crashes")
def _numbers_are_not_reserved() -> None:
    def expected(self: Any, view: MaterializedView) -> int:
        following: int = self._next.get(view.id, 0)
        return max(following, view.current.number + 1)

    _instead(VersionNumbers, "expected", expected)


@_bug("two gateways publish", "dadbff6", "gateways")
def _no_fence() -> None:
    async def nothing(*_: object) -> None: ...

    for name in ("check", "check_lately"):
        _instead(Fence, name, nothing)
    _instead(Fence, "beat", nothing)
    _instead(Settlement, "check_unmoved", nothing)


@_bug("a read is sent to what its name has come to mean", "312b924", "names")
def _names_are_looked_up_once() -> None:
    async def prepare(self: Any, first: RefreshFirst, report: Report) -> Send:
        first = await self.exactly(first)
        await self._gatekeeper.confirm(first.read.sure)
        await self._ask_for_writes(first.unpinned)
        await self._look(first.unpinned)
        wanted = self._wanted(first)
        await self._make_fresh(first, wanted, report)
        sent: Send = self.depart(first, wanted)
        return sent

    _instead(Reads, "prepare", prepare)


@_bug("what a name shows after a broken connection stays so", "d0127ad", "switches")
def _nothing_comes_late() -> None:
    async def not_early(*_: object) -> float:
        return 0.0

    _instead(Settlement, "_seconds_early", not_early)


@_bug("rows that went after a refresh were never there", "a0bcb6f", "an emptied table")
def _rows_are_not_doubted() -> None:
    _instead(Inspection, "until", lambda self, _: self.snapshots)


@_bug("a refresh does not ask which writes have ended", "90e45ad", "unpolled")
def _refreshes_see_no_writes() -> None:
    """Each one counted as written beside, and its view as stale, until the client's session ended."""

    async def nothing(*_: object) -> None: ...

    _instead(Preparation, "_ask_for_writes", nothing)


@_bug("foreign rows are read", "this one", "spoils")
def _storage_is_not_looked_at() -> None:
    _instead(StorageLooks, "due", lambda *_: False)


@_bug("a refresh continues from foreign rows", "this one", "spoilt rows")
def _stored_rows_are_believed() -> None:
    mark = StorageLooks.mark

    async def marked(self: StorageLooks, entry: Entry, shown: Shown, *, alone: bool = True) -> Fold | None:
        return await mark(self, entry, shown)

    _instead(StorageLooks, "mark", marked)


@_bug("statements are routed by a gateway that does not lead any more", "d34f64ee", "leaders")
def _nobody_asks_who_leads() -> None:
    async def nothing(*_: object) -> None: ...

    _instead(Client, "_led", nothing)


@_bug("a change of a gateway that does not lead any more comes late", "this one", "leaders")
def _changes_are_sent_as_they_are() -> None:
    async def run(_: object, sql: str, send: Sending[Any]) -> Any:
        return await send(sql, None)

    _instead(Fenced, "run", run)


@_bug("the end of a write is told by a gateway that does not lead any more", "d34f64ee", "leaders")
def _ends_are_told_by_anybody() -> None:
    async def nothing(*_: object) -> None: ...

    _instead(Client, "_confirmed", nothing)


@_bug("a check of long ago says who leads", "d34f64ee", "leaders")
def _checks_hold_for_long() -> None:
    _instead(fence, "SURE_SECONDS", 60.0)


@_bug("a successor does not wait", "d34f64ee", "leaders")
def _no_successor_waits() -> None:
    _instead(server, "TAKING_OVER_SECONDS", 0.0)
