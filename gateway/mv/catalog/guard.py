"""The net below what is refused: a public view that a statement may have dropped or forged is compared with what the
catalog has published, and put back.

Statements are refused by what the gateway understands of them. Of one that may be understood wrongly, and that may be
about a view, `begin` is told before it goes to Spark. From then on no read of the view is let go unless the metastore
has shown since then that the view is as it was published; and when the statement has ended, the view is looked at
anyway.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count

from gateway.errors import FreshgateError, NoSuchView, StatementFailed
from gateway.mv.catalog import naming
from gateway.mv.catalog.fence import Fence, Superseded
from gateway.mv.catalog.index import Catalog
from gateway.mv.concurrency import unbroken
from gateway.mv.freshness.entry import Entry
from gateway.mv.model import properties as stored
from gateway.mv.model.damage import NO_VIEW
from gateway.mv.model.view import MaterializedView
from gateway.mv.ports import Metastore, Relation, RelationKind
from sql.names import TableName
from sql.texts import maintenance
from sql.words import Words

log = logging.getLogger(__name__)

LATE_SECONDS = 30.0
"""How long a statement that was cancelled, or whose end nobody has heard, may still change something."""
PAUSE_SECONDS = 2.0
"""Between two looks where Spark did not answer."""
PAUSE_SECONDS_MAX = 30.0
TRIES_MAX = 4
TOGETHER = 200
"""Views of one database that the metastore is asked about in one statement."""
NAMES_MAX = 50
"""Names of a statement that are looked at for a view that was renamed."""
SHOWN_CHARACTERS = 200
"""Of a statement's text in a log line."""


@dataclass(frozen=True, slots=True)
class Suspect:
    """A statement that may change views. `text` holds no password; `words` are its names, folded."""

    user: str
    session: str
    statement: int
    text: str
    words: Words = frozenset()
    dresses: bool = False
    """It may change comment and properties."""


@dataclass(slots=True, eq=False)
class Watch:
    """Views that a statement may have changed, until they were looked at after its end."""

    suspect: Suspect
    views: frozenset[str]
    ended_at: int | None = None
    """The moment from which on it changes nothing more."""


@dataclass(frozen=True, slots=True)
class Restored:
    """A view that was put back, and the statements that may have been it."""

    view: TableName
    problem: str
    suspects: tuple[Suspect, ...]


@dataclass(slots=True)
class _Watched:
    """A view that is watched."""

    watches: dict[Watch, None] = field(default_factory=dict)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    confirmed: int = 0
    """The moment when the last look began that found the view right, or put it back."""


