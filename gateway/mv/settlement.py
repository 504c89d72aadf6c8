"""Views of which nobody knows what they show: their names are looked up as soon as the metastore answers."""

from __future__ import annotations

import asyncio
import logging
from functools import partial

from gateway.errors import FreshgateError, NoSuchView
from gateway.mv.catalog import Catalog, Entry
from gateway.mv.fence import Superseded

log = logging.getLogger(__name__)

PAUSE_SECONDS = 2.0
"""Between two questions: a Spark that is dying answers with errors before it is gone."""
PAUSE_SECONDS_MAX = 10.0


class Settlement:
    """Settles doubtful views in the background. A statement that needs one sooner settles it itself."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._asking: dict[Entry, asyncio.Task[None]] = {}
        catalog.on_doubt = self.begin

    def begin(self, entry: Entry) -> None:
        before = self._asking.get(entry)
        if before is None or before.done():
            self._asking[entry] = task = asyncio.create_task(self._settle(entry), name="settlement")
            task.add_done_callback(partial(self._ended, entry))

    def _ended(self, entry: Entry, task: asyncio.Task[None]) -> None:
        if self._asking.get(entry) is task:
            del self._asking[entry]

    async def stop(self) -> None:
        """What is doubtful then the next start finds out."""
        tasks = list(self._asking.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _settle(self, entry: Entry) -> None:
        pause = PAUSE_SECONDS
        while entry.uncertain and self._catalog.find(entry.view.id) is entry:
            try:
                await self._catalog.settle(entry)
            except NoSuchView as error:
                # Another one has its name by now; or it is damaged, which the log has.
                log.info("%s", error)
                return
            except Superseded:
                return
            except FreshgateError as error:
                log.warning("cannot tell yet what became of %s: %s", entry.view.name, error)
            except Exception:  # a fault of ours must not leave the view doubtful for ever
                log.exception("cannot tell what became of %s", entry.view.name)
            else:
                continue
            await asyncio.sleep(pause)
            pause = min(2 * pause, PAUSE_SECONDS_MAX)
