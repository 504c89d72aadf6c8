"""Derives a statement's progress from the jobs and stages in Spark's status store.

The figures are Spark's own JSON (`JobData`, `StageData`): the embedded engine writes it as the REST API of Spark's UI
does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gateway.mv.ports import JobProgress

Figures = Mapping[str, Any]
"""A job or a stage: names and values of Spark's JSON."""

RUNNING = "RUNNING"
ACTIVE, PENDING = "ACTIVE", "PENDING"


def job_progress(jobs: Sequence[Figures], stages: Iterable[Figures]) -> JobProgress | None:
    """`jobs` are those of one statement, `stages` at least their active and pending ones. None without jobs.

    Raises KeyError, TypeError or ValueError if Spark's figures are malformed.
    """
    if not jobs:
        return None
    known = {int(stage["stageId"]): stage for stage in stages if stage["status"] in (ACTIVE, PENDING)}
    stages_done = sum(int(job["numCompletedStages"]) for job in jobs)
    tasks_done = sum(int(job["numCompletedIndices"]) for job in jobs)
    stages_left = tasks = 0
    for job in jobs:
        if job["status"] == RUNNING:
            left, skipped = _open_stages(job, known)
            stages_left += left
            tasks += max(int(job["numTasks"]) - int(job["numSkippedTasks"]) - skipped, int(job["numCompletedIndices"]))
        else:
            tasks += int(job["numCompletedIndices"])
    return JobProgress(
        stages=stages_done + stages_left,
        stages_done=stages_done,
        tasks=tasks,
        tasks_done=tasks_done,
        tasks_running=sum(int(job["numActiveTasks"]) for job in jobs),
        tasks_failed=sum(int(job["numFailedTasks"]) for job in jobs),
    )


def _open_stages(job: Figures, known: Mapping[int, Figures]) -> tuple[int, int]:
    """Returns how many of the job's stages run or wait for a running one, and the number of tasks that will be skipped.

    A job lists every stage that leads to its result, including stages whose output an earlier job has left. Spark marks
    those as skipped only at the job's end; until then they are pending like any other. A stage waits only for stages
    with lower ids. So a pending stage with no open stage below it waits for nothing: it will be skipped.
    """
    left = skipped = 0
    for number in sorted(int(each) for each in job["stageIds"]):
        stage = known.get(number)
        if stage is None:
            continue
        if stage["status"] == ACTIVE or left:
            left += 1
        else:
            skipped += int(stage["numTasks"])
    return left, skipped
