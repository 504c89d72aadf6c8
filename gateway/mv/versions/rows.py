"""The versions and partitions that have rows in a view's storage table."""

from __future__ import annotations

from gateway.loops import in_thread
from gateway.mv.model.partitions import stored_partition
from gateway.mv.ports import Metastore
from sql.names import TableName
from sql.texts import maintenance
from sql.texts.storage_layout import PartitionKey


async def stored_partitions(metastore: Metastore, storage: TableName) -> list[tuple[int, PartitionKey]]:
    """The version and key of each partition. Raises what the metastore raises."""
    rows = (await metastore.run(maintenance.show_partitions(storage))).rows
    return await in_thread(len(rows), lambda: [stored_partition(row[0]) for row in rows])
