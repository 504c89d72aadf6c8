"""Publishes a new view, either under a new name or in place of another view."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial

from gateway.errors import FreshgateError
from gateway.mv.catalog import naming
from gateway.mv.catalog.fence import Fence
from gateway.mv.catalog.index import Catalog
from gateway.mv.catalog.settlement import Settlement
from gateway.mv.freshness.entry import Entry
from gateway.mv.jobs.jobs import RefreshJobs
from gateway.mv.model import properties as stored
from gateway.mv.model.view import Leftover, MaterializedView
from gateway.mv.ports import Metastore
from gateway.mv.refresh.publication import LATE_SWITCH_SECONDS
from gateway.mv.refresh.tasks import Tasks
from gateway.mv.statements.dropping import Dropping
from gateway.mv.statements.rights import Caller
from gateway.mv.versions.readers import Readers
from sql.texts import maintenance

log = logging.getLogger(__name__)

Run = Callable[[str], Awaitable[object]]
"""Runs a statement."""


class Introduction:
    """Publishes views after CREATE has built them or left that to the first refresh."""

    def __init__(
        self,
        catalog: Catalog,
        settlement: Settlement,
        metastore: Metastore,
        fence: Fence,
        readers: Readers,
        tasks: Tasks,
        jobs: RefreshJobs,
        dropping: Dropping,
    ) -> None:
        self._catalog = catalog
        self._settlement = settlement
        self._metastore = metastore
        self._fence = fence
        self._readers = readers
        self._tasks = tasks
        self._jobs = jobs
        self._dropping = dropping

    async def publish(self, entry: Entry, caller: Caller) -> None:
        """The commit point: one metastore call that creates the public view or changes the one of the replaced view."""
        view = entry.view
        try:
            await self._fence.check()
            old = await self._settlement.certain(view.name)
            if view.name in self._catalog.damaged:
                await self._dropping.drop_damaged(view.name, caller)
            await self._fence.check_lately()
            if old is None:
                await caller.session.run(naming.create_public(view))
                self._show(entry)
            else:
                await self._publish_over(self._catalog.entry(old.id), entry, caller)
        except BaseException as error:  # Also on cancellation, when the gateway stops.
            if entry.visible:
                pass  # A visible view is never taken apart.
            elif isinstance(error, FreshgateError) and not await self._settlement.unmoved(view, None, error):
                # It may have been created. Until the metastore tells, the view stays reserved and writes are noted.
                self._settlement.find_created(entry, partial(self._found, entry))
            else:
                await self._dropping.abandon(view.storage, entry)
            raise
        async with entry.lock:
            await naming.mark_published(self._metastore, view.storage)

    async def _publish_over(self, old: Entry, entry: Entry, caller: Caller) -> None:
        view = entry.view
        # A refresh of the old view that is about to publish must find that the view was replaced.
        async with old.lock, self._readers.held([old.view.id]):
            try:
                await caller.session.run(naming.publish(view.name, view, view.current.shown))
            except BaseException as error:  # Also on cancellation, when the gateway stops.
                # Before reads continue: they must not rely on what the name may no longer show.
                self._settlement.doubt(old, error=error)
                number = old.view.current.number
                if isinstance(error, FreshgateError) and await self._settlement.unmoved(old.view, number, error):
                    old.trust()
                raise
            self._show(entry)
        await self._succeed(old, view, caller.session.run)

    async def _succeed(self, old: Entry, view: MaterializedView, run: Run) -> None:
        """Completes the replacement of a view."""
        await self._tasks.stop(old.view.id)
        gone = old.view.properties.keys() - view.properties.keys()
        try:
            # The old storage table is a leftover now, not damage.
            await self._metastore.run(maintenance.unset_properties(old.view.storage, stored.published_keys()))
            if gone:
                await run(maintenance.unset_view_properties(view.name, sorted(gone)))
            await run(maintenance.set_view_properties(view.name, view.properties, view.comment))
        except FreshgateError as error:
            log.warning("%s was replaced, but still has its old properties: %s", view.name, error)

    def _show(self, entry: Entry) -> Entry | None:
        """Makes the view visible. Returns the view that it replaces, if any; readers of that one keep it until they
        are done."""
        old, news = self._catalog.show(entry), self._catalog.news
        news.moved.tell([entry.view.name])
        if old is not None:
            self._leave(old)
            news.stale.tell(self._catalog.above(old.view.id), str(entry.view.name))
        if entry.view.built and self._catalog.is_stale(entry.view.id):
            news.stale.tell([entry.view.id], "a write while it was created")
        self._jobs.sooner.set()
        return old

    def _leave(self, old: Entry) -> None:
        """Has what is left of a replaced view dropped; not before a lost switch of it can no longer happen, which would
        make the view show its storage table once more."""
        leftover = Leftover(old.view.storage, old.view.definition)
        tell = partial(self._catalog.news.leftover.tell, old.view.id, leftover, None)
        if old.may_switch:
            asyncio.get_running_loop().call_later(LATE_SWITCH_SECONDS, tell)
        else:
            tell()

    async def _found(self, entry: Entry, created: bool) -> None:
        """Continues after a lost connection, when the metastore has told whether the public view was created."""
        view = entry.view
        if not created:
            await self._dropping.abandon(view.storage, entry)
            return
        if not entry.visible and (old := self._show(entry)) is not None:
            await self._succeed(old, view, self._metastore.run)
        async with entry.lock:
            await naming.mark_published(self._metastore, view.storage)
