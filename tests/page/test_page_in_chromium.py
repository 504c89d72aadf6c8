"""The page in a browser: by keyboard, in the dark, without scripts, with many views, and for screen readers (axe)."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from processes import wait_until
from served_page import DONE, VIEW, ServedPage, visit

from gateway.mv.model.view import TaskStatus

playwright = pytest.importorskip("playwright.sync_api", reason="scripts/setup --with-browser installs Playwright")
axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="scripts/setup --with-browser installs axe")
CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="scripts/setup --with-browser installs Chromium")

HOSTILE = ["<script>document.title='x'</script>", "a\u202eb", "x" * 256]
SCREENS = ["/", "/views", VIEW, "/lineage/shop/daily", "/activity", "/savings", "/tasks/1000", "/statements/1", "/none"]


@pytest.fixture(scope="module")
def served() -> Iterator[ServedPage]:
    made = ServedPage(HOSTILE)
    yield made
    made.stop()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_screens_have_no_known_barriers(chromium: Any, served: ServedPage, scheme: str) -> None:
    tab = visit(chromium, served, color_scheme=scheme)
    found = {}
    for place in SCREENS:
        tab.goto(place)
        violations = axe.Axe().run(tab).response["violations"]
        if violations:
            found[place] = [(each["id"], [node["html"][:120] for node in each["nodes"]][:3]) for each in violations]
    assert found == {}
    # A screen that does not exist is answered with 404, which the console tells.
    assert [problem for problem in tab.problems if "404" not in problem] == []


def test_the_login_has_no_known_barriers(chromium: Any, served: ServedPage) -> None:
    tab = chromium.new_context(base_url=served.server.address).new_page()
    tab.goto("/login")
    assert axe.Axe().run(tab).response["violations"] == []


def test_the_page_works_without_scripts(chromium: Any, served: ServedPage) -> None:
    tab = visit(chromium, served, java_script_enabled=False)
    tab.get_by_role("link", name="Views", exact=True).click()
    tab.get_by_label("Name or owner").fill("dail")
    tab.get_by_role("button", name="Show").click()
    tab.get_by_role("link", name="shop.daily").click()
    begun = len(served.page.queue.begun)
    tab.get_by_role("button", name="Refresh", exact=True).click()
    assert tab.locator(".said").text_content() == "A refresh of shop.daily has begun."
    assert len(served.page.queue.begun) == begun + 1


def test_the_page_works_by_keyboard(chromium: Any, served: ServedPage) -> None:
    tab = visit(chromium, served)
    tab.goto(VIEW)
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.textContent") == "Skip to content"
    tab.keyboard.press("Enter")
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.textContent") == "Refresh"
    tab.keyboard.press("Enter")
    tab.wait_for_selector(".said")
    assert "has begun" in tab.locator(".said").text_content()


def test_others_see_disabled_buttons(chromium: Any, served: ServedPage) -> None:
    tab = visit(chromium, served, "bob")
    tab.goto(VIEW)
    button = tab.get_by_role("button", name="Refresh", exact=True)
    assert button.is_disabled()
    assert "ada" in button.get_attribute("title")


def test_a_visible_page_keeps_up_and_a_hidden_one_asks_for_nothing(chromium: Any, served: ServedPage) -> None:
    tab = visit(chromium, served)
    tab.goto("/")
    served.ended(served.page, "weekly", replace(DONE, id=1_002, status=TaskStatus.FAILED, version=0))
    tab.wait_for_selector("main >> text=shop.weekly", timeout=20_000)
    hidden = chromium.new_context(base_url=served.server.address).new_page()
    hidden.context.add_cookies(tab.context.cookies())
    hidden.add_init_script("Object.defineProperty(document, 'hidden', {get: () => true})")
    asked: list[str] = []
    hidden.goto("/")
    hidden.on("request", lambda request: asked.append(request.url))
    # A visible page asks twice in the time in which this one asks for nothing.
    seen: list[str] = []
    tab.on("request", lambda request: seen.append(request.url))
    wait_until(lambda: tab.wait_for_timeout(100) or len(seen) >= 2, what="a visible page to ask twice")
    assert asked == []


def test_hostile_names_are_text(chromium: Any, served: ServedPage) -> None:
    tab = visit(chromium, served)
    for place in ("/views", "/lineage/shop/daily", VIEW):
        tab.goto(place)
        assert tab.title() != "x"
        text = tab.content()
        assert "<script>document" not in text
    assert tab.problems == []


def test_five_thousand_views_have_pages(chromium: Any, served: ServedPage) -> None:
    async def many() -> None:
        for number in range(5_000):
            await served.page.site.view(f"many.v{number:04}", "SELECT n FROM shop.orders")

    served.run(many())
    tab = visit(chromium, served)
    tab.goto("/views?q=many&page=100")
    assert tab.get_by_role("link", name="many.v4999").is_visible()
    assert tab.get_by_text("Page 100 of 100").is_visible()
