"""The materialized views that exist, in memory, as the table properties in Spark's metastore tell.

Nothing is stored anywhere else: `load` reads everything back. What a view's name shows to Spark decides which version
is current (`read_published`), the properties say what that version contains.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Container, Iterable, Mapping, Set
from contextlib import AsyncExitStack, asynccontextmanager, suppress

from gateway.errors import FreshgateError, NoSuchView, RefreshFailed, StatementFailed
from gateway.mv.catalog import discovery, naming
from gateway.mv.catalog.fence import Fence
from gateway.mv.catalog.naming import DEFINITION_SUFFIX
from gateway.mv.freshness.drift import NOT_LOOKED, unseen
from gateway.mv.freshness.entry import Entry
from gateway.mv.freshness.inquiry import Inquiry, bases
from gateway.mv.freshness.ledger import OpenWrites, Write
from gateway.mv.model import properties as stored
from gateway.mv.model.damage import NO_STORAGE, NO_VIEW, Damage, damaged
from gateway.mv.model.history import History
from gateway.mv.model.view import Freshness, Kept, Leftover, MaterializedView, Staleness, Version, name_of_id
from gateway.mv.ports import Metastore
from sql.names import TableName

log = logging.getLogger(__name__)

GONE_MAX = 1_000
"""Views that were dropped or replaced whose names are kept."""


class Catalog:
    """The views by name and id, and which of them depend on a table."""

    def __init__(
        self,
        metastore: Metastore,
        storage_database: str,
        parallel: int,
        fence: Fence,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._metastore = metastore
        self._fence = fence
        self._parallel = parallel
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
        self.on_touch: Callable[[Iterable[TableName]], None] = lambda _: None
        """Told which tables a statement may have changed."""
        self.on_forget: Callable[[Iterable[TableName]], None] = lambda _: None
        """Told which tables no view reads any more."""
        self.on_stale: Callable[[Iterable[str], str], None] = lambda *_: None
        """Told the ids of views that miss a change now, and what has changed."""
        self.on_move: Callable[[], None] = lambda: None
        """Told that names have come to mean other views, or none."""
        self.on_leftover: Callable[[str, Leftover, Version | None], None] = lambda *_: None
        """Told what is to be dropped of a view, by its id, that nobody knew and that was settled; with the version that
        was replaced, which may still be read."""
        self.on_publish: Callable[[str], None] = lambda _: None
        """Told the id of a view that has a new version."""
        self.on_doubt: Callable[[Iterable[Entry]], None] = lambda _: None
        """Told of views that are to be settled, one after the other."""
        self.on_unshown: Callable[[Entry], Awaitable[bool]] = _nobody_restores
        """Asked, under its lock, for a view that no name shows: whether it was put back."""
        self.on_unstored: Callable[[Entry, FreshgateError], None] = lambda *_: None
        """Told of a view of which perhaps other settings are stored than it has, and why."""
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
        self._index()

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
        """Whether the view's grace period is not over; it has none before all of it is built."""
        view = self.entry(view_id).view
        return view.complete and self._now_ms() < staleness.since + view.grace_ms

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
            self.on_stale(stale, ", ".join(map(str, sorted(tables))))

    def _touched(self, write: Write) -> None:
        """Looks that were taken before now do not count."""
        tables = set(write.tables or ())
        if write.tables is None:
            tables.update(*(entry.view.tables for entry in self._noted(write)))
        self.on_touch(tables)

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

    def reserve(self, view: MaterializedView) -> Entry:
        """A view that CREATE is building: from now on writes are noted for it. Open ones count as begun."""
        entry = Entry(view, reserved=True, changed=self._reread)
        self._note_open(entry, view.triggers)
        self._entries[view.id] = entry
        self._index()
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
        self._index()
        return replaced

    def remove(self, entry: Entry) -> None:
        """Takes a view out, visible or reserved."""
        if self._entries.pop(entry.view.id, None) is not None:
            self._part_with(entry.view)
        if self._by_name.get(entry.view.name) is entry:
            del self._by_name[entry.view.name]
        self._index()
        self.on_move()

    def report_damage(self, entry: Entry, problem: str) -> None:
        """Takes out a view of which a part is missing; not one that was dropped or replaced meanwhile."""
        view = entry.view
        if self._entries.get(view.id) is not entry:
            return
        self._damage(Damage(view.name, view.storage, view.owner, problem))
        self.remove(entry)

    def _damage(self, damage: Damage) -> None:
        log.error("the materialized view %s is damaged: %s. %s", damage.name, damage.problem, damage.advice)
        self.damaged[damage.name] = damage

    async def verify_id(self, view_id: str) -> None:
        """As `verify`, for a view that may be gone."""
        if (entry := self._entries.get(view_id)) is not None:
            await self.verify(entry)

    async def find_damage(self, entry: Entry) -> str | None:
        """What a refresh that did not find something is to say, where a part of the view itself is missing.

        Without its storage the view is no more; without its definition its rows can still be read.
        """
        view = entry.view
        present = await self._metastore.tables(view.storage.database)
        if view.storage.table not in present:
            self.report_damage(entry, NO_STORAGE)
            return str(damaged(Damage(view.name, view.storage, view.owner, NO_STORAGE)))
        if view.definition.table not in present:
            return (
                f"The definition of materialized view {view.name} was dropped outside the gateway; version "
                f"{view.current.number} stays published. Create the view again with CREATE OR REPLACE: "
                f"SHOW CREATE MATERIALIZED VIEW {view.name} has the text."
            )
        return None

    def forget_damage(self, name: TableName) -> None:
        self.damaged.pop(name, None)
        self._index()

    async def verify(self, entry: Entry) -> None:
        """Whether the metastore shows the version that is current in memory; where not, somebody else has changed it.

        Raises what the metastore raises.
        """
        view = entry.view
        if entry.uncertain or entry.lock.locked():
            return
        if await self.published(view.name, view.storage) == view.current.number:
            return
        # Once more, while nobody here changes it.
        async with entry.lock:
            if self.find(view.id) is not entry or entry.uncertain or not entry.visible:
                return
            current = entry.view.current.number
            published = await self.published(entry.view.name, entry.view.storage)
        if published == current:
            return
        self.doubt(entry)
        if published is not None:
            log.warning("%s shows version %d, not %d: something else changed it", view.name, published, current)
            return
        # Damage, or the end of a statement that gave its name to another view. No read goes on before that is known.
        with suppress(NoSuchView):
            await self.settle(entry)

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
        self._index()
        self.on_move()

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
        self.on_stale([entry.view.id for entry in above], ", ".join(map(str, sorted(names))))

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
        self._index()

    def _index(self) -> None:
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
        self.on_forget(self._read - read)
        self._read = read
        names = [*self._by_name, *self.damaged]
        self.view_words = frozenset({self.storage_database, *(name.table for name in names)})
        by_stem: dict[tuple[str, str], set[TableName]] = {}
        for table in dependents:
            for stem in table.stems:
                by_stem.setdefault(stem, set()).add(table)
        self._by_stem = by_stem
        self.table_words = frozenset(word for stem in by_stem for word in stem)

    # --- loading -----------------------------------------------------------------------------------

    async def load(self) -> list[Leftover]:
        """Reads every view from the metastore; returns what should be dropped."""
        names = await self._metastore.tables(self.storage_database)
        gate = asyncio.Semaphore(self._parallel)

        async def read(table: str) -> Leftover | None:
            async with gate:
                return await self._discover(table, names)

        leftovers = await asyncio.gather(*(read(table) for table in _storages(names)))
        self._index()
        return [leftover for leftover in leftovers if leftover is not None]

    async def survey(self) -> list[Leftover]:
        """Looks at the storage database once more: what a killed gateway had under way may end at Spark long after, and
        people drop things. Returns what should be dropped; what is damaged is reported."""
        names = await self._metastore.tables(self.storage_database)
        if not names and self._entries:
            # A metastore that shows nothing is out of order, and no reason to give up every view.
            return []
        for entry in [each for each in self._entries.values() if each.visible and each.view.id not in names]:
            # Asked for by its name: the list may be from before it was made.
            if await self._metastore.relation(entry.view.storage) is None and self.find(entry.view.id) is entry:
                self.report_damage(entry, NO_STORAGE)
        # Damaged ones are looked at anew: somebody may have mended them.
        unknown = _storages(names) - {*self._entries, *self.building}
        found = [await self._discover_late(table, names) for table in sorted(unknown)]
        for damage in [each for each in self.damaged.values() if each.storage.table not in names]:
            if not damage.droppable:
                self.forget_damage(damage.name)
        if unknown:
            self._index()
        return [leftover for leftover in found if leftover is not None]

    async def _discover_late(self, table: str, names: Container[str]) -> Leftover | None:
        """One that cannot be asked about now is found the next time; the others are all the same."""
        try:
            return await self._discover(table, names)
        except FreshgateError as error:
            log.warning("could not look at %s, will look again: %s", table, error)
            return None

    async def _discover(self, table: str, names: Container[str]) -> Leftover | None:
        """`table`: a storage, or one of which `names` has the definition alone. Returns what should be dropped."""
        storage = TableName(self.storage_database, table)
        look = discovery.of_storage if table in names else discovery.of_definition
        finding = await look(self._metastore, storage)
        if finding.damage is not None:
            self._damage(finding.damage)
        view = finding.view
        if view is not None:
            history = History.of_stored(finding.properties, view.current.number)
            entry = Entry(view, history, drift=unseen(view) or NOT_LOOKED, changed=self._reread)
            # Of one that is found late writes may be under way.
            self._note_open(entry, view.triggers)
            self._entries[view.id] = entry
            self._by_name[view.name] = entry
            self.damaged.pop(view.name, None)
        return finding.leftover

    async def published(self, name: TableName, storage: TableName) -> int | None:
        """The version that the public view shows, None where it shows another storage or is gone."""
        return await naming.published(self._metastore, name, storage)

    def doubt(self, *entries: Entry, error: BaseException | None = None) -> None:
        """The views count as stale until the metastore has told what their names show. Of two, the one that is to get
        a name comes before the one that has had it.

        `error`: with what the statement ended that may have changed that. Of one whose end nobody heard Spark may make
        an end a little later.
        """
        late = error is not None and (not isinstance(error, FreshgateError) or naming.is_untold(error))
        for entry in entries:
            entry.doubt(time.monotonic() + naming.LATE_SECONDS if late else None)
        self.on_doubt(entries)

    def refuse_doubtful(self, entry: Entry) -> None:
        """Under the entry's lock, before its name is changed: whoever has had the lock may have left a doubt. Raises
        RefreshFailed."""
        if entry.uncertain:
            raise RefreshFailed(
                f"Nobody knows what {entry.view.name} shows: another statement that changes it broke off. Try again in "
                f"some seconds.",
                sqlstate="40001",
            )

    async def _seconds_early(self, entry: Entry) -> float:
        """In how many seconds what the name shows will stay so. A change that can be seen already is not waited for."""
        left = entry.late_until - time.monotonic()
        if left <= 0 or await self.published(entry.view.name, entry.view.storage) is None:
            return 0.0
        return left

    async def settle(self, entry: Entry) -> None:
        """Asks the metastore what a doubtful view shows. Where that is another version than before it is as if the view
        had been refreshed.

        Raises NoSuchView where it was dropped or replaced, RefreshFailed where it is about to be, and as the metastore.
        """
        while entry.uncertain:
            await asyncio.sleep(await self._seconds_early(entry))
            async with entry.lock:
                if not entry.uncertain:
                    return
                # What has had the lock before may have left another doubt.
                if not await self._seconds_early(entry):
                    await self._settle(entry)

    async def _settle(self, entry: Entry) -> None:
        """Under the entry's lock."""
        self.entry(entry.view.id)
        before = entry.view
        found = await self._stored(entry)
        await self._fence.check()
        shown = await naming.settled(self._metastore, found, entry.view.storage)
        if shown is None and await self.on_unshown(entry):
            shown = await naming.settled(self._metastore, found, entry.view.storage)
        self.entry(entry.view.id)
        if shown is None:
            raise await self._unshown(entry, found)
        if not stored.was_published(found):
            # A DROP was cut off before the view was dropped.
            await naming.mark_published(self._metastore, entry.view.storage)
        name, version = shown
        if name != entry.view.name:
            self._trade_names(entry, name)
        view = stored.read_view(found, entry.view.storage, entry.view.definition, version)
        entry.settle(view)
        leftover = Leftover(view.storage, view.definition, whole=False)
        if version != before.current.number:
            if before.built:
                self.on_leftover(view.id, leftover, before.current)
            if view.built:
                self.on_publish(view.id)
        # While nobody knew what is current nothing of it could be dropped.
        self.on_leftover(view.id, leftover, None)

    async def _stored(self, entry: Entry) -> Mapping[str, str]:
        """The view's properties. Raises NoSuchView where its storage is gone."""
        try:
            return await self._metastore.properties(entry.view.storage)
        except StatementFailed:
            await self.find_damage(entry)
            self.entry(entry.view.id)
            raise

    async def certain(self, name: TableName) -> MaterializedView | None:
        """The view that a name means, for who changes it. Where nobody knows it, the metastore is asked first.

        Raises what the metastore raises.
        """
        while (entry := self._by_name.get(name)) is not None and entry.uncertain:
            try:
                await self.settle(entry)
            except NoSuchView:
                if self._by_name.get(name) is entry:
                    raise
                # Taken out: the name means nothing now, or something damaged.
        return entry.view if entry else None

    def _trade_names(self, entry: Entry, name: TableName) -> None:
        """The metastore shows the view under this name. Until the one that has had it is settled, too, that has
        the other name: reads of a name without a view would be forwarded, and nothing refreshed."""
        moved = {name: entry}
        other = self._by_name.get(name)
        if other is not None and other is not entry:
            self.doubt(other)
            moved[entry.view.name] = other
        self.rename(moved)

    async def _unshown(self, entry: Entry, properties: Mapping[str, str]) -> FreshgateError:
        """Takes out a view that no name shows: it was replaced or dropped, or somebody has damaged it. One whose
        successor is not visible yet stays until that is: under the name there would be no view meanwhile."""
        name = stored.read_name(properties)
        successor = self._entries.get(await naming.shown_as(self._metastore, name) or "")
        if successor is not None and not successor.visible:
            return RefreshFailed(
                f"The materialized view {name} is being replaced, by a statement whose connection broke. Try again in "
                f"some seconds.",
                sqlstate="40001",
            )
        finding = await discovery.without_view(self._metastore, name, entry.view.storage, properties)
        if finding.damage is None:
            self.remove(entry)
            if finding.leftover is not None:
                self.on_leftover(entry.view.id, finding.leftover, None)
            return NoSuchView(f"The materialized view {entry.view.name} was dropped.")
        self.report_damage(entry, NO_VIEW)
        return damaged(finding.damage)


async def _nobody_restores(_: Entry) -> bool:
    return False


def _storages(names: Iterable[str]) -> set[str]:
    """The storage tables that the objects of the storage database belong to, be they there or not."""
    return {name.removesuffix(DEFINITION_SUFFIX) for name in names}


def _blind(entry: Entry) -> bool:
    """Nothing is known to have changed, but not all could be looked at."""
    drift = entry.drift
    return drift is not None and not drift.tables and not entry.ledger.stale and entry.view.built
