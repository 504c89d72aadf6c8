"""The numbers of versions. Version numbers, and so directories, are never reused."""

from __future__ import annotations

from collections.abc import Container

from gateway.mv.catalog.fence import Fence
from gateway.mv.catalog.index import Catalog
from gateway.mv.freshness.entry import Entry
from gateway.mv.model import properties as stored
from gateway.mv.model.view import MaterializedView
from gateway.mv.ports import SqlSession
from sql.texts import maintenance

VERSIONS_RESERVED = 16
"""How many numbers one refresh reserves. A crash may waste as many; each reservation costs a metastore call."""


class VersionNumbers:
    """The version numbers of all views."""

    def __init__(self, catalog: Catalog, fence: Fence) -> None:
        self._catalog = catalog
        self._fence = fence
        self._next: dict[str, int] = {}

    def expected(self, view: MaterializedView) -> int:
        """The number that the next refresh will take; does not take it."""
        number = max(self._next.get(view.id, 0), view.current.number + 1)
        return number if view.id in self._next else max(number, view.versions_reserved)

    def take(self, view: MaterializedView) -> int:
        """Takes a number that was never used: after a start, reserved ones are skipped; a failed refresh uses one."""
        number = self.expected(view)
        self._next[view.id] = number + 1
        return number

    def begin(self, view: MaterializedView) -> None:
        """Records that the first version of a new view is being written."""
        self._next[view.id] = view.current.number + 1

    async def reserve(self, entry: Entry, number: int, session: SqlSession) -> None:
        """Stores that a number may be used from now on, so that an interrupted refresh and a later one never share a
        number. Stores nothing if another gateway has taken over."""
        async with entry.lock:
            await self._fence.check_lately()
            if number < entry.view.versions_reserved:
                return
            reserved = number + VERSIONS_RESERVED
            await session.run(maintenance.set_properties(entry.view.storage, stored.write_reserved(reserved)))
            entry.reserve(reserved)

    def forget_dropped(self, refreshed: Container[str]) -> None:
        """Forgets the numbers of dropped views, except of those that are being `refreshed`: if such a view is found
        again, the number that its refresh has taken may not be reserved yet. For the others, the reserved number shows
        what was used."""
        for view_id in [each for each in self._next if self._catalog.find(each) is None]:
            if view_id not in refreshed:
                del self._next[view_id]
