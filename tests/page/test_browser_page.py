"""The page for browsers: what it shows to whom, and whom it lets do what."""

from __future__ import annotations

import json
from dataclasses import replace
from http import HTTPStatus
from typing import Any, cast

import pytest
from page_site import HOST, Browser, PageSite
from views import given

from gateway.login.authenticator import Unchecked
from gateway.mv.freshness.drift import Drift
from gateway.mv.model.contents import Contents
from gateway.mv.model.snapshot import Snapshot
from gateway.mv.model.view import Cause, FollowedTable, RefreshMode, Task, TaskStatus, TriggerMode, base_key
from gateway.page import application
from gateway.page.wording import link
from sql.names import Namespace, TableName
from sql.statement import CreateClauses, Refreshing, Trigger
from sql.texts.storage_layout import StorageLayout

VIEW = "/views/s/daily"
SCREENS = ["/", "/views", VIEW, "/lineage/s/daily", "/activity", "/savings"]
CAUSE = Cause(TriggerMode.MANUAL, "ada")
TASK = Task(1_000, CAUSE, "asked for", 1, TaskStatus.SUCCESS, RefreshMode.COMPLETE, 2, 1_002, version=1, rows=5)


async def stage(**options: Any) -> PageSite:
    page = PageSite(**options)
    page.site.table("s.sales")
    await page.site.view("s.daily", "SELECT n FROM s.sales WHERE secret_word = 1")
    return page


def tasks_of(page: PageSite, *tasks: Task) -> None:
    history = page.site.entry("s.daily").history
    for task in tasks:
        history.end(history.begin(task), task)


# --- logins --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", [*SCREENS, "/views?q=x&state=FRESH"])
async def test_nobody_sees_anything_before_the_login(place: str) -> None:
    page = await stage()
    answer = await (await page.browser()).get(place)
    assert answer.status == HTTPStatus.SEE_OTHER
    assert answer.headers["location"].startswith("/login?next=")
    assert "daily" not in answer.text


async def test_a_wrong_password_is_refused() -> None:
    page = await stage()
    browser = await page.browser()
    answer = await browser.post("/login", {"user": "ada", "password": "x"})
    assert answer.status == HTTPStatus.UNAUTHORIZED
    assert not browser.cookies
    assert page.site.service.audit.counts.logins_refused == 1


@pytest.mark.parametrize(
    ("place", "after"),
    [
        ("/views?q=a", "/views?q=a"),
        ("https://evil.example/", "/"),
        ("//evil.example/", "/"),
        ("/\\evil.example/", "/"),
        ("/a\r\nSet-Cookie: x=y", "/"),
        ("javascript:alert(1)", "/"),
    ],
)
async def test_a_login_leads_only_to_pages_of_this_server(place: str, after: str) -> None:
    page = await stage()
    answer = await (await page.browser()).post("/login", {"user": "ada", "password": "ada", "next": place})
    assert answer.headers["location"] == after


async def test_a_cookie_from_before_the_login_is_worth_nothing() -> None:
    page = await stage()
    browser = await page.browser("ada")
    fixed = dict(browser.cookies)
    victim = Browser(page.app, dict(fixed))
    await victim.log_in("bob")
    assert victim.cookies != fixed
    browser.cookies = fixed
    assert (await browser.get("/")).status == HTTPStatus.SEE_OTHER


@pytest.mark.parametrize("secure", [False, True])
async def test_cookies_are_kept_from_scripts_and_other_sites(secure: bool) -> None:
    page = await stage(secure=secure)
    answer = await (await page.browser()).post("/login", {"user": "ada", "password": "ada"})
    cookie = answer.headers["set-cookie"].lower()
    assert all(word in cookie for word in ("httponly", "samesite=strict", "path=/"))
    assert ("secure" in cookie) is secure
    assert cookie.startswith("__host-freshgate=") is secure


async def test_after_logging_out_the_cookie_is_worth_nothing() -> None:
    page = await stage()
    browser = await page.browser("ada")
    kept, token = dict(browser.cookies), (await browser.get("/")).token
    await browser.post("/logout", {"token": "wrong"})
    browser.cookies = dict(kept)
    assert (await browser.get("/")).status == HTTPStatus.OK
    await browser.post("/logout", {"token": token})
    assert not browser.cookies
    browser.cookies = kept
    assert (await browser.get("/")).status == HTTPStatus.SEE_OTHER


