"""Tests that background work continues when one turn of it fails, and that long work is split."""

from __future__ import annotations

import asyncio
import logging
import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gateway import loops
from gateway.errors import UpstreamLost
from gateway.mv.jobs.jobs import RefreshJobs
from gateway.mv.jobs.scheduler import LOOK_AGAIN_SECONDS, Scheduler
from gateway.mv.refresh.tasks import Tasks
from sql.texts import create_text


async def test_a_failed_turn_is_logged_and_the_next_one_follows(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(loops, "BACK_OFF_SECONDS", (0.0,))
    turns = 0

    async def turn() -> bool:
        nonlocal turns
        turns += 1
        if turns < 4:
            raise LookupError(f"turn {turns}")
        return loops.OVER

    async with asyncio.timeout(10):
        await loops.keep("the work", turn)
    assert turns == 4
    failed = [record for record in caplog.records if record.exc_info]
    assert [str(record.exc_info[1]) for record in failed if record.exc_info] == ["turn 1", "turn 2", "turn 3"]
    assert "the work failed (3 in a row)" in failed[-1].getMessage()


async def test_background_work_ends_when_it_is_cancelled() -> None:
    task = loops.keep("the work", lambda: asyncio.sleep(0))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_loop_runs_between_start_and_stop() -> None:
    turns = asyncio.Queue[None]()
    loop = loops.Loop("the work", lambda: turns.put(None))
    await loop.stop()
    for _ in range(2):
        loop.start()
        loop.start()
        async with asyncio.timeout(10):
            for _ in range(3):
                await turns.get()
        await loop.stop()
        assert not loop.running
        while not turns.empty():
            turns.get_nowait()
        await asyncio.sleep(0)
        assert turns.empty()


async def test_attempts_at_the_same_work_come_less_and_less_often(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", pause)
    back_off = loops.BackOff("it is not done yet", 2.0, 30.0)
    for error in (UpstreamLost("away"), UpstreamLost("away"), UpstreamLost("still away"), KeyError("k"), KeyError("k")):
        back_off.note(error)
        await back_off.pause()
    assert pauses == [2.0, 4.0, 8.0, 16.0, 30.0]
    assert [record.getMessage() for record in caplog.records] == [
        "it is not done yet: away",
        "it is not done yet: still away",
        "it is not done yet",
        "it is not done yet",
    ]
    assert [record.exc_info is not None for record in caplog.records] == [False, False, True, True]
    back_off.reset()
    back_off.note(UpstreamLost("still away"))
    await back_off.pause()
    assert pauses[-1] == 2.0
    assert len(caplog.records) == 5


async def test_background_tasks_are_waited_for_as_long_as_one_may(caplog: pytest.LogCaptureFixture) -> None:
    done, never = list[int](), asyncio.Event()

    async def errand(number: int) -> None:
        await asyncio.sleep(0)
        done.append(number)

    background = loops.BackgroundTasks("an errand")
    for number in range(3):
        background.begin(errand(number))
    await background.finish(10)
    assert done == [0, 1, 2]
    endless = background.begin(never.wait())
    await background.finish(0.001)
    assert not endless.done()
    endless.cancel()


@pytest.mark.parametrize(("error", "level"), [(UpstreamLost("away"), logging.INFO), (KeyError("k"), logging.ERROR)])
async def test_the_error_of_a_task_that_nobody_awaits_is_logged(
    error: Exception, level: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    async def fail() -> None:
        raise error

    task = asyncio.ensure_future(fail())
    loops.heard(task, "the errand")
    await asyncio.wait([task])
    await asyncio.sleep(0)
    assert [(record.levelno, "the errand" in record.getMessage()) for record in caplog.records] == [(level, True)]


async def test_a_broken_schedule_does_not_affect_other_views(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    entries = [
        cast(Any, SimpleNamespace(view=SimpleNamespace(id=name, name=name, clauses=None)))
        for name in ("broken", "well")
    ]
    served: list[str] = []

    def next_run(view_id: str) -> int | None:
        if view_id == "broken":
            raise ArithmeticError("no such date")
        return None if view_id in served else 1

    nobody = cast(Any, SimpleNamespace(revision=-1))
    jobs = cast(RefreshJobs, SimpleNamespace(next_run=next_run, served=served.append))
    scheduler = Scheduler(nobody, jobs, cast(Tasks, None), nobody, nobody, 0.0, lambda: 2)
    scheduler._of = lambda trigger: entries  # type: ignore[method-assign]
    monkeypatch.setattr(create_text, "recurring_strategy", lambda _: "")
    started: list[str] = []
    scheduler._trigger = lambda entry, *_: started.append(entry.view.id)  # type: ignore[method-assign]
    assert scheduler.run_due() == LOOK_AGAIN_SECONDS
    assert started == ["well"]
    assert [record.exc_info is not None for record in caplog.records] == [True]


async def test_long_work_lets_other_tasks_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loops, "TURN_SECONDS", -1.0)
    done: list[str] = []

    async def work(name: str) -> None:
        turn = loops.Turn()
        for _ in range(3):
            done.append(name)
            await turn.pause()

    await asyncio.gather(work("a"), work("b"))
    assert done == ["a", "b"] * 3
    monkeypatch.setattr(loops, "TURN_SECONDS", 60.0)
    done.clear()
    await asyncio.gather(work("a"), work("b"))
    assert done == ["a"] * 3 + ["b"] * 3


@pytest.mark.parametrize("size", [loops.AT_ONCE, loops.AT_ONCE + 1])
async def test_work_over_many_objects_runs_in_a_thread(size: int) -> None:
    async def here() -> int:
        return threading.get_ident()

    assert (await loops.in_thread(size, threading.get_ident) == await here()) is (size == loops.AT_ONCE)
