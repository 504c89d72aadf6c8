"""Creates the storage table of a view again if it was dropped outside the gateway."""

from __future__ import annotations

import logging

from gateway.mv.catalog.fence import Fence
from gateway.mv.formats import open_tables
from gateway.mv.freshness.entry import Entry
from gateway.mv.model import properties as stored
from gateway.mv.ports import Metastore
from gateway.mv.refresh.habits import Habits
from sql.texts import maintenance

log = logging.getLogger(__name__)


class LostStorage:
    """While the gateway runs, it knows everything that the table's properties said."""

    def __init__(self, metastore: Metastore, fence: Fence, habits: Habits) -> None:
        self._metastore = metastore
        self._fence = fence
        self._habits = habits

    async def create(self, entry: Entry) -> None:
        """Creates the table, without rows, if it is missing, and that of open rows likewise. Raises what the metastore
        raises, as when the definition is missing as well, and Superseded."""
        async with entry.lock:
            view = entry.view
            if (rows := view.layout.open) is not None:
                await self._fence.check_lately()
                await open_tables.create(self._metastore.run, view, rows)
            if view.storage.table in await self._metastore.tables(view.storage.database):
                return
            await self._fence.check_lately()
            written = {**await stored.view_written(view), **stored.write_job(view), **stored.write_published()}
            create = maintenance.create_storage(
                view.storage,
                view.definition,
                written,
                view.comment,
                view.clauses,
                view.columns,
                view.layout,
                staged=self._habits.stages_writes,
            )
            await self._metastore.run(create)
        log.warning("the storage table of %s was created again, without rows", view.name)
