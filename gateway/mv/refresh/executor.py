"""Executes one refresh: observe, plan, execute, publish. `tasks` decides when.

Tests: `test_recomputed_values`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Set
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial

from gateway.errors import FreshgateError, RefreshFailed, StatementFailed, Stopping, UpstreamLost
from gateway.loops import in_thread
from gateway.mv.concurrency import beside, both
from gateway.mv.formats import open_tables
from gateway.mv.freshness.entry import Entry
from gateway.mv.model.contents import NO_BASIS, Basis, Keyed
from gateway.mv.model.marks import Mark
from gateway.mv.model.snapshot import Snapshot
from gateway.mv.model.view import Cause, MaterializedView
from gateway.mv.observation.inspection import Inspection
from gateway.mv.ports import SqlSession, StageProgress
from gateway.mv.refresh.diagnosis import Diagnosis
from gateway.mv.refresh.increments import REFUSED, Increments
from gateway.mv.refresh.planner import Copied, Exact, Inherited, Merged, Recomputed, RefreshPlan
from gateway.mv.refresh.preparation import MakeFresh, Preparation, Start
from gateway.mv.refresh.progress import Progress, Report, followed
from gateway.mv.refresh.proposal import RefreshProposal
from gateway.mv.refresh.proposer import Proposer
from gateway.mv.refresh.publication import Laid, Publication, Unfit
from gateway.mv.refresh.runs import Run
from gateway.mv.refresh.task_log import TaskLog
from gateway.mv.refresh.writing import RefreshRoom, Writer
from sql.increments.reasons import NotIncremental, Reason
from sql.statement import Method
from sql.texts import maintenance

log = logging.getLogger(__name__)


Inherit = Callable[[Inspection, SqlSession], Awaitable[Inherited | None]]
"""Finds whether a new view gets its rows from those of the view that it replaces."""
Narrowed = Callable[[MaterializedView], Awaitable[bool]]
"""Whether Spark may show the user in whose name a view is refreshed other rows than the gateway's account."""


@dataclass(frozen=True, slots=True)
class RowsRead:
    """What is known of the rows that a refresh has read and written."""

    basis: Basis | None = None
    """What the version contains exactly; None if that is not known."""
    after: Inspection | None = None
    """The base tables after that, if anything was written to them meanwhile."""


def changed_while_read(view: MaterializedView) -> Unfit:
    """Rows appeared or vanished in a base table between the look at it and the end of the query that read it."""
    return Unfit(
        f"A table that materialized view {view.name} reads has changed while a refresh by rows read it "
        f"({Reason.CHANGED_WHILE_READ}). Refresh it again."
    )


def spoilt_below(view: MaterializedView) -> Unfit:
    """What a refresh has read of the stored rows of views is perhaps not what was published."""
    return Unfit(
        f"The stored rows of a materialized view that {view.name} reads were changed outside the gateway, or dropped, "
        f"while its refresh read them. Refresh it again."
    )


