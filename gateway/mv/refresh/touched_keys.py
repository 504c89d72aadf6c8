"""Views without partitions that have a column whose values follow the partitions of a base table. If some of these
partitions have changed in any way, only the rows with their values are recomputed, and the others are copied."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from gateway.loops import in_thread
from gateway.mv.freshness.drift import Drift
from gateway.mv.model.contents import Keyed
from gateway.mv.model.layout import storage_layout
from gateway.mv.model.snapshot import PartitionValues, Snapshot
from gateway.mv.model.spark_types import sql_type
from gateway.mv.model.view import FollowedTable, MaterializedView, base_key
from gateway.mv.observation.inspection import Inspection, Inspector
from gateway.mv.ports import Metastore, SqlSession
from gateway.mv.refresh.planner import NAMED_TOGETHER
from sql.definition.following import CannotFollow
from sql.statement import Partitioning
from sql.texts import maintenance
from sql.texts.storage_layout import Selection, StorageLayout

PARTITIONS_MAX = 2_000
"""How many partitions of a base table a version of a view without partitions remembers."""
COLUMNS_MAX = 64
"""How many columns of a view are tried."""


@dataclass(frozen=True, slots=True)
class Touched:
    """The rows to recompute: those whose column has one of these values."""

    keys: Selection
    layout: StorageLayout
    """As if the view were partitioned by the column."""
    share: float
    """Which part of the base table's partitions has changed."""

    def __str__(self) -> str:
        return f"only rows with {len(self.keys.keys)} values of {self.layout.column}"


class TouchedKeys:
    """Finds such columns, and the values that changed partitions lead to. Raises what Spark raises."""

    def __init__(self, inspector: Inspector, metastore: Metastore) -> None:
        self._inspector = inspector
        self._metastore = metastore

    async def keyed(self, view: MaterializedView, inspection: Inspection) -> Keyed | None:
        """What a version that reads the tables as inspected can be compared by; None: by nothing."""
        if view.layout.partitioned or not any(map(_is_partitioned, inspection.snapshots.values())):
            return None
        # Each column means an analysis of the text.
        found = await asyncio.to_thread(self._first, view, inspection)
        if found is None:
            return None
        column, followed = found
        return Keyed(column, followed.base, inspection.snapshots[followed.base])

    def _first(self, view: MaterializedView, inspection: Inspection) -> tuple[str, FollowedTable] | None:
        known = view.current.contents.keyed
        first = [known.column] if known is not None and known.column in view.columns else []
        for column in [*first, *view.columns[:COLUMNS_MAX]]:
            followed = self._followed(view, column, inspection)
            if followed is not None and _is_partitioned(inspection.snapshots.get(followed.base)):
                return column, followed
        return None

    def _followed(self, view: MaterializedView, column: str, inspection: Inspection) -> FollowedTable | None:
        try:
            found = self._inspector.following(view, Partitioning(column), inspection.looks)
        except CannotFollow:
            return None
        return found if found.base in map(base_key, view.tables) else None

    async def touched(
        self, view: MaterializedView, found: Drift, inspection: Inspection, session: SqlSession
    ) -> Touched | None:
        """The rows that the current version has to recompute; None if that is not known, or everything."""
        keyed = view.current.contents.keyed
        if keyed is None or found.tables != {keyed.base}:
            return None
        today = inspection.snapshots[keyed.base]
        followed = await in_thread(len(view.query), self._followed, view, keyed.column, inspection)
        if followed is None or followed.base != keyed.base or len(today.partitions) > PARTITIONS_MAX:
            return None
        changed = today.changed(keyed.snapshot)
        layout = await self._layout(view, keyed.column)
        if not changed or layout is None:
            return None
        values = {followed.values(each) for each in changed}
        columns = [(followed.kind, followed.expression)]
        asked = maintenance.partition_keys(sorted(values, key=str), columns, layout, "")
        rows = (await session.run(asked)).rows
        keys = frozenset(key for _, key, *_ in rows)
        if len(keys) > NAMED_TOGETHER or len(rows) < len(values):
            return None
        of_all = await in_thread(len(today.partitions), _different, today.partitions, followed.place)
        return Touched(Selection(keys, all_but=False), layout, len(values) / max(1, of_all))

    async def _layout(self, view: MaterializedView, column: str) -> StorageLayout | None:
        stored = await self._metastore.relation(view.rows_table)
        kinds = {name.lower(): sql_type(kind) for name, kind in stored.columns} if stored is not None else {}
        if (kind := kinds.get(column.lower())) is None:
            return None
        try:
            return storage_layout(Partitioning(column), kind, {})
        except CannotFollow:
            return None


def _is_partitioned(snapshot: Snapshot | None) -> bool:
    return snapshot is not None and 1 < len(snapshot.partitions) <= PARTITIONS_MAX


def _different(partitions: Iterable[PartitionValues], place: int) -> int:
    return len({values[place] for values in partitions})
