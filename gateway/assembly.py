"""Builds the whole gateway from its settings, from the bottom up. Nothing else knows all layers.

Each function below builds one part out of those before it; `assemble` puts them together, and `subscribe` connects
events with their subscribers. `server` starts and stops what is built here.

Tests: `test_histories`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar
from zoneinfo import ZoneInfo

from gateway import upstream_url
from gateway.access_list import AccessList
from gateway.config import OFF, Address, Impersonator, Settings, version
from gateway.config import Upstream as UpstreamSettings
from gateway.discovery.registration import Registration
from gateway.discovery.zookeeper import ZooKeeper
from gateway.errors import FreshgateError, UpstreamLost
from gateway.gateways.node import GatewayNode, LeadingTerm, Premises
from gateway.limit_rules import LimitRules
from gateway.lineage.dataset_names import Naming
from gateway.lineage.described_views import Describing
from gateway.lineage.reports import Reports
from gateway.lineage.sender import Sender
from gateway.login import exposure, methods
from gateway.login.impersonation import Impersonation
from gateway.loops import BackgroundTasks
from gateway.memory.memory_engine import MemoryEngine
from gateway.monitoring import metrics
from gateway.monitoring.alerts import Alerts
from gateway.monitoring.audit_file import AuditFile
from gateway.monitoring.lag import LoopLag
from gateway.monitoring.metrics import MetricsPage
from gateway.monitoring.monitor import DoorMonitor, Monitor
from gateway.monitoring.readiness import Readiness
from gateway.monitoring.webhook import Alarm, Webhook
from gateway.mv.catalog.confirmation import Confirmation
from gateway.mv.catalog.directories import Directories
from gateway.mv.catalog.draft_file import DraftFile, Drafts
from gateway.mv.catalog.epoch_counts import EpochCounts
from gateway.mv.catalog.fence import Fence
from gateway.mv.catalog.fenced import Fenced
from gateway.mv.catalog.index import Catalog
from gateway.mv.catalog.loading import Loading
from gateway.mv.catalog.restoration import Restoration, Restored
from gateway.mv.catalog.settlement import Settlement
from gateway.mv.jobs.failure_pauses import FailurePauses
from gateway.mv.jobs.jobs import RefreshJobs
from gateway.mv.jobs.paced import PacedRefreshes
from gateway.mv.jobs.scheduler import Scheduler
from gateway.mv.memory.base_tables import BaseTables, TableLimits
from gateway.mv.memory.early_looks import EarlyLooks
from gateway.mv.memory.residency import LOADS_MAX, Residency
from gateway.mv.memory.table_loads import LoadLimits, TableLoads
from gateway.mv.model.locations import Locations
from gateway.mv.model.view import MaterializedView
from gateway.mv.observation.changes import Changes
from gateway.mv.observation.inspection import Inspector
from gateway.mv.observation.observer import Observer
from gateway.mv.observation.relations import Relations
from gateway.mv.observation.schemas import Schemas
from gateway.mv.observation.storage_looks import StorageLooks
from gateway.mv.observation.stored_files import StoredFiles
from gateway.mv.ports import Metastore, Outlet, Plans, SqlSession, StageProgress
from gateway.mv.refresh.diagnosis import Diagnosis
from gateway.mv.refresh.executor import Executor
from gateway.mv.refresh.expected_costs import ExpectedCosts
from gateway.mv.refresh.habits import Habits
from gateway.mv.refresh.increments import Increments
from gateway.mv.refresh.lost_storage import LostStorage
from gateway.mv.refresh.preparation import Preparation
from gateway.mv.refresh.proposer import Proposer
from gateway.mv.refresh.publication import Publication
from gateway.mv.refresh.refreshed_sets import RefreshedSets
from gateway.mv.refresh.routes import Routes
from gateway.mv.refresh.surroundings import POOL, RefreshSessions, Surroundings
from gateway.mv.refresh.task_log import TaskLog
from gateway.mv.refresh.tasks import RefreshLimits, Tasks
from gateway.mv.refresh.touched_keys import TouchedKeys
from gateway.mv.refresh.views_below import ViewsBelow
from gateway.mv.refresh.writing import Writer
from gateway.mv.rewriting.candidates import Candidates
from gateway.mv.rewriting.consistency import Standing
from gateway.mv.rewriting.inheritance import Inheritance
from gateway.mv.rewriting.observed_keys import ObservedKeys
from gateway.mv.rewriting.owners_rights import OwnersRights
from gateway.mv.rewriting.partly_stale import PartlyStale
from gateway.mv.rewriting.proving import Prover
from gateway.mv.rewriting.quarantine import Quarantine
from gateway.mv.rewriting.readers_rights import ReadersRights
from gateway.mv.rewriting.refreshers_plans import RefreshersPlans
from gateway.mv.rewriting.suggestions import Suggestions
from gateway.mv.rewriting.unanswered import Unanswered
from gateway.mv.rewriting.usage import SHAPES_MAX, Counts, Usages
from gateway.mv.statements.alteration import Alteration, ViewSettings
from gateway.mv.statements.building import Building
from gateway.mv.statements.creation import Creation
from gateway.mv.statements.drafting import Definitions, Drafting, NewViews
from gateway.mv.statements.dropping import Dropping
from gateway.mv.statements.free_names import Clearance, Names
from gateway.mv.statements.introduction import Introduction
from gateway.mv.statements.renaming import Renaming
from gateway.mv.statements.rights import Rights
from gateway.mv.versions.compaction import Compaction
from gateway.mv.versions.janitor import Janitor
from gateway.mv.versions.kept import KeptLimits, VersionLookup
from gateway.mv.versions.measures import Measures
from gateway.mv.versions.readers import Readers
from gateway.mv.versions.removal import Removal
from gateway.mv.versions.version_numbers import VersionNumbers
from gateway.page.page_logins import PageLogins
from gateway.page.page_sources import PageSources, Safety
from gateway.proxy import upstream
from gateway.proxy.capacity import Capacity
from gateway.proxy.doorway import Doorway
from gateway.proxy.entrance import Entrance, Port
from gateway.proxy.hosts import Hosts
from gateway.proxy.inherited import InheritedSockets
from gateway.proxy.leader_link import Trust
from gateway.proxy.listener import Listener
from gateway.proxy.page_door import PageDoor
from gateway.proxy.relay_gate import RelayGate
from gateway.proxy.tls import Certificate, client_context
from gateway.proxy.traffic import Traffic
from gateway.proxy.trusted_proxies import TrustedProxies
from gateway.service.answers.activity_tables import ActivityTables
from gateway.service.answers.attention import Attention
from gateway.service.answers.catalog_tables import About, CatalogTables
from gateway.service.answers.commands import Commands
from gateway.service.answers.explaining import Explaining
from gateway.service.answers.healing import Healing
from gateway.service.answers.members import Members
from gateway.service.answers.refresh_costs import RefreshCosts
from gateway.service.answers.shows import Shows
from gateway.service.answers.upkeep import Upkeep
from gateway.service.answers.view_partitions import ViewPartitions
from gateway.service.clients.audit import Audit
from gateway.service.clients.handover import ANONYMOUS, Handover, Logins
from gateway.service.clients.moving import LooseSessions
from gateway.service.clients.proof_sessions import ProofSessions
from gateway.service.clients.quotas import Quotas
from gateway.service.clients.reads_of_views import ReadsOfViews
from gateway.service.clients.session import Sessions
from gateway.service.clients.setting_rules import SettingRules
from gateway.service.clients.sides import Sides
from gateway.service.clients.visibility import StoredRows
from gateway.service.dispatch import Dispatch, Service
from gateway.service.leadership import Leadership
from gateway.service.memory.learning import Learner
from gateway.service.memory.memory_answers import MemoryAnswers, MemoryLimits
from gateway.service.memory.memory_explanation import MemoryExplanation
from gateway.service.memory.zones import Zones
from gateway.service.results.store import ENTRY_BYTES_MAX, ResultStore
from gateway.service.routing.canary import Canary
from gateway.service.routing.catalog_rows import CatalogRows
from gateway.service.routing.examiner import Examiner
from gateway.service.routing.gatekeeper import Gatekeeper
from gateway.service.routing.invokers import Invokers
from gateway.service.routing.known_answers import KnownAnswers
from gateway.service.routing.own_statements import OwnStatements
from gateway.service.routing.reads import Reads
from gateway.service.routing.rewrites import Rewrites
from gateway.service.routing.router import Router
from gateway.service.routing.scope import ViewScope
from gateway.service.routing.underway import Effects
from gateway.service.routing.version_reads import VersionReads
from gateway.spark import probe
from gateway.spark.client import Connection, EndpointSource, OneSession, ServerSession, SessionPool
from gateway.spark.engine import EmbeddedEngine, ExternalEngine
from gateway.spark.metastore import SparkMetastore
from gateway.spark.owners import PROXY_USER_KEY, OwnerPools
from gateway.spark.plan_texts import TextPlans
from gateway.spark.plans import EnginePlans
from gateway.spark.server_checks import OtherMetastore, ServerChecks
from gateway.spark.servers import KnownServer, Link, Servers
from gateway.spark.storage_guard import GuardState, StorageGuard
from gateway.wire.connection import NOSASL, ClientConnection
from gateway.wire.cookies import COOKIE_SECONDS, Cookies
from gateway.wire.endpoint import Endpoint, TicketSource
from gateway.wire.frame import REQUEST_BYTES_MIN, WireLimits
from gateway.wire.gssapi import LAYERS
from gateway.wire.http_connection import HTTP, HttpClientConnection
from gateway.wire.member import Member
from gateway.wire.sasl import GSSAPI, PLAIN, Login
from sql.statement import Security
from sql.texts import maintenance, observation

if TYPE_CHECKING:
    from gateway.page.page_server import PageServer

log = logging.getLogger(__name__)

METASTORE_SESSIONS = 8
"""Sessions for short metastore statements, separate from those that refreshes occupy for minutes."""
FENCE_SESSIONS = 2
"""Sessions in which one of several gateways looks after its epoch. All others may be waiting for that."""
OBSERVATION_SESSIONS = 8
"""Concurrent observations of base tables: each lists files on all of Spark's cores, but some may only wait for storage
that does not answer."""
OWNERS_PLANNING = 2
"""Sessions in which definitions are planned in the names of their owners."""
TABLES_SHARE = 0.75
"""Of `memory.bytes`, for the rows of views; the rest is for queries of them, and for what is being loaded."""
REFRESH_POOL = "freshgate"
"""Refreshes share one pool of Spark's FAIR scheduler, so that they do not starve the clients' queries."""
MECHANISMS = {"sasl": PLAIN, "nosasl": NOSASL, "http": HTTP}


@dataclass(frozen=True, slots=True)
class Gateway:
    """The parts that are started, drained and stopped."""

    spark: AtSpark
    views: Views
    drafts: Drafts
    versions: KeptVersions
    refreshes: Refreshes
    service: Service
    listener: Listener
    readiness: Readiness
    monitor: Monitor | None
    watch: probe.LoginWatch | None
    audit_file: AuditFile | None
    page: PageServer | None
    alarm: Alarm
    lineage: Reports | None
    memory: InMemory | None


@dataclass(frozen=True, slots=True)
class Lasting:
    """What one of several gateways has beyond a term."""

    entrance: Entrance
    """Its ports for clients, which are bound already."""
    doors: Callable[[], Sequence[Member]]
    """Those that watch it while it leads."""
    counts: EpochCounts


def assemble(
    settings: Settings,
    engine: SparkServer,
    lasting: Lasting | None = None,
    registered: Callable[[], bool] | None = None,
) -> Gateway:
    """Builds the gateway; `lasting`: of one of several, what it has already. `registered`: whether clients find it in
    ZooKeeper, if that is used. Raises FreshgateError for unusable settings."""
    traffic = Traffic()
    spark = at_spark(settings, engine, traffic)
    audit_file = _audit_file(settings.log.audit)
    audit = Audit(
        audit_file.write if audit_file else None,
        settings.log.audit_characters,
        lambda: audit_file.lost if audit_file else 0,
    )
    views = known_views(settings, spark, audit.restored)
    versions = kept_versions(settings, spark, views)
    refreshes = refreshed_views(settings, spark, views, versions, engine)
    kept = settings.result_cache
    results = ResultStore(kept.bytes, ENTRY_BYTES_MAX, settings.access.rights_seconds, shared=kept.shared)
    subscribe(views, versions, refreshes, results)
    memory = memory_of(settings, spark, views, versions)
    commands = own_statements(settings, spark, views, versions, refreshes)
    usages, unanswered = Usages(SHAPES_MAX), Unanswered(SHAPES_MAX if settings.rewrite.advice else 0)
    rewriting = rewriting_of(settings, spark, views, versions.janitor, refreshes)
    routing = routed(settings, spark, views, versions, refreshes, rewriting, usages, unanswered, audit, results)
    own = OwnStatements(commands, routing.rewrites, routing.version_reads, routing.invokers)
    service = serve(settings, engine, spark, audit, views, routing, own, results)
    if memory is not None:
        service = answering(settings, memory, service, spark, rewriting, refreshes, routing)
    service = explaining(service)
    entrance = lasting.entrance if lasting is not None else entrance_of(settings)
    listener = listen(settings, spark, partial(Dispatch, service), traffic, entrance)
    views.members.serve(listener, lasting.doors if lasting is not None else tuple)
    if lasting is not None:
        views.fence.counts = lasting.counts
    alarm = alarm_of(settings, views, refreshes, audit)
    lineage = lineage_of(settings, spark, views, refreshes)
    readiness, lag = Readiness(partial(probe.ask, spark.probes)), LoopLag()
    monitor = None
    if settings.metrics.port:
        sender = lineage.sender if lineage is not None else None
        own_metrics = partial(metrics.own, lag, audit_file, registered, alarm, sender)
        page = metrics_page(
            views,
            versions,
            refreshes,
            service,
            listener,
            readiness,
            usages.counts,
            own_metrics,
            spark.spark.servers,
            memory,
        )
        monitor = monitoring(settings, page, lag, readiness, views)
    watch = watch_of_spark(settings, engine, spark)
    sources = page_sources(
        settings, spark, views, versions, refreshes, rewriting, usages, unanswered, service, readiness
    )
    browsers = page_of(settings, sources, commands, service)
    drafts = drafts_of(settings, engine)
    return Gateway(
        spark,
        views,
        drafts,
        versions,
        refreshes,
        service,
        listener,
        readiness,
        monitor,
        watch,
        audit_file,
        browsers,
        alarm,
        lineage,
        memory,
    )


def subscribe(views: Views, versions: KeptVersions, refreshes: Refreshes, results: ResultStore) -> None:
    """Connects events with their subscribers, in the order in which these are called."""
    news = views.catalog.news
    news.touched.add(views.observer.touch)
    news.unread.add(views.observer.forget)
    news.moved.add(views.relations.forget_sources, views.schemas.forget)
    news.stale.add(refreshes.scheduler.changed, refreshes.paced.changed)
    news.vouched.add(views.quarantine.release)
    news.published.add(refreshes.scheduler.published, refreshes.paced.published)
    news.published.add(results.forget)
    news.leftover.add(versions.janitor.retire)
    news.replaced.add(versions.janitor.retire_found)
    news.leftover.add(lambda view_id, *_: results.forget(view_id))
    views.observer.looked.add(views.inspector.forget_unread)
    versions.readers.released.add(versions.janitor.released)


# --- Spark -------------------------------------------------------------------------------------------------


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


AnyLink = TypeVar("AnyLink", bound=Link)


class Spark(EndpointSource):
    """Connects to Spark. Implements `spark.client.EndpointSource`, and for the sessions' second connections
    `service.clients.side_connections.Upstream`."""

    def __init__(
        self,
        engine: SparkServer,
        settings: UpstreamSettings,
        traffic: Traffic,
        guard: StorageGuard,
        habits: Habits,
        tickets: TicketSource | None = None,
    ) -> None:
        self.outlet: Outlet | None = None
        """What the gateway's own statements in clients' sessions pass."""
        self._traffic = traffic
        self._dialect = habits.speaking
        self._sign = guard.signed
        # The embedded engine has the default transport.
        place = settings.place or upstream_url.UpstreamPlace(("",))
        self._tickets = tickets
        self.mechanism = MECHANISMS[place.transport] if tickets is None else GSSAPI
        self._path = place.http_path
        self._tls = client_context(settings.tls_ca) if place.tls else None
        self.checks = ServerChecks(self.endpoint_of, settings.user, settings.password, guard, habits)
        self.servers = Servers(_servers_of(engine), self.checks, share=settings.share)

    async def endpoint(self) -> Endpoint:
        """That of the gateway's own sessions."""
        return await self.endpoint_of(await self.servers.home())

    async def endpoint_of(self, server: KnownServer) -> Endpoint:
        address = await server.locate()
        return Endpoint(address.host, address.port, self.mechanism, self._path, self._tls, self._tickets)

    async def reach(self, opened: Callable[[Endpoint], Awaitable[AnyLink]]) -> AnyLink:
        return await self._reach(opened, self.servers.home)

    async def reach_for_client(
        self, opened: Callable[[Endpoint], Awaitable[AnyLink]], at: str | None = None
    ) -> AnyLink:
        """As `reach`, for a client's session. `at`: the name of the server at which it is; None for a new one."""
        if at is None:
            return await self._reach(opened, self.servers.for_client, of_client=True)
        server = self.servers.named(at)
        try:
            link = await opened(await self.endpoint_of(server))
        except UpstreamLost as error:
            self.servers.failed(server, error)
            raise
        self.servers.reached(server, link, of_client=True)
        return link

    async def _reach(
        self,
        opened: Callable[[Endpoint], Awaitable[AnyLink]],
        chosen: Callable[[], Awaitable[KnownServer]],
        *,
        of_client: bool = False,
    ) -> AnyLink:
        """Opens a connection. A server that turns out to be lost is replaced by another one at once."""
        while True:
            server = await chosen()
            try:
                link = await opened(await self.endpoint_of(server))
            except UpstreamLost as error:
                if not self.servers.failed(server, error):
                    raise
            else:
                self.servers.reached(server, link, of_client=of_client)
                return link

    async def connect(self, login: Login, *, ask: bool = False, at: str | None = None) -> Connection:
        with counted(self._traffic):
            return await self.reach_for_client(
                partial(
                    Connection.open,
                    user=login.user,
                    password=login.password,
                    ask=ask,
                    dialect=self._dialect,
                    sign=self._sign,
                    outlet=self.outlet,
                ),
                at,
            )


