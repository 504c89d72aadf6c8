"""Overdue refreshes after a start: not all at once, each always at the same place."""

from __future__ import annotations

import asyncio

from hypothesis import given as for_all
from hypothesis import strategies as st
from mv.test_tasks import HOUR, HOURLY, MANUAL, RefreshedViews, play, settled

from gateway.mv.jobs.spread import APART_MS, LONGEST_MS, NO_SPREAD, Spread
from sql.statement import Refreshing, Schedule, Trigger

IDS = st.text(min_size=1, max_size=30)
TIMES = st.integers(min_value=0, max_value=4_000_000_000_000)


@for_all(IDS, TIMES, st.integers(min_value=0, max_value=100_000), st.integers(min_value=0, max_value=90_000_000))
def test_a_start_is_within_the_window_and_before_the_next_one(
    view_id: str, began: int, overdue: int, interval: int
) -> None:
    spread = Spread.of(began, overdue)
    start = spread.start(view_id, began + interval)
    assert began <= start <= began + min(interval, LONGEST_MS)
    assert start == Spread.of(began, overdue).start(view_id, began + interval)
    assert overdue > 1 or start == began
    assert spread.start(view_id, None) <= began + LONGEST_MS


def test_many_starts_are_apart() -> None:
    spread = Spread.of(0, 300)
    starts = sorted(spread.start(f"s__v{number}__0", None) for number in range(300))
    assert starts[-1] <= 300 * APART_MS
    within_ten_seconds = max(sum(first <= each < first + 10_000 for each in starts) for first in starts)
    assert within_ten_seconds < 20


def test_what_was_missed_begins_one_after_another() -> None:
    async def story() -> None:
        made = RefreshedViews()
        names = [f"v{number}" for number in range(20)]
        for name in names:
            made.add(name, HOURLY)
        made.now += 3 * HOUR // 2
        began = made.now
        await made.jobs.spread()
        starts = {name: made.jobs.next_run(name) for name in names}
        assert len(set(starts.values())) > 10
        assert all(start is not None and began <= start <= began + 20 * APART_MS for start in starts.values())
        made.scheduler.run_due()
        await settled()
        assert len(made.stage.began) < 5
        # A statement does not wait for its turn.
        await made.tasks.begin(names[-1], MANUAL)
        await settled()
        assert names[-1] in [view for view, _ in made.stage.began]
        while made.now < began + 20 * APART_MS:
            made.now += 1000
            made.scheduler.run_due()
        await settled()
        assert {view for view, _ in made.stage.began} == set(names)
        # Afterwards each runs by its own schedule.
        assert {made.jobs.next_run(name) for name in names} == {began + HOUR // 2}

    play(story())


def test_a_single_one_begins_at_once_and_a_clock_that_is_set_back_delays_none() -> None:
    async def story() -> None:
        made = RefreshedViews()
        made.add("v", HOURLY)
        made.add("w", Refreshing(None, Trigger.SCHEDULE, Schedule(1, "DAY")))
        made.now += HOUR
        await made.jobs.spread()
        assert made.jobs.next_run("v") == made.now
        made.add("x", HOURLY)
        made.now += 2 * HOUR
        await made.jobs.spread()
        made.now -= HOUR
        assert all((due := made.jobs.next_run(name)) is not None and due <= made.now + HOUR for name in "vx")

    play(story())


def test_nothing_is_delayed_without_a_start() -> None:
    made = asyncio.run(_overdue())
    assert made.jobs.next_run("v") == made.now - HOUR
    assert NO_SPREAD.window == 0


async def _overdue() -> RefreshedViews:
    made = RefreshedViews()
    made.add("v", HOURLY)
    made.now += 2 * HOUR
    return made
