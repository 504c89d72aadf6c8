"""The running gateway: start, takeover of the catalog, draining and stop.

Tests: `test_server_stop`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence

from gateway import loops
from gateway.assembly.at_spark import SparkServer
from gateway.assembly.browsers import page_of
from gateway.assembly.one_gateway import Lasting, assemble
from gateway.assembly.reporting import reporting_of
from gateway.config import Settings
from gateway.errors import FreshgateError, SparkLost, UpstreamLost, UpstreamProtocolMismatch
from gateway.mv.catalog.fence import Predecessor, Superseded
from gateway.mv.catalog.presence import BEAT_OF_SEVERAL_SECONDS, BEAT_SECONDS, Presence, Vigil
from gateway.mv.model.view import Leftover
from gateway.mv.versions.janitor import LATE_SECONDS
from gateway.proxy.listener import Listener
from gateway.proxy.page_door import PageHost
from gateway.service.clients.session import CLOSE_SECONDS
from gateway.service.clients.ticket import TicketKeeper
from gateway.wire.member import Member

log = logging.getLogger(__name__)

RETRY_SECONDS = 1.0
TAKING_OVER_SECONDS = 2.0
"""How long a successor lets requests and statements end that the gateway before it has under way: longer than one of
its checks counts (`mv.catalog.fence.SURE_SECONDS`), and a second for what it has sent."""
STANDING_BY_SECONDS = 5.0
"""Interval of looks at the gateway that has superseded this one."""
QUIET_LOOK_SECONDS = 0.05
QUIET_SECONDS = 3.0
"""How long a hand-over waits for refreshes, writes and the gateway's own statements to end by themselves."""
YIELDING_SECONDS = 10.0
"""How long the end of the others may take. After that the next gateway treats this one as one that was killed."""
STILL_READ_SECONDS = 30.0
"""How much longer than `limits.drain_seconds` a successor keeps what clients of the gateway before may read."""
UPSTREAM_SECONDS = 120.0
"""How long a start waits for a Thrift Server that is not up yet; a service manager then starts the gateway again."""
DRAFT_SECONDS = 60.0
"""Between drafts of the views, which are kept for the next start if views were created, dropped or altered."""
SURVEY_SECONDS = 600.0
"""Between checks of the storage database. They find what statements of a killed gateway created after its end, and
views that lost a part because a user dropped it."""
STOP_SECONDS = 20.0
"""Time for Spark to end the statements and sessions of clients and refreshes. Service managers have a limit too, after
which they kill the gateway."""


