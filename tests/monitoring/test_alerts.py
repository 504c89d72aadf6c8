"""What operators are told, once each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from fakes import Site

from gateway.monitoring.alerts import Alert, AlertKind, Alerts
from gateway.mv.model.view import Cause, RefreshMode, Task, TaskStatus, TriggerMode
from sql.statement import CreateClauses, Refreshing, Schedule, Trigger

CAUSE = Cause(TriggerMode.SYSTEM, "ada")
FAILED = Task(
    1, CAUSE, "r", 1, TaskStatus.FAILED, RefreshMode.COMPLETE, 2, 5_000, error="no table; password = 'hunter2'"
)
DONE = replace(FAILED, status=TaskStatus.SUCCESS, error="", version=2)
COMMIT = CreateClauses(refreshing=Refreshing(trigger=Trigger.COMMIT))
HOURLY = CreateClauses(refreshing=Refreshing(trigger=Trigger.SCHEDULE, schedule=Schedule(every=1, unit="HOUR")))


class Stage:
    """One view, s.daily."""

    def __init__(self) -> None:
        self.site = Site()
        self.now = 1_000_000_000_000
        self.alerts = Alerts(self.site.catalog, now_ms=lambda: self.now)
        self.told: list[Alert] = []
        self.alerts.told.add(self.told.append)

    async def begin(self, clauses: CreateClauses = COMMIT) -> Stage:
        self.site.table("s.sales")
        await self.site.view("s.daily", "SELECT n FROM s.sales")
        entry: Any = self.site.entry("s.daily")
        entry._view = replace(entry.view, clauses=clauses)
        return self

    def end(self, task: Task) -> None:
        entry = self.site.entry("s.daily")
        number = entry.history.begin(task)
        entry.history.end(number, task)
        self.alerts.task_ended(entry, number)

    @property
    def kinds(self) -> list[AlertKind]:
        return [alert.kind for alert in self.told]


async def test_a_streak_of_failures_is_told_at_its_beginning_and_its_end() -> None:
    stage = await Stage().begin()
    for task in (DONE, FAILED, FAILED, replace(FAILED, status=TaskStatus.CANCELED), FAILED, DONE, DONE):
        stage.end(task)
    assert stage.kinds == [AlertKind.FAILING, AlertKind.RECOVERED]
    assert "no table" in stage.told[0].text
    assert "hunter2" not in stage.told[0].text
    assert stage.told[1].since == FAILED.finished_at
    assert stage.alerts.counts[AlertKind.FAILING] == 1


async def test_what_failed_before_the_start_is_not_told_again() -> None:
    stage = await Stage().begin()
    history = stage.site.entry("s.daily").history
    history.end(history.begin(FAILED), FAILED)
    await stage.alerts.look()
    stage.end(FAILED)
    assert stage.told == []
    stage.end(DONE)
    assert stage.kinds == [AlertKind.RECOVERED]


@pytest.mark.parametrize(("clauses", "promised"), [(COMMIT, 300_000), (HOURLY, 7_200_000)])
async def test_a_view_that_is_staler_than_promised_is_told(clauses: CreateClauses, promised: int) -> None:
    stage = await Stage().begin(clauses)
    await stage.alerts.look()
    stage.site.write("s.sales")
    staleness = stage.site.catalog.staleness(stage.site.entry("s.daily").view.id)
    assert staleness is not None
    stage.now = staleness.since + promised
    await stage.alerts.look()
    assert stage.told == []
    stage.now += 1
    for _ in range(2):
        await stage.alerts.look()
    assert stage.kinds == [AlertKind.LATE]
    ledger = stage.site.ledger("s.daily")
    ledger.publish(ledger.events)
    await stage.alerts.look()
    assert stage.kinds == [AlertKind.LATE, AlertKind.ON_TIME]


async def test_a_view_without_a_promise_is_never_late() -> None:
    stage = await Stage().begin(CreateClauses())
    await stage.alerts.look()
    stage.site.write("s.sales")
    stage.now += 10**12
    await stage.alerts.look()
    assert stage.told == []


async def test_a_dropped_view_is_forgotten() -> None:
    stage = await Stage().begin()
    stage.end(FAILED)
    stage.site.catalog.remove(stage.site.entry("s.daily"))
    await stage.alerts.look()
    assert not stage.alerts._failing


async def test_a_rewriting_that_differs_is_told() -> None:
    stage = await Stage().begin()
    stage.alerts.differed([stage.site.entry("s.daily").view.name], "3 rows instead of 4")
    assert stage.kinds == [AlertKind.DIFFERED]
    assert "3 rows instead of 4" in stage.told[0].text
