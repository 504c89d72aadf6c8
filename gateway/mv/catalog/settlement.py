"""Resolves what is unknown about views by asking the metastore.

When the outcome of a statement is unknown, for example because a connection broke, only the metastore knows which
version a name shows, which settings are stored, or whether a view was created.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from weakref import WeakKeyDictionary

from gateway import loops
from gateway.errors import FreshgateError, NoSuchView, RefreshFailed, StatementFailed
from gateway.mv.catalog import described, discovery, naming
from gateway.mv.catalog.fence import Fence, Superseded
from gateway.mv.catalog.index import Catalog
from gateway.mv.concurrency import SharedRuns
from gateway.mv.freshness.entry import Entry
from gateway.mv.model import properties as stored
from gateway.mv.model.damage import NO_STORAGE, NO_VIEW, Damage, damaged
from gateway.mv.model.history import History
from gateway.mv.model.read_counts import ReadCounts
from gateway.mv.model.view import Leftover, MaterializedView
from gateway.mv.ports import Metastore
from sql.names import TableName
from sql.texts import maintenance, public_view

log = logging.getLogger(__name__)

PAUSE_SECONDS = 2.0
"""The pause between two attempts: a Spark that is crashing answers with errors before it is gone."""
PAUSE_SECONDS_MAX = 30.0

REVIEWED_TOGETHER = 25
"""How many views of a draft are described together: a read of one of them waits for that, a fifth of a second."""

Restore = Callable[[Entry, str], Awaitable[bool]]
"""As `Restoration.restore`, under the lock of the entry."""


class Settlement:
    """Works in the background. A statement that needs a doubtful view sooner resolves it itself."""

    def __init__(self, catalog: Catalog, metastore: Metastore, fence: Fence, restore: Restore) -> None:
        self._catalog = catalog
        self._metastore = metastore
        self._fence = fence
        self._restore = restore
        self._settling: dict[Entry, asyncio.Task[None]] = {}
        self._storing: dict[Entry, asyncio.Task[None]] = {}
        self._creating: dict[Entry, asyncio.Task[None]] = {}
        self._created: WeakKeyDictionary[Entry, str] = WeakKeyDictionary()
        """When the public views were created that were last seen with their published texts."""
        self._ending = asyncio.Event()
        self._looks = SharedRuns(self._look)

    # --- which version a name shows ----------------------------------------------------------------

    def doubt(self, *entries: Entry, error: BaseException | None = None) -> None:
        """Marks views as doubtful: they count as stale until the metastore has shown what their names mean. If one
        view takes the name of another, pass it first.

        `error`: how the statement that may have changed this ended. If the outcome is unknown, Spark may still complete
        the statement later.
        """
        late = error is not None and (not isinstance(error, FreshgateError) or naming.is_unknown(error))
        for entry in entries:
            entry.doubt(time.monotonic() + naming.LATE_SECONDS if late else None)
        new = [entry for entry in entries if (task := self._settling.get(entry)) is None or task.done()]
        if new:
            self._begin(self._settling, new, partial(self._settle_all, new))

    def refuse_doubtful(self, entry: Entry) -> None:
        """Raises RefreshFailed if the view is doubtful. Call it under the entry's lock, before the name is changed:
        the previous holder of the lock may have left the view doubtful."""
        if entry.doubtful:
            raise RefreshFailed(
                f"What {entry.view.name} shows is unknown: another statement that changes it was interrupted. Try "
                f"again in a few seconds.",
                sqlstate="40001",
            )

    async def settle(self, entry: Entry) -> None:
        """Asks the metastore what a doubtful view shows. If it is another version than before, this has the effects
        of a refresh.

        Raises NoSuchView if the view was dropped or replaced, RefreshFailed if it is about to be replaced, and what the
        metastore raises.
        """
        while entry.doubtful:
            await asyncio.sleep(await self._seconds_early(entry))
            successor = None
            async with entry.lock:
                if not entry.doubtful:
                    return
                # The previous holder of the lock may have left a new doubt.
                if not await self._seconds_early(entry):
                    successor = await self._settle(entry)
            if successor is not None:
                # Without the lock: an ALTER of both views takes their locks in another order.
                with contextlib.suppress(NoSuchView):
                    await self.settle(successor)

    async def certain(self, name: TableName) -> MaterializedView | None:
        """The view that a name means, for a caller that changes it. If that is unknown, asks the metastore first.

        Raises what the metastore raises.
        """
        while (entry := self._catalog.entry_named(name)) is not None and entry.doubtful:
            try:
                await self.settle(entry)
            except NoSuchView:
                if self._catalog.entry_named(name) is entry:
                    raise
                # The view was removed: the name has no view now, or a damaged one.
        return entry.view if entry else None

    async def verify_id(self, view_id: str) -> None:
        """As `verify`, for a view that may no longer exist."""
        if (entry := self._catalog.find(view_id)) is not None:
            await self.verify(entry)

    async def verify(self, entry: Entry) -> None:
        """Marks a view as doubtful if the metastore shows another version than the catalog: something else has changed
        it. Restores one that shows its version with another text, or whose text was altered to show no version.

        Raises what the metastore raises.
        """
        view = entry.view
        if entry.doubtful or entry.lock.locked():
            return
        if await self._is_right(entry, view):
            return
        # Check again under the lock, while this gateway does not change the view.
        async with entry.lock:
            if self._catalog.find(view.id) is not entry or entry.doubtful or not entry.visible:
                return
            current = entry.view.current.number
            if await self._is_right(entry, entry.view):
                return
            published = await self._published(entry.view)
            if published == current:
                await self._fence.check()
                await self._restore(entry, "")
                return
        self.doubt(entry)
        if published is not None:
            log.warning(
                "%s shows version %d, not %d: it was changed outside this gateway", view.name, published, current
            )
            return
        # Either damage, or the end of a statement that gave the name to another view. Reads must wait for the answer.
        with contextlib.suppress(NoSuchView):
            await self.settle(entry)

    async def _is_right(self, entry: Entry, view: MaterializedView) -> bool:
        """Whether the public view has the text with which it was published."""
        relation = await self._metastore.relation(view.name)
        if relation is None or not public_view.shows(relation.view_text, view.published_text):
            return False
        self._created[entry] = relation.created
        return True

    async def look(self, entry: Entry) -> None:
        """As `verify`, together with an observation of the base tables. One look serves all readers that came before
        it. Never raises."""
        if self._fence.lost is None:
            await self._looks.run(entry)

    async def _look(self, entry: Entry) -> None:
        try:
            await asyncio.gather(self._fence.check(), self.verify(entry))
        except Superseded:
            # The fence has logged it. From now on no view counts as fresh.
            return
        except FreshgateError as error:
            log.warning("cannot determine which version of %s is shown: %s", entry.view.name, error)

    async def confirm(self, entry: Entry) -> None:
        """As `verify`, after a check that this gateway may still change the view. Raises Superseded, and what the
        metastore raises."""
        await self._fence.check()
        await self.verify(entry)

    async def check_unmoved(self, entry: Entry) -> None:
        """Checks that the current version is still the published one, and that no other gateway serves this metastore.
        Raises RefreshFailed, Superseded."""
        view = entry.view
        _, published = await asyncio.gather(self._fence.check(), self._published(view))
        if published != view.current.number:
            # Changed elsewhere: the metastore tells what is current before the next refresh begins.
            self.doubt(entry)
            shown = "no version of it" if published is None else f"its version {published}"
            raise RefreshFailed(
                f"{view.name} shows {shown}, not version {view.current.number}, from which this refresh began: it was "
                f"changed outside this gateway. Only one gateway may serve a metastore; stop the others, then run the "
                f"refresh again.",
                sqlstate="40001",
            )

    async def unmoved(self, view: MaterializedView, version: int | None, error: FreshgateError) -> bool:
        """Whether the public view certainly still shows this version after a statement failed with `error`. None: it
        did not show the view's storage table before."""
        return await naming.unmoved(self._metastore, view, version, error)

    async def misses_storage(self, view: MaterializedView) -> bool:
        """Whether the view's storage table is certainly gone. Never raises."""
        try:
            await self._fence.check()
            return view.storage.table not in await self._metastore.tables(view.storage.database)
        except FreshgateError:
            return False

    async def find_damage(self, entry: Entry) -> str | None:
        """The message for a refresh that failed because a part of the view itself is missing; None if none is.

        Without its storage table, the view is lost. Without its definition, its rows can still be read.
        """
        view = entry.view
        present = await self._metastore.tables(view.storage.database)
        if view.storage.table not in present:
            self._catalog.report_damage(entry, NO_STORAGE)
            return str(damaged(Damage(view.name, view.storage, view.owner, NO_STORAGE)))
        if view.definition.table not in present:
            return (
                f"The definition of materialized view {view.name} was dropped outside the gateway; version "
                f"{view.current.number} stays published. Create the view again with CREATE OR REPLACE; "
                f"SHOW CREATE MATERIALIZED VIEW {view.name} shows the text."
            )
        return None

    async def _published(self, view: MaterializedView) -> int | None:
        return await naming.published(self._metastore, view.name, view.storage)

    async def _seconds_early(self, entry: Entry) -> float:
        """How many seconds to wait until what the name shows is final. Zero if a change is already visible."""
        left = entry.late_until - time.monotonic()
        if left <= 0 or await self._published(entry.view) != entry.view.current.number:
            return 0.0
        return left

    async def _settle(self, entry: Entry) -> Entry | None:
        """Resolves the view under the entry's lock. Returns the view that has taken its name if that one is doubtful
        as well and must be resolved first: until it has the name, the name would have no view."""
        self._catalog.entry(entry.view.id)
        before = entry.view
        found = await self._stored(entry)
        await self._fence.check()
        shown = await naming.settled(self._metastore, found, entry.view.storage)
        if shown is None and await self._restore(entry, self._created.get(entry, "")):
            shown = await naming.settled(self._metastore, found, entry.view.storage)
        self._catalog.entry(entry.view.id)
        if shown is None:
            taken = stored.read_name(found)
            successor = self._catalog.find(await naming.shown_as(self._metastore, taken) or "")
            if successor is not None and successor.visible and successor.doubtful and successor.view.name != taken:
                return successor
            raise await self._unshown(entry, found, successor)
        if not stored.was_published(found):
            # A DROP was interrupted before it dropped the view.
            await naming.mark_published(self._metastore, entry.view.storage)
        name, version = shown
        if entry.drafted:
            await self._settle_drafted(entry, found, name, version)
            return None
        view = await stored.view_read(found, entry.view.storage, entry.view.definition, version)
        self._catalog.entry(view.id)
        if name != entry.view.name:
            self._trade_names(entry, name)
        self._catalog.settle_names(entry)
        entry.settle(view)
        leftover, news = Leftover(view.storage, view.definition, whole=False), self._catalog.news
        if version != before.current.number:
            if before.built:
                news.leftover.tell(view.id, leftover, before.current)
            if view.built:
                news.published.tell(view.id)
        # While the current version was unknown, nothing could be dropped.
        news.leftover.tell(view.id, leftover, None)
        return None

    async def _stored(self, entry: Entry) -> Mapping[str, str]:
        """The view's properties. Raises NoSuchView if its storage is gone."""
        try:
            return await self._metastore.properties(entry.view.storage)
        except StatementFailed:
            await self.find_damage(entry)
            self._catalog.entry(entry.view.id)
            raise

    def _trade_names(self, entry: Entry, name: TableName) -> None:
        """Renames the view as the metastore shows it. Until the view that had this name is resolved as well, it gets
        the other name: reads of a name without a view would be forwarded without a refresh."""
        moved = {name: entry}
        other = self._catalog.entry_named(name)
        if other is not None and other is not entry:
            self.doubt(other)
            moved[entry.view.name] = other
        self._catalog.rename(moved)

    async def _unshown(self, entry: Entry, properties: Mapping[str, str], successor: Entry | None) -> FreshgateError:
        """Removes a view that no name shows: it was replaced, dropped or damaged. If its successor is not visible yet,
        the view is kept until then, so that the name is never without a view."""
        name = stored.read_name(properties)
        if successor is not None and not successor.visible:
            return RefreshFailed(
                f"The materialized view {name} is being replaced by a statement whose connection broke. Try again in a "
                f"few seconds.",
                sqlstate="40001",
            )
        finding = await discovery.without_view(self._metastore, name, entry.view.storage, properties)
        if finding.damage is None:
            self._catalog.remove(entry)
            if finding.leftover is not None:
                self._catalog.news.leftover.tell(entry.view.id, finding.leftover, None)
            return NoSuchView(f"The materialized view {entry.view.name} was dropped.")
        self._catalog.report_damage(entry, NO_VIEW)
        return damaged(finding.damage)

    # --- in the background -------------------------------------------------------------------------

    def store(self, entry: Entry, error: FreshgateError) -> None:
        """Stores the current settings and job of a view again, after a statement that was to store others failed with
        `error`. If Spark may still carry that statement out, waits first."""
        if (before := self._storing.get(entry)) is not None:
            before.cancel()
        seconds = naming.LATE_SECONDS if naming.is_unknown(error) else 0.0
        self._begin(self._storing, [entry], partial(self._store, entry, seconds))

    def find_created(self, entry: Entry, found: Callable[[bool], Awaitable[None]]) -> None:
        """Determines whether the public view of a reserved view was created, and calls `found` with the answer."""
        work = partial(self._find_created, entry, found)
        self._begin(self._creating, [entry], partial(self._until_done, entry, work))

    async def stop(self) -> None:
        """Stops. Views that are still doubtful are resolved at the next start. Pending settings get one last
        attempt."""
        self._ending.set()
        asking = [*self._settling.values(), *self._creating.values()]
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, *self._storing.values(), return_exceptions=True)

    def _begin(
        self, tasks: dict[Entry, asyncio.Task[None]], entries: Iterable[Entry], work: Callable[[], Awaitable[None]]
    ) -> None:
        def ended(task: asyncio.Task[None]) -> None:
            for entry in [entry for entry in tasks if tasks[entry] is task]:
                del tasks[entry]

        async def unless_superseded() -> None:
            with contextlib.suppress(Superseded):
                await work()

        task = asyncio.create_task(unless_superseded(), name="settlement")
        tasks.update(dict.fromkeys(entries, task))
        task.add_done_callback(ended)

    # --- drafts ------------------------------------------------------------------------------------

    def review(self, entries: Sequence[Entry]) -> None:
        """Marks views of a draft: they are doubtful, and all else that is known of them may be outdated, until the
        metastore has been asked. That is done in the background, for many views at a time."""
        for entry in entries:
            entry.distrust()
        self._catalog.drafts = {entry.view.id: entry for entry in entries}
        if entries:
            self._begin(self._settling, entries, partial(self._review, entries))

    @property
    def reviewed(self) -> bool:
        """Whether no view is known only by a draft."""
        for view_id in [each for each, entry in self._catalog.drafts.items() if not self._is_drafted(entry)]:
            del self._catalog.drafts[view_id]
        return not self._catalog.drafts

    def _is_drafted(self, entry: Entry) -> bool:
        return entry.drafted and self._catalog.find(entry.view.id) is entry

    async def _review(self, entries: Sequence[Entry]) -> None:
        """Describes the views. One that is not as it should be, or in use, is settled by itself."""
        began = time.monotonic()
        for some in described.pieces(entries, REVIEWED_TOGETHER):
            if self._ending.is_set():
                return
            try:
                await self._review_together([entry for entry in some if self._is_drafted(entry)])
            except FreshgateError as error:
                if isinstance(error, Superseded):
                    raise
                log.info("%d views cannot be described together: %s", len(some), error)
        await self._settle_all(entries)
        if self.reviewed:
            log.info(
                "%d materialized views of a draft were described in %.1f s", len(entries), time.monotonic() - began
            )

    async def _review_together(self, entries: Iterable[Entry]) -> None:
        """Takes over what the metastore says of the views that are as they should be. Holds their locks meanwhile."""
        free = [each for each in entries if not each.lock.locked() and described.is_plain(each.view.storage.table)]
        async with contextlib.AsyncExitStack() as locks:
            for entry in free:
                await locks.enter_async_context(entry.lock)
            tables = [entry.view.storage.table for entry in free]
            known = await described.named_storages(self._metastore, self._catalog.storage_database, tables)
            await self._fence.check()
            texts = await described.view_texts(self._metastore, {name for name, _ in known.values()})
            for entry in free:
                name, properties = known.get(entry.view.storage.table, (None, {}))
                if name == entry.view.name and self._is_drafted(entry):
                    found = await discovery.of_described(properties, entry.view.storage, texts.get(name, ""))
                    if found is not None:
                        self._take_over(entry, found)

    async def _settle_drafted(self, entry: Entry, properties: Mapping[str, str], name: TableName, version: int) -> None:
        """Takes over what is stored of a view that is shown under this name, in this version. Needs the lock."""
        storage = entry.view.storage
        try:
            found = await discovery.shown_as(properties, storage, name, version)
        except stored.UnreadableProperties as error:
            damage = discovery.unreadable(properties, storage, error)
            self._catalog.add_damage(damage)
            self._catalog.remove(entry)
            raise damaged(damage) from error
        self._catalog.entry(entry.view.id)
        if name != entry.view.name:
            self._trade_names(entry, name)
        self._take_over(entry, found)

    def _take_over(self, entry: Entry, found: discovery.Finding) -> None:
        """Replaces what a draft says of a view. Needs the lock."""
        if found.view is None:
            return
        self._catalog.settle_names(entry)
        history = History.of_stored(found.properties, found.view.current.number)
        entry.settle(found.view, history, ReadCounts.of_stored(found.properties))
        if found.leftover is not None:
            self._catalog.news.replaced.tell(found.leftover, found.view.current)

    # -----------------------------------------------------------------------------------------------

    async def _settle_all(self, entries: Iterable[Entry]) -> None:
        """Resolves the views one after another until none is doubtful."""
        while not self._ending.is_set() and (doubtful := [entry for entry in entries if self._is_doubtful(entry)]):
            for entry in doubtful:
                await self._until_done(entry, partial(self.settle, entry))
                if self._is_doubtful(entry):  # It has become doubtful again.
                    await asyncio.sleep(PAUSE_SECONDS)

    def _is_doubtful(self, entry: Entry) -> bool:
        return entry.doubtful and self._catalog.find(entry.view.id) is entry

    async def _store(self, entry: Entry, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._ending.wait(), seconds)
        await self._until_done(entry, partial(self._write, entry))

    async def _write(self, entry: Entry) -> None:
        async with entry.lock:
            await self._fence.check()
            view = entry.view
            if self._catalog.find(view.id) is entry:
                properties = {**stored.write_settings(view), **stored.write_job(view)}
                await self._metastore.run(maintenance.set_properties(view.storage, properties))

    async def _find_created(self, entry: Entry, found: Callable[[bool], Awaitable[None]]) -> None:
        created = await self._published(entry.view) is not None
        if not created:
            # Spark may still be about to create it; then the name would show rows that are gone.
            await asyncio.sleep(naming.LATE_SECONDS)
            created = await self._published(entry.view) is not None
        await found(created)

    async def _until_done(self, entry: Entry, work: Callable[[], Awaitable[None]]) -> None:
        unknown = f"cannot determine yet the state of {entry.view.name}"
        back_off = loops.BackOff(unknown, PAUSE_SECONDS, PAUSE_SECONDS_MAX)
        while self._catalog.find(entry.view.id) is entry:
            try:
                await work()
                return
            except NoSuchView as error:
                # Another view has its name by now, or it is damaged, which is in the log.
                log.info("%s", error)
                return
            except Superseded:
                raise  # The other gateway serves the views now and resolves it.
            except Exception as error:  # Not even a bug may leave the view doubtful for ever.
                back_off.note(error)
            if self._ending.is_set():
                return
            await back_off.pause()
