"""Compares the stored rows of views with what was published: they may have been changed outside the gateway."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable
from functools import partial

from gateway.errors import FreshgateError
from gateway.mv.catalog.fence import Superseded
from gateway.mv.catalog.index import Catalog
from gateway.mv.catalog.restoration import SHOWN_CHARACTERS, UNKNOWN
from gateway.mv.catalog.settlement import Settlement
from gateway.mv.freshness.entry import Entry
from gateway.mv.model.damage import NO_STORAGE
from gateway.mv.model.marks import Fold
from gateway.mv.model.view import MaterializedView, Version
from gateway.mv.observation.stored_files import StoredFiles
from sql.texts.storage_layout import Shown

log = logging.getLogger(__name__)

NO_TABLE = "42P01"
KEPT_MAX = 10_000
"""How many looks at kept versions are remembered."""


class StorageLooks:
    """Looks at the storage of views. Concurrent callers share a look."""

    def __init__(
        self,
        catalog: Catalog,
        settlement: Settlement,
        files: StoredFiles,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._catalog = catalog
        self._settlement = settlement
        self._files = files
        self._clock = clock
        self._kept: dict[tuple[str, int], tuple[float, bool]] = {}
        """Of versions that were replaced and can still be read: when the last look at their rows began, and whether
        they were as published."""
        self._looking: dict[Entry, asyncio.Task[None]] = {}
        self.found = 0
        """How often a view was found damaged."""

    def due(self, entry: Entry, oldest: float) -> bool:
        """Whether `look` would have to ask Spark: the last look at the rows of the current version began before."""
        marked = entry.view.built and entry.view.current.files is not None
        return marked and not entry.doubtful and entry.examined < oldest

    async def look(self, entry: Entry, oldest: float) -> None:
        """Compares the rows of the current version with their mark, unless a look that began at or after `oldest` has
        done so. Never raises: rows that cannot be listed count as damaged until they can."""
        oldest = min(oldest, self._clock())
        while self.due(entry, oldest):
            task, number = self._looking.get(entry), entry.view.current.number
            if begins := task is None or task.done():
                task = self._looking[entry] = asyncio.create_task(self._look(entry), name=f"look {entry.view.name}")
                task.add_done_callback(partial(self._looked, entry))
            # A cancelled caller does not cancel the shared look.
            await asyncio.shield(task)
            # A look that others began may be too old, or of another version; this one may have failed.
            if begins and entry.view.current.number == number:
                return

    def _looked(self, entry: Entry, task: asyncio.Task[None]) -> None:
        if self._looking.get(entry) is task:
            del self._looking[entry]

    async def _look(self, entry: Entry) -> None:
        view, began = entry.view, self._clock()
        number = view.current.number
        try:
            damage = await self._damage(entry, view, view.current)
        except Superseded:
            # The other gateway may have replaced the rows; it looks at them now.
            damage = ""
        except FreshgateError as error:
            if error.sqlstate == NO_TABLE and await self._settlement.misses_storage(view):
                if entry.examine(number, NO_STORAGE, began):
                    self.found += 1
                    self._tell(view, NO_STORAGE)
                return
            log.warning("cannot look at the stored rows of %s: %s", view.name, error)
            entry.fail_examination(number, str(error))
            return
        except (TimeoutError, ValueError) as error:
            log.warning("cannot look at the stored rows of %s: %s", view.name, error or "it takes too long")
            if entry.unexamined:
                return
            damage = entry.changed_rows
        if entry.examine(number, damage, began):
            self.found += 1
            self._tell(view, damage)

    async def _damage(self, entry: Entry, view: MaterializedView, version: Version) -> str:
        """What differs; empty if nothing does, or if the version is no longer the current one."""
        (found,) = await self._files.of(view, version.shown)
        if version.files is None or found == version.files:
            return ""
        # Before a change is reported: another gateway may serve this metastore, and then the version may be gone.
        await self._settlement.confirm(entry)
        (found,) = await self._files.of(view, version.shown)
        return "" if found == version.files else difference(version, version.files, found)

    async def is_sound(self, view: MaterializedView, version: Version, oldest: float = math.inf) -> bool:
        """Whether the rows of a kept version are those that were published, by a look that began at or after `oldest`.
        Raises what Spark raises. Of a version without a mark, nothing is known, and it counts as sound."""
        if version.files is None:
            return True
        now = self._clock()
        known = self._kept.get((view.id, version.number))
        if known is None or known[0] < min(oldest, now):
            try:
                (found,) = await self._files.of(view, version.shown)
            except (TimeoutError, ValueError) as error:
                log.warning("cannot look at the stored rows of %s: %s", view.name, error or "it takes too long")
                return known is None or known[1]
            if found != version.files:
                log.error(
                    "version %d of the materialized view %s is not read any more: %s",
                    version.number,
                    view.name,
                    difference(version, version.files, found),
                )
            known = self._kept[view.id, version.number] = now, found == version.files
            while len(self._kept) > KEPT_MAX:
                del self._kept[next(iter(self._kept))]
        return known[1]

    def is_sound_lately(self, view: MaterializedView, version: Version, oldest: float) -> bool:
        """Whether `is_sound` is true, and need not ask Spark."""
        began, sound = self._kept.get((view.id, version.number), (-math.inf, False))
        return version.files is None or (sound and began >= oldest)

    def now(self) -> float:
        """The time of the clock of looks."""
        return self._clock()

    async def mark(self, entry: Entry, shown: Shown, *, alone: bool = True) -> Fold | None:
        """The files of a version whose rows are written and not shown yet. Not `alone`: it also shows rows of the
        current version, or was computed from some, so these are looked at in the same moment. None if the files cannot
        be listed: then nothing is known about the version's rows later. Raises what Spark raises."""
        view, began = entry.view, self._clock()
        version = view.current
        before = [] if alone or version.files is None else [version.shown]
        try:
            found, *old = await self._files.of(view, shown, *before)
            if old and old[0] != version.files:
                await self._look(entry)
                (found,) = await self._files.of(view, shown)
            elif old:
                entry.examine(version.number, "", began)
        except (TimeoutError, ValueError) as error:
            log.warning("cannot list the files of %s: %s", view.name, error or "it takes too long")
            return None
        return found

    def _tell(self, view: MaterializedView, damage: str) -> None:
        effects = self._catalog.endangered.effects_on(view.id)
        who = "; ".join(f"{each.user}: {each.text[:SHOWN_CHARACTERS]}" for each in effects)
        log.error(
            "the materialized view %s is damaged: %s. It is not read again before a refresh has computed its rows "
            "anew. Statements that may have done this: %s",
            view.name,
            damage,
            who or UNKNOWN,
        )
        self._catalog.news.stale.tell([view.id], "its stored rows were changed")


def difference(version: Version, before: Fold, now: Fold) -> str:
    """Describes how the files of a version have changed."""
    was, there = _files(before.count, before.sum), _files(now.count, now.sum)
    what = f"now {there}" if (before.count, before.sum) != (now.count, now.sum) else "some of them were replaced"
    return (
        f"its stored rows were changed outside the gateway: version {version.number} was published with {was}; {what}"
    )


def _files(count: int, size: int) -> str:
    return f"{count} {'file' if count == 1 else 'files'} of {size} bytes"
