"""The partitions of a view, for statements that name or list them."""

from __future__ import annotations

from collections.abc import Iterable

from gateway.errors import FreshgateError, NoSuchView
from gateway.loops import in_thread
from gateway.mv.catalog.index import Catalog
from gateway.mv.model.partitions import Called, Partition, StoredPartitions, partition
from gateway.mv.model.spark_types import sql_type
from gateway.mv.model.view import Freshness, MaterializedView
from gateway.mv.ports import Metastore
from gateway.mv.refresh.proposal import StandingPartition
from gateway.mv.refresh.proposer import Proposer, view_bases
from sql.grammar import view_properties
from sql.grammar.cursor import WRONG_VALUE
from sql.texts import maintenance


class ViewPartitions:
    """Finds the partitions of views. All methods raise what Spark raises."""

    def __init__(self, catalog: Catalog, metastore: Metastore, proposer: Proposer) -> None:
        self._catalog = catalog
        self._metastore = metastore
        self._proposer = proposer

    async def check(self, view: MaterializedView, names: Iterable[str]) -> None:
        """Raises NoSuchView if one of the names is not the name of a partition."""
        if view.layout.partitioned:
            async with self._proposer.session_for(view) as session:
                missing = await self._proposer.missing(view, names, session)
        else:
            columns = view.clauses.partitioning.columns if view.clauses.partitioning else ()
            called = Called(await self._of(view), columns)
            missing = [name for name in names if not called[name]]
        if missing:
            raise NoSuchView(
                f"partition not exist: {', '.join(missing)} of materialized view {view.name}. "
                f"SHOW PARTITIONS FROM {view.name} lists its partitions.",
                sqlstate="42704",
            )

    async def standings(self, view: MaterializedView) -> list[StandingPartition]:
        """The view's partitions. If they do not follow a base table's, each is as fresh as the view."""
        if view.layout.partitioned:
            async with self._proposer.session_for(view) as session:
                if view.built:
                    return await self._proposer.standings(view, session)
                expected, unsynced = await self._proposer.expected(view, session), view_bases(view)
            number, stored = view.current.number, StoredPartitions(view)
            return await in_thread(
                len(expected), lambda: [StandingPartition(stored.of(key), number, unsynced) for key in expected]
            )
        fresh = self._catalog.freshness(view.id) is Freshness.FRESH
        unsynced = frozenset() if fresh else view_bases(view)
        return [StandingPartition(each, view.current.number, unsynced) for each in await self._of(view)]

    async def _of(self, view: MaterializedView) -> list[Partition]:
        """The partitions of a view that does not follow a base table's. Without a partition column there is one
        partition with the view's name, as in Doris."""
        partitioning = view.clauses.partitioning
        if partitioning is None:
            counted = f"SELECT count(*) FROM {view.name.quoted}" if view.built else "SELECT 0"
            rows = (await self._metastore.run(counted)).rows
            return [Partition(view.name.table, "", int(rows[0][0]))]
        source = view.storage if view.built else view.definition
        version = view.current.number if view.built else None
        if view.built and view.layout.open is not None:
            source, version = view.name, None
        texts, written = await self._texts(view), self._date_format(view)
        query = maintenance.partition_values(source, partitioning, version, texts, written)
        rows = (await self._metastore.run(query)).rows
        return await in_thread(
            len(rows),
            lambda: [partition(partitioning, each[::2], each[1::2], int(n) if view.built else 0) for n, *each in rows],
        )

    async def _texts(self, view: MaterializedView) -> set[str]:
        """The STRING columns, in lower case."""
        relation = await self._metastore.relation(view.definition)
        return {name.lower() for name, kind in (relation.columns if relation else ()) if sql_type(kind) == "string"}

    def _date_format(self, view: MaterializedView) -> str:
        """The pattern in which STRING columns store the times by which the view is partitioned."""
        try:
            return view_properties.date_format(view.properties)
        except ValueError as error:
            raise FreshgateError(f"The properties of materialized view {view.name}: {error}.", WRONG_VALUE) from error
