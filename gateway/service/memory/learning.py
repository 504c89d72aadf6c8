"""Learns how the engine answers the queries of a shape: from Spark's plans of one of them, in the client's session.

Tests: `test_memory_answers` without it, `test_result_cache` with it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial

from gateway.errors import FreshgateError
from gateway.mv.catalog.index import Catalog
from gateway.mv.model.view import MaterializedView
from gateway.mv.ports import Plans, PlanUnavailable, ServiceSessions
from gateway.mv.refresh.habits import TIME_ZONE
from gateway.mv.refresh.surroundings import Surroundings
from gateway.mv.rewriting.permission import refusal_of_table
from gateway.mv.rewriting.proving import Reader, filled
from gateway.mv.rewriting.refreshers_plans import all_of
from gateway.service.clients.proof_sessions import ProofSessions
from gateway.service.clients.session import Session
from gateway.service.memory.zones import Zones
from gateway.service.routing.ways import RepeatableRead
from sql.memory.columns import MemoryColumn
from sql.memory.engine_texts import NotListed
from sql.memory.engine_types import plain_type
from sql.memory.shape_query import ShapeQuery, shape_query, varied
from sql.memory.translation import ViewSource, is_whole, reading_of
from sql.names import TableName, quote
from sql.proof.plan import Plan
from sql.rewriting.shape import Shape
from sql.texts.storage_layout import PARTITION_COLUMN, SHOWN_COLUMN, VERSION_COLUMN

log = logging.getLogger(__name__)

WHOLE_SECONDS = 60.0
"""How long it is believed that the gateway's account is shown all rows of a view: for the queries of a dashboard that
are learned together."""
WHOLE_MAX = 200


class Learner:
    """Plans queries in sessions of their clients. Nothing is executed."""

    def __init__(
        self,
        catalog: Catalog,
        plans: Plans,
        sessions: ProofSessions,
        service: ServiceSessions,
        surroundings: Surroundings,
        zones: Zones,
        table_of: Callable[[str], TableName | None] = lambda _: None,
    ) -> None:
        """`table_of`: the name of the base table in memory with this id."""
        self._table_of = table_of
        self._catalog = catalog
        self._plans = plans
        self._sessions = sessions
        self._service = service
        self._surroundings = surroundings
        self._zones = zones
        self._whole: OrderedDict[tuple[str, int], float] = OrderedDict()
        """When it was found that the account is shown all rows, by the view's id and version; the oldest first."""

    async def learn(
        self,
        session: Session,
        read: RepeatableRead,
        shape: Shape,
        columns: Mapping[str, tuple[MemoryColumn, ...]],
        times: tuple[int, int] | None,
    ) -> ShapeQuery:
        """`columns`: of the views and base tables in memory, by id. `times`: as in `shape_query`. Raises NotListed if
        the engine cannot answer it, PlanUnavailable, and what Spark raises."""
        await self._sessions.note(session)
        try:
            return await self._learned(session, read, shape, columns, times)
        except FreshgateError as error:
            # The client may have closed its session meanwhile.
            log.info("how a query is answered from memory is learned in another session: %s", error)
            return await self._learned(session, read, shape, columns, times, apart=True)

    async def _learned(
        self,
        session: Session,
        read: RepeatableRead,
        shape: Shape,
        columns: Mapping[str, tuple[MemoryColumn, ...]],
        times: tuple[int, int] | None,
        *,
        apart: bool = False,
    ) -> ShapeQuery:
        """The same. `apart`: without the client's session."""
        numbers = {each: number for each, _, number in read.versions}
        tables = {each: name for each in numbers if (name := self._table_of(each)) is not None}
        views = [self._catalog.entry(each).view for each in numbers if each not in tables]
        async with self._sessions.of(session, read.namespace, apart=apart) as planning:
            reader = await planning.reader()
            await self._check_rights(reader, [*(view.name for view in views), *tables.values()])
            for view in views:
                # How rows were computed does not matter, and files are read alike in all time zones: Parquet and ORC
                # have instants, and no partition's value is a time.
                if (reason := await self._surroundings.difference(view, reader.sql, {TIME_ZONE})) is not None:
                    raise NotListed(reason)
                await self._check_whole(view, columns[view.id])
            sources = {relation(view.storage): source_of(view, columns[view.id]) for view in views}
            if tables and (reason := await self._surroundings.difference_of_service(reader.sql)) is not None:
                raise NotListed(reason)
            for each, name in tables.items():
                sources[relation(name)] = await self._source_of_table(each, name, columns[each])
            zone = str((await reader.sql.run("SELECT current_timezone()")).rows[0][0])
            translate = partial(
                shape_query, shape=shape, sources=sources, zone=await self._zones.rules(zone), times=times
            )
            return await self._translated(reader, shape, translate)

    async def _check_rights(self, reader: Reader, names: Sequence[TableName]) -> None:
        """Raises PlanUnavailable if Spark does not let the user read one of the views or tables, which a plan may not
        tell."""
        if self._plans.checks_rights:
            return
        async with reader.twin() as session:
            for name in names:
                if (refused := await refusal_of_table(session, name)) is not None:
                    raise PlanUnavailable(f"Spark does not let {reader.user} read {name}: {refused}")

    async def _translated(
        self, reader: Reader, shape: Shape, translate: Callable[[tuple[Plan, Plan]], ShapeQuery]
    ) -> ShapeQuery:
        """From plans that hold for other literals, too, or else from the usual one, in which Spark has computed what
        depends on nothing but literals."""
        try:
            return await asyncio.to_thread(translate, await self._unfolded(reader, shape))
        except (NotListed, PlanUnavailable) as error:
            log.debug("a query is answered from memory with its own literals only: %s", error)
        plan = await self._plans.optimized(reader.name, filled(shape, shape.literals))
        return await asyncio.to_thread(translate, (plan, plan))

    async def _unfolded(self, reader: Reader, shape: Shape) -> tuple[Plan, Plan]:
        """The plans of the query, and of the same one with other literals. Without literals, or if Spark does not plan
        these, it is twice the same plan."""
        plan = await self._plans.unfolded(reader.name, filled(shape, shape.literals))
        if not shape.literals:
            return plan, plan
        try:
            return plan, await self._plans.unfolded(reader.name, filled(shape, varied(shape)))
        except PlanUnavailable as error:
            log.debug("a query with other literals is not planned: %s", error)
            return plan, plan

    async def _check_whole(self, view: MaterializedView, columns: tuple[MemoryColumn, ...]) -> None:
        """Raises NotListed if the rows in memory may be others than those that the view has: the gateway's account was
        not shown all of them."""
        key, now = (view.id, view.current.number), time.monotonic()
        if now - self._whole.get(key, float("-inf")) < WHOLE_SECONDS:
            return
        plan = await self._own_plan(all_of(view.name.quoted), view)
        if not is_whole(plan, source_of(view, columns), relation(view.storage)):
            raise NotListed("the gateway's account is not shown all rows of the view as they are")
        self._whole[key] = now
        self._whole.move_to_end(key)
        if len(self._whole) > WHOLE_MAX:
            self._whole.popitem(last=False)

    async def _own_plan(self, query: str, view: MaterializedView | None = None) -> Plan:
        """The plan of a query of the gateway's account; of a view, with the settings of its refreshes."""
        async with AsyncExitStack() as ends:
            own = await ends.enter_async_context(self._service.session(fresh=not self._plans.in_place))
            if view is not None:
                # A plan's text is read only in a session with the settings that the view was published with.
                await ends.enter_async_context(self._surroundings.computing(view, own))
            return await self._plans.optimized(await ends.enter_async_context(self._plans.of(own)), query)

    async def _source_of_table(self, table_id: str, name: TableName, columns: tuple[MemoryColumn, ...]) -> ViewSource:
        """A base table in plans and in the engine. Raises NotListed if the gateway's account, which has read its rows,
        may not be shown all of them as they are."""
        shown = ", ".join(quote(each.name) for each in columns)
        plan = await self._own_plan(f"SELECT {shown} FROM {name.quoted}")
        source = ViewSource(table_id, {each.name: (each.name, each.type) for each in columns}, reading=reading_of(plan))
        if source.reading is None or not is_whole(plan, source, relation(name)):
            raise NotListed(f"the gateway's account is not shown all rows of {name} as they are")
        return source


def relation(storage: TableName) -> str:
    """What plans call the storage table."""
    return f"{storage.catalog}.{storage.database}.{storage.table}"


def source_of(view: MaterializedView, columns: tuple[MemoryColumn, ...]) -> ViewSource:
    """The view in plans and in the engine."""
    stored = {view.layout.held.get(each.name.lower(), each.name): each for each in columns}
    named = {name: (each.name, plain_type(each.type)) for name, each in stored.items()}
    return ViewSource(
        view.id, named, frozenset({VERSION_COLUMN, SHOWN_COLUMN}), frozenset({PARTITION_COLUMN, *view.layout.places})
    )
