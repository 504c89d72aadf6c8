"""The page and `freshgate status` tell the same, in the same words and the same order."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from page_site import PageSite

from gateway.access_list import AccessList, Principal
from gateway.mv.freshness.troubles import KINDS
from gateway.mv.model.damage import Damage
from gateway.mv.model.residence import Held, Residence, TableResidence, Wish
from gateway.mv.model.view import Cause, RefreshMode, Task, TaskStatus, TriggerMode
from gateway.mv.statements.rights import Rights
from gateway.service.answers.attention import ATTENTION, Attention
from gateway.status import shared_words as words
from gateway.status import text
from gateway.status.model import Status, status_of
from sql.names import TableName

DONE = Task(1_000, Cause(TriggerMode.MANUAL, "ada"), "", 1, TaskStatus.SUCCESS, RefreshMode.COMPLETE, 2, 3, version=1)
FAILED = replace(DONE, status=TaskStatus.FAILED, version=0, error="Spark said no")
RUNNING = replace(DONE, id=9, status=TaskStatus.RUNNING, finished_at=0, version=0)
GUARD = {"storage_guard": "ABSENT", "storage_guard_reason": "no jar"}


async def stage() -> PageSite:
    """A view for each kind of trouble that needs no clock, and a healthy one."""
    page = PageSite()
    page.site.table("s.sales")
    for name in ("failing", "healthy", "paused", "slow", "unknown"):
        await page.site.view(f"s.{name}", "SELECT n FROM s.sales")
    damaged = TableName("s", "gone")
    page.site.catalog.damaged[damaged] = Damage(damaged, damaged, "ada", "its storage table was dropped")
    for name, tasks in {"failing": [DONE, FAILED, FAILED], "slow": [DONE, DONE, DONE, RUNNING]}.items():
        for task in tasks:
            page.site.entry(f"s.{name}").history.begin(task)
    paused, unknown = page.site.entry("s.paused"), page.site.entry("s.unknown")
    async with paused.lock:
        paused.pause(paused=True, since=1_000)
    unknown.doubt()
    return page


async def status_at(page: PageSite, user: str) -> Status:
    """What `freshgate status` makes of the gateway's answers."""
    table = await Attention(page.site.catalog, Rights(AccessList.of(["root"]))).table(Principal(user))
    problems: list[dict[str, Any]] = [
        dict(zip([name for name, _ in ATTENTION], row, strict=True)) for row in table.rows
    ]
    views = [
        {
            "database_name": view.name.database,
            "name": view.name.table,
            "freshness": page.site.catalog.freshness(view.id).value,
            "state": "NORMAL",
        }
        for view in page.site.catalog.views()
    ]
    views += [{"database_name": "s", "name": "gone", "state": "DAMAGED"}]
    task = {"mvdatabasename": "s", "mvname": "slow", "status": "RUNNING", "taskid": "9"}
    return status_of(views, [], [task], GUARD, [], problems)


async def shown_by_page(page: PageSite, user: str, place: str = "/") -> str:
    """The text of a screen, without tags."""
    answer = await (await page.browser(user)).get(place)
    _, _, main = answer.text.partition("<main")
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", main)).split())


def shown_by_status(status: Status) -> str:
    lines = text.render(status, datetime.now(UTC), text.Style(1_000), "here")
    return " ".join(" ".join(lines).split())


def places(shown: str, *wanted: str) -> list[int]:
    assert all(each in shown for each in wanted), [each for each in wanted if each not in shown]
    return [shown.index(each) for each in wanted]


async def test_the_same_is_wrong_in_the_same_order_for_the_same_reasons() -> None:
    page = await stage()
    for user in ("ada", "root"):
        status, screen = await status_at(page, user), await shown_by_page(page, user)
        problems = status.attention or ()
        assert [each.what for each in problems] == [kind for kind in KINDS if kind != "LATE"]
        terminal = shown_by_status(status)
        for each in problems:
            places(screen, each.why, each.advice, each.error or "")
            places(terminal, f"{each.why}; {each.advice}", each.error or "")
        _, _, table = screen.partition("What to do")
        found = places(table, *(f"{each.what} {each.title}" for each in problems))
        assert found == sorted(found)
        _, _, lines = terminal.partition("WHAT VIEW SINCE")
        found = places(lines, *(f"{each.what} {each.title}" for each in problems))
        assert found == sorted(found)


async def test_errors_are_told_by_both_or_by_neither() -> None:
    page = await stage()
    for user, told in (("ada", True), ("bob", False)):
        assert ("Spark said no" in shown_by_status(await status_at(page, user))) is told
        assert ("Spark said no" in await shown_by_page(page, user)) is told


