"""What is told of a refresh while it runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from gateway.mv.ports import JobProgress
from gateway.mv.refresh.progress import Lines, Progress, followed
from sql.names import TableName

VIEW = TableName("sales", "daily")
DEADLINE_SECONDS = 20.0


class Clock:
    """Stands still until the test moves it."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def jobs(done: int, tasks: int, stages_done: int = 1, stages: int = 4, failed: int = 0) -> JobProgress:
    return JobProgress(stages, stages_done, tasks, done, 1, failed)


def inserting(partitions: int = 0, inserts: int = 1, now: int = 0) -> Progress:
    """A refresh whose first INSERT runs at Spark as statement "a"."""
    progress = Progress(VIEW, Clock())
    progress.plan("PARTITIONS", "sales.orders has changed", partitions=partitions, inserts=inserts)
    progress.begin_insert(now)
    progress.started("a")
    return progress


def test_lines_of_a_refresh_from_its_begin_to_its_end() -> None:
    clock = Clock()
    progress = Progress(VIEW, clock)
    lines = [progress.line()]
    progress.plan("PARTITIONS", "sales.orders has changed", partitions=3, inserts=2)
    clock.now += 1.4
    progress.begin_insert(1)
    lines.append(progress.line())
    progress.started("a")
    progress.heard("a", jobs(45, 200))
    progress.end_insert()
    progress.begin_insert()
    progress.started("b")
    clock.now += 10.2
    progress.heard("b", jobs(45, 200))
    lines.append(progress.line())
    progress.heard("b", jobs(200, 200, 4, 4, failed=2))
    lines.append(progress.line())
    progress.end_insert()
    lines.append(progress.line())
    progress.end(worked=True)
    clock.now += 100
    lines.append(progress.line())
    assert lines == [
        "sales.daily: planning, 0 s",
        "sales.daily: 0 of 3 partitions, 1 s",
        "sales.daily: 1 of 3 partitions, stage 2 of 4, 45 of 200 tasks, 12 s",
        "sales.daily: 1 of 3 partitions, stage 4 of 4, 200 of 200 tasks, 2 failed, 12 s",
        "sales.daily: publishing, 12 s",
        "sales.daily: succeeded, 12 s",
    ]


@pytest.mark.parametrize(
    ("progress", "words"),
    [
        (inserting(), "running"),
        (inserting(inserts=2), "INSERT 1 of 2"),
        (inserting(partitions=3, inserts=2), "0 of 3 partitions"),
    ],
)
def test_words_where_spark_says_nothing(progress: Progress, words: str) -> None:
    assert progress.words() == words
    # A job that was just submitted has no stage at work yet.
    progress.heard("a", jobs(0, 0, 0, 0))
    assert progress.words() == words


def test_a_failed_refresh_is_not_done() -> None:
    progress = inserting(partitions=4, now=2)
    progress.heard("a", jobs(10, 10))
    progress.end(worked=False)
    assert (progress.phase, progress.words()) == ("FAILED", "failed")
    assert progress.fraction() < 0.5


def test_what_is_heard_of_another_statement_does_not_count() -> None:
    progress = inserting()
    progress.end_insert()
    progress.begin_insert()
    progress.heard("a", jobs(9, 10))
    assert progress.jobs is None
    progress.started("b")
    progress.heard("a", jobs(9, 10))
    assert progress.jobs is None
    progress.heard("b", jobs(3, 10))
    progress.heard("b", None)
    assert progress.jobs == jobs(3, 10)


def test_fraction_of_partitions_and_tasks() -> None:
    progress = inserting(partitions=10, inserts=3, now=4)
    assert progress.fraction() == 0.0
    progress.heard("a", jobs(50, 100))
    assert progress.fraction() == pytest.approx(0.4 * 0.9 / 2)
    progress.end_insert()
    assert progress.fraction() == pytest.approx(0.4)
    progress.begin_insert(4)
    progress.started("b")
    progress.heard("b", jobs(100, 100))
    assert progress.fraction() == pytest.approx(0.4 + 0.4 * 0.9)
    progress.end_insert()
    progress.begin_insert()
    progress.end_insert()
    assert progress.partitions_done == 10
    progress.end(worked=True)
    assert progress.fraction() == 1.0