class Server:
    """Binds its ports, starts, drains and stops, in this order."""

    def __init__(
        self,
        settings: Settings,
        engine: SparkServer,
        *,
        take_over: bool = False,
        lasting: Lasting | None = None,
        registered: Callable[[], bool] | None = None,
    ) -> None:
        """`take_over`: change the views although another gateway that is alive does so. `lasting`: what one of several
        gateways has already; this is one of its terms. `registered`: as in `reporting_of`. Raises FreshgateError for
        unusable settings."""
        self._settings = settings
        self._take_over = take_over
        self._is_term = lasting is not None
        self._engine = engine
        built = assemble(settings, engine, lasting)
        self._spark = built.spark
        self._records = built.records
        self._views = built.views
        self._drafts = built.drafts
        self._versions = built.versions
        self._refreshes = built.refreshes
        self._scheduling = built.scheduling
        self._memory = built.memory
        self._service = built.service
        self._listener = built.listener
        self._reporting = reporting_of(settings, built, registered)
        self._page = page_of(settings, built, self._reporting.readiness)
        self._survey = loops.Loop("survey of the storage database", self._survey_again)
        self._signs = loops.Loop("signs of life", self._give_sign)
        self._drafting = loops.Loop("drafts of the catalog", self._draft_again)
        self._drafted_at = -1
        """The revision of the catalog of which there is a draft for the next start."""
        self._served = self._yielded = False
        """It has led as one of several gateways; it has handed over to another one."""
        self._vigil: Vigil | None = None
        """Watches the gateway that has superseded this one."""

    @property
    def ports(self) -> Sequence[int]:
        """The ports for clients, once they are bound."""
        return self._listener.ports

    @property
    def listener(self) -> Listener:
        """What serves the clients."""
        return self._listener

    @property
    def page(self) -> PageHost | None:
        """What serves browsers, once this gateway has started."""
        return self._page

    @property
    def mark(self) -> str:
        """What other gateways recognize it by."""
        return self._views.fence.mark

    def member(self) -> Member:
        """What this gateway says of itself."""
        return self._views.members.own()

    async def check(self, *, ask: bool) -> None:
        """Raises Superseded if it is known that another gateway leads, or, with `ask`, if Spark says so."""
        fence = self._views.fence
        if ask:
            await fence.look_lately()
        elif fence.lost is not None:
            raise Superseded(fence.lost)

    async def bind(self) -> None:
        """Binds the ports before Spark starts, which takes half a minute. Raises PortUnavailable for a port in use."""
        await self._listener.bind()

    async def watch(self) -> None:
        """Serves metrics and readiness probes, even before clients are served. Raises FreshgateError if it cannot
        listen."""
        if self._reporting.monitor is not None:
            await self._reporting.monitor.start()

    async def prepare(self) -> None:
        """Does what `start` needs, as far as that changes nothing. Raises FreshgateError."""
        await self._spark.habits.ask(self._spark.short)
        await self._recall()
        await self._views.loading.draft()
        log.info("read a draft of %d materialized views, for the time when no gateway leads", len(self._views.catalog))

    async def start(self) -> None:
        """Loads the catalog, cleans up after a crash, and listens. Raises FreshgateError."""
        log.info("loading the materialized views from database %s", self._settings.storage.database)
        leftovers = await self._load()
        self._clean(leftovers)
        self._versions.janitor.loop.start()
        self._scheduling.scheduler.start()
        self._scheduling.paced.start()
        if self._spark.watch is not None:
            self._spark.watch.loop.start()
        self._survey.start()
        self._signs.start()
        self._drafting.start()
        if self._memory is not None:
            self._memory.residency.start()
        await self._listener.start()
        self._reporting.readiness.catalog_loaded = self._served = True
        self._reporting.alarm.start()
        if self._reporting.lineage is not None:
            self._reporting.lineage.start()
        if self._page is not None:
            await self._page.start()
        log.info("%d materialized views, %d leftovers to drop", len(self._views.catalog), len(leftovers))

    def _clean(self, leftovers: list[Leftover]) -> None:
        """Schedules for dropping what another gateway has left behind, after the views were loaded."""
        for leftover in leftovers:
            self._retire(leftover)
        for view in self._views.catalog.views():
            strays = Leftover(view.storage, view.definition, whole=False)
            self._versions.janitor.retire(view.id, strays, later_seconds=LATE_SECONDS)
        self._views.inspector.seed()

    def _retire(self, leftover: Leftover) -> None:
        view_id, janitor = leftover.storage.table, self._versions.janitor
        if leftover.versions:
            janitor.retire_found(leftover, self._views.catalog.entry(view_id).view.current)
        else:
            janitor.retire(view_id, leftover)

    async def _survey_again(self) -> None:
        """Finds what crashes and users did to the storage database, without a restart."""
        await asyncio.sleep(SURVEY_SECONDS)
        try:
            await self._views.fence.check()
            for leftover in await self._views.loading.survey():
                self._retire(leftover)
        except Superseded:
            pass  # The fence has logged it.
        except FreshgateError as error:
            log.warning("could not check the storage database, will try again: %s", error)

    async def _give_sign(self) -> None:
        """Gives a sign of life, or watches the gateway that has superseded this one."""
        superseded = self._views.fence.lost is not None
        beat = BEAT_OF_SEVERAL_SECONDS if self._is_term else BEAT_SECONDS
        await asyncio.sleep(STANDING_BY_SECONDS if superseded else beat)
        try:
            if superseded and self._is_term:
                return  # The node ends this term.
            if superseded:
                await self._stand_by()
            else:
                await self._views.fence.beat()
        except Superseded:
            pass  # The fence has logged it.
        except FreshgateError as error:
            log.info("could not look after the epoch of this gateway, will try again: %s", error)

    async def _stand_by(self) -> None:
        """Serves again once the other gateway has ended, or gives no sign of life."""
        fence = self._views.fence
        if self._vigil is None:
            self._vigil = fence.vigil()
        if self._vigil.note(await fence.other()) is not Presence.GONE:
            return
        self._vigil = None
        log.warning("the gateway that refreshed the views has gone: this one takes over again")
        await fence.take()
        await asyncio.sleep(TAKING_OVER_SECONDS)
        # A third gateway may have done the same.
        if not await fence.holds():
            return
        for view in self._views.catalog.views():
            await self._refreshes.tasks.stop(view.id)
        leftovers = await self._views.loading.reload()
        fence.regain()
        self._clean(leftovers)
        log.warning("serving %d materialized views again", len(self._views.catalog))

    async def _load(self) -> list[Leftover]:
        """Loads the catalog. Waits for a Thrift Server that is not up yet."""
        deadline = asyncio.get_running_loop().time() + UPSTREAM_SECONDS
        warned = False
        while True:
            try:
                await self._spark.habits.ask(self._spark.short)
                self._service.sessions.shared.database = self._spark.habits.global_temporary
                if not self._take_over:
                    await self._views.fence.wait_for_other()
                await self._succeed(await self._views.fence.take())
                return await self._read_views()
            except UpstreamProtocolMismatch:
                raise
            except (UpstreamLost, SparkLost) as error:
                if asyncio.get_running_loop().time() > deadline:
                    raise
                if not warned:
                    warned = True
                    log.warning("waiting for Spark: %s", error)
                await asyncio.sleep(RETRY_SECONDS)

    async def _read_views(self) -> list[Leftover]:
        """Reads the catalog, or makes a draft of it the catalog."""
        if not self._views.loading.drafted:
            await self._recall()
        loading = self._views.loading
        drafted, leftovers = await (loading.believe() if loading.drafted else loading.load())
        self._views.settlement.review(drafted)
        return leftovers

    async def _recall(self) -> None:
        """Takes over the draft that was kept for this start, if there is one."""
        if (draft := await self._drafts.read()) is not None:
            await self._views.loading.recall(draft)

    async def _draft_again(self) -> None:
        await asyncio.sleep(DRAFT_SECONDS)
        await self._keep_draft()

    async def _keep_draft(self) -> None:
        """Keeps a draft of the views for the next start, if they have changed, and none of them is known by an earlier
        draft only."""
        views = self._views
        revision = views.catalog.revision
        if revision == self._drafted_at or not views.settlement.reviewed:
            return
        try:
            draft = await views.loading.sketch()
            # Otherwise the lists of names may be younger than the catalog.
            await views.fence.check()
        except FreshgateError as error:
            log.info("no draft of the views was kept for the next start: %s", error)
            return
        await self._drafts.write(draft)
        self._drafted_at = revision

    async def _succeed(self, before: Predecessor) -> None:
        """Leaves the gateway before the time that it needs. Raises Superseded if another one was started at the same
        moment."""
        if before is Predecessor.LOST:
            # Lets statements end that it had under way when it was killed or superseded.
            await asyncio.sleep(TAKING_OVER_SECONDS)
        if before in (Predecessor.LOST, Predecessor.YIELDED) and self._is_term:
            self._versions.janitor.hold(self._settings.limits.drain_seconds + STILL_READ_SECONDS)
        if self._is_term or (before is Predecessor.LOST and not self._take_over):
            await self._views.fence.check()

    def reload(self) -> None:
        """Loads certificates that were replaced. Other files are read again without being told to."""
        self._listener.renew_certificates()
        log.info(
            "read the certificates again, as told by SIGHUP. A changed users file and a renamed audit file are noticed "
            "without it; other settings take effect with a restart"
        )

    async def calm_down(self) -> None:
        """Begins no refresh by itself any more, and returns when nothing is under way that a hand-over would interrupt,
        or after QUIET_SECONDS."""
        await self._scheduling.scheduler.stop()
        await self._scheduling.paced.stop()
        for _ in range(round(QUIET_SECONDS / QUIET_LOOK_SECONDS)):
            if self._is_quiet and not self._views.catalog.writes:
                return
            await asyncio.sleep(QUIET_LOOK_SECONDS)

    @property
    def _is_quiet(self) -> bool:
        """Whether nothing of this gateway changes views."""
        tasks = self._refreshes.tasks
        return not (tasks.running or tasks.waiting or self._service.sessions.run_own())

    async def hand_over(self, acknowledged: Callable[[], Awaitable[None]]) -> None:
        """Ends what changes views, and gives the epoch up; clients' statements go on. If nothing had to be interrupted,
        the next gateway leads at once, otherwise it waits as for one that was killed.

        `acknowledged`: returns when the gateway that leads then knows that what a statement has written may have
        changed.
        """
        self._reporting.readiness.draining = self._service.sessions.stopping = True
        quiet = self._is_quiet
        try:
            async with asyncio.timeout(YIELDING_SECONDS):
                await self._end_changes()
        except TimeoutError:
            quiet = False
        quiet = quiet and self._is_quiet and not self._views.fence.changing
        self._views.fence.step_down("This gateway is being stopped, and another one leads. Connect again.")
        if self._service.leadership is not None:
            self._service.leadership.acknowledged = acknowledged
        self._yielded = True
        if self._service.loose is not None:
            self._service.loose.hand_over()
        if quiet:
            with contextlib.suppress(FreshgateError, TimeoutError):
                async with asyncio.timeout(TAKING_OVER_SECONDS):
                    await self._views.fence.hand_over()
        log.info("another gateway may lead now" if quiet else "another gateway may lead now: refreshes were cancelled")

    async def go_on_with(self, tickets: Sequence[bytes], pen: TicketKeeper) -> None:
        """Takes over the sessions of the leader before that belong to no connection."""
        if self._service.loose is not None:
            await self._service.loose.go_on_with(tickets, pen)

    async def heed(self) -> None:
        """What the gateway before has told ends now: whatever it has written counts as changed. Returns if this
        gateway leads; raises Superseded otherwise, or what Spark raises."""
        catalog = self._views.catalog
        catalog.news.touched.tell(catalog.tables())
        self._views.relations.forget_lists()
        self._views.schemas.forget_all()
        await self._views.fence.check()

    async def _end_changes(self) -> None:
        """Stops what changes views, or gives signs of life."""
        self._survey.cancel()
        await self._drafting.stop()
        await self._signs.stop()
        if self._spark.watch is not None:
            await self._spark.watch.loop.stop()
        if self._memory is not None:
            await self._memory.residency.stop()
        await self._scheduling.scheduler.stop()
        await self._scheduling.paced.stop()
        await self._refreshes.tasks.stop_all()
        await self._scheduling.pauses.stop()
        await self._views.confirmation.stop()
        await self._views.settlement.stop()
        await self._versions.janitor.loop.stop()

    async def drain(self) -> None:
        """Refuses new clients and statements; running statements may end. After a hand-over, clients are closed as soon
        as nothing of them runs."""
        self._reporting.readiness.draining = True
        self._service.sessions.stopping = True
        log.info("stopping when the running statements have ended; a second signal stops at once")
        # Spark may be down, and the next gateway determines that by itself.
        with contextlib.suppress(FreshgateError, TimeoutError):
            async with asyncio.timeout(TAKING_OVER_SECONDS):
                await self._views.fence.leave()
        seconds, busy = self._settings.limits.drain_seconds, self._service.sessions.busy
        await self._listener.drain(seconds, busy, dismiss=self._yielded)

    async def stop(self) -> None:
        """Closes clients, stops refreshes, and frees their sessions at Spark, all within STOP_SECONDS."""
        self._reporting.readiness.draining = True
        self._engine.leave()
        self._service.sessions.ending = True
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await self._leave_spark()
        except TimeoutError:
            log.warning(
                "Spark took longer than %g seconds to end the gateway's sessions: some may stay open there, and the "
                "next start drops what unfinished refreshes wrote",
                STOP_SECONDS,
            )
            for pool in self._spark.pools:
                pool.cut_off()
        self._service.sessions.abandon()
        if self._page is not None:
            await self._page.stop()
        await self._reporting.alarm.stop()
        if self._reporting.lineage is not None:
            await self._reporting.lineage.stop()
        if self._reporting.monitor is not None:
            await self._reporting.monitor.stop()
        if self._records.audit_file is not None:
            self._records.audit_file.close()

    async def _leave_spark(self) -> None:
        await self._listener.close()
        await self._service.background.finish(CLOSE_SECONDS)
        await self._service.router.close()
        await self._service.sessions.close()
        await self._service.sides.close()
        await self._spark.connector.servers.loop.stop()
        await self._end_changes()
        try:
            await self._versions.janitor.sweep()
            if self._served and not self._yielded:
                await self._keep_draft()
            if self._served or not self._is_term:
                # Otherwise a gateway before it may not yet know that it was superseded.
                await self._views.fence.release()
        except FreshgateError as error:
            log.info("could not drop all leftovers; the next start drops the rest: %s", error)
        await asyncio.gather(*(pool.close() for pool in self._spark.pools))
