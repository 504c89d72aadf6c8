"""Keeps the rows of small base tables in memory that queries join with views in memory.

A table is held in a state that was observed, and its rows are used only if an observation shows that state: one that
began after the read, unless `memory.table_probe_interval` lets earlier ones count. `Residency` decides when there is
room.

Tests: `test_held_tables`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from gateway.errors import FreshgateError
from gateway.mv.catalog.index import Catalog
from gateway.mv.formats.known_formats import format_of
from gateway.mv.memory.room import Claim
from gateway.mv.memory.table_loads import REPLACED, MemoryCounts, NotHeld, ResidentTable, TableLoads
from gateway.mv.model.residence import Held, Residence, TableResidence, Wish
from gateway.mv.model.snapshot import GONE, MISSING, MIXED, Snapshot, Unobserved
from gateway.mv.observation.look import Look
from gateway.mv.observation.observer import Observer
from gateway.mv.ports import MemoryUnavailable, Relation, RelationKind
from sql.names import SESSION_CATALOG, TableName

log = logging.getLogger(__name__)

PREFIX = "base "
"""Begins the id of each base table, which no view's id does."""
JOINED_MAX = 1_000
"""Tables whose queries are counted."""
WANTED_MAX = 100
"""Tables that are wanted in memory at once."""
UNUSED_MS = 86_400_000
"""A table leaves memory if no query was answered from it for so long."""
LOOKED_SECONDS = 1.0
"""How long an observation that a read has waited for serves that read, if each one must make its own."""
RETRY_SECONDS, RETRY_SECONDS_MAX = 5.0, 600.0
REST = 4.0
"""As for views."""


@dataclass(frozen=True, slots=True)
class TableLimits:
    queries: int
    """A table is held once so many queries have joined it with views in memory."""
    probe_seconds: float
    """How long an observation stays valid; 0: each read makes one, which those that wait at the same time share."""


@dataclass(frozen=True, slots=True)
class TableState:
    """A state of a table, as one observation found it: equal states have equal rows."""

    relation: Relation
    identity: str
    state: str


@dataclass(slots=True)
class _WantedTable:
    """A table that is wanted in memory, or is there."""

    name: TableName
    id: str
    used_at: int
    held: ResidentTable | None = None
    since: int = 0
    """When these rows were loaded, in milliseconds since the epoch."""
    answers: int = 0
    """Queries that were answered from its rows."""
    state: TableState | None = None
    """That of the rows that are held, or were held last."""
    number: int = 0
    """Of the load that these rows came with."""
    loads: int = 0
    """How many have begun."""
    bytes: int = 0
    """What the next load takes, about."""
    outdated: bool = False
    """Whether the table was seen in another state than that of its rows."""
    looked_at: float = float("-inf")
    loading: asyncio.Task[None] | None = None
    not_before: float = 0.0
    failures: int = 0
    barred: str = ""
    """Why it cannot be in memory; empty if nothing is known against it."""