def tickets_for_spark(settings: Settings) -> TicketSource | None:
    """Raises FreshgateError without the package, or the key of upstream.user."""
    place, own = settings.upstream.place, settings.upstream
    if place is None or not place.principal:
        return None
    return methods.service_tickets(settings.kerberos, own.user, place.principal)


def _servers_of(engine: SparkServer) -> list[KnownServer]:
    if not isinstance(engine, ExternalEngine) or len(engine.addresses) == 1:
        return [KnownServer(engine.address)]
    return [KnownServer(_at(address), str(address)) for address in engine.addresses]


def _at(address: Address) -> Callable[[], Awaitable[Address]]:
    async def locate() -> Address:
        return address

    return locate


async def recognize(fence: Fence, session: SqlSession) -> None:
    """Raises OtherMetastore if the session of another server has another metastore than the views."""
    if not await fence.is_at(SparkMetastore(OneSession(session))):
        raise OtherMetastore(
            "It has another metastore than the materialized views. Name servers over one metastore in upstream.address."
        )


@contextlib.contextmanager
def counted(traffic: Traffic) -> Iterator[None]:
    """Counts and times the opening of a connection to Spark."""
    traffic.connects += 1
    began = time.monotonic()
    try:
        yield
    except UpstreamLost:
        traffic.connects_failed += 1
        raise
    traffic.connect_seconds.add(time.monotonic() - began)


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

    spark: Spark
    habits: Habits
    refreshes: SessionPool
    short: SessionPool
    looks: SessionPool
    probes: SessionPool
    metastore: SparkMetastore
    plans: Plans
    fence: Fence
    epochs: SessionPool
    """The sessions of the fence: of one of several gateways, its own, in which nothing waits for it."""
    loads: SessionPool
    """Those in which views are loaded into memory."""
    guard: StorageGuard = field(default_factory=lambda: StorageGuard("", ""))
    owners: OwnersAtSpark = field(default_factory=OwnersAtSpark)

    @property
    def pools(self) -> tuple[SessionPool | OwnerPools, ...]:
        owners = self.owners.refreshing, self.owners.planning
        each = self.probes, self.looks, self.refreshes, self.short, self.loads, *owners
        return each if self.epochs is self.short else (*each, self.epochs)


