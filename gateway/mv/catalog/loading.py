"""Reads views from the storage database into the catalog, at the start and periodically."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Container, Iterable

from gateway.errors import FreshgateError
from gateway.mv.catalog import discovery
from gateway.mv.catalog.index import Catalog
from gateway.mv.catalog.naming import DEFINITION_SUFFIX
from gateway.mv.model.damage import NO_STORAGE
from gateway.mv.model.history import History
from gateway.mv.model.view import Leftover
from gateway.mv.ports import Metastore
from sql.names import TableName

log = logging.getLogger(__name__)


class Loading:
    """Asks the metastore about up to `parallel` views at a time."""

    def __init__(self, catalog: Catalog, metastore: Metastore, parallel: int) -> None:
        self._catalog = catalog
        self._metastore = metastore
        self._parallel = parallel

    async def load(self) -> list[Leftover]:
        """Reads all views. Returns what should be dropped."""
        names = await self._metastore.tables(self._catalog.storage_database)
        gate = asyncio.Semaphore(self._parallel)

        async def read(table: str) -> Leftover | None:
            async with gate:
                return await self._discover(table, names)

        leftovers = await asyncio.gather(*(read(table) for table in _storages(names)))
        self._catalog.reindex()
        return [leftover for leftover in leftovers if leftover is not None]

    async def survey(self) -> list[Leftover]:
        """Reads the storage database again: statements of a killed gateway may complete long after it, and users drop
        things. Reports damage and returns what should be dropped."""
        catalog = self._catalog
        names = await self._metastore.tables(catalog.storage_database)
        if not names and any(catalog.entries()):
            # An empty answer means that the metastore has a fault, not that all views are gone.
            return []
        for entry in [each for each in catalog.entries() if each.visible and each.view.id not in names]:
            # Ask for it by name: the list may be older than the table.
            if await self._metastore.relation(entry.view.storage) is None and catalog.find(entry.view.id) is entry:
                catalog.report_damage(entry, NO_STORAGE)
        # Includes damaged views: they may have been repaired.
        unknown = _storages(names) - catalog.building
        unknown = {table for table in unknown if catalog.find(table) is None}
        found = [await self._discover_late(table, names) for table in sorted(unknown)]
        for damage in [each for each in catalog.damaged.values() if each.storage.table not in names]:
            if not damage.droppable:
                catalog.forget_damage(damage.name)
        if unknown:
            catalog.reindex()
        return [leftover for leftover in found if leftover is not None]

    async def _discover_late(self, table: str, names: Container[str]) -> Leftover | None:
        """Skips a table that cannot be read now until the next time, so that it does not delay the others."""
        try:
            return await self._discover(table, names)
        except FreshgateError as error:
            log.warning("cannot read %s, will try again: %s", table, error)
            return None

    async def _discover(self, table: str, names: Container[str]) -> Leftover | None:
        """Classifies a storage table, or one of which `names` has only the definition. Returns what should be
        dropped."""
        storage = TableName(self._catalog.storage_database, table)
        look = discovery.of_storage if table in names else discovery.of_definition
        finding = await look(self._metastore, storage)
        if finding.damage is not None:
            self._catalog.add_damage(finding.damage)
        if finding.view is not None:
            history = History.of_stored(finding.properties, finding.view.current.number)
            self._catalog.add(finding.view, history)
        return finding.leftover


def _storages(names: Iterable[str]) -> set[str]:
    """The storage tables to which the objects of the storage database belong, whether they exist or not."""
    return {name.removesuffix(DEFINITION_SUFFIX) for name in names}