class BaseTables:
    """Which base tables are in memory."""

    def __init__(
        self,
        catalog: Catalog,
        observer: Observer,
        loads: TableLoads,
        limits: TableLimits,
        clock: Callable[[], float] = time.monotonic,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._catalog = catalog
        self._observer = observer
        self._loads = loads
        self._limits = limits
        self._clock = clock
        self._now_ms = now_ms
        self._tables: dict[TableName, _WantedTable] = {}
        self._joined: OrderedDict[TableName, int] = OrderedDict()
        """How many queries have joined a table that is not wanted."""
        self._ids = 0
        self.counts = MemoryCounts()
        self.wake: Callable[[], None] = lambda: None
        """Has what is to be done be decided anew."""

    # --- asking ------------------------------------------------------------------------------------

    def holds(self, tables: Iterable[TableName]) -> bool:
        """Whether rows of all of these tables are in memory, of whatever state."""
        return all((each := self._tables.get(table)) is not None and each.held is not None for table in tables)

    def version(self, table: TableName) -> tuple[str, str, int] | None:
        """The id, the name and the number of the rows in memory, if the table has these rows."""
        wanted = self._tables.get(table)
        if wanted is None or wanted.held is None or (look := self._recent(wanted)) is None:
            return None
        if isinstance(look.observed, Unobserved):
            return None
        if state_of(look) != wanted.state:
            self._outdate(wanted)
            return None
        return wanted.id, str(table), wanted.number

    def resident(self, table_id: str, number: int) -> ResidentTable | None:
        """The rows with this number, if they are in memory."""
        wanted = self.find(table_id)
        return wanted.held if wanted is not None and wanted.number == number else None

    def named(self, table_id: str) -> TableName | None:
        wanted = self.find(table_id)
        return None if wanted is None else wanted.name

    def find(self, table_id: str) -> _WantedTable | None:
        if not table_id.startswith(PREFIX):
            return None
        return next((each for each in self._tables.values() if each.id == table_id), None)

    def used(self, table_id: str) -> None:
        """A query was answered from it."""
        if (wanted := self.find(table_id)) is not None:
            wanted.used_at = self._now_ms()
            wanted.answers += 1

    def loaded(self) -> Iterator[tuple[TableName, ResidentTable]]:
        """The tables whose rows are in memory."""
        return ((each.name, each.held) for each in self._tables.values() if each.held is not None)

    def why(self, table: TableName) -> str:
        """Why the table's rows are not in memory, for people."""
        wanted = self._tables.get(table)
        if wanted is None:
            return f"{table} is not in memory: it is loaded once {self._limits.queries} queries have joined it"
        if wanted.barred:
            return f"{table} is not in memory: {wanted.barred}"
        return f"{table} is not in memory in its present state: it is loaded in the background"

    def residences(self) -> list[TableResidence]:
        """What people are told of each table that is wanted, by name."""
        found = sorted(self._tables.values(), key=lambda each: str(each.name))
        return [TableResidence(each.name, self._residence(each), each.answers) for each in found]

    def _residence(self, wanted: _WantedTable) -> Residence:
        if (held := wanted.held) is not None and not wanted.outdated:
            return Residence(Held.LOADED, Wish.READS, "", wanted.number, held.rows, held.bytes, wanted.since)
        if wanted.loading is not None:
            return Residence(Held.LOADING, Wish.READS, "its rows are being loaded")
        if wanted.barred:
            return Residence(Held.NOT_LOADED, Wish.READS, wanted.barred)
        if wanted.outdated:
            return Residence(Held.WAITING, Wish.READS, "it was written")
        return Residence(Held.WAITING, Wish.READS, "others come before it, or loading it has failed")

    # --- observing ---------------------------------------------------------------------------------

    def due(self, tables: frozenset[TableName]) -> bool:
        """Whether `look` would have to ask Spark."""
        oldest = self._clock() - self._limits.probe_seconds
        return self._observer.due(tables, oldest) or bool(self._catalog.writes.to_ask_of(tables))

    async def look(self, tables: frozenset[TableName]) -> None:
        """Observes tables in memory whose last observation is too old. Never raises."""
        await self._catalog.writes.ask_of(tables)
        await self._observer.observe(tables, self._clock() - self._limits.probe_seconds)
        for table in tables & self._tables.keys():
            self._tables[table].looked_at = self._clock()

    async def is_so_now(self, table: TableName, number: int) -> bool:
        """Whether the table has the rows with this number, by an observation that begins now."""
        await self._catalog.writes.ask_of(frozenset({table}))
        await self._observer.observe([table], self._clock())
        if (wanted := self._tables.get(table)) is not None:
            wanted.looked_at = self._clock()
        return (version := self.version(table)) is not None and version[2] == number

    def _recent(self, wanted: _WantedTable) -> Look | None:
        now = self._clock()
        waited = now - wanted.looked_at <= LOOKED_SECONDS
        return self._observer.last(wanted.name, float("-inf") if waited else now - self._limits.probe_seconds)

    def _outdate(self, wanted: _WantedTable) -> None:
        if not wanted.outdated:
            wanted.outdated = True
            self.wake()

    # --- being told --------------------------------------------------------------------------------

    def joined(self, tables: Iterable[TableName]) -> None:
        """A query would have been answered from memory if these tables were there."""
        for table in tables:
            if (wanted := self._tables.get(table)) is not None:
                wanted.used_at = self._now_ms()
                continue
            count = self._joined.pop(table, 0) + 1
            if count >= self._limits.queries and self._has_place() and self._catalog.watch(table):
                self._tables[table] = _WantedTable(table, self._new_id(table), self._now_ms())
                self.wake()
                continue
            self._joined[table] = count
            if len(self._joined) > JOINED_MAX:
                self._joined.popitem(last=False)

    def _has_place(self) -> bool:
        """Whether another table may be wanted. One that cannot be in memory gives up its place."""
        if len(self._tables) >= WANTED_MAX:
            barred = [each for each in self._tables.values() if each.barred and not (each.held or each.loading)]
            if barred:
                self._forget(min(barred, key=lambda each: each.used_at))
        return len(self._tables) < WANTED_MAX

    def _new_id(self, table: TableName) -> str:
        """Another one each time that the table means something else: what was learned of it ends."""
        self._ids += 1
        return f"{PREFIX}{table} {self._ids}"

    def lost(self) -> Iterator[ResidentTable]:
        """The engine has ended. Returns what was in memory."""
        for wanted in self._tables.values():
            if (held := self._leave(wanted)) is not None:
                self._fail(wanted)
                yield held

    # --- for `Residency` ---------------------------------------------------------------------------

    @property
    def loading(self) -> int:
        return sum(each.loading is not None for each in self._tables.values())

    def claims(self) -> list[Claim]:
        """What is wanted, and what is there."""
        now, now_ms = self._clock(), self._now_ms()
        for wanted in list(self._tables.values()):
            if wanted.barred and wanted.not_before <= now:
                wanted.barred = ""
            if wanted.held is None and wanted.loading is None and now_ms - wanted.used_at > UNUSED_MS:
                self._forget(wanted)
        return [
            Claim(
                wanted.id,
                Wish.READS if now_ms - wanted.used_at <= UNUSED_MS else None,
                wanted.used_at,
                wanted.bytes if wanted.held is None or wanted.outdated else wanted.held.bytes,
                None if wanted.held is None else wanted.held.bytes,
                wanted.held is not None and not wanted.outdated,
                wanted.loading is not None,
                wanted.not_before <= now,
                wanted.barred,
            )
            for wanted in self._tables.values()
        ]

    def pauses(self) -> Iterator[float]:
        """When something may have to be done, by the monotonic clock."""
        return (each.not_before for each in self._tables.values())

    def begin(self, table_id: str) -> None:
        """Loads a table in the background."""
        if (wanted := self.find(table_id)) is not None and wanted.loading is None:
            wanted.loading = asyncio.create_task(self._load(wanted), name=f"load {wanted.name} into memory")

    def cancel(self, table_id: str) -> asyncio.Task[None] | None:
        """Returns the task that ends now, if there is one."""
        wanted = self.find(table_id)
        if wanted is not None and wanted.loading is not None:
            wanted.loading.cancel()
        return None if wanted is None else wanted.loading

    def leave(self, table_id: str) -> ResidentTable | None:
        """Its rows are to be dropped. Returns them."""
        wanted = self.find(table_id)
        return None if wanted is None else self._leave(wanted)

    def ids(self) -> list[str]:
        """The ids of all that are wanted, or there."""
        return [each.id for each in self._tables.values()]

    def forget_all(self) -> None:
        """None is wanted any more. Nothing is loading, and nothing is in memory."""
        self._joined.clear()
        for wanted in list(self._tables.values()):
            self._forget(wanted)

    def _leave(self, wanted: _WantedTable) -> ResidentTable | None:
        held, wanted.held = wanted.held, None
        return held

    def _forget(self, wanted: _WantedTable) -> None:
        del self._tables[wanted.name]
        self._catalog.unwatch(wanted.name)

    # --- loading -----------------------------------------------------------------------------------

    async def _load(self, wanted: _WantedTable) -> None:
        """Never raises, except if it is cancelled."""
        began, outcome = self._clock(), "failed"
        try:
            loaded, state = await self._loaded(wanted)
            outcome = "loaded"
        except asyncio.CancelledError:
            outcome = "cancelled"
            raise
        except NotHeld as error:
            outcome = "not_held"
            wanted.barred, wanted.not_before = str(error), self._clock() + RETRY_SECONDS_MAX
            log.info("the base table %s is not in memory: %s", wanted.name, error)
        except (FreshgateError, MemoryUnavailable) as error:
            self._fail(wanted)
            log.warning("the base table %s was not loaded into memory: %s", wanted.name, error)
        else:
            await self._keep(wanted, loaded, state, self._clock() - began)
        finally:
            wanted.loading = None
            self.counts.loads[outcome] += 1
            self.wake()

    async def _loaded(self, wanted: _WantedTable) -> tuple[ResidentTable, TableState]:
        """The rows of the table, and the state that it had before and after they were read. Raises NotHeld,
        MemoryUnavailable, and what Spark raises."""
        before = await self._look(wanted)
        wanted.loads += 1
        size = self._observer.size(wanted.name)
        found = await self._loads.load_base(f"{wanted.id} {wanted.loads}", before, size)
        try:
            after = await self._look(wanted)
            if state_of(after) != state_of(before):
                raise MemoryUnavailable("changed", "the table was changed while it was read")
        except BaseException:  # Also on cancellation.
            with suppress(MemoryUnavailable):
                await self._loads.drop(found.table)
            raise
        state = state_of(before)
        assert state is not None
        return found, state

    async def _look(self, wanted: _WantedTable) -> Look:
        """An observation that begins now. Raises NotHeld if the table cannot be in memory."""
        await self._catalog.writes.ask_of(frozenset({wanted.name}))
        look = (await self._observer.observe([wanted.name], self._clock()))[wanted.name]
        if why := unsuitable(wanted.name, look):
            raise NotHeld(why)
        return look

    async def _keep(self, wanted: _WantedTable, loaded: ResidentTable, state: TableState, seconds: float) -> None:
        before, known = wanted.held, wanted.state
        if known is not None and (known.relation, known.identity) != (state.relation, state.identity):
            wanted.id = self._new_id(wanted.name)
        wanted.held, wanted.state, wanted.outdated, wanted.number = loaded, state, False, wanted.loads
        wanted.since = self._now_ms()
        wanted.bytes, wanted.failures, wanted.barred = loaded.bytes, 0, ""
        wanted.not_before = self._clock() + REST * seconds
        size = loaded.rows, loaded.bytes, seconds
        log.info("the base table %s is in memory: %d rows, %d bytes, in %.2f s", wanted.name, *size)
        self.counts.load_seconds.add(seconds)
        if before is not None:
            self.counts.drops[REPLACED] += 1
            with suppress(MemoryUnavailable):
                await self._loads.drop(before.table)

    def _fail(self, wanted: _WantedTable) -> None:
        pause = min(RETRY_SECONDS * 2**wanted.failures, RETRY_SECONDS_MAX)
        wanted.failures = min(wanted.failures + 1, 10)
        wanted.not_before = self._clock() + pause


def state_of(look: Look) -> TableState | None:
    """None if the observation does not tell the table's state."""
    seen = look.observed
    if look.relation is None or not isinstance(seen, Snapshot) or seen in (GONE, MISSING) or seen.state == MIXED:
        return None
    return TableState(look.relation, seen.identity, seen.state)


def unsuitable(table: TableName, look: Look) -> str:
    """Why such a table must not be in memory; empty if it may be."""
    relation = look.relation
    if not isinstance(look.observed, Snapshot):
        return look.observed.reason
    if relation is None or state_of(look) is None:
        return "it was not found"
    if relation.kind is not RelationKind.TABLE or look.root is not None:
        return "it is not a table"
    if table.catalog != SESSION_CATALOG or (found := format_of(relation)) is None or not found.held_in_memory:
        return "tables of its format are not held in memory"
    return ""
