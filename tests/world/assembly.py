"""Builds a gateway with the real `gateway.server` and `gateway.assembly`, in front of a simulated Spark.

It has no sockets: what a client asks goes to the router, as `service.dispatch` hands it on.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from contextvars import Context, copy_context
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast
from unittest.mock import patch

from fake_spark import FakePlans
from raw_session import encoded
from TCLIService import ttypes

from gateway.assembly import one_gateway, refreshes
from gateway.assembly.at_spark import FENCE_SESSIONS, METASTORE_SESSIONS, OBSERVATION_SESSIONS, AtSpark, fence_of
from gateway.config import Settings
from gateway.errors import FreshgateError
from gateway.mv.catalog.draft_file import StoredDraft
from gateway.mv.catalog.fence import Fence
from gateway.mv.catalog.fenced import Fenced
from gateway.mv.model.view import Freshness
from gateway.mv.refresh import increments, tasks
from gateway.mv.refresh.habits import Habits
from gateway.server import Server
from gateway.service.clients.session import Session
from gateway.service.routing.own_statements import OwnStatements
from gateway.service.routing.router import Router
from gateway.service.routing.underway import Effects
from gateway.service.routing.ways import RepeatableRead
from gateway.wire.message import OpenCall
from gateway.wire.sasl import PLAIN, Login
from sql.names import Namespace, TableName
from world.loop import WHO
from world.oracle import Read
from world.ports import Connector, Pool, SimulatedMetastore
from world.spark import SimulatedSpark

PROTOCOL = 5
"""HIVE_CLI_SERVICE_PROTOCOL_V6."""


@dataclass(frozen=True, slots=True)
class Tuning:
    """What histories vary: settings, and from how many bytes on tables are refreshed by rows."""

    probe_interval: float = 30.0
    retention: float = 60.0
    incremental_from: int = 1 << 26

    def settings(self, *, several: bool = False) -> Settings:
        """`several`: of one of several gateways."""
        usual = Settings()
        return replace(
            usual,
            gateways=replace(usual.gateways, enabled=several),
            staleness=replace(usual.staleness, probe_interval=self.probe_interval),
            jobs=replace(usual.jobs, watch_interval=20.0),
            versions=replace(usual.versions, retention=self.retention),
            memory=replace(usual.memory, bytes=0),
        )


class _Engine:
    """What the server asks of `spark.engine`."""

    def __init__(self, spark: SimulatedSpark, name: str) -> None:
        self.spark = spark
        self.name = name

    async def of_statement(self, statement: str) -> None:
        """Nothing is known of a statement's progress."""

    def cancel_statement(self, statement: str) -> None: ...

    def leave(self) -> None: ...


class _NoPorts:
    """In the place of the listener: there are no clients but those of the history."""

    clients = handshakes = 0

    async def start(self) -> None: ...

    async def close(self) -> None: ...


def install() -> None:
    """Has `gateway.assembly` build what reaches Spark from the simulation's ports, and refreshes by rows keep few
    versions together, in this process, for good."""
    cast(Any, one_gateway).at_spark = _at_spark
    cast(Any, one_gateway).drafts_of = lambda _, spark: _Drafts(spark.engine.spark)
    cast(Any, one_gateway).listen = lambda *_: _NoPorts()
    increments.VERSIONS_MAX, tasks.COMPACTED_FROM = 3, 2


class _Drafts:
    """Drafts of the catalog that each gateway keeps for those after it."""

    def __init__(self, spark: SimulatedSpark) -> None:
        self._spark = spark

    async def read(self) -> StoredDraft | None:
        return self._spark.draft

    async def write(self, draft: StoredDraft) -> None:
        self._spark.draft = draft


def _at_spark(settings: Settings, engine: Any, _: object) -> AtSpark:
    habits = Habits()
    pool, several = partial(Pool, engine.spark, engine.name, greet=habits.greet), settings.gateways.enabled
    epochs = pool(FENCE_SESSIONS if several else METASTORE_SESSIONS)
    fence = fence_of(settings, SimulatedMetastore(epochs))
    outlet = Fenced(fence) if several else None
    short = pool(METASTORE_SESSIONS, outlet) if several else epochs
    parts: Any = (
        engine,
        Connector(engine.spark, outlet),
        habits,
        pool(settings.refresh.max_concurrent, outlet),
        short,
        pool(OBSERVATION_SESSIONS, outlet),
        pool(1, outlet),
        SimulatedMetastore(short),
        FakePlans({}),
        fence,
        epochs,
        pool(1, outlet),
    )
    return AtSpark(*parts)


def context_of(gateway: Gateway) -> Context:
    """In which its callbacks run."""
    context = copy_context()
    context.run(WHO.set, gateway.name)
    return context


class Gateway:
    """A gateway, from its start to its end or death."""

    def __init__(self, spark: SimulatedSpark, name: str, tuning: Tuning, *, several: bool = False) -> None:
        self.name = name
        self.alive = True
        self.serves = False
        """Its start is over."""
        self.spark = spark
        self.answers: dict[RepeatableRead | None, tuple[Read, str, dict[Any, Any]]] = {}
        """Of reads that can be answered again, with the first such read and the storage that it has read."""
        by_rows = partial(increments.Increments, from_bytes=tuning.incremental_from)
        with patch.object(refreshes, "Increments", by_rows):
            self._server = Server(tuning.settings(several=several), cast(Any, _Engine(spark, name)), take_over=True)

    @property
    def router(self) -> Router:
        return self._server._service.router

    @property
    def effects(self) -> Effects:
        return self._server._service.effects

    @property
    def own(self) -> OwnStatements:
        return self._server._service.own

    @property
    def found_damaged(self) -> int:
        """How often it has found a view damaged."""
        return self._server._views.storages.found

    @property
    def fence(self) -> Fence:
        return self._server._views.fence

    async def start(self) -> None:
        await self._server.start()
        self.serves = True

    async def prepare(self) -> None:
        """As `GatewayNode` does: what fails is tried again when it leads."""
        with contextlib.suppress(FreshgateError):
            await self._server.prepare()

    async def stop(self) -> None:
        await self._server.stop()

    async def hand_over(self, acknowledged: Callable[[], Awaitable[None]]) -> None:
        """As `GatewayNode._hand_over`."""
        await self._server.calm_down()
        self.serves = False
        await self._server.hand_over(acknowledged)

    async def heed(self) -> None:
        await self._server.heed()

    async def acknowledged(self) -> None:
        """Returns if an end may be told that this gateway has heard of after it handed over. Raises FreshgateError."""
        leadership = self._server._service.leadership
        assert leadership is not None
        await leadership._confirm()

    async def freshness(self, view: str) -> tuple[Freshness, str]:
        """A view's freshness after a look at its base tables, and why."""
        views = self._server._service.router
        catalog, inspector = views._catalog, views._reads._inspector
        found = catalog.named(TableName.resolve(tuple(view.split(".")), Namespace()))
        assert found is not None, view
        await inspector.check([found.id])
        staleness = catalog.staleness(found.id)
        return catalog.freshness(found.id), "" if staleness is None else staleness.reason

    def open_session(self, user: str) -> Session:
        """A client's session, at Spark and here."""
        handle = self.spark.open(self.name, Namespace()).handle
        call = OpenCall(user, None, {}, PROTOCOL)
        opened = encoded("OpenSession", ttypes.TOpenSessionReq(PROTOCOL, user, "x", {}))
        return Session(handle, PROTOCOL, user, Login(user, "x", PLAIN), call, opened, self._server._service.sides)
