"""Views with a TARGET LAG or AT MOST EVERY: refreshes end when the test says, looks find what it says, and the clock is
its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, cast

import pytest
from mv.test_tasks import BY_READS, HOURLY, MANUAL, ON_COMMIT, READ, RefreshedViews, play, settled, silent
from views import given

from gateway.errors import DefinitionRefused, StatementFailed, UpstreamLost
from gateway.mv.freshness.drift import NOT_LOOKED, Drift
from gateway.mv.freshness.entry import Entry
from gateway.mv.freshness.promises import is_late, promised_ms
from gateway.mv.jobs.paced import PacedRefreshes
from gateway.mv.model.view import Version
from sql.names import TableName
from sql.statement import Method, Refreshing, Trigger

MINUTE = 60_000
LAG = Refreshing(None, Trigger.LAG, lag=600)
SLOW_LAG = Refreshing(None, Trigger.LAG, lag=3_600)
DOWNSTREAM = Refreshing(None, Trigger.LAG)
PACED_COMMIT = Refreshing(None, Trigger.COMMIT, at_most=300)
WRONG = StatementFailed("The column is gone.", "42703")
CHANGED = Drift(wholly=frozenset({"d.t"}))


class Paced(RefreshedViews):
    """`looks` counts looks; what `outside` names is found changed. Views are published as versions of their own."""

    def __init__(self, watch_seconds: float = 300) -> None:
        super().__init__()
        self.looks: list[str] = []
        self.outside: set[str] = set()
        self.blind: set[str] = set()
        free = cast(Any, self.free)
        free.check = self.check
        self.paced = PacedRefreshes(self.catalog, self.jobs, self.tasks, free, free, watch_seconds, now_ms=self.time)
        self.catalog.news.stale.add(self.paced.changed)
        self.tasks.ended.add(self.paced.ended)
        self.stage.published = self.published

    def built(self, view_id: str, refreshing: Refreshing, reads: Mapping[str, int] | None = None) -> Entry:
        """A view that was built now."""
        entry = self.add(view_id, refreshing, reads)
        entry._fresh_at = self.now
        version = replace(entry.view.current, started_at=self.now, published_at=self.now + 10_000)
        names = {base: self.catalog.entry(base).view.name for base in reads or {}}
        given(entry, current=version, view_names=names)
        return entry

    def published(self, view_id: str) -> None:
        entry = self.catalog.entry(view_id)
        below = {base: self.catalog.current(base) for base in entry.view.views}
        number = entry.view.current.number
        missed = self.missed.pop(view_id, 0)
        entry._catch_up(number, missed)
        version = Version.whole(number + 1, self.now, self.now, below)
        given(entry, current=version)
        entry._drift, entry._fresh_at = None, self.now
        self.outside.discard(view_id)
        self.scheduler.published(view_id)
        self.paced.published(view_id)

    @property
    def missed(self) -> dict[str, int]:
        found: dict[str, int] = self.__dict__.setdefault("_missed", {})
        return found

    async def check(self, view_ids: Iterable[str] = (), *_: object) -> list[str]:
        self.looks += view_ids
        for view_id in [base for each in view_ids for base in self.catalog.reads(each)]:
            entry = self.catalog.entry(view_id)
            if view_id in self.blind:
                entry._drift = NOT_LOOKED
            elif view_id in self.outside:
                entry._drift = CHANGED
            else:
                entry._drift, entry._fresh_at = None, self.now
        return []

    async def pass_to(self, moment: int) -> None:
        """Lets the time pass to this moment, in steps of five seconds."""
        while self.now < moment:
            self.now = min(moment, self.now + 5_000)
            await self.paced.look()
            await self.paced.run_due()
            await settled()

    def end(self, view_id: str, outcome: Any = None) -> None:
        since = self.catalog.staleness(view_id)
        self.missed[view_id] = since.since if since else self.now
        self.stage.let(view_id, outcome)

    @property
    def began(self) -> list[str]:
        return [view for view, _ in self.stage.began]


def test_a_view_that_misses_nothing_is_not_refreshed_and_its_tables_are_looked_at() -> None:
    async def story() -> None:
        made = Paced()
        made.built("v", LAG)
        await made.pass_to(made.now + 30 * MINUTE)
        assert made.began == []
        assert 6 <= len(made.looks) <= 30 * 60 // 60
        assert made.jobs.next_run("v") is None

    play(story())


def test_a_write_is_refreshed_before_it_is_too_old() -> None:
    async def story() -> None:
        made = Paced(0)
        entry = made.built("v", LAG)
        written = made.now = made.now + 3 * MINUTE
        await made.write()
        await made.write()
        await made.paced.run_due()
        due = made.jobs.next_run("v")
        assert due is not None
        # The refresh takes ten seconds: expected are 12.5, and a minute of slack.
        assert written + 8 * MINUTE <= due <= written + 10 * MINUTE - 12_500
        await made.pass_to(due - 1)
        assert made.began == []
        await made.pass_to(due + 5_000)
        assert made.told("v") == [("COMMIT", "PENDING")]
        assert entry.history.tasks[-1][1].cause.user == "TARGET LAG 10 minutes"
        made.end("v")
        await settled()
        assert made.statuses("v") == ["SUCCESS"]
        await made.pass_to(made.now + 30 * MINUTE)
        assert made.began == ["v"]

    play(story())


def test_a_change_that_bypassed_the_gateway_is_found_in_time() -> None:
    async def story() -> None:
        made = Paced()
        made.built("v", LAG)
        await made.pass_to(made.now + 7 * MINUTE)
        changed = made.now
        made.outside.add("v")
        await made.pass_to(changed + 10 * MINUTE - 10_000)
        assert made.began == ["v"]
        made.end("v")
        await settled()
        looks = len(made.looks)
        await made.pass_to(made.now + 10 * MINUTE)
        assert made.began == ["v"]
        assert len(made.looks) > looks

    play(story())


def test_views_below_are_refreshed_first_as_the_lag_above_needs_them() -> None:
    async def story() -> None:
        made = Paced(0)
        made.built("low", DOWNSTREAM)
        made.built("slow", SLOW_LAG)
        made.built("alone", DOWNSTREAM)
        made.built("top", LAG, {"low": 1, "slow": 1})
        await made.write()
        for _ in range(30):
            await made.pass_to(made.now + 30_000)
            if made.began:
                break
        assert sorted(made.began) == ["low", "slow"]
        made.end("low")
        made.end("slow")
        await settled()
        assert made.began[-1] == "top"
        made.end("top")
        await settled()
        assert not made.catalog.is_stale("top")
        await made.pass_to(made.now + 3 * 60 * MINUTE)
        # Nothing refreshes what nobody needs.
        assert sorted(made.began) == ["low", "slow", "top"]
        assert made.catalog.is_stale("alone")

    play(story())


def test_a_view_below_with_a_shorter_lag_is_not_refreshed_again() -> None:
    async def story() -> None:
        made = Paced(0)
        made.built("low", LAG)
        top = made.built("top", SLOW_LAG, {"low": 1})
        written = made.now = made.now + MINUTE
        await made.write()
        await made.pass_to(written + 10 * MINUTE)
        assert made.began == ["low"]
        made.end("low")
        await settled()
        # What the view above misses was written then, not when its own version began to be made.
        staleness = made.catalog.inquiry().awaited(top.view)
        assert staleness is not None
        assert staleness.since == written
        await made.pass_to(written + 50 * MINUTE)
        assert made.began == ["low"]
        made.now += MINUTE
        await made.write()
        await made.pass_to(written + 59 * MINUTE)
        assert made.began[:2] == ["low", "top"]

    play(story())


def test_a_view_below_with_a_trigger_of_its_own_is_read_as_it_is() -> None:
    async def story() -> None:
        made = Paced(0)
        made.built("low", HOURLY)
        top = made.built("top", LAG, {"low": 1})
        await made.write()
        await made.pass_to(made.now + 30 * MINUTE)
        assert made.began == []
        assert made.catalog.is_stale("top")
        awaited = made.catalog.inquiry().awaited(top.view)
        assert not is_late(top.view, awaited, made.now)
        await made.tasks.begin("low", MANUAL)
        made.end("low")
        await settled()
        await made.pass_to(made.now + 10 * MINUTE)
        assert made.began[:2] == ["low", "top"]

    play(story())


def test_on_commit_at_most_every_waits_and_then_contains_everything() -> None:
    async def story() -> None:
        made = Paced(0)
        made.built("v", PACED_COMMIT)
        made.built("w", ON_COMMIT)
        built = made.now
        await made.write()
        await made.write()
        await settled()
        # The one without a floor begins at once.
        assert made.began == ["w"]
        await made.pass_to(built + 5 * MINUTE - 1)
        assert made.began == ["w"]
        assert made.jobs.next_run("v") == built + 5 * MINUTE
        await made.pass_to(built + 5 * MINUTE + 5_000)
        assert made.began == ["w", "v"]
        began = made.now
        made.end("v")
        await settled()
        await made.pass_to(began + 20 * MINUTE)
        assert made.began == ["w", "v"]
        made.now += 1
        written = made.now
        await made.write()
        await made.pass_to(written + 5_000)
        assert made.began[2:] == ["v"]

    play(story())


def test_a_read_does_not_wait_for_the_floor() -> None:
    async def story() -> None:
        made = Paced(0)
        made.built("v", PACED_COMMIT)
        await made.write()
        made.end("v")
        await made.tasks.make_fresh("v", READ, silent)
        assert made.told("v") == [("READ", "SUCCESS")]

    play(story())


def test_a_failure_for_good_is_not_repeated_until_something_changes() -> None:
    async def story() -> None:
        made = Paced(0)
        made.built("v", LAG)
        made.free.found = {"v": ("as it is",)}
        await made.write()
        await made.pass_to(made.now + 10 * MINUTE)
        made.end("v", WRONG)
        await settled()
        await made.pass_to(made.now + 60 * MINUTE)
        assert made.statuses("v") == ["FAILED"]
        made.free.found = {"v": ("otherwise",)}
        await made.write()
        await made.pass_to(made.now + 10 * MINUTE)
        assert made.statuses("v") == ["FAILED", "PENDING"]

    play(story())


def test_a_failure_that_may_pass_is_repeated_with_pauses() -> None:
    async def story() -> None:
        made = Paced(0)
        made.built("v", LAG)
        await made.write()
        for _ in range(10):
            made.stage.let("v", UpstreamLost("gone"))
        await made.pass_to(made.now + 40 * MINUTE)
        assert 5 <= len(made.statuses("v")) <= 8

    play(story())


def test_after_a_start_the_tables_are_looked_at_before_anything_is_refreshed() -> None:
    async def story() -> None:
        made = Paced(0)
        entry = made.built("v", LAG)
        entry._drift, entry._fresh_at = NOT_LOOKED, None
        await made.pass_to(made.now + 30 * MINUTE)
        assert made.looks == ["v"]
        assert made.began == []

    play(story())


def test_what_cannot_be_observed_is_refreshed_once_in_its_lag() -> None:
    async def story() -> None:
        made = Paced()
        made.built("v", LAG)
        made.blind.add("v")
        made.stage.let("v", *[None] * 100)
        await made.pass_to(made.now + 60 * MINUTE)
        assert 5 <= len(made.began) <= 8

    play(story())


def test_a_clock_that_is_set_back_delays_nothing() -> None:
    async def story() -> None:
        made = Paced()
        made.built("v", LAG)
        await made.write()
        made.now -= 5 * 60 * MINUTE
        await made.pass_to(made.now + 10 * MINUTE)
        assert made.began == ["v"]

    play(story())


def test_a_view_that_is_not_built_is_built_within_its_lag() -> None:
    async def story() -> None:
        made = Paced()
        entry = made.add("v", LAG)
        given(entry, current=Version.whole(0, 0, 0, {}))
        created = made.now
        await made.pass_to(created + 5 * MINUTE)
        assert (made.began, made.looks) == ([], [])
        await made.pass_to(created + 10 * MINUTE)
        assert made.began == ["v"]

    play(story())


def test_what_fails_for_good_is_still_looked_at() -> None:
    async def story() -> None:
        made = Paced()
        made.built("v", LAG)
        made.free.found = {"v": ("as it is",)}
        await made.write()
        await made.pass_to(made.now + 10 * MINUTE)
        made.end("v", WRONG)
        await settled()
        made.looks.clear()
        made.outside.add("v")
        await made.pass_to(made.now + 30 * MINUTE)
        assert 5 <= len(made.looks) <= 15
        assert made.statuses("v") == ["FAILED"]
        made.free.found = {"v": ("otherwise",)}
        await made.pass_to(made.now + 10 * MINUTE)
        assert made.statuses("v") == ["FAILED", "PENDING"]

    play(story())


def test_a_complete_view_is_looked_at_first() -> None:
    async def story() -> None:
        made = Paced(0)
        entry = made.built("v", replace(LAG, method=Method.COMPLETE))
        await made.write()

        async def unchanged(view_ids: Iterable[str] = (), *_: object) -> list[str]:
            entry.ledger.publish(entry.ledger.events)
            return list(view_ids)

        cast(Any, made.free).check = unchanged
        await made.pass_to(made.now + 20 * MINUTE)
        assert made.began == []

    play(story())


def test_a_paused_or_dropped_view_is_left_alone() -> None:
    async def story() -> None:
        made = Paced(0)
        entry, other = made.built("v", LAG), made.built("w", LAG)
        await made.jobs.pause(entry, paused=True)
        await made.write()
        await made.paced.run_due()
        assert made.jobs.next_run("v") is None
        assert made.jobs.next_run("w") is not None
        made.catalog.remove(other)
        await made.pass_to(made.now + 30 * MINUTE)
        assert made.began == []
        assert made.jobs.planned == {}
        await made.jobs.pause(entry, paused=False)
        await made.pass_to(made.now + MINUTE)
        assert made.began == ["v"]

    play(story())


def test_what_is_overdue_after_a_start_does_not_begin_at_once() -> None:
    async def story() -> None:
        made = Paced(0)
        for number in range(30):
            made.built(f"v{number}", LAG)
        await made.write()
        made.now += 60 * MINUTE
        made.paced._spread = type(made.paced._spread).of(made.now, 30)
        began = made.now
        await made.paced.run_due()
        await settled()
        assert len(made.began) < 8
        await made.pass_to(began + MINUTE + 5_000)
        assert len(made.began) == 30

    play(story())


@pytest.mark.parametrize("refreshing", [replace(LAG, lag=59), replace(PACED_COMMIT, at_most=59)])
def test_less_than_a_minute_is_refused(refreshing: Refreshing) -> None:
    async def story() -> None:
        made = Paced()
        made.jobs._allow_seconds = False
        with pytest.raises(DefinitionRefused, match="shorter than a minute"):
            made.jobs.check(TableName("d", "v"), refreshing)

    play(story())


def test_promises_know_lags() -> None:
    async def story() -> None:
        made = Paced()
        promised = {
            name: promised_ms(made.built(name, refreshing).view)
            for name, refreshing in {
                "lag": LAG,
                "floor": replace(LAG, at_most=3_600),
                "downstream": DOWNSTREAM,
                "commit": PACED_COMMIT,
                "reads": BY_READS,
            }.items()
        }
        assert promised == {
            "lag": 10 * MINUTE,
            "floor": 60 * MINUTE,
            "downstream": 0,
            "commit": 10 * MINUTE,
            "reads": 0,
        }

    play(story())