async def test_both_begin_with_the_same_sentences_and_go_on_in_the_same_order() -> None:
    page = await stage()
    screen, terminal = await shown_by_page(page, "root"), shown_by_status(await status_at(page, "root"))
    beginning = f"{words.views(6)}: "
    guard = f"{words.GUARD}: ABSENT: no jar"
    for shown, attention, tasks in (
        (screen, "What to do", "Refreshes that run or wait"),
        (terminal, "NOTES DAMAGED", "TASK STATUS"),
    ):
        found = places(shown, beginning, guard, attention, tasks)
        assert found == sorted(found)
    counted = re.compile(r"(\d+ [A-Z]+)")
    first, second = (counted.findall(each.partition(beginning)[2].partition(".")[0]) for each in (screen, terminal))
    assert first == second
    assert len(first) > 1


async def test_what_is_wrong_with_the_gateway_comes_in_the_same_words_and_order() -> None:
    page = await stage()
    page.servers, page.limits, page.lost = "one answers, two does not", "ada: 2 sessions (* each: sessions 2)", 1_234
    about = {**GUARD, "spark_servers": page.servers, "limits_reached": page.limits, "audit_lines_lost": page.lost}
    terminal = shown_by_status(status_of([], [], [], about, [], []))
    said = [
        f"{words.GUARD}: ABSENT: no jar",
        f"{words.SERVERS}: {page.servers}",
        f"{words.LIMITS}: {page.limits}",
        f"{words.AUDIT}: 1,234 lines could not be written",
    ]
    for shown in (await shown_by_page(page, "root"), terminal):
        found = places(shown, *said)
        assert found == sorted(found)


async def test_a_gateway_without_such_problems_does_not_mention_them() -> None:
    page = await stage()
    shown = await shown_by_page(page, "root") + shown_by_status(await status_at(page, "root"))
    assert not [word for word in (words.SERVERS, words.LIMITS, words.AUDIT) if f"{word}:" in shown]


async def test_lists_of_views_have_the_same_heads_and_states() -> None:
    page = await stage()
    screen, status = await shown_by_page(page, "root", "/views"), await status_at(page, "root")
    heads = places(screen.partition("6 views")[2], *words.VIEW_HEADS)
    assert heads == sorted(heads)
    terminal = shown_by_status(status)
    for worst in status.worst.values():
        assert re.search(rf"{re.escape(worst.title)} \S+ {worst.what}", screen)
        assert f"{worst.title} {worst.what}" in terminal
    assert re.search(r"s\.healthy \S+ FRESH", screen)


async def test_a_healthy_gateway_says_so_in_the_same_words() -> None:
    page = PageSite()
    page.site.table("s.sales")
    await page.site.view("s.daily", "SELECT n FROM s.sales")
    row = {"database_name": "s", "name": "daily", "freshness": "FRESH", "state": "NORMAL"}
    assert words.NOTHING_WRONG in await shown_by_page(page, "ada")
    assert words.NOTHING_WRONG in shown_by_status(status_of([row], [], [], GUARD, [], []))
    # An older gateway does not report it.
    assert words.NOTHING_WRONG not in shown_by_status(status_of([row], [], [], GUARD, []))


async def test_what_is_in_memory_is_told_in_the_same_words() -> None:
    page = await stage()
    residences, views = page.site.catalog.residences, {view.name.table: view for view in page.site.catalog.views()}
    residences.off = ""
    residences.set(views["healthy"].id, Residence(Held.LOADED, Wish.READS, "", 1, 1_234, 5 << 20, 6))
    residences.set(views["slow"].id, Residence(Held.NOT_LOADED, Wish.READS, "no room is left"))
    residences.answers[views["healthy"].id] = 42
    tables = [
        TableResidence(TableName("s", "customer"), Residence(Held.LOADED, Wish.READS, "", 1, 7, 3 << 20, 6), 12),
        TableResidence(TableName("s", "huge"), Residence(Held.NOT_LOADED, Wish.READS, "it has too many rows"), 0),
    ]
    residences.tables = lambda: tables
    said = "In memory: 1 of 2 views, 5.0 MiB; 1 base table, 3.0 MiB"
    rows: list[Mapping[str, Any]] = [
        {"database_name": "s", "name": "healthy", "memory": "LOADED", "memory_bytes": 5 << 20},
        {"database_name": "s", "name": "slow", "memory": "NOT_LOADED", "memory_reason": "no room is left"},
    ]
    held: list[Mapping[str, Any]] = [
        {"database_name": "s", "name": "customer", "memory": "LOADED", "memory_bytes": 3 << 20},
        {"database_name": "s", "name": "huge", "memory": "NOT_LOADED", "memory_bytes": None},
    ]
    status = status_of(rows, [], [], GUARD, [], [], tables_in_memory=held)
    terminal, screen = shown_by_status(status), await shown_by_page(page, "ada")
    places(terminal, said, "memory: not loaded, because no room is left")
    places(screen, said)
    healthy = await shown_by_page(page, "ada", "/views/s/healthy")
    places(healthy, "Memory loaded, 1,234 rows, 5.0 MiB; 42 reads answered")
    places(await shown_by_page(page, "ada", "/views/s/slow"), "Memory not loaded, because no room is left")
    assert "Memory" not in await shown_by_page(page, "ada", "/views/s/paused")
