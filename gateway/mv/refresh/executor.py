"""Carries one refresh out: observe, plan, execute, publish. `tasks` decides when."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Container, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from gateway.errors import FreshgateError, RefreshFailed, StatementFailed, Stopping, UpstreamLost
from gateway.mv.catalog import naming
from gateway.mv.catalog.fence import Fence, Superseded
from gateway.mv.catalog.index import Catalog
from gateway.mv.catalog.settlement import Settlement
from gateway.mv.concurrency import beside
from gateway.mv.freshness.entry import Entry
from gateway.mv.model import properties as stored
from gateway.mv.model.view import (
    NEVER_BUILT,
    Cause,
    Contents,
    Leftover,
    MaterializedView,
    Task,
    TaskStatus,
    TriggerMode,
    Version,
)
from gateway.mv.observation.inspection import Inspection
from gateway.mv.observation.relations import Relations, definition_reads
from gateway.mv.observation.schemas import Schemas, schemas_seen
from gateway.mv.ports import Metastore, Sessions, SqlSession, StageProgress
from gateway.mv.refresh.planner import RefreshPlan, Step, plan_publish
from gateway.mv.refresh.progress import Progress, Report, follow
from gateway.mv.refresh.proposal import Proposal, Proposer
from gateway.mv.refresh.runs import Run
from gateway.mv.refresh.surroundings import Surroundings
from gateway.mv.refresh.task_log import TaskLog
from gateway.mv.versions.janitor import Janitor
from gateway.mv.versions.kept import Versions
from sql.names import TableName
from sql.texts import maintenance
from sql.texts.maintenance import Shown

log = logging.getLogger(__name__)

VERSIONS_RESERVED = 16
"""How many version numbers one refresh reserves: those that a crash may waste, against a metastore call for each."""

GONE = frozenset({"42P01", "42704", "42703", "51024"})
"""SQLSTATEs by which Spark says that what a definition reads is not there any more: a table, its database, a column,
or a view's column with the type it had."""

LATE_ROWS_SECONDS = 30.0
"""How long a cancelled INSERT may still write."""
LATE_SWITCH_SECONDS = 30.0
"""How long a switch may still be carried out after the connection that asked for it broke."""
MakeFresh = Callable[[str, Cause, Report], Awaitable[None]]
Confirm = Callable[[Iterable[str]], Awaitable[None]]


class BaseTableMissing(RefreshFailed):
    """The definition reads something that no longer exists, or is not what it was."""


@dataclass(frozen=True, slots=True)
class _Start:
    """What was noted before a refresh looked at the base tables: the time, the last event, the versions of the views
    below."""

    at: int
    contains: int
    views: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class _Work:
    """One refresh under way: for which task, and the session that it runs in."""

    run: Run
    start: _Start
    session: SqlSession

    @property
    def entry(self) -> Entry:
        return self.run.entry