class Guard:
    """Watches views while statements run that may change them."""

    def __init__(self, catalog: Catalog, metastore: Metastore, fence: Fence) -> None:
        self._catalog = catalog
        self._metastore = metastore
        self._fence = fence
        self._watched: dict[str, _Watched] = {}
        self._moments = count(1)
        self._due: dict[str, None] = {}
        """Views that are to be looked at, though nobody reads them."""
        self._refused: dict[str, int] = {}
        """How often Spark has refused to show one, or to put it back."""
        self._work: asyncio.Task[None] | None = None
        self.on_restore: Callable[[Restored], None] = lambda _: None
        """Told of each view that was put back."""
        catalog.on_unshown = self.restore_unshown

    # --- statements --------------------------------------------------------------------------------

    def begin(self, suspect: Suspect, views: Iterable[str]) -> Watch:
        """A statement that may change these views is about to be sent. It must be ended."""
        watch = Watch(suspect, frozenset(views))
        for view_id in watch.views:
            self._watched.setdefault(view_id, _Watched()).watches[watch] = None
        return watch

    def end(self, watch: Watch, *, surely: bool = True) -> None:
        """The statement has ended; not `surely`: Spark may go on with it for a moment."""
        self._look_at(watch.views)
        if surely:
            watch.ended_at = next(self._moments)
        else:
            asyncio.get_running_loop().call_later(LATE_SECONDS, self.end, watch)

    @property
    def active(self) -> bool:
        """Whether any view is watched."""
        return bool(self._watched)

    def watches(self, views: Iterable[str]) -> bool:
        """Whether one of the views must be confirmed before it is read."""
        return not self._watched.keys().isdisjoint(views)

    async def stop(self) -> None:
        """What is due then is not done."""
        if self._work is not None:
            self._work.cancel()
            await asyncio.gather(self._work, return_exceptions=True)

    # --- looking -----------------------------------------------------------------------------------

    async def confirm(self, views: Iterable[str]) -> None:
        """Returns when the metastore has shown, since this was called, that those of the views that are watched are
        as they were published, or they were put back.

        Raises Superseded where another gateway would have to do that, and as the metastore.
        """
        asked = next(self._moments)
        watched = [view_id for view_id in views if view_id in self._watched]
        await asyncio.gather(*(self._confirm(view_id, asked) for view_id in watched))

    async def _confirm(self, view_id: str, asked: int) -> None:
        """One look serves all who came before it began."""
        watched = self._watched.get(view_id)
        if watched is None:
            return
        async with watched.lock:
            if watched.confirmed > asked:
                return
            began = next(self._moments)
            if (entry := self._catalog.find(view_id)) is not None and entry.visible:
                await unbroken(self._check(entry))
            self._confirmed(view_id, watched, began)

    def _confirmed(self, view_id: str, watched: _Watched, began: int) -> None:
        watched.confirmed = began
        for watch in [each for each in watched.watches if each.ended_at is not None and each.ended_at < began]:
            del watched.watches[watch]
        if not watched.watches and self._watched.get(view_id) is watched:
            del self._watched[view_id]

    async def _check(self, entry: Entry) -> None:
        while True:
            if entry.uncertain:
                try:
                    await self._catalog.settle(entry)
                except NoSuchView:
                    return
            async with entry.lock:
                if self._catalog.find(entry.view.id) is not entry:
                    return
                if not entry.uncertain:
                    await self._compare(entry)
                    return

    async def _compare(self, entry: Entry) -> None:
        """Under the entry's lock."""
        view = entry.view
        relation = await self._metastore.relation(view.name)
        if relation is None or not maintenance.shows(relation.view_text, _text(view)):
            await self._fence.check()
            await self._put_back(view, relation)
        elif any(suspect.dresses for suspect in self._suspects(view.id)) and await self._is_undressed(view):
            await self._fence.check()
            await self._dress(view)
            self._tell(view, "had other properties", self._suspects(view.id))

    # --- putting back ------------------------------------------------------------------------------

    async def restore_unshown(self, entry: Entry) -> bool:
        """Under the entry's lock: whether a view that nothing shows was put back.

        One that is not watched is not: it was dropped past the gateway, by somebody who may do that. Nor is one that is
        being dropped, replaced, or given another name.
        """
        view = entry.view
        if view.id not in self._watched:
            return False
        properties = await self._metastore.properties(view.storage)
        if not stored.was_published(properties) or stored.read_move(properties) is not None:
            return False
        relation = await self._metastore.relation(view.name)
        shown = maintenance.read_published(relation.view_text) if relation is not None else None
        if shown is not None and self._catalog.find(shown[0].table) is not None:
            return False
        await self._put_back(view, relation)
        return True

    async def _put_back(self, view: MaterializedView, relation: Relation | None) -> None:
        """Makes the public view what was published. `relation` is what stands there."""
        problem, suspects = _problem(view, relation), self._suspects(view.id)
        if relation is not None and relation.kind is RelationKind.TABLE:
            await self._set_aside(view.name)
            relation = None
        if relation is None:
            await self._metastore.run(naming.create_public(view))
            await self._drop_renamed(view, suspects)
        else:
            await self._metastore.run(
                maintenance.publish(view.name, view.storage, view.columns, view.current.shown, view.layout)
            )
            await self._dress(view)
        self._catalog.on_move()
        self._tell(view, problem, suspects)

    async def _set_aside(self, name: TableName) -> None:
        """Somebody's table has the view's name. Its rows are kept."""
        aside = TableName(name.database, f"{name.table}__{secrets.token_hex(4)}", name.catalog)
        await self._metastore.run(maintenance.rename_table(name, aside))
        log.error("the table %s has the name of a materialized view; it is called %s now", name, aside)

    async def _is_undressed(self, view: MaterializedView) -> bool:
        return any(_differences(view, await self._metastore.properties(view.name)))

    async def _dress(self, view: MaterializedView) -> None:
        """Comment and properties, as they were."""
        extra, missing = _differences(view, await self._metastore.properties(view.name))
        if extra:
            await self._metastore.run(maintenance.unset_view_properties(view.name, extra))
        if missing:
            await self._metastore.run(maintenance.set_view_properties(view.name, view.properties, view.comment))

    async def _drop_renamed(self, view: MaterializedView, suspects: Iterable[Suspect]) -> None:
        """The view under the name that it was given: nobody would keep that fresh."""
        try:
            there = await self._metastore.views(view.name.database)
            names = sorted(frozenset[str]().union(*(suspect.words & there for suspect in suspects)))
            for name in [TableName(view.name.database, each, view.name.catalog) for each in names[:NAMES_MAX]]:
                if self._catalog.named(name) is None and await naming.shown_as(self._metastore, name) == view.id:
                    await self._metastore.run(maintenance.drop_view(name))
        except StatementFailed as error:
            log.warning("%s may have been renamed, and is there under another name as well: %s", view.name, error)

    def _suspects(self, view_id: str) -> tuple[Suspect, ...]:
        watched = self._watched.get(view_id)
        return tuple(watch.suspect for watch in watched.watches) if watched else ()

    def _tell(self, view: MaterializedView, problem: str, suspects: tuple[Suspect, ...]) -> None:
        if not problem:
            log.warning("the materialized view %s was published anew: its text was from before a restart", view.name)
            return
        who = "; ".join(f"{each.user}: {each.text[:SHOWN_CHARACTERS]}" for each in suspects)
        log.error("the materialized view %s %s and was put back; what may have done that: %s", view.name, problem, who)
        self.on_restore(Restored(view.name, problem, suspects))

    # --- in the background -------------------------------------------------------------------------

    def _look_at(self, views: Iterable[str]) -> None:
        self._due.update(dict.fromkeys(views))
        if self._due and (self._work is None or self._work.done()):
            self._work = asyncio.create_task(self._until_done(), name="guard of views")

    async def _until_done(self) -> None:
        pause, said = PAUSE_SECONDS, ""
        while self._due:
            try:
                await self._look()
                pause, said = PAUSE_SECONDS, ""
            except Superseded:
                self._due.clear()  # Another gateway serves the views now.
                return
            except FreshgateError as error:
                if said != str(error):
                    said = str(error)
                    log.warning("cannot tell yet whether materialized views are as they were published: %s", error)
                await asyncio.sleep(pause)
                pause = min(2 * pause, PAUSE_SECONDS_MAX)
            except Exception:  # a fault of ours must not end the watch over all other views
                log.exception("cannot tell whether materialized views are as they were published")
                self._due.pop(next(iter(self._due)), None)

    async def _look(self) -> None:
        """Looks at what is due. Of many views only those are asked for one by one that are not as they should be."""
        began = next(self._moments)
        due = [entry for view_id in self._due if (entry := self._catalog.find(view_id)) and view_id in self._watched]
        for view_id in [each for each in self._due if self._catalog.find(each) is None]:
            self._forget(view_id)
        right = set[str]()
        if len(due) > 1:
            for database, entries in _by_database(due):
                right |= await self._right(database, entries)
        for view_id in right:
            if (watched := self._watched.get(view_id)) is not None and not watched.lock.locked():
                self._confirmed(view_id, watched, began)
        for view_id in list(self._due):
            if view_id not in right:
                await self._confirm_or_give_up(view_id)
            self._due.pop(view_id, None)

    async def _confirm_or_give_up(self, view_id: str) -> None:
        """A view that Spark does not let be put back is damaged."""
        try:
            await self._confirm(view_id, next(self._moments))
            self._refused.pop(view_id, None)
        except StatementFailed as error:
            self._refused[view_id] = self._refused.get(view_id, 0) + 1
            if self._refused[view_id] < TRIES_MAX:
                raise
            log.error("a materialized view cannot be put back: %s", error)
            if (entry := self._catalog.find(view_id)) is not None:
                self._catalog.report_damage(entry, NO_VIEW)
            self._forget(view_id)

    def _forget(self, view_id: str) -> None:
        for known in (self._due, self._watched, self._refused):
            known.pop(view_id, None)

    async def _right(self, database: str, entries: list[Entry]) -> set[str]:
        """Which of a database's views the metastore shows as they were published. One of which that changes meanwhile
        is looked at by itself."""
        try:
            names = [entry.view.name.table for entry in entries]
            answer = await self._metastore.run(maintenance.show_views(database, names))
        except StatementFailed:
            return set()
        texts = maintenance.read_view_texts(answer.rows)
        return {
            entry.view.id
            for entry in entries
            if not (entry.uncertain or entry.lock.locked())
            and maintenance.shows(texts.get(entry.view.name.table, ""), _text(entry.view))
        }


