"""Whether views are still as an answer has read them."""

from __future__ import annotations

from collections.abc import Iterable

from gateway.mv.catalog.fence import Fence
from gateway.mv.catalog.guard import Guard
from gateway.mv.catalog.index import Catalog
from gateway.service.results.key import Key, Seen


class Current:
    """The current versions of views, as far as they are certain."""

    def __init__(self, catalog: Catalog, fence: Fence, guard: Guard) -> None:
        self._catalog = catalog
        self._fence = fence
        self._guard = guard

    def seen(self, views: Iterable[str]) -> frozenset[Seen] | None:
        """What a query on these views sees now; None if that is not certain."""
        found = frozenset(map(self._seen, views))
        return None if self._fence.lost is not None or None in found else frozenset(filter(None, found))

    def holds(self, key: Key) -> bool:
        """Whether a query on the views of the key still sees the same."""
        return self._fence.lost is None and all(self._seen(each.view_id) == each for each in key.views)

    def _seen(self, view_id: str) -> Seen | None:
        entry = self._catalog.find(view_id)
        if entry is None or not entry.visible or entry.uncertain or not entry.view.complete:
            return None
        return None if self._guard.watches((view_id,)) else Seen.of(entry.view)
