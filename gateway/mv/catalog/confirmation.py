"""The second line of defence behind refused statements: compares public views that a statement may have dropped or
forged with what the catalog has published, and restores them.

Whether a statement is refused depends on how the gateway understands it. `begin` registers a statement that may be
understood wrongly and may concern a view, before it is sent to Spark. From then on a read of the view waits until the
metastore has shown that the view is as it was published. When the statement has ended, the view is checked even if
nobody reads it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator

from gateway import loops
from gateway.errors import FreshgateError, NoSuchView, StatementFailed
from gateway.mv.catalog.fence import Fence, Superseded
from gateway.mv.catalog.index import Catalog
from gateway.mv.catalog.restoration import Restoration
from gateway.mv.catalog.settlement import Settlement
from gateway.mv.concurrency import unbroken
from gateway.mv.freshness.entry import Entry
from gateway.mv.freshness.pending import ViewsEndangered
from gateway.mv.model.damage import NO_VIEW
from gateway.mv.ports import Metastore
from sql.texts import descriptions, public_view

log = logging.getLogger(__name__)

PAUSE_SECONDS = 2.0
"""The pause between two checks if Spark does not answer."""
PAUSE_SECONDS_MAX = 30.0
TRIES_MAX = 4
TOGETHER = 200
"""For how many views of one database the metastore is asked in one statement."""


class Confirmation:
    """Confirms views that statements endanger."""

    def __init__(
        self,
        catalog: Catalog,
        settlement: Settlement,
        restoration: Restoration,
        metastore: Metastore,
        fence: Fence,
    ) -> None:
        self._catalog = catalog
        self._endangered = catalog.endangered
        self._settlement = settlement
        self._restoration = restoration
        self._metastore = metastore
        self._fence = fence
        self._due: dict[str, None] = {}
        """Views to check, even if nobody reads them."""
        self._refused: dict[str, int] = {}
        """How often Spark has refused to show or restore a view."""
        self._work: asyncio.Task[None] | None = None

    # --- statements --------------------------------------------------------------------------------

    def begin(self, effect: ViewsEndangered) -> None:
        """A statement is about to be sent. The caller must call `end`."""
        self._endangered.begin(effect)

    def end(self, effect: ViewsEndangered, *, surely: bool = True) -> None:
        """The statement has ended. Not `surely`: Spark may continue it; the caller ends it again."""
        self._look_at(effect.views)
        if surely:
            self._endangered.end(effect)

    @property
    def active(self) -> bool:
        """Whether any view is endangered."""
        return len(self._endangered) > 0

    def must_confirm(self, views: Iterable[str]) -> bool:
        """Whether one of the views must be confirmed before it is read."""
        return any(view_id in self._endangered for view_id in views)

    async def stop(self) -> None:
        """Stops the background checks; pending ones are not done."""
        if self._work is not None:
            self._work.cancel()
            await asyncio.gather(self._work, return_exceptions=True)

    # --- looking -----------------------------------------------------------------------------------

    async def confirm(self, views: Iterable[str]) -> None:
        """Returns when, since this call, the metastore has shown that the endangered ones of these views are as they
        were published, or when they have been restored.

        Raises Superseded if another gateway would have to restore them, and what the metastore raises.
        """
        asked = self._endangered.moment()
        endangered = [view_id for view_id in views if view_id in self._endangered]
        await asyncio.gather(*(self._confirm(view_id, asked) for view_id in endangered))

    async def _confirm(self, view_id: str, asked: int) -> None:
        """One check serves all callers that came before it began."""
        endangered = self._endangered.find(view_id)
        if endangered is None:
            return
        async with endangered.lock:
            if endangered.confirmed > asked:
                return
            began = self._endangered.moment()
            if (entry := self._catalog.find(view_id)) is not None and entry.visible:
                await unbroken(self._check(entry))
            self._endangered.confirm(view_id, endangered, began)

    async def _check(self, entry: Entry) -> None:
        while True:
            if entry.doubtful:
                try:
                    await self._settlement.settle(entry)
                except NoSuchView:
                    return
            async with entry.lock:
                if self._catalog.find(entry.view.id) is not entry:
                    return
                if not entry.doubtful:
                    await self._compare(entry)
                    return

    async def _compare(self, entry: Entry) -> None:
        """Compares the public view, and restores it if necessary. Needs the entry's lock."""
        view = entry.view
        relation = await self._metastore.relation(view.name)
        if relation is None or not public_view.shows(relation.view_text, view.published_text):
            await self._fence.check()
            await self._restoration.restore_text(view, relation)
            return
        may_be_other = any(effect.changes_properties for effect in self._endangered.effects_on(view.id))
        if may_be_other and await self._restoration.has_other_properties(view):
            await self._fence.check()
            await self._restoration.restore_properties(view)

    # --- in the background -------------------------------------------------------------------------

    def _look_at(self, views: Iterable[str]) -> None:
        self._due.update(dict.fromkeys(views))
        if self._due and (self._work is None or self._work.done()):
            self._work = asyncio.create_task(self._until_done(), name="confirmation of views")

    async def _until_done(self) -> None:
        unknown = "cannot check yet whether materialized views are as they were published"
        back_off = loops.BackOff(unknown, PAUSE_SECONDS, PAUSE_SECONDS_MAX)
        while self._due:
            try:
                await self._look()
                back_off.reset()
            except Superseded:
                self._due.clear()  # The other gateway serves the views now.
                return
            except FreshgateError as error:
                back_off.note(error)
                await back_off.pause()
            except Exception as error:  # A bug must not stop the checks of all other views.
                back_off.note(error)
                self._due.pop(next(iter(self._due)), None)

    async def _look(self) -> None:
        """Checks the views that are due. Only views that do not match are asked for one by one."""
        began = self._endangered.moment()
        # Those for which a statement ends meanwhile become due again.
        left, self._due = self._due, {}
        try:
            await self._check_all(left, began)
        finally:
            self._due = left | self._due

    async def _check_all(self, left: dict[str, None], began: int) -> None:
        """Removes from `left` what was checked."""
        for view_id in [each for each in left if self._catalog.find(each) is None]:
            self._forget(view_id)
            del left[view_id]
        due = [entry for view_id in left if (entry := self._catalog.find(view_id)) and view_id in self._endangered]
        right = set[str]()
        if len(due) > 1:
            for database, entries in _by_database(due):
                right |= await self._right(database, entries)
        for view_id in right:
            if (endangered := self._endangered.find(view_id)) is not None and not endangered.lock.locked():
                self._endangered.confirm(view_id, endangered, began)
        for view_id in list(left):
            if view_id not in right:
                await self._confirm_or_give_up(view_id)
            del left[view_id]

    async def _confirm_or_give_up(self, view_id: str) -> None:
        """Confirms a view. If Spark refuses repeatedly to have it restored, reports it as damaged."""
        try:
            await self._confirm(view_id, self._endangered.moment())
            self._refused.pop(view_id, None)
        except StatementFailed as error:
            self._refused[view_id] = self._refused.get(view_id, 0) + 1
            if self._refused[view_id] < TRIES_MAX:
                raise
            log.error("a materialized view cannot be restored: %s", error)
            if (entry := self._catalog.find(view_id)) is not None:
                self._catalog.report_damage(entry, NO_VIEW)
            self._forget(view_id)

    def _forget(self, view_id: str) -> None:
        self._endangered.forget(view_id)
        self._due.pop(view_id, None)
        self._refused.pop(view_id, None)

    async def _right(self, database: str, entries: list[Entry]) -> set[str]:
        """The views of a database whose public views match what was published. A view that is being changed is left to
        a check of its own."""
        try:
            names = [entry.view.name.table for entry in entries]
            answer = await self._metastore.run(descriptions.show_described(database, names))
        except StatementFailed:
            return set()
        texts = descriptions.read_view_texts(answer.rows)
        return {
            entry.view.id
            for entry in entries
            if not (entry.doubtful or entry.lock.locked())
            and public_view.shows(texts.get(entry.view.name.table, ""), entry.view.published_text)
        }


def _by_database(entries: Iterable[Entry]) -> Iterator[tuple[str, list[Entry]]]:
    """Groups entries by database, at most TOGETHER in a group."""
    databases: dict[str, list[Entry]] = {}
    for entry in entries:
        databases.setdefault(entry.view.name.database, []).append(entry)
    for database, found in databases.items():
        for start in range(0, len(found), TOGETHER):
            yield database, found[start : start + TOGETHER]