def at_spark(settings: Settings, engine: SparkServer, traffic: Traffic) -> AtSpark:
    account, habits = settings.upstream, Habits()
    guard = guard_of(settings, engine)
    spark = Spark(engine, account, traffic, guard, habits, tickets_for_spark(settings))

    async def meet(connection: Connection) -> None:
        if guard.secret and not guard.has_met and not isinstance(engine, EmbeddedEngine):
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
            spark,
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

    several = settings.gateways.enabled
    epochs = pool(FENCE_SESSIONS if several else METASTORE_SESSIONS, {})
    fence = fence_of(settings, SparkMetastore(epochs))
    spark.checks.recognize = partial(recognize, fence)
    spark.outlet = outlet = Fenced(fence) if several else None
    refreshes = pool(settings.refresh.max_concurrent, {POOL: REFRESH_POOL}, maintenance.STAGED, outlet)
    short = pool(METASTORE_SESSIONS, {}, outlet=outlet) if several else epochs
    looks = pool(OBSERVATION_SESSIONS, {POOL: REFRESH_POOL}, observation.LISTING_SETTINGS, outlet)
    probes, plans = pool(1, {}, outlet=outlet), plans_of(engine)
    together = settings.refresh.max_concurrent
    owners = OwnersAtSpark(
        OwnerPools(
            lambda owner: pool(together, {POOL: REFRESH_POOL, PROXY_USER_KEY: owner}, maintenance.STAGED, outlet),
            together,
        ),
        OwnerPools(
            lambda owner: pool(OWNERS_PLANNING, {PROXY_USER_KEY: owner}, outlet=outlet),
            OWNERS_PLANNING,
        ),
    )
    loads = pool(LOADS_MAX, {POOL: REFRESH_POOL}, outlet=outlet)
    metastore = SparkMetastore(short)
    return AtSpark(
        spark, habits, refreshes, short, looks, probes, metastore, plans, fence, epochs, loads, guard, owners
    )


