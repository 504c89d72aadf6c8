"""Prepares reads of materialized views: notices earlier writes, observes base tables and refreshes the views."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from gateway.errors import FreshgateError, RefreshFailed
from gateway.mv.catalog.index import Catalog
from gateway.mv.catalog.open_writes import see_writes, unseen_writes
from gateway.mv.freshness.ledger import Ending, Write
from gateway.mv.model.view import Cause, TriggerMode
from gateway.mv.refresh.diagnosis import BaseTableMissing
from gateway.mv.refresh.progress import Report
from gateway.mv.refresh.tasks import Tasks
from gateway.mv.versions.readers import Readers
from gateway.service.clients.bounds import spliced
from gateway.service.clients.session import Session
from gateway.service.routing import stale_reads
from gateway.service.routing.explanation import views_in_plan
from gateway.service.routing.gatekeeper import Gatekeeper
from gateway.service.routing.known_answers import KnownAnswers
from gateway.service.routing.long_texts import parts_bounded
from gateway.service.routing.outcomes import Route, Source
from gateway.service.routing.scope import Scope
from gateway.service.routing.version_reads import VersionReads
from sql.statement import WhenStale
from sql.texts import maintenance, rewrite

TOGETHER = 8
"""The number of views that are refreshed at a time if the statement only may read them."""
UNSURE_SECONDS = 10.0
"""How long a statement waits for stale views that it only may read, such as a script that builds names at run time.
Then it continues, with a warning in its log."""
NAMED_MAX = 5
"""The maximum number of views in a warning."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A statement that reads views, while it is prepared."""

    session: Session
    route: Route
    place: stale_reads.Place
    read: stale_reads.Read
    text: str | None
    """The text that replaces the statement's so far; None if nothing has changed."""
    splices: Sequence[rewrite.Splice]
    write: Write | None
    composed: bool
    """Whether it builds names at run time."""
    pinned: bool
    """Whether it belongs to a transaction, which sees one version of each view."""
    epoch: int
    """The transaction's."""
    answers: KnownAnswers
    guessed: bool = False
    """Whether it is composed and Spark does not tell what it reads."""
    foreign: frozenset[str] = frozenset()
    """The views whose definitions would read other rows in this session."""

    @property
    def unpinned(self) -> stale_reads.Read:
        """The views that must be fresh: in a transaction, those that it has not used before."""
        known = self.session.transaction.pins.keys() if self.pinned else frozenset()
        return replace(self.read, direct=self.read.direct - known)

    @property
    def cause(self) -> Cause:
        return Cause(TriggerMode.READ, self.session.user)


