"""The kept versions of a view: which can be read, and how many there may be.

Tests: `test_version_limits`.
"""

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
    """The version was never published, or is no longer kept."""

    sqlstate = "22023"


@dataclass(frozen=True, slots=True)
class KeptLimits:
    """How much of one view may be kept (0: no limit). A refresh waits `wait_seconds` for older versions to be
    dropped."""

    count: int = 0
    bytes: int = 0
    wait_seconds: float = 300.0
    """Longer than most queries that read an older version; then the refresh fails, and its error names the readers."""


@dataclass(frozen=True, slots=True)
class KeptVersion:
    """A version whose rows can still be read. Times are milliseconds since the epoch."""

    version: Version
    retired_at: int
    """When it was replaced; 0 for the current version."""
    readers: int
    """How many open statements and transactions may read it."""
    due: bool = False
    """Whether nothing keeps it any longer: it is about to be dropped."""


class VersionLookup:
    """Finds kept versions, and waits until there is room for a new one."""

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
        """The kept versions, oldest first. The last one is the current one, if the view is built."""
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
        """The version with this number. Raises NoSuchVersion."""
        for each in self.kept(view):
            if each.version.complete and str(each.version.number) == number.strip():
                return each.version
        raise NoSuchVersion(f"The materialized view {view.name} has no version {number}. {self._kept_versions(view)}")

    def at(self, view: MaterializedView, moment: int) -> Version:
        """The version that was current at a time (milliseconds since the epoch). Raises NoSuchVersion."""
        for each in reversed(self.kept(view)):
            current = each.version.published_at <= moment and (not each.retired_at or moment < each.retired_at)
            if current and each.version.complete:
                return each.version
        raise NoSuchVersion(
            f"The materialized view {view.name} keeps no version of that time. {self._kept_versions(view)}"
        )

    def _kept_versions(self, view: MaterializedView) -> str:
        numbers = ", ".join(str(each.version.number) for each in self.kept(view) if each.version.complete)
        kept = f"Kept versions: {numbers}" if numbers else "It has no versions yet"
        return (
            f"{kept}. SHOW MATERIALIZED VIEW VERSIONS {view.name} shows their times; versions.retention sets how long "
            f"they are kept."
        )

    async def measure(self, view: MaterializedView, kept: Iterable[KeptVersion]) -> dict[int, Measure]:
        """Rows and bytes that versions show. Versions without rows, or dropped by now, are omitted."""
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
        """Returns when one more version may be written. Raises RefreshFailed if that takes too long."""

        async def excess() -> str:
            # Versions that are due do not count: the janitor may be busy for longer than a refresh may wait.
            kept = sum(not each.due for each in self.kept(view))
            if self._limits.count and kept + 1 > self._limits.count:
                return f"it already keeps {kept} versions, and versions.max_count is {self._limits.count}"
            # The new version takes at least one byte.
            return await self._too_many_bytes(view, least=1)

        await self._wait(view, excess)

    async def check_size(self, view: MaterializedView) -> None:
        """Returns when the written version may be published. Raises RefreshFailed if that takes too long."""

        async def excess() -> str:
            return await self._too_many_bytes(view, least=0)

        await self._wait(view, excess)

    async def _too_many_bytes(self, view: MaterializedView, least: int) -> str:
        if not self._limits.bytes:
            return ""
        shown = [each.version.shown for each in self.kept(view)]
        try:
            ((found,),) = (await self._metastore.run(maintenance.stored_bytes(view.storage, shown, view.layout))).rows
        except StatementFailed as error:
            # A file may have been dropped while it was counted.
            return f"the size of its versions cannot be determined: {error}"
        size = int(found or 0)
        if size + least <= self._limits.bytes:
            return ""
        return f"its versions take {size} bytes, and versions.max_bytes is {self._limits.bytes}"

    async def _wait(self, view: MaterializedView, excess: Callable[[], Awaitable[str]]) -> None:
        """Waits until a limit is met. `excess` describes how it is exceeded, or returns "" if it is not."""
        deadline = time.monotonic() + self._limits.wait_seconds
        while problem := await excess():
            older = [each for each in self.kept(view) if each.retired_at]
            left = deadline - time.monotonic()
            if left <= 0 or not self._janitor.is_waiting(view.id):
                raise RefreshFailed(
                    f"The materialized view {view.name} cannot have another version: {problem}{_held_by(older)}. "
                    f"End the reads of older versions, or raise the limit.",
                    sqlstate=LIMIT_EXCEEDED,
                )
            # Not longer: a drop may have ended while `excess` ran.
            await self._janitor.wait_for_drop(min(left, LOOK_SECONDS))


def _held_by(older: list[KeptVersion]) -> str:
    """What prevents older versions from being dropped."""
    held = ", ".join(f"{each.version.number} ({each.readers} readers)" for each in older if each.readers)
    if held:
        return f". Older versions in use: {held}"
    if retained := sum(not each.due for each in older):
        return f". {retained} older versions are within versions.retention"
    return ". No older version is left to drop" if not older else ". The older versions are still being dropped"