def guard_of(settings: Settings, engine: SparkServer) -> StorageGuard:
    """The embedded engine has a secret of its own for each start of the gateway."""
    if isinstance(engine, EmbeddedEngine):
        return engine.guard
    return StorageGuard(settings.upstream.guard_secret, settings.storage.database)


def plans_of(engine: SparkServer) -> Plans:
    """Only the embedded engine has a process that answers with a plan."""
    return EnginePlans(engine) if isinstance(engine, EmbeddedEngine) else TextPlans()


def watch_of_spark(settings: Settings, engine: SparkServer, spark: AtSpark) -> probe.LoginWatch | None:
    """Watches the embedded engine; None for a Spark that the gateway did not start."""
    account = settings.upstream
    if not isinstance(engine, EmbeddedEngine):
        return None
    log_in = partial(probe.log_in, spark.spark.endpoint, account.user, account.password)
    return probe.LoginWatch(log_in, engine, clock=time.monotonic)


# --- materialized views ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Views:
    """The existing views, and what they read."""

    fence: Fence
    catalog: Catalog
    loading: Loading
    settlement: Settlement
    confirmation: Confirmation
    relations: Relations
    schemas: Schemas
    observer: Observer
    storages: StorageLooks
    inspector: Inspector
    quarantine: Quarantine
    members: Members


def drafts_of(settings: Settings, _: SparkServer) -> Drafts:
    """Where drafts of the catalog are kept for the next start."""
    return DraftFile(Path(settings.data_dir), settings.storage.database)


def fence_of(settings: Settings, metastore: Metastore) -> Fence:
    """`metastore`: what the gateway's other statements do not wait for."""
    here = f"{socket.gethostname()}, port {settings.listen.port}, process {os.getpid()}"
    several = settings.gateways.enabled
    relay = settings.gateways.address if several else ""
    trusts_clock = settings.gateways.trust_clock
    return Fence(metastore, settings.storage.database, here, relay=relay, several=several, trusts_clock=trusts_clock)


def known_views(settings: Settings, spark: AtSpark, restored: Callable[[Restored], None]) -> Views:
    """`restored` is called for each public view that was restored."""
    metastore, fence = spark.metastore, spark.fence
    catalog = Catalog(settings.storage.database, fence)
    restoration = Restoration(catalog, metastore, restored)
    settlement = Settlement(catalog, metastore, fence, restoration.restore)
    confirmation = Confirmation(catalog, settlement, restoration, metastore, fence)
    relations = Relations(catalog, metastore)
    schemas = Schemas(catalog, metastore)
    observer = Observer(metastore, spark.looks)
    storages = StorageLooks(catalog, settlement, StoredFiles(observer.listings))
    inspector = Inspector(catalog, relations, observer, settlement, storages, settings.staleness.probe_interval)
    loading = Loading(catalog, metastore, METASTORE_SESSIONS)
    quarantine = Quarantine()
    return Views(
        fence,
        catalog,
        loading,
        settlement,
        confirmation,
        relations,
        schemas,
        observer,
        storages,
        inspector,
        quarantine,
        Members(settings, fence),
    )


@dataclass(frozen=True, slots=True)
class KeptVersions:
    """Versions and their readers."""

    readers: Readers
    numbers: VersionNumbers
    janitor: Janitor
    versions: VersionLookup


def kept_versions(settings: Settings, spark: AtSpark, views: Views) -> KeptVersions:
    kept, metastore = settings.versions, spark.metastore
    readers = Readers()
    numbers = VersionNumbers(views.catalog, views.fence)
    compaction = Compaction(views.catalog, views.settlement, metastore)
    removal = Removal(views.catalog, views.settlement, compaction, metastore, spark.looks)
    janitor = Janitor(removal, readers, views.fence, kept.retention)
    versions = VersionLookup(janitor, readers, metastore, KeptLimits(kept.max_count, kept.max_bytes))
    return KeptVersions(readers, numbers, janitor, versions)


@dataclass(frozen=True, slots=True)
class Refreshes:
    """The parts that refresh views."""

    surroundings: Surroundings
    proposer: Proposer
    log: TaskLog
    publication: Publication
    executor: Executor
    tasks: Tasks
    jobs: RefreshJobs
    scheduler: Scheduler
    paced: PacedRefreshes
    pauses: FailurePauses
    refreshers: RefreshersPlans
    rights: ReadersRights
    costs: ExpectedCosts
    inheritance: Inheritance