class Executor:
    """Refreshes views."""

    def __init__(
        self,
        catalog: Catalog,
        settlement: Settlement,
        relations: Relations,
        schemas: Schemas,
        sessions: Sessions,
        proposer: Proposer,
        janitor: Janitor,
        versions: Versions,
        fence: Fence,
        metastore: Metastore,
        task_log: TaskLog,
        surroundings: Surroundings,
        spark: StageProgress,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._catalog = catalog
        self._settlement = settlement
        self._relations = relations
        self._schemas = schemas
        self._sessions = sessions
        self._proposer = proposer
        self._janitor = janitor
        self._versions = versions
        self._fence = fence
        self._metastore = metastore
        self._log = task_log
        self._surroundings = surroundings
        self._spark = spark
        self._now_ms = now_ms
        self._next_versions: dict[str, int] = {}
        self.make_fresh: MakeFresh = _nobody
        """Makes a view fresh that lies below another one."""
        self.confirm: Confirm = _nothing
        """Returns when views that are about to be read are as they were published."""

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
            await self._settlement.check_unmoved(entry)
            await self._metastore.run(plan_publish(entry.view, shown).sql)
            entry.shorten(shown)

    async def empty(self, view_id: str, cause: Cause) -> None:
        """Takes the view's rows away: it counts as never built. Raises what Spark raises."""
        entry = self._catalog.entry(view_id)
        number, task = self._log.begin(entry, cause)
        try:
            old = await self._empty(entry, number, task)
        except BaseException as error:  # cancelled, too
            self._log.fail(entry, number, TaskStatus.FAILED, str(error) or "it was stopped")
            raise
        self._retire(entry.view, old)

    async def _empty(self, entry: Entry, number: int, task: Task) -> Version:
        """Returns the version that was current before."""
        async with self._sessions.session() as session, entry.lock:
            await self._settlement.check_unmoved(entry)
            now = self._now_ms()
            old = entry.view.current
            version = Version.whole(NEVER_BUILT, now, now, {}, previous=old.number)
            contains, reserved = entry.ledger.events, entry.view.versions_reserved
            self._log.amend(entry, number, replace(task, reason="WITH NO DATA", started_at=now))
            ending = self._log.written(entry, number, NEVER_BUILT)
            properties = {**stored.write_version(version, reserved), **ending.properties}
            await session.run(maintenance.set_properties(entry.view.storage, properties))
            await self._fence.check_lately()
            await self._switch(entry, version.shown, session)
            entry.publish(version, reserved, contains=contains)
            self._log.succeed(entry, ending)
            return old

    async def make_bases_fresh(self, views: Iterable[str], cause: Cause, report: Report) -> None:
        """Makes the views below one fresh. Raises what refreshes raise.

        A schedule, or a change, leaves those alone of which something else says when they are refreshed.
        """
        below = Cause(TriggerMode.READ, cause.user)
        automatic = cause.trigger in {TriggerMode.SYSTEM, TriggerMode.COMMIT}
        for base in sorted(views):
            entry = self._catalog.find(base)
            if entry is None or (
                automatic and entry.view.complete and entry.view.clauses.refreshing.trigger is not None
            ):
                continue
            if self._catalog.is_stale(base):
                await self.make_fresh(base, below, report)

    def current(self, view_id: str) -> int:
        """The number of the view's current version; -1 for a view that was dropped."""
        entry = self._catalog.find(view_id)
        return entry.view.current.number if entry else -1

    # --- one refresh -------------------------------------------------------------------------------

    async def run(self, run: Run, cause: Cause) -> None:
        """Refreshes the task's view, by what `cause` asks for. Raises RefreshFailed (BaseTableMissing where Spark says
        so), UpstreamLost."""
        async with self.followed(run.progress, run):
            await self._recompute(run, cause)

    @asynccontextmanager
    async def followed(self, progress: Progress, report: Report) -> AsyncIterator[None]:
        """While it lasts, `report` hears now and then how far the refresh is."""
        following = asyncio.create_task(follow(progress, self._spark, report))
        worked = False
        try:
            yield
            worked = True
        finally:
            progress.end(worked=worked)
            following.cancel()

    async def _recompute(self, run: Run, cause: Cause) -> None:
        entry = run.entry
        if entry.uncertain:
            await self._settlement.settle(entry)
        before, began = entry.view, time.monotonic()
        try:
            async with self._ready(entry, before, cause, run) as (session, start, present):
                self._log.start(entry, run.number)
                run.begin_work()
                work = _Work(run, start, session)
                version = self.expected_version(before)
                proposal = await self._proposer.propose(present, before, cause, version, session)
            # The look has asked, too.
            self._fence.raise_if_lost()
            if proposal.plan is None:
                self._nothing_to_do(work, proposal)
                return
            # Without a session: what is waited for may need one, and so may other views' refreshes.
            await self._versions.make_room(before)
            fresh = proposal.view.calls_functions
            async with self._sessions.session(fresh=fresh) as session, self._surroundings.of(before, session):
                await self._execute(replace(work, session=session), proposal, proposal.plan)
        except (UpstreamLost, Stopping):
            self._discard(entry)
            raise
        except FreshgateError as error:
            self._discard(entry)
            raise await self._failure(before, error) from error
        except asyncio.CancelledError:
            self._discard(entry)
            raise
        finally:
            entry.end_writing()
        run(f"Refreshed materialized view {before.name} in {time.monotonic() - began:.2f} s")
        log.info("Refreshed %s in %.2f s", before.name, time.monotonic() - began)

    @asynccontextmanager
    async def _ready(
        self, entry: Entry, before: MaterializedView, cause: Cause, report: Report
    ) -> AsyncIterator[tuple[SqlSession, _Start, MaterializedView]]:
        """A session in which the refresh may look and read, for what lies below is fresh; what is noted then; and the
        view with what its definition reads."""
        present = await self._with_present_bases(entry, before)
        while True:
            # Not while a session is held: refreshes below need sessions, too.
            await self.make_bases_fresh(present.views, cause, report)
            await self.confirm(present.views)
            async with self._sessions.session() as session, self._surroundings.of(before, session):
                start = self._start_of(entry, present)
                # Both waits may have been long. What changes a name from here on is an event that the start lacks.
                known, present = present, await self._with_present_bases(entry, before)
                if _reads(present) == _reads(known):
                    yield session, start, present
                    return

    def _start_of(self, entry: Entry, present: MaterializedView) -> _Start:
        """What is noted when a refresh begins to look and to read."""
        return _Start(self._now_ms(), entry.ledger.events, {base: self.current(base) for base in present.views})

    def _nothing_to_do(self, work: _Work, proposal: Proposal) -> None:
        """What was noted, or seen, has changed nothing that the view shows."""
        entry = work.entry
        self._log.unchanged(entry, work.run.number)
        if entry.view.deciding != proposal.view.deciding:
            # An ALTER came meanwhile: what it has made of the view stays.
            return
        contents = proposal.contents(entry.view.current.number)
        contains = None if proposal.partly else work.start.contains
        entry.confirm(contents, contains, proposal.inspection.began, work.start.at)
        work.run(f"Materialized view {entry.view.name} is fresh; nothing was recomputed")

    async def first_write(
        self, view: MaterializedView, inspection: Inspection, session: SqlSession, progress: Progress
    ) -> None:
        """Writes the rows of a new view's version."""
        self._next_versions[view.id] = view.current.number + 1
        plan = self._proposer.first(view, inspection)
        async with self._surroundings.of(view, session):
            async for step in _steps(plan, progress, session):
                log.debug("%s: %s is done", view.name, step.purpose)

    async def _execute(self, work: _Work, proposal: Proposal, plan: RefreshPlan) -> None:
        entry, run, session, present = work.entry, work.run, work.session, proposal.view
        entry.begin_writing(self._next_version(entry.view))
        self._plan_task(work, proposal, plan)
        run(f"Refreshing materialized view {present.name} ({plan.method}: {plan.reason})")
        log.info("Refreshing %s: version %d, %s, %s", present.name, plan.version, plan.method, plan.reason)
        await self._reserve(entry, plan.version, session)
        async for step in _steps(plan, run.progress, session):
            self._log.wrote(entry, run.number, step.partitions)
        await self._versions.check_size(entry.view)
        contents = proposal.contents(plan.version)
        if entry.ledger.removed_since(work.start.contains):
            contents = contents.doubtful(plan.version)
        version = Version(
            plan.version,
            work.start.at,
            self._now_ms(),
            work.start.views,
            plan.method,
            plan.manifest,
            plan.shown(await self._proposer.present(present)),
            contents,
            entry.view.current.number,
        )
        old = entry.view.current
        since = await self._publish(work, proposal, version)
        self._retire(entry.view, old, since)
        self._log.count(entry, run.number, version.number)
        self._catalog.news.published.tell(entry.view.id)

    def _plan_task(self, work: _Work, proposal: Proposal, plan: RefreshPlan) -> None:
        task = work.entry.history.task(work.run.number)
        if task is not None:
            known = replace(task, mode=plan.mode, reason=plan.reason, completed=0)
            self._log.amend(work.entry, work.run.number, known.writing(proposal.partitions))

    async def _reserve(self, entry: Entry, number: int, session: SqlSession) -> None:
        """Stores that a number may be used from now on: the rows of a refresh that is cut off must never meet those of
        another. Nothing is written where another gateway has taken over."""
        async with entry.lock:
            await self._fence.check_lately()
            if number < entry.view.versions_reserved:
                return
            reserved = number + VERSIONS_RESERVED
            await session.run(maintenance.set_properties(entry.view.storage, stored.write_reserved(reserved)))
            entry.reserve(reserved)

    async def _publish(self, work: _Work, proposal: Proposal, version: Version) -> int:
        """Returns the readers' moment from which on Spark may have shown the version."""
        entry, session, present = work.entry, work.session, proposal.view
        async with entry.lock:
            if self._catalog.find(present.id) is not entry:
                raise stopped(present)
            await self._fence.check()
            if entry.uncertain:
                raise RefreshFailed(
                    f"Nobody knows what {present.name} shows: a statement that changes it broke off while it was "
                    f"refreshed. Refresh it again.",
                    sqlstate="40001",
                )
            if entry.view.current.number != present.current.number:
                raise RefreshFailed(
                    f"The materialized view {present.name} was emptied while it was refreshed. Refresh it again.",
                    sqlstate="40001",
                )
            # An ALTER may have changed all else meanwhile.
            reads = replace(present, schemas=schemas_seen(proposal.inspection.looks))
            view = entry.view.reading(reads)
            altered = view.deciding != present.deciding
            if altered:
                # What was written is not what the view is to hold by now.
                version = replace(version, contents=Contents())
            reserved = version.number + VERSIONS_RESERVED
            ending = self._log.written(entry, work.run.number, version.number)
            written = {
                **stored.write_bases(view),
                **await stored.version_written(version, reserved),
                **ending.properties,
            }
            # Each is a call or two of Spark's: readers of a stale view wait for both.
            async with beside(self._settlement.check_unmoved(entry)):
                await session.run(maintenance.set_properties(view.storage, written))
            # What was stored may have taken long, and then another gateway may serve by now.
            await self._fence.check_lately()
            since = self._janitor.moment()
            await self._switch(entry, version.shown, session)
            entry.publish(
                version,
                reserved,
                contains=None if proposal.partly else work.start.contains,
                reads=reads,
                compared=proposal.inspection.began,
                altered=altered,
            )
            self._log.succeed(entry, ending)
            return since

    async def _failure(self, view: MaterializedView, error: FreshgateError) -> FreshgateError:
        if isinstance(error, RefreshFailed | Superseded):
            # Our own words say it all.
            return error
        kept = f"version {view.current.number} stays published" if view.built else "it has no rows yet"
        said = f"The refresh of materialized view {view.name} failed; {kept}. "
        cause = in_words_of(view.name, view.definition, str(error))
        if error.sqlstate in GONE:
            try:
                if missing := await self._missing(view, said, cause, error):
                    return missing
            except StatementFailed as failed:
                log.warning("cannot tell what of %s is not there: %s", view.name, failed)
        advice = f"Mend the cause and run REFRESH MATERIALIZED VIEW {view.name}, or read again."
        # What is not there now may be there when it is tried again.
        sqlstate = RefreshFailed.sqlstate if error.sqlstate in GONE else error.sqlstate
        return RefreshFailed(said + advice, sqlstate=sqlstate, cause=cause)

    async def _missing(
        self, view: MaterializedView, said: str, cause: str, error: FreshgateError
    ) -> BaseTableMissing | None:
        """None where all is there: a metastore that is out of order for a moment says of what it has that it has none.

        Raises what the metastore raises.
        """
        entry = self._catalog.find(view.id)
        if entry is not None and (damage := await self._settlement.find_damage(entry)):
            return BaseTableMissing(damage, sqlstate="58030")
        self._schemas.forget(view.tables)
        changes = await self._schemas.changes(view)
        if not changes and not await self._is_refused(view):
            return None
        said += f"What it reads has changed: {changes}. " if changes else ""
        advice = "Bring that back, or replace the view with CREATE OR REPLACE MATERIALIZED VIEW."
        return BaseTableMissing(said + advice, sqlstate=error.sqlstate, cause=cause)

    async def _is_refused(self, view: MaterializedView) -> bool:
        """Whether Spark says now, too, that something which the definition reads is not there."""
        try:
            await self._metastore.run(maintenance.describe_rows(view.definition))
        except StatementFailed as error:
            return error.sqlstate in GONE
        return False

    async def _switch(self, entry: Entry, shown: Shown, session: SqlSession) -> None:
        """The commit point."""
        try:
            await session.run(plan_publish(entry.view, shown).sql)
        except (FreshgateError, asyncio.CancelledError) as error:
            view = entry.view
            # One that is carried out late is noticed as a version that somebody else has published.
            self._settlement.doubt(entry)
            number = entry.lose_switch()
            asyncio.get_running_loop().call_later(LATE_SWITCH_SECONDS, self._give_up, entry, number)
            if isinstance(error, FreshgateError) and await naming.unmoved(
                self._metastore, view, view.current.number, error
            ):
                entry.trust()
                entry.forget_switch(number)
            raise

    async def _with_present_bases(self, entry: Entry, view: MaterializedView) -> MaterializedView:
        """The view with what its definition reads today: a Spark view on the way may have been replaced.

        Until it is published the catalog has what it read before as well: a failure forgets nothing. It is known
        before anything is read, so that a write to a new base table is noted from now on.
        """
        sources = await self._relations.sources_of(definition_reads(view.query, view.namespace))
        for base in sources.views:
            if view.id in self._catalog.reads(base):
                raise RefreshFailed(
                    f"The definition of materialized view {view.name} has come to read {view.name} itself, through a "
                    f"view that was replaced. Change that view.",
                    sqlstate="42P19",
                )
        entry.read_more(sources.tables, sources.views)
        names = self._catalog.names_of(sources.views)
        return replace(view, tables=sources.tables, views=sources.views, view_names=names)

    def expected_version(self, view: MaterializedView) -> int:
        """The number that the next refresh will take, without taking it."""
        number = max(self._next_versions.get(view.id, 0), view.current.number + 1)
        return number if view.id in self._next_versions else max(number, view.versions_reserved)

    def _next_version(self, view: MaterializedView) -> int:
        """A number that was never used: after a start the reserved ones are skipped, a failed refresh uses one up."""
        number = self.expected_version(view)
        self._next_versions[view.id] = number + 1
        return number

    def forget_dropped(self, refreshed: Container[str]) -> None:
        """Keeps no numbers of views that are no more, but of those that are being `refreshed`: where such a view is
        found again, what its refresh has taken may not be reserved yet. Otherwise that says what was used."""
        for view_id in [each for each in self._next_versions if self._catalog.find(each) is None]:
            if view_id not in refreshed:
                del self._next_versions[view_id]

    def _discard(self, entry: Entry) -> None:
        """The rows that a failed refresh may have written are nobody's: the janitor drops them.

        Unless they may have been published: once that is known, and the switch cannot come any more, they are.
        """
        if not entry.uncertain:
            self._strays(entry.view)

    def _give_up(self, entry: Entry, version: int | None) -> None:
        """Spark does not carry out a switch to the version any more."""
        if entry.forget_switch(version):
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


async def _nobody(view_id: str, cause: Cause, report: Report) -> None:
    """Before the parts are joined there is nothing below."""


async def _nothing(views: Iterable[str]) -> None:
    """Nobody says that a view may have been changed."""


async def _steps(plan: RefreshPlan, progress: Progress, session: SqlSession) -> AsyncIterator[Step]:
    """Runs the plan's statements, and gives each when it is done. Raises what Spark raises."""
    progress.plan(plan.method, plan.reason, partitions=len(plan.written), inserts=plan.inserts)
    for step in plan.write:
        log.debug("%s: %s", plan.view.name, step.purpose)
        if not step.inserts:
            await session.run(step.sql)
        else:
            progress.begin_insert(step.partitions)
            await session.run(step.sql, on_start=progress.started)
            progress.end_insert()
        yield step


def _reads(view: MaterializedView) -> tuple[object, ...]:
    """What its definition reads; two views below may have exchanged their names."""
    return view.tables, view.views, view.view_names


def in_words_of(view: TableName, definition: TableName, message: str) -> str:
    """Spark's message with the view's name for that of its definition, which no user has ever seen."""
    return message.replace(definition.short, view.short).replace(str(definition), str(view))


def stopped(view: MaterializedView) -> RefreshFailed:
    """What those hear who waited for a refresh of a view that is no more."""
    return RefreshFailed(
        f"The refresh of materialized view {view.name} was stopped, because the view was dropped or replaced. "
        f"Run the statement again."
    )
