"""The running gateway: its start, its end, and what happens to it between."""

from __future__ import annotations

import asyncio
import logging

from gateway import loops
from gateway.assembly import Engine, assemble
from gateway.config import OFF, Address, Settings
from gateway.errors import FreshgateError, UpstreamLost, UpstreamProtocolMismatch
from gateway.mv.catalog.fence import Superseded
from gateway.mv.model.view import Leftover
from gateway.mv.versions.janitor import LATE_SECONDS
from gateway.service.clients.session import CLOSE_SECONDS

log = logging.getLogger(__name__)

RETRY_SECONDS = 1.0
TAKING_OVER_SECONDS = 1.0
STOP_SECONDS = 20.0
"""For Spark to end what clients and refreshes have there. Whoever stops the gateway has a limit too, and kills it then.
"""


class Server:
    """Binds its ports, starts, drains and stops, in this order."""

    def __init__(self, settings: Settings, engine: Engine) -> None:
        """Raises FreshgateError for settings that cannot be used."""
        self._settings = settings
        self._engine = engine
        built = assemble(settings, engine)
        self._spark = built.spark
        self._views = built.views
        self._versions = built.versions
        self._refreshes = built.refreshes
        self._service = built.service
        self._listener = built.listener
        self._readiness = built.readiness
        self._monitor = built.monitor
        self._watch = built.watch
        self._audit_file = built.audit_file
        self._survey = loops.Loop("survey of the storage database", self._survey_again)

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
        for view in self._views.catalog.views():
            strays = Leftover(view.storage, view.definition, whole=False)
            self._versions.janitor.retire(view.id, strays, later_seconds=LATE_SECONDS)
        self._views.inspector.seed()
        self._versions.janitor.loop.start()
        self._refreshes.scheduler.start()
        if self._watch is not None:
            self._watch.loop.start()
        self._survey.start()
        await self._listener.start()
        self._readiness.catalog_loaded = True
        log.info("%d materialized views, %d leftovers to drop", len(self._views.catalog), len(leftovers))

    def _retire(self, leftover: Leftover) -> None:
        view_id = leftover.storage.table
        if not leftover.versions:
            self._versions.janitor.retire(view_id, leftover)
            return
        following = [*leftover.versions[1:], self._views.catalog.entry(view_id).view.current]
        for version, after in zip(leftover.versions, following, strict=True):
            self._versions.janitor.retire(view_id, leftover, version, retired_at=after.published_at)

    async def _survey_again(self) -> bool:
        """What crashes and people do to the storage database is noticed without a restart."""
        await asyncio.sleep(self._settings.storage.check_interval)
        try:
            await self._views.fence.check()
            for leftover in await self._views.loading.survey():
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
                await self._spark.habits.ask(self._spark.short)
                self._service.sessions.shared.database = self._spark.habits.global_temporary
                if await self._views.fence.take():
                    # What the other gateway had under way when it was killed, or found the mark, ends first.
                    await asyncio.sleep(TAKING_OVER_SECONDS)
                return await self._views.loading.load()
            except UpstreamProtocolMismatch:
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
        self._service.sessions.stopping = True
        await self._listener.drain(self._settings.limits.drain_seconds, self._service.sessions.busy)

    async def stop(self) -> None:
        """Closes clients, stops refreshes, frees what they had at Spark, all within STOP_SECONDS."""
        self._readiness.draining = True
        self._engine.leave()
        self._service.sessions.ending = True
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await self._leave_spark()
        except TimeoutError:
            log.warning(
                "Spark took longer than %g seconds to end what is there: sessions are left to it, "
                "and what refreshes wrote is dropped at the next start",
                STOP_SECONDS,
            )
            for pool in self._spark.pools:
                pool.cut_off()
        self._service.sessions.abandon()
        if self._monitor is not None:
            await self._monitor.stop()
        if self._audit_file is not None:
            self._audit_file.close()

    async def _leave_spark(self) -> None:
        await self._listener.close()
        await self._service.background.finish(CLOSE_SECONDS)
        await self._service.router.close()
        await self._service.sessions.close()
        await self._service.sides.close()
        self._survey.cancel()
        if self._watch is not None:
            await self._watch.loop.stop()
        await self._refreshes.scheduler.stop()
        await self._refreshes.tasks.stop_all()
        await self._views.guard.stop()
        await self._views.settlement.stop()
        await self._versions.janitor.loop.stop()
        try:
            await self._versions.janitor.sweep()
            await self._views.fence.release()
        except FreshgateError as error:
            log.info("what is left is dropped at the next start: %s", error)
        await asyncio.gather(*(pool.close() for pool in self._spark.pools))