def refreshed_views(
    settings: Settings, spark: AtSpark, views: Views, versions: KeptVersions, progress: StageProgress
) -> Refreshes:
    catalog, settlement, fence, inspector = views.catalog, views.settlement, views.fence, views.inspector
    surroundings = Surroundings(REFRESH_POOL, spark.habits, spark.metastore)
    longest = settings.storage.definition_characters
    changes = Changes(views.observer, dialect=spark.habits.speaking)
    below = ViewsBelow(catalog, versions.versions, versions.readers, views.storages, spark.metastore)
    increments = Increments(catalog, spark.metastore, spark.habits, changes, below)
    proposer = Proposer(
        spark.metastore,
        spark.short,
        inspector,
        spark.habits,
        surroundings,
        Routes(increments, TouchedKeys(inspector, spark.metastore)),
        longest,
    )
    log = TaskLog(catalog, fence, spark.metastore, spark.looks)
    sessions = RefreshSessions(spark.refreshes, spark.owners.refreshing, surroundings)
    refreshers = RefreshersPlans(spark.plans, spark.short, spark.owners.planning, surroundings)
    rights = ReadersRights(spark.plans, refreshers, surroundings, settings.access.rights_seconds)

    def invoking(view: MaterializedView) -> list[MaterializedView]:
        return catalog.invoking(view.views)

    of_owners = OwnersRights(refreshers, rights, spark.owners.planning, invoking)
    preparation = Preparation(catalog, settlement, views.relations, views.confirmation, fence, sessions)
    lost = LostStorage(spark.metastore, fence, spark.habits)
    writer = Writer(sessions, versions.versions, versions.numbers, log, lost)
    publication = Publication(catalog, settlement, fence, versions.janitor, log, spark.refreshes, views.storages)
    diagnosis = Diagnosis(catalog, settlement, views.schemas, spark.metastore)
    executor = Executor(
        preparation,
        proposer,
        writer,
        publication,
        diagnosis,
        log,
        progress,
        increments,
        of_owners.narrowed,
    )
    limits = RefreshLimits(timeout=settings.refresh.timeout)
    tasks = Tasks(catalog, inspector, executor, versions.numbers, log, fence, limits)
    jobs = RefreshJobs(catalog, settlement, spark.metastore, fence, ZoneInfo(settings.jobs.time_zone))
    scheduler = Scheduler(catalog, jobs, tasks, inspector, fence, settings.jobs.watch_interval)
    paced = PacedRefreshes(catalog, jobs, tasks, inspector, fence, settings.jobs.watch_interval)
    tasks.ended.add(paced.ended)
    pauses = FailurePauses(jobs, tasks, settings.jobs.pause_after_failures)
    tasks.ended.add(pauses.ended)
    costs = ExpectedCosts(catalog, increments)
    inheritance = Inheritance(
        catalog,
        spark.metastore,
        inspector,
        increments,
        surroundings,
        spark.plans,
        refreshers,
        views.storages,
        versions.readers,
    )
    return Refreshes(
        surroundings=surroundings,
        proposer=proposer,
        log=log,
        publication=publication,
        executor=executor,
        tasks=tasks,
        jobs=jobs,
        scheduler=scheduler,
        paced=paced,
        pauses=pauses,
        refreshers=refreshers,
        rights=rights,
        costs=costs,
        inheritance=inheritance,
    )


def _runs_as_owner(settings: Settings) -> bool:
    """Whether views with SECURITY DEFINER are refreshed in the names of their owners."""
    run_as = settings.refresh.run_as
    return run_as == "owner" or (run_as == "auto" and settings.authentication.hand_on == "proxy_user")


def own_statements(
    settings: Settings, spark: AtSpark, views: Views, versions: KeptVersions, refreshes: Refreshes
) -> Commands:
    catalog, settlement, fence, metastore = views.catalog, views.settlement, views.fence, spark.metastore
    tasks, jobs, proposer, readers = refreshes.tasks, refreshes.jobs, refreshes.proposer, versions.readers
    names, rights = Names(catalog, metastore), Rights(AccessList.of(settings.access.administrators))
    dropping = Dropping(catalog, settlement, metastore, fence, names, rights, tasks, versions.janitor)
    drafting = Drafting(
        catalog,
        views.relations,
        views.inspector,
        jobs,
        metastore,
        spark.refreshes,
        NewViews(
            settings.rewrite.new_views,
            Security.INVOKER if settings.access.security == "invoker" else None,
            _runs_as_owner(settings),
            {"iceberg": settings.storage.iceberg_catalog, "delta": settings.storage.delta_catalog},
            settings.storage.iceberg_view_metadata,
        ),
    )
    creation = Creation(
        catalog,
        Clearance(catalog, settlement, names, rights, Locations(settings.storage.locations)),
        Definitions(metastore, fence, spark.habits, settings.storage.definition_characters),
        drafting,
        Building(
            catalog,
            drafting,
            metastore,
            tasks,
            refreshes.executor,
            refreshes.log,
            views.storages,
            spark.habits,
            refreshes.inheritance,
        ),
        Introduction(catalog, settlement, metastore, fence, readers, tasks, jobs, dropping),
        dropping,
    )
    view_settings = ViewSettings(catalog, settlement, metastore, fence, jobs, runs_as_owner=_runs_as_owner(settings))
    renaming = Renaming(catalog, settlement, metastore, fence, readers, tasks, names, rights)
    alteration = Alteration(catalog, settlement, fence, names, rights, view_settings, renaming)
    partitions = ViewPartitions(catalog, metastore, proposer)
    sets = RefreshedSets(catalog, tasks)
    upkeep = Upkeep(catalog, metastore, tasks, jobs, refreshes.publication, partitions, rights, sets)
    shows = Shows(catalog, views.inspector, views.schemas, versions.versions, partitions, names, views.members, rights)
    explaining = Explaining(
        catalog, views.inspector, views.schemas, proposer, versions.numbers, creation, refreshes.inheritance
    )
    return Commands(catalog, names, creation, dropping, alteration, upkeep, shows, explaining)


# --- views in memory ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class InMemory:
    """The views whose rows are in memory, and the engine that has them."""

    engine: MemoryEngine
    residency: Residency


def memory_of(settings: Settings, spark: AtSpark, views: Views, versions: KeptVersions) -> InMemory | None:
    """None if no view is held in memory."""
    wanted, residences = settings.memory, views.catalog.residences
    if not wanted.bytes:
        residences.off = "memory.bytes is 0"
        return None
    if find_spec("duckdb") is None:
        residences.off = "it needs more packages: install freshgate[memory]"
        log.info("no view can be held in memory (IN MEMORY) before freshgate[memory] is installed")
        return None

    def lost() -> None:
        residency.lost()

    engine = MemoryEngine(wanted.bytes, wanted.threads, lost)
    limits = LoadLimits(wanted.view_bytes, wanted.view_rows)
    loads = TableLoads(engine, spark.loads, versions.readers, views.storages, limits)
    room = int(wanted.bytes * TABLES_SHARE)
    tables = None
    if wanted.table_queries:
        held = TableLimits(wanted.table_queries, wanted.table_probe_interval)
        tables = BaseTables(views.catalog, views.observer, loads, held)
        residences.tables = tables.residences
    residency = Residency(views.catalog, views.fence, loads, room, wanted.reads_per_day, tables=tables)
    early = EarlyLooks(views.catalog, views.inspector, lambda: views.fence.lost is None)
    residency.answered.add(early.read)
    news = views.catalog.news
    news.published.add(residency.published)
    news.altered.add(residency.changed)
    news.moved.add(residency.moved)
    news.stale.add(residency.stale)
    return InMemory(engine, residency)


