"""Publishes a version: stores what it contains, and switches the public view to it.

Tests: `test_recomputed_values`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from gateway.errors import FreshgateError, RefreshFailed
from gateway.loops import in_thread
from gateway.mv.catalog import naming
from gateway.mv.catalog.fence import Fence
from gateway.mv.catalog.index import Catalog
from gateway.mv.catalog.settlement import Settlement
from gateway.mv.concurrency import beside
from gateway.mv.freshness.entry import Entry
from gateway.mv.model import properties as stored
from gateway.mv.model.contents import NEVER_BUILT, Basis, Contents
from gateway.mv.model.marks import Fold
from gateway.mv.model.view import Cause, Leftover, Manifest, MaterializedView, Task, TaskStatus, Version
from gateway.mv.observation.schemas import schemas_seen
from gateway.mv.observation.storage_looks import StorageLooks
from gateway.mv.ports import ServiceSessions, SqlSession
from gateway.mv.refresh.planner import Copied, Recomputed, RefreshPlan
from gateway.mv.refresh.preparation import Start
from gateway.mv.refresh.proposal import RefreshProposal
from gateway.mv.refresh.runs import Run
from gateway.mv.refresh.task_log import TaskLog
from gateway.mv.versions.janitor import Janitor
from gateway.mv.versions.version_numbers import VERSIONS_RESERVED
from sql.texts import maintenance
from sql.texts.storage_layout import PartitionKey, Shown

LATE_ROWS_SECONDS = 30.0
"""How long a cancelled INSERT may continue to write."""
LATE_SWITCH_SECONDS = 30.0
"""How long a switch may still be carried out after its connection broke."""


@dataclass(frozen=True, slots=True)
class Unpublished:
    """A version whose rows are written, and what is known about it."""

    run: Run
    start: Start
    proposal: RefreshProposal
    version: Version
    listed: float
    """When its files were listed, by the clock of looks."""

    @property
    def entry(self) -> Entry:
        return self.run.entry


@dataclass(frozen=True, slots=True)
class Laid:
    """Where the rows of a version that is written lie, with all that it shows."""

    manifest: Manifest
    shown: Shown
    files: Fold | None
    listed: float
    """As `Unpublished.listed`."""
    alone: bool
    """Whether no row of the current version is shown as well, or was used."""


class Unfit(RefreshFailed):
    """What was computed by rows, or for later refreshes by rows, is of no use: the view must be recomputed."""

    sqlstate = "40001"


class Publication:
    """The commit point of all refreshes."""

    def __init__(
        self,
        catalog: Catalog,
        settlement: Settlement,
        fence: Fence,
        janitor: Janitor,
        task_log: TaskLog,
        sessions: ServiceSessions,
        storages: StorageLooks,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._catalog = catalog
        self._settlement = settlement
        self._fence = fence
        self._janitor = janitor
        self._log = task_log
        self._sessions = sessions
        self._storages = storages
        self._now_ms = now_ms

    # --- publishing --------------------------------------------------------------------------------

    async def check(self) -> None:
        """Checks that this gateway may publish, so that `publish` need not if it follows at once. Raises Superseded."""
        await self._fence.check()

    async def laid(self, entry: Entry, plan: RefreshPlan, present: Sequence[tuple[int, PartitionKey]]) -> Laid:
        """Lists the files of the plan's version, after all its rows were written. Raises what Spark raises."""
        manifest, shown = await in_thread(len(present), lambda: (plan.manifest, plan.shown(present)))
        alone = plan.chosen.everything and isinstance(plan.source, Recomputed) and not plan.past
        began = self._storages.now()
        return Laid(manifest, shown, await self._storages.mark(entry, shown, alone=alone), began, alone)

    async def written(
        self, run: Run, start: Start, proposal: RefreshProposal, plan: RefreshPlan, laid: Laid, basis: Basis | None
    ) -> Unpublished:
        """The plan's version. Raises Unfit if stored rows that it shows as well, or was computed from, are damaged."""
        at, current = self._now_ms(), run.entry.view.current
        contents = await in_thread(proposal.partitions, proposal.contents, plan.version, basis)
        if run.entry.ledger.removed_since(start.contains):
            contents = contents.doubtful(plan.version)
        version = Version(
            plan.version, start.at, at, start.views, plan.method, laid.manifest, laid.shown, contents, current.number
        )
        computed_at = current.computed_at if proposal.partly or isinstance(plan.source, Copied) else start.at
        version = replace(
            version, read_as=proposal.view.refreshed_as, narrowed=proposal.narrowed, computed_at=computed_at
        )
        if run.entry.damage and not laid.alone:
            raise Unfit(f"The stored rows of {proposal.view.name}, which its refresh has used, are damaged.")
        return Unpublished(run, start, proposal, replace(version, files=laid.files), laid.listed)

    async def publish(self, written: Unpublished, session: SqlSession) -> None:
        """Publishes the version. Raises what Spark raises, and RefreshFailed if the view has changed since the refresh
        began."""
        entry = written.entry
        old = entry.view.current
        since = await self._publish(written, session)
        self._retire(entry.view, old, since)
        self._log.count(entry, written.run.number, written.version.number)
        self._catalog.news.published.tell(entry.view.id)

    async def _publish(self, written: Unpublished, session: SqlSession) -> int:
        """Returns the readers' moment from which on Spark may have shown the version."""
        entry, proposal, version = written.entry, written.proposal, written.version
        present = proposal.view
        async with entry.lock:
            await self._check(entry, present)
            # A concurrent ALTER may have changed everything else.
            reads = replace(present, schemas=schemas_seen(proposal.inspection.looks))
            view = entry.view.reading(reads)
            altered = view.deciding != present.deciding
            if altered:
                # The written rows are not what the view must contain now.
                version = replace(version, contents=Contents())
            reserved = version.number + VERSIONS_RESERVED
            ending = self._log.written(entry, written.run.number, version.number)
            properties = {
                **stored.write_bases(view),
                **await stored.version_written(version, reserved),
                **ending.properties,
            }
            # Both are calls to Spark, and readers of a stale view wait for them: run them concurrently.
            async with beside(self._settlement.check_unmoved(entry)):
                await session.run(maintenance.set_properties(view.storage, properties))
            # Storing may have taken long; another gateway may have taken over.
            await self._fence.check_lately()
            since = self._janitor.moment()
            await self._switch(entry, version.shown, session)
            staleness = self._catalog.staleness(view.id)
            entry.publish(
                version,
                reserved,
                contains=None if proposal.partly else written.start.contains,
                reads=reads,
                compared=proposal.inspection.began,
                altered=altered,
                examined=written.listed,
                missed=version.started_at if staleness is None else staleness.since,
            )
            self._log.succeed(entry, ending)
            return since

    async def _check(self, entry: Entry, present: MaterializedView) -> None:
        """Checks the view under the entry's lock. `present` is the view that was refreshed."""
        if self._catalog.find(present.id) is not entry:
            raise stopped(present)
        await self._fence.check_lately()
        if entry.doubtful:
            raise RefreshFailed(
                f"What {present.name} shows is unknown: a statement that changes it was interrupted during the "
                f"refresh. Refresh it again.",
                sqlstate="40001",
            )
        if entry.view.current.number != present.current.number:
            raise RefreshFailed(
                f"The materialized view {present.name} was emptied during the refresh. Refresh it again.",
                sqlstate="40001",
            )

    async def _switch(self, entry: Entry, shown: Shown, session: SqlSession) -> None:
        """The single call after which readers see the version."""
        try:
            await session.run(naming.publish(entry.view.name, entry.view, shown))
        except (FreshgateError, asyncio.CancelledError) as error:
            view = entry.view
            # Spark may still carry it out: a version that was published meanwhile would be replaced by this one.
            self._settlement.doubt(entry, error=error)
            number = entry.lose_switch()
            asyncio.get_running_loop().call_later(LATE_SWITCH_SECONDS, self._give_up, entry, number)
            if isinstance(error, FreshgateError) and await self._settlement.unmoved(view, view.current.number, error):
                entry.trust()
                entry.forget_switch(number)
            raise

    # --- emptying ----------------------------------------------------------------------------------

    async def empty(self, view_id: str, cause: Cause) -> None:
        """Removes the view's rows: it counts as never built. Raises what Spark raises."""
        entry = self._catalog.entry(view_id)
        number, task = self._log.begin(entry, cause)
        try:
            old = await self._empty(entry, number, task)
        except BaseException as error:  # Also on cancellation.
            self._log.fail(entry, number, TaskStatus.FAILED, str(error) or "it was stopped")
            raise
        self._retire(entry.view, old)

    async def _empty(self, entry: Entry, number: int, task: Task) -> Version:
        """Returns the version that was current before."""
        async with self._sessions.session() as session, entry.lock:
            await self._settlement.check_unmoved(entry)
            now = self._now_ms()
            old = entry.view.current
            version = Version.whole(NEVER_BUILT, now, now, {}, previous=old.number)
            contains, reserved = entry.ledger.events, entry.view.versions_reserved
            self._log.amend(entry, number, replace(task, reason="WITH NO DATA", started_at=now))
            ending = self._log.written(entry, number, NEVER_BUILT)
            properties = {**stored.write_version(version, reserved), **ending.properties}
            await session.run(maintenance.set_properties(entry.view.storage, properties))
            await self._fence.check_lately()
            await self._switch(entry, version.shown, session)
            entry.publish(version, reserved, contains=contains)
            self._log.succeed(entry, ending)
            return old

    # --- rows of unpublished versions --------------------------------------------------------------

    def discard(self, entry: Entry) -> None:
        """Has the janitor drop the rows that a failed refresh may have written.

        If they may have been published, this waits until the outcome is known and the switch can no longer happen.
        """
        if not entry.doubtful:
            self._strays(entry.view)

    def _give_up(self, entry: Entry, version: int | None) -> None:
        """Handles a switch that Spark can no longer carry out."""
        if entry.forget_switch(version):
            self._strays(entry.view)

    def _strays(self, view: MaterializedView) -> None:
        """Drops rows of unpublished versions. Spark may write the last of them after it was cancelled."""
        for seconds in (0.0, LATE_ROWS_SECONDS):
            self._janitor.retire(view.id, Leftover(view.storage, view.definition, whole=False), later_seconds=seconds)

    def _retire(self, view: MaterializedView, version: Version, since: int | None = None) -> None:
        """Retires a replaced version: no new read uses it. The next one may have been read from `since` on."""
        if version.number == NEVER_BUILT:
            return
        self._janitor.retire(view.id, Leftover(view.storage, view.definition, whole=False), version, since=since)


def stopped(view: MaterializedView) -> RefreshFailed:
    """The error for those who waited for the refresh of a view that no longer exists."""
    return RefreshFailed(
        f"The refresh of materialized view {view.name} was stopped, because the view was dropped or replaced. "
        f"Run the statement again."
    )
