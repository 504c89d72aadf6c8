"""Tracks the progress of a refresh and reports it to those who wait."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Protocol

from gateway import loops
from gateway.mv.ports import JobProgress, StageProgress
from sql.names import TableName

log = logging.getLogger(__name__)

KNOWN_STAGES_SHARE = 0.9
"""The share of a statement's work that its known stages make up. Spark plans later stages only when earlier ones are
done, and moves the rows' directories into place after the last one."""
WRITTEN_SHARE = 0.99
"""The share of a refresh that is done when all rows are written and only the switch is left."""
ANSWER_SECONDS_MAX = 5.0
"""How long to wait for Spark's answer. Implementations of `StageProgress` have shorter limits; this guards against
their bugs."""


class Report(Protocol):
    """Receives reports for an operation that waits for a refresh."""

    def __call__(self, line: str, /) -> None:
        """Adds a line to the operation's log."""
        ...

    def watch(self, progress: Progress) -> None:
        """Shows the progress of a refresh until the operation ends."""
        ...


@dataclass(frozen=True, slots=True)
class Lines:
    """A Report that only takes lines: for callers without a client, or whose client cannot be shown progress."""

    take: Callable[[str], object]

    def __call__(self, line: str, /) -> None:
        self.take(line)

    def watch(self, progress: Progress) -> None:
        """Does nothing."""


class Progress:
    """The progress of one refresh: what is to be done, and what is done. Its task updates it; any number of others read
    it."""

    def __init__(self, view: TableName, clock: Callable[[], float] = time.monotonic) -> None:
        self.view = view
        self.method = ""
        """COMPLETE or PARTITIONS; empty until it is chosen."""
        self.reason = ""
        self.partitions = 0
        """How many are to be written; 0 if the view has none or the number is unknown."""
        self.partitions_done = 0
        self.inserts = 0
        self.inserts_done = 0
        self.statement: str | None = None
        """Spark's id of the running statement, for `StageProgress`."""
        self.jobs: JobProgress | None = None
        """The last known progress of that statement."""
        self.began = clock()
        """Monotonic time in seconds."""
        self.worked: bool | None = None
        """Whether it succeeded; None until it has ended."""
        self._clock = clock
        self._writing = 0
        self._ended: float | None = None
        self._fraction = 0.0

    def plan(self, method: str, reason: str, *, partitions: int = 0, inserts: int = 1) -> None:
        """Sets what will be done: `partitions` (0: none or unknown) in a number of INSERTs."""
        self.method, self.reason = method, reason
        self.partitions, self.inserts = partitions, inserts
        self.partitions_done = self.inserts_done = 0

    def begin_insert(self, partitions: int = 0) -> None:
        """Records that the next INSERT is sent. It writes this many partitions; 0: all that are left."""
        self._writing = partitions or self.partitions - self.partitions_done
        self.statement = self.jobs = None

    def started(self, statement: str) -> None:
        """Records that Spark runs the statement. It is the `on_start` of `SqlSession.run`."""
        self.statement, self.jobs = statement, None

    def heard(self, statement: str, jobs: JobProgress | None) -> None:
        """Records the progress of a statement; ignored if it is unknown or another statement runs by now."""
        if jobs is not None and statement == self.statement:
            self.jobs = jobs

    def end_insert(self) -> None:
        """Records that the last INSERT is done."""
        self.partitions_done = min(self.partitions, self.partitions_done + self._writing)
        self.inserts_done = min(self.inserts, self.inserts_done + 1)
        self._writing, self.statement, self.jobs = 0, None, None

    def end(self, *, worked: bool) -> None:
        """Records that the refresh was published or had nothing to do, or that it failed or was stopped."""
        self.worked, self.statement, self.jobs = worked, None, None
        self._writing, self._ended = 0, self._clock()

    @property
    def elapsed_seconds(self) -> float:
        return (self._clock() if self._ended is None else self._ended) - self.began

    @property
    def phase(self) -> str:
        """One word: PLANNING, RUNNING, PUBLISHING, SUCCEEDED or FAILED."""
        if self.worked is not None:
            return "SUCCEEDED" if self.worked else "FAILED"
        if not self.inserts:
            return "PLANNING"
        return "RUNNING" if self.inserts_done < self.inserts else "PUBLISHING"

    @property
    def stage(self) -> int:
        """Which stage of `jobs` is running, counted from 1; 0 if that is unknown."""
        return min(self.jobs.stages_done + 1, self.jobs.stages) if self.jobs is not None else 0

    def spark_words(self) -> str:
        """`stage 2 of 4, 45 of 200 tasks`; empty if nothing is known about the running statement."""
        jobs = self.jobs
        if jobs is None or not jobs.stages:
            return ""
        words = f"stage {self.stage} of {jobs.stages}, {jobs.tasks_done} of {jobs.tasks} tasks"
        return f"{words}, {jobs.tasks_failed} failed" if jobs.tasks_failed else words

    def words(self) -> str:
        """The progress, without name and time."""
        phase = self.phase
        if phase != "RUNNING":
            return phase.lower()
        if self.partitions:
            done = f"{self.partitions_done} of {self.partitions} partitions"
        else:
            done = f"INSERT {self.inserts_done + 1} of {self.inserts}" if self.inserts > 1 else "running"
        return ", ".join(filter(None, [done, self.spark_words()]))

    def line(self) -> str:
        """`sales.daily: 1 of 3 partitions, stage 2 of 4, 45 of 200 tasks, 12 s`."""
        return f"{self.prefix}{self.words()}, {self.elapsed_seconds:.0f} s"

    @property
    def prefix(self) -> str:
        """The beginning of each of its lines."""
        return f"{self.view}: "

    def fraction(self) -> float:
        """The share that is done, 0 to 1. It never decreases, although Spark discovers more work as it goes on."""
        self._fraction = max(self._fraction, self._share())
        return self._fraction

    def _share(self) -> float:
        if self.worked:
            return 1.0
        if not self.inserts:
            return 0.0
        done, whole, now = self.inserts_done, self.inserts, 1
        if self.partitions:
            done, whole, now = self.partitions_done, self.partitions, self._writing
        jobs = self.jobs
        part = KNOWN_STAGES_SHARE * jobs.tasks_done / jobs.tasks if jobs is not None and jobs.tasks else 0.0
        return min(WRITTEN_SHARE, (done + now * part) / whole)


@asynccontextmanager
async def followed(
    progress: Progress, spark: StageProgress, report: Report, every_seconds: float = 1.0
) -> AsyncIterator[None]:
    """While this lasts, reports the progress of the refresh.

    Asks Spark about the running statement. Reports a line when it says something new, at most one every
    `every_seconds`, and none before the first interval is over. If Spark fails to answer, the stages are omitted.
    """
    reported = ""

    async def turn() -> None:
        nonlocal reported
        await asyncio.sleep(every_seconds)
        if (statement := progress.statement) is not None:
            progress.heard(statement, await _asked(spark, statement))
        words = progress.words()
        if words != reported:
            reported = words
            report(progress.line())

    following = loops.keep(f"progress of {progress.view}", turn)
    worked = False
    try:
        yield
        worked = True
    finally:
        progress.end(worked=worked)
        following.cancel()


async def _asked(spark: StageProgress, statement: str) -> JobProgress | None:
    try:
        async with asyncio.timeout(ANSWER_SECONDS_MAX):
            return await spark.of_statement(statement)
    except Exception as error:  # A refresh must not fail because its progress is unknown.
        log.debug("no progress of statement %s: %r", statement, error)
        return None