class Executor:
    """Refreshes views."""

    def __init__(
        self,
        preparation: Preparation,
        proposer: Proposer,
        writer: Writer,
        publication: Publication,
        diagnosis: Diagnosis,
        task_log: TaskLog,
        spark: StageProgress,
        increments: Increments,
        narrowed: Narrowed,
    ) -> None:
        self._preparation = preparation
        self._proposer = proposer
        self._writer = writer
        self._publication = publication
        self._diagnosis = diagnosis
        self._log = task_log
        self._spark = spark
        self._increments = increments
        self._narrowed = narrowed

    async def run(self, run: Run, cause: Cause, make_fresh: MakeFresh) -> None:
        """Refreshes the task's view as `cause` asks. `make_fresh` makes the views below it fresh. Raises RefreshFailed
        (BaseTableMissing if a base table no longer exists), UpstreamLost."""
        async with followed(run.progress, self._spark, run):
            await self._refresh(run, cause, make_fresh)

    async def _refresh(self, run: Run, cause: Cause, make_fresh: MakeFresh) -> None:
        try:
            await self._attempt(run, cause, make_fresh)
        except Unfit as unfit:
            if run.entry.view.method_for(cause) is Method.INCREMENTAL and not run.entry.damage:
                raise
            log.info("%s Recomputing it.", unfit)
            run.begin_again()
            await self._recompute(run, replace(cause, method=Method.COMPLETE), make_fresh)

    async def _recompute(self, run: Run, cause: Cause, make_fresh: MakeFresh) -> None:
        """Recomputes rows by the definition. For a view with partitions, first so that later refreshes by rows can
        continue from it: otherwise none can before the next refresh of all partitions."""
        if run.entry.view.layout.partitioned:
            try:
                await self._attempt(run, cause, make_fresh)
            except Unfit as unfit:
                log.info("%s Recomputing it plainly.", unfit)
                run.begin_again()
            else:
                return
        await self._attempt(run, cause, make_fresh, plainly=True)

    async def _attempt(self, run: Run, cause: Cause, make_fresh: MakeFresh, *, plainly: bool = False) -> None:
        """`plainly`: as in `Proposer.propose`. Raises Unfit if only that helps."""
        entry = run.entry
        before, began = await self._preparation.certain(entry), time.monotonic()
        reads = ExitStack()
        try:
            narrowed = await self._is_narrowed(before, cause)
            whole = narrowed or before.current.narrowed
            async with self._preparation.ready(entry, before, make_fresh) as ready:
                # They may be replaced and due while Spark still reads them.
                reads.enter_context(self._increments.reading(ready.view))
                self._log.start(entry, run.number)
                run.begin_work()
                version = self._writer.numbers.expected(before)
                cause = _mending(entry, cause)
                if cause.mends:
                    await self._writer.lost_storage.create(entry)
                proposal = await self._proposer.propose(
                    ready.view, before, cause, version, ready.session, plainly=plainly or whole, whole=whole
                )
                proposal = replace(proposal, narrowed=narrowed)
            if proposal.plan is None:
                await self._nothing_to_do(run, ready.start, proposal)
                return
            async with self._writer.room(before, proposal.view) as room:
                await self._execute(run, ready.start, proposal, proposal.plan, room)
        except (UpstreamLost, Stopping, Unfit):
            self._publication.discard(entry)
            raise
        except FreshgateError as error:
            self._publication.discard(entry)
            raise await self._diagnosis.of(before, error) from error
        except asyncio.CancelledError:
            self._publication.discard(entry)
            raise
        finally:
            reads.close()
            entry.end_writing()
        run(f"Refreshed materialized view {before.name} in {time.monotonic() - began:.2f} s")
        log.info("Refreshed %s in %.2f s", before.name, time.monotonic() - began)

    async def _is_narrowed(self, view: MaterializedView, cause: Cause) -> bool:
        """Whether what is stored must not be mixed with what the owner is shown now: policies may have changed, and
        apply to rows and partitions in ways that only a complete refresh follows."""
        if not view.refreshed_as:
            return False
        narrowed = await self._narrowed(view)
        if (narrowed or view.current.narrowed) and view.past:
            raise RefreshFailed(
                f"The materialized view {view.name} has immutable rows, and cannot be refreshed: Spark shows its owner "
                f"{view.refreshed_as} other rows of what it reads than the gateway's account, so all rows must be "
                f"computed again. ALTER MATERIALIZED VIEW {view.name} DROP IMMUTABLE allows that.",
                sqlstate="0A000",
            )
        if narrowed and view.complete and view.method_for(cause) is Method.INCREMENTAL:
            raise RefreshFailed(
                f"The materialized view {view.name} cannot be refreshed by rows: Spark shows its owner "
                f"{view.refreshed_as} other rows of what it reads than the gateway's account. Use REFRESH COMPLETE.",
                sqlstate="0A000",
            )
        return narrowed

    async def _nothing_to_do(self, run: Run, start: Start, proposal: RefreshProposal) -> None:
        """Records that the noted or observed changes do not affect what the view shows."""
        entry, current = run.entry, proposal.view.current
        contents = await in_thread(proposal.partitions, proposal.contents, current.number, current.contents.basis)
        self._log.unchanged(entry, run.number)
        if entry.view.deciding != proposal.view.deciding or entry.view.current is not current:
            # After a concurrent ALTER, with another version current, or after doubts about its rows, this result no
            # longer applies.
            return
        contains = None if proposal.partly else start.contains
        entry.confirm(contents, contains, proposal.inspection.began, start.at)
        run(f"Materialized view {entry.view.name} is fresh; nothing was recomputed")

    async def _execute(
        self, run: Run, start: Start, proposal: RefreshProposal, plan: RefreshPlan, room: RefreshRoom
    ) -> None:
        entry, view = run.entry, proposal.view
        self._writer.begin(entry)
        await self._plan_task(run, proposal, plan)
        run(f"Refreshing materialized view {view.name} ({plan.method}: {plan.reason})")
        log.info("Refreshing %s: version %d, %s, %s", view.name, plan.version, plan.method, plan.reason)
        disturbed = partial(entry.ledger.written_since, start.contains)
        took = await self._write(view, plan, self._writer.write(run, plan, room))
        plan = await _committed(plan, room.reader)
        # The base tables and the stored files are looked at side by side.
        (read, laid), sound = await both(
            both(self._read(view, plan, proposal.inspection, took, disturbed), self._laid(run.entry, view, plan)),
            self._increments.are_sound(start.views),
        )
        if not sound:
            raise spoilt_below(view)
        proposal = replace(proposal, after=read.after)
        written = await self._publication.written(run, start, proposal, plan, laid, read.basis)
        await self._publication.publish(written, room.session)

    async def _laid(self, entry: Entry, view: MaterializedView, plan: RefreshPlan) -> Laid:
        return await self._publication.laid(entry, plan, await self._proposer.present(view))

    async def _write(self, view: MaterializedView, plan: RefreshPlan, write: Coroutine[object, object, None]) -> int:
        """Writes the rows. Returns the milliseconds that it took. Raises Unfit if Spark refuses a statement that the
        definition does not consist of."""
        began = time.monotonic()
        try:
            await write
        except StatementFailed as error:
            if isinstance(plan.source, Inherited):
                what = f"The rows of {view.name} cannot be computed from those of the replaced view"
                raise Unfit(f"{what}: {error}") from error
            exact = None if isinstance(plan.source, Copied) else plan.source.exact
            if exact is None or not error.sqlstate.startswith(REFUSED):
                raise
            self._increments.give_up(view, error)
            raise Unfit(f"Spark refuses a statement of the refresh of {view.name} by rows: {error}") from error
        return int((time.monotonic() - began) * 1000)

    async def _read(
        self,
        view: MaterializedView,
        plan: RefreshPlan,
        inspection: Inspection,
        took: int,
        disturbed: Callable[[], bool],
    ) -> RowsRead:
        """What is known of the rows that were written. `disturbed`: whether anything was written to the base tables
        since the inspection. Raises Unfit if a version that is computed from changed rows is not what it must be."""
        source, exact, known = plan.source, plan.source.exact, view.current.contents.basis
        if isinstance(source, Inherited):
            after = await self._after(view, source.adds_rest)
            if source.adds_rest and not await self._stays(inspection, after):
                raise changed_while_read(view)
            if not await self._increments.are_sound({source.view_id: source.version}):
                raise spoilt_below(view)
            return RowsRead(source.basis, after)
        if isinstance(source, Copied):
            return RowsRead(known and replace(known, same_as=view.current.number))
        if exact is None:
            if not plan.inserts:
                return RowsRead(known)
            return RowsRead(after=await self._proposer.look_anew(view) if disturbed() else None)
        before = known or NO_BASIS
        async with beside(self._publication.check()):
            copies, looks = not isinstance(source, Recomputed), disturbed()
            keyed, after = await self._checked(view, exact, inspection, copies=copies, looks=looks)
        if isinstance(source, Merged):
            basis = before.after_rows(exact.marks, took, source.bytes)
        elif isinstance(source, Recomputed) and plan.chosen.everything:
            basis = before.after_complete(exact.marks, exact.states, took)
        else:
            basis = before.after_parts(exact.marks, exact.states)
        return RowsRead(replace(basis, keyed=keyed), after)

    async def _checked(
        self, view: MaterializedView, exact: Exact, inspection: Inspection, *, copies: bool, looks: bool
    ) -> tuple[Keyed | None, Inspection | None]:
        """What the written rows can be compared by, and, if it `looks`, how the base tables are now. Raises Unfit if
        the rows are not of the state that `exact` names. `copies`: some of them are of an earlier state."""
        keyed, marks = exact.keyed, exact.marks
        unmarked = copies and not marks
        looks = looks or unmarked or keyed is not None
        held, after = await both(self._hold(view, marks, inspection), self._after(view, looks))
        if not held or (unmarked and not await self._stays(inspection, after)):
            raise changed_while_read(view)
        # Marks may be younger than the inspection: what came between may go again, and must not be believed to have
        # never been there.
        if keyed is not None and not await self._stays(inspection, after, {keyed.base}):
            keyed = None
        return keyed, after

    async def _after(self, view: MaterializedView, looks: bool) -> Inspection | None:
        return await self._proposer.look_anew(view) if looks else None

    async def _hold(self, view: MaterializedView, marks: Mapping[str, Mark], inspection: Inspection) -> bool:
        """Whether the tables still have the rows of their marks; False if that cannot be told."""
        try:
            return await self._increments.hold(view, marks, inspection.looks)
        except (NotIncremental, StatementFailed, TimeoutError, ValueError) as reason:
            log.info("%s: its base tables cannot be compared: %s", view.name, reason)
            return False

    async def _stays(self, before: Inspection, after: Inspection | None, bases: Set[str] | None = None) -> bool:
        """Whether these tables, or all that the view reads, are as they were seen before."""
        if after is None:
            return False

        def seen(by: Inspection) -> Mapping[str, Snapshot]:
            return {base: each for base, each in by.snapshots.items() if bases is None or base in bases}

        return await in_thread(after.partitions, lambda: seen(after) == seen(before))

    async def _plan_task(self, run: Run, proposal: RefreshProposal, plan: RefreshPlan) -> None:
        names = await in_thread(len(plan.written), proposal.first_names)
        task = run.entry.history.task(run.number)
        if task is not None:
            known = replace(task, mode=plan.mode, reason=plan.reason, route=plan.route, completed=0)
            self._log.amend(run.entry, run.number, known.writing(names, len(plan.written)))
            self._log.write(run.entry, run.number)

    async def first_write(
        self,
        view: MaterializedView,
        progress: Progress,
        report: Report,
        disturbed: Callable[[], bool],
        inherit: Inherit,
        views: Mapping[str, int],
    ) -> tuple[Inspection, RefreshPlan, RowsRead, bool]:
        """Writes the rows of a new view's first version. Returns the observations made before that, and whether Spark
        shows its owner other rows than the gateway's account. `disturbed`: whether anything was written to the base
        tables since this was called. `views`: as in `Start`."""
        with self._increments.reading(view):
            narrowed = bool(view.refreshed_as) and await self._narrowed(view)
            # Observe just before, with no earlier observations: a change made before the rows are read must not count
            # as included, nor a change since an observation for another view.
            inspection = await self._proposer.look_anew(view)
            async with self._writer.first_room(view) as session, followed(progress, self._spark, report):
                inherited = None if narrowed else await inherit(inspection, session)
                try:
                    plan, read = await self._first(
                        view, inspection, progress, session, disturbed, plainly=narrowed, inherited=inherited
                    )
                except Unfit as unfit:
                    log.info("%s Building it in another way.", unfit)
                    # Otherwise rows of the first attempt would stay if there are none now.
                    await session.run(maintenance.drop_versions(view.storage, [view.current.number]))
                    plainly = inherited is None
                    plan, read = await self._first(view, inspection, progress, session, disturbed, plainly=plainly)
            if not await self._increments.are_sound(views):
                raise spoilt_below(view)
        return inspection, plan, read, narrowed

    async def _first(
        self,
        view: MaterializedView,
        inspection: Inspection,
        progress: Progress,
        session: SqlSession,
        disturbed: Callable[[], bool],
        *,
        plainly: bool = False,
        inherited: Inherited | None = None,
    ) -> tuple[RefreshPlan, RowsRead]:
        if inherited is not None:
            plan = self._proposer.inherited(view, inspection, inherited)
        else:
            plan = await self._proposer.first(view, inspection, session, plainly=plainly)
        took = await self._write(view, plan, self._writer.write_first(plan, progress, session))
        plan = await _committed(plan, session)
        return plan, await self._read(view, plan, inspection, took, disturbed)


