"""The number of rows and bytes of versions. A version never changes, so each is measured once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from gateway.errors import StatementFailed
from gateway.mv.model.view import MaterializedView, Version
from gateway.mv.ports import Metastore
from sql.names import TableName
from sql.texts import maintenance
from sql.texts.storage_layout import Shown, StorageLayout

log = logging.getLogger(__name__)

MEASURED_TOGETHER = 50
"""How many storage tables one query measures. Planning a query costs more than counting, up to this number."""


@dataclass(frozen=True, slots=True)
class Measure:
    rows: int
    bytes: int


class Measures:
    """Measures versions on demand, by a query that reads the footers of their files or the metadata of their table."""

    def __init__(self, metastore: Metastore, retired: Callable[[str], Iterable[Version]]) -> None:
        """`retired`: the replaced versions of a view that can still be read, by its id."""
        self._metastore = metastore
        self._retired = retired
        self._known: dict[str, dict[int, Measure]] = {}
        """By the storage table's name: each version that had files when the table was last measured."""

    async def of(self, views: Iterable[MaterializedView]) -> dict[str, dict[int, Measure]]:
        """The measures of the versions that have rows, by the views' ids."""
        listed = list(views)
        unknown = [
            (view.storage, [*(each.shown for each in self._retired(view.id)), view.current.shown], view.layout)
            for view in listed
            if view.built and view.current.number not in self._known.get(view.storage.table, {})
        ]
        for start in range(0, len(unknown), MEASURED_TOGETHER):
            await self._measure(unknown[start : start + MEASURED_TOGETHER])
        kept = {view.storage.table for view in listed}
        for gone in self._known.keys() - kept:
            del self._known[gone]
        return {view.id: self._known.get(view.storage.table, {}) for view in listed}

    def known(self, view: MaterializedView) -> dict[int, Measure]:
        """What has been measured of the view's versions, without asking."""
        return self._known.get(view.storage.table, {})

    async def _measure(self, storages: Sequence[tuple[TableName, Sequence[Shown], StorageLayout]]) -> None:
        try:
            rows = (await self._metastore.run(maintenance.measure_versions(storages))).rows
        except StatementFailed as error:
            # A view whose files are gone must not hide the others.
            if len(storages) > 1:
                for storage in storages:
                    await self._measure([storage])
            else:
                log.warning("cannot measure %s: %s", storages[0][0], error)
            return
        for measured, _, _ in storages:
            self._known[measured.table] = {}
        for table, version, count, size in rows:
            self._known[table][int(version)] = Measure(int(count), int(size))
