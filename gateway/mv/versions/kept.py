"""The versions of a view that are kept: what may be read of them, and how many there may be."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

from gateway.errors import FreshgateError, RefreshFailed, StatementFailed
from gateway.mv.model.view import MaterializedView, Version
from gateway.mv.ports import Metastore
from gateway.mv.versions.janitor import Janitor
from gateway.mv.versions.measures import Measure
from gateway.mv.versions.readers import Readers
from sql.texts import maintenance

LOOK_SECONDS = 5.0
LIMIT_EXCEEDED = "53400"


class NoSuchVersion(FreshgateError):
    """A version that was never published, or is not kept any more."""

    sqlstate = "22023"


@dataclass(frozen=True, slots=True)
class KeptLimits:
    """How much of one view may be kept, 0: any number. A refresh waits `wait_seconds` for older versions to go."""

    count: int = 0
    bytes: int = 0
    wait_seconds: float = 300.0


@dataclass(frozen=True, slots=True)
class KeptVersion:
    """One version, as long as its rows can be read. Times are milliseconds since the epoch."""

    version: Version
    retired_at: int
    """When another one took its place; 0: it is the current one."""
    readers: int
    """Open statements and transactions that may read it."""
    due: bool = False
    """Nothing keeps it any more: it is about to be dropped."""


class Versions:
    """Finds versions, and waits for room for a new one."""

    def __init__(
        self,
        janitor: Janitor,
        readers: Readers,
        metastore: Metastore,
        limits: KeptLimits,
    ) -> None:
        self._janitor = janitor
        self._readers = readers
        self._metastore = metastore
        self._limits = limits

    def kept(self, view: MaterializedView) -> list[KeptVersion]:
        """Oldest first; the current one is the last, where there is one."""
        found = [
            (each.version, each.retired_at, self._janitor.is_due(each))
            for each in self._janitor.retired(view.id)
            if each.version
        ]
        if view.built:
            found.append((view.current, 0, False))
        return [
            KeptVersion(version, retired_at, self._janitor.readers_of(view.id, version.number), due)
            for version, retired_at, due in found
        ]

    def numbered(self, view: MaterializedView, number: str) -> Version:
        """The version of that number. Raises NoSuchVersion."""
        for each in self.kept(view):
            if each.version.complete and str(each.version.number) == number.strip():
                return each.version
        raise NoSuchVersion(f"The materialized view {view.name} has no version {number}. {self._said(view)}")

    def at(self, view: MaterializedView, moment: int) -> Version:
        """The version that was current at a time, in milliseconds since the epoch. Raises NoSuchVersion."""
        for each in reversed(self.kept(view)):
            current = each.version.published_at <= moment and (not each.retired_at or moment < each.retired_at)
            if current and each.version.complete:
                return each.version
        raise NoSuchVersion(f"No version of the materialized view {view.name} of that time is kept. {self._said(view)}")

    def _said(self, view: MaterializedView) -> str:
        numbers = ", ".join(str(each.version.number) for each in self.kept(view) if each.version.complete)
        kept = f"Those that are kept: {numbers}" if numbers else "It has none yet"
        return (
            f"{kept}. SHOW MATERIALIZED VIEW VERSIONS {view.name} tells their times; versions.retention says how long."
        )

    async def measure(self, view: MaterializedView, kept: Iterable[KeptVersion]) -> dict[int, Measure]:
        """Rows and bytes of what versions show; of one that has none, or is gone by now, nothing."""
        versions = [each.version for each in kept]
        if not versions:
            return {}
        shown = [version.shown for version in versions]
        hold = self._readers.begin(versions=[(view.id, version.number) for version in versions])
        try:
            found = await self._metastore.run(maintenance.measure_shown(view.storage, shown, view.layout))
        finally:
            self._readers.release(hold)
        return {int(number): Measure(int(rows or 0), int(size or 0)) for number, rows, size in found.rows}

    # --- limits ------------------------------------------------------------------------------------

    async def make_room(self, view: MaterializedView) -> None:
        """Returns when one more version may be written. Raises RefreshFailed when that takes too long."""

        async def excess() -> str:
            # The janitor may be busy with something else for longer than a refresh may wait.
            kept = sum(not each.due for each in self.kept(view))
            if self._limits.count and kept + 1 > self._limits.count:
                return f"{kept} versions of it are kept, and versions.max_count is {self._limits.count}"
            # What is written is at least something.
            return await self._too_many_bytes(view, least=1)

        await self._wait(view, excess)

    async def check_size(self, view: MaterializedView) -> None:
        """Returns when what was written may be published. Raises RefreshFailed when that takes too long."""

        async def excess() -> str:
            return await self._too_many_bytes(view, least=0)

        await self._wait(view, excess)

    async def _too_many_bytes(self, view: MaterializedView, least: int) -> str:
        if not self._limits.bytes:
            return ""
        try:
            ((found,),) = (await self._metastore.run(maintenance.stored_bytes(view.storage))).rows
        except StatementFailed as error:
            # A file may be dropped while it is counted.
            return f"the bytes of its versions cannot be counted: {error}"
        size = int(found or 0)
        if size + least <= self._limits.bytes:
            return ""
        return f"its versions take {size} bytes, and versions.max_bytes is {self._limits.bytes}"

    async def _wait(self, view: MaterializedView, excess: Callable[[], Awaitable[str]]) -> None:
        """Waits until a limit is kept. `excess` says how it is not, or nothing."""
        deadline = time.monotonic() + self._limits.wait_seconds
        while said := await excess():
            older = [each for each in self.kept(view) if each.retired_at]
            left = deadline - time.monotonic()
            if left <= 0 or not self._janitor.is_waiting(view.id):
                raise RefreshFailed(
                    f"The materialized view {view.name} cannot have another version: {said}{_held_by(older)}. "
                    f"End those reads, or raise the limit.",
                    sqlstate=LIMIT_EXCEEDED,
                )
            # Not longer: a drop may have ended while the excess was computed.
            await self._janitor.wait_for_drop(min(left, LOOK_SECONDS))


def _held_by(older: list[KeptVersion]) -> str:
    """What keeps older versions from being dropped."""
    held = ", ".join(f"{each.version.number} ({each.readers} readers)" for each in older if each.readers)
    if held:
        return f". Older versions that are read: {held}"
    if retained := sum(not each.due for each in older):
        return f". {retained} older ones are within versions.retention"
    return ". No older one is left to drop" if not older else ". The older ones are still being dropped"
