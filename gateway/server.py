"""Joins the gateway's parts to one server. Used by `__main__` alone; nothing else knows all layers."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import time
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Protocol
from zoneinfo import ZoneInfo

from gateway import loops
from gateway.config import OFF, Address, Settings
from gateway.config import Upstream as UpstreamSettings
from gateway.errors import FreshgateError, UpstreamLost, UpstreamMisspoken
from gateway.login import methods
from gateway.monitoring.audit_file import AuditFile
from gateway.monitoring.lag import LoopLag
from gateway.monitoring.metrics import Sources
from gateway.monitoring.monitor import Monitor
from gateway.monitoring.readiness import Readiness
from gateway.mv.catalog.directories import Directories
from gateway.mv.catalog.fence import Fence, Superseded
from gateway.mv.catalog.guard import Guard
from gateway.mv.catalog.index import Catalog
from gateway.mv.catalog.loading import Loading
from gateway.mv.catalog.restoration import Restoration
from gateway.mv.catalog.settlement import Settlement
from gateway.mv.catalog.watches import Watches
from gateway.mv.jobs.jobs import Jobs
from gateway.mv.jobs.scheduler import Scheduler
from gateway.mv.model.locations import Locations
from gateway.mv.model.view import Leftover
from gateway.mv.observation.inspection import Inspector
from gateway.mv.observation.observer import Observer
from gateway.mv.observation.relations import Relations
from gateway.mv.observation.schemas import Schemas
from gateway.mv.ports import StageProgress
from gateway.mv.refresh.executor import Executor
from gateway.mv.refresh.habits import Habits
from gateway.mv.refresh.proposal import Proposer
from gateway.mv.refresh.surroundings import POOL, Surroundings
from gateway.mv.refresh.task_log import TaskLog
from gateway.mv.refresh.tasks import RefreshLimits, Tasks
from gateway.mv.statements.alteration import Alteration
from gateway.mv.statements.creation import Creation
from gateway.mv.statements.rights import Rights
from gateway.mv.versions.janitor import LATE_SECONDS, Janitor
from gateway.mv.versions.kept import KeptLimits, Versions
from gateway.mv.versions.measures import Measures
from gateway.mv.versions.readers import Readers
from gateway.proxy import upstream
from gateway.proxy.listener import Listener, Port
from gateway.proxy.tls import Certificate, client_context
from gateway.proxy.traffic import Traffic
from gateway.proxy.trusted_proxies import TrustedProxies
from gateway.service.answers.catalog_tables import CatalogTables
from gateway.service.answers.commands import Commands
from gateway.service.clients.audit import Audit
from gateway.service.clients.handover import ANONYMOUS, Handover
from gateway.service.clients.session import CLOSE_SECONDS, Sessions
from gateway.service.clients.sides import Sides
from gateway.service.dispatch import Dispatch, Service
from gateway.service.routing.gatekeeper import Gatekeeper
from gateway.service.routing.route import Router
from gateway.service.routing.stale_reads import StaleReads
from gateway.service.routing.version_reads import VersionReads
from gateway.spark import probe
from gateway.spark.client import Connection, SessionPool
from gateway.spark.metastore import SparkMetastore
from gateway.wire.connection import NOSASL, PLAIN, ClientConnection
from gateway.wire.cookies import Cookies
from gateway.wire.endpoint import Endpoint
from gateway.wire.frame import WireLimits
from gateway.wire.http_connection import HTTP, HttpClientConnection
from gateway.wire.sasl import Login
from sql.texts import maintenance

log = logging.getLogger(__name__)

METASTORE_SESSIONS = 8
"""Sessions for short metastore statements, apart from those that refreshes occupy for minutes."""
OBSERVATION_SESSIONS = 8
"""Looks at base tables at one time: each lists files on all of Spark's cores, but some may only wait for a storage that
does not answer."""
REFRESH_POOL = "freshgate"
"""Refreshes share one pool of Spark's FAIR scheduler, so that they do not starve the clients' queries."""
RETRY_SECONDS = 1.0
TAKING_OVER_SECONDS = 1.0
STOP_SECONDS = 20.0
"""For Spark to end what clients and refreshes have there. Whoever stops the gateway has a limit too, and kills it then.
"""
MECHANISMS = {"sasl": PLAIN, "nosasl": NOSASL, "http": HTTP}


class Engine(StageProgress, probe.Restarts, Protocol):
    """Where Spark is, and how far it is with a statement; `spark.engine` has two."""

    async def address(self) -> Address:
        """Where Spark listens now. Raises UpstreamLost."""
        ...

    def cancel_statement(self, statement: str) -> None:
        """Has the jobs of a statement ended, of which Spark's public id is given, also those to come."""
        ...

    def leave(self) -> None:
        """The gateway ends: nobody waits any longer for a Spark that is not up."""
        ...