async def test_without_logins_everybody_may_look_and_nobody_may_act() -> None:
    page = await stage(authenticator=Unchecked())
    browser = await page.browser()
    for place in SCREENS:
        answer = await browser.get(place)
        assert answer.status == HTTPStatus.OK, place
        assert '<form method="post"' not in answer.text
    assert (await browser.post("/do/refresh", {"database": "s", "name": "daily"})).status == HTTPStatus.FORBIDDEN
    assert "secret_word" not in (await browser.get(VIEW)).text


# --- every answer --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", [*SCREENS, "/login", "/nothing", "/views/s/nothing", "/static/x/nothing"])
async def test_every_answer_forbids_what_the_page_does_not_need(place: str) -> None:
    page = await stage()
    answer = await (await page.browser("ada")).get(place)
    assert answer.headers["content-security-policy"] == application.POLICY
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "same-origin"
    assert answer.headers["cache-control"] == "no-store"
    assert "<script>" not in answer.text
    assert " style=" not in answer.text
    assert " onclick" not in answer.text


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8765", "127.0.0.1.evil.example"])
async def test_a_request_by_another_name_is_refused(host: str) -> None:
    page = await stage()
    browser = await page.browser("ada")
    assert (await browser.get("/", host=host)).status == HTTPStatus.MISDIRECTED_REQUEST


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": f"https://{HOST}.evil.example"},
    ],
)
async def test_a_form_of_another_site_is_refused(headers: dict[str, str]) -> None:
    page = await stage()
    browser = await page.browser("ada")
    fields = {"token": (await browser.get(VIEW)).token, "database": "s", "name": "daily"}
    assert (await browser.post("/do/refresh", fields, **headers)).status == HTTPStatus.FORBIDDEN
    assert page.queue.begun == []


@pytest.mark.parametrize("token", ["", "x", "é"])
async def test_a_form_without_the_visitors_token_is_refused(token: str) -> None:
    page = await stage()
    browser = await page.browser("ada")
    fields = {"token": token, "database": "s", "name": "daily"}
    assert (await browser.post("/do/refresh", fields)).status == HTTPStatus.FORBIDDEN
    assert page.queue.begun == []


async def test_a_token_of_another_visitor_is_refused() -> None:
    page = await stage()
    ada, bob = await page.browser("ada"), await page.browser("bob")
    token = (await bob.get("/")).token
    assert (await ada.post("/do/refresh", {"token": token, "database": "s", "name": "daily"})).status == 403


async def test_long_forms_are_refused() -> None:
    page = await stage()
    browser = await page.browser()
    assert (await browser.post("/login", {"user": "x" * 70_000})).status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    fields = {f"field{number}": "x" for number in range(200)}
    assert (await browser.post("/login", fields)).status == HTTPStatus.BAD_REQUEST


async def test_a_page_that_has_not_changed_is_not_sent_again() -> None:
    page = await stage()
    browser = await page.browser("ada")
    tag = (await browser.get("/views")).headers["etag"]
    again = await browser.get("/views", if_none_match=tag)
    assert (again.status, again.text) == (HTTPStatus.NOT_MODIFIED, "")
    page.site.write("s.sales")
    assert (await browser.get("/views", if_none_match=tag)).status == HTTPStatus.OK


async def test_files_are_kept_by_browsers_until_they_change() -> None:
    page = await stage()
    browser = await page.browser("ada")
    text = (await browser.get("/")).text
    place = text.partition('href="/static/')[2].partition('"')[0]
    answer = await browser.get(f"/static/{place}")
    assert answer.status == HTTPStatus.OK
    assert "immutable" in answer.headers["cache-control"]


# --- what is shown -------------------------------------------------------------------------------------------------


async def test_a_healthy_gateway_has_nothing_to_tell() -> None:
    page = await stage()
    assert "Nothing is wrong with any view." in (await (await page.browser("ada")).get("/")).text


