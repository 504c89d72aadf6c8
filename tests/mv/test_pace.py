"""Plans for a TARGET LAG and for AT MOST EVERY, on a clock of their own: whatever is written when, the rows are never
older than promised, nothing is refreshed or looked at without need."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise

from hypothesis import given as for_all
from hypothesis import strategies as st
from views import view_of

from gateway.mv.jobs.pace import (
    LONGEST_LOOK_MS,
    LOOK_AGAIN_MS,
    PAUSE_MS,
    NextTimes,
    Outlook,
    Pace,
    attempted,
    expected_ms,
    plan,
)
from gateway.mv.model.history import History
from gateway.mv.model.view import Cause, Task, TaskStatus, TriggerMode, Version
from sql.statement import CreateClauses, Refreshing, Trigger

SECOND, MINUTE, HOUR = 1_000, 60_000, 3_600_000
CAUSE = Cause(TriggerMode.COMMIT, "TARGET LAG 10 minutes")


@dataclass
class Life:
    """A view that is refreshed and looked at as planned, from a refresh at 0 on."""

    pace: Pace
    takes: int
    watched: bool
    noted: list[int]
    """When writes through the gateway end."""
    outside: list[int]
    now: int = 0
    contains: int = 0
    """Everything written by then is in the version."""
    observed: int = 0
    found: bool = False
    """Whether the last look has shown a change."""
    refreshes: list[int] = field(default_factory=lambda: [0])
    looks: list[int] = field(default_factory=list)
    oldest: int = 0
    """How old rows ever were."""

    @property
    def every(self) -> int:
        return self.pace.look_every(self.takes) if self.watched else 0

    def missed(self) -> int | None:
        noted = [at for at in self.noted if self.contains < at <= self.now]
        return min([*noted, *([self.observed] if self.found and not noted else [])], default=None)

    def plan(self) -> NextTimes:
        return plan(self.pace, Outlook(self.missed(), self.observed, self.refreshes[-1], 0, self.takes), self.every)

    def live(self, until: int) -> None:
        moments = sorted({at for at in self.noted if at <= until})
        while self.now < until:
            planned = self.plan()
            events = [each for each in (planned.refresh, planned.look) if each is not None]
            events += [at for at in moments if at > self.now][:1]
            self.now = max(self.now, min([until, *events]))
            self.age()
            if planned.refresh is not None and planned.refresh <= self.now:
                self.refresh()
            elif planned.look is not None and planned.look <= self.now:
                self.looks.append(self.now)
                self.found = any(self.contains < at <= self.now for at in self.outside)
                self.observed = self.observed if self.found else self.now

    def refresh(self) -> None:
        began = self.now
        self.refreshes.append(began)
        self.now += self.takes
        self.age()
        self.contains = self.observed = began
        self.found = False

    def age(self) -> None:
        unread = [at for at in [*self.noted, *self.outside] if self.contains < at <= self.now]
        self.oldest = max(self.oldest, self.now - min(unread, default=self.now))


MOMENTS = st.lists(st.integers(1, 6 * HOUR), max_size=12).map(sorted)
LAGS = st.integers(1, 180).map(lambda minutes: minutes * MINUTE)


@for_all(LAGS, st.integers(0, 45), MOMENTS, MOMENTS)
def test_rows_are_never_older_than_the_lag(lag: int, share: int, noted: list[int], outside: list[int]) -> None:
    # Refreshes take up to 45 % of the lag: longer ones leave no time for looks, which are ten seconds apart.
    life = Life(Pace(lag, 0), lag * share // 100, True, noted, outside)
    life.live(12 * HOUR)
    assert life.oldest <= lag
    assert len(life.refreshes) - 1 <= len(noted) + len(outside)
    # Everything that was written is in the version.
    assert all(at <= life.contains for at in [*noted, *outside])


@for_all(LAGS, st.integers(0, 100), MOMENTS)
def test_nothing_is_refreshed_or_looked_at_without_need(lag: int, share: int, noted: list[int]) -> None:
    life = Life(Pace(lag, 0), lag * share // 100, False, noted, [])
    life.live(12 * HOUR)
    assert life.looks == []
    assert len(life.refreshes) - 1 <= len(noted)
    # As many changes as possible are in one refresh: it begins no earlier than it must.
    lead = Pace(lag, 0).lead(life.takes)
    for before, after in pairwise(life.refreshes):
        first, ended = min(at for at in noted if before < at), before + life.takes if before else 0
        assert after == max(first + lag - lead, before + PAUSE_MS, ended)


@for_all(LAGS, st.integers(0, 45), MOMENTS)
def test_looks_are_bounded(lag: int, share: int, outside: list[int]) -> None:
    life = Life(Pace(lag, 0), lag * share // 100, True, [], outside)
    life.live(12 * HOUR)
    pauses = [after - before for before, after in pairwise(life.looks)]
    assert all(pause >= LOOK_AGAIN_MS for pause in pauses)
    assert LOOK_AGAIN_MS <= life.every <= LONGEST_LOOK_MS


@for_all(LAGS | st.just(0), st.integers(1, 120), MOMENTS)
def test_the_floor_is_between_any_two_refreshes(lag: int, minutes: int, noted: list[int]) -> None:
    floor = minutes * MINUTE
    life = Life(Pace(lag, floor), 5 * SECOND, False, noted, [])
    life.live(12 * HOUR)
    starts = life.refreshes
    assert all(after - before >= floor for before, after in pairwise(starts))
    assert life.oldest <= max(lag, floor + life.takes)
    assert all(at <= life.contains for at in noted)


def test_a_lag_begins_early_enough_and_a_commit_at_once() -> None:
    noted = Outlook(missed=HOUR, observed=HOUR, began=0, failed=0, expected=2 * MINUTE)
    assert plan(Pace(10 * MINUTE, 0), noted, 0).refresh == HOUR + 10 * MINUTE - (2 * MINUTE + 30 * SECOND + MINUTE)
    assert plan(Pace(0, 5 * MINUTE), noted, 0).refresh == HOUR
    assert plan(Pace(0, 5 * MINUTE), replace(noted, began=HOUR - MINUTE), 0).refresh == HOUR + 4 * MINUTE
    # A refresh that takes longer than the lag begins at once, and not without a pause.
    long = replace(noted, expected=HOUR)
    assert plan(Pace(10 * MINUTE, 0), long, 0).refresh == HOUR
    assert plan(Pace(10 * MINUTE, 0), replace(long, began=HOUR), 0).refresh == HOUR + PAUSE_MS
    # After a failure it is tried again after half of the lag.
    failed = replace(noted, failed=HOUR + 9 * MINUTE)
    assert plan(Pace(10 * MINUTE, 0), failed, 0).refresh == HOUR + 14 * MINUTE


def test_a_refresh_after_a_write_contains_what_may_have_been_written_before_it_unseen() -> None:
    outlook = Outlook(missed=HOUR, observed=HOUR - 2 * MINUTE, began=0, failed=0, expected=0)
    lag = Pace(10 * MINUTE, 0)
    assert plan(lag, outlook, MINUTE).refresh == HOUR - 2 * MINUTE + 9 * MINUTE
    assert plan(lag, outlook, 0).refresh == HOUR + 9 * MINUTE


def test_the_expected_duration_is_longer_than_most_of_the_last_ones() -> None:
    refreshing = Refreshing(trigger=Trigger.LAG, lag=600)
    built = replace(view_of(Version.whole(1, 1_000, 5_000, {})), clauses=CreateClauses(refreshing=refreshing))
    history = History()
    assert expected_ms(built, history) == 4_000
    for number, took in enumerate([90, 1, 2, 3, 4, 5, 6, 7, 8], 1):
        version = 0 if took == 8 else number
        task = Task(
            number, CAUSE, "r", 100, TaskStatus.SUCCESS, started_at=100, finished_at=100 + took, version=version
        )
        history.begin(task)
    assert expected_ms(built, history) == 7
    assert attempted(built, history) == (1_000, 0)
    history.begin(Task(99, CAUSE, "r", 7_000, TaskStatus.FAILED, finished_at=7_500))
    assert attempted(built, history) == (7_000, 7_500)
