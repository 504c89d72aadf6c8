"""Keeps the rows of views in memory: loads new versions in the background, and drops what is not wanted or not right
any more.

What is to be in memory is decided in `room`, from values; the rest of this module collects them and carries the
decision out. Nobody waits for it: what is not in memory, Spark answers.

Tests: `test_residency`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass

from gateway.errors import FreshgateError
from gateway.loops import Loop, Turn, in_thread
from gateway.mv.catalog.fence import Fence
from gateway.mv.catalog.index import Catalog
from gateway.mv.freshness.entry import Entry
from gateway.mv.memory import room
from gateway.mv.memory.base_tables import BaseTables
from gateway.mv.memory.room import Claim
from gateway.mv.memory.table_loads import (
    LOST,
    REPLACED,
    EarlierTable,
    LoadedVersion,
    MemoryCounts,
    NotHeld,
    ResidentTable,
    TableLoads,
    table_of,
)
from gateway.mv.model.read_counts import DAY_MS, ReadCounts
from gateway.mv.model.residence import Held, Residence, Wish, refused
from gateway.mv.model.view import MaterializedView, Version
from gateway.mv.ports import MemoryUnavailable
from gateway.mv.subscribers import Subscribers
from sql.grammar import view_properties
from sql.names import TableName

log = logging.getLogger(__name__)

EVICTION_REASONS = (room.NO_ROOM, room.UNWANTED, room.BARRED, room.OUTDATED, REPLACED, LOST)
"""Why rows left memory. Replaced: by those of a later version."""
_WHY = {
    room.NO_ROOM: "others that were read later need the room",
    room.UNWANTED: "it is not wanted there any more",
    room.BARRED: "its rows must not be used, or cannot be held",
    room.OUTDATED: "its next version needs the room",
}
LOADS_MAX = 2
"""Views that are loaded at once."""
SURVEY_SECONDS = 30.0
"""How often all views are looked at. Everything that must take effect at once is told."""
BEHIND_SECONDS = 1.0
"""How often a gateway that does not lead asks whether it does."""
BYTES_PER_STORED_BYTE = 4.0
"""How much more the rows of a view take in memory than in its files, as long as it was not loaded yet."""
RETRY_SECONDS, RETRY_SECONDS_MAX = 5.0, 600.0
"""The pause after the first failed load, which doubles with each further one, and the longest."""
REST = 4.0
"""A view is not loaded again before it has rested for so many times the duration of its last load: one that is
refreshed all the time costs Spark little."""
FIRST_ANSWERS_SECONDS = 1.0
"""How long after its publication a further version is loaded: Spark then answers those who have waited for it, whom a
load would make wait longer."""
STILL_OFTEN = 0.5
"""The share of the reads that let a view into memory with which it stays there."""


@dataclass(slots=True)
class _WantedView:
    """A view that is wanted in memory, or is there."""

    wish: Wish | None
    held: ResidentTable | None = None
    version: Version | None = None
    """The version that is held."""
    since: int = 0
    loading: asyncio.Task[None] | None = None
    loading_version: int = -1
    not_before: float = 0.0
    """By the monotonic clock: it is not loaded before."""
    failures: int = 0
    why: str = ""
    """Why it is not loaded; empty if nothing is known against it."""
    not_held: int = -1
    """The version that cannot be in memory, for the reason `why`."""
    ratio: float = BYTES_PER_STORED_BYTE
    """Bytes in memory for each byte in the files."""

    def holds(self, number: int) -> bool:
        """Whether the rows of this version are in memory."""
        return self.version is not None and self.version.number == number

    def leave(self) -> ResidentTable | None:
        """Nothing is in memory any more; returns what was."""
        held, self.held, self.version = self.held, None, None
        return held


class Residency:
    """Which views are in memory."""

    def __init__(
        self,
        catalog: Catalog,
        fence: Fence,
        loads: TableLoads,
        bytes_max: int,
        reads_per_day: int = 0,
        clock: Callable[[], float] = time.monotonic,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        tables: BaseTables | None = None,
    ) -> None:
        """`reads_per_day`: with so many reads, a view is wanted without saying so; 0: never. `tables`: base tables that
        are held in the same room."""
        self.counts = MemoryCounts()
        self._catalog = catalog
        self._fence = fence
        self._loads = loads
        self._bytes_max = bytes_max
        self._reads_per_day = reads_per_day
        self.base_tables = tables
        self._clock = clock
        self._now_ms = now_ms
        self._places: dict[str, _WantedView] = {}
        """By view id."""
        self._used: dict[str, int] = {}
        """When a view in memory last answered a query, in milliseconds since the epoch."""
        self._changed: set[str] = set()
        """Views to look at in the next turn."""
        self._surveyed = -SURVEY_SECONDS
        self._wake = asyncio.Event()
        self.answered: Subscribers[[str]] = Subscribers()
        """The view with this id has answered a query."""
        if tables is not None:
            tables.wake, tables.counts = self._wake.set, self.counts
        self.loop = Loop("views in memory", self._turn)

    # --- asking ------------------------------------------------------------------------------------

    def resident(self, view_id: str, version: int) -> ResidentTable | None:
        """The rows of this version of a view, or of this state of a base table, if they are in memory."""
        if self.base_tables is not None and (table := self.base_tables.resident(view_id, version)) is not None:
            return table
        place = self._places.get(view_id)
        return place.held if place is not None and place.holds(version) else None

    def used(self, view_id: str) -> None:
        """The view, or base table, in memory has answered a query."""
        if self.base_tables is not None:
            self.base_tables.used(view_id)
        if view_id in self._places:
            self.answered.tell(view_id)
            self._used[view_id] = self._now_ms()
            self._catalog.residences.answers[view_id] += 1

    def table_named(self, table_id: str) -> TableName | None:
        """The name of a base table in memory, by its id; None for a view."""
        return None if self.base_tables is None else self.base_tables.named(table_id)

    def joined(self, tables: Iterable[TableName]) -> None:
        """A query could have been answered from memory if these base tables were there, too."""
        if self.base_tables is not None:
            self.base_tables.joined(tables)

    async def is_so_now(self, table: TableName, number: int) -> bool:
        """Whether a base table has the rows with this number, by an observation that begins now."""
        return self.base_tables is not None and await self.base_tables.is_so_now(table, number)

    @property
    def tables(self) -> int:
        """Views that are in memory."""
        return sum(place.held is not None for place in self._places.values())

    @property
    def bytes(self) -> int:
        """What the rows in memory take, those of base tables included."""
        views = sum(place.held.bytes for place in self._places.values() if place.held is not None)
        return views + sum(held.bytes for _, held in self._loaded_tables())

    def _loaded_tables(self) -> Iterable[tuple[TableName, ResidentTable]]:
        return () if self.base_tables is None else self.base_tables.loaded()

    # --- being told --------------------------------------------------------------------------------

    def changed(self, view_id: str) -> None:
        """The view has another version, or other properties."""
        self._changed.add(view_id)
        self._wake.set()

    def published(self, view_id: str) -> None:
        """The view has another version."""
        if (place := self._places.get(view_id)) is not None and place.held is not None:
            place.not_before = max(place.not_before, self._clock() + FIRST_ANSWERS_SECONDS)
        self.changed(view_id)

    def moved(self, names: Iterable[TableName]) -> None:
        """These names belong to other views, or to none."""
        for name in names:
            if (view := self._catalog.named(name)) is not None:
                self._changed.add(view.id)
        # Views that have gone have no name any more.
        self._changed.update(view_id for view_id in self._places if self._catalog.find(view_id) is None)
        if self._changed:
            self._wake.set()

    def stale(self, view_ids: Iterable[str], _: str) -> None:
        """These views are stale, or damaged."""
        if concerned := self._places.keys() & set(view_ids):
            self._changed |= concerned
            self._wake.set()

    def lost(self) -> None:
        """The engine has ended, and with it everything that was in memory."""
        for place in self._places.values():
            if place.leave() is not None:
                self.counts.drops[LOST] += 1
                self._fail(place, "its process has ended")
        if self.base_tables is not None:
            self.counts.drops[LOST] += sum(1 for _ in self.base_tables.lost())
        for view_id in self._places:
            self._tell(view_id)
        self._wake.set()

    # --- in the background -------------------------------------------------------------------------

    def start(self) -> None:
        self.loop.start()

    async def stop(self) -> None:
        """Drops everything: another gateway may lead then."""
        await self.loop.stop()
        await self._empty("the gateway is being stopped")
        await self._loads.stop()

    async def _turn(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._pause()):
                await self._wake.wait()
        self._wake.clear()
        if self._fence.lost is not None:
            await self._empty("another gateway leads")
            self._surveyed = -SURVEY_SECONDS
            return
        self._catalog.residences.off = ""
        await self._look()
        await self._carry_out()

    def _pause(self) -> float:
        """Seconds until there may be something to do that nobody tells."""
        if self._fence.lost is not None:
            return BEHIND_SECONDS
        now = self._clock()
        due = [place.not_before for place in self._places.values() if place.not_before > now]
        if self.base_tables is not None:
            due += [at for at in self.base_tables.pauses() if at > now]
        return max(min([self._surveyed + SURVEY_SECONDS, *due]) - now, 0.0)

    async def _look(self) -> None:
        """Determines which views are wanted: of all of them, or of those that have changed."""
        changed, self._changed, turn = self._changed, set(), Turn()
        if self._clock() - self._surveyed >= SURVEY_SECONDS:
            self._surveyed = self._clock()
            changed.update(self._places)
            for entry in list(self._catalog.entries()):
                self._look_at(entry.view.id)
                await turn.pause()
        for view_id in changed:
            self._look_at(view_id)
            await turn.pause()

    def _look_at(self, view_id: str) -> None:
        entry, place = self._catalog.find(view_id), self._places.get(view_id)
        wish = None if entry is None or not entry.visible else self._wish(entry, held=place is not None)
        if place is not None:
            place.wish = wish
            if entry is not None and place.loading_version != entry.view.current.number:
                self._cancel(place)
        elif wish is not None:
            self._places[view_id] = _WantedView(wish)

    def _wish(self, entry: Entry, *, held: bool) -> Wish | None:
        said = view_properties.in_memory(entry.view.properties)
        if said is not None or not self._reads_per_day:
            return Wish.VIEW if said else None
        enough = self._reads_per_day * (STILL_OFTEN if held else 1.0)
        return Wish.READS if not refused(entry.view) and reads_lately(entry.reads, self._now_ms()) >= enough else None

    async def _carry_out(self) -> None:
        turn, claims = Turn(), list[Claim]()
        for view_id in list(self._places):
            claims.append(self._claim(view_id))
            await turn.pause()
        under_way = sum(place.loading is not None for place in self._places.values())
        if (tables := self.base_tables) is not None:
            claims += tables.claims()
            under_way += tables.loading
        steps = await in_thread(len(claims), room.plan, claims, self._bytes_max, LOADS_MAX - under_way)
        for view_id in steps.cancels:
            if view_id in self._places:
                self._cancel(self._places[view_id])
            elif tables is not None:
                tables.cancel(view_id)
        for view_id, why in steps.drops.items():
            await self._drop(view_id, why)
        for view_id in steps.loads:
            if view_id in self._places:
                self._begin(view_id)
            elif tables is not None:
                tables.begin(view_id)
        for view_id, place in list(self._places.items()):
            if place.wish is None and place.held is None and place.loading is None:
                self._forget(view_id)
            else:
                self._tell(view_id, crowded=view_id not in steps.chosen)
            await turn.pause()

    def _claim(self, view_id: str) -> Claim:
        place, entry = self._places[view_id], self._catalog.find(view_id)
        held = None if place.held is None else place.held.bytes
        if entry is None:
            return Claim(view_id, None, 0, held or 0, held, loading=place.loading is not None)
        current = place.holds(entry.view.current.number)
        return Claim(
            view_id,
            place.wish,
            max(entry.reads.last_at, self._used.get(view_id, 0)),
            held if current and held is not None else self._estimate(entry, place),
            held,
            current,
            place.loading is not None,
            place.not_before <= self._clock() and not entry.doubtful,
            _barred(entry, place),
        )

    def _estimate(self, entry: Entry, place: _WantedView) -> int:
        """The bytes that the current version takes in memory, about."""
        files = entry.view.current.files
        return (
            self._loads.limits.bytes if files is None else min(int(files.sum * place.ratio), self._loads.limits.bytes)
        )

    # --- dropping ----------------------------------------------------------------------------------

    async def _drop(self, view_id: str, why: str) -> None:
        place, tables = self._places.get(view_id), self.base_tables
        held = place.leave() if place is not None else tables.leave(view_id) if tables is not None else None
        if held is None:
            return
        self.counts.drops[why] += 1
        entry = self._catalog.find(view_id)
        log.info("%s is not in memory any more: %s", entry.view.name if entry else view_id, _WHY[why])
        await self._drop_table(held.table)

    async def _drop_table(self, table: str) -> None:
        try:
            await self._loads.drop(table)
        except MemoryUnavailable as error:
            # If the engine has ended, so has the table; otherwise `lost` follows.
            log.info("the table %s could not be dropped from memory: %s", table, error)

    async def _empty(self, why: str) -> None:
        tables = self.base_tables
        tasks = [*map(self._cancel, self._places.values()), *(map(tables.cancel, tables.ids()) if tables else ())]
        if ending := list(filter(None, tasks)):
            await asyncio.wait(ending)
        self._catalog.residences.off = why
        for view_id in list(self._places):
            await self._drop(view_id, room.UNWANTED)
            self._forget(view_id)
        if tables is not None:
            for table_id in tables.ids():
                await self._drop(table_id, room.UNWANTED)
            tables.forget_all()

    def _forget(self, view_id: str) -> None:
        del self._places[view_id]
        self._used.pop(view_id, None)
        self._catalog.residences.set(view_id, None)

    # --- loading -----------------------------------------------------------------------------------

    def _begin(self, view_id: str) -> None:
        place, entry = self._places[view_id], self._catalog.find(view_id)
        if entry is None or place.loading is not None:
            return
        place.loading_version = entry.view.current.number
        place.loading = asyncio.create_task(self._load(place, entry), name=f"load {entry.view.name} into memory")

    def _cancel(self, place: _WantedView) -> asyncio.Task[None] | None:
        """Returns the task that ends now, if there is one."""
        if place.loading is not None:
            place.loading.cancel()
        return place.loading

    async def _load(self, place: _WantedView, entry: Entry) -> None:
        """Loads the current version of the view. Never raises, except if it is cancelled."""
        view, began = entry.view, self._clock()
        outcome = "failed"
        try:
            loaded = await self._loads.load(entry, _earlier(place))
            outcome = "loaded" if loaded.whole else "changed"
        except asyncio.CancelledError:
            outcome = "cancelled"
            # Otherwise a view with a new version each moment would be read all the time.
            place.not_before = self._clock() + REST * (self._clock() - began)
            raise
        except NotHeld as error:
            outcome = "not_held"
            place.not_held, place.why = view.current.number, str(error)
            log.info("version %d of %s is not in memory: %s", view.current.number, view.name, error)
        except (FreshgateError, MemoryUnavailable) as error:
            if isinstance(error, MemoryUnavailable) and error.reason == "memory":
                place.ratio *= 2
            self._fail(place, str(error))
            log.warning("version %d of %s was not loaded into memory: %s", view.current.number, view.name, error)
        finally:
            place.loading, place.loading_version = None, -1
            self.counts.loads[outcome] += 1
            self._wake.set()
        if outcome in ("loaded", "changed"):
            await self._keep(place, view, loaded, self._clock() - began)

    async def _keep(self, place: _WantedView, view: MaterializedView, loaded: LoadedVersion, seconds: float) -> None:
        """From now on, the loaded rows answer queries."""
        before, table = place.held, loaded.table
        place.held = ResidentTable.of(table_of(view), table)
        place.version, place.since = view.current, self._now_ms()
        place.failures, place.why = 0, ""
        place.not_before = self._clock() + REST * seconds
        if (files := view.current.files) is not None and files.sum:
            place.ratio = table.bytes / files.sum
        self.counts.load_seconds.add(seconds)
        log.info(
            "version %d of %s is in memory: %d rows, %d bytes, in %.2f s%s",
            view.current.number,
            view.name,
            table.rows,
            table.bytes,
            seconds,
            "" if loaded.whole else ", of which Spark was asked for those that have changed",
        )
        if before is not None:
            self.counts.drops[REPLACED] += 1
            await self._drop_table(before.table)

    def _fail(self, place: _WantedView, why: str) -> None:
        pause = min(RETRY_SECONDS * 2**place.failures, RETRY_SECONDS_MAX)
        place.failures = min(place.failures + 1, 10)
        place.why, place.not_before = why, self._clock() + pause

    # --- telling -----------------------------------------------------------------------------------

    def _tell(self, view_id: str, *, crowded: bool = False) -> None:
        """Says what is known of the view. `crowded`: there is no room for it."""
        self._catalog.residences.set(view_id, self._residence(view_id, crowded=crowded))

    def _residence(self, view_id: str, *, crowded: bool) -> Residence | None:
        entry, place = self._catalog.find(view_id), self._places[view_id]
        if place.wish is None or entry is None:
            return None
        number = entry.view.current.number
        if (held := place.held) is not None and place.holds(number):
            return Residence(Held.LOADED, place.wish, "", number, held.rows, held.bytes, place.since)
        if place.loading is not None:
            return Residence(Held.LOADING, place.wish, f"version {place.loading_version} is being loaded")
        if barred := _barred(entry, place):
            return Residence(Held.NOT_LOADED, place.wish, barred)
        if place.failures:
            return Residence(Held.WAITING, place.wish, f"it failed and will be tried again: {place.why}")
        if entry.doubtful:
            return Residence(Held.WAITING, place.wish, "what it shows is unknown until Spark was asked")
        if crowded:
            return Residence(Held.NOT_LOADED, place.wish, "memory.bytes leaves no room for it")
        return Residence(Held.WAITING, place.wish, "others come before it, or it has just been loaded or refreshed")


def _earlier(place: _WantedView) -> EarlierTable | None:
    """What the next version may be made of, unless that has failed."""
    if place.held is None or place.version is None or place.failures:
        return None
    return EarlierTable(place.held.table, place.version, place.held.columns)


def _barred(entry: Entry, place: _WantedView) -> str:
    """Why the rows of the current version must not be in memory; empty if they may be."""
    if (why := refused(entry.view)) or not entry.view.built:
        return why or "it was never built"
    if entry.damage:
        return entry.damage
    return place.why if place.not_held == entry.view.current.number else ""


def reads_lately(reads: ReadCounts, now_ms: int) -> float:
    """The reads of the last 24 hours, about: of today, and of yesterday as if they had been spread evenly."""
    today, passed = divmod(now_ms, DAY_MS)
    return reads.days.get(today, 0) + reads.days.get(today - 1, 0) * (1 - passed / DAY_MS)
