"""The index of existing materialized views in memory: their names and ids, what they read, and how fresh they are.

The views are stored in table properties in Spark's metastore (`mv.model.properties`); `loading` reads them. The current
version of a view is the one that its public view shows; the properties describe what that version contains.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Set

from gateway.errors import NoSuchView
from gateway.mv.catalog.dependencies import Dependencies
from gateway.mv.catalog.fence import Fence
from gateway.mv.catalog.name_index import NameIndex
from gateway.mv.catalog.name_locks import NameLocks
from gateway.mv.catalog.naming import DEFINITION_SUFFIX, id_of
from gateway.mv.freshness.drift import NOT_LOOKED, unobserved
from gateway.mv.freshness.entry import Entry
from gateway.mv.freshness.inquiry import Inquiry
from gateway.mv.freshness.news import Life, News
from gateway.mv.freshness.pending import EndangeredViews, PendingWrites
from gateway.mv.model.damage import Damage, damaged
from gateway.mv.model.history import History
from gateway.mv.model.read_counts import ReadCounts
from gateway.mv.model.residence import Residences
from gateway.mv.model.view import Freshness, Kept, MaterializedView, Staleness, name_of_id
from sql.names import TableName
from sql.statement import Security
from sql.texts.open_rows import ROWS_SUFFIX
from sql.words import Words

log = logging.getLogger(__name__)

GONE_MAX = 1_000
"""How many names of dropped or replaced views are remembered."""


class Catalog:
    """Finds views by name and id, and the views that depend on a table."""

    def __init__(
        self,
        storage_database: str,
        fence: Fence,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._fence = fence
        self._now_ms = now_ms
        self._entries: dict[str, Entry] = {}
        self._by_name = NameIndex(storage_database)
        self._reads = Dependencies()
        self._gone: dict[str, TableName] = {}
        """The names of the views dropped or replaced last, by id."""
        self.damaged: dict[TableName, Damage] = {}
        """Views with missing parts, until they are dropped."""
        self.revision = 0
        """Increases whenever a view is added, removed or moved, reads other tables, or gets another security."""
        self._invokers: tuple[int, frozenset[str]] = (0, frozenset())
        """Computed for a revision."""
        self.name_locks = NameLocks()
        self.news = News()
        self.drafts: dict[str, Entry] = {}
        """The views of which only a draft is known, by id, and perhaps some that were read since."""
        self.building: set[str] = set()
        """Storage tables of views that CREATE is building."""
        self.storage_database = storage_database
        self.writes = PendingWrites(self._entries, self.dependents, self.reads, self.news, now_ms)
        self.endangered = EndangeredViews()
        self.residences = Residences()

    # --- reading -----------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._by_name)

    @property
    def idle(self) -> bool:
        """Whether there is no view, not even a damaged one or one being created."""
        return not self._entries and not self.damaged

    def views(self) -> list[MaterializedView]:
        """All views that can be read, ordered by name."""
        return [entry.view for entry in self._by_name]

    @property
    def view_words(self) -> frozenset[str]:
        """The table parts of the views' names, and the name of the storage database."""
        return self._by_name.words.all

    @property
    def table_words(self) -> frozenset[str]:
        """The table and database parts of the base tables' names. The databases count because of DROP DATABASE."""
        return self._reads.words

    def named(self, name: TableName) -> MaterializedView | None:
        entry = self._by_name.get(name)
        return entry.view if entry else None

    def entry_named(self, name: TableName) -> Entry | None:
        return self._by_name.get(name)

    def entry(self, view_id: str) -> Entry:
        """Raises NoSuchView if the view was dropped or replaced."""
        try:
            return self._entries[view_id]
        except KeyError:
            for damage in self.damaged.values():
                if damage.storage.table == view_id:
                    raise damaged(damage) from None
            name = self._gone.get(view_id) or name_of_id(view_id)
            raise NoSuchView(_gone_message(name, replaced=name in self._by_name)) from None

    def _remember_name(self, view: MaterializedView) -> None:
        """Keeps the name of a removed view for callers that still have its id."""
        self._gone[view.id] = view.name
        if len(self._gone) > GONE_MAX:
            del self._gone[next(iter(self._gone))]

    def lock_of(self, view_id: str) -> asyncio.Lock:
        """The lock for changes of the view's stored properties. For a dropped view it protects nothing."""
        entry = self._entries.get(view_id)
        return entry.lock if entry else asyncio.Lock()

    def kept(self, view_id: str) -> Kept | None:
        """What must be kept of a view's storage; None if the view is unknown or its current version is doubtful."""
        entry = self._entries.get(view_id)
        if entry is None or entry.doubtful:
            return None
        view = entry.view
        return Kept(view.current.shown, entry.begun, view.versions_reserved, view.layout.open, len(view.layout.parts))

    def entries(self) -> Iterable[Entry]:
        """The entries of all views, including those that CREATE is building."""
        return self._entries.values()

    def find(self, view_id: str) -> Entry | None:
        return self._entries.get(view_id)

    def stores(self, words: Words) -> bool:
        """Whether one of these words names a table or view of the storage database: rows or a definition."""
        damaged = {damage.storage.table for damage in self.damaged.values()}
        if isinstance(words, frozenset):
            found = (id_of(word) for word in words)
            return any(each in self._entries or each in self.building or each in damaged for each in found)
        names = {*self._entries, *self.building, *damaged}
        return any(name + suffix in words for name in names for suffix in ("", DEFINITION_SUFFIX, ROWS_SUFFIX))

    def dependents(self, tables: Iterable[TableName]) -> list[Entry]:
        """The views that read one of `tables` directly or through Spark views (not through other MVs)."""
        ids = {view_id for table in tables for view_id in self._reads.dependents(table)}
        return [self._entries[view_id] for view_id in sorted(ids)]

    def above(self, view_id: str) -> frozenset[str]:
        """The ids of the views that read this view and depend on its changes."""
        base = self._entries.get(view_id)
        above = (self._entries[each] for each in self._reads.above(view_id))
        return frozenset(each.view.id for each in above if base is None or not each.view.excludes(base.view.name))

    def tables(self) -> list[TableName]:
        """All base tables whose changes count."""
        return self._reads.tables()

    def is_read(self, table: TableName) -> bool:
        """Whether a view reads this table, or a Spark view on the way to one, or the table is watched."""
        return self._reads.is_read(table)

    def watch(self, table: TableName) -> bool:
        """From now on, statements that may write to the table are noted as if a view read it. Returns False, and
        nothing is changed, while one may that began before."""
        if self.writes.touching(frozenset({table})):
            return False
        self._reads.watch(table)
        return True

    def unwatch(self, table: TableName) -> None:
        self._reads.unwatch(table)
        if not self.is_read(table):
            self.news.unread.tell([table])

    def tables_in(self, database: str) -> frozenset[TableName]:
        """The base tables in a database."""
        return frozenset(
            table
            for table in self._reads.tables()
            if database in {table.database, *(within for within, _ in table.stems)}
        )

    def changed_with(self, tables: Iterable[TableName], *, exact: bool = True) -> frozenset[TableName]:
        """These tables, and the base tables that change with them: other versions of a table, what belongs to it (a
        branch, a metadata table), and what it belongs to. Not `exact`: the catalog of the table may be another one."""
        found = set(tables)
        for table in tables:
            for base in self._reads.of_stem(table.stems[0]):
                if not exact or base.aspect or base.stems[0] != table.stems[0]:
                    found.add(base)
            for stem in table.stems[1:]:
                found.update(self._reads.of_stem(stem))
        return frozenset(found)

    def is_stale(self, view_id: str) -> bool:
        """Whether the current version misses a finished write to its base tables or to those of a view below."""
        return self.inquiry().is_stale(view_id)

    def staleness(self, view_id: str) -> Staleness | None:
        """Why and since when the current version is stale; None if it is fresh."""
        return self.inquiry().staleness(view_id)

    def inquiry(self) -> Inquiry:
        """Answers questions about many views at this moment, which ends when anything is awaited."""
        return Inquiry(self._entries, lost=self._fence.lost is not None)

    def freshness(self, view_id: str, inquiry: Inquiry | None = None) -> Freshness:
        """`inquiry`: of this moment, if many views are asked about."""
        entry = self._entries.get(view_id)
        if entry is not None and (entry.doubtful or _blind(entry) or self._fence.lost):
            return Freshness.UNKNOWN
        if entry is not None and entry.changed_rows:
            return Freshness.UNKNOWN if entry.unexamined else Freshness.DAMAGED
        staleness = (inquiry or self.inquiry()).staleness(view_id)
        if staleness is None:
            return Freshness.FRESH
        return Freshness.FRESH_WITHIN_GRACE if self.is_tolerated(view_id, staleness) else Freshness.STALE

    def is_tolerated(self, view_id: str, staleness: Staleness) -> bool:
        """Whether the view is within its grace period. One that is not completely built, or damaged, has none. A change
        in the future dates from before the clock was set back: its age is unknown."""
        entry = self.entry(view_id)
        if entry.damage or not entry.view.complete:
            return False
        return staleness.since <= self._now_ms() < staleness.since + entry.view.grace_ms

    def current(self, view_id: str) -> int:
        """The number of the view's current version; -1 for a view that was dropped."""
        entry = self._entries.get(view_id)
        return entry.view.current.number if entry else -1

    def names_of(self, ids: Iterable[str]) -> dict[str, TableName]:
        """The names of the given views, as far as they exist."""
        return {view_id: entry.view.name for view_id in ids if (entry := self._entries.get(view_id))}

    def reads(self, view_id: str) -> frozenset[str]:
        """The ids of the view itself and all views below it."""
        found: set[str] = set()
        pending = [view_id]
        while pending:
            current = pending.pop()
            if current not in found and (entry := self._entries.get(current)):
                found.add(current)
                pending.extend(entry.view.views)
        return frozenset(found)

    @property
    def invokers(self) -> frozenset[str]:
        """The ids of the views with SECURITY INVOKER."""
        revision, found = self._invokers
        if revision != self.revision:
            entries = self._entries.values()
            found = frozenset(each.view.id for each in entries if each.view.security is Security.INVOKER)
            self._invokers = self.revision, found
        return found

    def invoking(self, views: Iterable[str]) -> list[MaterializedView]:
        """The views with SECURITY INVOKER that reading these views reads, as each reader may. The rows of a view
        without it are shown to every reader, whatever it reads."""
        if not (invokers := self.invokers):
            return []
        found: dict[str, MaterializedView] = {}
        pending = [each for each in views if each in invokers]
        while pending:
            view = self._entries[pending.pop()].view
            if view.id not in found:
                found[view.id] = view
                pending += [each for each in view.views if each in invokers]
        return list(found.values())

    def invoking_below(self, view: MaterializedView) -> list[MaterializedView]:
        """The same of the views that this one reads."""
        return self.invoking(view.views)

    # --- changing ----------------------------------------------------------------------------------

    def add(self, view: MaterializedView, history: History, reads: ReadCounts | None = None) -> None:
        """Adds a view that was found in the storage database. Its base tables have not been observed yet."""
        drift = unobserved(view) or NOT_LOOKED
        entry = Entry(view, history, reads=reads, drift=drift, changed=self._reread)
        # If the view is found late, writes may be under way.
        self.writes.note(entry, view.triggers)
        self._entries[view.id] = entry
        self._by_name.give(view.name, entry)
        self.forget_damage(view.name)
        self._reindexed(self._reads.put(view))
        self.news.moved.tell([view.name])

    def reserve(self, view: MaterializedView) -> Entry:
        """Adds a view that CREATE is building. From now on writes are noted for it; open ones count as begun."""
        entry = Entry(view, reserved=True, changed=self._reread)
        self.writes.note(entry, view.triggers)
        self._entries[view.id] = entry
        self._reindexed(self._reads.put(view))
        return entry

    def show(self, entry: Entry) -> Entry | None:
        """Makes a reserved view visible; returns the entry that it replaces."""
        replaced, unread = self._by_name.owner(entry.view.name), frozenset[TableName]()
        entry.show()
        self._by_name.give(entry.view.name, entry)
        self.forget_damage(entry.view.name)
        if replaced is not None:
            self._by_name.settle(replaced)
            del self._entries[replaced.view.id]
            self._remember_name(replaced.view)
            unread = self._reads.remove(replaced.view.id)
        self._reindexed(unread)
        for life, each in ((Life.DROPPED, replaced), (Life.CREATED, entry)):
            if each is not None:
                self.news.lives.tell(life, each.view, each.view.name)
        return replaced

    def remove(self, entry: Entry) -> None:
        """Removes a view, visible or reserved, which does not exist any more."""
        known = self._entries.get(entry.view.id) is entry
        self._take_out(entry)
        if known:
            self.news.lives.tell(Life.DROPPED if entry.visible else Life.ABANDONED, entry.view, entry.view.name)

    def _take_out(self, entry: Entry) -> None:
        if self._entries.pop(entry.view.id, None) is not None:
            self._remember_name(entry.view)
        self._by_name.take(entry.view.name, entry)
        self._by_name.settle(entry)
        self._reindexed(self._reads.remove(entry.view.id))
        self.news.moved.tell([entry.view.name])

    def report_damage(self, entry: Entry, problem: str) -> None:
        """Removes a view with a missing part, unless it was dropped or replaced in the meantime."""
        view = entry.view
        if self._entries.get(view.id) is not entry:
            return
        self.add_damage(Damage(view.name, view.storage, view.owner, problem))
        self._take_out(entry)

    def add_damage(self, damage: Damage) -> None:
        """Adds a view with a part that is missing or cannot be read."""
        log.error("the materialized view %s is damaged: %s. %s", damage.name, damage.problem, damage.advice)
        self.forget_damage(damage.name)
        self.damaged[damage.name] = damage
        self._by_name.words.add(damage.name.table)
        self._reindexed()

    def forget_damage(self, name: TableName) -> None:
        """Removes a damaged view, if there is one with this name."""
        if self.damaged.pop(name, None) is not None:
            self._by_name.words.remove(name.table)
            self._reindexed()

    def expect(self, names: Mapping[TableName, Entry]) -> None:
        """From now on, these views may have these names: an ALTER is about to give them. Reads of the names are reads
        of the views, until `rename` or `settle_names`."""
        for name, entry in names.items():
            self._by_name.expect(name, entry)
        self._reindexed()
        self.news.moved.tell(names)

    def settle_names(self, entry: Entry) -> None:
        """The view certainly has the name that the catalog has for it."""
        self._by_name.settle(entry)
        self._reindexed()

    def rename(self, moved: Mapping[TableName, Entry]) -> None:
        """Gives these names to these views. Their earlier names, unless they are among the new ones, have no view then.

        Views that read one of the views or names become stale, because their definitions now mean something else.
        """
        names = {entry.view.id: entry.view.name for entry in moved.values()}
        before = set(names.values())
        for entry in moved.values():
            # In a swap, the name may already belong to the other view.
            self._by_name.take(entry.view.name, entry)
            self._by_name.settle(entry)
        for name, entry in moved.items():
            entry.rename(name)
            self._by_name.give(name, entry)
        self._touch_above(moved.values(), before | moved.keys())
        self._reindexed()
        self.news.moved.tell(before | moved.keys())
        for entry in moved.values():
            self.news.lives.tell(Life.RENAMED, entry.view, names[entry.view.id])

    def _touch_above(self, moved: Iterable[Entry], names: Set[TableName]) -> None:
        """Marks views as changed that read one of these names or one of the moved views."""
        ids = {view_id for entry in moved for view_id in self._reads.above(entry.view.id)}
        ids.update(view_id for name in names for view_id in self._reads.readers(name))
        above = [self._entries[view_id] for view_id in sorted(ids)]
        for entry in above:
            entry.ledger.touch(self._now_ms(), frozenset(names))
        self.news.stale.tell([entry.view.id for entry in above], ", ".join(map(str, sorted(names))))

    def _reread(self, entry: Entry, before: MaterializedView) -> None:
        """Handles a view that reads other tables or views than before, or other changes of them count."""
        self.writes.note(entry, entry.view.triggers - before.triggers)
        if self._entries.get(entry.view.id) is entry:
            self._reindexed(self._reads.put(entry.view))
            self.news.altered.tell(entry.view.id)

    def _reindexed(self, unread: frozenset[TableName] = frozenset()) -> None:
        """Handles changed indexes; no view reads the `unread` tables any longer."""
        self.revision += 1
        if unread:
            self.news.unread.tell(unread)


def _gone_message(name: TableName, *, replaced: bool) -> str:
    """Names the view, because users do not know its id."""
    if replaced:
        return f"The materialized view {name} was replaced in the meantime. Run the statement again."
    return f"The materialized view {name} was dropped in the meantime."


def _blind(entry: Entry) -> bool:
    """Whether no change is known, but not everything could be observed."""
    drift = entry.drift
    return drift is not None and not drift.tables and not (entry.ledger.stale or entry.damage) and entry.view.built
