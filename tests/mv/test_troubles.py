"""What is wrong with views: freshgate.attention, which the page and `freshgate status` tell in the same words."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest
from fakes import Site
from views import given

from gateway.access_list import AccessList, Principal
from gateway.mv.freshness import troubles
from gateway.mv.freshness.troubles import KINDS, SLOW_MS, Trouble, in_order, troubles_of
from gateway.mv.model.damage import Damage
from gateway.mv.model.view import Cause, RefreshMode, Task, TaskStatus, TriggerMode
from gateway.mv.statements.rights import Rights
from gateway.service.answers.attention import ATTENTION, ROWS_MAX, Attention
from sql.names import TableName
from sql.statement import Trigger

ADA, BOB, ROOT = (Principal(name) for name in ("ada", "bob", "root"))
DONE = Task(1_000, Cause(TriggerMode.MANUAL, "ada"), "", 1, TaskStatus.SUCCESS, RefreshMode.COMPLETE, 0, 0, version=1)
FAILED = replace(DONE, status=TaskStatus.FAILED, version=0, error="no: password = 'hunter2'", finished_at=5_000)
MINUTE = 60_000


async def stage(*names: str) -> Site:
    site = Site()
    site.table("s.sales")
    for name in names or ("s.daily",):
        await site.view(name, "SELECT n FROM s.sales")
    return site


def have(site: Site, name: str, *tasks: Task) -> None:
    history = site.entry(name).history
    for task in tasks:
        history.begin(task)


async def rows_of(site: Site, who: Principal = ROOT) -> list[dict[str, Any]]:
    table = await Attention(site.catalog, Rights(AccessList.of(["root"]))).table(who)
    return [dict(zip([name for name, _ in ATTENTION], row, strict=True)) for row in table.rows]


async def test_nothing_is_wrong_with_a_healthy_view() -> None:
    site = await stage()
    assert await rows_of(site) == []


async def test_a_failing_view_is_told_with_its_streak_and_the_beginning() -> None:
    site = await stage()
    have(site, "s.daily", DONE, FAILED, replace(FAILED, finished_at=9_000, error="later"))
    (row,) = await rows_of(site)
    assert (row["place"], row["what"], row["database_name"], row["name"]) == (1, "FAILING", "s", "daily")
    assert row["why"] == "2 refreshes in a row have failed"
    assert str(row["since"]).startswith("1970-01-01 00:00:05")
    assert row["error"] == "later"
    assert "REFRESH MATERIALIZED VIEW s.daily" in str(row["advice"])


@pytest.mark.parametrize(("who", "told"), [(ADA, True), (ROOT, True), (BOB, False)])
async def test_errors_are_told_to_owners_and_administrators_without_passwords(who: Principal, told: bool) -> None:
    site = await stage()
    have(site, "s.daily", FAILED)
    (row,) = await rows_of(site, who)
    assert (row["error"] is not None) is told
    assert "hunter2" not in str(row)


@pytest.mark.parametrize(("minutes", "late"), [(4, False), (6, True)])
async def test_a_view_that_is_staler_than_it_promises_is_late(minutes: int, late: bool) -> None:
    site = await stage("s.daily", "s.free")
    clauses = site.entry("s.daily").view.clauses
    on_commit = replace(clauses, refreshing=replace(clauses.refreshing, trigger=Trigger.COMMIT))
    given(site.entry("s.daily"), clauses=on_commit)
    site.write("s.sales")
    then = time.time_ns() // 1_000_000 + minutes * MINUTE
    table = await Attention(site.catalog, Rights(), now_ms=lambda: then).table(ROOT)
    assert [(row[1], row[3]) for row in table.rows] == ([("LATE", "daily")] if late else [])


async def test_the_worst_comes_first_and_the_oldest_among_equals() -> None:
    site = await stage("s.a", "s.b", "s.c")
    have(site, "s.a", replace(FAILED, finished_at=9_000))
    have(site, "s.b", replace(FAILED, finished_at=7_000))
    broken = TableName("s", "broken")
    site.catalog.damaged[broken] = Damage(broken, broken, None, "its storage table was dropped")
    found = [(row["what"], row["name"], row["owner"]) for row in await rows_of(site)]
    assert found == [("DAMAGED", "broken", None), ("FAILING", "b", "ada"), ("FAILING", "a", "ada")]


def test_every_kind_has_a_place() -> None:
    name = TableName("s", "v")
    found = [(name, Trouble(kind, 0, "", "")) for kind in reversed(KINDS)]
    assert [each.kind for _, each in in_order(found)] == list(KINDS)


async def test_the_number_of_rows_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    site = await stage()
    for number in range(ROWS_MAX + 1):
        name = TableName("s", f"v{number:04}")
        site.catalog.damaged[name] = Damage(name, name, "ada", "gone")
    assert len(await rows_of(site)) == ROWS_MAX


# --- slow ----------------------------------------------------------------------------------------------------------


def usually(took_ms: int, times: int = 3) -> list[Task]:
    return [replace(DONE, started_at=1, finished_at=1 + took_ms)] * times


RUNNING = replace(DONE, id=7, status=TaskStatus.RUNNING, started_at=1_000_000, finished_at=0, version=0)


@pytest.mark.parametrize(
    ("usual", "runs", "slow"),
    [
        (10 * MINUTE, 30 * MINUTE, False),
        (10 * MINUTE, 30 * MINUTE + 1, True),
        # Of short refreshes, many times as long is still short.
        (1_000, SLOW_MS, False),
        (1_000, SLOW_MS + 1_001, True),
    ],
)
async def test_a_refresh_is_slow_if_it_runs_much_longer_than_usual(usual: int, runs: int, slow: bool) -> None:
    site = await stage()
    have(site, "s.daily", *usually(usual), RUNNING)
    found = list(troubles_of(site.entry("s.daily"), None, RUNNING.started_at + runs))
    assert [each.kind for each in found] == (["SLOW"] if slow else [])
    if slow:
        assert "CANCEL MATERIALIZED VIEW TASK 7 ON s.daily" in found[0].advice
        assert found[0].since == RUNNING.started_at


@pytest.mark.parametrize(
    "tasks",
    [
        [*usually(1_000, 2), RUNNING],
        [*usually(1_000), replace(RUNNING, mode=RefreshMode.INCREMENTAL)],
        [*usually(1_000), replace(RUNNING, status=TaskStatus.PENDING, started_at=0)],
    ],
    ids=["nothing is usual yet", "another method", "it waits"],
)
async def test_a_refresh_is_not_slow_without_something_to_compare(tasks: list[Task]) -> None:
    site = await stage()
    have(site, "s.daily", *tasks)
    assert list(troubles_of(site.entry("s.daily"), None, 10**12)) == []


@pytest.mark.parametrize(
    ("milliseconds", "said"),
    [(0, "0 seconds"), (119_400, "119 seconds"), (120_000, "2 minutes"), (3_700_000, "61 minutes")],
)
def test_durations_change_rarely(milliseconds: int, said: str) -> None:
    assert troubles.seconds(milliseconds) == said
