"""Materialized views as base tables of other views: which rows a version shows, and how two versions differ. A version
never changes, so all of it is exact.

Tests: `test_storage_looks`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace

from gateway.loops import in_thread
from gateway.mv.catalog.index import Catalog
from gateway.mv.concurrency import gathered
from gateway.mv.formats.table_format import Change
from gateway.mv.model.contents import NEVER_BUILT
from gateway.mv.model.marks import Mark
from gateway.mv.model.snapshot import Snapshot
from gateway.mv.model.spark_types import are_exact
from gateway.mv.model.view import MaterializedView
from gateway.mv.observation.inspection import Inspection
from gateway.mv.observation.storage_looks import StorageLooks
from gateway.mv.ports import Metastore
from gateway.mv.versions.kept import NoSuchVersion, VersionLookup
from gateway.mv.versions.readers import Readers, VersionKey
from gateway.mv.versions.rows import stored_partitions
from sql.increments import changed_rows
from sql.increments.reasons import NotIncremental, Reason
from sql.texts import public_view
from sql.texts.storage_layout import Shown


class ViewsBelow:
    """Methods may raise NotIncremental."""

    def __init__(
        self,
        catalog: Catalog,
        versions: VersionLookup,
        readers: Readers,
        storages: StorageLooks,
        metastore: Metastore,
    ) -> None:
        self._catalog = catalog
        self._versions = versions
        self._storages = storages
        self._readers = readers
        self._metastore = metastore

    def reading(self, versions: Iterable[VersionKey]) -> AbstractContextManager[None]:
        """Keeps versions from being dropped, as far as they are still there."""
        return self._readers.reading(versions)

    async def are_sound(self, read: Mapping[str, int]) -> bool:
        """Whether the rows of these views, from the versions with these numbers on, are those that were published, by
        looks that begin now. Raises what Spark raises."""
        return all(await gathered(self._is_sound(base, number) for base, number in read.items()))

    async def _is_sound(self, base: str, number: int) -> bool:
        entry, now = self._catalog.find(base), self._storages.now()
        if entry is None:
            return False
        await self._storages.look(entry, now)
        view = entry.view
        kept = {each.version.number: each.version for each in self._versions.kept(view)}
        older = [each for each in kept.values() if number <= each.number < view.current.number]
        sound = await gathered(self._storages.is_sound(view, each, now) for each in older)
        # A view that was never built has no version to keep, and no rows that could change.
        return (number == NEVER_BUILT or number in kept) and not entry.damage and all(sound)

    def mark(self, below: MaterializedView, inspection: Inspection) -> Mark:
        """The version that was seen."""
        seen = inspection.observed[below.id]
        return Mark(below.id, position=seen.state if isinstance(seen, Snapshot) else "")

    def rows(self, below: MaterializedView, mark: Mark) -> str:
        """The query for the rows of the current version, which must be that of the mark."""
        if str(below.current.number) != mark.position:
            raise NotIncremental(Reason.CHANGED_WHILE_READ, f"{below.name} has just been refreshed")
        return _rows(below, below.current.shown)

    async def since(self, below: MaterializedView, mark: Mark, inspection: Inspection, *, sparing: bool) -> Change:
        """What the view shows in addition to the version of a mark, and what it no longer shows. `sparing`: without
        rows that are in both, which costs a comparison of all, if equal rows are the same. Raises what the metastore
        raises."""
        now = self.mark(below, inspection)
        self.rows(below, now)
        old, new = self._shown(below, int(mark.position)), self._latest(below)
        has_added, has_removed = await self._differ(below, old, new)
        await self._check_sound(below, old, new)
        added, removed = (
            public_view.rows_beyond(below.storage, below.columns, shown, other, below.layout)
            for shown, other in ((new, old), (old, new))
        )
        if sparing and has_added and has_removed and await self._are_exact(below):
            added, removed = changed_rows.net(added, removed)
        return Change(now, added if has_added else None, removed if has_removed else None, _rows(below, old))

    async def _are_exact(self, below: MaterializedView) -> bool:
        """Whether rows of the view that are equal are the same: of 0.0 that became -0.0, both would be left out."""
        stored = await self._metastore.relation(below.storage)
        shown = [] if stored is None else [each for each in stored.columns if each[0] in below.columns]
        return len(shown) == len(below.columns) and are_exact(shown)

    async def _check_sound(self, below: MaterializedView, *used: Shown) -> None:
        """Raises NotIncremental if rows of one of these kept versions were changed outside the gateway: the view was
        perhaps computed from others. The current version is looked at for its own sake."""
        for shown in used:
            if shown.number == below.current.number:
                continue
            try:
                version = self._versions.numbered(below, str(shown.number))
            except NoSuchVersion:  # The rows are some of those of the current version.
                continue
            if not await self._storages.is_sound(below, version):
                raise NotIncremental(
                    Reason.HISTORY_GONE, f"rows of version {version.number} of {below.name} were changed"
                )

    def _latest(self, below: MaterializedView) -> Shown:
        """What the current version shows, in the versions that its rows were first written in, if these are kept."""
        origin = below.current.contents.same_as
        try:
            return self._versions.numbered(below, str(origin)).shown if origin else below.current.shown
        except NoSuchVersion:
            return below.current.shown

    def _shown(self, below: MaterializedView, number: int) -> Shown:
        """What an earlier version shows."""
        try:
            return self._versions.numbered(below, str(number)).shown
        except NoSuchVersion:
            shown = below.current.shown
            if below.layout.partitioned or not shown.has(number):
                kept = f"{below.name} no longer keeps its version {number}, which the view contains"
                raise NotIncremental(Reason.HISTORY_GONE, kept) from None
            ranges = tuple((first, min(last, number)) for first, last in shown.ranges if first <= number)
            return replace(shown, number=number, ranges=ranges)

    async def _differ(self, below: MaterializedView, old: Shown, new: Shown) -> tuple[bool, bool]:
        """Whether the new one shows rows that the old one does not, and the other way round."""
        if not below.layout.partitioned or below.layout.open is not None:
            return bool(_versions(new) - _versions(old)), bool(_versions(old) - _versions(new))
        present = await stored_partitions(self._metastore, below.storage)

        def compared() -> tuple[bool, bool]:
            added = any(new.shows(*place) and not old.shows(*place) for place in present)
            return added, any(old.shows(*place) and not new.shows(*place) for place in present)

        return await in_thread(len(present), compared)


def _rows(below: MaterializedView, shown: Shown) -> str:
    return public_view.shown_rows(below.storage, below.columns, shown, below.layout)


def _versions(shown: Shown) -> set[int]:
    return {number for first, last in shown.ranges for number in range(first, last + 1)}
