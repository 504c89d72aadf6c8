"""The versions and partitions that have rows in a view's storage table."""

from __future__ import annotations

from gateway.loops import in_thread
from gateway.mv.model.partitions import stored_partition
from gateway.mv.model.view import MaterializedView
from gateway.mv.ports import Metastore, SqlSession
from sql.names import TableName
from sql.texts import maintenance
from sql.texts.storage_layout import PartitionKey


async def stored_partitions(metastore: Metastore, storage: TableName) -> list[tuple[int, PartitionKey]]:
    """The version and key of each partition. Raises what the metastore raises."""
    rows = (await metastore.run(maintenance.show_partitions(storage))).rows
    return await in_thread(len(rows), lambda: [stored_partition(row[0]) for row in rows])


async def open_partitions(session: SqlSession, view: MaterializedView) -> frozenset[PartitionKey]:
    """The keys of the partitions of open rows that the current version shows, as the session computes keys. Raises what
    Spark raises."""
    if not view.current.shown.snapshot:
        return frozenset()
    found = await session.run(maintenance.partition_rows(view.storage, view.current.shown, view.layout))
    return frozenset(None if key is None else str(key) for key, _ in found.rows)