def answering(
    settings: Settings,
    memory: InMemory,
    service: Service,
    spark: AtSpark,
    rewriting: Rewriting,
    refreshes: Refreshes,
    routing: Routing,
) -> Service:
    """The service, which answers reads from the rows of views in memory."""
    zones = Zones(spark.short, service.habits)
    learner = Learner(
        service.catalog,
        spark.plans,
        rewriting.sessions,
        spark.short,
        refreshes.surroundings,
        zones,
        memory.residency.table_named,
    )
    limits = MemoryLimits(
        settings.access.rights_seconds, ENTRY_BYTES_MAX, settings.memory.query_seconds, settings.memory.canary
    )
    audit, results = service.audit, service.results
    answers = MemoryAnswers(
        service.catalog, memory.residency, memory.engine, learner, limits, audit.memory_differed, results.forget
    )
    service.catalog.news.altered.add(answers.altered)
    routing.effects.forgetting.append(answers.forget)
    routing.answers.active, routing.answers.tables = True, memory.residency.base_tables
    return replace(service, memory=answers)


def explaining(service: Service) -> Service:
    """The service, whose EXPLAIN REWRITE also tells who answers a read of views."""
    explanation = MemoryExplanation(service.router, service.catalog, service.habits, service.memory)
    return replace(service, own=replace(service.own, foresee=explanation.foresee))


# --- clients -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Routing:
    """The parts that route statements."""

    router: Router
    effects: Effects
    scope: ViewScope
    answers: KnownAnswers
    rewrites: Rewrites
    canary: Canary
    version_reads: VersionReads
    invokers: Invokers


@dataclass(frozen=True, slots=True)
class Rewriting:
    """The parts that know how views may answer queries."""

    candidates: Candidates
    measures: Measures
    prover: Prover
    partly_stale: PartlyStale
    sessions: ProofSessions
    rights: ReadersRights


def rewriting_of(settings: Settings, spark: AtSpark, views: Views, janitor: Janitor, refreshes: Refreshes) -> Rewriting:
    partly_stale = PartlyStale(
        views.catalog,
        views.inspector,
        views.schemas,
        refreshes.proposer,
        refreshes.surroundings,
        spark.habits,
        enabled=settings.rewrite.partly_stale,
    )
    refreshers, rights = refreshes.refreshers, refreshes.rights

    def below(view: MaterializedView) -> list[MaterializedView]:
        return views.catalog.invoking(view.views)

    prover = Prover(spark.plans, refreshes.surroundings, refreshers, rights, below)
    keys = ObservedKeys(
        views.catalog, spark.metastore, views.inspector, refreshes.proposer, lambda: spark.habits.caches_listings
    )
    candidates = Candidates(views.catalog, views.schemas, keys)
    measures = Measures(spark.metastore, janitor.readable)
    return Rewriting(candidates, measures, prover, partly_stale, ProofSessions(spark.plans), rights)


def routed(
    settings: Settings,
    spark: AtSpark,
    views: Views,
    versions: KeptVersions,
    refreshes: Refreshes,
    rewriting: Rewriting,
    usages: Usages,
    unanswered: Unanswered,
    audit: Audit,
    results: ResultStore,
) -> Routing:
    catalog, readers = views.catalog, versions.readers
    scope = ViewScope(catalog, views.relations)
    directories = Directories(catalog, views.fence)
    owners = Rights(AccessList.of(settings.access.administrators))
    invokers = Invokers(catalog, rewriting.rights, refreshes.surroundings, directories, views.inspector, owners)
    gatekeeper = Gatekeeper(
        catalog,
        directories,
        views.confirmation,
        guarded=lambda: spark.guard.state is GuardState.ACTIVE,
    )
    stored = StoredRows(catalog, settings.access.rights_seconds)
    version_reads = VersionReads(catalog, versions.versions, readers, views.inspector, stored)
    probe = settings.staleness.probe_interval
    answers = KnownAnswers(catalog, scope, views.fence, probe, active=results.active)
    reads = Reads(
        catalog,
        scope,
        refreshes.tasks,
        readers,
        views.inspector,
        invokers,
        version_reads,
        gatekeeper,
        answers,
        spark.habits,
    )
    rows = catalog_rows(settings, spark, views, refreshes, rewriting, usages, unanswered, audit)
    every, tell = settings.rewrite.canary, audit.rewrite_differed
    canary = Canary(catalog, views.inspector, views.quarantine, usages.counts, every, tell, rewriting.sessions)
    rewrites = rewrites_of(settings, views, rewriting, scope, usages, canary)
    effects = Effects(catalog, views.schemas, views.confirmation, scope, rewrites, readers, results, unanswered)
    router = Router(catalog, scope, reads, version_reads, gatekeeper, rewrites, rows, unanswered, effects, invokers)
    return Routing(router, effects, scope, answers, rewrites, canary, version_reads, invokers)


def catalog_rows(
    settings: Settings,
    spark: AtSpark,
    views: Views,
    refreshes: Refreshes,
    rewriting: Rewriting,
    usages: Usages,
    unanswered: Unanswered,
    audit: Audit,
) -> CatalogRows:
    rights = Rights(AccessList.of(settings.access.administrators))
    suggestions = Suggestions(views.catalog, views.schemas, spark.metastore, rewriting.candidates, unanswered)
    jobs, tasks = refreshes.jobs, refreshes.tasks
    tables = CatalogTables(views.catalog, views.schemas, rewriting.measures, jobs, tasks, usages, suggestions, rights)
    return CatalogRows(
        tables,
        about=partial(about, settings, spark, audit),
        members=views.members,
        activity=ActivityTables(views.catalog, audit.recent, rights),
        attention=Attention(views.catalog, rights),
        costs=RefreshCosts(views.catalog, refreshes.costs, rights),
    )


def about(settings: Settings, spark: AtSpark, audit: Audit) -> About:
    """What can be said of this gateway now, without the limits that are reached."""
    return About(
        settings.storage.database,
        spark.guard.state.value,
        spark.guard.reason,
        spark.habits.version or None,
        spark.spark.servers.described,
        audit_lines_lost=audit.lost(),
    )


def rewrites_of(
    settings: Settings, views: Views, rewriting: Rewriting, scope: ViewScope, usages: Usages, canary: Canary
) -> Rewrites:
    catalog = views.catalog
    standing = Standing(catalog, views.inspector, views.schemas, views.quarantine)
    candidates = rewriting.candidates
    examiner = Examiner(
        catalog, scope, candidates, rewriting.measures, rewriting.prover, rewriting.sessions, usages.counts
    )
    return Rewrites(
        catalog,
        scope,
        standing,
        candidates,
        rewriting.partly_stale,
        examiner,
        usages,
        canary,
        settings.rewrite.wait,
        settings.access.rights_seconds,
    )