def _handover(settings: Settings, mechanism: str) -> Handover:
    authentication, upstream_settings = settings.authentication, settings.upstream
    account = None
    if authentication.hand_on == "proxy_user":
        # Spark's PLAIN refuses an empty password even where it checks none.
        account = Login(upstream_settings.user, upstream_settings.password or ANONYMOUS, mechanism)
    checked = authentication.method != "none"
    # The embedded Spark lets everybody be anybody; another one asks its own rules for proxy users.
    return Handover(mechanism, account, checked=checked, substitutes=not (checked and not upstream_settings.address))


class Spark:
    """How Spark is reached; implements `spark.client.EndpointSource`, and by the sessions' second connections
    `service.clients.side_connections.Upstream`."""

    def __init__(self, engine: Engine, settings: UpstreamSettings, traffic: Traffic) -> None:
        self._engine = engine
        self._traffic = traffic
        # The embedded engine speaks what the gateway makes it speak.
        transport = settings.transport if settings.address else "sasl"
        self.mechanism = MECHANISMS[transport]
        self._path = settings.http_path
        self._tls = client_context(settings.tls_ca) if settings.tls and settings.address else None

    async def endpoint(self) -> Endpoint:
        address = await self._engine.address()
        return Endpoint(address.host, address.port, self.mechanism, self._path, self._tls)

    async def connect(self, login: Login, *, ask: bool = False) -> Connection:
        with _counted(self._traffic):
            return await Connection.open(await self.endpoint(), login.user, login.password, ask=ask)


@contextlib.contextmanager
def _counted(traffic: Traffic) -> Iterator[None]:
    """Counts the making of a connection to Spark."""
    traffic.connects += 1
    began = time.monotonic()
    try:
        yield
    except UpstreamLost:
        traffic.connects_failed += 1
        raise
    traffic.connect_seconds.add(time.monotonic() - began)


