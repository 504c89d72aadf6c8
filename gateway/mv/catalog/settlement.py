"""Resolves what is unknown about views by asking the metastore.

When the outcome of a statement is unknown, for example because a connection broke, only the metastore knows which
version a name shows, which settings are stored, or whether a view was created.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial

from gateway import loops
from gateway.errors import FreshgateError, NoSuchView, RefreshFailed, StatementFailed
from gateway.mv.catalog import discovery, naming
from gateway.mv.catalog.fence import Fence, Superseded
from gateway.mv.catalog.index import Catalog
from gateway.mv.freshness.entry import Entry
from gateway.mv.model import properties as stored
from gateway.mv.model.damage import NO_STORAGE, NO_VIEW, Damage, damaged
from gateway.mv.model.view import Leftover, MaterializedView
from gateway.mv.ports import Metastore
from sql.names import TableName
from sql.texts import maintenance

log = logging.getLogger(__name__)

PAUSE_SECONDS = 2.0
"""Between two questions: a Spark that is dying answers with errors before it is gone."""
PAUSE_SECONDS_MAX = 30.0

Restore = Callable[[Entry], Awaitable[bool]]
"""Restores a view that no name shows, under the lock of its entry. Returns whether it did."""


class Settlement:
    """Works in the background. A statement that needs a doubtful view sooner settles it itself."""

    def __init__(self, catalog: Catalog, metastore: Metastore, fence: Fence, restore: Restore) -> None:
        self._catalog = catalog
        self._metastore = metastore
        self._fence = fence
        self._restore = restore
        self._settling: dict[Entry, asyncio.Task[None]] = {}
        self._storing: dict[Entry, asyncio.Task[None]] = {}
        self._creating: dict[Entry, asyncio.Task[None]] = {}
        self._ending = asyncio.Event()

    # --- which version a name shows ----------------------------------------------------------------

    def doubt(self, *entries: Entry, error: BaseException | None = None) -> None:
        """The views count as stale until the metastore has told what their names show. Of two, the one that is to get a
        name comes before the one that has had it.

        `error`: how the statement ended that may have changed that. If it does not tell the outcome, Spark may still
        complete the statement a little later.
        """
        late = error is not None and (not isinstance(error, FreshgateError) or naming.is_untold(error))
        for entry in entries:
            entry.doubt(time.monotonic() + naming.LATE_SECONDS if late else None)
        new = [entry for entry in entries if (task := self._settling.get(entry)) is None or task.done()]
        if new:
            self._begin(self._settling, new, partial(self._settle_all, new))

    def refuse_doubtful(self, entry: Entry) -> None:
        """Under the entry's lock, before its name is changed: whoever has had the lock may have left a doubt. Raises
        RefreshFailed."""
        if entry.uncertain:
            raise RefreshFailed(
                f"Nobody knows what {entry.view.name} shows: another statement that changes it broke off. Try again in "
                f"some seconds.",
                sqlstate="40001",
            )

    async def settle(self, entry: Entry) -> None:
        """Asks the metastore what a doubtful view shows. If it is another version than before, the effect is that of a
        refresh.

        Raises NoSuchView if the view was dropped or replaced, RefreshFailed if it is about to be, and what the
        metastore raises.
        """
        while entry.uncertain:
            await asyncio.sleep(await self._seconds_early(entry))
            successor = None
            async with entry.lock:
                if not entry.uncertain:
                    return
                # What has had the lock before may have left another doubt.
                if not await self._seconds_early(entry):
                    successor = await self._settle(entry)
            if successor is not None:
                # Without the lock: an ALTER that concerns both takes their locks in an order of its own.
                with contextlib.suppress(NoSuchView):
                    await self.settle(successor)

    async def certain(self, name: TableName) -> MaterializedView | None:
        """The view that a name means, for who changes it. If that is unknown, the metastore is asked first.

        Raises what the metastore raises.
        """
        while (entry := self._catalog.entry_named(name)) is not None and entry.uncertain:
            try:
                await self.settle(entry)
            except NoSuchView:
                if self._catalog.entry_named(name) is entry:
                    raise
                # Taken out: the name means nothing now, or something damaged.
        return entry.view if entry else None

    async def verify_id(self, view_id: str) -> None:
        """As `verify`, for a view that may be gone."""
        if (entry := self._catalog.find(view_id)) is not None:
            await self.verify(entry)

    async def verify(self, entry: Entry) -> None:
        """Doubts a view of which the metastore shows another version than the catalog: somebody else has changed it.

        Raises what the metastore raises.
        """
        view = entry.view
        if entry.uncertain or entry.lock.locked():
            return
        if await self._published(view) == view.current.number:
            return
        # Once more, while nobody here changes it.
        async with entry.lock:
            if self._catalog.find(view.id) is not entry or entry.uncertain or not entry.visible:
                return
            current = entry.view.current.number
            published = await self._published(entry.view)
        if published == current:
            return
        self.doubt(entry)
        if published is not None:
            log.warning("%s shows version %d, not %d: something else changed it", view.name, published, current)
            return
        # Damage, or the end of a statement that gave its name to another view. No read goes on before that is known.
        with contextlib.suppress(NoSuchView):
            await self.settle(entry)

    async def look(self, entry: Entry) -> None:
        """As `verify`, beside a look at the base tables. Never raises."""
        if self._fence.lost is not None:
            return
        try:
            await asyncio.gather(self._fence.check(), self.verify(entry))
        except Superseded:
            # The fence has said so, once: no view looks fresh from now on.
            return
        except FreshgateError as error:
            log.warning("cannot tell which version of %s is shown: %s", entry.view.name, error)

    async def check_unmoved(self, entry: Entry) -> None:
        """Checks that nobody else has published since the version that is current in memory, or serves this metastore
        now. Raises RefreshFailed, Superseded."""
        view = entry.view
        _, published = await asyncio.gather(self._fence.check(), self._published(view))
        if published != view.current.number:
            # Somebody else's doing: the metastore tells what is current before the next refresh begins.
            self.doubt(entry)
            shown = "nothing of it any more" if published is None else f"its version {published}"
            raise RefreshFailed(
                f"{view.name} shows {shown}, not version {view.current.number}, from which this refresh began: "
                f"something else than this gateway has changed it. Only one gateway may serve a metastore.",
                sqlstate="40001",
            )

    async def unmoved(self, view: MaterializedView, version: int | None, error: FreshgateError) -> bool:
        """Whether the public view surely shows this version, as before the statement that ended with `error`. None: it
        was not to show the view's storage before."""
        return await naming.unmoved(self._metastore, view, version, error)

    async def find_damage(self, entry: Entry) -> str | None:
        """What a refresh that did not find something says if a part of the view itself is missing.

        Without its storage the view is no more; without its definition its rows can still be read.
        """
        view = entry.view
        present = await self._metastore.tables(view.storage.database)
        if view.storage.table not in present:
            self._catalog.report_damage(entry, NO_STORAGE)
            return str(damaged(Damage(view.name, view.storage, view.owner, NO_STORAGE)))
        if view.definition.table not in present:
            return (
                f"The definition of materialized view {view.name} was dropped outside the gateway; version "
                f"{view.current.number} stays published. Create the view again with CREATE OR REPLACE: "
                f"SHOW CREATE MATERIALIZED VIEW {view.name} has the text."
            )
        return None

    async def _published(self, view: MaterializedView) -> int | None:
        return await naming.published(self._metastore, view.name, view.storage)

    async def _seconds_early(self, entry: Entry) -> float:
        """In how many seconds what the name shows will stay so. A change that can be seen already is not waited for."""
        left = entry.late_until - time.monotonic()
        if left <= 0 or await self._published(entry.view) is None:
            return 0.0
        return left

    async def _settle(self, entry: Entry) -> Entry | None:
        """Under the entry's lock. Returns the view that has taken this one's name if that is in doubt, too, and is to
        be settled first: until it has the name, there would be no view under it."""
        self._catalog.entry(entry.view.id)
        before = entry.view
        found = await self._stored(entry)
        await self._fence.check()
        shown = await naming.settled(self._metastore, found, entry.view.storage)
        if shown is None and await self._restore(entry):
            shown = await naming.settled(self._metastore, found, entry.view.storage)
        self._catalog.entry(entry.view.id)
        if shown is None:
            taken = stored.read_name(found)
            successor = self._catalog.find(await naming.shown_as(self._metastore, taken) or "")
            if successor is not None and successor.visible and successor.uncertain and successor.view.name != taken:
                return successor
            raise await self._unshown(entry, found, successor)
        if not stored.was_published(found):
            # A DROP was cut off before the view was dropped.
            await naming.mark_published(self._metastore, entry.view.storage)
        name, version = shown
        view = await stored.view_read(found, entry.view.storage, entry.view.definition, version)
        self._catalog.entry(view.id)
        if name != entry.view.name:
            self._trade_names(entry, name)
        entry.settle(view)
        leftover, news = Leftover(view.storage, view.definition, whole=False), self._catalog.news
        if version != before.current.number:
            if before.built:
                news.leftover.tell(view.id, leftover, before.current)
            if view.built:
                news.published.tell(view.id)
        # While nobody knew what is current nothing of it could be dropped.
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
        """The metastore shows the view under this name. Until the one that has had it is settled, too, that has
        the other name: reads of a name without a view would be forwarded, and nothing refreshed."""
        moved = {name: entry}
        other = self._catalog.entry_named(name)
        if other is not None and other is not entry:
            self.doubt(other)
            moved[entry.view.name] = other
        self._catalog.rename(moved)

    async def _unshown(self, entry: Entry, properties: Mapping[str, str], successor: Entry | None) -> FreshgateError:
        """Takes out a view that no name shows: it was replaced or dropped, or somebody has damaged it. One whose
        successor is not visible yet stays until that is: under the name there would be no view meanwhile."""
        name = stored.read_name(properties)
        if successor is not None and not successor.visible:
            return RefreshFailed(
                f"The materialized view {name} is being replaced, by a statement whose connection broke. Try again in "
                f"some seconds.",
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
        """Writes the settings and the job of a view once more as they are, after a statement that was to store others
        ended with `error`. If Spark may still carry that out, waits for it first."""
        if (before := self._storing.get(entry)) is not None:
            before.cancel()
        seconds = naming.LATE_SECONDS if naming.is_untold(error) else 0.0
        self._begin(self._storing, [entry], partial(self._store, entry, seconds))

    def find_created(self, entry: Entry, found: Callable[[bool], Awaitable[None]]) -> None:
        """Finds out whether the public view of a reserved view was created, and calls `found` with that."""
        work = partial(self._find_created, entry, found)
        self._begin(self._creating, [entry], partial(self._until_done, entry, work))

    async def stop(self) -> None:
        """What is still in doubt is found out by the next start. Settings are written at once, or not."""
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

    async def _settle_all(self, entries: Iterable[Entry]) -> None:
        """Until none of the views is in doubt, one after another."""
        while not self._ending.is_set() and (doubtful := [entry for entry in entries if self._is_doubtful(entry)]):
            for entry in doubtful:
                await self._until_done(entry, partial(self.settle, entry))
                if self._is_doubtful(entry):  # again
                    await asyncio.sleep(PAUSE_SECONDS)

    def _is_doubtful(self, entry: Entry) -> bool:
        return entry.uncertain and self._catalog.find(entry.view.id) is entry

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
            # Spark may still be about to create it, and then the name would show rows that are gone.
            await asyncio.sleep(naming.LATE_SECONDS)
            created = await self._published(entry.view) is not None
        await found(created)

    async def _until_done(self, entry: Entry, work: Callable[[], Awaitable[None]]) -> None:
        unknown = f"cannot tell yet what became of {entry.view.name}"
        back_off = loops.BackOff(unknown, PAUSE_SECONDS, PAUSE_SECONDS_MAX)
        while self._catalog.find(entry.view.id) is entry:
            try:
                await work()
                return
            except NoSuchView as error:
                # Another one has its name by now; or it is damaged, which the log has.
                log.info("%s", error)
                return
            except Superseded:
                raise  # Another gateway serves the views now, and finds it out.
            except Exception as error:  # a fault of ours, too, must not leave the view in doubt for ever
                back_off.note(error)
            if self._ending.is_set():
                return
            await back_off.pause()
