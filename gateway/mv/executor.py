"""Refreshes: makes views fresh, one refresh per view at a time, one for any number of readers."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count

from gateway.errors import FreshgateError, RefreshFailed, UpstreamLost
from gateway.mv import catalog as catalog_module
from gateway.mv import properties as stored
from gateway.mv.catalog import Catalog, Entry
from gateway.mv.fence import Fence, Superseded
from gateway.mv.inspection import Inspection, Inspector
from gateway.mv.janitor import Janitor
from gateway.mv.model import (
    NEVER_BUILT,
    Cause,
    Leftover,
    MaterializedView,
    RefreshMode,
    Task,
    TaskStatus,
    Version,
    Watermark,
)
from gateway.mv.planner import RefreshPlan, plan_publish
from gateway.mv.ports import Metastore, Sessions, SqlSession
from gateway.mv.proposal import Proposal, Proposer, asked_for, in_time_zone
from gateway.mv.relations import Relations, definition_reads
from gateway.mv.schemas import Schemas, schemas_seen
from gateway.mv.versions import Versions
from sql import maintenance
from sql.maintenance import Shown
from sql.names import TableName

log = logging.getLogger(__name__)

VERSIONS_RESERVED = 16
"""How many version numbers one refresh reserves: those that a crash may waste, against a metastore call for each."""

ERROR_CHARACTERS_MAX = 2_000
"""Of an error that a task keeps: Spark's messages can hold whole plans."""
GONE = frozenset({"42P01", "42704", "42703", "51024"})
"""SQLSTATEs by which Spark says that what a definition reads is not there any more: a table, its database, a column,
or a view's column with the type it had."""

GONE_SECONDS = 30.0
LATE_ROWS_SECONDS = 30.0
"""How long a cancelled INSERT may still write."""
SAVING_SECONDS = 5.0

Report = Callable[[str], None]
"""Takes one line for the log of the operation that waits."""


class BaseTableMissing(RefreshFailed):
    """The definition reads something that no longer exists, or is not what it was."""


@dataclass(slots=True, eq=False)
class _Running:
    """One refresh in progress and those who wait for it."""

    sequence: int
    cause: Cause
    task: asyncio.Task[None]
    waiters: int = 0
    reports: list[Report] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Start:
    """What was noted before a refresh looked at the base tables: the time, the last event, the watermark."""

    at: int
    contains: int
    watermark: Watermark


@dataclass(frozen=True, slots=True)
class _Work:
    """One refresh under way: of which view, its task with its number, and the session that it runs in."""

    entry: Entry
    number: int
    task: Task
    start: _Start
    session: SqlSession