async def test_a_failing_view_is_shown_with_its_error() -> None:
    page = await stage()
    failed = replace(TASK, status=TaskStatus.FAILED, error="Table gone not found", version=0)
    tasks_of(page, TASK, failed, replace(failed, id=1_001))
    text = (await (await page.browser("ada")).get("/")).text
    assert "2 refreshes in a row have failed: Table gone not found" in text
    assert "FAILING" in text
    assert "Mend what the definition reads" in text
    assert "gone not found" not in (await (await page.browser("bob")).get("/")).text
    for place in SCREENS:
        assert "gone not found" not in (await (await page.browser("bob")).get(f"{place}?format=json")).text, place
    listed = (await (await page.browser("ada")).get("/views?state=FAILING")).text
    assert "1 view<" in listed


async def test_a_lag_and_a_pause_after_failures_are_shown() -> None:
    page = await stage()
    entry: Any = page.site.entry("s.daily")
    clauses = CreateClauses(refreshing=Refreshing(None, Trigger.LAG, lag=600, at_most=120))
    entry._view = replace(entry.view, clauses=clauses, paused=True, paused_because="5 refreshes in a row have failed")
    browser = await page.browser("ada")
    assert "LAG: TARGET LAG 10 minutes AT MOST EVERY 2 minutes, paused" in (await browser.get(VIEW)).text
    told = (await browser.get("/")).text
    assert "its refreshes are paused, because 5 refreshes in a row have failed" in told
    assert "RESUME MATERIALIZED VIEW JOB ON s.daily" in told


async def test_names_of_partitions_are_shown_to_those_who_may_refresh() -> None:
    """They are values of rows."""
    page = await stage()
    tasks_of(page, replace(TASK, partitions=("region=hidden",), cause=replace(TASK.cause, partitions=("region=told",))))
    for user, shown in (("ada", True), ("bob", False)):
        browser = await page.browser(user)
        for place in (VIEW, f"/tasks/{TASK.id}"):
            text = (await browser.get(f"{place}?format=json")).text
            assert ("hidden" in text) is ("told" in text) is shown, (user, place)


async def test_administrators_alone_are_told_who_wrote() -> None:
    page = await stage()
    client = await page.site.client("carol")
    write = await client.execute("INSERT INTO s.sales VALUES ('unseen')")
    write.at_spark.finish()
    await write.poll()
    for user, shown in (("root", True), ("ada", False), ("bob", False)):
        browser = await page.browser(user)
        for place in (VIEW, f"{VIEW}?format=json"):
            text = (await browser.get(place)).text
            assert ("unseen" in text) is ("carol" in text) is shown, (user, place)


async def test_definitions_and_readers_are_shown_to_those_who_may_see_them() -> None:
    page = await stage()
    page.site.entry("s.daily").reads.users["carol"] = 1
    for user, definition, readers in (("ada", True, False), ("root", True, True), ("bob", False, False)):
        text = (await (await page.browser(user)).get(VIEW)).text
        assert ("secret_word" in text) is definition, user
        assert ("carol" in text) is readers, user


async def test_statements_are_shown_to_their_user_and_administrators() -> None:
    page = await stage()
    client = await page.site.client("bob")
    await (await client.execute("SELECT n FROM s.daily WHERE password = 'hunter2'")).poll()
    number = next(iter(page.site.service.audit.recent)).number
    for user, seen in (("bob", True), ("root", True), ("ada", False)):
        browser = await page.browser(user)
        assert ("FROM s.daily" in (await browser.get("/activity")).text) is seen, user
        answer = await browser.get(f"/statements/{number}")
        assert (answer.status == HTTPStatus.OK) is seen, user
        assert "hunter2" not in answer.text


