"""What nobody heard the end of is made certain when the metastore answers: what a name shows, and what is stored."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterable
from functools import partial

from gateway.errors import FreshgateError, NoSuchView
from gateway.mv.catalog import naming
from gateway.mv.catalog.fence import Fence, Superseded
from gateway.mv.catalog.index import Catalog
from gateway.mv.freshness.entry import Entry
from gateway.mv.model import properties as stored
from gateway.mv.ports import Metastore
from sql.texts import maintenance

log = logging.getLogger(__name__)

PAUSE_SECONDS = 2.0
"""Between two questions: a Spark that is dying answers with errors before it is gone."""
PAUSE_SECONDS_MAX = 30.0


class Settlement:
    """Works in the background. A statement that needs a view in doubt sooner settles it itself."""

    def __init__(self, catalog: Catalog, metastore: Metastore, fence: Fence) -> None:
        self._catalog = catalog
        self._metastore = metastore
        self._fence = fence
        self._settling: dict[Entry, asyncio.Task[None]] = {}
        self._storing: dict[Entry, asyncio.Task[None]] = {}
        self._ending = asyncio.Event()
        catalog.on_doubt = self.settle
        catalog.on_unstored = self.store

    def settle(self, entries: Iterable[Entry]) -> None:
        """Asks what the views' names show, until none is in doubt any more; of one after the other."""
        new = [entry for entry in entries if (task := self._settling.get(entry)) is None or task.done()]
        if new:
            self._begin(self._settling, new, partial(self._settle, new))

    def store(self, entry: Entry, error: FreshgateError) -> None:
        """Writes the view's settings and job once more as they are, after a statement that was to store others ended
        with `error`; where Spark may carry that out yet, after it."""
        if (before := self._storing.get(entry)) is not None:
            before.cancel()
        seconds = naming.LATE_SECONDS if naming.is_untold(error) else 0.0
        self._begin(self._storing, [entry], partial(self._store, entry, seconds))

    async def stop(self) -> None:
        """What is in doubt then the next start finds out; settings are written at once, or not."""
        self._ending.set()
        settling = list(self._settling.values())
        for task in settling:
            task.cancel()
        await asyncio.gather(*settling, *self._storing.values(), return_exceptions=True)

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

    async def _settle(self, entries: Iterable[Entry]) -> None:
        while not self._ending.is_set() and (doubtful := [entry for entry in entries if self._is_doubtful(entry)]):
            for entry in doubtful:
                await self._until_done(entry, partial(self._catalog.settle, entry))
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

    async def _until_done(self, entry: Entry, work: Callable[[], Awaitable[None]]) -> None:
        pause, said = PAUSE_SECONDS, ""
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
            except FreshgateError as error:
                if said != str(error):
                    said = str(error)
                    log.warning("cannot tell yet what became of %s: %s", entry.view.name, error)
            except Exception:  # a fault of ours must not leave the view in doubt for ever
                log.exception("cannot tell what became of %s", entry.view.name)
            if self._ending.is_set():
                return
            await asyncio.sleep(pause)
            pause = min(2 * pause, PAUSE_SECONDS_MAX)
