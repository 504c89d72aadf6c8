"""Drops what is no longer read: replaced versions, and leftovers of failed or interrupted statements.

A version is dropped when no open statement may read it, no transaction holds it, and the retention time is over. The
retention time protects reads that go directly to Spark, which the gateway does not see.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Set
from dataclasses import dataclass, replace
from functools import partial

from gateway import loops
from gateway.errors import FreshgateError
from gateway.mv.catalog.fence import Fence, Superseded
from gateway.mv.model.view import Leftover, Version
from gateway.mv.versions.readers import Readers
from gateway.mv.versions.removal import Removal

log = logging.getLogger(__name__)

RETRY_SECONDS = 30.0
"""The delay after a failed drop: Spark may be restarting."""
LATE_SECONDS = 600.0
"""The delay after a start: a refresh of a killed gateway may still run at Spark and write its rows late."""


@dataclass(slots=True, eq=False)
class Retired:
    """Something that no new read uses. Moments are those of `Readers`."""

    view_id: str
    leftover: Leftover
    published: int
    retired: int
    not_before: float
    """It is kept at least until this monotonic time."""
    version: Version | None = None
    """The version that was replaced, which earlier reads may still use; None for rows of no published version."""
    retired_at: int = 0
    """Milliseconds since the epoch."""
    going: bool = False
    """It is being dropped, so it can no longer be read by its number."""


class Janitor:
    """Keeps track of what is to be dropped, and drops it when it is due."""

    def __init__(
        self,
        removal: Removal,
        readers: Readers,
        fence: Fence,
        retention_seconds: float,
        clock: Callable[[], float] = time.monotonic,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._removal = removal
        self._retention = retention_seconds
        self._readers = readers
        self._fence = fence
        self._clock = clock
        self._now_ms = now_ms
        self._retired: dict[str, list[Retired]] = {}
        """By view id; for each view in the order in which they were retired."""
        self._leaving: set[str] = set()
        """The ids of views whose storage `drop_now` is dropping."""
        self._since: dict[str, int] = {}
        """The moments at which current versions were published, by view id; only for views with a replaced version."""
        self._held_until = 0.0
        """By the monotonic clock: before, nothing is dropped."""
        self._wake = asyncio.Event()
        self._dropped = asyncio.Condition()
        self.loop = loops.Loop("janitor", self._turn)

    def hold(self, seconds: float) -> None:
        """Drops nothing for so long: clients of another gateway may read what they began to read there."""
        self._held_until = self._clock() + seconds

    def retire(
        self,
        view_id: str,
        leftover: Leftover,
        version: Version | None = None,
        *,
        later_seconds: float | None = None,
        retired_at: int | None = None,
        since: int | None = None,
    ) -> None:
        """Schedules a leftover, or the replaced `version`, for dropping: no new read uses it. It is kept for the
        retention time, or for `later_seconds`. Retire the versions of a view in order. `retired_at` is a time other
        than now; `since` is the moment from which on Spark may have shown the successor."""
        due = self._clock() + (self._retention if later_seconds is None else later_seconds)
        published, now = 0, self._readers.now()
        if version is not None:
            published = self._since.get(view_id, 0)
            self._since[view_id] = now if since is None else since
        at = self._now_ms() if retired_at is None else retired_at
        self._add(Retired(view_id, leftover, published, now, due, version, at))

    def retire_found(self, leftover: Leftover, current: Version) -> None:
        """Schedules what was found in the metastore, beside the current version of its view, for dropping."""
        if not leftover.versions:
            self.retire(leftover.storage.table, leftover)
            return
        following = [*leftover.versions[1:], current]
        for version, after in zip(leftover.versions, following, strict=True):
            self.retire(leftover.storage.table, leftover, version, retired_at=after.published_at)

    def _add(self, retired: Retired) -> None:
        retired.not_before = max(retired.not_before, self._held_until)
        self._retired.setdefault(retired.view_id, []).append(retired)
        self._wake.set()

    def _all(self) -> list[Retired]:
        return [each for retired in self._retired.values() for each in retired]

    def released(self, view_ids: Set[str]) -> None:
        """Handles a read of these views that was planned or has ended: what only it was using is due now, unless its
        retention time is not over."""
        now = self._clock()
        concerned = self._retired.keys() & view_ids
        if any(each.not_before <= now for view_id in concerned for each in self._retired[view_id]):
            self._wake.set()

    def retired(self, view_id: str) -> list[Retired]:
        """The replaced versions of a view that can still be read, oldest first."""
        return [each for each in self._retired.get(view_id, ()) if each.version and not each.going]

    def moment(self) -> int:
        """The current moment of the readers."""
        return self._readers.now()

    @property
    def waiting(self) -> int:
        """How many things are still to be dropped."""
        return len(self._all())

    def is_waiting(self, view_id: str) -> bool:
        """Whether anything of the view is still to be dropped."""
        return view_id in self._retired

    def is_due(self, retired: Retired) -> bool:
        """Whether nothing keeps it any longer, so that the next sweep drops it."""
        return max(retired.not_before, self._held_until) <= self._clock() and not self._held(retired)

    def readers_of(self, view_id: str, number: int) -> int:
        """How many open statements and transactions may read the version."""
        for each in self._retired.get(view_id, ()):
            if each.version and each.version.number == number:
                return self._readers.count(view_id, number, each.published, each.retired)
        return self._readers.count(view_id, number, self._since.get(view_id, 0), None)

    async def wait_for_drop(self, seconds: float) -> None:
        """Returns when something was dropped, or after the given time."""
        async with self._dropped:
            try:
                await asyncio.wait_for(self._dropped.wait(), seconds)
            except TimeoutError:
                return

    async def drop_now(self, view_id: str, leftover: Leftover) -> None:
        """Drops it at once if nothing uses it and Spark answers, otherwise as soon as possible."""
        now = self._readers.now()
        retired = Retired(view_id, leftover, 0, now, self._clock())
        dropped = False
        self._leaving.add(view_id)
        try:
            if self.is_due(retired):
                await self._drop(retired)
                dropped = True
        except FreshgateError as error:
            log.warning("could not drop %s, will try again: %s", leftover.storage, error)
        finally:  # Also if the caller was cancelled.
            self._leaving.discard(view_id)
            if not dropped:
                self._add(retired)

    async def _turn(self) -> None:
        self._wake.clear()
        await self.sweep()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._wake.wait(), self._pause())

    def _pause(self) -> float | None:
        """Seconds until something may be due; None if only a release or a new entry can change that."""
        now = self._clock()
        # Readers need not be counted while the retention time is not over.
        waiting = [each.not_before for each in self._all() if each.not_before > now or not self._held(each)]
        return max(0.05, min(waiting) - now) if waiting else None

    def _held(self, retired: Retired) -> bool:
        """Whether reads keep it. Rows of no published version are dropped regardless of reads."""
        if retired.version is not None:
            number = retired.version.number
            return self._readers.count(retired.view_id, number, retired.published, retired.retired) > 0
        return retired.leftover.whole and self._readers.any_of(retired.view_id, retired.retired)

    async def _drop(self, retired: Retired) -> None:
        """Drops the whole storage table, or the parts of it that are not needed."""
        if retired.leftover.whole:
            if await self._removal.drop_whole(retired.leftover):
                self._since.pop(retired.view_id, None)
            return
        waiting = partial(self.readable, retired.view_id)
        seconds = await self._removal.drop_unneeded(retired.view_id, retired.leftover.storage, waiting)
        waits = any(not each.version and not each.going for each in self._retired.get(retired.view_id, ()))
        if seconds and not waits:
            self.retire(retired.view_id, replace(retired.leftover, versions=()), later_seconds=seconds)

    def readable(self, view_id: str) -> list[Version]:
        """As `retired`, the versions alone."""
        return [each.version for each in self._retired.get(view_id, ()) if each.version and not each.going]

    async def sweep(self) -> None:
        """Drops everything that is due now."""
        due: dict[tuple[str, bool], list[Retired]] = {}
        for each in self._all():
            if self.is_due(each):
                each.going = True
                due.setdefault((each.view_id, each.leftover.whole), []).append(each)
        for together in due.values():
            # One pass drops everything of the view that is not needed.
            try:
                await self._fence.check()
                await self._drop(together[0])
            except Superseded:
                self._retired.clear()
                return
            except FreshgateError as error:
                if not await self._is_gone(together[0]):
                    log.warning("could not drop %s, will try again: %s", together[0].leftover.storage, error)
                self._put_off(together)
            except Exception:  # A bug must not stop all later drops.
                log.exception("could not drop %s, will try again", together[0].leftover.storage)
                self._put_off(together)
            else:
                self._forget(together)
            async with self._dropped:
                self._dropped.notify_all()

    async def _is_gone(self, retired: Retired) -> bool:
        """Whether the whole storage table is being dropped or was dropped, which explains any failure of another
        drop in it."""
        if retired.view_id in self._leaving:
            return True
        try:
            return await self._removal.is_gone(retired.leftover.storage)
        except FreshgateError:
            return False

    def _forget(self, together: list[Retired]) -> None:
        """Removes these, all of one view, from the list."""
        view_id, gone = together[0].view_id, set(together)
        left = [each for each in self._retired.pop(view_id, ()) if each not in gone]
        if left:
            self._retired[view_id] = left

    def _put_off(self, together: list[Retired]) -> None:
        for each in together:
            each.not_before = self._clock() + RETRY_SECONDS