def _text(view: MaterializedView) -> str:
    """What the public view says, as it was published."""
    return maintenance.shown_rows(view.storage, view.columns, view.current.shown, view.layout)


def _problem(view: MaterializedView, relation: Relation | None) -> str:
    """What has become of the public view; empty where it may be nobody's doing: a text that was shortened is not stored
    beside the version."""
    if relation is None:
        return "was dropped"
    if relation.kind is RelationKind.TABLE:
        return "was replaced by a table"
    shown = maintenance.read_published(relation.view_text)
    if shown == (view.storage, view.current.number):
        alike = maintenance.selects_alike(relation.view_text, _text(view))
        return "" if alike else "selected otherwise than it was published"
    return "showed something else" if shown is None else f"showed version {shown[1]} of {shown[0]}"


def _differences(view: MaterializedView, shown: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """The keys that the public view should not have, and those that it should have with other values. Spark lists its
    comment among them only where that was set by ALTER."""
    extra = [key for key in shown if key not in view.properties and not maintenance.is_spark_property(key)]
    missing = [key for key, value in view.properties.items() if shown.get(key) != value]
    if shown.get("comment", view.comment or "") != (view.comment or ""):
        missing.append("comment")
    return sorted(extra), missing


def _by_database(entries: Iterable[Entry]) -> Iterator[tuple[str, list[Entry]]]:
    """Pieces of at most TOGETHER entries."""
    databases: dict[str, list[Entry]] = {}
    for entry in entries:
        databases.setdefault(entry.view.name.database, []).append(entry)
    for database, found in databases.items():
        for start in range(0, len(found), TOGETHER):
            yield database, found[start : start + TOGETHER]