async def _committed(plan: RefreshPlan, session: SqlSession) -> RefreshPlan:
    """The plan, with the commit that has its rows if they are open. Raises RefreshFailed if there is none, and Unfit if
    it adds rows to others than those of the current version."""
    if (rows := plan.view.layout.open) is None:
        return plan
    published = plan.view.current.shown.snapshot if plan.appends else ""
    found = await open_tables.commits(session.run, rows, [published])
    commit = open_tables.of_version(found, plan.version)
    if commit is None:
        raise RefreshFailed(
            f"{rows.table} does not show the rows of version {plan.version} that {plan.view.name} has written to it. "
            f"Refresh the view again."
        )
    if plan.appends and not open_tables.follows(found, commit, published):
        raise Unfit(f"{rows.table} was changed outside the gateway while a refresh of {plan.view.name} added rows.")
    return replace(plan, snapshot=commit.snapshot)


def _mending(entry: Entry, cause: Cause) -> Cause:
    """The cause of a refresh that uses no stored row, if the stored rows are damaged. Raises RefreshFailed if some of
    these may not be computed again."""
    if entry.damage and entry.view.past:
        raise RefreshFailed(
            f"The materialized view {entry.view.name} is damaged ({entry.damage}), and its immutable rows are not "
            f"computed again by themselves. Restore its files, or use ALTER MATERIALIZED VIEW {entry.view.name} DROP "
            f"IMMUTABLE, after which a refresh computes all rows from the base tables of today.",
            sqlstate="58030",
        )
    return replace(cause, complete=True, partitions=(), mends=entry.damage) if entry.damage else cause