@pytest.mark.parametrize(
    "name", ["<script>alert(1)</script>", "a\u202eb", "x" * 256, 'q"uote', "a/b", "50%25", "a&b=c#d"]
)
async def test_hostile_names_are_only_text(name: str) -> None:
    page = await stage()
    await page.site.view(f"s.{name}", "SELECT n FROM s.sales") if "." not in name else None
    view = next(view for view in page.site.catalog.views() if view.name.table != "daily")
    browser = await page.browser("ada")
    for place in (link("views", view.name), link("lineage", view.name), "/views", "/lineage/s/daily"):
        answer = await browser.get(place)
        assert answer.status == HTTPStatus.OK, place
        assert "<script>alert" not in answer.text
        assert 'q"uote' not in answer.text
    assert (await browser.get(link("views", TableName("s", name + "x")))).status == HTTPStatus.NOT_FOUND


async def test_a_view_tells_what_its_refresh_would_cost() -> None:
    page = await stage()
    tasks_of(page, *[replace(TASK, finished_at=2 + took) for took in (9_000, 1_000, 5_000)])
    screen = (await (await page.browser("ada")).get(f"{VIEW}?format=json")).text
    (cost,) = json.loads(screen)["costs"]
    assert (cost["method"], cost["expected_ms"], cost["median_ms"], cost["tasks"]) == ("COMPLETE", 5_000, 5_000, 3)
    assert "A refresh would do nothing now: it is fresh" in (await (await page.browser("ada")).get(VIEW)).text
    page.site.write("s.sales")
    text = (await (await page.browser("ada")).get(VIEW)).text
    assert "A refresh now would be COMPLETE, and take about 5.0 s: as the last one" in text
    assert "as the last one" not in (await (await page.browser("bob")).get(VIEW)).text


async def test_a_view_tells_its_versions_and_statements() -> None:
    page = await stage()
    found = json.loads((await (await page.browser("ada")).get(f"{VIEW}?format=json")).text)
    (version,) = found["versions"]
    assert (version["number"], version["rows"], version["bytes"], version["retired_at"]) == (1, 5, 1_234, 0)
    assert found["partitions"] is None
    text = (await (await page.browser("ada")).get(VIEW)).text
    assert "DROP MATERIALIZED VIEW `s`.`daily`;" in text
    assert "It has none: a refresh writes the whole view" in text


async def test_a_view_tells_which_partitions_have_changed() -> None:
    page = await stage()
    entry = page.site.entry("s.daily")
    seen = Snapshot("i", "s", partitions={(str(day),): "x" for day in range(200)})
    version = replace(entry.view.current, contents=Contents(seen))
    followed = FollowedTable(base_key(TableName("s", "sales")), "day", 0, "int", "day")
    given(entry, layout=StorageLayout("day", "int", "day"), followed=followed, current=version)
    changed = frozenset((f"secret{day:03}",) for day in range(70))
    entry.compare(Drift(partitions=changed, followed=followed.base), 0, {TableName("s", "sales"): 1.0}, 1)
    text = (await (await page.browser("ada")).get(VIEW)).text
    assert "<code>day</code>, following <code>s.sales.day</code>" in text
    assert "secret049" in text
    assert "secret050" not in text
    assert "and 20 more" in text
    # They are values of rows.
    assert "secret" not in (await (await page.browser("bob")).get(VIEW)).text.replace("secret_word", "")


async def test_savings_tell_which_views_pay() -> None:
    page = await stage()
    tasks_of(page, TASK, replace(TASK, id=1_001, finished_at=3_002))
    usages = page.site.usages
    usage = usages.of("SELECT ?", Namespace("s"), "ada")
    usage.own.add(1.0)
    usage.used((page.site.entry("s.daily").view.name,))
    usage.took(0.25)
    (row,) = json.loads((await (await page.browser("ada")).get("/savings?format=json")).text)["paying"]
    assert (row["name"], row["hits"], row["saved_ms"]) == ("s.daily", 1, 750)
    assert (row["spent_ms"], row["refreshes"]) == (4_000, 2)
    assert "Which views pay" in (await (await page.browser("ada")).get("/savings")).text
    # Others have saved nothing.
    assert "Which views pay" not in (await (await page.browser("bob")).get("/savings")).text


async def test_lineage_shows_neighbours_and_widens() -> None:
    page = await stage()
    await page.site.view("s.weekly", "SELECT n FROM s.daily")
    await page.site.view("s.yearly", "SELECT n FROM s.weekly")
    browser = await page.browser("ada")
    near = (await browser.get("/lineage/s/daily")).text
    assert "s.sales" in near
    assert "s.weekly" in near
    assert "s.yearly" not in near
    assert "s.yearly" in (await browser.get("/lineage/s/daily?up=2")).text


