"""Shortens the text of a public view after the partitions that it excludes were dropped."""

from __future__ import annotations

from gateway.loops import in_thread
from gateway.mv.catalog import naming
from gateway.mv.catalog.index import Catalog
from gateway.mv.catalog.settlement import Settlement
from gateway.mv.ports import Metastore
from gateway.mv.versions.rows import stored_partitions


class Compaction:
    """Changes no rows; readers see no difference."""

    def __init__(self, catalog: Catalog, settlement: Settlement, metastore: Metastore) -> None:
        self._catalog = catalog
        self._settlement = settlement
        self._metastore = metastore

    async def compact(self, view_id: str) -> None:
        """Shortens the public view's text if possible. Raises what Spark raises."""
        entry = self._catalog.find(view_id)
        if entry is None or not entry.view.current.shown.hidden:
            return
        # Not in a refresh session: refreshes may wait for the janitor, so the janitor must not wait for refreshes.
        async with entry.lock:
            current = entry.view.current
            partitioned = entry.view.layout.partitioned
            present = await stored_partitions(self._metastore, entry.view.storage) if partitioned else []
            shown = await in_thread(len(present), current.manifest.shown, current.shown, present)
            if shown == current.shown or entry.doubtful or self._catalog.find(view_id) is not entry:
                return
            await self._settlement.check_unmoved(entry)
            await self._metastore.run(naming.publish(entry.view.name, entry.view, shown))
            entry.shorten(shown)
