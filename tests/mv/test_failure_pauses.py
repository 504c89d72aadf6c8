"""A job whose refreshes fail in a row is paused, and goes on when one succeeds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given as for_all
from hypothesis import strategies as st
from mv.test_tasks import HOUR, HOURLY, MANUAL, ON_COMMIT, READ, RefreshedViews, play, settled, silent
from views import view_of

from gateway.errors import RefreshFailed, StatementFailed, UpstreamLost
from gateway.mv.freshness.entry import Entry
from gateway.mv.freshness.promises import promised_ms
from gateway.mv.freshness.troubles import way_out_of_pause
from gateway.mv.jobs.failure_pauses import FailurePauses, failures
from gateway.mv.model import properties as stored
from gateway.mv.model.history import History
from gateway.mv.model.view import Cause, Task, TaskStatus, TriggerMode, Version

WRONG = StatementFailed("The column is gone.", "42703")


class Pausing(RefreshedViews):
    def __init__(self, after: int = 3) -> None:
        super().__init__()
        self.pauses = FailurePauses(self.jobs, self.tasks, after)
        self.tasks.ended.add(self.pauses.ended)
        self.told_paused: list[Entry] = []
        self.pauses.paused.add(self.told_paused.append)

    async def fail(self, times: int, error: Any = WRONG) -> None:
        for _ in range(times):
            self.now += HOUR
            self.scheduler.run_due()
            self.stage.let("v", error)
            await settled()


def test_a_job_is_paused_after_failures_and_resumed_by_a_refresh_that_succeeds() -> None:
    async def story() -> None:
        made = Pausing()
        entry = made.add("v", HOURLY)
        await made.fail(2)
        assert not entry.view.paused
        await made.fail(1)
        assert entry.view.paused
        assert entry.view.paused_because == "3 refreshes in a row have failed"
        assert made.told_paused == [entry]
        assert made.jobs.next_run("v") is None
        assert promised_ms(entry.view) > 0
        made.now += 5 * HOUR
        made.scheduler.run_due()
        await settled()
        assert len(entry.history.tasks) == 3
        # One that fails does not resume it.
        made.stage.let("v", WRONG)
        with pytest.raises(StatementFailed):
            await made.tasks.refresh("v", MANUAL, silent)
        await settled()
        assert entry.view.paused
        made.stage.let("v")
        await made.tasks.refresh("v", MANUAL, silent)
        await settled()
        assert (entry.view.paused, entry.view.paused_because) == (False, "")
        assert made.jobs.next_run("v") == made.now + HOUR
        assert "RESUME MATERIALIZED VIEW JOB ON d.v" in way_out_of_pause(entry.view)

    play(story())


def test_only_failures_of_the_job_count_that_say_something_about_the_view() -> None:
    async def story() -> None:
        made = Pausing()
        entry = made.add("v", HOURLY)
        await made.fail(2)
        await made.write()
        for ask in (made.tasks.refresh, made.tasks.make_fresh):
            for cause in (MANUAL, READ):
                made.stage.let("v", WRONG)
                with pytest.raises(StatementFailed):
                    await ask("v", cause, silent)
        await made.fail(4, UpstreamLost("Spark is down."))
        assert not entry.view.paused
        await made.fail(1)
        assert entry.view.paused

    play(story())


def test_a_resume_counts_anew_and_a_pause_by_a_user_stays() -> None:
    async def story() -> None:
        made = Pausing()
        entry = made.add("v", HOURLY)
        await made.fail(2)
        await made.jobs.pause(entry, paused=True)
        made.stage.let("v")
        await made.tasks.refresh("v", MANUAL, silent)
        await settled()
        assert (entry.view.paused, promised_ms(entry.view)) == (True, 0)
        await made.jobs.pause(entry, paused=False)
        await made.fail(3)
        assert entry.view.paused
        made.now += 1
        await made.jobs.pause(entry, paused=False)
        assert not entry.view.paused_because
        await made.fail(2)
        assert not entry.view.paused

    play(story())


def test_changes_count_as_well_and_zero_turns_it_off() -> None:
    async def story() -> None:
        for after, paused in ((1, True), (0, False)):
            made = Pausing(after)
            entry = made.add("v", ON_COMMIT)
            made.now += 1
            await made.write()
            made.stage.let("v", RefreshFailed("no"))
            await settled()
            assert made.told("v") == [("COMMIT", "FAILED")]
            assert entry.view.paused is paused

    play(story())


STATUSES = st.sampled_from([TaskStatus.SUCCESS, TaskStatus.FAILED, TaskStatus.CANCELED])


@for_all(st.lists(st.tuples(STATUSES, st.sampled_from(list(TriggerMode)), st.booleans())), st.integers(0, 30))
def test_failures_are_those_since_the_last_success(
    tasks: list[tuple[TaskStatus, TriggerMode, bool]], since: int
) -> None:
    history, expected = History(), 0
    for number, (status, trigger, reached) in enumerate(tasks, 1):
        ended = Task(number, Cause(trigger, "u"), "r", number, status, started_at=int(reached))
        place = history.begin(ended)
        if not reached:
            history.excuse(place)
        counts = status is TaskStatus.FAILED and trigger in (TriggerMode.SYSTEM, TriggerMode.COMMIT)
        expected = 0 if status is TaskStatus.SUCCESS else expected + (counts and reached and number > since)
    assert failures(history, since) == expected


def test_the_reason_is_stored_beside_what_earlier_releases_read() -> None:
    view = replace(view_of(Version.whole(1, 0, 0, {})), paused=True, job_since=7, paused_because="it fails")
    written = stored.write_job(view)
    assert {name: written[name] for name in stored.write_job(replace(view, paused_because=""))}.keys() == {
        "freshgate.job"
    }
    everything = {**stored.write_view(view), **written}

    def read(properties: dict[str, str]) -> tuple[bool, str]:
        found = stored.read_view(properties, view.storage, view.definition, 1)
        return found.paused, found.paused_because

    assert read(everything) == (True, "it fails")
    # Resumed and paused again by an earlier release, which leaves the reason where it is.
    for after, expected in ((replace(view, paused=False, job_since=8), False), (replace(view, job_since=9), True)):
        later = {**everything, **stored.write_job(replace(after, paused_because=""))}
        assert read(later) == (expected, "")
