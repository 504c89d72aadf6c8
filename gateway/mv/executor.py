"""Refreshes: makes views fresh, one refresh per view at a time, one for any number of readers."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count

from gateway.errors import FreshgateError, RefreshFailed, UpstreamLost
from gateway.mv import catalog as catalog_module
from gateway.mv import properties as stored
from gateway.mv.catalog import Catalog, Entry, Leftover
from gateway.mv.janitor import Janitor
from gateway.mv.model import MaterializedView, Version, Watermark
from gateway.mv.planner import RefreshPlan, plan_refresh
from gateway.mv.ports import Sessions, SqlSession
from gateway.mv.relations import Relations, unknown_error
from sql import lineage, maintenance
from sql.names import Namespace, TableName

log = logging.getLogger(__name__)

VERSIONS_RESERVED = 16
"""How many version numbers one refresh reserves: those that a crash may waste, against a metastore call for each."""

Report = Callable[[str], None]
"""Takes one line for the log of the operation that waits."""


class BaseTableMissing(RefreshFailed):
    """The definition reads something that no longer exists."""


@dataclass(slots=True, eq=False)
class _Running:
    """One refresh in progress and those who wait for it."""

    sequence: int
    task: asyncio.Task[None]
    waiters: int = 0
    reports: list[Report] = field(default_factory=list)


class Executor:
    """Carries refresh plans out and shares them among readers."""

    def __init__(
        self,
        catalog: Catalog,
        relations: Relations,
        sessions: Sessions,
        janitor: Janitor,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._catalog = catalog
        self._relations = relations
        self._sessions = sessions
        self._janitor = janitor
        self.renew_listing = True
        """Whether Spark's sessions may hold old file listings; the safe answer until Spark was asked."""
        self._now_ms = now_ms
        self._running: dict[str, _Running] = {}
        self._sequence = count(1)
        self._next_versions: dict[str, int] = {}
        self.recomputes = 0
        """Refreshes that ran a definition since the start."""

    # --- waiting for fresh content -----------------------------------------------------------------

    async def make_fresh(self, view_id: str, report: Report) -> None:
        """Returns when the current version contains every write that had ended when this was called.

        Views below come first. Raises RefreshFailed (BaseTableMissing where Spark says so), UpstreamLost.
        """
        entry = self._catalog.entry(view_id)
        needed = entry.ledger.ended
        await self._make_bases_fresh(entry.view.views, report)
        # Only now: a refresh that began before the bases were fresh may have read them stale.
        arrived = next(self._sequence)
        bases = {base: self._current(base) for base in entry.view.views}
        while not self._suffices(entry, needed, bases):
            if await self._take_part(entry, arrived, "a base table changed", report):
                return

    async def refresh(self, view_id: str, report: Report) -> None:
        """Recomputes the view, stale or not: returns when a refresh that began after this call is published."""
        entry = self._catalog.entry(view_id)
        await self._make_bases_fresh(entry.view.views, report)
        arrived = next(self._sequence)
        while not await self._take_part(entry, arrived, "REFRESH was asked for", report):
            pass

    async def _make_bases_fresh(self, views: frozenset[str], report: Report) -> None:
        for base in sorted(views):
            if self._catalog.find(base) and self._catalog.is_stale(base):
                await self.make_fresh(base, report)

    def _current(self, view_id: str) -> int:
        entry = self._catalog.find(view_id)
        return entry.view.current.number if entry else -1

    def _suffices(self, entry: Entry, needed: int, bases: dict[str, int]) -> bool:
        seen = entry.view.current.watermark.views
        return (
            not entry.uncertain
            and entry.ledger.contains >= needed
            and all(0 <= number <= seen.get(base, -1) for base, number in bases.items())
        )

    async def _take_part(self, entry: Entry, arrived: int, reason: str, report: Report) -> bool:
        """Waits for the view's refresh, starting one where none runs; True if it began after `arrived`.

        A refresh that began earlier may miss what the caller needs, and its failure is not the caller's.
        """
        running = self._running.get(entry.view.id) or self._start(entry, reason)
        running.reports.append(report)
        running.waiters += 1
        try:
            await asyncio.shield(running.task)
        except FreshgateError:
            if running.sequence > arrived:
                raise
        except asyncio.CancelledError:
            if not running.task.cancelled():
                raise
            # Those who waited for it have gone, or the view was dropped.
            if self._catalog.find(entry.view.id) is not entry:
                raise _stopped(entry.view) from None
            return False
        finally:
            running.waiters -= 1
            if running.waiters == 0 and not running.task.done():
                running.task.cancel()
        return running.sequence > arrived

    def _start(self, entry: Entry, reason: str) -> _Running:
        view_id = entry.view.id
        task = asyncio.create_task(self._refresh(entry, reason), name=f"refresh {entry.view.name}")
        running = _Running(next(self._sequence), task)
        self._running[view_id] = running
        task.add_done_callback(lambda _: self._running.pop(view_id, None))
        return running

    async def stop(self, view_id: str) -> None:
        """Cancels the view's refresh, and returns when it is gone."""
        running = self._running.get(view_id)
        if running is not None:
            running.task.cancel()
            await asyncio.wait([running.task])

    async def stop_all(self) -> None:
        await asyncio.gather(*(self.stop(view_id) for view_id in list(self._running)))

    # --- one refresh -------------------------------------------------------------------------------

    async def _refresh(self, entry: Entry, reason: str) -> None:
        if entry.uncertain and (before := await self._catalog.settle(entry)) is not None:
            self._retire(entry.view, before)
        view = entry.view
        plan = plan_refresh(view, self._next_version(view), reason, renew_listing=self.renew_listing)
        self._tell(view, f"Refreshing materialized view {view.name} ({plan.method}: {reason})")
        log.info("Refreshing %s: version %d, %s, %s", view.name, plan.version, plan.method, reason)
        began = time.monotonic()
        entry.writing = plan.version
        try:
            present = await self._with_present_bases(entry)
            # Not while a session is held: refreshes below need sessions, too.
            await self._make_bases_fresh(present.views, partial(self._tell, view))
            async with self._sessions.session() as session:
                await self._execute(entry, present, plan, session)
        except UpstreamLost:
            self._discard(entry, plan)
            raise
        except FreshgateError as error:
            self._discard(entry, plan)
            raise _failure(view, error) from error
        except asyncio.CancelledError:
            self._discard(entry, plan)
            raise
        finally:
            entry.writing = None
        self._tell(view, f"Refreshed materialized view {view.name} in {time.monotonic() - began:.2f} s")
        log.info("Refreshed %s: version %d in %.2f s", view.name, plan.version, time.monotonic() - began)

    async def first_write(self, view: MaterializedView, session: SqlSession) -> None:
        """Writes the rows of a new view's version."""
        self.recomputes += 1
        self._next_versions[view.id] = view.current.number + 1
        plan = plan_refresh(view, view.current.number, "first build", renew_listing=self.renew_listing)
        for step in plan.write:
            await session.run(step.sql)

    async def _execute(self, entry: Entry, view: MaterializedView, plan: RefreshPlan, session: SqlSession) -> None:
        self.recomputes += 1
        started_at, contains = self._now_ms(), entry.ledger.events
        watermark = Watermark(entry.ledger.watermark, {base: self._current(base) for base in view.views})
        for step in plan.write:
            log.debug("%s: %s", view.name, step.purpose)
            await session.run(step.sql)
        version = Version(plan.version, started_at, self._now_ms(), watermark, plan.method)
        async with entry.lock:
            if self._catalog.find(view.id) is not entry:
                raise _stopped(view)
            mark, reserved = entry.ledger.events, plan.version + VERSIONS_RESERVED
            properties = {**stored.write_bases(view), **stored.write_version(version, mark, reserved)}
            await session.run(maintenance.set_properties(view.storage, properties))
            # From here on this version may be the current one in the catalog, whatever we hear of the next call.
            entry.ledger.stored_mark = mark
            entry.ledger.stored_watermark = max(entry.ledger.stored_watermark, watermark.events)
            try:
                await session.run(plan.publish.sql)
            except (UpstreamLost, asyncio.CancelledError):
                entry.uncertain = True
                raise
            old = entry.view.current.number
            self._catalog.replace(entry, view)
            entry.view = catalog_module.enter(entry, version, contains, mark, reserved)
        self._retire(view, old)

    async def _with_present_bases(self, entry: Entry) -> MaterializedView:
        """The view with what its definition reads today: a Spark view on the way may have been replaced.

        Until it is published the catalog has what it read before as well: a failure forgets nothing. It is known
        before anything is read, so that a write to a new base table is noted from now on.
        """
        view = entry.view
        sources = await self._relations.sources_of(definition_reads(view.query, view.namespace))
        for base in sources.views:
            if view.id in self._catalog.reads(base):
                raise RefreshFailed(
                    f"The definition of materialized view {view.name} has come to read {view.name} itself, through a "
                    f"view that was replaced. Change that view.",
                    sqlstate="42P19",
                )
        both = replace(view, tables=view.tables | sources.tables, views=view.views | sources.views)
        self._catalog.replace(entry, both)
        return replace(view, tables=sources.tables, views=sources.views)

    def _next_version(self, view: MaterializedView) -> int:
        """A number that was never used: after a start the reserved ones are skipped, a failed refresh uses one up."""
        number = max(self._next_versions.get(view.id, 0), view.current.number + 1)
        if view.id not in self._next_versions:
            number = max(number, view.versions_reserved)
        self._next_versions[view.id] = number + 1
        return number

    def _discard(self, entry: Entry, plan: RefreshPlan) -> None:
        """The rows that a failed refresh may have written are nobody's: the janitor drops them.

        Unless they may have been published: then they are a stray if they were not, once that is known.
        """
        if entry.uncertain:
            return
        self._retire(plan.view, plan.version)

    def _retire(self, view: MaterializedView, version: int) -> None:
        self._janitor.retire(view.id, Leftover(view.storage, view.definition, frozenset({version})))

    def _tell(self, view: MaterializedView, line: str) -> None:
        running = self._running.get(view.id)
        for report in running.reports if running else ():
            report(line)


def in_words_of(view: TableName, definition: TableName, message: str) -> str:
    """Spark's message with the view's name for that of its definition, which no user has ever seen."""
    return message.replace(definition.quoted, view.quoted).replace(str(definition), str(view))


def definition_reads(query: str, namespace: Namespace) -> list[TableName]:
    """The relations that a definition's text names."""
    return [TableName.resolve(reference.parts, namespace) for reference in lineage.relations(query).reads]


def _stopped(view: MaterializedView) -> RefreshFailed:
    return RefreshFailed(
        f"The refresh of materialized view {view.name} was stopped, because the view was dropped or replaced. "
        f"Run the statement again."
    )


def _failure(view: MaterializedView, error: FreshgateError) -> RefreshFailed:
    kind = BaseTableMissing if unknown_error(error) else RefreshFailed
    return kind(
        f"The refresh of materialized view {view.name} failed; version {view.current.number} stays published. "
        f"Mend the cause and run REFRESH MATERIALIZED VIEW {view.name}, or read again.",
        sqlstate=error.sqlstate,
        cause=in_words_of(view.name, view.definition, str(error)),
    )