def serve(
    settings: Settings,
    engine: SparkServer,
    spark: AtSpark,
    audit: Audit,
    views: Views,
    routing: Routing,
    own: OwnStatements,
    results: ResultStore,
) -> Service:
    limits, healed = settings.limits, Healing.of(settings.healing)
    sessions = Sessions(
        limits.sessions_per_user,
        limits.http_session_seconds,
        limits.connections,
        quotas=Quotas(LimitRules(limits.rules)),
        on_end=audit.closed,
        cancel_jobs=engine.cancel_statement if healed.lost_cancels else lambda _: None,
        leads_elsewhere=spark.habits.leads_elsewhere,
    )
    spark.spark.servers.lost.append(lambda server: sessions.lose_at(server.name))
    audit.ended.add(ReadsOfViews(views.catalog).count)
    sides = Sides(spark.spark, settings.authentication.remember_seconds)
    checking = methods.of(settings)
    logins = Logins(handover(settings, spark.spark.mechanism), checking.authenticator, checking.groups)
    leadership, loose = None, None
    background = BackgroundTasks("work for a client that has gone")
    if settings.gateways.enabled:
        leadership = Leadership(views.fence)
        sessions.stands = leadership.stands
        loose = LooseSessions(sessions, sides, logins.handover, audit, background, limits.drain_seconds)
    return Service(
        views.catalog,
        routing.router,
        routing.effects,
        own,
        sides,
        logins,
        spark.habits,
        healed,
        limits.statement_bytes,
        sessions,
        audit,
        results,
        background,
        leadership,
        loose,
        setting_rules=SettingRules.of(settings.session),
        shares=spark.spark.servers.share,
    )


def handover(settings: Settings, mechanism: str) -> Handover:
    authentication, upstream_settings = settings.authentication, settings.upstream
    account = None
    if authentication.hand_on == "proxy_user":
        # Spark's PLAIN refuses an empty password even if it checks none.
        account = Login(upstream_settings.user, upstream_settings.password or ANONYMOUS, mechanism)
    checked = bool(authentication.methods)
    # The embedded Spark lets anybody act as any user; another one applies its own rules for proxy users.
    substitutes, access = not (checked and not upstream_settings.address), settings.access
    impersonation = Impersonation(map(Impersonator.parse, access.impersonators), AccessList.of(access.administrators))
    return Handover(mechanism, account, checked, substitutes, impersonation)


def wire_limits_of(settings: Settings) -> WireLimits:
    limits = settings.limits
    return WireLimits(
        request_bytes_max=max(REQUEST_BYTES_MIN, 2 * limits.statement_bytes),
        connections_max=limits.connections,
        idle_seconds=limits.idle_seconds,
    )


def mechanisms_of(settings: Settings) -> frozenset[str]:
    """How clients of the binary port may log in."""
    transports = settings.listen.transports
    tickets = {GSSAPI} if settings.kerberos.keytab and "sasl" in transports else set()
    return frozenset({MECHANISMS[transport] for transport in transports} | tickets)


def entrance_of(settings: Settings) -> Entrance:
    """The ports for clients. Raises FreshgateError for an unusable certificate, or a socket that systemd has opened for
    no port of the settings."""
    place, tls, limits = settings.listen, settings.tls, wire_limits_of(settings)
    mechanisms = mechanisms_of(settings)
    layers = frozenset(LAYERS[name] for name in settings.kerberos.qop)
    certificate = Certificate(tls.certificate, tls.key, tls.client_ca) if tls.certificate else None
    ports = []
    if place.port != OFF:
        own = certificate if "binary" in tls.ports else None
        ports.append(Port(place.host, place.port, partial(ClientConnection, mechanisms, limits, layers), own))
    if place.http_port != OFF:
        own = certificate if "http" in tls.ports else None
        cookies = Cookies(COOKIE_SECONDS if settings.authentication.remember_seconds else 0)
        secure = own is not None
        hosts = Hosts(
            place.http_hosts,
            exposed=not exposure.is_local(place.host),
            setting="listen.http_hosts",
        )
        tickets = bool(settings.kerberos.keytab)
        wire = partial(HttpClientConnection, limits, cookies, secure=secure, admission=hosts.refusal, tickets=tickets)
        proxies = TrustedProxies(place.trusted_proxies)
        ports.append(Port(place.host, place.http_port, wire, own, tied=False, proxies=proxies, transport="http"))
    return Entrance(ports, limits.login_seconds, InheritedSockets.of(os.environ))


def listen(
    settings: Settings, spark: AtSpark, open_client: partial[Dispatch], traffic: Traffic, entrance: Entrance
) -> Listener:
    limits = wire_limits_of(settings)

    async def connect(login: Login, at: str | None) -> upstream.UpstreamSocket:
        opened = partial(upstream.connect, login=login, limits=limits, traffic=traffic)
        with counted(traffic):
            return await spark.spark.reach_for_client(opened, at)

    return Listener(entrance, limits, open_client, connect, traffic)


def registration_of(settings: Settings, deregistered: Callable[[], None]) -> Registration | None:
    """None without ZooKeeper. Raises FreshgateError without kazoo."""
    discovery = settings.discovery
    if not discovery.zookeeper:
        return None
    login = f"{discovery.user}:{discovery.password}" if discovery.user else ""
    return Registration(ZooKeeper(discovery.zookeeper, login), discovery.path, deregistered)


def registered_in(registration: Registration | None) -> Callable[[], bool] | None:
    """Whether clients find the gateway in ZooKeeper; None without ZooKeeper."""
    return None if registration is None else lambda: registration.registered


def node(
    settings: Settings,
    engine: SparkServer,
    open_term: Callable[[Lasting], LeadingTerm],
    registration: Registration | None = None,
) -> GatewayNode:
    """One of several gateways. `open_term` builds a gateway that leads. Raises FreshgateError for unusable settings."""
    gateways, limits, traffic = settings.gateways, wire_limits_of(settings), Traffic()
    capacity = Capacity(limits.connections_max, traffic)
    entrance, gate = entrance_of(settings), RelayGate(gateways.secret, capacity)
    relay, tls = Address.parse(gateways.address), settings.tls
    certificate = Certificate(tls.certificate, tls.key) if gateways.tls_ca else None
    context = client_context(gateways.tls_ca, "gateways", "gateways.tls_ca") if gateways.tls_ca else None
    port = Port(relay.host, relay.port, partial(ClientConnection, frozenset(), limits), certificate)
    relays = Entrance([port], limits.login_seconds)
    trust = Trust(gateways.secret, context)
    doorway = Doorway(trust, capacity, gateways.wait_seconds, limits.buffer_bytes_max, traffic)
    watch = at_spark(settings, engine, traffic)

    async def close() -> None:
        await watch.spark.servers.loop.stop()
        await asyncio.gather(*(pool.close() for pool in watch.pools))

    def member() -> Member:
        return made.member()

    counts = EpochCounts()
    monitor = _door_monitor(settings, doorway, member, counts, registration)
    made = GatewayNode(
        Premises(entrance, relays, doorway, gate, monitor, registration, _page_door(settings, trust, doorway, gate)),
        watch.fence,
        partial(open_term, Lasting(entrance, gate.doors, counts)),
        close,
        settings.limits.drain_seconds,
        counts,
    )
    return made