@pytest.mark.parametrize("place", SCREENS)
async def test_every_screen_is_json_on_request(place: str) -> None:
    page = await stage()
    tasks_of(page, TASK)
    answer = await (await page.browser("root")).get(f"{place}?format=json")
    assert json.loads(answer.text)["title"]


async def test_lists_are_json_on_request() -> None:
    page = await stage()
    answer = await (await page.browser("ada")).get("/views?format=json")
    (view,) = json.loads(answer.text)["views"]
    assert (view["name"], view["freshness"]) == ("s.daily", "FRESH")


async def test_long_lists_have_pages() -> None:
    page = await stage()
    for number in range(120):
        await page.site.view(f"s.v{number:03}", "SELECT n FROM s.sales")
    browser = await page.browser("ada")
    assert "Page 1 of 3" in (await browser.get("/views")).text
    last = (await browser.get("/views?page=99")).text
    assert "Page 3 of 3" in last
    assert "v119" in last
    found = (await browser.get("/views?q=v11&sort=reads")).text
    assert "10 views" in found


@pytest.mark.parametrize(
    "query", ["page=-1", "page=x", "page=999999999999", "sort=nothing", "state=%3Cb%3E", "q=%27%22"]
)
async def test_odd_questions_have_answers(query: str) -> None:
    page = await stage()
    answer = await (await page.browser("ada")).get(f"/views?{query}")
    assert answer.status == HTTPStatus.OK
    assert "<b>" not in answer.text


# --- buttons -------------------------------------------------------------------------------------------------------


async def pressed(page: PageSite, user: str, action: str, **fields: str) -> str:
    """What the page says after a button was pressed."""
    browser = await page.browser(user)
    token = (await browser.get(VIEW)).token
    answer = await browser.post(
        f"/do/{action}", {"token": token, "database": "s", "name": "daily", "back": VIEW, **fields}
    )
    assert answer.status == HTTPStatus.SEE_OTHER, answer.text
    return (await browser.get(answer.headers["location"])).text


async def test_owners_refresh() -> None:
    page = await stage()
    assert "A refresh of s.daily has begun." in await pressed(page, "ada", "refresh")
    await pressed(page, "root", "refresh", method="complete")
    assert [cause.complete for _, cause in page.queue.begun] == [False, True]
    assert [cause.user for _, cause in page.queue.begun] == ["ada", "root"]


async def test_others_may_not() -> None:
    page = await stage()
    assert "may not refresh it" in await pressed(page, "bob", "refresh")
    assert "may not pause its job" in await pressed(page, "bob", "pause")
    assert page.queue.begun == []
    assert page.jobs.paused == []


async def test_owners_pause_and_resume() -> None:
    page = await stage()
    assert "is paused" in await pressed(page, "ada", "pause")
    await pressed(page, "ada", "resume")
    assert page.jobs.paused == [("s.daily", True), ("s.daily", False)]


async def test_owners_cancel_tasks() -> None:
    page = await stage()
    tasks_of(page, TASK)
    await pressed(page, "ada", "cancel", task="1000")
    assert page.queue.cancelled == [1000]
    browser = await page.browser("ada")
    token = (await browser.get(VIEW)).token
    wrong = {"token": token, "database": "s", "name": "daily", "task": "x"}
    assert (await browser.post("/do/cancel", wrong)).status == HTTPStatus.NOT_FOUND
    assert (await browser.post("/do/drop", {**wrong, "task": "1"})).status == HTTPStatus.NOT_FOUND


async def test_buttons_leave_a_line_in_the_audit() -> None:
    lines: list[dict[str, object]] = []
    page = await stage()
    cast(Any, page.site.service.audit)._write = lambda line, *_: lines.append(line)
    await pressed(page, "bob", "refresh")
    (line,) = (line for line in lines if line["event"] == "page")
    assert (line["user"], line["action"], line["views"], line["sqlstate"]) == ("bob", "refresh", ["s.daily"], "42501")