def test_fraction_never_goes_back() -> None:
    progress = inserting()
    seen = [progress.fraction()]
    # Spark plans a stage when those before it are done, and then there is more to do than before.
    for done, tasks in ((50, 100), (100, 100), (100, 1000), (400, 1000), (1000, 1000)):
        progress.heard("a", jobs(done, tasks))
        seen.append(progress.fraction())
    progress.plan("COMPLETE", "another way", inserts=5)
    seen.append(progress.fraction())
    assert seen == sorted(seen)
    assert 0 < seen[-1] < 1


class JobAnswers:
    """Implements `ports.StageProgress`. Gives the answers in turn; the last one again and again. A text is an error."""

    def __init__(self, *answers: JobProgress | str | None, on_ask: Callable[[], None] = lambda: None) -> None:
        self.asked: list[str] = []
        self._answers = list(answers)
        self._on_ask = on_ask
        self._changed = asyncio.Condition()

    async def of_statement(self, statement: str) -> JobProgress | None:
        async with self._changed:
            self.asked.append(statement)
            self._changed.notify_all()
        self._on_ask()
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, str):
            raise RuntimeError(answer)
        return answer

    async def asked_more_than(self, times: int) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: len(self.asked) > times)


def lines_of(progress: Progress, spark: JobAnswers, questions: int) -> list[str]:
    """The lines that are told until Spark was asked so often."""
    lines: list[str] = []

    async def check() -> None:
        async with asyncio.timeout(DEADLINE_SECONDS), followed(progress, spark, Lines(lines.append), 0.001):
            await spark.asked_more_than(questions)

    asyncio.run(check())
    return lines


def test_only_what_is_new_is_told() -> None:
    spark = JobAnswers(jobs(1, 10), jobs(1, 10), None, jobs(2, 10))
    assert lines_of(inserting(), spark, 20) == [
        "sales.daily: running, stage 2 of 4, 1 of 10 tasks, 0 s",
        "sales.daily: running, stage 2 of 4, 2 of 10 tasks, 0 s",
    ]
    assert set(spark.asked) == {"a"}


def test_a_spark_that_fails_ends_nothing() -> None:
    spark = JobAnswers("no", jobs(1, 10), "no", "no", jobs(2, 10))
    assert lines_of(inserting(), spark, 20) == [
        "sales.daily: running, 0 s",
        "sales.daily: running, stage 2 of 4, 1 of 10 tasks, 0 s",
        "sales.daily: running, stage 2 of 4, 2 of 10 tasks, 0 s",
    ]


def test_an_answer_that_comes_too_late_is_not_taken_for_the_next_statement() -> None:
    progress = inserting(inserts=2)

    def go_on() -> None:
        if len(spark.asked) == 1:
            progress.end_insert()
            progress.begin_insert()
            progress.started("b")

    spark = JobAnswers(jobs(1, 10), None, on_ask=go_on)
    assert lines_of(progress, spark, 3) == ["sales.daily: INSERT 2 of 2, 0 s"]
    assert spark.asked[:2] == ["a", "b"]


def test_nothing_is_told_of_a_short_refresh() -> None:
    lines: list[str] = []

    async def check() -> None:
        async with followed(inserting(), JobAnswers(jobs(1, 10)), Lines(lines.append), DEADLINE_SECONDS):
            await asyncio.sleep(0)

    asyncio.run(check())
    assert lines == []


def test_a_report_of_lines_shows_no_refresh() -> None:
    lines: list[str] = []
    report = Lines(lines.append)
    report("one")
    report.watch(inserting())
    assert lines == ["one"]