class Executor:
    """Carries refresh plans out and shares them among readers."""

    def __init__(
        self,
        catalog: Catalog,
        relations: Relations,
        schemas: Schemas,
        sessions: Sessions,
        inspector: Inspector,
        proposer: Proposer,
        janitor: Janitor,
        versions: Versions,
        fence: Fence,
        metastore: Metastore,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._catalog = catalog
        self._relations = relations
        self._schemas = schemas
        self._sessions = sessions
        self._inspector = inspector
        self._proposer = proposer
        self._janitor = janitor
        self._versions = versions
        self._fence = fence
        self._metastore = metastore
        self._now_ms = now_ms
        self._running: dict[str, _Running] = {}
        self._sequence = count(1)
        self._next_versions: dict[str, int] = {}
        self._last_task_id = 0
        self._gone: dict[str, tuple[tuple[int, int], float, str]] = {}
        """Views whose refresh failed for good: the last event and the catalog's revision then, until when that counts,
        and the error."""
        self._background: set[asyncio.Task[None]] = set()
        self._saving: set[asyncio.Task[None]] = set()
        self.recomputes = 0
        """Refreshes that ran a definition since the start."""

    # --- waiting for fresh content -----------------------------------------------------------------

    async def make_fresh(self, view_id: str, cause: Cause, report: Report) -> None:
        """Returns when the current version contains every write that had ended when this was called, and every other
        change that the last look at the base tables showed.

        Views below come first. Raises RefreshFailed (BaseTableMissing where Spark says so), UpstreamLost.
        """
        self._fence.raise_if_lost()
        entry = self._catalog.entry(view_id)
        needed = entry.ledger.ended
        await self._make_bases_fresh(entry.view.views, cause, report)
        # Only now: a refresh that began before the bases were fresh may have read them stale.
        arrived = next(self._sequence)
        bases = {base: self._current(base) for base in entry.view.views}
        while not await self._suffices(entry, needed, bases):
            if await self._take_part(entry, arrived, cause, report):
                return

    async def refresh(self, view_id: str, cause: Cause, report: Report) -> None:
        """Carries REFRESH out, by what the base tables look like now. Returns when a refresh that began after this
        call, and does what `cause` asks for, is published or has found nothing to do. Raises what `make_fresh` raises.
        """
        await self._fence.check()
        entry = self._catalog.entry(view_id)
        cause = replace(cause, not_before=time.monotonic())
        await self._inspector.check([view_id], cause.not_before)
        await self._make_bases_fresh(entry.view.views, cause, report)
        arrived = next(self._sequence)
        while not await self._take_part(entry, arrived, cause, report):
            pass

    def begin_refresh(self, view_id: str, cause: Cause) -> int:
        """As `refresh`, without waiting for it; returns the id of its task."""
        task_id = self._new_task_id()
        self._keep(self._unwatched(view_id, replace(cause, task_id=task_id)), self._background)
        return task_id

    async def _unwatched(self, view_id: str, cause: Cause) -> None:
        try:
            await self.refresh(view_id, cause, lambda _: None)
        except FreshgateError as error:
            log.debug("a refresh in the background failed: %s", error)

    def known_gone(self, view_id: str) -> str | None:
        """Why a refresh cannot work, where one has just failed because what the definition reads is gone.

        It is tried again when something that the view reads has changed, or after GONE_SECONDS: the table may come
        back in a way that nobody notices here.
        """
        entry = self._catalog.find(view_id)
        gone = self._gone.get(view_id)
        if entry is None or gone is None or not entry.view.built:
            return None
        seen, until, error = gone
        if seen != (entry.ledger.events, self._catalog.revision) or time.monotonic() > until:
            del self._gone[view_id]
            return None
        return error

    async def compact(self, view_id: str) -> None:
        """Shortens what the public view says, after replaced partitions were dropped. No row is touched, and no reader
        sees a difference. Raises what Spark raises."""
        entry = self._catalog.find(view_id)
        if entry is None or not entry.view.current.shown.hidden:
            return
        # Not in a refresh's session: the janitor must not wait for refreshes, for they may wait for it.
        async with entry.lock:
            current = entry.view.current
            present = await self._proposer.present(entry.view)
            shown = current.manifest.shown(current.shown, present)
            if shown == current.shown or entry.uncertain or self._catalog.find(view_id) is not entry:
                return
            await self._check_unmoved(entry)
            await self._metastore.run(plan_publish(entry.view, shown).sql)
            entry.view = replace(entry.view, current=replace(current, shown=shown))

    async def empty(self, view_id: str, cause: Cause) -> None:
        """Takes the view's rows away: it counts as never built. Raises what Spark raises."""
        entry = self._catalog.entry(view_id)
        await self.stop(view_id)
        async with self._sessions.session() as session, entry.lock:
            await self._check_unmoved(entry)
            now = self._now_ms()
            old = entry.view.current
            watermark = Watermark(entry.ledger.watermark)
            version = Version.whole(NEVER_BUILT, now, now, watermark, previous=old.number)
            contains, mark, reserved = entry.ledger.events, entry.ledger.events, entry.view.versions_reserved
            task = Task(self._new_task_id(), cause, "WITH NO DATA", now, TaskStatus.SUCCESS, finished_at=now)
            entry.history.end(entry.history.begin(task), task)
            tasks = entry.history.take_unsaved()
            properties = {**stored.write_version(version, mark, reserved), **tasks}
            await session.run(maintenance.set_properties(entry.view.storage, properties))
            entry.history.saved(tasks)
            await self._switch(entry, version.shown, session)
            entry.view = catalog_module.enter(entry, version, contains, mark, reserved)
        self._retire(entry.view, old)

    async def _make_bases_fresh(self, views: frozenset[str], cause: Cause, report: Report) -> None:
        below = Cause("SYSTEM", cause.user)
        for base in sorted(views):
            if self._catalog.find(base) and self._catalog.is_stale(base):
                await self.make_fresh(base, below, report)

    def _current(self, view_id: str) -> int:
        entry = self._catalog.find(view_id)
        return entry.view.current.number if entry else -1

    async def _suffices(self, entry: Entry, needed: int, bases: dict[str, int]) -> bool:
        # By the looks that were taken already, unless a write was noted since.
        await self._inspector.check([entry.view.id], float("-inf"))
        seen = entry.view.current.watermark.views
        return (
            entry.view.built
            and not entry.uncertain
            and entry.ledger.contains >= needed
            and entry.drift is None
            and all(0 <= number <= seen.get(base, -1) for base, number in bases.items())
        )

    async def _take_part(self, entry: Entry, arrived: int, cause: Cause, report: Report) -> bool:
        """Waits for the view's refresh, starting one where none runs; True if it began after `arrived` and does what
        `cause` asks for.

        A refresh that began earlier may miss what the caller needs, and its failure is not the caller's.
        """
        running = self._running.get(entry.view.id) or self._start(entry, cause)
        running.reports.append(report)
        running.waiters += 1
        try:
            await asyncio.shield(running.task)
        except FreshgateError:
            if running.sequence > arrived and running.cause.covers(cause):
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
        return running.sequence > arrived and running.cause.covers(cause)

    def _start(self, entry: Entry, cause: Cause) -> _Running:
        view_id = entry.view.id
        task = asyncio.create_task(self._refresh(entry, cause), name=f"refresh {entry.view.name}")
        running = _Running(next(self._sequence), cause, task)
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
        for task in list(self._background):
            task.cancel()
        await asyncio.gather(*(self.stop(view_id) for view_id in list(self._running)))
        if self._saving:
            # What became of failed tasks is worth a moment.
            await asyncio.wait(self._saving, timeout=SAVING_SECONDS)

    # --- tasks -------------------------------------------------------------------------------------

    def _new_task_id(self) -> int:
        """Microseconds since the epoch: unique, growing, and it tells when."""
        self._last_task_id = max(self._last_task_id + 1, self._now_ms() * 1_000)
        return self._last_task_id

    def begin_task(self, entry: Entry, cause: Cause) -> tuple[int, Task]:
        """A task that runs now, with its number in the view's history."""
        staleness = self._catalog.staleness(entry.view.id)
        reason = asked_for(cause) or (staleness.reason if staleness else "a read asked for it")
        task = Task(cause.task_id or self._new_task_id(), cause, reason, self._now_ms())
        return entry.history.begin(task), task

    def end_task(self, entry: Entry, number: int, task: Task, version: int) -> dict[str, str]:
        """The task has succeeded; returns the properties that store it, and what was not stored before."""
        done = replace(task, status=TaskStatus.SUCCESS, finished_at=self._now_ms(), version=version)
        entry.history.end(number, done)
        return entry.history.take_unsaved()

    def _fail_task(self, entry: Entry, number: int, task: Task, status: TaskStatus, error: str) -> None:
        done = replace(task, status=status, finished_at=self._now_ms(), error=error[:ERROR_CHARACTERS_MAX])
        entry.history.end(number, done)
        self._keep(self._save_history(entry), self._saving)

    async def _save_history(self, entry: Entry) -> None:
        """Stores what became of failed tasks; where that fails, it goes with the next change."""
        if not entry.history.unsaved or not entry.recorded:
            return
        try:
            await self._fence.check()
            async with entry.lock:
                tasks = entry.history.take_unsaved()
                if tasks and self._catalog.find(entry.view.id) is entry:
                    await self._metastore.run(maintenance.set_properties(entry.view.storage, tasks))
                    entry.history.saved(tasks)
        except FreshgateError as error:
            log.info("the tasks of %s are not stored yet: %s", entry.view.name, error)

    def _keep(self, work: Coroutine[None, None, None], among: set[asyncio.Task[None]]) -> None:
        """Does the work in the background; the loop itself holds tasks only weakly."""
        task = asyncio.ensure_future(work)
        among.add(task)
        task.add_done_callback(among.discard)

    # --- one refresh -------------------------------------------------------------------------------

    async def _refresh(self, entry: Entry, cause: Cause) -> None:
        number, task = self.begin_task(entry, cause)
        try:
            await self._recompute(entry, number, task)
        except asyncio.CancelledError:
            self._fail_task(entry, number, task, TaskStatus.CANCELED, "nobody waits for it any more, or it was stopped")
            raise
        except FreshgateError as error:
            if isinstance(error, BaseTableMissing):
                seen = entry.ledger.events, self._catalog.revision
                self._gone[entry.view.id] = seen, time.monotonic() + GONE_SECONDS, str(error)
            self._fail_task(entry, number, task, TaskStatus.FAILED, str(error))
            log.warning("%s", error)
            raise

    async def _recompute(self, entry: Entry, number: int, task: Task) -> None:
        if entry.uncertain:
            old = entry.view.current
            if await self._catalog.settle(entry) is not None:
                self._retire(entry.view, old)
        before, began = entry.view, time.monotonic()
        try:
            present = await self._with_present_bases(entry)
            # Not while a session is held: refreshes below need sessions, too.
            await self._make_bases_fresh(present.views, task.cause, partial(self._tell, before))
            async with self._sessions.session() as session, in_time_zone(session, before.layout.time_zone):
                work = _Work(entry, number, task, self._start_of(entry, present), session)
                version = self.expected_version(before)
                proposal = await self._proposer.propose(present, before, task.cause, version, session)
            if proposal.plan is None:
                self._nothing_to_do(work, proposal)
                return
            # Without a session: what is waited for may need one, and so may other views' refreshes.
            await self._versions.make_room(before)
            async with self._sessions.session() as session, in_time_zone(session, before.layout.time_zone):
                await self._execute(replace(work, session=session), proposal, proposal.plan)
        except UpstreamLost:
            self._discard(entry)
            raise
        except FreshgateError as error:
            self._discard(entry)
            raise await self._failure(before, error) from error
        except asyncio.CancelledError:
            self._discard(entry)
            raise
        finally:
            entry.writing = None
        self._tell(before, f"Refreshed materialized view {before.name} in {time.monotonic() - began:.2f} s")
        log.info("Refreshed %s in %.2f s", before.name, time.monotonic() - began)

    def _start_of(self, entry: Entry, present: MaterializedView) -> _Start:
        """What is noted when a refresh begins to look and to read."""
        watermark = Watermark(entry.ledger.watermark, {base: self._current(base) for base in present.views})
        return _Start(self._now_ms(), entry.ledger.events, watermark)

    def _nothing_to_do(self, work: _Work, proposal: Proposal) -> None:
        """What was noted, or seen, has changed nothing that the view shows."""
        entry = work.entry
        self._end_unchanged(entry, work.number, work.task)
        current = replace(entry.view.current, contents=proposal.contents(entry.view.current.number))
        # In memory only: after a restart it is found out once more.
        entry.view = replace(entry.view, current=current)
        entry.ledger.publish(work.start.contains)
        entry.drift, entry.compared, entry.fresh_at = None, _compared(work, proposal), work.start.at
        self._tell(entry.view, f"Materialized view {entry.view.name} is fresh; nothing was recomputed")

    def note_unchanged(self, view_id: str, cause: Cause) -> None:
        """A look has shown that noted writes changed nothing: that was the whole refresh."""
        entry = self._catalog.find(view_id)
        if entry is not None:
            number, task = self.begin_task(entry, cause)
            self._end_unchanged(entry, number, task)

    def _end_unchanged(self, entry: Entry, number: int, task: Task) -> None:
        done = replace(
            task,
            status=TaskStatus.SUCCESS,
            mode=RefreshMode.NOT_REFRESH,
            finished_at=self._now_ms(),
            reason="nothing that it shows has changed",
        )
        entry.history.end(number, done)

    async def first_write(self, view: MaterializedView, inspection: Inspection, session: SqlSession) -> None:
        """Writes the rows of a new view's version."""
        self.recomputes += 1
        self._next_versions[view.id] = view.current.number + 1
        plan = self._proposer.first(view, inspection)
        async with in_time_zone(session, view.layout.time_zone):
            for step in plan.write:
                await session.run(step.sql)

    async def _execute(self, work: _Work, proposal: Proposal, plan: RefreshPlan) -> None:
        self.recomputes += 1
        entry, session, present = work.entry, work.session, proposal.view
        entry.writing = self._next_version(entry.view)
        task = replace(work.task, mode=plan.mode, reason=plan.reason, partitions=proposal.partitions)
        entry.history.amend(work.number, task)
        self._tell(present, f"Refreshing materialized view {present.name} ({plan.method}: {plan.reason})")
        log.info("Refreshing %s: version %d, %s, %s", present.name, plan.version, plan.method, plan.reason)
        await self._reserve(entry, plan.version, session)
        for step in plan.write:
            log.debug("%s: %s", present.name, step.purpose)
            await session.run(step.sql)
        await self._versions.check_size(entry.view)
        contents = proposal.contents(plan.version)
        if entry.ledger.removed_since(work.start.contains):
            contents = contents.doubtful(plan.version)
        version = Version(
            plan.version,
            work.start.at,
            self._now_ms(),
            work.start.watermark,
            plan.method,
            plan.manifest,
            plan.shown(await self._proposer.present(present)),
            contents,
            entry.view.current.number,
        )
        old = entry.view.current
        since = await self._publish(work, proposal, task, version)
        self._retire(entry.view, old, since)

    async def _reserve(self, entry: Entry, number: int, session: SqlSession) -> None:
        """Stores that a number may be used from now on: the rows of a refresh that is cut off must never meet those of
        another."""
        async with entry.lock:
            if number < entry.view.versions_reserved:
                return
            await self._fence.check()
            reserved = number + VERSIONS_RESERVED
            await session.run(maintenance.set_properties(entry.view.storage, stored.write_reserved(reserved)))
            entry.view = replace(entry.view, versions_reserved=reserved)

    async def _publish(self, work: _Work, proposal: Proposal, task: Task, version: Version) -> int:
        """Returns the readers' moment from which on Spark may have shown the version."""
        entry, session, present = work.entry, work.session, proposal.view
        async with entry.lock:
            if self._catalog.find(present.id) is not entry:
                raise _stopped(present)
            await self._fence.check()
            # An ALTER may have changed all else meanwhile.
            view = replace(
                entry.view,
                tables=present.tables,
                views=present.views,
                followed=present.followed,
                schemas=schemas_seen(proposal.inspection.looks),
                view_names=self._catalog.names_of(present.views),
            )
            mark, reserved = entry.ledger.events, version.number + VERSIONS_RESERVED
            tasks = self.end_task(entry, work.number, task, version.number)
            properties = {**stored.write_bases(view), **stored.write_version(version, mark, reserved), **tasks}
            await session.run(maintenance.set_properties(view.storage, properties))
            entry.history.saved(tasks)
            # From here on this version may be the current one in the catalog, whatever we hear of the next call.
            entry.ledger.stored_mark = mark
            entry.ledger.stored_watermark = max(entry.ledger.stored_watermark, version.watermark.events)
            await self._check_unmoved(entry)
            since = self._janitor.moment()
            await self._switch(entry, version.shown, session)
            self._catalog.replace(entry, view)
            entry.view = catalog_module.enter(entry, version, work.start.contains, mark, reserved)
            entry.compared = _compared(work, proposal)
            return since

    async def _check_unmoved(self, entry: Entry) -> None:
        """Nobody else has published since the version that is current in memory, or serves this metastore now."""
        view = entry.view
        _, published = await asyncio.gather(self._fence.check(), self._catalog.published(view.name, view.storage))
        if published != view.current.number:
            # Somebody else's doing: the metastore tells what is current before the next refresh begins.
            entry.uncertain = True
            shown = "nothing of it any more" if published is None else f"its version {published}"
            raise RefreshFailed(
                f"{view.name} shows {shown}, not version {view.current.number}, from which this refresh began: "
                f"something else than this gateway has changed it. Only one gateway may serve a metastore.",
                sqlstate="40001",
            )

    async def _failure(self, view: MaterializedView, error: FreshgateError) -> FreshgateError:
        if isinstance(error, RefreshFailed | Superseded):
            # Our own words say it all.
            return error
        kept = f"version {view.current.number} stays published" if view.built else "it has no rows yet"
        entry = self._catalog.find(view.id)
        if error.sqlstate in GONE and entry is not None and (damage := await self._catalog.find_damage(entry)):
            return BaseTableMissing(damage, sqlstate="58030")
        said = f"The refresh of materialized view {view.name} failed; {kept}. "
        cause = in_words_of(view.name, view.definition, str(error))
        if error.sqlstate not in GONE:
            advice = f"Mend the cause and run REFRESH MATERIALIZED VIEW {view.name}, or read again."
            return RefreshFailed(said + advice, sqlstate=error.sqlstate, cause=cause)
        self._schemas.forget(view.tables)
        changes = await self._schemas.changes(view)
        said += f"What it reads has changed: {changes}. " if changes else ""
        advice = "Bring that back, or replace the view with CREATE OR REPLACE MATERIALIZED VIEW."
        return BaseTableMissing(said + advice, sqlstate=error.sqlstate, cause=cause)

    async def _switch(self, entry: Entry, shown: Shown, session: SqlSession) -> None:
        """The commit point."""
        try:
            await session.run(plan_publish(entry.view, shown).sql)
        except (UpstreamLost, asyncio.CancelledError):
            entry.uncertain = True
            raise

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

    def expected_version(self, view: MaterializedView) -> int:
        """The number that the next refresh will take, without taking it."""
        number = max(self._next_versions.get(view.id, 0), view.current.number + 1)
        return number if view.id in self._next_versions else max(number, view.versions_reserved)

    def _next_version(self, view: MaterializedView) -> int:
        """A number that was never used: after a start the reserved ones are skipped, a failed refresh uses one up."""
        number = self.expected_version(view)
        self._next_versions[view.id] = number + 1
        return number

    def _discard(self, entry: Entry) -> None:
        """The rows that a failed refresh may have written are nobody's: the janitor drops them.

        Unless they may have been published: then they are strays if they were not, once that is known.
        """
        if not entry.uncertain:
            self._strays(entry.view)

    def _strays(self, view: MaterializedView) -> None:
        """Rows of a version that nobody ever saw. Spark may write the last of them after it was told to stop."""
        for seconds in (0.0, LATE_ROWS_SECONDS):
            self._janitor.retire(view.id, Leftover(view.storage, view.definition, whole=False), later_seconds=seconds)

    def _retire(self, view: MaterializedView, version: Version, since: int | None = None) -> None:
        """Nobody begins to read a version that was current; the next one may have been read from `since` on."""
        if version.number == NEVER_BUILT:
            return
        self._janitor.retire(view.id, Leftover(view.storage, view.definition, whole=False), version, since=since)

    def _tell(self, view: MaterializedView, line: str) -> None:
        running = self._running.get(view.id)
        for report in running.reports if running else ():
            report(line)


def _compared(work: _Work, proposal: Proposal) -> Mapping[TableName, float] | None:
    """With which looks a version that was just written agrees; with none where only partitions that were named were."""
    return None if work.task.cause.partitions else proposal.inspection.began


def in_words_of(view: TableName, definition: TableName, message: str) -> str:
    """Spark's message with the view's name for that of its definition, which no user has ever seen."""
    return message.replace(definition.quoted, view.quoted).replace(str(definition), str(view))


def _stopped(view: MaterializedView) -> RefreshFailed:
    return RefreshFailed(
        f"The refresh of materialized view {view.name} was stopped, because the view was dropped or replaced. "
        f"Run the statement again."
    )
