"""What the page shows of all views: a picture of the catalog, made at most once a second, when a browser asks for it.

Tests: `test_survey`, `test_browser_page`.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from gateway.loops import Turn, Turnstile
from gateway.mv.catalog.index import Catalog
from gateway.mv.freshness.entry import Entry
from gateway.mv.freshness.inquiry import Inquiry
from gateway.mv.freshness.troubles import DAMAGED, Trouble, severity, trouble_of_damaged, troubles_of
from gateway.mv.jobs.jobs import RefreshJobs
from gateway.mv.model.damage import Damage
from gateway.mv.model.read_counts import DAY_MS
from gateway.mv.model.residence import Residence, TableResidence
from gateway.service.answers import info
from sql.names import TableName

PICTURE_SECONDS = 1.0
"""How old a picture may be."""
PIECE_SECONDS = 0.002
"""How long making it may hold the event loop: a statement of a client passes the loop several times, and waits each
time."""
WEEK = 7


@dataclass(frozen=True, slots=True)
class ViewSummary:
    """One view. Times are milliseconds since the epoch; 0 if there is none."""

    name: TableName
    owner: str
    """Its name; empty if it cannot be read."""
    freshness: str
    reason: str
    since: int
    trigger: str
    version: int
    refreshed_at: int
    took_ms: int | None
    """The last refresh."""
    next_run: int
    paused: bool
    last_status: str
    busy: bool
    """Whether it has tasks that run or wait."""
    reads: int
    """In seven days."""
    last_read: int
    troubles: tuple[Trouble, ...] = ()
    memory: Residence | None = None
    """None: it is not to be in memory."""

    @property
    def state(self) -> str:
        """What a list shows first."""
        return self.troubles[0].kind if self.troubles else self.freshness


@dataclass(frozen=True, slots=True)
class Survey:
    views: tuple[ViewSummary, ...] = ()
    """By name."""
    troubles: tuple[tuple[ViewSummary, Trouble], ...] = ()
    """The worst first, and the oldest first among equals."""
    counts: Counter[str] = field(default_factory=Counter)
    """Views by freshness."""
    memory: tuple[Residence, ...] = ()
    """Of the views that are to be in memory."""
    tables: tuple[TableResidence, ...] = ()
    """The base tables that are held beside them, or are to be."""
    taken: float = float("-inf")


class Surveyor:
    def __init__(
        self,
        catalog: Catalog,
        jobs: RefreshJobs,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._catalog = catalog
        self._jobs = jobs
        self._now_ms = now_ms
        self._clock = clock
        self._last = Survey()
        self._making: asyncio.Task[Survey] | None = None
        self._turnstile = Turnstile()

    async def survey(self) -> Survey:
        """The last picture, or a new one, for which all who ask meanwhile wait. Lets other work run in between, and
        returns to each of them in a turn of its own, because each makes a page of it."""
        survey = self._last
        if self._clock() - survey.taken >= PICTURE_SECONDS:
            if self._making is None:
                self._making = asyncio.create_task(self._make(), name="picture for the page")
                self._making.add_done_callback(self._made)
            # A browser that goes takes the picture from nobody else.
            survey = await asyncio.shield(self._making)
        await self._turnstile.enter()
        return survey

    def _made(self, _: object) -> None:
        self._making = None

    async def _make(self) -> Survey:
        turn, found, began, inquiry = Turn(PIECE_SECONDS), list[ViewSummary](), self._clock(), self._catalog.inquiry()
        for view in self._catalog.views():
            if (entry := self._catalog.find(view.id)) is not None:
                found.append(self.summary(entry, inquiry))
            if await turn.pause():
                inquiry = self._catalog.inquiry()
        found += map(_damaged, self._catalog.damaged.values())
        found.sort(key=lambda view: (view.name.database, view.name.table))
        await turn.pause()
        troubles = [(view, trouble) for view in found for trouble in view.troubles]
        troubles.sort(key=lambda each: severity(each[1]))
        await turn.pause()
        counts = Counter(view.freshness for view in found)
        memory = tuple([view.memory for view in found if view.memory is not None])
        tables = tuple(self._catalog.residences.tables())
        self._last = Survey(tuple(found), tuple(troubles), counts, memory, tables, began)
        return self._last

    def summary(self, entry: Entry, inquiry: Inquiry) -> ViewSummary:
        """`inquiry`: of this moment."""
        view, history, now = entry.view, entry.history, self._now_ms()
        staleness, last = inquiry.staleness(view.id), history.last
        refresh = history.last_refresh
        return ViewSummary(
            view.name,
            view.owner,
            self._catalog.freshness(view.id, inquiry).value,
            staleness.reason if staleness else "",
            staleness.since if staleness else 0,
            info.trigger_of(view),
            view.current.number,
            view.current.published_at if view.built else 0,
            refresh.finished_at - refresh.created_at if refresh else None,
            self._jobs.next_run(view.id) or 0,
            view.paused,
            last.status.value if last else "",
            bool(history.unended),
            entry.reads.since(now // DAY_MS - WEEK + 1),
            entry.reads.last_at,
            tuple(troubles_of(entry, inquiry.awaited(view), now)),
            self._catalog.residences.of(view),
        )


def _damaged(damage: Damage) -> ViewSummary:
    return ViewSummary(
        name=damage.name,
        owner=damage.owner or "",
        freshness=DAMAGED,
        reason=damage.problem,
        since=0,
        trigger="",
        version=0,
        refreshed_at=0,
        took_ms=None,
        next_run=0,
        paused=False,
        last_status="",
        busy=False,
        reads=0,
        last_read=0,
        troubles=(trouble_of_damaged(damage),),
    )


def chosen(views: Iterable[ViewSummary], text: str, state: str, order: str) -> list[ViewSummary]:
    """Those whose name or owner contains a text, of a freshness or with a kind of trouble, in an order. `views`: by
    name."""
    wanted = text.lower()
    found = [
        view
        for view in views
        if (wanted in str(view.name).lower() or wanted in view.owner.lower())
        and (not state or state == view.freshness or any(state == trouble.kind for trouble in view.troubles))
    ]
    if order in ORDERS:
        found.sort(key=ORDERS[order])
    return found


ORDERS: dict[str, Callable[[ViewSummary], Any]] = {
    "age": lambda view: view.refreshed_at,
    "cost": lambda view: -(view.took_ms or 0),
    "reads": lambda view: -view.reads,
    "unread": lambda view: (view.reads, view.last_read),
    "stale": lambda view: (not view.since, view.since),
}
