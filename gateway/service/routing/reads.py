"""Prepares reads of materialized views: notices earlier writes, observes base tables and refreshes the views."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from gateway.errors import FreshgateError, RefreshFailed
from gateway.mv.catalog.index import Catalog
from gateway.mv.concurrency import both
from gateway.mv.freshness.ledger import TablesWritten
from gateway.mv.model.view import Cause, TriggerMode
from gateway.mv.observation.inspection import Inspector
from gateway.mv.refresh.diagnosis import BaseTableMissing
from gateway.mv.refresh.habits import Habits
from gateway.mv.refresh.progress import Report
from gateway.mv.refresh.tasks import Tasks
from gateway.mv.versions.readers import Readers
from gateway.service.clients.bounds import spliced
from gateway.service.clients.session import Session
from gateway.service.routing.explanation import views_in_plan
from gateway.service.routing.facts import Facts, ViewsRead
from gateway.service.routing.gatekeeper import Gatekeeper
from gateway.service.routing.invokers import Invokers
from gateway.service.routing.known_answers import KnownAnswers
from gateway.service.routing.long_texts import parts_bounded
from gateway.service.routing.scope import ViewScope
from gateway.service.routing.stale_reads import Wanted, mattering, notes, wanted
from gateway.service.routing.version_reads import VersionReads
from gateway.service.routing.ways import RefreshFirst, RepeatableRead, Send, VersionsHeld
from sql.statement import WhenStale
from sql.texts import maintenance

TOGETHER = 8
"""The number of views that are refreshed at a time if the statement only may read them."""
UNSURE_SECONDS = 10.0
"""How long a statement waits for stale views that it only may read, such as a script that builds names at run time.
Then it continues, with a warning in its log."""
NAMED_MAX = 5
"""The maximum number of views in a warning."""


class Reads:
    """Prepares reads."""

    def __init__(
        self,
        catalog: Catalog,
        scope: ViewScope,
        tasks: Tasks,
        readers: Readers,
        inspector: Inspector,
        invokers: Invokers,
        version_reads: VersionReads,
        gatekeeper: Gatekeeper,
        known: KnownAnswers,
        habits: Habits,
    ) -> None:
        self._catalog = catalog
        self._scope = scope
        self._tasks = tasks
        self._readers = readers
        self._inspector = inspector
        self._invokers = invokers
        self._version_reads = version_reads
        self._gatekeeper = gatekeeper
        self._known = known
        self._habits = habits
        self._unsure_seconds = UNSURE_SECONDS

    def must_wait(self, first: RefreshFirst) -> bool:
        """Whether the statement must be prepared before it can be sent."""
        if self.is_watched(first.read) or self._inspector.is_drafted(first.read.all):
            return True
        if self._invokers.must_ask(first.facts.session, first.read.all):
            return True
        if first.transaction is not None and self._version_reads.due(first.facts.session, first.read):
            return True
        if self._known.to_look_at(first.facts, first.read.direct):
            return True
        unpinned = first.unpinned
        return self._may_miss_writes(unpinned) or self._is_due(unpinned) or self._wanted(first).anything

    def is_watched(self, read: ViewsRead) -> bool:
        """Whether the names of the views may soon mean something else, or mean it already."""
        return self._readers.is_held(read.all) or self._gatekeeper.must_confirm(read.sure)

    async def prepare(self, first: RefreshFirst, report: Report) -> Send:
        """Observes and refreshes, until the statement's names mean the views that were refreshed."""
        with parts_bounded():
            return await self._prepare(first, report)

    async def _prepare(self, first: RefreshFirst, report: Report) -> Send:
        session = first.facts.session
        while True:
            named = first.read
            first = await self.exactly(first)
            await self._inspector.read_drafted(first.read.all)
            first = replace(first, withheld=await self._invokers.withheld(session, first.read.all))
            await self._readers.admission(first.read.all)
            await self._gatekeeper.confirm(first.read.sure)
            await self._ask_for_writes(first.unpinned)
            for unchanged in await self._look(first.unpinned):
                self._tasks.note_unchanged(unchanged, _cause(first))
            if first.transaction is not None:
                await self._version_reads.look(session, first.read)
            inlined = [view for view in self._wanted(first).inlined if view.id not in first.withheld]
            if inlined:
                first = replace(first, foreign=first.foreign | await self._invokers.foreign(session, inlined))
            now = self._wanted(first)
            await self._make_fresh(first, now, report)
            facts = await _where_it_is_now(first)
            read = await self._scope.views_read(facts)
            # The refresh may have taken long.
            await self._gatekeeper.confirm(read.sure)
            same = first.withheld == await self._invokers.withheld(session, first.read.all)
            if same and read == named and not self._readers.is_held(first.read.all):
                await self.look_at_tables(first.facts, first.read)
                return self.depart(first, now)
            first = replace(first, facts=facts, read=read, guessed=facts.composed)

    async def exactly(self, first: RefreshFirst) -> RefreshFirst:
        """The same with what the statement reads according to Spark, which is asked only if the statement may read
        views that are not fresh. If the text is understood, Spark is asked only about views that it does not name."""
        unsure = mattering(self._catalog, first.read.perhaps)
        needed = unsure and (first.transaction is not None or self._may_want(unsure))
        if not needed and not self._invokers.must_ask(first.facts.session, first.read.perhaps):
            return first
        facts, exact = first.facts, first.facts.statement.exact
        asked = first.read.perhaps if exact else first.read.all
        text, texts = first.send.text or facts.known.text, self._gatekeeper.texts
        found = await views_in_plan(facts.session, facts.known, text, asked, texts)
        if found is None:
            return first
        named = first.read if exact else ViewsRead(first.read.direct & found, first.read.below & found)
        return replace(first, read=ViewsRead(named.direct, named.below | (found - named.direct)), guessed=False)

    def _may_want(self, views: Iterable[str]) -> bool:
        read = ViewsRead(perhaps=frozenset(views))
        if self._may_miss_writes(read) or self._is_due(read):
            return True
        return any(self._catalog.is_stale(view_id) for view_id in views)

    def _wanted(self, first: RefreshFirst) -> Wanted:
        """What is needed first."""
        return wanted(self._catalog, first, caches_listings=self._habits.caches_listings)

    def _is_due(self, read: ViewsRead) -> bool:
        """Whether base tables, or stored rows, must be looked at before it is known what is wanted."""
        due = self._inspector.due(mattering(self._catalog, read.all))
        return due or self._inspector.storage_due(read.all)

    async def look(self, first: RefreshFirst) -> None:
        """Looks at what the statement reads, so that it is known whether it must wait for a refresh."""
        await self._ask_for_writes(first.unpinned)
        await self._look(first.unpinned)
        await self.look_at_tables(first.facts, first.read)

    async def look_at_tables(self, facts: Facts, read: ViewsRead) -> None:
        """Looks at the base tables in memory that the statement joins with views, so that their rows may be used."""
        if self._known.tables is not None and (tables := self._known.to_look_at(facts, read.direct)):
            await self._known.tables.look(tables)

    async def _look(self, read: ViewsRead) -> list[str]:
        """Looks at the base tables and stored rows that are due. Returns the views that noted writes did not change."""
        views = mattering(self._catalog, read.all)
        others = read.all.difference(views)
        unchanged, _ = await both(self._inspector.check(views), self._inspector.check_storage(others))
        return unchanged

    def _may_miss_writes(self, read: ViewsRead) -> bool:
        """Whether pending writes to the views' base tables may have ended unnoticed."""
        return bool(self._catalog.writes.to_ask(mattering(self._catalog, read.all)))

    async def _ask_for_writes(self, read: ViewsRead) -> None:
        await self._catalog.writes.ask(mattering(self._catalog, read.all))

    # --- making fresh ------------------------------------------------------------------------------

    async def _make_fresh(self, first: RefreshFirst, now: Wanted, report: Report) -> None:
        survived, cause = RefreshFailed if first.guessed else BaseTableMissing, _cause(first)
        session = first.facts.session
        await asyncio.gather(*(self._make_one_fresh(view, session, cause, survived, report) for view in now.fresh))
        tables = [table for view in now.inlined for table in await self._inspector.cached(view)]
        for name in (*now.listings, *tables):
            await (await first.facts.session.sql()).run(maintenance.refresh_listing(name))
        if now.perhaps:
            await self._make_perhaps_fresh(now.perhaps, cause, report)

    async def _make_one_fresh(
        self, view_id: str, session: Session, cause: Cause, survived: type[RefreshFailed], report: Report
    ) -> None:
        if (known := self._tasks.known_gone(view_id)) is not None:
            report(f"Warning: serving the stored rows. {await self._invokers.told(known, view_id, session)}")
            return
        try:
            await self._tasks.make_fresh(view_id, cause, report)
        except survived as error:
            entry = self._catalog.find(view_id)
            told = await self._invokers.error_told(error, view_id, session)
            if entry is not None and not entry.view.complete and survived is BaseTableMissing:
                raise told from error
            # Only the stored rows are left; a dashboard should rather show these than nothing.
            report(f"Warning: serving the stored rows. {told}")
        except FreshgateError as error:
            # If the view is gone, its name means another view, or Spark will report it as missing.
            if self._catalog.find(view_id) is not None:
                raise await self._invokers.error_told(error, view_id, session) from error

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

        refreshed = [view_id for view_id in views if self._would_refresh(view_id)]
        try:
            async with asyncio.timeout(self._unsure_seconds):
                await asyncio.gather(*map(make, refreshed))
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

    def depart(self, first: RefreshFirst, prepared: Wanted | None = None) -> Send:
        """What is sent now. `prepared`: for what the read has been prepared, whose definitions replace views."""
        facts, send = first.facts, first.send
        if first.transaction is not None:
            transaction = facts.session.transaction
            splices, held = self._version_reads.depart(transaction, first.transaction, facts, first.read)
            text = spliced(facts.known.text, [*first.splices, *splices])
            return replace(send, text=text, effects=(*send.effects, held))
        if prepared is not None and prepared.splices:
            send = replace(send, text=spliced(facts.known.text, [*first.splices, *prepared.splices]))
        return replace(
            send,
            effects=(*send.effects, *self._hold(first.read.all)),
            notes=(
                *send.notes,
                *notes(self._catalog, first.read.sure.difference(first.withheld)),
                *self._inlined(first),
            ),
            source=self._source(first, send),
        )

    def _inlined(self, first: RefreshFirst) -> Iterator[str]:
        """Tells which views are not read as they are stored."""
        for view_id, name in self._catalog.names_of(first.withheld).items():
            yield f"The materialized view {name} is not read as it is stored: {first.withheld[view_id]}"

    def _source(self, first: RefreshFirst, send: Send) -> RepeatableRead | str:
        """What the answer depends on, or why that is not known."""
        if not first.read.all:
            return send.source
        if any(isinstance(effect, TablesWritten) for effect in send.effects):
            return "it writes"
        if send.text is not None or first.splices:
            return "it reads versions of views, the catalog, or a definition in the place of stored rows"
        if first.facts.composed or first.guessed or first.read.perhaps:
            return "it is not certain which views it reads"
        if first.read.below:
            return "it reads a materialized view through a view of Spark's"
        return self._known.source(first.facts, first.read.direct)

    async def answers_hold(self) -> bool:
        """As `Router.answers_hold`."""
        return await self._known.hold()

    def _hold(self, views: frozenset[str]) -> tuple[VersionsHeld, ...]:
        """Keeps the views' current versions until the statement is closed."""
        return (VersionsHeld(self._readers.begin(views)),) if views else ()


def _cause(first: RefreshFirst) -> Cause:
    session = first.facts.session
    return Cause(TriggerMode.READ, session.user, parent=session.settings.lineage_parent)


async def _where_it_is_now(first: RefreshFirst) -> Facts:
    """The statement in the session's current database, which another connection may have changed. Raises FreshgateError
    if the statement would now write to another table."""
    facts = first.facts
    namespace = await facts.session.resolve_namespace()
    if namespace != facts.namespace and facts.statement.writes:
        raise FreshgateError(
            "The current database of the session changed while this statement waited for a refresh. Run it again.",
            sqlstate="40001",
        )
    return replace(facts, namespace=namespace)