def metrics_page(
    views: Views,
    versions: KeptVersions,
    refreshes: Refreshes,
    service: Service,
    listener: Listener,
    readiness: Readiness,
    rewrites: Counts,
    own: metrics.Families,
    servers: Servers,
    memory: InMemory | None,
) -> MetricsPage:
    catalog, tasks, counts = views.catalog, refreshes.tasks, service.audit.counts
    some: list[metrics.Families] = []
    if servers.several:
        some.append(partial(metrics.servers, *servers.figures, service.sessions))
    if memory is not None:
        some.append(partial(metrics.memory, memory.residency))
    if service.memory is not None:
        some.append(partial(metrics.memory_answers, service.memory.counts, service.memory.distrust))
    families: tuple[metrics.Families, ...] = (
        partial(metrics.clients, listener, counts, service.sessions),
        partial(metrics.statements, counts, listener.traffic),
        partial(metrics.refreshes, tasks),
        partial(metrics.views, catalog, counts, versions.janitor, views.fence),
        partial(metrics.epochs, lambda: views.fence.epoch_number, views.fence.counts),
        partial(metrics.rewrites, rewrites),
        partial(metrics.results, service.results),
        partial(metrics.upstream, listener.traffic, readiness),
        own,
        *some,
    )
    return MetricsPage(families, catalog, tasks.tally)


def monitoring(settings: Settings, page: MetricsPage, lag: LoopLag, readiness: Readiness, views: Views) -> Monitor:
    place = settings.metrics
    hosts = Hosts(place.hosts, exposed=not exposure.is_local(place.host), setting="metrics.hosts")
    return Monitor(place.host, place.port, page, lag, readiness, views.fence, views.members.status, hosts.refusal)


def alarm_of(settings: Settings, views: Views, refreshes: Refreshes, audit: Audit) -> Alarm:
    alerts, notify = Alerts(views.catalog), settings.notify
    refreshes.tasks.ended.add(alerts.task_ended)
    refreshes.pauses.paused.add(alerts.paused)
    audit.differed.add(alerts.differed)
    audit.differed_in_memory.add(alerts.differed_in_memory)
    return Alarm(alerts, Webhook(notify.url, notify.secret) if notify.url else None)


def lineage_of(settings: Settings, spark: AtSpark, views: Views, refreshes: Refreshes) -> Reports | None:
    """None without a receiver. Raises FreshgateError without its extra."""
    place, habits, catalog = settings.lineage, spark.habits, views.catalog
    if not place.url:
        return None
    try:
        events = import_module(".lineage.events", __package__)
    except ImportError as error:
        raise FreshgateError(
            f"lineage.url is set, which needs more packages ({error}). Install freshgate[openlineage]."
        ) from error

    def view(view_id: str) -> MaterializedView | None:
        entry = catalog.find(view_id)
        return entry.view if entry is not None else None

    describing = Describing(
        view,
        views.observer.relation,
        spark.metastore,
        lambda: Naming(habits.settings, place.metastore),
        lambda: habits.version.partition(" ")[0],
        refreshes.refreshers.analyzed,
    )
    reports = Reports(
        describing, events.OpenLineageWriter(place.namespace, version()), Sender(place.url, place.api_key)
    )
    refreshes.log.writes.add(reports.task_writes)
    refreshes.log.ended.add(reports.task_ended)
    refreshes.log.counted.add(reports.task_counted)
    catalog.news.lives.add(reports.lives)
    return reports


def page_sources(
    settings: Settings,
    spark: AtSpark,
    views: Views,
    versions: KeptVersions,
    refreshes: Refreshes,
    rewriting: Rewriting,
    usages: Usages,
    unanswered: Unanswered,
    service: Service,
    readiness: Readiness,
) -> PageSources:
    rights, quotas = Rights(AccessList.of(settings.access.administrators)), service.sessions.quotas
    activity = ActivityTables(views.catalog, service.audit.recent, rights)
    return PageSources(
        catalog=views.catalog,
        tasks=refreshes.tasks,
        jobs=refreshes.jobs,
        costs=refreshes.costs,
        versions=versions.versions,
        measures=rewriting.measures,
        rights=rights,
        recent=service.audit.recent,
        usages=usages,
        suggestions=Suggestions(views.catalog, views.schemas, spark.metastore, rewriting.candidates, unanswered),
        members=views.members,
        about=partial(about, settings, spark, service.audit),
        limits_reached=lambda who: activity.reached(quotas, who, ""),
        spark_missing=lambda: readiness.missing,
        advises=settings.rewrite.advice,
    )


def page_of(settings: Settings, sources: PageSources, commands: Commands, service: Service) -> PageServer | None:
    """None without the page. Raises FreshgateError without its extra, or for an unusable certificate."""
    place = settings.page
    if not place.port:
        return None
    try:
        building = import_module(".page.page_assembly", __package__)
    except ImportError as error:
        raise FreshgateError(
            f"page.port is set, which needs more packages ({error}). Install freshgate[page]."
        ) from error
    certificate = _page_certificate(settings)
    hosts = Hosts(place.hosts, exposed=not exposure.is_local(place.host), setting="page.hosts")
    safety = Safety(certificate is not None or not exposure.is_local(place.host), hosts.refusal)
    logins = PageLogins(
        service.logins,
        service.audit,
        TrustedProxies(settings.listen.trusted_proxies),
        methods.code_logins(settings),
        takes_passwords=settings.authentication.takes_passwords,
    )
    made: PageServer = building.page_server(
        place,
        sources,
        commands.upkeep,
        logins,
        service.audit,
        safety,
        certificate,
        listens=not settings.gateways.enabled,
    )
    return made


def _page_certificate(settings: Settings) -> Certificate | None:
    tls = settings.tls
    return Certificate(tls.certificate, tls.key, tls.client_ca) if exposure.page_uses_tls(settings) else None


def _page_door(settings: Settings, trust: Trust, doorway: Doorway, gate: RelayGate) -> PageDoor | None:
    place = settings.page
    if not place.port:
        return None
    certificate = _page_certificate(settings)
    return PageDoor(Address(place.host, place.port), certificate, trust, lambda: doorway.leader, lambda: gate.page)


def _door_monitor(
    settings: Settings,
    doorway: Doorway,
    member: Callable[[], Member],
    counts: EpochCounts,
    registration: Registration | None,
) -> DoorMonitor | None:
    if not settings.metrics.port:
        return None
    place = settings.metrics
    hosts = Hosts(place.hosts, exposed=not exposure.is_local(place.host), setting="metrics.hosts")

    def missing() -> list[str]:
        return [] if doorway.leader is not None else ["No gateway leads at the moment."]

    def status() -> dict[str, object]:
        leader = doorway.leader
        return member().shown(str(leader.relay) if leader is not None else None)

    text = partial(metrics.door_text, doorway, lambda: member().epoch, counts, registered_in(registration))
    return DoorMonitor(place.host, place.port, text, missing, status, hosts.refusal)


def _audit_file(target: str) -> AuditFile | None:
    """The audit; None for an empty target. Raises FreshgateError if it cannot be written: a gateway with a configured
    audit does not run without it."""
    if not target:
        return None
    try:
        return AuditFile(target)
    except OSError as error:
        raise FreshgateError(
            f"Cannot write the audit to {target}: {error.strerror or error}. Set log.audit to another file, or to - "
            "for standard error."
        ) from error
