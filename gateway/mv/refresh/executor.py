"""Executes one refresh: observe, plan, execute, publish. `tasks` decides when."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import replace

from gateway.errors import FreshgateError, Stopping, UpstreamLost
from gateway.loops import aside
from gateway.mv.model.view import Cause, MaterializedView
from gateway.mv.observation.inspection import Inspection
from gateway.mv.ports import SqlSession, StageProgress
from gateway.mv.refresh.diagnosis import Diagnosis
from gateway.mv.refresh.planner import RefreshPlan
from gateway.mv.refresh.preparation import MakeFresh, Preparation, Start
from gateway.mv.refresh.progress import Progress, Report, followed
from gateway.mv.refresh.proposal import Proposal, Proposer
from gateway.mv.refresh.publication import Publication
from gateway.mv.refresh.runs import Run
from gateway.mv.refresh.task_log import TaskLog
from gateway.mv.refresh.writing import Writer

log = logging.getLogger(__name__)


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
    ) -> None:
        self._preparation = preparation
        self._proposer = proposer
        self._writer = writer
        self._publication = publication
        self._diagnosis = diagnosis
        self._log = task_log
        self._spark = spark

    async def run(self, run: Run, cause: Cause, make_fresh: MakeFresh) -> None:
        """Refreshes the task's view as `cause` asks. `make_fresh` makes the views below it fresh. Raises RefreshFailed
        (BaseTableMissing if a base table no longer exists), UpstreamLost."""
        async with followed(run.progress, self._spark, run):
            await self._recompute(run, cause, make_fresh)

    async def _recompute(self, run: Run, cause: Cause, make_fresh: MakeFresh) -> None:
        entry = run.entry
        before, began = await self._preparation.certain(entry), time.monotonic()
        try:
            async with self._preparation.ready(entry, before, make_fresh) as ready:
                self._log.start(entry, run.number)
                run.begin_work()
                version = self._writer.numbers.expected(before)
                proposal = await self._proposer.propose(ready.view, before, cause, version, ready.session)
            if proposal.plan is None:
                await self._nothing_to_do(run, ready.start, proposal)
                return
            async with self._writer.room(before, proposal.view) as session:
                await self._execute(run, ready.start, proposal, proposal.plan, session)
        except (UpstreamLost, Stopping):
            self._publication.discard(entry)
            raise
        except FreshgateError as error:
            self._publication.discard(entry)
            raise await self._diagnosis.of(before, error) from error
        except asyncio.CancelledError:
            self._publication.discard(entry)
            raise
        finally:
            entry.end_writing()
        run(f"Refreshed materialized view {before.name} in {time.monotonic() - began:.2f} s")
        log.info("Refreshed %s in %.2f s", before.name, time.monotonic() - began)

    async def _nothing_to_do(self, run: Run, start: Start, proposal: Proposal) -> None:
        """Records that the noted or observed changes do not affect what the view shows."""
        entry, current = run.entry, proposal.view.current
        contents = await aside(proposal.partitions, proposal.contents, current.number)
        self._log.unchanged(entry, run.number)
        if entry.view.deciding != proposal.view.deciding or entry.view.current is not current:
            # After a concurrent ALTER, with another version current, or after doubts about its rows, this result no
            # longer applies.
            return
        contains = None if proposal.partly else start.contains
        entry.confirm(contents, contains, proposal.inspection.began, start.at)
        run(f"Materialized view {entry.view.name} is fresh; nothing was recomputed")

    async def _execute(
        self, run: Run, start: Start, proposal: Proposal, plan: RefreshPlan, session: SqlSession
    ) -> None:
        entry, view = run.entry, proposal.view
        self._writer.begin(entry)
        await self._plan_task(run, proposal, plan)
        run(f"Refreshing materialized view {view.name} ({plan.method}: {plan.reason})")
        log.info("Refreshing %s: version %d, %s, %s", view.name, plan.version, plan.method, plan.reason)
        await self._writer.write(run, plan, session)
        present = await self._proposer.present(view)
        await self._publication.publish(await self._publication.written(run, start, proposal, plan, present), session)

    async def _plan_task(self, run: Run, proposal: Proposal, plan: RefreshPlan) -> None:
        names = await aside(len(plan.written), proposal.first_names)
        task = run.entry.history.task(run.number)
        if task is not None:
            known = replace(task, mode=plan.mode, reason=plan.reason, completed=0)
            self._log.amend(run.entry, run.number, known.writing(names, len(plan.written)))

    async def first_write(self, view: MaterializedView, progress: Progress, report: Report) -> Inspection:
        """Writes the rows of a new view's first version. Returns the observations made before that."""
        # Observe just before, with no earlier observations: a change made before the rows are read must not count as
        # included, nor a change since an observation for another view.
        inspection = await self._proposer.look_anew(view)
        plan = self._proposer.first(view, inspection)
        async with self._writer.first_room(view) as session, followed(progress, self._spark, report):
            await self._writer.write_first(plan, progress, session)
        return inspection
