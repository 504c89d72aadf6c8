"""The gateway's own sessions at Spark, and what is known of it.

Tests: `test_fenced`.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from gateway.config import Address, Settings
from gateway.login import methods
from gateway.mv.catalog.fence import Fence
from gateway.mv.catalog.fenced import Fenced
from gateway.mv.memory.residency import LOADS_MAX
from gateway.mv.ports import Metastore, Outlet, Plans, SqlSession, StageProgress
from gateway.mv.refresh.habits import Habits
from gateway.mv.refresh.surroundings import POOL
from gateway.proxy.tls import client_context
from gateway.proxy.traffic import Traffic
from gateway.spark import probe
from gateway.spark.client import Connection, OneSession, ServerSession, SessionPool
from gateway.spark.connector import Connector
from gateway.spark.engine import EmbeddedEngine, ExternalEngine
from gateway.spark.metastore import SparkMetastore
from gateway.spark.owners import PROXY_USER_KEY, OwnerPools
from gateway.spark.plan_texts import TextPlans
from gateway.spark.plans import EnginePlans
from gateway.spark.server_checks import OtherMetastore
from gateway.spark.servers import KnownServer
from gateway.spark.storage_guard import StorageGuard
from gateway.upstream_url import UpstreamPlace
from gateway.wire.connection import NOSASL
from gateway.wire.endpoint import Endpoint
from gateway.wire.http_connection import HTTP
from gateway.wire.sasl import GSSAPI, PLAIN
from sql.texts import maintenance, observation

METASTORE_SESSIONS = 8
"""Sessions for short metastore statements, separate from those that refreshes occupy for minutes."""
FENCE_SESSIONS = 2
"""Sessions in which one of several gateways looks after its epoch. All others may be waiting for that."""
OBSERVATION_SESSIONS = 8
"""Concurrent observations of base tables: each lists files on all of Spark's cores, but some may only wait for storage
that does not answer."""
OWNERS_PLANNING = 2
"""Sessions in which definitions are planned in the names of their owners."""
REFRESH_POOL = "freshgate"
"""Refreshes share one pool of Spark's FAIR scheduler, so that they do not starve the clients' queries."""
MECHANISMS = {"sasl": PLAIN, "nosasl": NOSASL, "http": HTTP}


class SparkServer(StageProgress, Protocol):
    """Spark's address, and the progress of its statements. Implemented twice in `spark.engine`."""

    async def address(self) -> Address:
        """The address at which Spark listens now. Raises UpstreamLost."""
        ...

    def cancel_statement(self, statement: str) -> None:
        """Ends the jobs of a statement, present and future; `statement` is its public id at Spark."""
        ...

    def leave(self) -> None:
        """The gateway stops: calls no longer wait for a Spark that is not up."""
        ...


def _of_nobody(owner: str) -> SessionPool:
    raise LookupError(f"The views of {owner} are not refreshed in the name of their owner.")


@dataclass(frozen=True, slots=True)
class OwnersAtSpark:
    """Sessions of the owners of views."""

    refreshing: OwnerPools = field(default_factory=lambda: OwnerPools(_of_nobody, 1))
    planning: OwnerPools = field(default_factory=lambda: OwnerPools(_of_nobody, 1))


@dataclass(frozen=True, slots=True)
class AtSpark:
    """The gateway's own sessions at Spark."""

    engine: SparkServer
    connector: Connector
    habits: Habits
    refreshes: SessionPool
    short: SessionPool
    looks: SessionPool
    probes: SessionPool
    metastore: SparkMetastore
    plans: Plans
    fence: Fence
    epochs: SessionPool
    """The sessions of the fence. One of several gateways has some for it alone, so that it waits for nothing."""
    loads: SessionPool
    """Those in which views are loaded into memory."""
    guard: StorageGuard = field(default_factory=lambda: StorageGuard("", ""))
    owners: OwnersAtSpark = field(default_factory=OwnersAtSpark)
    watch: probe.LoginWatch | None = None
    """Watches the embedded engine; None for a Spark that the gateway did not start."""

    @property
    def pools(self) -> tuple[SessionPool | OwnerPools, ...]:
        owners = self.owners.refreshing, self.owners.planning
        each = self.probes, self.looks, self.refreshes, self.short, self.loads, *owners
        return each if self.epochs is self.short else (*each, self.epochs)


