"""The materialized views that exist, in memory: their names and ids, what they read, and how fresh they are.

Everything that is stored is stored in the table properties in Spark's metastore (`mv.model.properties`), and `loading`
reads it from there. The version that a view's name shows to Spark is the current one; the properties say what that
version contains.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Set
from contextlib import AsyncExitStack, asynccontextmanager

from gateway.errors import NoSuchView
from gateway.mv.catalog.fence import Fence
from gateway.mv.catalog.naming import DEFINITION_SUFFIX
from gateway.mv.catalog.news import News
from gateway.mv.freshness.drift import NOT_LOOKED, unseen
from gateway.mv.freshness.entry import Entry
from gateway.mv.freshness.inquiry import Inquiry, bases
from gateway.mv.freshness.ledger import OpenWrites, Write
from gateway.mv.model.damage import Damage, damaged
from gateway.mv.model.history import History
from gateway.mv.model.view import Freshness, Kept, MaterializedView, Staleness, name_of_id
from sql.names import TableName

log = logging.getLogger(__name__)

GONE_MAX = 1_000
"""Views that were dropped or replaced whose names are kept."""


class Catalog:
    """The views by name and id, and which of them depend on a table."""

    def __init__(
        self,
        storage_database: str,
        fence: Fence,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._fence = fence
        self._now_ms = now_ms
        self._entries: dict[str, Entry] = {}
        self._by_name: dict[TableName, Entry] = {}
        self._dependents: dict[TableName, frozenset[str]] = {}
        self._above: dict[str, frozenset[str]] = {}
        self._gone: dict[str, TableName] = {}
        """Names of the last views that were dropped or replaced, by their ids."""
        self.damaged: dict[TableName, Damage] = {}
        """Views that are there no more as a whole, until somebody drops the rest."""
        self.revision = 0
        """Grows whenever a view comes, goes, moves, or reads other tables."""
        self._name_locks: dict[TableName, tuple[asyncio.Lock, int]] = {}
        """With how many hold a lock or wait for it."""
        self.news = News()
        self._read: frozenset[TableName] = frozenset()
        self._by_stem: dict[tuple[str, str], set[TableName]] = {}
        self.building: set[str] = set()
        """Storage tables of views that CREATE is making."""
        self.storage_database = storage_database
        self.writes = OpenWrites()
        self.view_words: frozenset[str] = frozenset()
        """The last parts of the views' names, and the storage database's name."""
        self.table_words: frozenset[str] = frozenset()
        """The last parts of the base tables' names, and their databases' names: DROP DATABASE writes them too."""
        self.reindex()

    # --- reading -----------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._by_name)

    @property
    def idle(self) -> bool:
        """There is no view, nor one being created."""
        return not self._entries

    def views(self) -> list[MaterializedView]:
        """Every view that can be read, by name."""
        return [self._by_name[name].view for name in sorted(self._by_name)]

    def named(self, name: TableName) -> MaterializedView | None:
        entry = self._by_name.get(name)
        return entry.view if entry else None

    def entry_named(self, name: TableName) -> Entry | None:
        return self._by_name.get(name)

    def entry(self, view_id: str) -> Entry:
        """Raises NoSuchView for one that was dropped or replaced."""
        try:
            return self._entries[view_id]
        except KeyError:
            for damage in self.damaged.values():
                if damage.storage.table == view_id:
                    raise damaged(damage) from None
            raise NoSuchView(self._said_of_gone(view_id)) from None

    def _said_of_gone(self, view_id: str) -> str:
        """The id is nobody's business."""
        name = self._gone.get(view_id) or name_of_id(view_id)
        if name in self._by_name:
            return f"The materialized view {name} was replaced meanwhile. Run the statement again."
        return f"The materialized view {name} was dropped meanwhile."

    def _part_with(self, view: MaterializedView) -> None:
        """Keeps the name for those who still have the id."""
        self._gone[view.id] = view.name
        if len(self._gone) > GONE_MAX:
            del self._gone[next(iter(self._gone))]

    def lock_of(self, view_id: str) -> asyncio.Lock:
        """Held over changes of the view's stored properties; a dropped view has none that matter."""
        entry = self._entries.get(view_id)
        return entry.lock if entry else asyncio.Lock()

    def kept(self, view_id: str) -> Kept | None:
        """None for a view that is not in the catalog, or of which nobody knows which version is current."""
        entry = self._entries.get(view_id)
        if entry is None or entry.uncertain:
            return None
        return Kept(entry.view.current.shown, entry.begun, entry.view.versions_reserved)

    def entries(self) -> Iterable[Entry]:
        """Of all views, those too that CREATE is building."""
        return self._entries.values()

    def find(self, view_id: str) -> Entry | None:
        return self._entries.get(view_id)

    def stores(self, table: str) -> bool:
        """Whether a table of the storage database with that name holds a view's rows or its definition."""
        view_id = table.removesuffix(DEFINITION_SUFFIX)
        return view_id in self._entries or any(damage.storage.table == view_id for damage in self.damaged.values())

    def dependents(self, tables: Iterable[TableName]) -> list[Entry]:
        """The views that read one of `tables` directly or through Spark views (not through other MVs)."""
        ids = {view_id for table in tables for view_id in self._dependents.get(table, ())}
        return [self._entries[view_id] for view_id in sorted(ids)]

    def above(self, view_id: str) -> frozenset[str]:
        """The views that read the view, and whose refreshes its changes concern."""
        return self._above.get(view_id, frozenset())

    def tables(self) -> list[TableName]:
        """Every base table."""
        return list(self._dependents)

    def is_read(self, table: TableName) -> bool:
        """Whether a view reads a table, or a Spark view on the way to one."""
        return table in self._read

    def tables_in(self, database: str) -> frozenset[TableName]:
        """The base tables that lie in a database."""
        return frozenset(
            table for table in self._dependents if database in {table.database, *(within for within, _ in table.stems)}
        )

    def changed_with(self, tables: Iterable[TableName], *, exact: bool = True) -> frozenset[TableName]:
        """These tables, and the base tables that a change of one of them may change: other versions of it, what stands
        below it (a branch, a metadata table), and what that stands below. Not `exact`: its catalog may be another."""
        found = set(tables)
        for table in tables:
            for base in self._by_stem.get(table.stems[0], ()):
                if not exact or base.aspect or base.stems[0] != table.stems[0]:
                    found.add(base)
            for stem in table.stems[1:]:
                found |= self._by_stem.get(stem, set())
        return frozenset(found)

    def is_stale(self, view_id: str) -> bool:
        """Whether the current version misses a write that has ended, its own or one below another view."""
        return self._inquiry().is_stale(view_id)

    def staleness(self, view_id: str) -> Staleness | None:
        """Why and since when the current version is stale; None where it is not."""
        return self._inquiry().staleness(view_id)

    def _inquiry(self) -> Inquiry:
        return Inquiry(self._entries, lost=self._fence.lost is not None)

    def freshness(self, view_id: str) -> Freshness:
        entry = self._entries.get(view_id)
        if entry is not None and (entry.uncertain or _blind(entry) or self._fence.lost):
            return Freshness.UNKNOWN
        staleness = self.staleness(view_id)
        if staleness is None:
            return Freshness.FRESH
        return Freshness.FRESH_WITHIN_GRACE if self.is_tolerated(view_id, staleness) else Freshness.STALE

    def is_tolerated(self, view_id: str, staleness: Staleness) -> bool:
        """Whether the view's grace period is not over; it has none before all of it is built. A change in the future is
        one from before the clock was set back: how long ago that was nobody knows."""
        view = self.entry(view_id).view
        return view.complete and staleness.since <= self._now_ms() < staleness.since + view.grace_ms

    def current(self, view_id: str) -> int:
        """The number of the view's current version; -1 for a view that was dropped."""
        entry = self._entries.get(view_id)
        return entry.view.current.number if entry else -1

    def names_of(self, ids: Iterable[str]) -> dict[str, TableName]:
        """The names of those of the views that exist."""
        return {view_id: entry.view.name for view_id in ids if (entry := self._entries.get(view_id))}

    def reads(self, view_id: str) -> frozenset[str]:
        """The view itself and all views below it."""
        found: set[str] = set()
        pending = [view_id]
        while pending:
            current = pending.pop()
            if current not in found and (entry := self._entries.get(current)):
                found.add(current)
                pending.extend(entry.view.views)
        return frozenset(found)

    # --- noted writes ------------------------------------------------------------------------------

    def begin_write(self, write: Write) -> None:
        """Notes a write that is about to be forwarded with every view that depends on its tables."""
        for entry in self.dependents(write.tables or ()):
            self._note(write, entry)

    def _note(self, write: Write, entry: Entry) -> None:
        write.noted.add(entry.view.id)
        entry.ledger.begin(write.number, removes=write.removes)

    def _noted(self, write: Write) -> list[Entry]:
        """The views with which a write was noted, and is still open."""
        entries = map(self._entries.get, sorted(write.noted))
        return [entry for entry in entries if entry is not None and write.number in entry.ledger.open]

    def _note_open(self, entry: Entry, tables: frozenset[TableName]) -> None:
        """Notes the writes under way that may change one of the tables, with a view that did not read it before."""
        for write in self.writes.touching(tables):
            if write.number not in entry.ledger.open:
                self._note(write, entry)

    def end_write(self, write: Write) -> None:
        """Notes that a write has ended."""
        self.writes.end(write)
        self._touched(write)
        at, tables = self._now_ms(), write.tables or frozenset()
        stale = [entry.view.id for entry in self._noted(write) if entry.ledger.end(write.number, at, tables)]
        if stale:
            self.news.stale.tell(stale, ", ".join(map(str, sorted(tables))))

    def _touched(self, write: Write) -> None:
        """Looks that were taken before now do not count."""
        tables = set(write.tables or ())
        if write.tables is None:
            tables.update(*(entry.view.tables for entry in self._noted(write)))
        self.news.touched.tell(tables)

    def forget_write(self, write: Write) -> None:
        """Spark could not even parse the statement."""
        self.writes.end(write)
        for entry in self._noted(write):
            entry.ledger.forget(write.number)

    def doubt_write(self, number: int) -> None:
        """Nobody can say whether an open write has ended: the views with which it is noted must be looked at."""
        write = self.writes.find(number)
        if write is None:
            return
        self._touched(write)
        for entry in self._noted(write):
            entry.ledger.touch(self._now_ms(), write.tables or frozenset())

    def suspect_write(self, write: Write) -> Write:
        """Notes that a write was cancelled or lost: it counts as ended, and as another one that is still open.

        Spark may commit what it was told to cancel some seconds later.
        """
        late = self.writes.begin(write.words, write.tables, anything=write.anything)
        self._touched(write)
        for entry in self._noted(write):
            entry.ledger.end(write.number, self._now_ms(), write.tables or frozenset())
            self._note(late, entry)
        self.writes.end(write)
        return late

    # --- changing ----------------------------------------------------------------------------------

    @asynccontextmanager
    async def name_lock(self, name: TableName) -> AsyncIterator[None]:
        """One CREATE or DROP of a name at a time."""
        lock, users = self._name_locks.get(name, (asyncio.Lock(), 0))
        self._name_locks[name] = lock, users + 1
        try:
            async with lock:
                yield
        finally:
            lock, users = self._name_locks[name]
            if users == 1:
                del self._name_locks[name]
            else:
                self._name_locks[name] = lock, users - 1

    def add(self, view: MaterializedView, history: History) -> None:
        """A view that was found in the storage database. Nobody has looked at its base tables yet."""
        entry = Entry(view, history, drift=unseen(view) or NOT_LOOKED, changed=self._reread)
        # If it is found late, writes may be under way.
        self._note_open(entry, view.triggers)
        self._entries[view.id] = entry
        self._by_name[view.name] = entry
        self.damaged.pop(view.name, None)

    def reserve(self, view: MaterializedView) -> Entry:
        """A view that CREATE is building: from now on writes are noted for it. Open ones count as begun."""
        entry = Entry(view, reserved=True, changed=self._reread)
        self._note_open(entry, view.triggers)
        self._entries[view.id] = entry
        self.reindex()
        return entry

    def show(self, entry: Entry) -> Entry | None:
        """Makes a reserved view visible; returns the entry that it replaces."""
        replaced = self._by_name.get(entry.view.name)
        entry.show()
        self._by_name[entry.view.name] = entry
        self.damaged.pop(entry.view.name, None)
        if replaced is not None:
            del self._entries[replaced.view.id]
            self._part_with(replaced.view)
        self.reindex()
        return replaced

    def remove(self, entry: Entry) -> None:
        """Takes a view out, visible or reserved."""
        if self._entries.pop(entry.view.id, None) is not None:
            self._part_with(entry.view)
        if self._by_name.get(entry.view.name) is entry:
            del self._by_name[entry.view.name]
        self.reindex()
        self.news.moved.tell()

    def report_damage(self, entry: Entry, problem: str) -> None:
        """Takes out a view of which a part is missing; not one that was dropped or replaced meanwhile."""
        view = entry.view
        if self._entries.get(view.id) is not entry:
            return
        self.add_damage(Damage(view.name, view.storage, view.owner, problem))
        self.remove(entry)

    def add_damage(self, damage: Damage) -> None:
        """A view of which a part is missing or cannot be read."""
        log.error("the materialized view %s is damaged: %s. %s", damage.name, damage.problem, damage.advice)
        self.damaged[damage.name] = damage

    def forget_damage(self, name: TableName) -> None:
        self.damaged.pop(name, None)
        self.reindex()

    def rename(self, moved: Mapping[TableName, Entry]) -> None:
        """These names mean these views now; the views' earlier names mean nothing any more, unless they are among them.

        What reads one of the views, or one of the names, is stale: what its definition says means something else.
        """
        before = {entry.view.name for entry in moved.values()}
        for entry in moved.values():
            # The other view of a swap may have it already.
            if self._by_name.get(entry.view.name) is entry:
                del self._by_name[entry.view.name]
        for name, entry in moved.items():
            entry.rename(name)
            self._by_name[name] = entry
        self._touch_above(moved.values(), before | moved.keys())
        self.reindex()
        self.news.moved.tell()

    def _touch_above(self, moved: Iterable[Entry], names: Set[TableName]) -> None:
        """Notes that names mean something else with the views that read them, or that read one of the moved views."""
        ids = {entry.view.id for entry in moved}
        above = [
            entry
            for entry in self._entries.values()
            if not ids.isdisjoint(entry.view.views) or not names.isdisjoint(entry.view.tables)
        ]
        for entry in above:
            entry.ledger.touch(self._now_ms(), frozenset(names))
        self.news.stale.tell([entry.view.id for entry in above], ", ".join(map(str, sorted(names))))

    @asynccontextmanager
    async def name_locks(self, *names: TableName) -> AsyncIterator[None]:
        """Several names; always in the same order, so that two callers never wait for each other."""
        async with AsyncExitStack() as stack:
            for name in sorted(set(names)):
                await stack.enter_async_context(self.name_lock(name))
            yield

    def _reread(self, entry: Entry, before: MaterializedView) -> None:
        """The entry's view reads other things than before, or other changes of them count."""
        self._note_open(entry, entry.view.triggers - before.triggers)
        self.reindex()

    def reindex(self) -> None:
        """Views were added, have gone, or read other tables."""
        self.revision += 1
        dependents: dict[TableName, set[str]] = {}
        for entry in self._entries.values():
            for table in entry.view.triggers:
                dependents.setdefault(table, set()).add(entry.view.id)
        self._dependents = {table: frozenset(ids) for table, ids in dependents.items()}
        above: dict[str, set[str]] = {}
        for entry in self._entries.values():
            for base in bases(self._entries, entry.view):
                above.setdefault(base, set()).add(entry.view.id)
        self._above = {base: frozenset(ids) for base, ids in above.items()}
        read = frozenset(table for entry in self._entries.values() for table in entry.view.tables)
        self.news.unread.tell(self._read - read)
        self._read = read
        names = [*self._by_name, *self.damaged]
        self.view_words = frozenset({self.storage_database, *(name.table for name in names)})
        by_stem: dict[tuple[str, str], set[TableName]] = {}
        for table in dependents:
            for stem in table.stems:
                by_stem.setdefault(stem, set()).add(table)
        self._by_stem = by_stem
        self.table_words = frozenset(word for stem in by_stem for word in stem)


def _blind(entry: Entry) -> bool:
    """Nothing is known to have changed, but not all could be looked at."""
    drift = entry.drift
    return drift is not None and not drift.tables and not entry.ledger.stale and entry.view.built