class Server:
    """The running gateway."""

    def __init__(self, settings: Settings, engine: Engine) -> None:
        self._settings = settings
        self._engine = engine
        self._traffic = Traffic()
        self._spark = Spark(engine, settings.upstream, self._traffic)
        self._habits = Habits()
        self._refreshes = self._pool(settings.refresh.max_concurrent, {POOL: REFRESH_POOL, **maintenance.STAGED})
        self._short = self._pool(METASTORE_SESSIONS, {})
        self._looks = self._pool(OBSERVATION_SESSIONS, {POOL: REFRESH_POOL})
        metastore = SparkMetastore(self._short)
        here = f"{socket.gethostname()}, port {settings.listen.port}, process {os.getpid()}"
        self._fence = Fence(metastore, settings.storage.database, here)
        self._catalog = Catalog(settings.storage.database, self._fence)
        self._loading = Loading(self._catalog, metastore, METASTORE_SESSIONS)
        watches = Watches()
        self._audit_file = _audit_file(settings.log.audit)
        self._audit = Audit(self._audit_file.write if self._audit_file else None, settings.log.audit_characters)
        restoration = Restoration(self._catalog, watches, metastore, self._audit.restored)
        self._settlement = Settlement(self._catalog, metastore, self._fence, restoration.restore_unshown)
        self._guard = Guard(self._catalog, watches, self._settlement, restoration, metastore, self._fence)
        self._readers = Readers()
        kept_for = settings.versions
        catalog = self._catalog
        views = catalog.lock_of, catalog.kept, self._settlement.verify_id
        self._janitor = Janitor(metastore, *views, self._readers, self._fence, kept_for.retention)
        limits = KeptLimits(kept_for.max_count, kept_for.max_bytes, kept_for.wait)
        self._versions = Versions(self._janitor, self._readers, metastore, limits)
        self._relations = Relations(self._catalog, metastore, settings.views.scan_interval)
        self._schemas = Schemas(self._catalog, metastore, settings.views.scan_interval)
        observer = Observer(metastore, self._looks, settings.staleness.look_timeout)
        self._inspector = Inspector(
            self._catalog, self._relations, observer, self._settlement, settings.staleness.probe_interval
        )
        self._surroundings = Surroundings(REFRESH_POOL, self._habits, metastore)
        self._proposer = self._proposes(metastore)
        self._log = TaskLog(self._catalog, self._fence, metastore, self._looks)
        self._executor = Executor(
            self._catalog,
            self._settlement,
            self._relations,
            self._schemas,
            self._refreshes,
            self._proposer,
            self._janitor,
            self._versions,
            self._fence,
            metastore,
            self._log,
            self._surroundings,
            engine,
        )
        self._janitor.compact = self._executor.compact
        self._executor.confirm = self._guard.confirm
        self._join_jobs(metastore)
        self._subscribe(observer)
        self._sides = Sides(self._spark, settings.authentication.remember_seconds)
        service = self._service(metastore)
        self._sessions = service.sessions
        self._sessions.leads_elsewhere = self._habits.leads_elsewhere
        self._service_of_all = service
        self._listener = self._listen(partial(Dispatch, service))
        self._probes = self._pool(1, {})
        self._readiness = Readiness(partial(probe.ask, self._probes), settings.metrics.check_interval)
        self._monitor = self._monitoring(service) if settings.metrics.port else None
        self._survey: asyncio.Task[None] | None = None
        self._watch = self._watch_of_spark()

    def _subscribe(self, observer: Observer) -> None:
        """Says who is told of what, and in which order."""
        news = self._catalog.news
        news.touched.add(observer.touch)
        news.unread.add(observer.forget)
        news.moved.add(self._relations.forget_sources)
        news.stale.add(self._scheduler.changed)
        news.published.add(self._scheduler.published)
        news.leftover.add(self._janitor.retire)
        observer.looked.add(self._inspector.forget_unread)
        self._readers.released.add(self._janitor.released)

    def _watch_of_spark(self) -> probe.Watch | None:
        """None for a Spark that somebody else runs."""
        account = self._settings.upstream
        if account.address or not self._settings.engine.silent_seconds:
            return None
        log_in = partial(probe.log_in, self._spark.endpoint, account.user, account.password)
        return probe.Watch(log_in, self._engine, self._settings.engine.silent_seconds, time.monotonic)

    def _proposes(self, metastore: SparkMetastore) -> Proposer:
        longest = self._settings.storage.definition_characters
        return Proposer(metastore, self._short, self._inspector, self._habits, self._surroundings, longest)

    def _service(self, metastore: SparkMetastore) -> Service:
        settings = self._settings
        return Service(
            self._catalog,
            self._router(metastore),
            self._sides,
            _handover(settings, self._spark.mechanism),
            statement_bytes_max=settings.limits.statement_bytes,
            operations_max=settings.limits.operations_per_session,
            show_storage=settings.storage.listed,
            sessions=self._made_sessions(),
            authenticator=methods.authenticator(settings),
            healing=settings.healing,
            reads_ahead=lambda: settings.upstream.read_ahead and self._habits.collects_whole,
            audit=self._audit,
        )

    def _made_sessions(self) -> Sessions:
        limits = self._settings.limits
        sessions = Sessions(limits.sessions_per_user, limits.http_session_seconds, limits.http_sessions)
        if self._settings.healing.lost_cancels:
            sessions.cancel_jobs = self._engine.cancel_statement
        return sessions

    def _monitoring(self, service: Service) -> Monitor:
        sources = Sources(
            self._listener,
            self._traffic,
            service.audit.counts,
            service.sessions,
            self._catalog,
            self._tasks,
            self._janitor,
            self._fence,
            self._readiness,
            LoopLag(),
            self._audit_file,
        )
        return Monitor(self._settings.metrics.host, self._settings.metrics.port, sources)

    def _join_jobs(self, metastore: SparkMetastore) -> None:
        settings = self._settings
        refresh = settings.refresh
        self._tasks = Tasks(
            self._catalog,
            self._inspector,
            self._executor,
            self._log,
            self._fence,
            RefreshLimits(refresh.retries, refresh.retry_wait, refresh.timeout),
        )
        self._jobs = Jobs(
            self._catalog,
            self._settlement,
            metastore,
            self._fence,
            ZoneInfo(settings.jobs.time_zone),
            allow_seconds=settings.jobs.allow_second_schedules,
        )
        self._scheduler = Scheduler(
            self._catalog, self._jobs, self._tasks, self._inspector, self._fence, settings.jobs.watch_interval
        )

    def _router(self, metastore: SparkMetastore) -> Router:
        settings = self._settings
        rights = Rights(settings.access.administrators)
        creation = Creation(
            self._catalog,
            self._settlement,
            self._relations,
            self._inspector,
            metastore,
            self._refreshes,
            self._executor,
            self._tasks,
            self._log,
            self._jobs,
            self._janitor,
            self._readers,
            rights,
            self._fence,
            self._habits,
            Locations(settings.storage.locations),
            settings.storage.definition_characters,
        )
        alteration = Alteration(
            self._catalog,
            self._settlement,
            self._relations,
            metastore,
            creation,
            self._tasks,
            self._jobs,
            self._janitor,
            self._readers,
            rights,
            self._fence,
        )
        commands = Commands(
            self._catalog,
            self._schemas,
            metastore,
            creation,
            alteration,
            self._executor,
            self._tasks,
            self._jobs,
            self._inspector,
            self._proposer,
            self._versions,
            rights,
        )
        tables = CatalogTables(self._catalog, self._schemas, Measures(metastore), self._jobs, self._tasks)
        return Router(
            self._catalog,
            self._relations,
            self._schemas,
            self._tasks,
            StaleReads(self._catalog, self._inspector, self._habits, self._surroundings),
            VersionReads(self._catalog, self._versions, self._readers),
            self._readers,
            commands,
            tables,
            Gatekeeper(self._catalog, Directories(self._catalog, self._fence), self._guard),
            show_storage=settings.storage.listed,
            unsure_seconds=settings.staleness.unsure_wait,
        )

    def _pool(self, size: int, configuration: Mapping[str, str]) -> SessionPool:
        service_account = self._settings.upstream
        return SessionPool(
            self._spark,
            service_account.user,
            size,
            configuration,
            password=service_account.password,
            greet=self._habits.greet,
        )

    def _listen(self, open_client: partial[Dispatch]) -> Listener:
        """The ports; raises FreshgateError for a certificate that cannot be used."""
        listen, limits, tls = self._settings.listen, self._settings.limits, self._settings.tls
        wire_limits = WireLimits(
            request_bytes_max=limits.request_bytes,
            half_read_bytes_max=limits.half_read_bytes,
            login_seconds=limits.login_seconds,
            connections_max=limits.connections,
            buffer_bytes_max=limits.buffer_bytes,
            stall_seconds=limits.stall_seconds,
            idle_seconds=limits.idle_seconds,
        )
        mechanisms = frozenset(MECHANISMS[transport] for transport in listen.transports)
        certificate = Certificate(tls.certificate, tls.key, tls.client_ca) if tls.certificate else None
        ports = []
        if listen.port != OFF:
            own = certificate if "binary" in tls.ports else None
            ports.append(Port(listen.host, listen.port, partial(ClientConnection, mechanisms, wire_limits), own))
        if listen.http_port != OFF:
            own = certificate if "http" in tls.ports else None
            cookies = Cookies(listen.http_cookie_seconds)
            secure = own is not None
            wire = partial(HttpClientConnection, wire_limits, cookies, listen.http_path, secure=secure)
            proxies = TrustedProxies(listen.trusted_proxies)
            ports.append(Port(listen.host, listen.http_port, wire, own, tied=False, proxies=proxies))

        async def connect(login: Login) -> upstream.Upstream:
            with _counted(self._traffic):
                return await upstream.connect(await self._spark.endpoint(), login, wire_limits, self._traffic)

        return Listener(ports, wire_limits, open_client, connect, self._traffic)

    @property
    def addresses(self) -> list[str]:
        """What clients connect to, as JDBC has it behind `jdbc:hive2://`, once the ports are taken."""
        listen, tls = self._settings.listen, self._settings.tls
        bound = iter(self._listener.ports)
        found = []
        if listen.port != OFF:
            tail = "/;ssl=true" if tls.certificate and "binary" in tls.ports else ""
            found.append(f"{Address(listen.host, next(bound))}{tail}")
        if listen.http_port != OFF:
            tail = ";ssl=true" if tls.certificate and "http" in tls.ports else ""
            path = listen.http_path.removeprefix("/")
            found.append(f"{Address(listen.host, next(bound))}/;transportMode=http;httpPath={path}{tail}")
        return found

    async def bind(self) -> None:
        """Takes the ports, before Spark is started for half a minute. Raises PortUnavailable for a taken one."""
        await self._listener.bind()

    async def watch(self) -> None:
        """Shows metrics and readiness from here on, though nobody is served yet. Raises FreshgateError for a taken
        port."""
        if self._monitor is None:
            return
        place = Address(self._settings.metrics.host, self._settings.metrics.port)
        try:
            await self._monitor.start()
        except OSError as error:
            raise FreshgateError(
                f"Cannot listen at {place} for metrics: {error.strerror or error}. Check metrics.host and metrics.port."
            ) from error
        log.info("metrics at http://%s/metrics", place)

    async def start(self) -> None:
        """Reads the catalog, cleans up after a crash, listens. Raises FreshgateError."""
        leftovers = await self._load()
        for leftover in leftovers:
            self._retire(leftover)
        for view in self._catalog.views():
            strays = Leftover(view.storage, view.definition, whole=False)
            self._janitor.retire(view.id, strays, later_seconds=LATE_SECONDS)
        self._inspector.seed()
        self._janitor.start()
        self._scheduler.start()
        if self._watch is not None:
            self._watch.start()
        self._survey = loops.keep("survey of the storage database", self._survey_again)
        await self._listener.start()
        self._readiness.catalog_loaded = True
        log.info("%d materialized views, %d leftovers to drop", len(self._catalog), len(leftovers))

    def _retire(self, leftover: Leftover) -> None:
        view_id = leftover.storage.table
        if not leftover.versions:
            self._janitor.retire(view_id, leftover)
            return
        following = [*leftover.versions[1:], self._catalog.entry(view_id).view.current]
        for version, after in zip(leftover.versions, following, strict=True):
            self._janitor.retire(view_id, leftover, version, retired_at=after.published_at)

    async def _survey_again(self) -> bool:
        """What crashes and people do to the storage database is noticed without a restart."""
        await asyncio.sleep(self._settings.storage.check_interval)
        try:
            await self._fence.check()
            for leftover in await self._loading.survey():
                self._retire(leftover)
        except Superseded:
            return loops.OVER  # The fence has said so, and it stays so.
        except FreshgateError as error:
            log.warning("could not look at the storage database, will try again: %s", error)
        return False

    async def _load(self) -> list[Leftover]:
        """Waits for a Thrift server that is not up yet, as long as the engine may take to start."""
        deadline = asyncio.get_running_loop().time() + self._settings.engine.start_timeout
        told = False
        while True:
            try:
                await self._habits.ask(self._short)
                self._sessions.shared.database = self._habits.global_temporary
                if await self._fence.take():
                    # What the other gateway had under way when it was killed, or found the mark, ends first.
                    await asyncio.sleep(TAKING_OVER_SECONDS)
                return await self._loading.load()
            except UpstreamMisspoken:
                raise
            except UpstreamLost as error:
                if asyncio.get_running_loop().time() > deadline:
                    raise
                if not told:
                    told = True
                    log.warning("waiting for Spark: %s", error)
                await asyncio.sleep(RETRY_SECONDS)

    async def drain(self) -> None:
        """Takes no more clients, and no more statements of those it has; running ones may end."""
        self._readiness.draining = True
        self._sessions.stopping = True
        await self._listener.drain(self._settings.limits.drain_seconds, self._sessions.busy)

    async def stop(self) -> None:
        """Closes clients, stops refreshes, frees what they had at Spark, all within STOP_SECONDS."""
        self._readiness.draining = True
        self._engine.leave()
        self._sessions.ending = True
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await self._leave_spark()
        except TimeoutError:
            log.warning(
                "Spark took longer than %g seconds to end what is there: sessions are left to it, "
                "and what refreshes wrote is dropped at the next start",
                STOP_SECONDS,
            )
            for pool in self._pools:
                pool.cut_off()
        self._sessions.abandon()
        if self._monitor is not None:
            await self._monitor.stop()
        if self._audit_file is not None:
            self._audit_file.close()

    async def _leave_spark(self) -> None:
        await self._listener.close()
        await self._service_of_all.background.finish(CLOSE_SECONDS)
        await self._service_of_all.router.close()
        await self._sessions.close()
        await self._sides.close()
        if self._survey is not None:
            self._survey.cancel()
        if self._watch is not None:
            await self._watch.stop()
        await self._scheduler.stop()
        await self._tasks.stop_all()
        await self._guard.stop()
        await self._settlement.stop()
        await self._janitor.stop()
        try:
            await self._janitor.sweep()
            await self._fence.release()
        except FreshgateError as error:
            log.info("what is left is dropped at the next start: %s", error)
        await asyncio.gather(*(pool.close() for pool in self._pools))

    @property
    def _pools(self) -> tuple[SessionPool, ...]:
        return self._probes, self._looks, self._refreshes, self._short


def _audit_file(target: str) -> AuditFile | None:
    """None for an empty target. Raises FreshgateError: who wants an audit is not served without it."""
    if not target:
        return None
    try:
        return AuditFile(target)
    except OSError as error:
        raise FreshgateError(
            f"The audit cannot be written to {target}: {error.strerror or error}. Name another file by log.audit, "
            "or - for standard error."
        ) from error