def at_spark(settings: Settings, engine: SparkServer, traffic: Traffic) -> AtSpark:
    """Raises FreshgateError for unusable settings."""
    account, habits, together = settings.upstream, Habits(), settings.refresh.max_concurrent
    embedded = engine if isinstance(engine, EmbeddedEngine) else None
    # The embedded engine has a secret of its own for each start of the gateway.
    guard = embedded.guard if embedded else StorageGuard(account.guard_secret, settings.storage.database)
    connector = Connector(_servers_of(engine), _protocol(settings), account, guard, habits, traffic.connecting)

    async def meet(connection: Connection) -> None:
        if guard.secret and not guard.has_met and embedded is None:
            session = await connection.open_session(user=account.user)
            await session.close()
            guard.meet(session.told)

    async def greet(session: ServerSession) -> None:
        await guard.greet(session)
        await habits.greet(session)

    def pool(
        size: int,
        configuration: Mapping[str, str],
        settings: Mapping[str, str] | None = None,
        outlet: Outlet | None = None,
    ) -> SessionPool:
        return SessionPool(
            connector,
            account.user,
            size,
            {**configuration, **guard.session},
            password=account.password,
            settings=settings,
            meet=meet,
            greet=greet,
            dialect=habits.speaking,
            outlet=outlet,
        )

    def refreshing(owner: str) -> SessionPool:
        return pool(together, {POOL: REFRESH_POOL, PROXY_USER_KEY: owner}, maintenance.STAGED, outlet)

    def planning(owner: str) -> SessionPool:
        return pool(OWNERS_PLANNING, {PROXY_USER_KEY: owner}, outlet=outlet)

    several = settings.gateways.enabled
    epochs = pool(FENCE_SESSIONS if several else METASTORE_SESSIONS, {})
    fence = fence_of(settings, SparkMetastore(epochs))
    connector.checks.recognize = partial(_recognize, fence)
    connector.outlet = outlet = Fenced(fence) if several else None
    short = pool(METASTORE_SESSIONS, {}, outlet=outlet) if several else epochs
    return AtSpark(
        engine=engine,
        connector=connector,
        habits=habits,
        refreshes=pool(together, {POOL: REFRESH_POOL}, maintenance.STAGED, outlet),
        short=short,
        looks=pool(OBSERVATION_SESSIONS, {POOL: REFRESH_POOL}, observation.LISTING_SETTINGS, outlet),
        probes=pool(1, {}, outlet=outlet),
        metastore=SparkMetastore(short),
        # Only the embedded engine has a process that answers with a plan.
        plans=EnginePlans(embedded) if embedded else TextPlans(),
        fence=fence,
        epochs=epochs,
        loads=pool(LOADS_MAX, {POOL: REFRESH_POOL}, outlet=outlet),
        guard=guard,
        owners=OwnersAtSpark(OwnerPools(refreshing, together), OwnerPools(planning, OWNERS_PLANNING)),
        watch=_watch(settings, embedded, connector) if embedded else None,
    )


def _servers_of(engine: SparkServer) -> list[KnownServer]:
    if not isinstance(engine, ExternalEngine) or len(engine.addresses) == 1:
        return [KnownServer(engine.address)]
    return [KnownServer(_at(address), str(address)) for address in engine.addresses]


def _at(address: Address) -> Callable[[], Awaitable[Address]]:
    async def locate() -> Address:
        return address

    return locate


def _protocol(settings: Settings) -> Endpoint:
    """How Spark's servers are spoken to. Raises FreshgateError without the package, or the key of upstream.user."""
    account = settings.upstream
    # The embedded engine has the default transport.
    place = account.place or UpstreamPlace(("",))
    tls = client_context(account.tls_ca) if place.tls else None
    if not place.principal:
        return Endpoint("", 0, MECHANISMS[place.transport], place.http_path, tls)
    tickets = methods.service_tickets(settings.kerberos, account.user, place.principal)
    return Endpoint("", 0, GSSAPI, place.http_path, tls, tickets)


def _watch(settings: Settings, engine: EmbeddedEngine, connector: Connector) -> probe.LoginWatch:
    account = settings.upstream
    log_in = partial(probe.log_in, connector.endpoint, account.user, account.password)
    return probe.LoginWatch(log_in, engine, clock=time.monotonic)


def fence_of(settings: Settings, metastore: Metastore) -> Fence:
    """`metastore`: what the gateway's other statements do not wait for."""
    gateways = settings.gateways
    here = f"{socket.gethostname()}, port {settings.listen.port}, process {os.getpid()}"
    relay = gateways.address if gateways.enabled else ""
    return Fence(
        metastore,
        settings.storage.database,
        here,
        relay=relay,
        several=gateways.enabled,
        trusts_clock=gateways.trust_clock,
    )


async def _recognize(fence: Fence, session: SqlSession) -> None:
    """Raises OtherMetastore if the session of another server has another metastore than the views."""
    if not await fence.is_at(SparkMetastore(OneSession(session))):
        raise OtherMetastore(
            "It has another metastore than the materialized views. Name servers over one metastore in upstream.address."
        )