class Reads:
    """Prepares reads. `unsure_seconds`: how long a statement waits for views that it only may read."""

    def __init__(
        self,
        catalog: Catalog,
        scope: Scope,
        tasks: Tasks,
        readers: Readers,
        stale_reads: stale_reads.StaleReads,
        version_reads: VersionReads,
        gatekeeper: Gatekeeper,
        unsure_seconds: float = UNSURE_SECONDS,
    ) -> None:
        self._catalog = catalog
        self._scope = scope
        self._tasks = tasks
        self._readers = readers
        self._stale_reads = stale_reads
        self._version_reads = version_reads
        self._gatekeeper = gatekeeper
        self._unsure_seconds = unsure_seconds

    def must_wait(self, reading: Reading) -> bool:
        """Whether the statement must be prepared before it can be forwarded."""
        if self._readers.is_held(reading.read.all) or self._gatekeeper.watches(reading.read.sure):
            return True
        if reading.place.vouched is not None:
            return not reading.place.vouched()
        if reading.pinned and self._version_reads.due(reading.session.transaction, reading.read):
            return True
        unpinned = reading.unpinned
        return bool(self._unseen_writes(unpinned)) or self._stale_reads.due(unpinned) or self._wanted(reading).anything

    async def prepare(self, reading: Reading, report: Report) -> None:
        """Observes and refreshes, until the statement's names mean the views that were refreshed."""
        with parts_bounded():
            await self._prepare(reading, report)

    async def _prepare(self, reading: Reading, report: Report) -> None:
        while True:
            named = reading.read
            reading = await self.exactly(reading)
            await self._readers.admission(reading.read.all)
            await self._gatekeeper.confirm(reading.read.sure)
            await self._see_writes(reading.unpinned)
            for unchanged in await self._stale_reads.look(reading.unpinned):
                self._tasks.note_unchanged(unchanged, reading.cause)
            if reading.pinned:
                await self._version_reads.look(reading.session.transaction, reading.read)
            if inlined := self._wanted(reading).inlined:
                foreign = await self._stale_reads.foreign(inlined, await reading.session.sql())
                reading = replace(reading, foreign=reading.foreign | foreign)
            await self._make_fresh(reading, self._wanted(reading), report)
            place = await _where_it_is_now(reading)
            read = await self._scope.views_read(
                reading.session, place.namespace, place.statement, composed=reading.composed
            )
            # The refresh may have taken long.
            await self._gatekeeper.confirm(read.sure)
            if read == named and not self._readers.is_held(reading.read.all):
                break
            reading = replace(reading, place=place, read=read, guessed=reading.composed)
        self.depart(reading)

    async def exactly(self, reading: Reading) -> Reading:
        """The reading with what the statement reads according to Spark, which is asked only if the statement may read
        views that are not fresh. If the text is understood, Spark is asked only about views that it does not name."""
        unsure = self._stale_reads.mattering(reading.read.perhaps)
        if not unsure or not (reading.pinned or self._may_want(unsure)):
            return reading
        exact = reading.place.statement.exact
        asked = reading.read.perhaps if exact else reading.read.all
        known, texts = reading.place.known, self._gatekeeper.texts
        found = await views_in_plan(reading.session, known, reading.text or known.text, asked, texts)
        if found is None:
            return reading
        named = reading.read if exact else stale_reads.Read(reading.read.direct & found, reading.read.below & found)
        read = stale_reads.Read(named.direct, named.below | (found - named.direct))
        return replace(reading, read=read, guessed=False)

    def _may_want(self, views: Iterable[str]) -> bool:
        read = stale_reads.Read(perhaps=frozenset(views))
        if self._unseen_writes(read) or self._stale_reads.due(read):
            return True
        return any(self._catalog.is_stale(view_id) for view_id in views)

    def _wanted(self, reading: Reading) -> stale_reads.Wanted:
        """What is needed first. Changes the route's text where definitions replace views."""
        wanted = self._stale_reads.wanted(
            reading.place, reading.unpinned, pinned=reading.pinned, foreign=reading.foreign
        )
        reading.route.text = reading.text
        if wanted.splices:
            reading.route.text = spliced(reading.place.known.text, [*reading.splices, *wanted.splices])
        return wanted

    # --- writes whose end has not been noticed -----------------------------------------------------

    def _unseen_writes(self, read: stale_reads.Read) -> dict[int, Ending | None]:
        """The open writes to the views' base tables that may have ended unnoticed."""
        return unseen_writes(self._catalog, self._stale_reads.mattering(read.all))

    async def _see_writes(self, read: stale_reads.Read) -> None:
        await see_writes(self._catalog, self._stale_reads.mattering(read.all))

    async def see_writes_to(self, view_id: str) -> None:
        """Finds out which writes to a view's base tables have ended, also for a view that is served in any case."""
        await see_writes(self._catalog, [view_id])

    # --- making fresh ------------------------------------------------------------------------------

    async def _make_fresh(self, reading: Reading, wanted: stale_reads.Wanted, report: Report) -> None:
        survived = RefreshFailed if reading.guessed else BaseTableMissing
        await asyncio.gather(*(self._make_one_fresh(view, reading.cause, survived, report) for view in wanted.fresh))
        tables = [table for view in wanted.inlined for table in await self._stale_reads.cached(view)]
        for name in (*wanted.listings, *tables):
            await (await reading.session.sql()).run(maintenance.refresh_listing(name))
        if wanted.perhaps:
            await self._make_perhaps_fresh(wanted.perhaps, reading.cause, report)

    async def _make_one_fresh(self, view_id: str, cause: Cause, survived: type[RefreshFailed], report: Report) -> None:
        if (known := self._tasks.known_gone(view_id)) is not None:
            report(f"Warning: serving the stored rows. {known}")
            return
        try:
            await self._tasks.make_fresh(view_id, cause, report)
        except survived as error:
            entry = self._catalog.find(view_id)
            if entry is not None and not entry.view.complete and survived is BaseTableMissing:
                raise
            # Only the stored rows are left; a dashboard should rather show these than nothing.
            report(f"Warning: serving the stored rows. {error}")
        except FreshgateError:
            # If the view is gone, its name means another view, or Spark will report it as missing.
            if self._catalog.find(view_id) is not None:
                raise

    async def _make_perhaps_fresh(self, views: Sequence[str], cause: Cause, report: Report) -> None:
        """Refreshes, for a limited time, views that the statement may read. It continues even if that fails."""
        gate, made = asyncio.Semaphore(TOGETHER), set[str]()

        async def make(view_id: str) -> None:
            async with gate:
                if self._tasks.known_gone(view_id) is None:
                    try:
                        await self._tasks.make_fresh(view_id, cause, report)
                    except FreshgateError:
                        return
                    made.add(view_id)

        wanted = [view_id for view_id in views if self._would_refresh(view_id)]
        try:
            async with asyncio.timeout(self._unsure_seconds):
                await asyncio.gather(*map(make, wanted))
        except TimeoutError:
            pass
        left = sorted(map(str, self._catalog.names_of(set(views) - made).values()))
        if left:
            more = ", ..." if len(left) > NAMED_MAX else ""
            report(
                f"Warning: it is unknown which materialized views this statement reads. Of those that it may read, "
                f"{len(left)} may be stale or not built: {', '.join(left[:NAMED_MAX])}{more}"
            )

    def _would_refresh(self, view_id: str) -> bool:
        entry = self._catalog.find(view_id)
        return entry is not None and entry.view.built and entry.view.when_stale is WhenStale.REFRESH

    # --- departing ---------------------------------------------------------------------------------

    def depart(self, reading: Reading) -> None:
        """The statement is about to be sent."""
        if reading.pinned:
            splices, read = self._version_reads.depart(
                reading.session.transaction, reading.epoch, reading.place, reading.read
            )
            reading.route.closes.append(partial(self._readers.release, read))
            reading.route.text = spliced(reading.place.known.text, [*reading.splices, *splices])
        else:
            self._begin_read(reading.route, reading.read.all)
            reading.route.notes += self._stale_reads.notes(reading.read.sure)
            reading.route.source = self._source(reading)
        if reading.write is not None:
            self._catalog.begin_write(reading.write)

    def _source(self, reading: Reading) -> Source | None:
        changed = reading.route.text is not None or reading.splices or reading.write is not None
        if changed or reading.composed or reading.guessed or reading.read.below or reading.read.perhaps:
            return None
        place, views = reading.place, reading.read.direct
        return reading.answers.source(reading.session, place.namespace, place.known, place.statement, views)

    def _begin_read(self, route: Route, views: frozenset[str]) -> None:
        """Keeps the views' current versions until the statement is closed."""
        if views:
            read = self._readers.begin(views)
            route.ends.append(lambda _: self._readers.planned(read))
            route.closes.append(partial(self._readers.release, read))


async def _where_it_is_now(reading: Reading) -> stale_reads.Place:
    """The place in the session's current database, which another connection may have changed. Raises FreshgateError if
    the statement would now write to another table."""
    place, namespace = reading.place, await reading.session.resolve_namespace()
    if namespace != place.namespace and place.statement.writes:
        raise FreshgateError(
            "The current database of the session changed while this statement waited for a refresh. Run it again.",
            sqlstate="40001",
        )
    return replace(place, namespace=namespace)
