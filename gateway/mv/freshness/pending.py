"""Pending effects: what clients' statements may change that have not ended, or are not known to have ended.

An effect is an immutable value that is made before its statement is sent: it may write to tables (`TablesWritten`), or,
if the gateway misunderstood it, change public views (`ViewsEndangered`). It is pending from `begin` to `end`. In
between, its outcome may turn out to be unknown: Spark may still carry out a statement that was cancelled, or whose
connection broke.

Views that depend on a written table note it in their ledgers. `mv.catalog.confirmation` confirms endangered views.

Tests: `test_ledger`, `test_confirmation`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field
from itertools import count
from typing import Protocol

from gateway.mv.freshness.entry import Entry
from gateway.mv.freshness.ledger import TablesWritten
from gateway.mv.freshness.news import News
from sql.names import TableName
from sql.words import Words

WORKED_OUT_MAX = 20
"""Pending writes whose tables are worked out at once, which takes a millisecond each. The others count by
their words."""


@dataclass(frozen=True, slots=True, eq=False)
class ViewsEndangered:
    """A statement may change these public views, given by id, if it was misunderstood. `text` contains no password;
    `words` are its identifiers, case-folded."""

    views: frozenset[str]
    user: str
    session: str
    statement: int
    text: str
    words: Words = frozenset()
    changes_properties: bool = False
    """Whether it may change comment and properties."""


class Ending(Protocol):
    """Asks whether a statement has ended: clients need not ask."""

    @property
    def known(self) -> bool:
        """Whether it is known that it has ended, or that it runs."""
        ...

    async def look(self) -> bool:
        """Finds it out; False if Spark does not answer."""
        ...


# --- tables ----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Pending:
    ending: Ending | None
    """None: whether it has ended cannot be determined."""
    noted: set[str] = field(default_factory=set)
    """The ids of the views that have noted it, because there may be thousands of others."""


class PendingWrites:
    """Every forwarded statement that may write and has not ended, whether or not it concerns base tables.

    A view that is created while such a statement runs must know about it: the statement may commit after the view's
    first refresh has read.
    """

    def __init__(
        self,
        entries: Mapping[str, Entry],
        dependents: Callable[[Iterable[TableName]], Iterable[Entry]],
        reads: Callable[[str], Iterable[str]],
        news: News,
        now_ms: Callable[[], int],
    ) -> None:
        """`dependents`: the views that read one of the tables. `reads`: a view itself and all views below it, by id."""
        self._entries = entries
        self._dependents = dependents
        self._reads = reads
        self._news = news
        self._now_ms = now_ms
        self._pending: dict[TablesWritten, _Pending] = {}

    def __len__(self) -> int:
        return len(self._pending)

    def begin(self, write: TablesWritten, ending: Ending | None = None) -> None:
        """A statement is decided. `ending` asks whether it has ended; None: it cannot be asked."""
        self._pending[write] = _Pending(ending)

    def send(self, write: TablesWritten) -> None:
        """The statement is about to be sent: every view that depends on its tables notes it."""
        for entry in self._dependents(write.tables or ()):
            self._note(write, entry)

    def note(self, entry: Entry, tables: frozenset[TableName]) -> None:
        """A view that did not read these tables before notes the pending writes that may change one of them."""
        for write in self.touching(tables):
            if write not in entry.ledger.open:
                self._note(write, entry)

    def end(self, write: TablesWritten) -> None:
        """The statement has ended, or can no longer take effect."""
        noted = self._touch(write)
        self._pending.pop(write, None)
        at, tables = self._now_ms(), write.tables or frozenset()
        stale = [entry.view.id for entry in noted if entry.ledger.end(write, at, tables)]
        if stale:
            self._news.stale.tell(stale, ", ".join(map(str, sorted(tables))))

    def forget(self, write: TablesWritten) -> None:
        """The statement never did anything: Spark could not even parse it."""
        for entry in self._noted(write):
            entry.ledger.forget(write)
        self._pending.pop(write, None)

    def lose(self, write: TablesWritten) -> None:
        """The outcome is unknown: the statement counts as ended, and as one that is still pending until `end`. Spark
        may commit a cancelled statement a few seconds later."""
        for entry in self._touch(write):
            entry.ledger.end(write, self._now_ms(), write.tables or frozenset())
            entry.ledger.begin(write)
        if write in self._pending:
            self._pending[write].ending = None

    def to_ask(self, views: Iterable[str]) -> list[TablesWritten]:
        """The pending writes to base tables of these views, and of those below, that may have ended unnoticed."""
        entries = (self._entries.get(below) for view_id in views for below in self._reads(view_id))
        noted = dict.fromkeys(write for entry in entries if entry is not None for write in entry.ledger.open)
        return [write for write in noted if (ending := self._ending(write)) is None or not ending.known]

    def to_ask_of(self, tables: Set[TableName]) -> list[TablesWritten]:
        """The pending writes to one of these tables that may have ended unnoticed."""
        concerned = (write for write in self._pending if write.tables and not tables.isdisjoint(write.tables))
        return [write for write in concerned if (ending := self._ending(write)) is None or not ending.known]

    def _ending(self, write: TablesWritten) -> Ending | None:
        pending = self._pending.get(write)
        return None if pending is None else pending.ending

    async def ask(self, views: Iterable[str]) -> None:
        """Determines which of these writes have ended. A write counts as ended if Spark does not tell."""
        await asyncio.gather(*map(self._ask, self.to_ask(views)))

    async def ask_of(self, tables: Set[TableName]) -> None:
        """The same of writes to these tables."""
        await asyncio.gather(*map(self._ask, self.to_ask_of(tables)))

    async def _ask(self, write: TablesWritten) -> None:
        ending = self._ending(write)
        if (ending is None or not await ending.look()) and write in self._pending:
            for entry in self._touch(write):
                entry.ledger.touch(self._now_ms(), write.tables or frozenset(), write.writer)

    def touching(self, tables: frozenset[TableName]) -> list[TablesWritten]:
        """The pending writes that may change one of `tables`."""
        stems = frozenset(stem for table in tables for stem in table.stems)
        words = frozenset(name.lower() for _, name in stems)
        found, worked_out = list[TablesWritten](), 0
        for write in self._pending:
            known = write.tables
            if known is None and not write.anything:
                if write.words.isdisjoint(words):
                    continue
                if worked_out < WORKED_OUT_MAX:
                    worked_out += 1
                    known = write.targets()
            if write.anything or known is None or any(not stems.isdisjoint(table.stems) for table in known):
                found.append(write)
        return found

    def _note(self, write: TablesWritten, entry: Entry) -> None:
        self._pending[write].noted.add(entry.view.id)
        entry.ledger.begin(write)

    def _noted(self, write: TablesWritten) -> list[Entry]:
        """The entries that noted the write and in which it is still open."""
        pending = self._pending.get(write)
        entries = map(self._entries.get, sorted(pending.noted if pending is not None else ()))
        return [entry for entry in entries if entry is not None and write in entry.ledger.open]

    def _touch(self, write: TablesWritten) -> list[Entry]:
        """Invalidates earlier observations of the tables that the write may have changed. Returns the entries that have
        noted it."""
        noted = self._noted(write)
        tables = set(write.tables or ())
        if write.tables is None:
            tables.update(*(entry.view.tables for entry in noted))
        self._news.touched.tell(tables)
        return noted


# --- public views ----------------------------------------------------------------------------------------------


@dataclass(slots=True)
class EndangeredView:
    """A view that statements may have changed: the effects, and from which moment on each changes nothing more, None
    while it may."""

    effects: dict[ViewsEndangered, int | None] = field(default_factory=dict)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    confirmed: int = 0
    """The moment when the last check began that found the view correct or restored it."""


class EndangeredViews:
    """Views, by id, that statements may have changed since they were last confirmed. Moments are increasing numbers."""

    def __init__(self) -> None:
        self._views: dict[str, EndangeredView] = {}
        self._moments = count(1)

    def __len__(self) -> int:
        return len(self._views)

    def __contains__(self, view_id: str) -> bool:
        return view_id in self._views

    def moment(self) -> int:
        """A moment later than all earlier ones."""
        return next(self._moments)

    def find(self, view_id: str) -> EndangeredView | None:
        return self._views.get(view_id)

    def effects_on(self, view_id: str) -> tuple[ViewsEndangered, ...]:
        """What may have changed this view."""
        view = self._views.get(view_id)
        return tuple(view.effects) if view else ()

    def begin(self, effect: ViewsEndangered) -> None:
        """A statement is about to be sent."""
        for view_id in effect.views:
            self._views.setdefault(view_id, EndangeredView()).effects[effect] = None

    def end(self, effect: ViewsEndangered) -> None:
        """The statement has ended, or can no longer take effect. Its views are still to be confirmed."""
        moment = self.moment()
        for view_id in effect.views:
            view = self._views.get(view_id)
            if view is not None and effect in view.effects:
                view.effects[effect] = moment

    def confirm(self, view_id: str, view: EndangeredView, began: int) -> None:
        """A check that began at this moment found the view correct or restored it. Statements that had ended before
        have not changed it."""
        view.confirmed = began
        for effect in [each for each, ended in view.effects.items() if ended is not None and ended < began]:
            del view.effects[effect]
        if not view.effects and self._views.get(view_id) is view:
            del self._views[view_id]

    def forget(self, view_id: str) -> None:
        self._views.pop(view_id, None)
